//! Progress of a run of writes, from a log or from the model, and the figures of it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Length of a bin in drive writes.
pub const BIN: f64 = 0.05;
/// Rows further apart than this many usual spacings have a gap between them.
const GAP: f64 = 5.0;
/// A longer time without a write is a pause.
const PAUSE_S: f64 = 10.0;

/// One row of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Name for messages: `line 17`.
    pub place: String,
    /// Time of its end in seconds, from any origin.
    pub time_s: f64,
    /// Seconds that its bytes cover; `None` for the usual spacing.
    pub covers_s: Option<f64>,
    /// Bytes that the host wrote; `None` if unknown.
    pub written: Option<f64>,
    /// Bytes, or steps of an unknown unit, written to flash memory.
    pub nand_written: Option<f64>,
    /// The same that the drive read from flash memory.
    pub nand_read: Option<f64>,
}

/// Flash counters at one point of a run, from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NandPoint {
    /// Bytes that the host had written.
    pub host_bytes: f64,
    /// Bytes written to flash memory.
    pub written: f64,
    /// Bytes read from flash memory.
    pub read: Option<f64>,
}

/// Result of a run, of the measured drive or the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rate of the first 2 % of the used size in MB/s.
    pub fresh_mbs: f64,
    /// Rate of the last fifth in MB/s.
    pub steady_mbs: f64,
    /// WAF of the last fifth.
    pub waf: Option<f64>,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogSeries {
    /// Seconds and bytes that the host had written, both ascending.
    pub written: Vec<(f64, f64)>,
    /// Flash counters.
    pub nand: Vec<NandPoint>,
    /// True if the unit of the flash counters is unknown, so only ratios of them count.
    pub is_of_unknown_unit: bool,
    /// Irregularities of the log, and their treatment.
    pub notes: Vec<String>,
}

/// Counts irregularities of one kind and keeps the first.
#[derive(Default)]
struct Tally {
    count: usize,
    first: String,
}

impl Tally {
    fn add(&mut self, first: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = first();
        }
        self.count += 1;
    }

    fn note(&self, what: &str, treatment: &str, notes: &mut Vec<String>) {
        if self.count > 0 {
            notes.push(format!("{what}: {}, first {}; {treatment}", self.count, self.first));
        }
    }
}

/// A series up to one row.
#[derive(Default)]
struct SeriesBuilder {
    series: LogSeries,
    /// Usual time from one row to the next.
    usual_s: f64,
    time_s: f64,
    bytes: f64,
    nand_written: f64,
    nand_read: Option<f64>,
    /// Bytes at the first row that has flash counters.
    counts_from: Option<f64>,
    /// Bytes per second of the last row with writes.
    rate: f64,
    /// Time since the last write.
    idle_s: f64,
    paused_s: f64,
    backward: Tally,
    gaps: Tally,
    unknown: Tally,
    pauses: Tally,
}

impl SeriesBuilder {
    fn add(&mut self, row: &Row, before: Option<&Row>) {
        let (passed_s, gap_s) = self.times(row, before);
        let written = row.written.unwrap_or_else(|| {
            self.unknown.add(|| row.place.clone());
            self.rate * (passed_s - gap_s)
        });
        if written > 0.0 {
            self.end_pause(row);
            self.rate = written / (passed_s - gap_s).max(1e-9);
        } else {
            self.idle_s += passed_s - gap_s;
        }
        let missed = self.rate * gap_s;
        self.time_s += passed_s;
        self.bytes += written + missed;
        if written + missed > 0.0 {
            self.series.written.push((self.time_s, self.bytes));
        }
        let counted = row.nand_written.filter(|_| row.written.is_some() && gap_s == 0.0);
        self.count_nand(row, counted, written, missed);
    }

    /// Seconds since the row before, and the part of them that no row covers.
    fn times(&mut self, row: &Row, before: Option<&Row>) -> (f64, f64) {
        let usual_s = self.usual_s;
        // A log may begin at 0.
        let since_0 = if row.time_s > 0.0 { row.time_s.min(usual_s) } else { usual_s };
        let first_s = row.covers_s.unwrap_or(since_0);
        let mut passed_s = before.map_or(first_s, |before| row.time_s - before.time_s);
        if passed_s <= 0.0 {
            self.backward.add(|| row.place.clone());
            passed_s = row.covers_s.unwrap_or(usual_s);
        }
        let covers_s = row.covers_s.unwrap_or_else(|| passed_s.min(usual_s)).min(passed_s);
        if before.is_none() {
            passed_s = covers_s;
        }
        let mut gap_s = passed_s - covers_s;
        if gap_s > (GAP - 1.0) * usual_s {
            self.gaps.add(|| format!("{:.0} s before {}", gap_s, row.place));
        } else if row.covers_s.is_none() {
            // Jitter of the logger.
            gap_s = 0.0;
        }
        (passed_s, gap_s)
    }

    /// Leaves a long pause before `row` out of the time.
    fn end_pause(&mut self, row: &Row) {
        let idle_s = core::mem::take(&mut self.idle_s);
        if idle_s > PAUSE_S {
            self.pauses.add(|| format!("{idle_s:.0} s before {}", row.place));
            self.paused_s += idle_s;
            self.time_s -= idle_s;
        }
    }

    fn count_nand(&mut self, row: &Row, counted: Option<f64>, written: f64, missed: f64) {
        match counted {
            // Some drives update their counters once a minute.
            Some(0.0) => {}
            Some(more) => {
                let from = *self.counts_from.get_or_insert(self.bytes - written);
                if self.series.nand.is_empty() {
                    let read = row.nand_read.map(|_| 0.0);
                    self.series.nand.push(NandPoint { host_bytes: from, written: 0.0, read });
                }
                self.nand_written += more;
                self.nand_read = self.nand_read.zip(row.nand_read).map(|(sum, more)| sum + more);
                self.series.nand.push(NandPoint {
                    host_bytes: self.bytes,
                    written: self.nand_written,
                    read: self.nand_read,
                });
            }
            // The counters of this row are unknown: assume the amplification so far.
            None => {
                let row_bytes = written + missed;
                let counted = self.bytes - row_bytes - self.counts_from.unwrap_or(self.bytes);
                let share = if counted > 0.0 { row_bytes / counted } else { 0.0 };
                self.nand_written += share * self.nand_written;
                self.nand_read = self.nand_read.map(|sum| sum + share * sum);
            }
        }
    }

    fn finish(self) -> LogSeries {
        let Self { mut series, backward, gaps, unknown, pauses, paused_s, .. } = self;
        let notes = &mut series.notes;
        backward.note(
            "time stands still or goes back",
            "the row is kept, with the usual spacing",
            notes,
        );
        gaps.note("gaps in time", "writes there are assumed to continue at the rate before", notes);
        unknown.note(
            "rows without a usable count of host writes",
            "writes there are assumed to continue at the rate before",
            notes,
        );
        pauses.note(
            "pauses without a write",
            &format!("{paused_s:.0} s are left out of the rates"),
            notes,
        );
        series
    }
}

impl LogSeries {
    /// The series of `rows`.
    #[must_use]
    pub fn of_rows(rows: &[Row]) -> Self {
        let usual_s = usual_spacing(rows);
        let mut builder = SeriesBuilder {
            series: Self { written: vec![(0.0, 0.0)], ..Self::default() },
            usual_s,
            rate: first_rate(rows, usual_s),
            nand_read: Some(0.0),
            ..SeriesBuilder::default()
        };
        let mut before = None;
        for row in rows {
            builder.add(row, before);
            before = Some(row);
        }
        builder.finish()
    }

    /// Bytes that the host wrote.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.written.last().map_or(0.0, |last| last.1)
    }

    /// Time at which `bytes` were written.
    fn time_s(&self, bytes: f64) -> f64 {
        let after = self.written.partition_point(|point| point.1 < bytes);
        let (Some(after), Some(before)) = (
            self.written.get(after.max(1)).or(self.written.last()),
            self.written.get(after.max(1) - 1),
        ) else {
            return 0.0;
        };
        let share = ((bytes - before.1) / (after.1 - before.1).max(1e-9)).clamp(0.0, 1.0);
        before.0 + share * (after.0 - before.0)
    }

    /// Mean rate in MB/s between two points of the progress.
    #[must_use]
    pub fn rate_mbs(&self, from: f64, to: f64) -> f64 {
        (to - from) / (self.time_s(to) - self.time_s(from)).max(1e-9) / 1e6
    }

    /// WAF and flash reads per host byte between two points of the progress, from the
    /// first to the last update of the counters there.
    #[must_use]
    pub fn waf(&self, from: f64, to: f64) -> Option<(f64, Option<f64>)> {
        let slack = (to - from) * 0.02;
        let mut inside = self
            .nand
            .iter()
            .filter(|point| (from - slack..=to + slack).contains(&point.host_bytes));
        let first = inside.next()?;
        let last = inside.next_back()?;
        let host = last.host_bytes - first.host_bytes;
        // Few updates in a short window say little.
        if host < (to - from) * 0.5 {
            return None;
        }
        let read = last.read.zip(first.read).map(|(last, first)| (last - first) / host);
        Some(((last.written - first.written) / host, read))
    }

    /// Rates of the complete bins over `used_bytes`, in MB/s.
    #[must_use]
    pub fn bins(&self, used_bytes: f64) -> Vec<f64> {
        let bin = used_bytes * BIN;
        let count = (self.bytes() / bin + 1e-6) as usize;
        (0..count).map(|nth| self.rate_mbs(nth as f64 * bin, (nth + 1) as f64 * bin)).collect()
    }

    /// Figures by the rules of the measured curves.
    #[must_use]
    pub fn outcome(&self, used_bytes: f64) -> Outcome {
        let total = self.bytes();
        let fresh_mbs = self.rate_mbs(0.0, (used_bytes / 50.0).min(total));
        let steady_mbs = self.rate_mbs(total * 0.8, total);
        let waf = self.waf(total * 0.8, total).map(|(waf, _)| waf);
        Outcome { fresh_mbs, steady_mbs, waf }
    }

    /// Place in drive writes at which the rate crosses the mean of `fresh` and `steady`,
    /// between the middles of two bins.
    #[must_use]
    pub fn cliff(&self, used_bytes: f64, fresh: f64, steady: f64) -> Option<f64> {
        let bins = self.bins(used_bytes);
        let nth = crossing(&bins, fresh, steady)?;
        let (before, after) = (bins.get(nth.checked_sub(1)?)?, bins.get(nth)?);
        let share = (before - f64::midpoint(fresh, steady)) / (before - after).max(1e-9);
        Some((nth as f64 - 0.5 + share.clamp(0.0, 1.0)) * BIN)
    }
}

/// The first bin below the mean of fresh and steady rate, unless they hardly differ.
#[must_use]
pub fn crossing(bins: &[f64], fresh: f64, steady: f64) -> Option<usize> {
    let middle = f64::midpoint(fresh, steady);
    bins.iter().position(|rate| *rate < middle).filter(|_| steady < 0.9 * fresh)
}

/// Median time between two rows; 1 s without two.
fn usual_spacing(rows: &[Row]) -> f64 {
    let mut spacings: Vec<f64> = rows
        .windows(2)
        .map(|pair| pair[1].time_s - pair[0].time_s)
        .filter(|spacing| *spacing > 0.0)
        .collect();
    spacings.sort_by(f64::total_cmp);
    spacings.get(spacings.len() / 2).copied().unwrap_or(1.0)
}

/// Rate in bytes per second of the first row with a count.
fn first_rate(rows: &[Row], usual_s: f64) -> f64 {
    let first = rows.iter().find_map(|row| Some((row.written?, row.covers_s.unwrap_or(usual_s))));
    first.map_or(0.0, |(bytes, time_s)| bytes / time_s.max(1e-9))
}

/// Differences of the values of a counter; `None` where a value is missing, and where the
/// counter went back, which `notes` states.
#[must_use]
pub fn differences(
    name: &str,
    values: &[(String, Option<f64>)],
    notes: &mut Vec<String>,
) -> Vec<Option<f64>> {
    let mut last: Option<f64> = None;
    let mut resets = Tally::default();
    let mut one = |(place, value): &(String, Option<f64>)| {
        let difference = (*value).zip(last).map(|(value, last)| value - last);
        last = (*value).or(last);
        if difference.is_some_and(|more| more < 0.0) {
            resets.add(|| place.to_owned());
        }
        difference.filter(|more| *more >= 0.0)
    };
    let differences = values.iter().map(&mut one).collect();
    resets.note(
        &format!("{name} went back (reset or wrapped)"),
        "the counts of that row are unknown",
        notes,
    );
    differences
}
