//! Twins of real drives: learn one, check one.

pub mod check;
pub mod learn;
mod logs;
pub mod parameters;
mod probed_area;
