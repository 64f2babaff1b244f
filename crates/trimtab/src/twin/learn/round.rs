//! Results of probes: of one round, and of a whole drive.

use trimtab_study::learn::probes::Findings;

/// Results of all probes, run once.
pub struct Round {
    /// Figures.
    pub found: Findings,
    /// Foreground I/O during the round, if it counts.
    pub disturbed: Option<String>,
    /// Other possible effects on the figures.
    pub warnings: Vec<String>,
}

/// Results of the probes of a whole drive.
pub struct WholeDrive {
    /// Figures.
    pub found: Findings,
    /// Remarks.
    pub notes: Vec<String>,
}

/// `text` without its full stop: the place that prints a note adds one.
pub fn sentence(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}
