//! Everything of Trimtab that talks to Linux.
//!
//! [`sys`] holds all unsafe code. [`host`] reads the machine through one root, which may be a recorded tree. [`doctor`]
//! judges whether TRIM reaches the drive, [`mod@trim`] sends it, [`target`] executes workloads on real directories and
//! devices, [`session`] guards what a measurement may touch, [`output`] is the one writer to terminals.
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
