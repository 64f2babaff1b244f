//! A series of rounds until an amount is written. Its results are saved to a file, so that it
//! can continue later.

use super::EarlierRoundsMode;
use crate::store;
use crate::store::recipe::starts_now;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named};
use trimtab_sim::run::{Field, Phase, Run, Series, Severity, TargetKind, Warning};
use trimtab_sim::runner::header::RunHeader;
use trimtab_sim::runner::passes::Passes;
use trimtab_sim::runner::recorder::{Recorder, RunRecording, merge_phases};
use trimtab_sim::runner::{RunEnd, RunOutcome};
use trimtab_sim::target::{TargetError, TargetResult};
use trimtab_sim::workload::crystal::Position;
use trimtab_sim::workload::crystal::figures::{self, CrystalPass};

const SCHEMA: &str = "trimtab.crystal-rounds";
const VERSION: u32 = 1;
/// Largest saved file, in bytes.
const SAVED_BYTES_MAX: u64 = 256 << 20;

/// A series of rounds and its file.
#[derive(Debug)]
pub struct CrystalRounds {
    file: PathBuf,
    header: RunHeader,
    /// Position where this process started.
    resumed: Position,
    /// Bytes written, including earlier processes and preparations.
    written: Bytes,
    /// Passes, including those of earlier processes.
    passes: Passes,
    /// Phases measured by earlier processes.
    earlier: Vec<Phase>,
    earlier_series: Vec<Series>,
    /// End of the earlier processes' time series, in nanoseconds.
    time_before: u64,
}

/// The file's content, in its only version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundsFile {
    schema: String,
    version: u32,
    rounds: u64,
    written: u64,
    passes: Vec<CrystalPass>,
    /// Phases with their histograms, and time series.
    run: Run,
}

impl CrystalRounds {
    /// Starts a new series, or with `--resume` continues the interrupted one.
    pub fn begin(context: &Context, earlier: EarlierRoundsMode, target: &str, seed: u64, settings: &[Field]) -> anyhow::Result<Self> {
        let target_path = std::fs::canonicalize(target).unwrap_or_else(|_| PathBuf::from(target));
        let store = store::path(context)?;
        let file = store.with_file_name(file_name(&target_path, seed, settings));
        let header = starts_now("crystal-rounds", settings.to_vec(), TargetKind::File, target, "as-mounted", seed);
        let new = Self {
            file,
            header,
            resumed: Position::default(),
            written: Bytes::ZERO,
            passes: Passes::default(),
            earlier: Vec::new(),
            earlier_series: Vec::new(),
            time_before: 0,
        };
        let saved = new.load()?;
        match (saved, earlier) {
            (None, EarlierRoundsMode::Resume) => Err(UsageError::new(format!("nothing to resume on {target} with these settings")).into()),
            (None, _) => Ok(new),
            (Some(saved), EarlierRoundsMode::Resume) => new.resume(saved),
            (Some(_), EarlierRoundsMode::Discard) => {
                new.forget()?;
                Ok(new)
            }
            (Some(saved), EarlierRoundsMode::Refuse) => {
                let problem = format!("a series of {} rounds on {target} was stopped after {} written", saved.rounds, Bytes(saved.written));
                Err(UsageError::new(problem).hint("--resume continues it, --restart discards it").into())
            }
        }
    }

    fn resume(self, saved: RoundsFile) -> anyhow::Result<Self> {
        let run = saved.run;
        Ok(Self {
            resumed: Position { rounds: saved.rounds, written: Bytes(saved.written) },
            written: Bytes(saved.written),
            passes: Passes::after(saved.rounds, saved.passes),
            time_before: run.series.iter().filter_map(|s| s.x.last()).copied().max().unwrap_or(0),
            earlier: run.phases,
            earlier_series: run.series,
            ..self
        })
    }

    /// The present position.
    pub fn position(&self) -> Position {
        self.resumed
    }

    /// Records the bytes written by this process; returns the total.
    pub fn note_written(&mut self, now: Bytes) -> Bytes {
        self.written = self.resumed.written.saturating_add(now);
        self.written
    }

    /// Called when a phase may have ended: records its rate over the bytes written, and merges it
    /// with earlier ones of its name.
    pub fn phase_ended(&mut self, recorder: &mut Recorder) {
        let written = self.note_written(recorder.written());
        self.passes.phase_ended(recorder, written);
    }

    /// Called when a round has ended: saves everything, so that at most one round can be lost.
    pub fn round_ended(&mut self, recorder: &Recorder) -> TargetResult {
        self.passes.rounds += 1;
        let written = self.note_written(recorder.written());
        self.save(written, self.merged(recorder.phases().to_vec()), self.earlier_series.clone()).map_err(|error| TargetError {
            action: "keep",
            object: format!("the rounds done so far in {}", self.file.display()),
            reason: format!("{error:#}"),
            errno: None,
        })
    }

    /// Adds the results of earlier processes to those of this one. An interrupted pass is left
    /// out.
    pub fn complete(&self, outcome: &mut RunOutcome) {
        outcome.recorded.phases.truncate(self.passes.seen());
        outcome.recorded.phases = self.merged(std::mem::take(&mut outcome.recorded.phases));
        let later = RunRecording { phases: Vec::new(), series: std::mem::take(&mut outcome.recorded.series) };
        outcome.recorded.series = self.earlier_series.clone();
        outcome.recorded.append(later, Nanos(self.time_before));
    }

    fn merged(&self, phases: Vec<Phase>) -> Vec<Phase> {
        let mut all = self.earlier.clone();
        for phase in phases {
            match all.iter_mut().find(|p| p.name == phase.name) {
                Some(earlier) => merge_phases(earlier, phase),
                None => all.push(phase),
            }
        }
        all
    }

    /// Adds maximum, steady level and knees to the run. The file of a complete series is removed,
    /// that of an interrupted one stays.
    pub fn describe(self, context: &Context, run: &mut Run, end: &RunEnd, steady_size: Bytes) -> anyhow::Result<()> {
        let written = self.written;
        if *end == RunEnd::Complete {
            self.forget()?;
        } else {
            self.save(written, run.phases.clone(), run.series.clone())?;
            context.remark(&format!(
                "interrupted after {} rounds and {written} written; run the same command with --resume to continue",
                self.passes.rounds
            ));
        }
        let trends = figures::trends(&self.passes.passes, steady_size);
        for trend in &trends {
            run.metrics.extend(trend.metrics());
        }
        run.series.extend(figures::series(&self.passes.passes));
        run.counters.push(("rounds".to_owned(), self.passes.rounds));
        run.counters.push(("written.bytes".to_owned(), written.0));
        if trends.iter().all(|trend| trend.steady.window().is_none()) {
            run.warnings.push(Warning {
                code: "steady-state.not-reached".to_owned(),
                severity: Severity::Note,
                facts: vec![Field::new("written-bytes", written.0.to_string()), Field::new("needed-bytes", steady_size.0.to_string())],
                text: format!(
                    "no test became steady (SNIA PTS: five rounds, range within 20 %, slope within 10 %, after {steady_size} written and after the last knee); write more"
                ),
            });
        }
        Ok(())
    }

    fn load(&self) -> anyhow::Result<Option<RoundsFile>> {
        let text = match named::read(&self.file, SAVED_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.file.display())),
        };
        let unusable = || format!("{} is not a valid series of rounds; move it away to start over", self.file.display());
        let saved: RoundsFile = serde_json::from_slice(&text).with_context(unusable)?;
        anyhow::ensure!(saved.schema == SCHEMA && saved.version == VERSION, unusable());
        Ok(Some(saved))
    }

    fn save(&self, written: Bytes, phases: Vec<Phase>, series: Vec<Series>) -> anyhow::Result<()> {
        let mut run = self.header.clone().into_run(RunRecording { phases, series }, false);
        run.settings.push(Field::new("target", run.target_label.clone()));
        let saved = RoundsFile {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            rounds: self.passes.rounds,
            written: written.0,
            passes: self.passes.passes.clone(),
            run,
        };
        let directory = self.file.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_vec(&saved)?;
        let directory = Dir::open_or_make(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        directory
            .write_atomically(self.name(), PRIVATE_FILE, |file| file.write_all(&text))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    fn forget(&self) -> anyhow::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        match Dir::open(directory).and_then(|directory| directory.remove_ours(self.name())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file.display()))
            }
            _ => Ok(()),
        }
    }

    fn name(&self) -> &std::ffi::OsStr {
        self.file.file_name().unwrap_or_default()
    }
}

/// One file per target and settings. The amount to write is not among them, because it may be
/// raised.
fn file_name(target: &Path, seed: u64, settings: &[Field]) -> String {
    let mut text = format!("{}\0{seed}", target.display());
    settings.iter().for_each(|field| text.push_str(&format!("\0{}={}", field.key, field.value)));
    format!("crystal-{:016x}.json", trimtab_drive::rng::derive_seed(0, &text))
}
