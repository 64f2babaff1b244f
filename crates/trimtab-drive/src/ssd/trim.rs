//! TRIM: cost, effect and timing.

use super::Ssd;
use crate::{Extent, Refusal};

impl Ssd {
    pub(super) fn trim(&mut self, now: u64, ranges: &[Extent]) -> Result<u64, Refusal> {
        let trim = &self.flash.trim;
        if !trim.supported {
            return Err(Refusal::TrimUnsupported);
        }
        if ranges.len() > trim.ranges_per_command_max as usize {
            return Err(Refusal::TooManyRanges);
        }
        for range in ranges {
            self.check(*range)?;
        }
        let trim = self.flash.trim.clone();
        let arrived = self.begin(now, false);
        let start = if trim.queued {
            arrived.max(self.trim_free)
        } else {
            arrived.max(self.clock.latest_completion())
        };
        let asked = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len));
        let mut effective = 0;
        for range in ranges {
            effective += self.trim_range(*range, start);
        }
        let took = trim.took_ns(ranges.iter().map(|range| range.len), effective);
        let counters = &mut self.ftl.counters;
        counters.host_trims += 1;
        counters.trim_ranges += ranges.len() as u64;
        counters.trim_asked_bytes = counters.trim_asked_bytes.saturating_add(asked);
        counters.trim_ns = counters.trim_ns.saturating_add(took);
        let done = start.saturating_add(took);
        if trim.queued {
            self.trim_free = done;
        } else {
            self.clock.blocked_until = self.clock.blocked_until.max(done);
        }
        Ok(done.saturating_add(self.clock.latency))
    }

    /// Trims the effective part of `range`; returns the number of units unmapped.
    fn trim_range(&mut self, range: Extent, now: u64) -> u64 {
        let unit_bytes = self.layout.unit_bytes;
        let trim = &self.flash.trim;
        let end = range.offset + range.len;
        let (mut from, mut to) = (range.offset, end);
        if trim.alignment_bytes > 0 {
            from = from.div_ceil(trim.alignment_bytes) * trim.alignment_bytes;
            to = if end == self.spec.capacity_bytes {
                end
            } else {
                end / trim.alignment_bytes * trim.alignment_bytes
            };
        }
        let first = from.div_ceil(unit_bytes);
        let last = if to == self.spec.capacity_bytes {
            u64::from(self.layout.units)
        } else {
            to / unit_bytes
        };
        let taken = if range.len >= trim.bytes_min && last > first {
            (last * unit_bytes).min(self.spec.capacity_bytes) - first * unit_bytes
        } else {
            0
        };
        self.ftl.counters.trim_ignored_bytes += range.len - taken;
        if taken == 0 {
            return 0;
        }
        let (unit, count) = (first as u32, (last - first) as u32);
        self.complete_parts(unit, count, now);
        let effective = self.ftl.trim(unit, count);
        let counters = &mut self.ftl.counters;
        counters.trim_effective_units += effective;
        counters.trim_repeated_units += u64::from(count) - effective;
        effective
    }

    /// True if the best victim has few enough valid data for background collection.
    pub(super) fn worth_collecting(&self) -> bool {
        let most = u64::from(self.layout.superblock_slots)
            * u64::from(self.flash.ftl.gc.idle_valid_max_permille)
            / 1000;
        self.ftl.victims.peek_valid(&self.ftl.blocks).is_some_and(|valid| u64::from(valid) <= most)
    }
}
