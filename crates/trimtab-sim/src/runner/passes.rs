//! Collects the passes of a series of rounds.

use super::recorder::Recorder;
use crate::workload::crystal::figures::{self, CrystalPass};
use alloc::vec::Vec;
use trimtab_drive::units::Bytes;

/// Passes so far.
#[derive(Debug, Default)]
pub struct Passes {
    /// Rounds done.
    pub rounds: u64,
    /// All passes, in order.
    pub passes: Vec<CrystalPass>,
    /// Phases seen in the recorder.
    seen: usize,
}

impl Passes {
    /// Number of phases processed, merged by name.
    pub const fn seen(&self) -> usize {
        self.seen
    }

    /// Merges a phase that may have ended into its name, and notes its rate.
    pub fn phase_ended(&mut self, recorder: &mut Recorder, written: Bytes) {
        if recorder.phases().len() == self.seen {
            return;
        }
        if let Some(phase) = recorder.phases().last()
            && phase.read.saturating_add(phase.written) > Bytes::ZERO
        {
            self.passes.push(CrystalPass {
                phase: phase.name.clone(),
                round: self.rounds,
                written,
                rate: figures::rate(phase),
            });
        }
        recorder.merge_last_phase();
        self.seen = recorder.phases().len();
    }
}
