//! Sweeps: many modelled runs that differ in what a plan says. A plan is text, its cells are values, what came of them is a table.
//!
//! Nothing here runs anything by itself: who runs cells, on how many threads or machines, is the caller's matter and decides nothing. Cells are numbered;
//! each is made from its number alone, so that no list of millions has to be kept.

pub mod cell;
pub mod design;
pub mod detail;
pub mod filter;
mod hash;
mod indices;
pub mod keep;
pub mod plan;
pub mod report;
pub mod settings;
pub mod table;
#[cfg(test)]
mod tests;
pub mod value;

pub use cell::{Cell, Work};
pub use hash::{MODEL, hex, short_hash};
pub use plan::{Place, Plan, PlanError, id_of_impossible};
pub use settings::{Asked, Sources, Wrong};
pub use value::Value;
