//! 4 KiB random writes on an aged drive: the burst rate after idle time, and the
//! sustained rate by SNIA's rule. Both are measured on copies, so that the aged drive is
//! not disturbed.

use super::small::SmallDrive;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{Model, ThrottleState, TransientRateReason};
use trimtab_drive::spec::SlcSize;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::analysis::steady::{ROUNDS, steady_state};
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::runner::Observer;
use trimtab_sim::runner::{RunEnd, blocks};
use trimtab_sim::target::{BlockTarget as _, Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::FileBlocks;
use trimtab_sim::volume::SteeredVolume;
use trimtab_sim::workload::churn::Churn;
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};
use trimtab_sim::workload::{FileStep, FileWorkload as _, Limit};

/// Name of the random-write file.
pub const FILE: &str = "database";
/// Writes per burst on a drive with full-size superblocks: 134 MB.
pub const BURST_WRITES: u64 = 32_768;
const WRITES_MIN: u64 = 2048;
const WRITE_BYTES: u32 = 4096;
/// A round writes as many bytes as this many churn sessions. It spans several
/// superblocks, so that the phase of garbage collection matters little.
const ROUND_SESSIONS: u64 = 2;
/// Maximum number of rounds. If the rate is not steady by then, the mean of the later
/// half is used.
const ROUNDS_MAX: usize = 25;
/// Largest change of the erased flash over a window, as a share of the flash writes in
/// it. A larger change would mean that writes consumed or built up a reserve.
const CREDIT_MAX: f64 = 0.05;
/// Preconditioning: this share of the capacity, or this multiple of the largest SLC
/// cache.
const BEFORE_SHARE: f64 = 0.05;
const BEFORE_CACHES: f64 = 1.2;
/// Maximum wait for discards and trims before a burst.
const QUIET_MAX: Nanos = Nanos::from_secs(3600);

type RandomWriteTarget = SteeredVolume<Box<dyn Model>>;

/// Measures random writes on a drive.
#[derive(Debug, Clone)]
pub struct RandomWrites {
    depth: u32,
    class: DataClass,
    seed: u64,
    burst: u64,
    /// Writes per round under load.
    round: u64,
    /// Bytes of churn before the first round.
    before: u64,
    /// Uncounted writes before each round. They fill the drive's buffer and absorb the
    /// discards of the churn. There are at least as many as in a round, so that garbage
    /// collection lags as it does under these writes.
    lead_in: u64,
    /// Seconds per write on the link or the command processor: a lower bound.
    write_seconds_min: f64,
    policy: PolicySpec,
}

/// Figures of sustained random writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SustainedFigures {
    /// Writes per second, mean of the window.
    pub rate: f64,
    /// Write amplification (flash bytes per host byte) during the writes.
    pub waf: f64,
    /// Share of the time spent on the policy's TRIM commands, from 0 to 1.
    pub trim_share: f64,
    /// True if the window satisfies SNIA's rule and the amount of erased flash stayed
    /// constant.
    pub steady: bool,
    /// Cause of a throttling that a longer load would meet, but the window did not.
    pub later: Option<TransientRateReason>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Measurement {
    writes: u64,
    seconds: f64,
    /// Time of the writes on the link or the command processor.
    seconds_min: f64,
    /// Increase of the flash's pending work during the measurement, minus the pending
    /// work done between the writes and now. Writes, collection and erasure are counted
    /// when they are scheduled; this adds the time to complete them.
    owed_seconds: f64,
    host: u64,
    medium: u64,
    /// Erased bytes before and after the measurement.
    free: (u64, u64),
    trim_seconds: f64,
    later: Option<TransientRateReason>,
}

impl Measurement {
    fn observed_rate(&self) -> f64 {
        self.writes as f64 / self.seconds.max(1e-9)
    }

    fn all_seconds(&self) -> f64 {
        (self.seconds + self.owed_seconds).max(self.seconds_min)
    }

    fn rate(&self) -> f64 {
        self.writes as f64 / self.all_seconds().max(1e-9)
    }
}

/// Index of the first of the last five rounds, if they are steady.
fn steady_from(rounds: &[Measurement]) -> Option<usize> {
    let first = rounds.len().checked_sub(ROUNDS)?;
    let last = &rounds[first..];
    let rates: Vec<f64> = last
        .iter()
        .map(|round| if round.later.is_some() { f64::NAN } else { round.rate() })
        .collect();
    // Every round counts because the drive has already been written over.
    steady_state(&rates, &[], Bytes::ZERO, 0).window()?;
    let credit = last.iter().map(|round| round.free.1 as f64 - round.free.0 as f64).sum::<f64>();
    let written = last.iter().map(|round| round.medium as f64).sum::<f64>();
    (credit.abs() <= CREDIT_MAX * written).then_some(first)
}

impl SustainedFigures {
    /// Figures of `window`: all its writes over all its time, for both rate and
    /// amplification.
    fn of(window: &[Measurement], steady: bool) -> Self {
        let sum = |of: fn(&Measurement) -> f64| window.iter().map(of).sum::<f64>();
        let seconds = sum(Measurement::all_seconds);
        Self {
            rate: sum(|round| round.writes as f64) / seconds.max(1e-9),
            waf: sum(|round| round.medium as f64) / sum(|round| round.host as f64).max(1.0),
            trim_share: sum(|round| round.trim_seconds) / seconds.max(1e-9),
            steady,
            later: window.iter().rev().find_map(|round| round.later),
        }
    }
}

impl RandomWrites {
    /// Measures on `small`, with contents of `class` and sessions of `session` bytes.
    pub fn new(
        small: &SmallDrive,
        class: DataClass,
        session: Bytes,
        policy: PolicySpec,
        seed: u64,
    ) -> Self {
        let of_slc = |size: SlcSize| match size {
            SlcSize::Fixed { bytes } => bytes,
            SlcSize::Dynamic { bytes_max, .. } => bytes_max,
        };
        let flash = &small.spec.flash;
        let slc = flash.slc_cache.as_ref().map_or(0, |slc| of_slc(slc.size));
        let buffer = flash.write_cache.bytes;
        let round = (session.0 * ROUND_SESSIONS / u64::from(WRITE_BYTES)).max(WRITES_MIN);
        let interface = &small.spec.interface;
        let write_seconds_min = (interface.overhead_of_writes_ns() as f64 / 1e9)
            .max(f64::from(WRITE_BYTES) / interface.rate_bytes_per_s as f64);
        let before =
            (small.spec.capacity_bytes as f64 * BEFORE_SHARE).max(slc as f64 * BEFORE_CACHES);
        Self {
            depth: interface.queue_depth.clamp(1, 32),
            class,
            seed,
            burst: ((BURST_WRITES as f64 * small.block_share) as u64).max(WRITES_MIN),
            round,
            before: before as u64,
            write_seconds_min,
            lead_in: (buffer / u64::from(WRITE_BYTES) * 2).max(round),
            policy,
        }
    }

    /// Bytes per burst.
    pub const fn burst_bytes(&self) -> Bytes {
        Bytes(self.burst * WRITE_BYTES as u64)
    }

    fn copy(&self, target: &RandomWriteTarget) -> RandomWriteTarget {
        target.fork(self.policy.build(&target.policy().state()))
    }

    /// Writes per second of a burst on a copy of `target`.
    ///
    /// # Errors
    /// The drive fails.
    pub fn burst(
        &self,
        target: &RandomWriteTarget,
        number: u64,
        observer: &dyn Observer,
    ) -> TargetResult<f64> {
        let mut copy = self.copy(target);
        let until = copy.now() + QUIET_MAX;
        while copy.trimming() && copy.now() < until {
            let next = copy.now() + Nanos::from_secs(1);
            copy.idle_until(next);
        }
        Ok(self.measure(&mut copy, self.burst, number, observer)?.observed_rate())
    }

    /// Runs rounds of random writes, each after a churn session, until five in a row are
    /// steady.
    ///
    /// # Errors
    /// The drive or the filesystem fails.
    pub fn sustained(
        &self,
        target: &RandomWriteTarget,
        churn: &Churn,
        observer: &dyn Observer,
    ) -> TargetResult<SustainedFigures> {
        let (mut copy, mut churn) = (self.copy(target), churn.clone());
        let from = churn.written().0;
        while churn.written().0 - from < self.before {
            if !session(&mut copy, &mut churn)? {
                break;
            }
        }
        let mut rounds: Vec<Measurement> = Vec::new();
        loop {
            session(&mut copy, &mut churn)?;
            let number = 1_000 + 2 * rounds.len() as u64;
            if self.lead_in > 0 {
                self.measure(&mut copy, self.lead_in, number, observer)?;
            }
            rounds.push(self.measure(&mut copy, self.round, number + 1, observer)?);
            if let Some(first) = steady_from(&rounds) {
                return Ok(SustainedFigures::of(&rounds[first..], true));
            }
            if rounds.len() >= ROUNDS_MAX {
                return Ok(SustainedFigures::of(&rounds[ROUNDS_MAX / 2..], false));
            }
        }
    }

    /// Issues 4 KiB direct writes at random offsets of the file at the full queue depth.
    fn measure(
        &self,
        target: &mut RandomWriteTarget,
        writes: u64,
        number: u64,
        observer: &dyn Observer,
    ) -> TargetResult<Measurement> {
        let mut file = FileBlocks::open(target.volume_mut(), FILE, self.depth)?;
        // Opening the file flushes its pending writes.
        let before = DriveState::now(&mut file);
        let settings = SyntheticSettings {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(WRITE_BYTES, 1)],
            data: self.class,
            offset: 0,
            span: file.info().size.0,
            queue_depth: self.depth,
            limit: Limit::Ops(writes),
        };
        let mut tried = Measurement::default();
        if let Ok(mut workload) = Synthetic::new(settings, self.seed ^ (number + 1)) {
            let counts = blocks::Recording::CountsOnly;
            let outcome = blocks::run_dyn(&mut workload, &mut file, counts, &mut { observer });
            if let RunEnd::Failed(error) = outcome.end {
                return Err(error);
            }
            for phase in &outcome.recorded.phases {
                tried.writes += phase.ops_total();
                tried.seconds += phase.took.as_secs_f64();
            }
        }
        let after = DriveState::now(&mut file);
        (tried.host, tried.medium) =
            (after.written.0 - before.written.0, after.written.1 - before.written.1);
        tried.free = (before.free, after.free);
        let elapsed = (after.at - before.at).as_secs_f64();
        tried.owed_seconds =
            after.backlog.as_secs_f64() - before.backlog.as_secs_f64() + (elapsed - tried.seconds);
        tried.seconds_min = tried.writes as f64 * self.write_seconds_min;
        tried.trim_seconds = (after.trim_ns - before.trim_ns) as f64 / 1e9;
        let took_ns = after.at.0 - before.at.0;
        tried.later =
            after.strain.unlasting(file.volume().drive().as_ref(), &before.strain, took_ns);
        Ok(tried)
    }
}

struct DriveState {
    at: Nanos,
    written: (u64, u64),
    backlog: Nanos,
    free: u64,
    trim_ns: u64,
    strain: ThrottleState,
}

impl DriveState {
    fn now(file: &mut FileBlocks<'_, Box<dyn Model>>) -> Self {
        let at = file.now();
        let drive = file.volume().drive();
        let counters = drive.counters();
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        Self {
            at,
            written: drive.written(),
            backlog: drive.backlog(at),
            free: count("now_free_bytes"),
            trim_ns: count("trim_ns"),
            strain: drive.strain(),
        }
    }
}

/// Runs one churn session without the pause after it. Returns false if the churn is
/// finished.
fn session(target: &mut RandomWriteTarget, churn: &mut Churn) -> TargetResult<bool> {
    while let Some(step) = churn.next_step() {
        match step {
            FileStep::NotBefore(_) => return Ok(true),
            FileStep::Phase(_) => {}
            FileStep::Op(op) => target.execute(&op)?,
        }
    }
    Ok(false)
}
