//! Trim policies: step functions that decide when and which window to trim. A policy does
//! no I/O, never sleeps and has no clock, so modelled and real targets share its code.
//!
//! Contract between a policy and the [`Driver`] that calls it:
//!
//! * The clock is monotonic. A driver that stores the policy's [state](Policy::state) and
//!   resumes after a restart needs a clock that continues too, such as time since 1970. A
//!   nightly policy takes the instant modulo 24 h as the time of day.
//! * After [`Action::Trim`] the driver trims the window, then calls again with the result
//!   in [`Observation::last_trim`]. `None` means failure: the policy keeps the window and
//!   retries later.
//! * After [`Action::WaitUntil`] the driver calls again no later than that instant, and
//!   sooner when something changes (forced trim, mains power restored).

mod adaptive;
mod batched;
mod counter;
mod driver;
mod idle;
mod pass;
mod simple;
mod spec;
mod state;
#[cfg(test)]
mod tests;

pub use adaptive::{AdaptivePolicy, AdaptiveSettings};
pub use batched::{BatchedPolicy, BatchedSettings, Schedule};
pub use driver::{Driver, RefusalAction, RefusalLimits, Surface, TrimResponse, TurnResult};
pub use idle::{IdlePolicy, IdleSettings, TrimCost};
pub use pass::{Pass, PassStep};
pub use simple::ManualPolicy;
pub use spec::PolicySpec;
pub use state::PolicyState;

use crate::target::{TrimOutcome, TrimWindow};
use alloc::string::String;
use trimtab_drive::units::{Bytes, Nanos};

/// Input of one policy decision, gathered by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation<'a> {
    /// Current time on the target's clock.
    pub now: Nanos,
    /// Bytes written so far by the best available counter; `None` without a counter. May
    /// be coarse and restart from 0.
    pub written: Option<Bytes>,
    /// Free space of the filesystem.
    pub free: Bytes,
    /// Windows of the filesystem by address, without overlap.
    pub windows: &'a [TrimWindow],
    /// Smallest part of a window that can be trimmed alone, aligned to its size from the
    /// start of the window. [`Bytes::MAX`] if only whole windows are safe: unless the
    /// range is the whole group, ext4 does not mark the group trimmed and sends free
    /// space beyond the range.
    pub granule: Bytes,
    /// A request may cover the tail of a window, from any multiple of this before its
    /// end. It sends only free space within the tail and does not complete the window.
    /// Trial commands use it where windows are indivisible; [`Bytes::MAX`] if
    /// unsupported.
    pub tail: Bytes,
    /// True if requests can select free extents by size ([`TrimRequest::sizes`]). Several
    /// rounds with decreasing sizes then never send the same extent twice.
    pub by_size: bool,
    /// Foreground requests in flight or queued on the device now.
    pub in_flight: u32,
    /// Foreground requests so far, from an arbitrary origin; `None` if not counted.
    pub requests: Option<u64>,
    /// Time since which the device has had no foreground request.
    pub idle_since: Option<Nanos>,
    /// Upper bound on how much earlier the device became idle (counters are polled).
    pub idle_unsure: Nanos,
    /// Longest foreground wait since the last call; `None` without a foreground request.
    pub foreground_wait_max: Option<Nanos>,
    /// Result of the last trim, on the first call after it; `None` on that call if it
    /// failed.
    pub last_trim: Option<&'a TrimOutcome>,
    /// The last request was postponed without effect; the policy chooses when to send it
    /// again.
    pub put_off: bool,
    /// The user requested a trim.
    pub forced: bool,
    /// Running on battery.
    pub on_battery: bool,
}

impl<'a> Observation<'a> {
    /// At `now` with these indivisible windows. Everything else is unknown or inactive.
    #[must_use]
    pub const fn of(now: Nanos, windows: &'a [TrimWindow]) -> Self {
        Self {
            now,
            written: None,
            free: Bytes::MAX,
            windows,
            granule: Bytes::MAX,
            tail: Bytes::MAX,
            by_size: false,
            in_flight: 0,
            requests: None,
            idle_since: None,
            idle_unsure: Nanos::ZERO,
            foreground_wait_max: None,
            last_trim: None,
            put_off: false,
            forced: false,
            on_battery: false,
        }
    }
}

/// Decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Trim this, then call again.
    Trim(TrimRequest),
    /// Call again no later than this instant (sooner is fine).
    WaitUntil(Nanos),
    /// Nothing to do until something changes.
    Nothing,
}

/// A range to trim and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRequest {
    /// Range to trim: a window or the rest of one, whole granules of one, or its tail.
    pub window: TrimWindow,
    /// Skip smaller free extents.
    pub min_extent: Bytes,
    /// Select extents by size; `None` for all. Requires [`Observation::by_size`].
    pub sizes: Option<ExtentSizeClasses>,
    /// Largest single discard command ([`Bytes::MAX`] for no limit). Other requests can
    /// be served between two commands, so this bounds their wait. Linux:
    /// `queue/discard_max_bytes`.
    pub command_max: Bytes,
    /// Stop after this many commands (0: no limit), at the end of the current free extent
    /// or inside it if windows are divisible. [`TrimOutcome::asked`] reports the
    /// position. If the free extents are unknown, the whole window is trimmed.
    pub commands_max: u64,
    /// A trial to measure the cost. The window stays pending, and a refusal is not
    /// retried.
    pub trial: bool,
}

/// Size classes of free extents, in addition to the minimum extent. The length of an
/// extent does not depend on window boundaries. An extent in progress is sent to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentSizeClasses {
    /// Earlier rounds sent extents from this length; [`Bytes::MAX`] in the first round.
    pub below: Bytes,
    /// Index of this round over all windows, with extents decreasing in size.
    pub round: u32,
    /// Total number of rounds.
    pub rounds: u32,
}

impl ExtentSizeClasses {
    /// True in the last round: afterwards the filesystem may mark the window trimmed.
    #[must_use]
    pub const fn are_last(&self) -> bool {
        self.round + 1 >= self.rounds
    }
}

impl TrimRequest {
    /// The whole `window`, without a limit on commands.
    #[must_use]
    pub const fn whole(window: TrimWindow, min_extent: Bytes) -> Self {
        Self {
            window,
            min_extent,
            sizes: None,
            command_max: Bytes::MAX,
            commands_max: 0,
            trial: false,
        }
    }
}

/// A trim policy. `Send`, so that a driver may run it in its own thread.
pub trait Policy: Send {
    /// Name as on the command line.
    fn name(&self) -> &'static str;

    /// True if the filesystem should discard blocks as it frees them.
    fn online(&self) -> bool {
        false
    }

    /// Returns the next action.
    fn decide(&mut self, observation: &Observation<'_>) -> Action;

    /// Cost of trims learned on this device; `None` before the first measurement.
    fn learned(&self) -> Option<TrimCost> {
        None
    }

    /// A notice for the user, for instance that the budget is unreachable on this device.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Progress of the current pass.
    fn pass(&self) -> &Pass;

    /// State to keep across a restart, as plain data; [`PolicySpec::build`] restores it.
    fn state(&self) -> PolicyState;
}
