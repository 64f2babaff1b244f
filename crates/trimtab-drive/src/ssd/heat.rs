//! Temperature: rises with the bytes that cross the flash, decays towards ambient.

use super::Ssd;
use super::life::EnduranceCredit;
use crate::spec::Thermal;

const STEP_NS: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub(super) struct ThermalState {
    thermal: Thermal,
    /// Excess over ambient in thousandths of a degree.
    pub(super) excess_mc: f64,
    pub(super) updated: u64,
    pub(super) throttled: bool,
}

impl ThermalState {
    pub(super) fn new(thermal: &Thermal) -> Self {
        Self { thermal: thermal.clone(), excess_mc: 0.0, updated: 0, throttled: false }
    }

    pub(super) fn temperature_mc(&self) -> i32 {
        self.thermal.ambient_mc.saturating_add(self.excess_mc as i32)
    }

    pub(super) const fn speed_permille(&self) -> u16 {
        if self.throttled { self.thermal.throttled_permille } else { 1000 }
    }

    pub(super) const fn is_throttled(&self) -> bool {
        self.throttled
    }
}

impl Ssd {
    /// Updates thermal and endurance throttling at `now`.
    pub(super) fn throttle(&mut self, now: u64) {
        self.warm(now);
        self.spend(now);
    }

    pub(super) fn set_speed(&mut self) {
        let heat = self.heat.as_ref().map_or(1000, ThermalState::speed_permille);
        let life = self.life.as_ref().map_or(1000, EnduranceCredit::speed_permille);
        self.clock.throttle(heat, life);
    }

    fn warm(&mut self, now: u64) {
        let Some(heat) = &mut self.heat else { return };
        let elapsed = now.saturating_sub(heat.updated);
        if elapsed < STEP_NS {
            return;
        }
        heat.updated = now;
        let bytes = core::mem::take(&mut self.clock.heat_bytes);
        // Heat that arrives evenly over an interval cools for half of it on average; over
        // many time constants, heat input equals output.
        let times = elapsed as f64 / heat.thermal.cooling_ns as f64;
        let left = libm::exp(-times);
        let rise = bytes as f64 / 1e9 * f64::from(heat.thermal.rise_mc_per_gb);
        heat.excess_mc = heat.excess_mc * left + rise * (1.0 - left) / times;
        if heat.throttled {
            self.ftl.counters.throttled_ns = self.ftl.counters.throttled_ns.saturating_add(elapsed);
        }
        let temperature = heat.temperature_mc();
        let throttled = if heat.throttled {
            temperature >= heat.thermal.resume_mc
        } else {
            temperature >= heat.thermal.throttle_mc
        };
        if throttled != heat.throttled {
            heat.throttled = throttled;
            self.set_speed();
        }
    }
}
