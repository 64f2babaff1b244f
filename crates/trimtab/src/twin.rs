//! Twins of real drives.

pub mod learn;
mod logs;
pub mod parameters;
mod probed_area;
