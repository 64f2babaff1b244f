//! Measured foreground latency for the tests of this crate and of the crate that renders
//! studies.

use std::vec;
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;
use trimtab_sim::run::{Better, Latency, LatencyPart, Metric, Phase, Run, Unit};
use trimtab_study::study::light_work::{BUSY, BUSY_WAIT};

/// Adds 50 foreground appends per second to a measured run. `waits`: (count,
/// milliseconds).
pub fn met(mut run: Run, waits: &[(u64, u64)]) -> Run {
    let mut histogram = Histogram::new();
    for (count, ms) in waits {
        histogram.record_n(Nanos::from_millis(*ms), *count);
    }
    let longest = histogram.max().as_secs_f64();
    run.metrics.push(Metric {
        name: BUSY_WAIT.into(),
        unit: Unit::Seconds,
        better: Better::Lower,
        samples: vec![longest],
    });
    run.phases.push(Phase {
        name: BUSY.phase.into(),
        started: Nanos::ZERO,
        took: Nanos::from_secs(1),
        ops: vec![(OpKind::Append, histogram.count())],
        read: Default::default(),
        written: Default::default(),
        latencies: vec![Latency { kind: OpKind::Append, part: LatencyPart::Total, histogram }],
        discards: None,
    });
    run
}
