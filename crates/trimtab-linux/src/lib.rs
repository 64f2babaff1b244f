//! The part of Trimtab that talks to Linux.
//!
//! [`sys`] holds all unsafe code. [`host`] reads the machine through one root directory,
//! which may be a recorded tree. [`doctor`] judges whether TRIM reaches the drive, and
//! [`mod@trim`] sends TRIMs. [`target`] executes workloads on real directories and
//! devices. [`wear`] reads the counters of drives. [`session`] limits what a measurement
//! may touch. [`output`] is the only writer to terminals.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![deny(unsafe_code)]

pub mod doctor;
pub mod host;
pub mod loop_device;
pub mod output;
pub mod session;
#[cfg(test)]
#[path = "../../trimtab/tests/it/skip.rs"]
mod skip;
#[allow(unsafe_code)]
pub mod sys;
pub mod target;
pub mod trim;
pub mod wear;
