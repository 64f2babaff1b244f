//! What is known of a study besides its runs.

use std::time::Duration;
use trimtab_study::study::twin_months::TwinMonths;

/// What is known of a study besides its runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// How long it took.
    pub took: Option<Duration>,
    /// Where the report is.
    pub report: Option<String>,
    /// The id under which it is kept.
    pub kept: Option<String>,
    /// Months of use on the twin of the drive that was measured.
    pub months: Option<Box<TwinMonths>>,
}
