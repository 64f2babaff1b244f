//! Trim policies: step functions that decide when to trim what. No I/O, no sleeping, no clock of their own,
//! so that the same code steers a modelled drive inside a run and a mounted filesystem from the daemon.
//!
//! The contract between a policy and the [`Driver`] that calls it:
//!
//! * The clock is monotonic. A driver that stores the policy's [state](Policy::state) and goes on after a restart must use a
//!   clock that goes on too (time since 1970, say); a nightly policy takes instants modulo 24 h as the time of day.
//! * After [`Action::Trim`] the driver trims the window and asks again when that has ended, with what it did in
//!   [`Observation::last_trim`]. `None` there means that it failed: the policy keeps the window and tries again later.
//! * After [`Action::WaitUntil`] the driver asks again at that instant at the latest, sooner when something changes (the user
//!   forces a trim, the system goes down, the mains comes back).

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

pub use adaptive::{Adaptive, AdaptiveSettings};
pub use batched::{Batched, BatchedSettings, Schedule};
pub use driver::{Driver, Patience, Surface, Then, Trim, Turn};
pub use idle::{Idle, IdleSettings, TrimCost};
pub use pass::{Pass, Step};
pub use simple::{ByHand, Now, Online};
pub use spec::{ParsePolicyError, PolicySpec};
pub use state::State;

use crate::target::{TrimOutcome, TrimWindow};
use alloc::string::String;
use trimtab_drive::units::{Bytes, Nanos};

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
    /// The smallest part of a window that may be trimmed alone, at a multiple of itself from the window's start.
    /// [`Bytes::MAX`] where a window is only right as a whole (ext4 forgets that a group is trimmed, and sends free space
    /// beyond the range, unless the range is the whole group).
    pub granule: Bytes,
    /// A window may be trimmed from any multiple of this before its end to that end, which sends no more than what is free there. It does
    /// not count as done: the whole window has to follow. A way to try what a TRIM of some size costs where windows cannot be divided;
    /// [`Bytes::MAX`] where it is not right either.
    pub tail: Bytes,
    /// Whether free extents of some sizes alone can be asked for ([`TrimRequest::sizes`]), so that windows can be gone over several times, for ever smaller
    /// ones, and nothing is sent twice.
    pub by_size: bool,
    /// Requests of others in flight on the device now, or being waited for.
    pub in_flight: u32,
    /// Requests of others so far, from any beginning; `None` if nobody counts them.
    pub requests: Option<u64>,
    /// Since when the device has had no request of others.
    pub idle_since: Option<Nanos>,
    /// So much earlier it may have been at most: who only looks at counters now and then knows no more than that it was after the look before.
    pub idle_unsure: Nanos,
    /// The longest that a request of others waited since the last call; `None` if there was none.
    pub foreground_wait_max: Option<Nanos>,
    /// What the window trimmed last did, on the first call after it; `None` on that call if it failed.
    pub last_trim: Option<&'a TrimOutcome>,
    /// The window sent last was put off: nothing was done yet, and it is to be sent again when the policy wants to.
    pub put_off: bool,
    /// The user asked for a trim now.
    pub forced: bool,
    /// The system is going down; the last chance.
    pub shutting_down: bool,
    /// Running on battery.
    pub on_battery: bool,
}

impl<'a> Observation<'a> {
    /// At `now`, with these windows, of which each is only right as a whole; of all else nothing is known, and nothing happens.
    #[must_use]
    pub const fn of(now: Nanos, windows: &'a [TrimWindow]) -> Self {
        Self {
            now,
            written: None,
            written_step: Bytes(1),
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
            shutting_down: false,
            on_battery: false,
        }
    }
}

/// What a policy wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Trim this, then ask again.
    Trim(TrimRequest),
    /// Ask again at this instant at the latest (sooner is fine).
    WaitUntil(Nanos),
    /// Nothing to do until something changes.
    Nothing,
}

/// What a policy wants trimmed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRequest {
    /// What to trim: one of the windows or the rest of one, a part of one in whole granules, or the tail of one.
    pub window: TrimWindow,
    /// Leave smaller free extents alone.
    pub min_extent: Bytes,
    /// Only free extents of some sizes, one by one; `None` for all that are not smaller than that. Only where [`Observation::by_size`].
    pub sizes: Option<Sizes>,
    /// The largest single discard command meanwhile ([`Bytes::MAX`] for no limit): other requests can be served between two
    /// commands, so this bounds how long they wait. Linux: `queue/discard_max_bytes`.
    pub command_max: Bytes,
    /// Stop after this many commands (0: no limit), behind the free extent that is being sent then (or in it, where windows can be divided), if it is known
    /// where free extents lie: [`TrimOutcome::asked`] says how far into the window that was. Where it is not known, the whole window is trimmed.
    pub commands_max: u64,
    /// Only to learn what it costs: the window does not count as done, and need not be tried again if it is refused.
    pub trial: bool,
}

/// Which free extents are asked for, besides that they are not below the least. How long one is does not depend on where windows are cut. The rest of one that was
/// begun is sent whatever its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Those of this length and longer have been asked for before; [`Bytes::MAX`] in the first round.
    pub below: Bytes,
    /// How often the pass has gone over all windows, with ever smaller extents.
    pub round: u32,
    /// How often it will.
    pub rounds: u32,
}

impl Sizes {
    /// With these all of the window will have been asked for: at its end the filesystem may take it for trimmed.
    #[must_use]
    pub const fn are_last(&self) -> bool {
        self.round + 1 >= self.rounds
    }
}

impl TrimRequest {
    /// All of `window`, without limits on commands.
    #[must_use]
    pub const fn whole(window: TrimWindow, min_extent: Bytes) -> Self {
        Self { window, min_extent, sizes: None, command_max: Bytes::MAX, commands_max: 0, trial: false }
    }
}

/// A trim policy. Plain data, so that a driver may run it in a thread of its own.
pub trait Policy: Send {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Whether the filesystem itself is to discard what it frees, as it frees it.
    fn online(&self) -> bool {
        false
    }

    /// Decides.
    fn decide(&mut self, observation: &Observation<'_>) -> Action;

    /// What it has learned of the cost of trims on this device; `None` if nothing.
    fn learned(&self) -> Option<TrimCost> {
        None
    }

    /// What whoever chose it should know: that it cannot keep what it promises on this device, for instance. `None` if there is nothing.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Where it is in its pass.
    fn pass(&self) -> &Pass;

    /// True while a pass is under way.
    fn running(&self) -> bool {
        self.pass().running()
    }

    /// True while a pass is under way that another one is to follow without a pause, because the user asked for it meanwhile.
    fn another_follows(&self) -> bool {
        self.pass().another_follows()
    }

    /// What it has to remember across a restart, as plain data; [`PolicySpec::build`] takes it back.
    fn state(&self) -> State;
}
