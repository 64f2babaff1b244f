//! Renders a study as its first screen and its report. The verdict is already decided
//! ([`trimtab_study::study::verdict`]).

mod assumptions;
mod first_screen;
mod full_report;
mod months;
mod phases;
mod pictures;
mod tables;
#[cfg(test)]
mod tests;
mod words;

pub use first_screen::MORE;
use std::time::Duration;
use trimtab_study::document::{Document, StudyAnswer};
use trimtab_study::study::verdict::Verdict;
pub use words::untried_reason;

/// Facts about a study besides its runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Duration of the study.
    pub took: Option<Duration>,
    /// Path of the report.
    pub report: Option<String>,
    /// Id of the stored study.
    pub kept: Option<String>,
}

/// The first screen of studies that ran together.
pub fn answer(verdicts: &[Verdict<'_>], around: &Surroundings) -> StudyAnswer {
    first_screen::answer(&verdicts.iter().collect::<Vec<_>>(), around)
}

/// The report of studies that ran together: the answer, the main pictures, and folded
/// sections with everything else.
pub fn document(verdicts: &[Verdict<'_>], around: &Surroundings) -> Document {
    full_report::document(verdicts, around)
}
