//! Facts that a study's report shows besides the runs.

use std::time::Duration;
use trimtab_study::study::twin_months::TwinMonths;

/// Facts about a study besides its runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Duration of the study.
    pub took: Option<Duration>,
    /// Path of the report.
    pub report: Option<String>,
    /// Id of the stored study.
    pub kept: Option<String>,
    /// Months of use on the twin of the measured drive.
    pub months: Option<Box<TwinMonths>>,
}
