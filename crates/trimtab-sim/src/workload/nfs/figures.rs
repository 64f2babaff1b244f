//! Metrics of a sweep over loads.

use super::{Point, overall_response_time};
use crate::run::{Better, LatencyPart, Metric, Phase, Unit};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::histogram::Histogram;

/// A requested load and its phase name.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedLoad {
    /// Phase name, the same in every repeat.
    pub name: String,
    /// Operations per second.
    pub rate: f64,
}

/// Achieved rate, mean response time in nanoseconds, and distribution of a phase.
#[must_use]
pub fn point(phase: &Phase) -> (Point, Histogram) {
    let mut all = Histogram::new();
    for latency in phase.latencies.iter().filter(|l| l.part == LatencyPart::Total) {
        all.merge(&latency.histogram);
    }
    let seconds = phase.took.as_secs_f64();
    let rate = if seconds > 0.0 { phase.ops_total() as f64 / seconds } else { 0.0 };
    (Point { rate, response: all.mean_ns() }, all)
}

/// Metrics of a sweep, one sample per repeat: peak throughput, overall response time, and
/// for every load the requested and achieved rate, mean and 99th percentile response
/// time.
#[must_use]
pub fn metrics(phases: &[Phase], loads: &[RequestedLoad]) -> Vec<Metric> {
    let of = |load: &RequestedLoad| -> Vec<(Point, Histogram)> {
        phases.iter().filter(|p| p.name == load.name).map(point).collect()
    };
    let measured: Vec<Vec<(Point, Histogram)>> = loads.iter().map(of).collect();
    // Only complete sweeps have a peak and an overall response time.
    let sweeps = measured.iter().map(Vec::len).min().unwrap_or(0);
    let sweep = |n: usize| measured.iter().map(|repeats| repeats[n].0).collect::<Vec<Point>>();
    let peak = |points: &[Point]| points.iter().map(|p| p.rate).fold(0.0, f64::max);
    let mut metrics = Vec::new();
    let mut add =
        |name: String, unit, better, samples: Vec<f64>| metrics.push((name, unit, better, samples));
    add(
        "peak.rate".to_string(),
        Unit::OpsPerSecond,
        Better::Higher,
        (0..sweeps).map(|n| peak(&sweep(n))).collect(),
    );
    let ort =
        (0..sweeps).filter_map(|n| overall_response_time(&sweep(n))).map(|ns| ns / 1e9).collect();
    add("ort".to_string(), Unit::Seconds, Better::Lower, ort);
    for (load, repeats) in loads.iter().zip(&measured) {
        if repeats.is_empty() {
            continue;
        }
        let each =
            |of: fn(&(Point, Histogram)) -> f64| repeats.iter().map(of).collect::<Vec<f64>>();
        add(
            format!("{}.requested", load.name),
            Unit::OpsPerSecond,
            Better::Neither,
            vec![load.rate],
        );
        add(
            format!("{}.rate", load.name),
            Unit::OpsPerSecond,
            Better::Higher,
            each(|(point, _)| point.rate),
        );
        add(
            format!("{}.response", load.name),
            Unit::Nanos,
            Better::Lower,
            each(|(point, _)| point.response),
        );
        add(
            format!("{}.response.p99", load.name),
            Unit::Nanos,
            Better::Lower,
            each(|(_, all)| all.percentile(99.0).as_f64()),
        );
    }
    Metric::measured(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Latency;
    use trimtab_drive::OpKind;
    use trimtab_drive::units::{Bytes, Nanos};

    fn phase(name: &str, ops: u64, response: u64) -> Phase {
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos(response), ops);
        Phase {
            name: name.to_string(),
            started: Nanos::ZERO,
            took: Nanos::from_secs(2),
            ops: vec![(OpKind::Read, ops)],
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            latencies: vec![Latency { kind: OpKind::Read, part: LatencyPart::Total, histogram }],
            discards: None,
        }
    }

    #[test]
    fn nfs_sweep_has_peak_and_ort_for_each_repeat() {
        let loads: Vec<RequestedLoad> = [("load-01", 500.0), ("load-02", 1000.0)]
            .map(|(name, rate)| RequestedLoad { name: name.to_string(), rate })
            .into();
        let phases = [
            phase("prepare", 10, 5),
            phase("load-01", 1000, 1_000_000),
            phase("load-02", 2000, 3_000_000),
            phase("load-01", 1000, 1_000_000),
            phase("load-02", 2000, 3_000_000),
            phase("load-01", 900, 1_000_000),
        ];
        let metrics = metrics(&phases, &loads);
        let get = |name: &str| {
            metrics.iter().find(|m| m.name == name).map(|m| m.samples.clone()).unwrap()
        };
        assert_eq!(get("peak.rate"), [1000.0, 1000.0], "the third sweep is incomplete");
        let ort = get("ort");
        // (500 x 0.5 + 500 x 2) / 1000 ms
        assert!(ort.len() == 2 && (ort[0] - 1.25e-3).abs() < 2e-6, "{ort:?}");
        assert_eq!(get("load-01.rate"), [500.0, 500.0, 450.0]);
        assert_eq!(get("load-02.requested"), [1000.0]);
        assert!(super::metrics(&phases[..1], &loads).is_empty());
    }
}
