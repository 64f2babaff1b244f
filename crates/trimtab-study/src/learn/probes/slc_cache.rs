//! Writes the whole part sequentially once: the amount at full speed, and the rate after it.

use super::whole::{FILL_PIECES, in_pieces};
use super::{Findings, Probe, ProbePlan, ProbeSession};
use alloc::format;
use trimtab_drive::Command;
use trimtab_sim::target::TargetResult;

/// Initial sequential write.
pub struct SlcCache;

impl Probe for SlcCache {
    fn name(&self) -> &'static str {
        "slc cache"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.slc_cache.size", "flash.slc_cache.when_full", "flash.nand.program_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let Some(whole) = plan.whole else { return Ok(()) };
        for (nth, ns) in (1..).zip(in_pieces(lab, whole.part(0, 16), FILL_PIECES)?) {
            found.add(self.name(), format!("fill {nth}"), ns, 0.03);
        }
        lab.one(Command::Flush)?;
        Ok(())
    }
}
