//! Everything in Trimtab that has an effect: targets, host, store, reports, the virtual SSD, the command line.
//!
//! The binary is a thin `main` over this library, so that tests and benchmarks reach the same code.

pub mod apply;
pub mod cmd;
pub mod daemon;
pub mod doctor;
pub mod drives;
pub mod host;
pub mod mend;
pub mod output;
pub mod report;
pub mod serve;
pub mod session;
#[cfg(test)]
#[path = "../tests/it/skip.rs"]
mod skip;
pub mod store;
pub mod study;
pub mod sweep;
pub mod sys;
pub mod target;
pub mod trim;

#[global_allocator]
static MEMORY: sys::large_blocks::LargeBlocks = sys::large_blocks::LargeBlocks::new();
