//! What numbers mean: histograms, steady state, change points, comparison.

pub mod change_points;
pub mod compare;
pub mod histogram;
pub mod steady;
pub mod student;
