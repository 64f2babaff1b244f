//! Random writes over the full part, and again after a rest: start and cost of garbage collection.

use super::whole::{RANDOM_BYTES, RestLength};
use super::{Findings, Probe, ProbePlan, ProbeSession, RandomOffsets};
use alloc::format;
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

const PIECES: u64 = 16;
/// Number and divisor of the shorter pieces after the rest.
const AFTER: u64 = 4;
const SHORTER: u64 = 6;

/// Random writes until garbage is everywhere.
pub struct Collection;

impl Probe for Collection {
    fn name(&self) -> &'static str {
        "collection"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.over_provisioning_permille", "flash.ftl.victim", "flash.ftl.streams", "flash.nand.erase_ns"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let Some(whole) = plan.whole else { return Ok(()) };
        let size = RANDOM_BYTES.max(plan.small());
        let mut places = RandomOffsets::new(plan, "collection", whole.part(0, 16), size);
        let mut piece = |lab: &mut ProbeSession<'_>, count: u64| -> TargetResult<f64> {
            let writes = places.by_ref().take(count as usize).map(|extent| Command::Write(extent, DataClass::Random));
            Ok(lab.stream(32, writes)?.took.0 as f64 / count as f64)
        };
        let count = whole.bytes / PIECES / size;
        for nth in 1..=PIECES {
            found.add(self.name(), format!("collected {nth}"), piece(lab, count)?, 0.05);
        }
        lab.one(Command::Flush)?;
        lab.idle(whole.rest(RestLength::Long));
        for nth in 1..=AFTER {
            found.add(self.name(), format!("collected after a rest {nth}"), piece(lab, count / SHORTER)?, 0.08);
        }
        Ok(())
    }
}
