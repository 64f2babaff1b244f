//! Probes of TRIM.

use super::{Findings, ProbePlan, ProbeSession, SETTLE, reads};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Bytes of a short range: longer than most drives ignore.
const SHORT: u64 = 64 << 10;

/// TRIM commands with chosen numbers and sizes of ranges, on mapped and unmapped space:
/// cost of a command, a range, a mapped unit and a byte. Also reads during a TRIM, which
/// show whether it blocks other commands.
pub(super) fn cost(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
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
            found.add(format!("trim {name}{again}"), lab.trim(shape)?.0 as f64, 0.015);
        }
    }
    let all = plan.part(8, 16);
    found.add("trim all", lab.trim(&[all])?.0 as f64, 0.015);
    found.add("trim all again", lab.trim(&[all])?.0 as f64, 0.015);
    let short: Vec<Extent> = (0..ranges(256))
        .map(|nth| Extent { offset: all.offset + nth * 2 * plan.small(), len: plan.small() })
        .collect();
    found.add("trim shortest again", lab.trim(&short)?.0 as f64, 0.015);
    lab.idle(SETTLE);
    // Unmaps nothing, so a repetition takes equally long.
    let beside: Vec<Command<'static>> =
        reads(plan, "beside trim", plan.part(0, 4), plan.small(), 4).collect();
    let (_, others) = lab.trim_beside(&many, &beside)?;
    found.add("reads beside trim many", others.middle_ns(), 0.03);
    let (_, others) = lab.trim_beside(&[all], &beside)?;
    found.add("reads beside trim all", others.middle_ns(), 0.03);
    Ok(())
}

/// Reads of the space that [`cost`] trimmed, which do not access the flash: command
/// processor and link times alone.
pub(super) fn trimmed_reads(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let trimmed = plan.part(8, 16);
    for size in [plan.small(), 64 << 10, 512 << 10] {
        let stream = lab.stream(1, reads(plan, &format!("trimmed {size}"), trimmed, size, 32))?;
        found.add(format!("trimmed read {size} q1"), stream.middle_ns(), 0.01);
    }
    let block = u64::from(plan.reported.logical_block_bytes);
    let count = 2048;
    let stream =
        lab.stream(plan.deepest(), reads(plan, "trimmed blocks", trimmed, block, count))?;
    found.add("trimmed read block deep", stream.took.0 as f64 / count as f64, 0.01);
    Ok(())
}

/// Longest TRIM tried, which is also the space for each trial.
const LONGEST: u64 = 1 << 20;

/// TRIMs of increasing length, and an unaligned one: the smallest effective TRIM and its
/// alignment, from the faster reads of unmapped space.
pub(super) fn effect(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let (Some(mapped), Some(trimmed)) =
        (found.ns("read 4096 q1"), found.ns("trimmed read 4096 q1"))
    else {
        return Ok(());
    };
    // Equal times reveal nothing.
    if plan.trims().is_none() || mapped < trimmed * 1.15 {
        return Ok(());
    }
    let space = plan.part(4, 8);
    let base = space.offset.next_multiple_of(LONGEST);
    if base + 2 * LONGEST > space.offset + space.len {
        return Ok(());
    }
    // Geometric mean of both times.
    let look = MappingTest {
        small: plan.small(),
        elsewhere: plan.part(0, 4),
        boundary_ns: libm::sqrt(mapped * trimmed),
    };
    found.trim_least = look.least(lab, base)?;
    if found.trim_least.is_some() {
        found.trim_granularity = look.granularity(lab, base + LONGEST)?;
    }
    Ok(())
}

struct MappingTest {
    small: u64,
    /// Space that is never trimmed.
    elsewhere: Extent,
    boundary_ns: f64,
}

impl MappingTest {
    fn sizes(&self) -> impl Iterator<Item = u64> {
        core::iter::successors(Some(self.small), |size| Some(size * 2))
            .take_while(|size| *size <= LONGEST)
    }

    fn is_unmapped(&self, lab: &mut ProbeSession<'_>, offset: u64) -> TargetResult<bool> {
        // A read elsewhere in between prevents read-ahead.
        lab.one(Command::Read(Extent {
            offset: self.elsewhere.offset + offset % self.elsewhere.len,
            len: self.small,
        }))?;
        let took = lab.one(Command::Read(Extent { offset, len: self.small }))?;
        Ok((took.0 as f64) < self.boundary_ns)
    }

    /// The longest ineffective and the first effective TRIM, growing at one place.
    fn least(&self, lab: &mut ProbeSession<'_>, base: u64) -> TargetResult<Option<(u64, u64)>> {
        let mut in_vain = 0;
        for size in self.sizes() {
            lab.trim(&[Extent { offset: base, len: size }])?;
            if self.is_unmapped(lab, base + size / 2 / self.small * self.small)? {
                return Ok(Some((in_vain, size)));
            }
            in_vain = size;
        }
        Ok(None)
    }

    /// The first effective offset of a TRIM that starts one block late.
    fn granularity(&self, lab: &mut ProbeSession<'_>, base: u64) -> TargetResult<Option<u64>> {
        lab.trim(&[Extent { offset: base + self.small, len: LONGEST - self.small }])?;
        for size in self.sizes().take_while(|size| *size < LONGEST) {
            if self.is_unmapped(lab, base + size)? {
                return Ok(Some(size));
            }
        }
        Ok(None)
    }
}
