//! Metrics of the test sets: of single tests, and of rounds over bytes written.

use crate::analysis::change_points::{self, ChangePoint, ChangePointOptions};
use crate::analysis::steady::{SteadyState, steady_state};
use crate::run::metrics;
use crate::run::{Axis, Better, LatencyPart, Metric, Phase, Series, Unit};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::units::{Bytes, Nanos};

/// Operations up to this size also report operations per second.
const SMALL: f64 = 65536.0;

/// Metrics of every test, one sample per pass: `NAME.rate` (10^6 bytes per second),
/// `NAME.latency` (mean from issue to completion) and for small operations `NAME.iops`.
#[must_use]
pub fn metrics(phases: &[Phase]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for name in names(phases.iter().map(|p| p.name.as_str())) {
        let passes: Vec<&Phase> = phases
            .iter()
            .filter(|p| p.name == name && p.took > Nanos::ZERO && p.ops_total() > 0)
            .collect();
        let mut metric = |what: &str, unit, better, value: &dyn Fn(&Phase) -> Option<f64>| {
            let samples: Vec<f64> = passes.iter().filter_map(|p| value(p)).collect();
            if !samples.is_empty() {
                metrics.push(Metric { name: format!("{name}.{what}"), unit, better, samples });
            }
        };
        metric("rate", Unit::MegabytesPerSecond, Better::Higher, &|p| Some(rate(p)));
        metric("iops", Unit::OpsPerSecond, Better::Higher, &|p| {
            let ops = p.ops_total() as f64;
            (moved(p) / ops <= SMALL).then(|| ops / p.took.as_secs_f64())
        });
        metric("latency", Unit::Nanos, Better::Lower, &latency_mean_ns);
    }
    metrics
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn moved(phase: &Phase) -> f64 {
    phase.read.as_f64() + phase.written.as_f64()
}

/// Rate of a phase in 10^6 bytes per second.
#[must_use]
pub fn rate(phase: &Phase) -> f64 {
    moved(phase) / 1e6 / phase.took.as_secs_f64()
}

/// Mean latency of the reads and writes of a phase, from issue to completion.
#[must_use]
pub fn latency_mean_ns(phase: &Phase) -> Option<f64> {
    let totals = phase
        .latencies
        .iter()
        .filter(|l| l.part == LatencyPart::Total && matches!(l.kind, OpKind::Read | OpKind::Write))
        .map(|l| &l.histogram);
    let (mut sum, mut count) = (0.0, 0.0);
    for histogram in totals {
        sum += histogram.mean_ns() * histogram.count() as f64;
        count += histogram.count() as f64;
    }
    (count > 0.0).then(|| sum / count)
}

/// A pass of a series of rounds.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrystalPass {
    /// Name of its phase.
    pub phase: String,
    /// Round, from 0.
    pub round: u64,
    /// Total bytes written, including preparation and earlier rounds, at its end.
    pub written: Bytes,
    /// 10^6 bytes per second.
    pub rate: f64,
}

/// Results of one test over a series of rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// Name of the phase.
    pub phase: String,
    /// Fastest pass, 10^6 bytes per second.
    pub max: f64,
    /// Mean rate of each round.
    pub rounds: Vec<f64>,
    /// Bytes written at the end of the test's last pass of each round.
    pub written: Vec<Bytes>,
    /// Steady state after the last knee; a level ended by a knee was not steady.
    pub steady: SteadyState,
    /// Permanent changes of the level, by index of round.
    pub knees: Vec<ChangePoint>,
}

/// Trend of every write test. Steady state counts once `target_size` has been written.
#[must_use]
pub fn trends(passes: &[CrystalPass], target_size: Bytes) -> Vec<Trend> {
    let names =
        names(passes.iter().map(|p| p.phase.as_str()).filter(|name| name.ends_with(".write")));
    names.into_iter().map(|name| trend(passes, name, target_size)).collect()
}

fn trend(passes: &[CrystalPass], name: &str, target_size: Bytes) -> Trend {
    // Sum, count and end of each round.
    let mut groups: Vec<(u64, f64, f64, Bytes)> = Vec::new();
    for pass in passes.iter().filter(|p| p.phase == name) {
        match groups.last_mut() {
            Some((round, sum, count, written)) if *round == pass.round => {
                (*sum, *count, *written) = (*sum + pass.rate, *count + 1.0, pass.written);
            }
            _ => groups.push((pass.round, pass.rate, 1.0, pass.written)),
        }
    }
    let rounds: Vec<f64> = groups.iter().map(|(_, sum, count, _)| sum / count).collect();
    let written: Vec<Bytes> = groups.iter().map(|g| g.3).collect();
    let each: Vec<Bytes> = (0..written.len())
        .map(|i| written[i].saturating_sub(if i == 0 { Bytes::ZERO } else { written[i - 1] }))
        .collect();
    let knees = change_points::knees(&rounds, &ChangePointOptions::default());
    let steady =
        steady_state(&rounds, &each, target_size, knees.last().map_or(0, |knee| knee.index));
    Trend {
        phase: name.to_string(),
        max: passes.iter().filter(|p| p.phase == name).map(|p| p.rate).fold(0.0, f64::max),
        steady,
        knees,
        rounds,
        written,
    }
}

impl Trend {
    /// Bytes written before this round, for this test.
    #[must_use]
    pub fn written_before(&self, round: usize) -> Bytes {
        if round == 0 {
            Bytes::ZERO
        } else {
            self.written.get(round - 1).copied().unwrap_or(Bytes::ZERO)
        }
    }

    /// `NAME.rate.first`, `.max`, `.steady` and `.last`; position and level of each knee
    /// as `NAME.knee-1.written` and `NAME.knee-1.rate`.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        let mut metric = |what: &str, unit, better, value: f64| {
            metrics.push(Metric::single(format!("{}.{what}", self.phase), unit, better, value));
        };
        if let Some(first) = self.rounds.first() {
            metric("rate.first", Unit::MegabytesPerSecond, Better::Higher, *first);
        }
        metric(metrics::RATE_MAX, Unit::MegabytesPerSecond, Better::Higher, self.max);
        if let SteadyState::Reached { since, window } = &self.steady {
            metric("rate.steady", Unit::MegabytesPerSecond, Better::Higher, window.average);
            metric(
                "rate.steady.since",
                Unit::Bytes,
                Better::Neither,
                self.written_before(*since).as_f64(),
            );
        }
        if let Some(last) = self.rounds.last() {
            metric("rate.last", Unit::MegabytesPerSecond, Better::Higher, *last);
        }
        for (n, knee) in self.knees.iter().enumerate() {
            metric(
                &format!("knee-{}.written", n + 1),
                Unit::Bytes,
                Better::Neither,
                self.written_before(knee.index).as_f64(),
            );
            metric(
                &format!("knee-{}.rate", n + 1),
                Unit::MegabytesPerSecond,
                Better::Neither,
                knee.after,
            );
        }
        metrics
    }
}

/// Rate of every pass over the bytes written, one series per test: `NAME.rate`. Passes
/// without writes in between share a point and are averaged.
#[must_use]
pub fn series(passes: &[CrystalPass]) -> Vec<Series> {
    let names = names(passes.iter().map(|p| p.phase.as_str()));
    let one = |name: &str| {
        let (mut x, mut y, mut count): (Vec<u64>, Vec<f64>, f64) = (Vec::new(), Vec::new(), 0.0);
        for pass in passes.iter().filter(|p| p.phase == name) {
            match (x.last(), y.last_mut()) {
                (Some(last), Some(mean)) if *last >= pass.written.0 => {
                    count += 1.0;
                    *mean += (pass.rate - *mean) / count;
                }
                _ => {
                    x.push(pass.written.0);
                    y.push(pass.rate);
                    count = 1.0;
                }
            }
        }
        Series {
            name: format!("{name}.rate"),
            axis: Axis::BytesWritten,
            x,
            unit: Unit::MegabytesPerSecond,
            y,
        }
    };
    names.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Latency;
    use alloc::vec;
    use trimtab_drive::histogram::Histogram;

    fn phase(name: &str, ms: u64, ops: u64, block: u64) -> Phase {
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos::from_micros(500), ops);
        Phase {
            name: name.to_string(),
            started: Nanos::ZERO,
            took: Nanos::from_millis(ms),
            ops: vec![(OpKind::Read, ops)],
            read: Bytes(ops * block),
            written: Bytes::ZERO,
            latencies: vec![Latency { kind: OpKind::Read, part: LatencyPart::Total, histogram }],
            discards: None,
        }
    }

    #[test]
    fn metrics_have_one_sample_per_pass() {
        let phases = [
            phase("a.read", 1000, 1000, 4096),
            phase("b.read", 500, 10, 1 << 20),
            phase("a.read", 2000, 1000, 4096),
            phase("b.read", 0, 0, 0),
        ];
        let metrics = metrics(&phases);
        let names: Vec<_> = metrics.iter().map(|m| (m.name.as_str(), m.samples.len())).collect();
        assert_eq!(
            names,
            [
                ("a.read.rate", 2),
                ("a.read.iops", 2),
                ("a.read.latency", 2),
                ("b.read.rate", 1),
                ("b.read.latency", 1)
            ]
        );
        assert_eq!(metrics[0].samples, [4.096, 2.048]);
        assert_eq!(metrics[1].samples, [1000.0, 500.0]);
        assert!((metrics[2].samples[0] - 500_000.0).abs() < 500.0);
        assert!((metrics[3].samples[0] - 20.97152).abs() < 1e-9);
    }

    /// Rounds of two passes of 5 GB each; `level` maps bytes written to the rate.
    fn rounds(count: u64, level: impl Fn(u64) -> f64) -> Vec<CrystalPass> {
        let mut written = 0;
        let mut passes = Vec::new();
        for round in 0..count {
            for pass in 0..2 {
                let wobble = ((round * 7 + pass * 3) % 5) as f64 * 0.5 - 1.0;
                let rate = level(written) + wobble;
                passes.push(CrystalPass {
                    phase: "seq1m-q1.read".into(),
                    round,
                    written: Bytes(written),
                    rate: 500.0,
                });
                written += 5_000_000_000;
                passes.push(CrystalPass {
                    phase: "seq1m-q1.write".into(),
                    round,
                    written: Bytes(written),
                    rate,
                });
            }
        }
        passes
    }

    #[test]
    fn trend_finds_two_knees_and_the_steady_level() {
        let passes = rounds(100, |written| match written / 1_000_000_000 {
            0..100 => 193.0,
            100..380 => 160.0,
            _ => 120.0,
        });
        let trends = trends(&passes, Bytes(120_000_000_000));
        let [trend] = &trends[..] else { panic!("one test writes") };
        assert_eq!(trend.rounds.len(), 100);
        assert!((193.0..195.0).contains(&trend.max));
        let knees: Vec<_> =
            trend.knees.iter().map(|k| trend.written_before(k.index).0 / 1_000_000_000).collect();
        assert_eq!(knees, [100, 380]);
        let window = trend.steady.window().unwrap();
        assert!(
            trend.written_before(window.first).0 >= 380_000_000_000,
            "160 MB/s was not permanent"
        );
        assert!((window.average - 120.0).abs() < 2.0, "{window:?}");
        let metrics = trend.metrics();
        let value = |name: &str| metrics.iter().find(|m| m.name == name).map(|m| m.samples[0]);
        assert!((value("seq1m-q1.write.knee-2.rate").unwrap() - 120.0).abs() < 2.0);
        assert_eq!(value("seq1m-q1.write.knee-2.written"), Some(380e9));
        assert!((value("seq1m-q1.write.rate.last").unwrap() - 120.0).abs() < 2.0);
    }

    #[test]
    fn steady_state_needs_the_target_written_once() {
        let passes = rounds(10, |_| 100.0);
        assert_eq!(trends(&passes, Bytes(1_000_000_000_000))[0].steady.window(), None);
        assert!(trends(&passes, Bytes(20_000_000_000))[0].steady.window().is_some());
    }

    #[test]
    fn series_averages_passes_at_the_same_point() {
        let all = series(&rounds(3, |_| 100.0));
        let read = all.iter().find(|s| s.name == "seq1m-q1.read.rate").unwrap();
        let write = all.iter().find(|s| s.name == "seq1m-q1.write.rate").unwrap();
        assert_eq!((read.x.len(), write.x.len()), (6, 6));
        let shared = [(10, 1.0), (10, 2.0), (10, 6.0), (20, 5.0)].map(|(w, rate)| CrystalPass {
            phase: "r".into(),
            round: 0,
            written: Bytes(w),
            rate,
        });
        let series = series(&shared);
        assert_eq!(
            (series[0].x.as_slice(), series[0].y.as_slice()),
            (&[10, 20][..], &[3.0, 5.0][..])
        );
    }
}
