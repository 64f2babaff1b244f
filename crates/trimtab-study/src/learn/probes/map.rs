//! Lone reads within ever larger parts of the full part: where the map of a drive is not all in memory, a page of it is read first, the more often the larger
//! that part is.

use super::whole::Whole;
use super::{Findings, Lab, Plan, Probe, SETTLE, reads};
use alloc::format;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Parts: one of so many each.
const PARTS: [u64; 4] = [64, 16, 4, 1];
/// Lone reads of each.
const READS: usize = 192;

/// Reads of a part and of all.
pub struct Map;

/// The first one of `parts` parts.
const fn part_of(whole: &Whole, parts: u64) -> Extent {
    Extent { offset: whole.start, len: whole.bytes / parts }
}

impl Probe for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.ftl.mapping_cache_bytes"]
    }

    fn run(&self, lab: &mut Lab<'_>, plan: &Plan, found: &mut Findings) -> TargetResult {
        let Some(whole) = plan.whole else { return Ok(()) };
        lab.one(Command::Flush)?;
        lab.idle(SETTLE);
        for parts in PARTS {
            let places = reads(plan, &format!("map of 1/{parts}"), part_of(&whole, parts), plan.small(), READS);
            let took = lab.stream(1, places)?.took;
            // The mean, not the middle: how many have to wait for the map is what tells.
            found.add(self.name(), format!("read in 1/{parts} q1"), took.0 as f64 / READS as f64, 0.03);
        }
        Ok(())
    }
}
