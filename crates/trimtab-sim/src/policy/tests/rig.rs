//! A small filesystem on a drive of unknown trim cost, with a foreground load.

use crate::policy::*;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::discards::Amount;
use trimtab_drive::rng::Stream;

pub(super) const UNIT: u64 = 64 << 10;
pub(super) const UNITS_PER_WINDOW: usize = 64;
pub(super) const WINDOW: u64 = UNIT * UNITS_PER_WINDOW as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Live,
    Freed,
    Trimmed,
}

/// Trim cost of the drive, and the step of its write counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    pub(super) command_ns: u64,
    pub(super) ns_per_kib: u64,
    pub(super) counter_step: u64,
    pub(super) has_counter: bool,
}

/// Filesystem units on such a drive, a foreground load, and the driver of a policy.
pub(super) struct Rig {
    pub(super) units: Vec<Unit>,
    pub(super) windows: Vec<TrimWindow>,
    pub(super) granule: Bytes,
    pub(super) tail: Bytes,
    pub(super) drive: Drive,
    pub(super) now: u64,
    pub(super) written: u64,
    pub(super) counter_base: u64,
    /// Arrival times of foreground requests, latest first.
    pub(super) arrivals: Vec<u64>,
    pub(super) last_request: u64,
    pub(super) wait_max: Option<u64>,
    /// Longest wait ever caused by a trim.
    pub(super) stall_max: u64,
    pub(super) stall_sum: u64,
    pub(super) outcome: Option<TrimOutcome>,
    pub(super) fail_share: f64,
    pub(super) rng: Stream,
    pub(super) passes: Vec<u64>,
    pub(super) written_at_pass: Vec<u64>,
    pub(super) forced: bool,
    pub(super) commands: u64,
    /// Factor between reported and actual free space.
    pub(super) scale: u64,
    pub(super) device_max: u64,
    /// All commands of a window are queued ahead of requests that arrive later.
    pub(super) first_come: bool,
    /// True if the request count is visible to the policy.
    pub(super) counted: bool,
    /// Requests so far, and the number that waited for a command.
    pub(super) requests: u64,
    pub(super) met: u64,
    /// Request count at the last command.
    pub(super) requests_then: u64,
    /// Extents can be selected by size.
    pub(super) by_size: bool,
    /// Time and bytes of each command.
    pub(super) sent: Vec<(u64, u64)>,
}

impl Rig {
    pub(super) fn new(windows: usize, granule: Bytes, drive: Drive, seed: u64) -> Self {
        Self {
            units: vec![Unit::Freed; windows * UNITS_PER_WINDOW],
            windows: (0..windows as u64)
                .map(|i| TrimWindow { start: i * WINDOW, len: WINDOW })
                .collect(),
            granule,
            tail: Bytes::MAX,
            drive,
            now: 0,
            written: 0,
            counter_base: 0,
            arrivals: Vec::new(),
            last_request: 0,
            wait_max: None,
            stall_max: 0,
            stall_sum: 0,
            outcome: None,
            fail_share: 0.0,
            rng: Stream::new(seed, "rig"),
            passes: Vec::new(),
            written_at_pass: Vec::new(),
            forced: false,
            commands: 0,
            scale: 1,
            device_max: u64::MAX,
            first_come: false,
            counted: false,
            requests: 0,
            met: 0,
            requests_then: 0,
            by_size: false,
            sent: Vec::new(),
        }
    }

    pub(super) fn free(&self) -> u64 {
        self.units.iter().filter(|u| **u != Unit::Live).count() as u64 * UNIT * self.scale
    }

    pub(super) fn freed(&self) -> usize {
        self.units.iter().filter(|u| **u == Unit::Freed).count()
    }

    pub(super) fn write_and_free(&mut self, n: usize) {
        for _ in 0..n {
            let at = self.rng.below(self.units.len() as u64) as usize;
            self.units[at] = if self.rng.chance(0.5) { Unit::Live } else { Unit::Freed };
            self.written += UNIT;
        }
    }

    pub(super) fn decide(&mut self, policy: &mut dyn Policy) -> Action {
        let counter = Bytes(
            (self.written - self.counter_base) / self.drive.counter_step * self.drive.counter_step,
        );
        let outcome = self.outcome.take();
        let observation = Observation {
            written: self.drive.has_counter.then_some(counter),
            free: Bytes(self.free()),
            granule: self.granule,
            tail: self.tail,
            by_size: self.by_size,
            requests: self.counted.then_some(self.requests),
            idle_since: Some(Nanos(self.last_request)),
            foreground_wait_max: self.wait_max.take().map(Nanos),
            last_trim: outcome.as_ref(),
            forced: core::mem::take(&mut self.forced),
            ..Observation::of(Nanos(self.now), &self.windows)
        };
        policy.decide(&observation)
    }

    /// Serves requests that arrive before `until`; a command occupies the drive until
    /// `busy`.
    pub(super) fn serve(&mut self, until: u64, busy: u64) {
        while self.arrivals.last().is_some_and(|at| *at < until) {
            let at = self.arrivals.pop().unwrap_or_default();
            let wait = busy.saturating_sub(at);
            self.requests += 1;
            self.met += u64::from(wait > 0);
            self.stall_max = self.stall_max.max(wait);
            self.stall_sum += wait;
            self.wait_max = Some(self.wait_max.unwrap_or(0).max(wait));
            self.last_request = at + wait;
        }
    }

    pub(super) fn trim(&mut self, request: TrimRequest) {
        let TrimRequest { window, command_max, .. } = request;
        let commands_max = if request.commands_max == 0 || self.tail == Bytes::MAX {
            u64::MAX
        } else {
            request.commands_max
        };
        assert!(
            self.windows
                .iter()
                .any(|w| w.start <= window.start && window.start + window.len <= w.start + w.len),
            "{window:?}"
        );
        let whole = self.windows.contains(&window);
        let tail = self.windows.iter().any(|w| w.start + w.len == window.start + window.len)
            && window.len.is_multiple_of(self.tail.0);
        if !whole && !tail {
            assert!(self.granule < Bytes::MAX, "part of a window that cannot be divided");
            assert!(
                window.start.is_multiple_of(self.granule.0)
                    && window.len.is_multiple_of(self.granule.0),
                "{window:?}"
            );
        }
        if window.start == 0 && request.sizes.is_none_or(|sizes| sizes.below == Bytes::MAX) {
            self.passes.push(self.now);
            self.written_at_pass.push(self.written);
        }
        let from = self.now;
        let (first, last) =
            ((window.start / UNIT) as usize, ((window.start + window.len).div_ceil(UNIT)) as usize);
        let failed = self.rng.chance(self.fail_share);
        let (mut commands, mut bytes) = (0, 0);
        let mut at = first;
        while at < last && !failed && commands < commands_max {
            let run = self.units[at..last].iter().take_while(|u| **u != Unit::Live).count();
            let sizes = request
                .sizes
                .map_or(Bytes::ZERO..Bytes::MAX, |sizes| request.min_extent..sizes.below);
            if !sizes.contains(&Bytes(run as u64 * UNIT)) {
                at += run.max(1);
                continue;
            }
            // Units may extend beyond the window on both sides.
            let (begin, end) = (
                (at as u64 * UNIT).max(window.start),
                ((at + run) as u64 * UNIT).min(window.start + window.len),
            );
            let mut left = end.saturating_sub(begin);
            while left > 0 {
                let len = left.min(command_max.0).min(self.device_max);
                let busy = self.now + self.drive.command_ns + self.drive.ns_per_kib * (len >> 10);
                if !self.first_come {
                    self.serve(busy, busy);
                }
                self.now = busy;
                left -= len;
                commands += 1;
                bytes += len;
            }
            self.serve(self.now, self.now);
            self.units[at..(end / UNIT).max(at as u64) as usize].fill(Unit::Trimmed);
            at += run.max(1);
        }
        self.commands += commands;
        self.sent.push((self.now, bytes));
        if bytes > 0 {
            self.requests_then = self.requests;
        }
        self.outcome = (!failed).then(|| TrimOutcome {
            asked: Bytes((at as u64 * UNIT).min(window.start + window.len) - window.start),
            returned: Bytes(bytes),
            counted: Some(Amount::new(commands, bytes)),
            took: Nanos(self.now - from),
        });
    }

    /// Runs `policy` until `until` according to the contract.
    pub(super) fn run(&mut self, policy: &mut dyn Policy, until: u64) {
        while self.now < until {
            let wait = match self.decide(policy) {
                Action::Trim(request) => {
                    self.trim(request);
                    continue;
                }
                Action::WaitUntil(at) => {
                    assert!(at.0 > self.now, "waiting for {at:?} at {} would never end", self.now);
                    at.0.min(until)
                }
                Action::Nothing => until,
            };
            self.serve(wait, 0);
            self.now = wait;
        }
    }
}

pub(super) const S: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const DAY: u64 = 86_400 * S;

pub(super) const CHEAP: Drive =
    Drive { command_ns: 50_000, ns_per_kib: 1, counter_step: 512, has_counter: true };
