//! Studies with known figures for tests.

use trimtab_sim::run::RunRecording;
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning, metrics};
use trimtab_study::study::Study;
use trimtab_study::study::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use trimtab_study::study::light_work::SPARSE_P95;
use trimtab_study::study::metrics::FOREGROUND;
use trimtab_study::study::policy;
use trimtab_study::study::recommendation::Recommendation;
use trimtab_study::study::sensitivity::{
    Assumption, AssumptionResult, Sensitivity, SensitivityRow,
};

/// Use `idle`.
pub const IDLE: Recommendation = Recommendation::Use(policy::IDLE);
/// Use `batched`.
pub const BATCHED: Recommendation = Recommendation::Use(policy::BATCHED);
const ASSUMPTIONS: [Assumption; 9] = [
    Assumption::FreeSuperblocks,
    Assumption::IdleDelay,
    Assumption::SpareSpace,
    Assumption::TrimCost,
    Assumption::HostMemory,
    Assumption::FileSize,
    Assumption::DailyWrites,
    Assumption::Filesystem,
    Assumption::Fill,
];

/// A modelled run with these settings and figures.
pub fn run(
    workload: &str,
    policy: &str,
    settings: &[(&str, &str)],
    metrics: &[(&str, Unit, f64)],
) -> Run {
    let header = Run::new(
        workload,
        settings.iter().map(|(key, value)| Field::new(*key, *value)).collect(),
        TargetKind::ModelledVolume,
        "drive:ocz-vertex-le-100gb",
        policy,
        1,
    );
    let mut run = header.into_run(RunRecording::default(), true);
    run.tool_version = "0.1.0".into();
    run.environment = vec![
        Field::new("drive.model", "OCZ Vertex LE 100 GB: SandForce SF-1500 with compression"),
        Field::new("volume.name", "ext4"),
    ];
    let metric = |(name, unit, value): &(&str, Unit, f64)| Metric {
        name: (*name).into(),
        unit: *unit,
        better: Better::Lower,
        samples: vec![*value],
    };
    run.metrics = metrics.iter().map(metric).collect();
    run
}

/// A study of five policies at two fills, with figures of the articles' order of
/// magnitude.
pub fn whole() -> Study {
    let waits = [
        ("none", 0.0027, 0.053),
        ("online", 3.1, 3.41),
        ("batched", 0.68, 0.053),
        ("adaptive", 0.68, 0.053),
        ("idle", 0.153, 0.053),
    ];
    let tree = |(policy, wait, delete): &(&str, f64, f64)| {
        let mut run = run(
            "tree",
            policy,
            &[("files", "36706")],
            &[
                (metrics::DELETE_SECONDS, Unit::Seconds, *delete),
                (FOREGROUND, Unit::Seconds, 0.3 + delete),
                (SPARSE_P95, Unit::Seconds, *wait),
                (
                    metrics::DISCARD_COMMANDS,
                    Unit::Count,
                    if *policy == "none" { 0.0 } else { 350.0 },
                ),
            ],
        );
        if *policy == "idle" {
            let text = "the smallest TRIM takes 148 ms here, above the budget of 5.00 ms: a \
                request that arrives during one waits that long";
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
    let rows = ASSUMPTIONS.map(|assumption| {
        (assumption, if assumption == Assumption::TrimCost { BATCHED } else { IDLE })
    });
    Study {
        target: "drive:ocz-vertex-le-100gb".into(),
        runs: waits.iter().map(tree).collect(),
        ageing: months.iter().flat_map(aged).collect(),
        sensitivity: Some(sensitivity(IDLE, &rows)),
        complete: true,
        ..Study::default()
    }
}

/// The same study on a drive of that name with equal figures under each policy.
fn indifferent(drive: &str) -> Study {
    let mut study = whole();
    let base: Vec<_> =
        study.runs.iter().chain(&study.ageing).take(1).map(|run| run.metrics.clone()).collect();
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

/// Small studies that recommend `recommended`, and other policies under other
/// assumptions.
pub fn sensitivity(
    recommended: Recommendation,
    then: &[(Assumption, Recommendation)],
) -> Sensitivity {
    let row = |(assumption, recommended): &(Assumption, Recommendation)| SensitivityRow {
        assumption: *assumption,
        assumed: "a".into(),
        tried: vec![AssumptionResult { value: "b".into(), recommended: *recommended }],
    };
    Sensitivity {
        recommended: Some(recommended),
        rows: then.iter().map(row).collect(),
        ..Sensitivity::default()
    }
}

/// Three drives: one where trimming matters, two where it does not.
pub fn three() -> Vec<Study> {
    let mut all = vec![
        whole(),
        indifferent("SATA SSD of today: 500 GB of TLC"),
        indifferent("NVMe SSD of today: 500 GB of TLC"),
    ];
    let varied = [Assumption::TrimCost, Assumption::Fill];
    let changed = [
        (varied[0], Recommendation::Use(policy::ONLINE)),
        (varied[1], Recommendation::Use(policy::NONE)),
    ];
    all[0].sensitivity = Some(sensitivity(IDLE, &changed));
    let same = Recommendation::NoDifference;
    for study in &mut all[1..] {
        study.sensitivity = Some(sensitivity(same, &varied.map(|one| (one, same))));
    }
    all
}
