//! Earlier readings of this machine's drives, in the state directory: at most one a day
//! for each drive, and a limited number.

use crate::sys::beneath::{Dir, PRIVATE_FILE, named};
use crate::wear::effect::parts;
use crate::wear::{Counter, Reading, Used, WafCounters};
use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// File name in the state directory.
pub const FILE: &str = "wear.json";
const LOCK: &str = "wear.lock";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 32 << 20;
/// Readings kept for each drive: more than a year.
const POINTS_MAX: usize = 400;
/// Drives kept; those read longest ago are forgotten first.
const DRIVES_MAX: usize = 256;
/// Readings closer together are not kept, so that a daily job may come a little early.
const APART_S: u64 = 20 * 3600;
/// The present rate is the rate since the oldest reading of this time.
const PRESENT_S: u64 = 30 * 86_400;

/// The counters of one reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Point {
    unix_s: u64,
    host: Option<Counter>,
    nand: Option<Counter>,
    waf: Option<WafCounters>,
    used: Option<Used>,
}

impl Point {
    fn of(reading: &Reading) -> Option<Self> {
        let (host, nand) = (reading.host_written.clone(), reading.nand_written.clone());
        let (waf, used) = (reading.waf_counters.clone(), reading.used.clone());
        Some(Self { unix_s: reading.taken_unix_s?, host, nand, waf, used })
    }

    /// A counter, or the rated life used, is lower in `later`, from the same source.
    fn is_before_reset(&self, later: &Self) -> bool {
        let counters = [(&self.host, &later.host), (&self.nand, &later.nand)];
        let fell = |(before, after): (&Option<Counter>, &Option<Counter>)| {
            let pair = before.as_ref().zip(after.as_ref());
            pair.is_some_and(|(a, b)| a.source == b.source && b.bytes < a.bytes)
        };
        let used = self.used.as_ref().zip(later.used.as_ref());
        counters.into_iter().any(fell)
            || used.is_some_and(|(a, b)| a.source == b.source && b.percent < a.percent)
    }

    fn into_reading(self) -> Reading {
        let taken_unix_s = Some(self.unix_s);
        Reading {
            taken_unix_s,
            host_written: self.host,
            nand_written: self.nand,
            waf_counters: self.waf,
            used: self.used,
            ..Reading::default()
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    /// Oldest first, by the hash of model and serial number.
    drives: BTreeMap<String, Vec<Point>>,
}

impl Default for Document {
    fn default() -> Self {
        Self { version: VERSION, drives: BTreeMap::new() }
    }
}

/// The readings of a state directory.
#[derive(Debug)]
pub struct WearHistory {
    path: PathBuf,
    document: Document,
    /// Readings since the file was read.
    added: Vec<Reading>,
}

impl WearHistory {
    /// Reads the file in `directory`; a missing one is empty.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let document = match named::read_own(&path, BYTES_MAX) {
            Ok(bytes) => {
                let document: Document = serde_json::from_slice(&bytes)
                    .with_context(|| format!("'{}' is damaged", path.display()))?;
                anyhow::ensure!(
                    document.version == VERSION,
                    "'{}' is of another version of trimtab",
                    path.display()
                );
                document
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Document::default(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read '{}'", path.display()));
            }
        };
        Ok(Self { path, document, added: Vec::new() })
    }

    /// The oldest reading of the last 30 days, or the newest one before them. Readings
    /// before a counter started over count only if there is none since.
    pub fn before(&self, reading: &Reading) -> Option<Reading> {
        let (now, points) = (Point::of(reading)?, self.document.drives.get(&id(reading)?)?);
        let end = points.partition_point(|point| point.unix_s < now.unix_s);
        let mut earlier = &points[..end];
        let reset = earlier.windows(2).rposition(|pair| pair[0].is_before_reset(&pair[1]));
        earlier = &earlier[reset.map_or(0, |at| at + 1)..];
        let recent = earlier.iter().find(|point| now.unix_s - point.unix_s <= PRESENT_S);
        recent.or_else(|| earlier.last()).cloned().map(Point::into_reading)
    }

    /// False if no reading of the drive has NAND writes. A drive may log each request for
    /// a log that it lacks as an error, which smartd then reports.
    pub fn may_have_nand(&self, reading: &Reading) -> bool {
        let points = id(reading).and_then(|id| self.document.drives.get(&id));
        points.is_none_or(|points| points.iter().any(|point| point.nand.is_some()))
    }

    /// Write amplification of parts of the time from `since` until the change at
    /// `changed`, and from then until `reading`. Readings of other counters, and those
    /// before a counter started over, do not count.
    pub fn around(&self, reading: &Reading, since: u64, changed: u64) -> Option<[Vec<f64>; 2]> {
        let (now, points) = (Point::of(reading)?, self.document.drives.get(&id(reading)?)?);
        let counters = now.waf.as_ref()?;
        let recent = points.iter().chain([&now]).filter(|point| point.unix_s >= since);
        let mut same: Vec<(u64, &WafCounters)> = recent
            .filter_map(|point| Some((point.unix_s, point.waf.as_ref()?)))
            .filter(|(_, waf)| waf.source == counters.source && waf.unit == counters.unit)
            .collect();
        let has_reset = |pair: &[(u64, &WafCounters)]| {
            pair[1].1.host < pair[0].1.host || pair[1].1.nand < pair[0].1.nand
        };
        let reset = same.windows(2).rposition(has_reset);
        same.drain(..reset.map_or(0, |at| at + 1));
        let (before, after) = same.split_at(same.partition_point(|(unix_s, _)| *unix_s < changed));
        let parts_of = |side: &[(u64, &WafCounters)]| {
            parts(&side.iter().map(|(_, counters)| *counters).collect::<Vec<_>>())
        };
        Some([parts_of(before), parts_of(after)])
    }

    /// Adds a reading, unless the last one is less than a day old.
    pub fn add(&mut self, reading: &Reading) {
        let Some((id, point)) = id(reading).zip(Point::of(reading)) else { return };
        let points = self.document.drives.entry(id).or_default();
        // After a clock that was set back, readings of the future give no rate.
        points.retain(|old| old.unix_s <= point.unix_s);
        if points.last().is_some_and(|last| point.unix_s - last.unix_s < APART_S) {
            return;
        }
        points.push(point);
        points.drain(..points.len().saturating_sub(POINTS_MAX));
        self.forget_oldest();
        self.added.push(reading.clone());
    }

    fn forget_oldest(&mut self) {
        while self.document.drives.len() > DRIVES_MAX {
            let last_read = |points: &Vec<Point>| points.last().map_or(0, |point| point.unix_s);
            let oldest = self
                .document
                .drives
                .iter()
                .min_by_key(|(_, points)| last_read(points))
                .map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { return };
            self.document.drives.remove(&oldest);
        }
    }

    /// Adds the new readings to the file, also if another process has changed it since.
    /// Replaces it as a whole.
    pub fn save(&self) -> anyhow::Result<()> {
        if self.added.is_empty() {
            return Ok(());
        }
        let doing = || format!("cannot write '{}'", self.path.display());
        let directory = self.path.parent().with_context(doing)?;
        let parent = Dir::make_sheltered(directory).with_context(doing)?;
        // Other users cannot open this file, so they cannot hold the lock.
        let (lock, _) = parent.open_or_create(LOCK, PRIVATE_FILE).with_context(doing)?;
        flock(&lock, FlockOperation::LockExclusive).with_context(doing)?;
        let mut newest = Self::open(directory)?;
        self.added.iter().for_each(|reading| newest.add(reading));
        let text = serde_json::to_vec(&newest.document)?;
        parent.write_atomically(FILE, 0o600, |file| file.write_all(&text)).with_context(doing)
    }
}

/// Identifies a drive, also after it moved to another port. `None` without a serial
/// number.
fn id(reading: &Reading) -> Option<String> {
    let mut hash = Sha256::new();
    hash.update(reading.model.as_deref().unwrap_or_default());
    hash.update([0]);
    hash.update(reading.serial.as_deref()?);
    Some(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    fn reading(serial: &str, unix_s: u64, bytes: u64) -> Reading {
        let host_written = Some(Counter { bytes, step_bytes: 512, source: "log".into() });
        Reading {
            serial: Some(serial.into()),
            taken_unix_s: Some(unix_s),
            host_written,
            ..Reading::default()
        }
    }

    fn bytes(reading: Option<Reading>) -> Option<u64> {
        Some(reading?.host_written?.bytes)
    }

    #[test]
    fn history_keeps_one_reading_a_day_and_forgets_old_ones() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        for hour in 0..24 * 500 {
            history.add(&reading("a", hour * 3600, hour));
        }
        history.add(&Reading { serial: None, ..reading("a", 0, 0) });
        history.save().unwrap();
        let again = WearHistory::open(directory.path()).unwrap();
        let points: Vec<&Vec<Point>> = again.document.drives.values().collect();
        assert_eq!((points.len(), points[0].len()), (1, POINTS_MAX));
        assert!(points[0].windows(2).all(|pair| pair[1].unix_s - pair[0].unix_s >= APART_S));
        for number in 0..300 {
            history.add(&reading(&format!("s{number}"), 1_000 * DAY_S + number, 0));
        }
        assert_eq!(history.document.drives.len(), DRIVES_MAX);
        assert_eq!(
            bytes(history.before(&reading("a", 2_000 * DAY_S, 0))),
            None,
            "the drive read longest ago is forgotten first"
        );
    }

    /// Each writer opens the file before any of them saves.
    #[test]
    fn save_by_several_at_once_loses_no_reading() {
        let directory = tempfile::tempdir().unwrap();
        let opened = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (opened, path) = (&opened, directory.path());
                scope.spawn(move || {
                    let mut history = WearHistory::open(path).unwrap();
                    opened.wait();
                    history.add(&reading(&number.to_string(), DAY_S, number));
                    history.save().unwrap();
                });
            }
        });
        let text = std::fs::read(directory.path().join(FILE)).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["drives"].as_object().unwrap().len(), 8, "{document}");
    }

    #[test]
    fn before_is_the_oldest_reading_of_thirty_days() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        for day in [0, 100, 120, 125] {
            history.add(&reading("a", day * DAY_S, day));
        }
        let before = |day: u64| bytes(history.before(&reading("a", day * DAY_S, 0)));
        assert_eq!(
            [before(126), before(140), before(400), before(0)],
            [Some(100), Some(120), Some(125), None]
        );
        assert_eq!(bytes(history.before(&reading("b", 126 * DAY_S, 0))), None);
    }

    /// The counter starts over between day 105 and day 110, and again before day 118.
    #[test]
    fn before_is_no_reading_from_before_a_reset() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        for (day, bytes) in [(100, 900), (105, 950), (110, 3), (115, 30)] {
            history.add(&reading("a", day * DAY_S, bytes));
        }
        let before = |day: u64, now: u64| bytes(history.before(&reading("a", day * DAY_S, now)));
        assert_eq!(before(117, 40), Some(3));
        assert_eq!(before(118, 1), Some(3), "there is no reading since the second reset");
        assert_eq!(before(108, 960), Some(900), "the resets are later");
    }

    #[test]
    fn clock_set_back_drops_readings_of_the_future() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        history.add(&reading("a", 500 * DAY_S, 9));
        history.add(&reading("a", 100 * DAY_S, 5));
        assert_eq!(bytes(history.before(&reading("a", 501 * DAY_S, 0))), Some(5));
    }

    #[test]
    fn nand_writes_are_not_asked_for_where_no_reading_has_them() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        let without = |day: u64| reading("a", day * DAY_S, 5);
        assert!(history.may_have_nand(&without(1)));
        history.add(&without(1));
        assert!(!history.may_have_nand(&without(2)));
        history.add(&Reading { nand_written: without(2).host_written, ..without(2) });
        history.add(&without(3));
        assert!(history.may_have_nand(&without(4)), "one failed request is no proof");
    }

    #[test]
    fn full_disk_is_reported_and_keeps_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let run = |program: &str, args: &[&str]| {
            let mut command = std::process::Command::new(program);
            let status = command.args(args).arg(directory.path()).output();
            status.is_ok_and(|output| output.status.success())
        };
        if !run("mount", &["-t", "tmpfs", "-o", "size=16k,mode=700", "trimtab-test"]) {
            return crate::skip::skip("root and mount");
        }
        let save = |unix_s| -> anyhow::Result<()> {
            let mut history = WearHistory::open(directory.path())?;
            history.add(&reading("A", unix_s, 1));
            history.save()
        };
        let first = save(DAY_S);
        let file = directory.path().join(FILE);
        let kept = std::fs::read(&file);
        let filled = std::fs::write(directory.path().join("full"), [1; 16 << 10]);
        let second = save(2 * DAY_S);
        let left = std::fs::read(&file);
        assert!(run("umount", &[]));
        first.unwrap();
        assert!(filled.is_err(), "the filesystem is larger than the data");
        let error = format!("{:#}", second.unwrap_err());
        assert!(error.contains("cannot write '") && error.contains("No space left"), "{error}");
        assert_eq!(left.unwrap(), kept.unwrap());
    }

    #[test]
    fn damaged_history_is_reported_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), "{\"version\":").unwrap();
        let error = WearHistory::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
        std::fs::write(directory.path().join(FILE), "{\"version\":2,\"drives\":{}}").unwrap();
        assert!(
            WearHistory::open(directory.path())
                .unwrap_err()
                .to_string()
                .contains("another version")
        );
    }
}
