//! Endurance throttling: writing consumes a byte credit, time restores it.

use super::Ssd;
use crate::spec::LifeThrottle;
use crate::units::Bytes;

const STEP_NS: u64 = 10_000_000;
const SECOND_NS: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct EnduranceCredit {
    rule: LifeThrottle,
    /// Remaining bytes.
    pub(super) credit: u64,
    /// Bytes written to flash at the last update.
    pub(super) counted: u64,
    pub(super) updated: u64,
    pub(super) throttled: bool,
}

impl EnduranceCredit {
    pub(super) const fn new(rule: LifeThrottle) -> Self {
        Self { rule, credit: rule.credit_bytes, counted: 0, updated: 0, throttled: false }
    }

    pub(super) const fn speed_permille(&self) -> u16 {
        if self.throttled { self.rule.throttled_permille } else { 1000 }
    }

    pub(super) const fn is_throttled(&self) -> bool {
        self.throttled
    }

    fn spend(&mut self, now: u64, written: Bytes) {
        let rate = u128::from(self.rule.earned_bytes_per_s);
        let earned = u128::from(now - self.updated) * rate / SECOND_NS;
        // Only consume the time of whole bytes, so that low rates still count.
        self.updated =
            (earned * SECOND_NS).checked_div(rate).map_or(now, |used| self.updated + used as u64);
        let spent = written.0 - self.counted;
        self.counted = written.0;
        let credit = (u128::from(self.credit) + earned).saturating_sub(u128::from(spent));
        self.credit = credit.min(u128::from(self.rule.credit_bytes)) as u64;
        self.throttled =
            if self.throttled { self.credit < self.rule.credit_bytes } else { self.credit == 0 };
    }
}

impl Ssd {
    pub(super) fn spend(&mut self, now: u64) {
        let written = self.nand_written();
        let Some(life) = &mut self.life else { return };
        let elapsed = now.saturating_sub(life.updated);
        if elapsed < STEP_NS {
            return;
        }
        let was_throttled = life.throttled;
        life.spend(now, written);
        if was_throttled {
            self.ftl.counters.throttled_ns = self.ftl.counters.throttled_ns.saturating_add(elapsed);
        }
        if life.throttled != was_throttled {
            self.set_speed();
        }
    }
}
