//! Comparison of runs with a baseline: shared metrics, and differences in all other
//! fields.

use super::{ComparisonOptions, ComparisonVerdict, MetricComparison, compare, exactly};
use crate::run::metrics;
use crate::run::{
    Better, Field, LatencyPart, Metric, Provenance, Run, STUDY_CELL, STUDY_TAKEN, Severity, Unit,
    Warning,
};
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::histogram::Histogram;

/// One or more runs with the same settings, whose repeats are pooled.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Label: A, B …
    pub label: &'a str,
    /// Runs; never empty.
    pub runs: &'a [Run],
}

/// A metric of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// Name of the metric.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Repeats of the baseline and of the other side.
    pub repeats: (usize, usize),
    /// Comparison.
    pub comparison: MetricComparison,
}

/// One side against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineComparison {
    /// Metrics of both sides, in the baseline's order.
    pub figures: Vec<ComparisonRow>,
    /// Latency percentiles of both sides, by phase and operation.
    pub latencies: Vec<ComparisonRow>,
    /// Names of metrics that only one side has.
    pub not_shared: Vec<String>,
}

/// `other` against `baseline`.
#[must_use]
pub fn against(
    baseline: Side<'_>,
    other: Side<'_>,
    options: &ComparisonOptions,
) -> BaselineComparison {
    let (a, b) = (
        pooled(baseline.runs, |run| run.metrics.clone()),
        pooled(other.runs, |run| run.metrics.clone()),
    );
    let (latencies_a, latencies_b) =
        (pooled(baseline.runs, latency_metrics), pooled(other.runs, latency_metrics));
    let missing = |from: &[Metric], there: &[Metric]| -> Vec<String> {
        from.iter().filter(|m| find(there, m).is_none()).map(|m| m.name.clone()).collect()
    };
    let mut not_shared = missing(&a, &b);
    not_shared.extend(missing(&b, &a));
    let exact = are_exact(baseline, other);
    BaselineComparison {
        figures: rows(&a, &b, exact, options),
        latencies: rows(&latencies_a, &latencies_b, exact, options),
        not_shared,
    }
}

/// True if both sides are deterministic: entirely modelled, under the same seeds.
/// Different seeds are random draws.
#[must_use]
pub fn are_exact(a: Side<'_>, b: Side<'_>) -> bool {
    let seeds = |side: Side<'_>| side.runs.iter().map(|run| run.seed).collect::<BTreeSet<u64>>();
    let modelled = |side: Side<'_>| {
        !side.runs.is_empty() && side.runs.iter().all(|run| run.provenance == Provenance::Modelled)
    };
    modelled(a) && modelled(b) && seeds(a) == seeds(b) && seeds(a).len() == 1
}

/// Workloads of the sides if they differ, which makes ratios meaningless.
#[must_use]
pub fn unlike(sides: &[Side<'_>]) -> Option<String> {
    let of_run = |run: &Run| match Field::find(&run.settings, "workload") {
        Some(kind) => format!("{} {kind}", run.workload),
        None => run.workload.clone(),
    };
    let of_side = |side: &Side<'_>| {
        let mut all: Vec<String> = side.runs.iter().map(of_run).collect();
        all.dedup();
        all.join(" and ")
    };
    let workloads: Vec<String> = sides.iter().map(of_side).collect();
    let first = sides.first().and_then(|side| side.runs.first()).map(of_run)?;
    let shown = || {
        sides
            .iter()
            .zip(&workloads)
            .map(|(side, workload)| format!("{} is {workload}", side.label))
            .collect::<Vec<_>>()
            .join(", ")
    };
    workloads.iter().any(|workload| *workload != first).then(shown)
}

fn find<'a>(metrics: &'a [Metric], like: &Metric) -> Option<&'a Metric> {
    metrics.iter().find(|m| m.name == like.name && m.unit == like.unit)
}

/// Metrics of several runs with pooled repeats; only those that every run has.
fn pooled(runs: &[Run], metrics: impl Fn(&Run) -> Vec<Metric>) -> Vec<Metric> {
    let mut all = runs.iter().map(metrics);
    let mut first = all.next().unwrap_or_default();
    first.retain(|metric| !metric.samples.is_empty());
    for more in all {
        first.retain_mut(|metric| match find(&more, metric) {
            Some(other) => {
                metric.samples.extend(&other.samples);
                true
            }
            None => false,
        });
    }
    first
}

fn rows(
    a: &[Metric],
    b: &[Metric],
    exact: bool,
    options: &ComparisonOptions,
) -> Vec<ComparisonRow> {
    let compare = |a: &[f64], b: &[f64], better| {
        if exact { exactly(a, b, better) } else { compare(a, b, better, options) }
    };
    a.iter()
        .filter_map(|left| find(b, left).map(|right| (left, right)))
        .map(|(left, right)| {
            let mut comparison = compare(&left.samples, &right.samples, left.better);
            // A side without trims is not faster at trimming.
            let trims = comparison.a > 0.0 && comparison.b > 0.0;
            if left.name == metrics::TRIM_SECONDS
                && !trims
                && matches!(
                    comparison.verdict,
                    ComparisonVerdict::Better | ComparisonVerdict::Worse
                )
            {
                comparison.verdict = ComparisonVerdict::Different;
            }
            let (name, unit, better) = (left.name.clone(), left.unit, left.better);
            ComparisonRow {
                name,
                unit,
                better,
                repeats: (left.samples.len(), right.samples.len()),
                comparison,
            }
        })
        .collect()
}

/// Latency percentiles, one repeat per phase of a name: `delete.create.p99`.
///
/// A percentile needs enough operations per repeat: p50 10, p99 1000, p99.9 10,000.
#[must_use]
pub fn latency_metrics(run: &Run) -> Vec<Metric> {
    let mut groups: Vec<((&str, &str), Vec<&Histogram>)> = Vec::new();
    for phase in &run.phases {
        for latency in phase.latencies.iter().filter(|l| l.part == LatencyPart::Total) {
            let key = (phase.name.as_str(), latency.kind.name());
            match groups.iter_mut().find(|(of, _)| *of == key) {
                Some((_, list)) => list.push(&latency.histogram),
                None => groups.push((key, vec![&latency.histogram])),
            }
        }
    }
    let mut metrics = Vec::new();
    for ((phase, kind), histograms) in groups {
        for (name, percent, fewest) in
            [("p50", 50.0, 10), ("p99", 99.0, 1000), ("p99.9", 99.9, 10_000)]
        {
            if histograms.iter().all(|h| h.count() >= fewest) {
                metrics.push(Metric {
                    name: format!("{phase}.{kind}.{name}"),
                    unit: Unit::Nanos,
                    better: Better::Lower,
                    samples: histograms.iter().map(|h| h.percentile(percent).as_f64()).collect(),
                });
            }
        }
    }
    metrics
}

/// Warnings about all differences between the sides and about their validity.
#[must_use]
pub fn warnings(sides: &[Side<'_>]) -> Vec<Warning> {
    let mut found = Vec::new();
    head_differences(sides, &mut found);
    type Fields = fn(&Run) -> &[Field];
    let scopes: [(&str, &str, Fields); 3] = [
        ("settings", "setting", |run| &run.settings),
        ("policy", "policy setting", |run| &run.policy_settings),
        ("environment", "environment", |run| &run.environment),
    ];
    let policy = |side: &Side<'_>| side.runs[0].policy.clone();
    let one_policy = sides.windows(2).all(|pair| policy(&pair[0]) == policy(&pair[1]));
    for (scope, word, fields) in scopes {
        // Another policy has other settings.
        if scope == "policy" && !one_policy {
            continue;
        }
        for (key, values) in by_key(sides, fields) {
            differ(
                sides,
                &format!("{scope}.{key}"),
                &format!("{word} {key}"),
                Severity::Caution,
                &values,
                &mut found,
            );
        }
    }
    merge_expected_differences(&mut found);
    unfinished(sides, &mut found);
    found.sort_by_key(|warning| core::cmp::Reverse(warning.severity));
    found
}

/// Differences in fields other than settings and environment.
fn head_differences(sides: &[Side<'_>], found: &mut Vec<Warning>) {
    type Read = fn(&Run) -> String;
    let heads: [(&str, &str, Severity, Read); 5] = [
        ("provenance", "the source of the figures", Severity::Serious, |run| {
            run.provenance.name().to_owned()
        }),
        ("target", "the kind of target", Severity::Caution, |run| run.target.name().to_owned()),
        ("seed", "the seed", Severity::Note, |run| run.seed.to_string()),
        ("tool_version", "the version of the tool", Severity::Caution, |run| {
            run.tool_version.clone()
        }),
        ("policy", "the trim policy", Severity::Note, |run| run.policy.clone()),
    ];
    for (key, word, severity, read) in heads {
        let values: Vec<Vec<Option<String>>> = sides
            .iter()
            .map(|side| side.runs.iter().map(|run| Some(read(run))).collect())
            .collect();
        differ(sides, key, word, severity, &values, found);
    }
}

/// Every key of any side, with each run's value.
fn by_key(
    sides: &[Side<'_>],
    fields: fn(&Run) -> &[Field],
) -> Vec<(String, Vec<Vec<Option<String>>>)> {
    let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
    for field in sides.iter().flat_map(|side| side.runs).flat_map(fields) {
        let next = keys.len();
        keys.entry(&field.key).or_insert(next);
    }
    let mut ordered: Vec<(&str, usize)> = keys.into_iter().collect();
    ordered.sort_by_key(|(_, order)| *order);
    // Of two fields with one key the first counts.
    let of_run = |run| {
        fields(run)
            .iter()
            .rev()
            .map(|field| (field.key.as_str(), field.value.as_str()))
            .collect::<BTreeMap<_, _>>()
    };
    let of_sides: Vec<Vec<BTreeMap<&str, &str>>> =
        sides.iter().map(|side| side.runs.iter().map(of_run).collect()).collect();
    let values = |key: &str, runs: &Vec<BTreeMap<&str, &str>>| {
        runs.iter().map(|run| run.get(key).map(|&value| value.to_owned())).collect()
    };
    ordered
        .into_iter()
        // Cells of a study differ by their settings, which are compared separately.
        .filter(|(key, _)| *key != STUDY_CELL && *key != STUDY_TAKEN)
        .map(|(key, _)| (key.to_owned(), of_sides.iter().map(|runs| values(key, runs)).collect()))
        .collect()
}

/// Adds a warning unless all values are equal.
fn differ(
    sides: &[Side<'_>],
    code: &str,
    word: &str,
    severity: Severity,
    values: &[Vec<Option<String>>],
    found: &mut Vec<Warning>,
) {
    let mut all = values.iter().flatten();
    let Some(first) = all.next() else { return };
    if all.all(|value| value == first) {
        return;
    }
    let shown = |of_side: &[Option<String>]| {
        let mut distinct: Vec<&str> =
            of_side.iter().map(|v| v.as_deref().unwrap_or("not set")).collect();
        distinct.dedup();
        distinct.join(" / ")
    };
    let facts: Vec<Field> = sides
        .iter()
        .zip(values)
        .map(|(side, of_side)| Field::new(side.label, shown(of_side)))
        .collect();
    let list: Vec<String> = facts.iter().map(|f| format!("{} {}", f.key, f.value)).collect();
    let text = format!("{word} differs: {}", list.join("; "));
    found.push(Warning::new(&format!("differs.{code}"), severity, text).with(facts));
}

/// Merges differences in interference, temperature and wear into one note each.
fn merge_expected_differences(found: &mut Vec<Warning>) {
    const ENVIRONMENT: &str = "differs.environment.";
    type Among = fn(&str) -> bool;
    let gathered: [(&str, &str, Among); 2] = [
        (
            "interference",
            "the runs had different interference (see the environment of each)",
            |key| key.starts_with("interference"),
        ),
        (
            "drive.health",
            "the drives had different temperature or wear (see the environment of each)",
            |key| {
                key.starts_with("drive.")
                    && (key.contains(".temperature") || key.ends_with(".wear"))
            },
        ),
    ];
    for (name, text, among) in gathered {
        let is_of_it = |w: &Warning| w.code.strip_prefix(ENVIRONMENT).is_some_and(among);
        let fact = |w: &Warning, f: &Field| {
            Field::new(format!("{} {}", f.key, &w.code[ENVIRONMENT.len()..]), f.value.clone())
        };
        let facts: Vec<Field> = found
            .iter()
            .filter(|w| is_of_it(w))
            .flat_map(|w| w.facts.iter().map(move |f| fact(w, f)))
            .collect();
        found.retain(|w| !is_of_it(w));
        if !facts.is_empty() {
            let code = format!("{ENVIRONMENT}{name}");
            found.push(Warning::new(&code, Severity::Note, text.to_owned()).with(facts));
        }
    }
}

/// Warns of interrupted runs and repeats their warnings.
fn unfinished(sides: &[Side<'_>], found: &mut Vec<Warning>) {
    for side in sides {
        for run in side.runs {
            if !run.complete {
                let text = format!(
                    "{} was interrupted: its figures cover only the completed part",
                    side.label
                );
                found.push(Warning::new("run.incomplete", Severity::Serious, text));
            }
            // An unsteady rate is otherwise only marked with a symbol, which comparisons
            // lack.
            let own = run.warnings.iter().filter(|warning| {
                warning.severity > Severity::Note || warning.code.starts_with("steady-state.")
            });
            found.extend(own.map(|warning| Warning {
                text: format!("{}: {}", side.label, warning.text),
                ..warning.clone()
            }));
        }
    }
    let modelled =
        |side: &&Side<'_>| side.runs.iter().any(|run| run.provenance == Provenance::Modelled);
    let labels: Vec<&str> = sides.iter().filter(modelled).map(|side| side.label).collect();
    if let Some((last, rest)) = labels.split_last() {
        let (labels, were) = if rest.is_empty() {
            (String::new(), "was")
        } else {
            (format!("{} and ", rest.join(", ")), "were")
        };
        let text = format!(
            "{labels}{last} {were} modelled: the figures have no spread and do not \
                show how much real ones would vary"
        );
        found.push(Warning::new("run.modelled", Severity::Note, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Latency, Phase, TargetKind};
    use trimtab_drive::OpKind;
    use trimtab_drive::units::{Bytes, Nanos};

    fn run(name: &str, metrics: &[(&str, Unit, Better, &[f64])]) -> Run {
        Run {
            workload: "tree".to_owned(),
            settings: vec![Field::new("files", "36706")],
            target: TargetKind::Directory,
            target_label: name.to_owned(),
            policy: "none".to_owned(),
            policy_settings: Vec::new(),
            seed: 1,
            provenance: Provenance::Measured,
            systems: 1,
            started_unix_ms: 0,
            tool_version: "0.1.0".to_owned(),
            complete: true,
            environment: vec![Field::new("fs.type", "ext4")],
            specification: Vec::new(),
            phases: Vec::new(),
            metrics: metrics
                .iter()
                .map(|(name, unit, better, samples)| Metric {
                    name: (*name).to_owned(),
                    unit: *unit,
                    better: *better,
                    samples: samples.to_vec(),
                })
                .collect(),
            series: Vec::new(),
            counters: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn two<'a>(a: &'a [Run], b: &'a [Run]) -> [Side<'a>; 2] {
        [Side { label: "A", runs: a }, Side { label: "B", runs: b }]
    }

    #[test]
    fn compare_warns_of_exactly_the_differing_fields() {
        let mut b = run("B", &[]);
        b.settings = vec![Field::new("files", "500"), Field::new("tries", "3")];
        b.environment =
            vec![Field::new("fs.type", "xfs"), Field::new("interference.bytes", "5 MB")];
        b.environment.extend([
            Field::new("drive.temperature", "41 °C"),
            Field::new("drive.temperature.after", "46 °C"),
        ]);
        b.environment.push(Field::new("drive.1.wear", "3 % of its rated life used"));
        b.policy = "online".to_owned();
        let (a, b) = ([run("A", &[])], [b]);
        let warnings = warnings(&two(&a, &b));
        let codes: Vec<&str> = warnings.iter().map(|w| w.code.as_str()).collect();
        let expected = [
            "differs.settings.files",
            "differs.settings.tries",
            "differs.environment.fs.type",
            "differs.policy",
            "differs.environment.interference",
            "differs.environment.drive.health",
        ];
        assert_eq!(codes, expected);
        assert_eq!(warnings[1].text, "setting tries differs: A not set; B 3");
        assert!(super::warnings(&two(&a, &a)).is_empty());
    }

    #[test]
    fn unlike_names_the_workloads_that_differ() {
        let of = |workload: &str, kind: Option<&str>| Run {
            workload: workload.to_owned(),
            settings: kind.map(|kind| Field::new("workload", kind)).into_iter().collect(),
            ..run("x", &[])
        };
        let unlike = |a: &[Run], b: &[Run]| super::unlike(&two(a, b));
        let (tree, postmark) = ([of("tree", None)], [of("postmark", None)]);
        assert_eq!(unlike(&tree, &tree), None);
        assert_eq!(unlike(&tree, &postmark).unwrap(), "A is tree, B is postmark");
        let simulate = |kind| [of("simulate", Some(kind))];
        assert_eq!(unlike(&simulate("random"), &simulate("random")), None);
        assert_eq!(
            unlike(&simulate("random"), &simulate("zipf")).unwrap(),
            "A is simulate random, B is simulate zipf"
        );
        let mixed = [of("tree", None), of("postmark", None)];
        assert_eq!(unlike(&tree, &mixed).unwrap(), "A is tree, B is tree and postmark");
        assert_eq!(
            unlike(&mixed, &mixed).unwrap(),
            "A is tree and postmark, B is tree and postmark"
        );
    }

    #[test]
    fn side_without_trims_is_not_faster_at_trimming() {
        let trims = |seconds: &[f64]| {
            run("x", &[(metrics::TRIM_SECONDS, Unit::Seconds, Better::Lower, seconds)])
        };
        let verdict = |a: &[f64], b: &[f64]| {
            let (a, b) = ([trims(a)], [trims(b)]);
            let sides = two(&a, &b);
            against(sides[0], sides[1], &ComparisonOptions::default()).figures[0].comparison.verdict
        };
        assert_eq!(
            [verdict(&[5.0; 3], &[0.0; 3]), verdict(&[0.0; 3], &[5.0; 3])],
            [ComparisonVerdict::Different; 2]
        );
        assert_eq!(verdict(&[5.0; 3], &[2.0; 3]), ComparisonVerdict::Better);
    }

    #[test]
    fn modelled_runs_of_one_seed_are_compared_exactly() {
        let one = |provenance, seed, v: f64| Run {
            provenance,
            seed,
            ..run("x", &[("delete.seconds", Unit::Seconds, Better::Lower, &[v])])
        };
        let verdict = |a: &[Run], b: &[Run]| {
            let sides = two(a, b);
            against(sides[0], sides[1], &ComparisonOptions::default()).figures[0].comparison.verdict
        };
        let modelled = |seed, v| one(Provenance::Modelled, seed, v);
        assert_eq!(verdict(&[modelled(1, 2.0)], &[modelled(1, 2.1)]), ComparisonVerdict::Worse);
        assert_eq!(verdict(&[modelled(1, 2.0)], &[modelled(1, 2.0)]), ComparisonVerdict::Same);
        assert_eq!(
            verdict(&[modelled(1, 2.0)], &[modelled(2, 2.001)]),
            ComparisonVerdict::CannotTell,
            "a different seed is a different draw"
        );
        assert_eq!(
            verdict(&[modelled(1, 2.0)], &[one(Provenance::Measured, 1, 2.001)]),
            ComparisonVerdict::CannotTell
        );
        let seeds = |v: f64| [modelled(1, v), modelled(2, v * 1.01), modelled(3, v * 0.99)];
        assert_eq!(
            verdict(&seeds(2.0), &seeds(2.001)),
            ComparisonVerdict::NoDifference,
            "repeats under several seeds have a spread"
        );
    }

    #[test]
    fn compare_marks_unsteady_and_modelled_rates() {
        let note = Warning {
            code: "steady-state.not-reached".into(),
            severity: Severity::Note,
            facts: vec![],
            text: "not steady".into(),
        };
        let a = [Run { provenance: Provenance::Modelled, warnings: vec![note], ..run("x", &[]) }];
        let b = [Run { provenance: Provenance::Modelled, ..run("x", &[]) }];
        let said: Vec<String> =
            warnings(&two(&a, &b)).into_iter().map(|warning| warning.text).collect();
        assert!(
            said.contains(&"A: not steady".to_owned())
                && said.iter().any(|text| text.starts_with("A and B were modelled")),
            "{said:?}"
        );
    }

    #[test]
    fn study_cell_is_not_a_difference() {
        let of_cell =
            |cell: &str| Run { environment: vec![Field::new(STUDY_CELL, cell)], ..run("x", &[]) };
        assert_eq!(warnings(&two(&[of_cell("a")], &[of_cell("b")])), []);
    }

    #[test]
    fn repeats_of_several_runs_are_pooled() {
        let one = |v: f64| run("x", &[("delete.seconds", Unit::Seconds, Better::Lower, &[v])]);
        let (a, b) = ([one(40.0), one(41.0), one(40.5)], [one(0.6), one(0.7), one(0.65)]);
        let sides = two(&a, &b);
        let result = against(sides[0], sides[1], &ComparisonOptions::default());
        assert_eq!(
            (result.figures[0].repeats, result.figures[0].comparison.verdict),
            ((3, 3), ComparisonVerdict::Better)
        );
        assert!(result.not_shared.is_empty());
        let odd = [run("y", &[("other", Unit::Count, Better::Neither, &[1.0])])];
        let result =
            against(sides[0], Side { label: "C", runs: &odd }, &ComparisonOptions::default());
        assert!(result.figures.is_empty());
        assert_eq!(result.not_shared, ["delete.seconds", "other"]);
    }

    #[test]
    fn latency_percentiles_need_enough_operations() {
        let phase = |n: u64| {
            let mut histogram = Histogram::new();
            histogram.record_n(Nanos(1000), n);
            Phase {
                name: "p".to_owned(),
                started: Nanos::ZERO,
                took: Nanos(1),
                ops: Vec::new(),
                read: Bytes::ZERO,
                written: Bytes::ZERO,
                latencies: vec![Latency {
                    kind: OpKind::Read,
                    part: LatencyPart::Total,
                    histogram,
                }],
                discards: None,
            }
        };
        let with = |phases| Run { phases, ..run("x", &[]) };
        let names = |run: &Run| {
            latency_metrics(run)
                .iter()
                .map(|m| (m.name.clone(), m.samples.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&with(vec![phase(9)])), []);
        assert_eq!(names(&with(vec![phase(2000), phase(999)])), [("p.read.p50".to_owned(), 2)]);
        assert_eq!(names(&with(vec![phase(10_000)])).len(), 3);
    }

    #[test]
    fn interrupted_and_disturbed_runs_are_named() {
        let mut a = run("A", &[]);
        a.complete = false;
        let own = Warning {
            code: "x".to_owned(),
            severity: Severity::Caution,
            facts: Vec::new(),
            text: "others wrote".to_owned(),
        };
        a.warnings = vec![own];
        let (a, b) = ([a], [run("B", &[])]);
        let found = warnings(&two(&a, &b));
        assert_eq!(
            found.iter().map(|w| w.code.as_str()).collect::<Vec<_>>(),
            ["run.incomplete", "x"]
        );
        assert_eq!(found[1].text, "A: others wrote");
    }
}
