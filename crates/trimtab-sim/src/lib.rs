//! Simulation core: a filesystem model, workloads, trim policies and their runner.
//!
//! A [`workload`] emits operations, a [`target`] executes them and owns the clock, a
//! [`policy`] decides when to trim, and a [`runner`] records a [`run::Run`]. Modelled and
//! real targets share all of this.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod analysis;
pub mod op;
pub mod policy;
pub mod run;
pub mod runner;
pub mod setting;
pub mod simulate;
pub mod target;
pub mod trace;
pub mod volume;
pub mod workload;
