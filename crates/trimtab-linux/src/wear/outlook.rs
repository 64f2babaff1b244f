//! Rates between two readings, and the time until the rated life or the warranty ends.

use crate::wear::{Counter, Reading, Waf};
use serde::Serialize;
use trimtab_drive::units::Bytes;

const DAY_S: f64 = 86_400.0;
const DAYS_OF_YEAR: f64 = 365.0;

/// Changes between two readings of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Since {
    /// Time of the earlier reading, in seconds since 1970.
    pub unix_s: Option<u64>,
    /// Days between the readings.
    pub days: Option<f64>,
    /// Bytes that the host wrote.
    pub host_bytes: Option<u64>,
    /// Bytes that the drive wrote to flash memory.
    pub nand_bytes: Option<u64>,
    /// Write amplification of this time.
    pub waf: Option<Waf>,
    /// A counter is lower than before.
    pub went_back: bool,
    /// Rated life used at the earlier reading, in per cent, from the same source.
    pub used_percent: Option<u64>,
}

impl Since {
    /// Compares two readings.
    pub fn new(before: &Reading, now: &Reading) -> Self {
        let pairs =
            [(&before.host_written, &now.host_written), (&before.nand_written, &now.nand_written)];
        let went_back = pairs
            .iter()
            .any(|(before, now)| matches!((before, now), (Some(b), Some(n)) if n.bytes < b.bytes));
        let waf = now
            .waf_counters
            .as_ref()
            .zip(before.waf_counters.as_ref())
            .and_then(|(now, before)| now.since(before));
        let [host, nand] = pairs.map(|(before, now)| more(before.as_ref()?, now.as_ref()?));
        Self {
            unix_s: before.taken_unix_s,
            days: days(before, now),
            host_bytes: host,
            nand_bytes: nand,
            waf: waf.filter(|_| !went_back),
            went_back,
            used_percent: before
                .used
                .as_ref()
                .zip(now.used.as_ref())
                .filter(|(before, now)| before.source == now.source)
                .map(|(before, _)| before.percent),
        }
    }

    /// Bytes that the host wrote per day.
    fn host_rate(&self) -> Option<f64> {
        Some(self.host_bytes.filter(|bytes| *bytes > 0)? as f64 / self.days?)
    }
}

fn days(before: &Reading, now: &Reading) -> Option<f64> {
    let seconds =
        now.taken_unix_s?.checked_sub(before.taken_unix_s?).filter(|seconds| *seconds > 0)?;
    Some(seconds as f64 / DAY_S)
}

/// Growth of a counter that both readings took from the same source.
fn more(before: &Counter, now: &Counter) -> Option<u64> {
    (before.source == now.source).then(|| now.bytes.checked_sub(before.bytes)).flatten()
}

/// Time until the rated life is used up, at the rate between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LifeLeft {
    /// Best estimate in days; `None` if the readings only give a minimum.
    pub days: Option<f64>,
    /// Shortest time that fits the readings.
    pub low_days: f64,
    /// Longest time; `None` if they set no limit.
    pub high_days: Option<f64>,
    /// The counter of the rate.
    pub basis: &'static str,
}

impl LifeLeft {
    /// `None` without a percentage of the same source in both readings, or without time
    /// between them. Percentages are whole: each stands for itself and up to one more.
    pub fn new(before: &Reading, now: &Reading) -> Option<Self> {
        let (first, last) = (before.used.as_ref()?, now.used.as_ref()?);
        let days = days(before, now)?;
        if first.source != last.source || last.percent < first.percent {
            return None;
        }
        let used = last.percent as f64;
        if used >= 100.0 {
            return Some(Self {
                days: Some(0.0),
                low_days: 0.0,
                high_days: Some(0.0),
                basis: "rated life used",
            });
        }
        let written = |reading: &'static str, before: &Option<Counter>, now: &Option<Counter>| {
            let (before, now) = (before.as_ref()?, now.as_ref()?);
            let more = more(before, now).filter(|bytes| *bytes > now.step_bytes)? as f64;
            Some(Self::of_bytes(
                used,
                now.bytes as f64,
                more / days,
                now.step_bytes as f64 / days,
                reading,
            ))
        };
        written("NAND writes", &before.nand_written, &now.nand_written)
            .or_else(|| written("host writes", &before.host_written, &now.host_written))
            .or_else(|| Some(Self::of_percents(used, used - first.percent as f64, days)))
    }

    /// From `written` bytes that used `used` per cent, and from bytes per day. Assumes
    /// that a byte costs as much life as it did so far.
    fn of_bytes(used: f64, written: f64, rate: f64, rate_error: f64, basis: &'static str) -> Self {
        let days = |used: f64, rate: f64| (100.0 - used) * (written / used) / rate;
        let low_days = days(used + 1.0, rate + rate_error).max(0.0);
        let (middle, high_days) = match used {
            0.0 => (None, None),
            _ => (Some(days(used + 0.5, rate)), Some(days(used, rate - rate_error))),
        };
        Self { days: middle, low_days, high_days, basis }
    }

    fn of_percents(used: f64, more: f64, days: f64) -> Self {
        let low_days = (99.0 - used) * days / (more + 1.0);
        let middle = (more > 0.0).then(|| (99.5 - used) * days / more);
        let high_days = (more > 1.0).then(|| (100.0 - used) * days / (more - 1.0));
        Self { days: middle, low_days, high_days, basis: "rated life used" }
    }
}

/// The vendor's limit of host writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warranty {
    /// Terabytes written.
    Tbw(Bytes),
    /// Drive writes per day, over a number of years.
    Dwpd {
        /// Writes of the whole capacity per day.
        writes: f64,
        /// Years.
        years: f64,
    },
}

/// Host writes against the warranty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WarrantyState {
    /// Bytes that the warranty covers.
    pub limit_bytes: u64,
    /// Part of them that the host has written, in per cent.
    pub used_percent: f64,
    /// Bytes left.
    pub left_bytes: u64,
    /// Days until the limit, at the rate between two readings.
    pub days_left: Option<f64>,
}

impl Warranty {
    /// Compares a reading; the error says which value is missing.
    pub fn state(
        &self,
        reading: &Reading,
        since: Option<&Since>,
    ) -> Result<WarrantyState, &'static str> {
        let limit_bytes = match *self {
            Self::Tbw(limit) => limit.0,
            Self::Dwpd { writes, years } => {
                let capacity = reading
                    .capacity_bytes
                    .ok_or("the reading does not state the capacity; give --tbw")?;
                (capacity as f64 * writes * years * DAYS_OF_YEAR) as u64
            }
        };
        let written = reading
            .host_written
            .as_ref()
            .ok_or("the drive reports no host writes in a documented unit")?
            .bytes;
        let left_bytes = limit_bytes.saturating_sub(written);
        let days_left = since.and_then(Since::host_rate).map(|rate| left_bytes as f64 / rate);
        Ok(WarrantyState {
            limit_bytes,
            used_percent: written as f64 / limit_bytes as f64 * 100.0,
            left_bytes,
            days_left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::Used;

    fn reading(day: u64, percent: u64, nand: Option<u64>, host: u64) -> Reading {
        let counter =
            |bytes: u64, source: &str| Counter { bytes, step_bytes: 1, source: source.into() };
        Reading {
            taken_unix_s: Some(day * 86_400),
            capacity_bytes: Some(1000),
            used: Some(Used { percent, is_standard: true, source: "log".into() }),
            nand_written: nand.map(|bytes| counter(bytes, "nand")),
            host_written: Some(counter(host, "host")),
            ..Reading::default()
        }
    }

    #[test]
    fn life_left_of_nand_writes_has_an_interval() {
        // 20 % for 20,000 bytes, 100 bytes a day: 80 % are 80,000 bytes, or 800 days.
        let left =
            LifeLeft::new(&reading(0, 20, Some(19_000), 1), &reading(10, 20, Some(20_000), 1))
                .unwrap();
        assert_eq!((left.basis, left.high_days.map(f64::round)), ("NAND writes", Some(801.0)));
        assert_eq!(
            left.low_days.round(),
            752.0,
            "79 % at 952.4 bytes per cent and 100.1 bytes a day is {}",
            left.low_days
        );
        assert!(left.days.is_some_and(|days| days > left.low_days && days < 800.0), "{left:?}");
    }

    #[test]
    fn life_left_of_an_unused_drive_is_a_minimum() {
        let left =
            LifeLeft::new(&reading(0, 0, Some(0), 1), &reading(10, 0, Some(1000), 1)).unwrap();
        assert_eq!((left.days, left.high_days, left.low_days.round()), (None, None, 989.0));
    }

    #[test]
    fn life_left_without_bytes_counts_percents() {
        let left = LifeLeft::new(&reading(0, 10, None, 5), &reading(100, 20, None, 5)).unwrap();
        assert_eq!(
            (left.days, left.low_days, left.high_days),
            (Some(795.0), 7900.0 / 11.0, Some(8000.0 / 9.0))
        );
        let idle = LifeLeft::new(&reading(0, 10, None, 5), &reading(100, 10, None, 5)).unwrap();
        assert_eq!((idle.days, idle.low_days, idle.high_days), (None, 8900.0, None));
    }

    #[test]
    fn life_left_needs_two_times_and_a_percentage_that_rises() {
        assert_eq!(LifeLeft::new(&reading(5, 10, None, 5), &reading(5, 20, None, 9)), None);
        assert_eq!(LifeLeft::new(&reading(0, 20, None, 5), &reading(5, 10, None, 9)), None);
        let worn = LifeLeft::new(&reading(0, 99, None, 5), &reading(5, 104, None, 9)).unwrap();
        assert_eq!(worn.days, Some(0.0));
    }

    #[test]
    fn since_reports_a_counter_that_went_back() {
        let since = Since::new(&reading(0, 1, Some(10), 900), &reading(1, 1, Some(20), 5));
        assert_eq!(
            (since.went_back, since.host_bytes, since.nand_bytes, since.waf),
            (true, None, Some(10), None)
        );
    }

    #[test]
    fn warranty_of_dwpd_covers_capacity_times_days() {
        let (before, now) = (reading(0, 1, None, 100_000), reading(10, 1, None, 182_500));
        let since = Since::new(&before, &now);
        // 1,000 bytes, half a drive write per day, 2 years: 365,000 bytes.
        let state = Warranty::Dwpd { writes: 0.5, years: 2.0 }.state(&now, Some(&since)).unwrap();
        assert_eq!(
            (state.limit_bytes, state.used_percent, state.left_bytes),
            (365_000, 50.0, 182_500)
        );
        assert_eq!(state.days_left, Some(182_500.0 / 8_250.0));
        let exceeded = Warranty::Tbw(Bytes(100_000)).state(&now, None).unwrap();
        assert_eq!(
            (exceeded.left_bytes, exceeded.used_percent, exceeded.days_left),
            (0, 182.5, None)
        );
    }
}
