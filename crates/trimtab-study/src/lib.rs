//! Interprets runs: studies of trim policies, sweeps over plans, and twins of real
//! drives.
//!
//! A [`study`] turns runs into a verdict and a [`document`]. A [`sweep`] expands a plan
//! into cells and collects their results in a table. [`learn`] finds the modelled drives
//! that explain the measurements of a real one. A [`fleet`] joins the diagnoses of many
//! hosts.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// The program's tests share the fixtures of a study and refer to this crate by name.
#[cfg(test)]
extern crate self as trimtab_study;

pub mod document;
pub mod fleet;
pub mod learn;
pub mod study;
pub mod sweep;
