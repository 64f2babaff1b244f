//! Months of use on a modelled drive: file churn at a fixed fill level under a trim
//! policy. The drive is inspected after every few sessions.
//!
//! A run uses a smaller drive of the same design and a proportionally shorter time
//! ([`Small`]). The figures apply to the full drive.

use super::modelled::Setup;
use super::problem::StudyError;
use super::random_writes::{FILE, RandomWrites, SustainedFigures};
use super::small::{self, SmallDrive};
use super::used::SESSIONS_PER_DRIVE_WRITE;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use trimtab_drive::Device as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model, TransientRateReason};
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::op::Payload;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::run::metrics;
use trimtab_sim::run::{
    Axis, Better, Field, Metric, Run, Series, Severity, TargetKind, Unit, Warning,
};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Observer, RunEnd};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::SteeredVolume;
use trimtab_sim::volume::{Volume, VolumeSpec, WRITTEN_STEP};
use trimtab_sim::workload::churn::{self, Churn};
use trimtab_sim::workload::{FileStep, FileWorkload as _};

/// Workload name in results.
pub const CHURN: &str = "churn";
/// Metric: 4 KiB random writes per second under sustained load, in steady state as
/// defined by SNIA.
pub const RATE_STEADY: &str = "random-write.steady-state";
/// Metric: write amplification (flash bytes per host byte) during these writes.
pub const RATE_STEADY_WAF: &str = "random-write.steady-state.waf";
/// Metric: percentage of the time of these writes spent on the policy's TRIM commands.
pub const RATE_STEADY_TRIMS: &str = "random-write.steady-state.trim-time";
/// Metric: burst rate of 4 KiB random writes after hours of idle time; mean of last
/// quarter.
pub const BURST: &str = "random-write.burst";
/// Metric: rate of the first burst, on the freshly filled drive.
pub const BURST_FIRST: &str = "random-write.burst.first";
/// Metric: bytes written per burst, scaled to the full drive.
pub const BURST_BYTES: &str = "random-write.burst.bytes";
/// Metric: write amplification of the churn, mean of the last quarter.
pub const WAF_STEADY: &str = "waf.steady";
/// Metric: mean erase cycles per block for 10^12 host bytes, on a drive of full size.
pub const CYCLES_PER_TB: &str = "erase-cycles.per-tb";
/// Metric: bytes written to the drive per byte written to files; includes metadata and
/// the journal.
pub const HOST_AMPLIFICATION: &str = "filesystem.amplification";
/// Metric: share of the drive that is mapped, mean of the last quarter.
pub const MAPPED: &str = "mapped.steady";
/// Metric: percentage of later sessions that began before trimming had finished.
pub const BEHIND: &str = "trim.behind";
/// Metric: time during which a trim of the policy was running, on the drive of full size.
pub const TRIM_TIME: &str = metrics::TRIM_SECONDS;
/// Environment: superblock size of the aged drive as a share of the full-size drive's, if
/// smaller.
pub const SUPERBLOCK_SHARE: &str = "drive.aged-superblock-share";
/// Series of the bursts.
pub const BURST_SERIES: &str = "random-write.burst.rate";
/// Series of write amplification.
pub const WAF_SERIES: &str = metrics::WAF;
/// Prefix of the series of the drive's state.
pub const STATE_SERIES: &str = "state.";

/// Time between sessions, so that a tenth of the full-size drive is written per day.
pub const SESSION_EVERY: Nanos = Nanos::from_secs(8640);
/// Share of the drive that is written per day.
pub const DAILY: f64 = 0.1;
/// Sessions between two inspections of the drive.
const INSPECT_EVERY: u64 = 4;
/// Inspections between two bursts.
const BURST_EVERY: u64 = 5;
/// Size of the random-write file: the capacity divided by this.
const FILE_SHARE: u64 = 20;
/// When sustained random writes are measured, in eighths of the run. Three samples catch
/// policies that trim only occasionally at different phases.
const SUSTAINED_AT: [u64; 3] = [6, 7, 8];

/// An ageing run: drive, filesystem and churn.
#[derive(Clone, Debug)]
pub struct Ageing {
    /// The drive at its full size, and the filesystem.
    pub setup: Setup,
    /// Share of the filesystem that stays in use.
    pub fill: f64,
    /// The churn. Its live and written bytes follow from the other fields.
    pub mix: churn::Settings,
    /// Drive-writes after the drive has been filled.
    pub drive_writes: f64,
    /// Share of the drive that is written per day.
    pub daily: f64,
    /// Capacity of the scaled-down drive.
    pub size: Bytes,
    /// Measures sustained random writes three times near the end instead of once, and
    /// bursts.
    pub thorough: bool,
}

#[derive(Clone, Debug, Default)]
struct Inspection {
    written: u64,
    medium: u64,
    erases: u64,
    states: [u64; 4],
    burst: Option<f64>,
}

const STATES: [(&str, &str); 4] = [
    ("now_mapped_bytes", "mapped"),
    ("now_trimmed_bytes", "trimmed"),
    ("now_stale_bytes", "stale"),
    ("now_free_bytes", "free"),
];

type AgeingTarget = SteeredVolume<Box<dyn Model>>;

impl Ageing {
    /// Churn at `fill` for `drive_writes` drive-writes, a tenth of the drive per day.
    pub fn new(setup: Setup, fill: f64, class: DataClass, drive_writes: f64) -> Self {
        let mix = churn::Settings { class, ..churn::Settings::default() };
        Self { setup, fill, mix, drive_writes, daily: DAILY, size: small::SIZE, thorough: true }
    }

    /// Ages a new drive under `policy`.
    ///
    /// # Errors
    /// The drive or its filesystem cannot be created, or fails.
    pub fn run(
        &self,
        policy: &PolicySpec,
        observer: &mut dyn Observer,
    ) -> Result<(Run, RunEnd), StudyError> {
        let small = SmallDrive::of(&self.setup.drive.spec, self.size)?;
        let faster = small.faster(policy);
        let mut target = self.target(&small, &faster)?;
        let settings = self.churn(&target, &small);
        let mut header = Run::new(
            CHURN,
            self.fields(&settings, &small),
            TargetKind::ModelledVolume,
            &self.setup.label,
            policy.name(),
            self.setup.seed,
        );
        header.policy_settings = policy.settings();
        let mut recorder = Recorder::new(target.now());
        let writes =
            RandomWrites::new(&small, self.mix.class, settings.session, faster, self.setup.seed);
        let sessions = libm::ceil(self.drive_writes * SESSIONS_PER_DRIVE_WRITE as f64) as u64;
        let sustained_at = if self.thorough { SUSTAINED_AT.as_slice() } else { &SUSTAINED_AT[2..] };
        let mut months = Months::new(writes, sessions, sustained_at);
        months.bursts = self.thorough;
        let mut workload = Churn::new(settings, self.setup.seed);
        let end = match months.run(&mut workload, &mut target, &mut recorder, observer) {
            Ok(end) => end,
            Err(_) if observer.stopped() => RunEnd::Interrupted,
            Err(error) => {
                worn_out::concluded(RunEnd::Failed(error), target.volume().drive().as_ref())
            }
        };
        let now = target.now();
        let mut recorded = recorder.finish(now);
        // A rate per interval of months has no meaning.
        recorded.series.clear();
        let mut run = header.into_run(recorded, end == RunEnd::Complete);
        months.describe(&mut run, &self.setup.drive.spec, &small);
        trims(&mut run, &target, small.factor);
        super::modelled::describe(&mut run, &self.setup, &target);
        run.environment.retain(|field| field.key != "fs.fill");
        run.environment.push(Field::new("fs.fill", format!("{:.0}%", self.fill * 100.0)));
        run.environment.push(Field::new(
            super::modelled::AGED_SIZE,
            Bytes(small.spec.capacity_bytes).to_string(),
        ));
        if small.block_share < 1.0 {
            run.environment.push(Field::new(SUPERBLOCK_SHARE, format!("{:.3}", small.block_share)));
        }
        Ok((run, end))
    }

    fn fields(&self, settings: &churn::Settings, small: &SmallDrive) -> Vec<Field> {
        let mut fields = settings.fields();
        // The number of sessions ends the run.
        fields.retain(|field| field.key != "written");
        fields.extend([
            Field::new("fill", format!("{:.0}%", self.fill * 100.0)),
            Field::new("capacity", small.spec.capacity_bytes.to_string()),
            Field::new("scale", format!("{:.3}", small.factor)),
            Field::new("drive-writes", self.drive_writes.to_string()),
            Field::new("drive-writes-a-day", self.daily.to_string()),
            Field::new("random-write-file", (small.spec.capacity_bytes / FILE_SHARE).to_string()),
        ]);
        fields
    }

    fn target(&self, small: &SmallDrive, policy: &PolicySpec) -> Result<AgeingTarget, StudyError> {
        let drive = model::build(&small.spec, self.setup.seed)?;
        let mut volume_spec = self.setup.mounted(policy, drive.supports_trim());
        shrink(&mut volume_spec, small.factor);
        let volume = Volume::format(drive, volume_spec, Nanos::ZERO)?;
        let mut target =
            SteeredVolume::new(volume, policy.build(&PolicyState::default()), WRITTEN_STEP);
        target.create(
            FILE,
            &Payload::Fill { len: small.spec.capacity_bytes / FILE_SHARE, class: self.mix.class },
        )?;
        target.sync()?;
        Ok(target)
    }

    fn churn(&self, target: &AgeingTarget, small: &SmallDrive) -> churn::Settings {
        let volume = target.volume();
        let kept_free = (volume.size().as_f64() * (1.0 - self.fill)) as u64;
        let every = Nanos((SESSION_EVERY.0 as f64 * DAILY / self.daily) as u64);
        churn::Settings {
            live: Bytes(volume.free_space().0.saturating_sub(kept_free)),
            written: Bytes::MAX,
            session: Bytes(small.spec.capacity_bytes / SESSIONS_PER_DRIVE_WRITE),
            session_every: small.sooner(every),
            ..self.mix
        }
    }
}

/// Scales down the host resources that are proportional to the drive's size.
fn shrink(volume: &mut VolumeSpec, factor: f64) {
    const MEMORY_MIN: u64 = 32 << 20;
    let memory = (volume.writeback.memory.as_f64() / factor) as u64;
    volume.writeback.memory =
        Bytes(memory.clamp(MEMORY_MIN, volume.writeback.memory.0.max(MEMORY_MIN)));
}

/// Inspections of the drive over the months.
struct Months {
    writes: RandomWrites,
    sessions: u64,
    /// When sustained random writes are measured, in eighths of the sessions.
    sustained_at: &'static [u64],
    inspections: Vec<Inspection>,
    sustained: Vec<SustainedFigures>,
    /// Measures bursts.
    bursts: bool,
    /// Sessions of the second half, and how many of them began before trimming had
    /// finished.
    counted: (u64, u64),
}

impl Months {
    const fn new(writes: RandomWrites, sessions: u64, sustained_at: &'static [u64]) -> Self {
        let inspections = Vec::new();
        Self {
            writes,
            sessions,
            sustained_at,
            inspections,
            sustained: Vec::new(),
            bursts: false,
            counted: (0, 0),
        }
    }

    fn run(
        &mut self,
        workload: &mut Churn,
        target: &mut AgeingTarget,
        recorder: &mut Recorder,
        observer: &dyn Observer,
    ) -> TargetResult<RunEnd> {
        let mut phase = target.now();
        let mut sessions = 0;
        while let Some(step) = workload.next_step() {
            match step {
                FileStep::Phase(name) => {
                    if name == churn::CHURN {
                        // Lets the background work that the filling triggered finish.
                        let pause = target.now() + Nanos::from_secs(600);
                        target.idle_until(pause);
                        self.inspect(target, true, observer)?;
                    }
                    phase = target.now();
                    recorder.begin_phase(name, phase);
                }
                FileStep::NotBefore(offset) => {
                    target.idle_until(phase.saturating_add(offset));
                    sessions += 1;
                    self.after_session(sessions, target, workload, observer)?;
                    if sessions >= self.sessions {
                        return Ok(RunEnd::Complete);
                    }
                }
                FileStep::Op(op) => {
                    let issued = target.now();
                    target.execute(&op)?;
                    recorder.op(op.kind(), issued, target.now(), op.bytes());
                }
            }
            if observer.stopped() {
                return Ok(RunEnd::Interrupted);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Handles the pause after the given session.
    fn after_session(
        &mut self,
        session: u64,
        target: &AgeingTarget,
        workload: &Churn,
        observer: &dyn Observer,
    ) -> TargetResult {
        if session * 2 > self.sessions {
            self.counted.0 += 1;
            self.counted.1 += u64::from(target.pass_under_way());
        }
        if session.is_multiple_of(INSPECT_EVERY) || session == self.sessions {
            self.inspect(
                target,
                session.is_multiple_of(INSPECT_EVERY * BURST_EVERY) || session == self.sessions,
                observer,
            )?;
        }
        if self.sustained_at.iter().any(|eighths| session == (self.sessions * eighths).div_ceil(8))
            && !observer.stopped()
        {
            self.sustained.push(self.writes.sustained(target, workload, observer)?);
        }
        Ok(())
    }

    fn inspect(
        &mut self,
        target: &AgeingTarget,
        with_burst: bool,
        observer: &dyn Observer,
    ) -> TargetResult {
        let burst = if with_burst && self.bursts {
            Some(self.writes.burst(target, self.inspections.len() as u64, observer)?)
        } else {
            None
        };
        let counters = target.volume().drive().counters();
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let (written, medium) = target.volume().drive().written();
        self.inspections.push(Inspection {
            written,
            medium,
            erases: count("erases"),
            states: STATES.map(|(counter, _)| count(counter)),
            burst,
        });
        Ok(())
    }

    /// Adds series and figures to a run. Series are over bytes written to the small
    /// drive, converted to bytes of the full-size drive.
    fn describe(&self, run: &mut Run, full: &DriveSpec, small: &SmallDrive) {
        let Some(first) = self.inspections.first() else { return };
        let at = |look: &Inspection| ((look.written - first.written) as f64 * small.factor) as u64;
        let series = |name: &str, unit, looks: &[&Inspection], y: Vec<f64>| Series {
            name: name.to_owned(),
            axis: Axis::BytesWritten,
            x: looks.iter().map(|look| at(look)).collect(),
            unit,
            y,
        };
        let burst: Vec<&Inspection> =
            self.inspections.iter().filter(|look| look.burst.is_some()).collect();
        let rates = burst.iter().filter_map(|look| look.burst).collect();
        run.series.push(series(BURST_SERIES, Unit::OpsPerSecond, &burst, rates));
        let between: Vec<(&Inspection, &Inspection)> = self
            .inspections
            .windows(2)
            .map(|pair| (&pair[0], &pair[1]))
            .filter(|(a, b)| b.written > a.written)
            .collect();
        let waf: Vec<f64> = between
            .iter()
            .map(|(a, b)| (b.medium - a.medium) as f64 / (b.written - a.written) as f64)
            .collect();
        let after: Vec<&Inspection> = between.iter().map(|(_, b)| *b).collect();
        run.series.push(series(WAF_SERIES, Unit::Ratio, &after, waf));
        let all: Vec<&Inspection> = self.inspections.iter().collect();
        for (i, (_, name)) in STATES.iter().enumerate() {
            let values = all.iter().map(|look| look.states[i] as f64 * small.factor).collect();
            run.series.push(series(&format!("{STATE_SERIES}{name}"), Unit::Bytes, &all, values));
        }
        self.rates(run, small);
        self.wear(run, full, small);
        self.filesystem(run);
    }

    fn rates(&self, run: &mut Run, small: &SmallDrive) {
        let mut metric = |name: &str, unit, value: f64| {
            run.metrics.push(Metric::single(name, unit, Better::Higher, value))
        };
        let bursts: Vec<f64> = self.inspections.iter().filter_map(|look| look.burst).collect();
        if let Some(first) = bursts.first() {
            metric(BURST_FIRST, Unit::OpsPerSecond, *first);
            metric(BURST, Unit::OpsPerSecond, mean(last_quarter(&bursts)));
            run.metrics.push(Metric::single(
                BURST_BYTES,
                Unit::Bytes,
                Better::Neither,
                self.writes.burst_bytes().as_f64() / small.block_share,
            ));
        }
        if self.sustained.is_empty() {
            return;
        }
        let of = |part: fn(&SustainedFigures) -> f64| {
            mean(&self.sustained.iter().map(part).collect::<Vec<_>>())
        };
        // Averages the time per write, as write amplification averages the work per
        // write.
        run.metrics.push(Metric::single(
            RATE_STEADY,
            Unit::OpsPerSecond,
            Better::Higher,
            1.0 / of(|one| 1.0 / one.rate),
        ));
        run.metrics.push(Metric::single(
            RATE_STEADY_TRIMS,
            Unit::Percent,
            Better::Neither,
            100.0 * of(|one| one.trim_share),
        ));
        run.metrics.push(Metric::single(
            RATE_STEADY_WAF,
            Unit::Ratio,
            Better::Lower,
            of(|one| one.waf),
        ));
        let mut note = |code: &str, text: &str| {
            run.warnings.push(Warning::new(code, Severity::Note, text.to_owned()));
        };
        let later = self.sustained.iter().find_map(|one| one.later);
        if let Some(TransientRateReason::Heat { .. }) = later {
            note(
                "steady-state.warming-up",
                "sustained random writes were measured before thermal throttling: \
                    the drive was still warming up towards its throttling temperature",
            );
        } else if let Some(TransientRateReason::Life { .. }) = later {
            note(
                "steady-state.life-throttle",
                "sustained random writes were measured before the drive throttles to \
                    protect its endurance; a longer load would be throttled",
            );
        } else if self.sustained.iter().any(|one| !one.steady) {
            note(
                "steady-state.not-reached",
                "the rate of sustained random writes did not reach steady state \
                    (SNIA PTS: five rounds, range within 20 %, slope within 10 %, constant \
                    amount of erased flash); the figure is the mean of the last 13 of 25 rounds",
            );
        }
    }

    fn wear(&self, run: &mut Run, full: &DriveSpec, small: &SmallDrive) {
        let (Some(first), Some(last)) = (self.inspections.first(), self.inspections.last()) else {
            return;
        };
        let quarter = last_quarter(&self.inspections);
        let from = &quarter[0];
        if last.written <= from.written {
            return;
        }
        let waf = |a: &Inspection, b: &Inspection| {
            (b.medium - a.medium) as f64 / (b.written - a.written).max(1) as f64
        };
        run.metrics.push(Metric::single(WAF_STEADY, Unit::Ratio, Better::Lower, waf(from, last)));
        run.metrics.push(Metric::single(
            metrics::WAF,
            Unit::Ratio,
            Better::Lower,
            waf(first, last),
        ));
        let flash = &small.spec.flash;
        let capacity = small.spec.capacity_bytes as f64;
        let erased = (last.erases - from.erases) as f64 * flash.geometry.superblock_bytes() as f64;
        let cycles = erased
            / flash.geometry.raw_bytes() as f64
            / ((last.written - from.written) as f64 / capacity);
        run.metrics.push(Metric::single(
            CYCLES_PER_TB,
            Unit::Count,
            Better::Lower,
            cycles / (full.capacity_bytes as f64 / 1e12),
        ));
        let mapped: Vec<f64> = quarter.iter().map(|look| look.states[0] as f64).collect();
        run.metrics.push(Metric::single(
            MAPPED,
            Unit::Percent,
            Better::Neither,
            100.0 * mean(&mapped) / capacity,
        ));
        if self.counted.0 > 0 {
            let share = 100.0 * self.counted.1 as f64 / self.counted.0 as f64;
            run.metrics.push(Metric::single(BEHIND, Unit::Percent, Better::Lower, share));
        }
    }

    /// Adds the filesystem's write overhead during the churn.
    fn filesystem(&self, run: &mut Run) {
        let (Some(first), Some(last)) = (self.inspections.first(), self.inspections.last()) else {
            return;
        };
        let files: u64 = run
            .phases
            .iter()
            .filter(|phase| phase.name == churn::CHURN)
            .map(|phase| phase.written.0)
            .sum();
        if files > 0 {
            run.metrics.push(Metric::single(
                HOST_AMPLIFICATION,
                Unit::Ratio,
                Better::Lower,
                (last.written - first.written) as f64 / files as f64,
            ));
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn last_quarter<T>(all: &[T]) -> &[T] {
    &all[all.len() - all.len().div_ceil(4)..]
}

/// Adds the amount, number and duration of trims, scaled to full size.
fn trims(run: &mut Run, target: &AgeingTarget, factor: f64) {
    let log = target.log();
    let traffic = target.volume().counters().traffic;
    let mut metric = |name: &str, unit, better, value: f64| {
        run.metrics.push(Metric::single(name, unit, better, value))
    };
    metric("trims", Unit::Count, Better::Neither, log.trims as f64);
    metric(TRIM_TIME, Unit::Seconds, Better::Lower, log.busy.as_secs_f64() * factor);
    metric(
        metrics::DISCARD_COMMANDS,
        Unit::Count,
        Better::Neither,
        libm::round(traffic.discards.count as f64 * factor),
    );
    metric(
        metrics::DISCARD_BYTES,
        Unit::Bytes,
        Better::Neither,
        traffic.discards.bytes.as_f64() * factor,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metrics::mean;
    use crate::study::modelled;
    use trimtab_drive::shipped::drive;
    use trimtab_sim::policy::IdleSettings;

    fn setup(name: &str) -> Setup {
        Setup {
            drive: drive(name),
            label: name.to_owned(),
            volume: modelled::volume_named("ext4"),
            fill: 0.6,
            fill_class: DataClass::Random,
            used: crate::study::used::FreeExtentLengths::default(),
            seed: 1,
        }
    }

    const SMALL: u64 = 2_000_000_000;

    fn aged(setup: &Setup, fill: f64, drive_writes: f64, size: u64, policy: &str) -> Run {
        aged_under(&policy.parse().unwrap(), setup, fill, drive_writes, size)
    }

    fn aged_under(
        policy: &PolicySpec,
        setup: &Setup,
        fill: f64,
        drive_writes: f64,
        size: u64,
    ) -> Run {
        let mut ageing = Ageing::new(setup.clone(), fill, DataClass::Random, drive_writes);
        ageing.size = Bytes(size);
        let (run, end) = ageing.run(policy, &mut ()).unwrap();
        assert_eq!(end, RunEnd::Complete);
        run
    }

    fn value(run: &Run, metric: &str) -> f64 {
        mean(run, metric).unwrap_or_else(|| panic!("{metric}"))
    }

    /// Bounds for 4 KiB random writes per second at write amplification `waf`, from the
    /// specification alone: dies, channels, link and command processor. The lower bound
    /// reads relocated units one by one and keeps the die busy while its page register is
    /// filled. The upper bound reads a whole row at once.
    fn nand_arithmetic(spec: &DriveSpec, waf: f64) -> (f64, f64) {
        let flash = &spec.flash;
        let (geometry, nand) = (&flash.geometry, &flash.nand);
        let dies = geometry.dies() as f64;
        let row = geometry.page_bytes as f64 * f64::from(geometry.planes);
        let program = nand.program_ns as f64 / row;
        let transfer = 1e9 / nand.channel_bytes_per_s as f64;
        let erase = nand.erase_ns as f64 / (row * f64::from(geometry.pages_per_block));
        let moved = (waf - 1.0).max(0.0);
        let on_die = |read: f64, transfer: f64| {
            (waf * (program + erase + transfer) + moved * (read + transfer)) / dies
        };
        let on_channel = (waf + moved) * transfer / f64::from(geometry.channels);
        let host = (spec.interface.overhead_of_writes_ns() as f64 / 4096.0)
            .max(1e9 / spec.interface.rate_bytes_per_s as f64);
        let rate = |on_die: f64| 1e9 / (4096.0 * on_die.max(on_channel).max(host));
        let read = nand.read_ns as f64;
        (rate(on_die(read / 4096.0, transfer)), rate(on_die(read / row, 0.0)))
    }

    #[test]
    fn random_write_rate_is_flash_rate_over_waf() {
        // Greedy victim selection, other policies, and random victims behind a large
        // cache.
        for (name, policies) in [
            ("ocz-vertex-le-100gb", ["none", "online"].as_slice()),
            ("intel-320-300gb", &["none", "online"]),
            ("corsair-p128", &["none"]),
        ] {
            for policy in policies {
                // Excludes the cost of TRIM.
                let mut setup = setup(name);
                let flash = &mut setup.drive.spec.flash;
                let free = trimtab_drive::spec::Trim {
                    command_ns: 0,
                    range_ns: 0,
                    unit_ns: 0,
                    gb_ns: 0,
                    ..flash.trim.clone()
                };
                flash.trim = free;
                let run = aged(&setup, 0.9, 1.0, SMALL, policy);
                let small = SmallDrive::of(&setup.drive.spec, Bytes(SMALL)).unwrap();
                let (rate, waf) = (value(&run, RATE_STEADY), value(&run, RATE_STEADY_WAF));
                let (least, most) = nand_arithmetic(&small.spec, waf);
                assert!(
                    rate > least * 0.9 && rate < most * 1.1,
                    "{name} {policy}: {rate:.0} of {least:.0} to {most:.0}, WAF {waf:.2}"
                );
            }
        }
    }

    #[test]
    fn headline_of_churn_is_its_steady_rate() {
        let mut ageing = Ageing::new(setup("ocz-vertex-le-100gb"), 0.6, DataClass::Random, 0.2);
        ageing.size = Bytes(1_000_000_000);
        let (run, end) = ageing.run(&"none".parse().unwrap(), &mut ()).unwrap();
        assert_eq!(end, RunEnd::Complete);
        assert_eq!(
            trimtab_sim::run::shown::headline(run.metrics).map(|metric| metric.name).as_deref(),
            Some(RATE_STEADY)
        );
    }

    #[test]
    fn smaller_superblocks_are_noted_in_the_run() {
        for (name, share) in [("ocz-vertex-le-100gb", None), ("crucial-m4-128gb", Some("0.199"))] {
            let mut ageing = Ageing::new(setup(name), 0.6, DataClass::Random, 0.1);
            ageing.size = Bytes(SMALL);
            let (run, _) = ageing.run(&"none".parse().unwrap(), &mut ()).unwrap();
            // 51 of 256 pages remain: 2 GB in 160 superblocks.
            assert_eq!(Field::find(&run.environment, SUPERBLOCK_SHARE), share, "{name}");
        }
    }

    #[test]
    fn scaled_metrics_agree_at_three_drive_sizes() {
        // Trim commands, bytes and time, wear and write amplification, at full size.
        let mut setup = setup("ocz-vertex-le-100gb");
        let flash = &mut setup.drive.spec.flash;
        flash.trim.command_ns = 148_000_000;
        let named = |policy: &str| policy.parse::<PolicySpec>().unwrap();
        let unlimited =
            PolicySpec::Idle(IdleSettings { met_per_mille: 0, ..IdleSettings::default() });
        for (policy, what) in [
            (named("online"), ["discard.commands", CYCLES_PER_TB, MAPPED].as_slice()),
            (
                named("batched:every=48h"),
                &["discard.commands", "discard.bytes", TRIM_TIME, CYCLES_PER_TB, MAPPED],
            ),
            // One pass takes seven hours and is due sooner: unfinished at every size.
            (
                unlimited,
                &["discard.commands", "discard.bytes", TRIM_TIME, CYCLES_PER_TB, MAPPED, BEHIND],
            ),
            (
                named("idle"),
                &["discard.commands", "discard.bytes", TRIM_TIME, CYCLES_PER_TB, MAPPED],
            ),
        ] {
            let runs: Vec<Run> = [500_000_000, 1_000_000_000, 2_000_000_000]
                .map(|size| aged_under(&policy, &setup, 0.9, 1.0, size))
                .into();
            for metric in what {
                let values: Vec<f64> = runs.iter().map(|run| value(run, metric)).collect();
                let (low, high) = values.iter().fold((f64::MAX, 0.0_f64), |(low, high), value| {
                    (low.min(*value), high.max(*value))
                });
                assert!(low > 0.0 && high <= low * 1.35, "{policy} {metric}: {values:?}");
            }
        }
    }
}
