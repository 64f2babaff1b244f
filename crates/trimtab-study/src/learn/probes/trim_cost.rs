//! TRIM commands with chosen numbers and sizes of ranges, on mapped and unmapped space: cost
//! of a command, a range, a mapped unit and a byte. Also reads during a TRIM, which show
//! whether it blocks other commands.

use super::{Findings, Probe, ProbePlan, ProbeSession, SETTLE, reads};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Bytes of a short range: longer than most drives ignore.
const SHORT: u64 = 64 << 10;

/// Cost of TRIM commands.
pub struct TrimCost;

impl Probe for TrimCost {
    fn name(&self) -> &'static str {
        "trim cost"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.trim.command_ns", "flash.trim.range_ns", "flash.trim.unit_ns", "flash.trim.gb_ns", "flash.trim.queued"]
    }

    fn is_of_trims(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let Some((_, most)) = plan.trims() else { return Ok(()) };
        let ranges = |count: u64| count.min(most).min(plan.area / 32 / SHORT).max(1);
        let mut from = plan.part(8, 16).offset;
        // Every second piece, so that adjacent ranges do not merge.
        let mut pieces = |count: u64, len: u64| -> Vec<Extent> {
            let pieces = (0..count).map(|nth| Extent { offset: from + nth * 2 * len, len }).collect();
            from += count * 2 * len;
            pieces
        };
        let (few, many) = (pieces(ranges(8), SHORT), pieces(ranges(64), SHORT));
        let one = pieces(1, SHORT);
        let long = pieces(1, plan.area / 16);
        for (name, shape) in [("one", &one), ("few", &few), ("many", &many), ("long", &long)] {
            for again in ["", " again"] {
                found.add(self.name(), format!("trim {name}{again}"), lab.trim(shape)?.0 as f64, 0.015);
            }
        }
        let all = plan.part(8, 16);
        found.add(self.name(), "trim all", lab.trim(&[all])?.0 as f64, 0.015);
        found.add(self.name(), "trim all again", lab.trim(&[all])?.0 as f64, 0.015);
        let short: Vec<Extent> =
            (0..ranges(256)).map(|nth| Extent { offset: all.offset + nth * 2 * plan.small(), len: plan.small() }).collect();
        found.add(self.name(), "trim shortest again", lab.trim(&short)?.0 as f64, 0.015);
        lab.idle(SETTLE);
        // Unmaps nothing, so a repetition takes equally long.
        let beside: Vec<Command<'static>> = reads(plan, "beside trim", plan.part(0, 4), plan.small(), 4).collect();
        let (_, others) = lab.trim_beside(&many, &beside)?;
        found.add(self.name(), "reads beside trim many", others.middle_ns(), 0.03);
        let (_, others) = lab.trim_beside(&[all], &beside)?;
        found.add(self.name(), "reads beside trim all", others.middle_ns(), 0.03);
        Ok(())
    }
}
