//! Runs that start now, and what runs with threads. The runners themselves are in the core ([`trimtab_sim::runner`]).

pub mod nfs;
pub mod together;

use trimtab_sim::runner::Events;

/// Nobody wants to know how far a run is; signals end it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl<T: ?Sized> Events<T> for Quiet {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
}
