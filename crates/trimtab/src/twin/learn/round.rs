//! Results of probes: of one round, and of a whole drive.

use serde::{Deserialize, Serialize};
use trimtab_study::learn::probes::Findings;

/// Results of all probes, run once.
#[derive(Serialize, Deserialize)]
pub struct Round {
    /// Figures.
    #[serde(flatten)]
    pub found: Findings,
    /// Foreground I/O during the round, if it counts.
    pub disturbed: Option<String>,
    /// Other possible effects on the figures.
    pub warnings: Vec<String>,
}

/// Results of the probes of a whole drive.
#[derive(Serialize, Deserialize)]
pub struct WholeDrive {
    /// Figures.
    #[serde(flatten)]
    pub found: Findings,
    /// Remarks.
    #[serde(rename = "warnings")]
    pub notes: Vec<String>,
}

/// `text` without its full stop: the place that prints a note adds one.
pub fn sentence(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}
