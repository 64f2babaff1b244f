//! Twins of real drives: learn one, check one.

pub mod check;
pub mod learn;
pub mod parameters;
mod probed_area;
