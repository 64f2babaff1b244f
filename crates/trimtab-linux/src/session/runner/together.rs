//! Adds up the records of streams that ran concurrently.

use trimtab_sim::run::RunRecording;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Latency, Phase, Series};

/// Adds the record of one stream to the sum, phase by phase.
pub(super) fn add(sum: &mut RunRecording, other: RunRecording) {
    for (at, phase) in other.phases.into_iter().enumerate() {
        match sum.phases.get_mut(at) {
            Some(into) if into.name == phase.name => add_phase(into, phase),
            _ => sum.phases.insert(at.min(sum.phases.len()), phase),
        }
    }
    sum.series = add_series(std::mem::take(&mut sum.series), other.series);
}

fn add_phase(into: &mut Phase, phase: Phase) {
    let end = (into.started + into.took).max(phase.started + phase.took);
    into.started = into.started.min(phase.started);
    into.took = end.saturating_sub(into.started);
    for (kind, count) in phase.ops {
        match into.ops.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, sum)) => *sum += count,
            None => into.ops.push((kind, count)),
        }
    }
    into.ops.sort_by_key(|(kind, _)| *kind);
    into.read += phase.read;
    into.written += phase.written;
    for latency in phase.latencies {
        match into
            .latencies
            .iter_mut()
            .find(|other| (other.kind, other.part) == (latency.kind, latency.part))
        {
            Some(Latency { histogram, .. }) => histogram.merge(&latency.histogram),
            None => into.latencies.push(latency),
        }
    }
    into.latencies.sort_by_key(|latency| (latency.kind, latency.part));
}

/// Adds two sets of series. Rates are summed; each value covers the interval since the
/// previous point. Means are weighted by operation counts, and maxima take the larger
/// value.
fn add_series(a: Vec<Series>, b: Vec<Series>) -> Vec<Series> {
    let points = |all: &[Series]| all.iter().map(|series| series.x.len()).max().unwrap_or(0);
    let (long, short) = if points(&a) >= points(&b) { (a, b) } else { (b, a) };
    let value = |name: &str, x: u64| {
        let series = short.iter().find(|series| series.name == name)?;
        series.y.get(series.x.partition_point(|end| *end < x)).copied()
    };
    let ops: Vec<f64> = long
        .iter()
        .find(|series| series.name == OPS)
        .map(|series| series.y.clone())
        .unwrap_or_default();
    let mut sum = long.clone();
    for series in &mut sum {
        for (at, (x, y)) in series.x.iter().zip(&mut series.y).enumerate() {
            let Some(other) = value(&series.name, *x) else { continue };
            *y = match series.name.as_str() {
                metrics::LATENCY_MAX => y.max(other),
                metrics::LATENCY_MEAN => {
                    let (mine, theirs) =
                        (ops.get(at).copied().unwrap_or(0.0), value(OPS, *x).unwrap_or(0.0));
                    if mine + theirs > 0.0 {
                        (*y * mine + other * theirs) / (mine + theirs)
                    } else {
                        0.0
                    }
                }
                _ => *y + other,
            };
        }
    }
    sum.extend(
        short.into_iter().filter(|series| !long.iter().any(|other| other.name == series.name)),
    );
    sum
}

const OPS: &str = metrics::OPS_RATE;

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::{Axis, Unit};

    #[test]
    fn add_series_adds_rates_and_weights_means() {
        let series = |name: &str, y: &[f64]| Series {
            name: name.into(),
            axis: Axis::Time,
            x: (1..=y.len() as u64).collect(),
            unit: Unit::Count,
            y: y.to_vec(),
        };
        let a = vec![
            series(OPS, &[1.0, 3.0]),
            series("latency.mean", &[10.0, 10.0]),
            series("latency.max", &[11.0, 12.0]),
        ];
        let b = vec![
            series(OPS, &[3.0]),
            series("latency.mean", &[30.0]),
            series("latency.max", &[9.0]),
            series("read.rate", &[5.0]),
        ];
        for (a, b) in [(a.clone(), b.clone()), (b, a)] {
            let sum = add_series(a, b);
            let y = |name: &str| sum.iter().find(|series| series.name == name).unwrap().y.clone();
            assert_eq!(
                (y(OPS), y("latency.mean"), y("latency.max"), y("read.rate")),
                (vec![4.0, 3.0], vec![25.0, 10.0], vec![11.0, 12.0], vec![5.0])
            );
        }
    }
}
