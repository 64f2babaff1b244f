//! TRIM: cost, effect and timing.

use super::Ssd;
use super::gc::GcContext;
use super::idle::IdleGain;
use crate::spec::TrimInvalidation;
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
        let start = if trim.queued { arrived.max(self.trim_free) } else { arrived.max(self.clock.latest_completion()) };
        let asked = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len));
        // A range longer than the drive's maximum counts as several ranges, and these as several
        // commands if there are too many for one.
        let pieces: u64 = ranges.iter().map(|range| range.len.div_ceil(trim.range_bytes_max).max(1)).sum();
        let commands = pieces.div_ceil(u64::from(trim.ranges_per_command_max)).max(1);
        let mut effective = 0;
        for range in ranges {
            effective += self.trim_range(*range, start);
        }
        let per_gb = u128::from(asked) * u128::from(trim.gb_ns) / 1_000_000_000;
        let parts = [(commands, trim.command_ns), (pieces, trim.range_ns), (effective, trim.unit_ns)];
        let took = parts.into_iter().map(|(count, ns)| u128::from(count) * u128::from(ns)).sum::<u128>() + per_gb;
        let took = u64::try_from(took).unwrap_or(u64::MAX);
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
        if trim.starts_gc {
            self.collect_after_trim(done);
        }
        Ok(done.saturating_add(self.clock.latency))
    }

    /// Trims the effective part of `range`; returns the number of units unmapped at once.
    fn trim_range(&mut self, range: Extent, now: u64) -> u64 {
        let unit_bytes = self.layout.unit_bytes;
        let trim = &self.flash.trim;
        let end = range.offset + range.len;
        let (mut from, mut to) = (range.offset, end);
        if trim.alignment_bytes > 0 {
            from = from.div_ceil(trim.alignment_bytes) * trim.alignment_bytes;
            to = if end == self.spec.capacity_bytes { end } else { end / trim.alignment_bytes * trim.alignment_bytes };
        }
        let first = from.div_ceil(unit_bytes);
        let last = if to == self.spec.capacity_bytes { u64::from(self.layout.units) } else { to / unit_bytes };
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
        match self.flash.trim.invalidation {
            TrimInvalidation::Immediate => self.unmap(unit, count),
            TrimInvalidation::Deferred { ranges_max } => {
                self.deferred.push_back((unit, count));
                let mut effective = 0;
                while self.deferred.len() > ranges_max as usize {
                    let Some((unit, count)) = self.deferred.pop_front() else { break };
                    effective += self.unmap(unit, count);
                }
                effective
            }
        }
    }

    /// Unmaps `count` units; returns how many were mapped.
    pub(super) fn unmap(&mut self, unit: u32, count: u32) -> u64 {
        let effective = self.ftl.trim(unit, count);
        let counters = &mut self.ftl.counters;
        counters.trim_effective_units += effective;
        counters.trim_repeated_units += u64::from(count) - effective;
        effective
    }

    /// Executes deferred TRIMs that overlap `count` units from `unit` on, which are then written.
    #[inline]
    pub(super) fn settle_deferred(&mut self, unit: u32, count: u32, now: u64) {
        if !self.deferred.is_empty() {
            self.settle_overlapping(unit, count, now);
        }
    }

    fn settle_overlapping(&mut self, unit: u32, count: u32, now: u64) {
        let mut at = 0;
        while let Some(&(first, units)) = self.deferred.get(at) {
            if first < unit + count && unit < first + units {
                self.deferred.remove(at);
                let effective = self.unmap(first, units);
                let took = effective.saturating_mul(self.flash.trim.unit_ns);
                self.clock.processor_free = self.clock.processor_free.max(now).saturating_add(took);
            } else {
                at += 1;
            }
        }
    }

    /// Runs the collection round that a TRIM starts on some drives.
    fn collect_after_trim(&mut self, now: u64) {
        let mut gain = IdleGain::default();
        while self.wants_free(&mut gain) {
            if !self.ftl.collect_next(&mut self.clock, now, GcContext::Foreground) {
                break;
            }
        }
        self.clock.spread(self.ftl.rows_open());
    }

    /// True if the best victim has few enough valid data for background collection.
    pub(super) fn worth_collecting(&self) -> bool {
        let most = u64::from(self.layout.superblock_slots) * u64::from(self.flash.ftl.gc.idle_valid_max_permille) / 1000;
        self.ftl.victims.peek_valid(&self.ftl.blocks).is_some_and(|valid| u64::from(valid) <= most)
    }
}
