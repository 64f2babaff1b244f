//! Figures that a log shows, and the same of a model.

use super::Statement;
use crate::learn::logs::repeat::{self, Run, Start};
use crate::learn::logs::series::LogSeries;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::three_digits;

/// A fresh rate further from the published one than this factor shows the host's limit.
const HOST_FACTOR: f64 = 1.25;
/// A load that achieves this share of the offered rate does not show the drive's limit.
const MET: f64 = 0.985;
/// Standard errors of the logarithm: noise of a run and what the model cannot reproduce.
const RATE_ERROR: f64 = 0.02;
const WAF_ERROR: f64 = 0.01;
const CLIFF_ERROR: f64 = 0.05;
const CLIFF_ERROR_DRIVE_WRITES: f64 = 0.02;
/// Drive writes after a fill in which no drive collects.
const UNCOLLECTED: f64 = 0.04;
/// WAF over that of these writes from which on a drive collects.
const COLLECTED: f64 = 1.03;
/// Drive writes from the cliff to the last fifth of a log whose end is steady.
const SETTLED: f64 = 1.0;

/// A figure that a log shows, and the model too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Rate of the first 2 % of the used size.
    Fresh,
    /// Rate of the last fifth.
    Steady,
    /// The same of a log that ends before the rate is steady.
    LastFifth,
    /// Place where the rate falls.
    Cliff,
    /// Flash bytes written per host byte in the last fifth.
    Waf,
    /// The same without garbage collection: metadata and parity.
    Floor,
    /// The ratio of both.
    Collection,
}

impl FigureKind {
    /// Name with its unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh MB/s",
            Self::Steady => "steady MB/s",
            Self::LastFifth => "last fifth MB/s",
            Self::Cliff => "cliff in drive writes",
            Self::Waf => "WAF",
            Self::Floor => "WAF without collection",
            Self::Collection => "WAF of collection",
        }
    }
}

/// A figure of a log, and of the best drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogFigure {
    /// Kind.
    pub kind: FigureKind,
    /// Value in the log.
    pub measured: f64,
    /// Standard error of its logarithm.
    pub sigma: f64,
    /// Value of the best drive.
    pub twin: f64,
}

/// The figures of `kinds` that `spec` shows in `run`.
pub(super) fn shown(
    spec: &DriveSpec,
    run: &Run,
    kinds: &[FigureKind],
    seed: u64,
) -> Option<Vec<f64>> {
    let (series, used_bytes) = repeat::series(spec, run, 1, seed).ok()?;
    let floor = 1.0 + f64::from(spec.flash.ftl.metadata_permille) / 1000.0;
    let outcome = series.outcome(used_bytes);
    let (fresh, steady) = (outcome.fresh_mbs, outcome.steady_mbs);
    let of = |kind: &FigureKind| match kind {
        FigureKind::Fresh => fresh,
        FigureKind::Steady | FigureKind::LastFifth => steady,
        // A run without a cliff may have one behind its end.
        FigureKind::Cliff => series.cliff(used_bytes, fresh, steady).unwrap_or(run.drive_writes),
        FigureKind::Waf => outcome.waf.unwrap_or(1.0),
        FigureKind::Floor => floor,
        FigureKind::Collection => outcome.waf.unwrap_or(1.0) / floor,
    };
    Some(kinds.iter().map(of).collect())
}

/// The figures of `log`, without those that say nothing about the drive.
pub(super) fn figures(
    log: &LogSeries,
    statement: &Statement,
    used_bytes: f64,
    fresh_published: Option<f64>,
    notes: &mut Vec<String>,
) -> Vec<LogFigure> {
    let total = log.bytes();
    let outcome = log.outcome(used_bytes);
    let (fresh, steady) = (outcome.fresh_mbs, outcome.steady_mbs);
    let starts_fresh = statement.run.start != Start::Overwritten && total >= used_bytes / 50.0;
    let mut all = Vec::new();
    let mut add = |kind, measured: f64, sigma| {
        all.push(LogFigure { kind, measured, sigma, twin: measured });
    };
    let offered = offered_mbs(statement, fresh.max(steady), notes);
    let is_limit = |rate: f64| rate < MET * offered;
    if !is_limit(steady) {
        notes.push(
            "the drive achieves the offered rate to the end, so its rates say nothing of its limit"
                .to_owned(),
        );
    }
    let host_limit = fresh_published
        .is_some_and(|stated| !(1.0 / HOST_FACTOR..HOST_FACTOR).contains(&(fresh / stated)));
    if starts_fresh && is_limit(fresh) && host_limit {
        notes.push(format!(
            "the fresh rate of {fresh:.2} MB/s is far from the {:.0} MB/s of the drive file: a \
             limit of the host, or a wrong unit; it is not used for the program time",
            fresh_published.unwrap_or(0.0)
        ));
    } else if starts_fresh && is_limit(fresh) {
        add(FigureKind::Fresh, fresh, RATE_ERROR);
    }
    let cliff = log
        .cliff(used_bytes, fresh, steady)
        .filter(|_| starts_fresh && is_limit(fresh) && is_limit(steady));
    let unsettled = cliff.filter(|at| 0.8 * total / used_bytes - at < SETTLED);
    if let Some(at) = unsettled {
        notes.push(format!(
            "the log ends {} drive writes after the cliff: not steady",
            three_digits(total / used_bytes - at)
        ));
    }
    if is_limit(steady) {
        let kind = if unsettled.is_some() { FigureKind::LastFifth } else { FigureKind::Steady };
        add(kind, steady, steady_error(log, total));
    }
    // With another fresh rate, the model crosses the mean elsewhere.
    if let Some(at) = cliff.filter(|_| !host_limit) {
        let spacing = total / used_bytes / log.written.len() as f64;
        let near = (CLIFF_ERROR_DRIVE_WRITES + spacing / 2.0) / at;
        add(FigureKind::Cliff, at, libm::hypot(CLIFF_ERROR, near));
    }
    // Every drive has spare space for some writes before it collects. Skewed writes raise the
    // WAF long before they lower the rate.
    let bin = UNCOLLECTED * used_bytes;
    let bins = cliff.map_or(1, |at| ((at / 2.0 / UNCOLLECTED) as usize).max(1));
    let waf = |nth: usize| log.waf(nth as f64 * bin, (nth + 1) as f64 * bin).map(|(waf, _)| waf);
    let rises =
        |nth: &usize| waf(*nth).zip(waf(0)).is_some_and(|(waf, at_0)| waf > COLLECTED * at_0);
    let uncollected = (1..bins).find(rises).unwrap_or(bins) as f64 * bin;
    wafs(log, total, starts_fresh.then_some(uncollected), notes)
        .into_iter()
        .for_each(|(kind, value, error)| add(kind, value, error));
    all
}

/// The offered rate of a log with this highest rate, both in MB/s. A closed loop has none.
fn offered_mbs(statement: &Statement, highest: f64, notes: &mut Vec<String>) -> f64 {
    let offered = statement.offered.map_or(f64::INFINITY, |bytes| bytes / 1e6);
    let factor = highest / offered;
    if factor > 2.0 - MET {
        notes.push(format!(
            "the log achieves {factor:.3} times the offered rate, which no drive can: a clock is \
             wrong. Rates are used as logged, and the offered rate is taken as {factor:.3} times \
             the stated one"
        ));
        offered * factor
    } else {
        offered
    }
}

/// Relative error of the steady rate, with the spread of the pieces of its fifth.
fn steady_error(log: &LogSeries, total: f64) -> f64 {
    let rate = |nth: u32| {
        let from = total * (0.8 + 0.04 * f64::from(nth));
        libm::log(log.rate_mbs(from, from + 0.04 * total))
    };
    let pieces = [0, 1, 2, 3, 4].map(rate);
    let mean = pieces.iter().sum::<f64>() / 5.0;
    let spread = pieces.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / 4.0;
    libm::sqrt(RATE_ERROR * RATE_ERROR + spread / 5.0)
}

/// Figures of the flash counters. Nothing is collected in the first `uncollected` bytes.
fn wafs(
    log: &LogSeries,
    total: f64,
    uncollected: Option<f64>,
    notes: &mut Vec<String>,
) -> Vec<(FigureKind, f64, f64)> {
    let updates = log.nand.iter().filter(|point| point.host_bytes >= total * 0.8).count();
    let Some((waf, reads)) = log.waf(total * 0.8, total) else {
        if !log.nand.is_empty() {
            notes.push(
                "NAND counters change too rarely in the last fifth of the log; they are not used"
                    .to_owned(),
            );
        }
        return Vec::new();
    };
    let error = libm::hypot(WAF_ERROR, 0.3 / updates.max(1) as f64);
    let fresh = uncollected.and_then(|bytes| log.waf(0.0, bytes)).map(|(waf, _)| waf);
    let of_reads = reads.map(|reads| waf / (1.0 + reads));
    let known_unit = !log.is_of_unknown_unit;
    if !known_unit {
        notes.push(
            "the unit of the NAND counters is unknown, so only their ratios are used: they show \
             collection, not metadata"
                .to_owned(),
        );
    }
    if known_unit && waf < 0.98 {
        notes.push(format!(
            "NAND writes are {waf:.2} times host writes. A drive that compresses writes less than \
             the host; otherwise the units differ. The counters are not used"
        ));
        return Vec::new();
    }
    match (known_unit, of_reads.or(fresh)) {
        (true, Some(floor)) if floor >= 0.98 => vec![
            (FigureKind::Waf, waf, error),
            (FigureKind::Floor, floor.max(1.0), libm::hypot(WAF_ERROR / 2.0, error / 2.0)),
        ],
        (true, _) => vec![(FigureKind::Waf, waf, error)],
        (false, _) => {
            // Reads of an unknown unit cannot be compared with bytes of the host.
            let ratio = fresh.map(|fresh| waf / fresh);
            ratio.into_iter().map(|ratio| (FigureKind::Collection, ratio, error)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::logs::load::Pattern;
    use crate::learn::logs::series::Row;

    /// The figures of a log of 100 GB and its notes: rows of 1 GB, 100 at 1000 MB/s and
    /// then `slow` at 400. The WAF is 1.04 in the first 20, then 2.08.
    fn of_log(slow: u32, offered: Option<f64>) -> (Vec<LogFigure>, Vec<String>) {
        let mut time_s = 0.0;
        let row = |nth: u32| {
            time_s += if nth <= 100 { 1.0 } else { 2.5 };
            Row {
                place: format!("row {nth}"),
                time_s,
                covers_s: None,
                written: Some(1e9),
                nand_written: Some(if nth <= 20 { 1.04e9 } else { 2.08e9 }),
                nand_read: None,
            }
        };
        let rows: Vec<Row> = (1..=100 + slow).map(row).collect();
        let run = Run {
            pattern: Pattern::Uniform,
            scattered: true,
            start: Start::Sequential,
            used: 1.0,
            drive_writes: 1.3,
            depth: 32,
            request_units: 1,
        };
        let mut notes = Vec::new();
        let statement = Statement { run, offered };
        let found = figures(&LogSeries::of_rows(&rows), &statement, 100e9, None, &mut notes);
        (found, notes)
    }

    #[test]
    fn early_waf_ends_where_it_rises_and_short_log_is_not_steady() {
        let (found, notes) = of_log(30, None);
        let value = |kind| found.iter().find(|one| one.kind == kind).map(|one| one.measured);
        let floor = value(FigureKind::Floor).unwrap();
        assert!((floor - 1.04).abs() < 1e-6, "{floor}");
        assert!((value(FigureKind::Waf).unwrap() - 2.08).abs() < 1e-6);
        assert!(value(FigureKind::Steady).is_none());
        assert!((value(FigureKind::LastFifth).unwrap() - 400.0).abs() < 20.0, "{found:?}");
        assert!(
            notes.iter().any(|note| note.contains("0.30 drive writes after the cliff: not steady")),
            "{notes:?}"
        );
    }

    /// A clock of 2.4 ticks per ns where there are 2.206 shows 1.088 times the rate (SSD-iq
    /// on AWS).
    #[test]
    fn rate_above_the_offered_one_shows_a_wrong_clock() {
        let offered = 1e9 / 1.088;
        let (found, notes) = of_log(300, Some(offered));
        let notes = notes.join("\n");
        assert!(
            notes.contains("1.088 times the offered rate") && notes.contains("a clock is wrong")
        );
        // The fresh rate is that of the load. The steady rate is the drive's, as logged.
        let rates: Vec<(FigureKind, f64)> = found
            .iter()
            .filter(|one| [FigureKind::Fresh, FigureKind::Steady].contains(&one.kind))
            .map(|one| (one.kind, one.measured.round()))
            .collect();
        assert_eq!(rates, [(FigureKind::Steady, 400.0)]);
        let (_, notes) = of_log(300, Some(1e9));
        assert!(!notes.join("\n").contains("a clock is wrong"), "{notes:?}");
    }
}
