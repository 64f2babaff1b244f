//! Random writes of increasing sizes; those below a mapping unit need a read-modify-write.

use super::{Findings, Probe, ProbePlan, ProbeSession, RandomOffsets};
use alloc::format;
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

/// Sizes.
pub const SIZES: [u64; 5] = [4096, 8192, 16 << 10, 32 << 10, 64 << 10];

/// Random writes over mapped space.
pub struct RandomWrites;

impl Probe for RandomWrites {
    fn name(&self) -> &'static str {
        "random writes"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.ftl.mapping_unit_bytes", "interface.write_overhead_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        lab.idle(plan.reach.rest);
        for size in SIZES.into_iter().filter(|size| *size >= plan.small()) {
            let count = (plan.area / 16 / size).min(4096) as usize;
            let places = RandomOffsets::new(plan, &format!("random writes {size}"), plan.part(0, 4), size).take(count);
            let stream = lab.stream(32, places.map(|extent| Command::Write(extent, DataClass::Random)))?;
            let flush = lab.one(Command::Flush)?;
            found.add(self.name(), format!("random write {size} q32"), stream.took.0 as f64 / count as f64, 0.03);
            // A filesystem's log write before a flush adds to the measured time only.
            let log = if plan.reach.flushes { 0.0 } else { flush.0 as f64 / (stream.took + flush).0.max(1) as f64 };
            let to_the_end = (stream.took + flush).0 as f64 / count as f64;
            found.add(self.name(), format!("random write {size} to the end"), to_the_end, libm::sqrt(0.02 * 0.02 + log * log));
        }
        Ok(())
    }
}
