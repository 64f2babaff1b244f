//! Churn: a filesystem at a fixed fill on which files are created, extended, read and
//! deleted, in sessions with pauses, like months of use.

use super::{FileStep, FileWorkload, WorkloadPlan};
use crate::op::{FileOp, Payload};
use crate::run::Field;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, Nanos, exact};

/// Phase that fills to the given level.
pub const FILL: &str = "fill";
/// Phase of changes at that level.
pub const CHURN: &str = "churn";

/// Files per directory.
const DIR_FILES: u64 = 500;
/// An append adds the size of a new file divided by this.
const APPEND_SHARE: u64 = 2;
/// Block size for space accounting.
const BLOCK: u64 = 4096;
/// Largest file as a fraction of the live data, to preserve the mix at small sizes.
const FILE_SHARE_MAX: u64 = 16;

/// Settings. The distributions are assumptions: log-normal file sizes and memoryless ages
/// (every file is equally likely to go next).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Total space of the files after filling, in whole blocks of 4096 bytes.
    pub live: Bytes,
    /// Bytes to write afterwards.
    pub written: Bytes,
    /// Median file size in bytes. Default 40 kB.
    pub median: f64,
    /// Standard deviation of the logarithm of file sizes; 0 for equal sizes. Default 2.
    pub sigma: f64,
    /// Largest file.
    pub largest: Bytes,
    /// Percent of changes that append; others create a file, or delete above the limit.
    pub append_percent: u64,
    /// Reads per 100 changes.
    pub read_percent: u64,
    /// Class of the contents.
    pub class: DataClass,
    /// Bytes written per session, which ends with a sync; `MAX` for a single session.
    pub session: Bytes,
    /// Interval between session starts.
    pub session_every: Nanos,
}

impl Settings {
    /// All settings, for reports and the store.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let session =
            if self.session == Bytes::MAX { "all".to_string() } else { self.session.0.to_string() };
        [
            ("live", self.live.0.to_string()),
            ("written", self.written.0.to_string()),
            ("median", self.median.to_string()),
            ("sigma", self.sigma.to_string()),
            ("largest", self.largest.0.to_string()),
            ("append-percent", self.append_percent.to_string()),
            ("read-percent", self.read_percent.to_string()),
            ("data", self.class.to_string()),
            ("session", session),
            ("session-every", exact(self.session_every)),
        ]
        .into_iter()
        .map(|(key, value)| Field::new(key, value))
        .collect()
    }

    fn file_max(&self) -> u64 {
        self.largest.0.min(self.live.0 / FILE_SHARE_MAX).max(1)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            live: Bytes(1_000_000_000),
            written: Bytes(10_000_000_000),
            median: 40e3,
            sigma: 2.0,
            largest: Bytes(256 << 20),
            append_percent: 20,
            read_percent: 0,
            class: DataClass::Random,
            session: Bytes::MAX,
            session_every: Nanos::ZERO,
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Churn {
    settings: Settings,
    rng: Stream,
    /// Number and size of each file.
    files: Vec<(u64, u64)>,
    live: u64,
    /// Files created so far.
    number: u64,
    /// Directories created so far.
    dirs: u64,
    stage: ChurnStage,
    /// Bytes written since filling.
    written: u64,
    sessions: u64,
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChurnStage {
    New,
    Filling,
    /// Filled, not synced.
    Filled,
    Churning,
    /// Synced; waiting for the next session.
    Pause,
    Ended,
}

fn blocks(size: u64) -> u64 {
    size.div_ceil(BLOCK) * BLOCK
}

impl Churn {
    /// Creates the workload under `seed`.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            rng: Stream::new(seed, "churn"),
            files: Vec::new(),
            live: 0,
            number: 0,
            dirs: 0,
            stage: ChurnStage::New,
            written: 0,
            sessions: 0,
            path: String::new(),
        }
    }

    /// Bytes written since filling.
    #[must_use]
    pub const fn written(&self) -> Bytes {
        Bytes(self.written)
    }

    fn name(number: u64) -> String {
        format!("d{}/f{number}", number / DIR_FILES)
    }

    fn size(&mut self) -> u64 {
        let drawn = self.rng.log_normal(self.settings.median, self.settings.sigma) as u64;
        drawn.clamp(1, self.settings.file_max())
    }

    fn session_is_over(&self) -> bool {
        self.written >= self.settings.session.0.saturating_mul(self.sessions + 1)
    }

    /// A random file, uniformly.
    fn some_file(&mut self) -> Option<usize> {
        let n = self.files.len() as u64;
        (n > 0).then(|| self.rng.below(n) as usize)
    }

    /// Creates, extends, reads or deletes a file.
    fn change(&mut self) -> FileOp<'_> {
        let churning = self.stage == ChurnStage::Churning;
        let some = self.some_file();
        if let Some(at) = some.filter(|_| churning && self.settings.read_percent > 0)
            && self.rng.below(100 + self.settings.read_percent) < self.settings.read_percent
        {
            let (number, size) = self.files[at];
            self.path = Self::name(number);
            return FileOp::Read(&self.path, size);
        }
        if let Some(at) = some.filter(|_| self.live >= self.settings.live.0) {
            let (number, size) = self.files.swap_remove(at);
            self.live -= blocks(size);
            self.path = Self::name(number);
            return FileOp::Delete(&self.path);
        }
        let size = self.size();
        if let Some(at) = some.filter(|_| self.settings.append_percent > 0)
            && self.rng.below(100) < self.settings.append_percent
        {
            return self.grow(at, (size / APPEND_SHARE).max(1));
        }
        if self.number == self.dirs * DIR_FILES {
            self.path = format!("d{}", self.dirs);
            self.dirs += 1;
            return FileOp::MakeDir(&self.path);
        }
        self.files.push((self.number, size));
        self.path = Self::name(self.number);
        self.number += 1;
        self.live += blocks(size);
        self.written += if churning { size } else { 0 };
        FileOp::Create(&self.path, Payload::Fill { len: size, class: self.settings.class })
    }

    fn grow(&mut self, at: usize, len: u64) -> FileOp<'_> {
        let (number, size) = self.files[at];
        self.files[at].1 += len;
        self.live += blocks(size + len) - blocks(size);
        self.written += if self.stage == ChurnStage::Churning { len } else { 0 };
        self.path = Self::name(number);
        FileOp::Append(&self.path, Payload::Fill { len, class: self.settings.class })
    }
}

impl FileWorkload for Churn {
    fn plan(&self) -> WorkloadPlan {
        let Settings { live, written, .. } = self.settings;
        let most = self.settings.file_max();
        WorkloadPlan {
            // Each stage may begin one file more than its limit.
            written: Bytes(live.0.saturating_add(written.0).saturating_add(2 * most)),
            space: Bytes(live.0.saturating_add(most)),
            ops: None,
        }
    }

    fn next_step(&mut self) -> Option<FileStep<'_>> {
        let (step, next) = match self.stage {
            ChurnStage::New => (FileStep::Phase(FILL), ChurnStage::Filling),
            ChurnStage::Filling if self.live >= self.settings.live.0 => {
                (FileStep::Op(FileOp::Sync), ChurnStage::Filled)
            }
            ChurnStage::Filled => (FileStep::Phase(CHURN), ChurnStage::Churning),
            ChurnStage::Churning if self.written >= self.settings.written.0 => {
                (FileStep::Op(FileOp::Sync), ChurnStage::Ended)
            }
            ChurnStage::Churning if self.session_is_over() => {
                (FileStep::Op(FileOp::Sync), ChurnStage::Pause)
            }
            ChurnStage::Pause => {
                self.sessions += 1;
                (
                    FileStep::NotBefore(Nanos(
                        self.settings.session_every.0.saturating_mul(self.sessions),
                    )),
                    ChurnStage::Churning,
                )
            }
            ChurnStage::Ended => return None,
            ChurnStage::Filling | ChurnStage::Churning => return Some(FileStep::Op(self.change())),
        };
        self.stage = next;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq)]
    struct Replayed {
        files: BTreeMap<String, u64>,
        dirs: Vec<String>,
        churning: bool,
        written: u64,
        reads: u64,
        changes: u64,
        pauses: Vec<Nanos>,
        log: u64,
    }

    impl Replayed {
        fn live(&self) -> u64 {
            self.files.values().map(|size| blocks(*size)).sum()
        }

        fn step(&mut self, step: &FileStep<'_>) {
            self.log = format!("{step:?}")
                .bytes()
                .fold(self.log, |log, byte| log.wrapping_mul(31).wrapping_add(byte.into()));
            match step {
                FileStep::Phase(name) => self.churning = *name == CHURN,
                FileStep::NotBefore(at) => self.pauses.push(*at),
                FileStep::Op(FileOp::MakeDir(path)) => {
                    assert!(!self.dirs.contains(&(*path).into()), "{path} is created twice");
                    self.dirs.push((*path).into());
                }
                FileStep::Op(FileOp::Create(path, payload)) => {
                    assert!(
                        self.dirs.iter().any(|dir| path.starts_with(&format!("{dir}/"))),
                        "{path} has no directory"
                    );
                    assert!(self.files.insert((*path).into(), payload.len()).is_none());
                    self.written += payload.len();
                    self.changes += 1;
                }
                FileStep::Op(FileOp::Append(path, payload)) => {
                    *self.files.get_mut(*path).unwrap() += payload.len();
                    self.written += payload.len();
                    self.changes += 1;
                }
                FileStep::Op(FileOp::Read(path, len)) => {
                    assert_eq!(self.files[*path], *len);
                    self.reads += 1;
                }
                FileStep::Op(FileOp::Delete(path)) => {
                    self.files.remove(*path).unwrap();
                    self.changes += 1;
                }
                FileStep::Op(_) => {}
            }
        }
    }

    const MB: u64 = 1_000_000;

    #[test]
    fn churn_fills_and_then_holds_its_level() {
        let (live, total) = (50 * MB, 200 * MB);
        let settings = Settings {
            live: Bytes(live),
            written: Bytes(total),
            read_percent: 10,
            session: Bytes(20 * MB),
            session_every: Nanos::from_secs(100),
            ..Settings::default()
        };
        let run = || {
            let mut churn = Churn::new(settings, 7);
            let plan = churn.plan();
            let mut seen = Replayed::default();
            while let Some(step) = churn.next_step() {
                seen.step(&step);
                if seen.log.is_multiple_of(64) {
                    let now = seen.live();
                    assert!(
                        now <= plan.space.0
                            && (!seen.churning || now >= live - settings.file_max() - BLOCK),
                        "{now}"
                    );
                }
            }
            assert!(seen.written <= plan.written.0);
            assert!(churn.written().0 >= total && churn.written().0 < total + settings.file_max());
            seen
        };
        let seen = run();
        let due: Vec<u64> = seen.pauses.iter().map(|at| at.0 / 1_000_000_000).collect();
        assert_eq!(due, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert!(
            (seen.reads as f64 / seen.changes as f64 - 0.1).abs() < 0.02,
            "{} reads, {} changes",
            seen.reads,
            seen.changes
        );
        assert_eq!(run(), seen);
    }

    #[test]
    fn file_lifetimes_are_memoryless() {
        // Deletion is uniform: after as many deletions as files, a share 1/e remains.
        let settings = Settings {
            live: Bytes(40_960_000),
            written: Bytes(40_960_000),
            median: 4096.0,
            sigma: 0.0,
            append_percent: 0,
            ..Settings::default()
        };
        let mut churn = Churn::new(settings, 3);
        let mut seen = Replayed::default();
        while let Some(step) = churn.next_step() {
            seen.step(&step);
        }
        assert_eq!(seen.files.len(), 10_000);
        assert!(seen.files.values().all(|size| *size == 4096));
        let old = seen
            .files
            .keys()
            .filter(|name| name.split_once('f').unwrap().1.parse::<u64>().unwrap() < 10_000)
            .count();
        assert!((3500..3860).contains(&old), "{old}");
    }
}
