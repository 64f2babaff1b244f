//! A resource that does one thing at a time: a die, or the bus of a channel.

use super::transfers::Transfers;

/// A share is at least one part in two to the power of this of what a lane owes.
pub(super) const LEAST_SHARE_BITS: u32 = 12;

/// What a die or a channel has done, has to do, and owes.
///
/// Work of the host is served in the order in which it was given. Background work (collection, folding, levelling) is owed: it begins when it is
/// charged at the earliest, uses the time in which there is nothing else to do, and what that does not suffice for is worked off
/// in shares before each program of host data. What programs leave over, because they do not fall on all lanes evenly, is worked off in the end:
/// a share is never less than a small part of what its lane owes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lane {
    /// When everything that it has begun or been given has ended, but for what it owes and for `transfers`.
    pub(super) free: u64,
    /// When its reads have ended, which may go ahead of other work.
    pub(super) reads_free: u64,
    /// Reads whose data cross a channel as soon as they are there. Background work has used what is free between them as far as `free`.
    pub(super) transfers: Transfers,
    /// Time of background work that it has not spent yet.
    pub(super) owed: u64,
    /// Time spent on commands of the host since time has been counted.
    pub(super) host_ns: u64,
    /// Time spent on background work since then.
    pub(super) background_ns: u64,
}

impl Lane {
    /// Work that can begin at `ready` and lasts `took`, after all that was given before and `share` of what is owed. Gives its end.
    #[inline(always)]
    pub(super) fn serve(&mut self, ready: u64, took: u64, share: u64) -> u64 {
        if self.owed != 0 {
            self.settle(self.reads_free);
            self.free = self.free.max(self.reads_free);
            let idle = ready.saturating_sub(self.free);
            self.work_off(self.owed.min(idle.max(share).max(self.owed >> LEAST_SHARE_BITS)));
        }
        self.free = ready.max(self.free).max(self.reads_free).saturating_add(took);
        self.host_ns = self.host_ns.saturating_add(took);
        self.free
    }

    /// A read, which can begin at `ready`. It waits for all that was given before, or if it may go `ahead`, that long at most and for other reads.
    /// Gives its end; what it delays is delayed by as much, but for what has been promised already.
    pub(super) fn read(&mut self, ready: u64, took: u64, ahead: Option<u64>) -> u64 {
        self.settle(ready);
        let busy_until = self.free.saturating_add(self.owed);
        let start = match ahead {
            _ if busy_until <= ready => ready,
            None => self.free.max(ready),
            Some(wait) => ready.saturating_add(wait).max(self.reads_free).min(busy_until),
        };
        self.settle(start);
        self.free = self.free.max(start).saturating_add(took);
        self.reads_free = start.saturating_add(took);
        self.host_ns = self.host_ns.saturating_add(took);
        self.reads_free
    }

    /// A read that crosses the channel as soon as its data are there, at `ready`: it waits for earlier reads whose data are there, too, and for nothing
    /// else. No later read is ready before `floor`. Gives its end; what it delays is delayed by as much, but for what has been promised already.
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

    /// Works off what is owed in the time until `until` in which there is nothing else to do.
    #[inline]
    pub(super) fn settle(&mut self, until: u64) {
        if self.owed != 0 {
            self.work_off(self.owed.min(self.transfers.free_between(self.free, until)));
        }
    }

    /// When everything that it has begun or been given has ended, but for what it owes.
    pub(super) fn given_until(&self) -> u64 {
        self.free.max(self.reads_free)
    }

    /// When it has nothing left to do.
    fn quiet_from(&self) -> u64 {
        self.transfers.after(self.free, self.owed).max(self.reads_free)
    }

    /// Owes `ns` more, from `at` on.
    pub(super) fn owe(&mut self, at: u64, ns: u64) {
        self.settle(at);
        if self.owed == 0 {
            self.free = self.free.max(at);
        }
        self.owed = self.owed.saturating_add(ns);
    }

    /// Works off `ns` of what is owed.
    #[inline(always)]
    pub(super) fn work_off(&mut self, ns: u64) {
        self.owed -= ns;
        self.free = self.transfers.after(self.free, ns);
        self.background_ns = self.background_ns.saturating_add(ns);
    }

    /// Starts afresh at `now`; what is owed stays.
    pub(super) fn restart(&mut self, now: u64) {
        *self = Self { free: now, reads_free: now, owed: self.owed, ..Self::default() };
    }
}

/// Time owed by all of `lanes`.
pub(super) fn owed(lanes: &[Lane]) -> u64 {
    lanes.iter().fold(0, |sum, lane| sum.saturating_add(lane.owed))
}

/// Lanes of one kind, and the background work that falls on them evenly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// Each of them.
    pub(super) each: alloc::vec::Vec<Lane>,
    /// What a program of host data works off before it.
    pub(super) share: u64,
    /// Time charged since time has been counted, summed over lanes.
    pub(super) charged_ns: u64,
    /// Of it, what is too little to be divided among all.
    pub(super) undivided_ns: u64,
    /// What was charged and not yet covered by shares, whether it is spent or not.
    pub(super) uncovered_ns: u64,
    /// The same of what was begun in idle time, until somebody waits for room.
    pub(super) idle_uncovered_ns: u64,
}

impl Lanes {
    pub(super) fn new(count: usize) -> Self {
        Self { each: alloc::vec![Lane::default(); count], share: 0, charged_ns: 0, undivided_ns: 0, uncovered_ns: 0, idle_uncovered_ns: 0 }
    }

    /// Charges `ns`, summed over lanes, from `at` on. In a `burst` everything that is given to them later waits until it is done.
    pub(super) fn charge(&mut self, at: u64, ns: u64, waited_for: bool, burst: bool) {
        let lanes = self.each.len() as u64;
        self.charged_ns = self.charged_ns.saturating_add(ns);
        let uncovered = if waited_for { &mut self.uncovered_ns } else { &mut self.idle_uncovered_ns };
        *uncovered = uncovered.saturating_add(ns);
        let ns = ns.saturating_add(self.undivided_ns);
        self.undivided_ns = ns % lanes;
        for lane in &mut self.each {
            lane.owe(at, ns / lanes);
            if burst {
                lane.work_off(lane.owed);
            }
        }
    }

    /// Takes what the shares of `done` programs have covered off, and divides the rest among the next `programs`.
    pub(super) fn spread(&mut self, done: u64, programs: u64) {
        self.uncovered_ns = self.uncovered_ns.saturating_add(self.idle_uncovered_ns).saturating_sub(self.share.saturating_mul(done));
        self.idle_uncovered_ns = 0;
        self.share = self.uncovered_ns.div_ceil(programs.max(1));
    }

    /// The same when the host comes back at `now` after idle time. What this has worked off is covered; of what was begun in it and is not done, a program
    /// works off `preempted_ns` at most.
    pub(super) fn spread_after_idling(&mut self, now: u64, done: u64, programs: u64, preempted_ns: u64) {
        self.uncovered_ns = self.uncovered_ns.saturating_sub(self.share.saturating_mul(done));
        self.each.iter_mut().for_each(|lane| lane.settle(now));
        // Else the host's own work goes on, and nothing was begun.
        if self.each.iter().all(|lane| lane.given_until() <= now) {
            let owed = owed(&self.each);
            self.idle_uncovered_ns = self.idle_uncovered_ns.min(owed);
            self.uncovered_ns = self.uncovered_ns.min(owed - self.idle_uncovered_ns);
        }
        let programs = programs.max(1);
        self.share = self.uncovered_ns.div_ceil(programs).saturating_add(self.idle_uncovered_ns.div_ceil(programs).min(preempted_ns));
    }

    /// When all of them have nothing left to do.
    pub(super) fn quiet_from(&self) -> u64 {
        self.each.iter().map(Lane::quiet_from).max().unwrap_or(0)
    }

    /// How long each of them still has to do after `now`, on average: what it has been given, and what it owes.
    pub(super) fn backlog(&self, now: u64) -> u64 {
        let left = |lane: &Lane| lane.given_until().saturating_sub(now).saturating_add(lane.owed);
        self.each.iter().fold(0_u64, |sum, lane| sum.saturating_add(left(lane))) / self.each.len().max(1) as u64
    }

    /// Counts time from `now` on.
    pub(super) fn restart(&mut self, now: u64) {
        self.each.iter_mut().for_each(|lane| lane.restart(now));
        self.charged_ns = owed(&self.each).saturating_add(self.undivided_ns);
    }

    /// Nothing is owed any more.
    pub(super) fn forgive(&mut self) {
        self.charged_ns = self.charged_ns.saturating_sub(owed(&self.each)).saturating_sub(self.undivided_ns);
        self.each.iter_mut().for_each(|lane| lane.owed = 0);
        (self.share, self.undivided_ns, self.uncovered_ns, self.idle_uncovered_ns) = (0, 0, 0, 0);
    }
}
