//! Everything in Trimtab that has an effect: targets, host, store, reports, the virtual SSD, the command line.
//!
//! The binary is a thin `main` over this library, so that tests and benchmarks reach the same code.

pub mod apply;
pub mod cmd;
pub mod daemon;
pub mod drives;
pub mod error;
pub mod host;
pub mod output;
pub mod progress;
pub mod recipe;
pub mod report;
pub mod runner;
pub mod serve;
pub mod session;
pub mod shape;
pub mod simulate;
#[cfg(test)]
#[path = "../tests/it/skip.rs"]
mod skip;
pub mod store;
pub mod study;
pub mod sys;
pub mod target;
pub mod trace;
pub mod trim;
