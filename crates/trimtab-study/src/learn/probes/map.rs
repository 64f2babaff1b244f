//! Lone reads within increasingly large parts of the written area. If the map does not fit in
//! memory, reads load map pages first; the larger the part, the more often.

use super::whole::ProbeRegion;
use super::{Findings, Probe, ProbePlan, ProbeSession, SETTLE, reads};
use alloc::format;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Divisors of the area.
const PARTS: [u64; 4] = [64, 16, 4, 1];
const READS: usize = 192;

/// Reads of parts of the area and of the whole area.
pub struct MapProbe;

/// The first of `parts` equal parts.
const fn part_of(whole: &ProbeRegion, parts: u64) -> Extent {
    Extent { offset: whole.start, len: whole.bytes / parts }
}

impl Probe for MapProbe {
    fn name(&self) -> &'static str {
        "map"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.ftl.mapping_cache_bytes"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let Some(whole) = plan.whole else { return Ok(()) };
        lab.one(Command::Flush)?;
        lab.idle(SETTLE);
        for parts in PARTS {
            let places = reads(plan, &format!("map of 1/{parts}"), part_of(&whole, parts), plan.small(), READS);
            let took = lab.stream(1, places)?.took;
            // The mean, not the middle: the share of reads that wait for the map matters.
            found.add(self.name(), format!("read in 1/{parts} q1"), took.0 as f64 / READS as f64, 0.03);
        }
        Ok(())
    }
}
