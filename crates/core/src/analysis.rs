//! What numbers mean: steady state, change points, comparison.

pub mod change_points;
pub mod compare;
pub mod steady;
pub mod student;
