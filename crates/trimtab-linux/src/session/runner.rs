//! Runs that start now, and what runs with threads. The runners themselves are in the core ([`trimtab_sim::runner`]).

pub mod nfs;
pub mod together;

use crate::sys::clock::unix_ms;
use trimtab_sim::run::{Field, TargetKind};
use trimtab_sim::runner::Events;
use trimtab_sim::runner::header::Header;

/// Nobody wants to know how far a run is; signals end it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl<T: ?Sized> Events<T> for Quiet {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
}

/// A run that starts now, asked for by the command line of this process.
pub fn starts_now(workload: &str, settings: Vec<Field>, target: TargetKind, target_label: &str, policy: &str, seed: u64) -> Header {
    let header = Header::new(workload, settings, target, target_label, policy, seed);
    Header { started_unix_ms: unix_ms(), specification: vec![crate::store::recipe::command_field()], ..header }
}
