//! Reads of trimmed space, which do not access the flash: command processor and link times alone.

use super::{Findings, Probe, ProbePlan, ProbeSession, reads};
use alloc::format;
use trimtab_sim::target::TargetResult;

/// Reads of the space that the TRIM cost probe trimmed.
pub struct TrimmedReads;

impl Probe for TrimmedReads {
    fn name(&self) -> &'static str {
        "trimmed reads"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["interface.command_overhead_ns", "interface.latency_ns", "interface.rate_bytes_per_s"]
    }

    fn is_of_trims(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let trimmed = plan.part(8, 16);
        for size in [plan.small(), 64 << 10, 512 << 10] {
            let stream = lab.stream(1, reads(plan, &format!("trimmed {size}"), trimmed, size, 32))?;
            found.add(self.name(), format!("trimmed read {size} q1"), stream.middle_ns(), 0.01);
        }
        let block = u64::from(plan.reported.logical_block_bytes);
        let count = 2048;
        let stream = lab.stream(plan.deepest(), reads(plan, "trimmed blocks", trimmed, block, count))?;
        found.add(self.name(), "trimmed read block deep", stream.took.0 as f64 / count as f64, 0.01);
        Ok(())
    }
}
