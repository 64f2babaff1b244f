//! A study on a modelled drive. Each run gets a new drive, so that all policies start
//! alike.

use super::job::{self, IDLE, Job};
use super::problem::StudyError;
use super::used::FreeExtentLengths;
use super::{light_work, policy, policy_events};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::Device as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model};
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Phase, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunEnd};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::{Clock as _, TargetResult};
use trimtab_sim::volume::SteeredVolume;
use trimtab_sim::volume::{Age, Volume, VolumeSpec, WRITTEN_STEP};

/// Warning code: a policy cannot keep its promise.
pub const BUDGET_MISSED: &str = "policy.budget-missed";
/// Metric: bytes written to the drive, including filesystem metadata.
pub const DEVICE_WRITTEN: &str = "device.written";
/// Environment: capacity of the drive.
const DRIVE_SIZE: &str = "drive.size";
/// Environment: capacity of the smaller drive that represents it in a run.
pub const AGED_SIZE: &str = "drive.aged-size";
/// Longest time to wait for a trim pass.
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
    /// Share of the filesystem in use before a run.
    pub fill: f64,
    /// Content of the files in use.
    pub fill_class: DataClass,
    /// Layout of the used space.
    pub used: FreeExtentLengths,
    /// Seed.
    pub seed: u64,
}

/// The filesystem with `name` on the command line.
pub fn volume_named(name: &str) -> VolumeSpec {
    match name {
        "ext4-2011" => VolumeSpec::ext4_2011(),
        "desktop-2011" => VolumeSpec::desktop_2011(),
        _ => VolumeSpec::ext4(),
    }
}

/// Generation of a filesystem, as named in reports.
pub const fn generation(volume: &VolumeSpec) -> &'static str {
    match (volume.catalogue, volume.journal.converts_after_write) {
        (true, _) => "a synchronous catalogue of 2011",
        (false, true) => "ext4 of Linux 6.18",
        (false, false) => "ext4 of Linux 2.6.39",
    }
}

/// Share of the free space written since its last discard when files are deleted.
fn written_since_trim(spec: &PolicySpec) -> f64 {
    match spec {
        PolicySpec::Online => 0.0,
        PolicySpec::Adaptive(settings) => f64::from(settings.share_percent.min(100)) / 100.0,
        PolicySpec::Idle(settings) => f64::from(settings.share_percent.min(100)) / 100.0,
        // A week of writes at a tenth of the drive per day covers nearly all free space.
        PolicySpec::Batched(_) | PolicySpec::None => 1.0,
    }
}

/// A filesystem in use on a new drive, before it is mounted; identical for all policies.
#[derive(Clone)]
pub struct UsedVolume(Volume<Box<dyn Model>>);

/// Creates the filesystem that a run starts from, or copies an existing one.
pub type VolumeFactory<'a> = dyn FnMut(&Setup) -> Result<UsedVolume, StudyError> + 'a;

impl Setup {
    /// Creates a new drive with a filled filesystem mounted for `spec` with knowledge
    /// `state`.
    ///
    /// # Errors
    /// The drive or the filesystem cannot be created.
    pub fn make(
        &self,
        spec: &PolicySpec,
        state: &PolicyState,
    ) -> Result<SteeredVolume<Box<dyn Model>>, StudyError> {
        Ok(steered(self.filled(self.in_use()?, spec), spec, state))
    }

    /// Creates a new drive with a filled filesystem.
    ///
    /// # Errors
    /// The drive or the filesystem cannot be created.
    pub fn in_use(&self) -> Result<UsedVolume, StudyError> {
        let drive = model::build(&self.drive.spec, self.seed)?;
        let volume_spec = self.mounted(&PolicySpec::None, drive.supports_trim());
        let mut volume = Volume::format(drive, volume_spec, Nanos::ZERO)?;
        if self.fill > 0.0 {
            let age = Age {
                fill: self.fill,
                free_extent: self.used.mean(),
                class: self.fill_class,
                write: true,
                seed: self.seed,
            };
            volume.age_like(&age, self.used.lengths())?;
        }
        Ok(UsedVolume(volume))
    }

    /// The same on a drive of `size`, if one of this design is possible.
    pub fn at_size(&self, size: Option<Bytes>) -> Self {
        let mut setup = self.clone();
        if let Ok(spec) = model::sized(setup.drive.spec.clone(), size) {
            setup.drive.spec = spec;
        }
        setup
    }

    /// All inputs of [`in_use`](Self::in_use) as text.
    pub fn beginning(&self) -> String {
        let Self { drive, label: _, volume, fill, fill_class, used, seed } = self;
        format!("{:?} {volume:?} {fill} {fill_class:?} {used:?} {seed}", drive.spec)
    }

    /// Mounts the filesystem for `spec` and writes to the free space that `spec` has not
    /// discarded.
    fn filled(
        &self,
        UsedVolume(mut volume): UsedVolume,
        spec: &PolicySpec,
    ) -> Volume<Box<dyn Model>> {
        volume.set_discard(self.mounted(spec, volume.drive().supports_trim()).discard);
        if self.fill > 0.0 {
            volume.write_free(written_since_trim(spec), self.fill_class, self.seed);
        }
        volume
    }

    /// True if the drive supports TRIM.
    pub fn trims(&self) -> bool {
        self.drive.spec.flash.trim.supported
    }

    /// The filesystem options for `spec`, on a drive with or without TRIM.
    pub(super) fn mounted(&self, spec: &PolicySpec, trim: bool) -> VolumeSpec {
        let mut volume = self.volume.clone();
        volume.mkfs.discard &= trim;
        if matches!(spec, PolicySpec::Online) { volume.with_online_discard() } else { volume }
    }
}

/// Leaves the filesystem idle for a minute under a policy with prior knowledge `state`.
fn steered(
    mut volume: Volume<Box<dyn Model>>,
    spec: &PolicySpec,
    state: &PolicyState,
) -> SteeredVolume<Box<dyn Model>> {
    let now = volume.now();
    let mut target = SteeredVolume::new(volume, by_hand(spec).build(state), WRITTEN_STEP);
    target.idle_until(now + Nanos::from_secs(60));
    target
}

/// An idle policy's knowledge after trimming this drive once: TRIM costs and piece size.
fn learned(
    volume: Volume<Box<dyn Model>>,
    spec: &PolicySpec,
    observer: &dyn Observer,
) -> PolicyState {
    let mut target = steered(volume, spec, &PolicyState::default());
    target.force();
    idle_until_trimmed(&mut target, observer);
    let all = target.policy().state();
    let of_costs = all.entries.into_iter().filter(|(name, _)| name.starts_with("idle."));
    PolicyState { entries: of_costs.collect() }
}

/// The policy to trigger. A batched trim starts right after the deletion, ignoring
/// schedules.
const fn by_hand(spec: &PolicySpec) -> &PolicySpec {
    if matches!(spec, PolicySpec::Batched(_)) { &PolicySpec::None } else { spec }
}

/// Actions around the phases of a job: counts discards; light work and trims come last.
struct JobEvents<'a> {
    observer: &'a dyn Observer,
    policy: PolicySpec,
    /// Runs only what the verdict needs: rare operations, without waiting for the trim to
    /// end.
    brief: bool,
    met: Vec<Metric>,
    /// The phase of the load that ran on copies of the target.
    beside: Vec<Phase>,
}

impl<'a> JobEvents<'a> {
    const fn new(policy: PolicySpec, brief: bool, observer: &'a dyn Observer) -> Self {
        Self { observer, policy, brief, met: Vec::new(), beside: Vec::new() }
    }

    /// Runs rare operations on copies of the target, so that each load meets the same
    /// trim.
    fn sparse(&mut self, target: &mut SteeredVolume<Box<dyn Model>>) -> TargetResult {
        let mut recorder = Recorder::new(target.now());
        let copy = || {
            let mut copy = target.fork(by_hand(&self.policy).build(&target.policy().state()));
            if self.trims() {
                copy.force();
            }
            copy
        };
        let met = light_work::SPARSE.run_on_copies(copy, &mut recorder, self.observer)?;
        self.met.extend(met.metrics(light_work::SPARSE));
        self.beside = recorder.phases().to_vec();
        Ok(())
    }

    const fn trims(&self) -> bool {
        matches!(
            self.policy,
            PolicySpec::Batched(_) | PolicySpec::Adaptive(_) | PolicySpec::Idle(_)
        )
    }
}

impl Observer for JobEvents<'_> {
    fn stopped(&self) -> bool {
        self.observer.stopped()
    }
}

impl Events<SteeredVolume<Box<dyn Model>>> for JobEvents<'_> {
    fn between(
        &mut self,
        target: &mut SteeredVolume<Box<dyn Model>>,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        policy_events::account(target, recorder);
        if next.is_some() {
            return Ok(());
        }
        self.sparse(target)?;
        if self.brief {
            return Ok(());
        }
        // Starts a trim now to measure its effect, independently of triggers and
        // schedules.
        if self.trims() {
            target.force();
        }
        let met = light_work::BUSY.run(target, recorder, self.observer)?;
        self.met.extend(met.metrics(light_work::BUSY));
        policy_events::account(target, recorder);
        if self.trims() {
            wait_for_a_pass(target, recorder, self.observer);
            policy_events::account(target, recorder);
        }
        Ok(())
    }
}

fn wait_for_a_pass(
    target: &mut SteeredVolume<Box<dyn Model>>,
    recorder: &mut Recorder,
    observer: &dyn Observer,
) {
    recorder.begin_phase(IDLE, target.now());
    idle_until_trimmed(target, observer);
    recorder.end_phase(target.now());
}

fn idle_until_trimmed(target: &mut SteeredVolume<Box<dyn Model>>, observer: &dyn Observer) {
    const STEP: Nanos = Nanos::from_secs(60);
    let started = target.now();
    let mut last = 0;
    while target.now() < started + IDLE_MAX && !observer.stopped() {
        let step = target.now() + STEP;
        target.idle_until(step);
        let now = target.log().sent.count;
        if now > 0 && now == last && !target.trimming() {
            break;
        }
        last = now;
    }
}

fn trim_time(target: &SteeredVolume<Box<dyn Model>>) -> Option<Metric> {
    let log = target.log();
    let seconds = log.busy.as_secs_f64();
    (log.trims > 0)
        .then(|| Metric::single(metrics::TRIM_SECONDS, Unit::Seconds, Better::Lower, seconds))
}

pub(super) fn header(setup: &Setup, job: &Job, policy: &PolicySpec) -> Run {
    let mut header = Run::new(
        job.name(),
        job.settings(),
        TargetKind::ModelledVolume,
        &setup.label,
        policy.name(),
        job.seed(),
    );
    header.policy_settings = policy.settings();
    header
}

/// Runs `job` on a new drive under `policy`. `brief` limits the load to the verdict's
/// needs.
pub(super) fn run(
    setup: &Setup,
    job: &Job,
    policy: &PolicySpec,
    brief: bool,
    beginning: &mut VolumeFactory<'_>,
    observer: &mut dyn Observer,
) -> Result<(Run, RunEnd), StudyError> {
    let volume = setup.filled(beginning(setup)?, policy);
    let state = if matches!(policy, PolicySpec::Idle(_)) {
        learned(volume.clone(), policy, observer)
    } else {
        PolicyState::default()
    };
    let mut target = steered(volume, policy, &state);
    let before = target.volume().counters().traffic;
    let mut around = JobEvents::new(*policy, brief, observer);
    let outcome = job.run(&mut target, &mut around);
    let end = outcome.end;
    let mut run = header(setup, job, policy).into_run(outcome.recorded, end == RunEnd::Complete);
    run.metrics = job::metrics(&run.phases);
    run.phases.extend(around.beside);
    run.metrics.extend(around.met);
    run.metrics.extend(trim_time(&target));
    let after = target.volume().counters().traffic;
    let written = (after.writes.bytes - before.writes.bytes).as_f64();
    run.metrics.push(Metric::single(DEVICE_WRITTEN, Unit::Bytes, Better::Lower, written));
    describe(&mut run, setup, &target);
    Ok((run, end))
}

/// Adds the environment and counters of the drive and the volume.
pub fn describe(run: &mut Run, setup: &Setup, target: &SteeredVolume<Box<dyn Model>>) {
    run.environment.push(Field::new("drive.model", setup.drive.spec.description.clone()));
    run.environment.push(Field::new("fs.generation", generation(&setup.volume)));
    run.environment
        .push(Field::new(DRIVE_SIZE, Bytes(setup.drive.spec.capacity_bytes).to_string()));
    run.environment.push(Field::new("fs.fill", format!("{:.0}%", setup.fill * 100.0)));
    run.environment.extend(target.volume().spec().fields());
    run.counters.extend(target.volume().drive().counters());
    worn_out::describe(run);
    if let Some(cost) = target.policy().learned() {
        let named = [
            ("policy_trim_command_ns", cost.command),
            ("policy_trim_mib_ns", cost.mib),
            ("policy_trim_error_ns", cost.error),
        ];
        run.counters.extend(named.map(|(name, nanos)| (name.to_owned(), nanos.0)));
    }
    if let Some(text) = target.policy().remark() {
        run.warnings.push(Warning {
            code: BUDGET_MISSED.to_owned(),
            severity: Severity::Caution,
            facts: Vec::new(),
            text,
        });
    }
}

/// Converts the trim passes of a run on the drive of `small` to that of `full`. Online
/// discards depend on the files deleted, not on the capacity.
pub(super) fn convert_to_full_size(
    run: &mut Run,
    policy: &PolicySpec,
    full: &Setup,
    small: &Setup,
) {
    let capacity = |setup: &Setup| setup.drive.spec.capacity_bytes;
    for field in run.environment.iter_mut().filter(|field| field.key == DRIVE_SIZE) {
        field.value = Bytes(capacity(full)).to_string();
    }
    run.environment.push(Field::new(AGED_SIZE, Bytes(capacity(small)).to_string()));
    if matches!(policy, PolicySpec::Online) {
        return;
    }
    let factor = capacity(full) as f64 / capacity(small) as f64;
    let of_passes = [
        metrics::TRIM_SECONDS,
        metrics::DISCARD_COMMANDS,
        metrics::DISCARD_BYTES,
        metrics::DISCARD_AMPLIFICATION,
    ];
    for metric in run.metrics.iter_mut().filter(|metric| of_passes.contains(&metric.name.as_str()))
    {
        for sample in &mut metric.samples {
            *sample *= factor;
            if metric.unit == Unit::Count {
                *sample = libm::round(*sample);
            }
        }
    }
}

/// The policies that a modelled study compares, in table order. The baseline comes first.
///
/// # Errors
/// A policy that cannot be parsed; the message names it.
pub fn policies(wanted: &[String]) -> Result<Vec<PolicySpec>, trimtab_sim::setting::SettingError> {
    let all = PolicySpec::NAMES.map(str::to_owned);
    let wanted: &[String] = if wanted.is_empty() { &all } else { wanted };
    let mut specs: Vec<PolicySpec> =
        wanted.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if !specs.iter().any(|spec| spec.name() == policy::NONE) {
        specs.insert(0, PolicySpec::None);
    }
    specs.sort_by_key(|spec| PolicySpec::NAMES.iter().position(|name| *name == spec.name()));
    specs.dedup_by_key(|spec| spec.name());
    Ok(specs)
}
