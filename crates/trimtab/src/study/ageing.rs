//! What months of use do to a modelled drive: file churn at a stated fill under a trim policy, with a look at the drive after each few sessions.
//!
//! A run is made on a drive of the same make but of less capacity, everything else in proportion, so that whole drive-writes take seconds.

use super::modelled::Setup;
use crate::drives::model::{self, Model};
use crate::interrupt;
use crate::runner::recorder::Recorder;
use crate::runner::{End, Header, blocks, files};
use crate::target::volume::VolumeTarget;
use trimtab_core::analysis::steady::{Window, steady_state};
use trimtab_core::data::DataClass;
use trimtab_core::drive::Device as _;
use trimtab_core::drive::spec::{DriveSpec, Medium};
use trimtab_core::op::Payload;
use trimtab_core::policy::{PolicySpec, State};
use trimtab_core::run::{Axis, Better, Field, Metric, Run, Series, TargetKind, Unit, Warning};
use trimtab_core::target::{BlockTarget as _, Clock as _, FileTarget as _, TargetResult};
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::volume::{FileBlocks, Volume, VolumeSpec};
use trimtab_core::workload::churn::{self, Churn};
use trimtab_core::workload::synthetic::{Mix, Pattern, Settings as Random, Synthetic};
use trimtab_core::workload::{FileStep, FileWorkload as _, Limit};

/// Name of the workload in results.
pub const CHURN: &str = "churn";
/// Metric: 4 KiB random writes per second, mean of the last quarter.
pub const RATE_STEADY: &str = "random-write.steady";
/// Metric: the best that was seen.
pub const RATE_MAX: &str = "random-write.max";
/// Metric: the worst that was seen.
pub const RATE_MIN: &str = "random-write.min";
/// Metric: write amplification, mean of the last quarter.
pub const WAF_STEADY: &str = "waf.steady";
/// Metric: erase cycles of each block, on average, for 10^12 bytes that the host writes to a drive of full size.
pub const CYCLES_PER_TB: &str = "erase-cycles.per-tb";
/// Metric: host bytes after which the rate is in steady state by the rule of SNIA; missing if it never was.
pub const STEADY_AFTER: &str = "steady.after";
/// Metric: bytes that the drive was given for each byte that was written to files, metadata, journal and measurements among them.
pub const HOST_AMPLIFICATION: &str = "filesystem.amplification";
/// Metric: share of the drive that it believes to hold data, mean of the last quarter.
pub const MAPPED: &str = "mapped.steady";
/// Series of the rate and of write amplification.
pub const RATE_SERIES: &str = "random-write.rate";
/// Series of write amplification.
pub const WAF_SERIES: &str = "waf";
/// Series of the drive's state begin with this.
pub const STATE_SERIES: &str = "state.";

/// The smallest capacity that a run is made on.
const SIZE_MIN: u64 = 3_000_000_000;
/// It has at least this many superblocks, so that the few that collection works on do not count for much.
const SUPERBLOCKS_MIN: u64 = 160;
/// Sessions that write the drive once.
const SESSIONS_PER_DRIVE_WRITE: u64 = 100;
/// A tenth of the drive is written a day.
const SESSION_EVERY: Nanos = Nanos::from_secs(8640);
/// Sessions between two looks at the drive.
const LOOK_EVERY: u64 = 4;
/// Looks between two measurements of the rate.
const RATE_EVERY: u64 = 5;
/// The file that random writes go to, as a share of the capacity, and the writes of a measurement.
const FILE_SHARE: u64 = 20;
const FILE: &str = "database";
const WRITES: u64 = 32_768;
const WRITE_BYTES: u32 = 4096;
/// Whatever is being discarded or trimmed before a measurement is waited for this long.
const QUIET_MAX: Nanos = Nanos::from_secs(3600);

/// How a drive is aged.
#[derive(Clone, Debug)]
pub struct Ageing {
    /// The drive at its full size, and the filesystem.
    pub setup: Setup,
    /// Share of the filesystem that is in use throughout.
    pub fill: f64,
    /// Contents of the files.
    pub class: DataClass,
    /// How often the drive is written after it has been filled.
    pub drive_writes: f64,
    /// Reads of whole files for 100 changes.
    pub read_percent: u64,
    /// What is special about it, for its settings.
    pub notes: Vec<Field>,
}

/// `spec` at the size that ageing is tried on.
///
/// # Errors
/// A specification that cannot be scaled.
pub fn scaled(spec: &DriveSpec) -> anyhow::Result<DriveSpec> {
    let least = match &spec.medium {
        Medium::Flash(flash) => {
            let raw = flash.geometry.superblock_bytes() * u128::from(SUPERBLOCKS_MIN);
            let per_user = flash.geometry.raw_bytes() as f64 / spec.capacity_bytes.max(1) as f64;
            SIZE_MIN.max((raw as f64 / per_user.max(1.0)) as u64)
        }
        Medium::Disk(_) => SIZE_MIN,
    };
    if least >= spec.capacity_bytes { Ok(spec.clone()) } else { model::sized(spec.clone(), Some(Bytes(least))) }
}

/// What is seen of the drive at one moment.
#[derive(Clone, Debug, Default)]
struct Look {
    written: u64,
    medium: u64,
    erases: u64,
    states: [u64; 4],
    /// 4 KiB random writes per second, if they were tried.
    rate: Option<f64>,
}

const STATES: [(&str, &str); 4] =
    [("now_mapped_bytes", "mapped"), ("now_trimmed_bytes", "trimmed"), ("now_stale_bytes", "stale"), ("now_free_bytes", "free")];

type Target = VolumeTarget<Box<dyn Model>>;

impl Ageing {
    /// At `fill`, with contents of `class`, over so many drive-writes.
    pub const fn new(setup: Setup, fill: f64, class: DataClass, drive_writes: f64) -> Self {
        Self { setup, fill, class, drive_writes, read_percent: 0, notes: Vec::new() }
    }

    /// Ages a new drive under `policy`.
    ///
    /// # Errors
    /// A drive, or a filesystem on it, that cannot be made, or that fails.
    pub fn run(&self, policy: &PolicySpec) -> anyhow::Result<(Run, End)> {
        let spec = scaled(&self.setup.drive.spec)?;
        let capacity = spec.capacity_bytes;
        let mut target = self.target(&spec, policy)?;
        let settings = self.churn(&mut target, capacity);
        let mut fields = settings.fields();
        fields.extend([
            Field::new("fill", format!("{:.0}%", self.fill * 100.0)),
            Field::new("capacity", capacity.to_string()),
            Field::new("drive-writes", self.drive_writes.to_string()),
            Field::new("random-write-file", (capacity / FILE_SHARE).to_string()),
        ]);
        fields.extend(self.notes.clone());
        let mut header = Header::new(CHURN, fields, TargetKind::ModelledVolume, &self.setup.label, policy.name(), self.setup.seed);
        header.policy_settings = policy.settings();
        let mut recorder = Recorder::new(target.now());
        let mut looks = Looks::new(spec.interface.queue_depth.clamp(1, 32), self.class, self.setup.seed);
        let mut workload = Churn::new(settings, self.setup.seed);
        let ended = drive(&mut workload, &mut target, &mut recorder, &mut looks);
        let end = match ended {
            Ok(end) => end,
            Err(_) if interrupt::requested() => End::Interrupted,
            Err(error) => End::Failed(error),
        };
        let now = target.now();
        let mut recorded = recorder.finish(now);
        // A rate per interval of months says nothing.
        recorded.series.clear();
        let mut run = header.into_run(recorded, end == End::Complete);
        looks.describe(&mut run, &self.setup.drive.spec, &spec);
        trims(&mut run, &target);
        looks.filesystem(&mut run);
        super::modelled::describe(&mut run, &self.setup, &target);
        run.environment.retain(|field| field.key != "fs.fill");
        run.environment.push(Field::new("fs.fill", format!("{:.0}%", self.fill * 100.0)));
        run.environment.push(Field::new("drive.aged-size", Bytes(capacity).to_string()));
        Ok((run, end))
    }

    /// A new small drive with a new filesystem and the file for random writes.
    fn target(&self, spec: &DriveSpec, policy: &PolicySpec) -> anyhow::Result<Target> {
        let drive = model::build(spec, self.setup.seed)?;
        let mut volume_spec = self.setup.mounted(policy, drive.supports_trim());
        shrink(&mut volume_spec, spec.capacity_bytes as f64 / self.setup.drive.spec.capacity_bytes.max(1) as f64);
        let volume = Volume::format(drive, volume_spec, Nanos::ZERO)?;
        let mut target = VolumeTarget::new(volume, policy.build(&State::default()));
        target.create(FILE, &Payload::Fill { len: spec.capacity_bytes / FILE_SHARE, class: self.class })?;
        target.sync()?;
        Ok(target)
    }

    fn churn(&self, target: &mut Target, capacity: u64) -> churn::Settings {
        let volume = target.volume();
        let kept_free = (volume.size().as_f64() * (1.0 - self.fill)) as u64;
        let session = capacity / SESSIONS_PER_DRIVE_WRITE;
        churn::Settings {
            live: Bytes(volume.free_space().0.saturating_sub(kept_free)),
            written: Bytes((capacity as f64 * self.drive_writes) as u64),
            class: self.class,
            read_percent: self.read_percent,
            session: Bytes(session),
            session_every: SESSION_EVERY,
            ..churn::Settings::default()
        }
    }
}

/// What of the host goes with the size of the drive goes down with it.
fn shrink(volume: &mut VolumeSpec, factor: f64) {
    let memory = (volume.writeback.memory.as_f64() * factor) as u64;
    volume.writeback.memory = Bytes(memory.clamp(256 << 20, volume.writeback.memory.0.max(256 << 20)));
}

/// Runs the workload, and looks at the drive at the end of every few sessions.
fn drive(workload: &mut Churn, target: &mut Target, recorder: &mut Recorder, looks: &mut Looks) -> TargetResult<End> {
    let mut phase = target.now();
    let mut sessions = 0;
    while let Some(step) = workload.next_step() {
        match step {
            FileStep::Phase(name) => {
                if name == churn::CHURN {
                    // The filling is done, and what it has set off too.
                    let pause = target.now() + Nanos::from_secs(600);
                    target.idle_until(pause);
                    looks.look(target, true)?;
                }
                phase = target.now();
                recorder.begin_phase(name, phase);
            }
            FileStep::NotBefore(offset) => {
                target.idle_until(phase.saturating_add(offset));
                sessions += 1;
                if sessions % LOOK_EVERY == 0 {
                    looks.look(target, sessions % (LOOK_EVERY * RATE_EVERY) == 0)?;
                }
            }
            FileStep::Op(op) => {
                let issued = target.now();
                files::execute(target, &op)?;
                recorder.op(op.kind(), issued, target.now(), op.bytes());
            }
        }
        if interrupt::requested() {
            return Ok(End::Interrupted);
        }
    }
    let pause = target.now() + SESSION_EVERY;
    target.idle_until(pause);
    looks.look(target, true)?;
    Ok(End::Complete)
}

/// What was seen, one look after another.
struct Looks {
    /// The first when it is filled.
    all: Vec<Look>,
    depth: u32,
    class: DataClass,
    seed: u64,
}

impl Looks {
    fn new(depth: u32, class: DataClass, seed: u64) -> Self {
        Self { all: Vec::new(), depth, class, seed }
    }

    fn look(&mut self, target: &mut Target, with_rate: bool) -> TargetResult {
        let rate = if with_rate { Some(self.random_writes(target)?) } else { None };
        let counters = target.volume().drive().counters();
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let (written, medium) = target.volume().drive().written();
        self.all.push(Look { written, medium, erases: count("erases"), states: STATES.map(|(counter, _)| count(counter)), rate });
        Ok(())
    }

    /// 4 KiB direct writes at random places of a file, as many in flight as the drive takes, per second.
    fn random_writes(&self, target: &mut Target) -> TargetResult<f64> {
        let until = target.now() + QUIET_MAX;
        while target.trimming() && target.now() < until {
            let next = target.now() + Nanos::from_secs(1);
            target.idle_until(next);
        }
        let mut file = FileBlocks::open(target.volume_mut(), FILE, self.depth)?;
        let span = file.info().size.0;
        let settings = Random {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(WRITE_BYTES, 1)],
            data: self.class,
            offset: 0,
            span,
            queue_depth: self.depth,
            limit: Limit::Ops(WRITES),
        };
        let Ok(mut writes) = Synthetic::new(settings, self.seed ^ (self.all.len() as u64 + 1)) else { return Ok(0.0) };
        let outcome = blocks::run(&mut writes, &mut file, &mut ());
        if let End::Failed(error) = outcome.end {
            return Err(error);
        }
        let phase = outcome.recorded.phases.first();
        Ok(phase.map_or(0.0, |phase| phase.ops_total() as f64 / phase.took.as_secs_f64().max(1e-9)))
    }

    /// Adds series and figures to a run: over bytes written to the small drive, in bytes of the full-sized one.
    fn describe(&self, run: &mut Run, full: &DriveSpec, small: &DriveSpec) {
        let Some(first) = self.all.first() else { return };
        let scale = full.capacity_bytes as f64 / small.capacity_bytes as f64;
        let at = |look: &Look| ((look.written - first.written) as f64 * scale) as u64;
        let rated: Vec<&Look> = self.all.iter().filter(|look| look.rate.is_some()).collect();
        let series = |name: &str, unit, looks: &[&Look], y: Vec<f64>| Series {
            name: name.to_owned(),
            axis: Axis::BytesWritten,
            x: looks.iter().map(|look| at(look)).collect(),
            unit,
            y,
        };
        let rates: Vec<f64> = rated.iter().filter_map(|look| look.rate).collect();
        run.series.push(series(RATE_SERIES, Unit::OpsPerSecond, &rated, rates.clone()));
        let between: Vec<(&Look, &Look)> =
            self.all.windows(2).map(|pair| (&pair[0], &pair[1])).filter(|(a, b)| b.written > a.written).collect();
        let waf: Vec<f64> = between.iter().map(|(a, b)| (b.medium - a.medium) as f64 / (b.written - a.written) as f64).collect();
        let after: Vec<&Look> = between.iter().map(|(_, b)| *b).collect();
        run.series.push(series(WAF_SERIES, Unit::Ratio, &after, waf));
        for (i, (_, name)) in STATES.iter().enumerate() {
            let all: Vec<&Look> = self.all.iter().collect();
            let values = all.iter().map(|look| look.states[i] as f64 * scale).collect();
            run.series.push(series(&format!("{STATE_SERIES}{name}"), Unit::Bytes, &all, values));
        }
        self.figures(run, &rated, &rates, full, small);
    }

    /// How much more than the contents of files reached the drive during the churn, the random writes not counted.
    fn filesystem(&self, run: &mut Run) {
        let (Some(first), Some(last)) = (self.all.first(), self.all.last()) else { return };
        let files: u64 = run.phases.iter().filter(|phase| phase.name == churn::CHURN).map(|phase| phase.written.0).sum();
        // The first measurement was before the first look.
        let measured = self.all.iter().skip(1).filter(|look| look.rate.is_some()).count() as u64 * WRITES * u64::from(WRITE_BYTES);
        if files > 0 {
            let value = (last.written - first.written).saturating_sub(measured) as f64 / files as f64;
            run.metrics.push(Metric {
                name: HOST_AMPLIFICATION.to_owned(),
                unit: Unit::Ratio,
                better: Better::Lower,
                samples: vec![value],
            });
        }
    }

    fn figures(&self, run: &mut Run, rated: &[&Look], rates: &[f64], full: &DriveSpec, small: &DriveSpec) {
        let mut metric = |name: &str, unit, better, value: f64| {
            run.metrics.push(Metric { name: name.to_owned(), unit, better, samples: vec![value] });
        };
        let quarter = |n: usize| n - n.div_ceil(4).min(n);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        if let (Some(max), Some(min)) = (rates.iter().copied().reduce(f64::max), rates.iter().copied().reduce(f64::min)) {
            metric(RATE_MAX, Unit::OpsPerSecond, Better::Higher, max);
            metric(RATE_MIN, Unit::OpsPerSecond, Better::Higher, min);
            metric(RATE_STEADY, Unit::OpsPerSecond, Better::Higher, mean(&rates[quarter(rates.len())..]));
        }
        let (Some(first), Some(last)) = (self.all.first(), self.all.last()) else { return };
        let from = &self.all[quarter(self.all.len()).min(self.all.len() - 1)];
        let waf = |a: &Look, b: &Look| (b.medium - a.medium) as f64 / (b.written - a.written).max(1) as f64;
        if last.written > from.written {
            metric(WAF_STEADY, Unit::Ratio, Better::Lower, waf(from, last));
            metric("waf", Unit::Ratio, Better::Lower, waf(first, last));
        }
        if let Medium::Flash(flash) = &small.medium {
            if last.written > from.written {
                let erased = (last.erases - from.erases) as f64 * flash.geometry.superblock_bytes() as f64;
                let cycles_per_drive_write =
                    erased / flash.geometry.raw_bytes() as f64 / ((last.written - from.written) as f64 / small.capacity_bytes as f64);
                metric(CYCLES_PER_TB, Unit::Count, Better::Lower, cycles_per_drive_write / (full.capacity_bytes as f64 / 1e12));
            }
            let mapped: Vec<f64> = self.all[quarter(self.all.len())..].iter().map(|look| look.states[0] as f64).collect();
            metric(MAPPED, Unit::Percent, Better::Neither, 100.0 * mean(&mapped) / small.capacity_bytes as f64);
        }
        if let Some(window) = steady(rated, rates) {
            let scale = full.capacity_bytes as f64 / small.capacity_bytes as f64;
            metric(STEADY_AFTER, Unit::Bytes, Better::Neither, (rated[window.first].written - first.written) as f64 * scale);
        } else {
            run.warnings.push(Warning {
                code: "steady-state.not-reached".to_owned(),
                severity: trimtab_core::run::Severity::Note,
                facts: Vec::new(),
                text: "the rate of random writes did not become steady (SNIA PTS: five rounds, range within 20 %, slope within 10 %)"
                    .to_owned(),
            });
        }
    }
}

/// The first steady window of the rate. The drive has been filled before, so that every round counts.
fn steady(rated: &[&Look], rates: &[f64]) -> Option<Window> {
    let bytes: Vec<Bytes> = rated.windows(2).map(|pair| Bytes(pair[1].written - pair[0].written)).collect();
    steady_state(rates, &bytes, Bytes::ZERO).window()
}

/// What was trimmed, how often, and how long that took.
fn trims(run: &mut Run, target: &Target) {
    let log = target.log();
    let traffic = target.volume().counters().traffic;
    let mut metric = |name: &str, unit, better, value: f64| {
        run.metrics.push(Metric { name: name.to_owned(), unit, better, samples: vec![value] });
    };
    metric("trims", Unit::Count, Better::Neither, log.spans.len() as f64);
    metric("trim.seconds", Unit::Seconds, Better::Lower, log.busy.as_secs_f64());
    metric("discard.commands", Unit::Count, Better::Neither, traffic.discards as f64);
    metric("discard.bytes", Unit::Bytes, Better::Neither, traffic.discarded as f64);
}
