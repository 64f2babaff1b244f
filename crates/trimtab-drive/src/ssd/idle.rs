//! Background work while no command arrives.

use super::Ssd;
use super::gc::GcContext;

#[derive(Debug, Default)]
pub(super) struct IdleGain {
    /// Maximum number of free slots so far.
    most_free: u64,
    /// Victims collected since that maximum.
    in_vain: u32,
}

impl Ssd {
    /// Runs background work while idle until `until`. Unfinished work then continues.
    pub(super) fn background(&mut self, until: u64) {
        let quiet = self.quiet_since;
        if until <= quiet {
            return;
        }
        if let Some(delay) = self.flash.write_cache.idle_write_out_ns
            && quiet.saturating_add(delay) <= until
        {
            self.write_out(quiet.saturating_add(delay));
        }
        let mut now = self.clock.quiet_from().max(quiet).max(self.idled_until);
        self.idled_until = until;
        if let Some(delay) = self.flash.slc_cache.as_ref().and_then(|slc| slc.idle_fold_ns)
            && !self.ftl.slc_queue.is_empty()
        {
            now = self.fold_until(now.max(quiet.saturating_add(delay)), until);
        }
        if let Some(delay) = self.flash.ftl.gc.idle_delay_ns {
            self.collect_until(now.max(quiet.saturating_add(delay)), until);
        }
        self.clock.spread_after_idling(until, self.ftl.rows_open());
    }

    fn fold_until(&mut self, mut now: u64, until: u64) -> u64 {
        while now < until && self.ftl.fold_oldest(&mut self.clock, now, GcContext::Idle) {
            now = self.clock.quiet_from();
        }
        now
    }

    /// True if idle collection should continue; called before each victim. A policy that
    /// ignores valid data may free nothing, so a full round of superblocks without a gain
    /// ends it.
    pub(super) fn wants_free(&self, gain: &mut IdleGain) -> bool {
        let free = self.ftl.free_slots;
        gain.in_vain = if free > gain.most_free { 0 } else { gain.in_vain + 1 };
        gain.most_free = gain.most_free.max(free);
        gain.in_vain <= self.layout.superblocks
            && self.ftl.pool.free() < self.flash.ftl.gc.idle_free
            && self.worth_collecting()
    }

    fn collect_until(&mut self, mut now: u64, until: u64) {
        let mut gain = IdleGain::default();
        while now < until && !self.ftl.read_only && self.wants_free(&mut gain) {
            if !self.ftl.collect_next(&mut self.clock, now, GcContext::Idle) {
                break;
            }
            now = self.clock.quiet_from();
        }
    }
}
