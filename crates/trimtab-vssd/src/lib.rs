//! The virtual SSD: a modelled drive attached as a real block device.
//!
//! One engine with thin front ends. A front end converts what the kernel or an emulator
//! sends into a [`request::Request`]. The [`engine::Engine`] stores the data, asks the
//! model for the latency, and returns the completion time; the [`pace::Pacer`] completes
//! the request then. Faults wrap the engine ([`faults`]); neither side knows about them.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod block;
pub mod checksum;
mod claim;
pub mod classify;
pub mod control;
mod cpu_latency;
pub mod drive;
pub mod engine;
pub mod faults;
pub mod fuse;
pub mod nbd;
pub mod pace;
mod rate_limited_log;
pub mod recording;
pub mod request;
pub mod runtime;
pub mod server;
#[cfg(test)]
#[path = "../../trimtab/tests/it/skip.rs"]
mod skip;
pub mod status;
pub mod store;
pub mod trace;
pub mod transport;
pub mod ublk;
