//! Runs for tests: a fixed example, and arbitrary ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use trimtab_drive::OpKind;
use trimtab_drive::discards::{Amount, Discards};
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::run::{
    Axis, Better, Field, Latency, LatencyPart, Metric, Phase, Provenance, Run, Series, Severity,
    TargetKind, Unit, Warning,
};

/// A small run that uses every field.
pub fn example() -> Run {
    let mut histogram = Histogram::new();
    for us in [100, 120, 150, 9000] {
        histogram.record(Nanos::from_micros(us));
    }
    let latency = Latency { kind: OpKind::Delete, part: LatencyPart::Total, histogram };
    let discards = Discards {
        asked: Amount::new(1, 4 << 30),
        accepted: Some(Amount::new(6470, 410_000_000_000)),
        refused: Amount::new(1, 0),
        errnos: vec![95],
        effective: None,
        freed: Some(Bytes(493_000_000)),
    };
    Run {
        workload: "tree".into(),
        settings: vec![Field::new("files", "36706")],
        target: TargetKind::Directory,
        target_label: "/mnt/x".into(),
        policy: "online".into(),
        policy_settings: Vec::new(),
        seed: 42,
        provenance: Provenance::Measured,
        systems: 1,
        started_unix_ms: 1_700_000_000_000,
        tool_version: "0.1.0".into(),
        complete: true,
        environment: vec![Field::new("fs.type", "ext4"), Field::new("kernel.release", "6.18.0")],
        specification: Vec::new(),
        phases: vec![Phase {
            name: "delete".into(),
            started: Nanos::from_secs(3),
            took: Nanos::from_millis(470),
            ops: vec![(OpKind::Delete, 4)],
            read: Bytes::ZERO,
            written: Bytes(4096),
            latencies: vec![latency],
            discards: Some(discards),
        }],
        metrics: vec![Metric {
            name: "delete.seconds".into(),
            unit: Unit::Seconds,
            better: Better::Lower,
            samples: vec![1.25, 1.5],
        }],
        series: vec![Series {
            name: "ops.rate".into(),
            axis: Axis::Time,
            x: vec![1_000_000_000, 2_000_000_000],
            unit: Unit::OpsPerSecond,
            y: vec![3.0, f64::NAN],
        }],
        counters: vec![("nand.erases".into(), u64::MAX)],
        warnings: vec![Warning {
            code: "interference.other-io".into(),
            severity: Severity::Caution,
            facts: vec![Field::new("bytes", "1 MB")],
            text: "others wrote 1 MB".into(),
        }],
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.-]{0,12}", any::<String>()]
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    vec((text(), text()).prop_map(|(key, value)| Field { key, value }), 0..5)
}

fn histogram() -> impl Strategy<Value = Histogram> {
    vec((any::<u64>(), 0_u32..64, 1_u64..1 << 40), 0..40).prop_map(|records| {
        let mut histogram = Histogram::new();
        for (value, shift, n) in records {
            histogram.record_n(Nanos(value >> shift), n);
        }
        histogram
    })
}

fn amount() -> impl Strategy<Value = Amount> {
    any::<[u64; 2]>().prop_map(|[count, bytes]| Amount::new(count, bytes))
}

fn discards() -> impl Strategy<Value = Discards> {
    let maybe = || prop::option::of(any::<u64>());
    let counts = (amount(), prop::option::of(amount()), any::<u64>());
    (counts, vec(any::<i32>(), 0..3), maybe(), maybe()).prop_map(
        |((asked, accepted, refused), errnos, effective, freed)| Discards {
            asked,
            accepted,
            // The bytes of refused operations are not stored.
            refused: Amount::new(refused, 0),
            errnos,
            effective: effective.map(Bytes),
            freed: freed.map(Bytes),
        },
    )
}

fn phase() -> impl Strategy<Value = Phase> {
    let latency = (select(OpKind::ALL), select(LatencyPart::ALL), histogram());
    let latencies =
        vec(latency.prop_map(|(kind, part, histogram)| Latency { kind, part, histogram }), 0..3);
    let numbers = any::<[u64; 4]>();
    (
        text(),
        numbers,
        vec((select(OpKind::ALL), any::<u64>()), 0..4),
        latencies,
        prop::option::of(discards()),
    )
        .prop_map(|(name, [started, took, read, written], ops, latencies, discards)| Phase {
            name,
            started: Nanos(started),
            took: Nanos(took),
            ops,
            read: Bytes(read),
            written: Bytes(written),
            latencies,
            discards,
        })
}

fn metric() -> impl Strategy<Value = Metric> {
    (text(), select(Unit::ALL), select(Better::ALL), vec(prop::num::f64::ANY, 1..5))
        .prop_map(|(name, unit, better, samples)| Metric { name, unit, better, samples })
}

fn series() -> impl Strategy<Value = Series> {
    (text(), select(Axis::ALL), select(Unit::ALL), vec((any::<u64>(), prop::num::f64::ANY), 0..20))
        .prop_map(|(name, axis, unit, mut points)| {
            points.sort_by_key(|p| p.0);
            let (x, y) = points.into_iter().unzip();
            Series { name, axis, x, unit, y }
        })
}

fn warning() -> impl Strategy<Value = Warning> {
    (text(), select(Severity::ALL), fields(), text())
        .prop_map(|(code, severity, facts, text)| Warning { code, severity, facts, text })
}

/// Generates an arbitrary run.
pub fn any_run() -> impl Strategy<Value = Run> {
    let head = (text(), text(), text(), text(), select(TargetKind::ALL), select(Provenance::ALL));
    let numbers = (any::<u64>(), any::<u64>(), any::<bool>());
    let lists = (fields(), fields(), fields(), vec((text(), any::<u64>()), 0..4), fields());
    let data = (vec(phase(), 0..3), vec(metric(), 0..4), vec(series(), 0..3), vec(warning(), 0..3));
    (head, numbers, lists, data).prop_map(|(head, numbers, lists, data)| Run {
        workload: head.0,
        settings: lists.0,
        target: head.4,
        target_label: head.1,
        policy: head.2,
        policy_settings: lists.1,
        seed: numbers.0,
        provenance: head.5,
        systems: 1,
        started_unix_ms: numbers.1,
        tool_version: head.3,
        complete: numbers.2,
        environment: lists.2,
        specification: lists.4,
        phases: data.0,
        metrics: data.1,
        series: data.2,
        counters: lists.3,
        warnings: data.3,
    })
}
