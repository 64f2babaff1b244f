//! A serial resource: a die or a channel bus.

use super::transfers::Transfers;
use crate::rng::CountedStream;

/// Minimum share of owed time per host operation, as a power of two: 1/4096.
pub(super) const LEAST_SHARE_BITS: u32 = 12;

/// Schedule and owed background time of a die or a channel.
///
/// Host operations run in submission order. Background work (collection, folding, wear
/// levelling) is owed time: it starts no earlier than it is charged and fills idle time.
/// The remainder is paid in shares before each program of host data. Programs do not fall
/// evenly on all lanes, so a minimum share ensures that each lane pays its debt
/// eventually.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lane {
    /// End of all scheduled work, without owed time and `transfers`.
    pub(super) free: u64,
    /// End of its reads, which may overtake other work.
    pub(super) reads_free: u64,
    /// Channel transfers of reads that start as soon as their data are ready. Background
    /// work has used the gaps between them up to `free`.
    pub(super) transfers: Transfers,
    /// Charged background time that is not yet spent.
    pub(super) owed: u64,
    /// Host time since accounting started.
    pub(super) host_ns: u64,
    /// Background time since accounting started.
    pub(super) background_ns: u64,
}

impl Lane {
    /// Schedules work of `took` ns at `ready` or later, after all earlier work and
    /// `share` of the owed time, which is worked off in steps of `step` ns unless 0.
    /// Returns its end.
    #[inline(always)]
    pub(super) fn serve(&mut self, ready: u64, took: u64, share: u64, step: u64) -> u64 {
        if self.owed != 0 {
            if self.reads_free > self.free {
                self.settle(self.reads_free);
                self.free = self.free.max(self.reads_free);
            }
            let idle = ready.saturating_sub(self.free);
            let begun = if step == 0 { idle } else { idle + self.owed.saturating_sub(idle) % step };
            self.work_off(self.owed.min(begun.max(share).max(self.owed >> LEAST_SHARE_BITS)));
        }
        self.free = ready.max(self.free).max(self.reads_free).saturating_add(took);
        self.host_ns = self.host_ns.saturating_add(took);
        self.free
    }

    /// Schedules a read at `ready` or later. It waits for all earlier work, or with
    /// `ahead` only for the end of a step of `step` ns in the mean, that long after it and
    /// for other reads. Returns its end. Delays later work by the same time, except for promised
    /// completions.
    pub(super) fn read(&mut self, ready: u64, took: u64, ahead: Option<u64>, step: u64) -> u64 {
        self.settle(ready);
        let busy_until = self.free.saturating_add(self.owed);
        let start = match ahead {
            _ if busy_until <= ready => ready,
            None => self.free.max(ready),
            Some(wait) => {
                let left = rest(step, busy_until, ready);
                ready.saturating_add(wait).saturating_add(left).max(self.reads_free).min(busy_until)
            }
        };
        self.settle(start);
        self.free = self.free.max(start).saturating_add(took);
        self.reads_free = start.saturating_add(took);
        self.host_ns = self.host_ns.saturating_add(took);
        self.reads_free
    }

    /// Schedules a channel transfer that starts as soon as its data are in the page
    /// register at `ready`. It waits only for earlier reads that are also ready. No later
    /// read is ready before `floor`. Returns its end. Delays later work by the same time,
    /// except for promised completions.
    pub(super) fn read_when_ready(&mut self, ready: u64, took: u64, floor: u64) -> u64 {
        while let Some((from, to)) = self.transfers.pop_until(floor) {
            self.work_off(self.owed.min(from.saturating_sub(self.free)));
            self.free = self.free.max(to);
        }
        let (end, before) = self.transfers.take(ready, took, self.free);
        self.free = self.transfers.after(self.free, before);
        self.reads_free = self.reads_free.max(end);
        self.host_ns = self.host_ns.saturating_add(took);
        end
    }

    /// Pays owed time with the idle time until `until`.
    #[inline]
    pub(super) fn settle(&mut self, until: u64) {
        if self.owed != 0 {
            self.work_off(self.owed.min(self.transfers.free_between(self.free, until)));
        }
    }

    /// End of all scheduled work, without owed time.
    pub(super) fn given_until(&self) -> u64 {
        self.free.max(self.reads_free)
    }

    /// End of all work.
    fn quiet_from(&self) -> u64 {
        self.transfers.after(self.free, self.owed).max(self.reads_free)
    }

    /// Adds `ns` of owed time from `at` on.
    pub(super) fn owe(&mut self, at: u64, ns: u64) {
        self.settle(at);
        if self.owed == 0 {
            self.free = self.free.max(at);
        }
        self.owed = self.owed.saturating_add(ns);
    }

    /// Pays `ns` of the owed time.
    #[inline(always)]
    pub(super) fn work_off(&mut self, ns: u64) {
        self.owed -= ns;
        self.free = self.transfers.after(self.free, ns);
        self.background_ns = self.background_ns.saturating_add(ns);
    }

    /// Restarts the schedule at `now`; owed time remains.
    pub(super) fn restart(&mut self, now: u64) {
        *self = Self { free: now, reads_free: now, owed: self.owed, ..Self::default() };
    }
}

/// Rest at `at` of a step of work that ends at `until`. Operations and their parts differ
/// in length: ends of steps are a Poisson process with one in `mean` ns.
fn rest(mean: u64, until: u64, at: u64) -> u64 {
    if mean == 0 {
        return 0;
    }
    let drawn = CountedStream { seed: until, drawn: at }.next_u64();
    (libm::log((drawn as f64 + 1.0) / (u64::MAX as f64)) * -(mean as f64)) as u64
}

/// Sum of owed time over `lanes`.
pub(super) fn owed(lanes: &[Lane]) -> u64 {
    lanes.iter().fold(0, |sum, lane| sum.saturating_add(lane.owed))
}

/// Lanes of one kind, which share background work evenly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlashLanes {
    pub(super) each: alloc::vec::Vec<Lane>,
    /// Owed time paid before each program of host data.
    pub(super) share: u64,
    /// Time charged since accounting started, summed over lanes.
    pub(super) charged_ns: u64,
    /// Part of `charged_ns` that is too small to divide among all lanes.
    pub(super) undivided_ns: u64,
    /// Charged time not yet covered by shares, spent or not.
    pub(super) uncovered_ns: u64,
    /// The same for work started in idle time, until foreground I/O waits for room.
    pub(super) idle_uncovered_ns: u64,
}

impl FlashLanes {
    pub(super) fn new(count: usize) -> Self {
        Self {
            each: alloc::vec![Lane::default(); count],
            share: 0,
            charged_ns: 0,
            undivided_ns: 0,
            uncovered_ns: 0,
            idle_uncovered_ns: 0,
        }
    }

    /// Charges `ns`, summed over lanes, from `at` on.
    pub(super) fn charge(&mut self, at: u64, ns: u64, waited_for: bool) {
        let lanes = self.each.len() as u64;
        self.charged_ns = self.charged_ns.saturating_add(ns);
        let uncovered =
            if waited_for { &mut self.uncovered_ns } else { &mut self.idle_uncovered_ns };
        *uncovered = uncovered.saturating_add(ns);
        let ns = ns.saturating_add(self.undivided_ns);
        self.undivided_ns = ns % lanes;
        for lane in &mut self.each {
            lane.owe(at, ns / lanes);
        }
    }

    /// Subtracts the shares of `done` programs and divides the rest among the next
    /// `programs`.
    pub(super) fn spread(&mut self, done: u64, programs: u64) {
        self.uncovered_ns = self
            .uncovered_ns
            .saturating_add(self.idle_uncovered_ns)
            .saturating_sub(self.share.saturating_mul(done));
        self.idle_uncovered_ns = 0;
        self.share = self.uncovered_ns.div_ceil(programs.max(1));
    }

    /// Like [`spread`](Self::spread) when host I/O resumes at `now` after idle time. Owed
    /// time paid while idle is covered. Of unfinished idle work, a program pays at most
    /// `preempted_ns`.
    pub(super) fn spread_after_idling(
        &mut self,
        now: u64,
        done: u64,
        programs: u64,
        preempted_ns: u64,
    ) {
        self.uncovered_ns = self.uncovered_ns.saturating_sub(self.share.saturating_mul(done));
        self.each.iter_mut().for_each(|lane| lane.settle(now));
        // Otherwise host work is still running and no idle work has started.
        if self.each.iter().all(|lane| lane.given_until() <= now) {
            let owed = owed(&self.each);
            self.idle_uncovered_ns = self.idle_uncovered_ns.min(owed);
            self.uncovered_ns = self.uncovered_ns.min(owed - self.idle_uncovered_ns);
        }
        let programs = programs.max(1);
        self.share = self
            .uncovered_ns
            .div_ceil(programs)
            .saturating_add(self.idle_uncovered_ns.div_ceil(programs).min(preempted_ns));
    }

    /// End of all work on all lanes.
    pub(super) fn quiet_from(&self) -> u64 {
        self.each.iter().map(Lane::quiet_from).max().unwrap_or(0)
    }

    /// Mean remaining work per lane after `now`, scheduled and owed.
    pub(super) fn backlog(&self, now: u64) -> u64 {
        let left = |lane: &Lane| lane.given_until().saturating_sub(now).saturating_add(lane.owed);
        self.each.iter().fold(0_u64, |sum, lane| sum.saturating_add(left(lane)))
            / self.each.len().max(1) as u64
    }

    /// Restarts time accounting at `now`.
    pub(super) fn restart(&mut self, now: u64) {
        self.each.iter_mut().for_each(|lane| lane.restart(now));
        self.charged_ns = owed(&self.each).saturating_add(self.undivided_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Oracle: the exponential distribution, of programs and of relocation.
    #[test]
    fn read_waits_for_the_end_of_a_step() {
        const BUSY: u64 = 1_000_000;
        let wait = |owed: bool, ready: u64, step: u64| {
            let mut lane = Lane::default();
            if owed {
                lane.owe(0, BUSY);
            } else {
                lane.serve(0, BUSY, 0, 0);
            }
            let wait = lane.read(ready, 50, Some(10), step) - 50 - ready;
            assert!(!owed || lane.owed == BUSY - ready - wait);
            wait
        };
        for owed in [false, true] {
            let waits: Vec<f64> =
                (0..20_000).map(|ready| (wait(owed, ready, 300) - 10) as f64).collect();
            let mean = waits.iter().sum::<f64>() / 20_000.0;
            assert!((mean / 300.0 - 1.0).abs() < 0.03, "{mean}");
            let longer = waits.iter().filter(|wait| **wait > 900.0).count() as f64 / 20_000.0;
            assert!((longer - libm::exp(-3.0)).abs() < 0.006, "{longer}");
            // It waits for a step only, and no longer than all work.
            assert_eq!((wait(owed, 250, 0), wait(owed, BUSY, 300)), (10, 0));
            assert!((0..100).all(|ago| wait(owed, BUSY - ago, 1 << 30) <= ago));
        }
    }

    #[test]
    fn program_waits_for_the_end_of_a_relocation_step() {
        let program = |ready, step| {
            let mut lane = Lane::default();
            lane.owe(0, 1000);
            (lane.serve(ready, 10, 0, step) - ready, lane.owed)
        };
        // Steps end at 100, 400, 700 and 1000.
        assert_eq!(program(250, 0), (10, 750));
        assert_eq!(program(250, 300), (160, 600));
        assert_eq!(program(400, 300), (10, 600));
        assert_eq!(program(990, 300), (20, 0));
    }
}
