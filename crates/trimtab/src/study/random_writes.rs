//! 4 KiB random writes on an aged drive: the burst after idle time, and the rate that holds under load, by SNIA's rule. Both are measured on copies, so
//! that the months go on as if nobody had looked.

use super::small::Small;
use crate::drives::model::Model;
use crate::session::runner::Quiet;
use crate::target::volume::VolumeTarget;
use trimtab_core::analysis::steady::{ROUNDS, steady_state};
use trimtab_core::data::DataClass;
use trimtab_core::drive::spec::{Medium, SlcSize};
use trimtab_core::policy::PolicySpec;
use trimtab_core::runner::{End, blocks};
use trimtab_core::target::{BlockTarget as _, Clock as _, TargetResult};
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::volume::FileBlocks;
use trimtab_core::workload::churn::Churn;
use trimtab_core::workload::synthetic::{Mix, Pattern, Settings, Synthetic};
use trimtab_core::workload::{FileStep, FileWorkload as _, Limit};

/// The file that random writes go to.
pub const FILE: &str = "database";
/// Writes of a burst on a drive whose superblocks are not made smaller: 134 MB.
pub const BURST_WRITES: u64 = 32_768;
const WRITES_MIN: u64 = 2048;
const WRITE_BYTES: u32 = 4096;
/// A round writes as many bytes as so many sessions of the churn: some superblocks, so that it matters little where collection falls.
const ROUND_SESSIONS: u64 = 2;
/// Rounds after which a rate that is not steady is taken as it is.
const ROUNDS_MAX: usize = 25;
/// Work before the first round, as a share of the capacity; and this many times what a cache of one bit a cell holds at most, if that is more.
const BEFORE_SHARE: f64 = 0.05;
const BEFORE_CACHES: f64 = 1.2;
/// Whatever is being discarded or trimmed before a burst is waited for this long.
const QUIET_MAX: Nanos = Nanos::from_secs(3600);

type Target = VolumeTarget<Box<dyn Model>>;

/// How random writes are tried on a drive.
#[derive(Debug, Clone)]
pub struct RandomWrites {
    /// Writes in flight.
    depth: u32,
    class: DataClass,
    seed: u64,
    /// Writes of a burst.
    burst: u64,
    /// Writes of a round under load.
    round: u64,
    /// Bytes of churn before the first round.
    before: u64,
    /// Writes before those of a round that are counted. They fill the drive's buffer, which is as full when the round ends, and are as many as those of a
    /// round at least: what collection is behind after the churn is less than what it is behind under these writes, and the difference would be taken for speed.
    lead_in: u64,
    /// The policy, as it is tried on the small drive.
    policy: PolicySpec,
}

/// Random writes under load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sustained {
    /// Writes per second, mean of the window.
    pub rate: f64,
    /// Bytes to flash for bytes that the host wrote, while these writes went on.
    pub waf: f64,
    /// Whether the window satisfies SNIA's rule.
    pub steady: bool,
}

/// One measurement.
struct Tried {
    rate: f64,
    host: u64,
    medium: u64,
}

impl RandomWrites {
    /// On `small`, with contents of `class` and sessions of `session` bytes.
    pub fn new(small: &Small, class: DataClass, session: Bytes, policy: PolicySpec, seed: u64) -> Self {
        let of_slc = |size: SlcSize| match size {
            SlcSize::Fixed { bytes } => bytes,
            SlcSize::Dynamic { bytes_max, .. } => bytes_max,
        };
        let (slc, buffer) = match &small.spec.medium {
            Medium::Flash(flash) => (flash.slc_cache.as_ref().map_or(0, |slc| of_slc(slc.size)), flash.write_cache.bytes),
            Medium::Disk(disk) => (0, disk.cache_bytes),
        };
        let round = (session.0 * ROUND_SESSIONS / u64::from(WRITE_BYTES)).max(WRITES_MIN);
        let before = (small.spec.capacity_bytes as f64 * BEFORE_SHARE).max(slc as f64 * BEFORE_CACHES);
        Self {
            depth: small.spec.interface.queue_depth.clamp(1, 32),
            class,
            seed,
            burst: ((BURST_WRITES as f64 * small.block_share) as u64).max(WRITES_MIN),
            round,
            before: before as u64,
            lead_in: (buffer / u64::from(WRITE_BYTES) * 2).max(round),
            policy,
        }
    }

    /// Bytes of a burst.
    pub const fn burst_bytes(&self) -> Bytes {
        Bytes(self.burst * WRITE_BYTES as u64)
    }

    fn copy(&self, target: &Target) -> Target {
        target.fork(self.policy.build(&target.policy().state()))
    }

    /// Writes per second of a burst, from the state that `target` is in.
    ///
    /// # Errors
    /// A drive that fails.
    pub fn burst(&self, target: &Target, number: u64) -> TargetResult<f64> {
        let mut copy = self.copy(target);
        let until = copy.now() + QUIET_MAX;
        while copy.trimming() && copy.now() < until {
            let next = copy.now() + Nanos::from_secs(1);
            copy.idle_until(next);
        }
        Ok(self.tried(&mut copy, self.burst, number)?.rate)
    }

    /// Rounds of random writes, before each a session of `churn`, without pauses, until five in a row are steady.
    ///
    /// # Errors
    /// A drive or a filesystem that fails.
    pub fn sustained(&self, target: &Target, churn: &Churn) -> TargetResult<Sustained> {
        let (mut copy, mut churn) = (self.copy(target), churn.clone());
        let from = churn.written().0;
        while churn.written().0 - from < self.before {
            if !session(&mut copy, &mut churn)? {
                break;
            }
        }
        let mut rounds: Vec<Tried> = Vec::new();
        loop {
            session(&mut copy, &mut churn)?;
            let number = 1_000 + 2 * rounds.len() as u64;
            if self.lead_in > 0 {
                self.tried(&mut copy, self.lead_in, number)?;
            }
            rounds.push(self.tried(&mut copy, self.round, number + 1)?);
            let rates: Vec<f64> = rounds.iter().map(|round| round.rate).collect();
            // The drive has been written over before: every round counts.
            let window = steady_state(&rates, &[], Bytes::ZERO).window();
            if window.is_some() || rounds.len() >= ROUNDS_MAX {
                let last = &rounds[window.map_or(rounds.len().saturating_sub(ROUNDS), |window| window.first)..];
                let sum = |of: fn(&Tried) -> u64| last.iter().map(of).sum::<u64>() as f64;
                let rate = last.iter().map(|round| round.rate).sum::<f64>() / last.len() as f64;
                return Ok(Sustained { rate, waf: sum(|round| round.medium) / sum(|round| round.host).max(1.0), steady: window.is_some() });
            }
        }
    }

    /// 4 KiB direct writes at random places of the file, as many in flight as the drive takes.
    fn tried(&self, target: &mut Target, writes: u64, number: u64) -> TargetResult<Tried> {
        let before = target.volume().drive().written();
        let mut file = FileBlocks::open(target.volume_mut(), FILE, self.depth)?;
        let settings = Settings {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(WRITE_BYTES, 1)],
            data: self.class,
            offset: 0,
            span: file.info().size.0,
            queue_depth: self.depth,
            limit: Limit::Ops(writes),
        };
        let mut rate = 0.0;
        if let Ok(mut workload) = Synthetic::new(settings, self.seed ^ (number + 1)) {
            let outcome = blocks::run(&mut workload, &mut file, &mut Quiet);
            if let End::Failed(error) = outcome.end {
                return Err(error);
            }
            let phase = outcome.recorded.phases.first();
            rate = phase.map_or(0.0, |phase| phase.ops_total() as f64 / phase.took.as_secs_f64().max(1e-9));
        }
        drop(file);
        let after = target.volume().drive().written();
        Ok(Tried { rate, host: after.0 - before.0, medium: after.1 - before.1 })
    }
}

/// One session of the churn, without the pause after it. False if there is nothing left to do.
fn session(target: &mut Target, churn: &mut Churn) -> TargetResult<bool> {
    while let Some(step) = churn.next_step() {
        match step {
            FileStep::NotBefore(_) => return Ok(true),
            FileStep::Phase(_) => {}
            FileStep::Op(op) => trimtab_core::runner::files::execute(target, &op)?,
        }
    }
    Ok(false)
}
