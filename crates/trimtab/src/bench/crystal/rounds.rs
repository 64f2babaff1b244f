//! A series of rounds until an amount is written.

use trimtab_drive::units::Bytes;
use trimtab_sim::run::{Field, Run, Severity, Warning};
use trimtab_sim::runner::RunOutcome;
use trimtab_sim::runner::passes::Passes;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::workload::crystal::figures;

/// A series of rounds.
#[derive(Debug, Default)]
pub struct CrystalRounds {
    /// The passes.
    pub passes: Passes,
    /// Bytes written, including preparations.
    pub written: Bytes,
}

impl CrystalRounds {
    /// Called when a phase may have ended: records its rate over the bytes written, and
    /// merges it with earlier ones of its name.
    pub fn phase_ended(&mut self, recorder: &mut Recorder) {
        self.written = recorder.written();
        self.passes.phase_ended(recorder, self.written);
    }

    /// Leaves out an interrupted pass.
    pub fn complete(&self, outcome: &mut RunOutcome) {
        outcome.recorded.phases.truncate(self.passes.seen());
    }

    /// Adds maximum, steady level and knees to the run.
    pub fn describe(self, run: &mut Run, steady_size: Bytes) {
        let trends = figures::trends(&self.passes.passes, steady_size);
        for trend in &trends {
            run.metrics.extend(trend.metrics());
        }
        run.series.extend(figures::series(&self.passes.passes));
        run.counters.push(("rounds".to_owned(), self.passes.rounds));
        run.counters.push(("written.bytes".to_owned(), self.written.0));
        if trends.iter().all(|trend| trend.steady.window().is_none()) {
            let facts = vec![
                Field::new("written-bytes", self.written.0.to_string()),
                Field::new("needed-bytes", steady_size.0.to_string()),
            ];
            let text = format!(
                "no test became steady (SNIA PTS: five rounds, range within 20 \
                    %, slope within 10 %, after {steady_size} written and after the \
                    last knee); write more"
            );
            let warning = Warning::new("steady-state.not-reached", Severity::Note, text);
            run.warnings.push(warning.with(facts));
        }
    }
}
