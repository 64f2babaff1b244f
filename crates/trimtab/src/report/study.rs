//! Renders a study as its first screen and its report. The verdict is already decided
//! ([`trimtab_study::study::verdict`]).

mod assumptions;
mod first_screen;
mod full_report;
mod months;
mod overview;
mod phases;
mod pictures;
pub mod study_comparison;
mod surroundings;
#[cfg(test)]
mod tests;
mod twin;
mod words;

pub use surroundings::Surroundings;
use trimtab_study::document::{Document, StudyAnswer};
use trimtab_study::study::verdict::Verdict;
pub use words::untried_reason;

/// The first screen of studies that ran together.
pub fn answer(verdicts: &[Verdict<'_>], around: &Surroundings) -> StudyAnswer {
    match verdicts {
        [verdict] => first_screen::answer(verdict, around),
        several => overview::answer(several, around),
    }
}

/// The report of studies that ran together: the answer, the main pictures, and folded
/// sections with everything else.
pub fn document(verdicts: &[Verdict<'_>], around: &Surroundings) -> Document {
    match verdicts {
        [verdict] => full_report::document(verdict, around),
        several => overview::document(several, around),
    }
}
