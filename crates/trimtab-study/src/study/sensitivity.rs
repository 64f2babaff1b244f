//! Sensitivity of a recommendation to the assumptions of the model.

use super::ensemble::Ensemble;
use super::recommendation::Recommendation;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// An assumption of a modelled study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assumption {
    /// Superblocks kept free in idle time.
    FreeSuperblocks,
    /// Idle time before garbage is collected.
    IdleDelay,
    /// Spare space of the drive.
    SpareSpace,
    /// The cost of a TRIM.
    TrimCost,
    /// Memory of the host.
    HostMemory,
    /// Median size of files.
    FileSize,
    /// Bytes written a day.
    DailyWrites,
    /// The filesystem.
    Filesystem,
    /// Fill level of the filesystem.
    Fill,
}

/// Results of varying one assumption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensitivityRow {
    /// The assumption.
    pub assumption: Assumption,
    /// Its value in the study.
    pub assumed: String,
    /// Other values.
    pub tried: Vec<AssumptionResult>,
}

/// Result for one other value of an assumption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssumptionResult {
    /// Its other value.
    pub value: String,
    /// Recommendation for this value.
    pub recommended: Recommendation,
}

/// Recommendations of small studies with changed assumptions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Hash of all inputs: a resumed study reuses the result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// Recommendation of the small study with unchanged assumptions; `None` if none was
    /// varied.
    pub recommended: Option<Recommendation>,
    /// Results by assumption.
    pub rows: Vec<SensitivityRow>,
    /// For a twin: results of other drives that explain the measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<Ensemble>,
}

impl SensitivityRow {
    /// Values whose small study gave an answer; others erased no block, for example.
    pub fn answered(&self) -> impl Iterator<Item = &AssumptionResult> {
        self.tried.iter().filter(|tried| tried.recommended.is_answer())
    }

    /// Values that lead to another recommendation than `unchanged`, that with nothing varied.
    pub fn changing(
        &self,
        unchanged: Option<Recommendation>,
    ) -> impl Iterator<Item = &AssumptionResult> {
        self.answered().filter(move |tried| Some(tried.recommended) != unchanged)
    }
}

impl Sensitivity {
    /// Assumptions on which the recommendation depends.
    pub fn decisive(&self) -> Vec<&SensitivityRow> {
        self.rows.iter().filter(|row| row.changing(self.recommended).next().is_some()).collect()
    }
}
