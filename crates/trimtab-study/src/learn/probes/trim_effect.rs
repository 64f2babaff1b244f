//! Smallest effective TRIM and its alignment, from the faster reads of unmapped space.

use super::{Findings, Probe, ProbePlan, ProbeSession};
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Longest TRIM tried, which is also the space for each trial.
const LONGEST: u64 = 1 << 20;

/// TRIMs of increasing length, and an unaligned one.
pub struct TrimEffect;

impl Probe for TrimEffect {
    fn name(&self) -> &'static str {
        "trim effect"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.trim.bytes_min", "flash.trim.alignment_bytes", "flash.ftl.mapping_unit_bytes"]
    }

    fn is_of_trims(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let (Some(mapped), Some(trimmed)) = (found.ns("read 4096 q1"), found.ns("trimmed read 4096 q1")) else { return Ok(()) };
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
        let look = MappingTest { small: plan.small(), elsewhere: plan.part(0, 4), boundary_ns: libm::sqrt(mapped * trimmed) };
        found.trim_least = look.least(lab, base)?;
        if found.trim_least.is_some() {
            found.trim_granularity = look.granularity(lab, base + LONGEST)?;
        }
        Ok(())
    }
}

struct MappingTest {
    small: u64,
    /// Space that is never trimmed.
    elsewhere: Extent,
    boundary_ns: f64,
}

impl MappingTest {
    fn sizes(&self) -> impl Iterator<Item = u64> {
        core::iter::successors(Some(self.small), |size| Some(size * 2)).take_while(|size| *size <= LONGEST)
    }

    fn is_unmapped(&self, lab: &mut ProbeSession<'_>, offset: u64) -> TargetResult<bool> {
        // A read elsewhere in between prevents read-ahead.
        lab.one(Command::Read(Extent { offset: self.elsewhere.offset + offset % self.elsewhere.len, len: self.small }))?;
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
