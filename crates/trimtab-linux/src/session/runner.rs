//! Real-time runs and multi-threaded runs. The runners themselves are in the core
//! ([`trimtab_sim::runner`]).

pub mod nfs;
mod together;

use trimtab_sim::runner::{Events, Observer};

/// Shows no progress. Signals stop the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentObserver;

impl<T: ?Sized> Events<T> for SilentObserver {}

impl Observer for SilentObserver {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
}
