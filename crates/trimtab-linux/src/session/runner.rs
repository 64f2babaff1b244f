//! Real-time runs and multi-threaded runs. The runners themselves are in the core
//! ([`trimtab_sim::runner`]).

pub mod nfs;
pub mod together;

use trimtab_sim::runner::Events;

/// Event handler that reports no progress. Signals stop the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentEvents;

impl<T: ?Sized> Events<T> for SilentEvents {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
}
