//! The one integration-test binary. Each module tries the program as a user would.
#![allow(clippy::unwrap_used, missing_docs)]

mod apply;
mod attach;
mod attached;
mod bench_age;
mod bench_crystal;
mod bench_tree;
mod cli;
mod daemon;
mod doctor;
mod drive_validate;
mod nbd_clients;
mod nfs;
mod on_virtual_ssd;
mod postmark;
mod power_cuts;
mod replay;
mod results;
mod study;
mod study_modelled;
mod support;
mod sysroot;
mod trim;
mod verify;
mod virtual_ssd;
mod windowed_trim;
