//! Sequential writes of incompressible data into an empty cache: cache size and flash rate.

use super::{Findings, Probe, ProbePlan, ProbeSession, sequential};
use alloc::format;
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

/// First piece that is timed; each further one ends at twice the bytes.
const FIRST: u64 = 512 << 10;

/// Writes until the flash rate is reached.
pub struct Burst;

impl Probe for Burst {
    fn name(&self) -> &'static str {
        "burst"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.write_cache.bytes", "flash.nand.program_ns", "flash.slc_cache.program_ns", "interface.rate_bytes_per_s"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        let stream = lab.stream(4, sequential(plan.part(0, 16), DataClass::Random))?;
        let operation = plan.area / stream.completed.len().max(1) as u64;
        let (mut from, mut to) = (0, FIRST);
        while to <= plan.area {
            let done = |bytes: u64| match bytes / operation {
                0 => 0,
                count => stream.completed[count as usize - 1].0,
            };
            let took = done(to).saturating_sub(done(from)) as f64;
            // A rate change within a piece is affected by everything before it.
            let sigma = if to == plan.area { 0.015 } else { 0.04 };
            found.add(self.name(), format!("burst {to}"), took / (to - from) as f64, sigma);
            (from, to) = (to, to * 2);
        }
        let flush = lab.one(Command::Flush)?;
        if plan.reach.flushes {
            found.add(self.name(), "burst flush", flush.0 as f64, plan.reach.of_flush(0.10));
        }
        Ok(())
    }
}

/// Name of the last figure, which shows the flash rate.
#[must_use]
pub fn last(plan: &ProbePlan) -> alloc::string::String {
    format!("burst {}", plan.area)
}
