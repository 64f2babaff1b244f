//! What runs mean: studies of trim policies, sweeps over plans, twins of real drives.
//!
//! A [`study`] turns runs into a verdict and a [`document`]. A [`sweep`] makes cells from a plan and a table from their
//! results. [`learn`] finds the modelled drives that explain the measurements of a real one.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// The fixtures of a study are shared with the program's tests and name this crate as they do.
#[cfg(test)]
extern crate self as trimtab_study;

pub mod document;
pub mod learn;
pub mod study;
pub mod sweep;
