//! What numbers mean: steady state, change points, comparison, shares, sensitivity.

pub mod change_points;
pub mod compare;
pub mod fisher;
pub mod indices;
pub mod steady;
pub mod student;
