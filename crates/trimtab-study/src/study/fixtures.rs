//! Studies with known figures for tests, of this crate and of the one that draws them.

use std::borrow::ToOwned as _;
use std::format;
use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;
use trimtab_sim::run::{Better, Field, Latency, LatencyPart, Metric, Phase, Run, Severity, TargetKind, Unit, Warning, metrics};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorded;
use trimtab_study::study::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use trimtab_study::study::answer::Around;
use trimtab_study::study::cells::{CHOICE, QUESTION};
use trimtab_study::study::light_work::{BUSY, BUSY_WAIT, SPARSE_WAIT};
use trimtab_study::study::table::FOREGROUND;
use trimtab_study::study::{Study, kernels};

/// A modelled run with these settings and figures.
pub fn run(workload: &str, policy: &str, settings: &[(&str, &str)], metrics: &[(&str, Unit, f64)]) -> Run {
    let header = Header::new(
        workload,
        settings.iter().map(|(key, value)| Field::new(*key, *value)).collect(),
        TargetKind::ModelledVolume,
        "drive:ocz-vertex-le-100gb",
        policy,
        1,
    );
    let mut run = header.into_run(Recorded::default(), true);
    run.tool_version = "0.1.0".into();
    run.environment =
        vec![Field::new("drive.model", "OCZ Vertex LE 100 GB: SandForce SF-1500 with compression"), Field::new("volume.name", "ext4")];
    let metric = |(name, unit, value): &(&str, Unit, f64)| Metric {
        name: (*name).into(),
        unit: *unit,
        better: Better::Lower,
        samples: vec![*value],
    };
    run.metrics = metrics.iter().map(metric).collect();
    run
}

/// A study of five policies at two fills, its figures as in the articles' order of magnitude.
pub fn whole() -> Study {
    let waits =
        [("none", 0.0027, 0.053), ("online", 3.1, 3.41), ("batched", 0.68, 0.053), ("adaptive", 0.68, 0.053), ("idle", 0.153, 0.053)];
    let tree = |(policy, wait, delete): &(&str, f64, f64)| {
        let mut run = run(
            "tree",
            policy,
            &[("files", "36706")],
            &[
                (metrics::DELETE_SECONDS, Unit::Seconds, *delete),
                (FOREGROUND, Unit::Seconds, 0.3 + delete),
                (SPARSE_WAIT, Unit::Seconds, *wait),
                (metrics::DISCARD_COMMANDS, Unit::Count, if *policy == "none" { 0.0 } else { 350.0 }),
            ],
        );
        if *policy == "idle" {
            let text =
                "the smallest TRIM takes 148 ms here, above the budget of 5.00 ms: a request that arrives during one waits that long";
            run.warnings.push(Warning {
                code: "policy.budget-missed".into(),
                severity: Severity::Caution,
                facts: vec![],
                text: text.into(),
            });
        }
        run
    };
    let months = [
        ("none", [27_891.0, 28_300.0], [1.49, 1.50], [10.8, 11.0]),
        ("online", [35_700.0, 31_500.0], [1.01, 1.23], [7.3, 9.1]),
        ("batched", [34_600.0, 30_600.0], [1.08, 1.40], [7.8, 10.3]),
        ("adaptive", [35_600.0, 30_100.0], [1.03, 1.27], [7.4, 9.3]),
        ("idle", [36_240.0, 32_400.0], [1.02, 1.23], [7.35, 9.1]),
    ];
    let aged = |(policy, rates, wafs, cycles): &(&str, [f64; 2], [f64; 2], [f64; 2])| {
        [("60%", 0), ("90%", 1)].map(|(fill, at)| {
            let settings = [("fill", fill), ("drive-writes", "5"), ("drive-writes-a-day", "0.1")];
            let figures = [
                (RATE_STEADY, Unit::OpsPerSecond, rates[at]),
                (WAF_STEADY, Unit::Ratio, wafs[at]),
                (CYCLES_PER_TB, Unit::Count, cycles[at]),
            ];
            run("churn", policy, &settings, &figures)
        })
    };
    // On the other generation 21.3 s instead of 40 ms.
    let older = |policy: &str, seconds: f64| {
        let mut run = run("tree", policy, &[("files", "36706")], &[(metrics::DELETE_SECONDS, Unit::Seconds, seconds)]);
        run.environment.push(Field::new(kernels::GENERATION, "ext4 of Linux 2.6.39"));
        run
    };
    let row = |assumption: &str, then: &str| {
        format!(r#"{{"assumption":"{assumption}","assumed":"a","tried":[{{"value":"b","recommended":"{then}"}}]}}"#)
    };
    let rows: Vec<String> = (0..9).map(|n| row(&format!("assumption {n}"), "idle")).chain([row("what a TRIM costs", "batched")]).collect();
    let small = format!(r#"{{"recommended":"idle","rows":[{}]}}"#, rows.join(","));
    let moved = |choice: &str, rate: f64| {
        run("churn", "batched", &[(QUESTION, "alignment"), (CHOICE, choice)], &[(RATE_STEADY, Unit::OpsPerSecond, rate)])
    };
    Study {
        target: "drive:ocz-vertex-le-100gb".into(),
        runs: waits.iter().map(tree).collect(),
        ageing: months.iter().flat_map(aged).collect(),
        tuning: vec![moved("partition from 1 MiB on", 34_600.0), moved("partition from sector 63 on", 3_800.0)],
        kernels: vec![older("none", 0.04), older("online", 21.28)],
        assumptions: Some(run("assumptions", "none", &[("sensitivity", &small)], &[])),
        complete: true,
        ..Study::default()
    }
}

pub fn around() -> Around {
    let report = "/home/user/.local/share/trimtab/trimtab-study.html";
    Around { took: Some(Duration::from_secs(29)), report: Some(report.into()), kept: Some("5b48c05a".into()), predicted: None }
}

/// Adds to a measured run what `waits` says of 50 appends a second: so many took so many milliseconds.
pub fn met(mut run: Run, waits: &[(u64, u64)]) -> Run {
    let mut histogram = Histogram::new();
    for (count, ms) in waits {
        histogram.record_n(Nanos::from_millis(*ms), *count);
    }
    let longest = histogram.max().as_secs_f64();
    run.metrics.push(Metric { name: BUSY_WAIT.into(), unit: Unit::Seconds, better: Better::Lower, samples: vec![longest] });
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

/// The same study on a drive of that name, on which everything is the same under each policy.
fn indifferent(drive: &str) -> Study {
    let mut study = whole();
    let base: Vec<_> = study.runs.iter().chain(&study.ageing).take(1).map(|run| run.metrics.clone()).collect();
    let months = study.ageing[0].metrics.clone();
    study.runs.iter_mut().for_each(|run| {
        let discards = run.metrics.last().unwrap().clone();
        run.metrics = base[0].clone();
        *run.metrics.last_mut().unwrap() = discards;
    });
    study.ageing.iter_mut().for_each(|run| run.metrics = months.clone());
    for run in study.runs.iter_mut().chain(&mut study.ageing) {
        run.environment[0].value = drive.to_owned();
        run.warnings.clear();
    }
    study
}

/// Has the small studies come to `recommended`, and to these where an assumption is another.
pub fn assume(study: &mut Study, recommended: &str, then: &[(&str, &str)]) {
    let row = |(assumption, then): &(&str, &str)| {
        format!(r#"{{"assumption":"{assumption}","assumed":"a","tried":[{{"value":"b","recommended":"{then}"}}]}}"#)
    };
    let rows = then.iter().map(row).collect::<Vec<_>>().join(",");
    let text = format!(r#"{{"recommended":"{recommended}","rows":[{rows}]}}"#);
    study.assumptions.as_mut().unwrap().settings[0].value = text;
}

pub fn three() -> Vec<Study> {
    let mut all = vec![whole(), indifferent("SATA SSD of today: 500 GB of TLC"), indifferent("NVMe SSD of today: 500 GB of TLC")];
    assume(&mut all[0], "idle", &[("what a TRIM costs", "online"), ("how full it is", "no trimming")]);
    for study in &mut all[1..] {
        assume(study, "no difference", &[("what a TRIM costs", "no difference"), ("how full it is", "no difference")]);
    }
    all
}
