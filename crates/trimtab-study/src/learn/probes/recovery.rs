//! Rewrites an eighth of the full part after a short and a long rest: speed of background
//! work, and cache size of a full drive. Also lone reads of data that moved in the meantime.

use super::whole::{BURST_PIECES, RestLength, in_pieces};
use super::{Findings, Probe, ProbePlan, ProbeSession, RandomOffsets};
use alloc::format;
use trimtab_drive::Command;
use trimtab_sim::target::TargetResult;

const READS: usize = 64;

/// Bursts after rests.
pub struct Recovery;

impl Probe for Recovery {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.slc_cache.size", "flash.slc_cache.when_full", "flash.nand.program_ns", "flash.nand.read_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let Some(whole) = plan.whole else { return Ok(()) };
        for (rest, name, from) in [(RestLength::Short, "short", 4), (RestLength::Long, "long", 8)] {
            lab.idle(whole.rest(rest));
            for (nth, ns) in (1..).zip(in_pieces(lab, whole.part(from, from + 2), BURST_PIECES)?) {
                found.add(self.name(), format!("after a {name} rest {nth}"), ns, 0.06);
            }
            lab.one(Command::Flush)?;
        }
        lab.idle(whole.rest(RestLength::Long));
        let places = RandomOffsets::new(plan, "moved", whole.part(0, 4), plan.small()).take(READS).map(Command::Read);
        let stream = lab.stream(1, places)?;
        found.add(self.name(), "read moved q1", stream.middle_ns(), 0.02);
        Ok(())
    }
}
