//! Blind recovery: draws random drives with [`classes::draw`], learns them with `small`
//! or `full`, and predicts workloads that no probe ran. Baselines predict the same. The
//! fit knows only what a drawn drive reports about itself.
//!
//! Every test run uses a sample. `TRIMTAB_TWINS=200` (in `make soak`) prints the figures
//! of docs/method/twin.md; `TRIMTAB_TWINS_BUDGET=full` uses that budget.
//! `TRIMTAB_TWINS_CHURN=4` adds churn predicted by that many members.
//! `TRIMTAB_TWINS_CSV=FILE` saves every prediction. If the file `TRIMTAB_TWINS_STOP`
//! exists, no further drive starts and the figures cover the finished ones. With
//! `TRIMTAB_TWINS_ITSELF=1`, nothing is learned: each drive predicts itself with other
//! seeds, which is the upper bound of accuracy.

use super::churn;
use super::predict::{Prediction, ResidualDeviation, What, WorkloadFigure, figures, predictions};
use crate::learn::candidate::{Candidate, DriveKind, at};
use crate::learn::fit::{self, SequentialEvaluator};
use crate::learn::lab::ProbeSession;
use crate::learn::probes::whole::{ProbeRegion, SIZE};
use crate::learn::probes::{self, DEPTH_MAX, Findings, ProbePlan};
use crate::learn::{Budget, ReportedProperties, TrimLimits, classes};
use crate::study::small::SmallDrive;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::vec::Vec;
use std::{env, format, println, thread};
use trimtab_drive::model;
use trimtab_drive::rng::Stream;
use trimtab_drive::shipped;
use trimtab_drive::spec::DriveSpec;
use trimtab_sim::target::drive::DriveTarget;

fn reported(pcie: bool) -> ReportedProperties {
    let limits = if pcie {
        TrimLimits { ranges_per_command_max: 256, range_bytes_max: 1 << 40 }
    } else {
        TrimLimits { ranges_per_command_max: 64, range_bytes_max: 65_535 * 512 }
    };
    ReportedProperties {
        capacity_bytes: 120_000_000_000,
        logical_block_bytes: 512,
        queue_depth: if pcie { 1024 } else { 32 },
        full_duplex: pcie,
        trim: Some(limits),
    }
}

type Predicted = (WorkloadFigure, Prediction);

#[derive(Clone, Copy)]
struct TestExtent {
    budget: Budget,
    members: usize,
    /// Number of members that predict churn; 0 skips it.
    churn: usize,
    baselines: bool,
}

struct Recovered {
    seed: u64,
    misfit: f64,
    /// Candidates tried.
    tried: u32,
    /// Misfit of the true drive, run as a candidate; NaN if impossible.
    misfit_of_truth: f64,
    /// Misfits of the found and the true drive for the whole-drive figures.
    misfit_of_whole: (f64, f64),
    explained: u32,
    /// Differences between the found and the true kind.
    otherwise: String,
    /// For the cost of a command, a range, a unit and a byte of a TRIM: error of the
    /// logarithm, and the largest share of the cost in a TRIM of the probes.
    trim_costs: Vec<(f64, f64)>,
    predicted: Vec<Predicted>,
    /// Named policies by fill level, judged by one run and by the medians of several
    /// runs.
    policies: [Vec<PolicyChoice>; 2],
    /// Relative errors of the baselines: nearest shipped drive, the probes' own figures,
    /// six rates.
    baselines: [Vec<f64>; 3],
}

/// The named policy, the truly best one, and their true rates.
struct PolicyChoice {
    named: &'static str,
    best: &'static str,
    named_rate: f64,
    best_rate: f64,
    next_rate: f64,
    none_rate: f64,
}

fn probed_whole(spec: &DriveSpec, plan: &ProbePlan) -> Option<Findings> {
    let small = SmallDrive::of(spec, SIZE).ok()?.spec;
    let mut target = DriveTarget::new(model::build(&small, 9).ok()?, DEPTH_MAX);
    let plan = ProbePlan { whole: Some(plan.whole?.on(small.capacity_bytes)), ..*plan };
    probes::run_whole(&mut ProbeSession::new(&mut target), &plan, &mut ()).ok()
}

fn probed(spec: &DriveSpec, plan: &ProbePlan) -> Option<Findings> {
    let mut target = DriveTarget::new(model::build(spec, 9).ok()?, DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    probes::run(&mut lab, plan, &mut ()).ok()
}

fn recovered(seed: u64, asked: TestExtent) -> Option<Recovered> {
    let mut random = Stream::new(seed, "truth");
    let reported = reported(random.chance(0.5));
    let truth = classes::draw(&mut random, &reported);
    let spec = truth.spec("truth", "drawn at random", &reported);
    let mut plan =
        ProbePlan::new(asked.budget, reported, ProbePlan::write_limit(reported.capacity_bytes), 1)?;
    let found = probed(&spec, &plan)?;
    let of_whole = if asked.budget == Budget::Full {
        plan.whole = Some(ProbeRegion::all(reported.capacity_bytes));
        Some(probed_whole(&spec, &plan)?)
    } else {
        None
    };
    let fitted = fit::fit(&found, of_whole.as_ref(), &plan, &SequentialEvaluator, &mut ())?;
    let misfit_of_whole =
        of_whole.as_ref().map_or(f64::NAN, |found| misfit_of_whole_of(&truth, found, &plan));
    let worst_of_whole = of_whole.map_or_else(String::new, |found| {
        format!("; worst {}", worst(&fitted.best, &found, &plan))
    });
    let members: Vec<(DriveSpec, u64)> =
        fitted.members.iter().map(|one| (one.spec("member", "member", &reported), 5)).collect();
    let (measured, predicted, policies) =
        measure_and_predict(&spec, &members, ResidualDeviation::of(&fitted), asked)?;
    Some(Recovered {
        seed,
        misfit: fitted.misfit,
        tried: fitted.tried,
        misfit_of_truth: misfit_of(&truth, &found, &plan),
        misfit_of_whole: (fitted.whole.map_or(f64::NAN, |whole| whole.misfit), misfit_of_whole),
        explained: fitted.explained,
        otherwise: [
            otherwise(&truth.kind, &fitted.best.kind),
            hidden_otherwise(&truth, &fitted.best, asked.budget),
        ]
        .join("; ")
            + &worst_of_whole,
        trim_costs: trim_costs(&truth, &fitted.best, &found, &plan),
        baselines: [
            if asked.baselines { nearest(&found, &measured) } else { Vec::new() },
            interpolated(&found, &measured),
            six_rates(&found, &measured),
        ],
        predicted,
        policies,
    })
}

/// Measurements, predictions, and policies as in [`Recovered`].
type PredictionSet = (Vec<WorkloadFigure>, Vec<Predicted>, [Vec<PolicyChoice>; 2]);

fn measure_and_predict(
    spec: &DriveSpec,
    members: &[(DriveSpec, u64)],
    unexplained: ResidualDeviation,
    asked: TestExtent,
) -> Option<PredictionSet> {
    let predictions = |shown: Vec<Vec<WorkloadFigure>>| {
        predictions(&shown).into_iter().map(|one| one.widened(unexplained)).collect::<Vec<_>>()
    };
    let measured = figures(spec, 5)?;
    let shown =
        members.iter().take(asked.members).filter_map(|(member, seed)| figures(member, *seed));
    let mut predicted: Vec<Predicted> =
        measured.iter().copied().zip(predictions(shown.collect())).collect();
    let mut policies = [Vec::new(), Vec::new()];
    if asked.churn > 0 {
        let in_truth = churn::figures(spec, 5)?;
        let again = predictions(
            (100..100 + asked.churn as u64).filter_map(|seed| churn::figures(spec, seed)).collect(),
        );
        let over_runs: Vec<WorkloadFigure> = in_truth
            .iter()
            .zip(again)
            .map(|(figure, again)| WorkloadFigure { value: again.median, ..*figure })
            .collect();
        let shown = members
            .iter()
            .take(asked.churn)
            .filter_map(|(member, seed)| churn::figures(member, *seed));
        let of_churn = predictions(shown.collect());
        let at_fills = |truth: &[WorkloadFigure]| {
            [0.6, 0.9].into_iter().filter_map(|fill| named(fill, truth, &of_churn)).collect()
        };
        policies = [at_fills(&in_truth), at_fills(&over_runs)];
        predicted.extend(in_truth.into_iter().zip(of_churn));
    }
    Some((measured, predicted, policies))
}

/// The drive drawn with `seed` predicts itself with other seeds: an upper bound for
/// learning.
fn by_itself(seed: u64, asked: TestExtent) -> Option<Recovered> {
    let mut random = Stream::new(seed, "truth");
    let reported = reported(random.chance(0.5));
    let spec = classes::draw(&mut random, &reported).spec("truth", "drawn at random", &reported);
    let members: Vec<(DriveSpec, u64)> =
        (6..6 + asked.members.max(asked.churn) as u64).map(|seed| (spec.clone(), seed)).collect();
    let (_, predicted, policies) =
        measure_and_predict(&spec, &members, ResidualDeviation { part: 0.0, whole: 0.0 }, asked)?;
    Some(Recovered {
        seed,
        misfit: 0.0,
        tried: 0,
        misfit_of_truth: 0.0,
        misfit_of_whole: (0.0, 0.0),
        explained: members.len() as u32,
        otherwise: String::new(),
        trim_costs: Vec::new(),
        predicted,
        policies,
        baselines: Default::default(),
    })
}

/// Error of each TRIM cost, and its share of a TRIM. The probes trim one range, a full
/// command of short ranges, and half the area with all its units.
fn trim_costs(
    truth: &Candidate,
    best: &Candidate,
    found: &Findings,
    plan: &ProbePlan,
) -> Vec<(f64, f64)> {
    let most = plan.reported.trim.map_or(1, |limits| u64::from(limits.ranges_per_command_max));
    let ranges = 256.min(most).min(plan.area / 32 / (64 << 10)) as f64;
    let half = plan.area as f64 / 2.0;
    let shares = [
        (at::TRIM_COMMAND, 1.0, "trim one again"),
        (at::TRIM_RANGE, ranges, "trim shortest again"),
        (at::TRIM_UNIT, half / truth.kind.unit_bytes as f64, "trim all"),
        (at::TRIM_GB, half / 1e9, "trim all"),
    ];
    let of = |(number, many, name): (usize, f64, &str)| {
        let cost = truth.number(number).round().max(1.0);
        (
            libm::log(best.number(number) / cost).abs(),
            many * cost / found.ns(name).unwrap_or(f64::INFINITY),
        )
    };
    shares.map(of).to_vec()
}

/// The policy with the best predicted median, with its true rate and the true best rate.
fn named(fill: f64, in_truth: &[WorkloadFigure], predicted: &[Prediction]) -> Option<PolicyChoice> {
    let truth = |workload: &str| {
        in_truth
            .iter()
            .find(|one| one.workload == workload && one.what == What::Rate)
            .map(|one| one.value)
    };
    let median = |workload: &str| {
        predicted
            .iter()
            .find(|one| one.workload == workload && one.what == What::Rate)
            .map(|one| one.median)
    };
    let (best, best_rate, none_rate) = churn::best(fill, truth)?;
    let others =
        churn::CASES.into_iter().filter(|(policy, full, _)| *policy != best && *full == fill);
    let next_rate = others.filter_map(|(.., workload)| truth(workload)).fold(0.0, f64::max);
    let (named, ..) = churn::best(fill, median)?;
    let (.., workload) =
        churn::CASES.into_iter().find(|(policy, full, _)| *policy == named && *full == fill)?;
    Some(PolicyChoice {
        named,
        best,
        named_rate: truth(workload)?,
        best_rate,
        next_rate,
        none_rate,
    })
}

/// As [`misfit_of`], for the whole-drive figures.
fn misfit_of_whole_of(candidate: &Candidate, found: &Findings, plan: &ProbePlan) -> f64 {
    let Some(shown) = fit::whole::shown(candidate, plan) else { return f64::NAN };
    let squares = found
        .observations
        .iter()
        .zip(&shown)
        .map(|(one, shown)| ((libm::log(one.value_ns) - shown) / one.sigma).powi(2));
    squares.sum::<f64>() / shown.len().max(1) as f64
}

fn worst(candidate: &Candidate, found: &Findings, plan: &ProbePlan) -> String {
    let shown = fit::whole::shown(candidate, plan).unwrap_or_default();
    let off = found
        .observations
        .iter()
        .zip(&shown)
        .map(|(one, shown)| (libm::log(one.value_ns) - shown, one.name.as_str()));
    let mut all: Vec<(f64, &str)> = off.collect();
    all.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    all.iter().take(5).map(|(off, name)| format!("{name} {off:+.2}")).collect::<Vec<_>>().join(", ")
}

/// Differences in properties that only whole-drive probes identify.
fn hidden_otherwise(truth: &Candidate, found: &Candidate, budget: Budget) -> String {
    if budget != Budget::Full {
        return String::new();
    }
    let (a, b) = (&truth.hidden, &found.hidden);
    let mut all =
        std::vec![format!("spare {} for {}", found.spare_permille(), truth.spare_permille())];
    if truth.kind.slc {
        all.push(format!(
            "slc {:?} for {:?}, direct {} for {}, bits {} for {}",
            found.slc_ppm(),
            truth.slc_ppm(),
            b.slc_direct,
            a.slc_direct,
            b.bits_per_cell,
            a.bits_per_cell
        ));
        all.push(format!(
            "program {:.2} times",
            found.number(at::PROGRAM) / truth.number(at::PROGRAM)
        ));
    }
    if (truth.map_ppm(), found.map_ppm()) != (0, 0) {
        all.push(format!("map {} for {}", found.map_ppm(), truth.map_ppm()));
    }
    if (a.victim, a.separate_gc) != (b.victim, b.separate_gc) {
        all.push(format!("{:?} {} for {:?} {}", b.victim, b.separate_gc, a.victim, a.separate_gc));
    }
    all.join(", ")
}

/// Misfit of a candidate: 1 matches the expected errors.
fn misfit_of(candidate: &Candidate, found: &Findings, plan: &ProbePlan) -> f64 {
    // The true value of `folds` depends on whether data moved during rests.
    let misfit = |folds: bool| {
        let mut candidate = candidate.clone();
        candidate.kind.folds = folds;
        let shown = fit::shown(&candidate, plan)?;
        let squares = found
            .observations
            .iter()
            .zip(&shown)
            .map(|(one, shown)| ((libm::log(one.value_ns) - shown) / one.sigma).powi(2));
        Some(squares.sum::<f64>() / shown.len().max(1) as f64)
    };
    [true, false].into_iter().filter_map(misfit).fold(f64::INFINITY, f64::min)
}

/// Differences between two kinds. Arrangements with equal dies and rows look the same to
/// a host.
fn otherwise(truth: &DriveKind, found: &DriveKind) -> String {
    let of = |kind: &DriveKind| {
        [
            ("dies", u64::from(kind.dies())),
            ("channels", u64::from(kind.channels)),
            ("row", kind.row_bytes()),
            ("page", kind.page_bytes),
            ("unit", kind.unit_bytes),
            ("suspends", kind.suspends.into()),
            ("protected", kind.protected.into()),
            ("slc", kind.slc.into()),
            ("compresses", kind.compresses.into()),
            ("queued", kind.trim_queued.into()),
            ("least", kind.trim_bytes_min.max(kind.unit_bytes)),
            ("alignment", kind.trim_alignment_bytes.max(kind.unit_bytes)),
        ]
    };
    let differ = of(truth).into_iter().zip(of(found)).filter(|(truth, found)| truth.1 != found.1);
    differ
        .map(|((name, truth), (_, found))| format!("{name} {found} for {truth}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Errors of the shipped drive with the most similar probe results.
fn nearest(found: &Findings, measured: &[WorkloadFigure]) -> Vec<f64> {
    static SHOWN: LazyLock<Vec<(Findings, Vec<WorkloadFigure>)>> = LazyLock::new(|| {
        let all = shipped::drives()
            .into_iter()
            .map(|drive| drive.spec)
            .filter(|spec| spec.flash.trim.supported);
        let one = |spec: DriveSpec| {
            let own = ReportedProperties::of(&spec);
            let plan =
                ProbePlan::new(Budget::Small, own, ProbePlan::write_limit(own.capacity_bytes), 1)?;
            Some((probed(&spec, &plan)?, figures(&spec, 5)?))
        };
        all.filter_map(one).collect()
    });
    let off = |shown: &Findings| -> f64 {
        let pairs = found
            .observations
            .iter()
            .filter_map(|one| Some(libm::log(one.value_ns / shown.ns(&one.name)?).abs().min(3.0)));
        let all: Vec<f64> = pairs.collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let Some((_, like)) = SHOWN.iter().min_by(|a, b| off(&a.0).total_cmp(&off(&b.0))) else {
        return Vec::new();
    };
    let same = |figure: &WorkloadFigure| {
        like.iter().find(|one| (one.workload, one.what) == (figure.workload, figure.what))
    };
    measured
        .iter()
        .filter_map(|figure| Some((same(figure)?.value / figure.value - 1.0).abs()))
        .collect()
}

/// Operations per second of the block workloads, from the times of a read and a write.
fn rates(
    measured: &[WorkloadFigure],
    read_ns: impl Fn(f64) -> f64,
    write_ns: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let depths =
        [("mixed, 1 in flight", 1.0), ("mixed, 4 in flight", 4.0), ("mixed, 32 in flight", 32.0)];
    let mixed = depths.map(|(name, depth)| (name, 0.7 * read_ns(depth) + 0.3 * write_ns(depth)));
    let all = mixed.into_iter().chain([("random writes in the end", write_ns(32.0))]);
    let truth = |name: &str| {
        measured
            .iter()
            .find(|one| one.workload == name && one.what == What::Rate)
            .map(|one| one.value)
    };
    all.filter_map(|(name, ns)| Some((1e9 / ns / truth(name)? - 1.0).abs())).collect()
}

/// Errors of an interpolation between the probes' figures.
fn interpolated(found: &Findings, measured: &[WorkloadFigure]) -> Vec<f64> {
    let between = |depth: f64| {
        let (low, high): (f64, f64) = if depth < 8.0 { (2.0, 8.0) } else { (8.0, 32.0) };
        let at = |depth: f64| found.ns(&format!("read 4096 q{depth}")).unwrap_or(f64::NAN);
        let share = libm::log(depth / low) / libm::log(high / low);
        libm::exp(libm::log(at(low)) * (1.0 - share) + libm::log(at(high)) * share)
    };
    let read = |depth: f64| {
        if depth <= 1.0 { found.ns("read 4096 q1").unwrap_or(f64::NAN) } else { between(depth) }
    };
    let write = |depth: f64| {
        found
            .ns(if depth <= 1.0 { "write 4096 q1" } else { "random write 4096 to the end" })
            .unwrap_or(f64::NAN)
    };
    finite(rates(measured, read, write))
}

/// Errors of a six-rate model with a constant cost of reads and of writes.
fn six_rates(found: &Findings, measured: &[WorkloadFigure]) -> Vec<f64> {
    let deepest = found
        .observations
        .iter()
        .rfind(|one| one.name.starts_with("read 4096 q"))
        .map_or(f64::NAN, |one| one.value_ns);
    let write = found.ns("random write 4096 q32").unwrap_or(f64::NAN);
    finite(rates(measured, |_| deepest, |_| write))
}

fn finite(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().filter(|value| value.is_finite()).collect()
}

fn quantile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len().max(1) - 1) * percent / 100).copied().unwrap_or(f64::NAN)
}

fn off((figure, predicted): &Predicted) -> f64 {
    (predicted.median / figure.value - 1.0).abs()
}

fn holds((figure, predicted): &Predicted) -> bool {
    predicted.holds(figure.value, 0.005)
}

/// Prints how often the named policy was best or as good where it matters, or harmful.
fn tell_policies(all: &[Recovered]) {
    for (nth, judge) in
        ["one run of the drive", "the medians of other runs"].into_iter().enumerate()
    {
        let every: Vec<(u64, &PolicyChoice)> = all
            .iter()
            .flat_map(|one| one.policies[nth].iter().map(|named| (one.seed, named)))
            .collect();
        let worth: Vec<&PolicyChoice> = every
            .iter()
            .map(|(_, one)| *one)
            .filter(|one| one.best_rate > 1.1 * one.none_rate)
            .collect();
        let same = |some: &[&PolicyChoice]| some.iter().filter(|one| one.named == one.best).count();
        let as_good = worth.iter().filter(|one| one.named_rate > 0.9 * one.best_rate).count();
        let clear: Vec<&PolicyChoice> =
            worth.iter().copied().filter(|one| one.best_rate > 1.1 * one.next_rate).collect();
        let harmful: Vec<u64> = every
            .iter()
            .filter(|(_, one)| one.named_rate < 0.95 * one.none_rate)
            .map(|(seed, _)| *seed)
            .collect();
        println!(
            "policies, judged by {judge}: {} cases, worth a tenth in {}; the best of \
                these is named in {}, one within a tenth of it in {as_good}; of {} where it \
                is a tenth better than the next, in {}; harmful in {harmful:?}",
            every.len(),
            worth.len(),
            same(&worth),
            clear.len(),
            same(&clear)
        );
    }
}

fn keep(path: &str, all: &[Recovered]) {
    let mut text = String::from("seed,workload,figure,measured,predicted,low,high\n");
    for one in all {
        for (figure, predicted) in &one.predicted {
            let Prediction { median, low, high, .. } = predicted;
            let row = format!(
                "{},\"{}\",{},{:.6e},{median:.6e},{low:.6e},{high:.6e}\n",
                one.seed,
                figure.workload,
                figure.what.name(),
                figure.value
            );
            text.push_str(&row);
        }
    }
    std::fs::write(path, text).unwrap();
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

fn tell_one(one: &Recovered) {
    let share = |some: usize| 100.0 * some as f64 / one.predicted.len().max(1) as f64;
    let held = share(one.predicted.iter().filter(|one| holds(one)).count());
    let near = share(one.predicted.iter().filter(|one| off(one) < 0.15).count());
    if env::var_os("TRIMTAB_TWINS_ALL").is_some() {
        for (figure, predicted) in &one.predicted {
            let (name, held) = (
                figure.what.name(),
                if predicted.holds(figure.value, 0.005) { "" } else { "NOT HELD" },
            );
            println!(
                "    {} {name}: {:.4e} for {:.4e} {held}",
                figure.workload, predicted.median, figure.value
            );
        }
    }
    println!(
        "seed {}: {} candidates, misfit {:.2} ({:.2} of the true one), whole {:.2} \
            ({:.2}), {} members, within 15 % {near:.0} %, held {held:.0} %; {}",
        one.seed,
        one.tried,
        one.misfit,
        one.misfit_of_truth,
        one.misfit_of_whole.0,
        one.misfit_of_whole.1,
        one.explained,
        one.otherwise
    );
}

fn tell(all: &[Recovered]) {
    let every: Vec<&Predicted> = all.iter().flat_map(|one| &one.predicted).collect();
    let mut by: BTreeMap<(&str, &str), Vec<&Predicted>> = BTreeMap::new();
    for one in &every {
        by.entry((one.0.workload, one.0.what.name())).or_default().push(one);
        by.entry(("all", one.0.what.name())).or_default().push(one);
    }
    println!("| workload | figure | median error | within 15 % | held |\n|---|---|---:|---:|---:|");
    let share = |some: usize, of: usize| 100.0 * some as f64 / of.max(1) as f64;
    for ((workload, what), some) in by {
        let error = quantile(some.iter().map(|one| off(one)).collect(), 50) * 100.0;
        let near = share(some.iter().filter(|one| off(one) < 0.15).count(), some.len());
        let held = share(some.iter().filter(|one| holds(one)).count(), some.len());
        println!("| {workload} | {what} | {error:.1} % | {near:.0} % | {held:.0} % |");
    }
    let held = share(every.iter().filter(|one| holds(one)).count(), every.len());
    let near = share(every.iter().filter(|one| off(one) < 0.15).count(), every.len());
    println!(
        "all {} figures of {} drives: within 15 % {near:.0} %, held {held:.0} %",
        every.len(),
        all.len()
    );
    for least in [0.0, 0.1] {
        let costs: Vec<f64> = all
            .iter()
            .flat_map(|one| &one.trim_costs)
            .filter(|(_, share)| *share >= least)
            .map(|(off, _)| *off)
            .collect();
        let near = share(costs.iter().filter(|off| **off < 0.1).count(), costs.len());
        let (count, which) =
            (costs.len(), if least > 0.0 { "that are a tenth of a TRIM" } else { "in all" });
        println!(
            "costs of TRIM {which}: {count}, off by {:.1} % at the median, within 10 % {near:.0} %",
            100.0 * quantile(costs, 50)
        );
    }
    for (nth, name) in
        ["nearest shipped drive", "probes' own figures", "six rates"].into_iter().enumerate()
    {
        let errors: Vec<f64> = all.iter().flat_map(|one| one.baselines[nth].clone()).collect();
        println!(
            "{name}: off by {:.1} % at the median of {}",
            100.0 * quantile(errors.clone(), 50),
            errors.len()
        );
    }
    let names = [
        "mixed, 1 in flight",
        "mixed, 4 in flight",
        "mixed, 32 in flight",
        "random writes in the end",
    ];
    let rates: Vec<f64> = every
        .iter()
        .filter(|one| one.0.what == What::Rate && names.contains(&one.0.workload))
        .map(|one| off(one))
        .collect();
    println!("twins, on what the last two predict: off by {:.1} %", 100.0 * quantile(rates, 50));
    let unexplained: Vec<String> = all
        .iter()
        .filter(|one| one.misfit > 1.0)
        .map(|one| format!("{} ({:.1})", one.seed, one.misfit))
        .collect();
    println!("not explained (misfit above 1), by seed: {}", unexplained.join(", "));
}

#[test]
fn randomly_drawn_drives_are_recovered() {
    let many = number("TRIMTAB_TWINS");
    let drives = many.unwrap_or(1);
    let first = number("TRIMTAB_TWINS_SEED").unwrap_or(0);
    let budget = if env::var("TRIMTAB_TWINS_BUDGET").is_ok_and(|budget| budget == "full") {
        Budget::Full
    } else {
        Budget::Small
    };
    let churn = number("TRIMTAB_TWINS_CHURN").unwrap_or(0) as usize;
    let asked = TestExtent {
        budget,
        // With four members, the median would lie between both kinds of map memory.
        members: number("TRIMTAB_TWINS_MEMBERS").unwrap_or(if many.is_some() { 16 } else { 9 })
            as usize,
        churn,
        baselines: many.is_some(),
    };
    let itself = env::var_os("TRIMTAB_TWINS_ITSELF").is_some();
    let (next, all) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let stop = env::var("TRIMTAB_TWINS_STOP").ok();
    let stopped = || stop.as_ref().is_some_and(|stop| std::fs::exists(stop).unwrap_or(false));
    let path = env::var("TRIMTAB_TWINS_CSV").ok();
    println!("{drives} drives from seed {first} on");
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(drives as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + drives || stopped() {
                        break;
                    }
                    let one = if itself { by_itself(seed, asked) } else { recovered(seed, asked) };
                    one.iter().for_each(tell_one);
                    let mut all = all.lock().unwrap();
                    all.extend(one);
                    if let Some(path) = &path {
                        keep(path, &all);
                    }
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|one| one.seed);
    let begun = if stopped() { all.last().map_or(0, |last| last.seed + 1 - first) } else { drives };
    assert_eq!(all.len() as u64, begun, "a drive that was drawn could not be learned");
    tell(&all);
    if churn > 0 {
        tell_policies(&all);
    }
    if let Some(path) = path {
        keep(&path, &all);
    }
    let median = |values: Vec<f64>| quantile(values, 50);
    let costs = median(all.iter().flat_map(|one| &one.trim_costs).map(|(off, _)| *off).collect());
    let errors = median(all.iter().flat_map(|one| one.predicted.iter().map(off)).collect());
    assert!(
        (itself || costs < 0.05) && errors < 0.1,
        "costs of TRIM {costs}, predictions {errors}"
    );
    for (nth, name) in ["nearest", "interpolated", "six rates"].into_iter().enumerate() {
        let baseline = median(all.iter().flat_map(|one| one.baselines[nth].clone()).collect());
        // The daily sample omits some baselines.
        assert!(baseline.is_nan() || errors < baseline, "{name} is better: {baseline}, {errors}");
    }
}
