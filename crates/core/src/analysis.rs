//! What numbers mean: steady state, change points, comparison, shares.

pub mod change_points;
pub mod compare;
pub mod fisher;
pub mod steady;
pub mod student;
