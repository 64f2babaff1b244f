//! Sequential writes and reads of zeros, half-compressible and incompressible data. If the
//! link is slower than the flash, write rates do not reveal compression, but compressed data
//! are faster to read from the flash.

use super::{Findings, Probe, ProbePlan, ProbeSession, SETTLE, crossing_reads, sequential};
use alloc::format;
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_sim::target::TargetResult;

const CLASSES: [(DataClass, &str); 3] =
    [(DataClass::Zero, "zeros"), (DataClass::Compressible(50), "half compressible"), (DataClass::Random, "random")];

/// Bytes of a lone read, and number of reads per class.
const READ: u64 = 64 << 10;
const READS: usize = 32;

/// Writes that a compressing controller shrinks, and reads of the result.
pub struct Compression;

impl Probe for Compression {
    fn name(&self) -> &'static str {
        "compression"
    }

    fn identifies(&self) -> &'static [&'static str] {
        &["flash.compression", "flash.compression.stored_permille_min"]
    }

    fn run(&self, lab: &mut ProbeSession<'_>, plan: &ProbePlan, found: &mut Findings) -> TargetResult {
        for (nth, (class, name)) in (0_u64..).zip(CLASSES) {
            let extent = plan.part(8 + 2 * nth, 10 + 2 * nth);
            let stream = lab.stream(4, sequential(extent, class))?;
            let flush = lab.one(Command::Flush)?;
            found.add(self.name(), format!("write {name}"), (stream.took + flush).0 as f64 / extent.len as f64, 0.02);
            lab.idle(SETTLE);
            let read = lab.stream(1, crossing_reads(plan, &format!("read {name}"), extent, READ, READS))?;
            found.add(self.name(), format!("read {name}"), read.middle_ns(), 0.02);
        }
        Ok(())
    }
}
