//! Ageing: mixed files are written and deleted in rounds, with random writes before,
//! after, and after a trim.

use super::finish::{self, ProgressWatch};
use super::modelled;
use crate::cmd::bench::age::BenchAgeArgs;
use crate::store::recipe;
use crate::store::recipe::starts_now;
use crate::study::real::lock_drives;
use crate::target_spec::TargetSpec;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos, exact};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Device};
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::target::null::{NullBlocks, NullFiles};
use trimtab_linux::trim::fitrim;
use trimtab_sim::op::Payload;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::run::RunRecording;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Phase, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::blocks::{self, Recording};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{RunEnd, RunOutcome, files};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::TrimTarget;
use trimtab_sim::target::{BlockTarget, Clock as _, FileTarget as _};
use trimtab_sim::volume::FileBlocks;
use trimtab_sim::volume::SteeredVolume;
use trimtab_sim::workload::age::{self, Age, AgeSettings};
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings as Blocks};
use trimtab_sim::workload::{BlockPhase, BlockWorkload, FileWorkload as _, Limit, WorkloadPlan};
use trimtab_study::study::modelled::describe;
use trimtab_study::study::policy;
use trimtab_study::study::policy_events::PolicyEvents;

/// Size of a random write.
const BLOCK: u32 = 4096;
/// Size of a write that fills the test file.
const FILL_BLOCK: u32 = 1 << 20;
/// Phase that fills the test file.
const PREPARE: &str = "prepare";
/// Phase of random writes before the first round.
const BEFORE: &str = "random-write-before";
/// Phase of random writes after the last round.
const AFTER: &str = "random-write-after";
/// Phase of the trim.
const TRIM: &str = "trim";
/// Phase of random writes after the trim.
const AFTER_TRIM: &str = "random-write-after-trim";

impl BenchAgeArgs {
    fn workload(&self) -> anyhow::Result<Age> {
        let settings = AgeSettings { total: self.total, rounds: self.rounds, seed: self.seed };
        let blocks = u64::from(FILL_BLOCK);
        if self.test_size.0 < blocks || self.test_size.0 > 1 << 50 {
            return Err(UsageError::new(format!(
                "--test-size is 1 MiB to 1 PiB, not {}",
                self.test_size
            ))
            .into());
        }
        Age::new(settings).map_err(|error| UsageError::new(error.to_string()).into())
    }

    /// Size of the test file in whole blocks.
    fn test_bytes(&self) -> u64 {
        self.test_size.0 - self.test_size.0 % u64::from(FILL_BLOCK)
    }

    /// Bytes of the rounds, of the test file once, and of up to its size in each of three
    /// tests.
    fn plan(&self, rounds: &WorkloadPlan) -> WorkloadPlan {
        let tests = self.test_bytes().saturating_mul(4);
        WorkloadPlan {
            written: rounds.written.saturating_add(Bytes(tests)),
            space: rounds.space.saturating_add(Bytes(self.test_bytes())),
            ops: None,
        }
    }

    fn settings(&self) -> Vec<Field> {
        vec![
            Field::new("total_bytes", self.total.0.to_string()),
            Field::new("rounds", self.rounds.to_string()),
            Field::new("test_bytes", self.test_bytes().to_string()),
            Field::new("test_time", exact(self.test_time)),
            Field::new("queue_depth", self.queue_depth.to_string()),
            Field::new("idle", exact(self.idle)),
        ]
    }
}

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchAgeArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&request.target)?;
    request.model.check(&spec)?;
    let workload = request.workload()?;
    let ((run, end), workspace) = match &spec {
        TargetSpec::Drive(name) => (on_model(request, context, workload, name)?, None),
        TargetSpec::Directory(path) => on_directory(request, context, workload, path)?,
        TargetSpec::Null(_) => (on_null(request, context, workload), None),
        other => {
            return Err(other
                .refused(format!("ageing needs a directory or drive:NAME, but {other} is neither"))
                .into());
        }
    };
    finish::clean_up(workspace, finish::conclude(context, &run, end))
}

/// Collects the parts of the run, in sequence on one clock. After a part that did not
/// complete, no more are run.
struct Parts {
    /// Start of the first part; `None` in virtual time.
    started: Option<Instant>,
    recorded: RunRecording,
    end: RunEnd,
}

impl Parts {
    fn new(started: Option<Instant>) -> Self {
        Self { started, recorded: RunRecording::default(), end: RunEnd::Complete }
    }

    fn add(&mut self, part: impl FnOnce() -> RunOutcome) {
        let now = self
            .started
            .map_or(0, |started| u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.add_at(Nanos(now), part);
    }

    /// Adds a part that begins `offset` after the first one.
    fn add_at(&mut self, offset: Nanos, part: impl FnOnce() -> RunOutcome) {
        if self.end != RunEnd::Complete {
            return;
        }
        let outcome = part();
        self.recorded.append(outcome.recorded, offset);
        self.end = outcome.end;
    }

    fn outcome(self) -> RunOutcome {
        RunOutcome { recorded: self.recorded, end: self.end }
    }
}

fn on_directory(
    request: &BenchAgeArgs,
    context: &Context,
    mut workload: Age,
    path: &Path,
) -> anyhow::Result<((Run, RunEnd), Option<Workspace>)> {
    let plan = request.plan(&workload.plan());
    let (workspace, observer) =
        finish::begin(context, request.safety.reserve, path, "bench age", &plan)?;
    let mut header = starts_now(
        "age",
        request.settings(),
        TargetKind::Directory,
        &request.target,
        policy::AS_MOUNTED,
        request.seed,
    );
    let online = finish::note_discard(&mut header, &observer);
    let (mut blocks, mut files) = open(request, &workspace)?;
    header.settings.push(Field::new("engine", blocks.engine()));
    let (trim_obstacle, _locks) =
        match fitrim::obstacle(observer.place().mount.as_ref(), files.dir())
            .map(|obstacle| obstacle.to_string())
        {
            None => lock_drives(path).map_or_else(
                |error| (Some(format!("{error:#}")), None),
                |locks| (None, Some(locks)),
            ),
            obstacle => (obstacle, None),
        };
    let guard = workspace.guard()?;
    let mut parts = Parts::new(Some(Instant::now()));
    parts.add(|| write(context, prepare(request), &mut blocks));
    parts.add(|| write(context, random_writes(request, BEFORE), &mut blocks));
    parts.add(|| {
        let mut watch =
            ProgressWatch::new(context, "filling and deleting", &workload.plan(), Some(guard));
        let mut events = PolicyEvents {
            inner: &mut watch,
            policy: policy::AS_MOUNTED,
            trim_before: false,
            online,
        };
        files::run(&mut workload, &mut files, &mut events)
    });
    parts.add(|| write(context, random_writes(request, AFTER), &mut blocks));
    if trim_obstacle.is_none() {
        parts.add(|| trim(&mut files));
        parts.add(|| write(context, random_writes(request, AFTER_TRIM), &mut blocks));
    }
    let warnings = blocks.warnings().to_vec();
    drop(blocks);
    let (mut run, end) = finish::assemble(header, Some(observer), parts.outcome(), metrics);
    run.warnings.extend(warnings);
    if let Some(obstacle) = trim_obstacle {
        let text = format!("recovery by a trim was not measured: {obstacle}");
        run.warnings.push(Warning::new("trim.not-tried", Severity::Note, text));
    }
    Ok(((run, end), Some(workspace)))
}

fn open(request: &BenchAgeArgs, workspace: &Workspace) -> anyhow::Result<(BlockFile, MountedDir)> {
    let (test_dir, test_path) = workspace.subdirectory("test")?;
    let in_flight =
        (u64::from(request.queue_depth) * u64::from(BLOCK)).max(2 * u64::from(FILL_BLOCK));
    let options = BlockOptions {
        queue_depth_max: request.queue_depth.max(2),
        bytes_in_flight_max: in_flight,
        seed: request.seed,
        ..BlockOptions::default()
    };
    let blocks =
        BlockFile::create(&test_dir, &test_path, TEST_FILE, Bytes(request.test_bytes()), &options)?;
    let (dir, path) = workspace.subdirectory("rounds")?;
    let options = DirOptions { seed: request.seed, write_block: 1 << 20, ..DirOptions::default() };
    Ok((blocks, MountedDir::new(DirTarget::new(dir, &path, options))))
}

/// Name of the test file.
const TEST_FILE: &str = "test-file";

fn on_model(
    request: &BenchAgeArgs,
    context: &Context,
    mut workload: Age,
    name: &str,
) -> anyhow::Result<(Run, RunEnd)> {
    let (setup, policy) = request.model.setup(name, &request.target, request.seed)?;
    let header = modelled::under(
        starts_now(
            "age",
            request.settings(),
            TargetKind::ModelledVolume,
            &request.target,
            policy.name(),
            request.seed,
        ),
        &policy,
    );
    let mut target = setup.make(&policy, &PolicyState::default())?;
    let fits = request.plan(&workload.plan()).space;
    if fits > target.volume().free_space() {
        let free = target.volume().free_space();
        return Err(UsageError::new(format!(
            "a round and the test file need {fits}, but {free} is free on {}",
            request.target
        ))
        .hint("increase --rounds to make each smaller")
        .into());
    }
    target.create(
        TEST_FILE,
        &Payload::Fill { len: request.test_bytes(), class: DataClass::Random },
    )?;
    target.sync()?;
    let started = target.now();
    let mut parts = Parts::new(None);
    parts
        .add_at(Nanos::ZERO, || on_test_file(context, random_writes(request, BEFORE), &mut target));
    parts.add_at(target.now() - started, || {
        let mut watch = ProgressWatch::new(context, "filling and deleting", &workload.plan(), None);
        let online = matches!(policy, PolicySpec::Online);
        let mut events =
            PolicyEvents { inner: &mut watch, policy: policy.name(), trim_before: false, online };
        files::run(&mut workload, &mut target, &mut events)
    });
    parts.add_at(target.now() - started, || {
        on_test_file(context, random_writes(request, AFTER), &mut target)
    });
    if target.volume().drive().supports_trim() {
        parts.add_at(target.now() - started, || trim(&mut target));
        parts.add_at(target.now() - started, || {
            on_test_file(context, random_writes(request, AFTER_TRIM), &mut target)
        });
    }
    let outcome = worn_out::conclude(parts.outcome(), target.volume().drive().as_ref());
    let (mut run, end) = finish::assemble(header, None, outcome, metrics);
    recipe::note_drive(&mut run, &setup.drive);
    describe(&mut run, &setup, &target);
    Ok((run, end))
}

/// Runs a test on the test file of a modelled filesystem. The policy is asked before the
/// test, not during it.
fn on_test_file<D: Device>(
    context: &Context,
    mut test: Test,
    target: &mut SteeredVolume<D>,
) -> RunOutcome {
    let until = target.now() + std::mem::take(&mut test.idle);
    target.idle_until(until);
    let began = target.now();
    match FileBlocks::open(target.volume_mut(), TEST_FILE, test.queue_depth) {
        Ok(mut file) => write(context, test, &mut file),
        Err(error) => {
            RunOutcome { recorded: Recorder::new(began).finish(began), end: RunEnd::Failed(error) }
        }
    }
}

fn on_null(request: &BenchAgeArgs, context: &Context, mut workload: Age) -> (Run, RunEnd) {
    let header = starts_now(
        "age",
        request.settings(),
        TargetKind::Null,
        &request.target,
        policy::AS_MOUNTED,
        request.seed,
    );
    let mut blocks = NullBlocks::new(Bytes(request.test_bytes()));
    let mut parts = Parts::new(Some(Instant::now()));
    parts.add(|| write(context, random_writes(request, BEFORE), &mut blocks));
    parts.add(|| {
        let mut watch = ProgressWatch::new(context, "filling and deleting", &workload.plan(), None);
        files::run(&mut workload, &mut NullFiles::new(), &mut watch)
    });
    parts.add(|| write(context, random_writes(request, AFTER), &mut blocks));
    finish::assemble(header, None, parts.outcome(), metrics)
}

/// Runs a test on the test file.
fn write(context: &Context, mut test: Test, target: &mut dyn BlockTarget) -> RunOutcome {
    let mut watch = ProgressWatch::new(
        context,
        test.name,
        &WorkloadPlan { written: Bytes(test.left), ..WorkloadPlan::default() },
        None,
    );
    blocks::run_dyn(&mut test, target, Recording::Full, &mut watch)
}

/// One trim of the filesystem.
fn trim<T: TrimTarget>(files: &mut T) -> RunOutcome {
    let mut recorder = Recorder::new(files.now());
    let result = trimtab_study::study::policy_events::trim(files, &mut recorder, TRIM);
    let now = files.now();
    let end = result.map_or_else(RunEnd::Failed, |()| RunEnd::Complete);
    RunOutcome { recorded: recorder.finish(now), end }
}

/// Fills the test file, so that random writes overwrite existing blocks.
fn prepare(request: &BenchAgeArgs) -> Test {
    Test::new(
        request,
        PREPARE,
        Pattern::Sequential,
        FILL_BLOCK,
        2,
        Limit::Bytes(Bytes(request.test_bytes())),
    )
}

fn random_writes(request: &BenchAgeArgs, name: &'static str) -> Test {
    Test::new(
        request,
        name,
        Pattern::Uniform,
        BLOCK,
        request.queue_depth,
        Limit::Time(request.test_time),
    )
}

/// Writes of one kind, until their limit or until they have covered the size of the test
/// file.
#[derive(Debug)]
struct Test {
    inner: Synthetic,
    name: &'static str,
    queue_depth: u32,
    idle: Nanos,
    left: u64,
}

impl Test {
    fn new(
        request: &BenchAgeArgs,
        name: &'static str,
        pattern: Pattern,
        block: u32,
        queue_depth: u32,
        limit: Limit,
    ) -> Self {
        let settings = Blocks {
            pattern,
            mix: Mix::default(),
            sizes: vec![(block, 1)],
            data: DataClass::Random,
            offset: 0,
            span: request.test_bytes(),
            queue_depth,
            limit,
        };
        let inner = Synthetic::new(settings, request.seed)
            .expect("a test file has at least one block, and the mix is writes only");
        Self {
            inner,
            name,
            queue_depth,
            idle: if name == PREPARE { Nanos::ZERO } else { request.idle },
            left: request.test_bytes(),
        }
    }
}

impl BlockWorkload for Test {
    fn plan(&self) -> WorkloadPlan {
        self.inner.plan()
    }

    fn next_phase(&mut self) -> Option<BlockPhase> {
        let phase = self.inner.next_phase()?;
        Some(BlockPhase { name: self.name.to_owned(), idle_before: self.idle, ..phase })
    }

    fn next_op(&mut self) -> Option<Command<'static>> {
        if self.left == 0 {
            return None;
        }
        let op = self.inner.next_op()?;
        self.left = self.left.saturating_sub(op.bytes());
        Some(op)
    }
}

/// The figures: random write rates, the share of the first rate that is left, and rates
/// of the rounds.
fn metrics(phases: &[Phase]) -> Vec<Metric> {
    let phase = |name: &str| phases.iter().find(|p| p.name == name && p.took > Nanos::ZERO);
    let rate = |name: &str| phase(name).map(|p| p.written.as_f64() / 1e6 / p.took.as_secs_f64());
    let mut metrics = Vec::new();
    let mut add = |name: &str, unit, better, value: Option<f64>| {
        metrics.extend(value.map(|value| Metric::single(name, unit, better, value)));
    };
    for name in [BEFORE, AFTER, AFTER_TRIM] {
        add(&format!("{name}.rate"), Unit::MegabytesPerSecond, Better::Higher, rate(name));
        let ops = phase(name).map(|p| p.ops_total() as f64 / p.took.as_secs_f64());
        add(&format!("{name}.iops"), Unit::OpsPerSecond, Better::Higher, ops);
    }
    for (name, of) in [("left-after-use", AFTER), ("left-after-trim", AFTER_TRIM)] {
        let share = rate(of).zip(rate(BEFORE)).map(|(now, before)| now / before * 100.0);
        add(name, Unit::Percent, Better::Higher, share);
    }
    add(
        metrics::TRIM_SECONDS,
        Unit::Seconds,
        Better::Lower,
        phase(TRIM).map(|p| p.took.as_secs_f64()),
    );
    metrics.extend(age::metrics(phases));
    metrics
}
