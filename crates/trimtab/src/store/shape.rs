//! Versioned JSON of stored results.
//!
//! A change that an older reader would misinterpret gets a new version.

pub mod comparison;
pub mod run;

#[cfg(test)]
#[path = "shape/tests/any_run.rs"]
pub(crate) mod any_run;
