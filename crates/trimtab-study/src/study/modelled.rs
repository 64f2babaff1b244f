//! A study on a modelled drive: a new drive and a new filesystem for each run, so that every policy begins alike.

use super::job::{self, IDLE, Job};
use super::problem::Problem;
use super::used::Used;
use super::{light_work, policy, policy_events};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::Device as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::Model;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::{PolicySpec, State};
use trimtab_sim::run::metrics;
use trimtab_sim::run::pictures::LatencyMap;
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::{Recorded, Recorder};
use trimtab_sim::runner::{End, Events};
use trimtab_sim::simulate::{Watcher, worn_out};
use trimtab_sim::target::{Clock as _, TargetResult};
use trimtab_sim::volume::Steered;
use trimtab_sim::volume::{Age, Volume, VolumeSpec, WRITTEN_STEP};

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

/// Generations of filesystems, and their kernels.
const GENERATIONS: [(&str, &str); 3] = [
    ("ext4 of Linux 6.18", "Linux 6.18"),
    ("ext4 of Linux 2.6.39", "Linux 2.6.39"),
    ("a synchronous catalogue of 2011", "a synchronous catalogue of 2011"),
];

/// The generation of a filesystem, as reports name it.
pub const fn generation(volume: &VolumeSpec) -> &'static str {
    match (volume.catalogue, volume.journal.converts_after_write) {
        (true, _) => GENERATIONS[2].0,
        (false, true) => GENERATIONS[0].0,
        (false, false) => GENERATIONS[1].0,
    }
}

/// The kernel of a generation.
pub fn kernel(generation: &str) -> Option<&'static str> {
    GENERATIONS.iter().find(|(name, _)| *name == generation).map(|(_, kernel)| *kernel)
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

/// A filesystem in use on a new drive, before it is mounted for a policy: the same for all of them.
#[derive(Clone)]
pub struct InUse(Volume<Box<dyn Model>>);

/// Makes the filesystem that a run begins with, or copies one that is there.
pub type Beginning<'a> = dyn FnMut(&Setup, &mut dyn Watcher) -> Result<InUse, Problem> + 'a;

impl Setup {
    /// A new drive with a new filesystem, filled, mounted for `spec`, which knows what `state` says.
    ///
    /// # Errors
    /// A drive or a filesystem that cannot be made.
    pub fn make(&self, spec: &PolicySpec, state: &State, watcher: &mut dyn Watcher) -> Result<Steered<Box<dyn Model>>, Problem> {
        Ok(steered(self.filled(self.in_use(watcher)?, spec), spec, state))
    }

    /// A new drive with a new filesystem, filled.
    ///
    /// # Errors
    /// A drive or a filesystem that cannot be made.
    pub fn in_use(&self, watcher: &mut dyn Watcher) -> Result<InUse, Problem> {
        let drive = watcher.build(&self.drive.spec, self.seed)?;
        let volume_spec = self.mounted(&PolicySpec::None, drive.supports_trim());
        let mut volume = Volume::format(drive, volume_spec, Nanos::ZERO)?;
        if self.fill > 0.0 {
            let age = Age { fill: self.fill, free_extent: self.used.mean(), class: self.fill_class, write: true, seed: self.seed };
            volume.age_like(&age, self.used.lengths())?;
        }
        Ok(InUse(volume))
    }

    /// All that decides what [`in_use`](Self::in_use) makes.
    pub fn beginning(&self) -> String {
        let Self { drive, label: _, volume, fill, fill_class, used, seed } = self;
        format!("{:?} {volume:?} {fill} {fill_class:?} {used:?} {seed}", drive.spec)
    }

    /// That filesystem as `spec` finds it: mounted for it, and written to where the drive has not been told.
    fn filled(&self, InUse(mut volume): InUse, spec: &PolicySpec) -> Volume<Box<dyn Model>> {
        volume.set_discard(self.mounted(spec, volume.drive().supports_trim()).discard);
        if self.fill > 0.0 {
            volume.write_free(written_since_trim(spec), self.fill_class, self.seed);
        }
        volume
    }

    /// Whether the drive knows TRIM.
    pub fn trims(&self) -> bool {
        self.drive.spec.flash().is_some_and(|flash| flash.trim.supported)
    }

    /// The filesystem as it is mounted for `spec`, on a drive that knows TRIM or does not.
    pub(super) fn mounted(&self, spec: &PolicySpec, trim: bool) -> VolumeSpec {
        let mut volume = self.volume.clone();
        volume.mkfs.discard &= trim;
        if matches!(spec, PolicySpec::Online) { volume.with_online_discard() } else { volume }
    }
}

/// That filesystem, left alone for a minute under a policy which knows what `state` says.
fn steered(mut volume: Volume<Box<dyn Model>>, spec: &PolicySpec, state: &State) -> Steered<Box<dyn Model>> {
    let now = volume.now();
    let mut target = Steered::new(volume, by_hand(spec).build(state), WRITTEN_STEP);
    target.idle_until(now + Nanos::from_secs(60));
    target
}

/// What an idle policy knows of such a drive once it has trimmed it: how dear TRIMs are, and so how large its pieces may be.
fn learned(volume: Volume<Box<dyn Model>>, spec: &PolicySpec, watcher: &dyn Watcher) -> State {
    let mut target = steered(volume, spec, &State::default());
    target.force();
    idle_until_trimmed(&mut target, watcher);
    let all = target.policy().state();
    let of_costs = all.entries.into_iter().filter(|(name, _)| name.starts_with("idle."));
    State { entries: of_costs.collect() }
}

/// A batched trim is begun by hand after the files are gone, at whatever hour its schedule would have it.
const fn by_hand(spec: &PolicySpec) -> &PolicySpec {
    if matches!(spec, PolicySpec::Batched(_)) { &PolicySpec::None } else { spec }
}

/// What happens around the phases of a job: counting discards, and after the last the light work and the trims.
struct Around<'a> {
    watcher: &'a dyn Watcher,
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

impl<'a> Around<'a> {
    const fn new(policy: PolicySpec, brief: bool, watcher: &'a dyn Watcher) -> Self {
        let beside = Recorded { phases: Vec::new(), series: Vec::new() };
        Self { watcher, policy, brief, met: Vec::new(), latencies: Vec::new(), beside }
    }

    /// Rare operations, on a copy of the target: each load meets the same trim.
    fn sparse(&mut self, target: &Steered<Box<dyn Model>>) -> TargetResult {
        let mut copy = target.fork(by_hand(&self.policy).build(&target.policy().state()));
        if self.trims() {
            copy.force();
        }
        let mut recorder = Recorder::new(copy.now());
        let met = light_work::SPARSE.run(&mut copy, &mut recorder, self.watcher)?;
        self.met.extend(met.metrics(light_work::SPARSE));
        self.latencies.push(met.over_time.finish(light_work::SPARSE.phase));
        let now = copy.now();
        self.beside = recorder.finish(now);
        Ok(())
    }

    /// Whether the policy sends trims itself.
    const fn trims(&self) -> bool {
        matches!(self.policy, PolicySpec::Batched(_) | PolicySpec::Adaptive(_) | PolicySpec::Idle(_))
    }
}

impl Events<Steered<Box<dyn Model>>> for Around<'_> {
    fn stopped(&self) -> bool {
        self.watcher.stopped()
    }

    fn between(&mut self, target: &mut Steered<Box<dyn Model>>, recorder: &mut Recorder, next: Option<&str>) -> TargetResult {
        policy_events::account(target, recorder);
        if next.is_some() {
            return Ok(());
        }
        self.sparse(target)?;
        if self.brief {
            return Ok(());
        }
        // When a trim would come by itself is for triggers and schedules; what it does to others is seen when it comes now.
        if self.trims() {
            target.force();
        }
        let met = light_work::BUSY.run(target, recorder, self.watcher)?;
        self.met.extend(met.metrics(light_work::BUSY));
        self.latencies.push(met.over_time.finish(light_work::BUSY.phase));
        policy_events::account(target, recorder);
        if self.trims() {
            wait_for_a_pass(target, recorder, self.watcher);
            policy_events::account(target, recorder);
        }
        Ok(())
    }
}

/// Leaves the filesystem idle until the policy has trimmed and is at rest again.
fn wait_for_a_pass(target: &mut Steered<Box<dyn Model>>, recorder: &mut Recorder, watcher: &dyn Watcher) {
    recorder.begin_phase(IDLE, target.now());
    idle_until_trimmed(target, watcher);
    recorder.end_phase(target.now());
}

fn idle_until_trimmed(target: &mut Steered<Box<dyn Model>>, watcher: &dyn Watcher) {
    const STEP: Nanos = Nanos::from_secs(60);
    let started = target.now();
    let mut last = 0;
    while target.now() < started + IDLE_MAX && !watcher.stopped() {
        let step = target.now() + STEP;
        target.idle_until(step);
        let now = target.log().sent().count;
        if now > 0 && now == last && !target.trimming() {
            break;
        }
        last = now;
    }
}

/// How long trimming took, if a policy trimmed.
fn trim_time(target: &Steered<Box<dyn Model>>) -> Option<Metric> {
    let log = target.log();
    (!log.spans.is_empty()).then(|| Metric {
        name: metrics::TRIM_SECONDS.to_owned(),
        unit: Unit::Seconds,
        better: Better::Lower,
        samples: vec![log.busy.as_secs_f64()],
    })
}

pub(super) fn header(setup: &Setup, job: &Job, policy: &PolicySpec) -> Header {
    let mut header = Header::new(job.name(), job.settings(), TargetKind::ModelledVolume, &setup.label, policy.name(), job.seed());
    header.policy_settings = policy.settings();
    header
}

/// Runs `job` on a new drive under `policy`; `brief` with no more beside it than is needed to judge.
pub(super) fn run(
    setup: &Setup,
    job: &Job,
    policy: &PolicySpec,
    brief: bool,
    beginning: &mut Beginning<'_>,
    watcher: &mut dyn Watcher,
) -> Result<(Run, End), Problem> {
    let volume = setup.filled(beginning(setup, watcher)?, policy);
    let state = if matches!(policy, PolicySpec::Idle(_)) { learned(volume.clone(), policy, watcher) } else { State::default() };
    let mut target = steered(volume, policy, &state);
    let before = target.volume().counters().traffic;
    let mut around = Around::new(*policy, brief, watcher);
    let outcome = job.run(&mut target, &mut around);
    let end = outcome.end;
    let mut run = header(setup, job, policy).into_run(outcome.recorded, end == End::Complete);
    run.metrics = job::metrics(&run.phases);
    run.phases.extend(around.beside.phases);
    run.metrics.extend(around.met);
    run.pictures.latencies = around.latencies;
    run.metrics.extend(trim_time(&target));
    let after = target.volume().counters().traffic;
    let written = (after.writes.bytes - before.writes.bytes).as_f64();
    run.metrics.push(Metric { name: DEVICE_WRITTEN.to_owned(), unit: Unit::Bytes, better: Better::Lower, samples: vec![written] });
    describe(&mut run, setup, &target);
    Ok((run, end))
}

/// Adds what the drive and the volume are and did.
pub fn describe(run: &mut Run, setup: &Setup, target: &Steered<Box<dyn Model>>) {
    run.environment.push(Field::new("drive.model", setup.drive.spec.description.clone()));
    run.environment.push(Field::new("fs.generation", generation(&setup.volume)));
    run.environment.push(Field::new("drive.size", Bytes(setup.drive.spec.capacity_bytes).to_string()));
    run.environment.push(Field::new("fs.fill", format!("{:.0}%", setup.fill * 100.0)));
    run.environment.extend(target.volume().spec().fields());
    run.counters.extend(target.volume().drive().counters());
    worn_out::describe(run);
    if let Some(cost) = target.policy().learned() {
        let named = [("policy_trim_command_ns", cost.command), ("policy_trim_mib_ns", cost.mib), ("policy_trim_error_ns", cost.error)];
        run.counters.extend(named.map(|(name, nanos)| (name.to_owned(), nanos.0)));
    }
    if let Some(text) = target.policy().remark() {
        run.warnings.push(Warning { code: BUDGET_MISSED.to_owned(), severity: Severity::Caution, facts: Vec::new(), text });
    }
}

/// The policies that a modelled study compares, in the order of its tables: the one that others are compared with comes first.
///
/// # Errors
/// A policy that cannot be read; the message names it.
pub fn policies(wanted: &[String]) -> Result<Vec<PolicySpec>, trimtab_sim::policy::ParsePolicyError> {
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
