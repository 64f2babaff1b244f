//! Single reads during sequential writes: whether and how long they wait for programs.

use super::{Findings, Probe, ProbePlan, ProbeSession, reads, sequential};
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

/// Reads during writes.
pub struct Stalls;

impl Probe for Stalls {
    fn name(&self) -> &'static str {
        "stalls"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.nand.suspend_ns", "flash.nand.channel_bytes_per_s"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let mut beside = reads(plan, "stalls", plan.part(0, 4), plan.small(), usize::MAX);
        let written = plan.part(8, 12);
        let (stream, others) = lab.streams(4, sequential(written, DataClass::Random), || beside.next())?;
        lab.one(Command::Flush)?;
        found.add(self.name(), "read beside writes", others.middle_ns(), 0.04);
        found.add(self.name(), "read beside writes p90", others.percentile_ns(90), 0.08);
        found.add(self.name(), "write beside reads", stream.took.0 as f64 / written.len as f64, 0.03);
        Ok(())
    }
}
