//! The virtual SSD: a modelled drive attached as a real block device.
//!
//! One engine, thin front ends. A front end turns what the kernel or an emulator sends into a [`request::Request`]; the
//! [`engine::Engine`] keeps the data, asks the model how long the drive would have taken, and says when to answer;
//! the [`pace::Pacer`] answers then. Faults wrap the engine ([`faults`]) and are known to neither side.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![forbid(unsafe_code)]

mod awake;
pub mod block;
mod claim;
pub mod classify;
pub mod control;
pub mod engine;
pub mod faults;
pub mod fuse;
pub mod nbd;
pub mod pace;
pub mod persist;
pub mod recording;
pub mod request;
pub mod runtime;
mod seldom;
pub mod server;
#[cfg(test)]
#[path = "../../trimtab/tests/it/skip.rs"]
mod skip;
pub mod state;
pub mod status;
pub mod store;
pub mod trace;
pub mod transport;
pub mod ublk;
mod waits;
mod worker;
