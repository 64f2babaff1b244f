//! The versioned shapes in which results leave the program and come back: JSON and CSV.
//!
//! A change that an older reader would misread gets a new version.

pub mod comparison;
pub mod csv;
pub mod import;
pub mod run;

#[cfg(test)]
pub(crate) mod any_run;
