//! CrystalDiskMark test sets: sequential and random I/O on a test file, in passes.
//!
//! Differences from the original: written data is new for every write (the original
//! repeats one buffer, which compresses and deduplicates), and a test of T threads at
//! depth Q is one window of Q × T operations.

pub mod figures;
pub mod looped;

pub use self::figures::metrics;

use crate::workload::{BlockPhase, BlockWorkload, Limit, WorkloadPlan};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::named;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent};

/// Phase that writes the test file first.
pub const PREPARE: &str = "prepare";
/// Block size and depth of that phase, as in the fastest sequential test.
const PREPARE_BLOCK: u32 = 1 << 20;
const PREPARE_DEPTH: u32 = 8;

/// Smallest test file, as in the original.
pub const SIZE_MIN: Bytes = Bytes(16 << 20);

/// Assumed write rate in bytes per second, to announce the writes of timed passes.
pub const ASSUMED_RATE: Bytes = Bytes(1_000_000_000);
/// Longest pass.
const PASS_MAX: Nanos = Nanos::from_secs(86_400);

named! {
    "profile"
    /// A set of tests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Profile {
        /// CrystalDiskMark 3: sequential 1 MiB, random 512K, 4K, 4K at depth 32; in
        /// pairs.
        Cdm3 = "cdm3",
        /// CrystalDiskMark 8 and 9, default: all reads, then all writes, each after a
        /// warm-up pass.
        Cdm8 = "cdm8",
        /// CrystalDiskMark 8 and 9 for NVMe.
        Nvme = "nvme",
    }
}

/// A test of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// Bytes per operation.
    pub block: u32,
    /// Queue depth per thread.
    pub queue: u32,
    /// Threads.
    pub threads: u32,
    /// Uniformly random positions; otherwise sequential.
    pub random: bool,
}

const fn sequential(block: u32, queue: u32) -> Test {
    Test { block, queue, threads: 1, random: false }
}

const fn random(block: u32, queue: u32, threads: u32) -> Test {
    Test { block, queue, threads, random: true }
}

impl Profile {
    /// Tests in order.
    #[must_use]
    pub const fn tests(self) -> &'static [Test] {
        match self {
            Self::Cdm3 => {
                &const {
                    [
                        sequential(1 << 20, 1),
                        random(512 << 10, 1, 1),
                        random(4096, 1, 1),
                        random(4096, 32, 1),
                    ]
                }
            }
            Self::Cdm8 => {
                &const {
                    [
                        sequential(1 << 20, 8),
                        sequential(1 << 20, 1),
                        random(4096, 32, 1),
                        random(4096, 1, 1),
                    ]
                }
            }
            Self::Nvme => {
                &const {
                    [
                        sequential(1 << 20, 8),
                        sequential(128 << 10, 32),
                        random(4096, 32, 16),
                        random(4096, 1, 1),
                    ]
                }
            }
        }
    }

    /// True if each test reads and writes before the next test; false if all reads come
    /// first.
    #[must_use]
    pub const fn pairs(self) -> bool {
        matches!(self, Self::Cdm3)
    }

    /// True if each test starts with an unrecorded pass.
    #[must_use]
    pub const fn warms_up(self) -> bool {
        !matches!(self, Self::Cdm3)
    }
}

impl Test {
    /// Operations in flight.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.queue * self.threads
    }

    /// Short name: `seq1m-q8`, `rnd4k-q32t16`.
    #[must_use]
    pub fn name(&self) -> String {
        let size = if self.block >= 1 << 20 {
            format!("{}m", self.block >> 20)
        } else {
            format!("{}k", self.block >> 10)
        };
        let threads = if self.threads > 1 { format!("t{}", self.threads) } else { String::new() };
        format!("{}{size}-q{}{threads}", if self.random { "rnd" } else { "seq" }, self.queue)
    }

    /// Name of the phases and metrics for one direction: `seq1m-q8.read`.
    #[must_use]
    pub fn phase(&self, write: bool) -> String {
        format!("{}.{}", self.name(), if write { "write" } else { "read" })
    }
}

/// Settings of a test set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrystalSettings {
    /// Test set.
    pub profile: Profile,
    /// Size of the test file, or of the used start of a device.
    pub size: Bytes,
    /// Recorded passes per test; at least 1.
    pub passes: u32,
    /// End condition of a pass.
    pub pass: Limit,
    /// Idle time before each test.
    pub interval: Nanos,
    /// Class of written data.
    pub data: DataClass,
    /// Read tests.
    pub reads: bool,
    /// Write tests.
    pub writes: bool,
    /// Write the test file before each round: reads of unwritten blocks skip the flash.
    pub prepare: bool,
    /// Repeat rounds until this much has been written.
    pub until_written: Option<Bytes>,
}

impl Default for CrystalSettings {
    fn default() -> Self {
        Self {
            profile: Profile::Cdm8,
            size: Bytes(1 << 30),
            passes: 5,
            pass: Limit::Time(Nanos::from_secs(5)),
            interval: Nanos::from_secs(5),
            data: DataClass::Random,
            reads: true,
            writes: true,
            prepare: true,
            until_written: None,
        }
    }
}

/// Reason for refusing settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CrystalSettingsError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrystalStep {
    Prepare,
    Pass { test: Test, write: bool, number: u32 },
}

/// A workload with given [`Settings`].
#[derive(Clone, Debug)]
pub struct Crystal {
    settings: CrystalSettings,
    seed: u64,
    steps: Vec<CrystalStep>,
    next_step: usize,
    /// Completed rounds.
    rounds: u64,
    /// Bytes written in them and in an unfinished round.
    written: Bytes,
    places: Stream,
    // Of the current pass.
    random: bool,
    write: bool,
    block: u32,
    /// Positions in the test file.
    count: u64,
    place: u64,
    /// Remaining operations of a preparation or a timed write pass; else unlimited.
    left: u64,
}

impl Crystal {
    /// Creates the workload of `settings` under `seed`.
    ///
    /// # Errors
    /// No passes, a file below [`SIZE_MIN`], neither reads nor writes, rounds without
    /// writes.
    pub fn new(settings: CrystalSettings, seed: u64) -> Result<Self, CrystalSettingsError> {
        let problem = if settings.passes == 0 || settings.passes > 10_000 {
            "the number of passes must be 1 to 10000"
        } else if settings.size < SIZE_MIN {
            "the test size must be at least 16 MiB"
        } else if !settings.reads && !settings.writes {
            "there must be reads or writes"
        } else if settings.until_written.is_some() && !settings.writes {
            "repeating until an amount is written needs writes"
        } else if settings.until_written == Some(Bytes::ZERO) {
            "the amount to be written must be above 0"
        } else if matches!(settings.pass, Limit::Time(time) if time > PASS_MAX) {
            "a pass may take at most a day"
        } else if matches!(
            settings.pass,
            Limit::Stream | Limit::Ops(0) | Limit::Bytes(Bytes(0)) | Limit::Time(Nanos(0))
        ) {
            "a pass must end: give a time or bytes above 0 (--time, --bytes)"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(CrystalSettingsError(problem.to_string()));
        }
        let steps = steps(&settings);
        let size = Bytes(settings.size.0 - settings.size.0 % u64::from(PREPARE_BLOCK));
        Ok(Self {
            settings: CrystalSettings { size, ..settings },
            seed,
            steps,
            next_step: 0,
            rounds: 0,
            written: Bytes::ZERO,
            places: Stream::new(seed, ""),
            random: false,
            write: false,
            block: PREPARE_BLOCK,
            count: 1,
            place: 0,
            left: 0,
        })
    }

    /// True if the amount written depends on the speed of the target.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.settings.writes && matches!(self.settings.pass, Limit::Time(_))
    }

    /// Phases per round, including preparation.
    #[must_use]
    pub fn phases_of_a_round(&self) -> usize {
        self.steps.len()
    }

    /// Maximum operations and bytes in flight at any time.
    #[must_use]
    pub fn in_flight_max(&self) -> (u32, u64) {
        let tests = self.settings.profile.tests();
        let deepest = tests.iter().map(Test::depth).max().unwrap_or(1);
        let largest = tests
            .iter()
            .map(|test| u64::from(test.depth()) * u64::from(test.block))
            .max()
            .unwrap_or(0);
        (
            deepest.max(PREPARE_DEPTH),
            largest.max(u64::from(PREPARE_DEPTH) * u64::from(PREPARE_BLOCK)),
        )
    }

    /// Bytes written by the passes of one round, excluding preparation.
    fn passes_written(&self) -> u64 {
        let write = |step: &CrystalStep| match (step, self.settings.pass) {
            (CrystalStep::Pass { write: true, .. }, Limit::Bytes(bytes)) => bytes.0,
            (CrystalStep::Pass { write: true, .. }, Limit::Time(time)) => written_at_most(time),
            (CrystalStep::Pass { write: true, test, .. }, Limit::Ops(ops)) => {
                ops.saturating_mul(u64::from(test.block))
            }
            _ => 0,
        };
        self.steps.iter().map(write).fold(0, u64::saturating_add)
    }

    fn begin(&mut self, step: CrystalStep) {
        let (test, write) = match step {
            CrystalStep::Prepare => (
                Test { block: PREPARE_BLOCK, queue: PREPARE_DEPTH, threads: 1, random: false },
                true,
            ),
            CrystalStep::Pass { test, write, .. } => (test, write),
        };
        self.random = test.random;
        self.write = write;
        self.block = test.block;
        self.count = self.settings.size.0 / u64::from(test.block);
        self.place = 0;
        self.left = match (step, self.settings.pass) {
            (CrystalStep::Prepare, _) => self.count,
            // The user has not agreed to more.
            (CrystalStep::Pass { write: true, .. }, Limit::Time(time)) => {
                (written_at_most(time) / u64::from(test.block)).max(1)
            }
            _ => u64::MAX,
        };
        // Each pass has its own stream, so that a resumed round repeats the same
        // operations.
        self.places =
            Stream::new(self.seed, &format!("crystal.{}.{}", self.rounds, self.next_step));
    }
}

/// Maximum bytes written by a pass of this `time`.
fn written_at_most(time: Nanos) -> u64 {
    (time.as_secs_f64() * ASSUMED_RATE.as_f64()) as u64
}

fn steps(settings: &CrystalSettings) -> Vec<CrystalStep> {
    let mut steps = Vec::new();
    if settings.prepare {
        steps.push(CrystalStep::Prepare);
    }
    let first = u32::from(!settings.profile.warms_up());
    let mut passes = |test: &Test, write: bool| {
        if if write { settings.writes } else { settings.reads } {
            steps.extend((first..=settings.passes).map(|number| CrystalStep::Pass {
                test: *test,
                write,
                number,
            }));
        }
    };
    let tests = settings.profile.tests();
    if settings.profile.pairs() {
        tests.iter().for_each(|test| [false, true].iter().for_each(|write| passes(test, *write)));
    } else {
        [false, true].iter().for_each(|write| tests.iter().for_each(|test| passes(test, *write)));
    }
    steps
}

impl BlockWorkload for Crystal {
    /// Timed passes are assumed to write at [`ASSUMED_RATE`].
    fn plan(&self) -> WorkloadPlan {
        let prepared = if self.settings.prepare { self.settings.size.0 } else { 0 };
        let round = prepared.saturating_add(self.passes_written());
        let left =
            self.settings.until_written.map_or(0, |until| until.saturating_sub(self.written).0);
        WorkloadPlan {
            written: Bytes(round.max(left.saturating_add(if left > 0 { round } else { 0 }))),
            space: self.settings.size,
            ops: None,
        }
    }

    fn next_phase(&mut self) -> Option<BlockPhase> {
        if self.next_step == self.steps.len() {
            self.rounds += 1;
            self.settings.until_written.filter(|until| self.written < *until)?;
            self.next_step = 0;
        }
        let step = self.steps[self.next_step];
        self.begin(step);
        self.next_step += 1;
        Some(match step {
            CrystalStep::Prepare => BlockPhase {
                name: PREPARE.to_string(),
                queue_depth: PREPARE_DEPTH,
                limit: Limit::Stream,
                record: false,
                idle_before: Nanos::ZERO,
            },
            CrystalStep::Pass { test, write, number } => BlockPhase {
                name: test.phase(write),
                queue_depth: test.depth(),
                limit: self.settings.pass,
                record: number > 0,
                idle_before: if number == u32::from(!self.settings.profile.warms_up()) {
                    self.settings.interval
                } else {
                    Nanos::ZERO
                },
            },
        })
    }

    #[inline]
    fn next_op(&mut self) -> Option<Command<'static>> {
        self.left = self.left.checked_sub(1)?;
        let place = if self.random {
            self.places.below(self.count)
        } else {
            let place = self.place;
            self.place = if place + 1 == self.count { 0 } else { place + 1 };
            place
        };
        let extent = Extent { offset: place * u64::from(self.block), len: self.block.into() };
        if !self.write {
            return Some(Command::Read(extent));
        }
        self.written.0 = self.written.0.wrapping_add(extent.len);
        Some(Command::Write(extent, self.settings.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn settings(profile: Profile) -> CrystalSettings {
        CrystalSettings {
            profile,
            size: Bytes(64 << 20),
            passes: 2,
            pass: Limit::Bytes(Bytes(8 << 20)),
            ..CrystalSettings::default()
        }
    }

    fn drain(workload: &mut Crystal, phase: &BlockPhase) -> Vec<Command<'static>> {
        let mut budget = match phase.limit {
            Limit::Bytes(bytes) => bytes.0,
            _ => u64::MAX,
        };
        let mut ops = Vec::new();
        while budget > 0 {
            let Some(op) = workload.next_op() else { break };
            budget = budget.saturating_sub(op.bytes());
            ops.push(op);
        }
        ops
    }

    fn phases(workload: &mut Crystal) -> Vec<(BlockPhase, Vec<Command<'static>>)> {
        let mut all = Vec::new();
        while let Some(phase) = workload.next_phase() {
            let ops = drain(workload, &phase);
            all.push((phase, ops));
        }
        all
    }

    #[test]
    fn cdm3_pairs_tests_and_cdm8_reads_first() {
        let names = |profile| {
            let mut workload =
                Crystal::new(CrystalSettings { passes: 1, ..settings(profile) }, 1).unwrap();
            let phases =
                phases(&mut workload).into_iter().map(|(p, _)| (p.name, p.queue_depth, p.record));
            phases.filter(|(name, ..)| name != PREPARE).collect::<Vec<_>>()
        };
        let old: Vec<_> = names(Profile::Cdm3)
            .into_iter()
            .map(|(name, depth, record)| format!("{name} {depth} {record}"))
            .collect();
        assert_eq!(
            old,
            [
                "seq1m-q1.read 1 true",
                "seq1m-q1.write 1 true",
                "rnd512k-q1.read 1 true",
                "rnd512k-q1.write 1 true",
                "rnd4k-q1.read 1 true",
                "rnd4k-q1.write 1 true",
                "rnd4k-q32.read 32 true",
                "rnd4k-q32.write 32 true",
            ]
        );
        let new = names(Profile::Nvme);
        assert_eq!(new.len(), 16);
        assert!(new.iter().position(|(n, ..)| n.ends_with("write")) == Some(8));
        assert!(
            new.chunks(2).all(|pair| pair[0].0 == pair[1].0 && !pair[0].2 && pair[1].2),
            "{new:?}"
        );
        assert!(new.contains(&("rnd4k-q32t16.write".to_string(), 512, true)));
    }

    #[test]
    fn crystal_file_is_written_once_before_tests() {
        let mut workload = Crystal::new(settings(Profile::Cdm8), 1).unwrap();
        let phase = workload.next_phase().unwrap();
        assert_eq!((phase.name.as_str(), phase.record), (PREPARE, false));
        let mut end = 0;
        for op in drain(&mut workload, &phase) {
            let Command::Write(Extent { offset, len }, DataClass::Random) = op else {
                panic!("{op:?}")
            };
            assert_eq!(offset, end);
            end += len;
        }
        assert_eq!(end, 64 << 20);
    }

    #[test]
    fn crystal_rounds_continue_until_written_amount() {
        // A round writes the file (64 MiB) and four tests of three passes of 8 MiB.
        let round = (64 << 20) + 4 * 3 * (8 << 20);
        let limited = CrystalSettings {
            until_written: Some(Bytes(2 * round + 1)),
            reads: false,
            ..settings(Profile::Cdm8)
        };
        let mut workload = Crystal::new(limited, 1).unwrap();
        let all = phases(&mut workload);
        assert_eq!((workload.rounds, workload.written), (3, Bytes(3 * round)));
        let written: u64 = all.iter().flat_map(|(_, ops)| ops).map(Command::bytes).sum();
        assert_eq!(written, 3 * round);
    }

    #[test]
    fn rounds_differ_from_each_other() {
        let limited =
            CrystalSettings { until_written: Some(Bytes(1 << 30)), ..settings(Profile::Cdm3) };
        let mut whole = Crystal::new(limited, 7).unwrap();
        let all = phases(&mut whole);
        let (first, rest) = all.split_at(all.len() / whole.rounds as usize);
        assert!(rest.iter().zip(first).any(|(a, b)| a.1 != b.1));
    }

    #[test]
    fn plan_states_or_estimates_bytes_written() {
        let plan = |s: CrystalSettings| Crystal::new(s, 1).unwrap().plan().written.0;
        let bytes = settings(Profile::Cdm3);
        assert_eq!(plan(bytes.clone()), (64 << 20) + 4 * 2 * (8 << 20));
        assert_eq!(plan(CrystalSettings { writes: false, ..bytes.clone() }), 64 << 20);
        assert_eq!(plan(CrystalSettings { writes: false, prepare: false, ..bytes.clone() }), 0);
        let timed = CrystalSettings { pass: Limit::Time(Nanos::from_secs(3)), ..bytes.clone() };
        assert_eq!(plan(timed), (64 << 20) + 4 * 2 * 3_000_000_000);
        assert!(plan(CrystalSettings { until_written: Some(Bytes(1 << 40)), ..bytes }) > 1 << 40);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let base = settings(Profile::Cdm3);
        for bad in [
            CrystalSettings { passes: 0, ..base.clone() },
            CrystalSettings { size: Bytes(1 << 20), ..base.clone() },
            CrystalSettings { reads: false, writes: false, ..base.clone() },
            CrystalSettings { writes: false, until_written: Some(Bytes(1)), ..base.clone() },
            CrystalSettings { pass: Limit::Time(Nanos::ZERO), ..base.clone() },
            CrystalSettings { pass: Limit::Stream, ..base.clone() },
        ] {
            assert!(Crystal::new(bad.clone(), 1).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn operations_stay_in_the_file_and_are_aligned(
            profile in prop::sample::select(Profile::ALL), size in (16_u64 << 20)..(80 << 20), seed in any::<u64>(),
        ) {
            let settings = CrystalSettings { size: Bytes(size), passes: 1, pass: Limit::Bytes(Bytes(2 << 20)), ..settings(profile) };
            let mut workload = Crystal::new(settings, seed).unwrap();
            let (depth, _) = workload.in_flight_max();
            for (phase, ops) in phases(&mut workload) {
                prop_assert!(phase.queue_depth <= depth);
                for op in ops {
                    let (Command::Read(Extent { offset, len }) | Command::Write(Extent { offset, len }, _)) = op else { panic!("{op:?}") };
                    prop_assert!(offset + len <= size && offset % len == 0);
                }
            }
        }

        #[test]
        fn random_positions_reach_the_whole_file(seed in any::<u64>()) {
            let settings = CrystalSettings { size: SIZE_MIN, passes: 1, pass: Limit::Ops(1), ..settings(Profile::Cdm3) };
            let mut workload = Crystal::new(settings, seed).unwrap();
            while workload.next_phase().is_some_and(|p| p.name != "rnd4k-q32.read") {}
            let mut quarters = vec![0; 4];
            for _ in 0..4000 {
                let Some(Command::Read(Extent { offset, .. })) = workload.next_op() else { panic!("a read test reads") };
                quarters[(offset / (4 << 20)) as usize] += 1;
            }
            prop_assert!(quarters.iter().all(|n| (800..1200).contains(n)), "{:?}", quarters);
        }
    }
}
