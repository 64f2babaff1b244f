//! Ageing: fills the filesystem with mixed files and deletes them, in rounds.
//!
//! Each round writes the same number of bytes in four groups of files with fixed shares,
//! interleaved at random like several programs writing at once. The sizes are
//! assumptions, documented with [`GROUPS`]; published measurements give only the names of
//! the groups.

use super::{FileStep, FileWorkload, WorkloadPlan};
use crate::op::{FileOp, Payload};
use crate::run::{Better, Metric, Phase, Unit};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;

/// Phase that writes the files of a round.
pub const FILL: &str = "fill";
/// Phase that syncs them.
pub const FILL_SYNC: &str = "fill-sync";
/// Phase that deletes them.
pub const DELETE: &str = "delete";
/// Phase that syncs the deletion.
pub const DELETE_SYNC: &str = "delete-sync";

/// Minimum bytes per round.
pub const ROUND_MIN: Bytes = Bytes(1_000_000);

/// Piece size for large files, so that a run can report progress and stop.
const PIECE: u64 = 64 << 20;
/// Files per directory.
const DIR_FILES: u64 = 500;
/// Largest file as a fraction of a round, to preserve the mix in small rounds.
const FILE_SHARE_MAX: u64 = 16;

/// File sizes of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FileSizes {
    /// Log-normal: median in bytes, standard deviation of the logarithm, largest in
    /// bytes.
    LogNormal(f64, f64, u64),
    /// Uniform between these bounds, in bytes.
    Uniform(u64, u64),
}

/// A group of files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileGroup {
    /// Name of the group and of its directory.
    pub name: &'static str,
    /// Share of the bytes in percent.
    pub percent: u64,
    /// File sizes.
    pub sizes: FileSizes,
    /// Class of the data.
    pub class: DataClass,
}

/// The groups of files.
pub const GROUPS: [FileGroup; 4] = [
    FileGroup {
        name: "os",
        percent: 20,
        sizes: FileSizes::LogNormal(12e3, 1.8, 64 << 20),
        class: DataClass::Compressible(50),
    },
    FileGroup {
        name: "games",
        percent: 35,
        sizes: FileSizes::LogNormal(400e3, 2.0, 1 << 30),
        class: DataClass::Compressible(15),
    },
    FileGroup {
        name: "music",
        percent: 10,
        sizes: FileSizes::Uniform(3_000_000, 9_000_000),
        class: DataClass::Random,
    },
    FileGroup {
        name: "videos",
        percent: 35,
        sizes: FileSizes::Uniform(350_000_000, 4_500_000_000),
        class: DataClass::Random,
    },
];

impl FileSizes {
    fn draw(self, rng: &mut Stream, most: u64) -> u64 {
        let size = match self {
            Self::LogNormal(median, sigma, largest) => {
                (rng.log_normal(median, sigma) as u64).min(largest)
            }
            Self::Uniform(low, high) => rng.between(low.min(most), high.min(most)),
        };
        size.clamp(1, most)
    }

    /// Mean before sizes are limited by the round.
    fn mean(self) -> f64 {
        match self {
            Self::LogNormal(median, sigma, _) => median * libm::exp(sigma * sigma / 2.0),
            Self::Uniform(low, high) => (low as f64 + high as f64) / 2.0,
        }
    }
}

/// Settings of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeSettings {
    /// Total bytes to write in all rounds.
    pub total: Bytes,
    /// Rounds.
    pub rounds: u32,
    /// Seed of sizes, order and data.
    pub seed: u64,
}

/// Reason for refusing settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgeSettingsError {
    /// No rounds.
    #[error("ageing needs at least one round")]
    NoRound,
    /// Rounds that are too small.
    #[error("{total} in {rounds} rounds is less than {ROUND_MIN} per round")]
    TooSmall {
        /// Total bytes.
        total: Bytes,
        /// Rounds.
        rounds: u32,
    },
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Age {
    settings: AgeSettings,
    rng: Stream,
    rounds_done: u32,
    state: AgeStage,
    /// Bytes each group still has to write in this round.
    left: [u64; GROUPS.len()],
    /// Files of each group in this round.
    files: [u64; GROUPS.len()],
    queue: VecDeque<Item>,
    path: String,
}

#[derive(Clone, Copy, Debug)]
enum AgeStage {
    BeginRound,
    Fill,
    /// Group and file to delete next.
    Delete(usize, u64),
}

/// A step, with the group, directory, file and bytes it is about.
#[derive(Clone, Copy, Debug)]
enum Item {
    Phase(&'static str),
    MakeDir(usize, Option<u64>),
    Create(usize, u64, u64),
    Append(usize, u64, u64),
    Delete(usize, u64),
    RemoveDir(usize, Option<u64>),
    Sync,
}

impl Age {
    /// Creates the workload of `settings`.
    pub fn new(settings: AgeSettings) -> Result<Self, AgeSettingsError> {
        if settings.rounds == 0 {
            return Err(AgeSettingsError::NoRound);
        }
        if settings.total.0 / u64::from(settings.rounds) < ROUND_MIN.0 {
            return Err(AgeSettingsError::TooSmall {
                total: settings.total,
                rounds: settings.rounds,
            });
        }
        Ok(Self {
            settings,
            rng: Stream::new(settings.seed, "age"),
            rounds_done: 0,
            state: AgeStage::BeginRound,
            left: [0; GROUPS.len()],
            files: [0; GROUPS.len()],
            queue: VecDeque::new(),
            path: String::new(),
        })
    }

    /// Bytes of a round; the last one takes the remainder.
    fn round_bytes(&self, round: u32) -> u64 {
        let each = self.settings.total.0 / u64::from(self.settings.rounds);
        if round + 1 == self.settings.rounds {
            self.settings.total.0 - each * u64::from(round)
        } else {
            each
        }
    }

    fn begin_round(&mut self) {
        let bytes = self.round_bytes(self.rounds_done);
        let mut rest = bytes;
        self.queue.push_back(Item::Phase(FILL));
        for (i, group) in GROUPS.iter().enumerate() {
            let share = if i + 1 == GROUPS.len() {
                rest
            } else {
                (u128::from(bytes) * u128::from(group.percent) / 100) as u64
            };
            self.left[i] = share;
            rest -= share;
            self.files[i] = 0;
            self.queue.push_back(Item::MakeDir(i, None));
        }
    }

    /// Chooses the next file and queues its operations. False if the round is full.
    fn decide_file(&mut self) -> bool {
        let weight = |i: usize| self.left[i] as f64 / GROUPS[i].sizes.mean();
        let total: f64 = (0..GROUPS.len()).map(weight).sum();
        if total <= 0.0 {
            return false;
        }
        let mut draw = self.rng.unit() * total;
        let mut group = (0..GROUPS.len()).rfind(|i| self.left[*i] > 0).unwrap_or(0);
        for i in 0..GROUPS.len() {
            draw -= weight(i);
            if draw < 0.0 && self.left[i] > 0 {
                group = i;
                break;
            }
        }
        let most = (self.round_bytes(self.rounds_done) / FILE_SHARE_MAX).max(1);
        let size = GROUPS[group].sizes.draw(&mut self.rng, most).min(self.left[group]);
        let file = self.files[group];
        self.files[group] += 1;
        self.left[group] -= size;
        if file.is_multiple_of(DIR_FILES) {
            self.queue.push_back(Item::MakeDir(group, Some(file / DIR_FILES)));
        }
        self.queue.push_back(Item::Create(group, file, size.min(PIECE)));
        let mut written = size.min(PIECE);
        while written < size {
            let piece = (size - written).min(PIECE);
            self.queue.push_back(Item::Append(group, file, piece));
            written += piece;
        }
        true
    }

    /// Deletes a file, with the directories it leaves empty.
    fn decide_delete(&mut self, group: usize, file: u64) {
        self.state = AgeStage::Delete(group, file + 1);
        if file < self.files[group] {
            self.queue.push_back(Item::Delete(group, file));
            if file + 1 == self.files[group] || (file + 1).is_multiple_of(DIR_FILES) {
                self.queue.push_back(Item::RemoveDir(group, Some(file / DIR_FILES)));
            }
            return;
        }
        self.queue.push_back(Item::RemoveDir(group, None));
        self.state = AgeStage::Delete(group + 1, 0);
        if group + 1 == GROUPS.len() {
            self.queue.extend([Item::Phase(DELETE_SYNC), Item::Sync]);
            self.rounds_done += 1;
            self.state = AgeStage::BeginRound;
        }
    }

    fn step(&mut self, item: Item) -> FileStep<'_> {
        let (group, dir, file) = match item {
            Item::MakeDir(group, dir) | Item::RemoveDir(group, dir) => (group, dir, None),
            Item::Create(group, file, _)
            | Item::Append(group, file, _)
            | Item::Delete(group, file) => (group, Some(file / DIR_FILES), Some(file)),
            Item::Phase(name) => return FileStep::Phase(name),
            Item::Sync => return FileStep::Op(FileOp::Sync),
        };
        self.path.clear();
        self.path.push_str(GROUPS[group].name);
        for number in dir.into_iter().chain(file) {
            let _ = write!(self.path, "/{number}");
        }
        let data = |len| Payload::Fill { len, class: GROUPS[group].class };
        FileStep::Op(match item {
            Item::MakeDir(..) => FileOp::MakeDir(&self.path),
            Item::RemoveDir(..) => FileOp::RemoveDir(&self.path),
            Item::Create(.., len) => FileOp::Create(&self.path, data(len)),
            Item::Append(.., len) => FileOp::Append(&self.path, data(len)),
            _ => FileOp::Delete(&self.path),
        })
    }
}

impl FileWorkload for Age {
    fn plan(&self) -> WorkloadPlan {
        // The last round is the largest. Small files waste at most 4 KiB each per 8 kB.
        let largest = self.round_bytes(self.settings.rounds - 1);
        WorkloadPlan {
            written: self.settings.total,
            space: Bytes(largest.saturating_add(largest / 8)),
            ops: None,
        }
    }

    fn next_step(&mut self) -> Option<FileStep<'_>> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(self.step(item));
            }
            match self.state {
                AgeStage::BeginRound if self.rounds_done == self.settings.rounds => return None,
                AgeStage::BeginRound => {
                    self.begin_round();
                    self.state = AgeStage::Fill;
                }
                AgeStage::Fill => {
                    if !self.decide_file() {
                        self.queue.extend([
                            Item::Phase(FILL_SYNC),
                            Item::Sync,
                            Item::Phase(DELETE),
                        ]);
                        self.state = AgeStage::Delete(0, 0);
                    }
                }
                AgeStage::Delete(group, file) => self.decide_delete(group, file),
            }
        }
    }
}

/// Metrics of the rounds, one sample each: fill rate and duration of the deletion.
#[must_use]
pub fn metrics(phases: &[Phase]) -> Vec<Metric> {
    let seconds = |name: &str| -> Vec<f64> {
        phases.iter().filter(|p| p.name == name).map(|p| p.took.as_secs_f64()).collect()
    };
    let sum =
        |a: Vec<f64>, b: Vec<f64>| -> Vec<f64> { a.iter().zip(&b).map(|(a, b)| a + b).collect() };
    let filling = sum(seconds(FILL), seconds(FILL_SYNC));
    let filled: Vec<f64> =
        phases.iter().filter(|p| p.name == FILL).map(|p| p.written.as_f64() / 1e6).collect();
    let rates =
        filled.iter().zip(&filling).filter(|(_, s)| **s > 0.0).map(|(mb, s)| mb / s).collect();
    let all = [
        ("fill+sync.rate", Unit::MegabytesPerSecond, Better::Higher, rates),
        (
            "delete+sync.seconds",
            Unit::Seconds,
            Better::Lower,
            sum(seconds(DELETE), seconds(DELETE_SYNC)),
        ),
    ];
    Metric::measured(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::string::ToString as _;

    /// Replays the steps on a set of files; panics where a filesystem would refuse.
    /// Returns bytes and files by group, peak bytes, and the phases.
    fn replay(mut age: Age) -> (BTreeMap<String, (u64, u64)>, u64, Vec<String>) {
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        let mut dirs: Vec<String> = Vec::new();
        let (mut groups, mut phases) = (BTreeMap::new(), Vec::new());
        let (mut held, mut most) = (0, 0);
        while let Some(step) = age.next_step() {
            match step {
                FileStep::Phase(name) => phases.push(name.to_string()),
                FileStep::Op(FileOp::MakeDir(path)) => {
                    assert!(
                        path.rsplit_once('/')
                            .is_none_or(|(parent, _)| dirs.iter().any(|d| d == parent)),
                        "{path}"
                    );
                    assert!(!dirs.iter().any(|d| d == path), "{path} exists");
                    dirs.push(path.to_string());
                }
                FileStep::Op(FileOp::RemoveDir(path)) => {
                    let inside = alloc::format!("{path}/");
                    assert!(
                        !files.keys().any(|f| f.starts_with(&inside))
                            && !dirs.iter().any(|d| d.starts_with(&inside)),
                        "{path}"
                    );
                    let at = dirs.iter().position(|d| d == path).expect("the directory exists");
                    dirs.swap_remove(at);
                }
                FileStep::Op(FileOp::Create(path, payload)) => {
                    assert!(dirs.iter().any(|d| d == path.rsplit_once('/').unwrap().0), "{path}");
                    assert!(
                        files.insert(path.to_string(), payload.len()).is_none(),
                        "{path} exists"
                    );
                    let group =
                        groups.entry(path.split('/').next().unwrap().to_string()).or_insert((0, 0));
                    *group = (group.0 + payload.len(), group.1 + 1);
                    held += payload.len();
                }
                FileStep::Op(FileOp::Append(path, payload)) => {
                    *files.get_mut(path).unwrap() += payload.len();
                    groups.get_mut(path.split('/').next().unwrap()).unwrap().0 += payload.len();
                    held += payload.len();
                }
                FileStep::Op(FileOp::Delete(path)) => held -= files.remove(path).unwrap(),
                FileStep::Op(FileOp::Sync) => {}
                step => panic!("{step:?}"),
            }
            most = most.max(held);
        }
        assert!(files.is_empty() && dirs.is_empty(), "files or directories are left");
        (groups, most, phases)
    }

    fn settings(total: u64, rounds: u32) -> AgeSettings {
        AgeSettings { total: Bytes(total), rounds, seed: 5 }
    }

    #[test]
    fn age_rounds_write_exact_total_in_group_shares() {
        for (total, rounds) in [(3_000_000, 3), (1_000_000_007, 4), (40_000_000_000, 2)] {
            let age = Age::new(settings(total, rounds)).unwrap();
            let plan = age.plan();
            let (groups, most, phases) = replay(age);
            assert_eq!(groups.values().map(|g| g.0).sum::<u64>(), total);
            assert_eq!(plan.written, Bytes(total));
            assert!(most <= plan.space.0, "{most}");
            for group in GROUPS {
                let share = groups[group.name].0 as f64 / total as f64;
                assert!(
                    (share - group.percent as f64 / 100.0).abs() < 0.001,
                    "{} {share}",
                    group.name
                );
            }
            assert_eq!(phases.len(), rounds as usize * 4);
        }
    }

    #[test]
    fn age_round_of_10_gb_matches_documented_counts() {
        let (groups, _, _) = replay(Age::new(settings(10_000_000_000, 1)).unwrap());
        // These counts are in docs/method/ageing.md.
        let files: Vec<(&str, u64)> = GROUPS.iter().map(|g| (g.name, groups[g.name].1)).collect();
        insta::assert_debug_snapshot!(files);
    }

    #[test]
    fn age_interleaves_groups() {
        let mut age = Age::new(settings(1_000_000_000, 1)).unwrap();
        let mut order = Vec::new();
        while let Some(step) = age.next_step() {
            if let FileStep::Op(FileOp::Create(path, _)) = step {
                order.push(path.as_bytes()[0]);
            }
        }
        let switches = order.windows(2).filter(|w| w[0] != w[1]).count();
        assert!(switches > order.len() / 20, "{switches} of {}", order.len());
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert_eq!(Age::new(settings(1000, 0)).unwrap_err(), AgeSettingsError::NoRound);
        assert!(Age::new(settings(5_000_000, 10)).is_err());
        assert!(Age::new(settings(u64::MAX, 1)).is_ok());
    }
}
