//! Single writes, each followed by a flush: what the host waits for when it wants to be sure.

use super::{Findings, Lab, Places, Plan, Probe};
use crate::data::DataClass;
use crate::drive::Command;
use crate::target::TargetResult;

/// Pairs.
const PAIRS: usize = 32;

/// Writes and flushes in turn.
pub struct Flush;

impl Probe for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.write_cache.flush_ns", "flash.write_cache.power_loss_protection", "flash.nand.program_ns", "interface.latency_ns"]
    }

    fn run(&self, lab: &mut Lab<'_>, plan: &Plan, found: &mut Findings) -> TargetResult {
        // Whole mapping units, so that nothing has to be read first.
        let (mut writes, mut flushes) = (0, 0);
        for extent in Places::new(plan, "flush", plan.part(8, 16), 64 << 10).take(PAIRS) {
            writes += lab.one(Command::Write(extent, DataClass::Random))?.0;
            flushes += lab.one(Command::Flush)?.0;
        }
        found.add(self.name(), "write 65536 q1", writes as f64 / PAIRS as f64, 0.02);
        found.add(self.name(), "flush", flushes as f64 / PAIRS as f64, 0.02);
        let (mut writes, mut flushes) = (0, 0);
        for extent in Places::new(plan, "flush small", plan.part(8, 16), plan.small()).take(PAIRS) {
            writes += lab.one(Command::Write(extent, DataClass::Random))?.0;
            flushes += lab.one(Command::Flush)?.0;
        }
        found.add(self.name(), "write 4096 q1", writes as f64 / PAIRS as f64, 0.02);
        found.add(self.name(), "flush small", flushes as f64 / PAIRS as f64, 0.03);
        Ok(())
    }
}
