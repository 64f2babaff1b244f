//! Trim policies: step functions that decide when to trim what. No I/O, no sleeping, no clock of their own,
//! so that the same code steers a modelled drive inside a run and a mounted filesystem from the daemon.

use crate::target::{TrimOutcome, TrimWindow};
use crate::units::{Bytes, Nanos};

/// What a policy sees when it is asked. Gathered by the driver that calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation<'a> {
    /// Now, on the clock of the target.
    pub now: Nanos,
    /// Bytes written so far, by the best counter there is; `None` if none is. May advance in coarse steps, and restart from 0.
    pub written: Option<Bytes>,
    /// The step in which that counter advances.
    pub written_step: Bytes,
    /// Free space of the filesystem.
    pub free: Bytes,
    /// The windows of the filesystem, in the order in which a full trim visits them.
    pub windows: &'a [TrimWindow],
    /// Requests of others in flight on the device now, or being waited for.
    pub in_flight: u32,
    /// Since when the device has had no request of others.
    pub idle_since: Option<Nanos>,
    /// The longest that a request of others waited since the last call; `None` if there was none.
    pub foreground_wait_max: Option<Nanos>,
    /// What the window trimmed last did, on the first call after it.
    pub last_trim: Option<&'a TrimOutcome>,
    /// The user asked for a trim now.
    pub forced: bool,
    /// The system is going down; the last chance.
    pub shutting_down: bool,
    /// Running on battery.
    pub on_battery: bool,
}

/// What a policy wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Trim this window, then ask again.
    Trim {
        /// What to trim.
        window: TrimWindow,
        /// Leave smaller free extents alone.
        min_extent: Bytes,
    },
    /// Ask again at this instant at the latest (sooner is fine).
    WaitUntil(Nanos),
    /// Nothing to do until something changes.
    Nothing,
}

/// A trim policy.
pub trait Policy {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Whether the filesystem itself is to discard what it frees, as it frees it.
    fn online(&self) -> bool {
        false
    }

    /// Decides.
    fn decide(&mut self, observation: &Observation<'_>) -> Action;
}
