//! Reads of existing data: latency, link rate, parallel dies, read-ahead.

use super::{Findings, Probe, ProbePlan, ProbeSession, crossing_reads, reads};
use alloc::format;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

const SIZES: [(u64, usize); 5] = [(4096, 96), (16 << 10, 48), (64 << 10, 48), (256 << 10, 24), (1 << 20, 12)];
const DEPTHS: [u32; 5] = [2, 8, 32, 96, 255];
/// Small reads per command in flight.
const ROUNDS: usize = 12;

/// Reads in all sizes and depths.
pub struct Reads;

impl Probe for Reads {
    fn name(&self) -> &'static str {
        "reads"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &[
            "interface.rate_bytes_per_s",
            "interface.command_overhead_ns",
            "interface.latency_ns",
            "flash.nand.read_ns",
            "flash.nand.read_ahead_bytes",
            "flash.nand.channel_bytes_per_s",
            "flash.geometry",
        ]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        lab.idle(plan.reach.rest);
        let there = plan.part(0, 16);
        for (size, count) in SIZES.into_iter().filter(|(size, _)| *size >= plan.small() && size * 4 <= plan.area) {
            let stream = lab.stream(1, crossing_reads(plan, &format!("read {size}"), there, size, count))?;
            found.add(self.name(), format!("read {size} q1"), stream.middle_ns(), 0.02);
            if size == plan.small() {
                found.add(self.name(), "read 4096 q1 p90", stream.percentile_ns(90), 0.04);
            }
        }
        for depth in DEPTHS.into_iter().filter(|depth| *depth < plan.deepest().max(3)) {
            let count = depth as usize * ROUNDS;
            let stream = lab.stream(depth, reads(plan, &format!("depth {depth}"), there, plan.small(), count))?;
            found.add(self.name(), format!("read 4096 q{depth}"), stream.took.0 as f64 / count as f64, 0.03);
        }
        let count = 256;
        let stream = lab.stream(32, crossing_reads(plan, "large reads", there, 128 << 10, count))?;
        found.add(self.name(), "read 131072 q32", stream.took.0 as f64 / count as f64, 0.03);
        self.in_order(lab, plan, found)
    }
}

impl Reads {
    fn in_order(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        for size in [plan.small(), 64 << 10] {
            let count = 192.min(plan.area / 16 / size);
            let from = plan.part(2, 4).offset;
            let commands = (0..count).map(|nth| Command::Read(Extent { offset: from + nth * size, len: size }));
            let stream = lab.stream(1, commands)?;
            found.add(self.name(), format!("sequential read {size} q1"), stream.middle_ns(), 0.03);
        }
        Ok(())
    }
}

/// Reads of data that were just written and not moved yet. Detects an SLC cache.
pub struct FreshDataProbe;

impl Probe for FreshDataProbe {
    fn name(&self) -> &'static str {
        "just written"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.slc_cache", "flash.slc_cache.read_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let stream = lab.stream(1, reads(plan, "just written", plan.part(0, 8), plan.small(), 48))?;
        found.add(self.name(), "read just written", stream.middle_ns(), 0.02);
        Ok(())
    }
}
