//! What the drive does by itself while no command arrives.

use super::Ssd;
use super::clock::Work;
use super::gc::When;

impl Ssd {
    /// Uses the quiet time that lasts until `until`.
    pub(super) fn background(&mut self, until: u64) {
        let quiet = self.quiet_since;
        if until <= quiet {
            return;
        }
        let mut now = self.clock.pay_debt(quiet.max(self.idled_until), until);
        self.idled_until = until;
        if let Some(delay) = self.flash.write_cache.idle_write_out_ns
            && quiet.saturating_add(delay) <= until
        {
            self.write_out(quiet + delay);
        }
        while now < until
            && let Some((unit, count)) = self.deferred.pop_front()
        {
            now += self.unmap(unit, count) * self.flash.trim.unit_ns;
        }
        if let Some(delay) = self.flash.slc_cache.as_ref().and_then(|slc| slc.idle_fold_ns) {
            now = self.fold_until(now.max(quiet.saturating_add(delay)), until);
        }
        if let Some(delay) = self.flash.ftl.gc.idle_delay_ns {
            self.collect_until(now.max(quiet.saturating_add(delay)), until);
        }
    }

    fn fold_until(&mut self, mut now: u64, until: u64) -> u64 {
        while now < until
            && let Some(work) = self.ftl.fold_oldest(&mut self.clock, now, When::Idle)
        {
            now = self.occupy(now, &work);
        }
        now
    }

    fn collect_until(&mut self, mut now: u64, until: u64) {
        while now < until && !self.ftl.read_only && self.ftl.pool.free() < self.flash.ftl.gc.idle_free && self.worth_collecting() {
            let Some(work) = self.ftl.collect_next(&mut self.clock, now, When::Idle) else { break };
            now = self.occupy(now, &work);
        }
    }

    fn occupy(&mut self, now: u64, work: &Work) -> u64 {
        let (die, channel) = self.clock.cost(work);
        self.clock.heat_bytes = self.clock.heat_bytes.wrapping_add(2 * work.bytes);
        self.clock.occupy(now, die, channel)
    }
}
