//! Single writes, each followed by a flush: the latency of a durable write.

use super::super::lab::Stream;
use super::{Findings, Probe, ProbePlan, ProbeSession, RandomOffsets};
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

const PAIRS: usize = 32;

/// Alternating writes and flushes.
pub struct Flush;

impl Probe for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.write_cache.flush_ns", "flash.write_cache.power_loss_protection", "flash.nand.program_ns", "interface.latency_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        // Whole mapping units first, which need no read-modify-write.
        let small = plan.small();
        for (purpose, len, write, flush, sigma) in
            [("flush", 64 << 10, "write 65536 q1", "flush", 0.02), ("flush small", small, "write 4096 q1", "flush small", 0.03)]
        {
            let (mut writes, mut flushes) = (Stream::default(), Stream::default());
            for extent in RandomOffsets::new(plan, purpose, plan.part(8, 16), len).take(PAIRS) {
                writes.latencies.push(lab.one(Command::Write(extent, DataClass::Random))?);
                flushes.latencies.push(lab.one(Command::Flush)?);
            }
            found.add(self.name(), write, writes.middle_ns(), 0.02);
            if plan.reach.flushes {
                found.add(self.name(), flush, flushes.middle_ns(), plan.reach.of_flush(sigma));
            }
        }
        Ok(())
    }
}
