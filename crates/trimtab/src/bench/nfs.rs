//! An NFS server's operation mix at rising loads.

use super::finish;
use crate::cmd::bench::nfs::BenchNfsArgs;
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress as Bar, ProgressUnit};
use trimtab_linux::session::runner::nfs::{LoadLevel, NfsStreams};
use trimtab_linux::session::safety::{Guard, Workspace};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::data_cost;
use trimtab_sim::run::{Field, Run, Severity, TargetKind, Warning};
use trimtab_sim::runner::{Observer, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::target::{NfsTarget, TargetError, TargetResult};
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::nfs::{self, NfsStream, RequestedLoad};

/// SPECsfs2008 does not count load points above this response time.
const RESPONSE_MAX: Nanos = Nanos::from_millis(20);
/// Above this share of a response time, the tool's own cost is worth a warning.
const OVERHEAD_MAX: f64 = 0.05;
/// A load is not met if less than this share of it was achieved.
const MET: f64 = 0.95;

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchNfsArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let streams = request.make_streams();
    let ((run, end), workspace) = match TargetSpec::resolve(&request.target)? {
        TargetSpec::Directory(path) => on_directory(request, context, streams, &path)?,
        TargetSpec::Null(_) => {
            let epoch = Instant::now();
            let lanes = NfsStreams::new(
                streams.into_iter().map(|stream| (stream, NullFiles::with_epoch(epoch))),
                request.seed,
            );
            let mut sweep = Sweep::new(request, context, None);
            let outcome = sweep.run(lanes)?;
            (sweep.assemble(request.header(TargetKind::Null), None, outcome), None)
        }
        other => {
            return Err(other
                .refused(format!("the NFS workload needs a directory, but {other} is not one"))
                .into());
        }
    };
    finish::clean_up(
        workspace,
        finish::conclude_as(context, &run, end, trimtab_report::nfs::document),
    )
}

fn on_directory(
    request: &BenchNfsArgs,
    context: &Context,
    streams: Vec<NfsStream>,
    path: &Path,
) -> anyhow::Result<((Run, RunEnd), Option<Workspace>)> {
    let size: Bytes = streams.iter().map(NfsStream::size).sum();
    // Twice the initial files: their number and sizes vary.
    let plan = WorkloadPlan {
        written: request.written,
        space: Bytes(size.0.saturating_mul(2)),
        ops: None,
    };
    let (workspace, observer) =
        finish::begin(context, request.safety.reserve, path, "bench nfs", &plan)?;
    let epoch = Instant::now();
    let mut targets = Vec::new();
    let (dir, dir_path) = workspace.subdirectory("run")?;
    for (index, stream) in streams.into_iter().enumerate() {
        let options = DirOptions {
            seed: trimtab_drive::rng::derive_seed(request.seed, &format!("nfs-data-{index}")),
            ..DirOptions::default()
        };
        let dir = dir.try_clone().context("cannot reopen the directory")?;
        targets.push((stream, DirTarget::new(dir, &dir_path, options).with_epoch(epoch)));
    }
    let mut sweep = Sweep::new(request, context, Some(workspace.guard()?));
    let outcome = sweep.run(NfsStreams::new(targets, request.seed))?;
    let (mut run, end) =
        sweep.assemble(request.header(TargetKind::Directory), Some(observer), outcome);
    if end == RunEnd::Complete {
        note_overhead(request, &mut run)?;
    }
    Ok(((run, end), Some(workspace)))
}

/// Records the tool's own cost per response time (on the null target, and for generating
/// data), and warns if it distorts.
fn note_overhead(request: &BenchNfsArgs, run: &mut Run) -> anyhow::Result<()> {
    let stream = NfsStream::new(
        &nfs::NfsSettings { files: 1000, data: request.data, seed: request.seed },
        0,
    );
    let mut lanes = NfsStreams::new([(stream, NullFiles::new())], request.seed);
    let load = LoadLevel {
        name: "overhead".to_owned(),
        rate: None,
        warm_up: Nanos::from_millis(20),
        measure: Nanos::from_millis(100),
    };
    lanes.run(&load, &mut ())?;
    let phases = lanes.finish(RunEnd::Complete).recorded.phases;
    let own = phases.first().map_or(0.0, |phase| nfs::point(phase).0.response)
        + data_cost(request.data) * nfs::written_per_op();
    run.counters.push(("tool.picoseconds-per-op".to_owned(), (own * 1e3) as u64));
    let responses = run
        .metrics
        .iter()
        .filter(|m| m.name.ends_with(".response"))
        .flat_map(|m| m.samples.iter().copied());
    let fastest = responses.fold(f64::INFINITY, f64::min);
    if own > OVERHEAD_MAX * fastest {
        let share = own / fastest * 100.0;
        let text = format!(
            "up to {share:.0} % of the response times is the tool's own cost: \
                {own:.0} ns per operation on average"
        );
        run.warnings.push(Warning::new("tool.overhead", Severity::Caution, text));
    }
    Ok(())
}

impl BenchNfsArgs {
    fn make_streams(&self) -> Vec<NfsStream> {
        // The remainder goes to the first streams, so that all names are used.
        let files =
            |index| self.files / self.streams + u32::from(index < self.files % self.streams);
        let settings =
            |index| nfs::NfsSettings { files: files(index), data: self.data, seed: self.seed };
        (0..self.streams.min(self.files))
            .map(|index| NfsStream::new(&settings(index), index))
            .collect()
    }

    fn header(&self, kind: TargetKind) -> Run {
        let mut settings = vec![
            Field::new("files", self.files.to_string()),
            Field::new("streams", self.streams.min(self.files).to_string()),
            Field::new("points", self.points.to_string()),
            Field::new("seconds", self.seconds.to_string()),
            Field::new("warm-up", self.warm_up.to_string()),
            Field::new("repeats", self.repeats.to_string()),
            Field::new("data", self.data.to_string()),
        ];
        settings.push(Field::new(
            "peak",
            self.peak.map_or_else(|| "from a trial".to_owned(), |peak| peak.to_string()),
        ));
        starts_now("nfs", settings, kind, &self.target, "as-mounted", self.seed)
    }

    /// Average bytes written by all loads together, for a given peak.
    fn estimate(&self, peak: f64) -> Bytes {
        let shares: f64 = (1..=self.points).map(|n| f64::from(n) / f64::from(self.points)).sum();
        let seconds = f64::from(self.seconds) + f64::from(self.warm_up);
        Bytes((shares * peak * seconds * f64::from(self.repeats) * nfs::written_per_op()) as u64)
    }
}

/// All loads, with their watcher.
struct Sweep<'a> {
    request: &'a BenchNfsArgs,
    loads: Vec<RequestedLoad>,
    watch: NfsWatch,
}

impl<'a> Sweep<'a> {
    fn new(request: &'a BenchNfsArgs, context: &Context, guard: Option<Guard>) -> Self {
        let trial = u64::from(request.peak.is_none());
        let phases = 1 + trial + u64::from(request.points) * u64::from(request.repeats);
        let bar = Bar::new(context, "nfs", ProgressUnit::Items, phases);
        // The null target writes nothing.
        let most = if guard.is_some() { request.written } else { Bytes::MAX };
        Self { request, loads: Vec::new(), watch: NfsWatch { bar, guard, most, done: 0 } }
    }

    fn run<T: NfsTarget + Send>(&mut self, mut lanes: NfsStreams<T>) -> anyhow::Result<RunOutcome> {
        let end = match self.all(&mut lanes) {
            Ok(end) => end,
            Err(_) if trimtab_linux::sys::interrupt::requested() => RunEnd::Interrupted,
            Err(error) => match error.downcast::<TargetError>() {
                Ok(error) => RunEnd::Failed(error),
                Err(other) => return Err(other),
            },
        };
        Ok(lanes.finish(end))
    }

    fn all<T: NfsTarget + Send>(&mut self, lanes: &mut NfsStreams<T>) -> anyhow::Result<RunEnd> {
        let mut end = lanes.prepare(&mut self.watch)?;
        let mut peak = self.request.peak;
        if end == RunEnd::Complete && peak.is_none() {
            let (trial_end, rate) = self.load(lanes, "trial", None)?;
            (end, peak) = (trial_end, Some(rate));
        }
        let Some(peak) = peak.filter(|peak| *peak > 0.0 && end == RunEnd::Complete) else {
            return Ok(end);
        };
        let (would, may) = (self.request.estimate(peak), self.watch.most);
        if would > may {
            let hint = "raise --written, or lower --peak, --seconds, --points or --repeats";
            let message = format!(
                "at {peak:.0} operations/s the loads would write about {would}, more \
                    than the {may} that --written allows"
            );
            return Err(UsageError::new(message).hint(hint).into());
        }
        let digits = self.request.points.to_string().len().max(2);
        self.loads = (1..=self.request.points)
            .map(|n| RequestedLoad {
                name: format!("load-{n:0digits$}"),
                rate: peak * f64::from(n) / f64::from(self.request.points),
            })
            .collect();
        for _ in 0..self.request.repeats {
            for load in self.loads.clone() {
                let (end, _) = self.load(lanes, &load.name, Some(load.rate))?;
                if end != RunEnd::Complete {
                    return Ok(end);
                }
            }
        }
        Ok(RunEnd::Complete)
    }

    fn load<T: NfsTarget + Send>(
        &mut self,
        lanes: &mut NfsStreams<T>,
        name: &str,
        rate: Option<f64>,
    ) -> TargetResult<(RunEnd, f64)> {
        self.watch.done += 1;
        let seconds = |n: u32| Nanos::from_secs(n.into());
        let load = LoadLevel {
            name: name.to_owned(),
            rate,
            warm_up: seconds(self.request.warm_up),
            measure: seconds(self.request.seconds),
        };
        lanes.run(&load, &mut self.watch)
    }

    fn assemble(
        self,
        header: Run,
        observer: Option<EnvironmentRecorder>,
        outcome: RunOutcome,
    ) -> (Run, RunEnd) {
        let (mut run, end) =
            finish::assemble(header, observer, outcome, |phases| nfs::metrics(phases, &self.loads));
        run.warnings.push(Warning::new(
            "nfs.emulation",
            Severity::Note,
            "an emulation of SPECsfs2008's operation mix on a local directory, not \
                SPEC's benchmark; not comparable with published SPECsfs results"
                .to_owned(),
        ));
        for load in &self.loads {
            let mean = |what: &str| {
                let name = format!("{}.{what}", load.name);
                let samples = &run.metrics.iter().find(|m| m.name == name)?.samples;
                Some(samples.iter().sum::<f64>() / samples.len() as f64)
            };
            let (rate, response) = (mean("rate"), mean("response"));
            if let Some(rate) = rate.filter(|rate| *rate < MET * load.rate) {
                let text = format!(
                    "{}: {:.0} operations/s were requested and {rate:.0} achieved",
                    load.name, load.rate
                );
                run.warnings.push(Warning::new("nfs.load-not-met", Severity::Note, text));
            }
            if let Some(response) = response.filter(|ns| *ns > RESPONSE_MAX.as_f64()) {
                let text = format!(
                    "{}: the response time of {} is above the {RESPONSE_MAX} that \
                        SPECsfs2008 allows",
                    load.name,
                    Nanos(response as u64)
                );
                run.warnings.push(Warning::new("nfs.slow", Severity::Note, text));
            }
        }
        (run, end)
    }
}

/// Shows progress, and enforces the reserve and the announced amount.
struct NfsWatch {
    bar: Bar,
    guard: Option<Guard>,
    most: Bytes,
    done: u64,
}

impl Observer for NfsWatch {
    fn stopped(&self) -> bool {
        trimtab_linux::sys::interrupt::requested()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.bar.run(self.done, &progress);
        if progress.written > self.most {
            return Err(TargetError {
                action: "write",
                object: "any more".to_owned(),
                reason: format!("the {} that --written allows have been written", self.most),
                errno: None,
            });
        }
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }
}
