//! The pure part of Trimtab: drives, volumes, workloads, trim policies and what their numbers mean.
//!
//! Nothing here touches a file, a clock, a thread or the environment; `no_std` makes the compiler
//! check that. Floating-point functions come from `libm`, so that a modelled result is the same to
//! the byte on every machine. Randomness comes from [`rng`] and a printed seed, from nowhere else.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;
// What tests of both crates share names this one as the other does.
#[cfg(test)]
extern crate self as trimtab_core;

pub mod analysis;
pub mod data;
pub mod discards;
pub mod document;
pub mod drive;
pub mod learn;
pub mod op;
pub mod policy;
pub mod rng;
pub mod run;
pub mod runner;
pub mod simulate;
pub mod study;
pub mod sweep;
pub mod target;
pub mod trace;
pub mod units;
pub mod usage;
pub mod volume;
pub mod workload;
