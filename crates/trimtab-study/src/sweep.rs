//! Sweeps: many modelled runs along the axes of a plan, with the results in a table.
//!
//! This module runs nothing itself. The caller runs the cells on any number of threads or
//! machines; the results do not depend on that. Each numbered cell is made from its
//! number alone, so that no list of millions is stored.

pub mod cell;
mod hash;
pub mod plan;
pub mod settings;
pub mod table;
#[cfg(test)]
mod tests;
pub mod value;

pub use cell::{SweepCell, SweepCellWork};
pub use hash::{MODEL, hex, short_hash};
pub use plan::{CellPlace, Plan, PlanError, id_of_impossible};
pub use settings::{Sources, TraceReplayOptions};
pub use value::Value;
