//! Predictions for a drive that is known by its data sheet alone.

use crate::drives::crew;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::with_short_blocks;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::datasheet::{DataSheet, Prior};
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};
use trimtab_sim::analysis::LATENCY_KNEE;
use trimtab_sim::run::metrics;
use trimtab_study::learn::logs::repeat::{Host, UNIT};

/// Writes in flight.
const DEPTH: usize = 512;
/// Pages per erase block of the scaled-down drive.
const PAGES: u32 = 3;

/// Offered load of a step of the sweep and of the latencies, in per cent of the steady
/// rate.
const STEP_PERCENT: u64 = 5;
const HALF_PERCENT: u64 = 50;
/// Commands of a step. The first quarter is not recorded.
const STEP_COMMANDS: u64 = 20_000;
/// One command of this number reads: 10 %.
const READS: u64 = 10;

/// Predicted figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Name in JSON.
    pub key: &'static str,
    /// Name in words.
    pub words: &'static str,
    /// Measured over predicted figures of seven data-centre SSD units, each predicted
    /// from its data sheet alone, without the 5 % at either end: docs/method/ssd-iq.md.
    pub errors: (f64, f64),
}

/// All figures, in the order of [`figures`].
pub const FIGURES: [Figure; 8] = [
    figure("fresh_mbs", "MB/s of 4 KiB writes after a sequential fill", (0.79, 1.06)),
    figure("steady_mbs", "MB/s of 4 KiB writes in steady state", (0.83, 1.23)),
    figure(metrics::WAF, "write amplification in steady state", (0.81, 1.21)),
    figure(
        "knee_iops",
        "commands per second at the knee of write p99, 10 % of them reads",
        (0.16, 1.0),
    ),
    figure("read_p50_us", "us, read p50 at half the steady rate", (0.72, 2.14)),
    figure("read_p99_us", "us, read p99 at half the steady rate", (0.84, 10.1)),
    figure("write_p50_us", "us, write p50 at half the steady rate", (0.87, 2.31)),
    figure("write_p99_us", "us, write p99 at half the steady rate", (1.0, 938.0)),
];

const fn figure(key: &'static str, words: &'static str, errors: (f64, f64)) -> Figure {
    Figure { key, words, errors }
}

/// A prediction and its interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// The figure with the median of the priors.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Predicts [`FIGURES`] of `sheet`. Intervals are the wider of the errors on measured
/// units and of 90 % of `draws` draws of the priors.
///
/// # Errors
/// If the data sheet is impossible.
pub fn predictions(sheet: &DataSheet, draws: u32, seed: u64) -> Result<[Prediction; 8], SpecError> {
    let mut stream = Stream::new(seed, "data sheet priors");
    let drawn = (0..draws).map(|_| Prior::draw(std::array::from_fn(|_| stream.unit())));
    let priors: Vec<Prior> = std::iter::once(Prior::MEDIAN).chain(drawn).collect();
    let all = crew::map(&priors, |prior| figures(&sheet.drive(prior)?.spec, seed))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    Ok(std::array::from_fn(|nth| {
        let median = all[0][nth];
        let logs: Vec<f64> = all[1..].iter().map(|one| one[nth].ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let variance = if logs.len() < 2 { 0.0 } else { squares / (logs.len() - 1) as f64 };
        // 90 % of a normal distribution.
        let factor = (1.645 * variance.sqrt()).exp();
        let (low, high) = FIGURES[nth].errors;
        Prediction { median, low: median * low.min(1.0 / factor), high: median * high.max(factor) }
    }))
}

/// Fills `spec`, scaled down, in order, writes it twice at random, measures half a drive
/// write more, then offers loads.
fn figures(spec: &DriveSpec, seed: u64) -> Result<[f64; 8], SpecError> {
    let mut host = Host::new(Ssd::new(&with_short_blocks(spec, PAGES)?, seed)?, DEPTH);
    let units = host.ssd.size().0 / UNIT;
    let mut stream = Stream::new(seed, "uniform writes");
    let (fresh_end, measured_from, total) = (units + units / 50, units * 3, units * 7 / 2);
    let mut marks = Vec::new();
    for nth in 0..total {
        if [units, fresh_end, measured_from].contains(&nth) {
            marks.push((host.now(), host.ssd.counters().clone()));
        }
        host.write(if nth < units { nth } else { stream.below(units) }, 1);
    }
    let (end, ssd) = (host.now(), host.ssd);
    let rate = |units: u64, from: Nanos, to: Nanos| units as f64 * 1e9 / (to.0 - from.0) as f64;
    let fresh = rate(units / 50, marks[0].0, marks[1].0);
    let steady = rate(total - measured_from, marks[2].0, end);
    let waf = ssd.waf_since(&marks[2].1).unwrap_or(1.0);
    let offered = |percent: u64| offer(ssd.clone(), end, steady * percent as f64 / 100.0, seed);
    let mut steps = (1..=2 * 100 / STEP_PERCENT).map(|nth| nth * STEP_PERCENT);
    let lowest = offered(STEP_PERCENT)[3];
    let knee = steps.find(|percent| offered(*percent)[3] > LATENCY_KNEE * lowest);
    let knee = steady * knee.unwrap_or(200) as f64 / 100.0;
    let [read_p50, read_p99, write_p50, write_p99] = offered(HALF_PERCENT);
    let mbs = |rate: f64| rate * UNIT as f64 / 1e6;
    Ok([mbs(fresh), mbs(steady), waf, knee, read_p50, read_p99, write_p50, write_p99])
}

/// Median and p99 of reads, then of writes, in microseconds, while `per_second` commands
/// arrive at random instants from `from` on.
fn offer(mut ssd: Ssd, from: Nanos, per_second: f64, seed: u64) -> [f64; 4] {
    let units = ssd.size().0 / UNIT;
    let mut stream = Stream::new(seed, "offered load");
    let mut now = from.0 as f64;
    let mut latencies = [Vec::new(), Vec::new()];
    for nth in 0..STEP_COMMANDS {
        now -= (1.0 - stream.unit()).ln() / per_second * 1e9;
        let extent = Extent { offset: stream.below(units) * UNIT, len: UNIT };
        let write = nth % READS > 0;
        let command =
            if write { Command::Write(extent, DataClass::Random) } else { Command::Read(extent) };
        let at = Nanos(now as u64);
        let done = ssd.submit(at, &command).done;
        if nth >= STEP_COMMANDS / 4 {
            latencies[usize::from(write)].push((done.0 - at.0) as f64 / 1e3);
        }
    }
    for of in &mut latencies {
        of.sort_by(f64::total_cmp);
    }
    let [reads, writes] = &latencies;
    let at = |of: &[f64], percent: usize| of[of.len() * percent / 100];
    [at(reads, 50), at(reads, 99), at(writes, 50), at(writes, 99)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate = sequential rate / (1 + relocated share x its cost); the cost is at least 1.
    #[test]
    fn predictions_agree_with_write_amplification_and_queueing() {
        let sheet = DataSheet {
            name: "x".to_owned(),
            capacity_bytes: 960_197_124_096,
            sequential_write_mbs: Some(1700.0),
            random_write_iops: Some(70_000.0),
            ..DataSheet::default()
        };
        let [fresh, steady, waf, knee, read_p50, read_p99, write_p50, write_p99] =
            predictions(&sheet, 0, 1).unwrap().map(|one| one.median);
        assert!((fresh / 1700.0 - 1.0).abs() < 0.03, "{fresh}");
        let cost = (1700.0 / steady - 1.0) / (waf / 1.037 - 1.0);
        assert!((1.3..1.6).contains(&cost), "{steady} {waf}");
        // The rated 70000 writes a second are 287 MB/s, and 1.08 times that are 310 MB/s.
        // The formula that sizes the flash is 6 to 8 % too generous.
        assert!((1.05..1.09).contains(&(steady / 310.0)), "{steady}");
        // Nine commands in ten write: an open loop has no bound above 10/9 of the steady
        // rate, and waits for nothing far below it.
        assert!((0.8..1.25).contains(&(knee * 4096.0 / 1e6 / steady)), "{knee}");
        assert!(read_p50 < read_p99 && write_p50 < write_p99 && write_p99 < read_p99);
    }

    #[test]
    fn interval_of_predictions_holds_errors_of_measured_units() {
        let sheet = DataSheet {
            name: "x".to_owned(),
            capacity_bytes: 960_197_124_096,
            ..DataSheet::default()
        };
        for (one, figure) in predictions(&sheet, 2, 1).unwrap().iter().zip(FIGURES) {
            let (low, high) = figure.errors;
            assert!(one.low <= one.median * low && one.median * high <= one.high, "{}", figure.key);
        }
    }
}
