//! A study on a modelled drive: a new drive and a new filesystem for each run, so that every policy begins alike.

use super::job::{self, Job};
use super::used::Used;
use super::{Offer, Rig, checkpoint, light_work, policy, policy_events};
use crate::drives::Drive;
use crate::drives::model::{self, Model};
use crate::output::Context;
use crate::output::progress::{Counting, Part, Progress as Bar};
use crate::session::runner::Header;
use crate::sys::interrupt;
use crate::target::volume::VolumeTarget;
use trimtab_core::data::DataClass;
use trimtab_core::drive::Device as _;
use trimtab_core::policy::{PolicySpec, State};
use trimtab_core::run::metrics;
use trimtab_core::run::pictures::LatencyMap;
use trimtab_core::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_core::runner::recorder::{Recorded, Recorder};
use trimtab_core::runner::{End, Events, Progress};
use trimtab_core::target::{Clock as _, TargetResult};
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::volume::{Age, Volume, VolumeSpec};

/// The phase in which a policy is left alone with an idle filesystem until the trim that goes on is done.
pub const IDLE: &str = "idle";
/// Code of the warning that a policy cannot keep what it promises.
pub const BUDGET_MISSED: &str = "policy.budget-missed";
/// Metric: bytes written to the drive, the filesystem's own among them.
pub const DEVICE_WRITTEN: &str = "device.written";
/// The longest that a pass is waited for.
const IDLE_MAX: Nanos = Nanos::from_secs(9 * 86_400);
/// A modelled drive with a modelled filesystem.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The drive.
    pub drive: Drive,
    /// The target as the user named it.
    pub label: String,
    /// The filesystem, without online discard.
    pub volume: VolumeSpec,
    /// Share of the filesystem that is in use before a run.
    pub fill: f64,
    /// What that looks like.
    pub fill_class: DataClass,
    /// What the free space looks like.
    pub used: Used,
    /// Seed.
    pub seed: u64,
}

/// The filesystem called `name` on the command line.
pub fn volume_named(name: &str) -> VolumeSpec {
    match name {
        "ext4-2011" => VolumeSpec::ext4_2011(),
        "desktop-2011" => VolumeSpec::desktop_2011(),
        _ => VolumeSpec::ext4(),
    }
}

/// The generation of a filesystem, as reports name it.
pub const fn generation(volume: &VolumeSpec) -> &'static str {
    match (volume.catalogue, volume.journal.converts_after_write) {
        (true, _) => "a synchronous catalogue of 2011",
        (false, true) => "ext4 of Linux 6.18",
        (false, false) => "ext4 of Linux 2.6.39",
    }
}

/// The share of the free space that was written since the drive was last told that it is free, when files are deleted under a policy.
fn written_since_trim(spec: &PolicySpec) -> f64 {
    match spec {
        PolicySpec::Online => 0.0,
        PolicySpec::Adaptive(settings) => f64::from(settings.share_percent.min(100)) / 100.0,
        PolicySpec::Idle(settings) => f64::from(settings.share_percent.min(100)) / 100.0,
        // Of a week's writes at a tenth of the drive a day hardly any free place is left out.
        PolicySpec::Batched(_) | PolicySpec::None => 1.0,
    }
}

impl Setup {
    /// A new drive with a new filesystem, filled, mounted for `spec`, which knows what `state` says.
    ///
    /// # Errors
    /// A drive or a filesystem that cannot be made.
    pub fn make(&self, spec: &PolicySpec, state: &State) -> anyhow::Result<VolumeTarget<Box<dyn Model>>> {
        let drive = model::build(&self.drive.spec, self.seed)?;
        let volume_spec = self.mounted(spec, drive.supports_trim());
        let mut volume = Volume::format(drive, volume_spec, Nanos::ZERO)?;
        if self.fill > 0.0 {
            let age = Age { fill: self.fill, free_extent: self.used.mean(), class: self.fill_class, write: true, seed: self.seed };
            volume.age_like(&age, self.used.lengths())?;
            volume.write_free(written_since_trim(spec), self.fill_class, self.seed);
        }
        let now = volume.now();
        let mut target = VolumeTarget::new(volume, by_hand(spec).build(state));
        target.idle_until(now + Nanos::from_secs(60));
        Ok(target)
    }

    /// What an idle policy knows of such a drive once it has trimmed it: how dear TRIMs are, and so how large its pieces may be.
    ///
    /// # Errors
    /// A drive or a filesystem that cannot be made.
    fn learned(&self, spec: &PolicySpec) -> anyhow::Result<State> {
        let mut target = self.make(spec, &State::default())?;
        target.force();
        idle_until_trimmed(&mut target);
        let all = target.policy().state();
        let of_costs = all.entries.into_iter().filter(|(name, _)| name.starts_with("idle."));
        Ok(State { entries: of_costs.collect() })
    }

    /// The filesystem as it is mounted for `spec`, on a drive that knows TRIM or does not.
    pub(super) fn mounted(&self, spec: &PolicySpec, trim: bool) -> VolumeSpec {
        let mut volume = self.volume.clone();
        volume.mkfs.discard &= trim;
        if matches!(spec, PolicySpec::Online) { volume.with_online_discard() } else { volume }
    }
}

/// A batched trim is begun by hand after the files are gone, at whatever hour its schedule would have it.
const fn by_hand(spec: &PolicySpec) -> &PolicySpec {
    if matches!(spec, PolicySpec::Batched(_)) { &PolicySpec::None } else { spec }
}

/// Runs jobs on a [`Setup`].
pub struct ModelledRig<'a> {
    context: &'a Context,
    setup: Setup,
    policies: Vec<PolicySpec>,
    /// What the idle policy knows of the drive, once it has been found out.
    learned: Option<State>,
}

impl<'a> ModelledRig<'a> {
    /// A study of `setup` under `policies`.
    pub const fn new(context: &'a Context, setup: Setup, policies: Vec<PolicySpec>) -> Self {
        Self { context, setup, policies, learned: None }
    }

    fn policy(&self, name: &str) -> anyhow::Result<PolicySpec> {
        self.policies
            .iter()
            .find(|policy| policy.name() == name)
            .copied()
            .ok_or_else(|| anyhow::anyhow!("the study has no policy '{name}'"))
    }
}

/// What happens around the phases of a job: counting discards, and after the last the light work and the trims.
struct Around {
    bar: Option<Bar>,
    policy: PolicySpec,
    /// No more than is needed to judge: rare operations, and no waiting for the trim to end.
    brief: bool,
    /// What the loads met, in their order, with their metrics.
    met: Vec<Metric>,
    /// What they met, over time.
    latencies: Vec<LatencyMap>,
    /// The phase of the load that ran on a copy of the target.
    beside: Recorded,
}

impl Around {
    const fn new(bar: Option<Bar>, policy: PolicySpec) -> Self {
        let beside = Recorded { phases: Vec::new(), series: Vec::new() };
        Self { bar, policy, brief: false, met: Vec::new(), latencies: Vec::new(), beside }
    }

    /// Rare operations, on a copy of the target: each load meets the same trim.
    fn sparse(&mut self, target: &VolumeTarget<Box<dyn Model>>) -> TargetResult {
        let mut copy = target.fork(by_hand(&self.policy).build(&target.policy().state()));
        if self.trims() {
            copy.force();
        }
        let mut recorder = Recorder::new(copy.now());
        let met = light_work::SPARSE.run(&mut copy, &mut recorder)?;
        self.met.extend(met.metrics(light_work::SPARSE));
        self.latencies.push(met.over_time.finish(light_work::SPARSE.phase));
        let now = copy.now();
        self.beside = recorder.finish(now);
        Ok(())
    }

    /// Shows which phase begins.
    fn say(&mut self, phase: &str) {
        if let Some(bar) = &mut self.bar {
            bar.phase(phase);
        }
    }

    /// Whether the policy sends trims itself.
    const fn trims(&self) -> bool {
        matches!(self.policy, PolicySpec::Batched(_) | PolicySpec::Adaptive(_) | PolicySpec::Idle(_))
    }
}

impl Events<VolumeTarget<Box<dyn Model>>> for Around {
    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }

    fn progress(&mut self, progress: Progress<'_>) -> TargetResult {
        if let Some(bar) = &mut self.bar {
            bar.run(progress.ops, &progress);
        }
        Ok(())
    }

    fn between(&mut self, target: &mut VolumeTarget<Box<dyn Model>>, recorder: &mut Recorder, next: Option<&str>) -> TargetResult {
        policy_events::account(target, recorder);
        if let Some(name) = next {
            self.say(name);
            return Ok(());
        }
        self.say(light_work::SPARSE.phase);
        self.sparse(target)?;
        if self.brief {
            return Ok(());
        }
        // When a trim would come by itself is for triggers and schedules; what it does to others is seen when it comes now.
        if self.trims() {
            target.force();
        }
        self.say(light_work::BUSY.phase);
        let met = light_work::BUSY.run(target, recorder)?;
        self.met.extend(met.metrics(light_work::BUSY));
        self.latencies.push(met.over_time.finish(light_work::BUSY.phase));
        policy_events::account(target, recorder);
        if self.trims() {
            self.say(IDLE);
            wait_for_a_pass(target, recorder);
            policy_events::account(target, recorder);
        }
        Ok(())
    }
}

/// Leaves the filesystem idle until the policy has trimmed and is at rest again.
fn wait_for_a_pass(target: &mut VolumeTarget<Box<dyn Model>>, recorder: &mut Recorder) {
    recorder.begin_phase(IDLE, target.now());
    idle_until_trimmed(target);
    recorder.end_phase(target.now());
}

fn idle_until_trimmed(target: &mut VolumeTarget<Box<dyn Model>>) {
    const STEP: Nanos = Nanos::from_secs(60);
    let started = target.now();
    let mut last = 0;
    while target.now() < started + IDLE_MAX && !interrupt::requested() {
        let step = target.now() + STEP;
        target.idle_until(step);
        let now = target.log().sent().commands;
        if now > 0 && now == last && !target.trimming() {
            break;
        }
        last = now;
    }
}

/// How long trimming took, if a policy trimmed.
fn trim_time(target: &VolumeTarget<Box<dyn Model>>) -> Option<Metric> {
    let log = target.log();
    (!log.spans.is_empty()).then(|| Metric {
        name: metrics::TRIM_SECONDS.to_owned(),
        unit: Unit::Seconds,
        better: Better::Lower,
        samples: vec![log.busy.as_secs_f64()],
    })
}

impl Rig for ModelledRig<'_> {
    fn offers(&self) -> Vec<Offer> {
        let trim = match &self.setup.drive.spec.medium {
            trimtab_core::drive::spec::Medium::Flash(flash) => flash.trim.supported,
            trimtab_core::drive::spec::Medium::Disk(_) => false,
        };
        let offer = |spec: &PolicySpec| Offer {
            policy: spec.name().to_owned(),
            obstacle: (!trim && !matches!(spec, PolicySpec::None)).then(|| "the drive does not know TRIM".to_owned()),
        };
        self.policies.iter().map(offer).collect()
    }

    fn needs_warm_up(&self) -> bool {
        false
    }

    fn cell(&self, job: &Job, name: &str) -> Option<String> {
        let policy = self.policy(name).ok()?;
        Some(checkpoint::name(header(&self.setup, job, &policy), &format!("{:?}", self.setup)))
    }

    fn run(&mut self, job: &Job, name: &str, part: &Part) -> anyhow::Result<(Run, End)> {
        let spec = self.policy(name)?;
        let drive = self.setup.label.trim_start_matches("drive:");
        // Where this shows a view of its own, that says so already.
        let _underway = (!self.context.progress).then(|| self.context.doing.begin(&format!("{drive}: {} under {name}", job.name())));
        let bar = Bar::part(self.context, part, Counting::Items, job.plan().ops.unwrap_or(0));
        let state = match &self.learned {
            _ if !matches!(spec, PolicySpec::Idle(_)) => State::default(),
            Some(state) => state.clone(),
            None => self.learned.insert(self.setup.learned(&spec)?).clone(),
        };
        run(&self.setup, job, &spec, &state, Some(bar))
    }
}

fn header(setup: &Setup, job: &Job, policy: &PolicySpec) -> Header {
    let mut header = Header::new(job.name(), job.settings(), TargetKind::ModelledVolume, &setup.label, policy.name(), job.seed());
    header.policy_settings = policy.settings();
    header
}

/// Runs `job` on a new drive under `policy`, which knows what `state` says.
///
/// # Errors
/// A drive or a filesystem that cannot be made.
pub fn run(setup: &Setup, job: &Job, policy: &PolicySpec, state: &State, bar: Option<Bar>) -> anyhow::Result<(Run, End)> {
    run_around(setup, job, policy, state, Around::new(bar, *policy))
}

/// The name of the cell that [`run_brief`] makes.
pub fn brief_cell(setup: &Setup, job: &Job, policy: &PolicySpec) -> String {
    checkpoint::name(header(setup, job, policy), &format!("brief {setup:?}"))
}

/// Runs `job` as [`run`] does, with no more beside it than is needed to judge.
///
/// # Errors
/// A drive or a filesystem that cannot be made.
pub fn run_brief(setup: &Setup, job: &Job, policy: &PolicySpec) -> anyhow::Result<(Run, End)> {
    let state = if matches!(policy, PolicySpec::Idle(_)) { setup.learned(policy)? } else { State::default() };
    run_around(setup, job, policy, &state, Around { brief: true, ..Around::new(None, *policy) })
}

fn run_around(setup: &Setup, job: &Job, policy: &PolicySpec, state: &State, mut around: Around) -> anyhow::Result<(Run, End)> {
    let mut target = setup.make(policy, state)?;
    let header = header(setup, job, policy);
    let before = target.volume().counters().traffic;
    let outcome = job.run(&mut target, &mut around);
    let end = outcome.end;
    let mut run = header.into_run(outcome.recorded, end == End::Complete);
    run.started_unix_ms = crate::sys::clock::unix_ms();
    run.metrics = job::metrics(&run.phases);
    run.phases.extend(around.beside.phases);
    run.metrics.extend(around.met);
    run.pictures.latencies = around.latencies;
    run.metrics.extend(trim_time(&target));
    let after = target.volume().counters().traffic;
    let written = (after.written - before.written) as f64;
    run.metrics.push(Metric { name: DEVICE_WRITTEN.to_owned(), unit: Unit::Bytes, better: Better::Lower, samples: vec![written] });
    describe(&mut run, setup, &target);
    Ok((run, end))
}

/// Adds what the drive and the volume are and did.
pub fn describe(run: &mut Run, setup: &Setup, target: &VolumeTarget<Box<dyn Model>>) {
    crate::store::recipe::note_drive(run, &setup.drive);
    run.environment.push(Field::new("drive.model", setup.drive.spec.description.clone()));
    run.environment.push(Field::new("fs.generation", generation(&setup.volume)));
    run.environment.push(Field::new("drive.size", Bytes(setup.drive.spec.capacity_bytes).to_string()));
    run.environment.push(Field::new("fs.fill", format!("{:.0}%", setup.fill * 100.0)));
    run.environment.extend(target.volume().spec().fields());
    run.counters.extend(target.volume().drive().counters());
    if let Some(text) = target.policy().remark() {
        run.warnings.push(Warning { code: BUDGET_MISSED.to_owned(), severity: Severity::Caution, facts: Vec::new(), text });
    }
}

/// The policies that a modelled study compares, in the order of its tables: the one that others are compared with comes first.
///
/// # Errors
/// A policy that cannot be read; the message names it.
pub fn policies(wanted: &[String]) -> Result<Vec<PolicySpec>, trimtab_core::policy::ParsePolicyError> {
    let all = PolicySpec::NAMES.map(str::to_owned);
    let wanted: &[String] = if wanted.is_empty() { &all } else { wanted };
    let mut specs: Vec<PolicySpec> = wanted.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if !specs.iter().any(|spec| spec.name() == policy::NONE) {
        specs.insert(0, PolicySpec::None);
    }
    specs.sort_by_key(|spec| PolicySpec::NAMES.iter().position(|name| *name == spec.name()));
    specs.dedup_by_key(|spec| spec.name());
    Ok(specs)
}
