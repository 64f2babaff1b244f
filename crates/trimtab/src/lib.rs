//! All parts of trimtab with side effects: targets, host, store, reports, the virtual
//! SSD, the command line.
//!
//! The binary is a thin `main` around this library, so that tests and benchmarks use the
//! same code.
#![forbid(unsafe_code)]

mod advise;
pub mod apply;
pub mod bench;
pub mod cmd;
pub mod daemon;
pub mod drives;
mod fleet;
pub mod history;
pub mod mend;
pub mod postmark;
pub mod report;
pub mod store;
pub mod study;
pub mod sweep;
pub mod target_spec;
mod trim;
pub mod twin;

#[global_allocator]
static MEMORY: trimtab_linux::sys::large_blocks::LargeBlocks =
    trimtab_linux::sys::large_blocks::LargeBlocks;
