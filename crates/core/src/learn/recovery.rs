//! Blind recovery: drives are drawn at random from the space of [`classes::draw`], learned by the `small` budget, and predicted under workloads that no probe
//! ran; baselines predict the same. Nothing of a drawn drive is known to the fit but what it says of itself.
//!
//! A sample in every run of the tests; `TRIMTAB_TWINS=200` (in `make soak`) prints the figures of docs/method/twin.md.

use super::candidate::{Candidate, Kind, at};
use super::fit::{self, OneByOne};
use super::lab::Lab;
use super::predict::{Figure, What, figures, predictions};
use super::probes::{self, DEPTH_MAX, Findings, Plan};
use super::{Budget, Reported, TrimLimits, classes};
use crate::drive::model;
use crate::drive::shipped;
use crate::drive::spec::DriveSpec;
use crate::rng::Stream;
use crate::target::drive::DriveTarget;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::vec::Vec;
use std::{env, format, println, thread};

/// A drive of 120 GB, as it says of itself.
fn reported(pcie: bool) -> Reported {
    let limits = if pcie {
        TrimLimits { ranges_per_command_max: 256, range_bytes_max: 1 << 40 }
    } else {
        TrimLimits { ranges_per_command_max: 64, range_bytes_max: 65_535 * 512 }
    };
    Reported {
        capacity_bytes: 120_000_000_000,
        logical_block_bytes: 512,
        queue_depth: if pcie { 1024 } else { 32 },
        full_duplex: pcie,
        trim: Some(limits),
    }
}

/// A figure as it was measured, what was predicted, and whether the interval held.
type Predicted = (Figure, f64, bool);

/// What came of one drive.
struct Recovered {
    seed: u64,
    misfit: f64,
    /// The same of the true drive, as candidates are tried; none if it cannot be.
    misfit_of_truth: f64,
    /// Members that are drives of their own.
    explained: u32,
    /// What of its kind was found otherwise than it is.
    otherwise: String,
    /// Off by so much in its logarithm: the cost of a command, a range, a unit and a byte of a TRIM, where it is what is dear.
    trim_costs: Vec<f64>,
    /// The figure, predicted, measured, and whether the interval held it.
    predicted: Vec<Predicted>,
    /// What baselines are off by, as a share: the nearest shipped drive; the probes' own figures; six rates.
    baselines: [Vec<f64>; 3],
}

fn probed(spec: &DriveSpec, plan: &Plan) -> Option<Findings> {
    let mut target = DriveTarget::new(model::build(spec, 9).ok()?, DEPTH_MAX);
    let mut lab = Lab::new(&mut target);
    probes::there_already(&mut lab, plan).ok()?;
    probes::run(&mut lab, plan, &mut ()).ok()
}

/// A drive that is drawn by `seed`, learned and predicted; `whole` with more members and all baselines.
fn recovered(seed: u64, whole: bool) -> Option<Recovered> {
    let mut random = Stream::new(seed, "truth");
    let reported = reported(random.chance(0.5));
    let truth = classes::draw(&mut random, &reported);
    let spec = truth.spec("truth", "drawn at random", &reported);
    let members = if whole { 16 } else { 4 };
    let plan = Plan::new(Budget::Small, reported, Plan::write_limit(reported.capacity_bytes), 1)?;
    let found = probed(&spec, &plan)?;
    let fitted = fit::fit(&found, &plan, &OneByOne, &mut ())?;
    let measured = figures(&spec, 5)?;
    let of = |candidate: &Candidate| figures(&candidate.spec("member", "member", &reported), 5);
    let predicted = predictions(&fitted.members.iter().take(members).filter_map(of).collect::<Vec<_>>());
    let costs = [at::TRIM_COMMAND, at::TRIM_RANGE, at::TRIM_UNIT, at::TRIM_GB];
    Some(Recovered {
        seed,
        misfit: fitted.misfit,
        misfit_of_truth: misfit_of(&truth, &found, &plan),
        explained: fitted.explained,
        otherwise: otherwise(&truth.kind, &fitted.best.kind),
        trim_costs: costs.map(|number| libm::log(fitted.best.number(number) / truth.number(number).round().max(1.0)).abs()).to_vec(),
        baselines: [
            if whole { nearest(&found, &measured) } else { Vec::new() },
            interpolated(&found, &measured),
            six_rates(&found, &measured),
        ],
        predicted: predicted.iter().zip(measured).map(|(one, figure)| (figure, one.median, one.holds(figure.value, 0.005))).collect(),
    })
}

/// How well a candidate explains the figures: 1 is as well as they are thought to be known.
fn misfit_of(candidate: &Candidate, found: &Findings, plan: &Plan) -> f64 {
    // What was not moved while the drive was left alone is part of the truth.
    let misfit = |folds: bool| {
        let mut candidate = candidate.clone();
        candidate.kind.folds = folds;
        let shown = fit::shown(&candidate, plan)?;
        let squares = found.observations.iter().zip(&shown).map(|(one, shown)| ((libm::log(one.value_ns) - shown) / one.sigma).powi(2));
        Some(squares.sum::<f64>() / shown.len().max(1) as f64)
    };
    [true, false].into_iter().filter_map(misfit).fold(f64::INFINITY, f64::min)
}

/// What of a kind was found otherwise than it is: as many dies and rows in another arrangement are the same to a host.
fn otherwise(truth: &Kind, found: &Kind) -> String {
    let of = |kind: &Kind| {
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
    differ.map(|((name, truth), (_, found))| format!("{name} {found} for {truth}")).collect::<Vec<_>>().join(", ")
}

/// The shipped drive that shows most nearly the same under the probes.
fn nearest(found: &Findings, measured: &[Figure]) -> Vec<f64> {
    static SHOWN: LazyLock<Vec<(Findings, Vec<Figure>)>> = LazyLock::new(|| {
        let all =
            shipped::drives().into_iter().map(|drive| drive.spec).filter(|spec| spec.flash().is_some_and(|flash| flash.trim.supported));
        let one = |spec: DriveSpec| {
            let own = Reported::of(&spec)?;
            let plan = Plan::new(Budget::Small, own, Plan::write_limit(own.capacity_bytes), 1)?;
            Some((probed(&spec, &plan)?, figures(&spec, 5)?))
        };
        all.filter_map(one).collect()
    });
    let off = |shown: &Findings| -> f64 {
        let pairs = found.observations.iter().filter_map(|one| Some(libm::log(one.value_ns / shown.ns(&one.name)?).abs().min(3.0)));
        let all: Vec<f64> = pairs.collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let Some((_, like)) = SHOWN.iter().min_by(|a, b| off(&a.0).total_cmp(&off(&b.0))) else { return Vec::new() };
    let same = |figure: &Figure| like.iter().find(|one| (one.workload, one.what) == (figure.workload, figure.what));
    measured.iter().filter_map(|figure| Some((same(figure)?.value / figure.value - 1.0).abs())).collect()
}

/// Operations a second of the block workloads, from times of a read and a write.
fn rates(measured: &[Figure], read_ns: impl Fn(f64) -> f64, write_ns: impl Fn(f64) -> f64) -> Vec<f64> {
    let depths = [("mixed, 1 in flight", 1.0), ("mixed, 4 in flight", 4.0), ("mixed, 32 in flight", 32.0)];
    let mixed = depths.map(|(name, depth)| (name, 0.7 * read_ns(depth) + 0.3 * write_ns(depth)));
    let all = mixed.into_iter().chain([("random writes in the end", write_ns(32.0))]);
    let truth = |name: &str| measured.iter().find(|one| one.workload == name && one.what == What::Rate).map(|one| one.value);
    all.filter_map(|(name, ns)| Some((1e9 / ns / truth(name)? - 1.0).abs())).collect()
}

/// What the probes found, and what lies between.
fn interpolated(found: &Findings, measured: &[Figure]) -> Vec<f64> {
    let between = |depth: f64| {
        let (low, high): (f64, f64) = if depth < 8.0 { (2.0, 8.0) } else { (8.0, 32.0) };
        let at = |depth: f64| found.ns(&format!("read 4096 q{depth}")).unwrap_or(f64::NAN);
        let share = libm::log(depth / low) / libm::log(high / low);
        libm::exp(libm::log(at(low)) * (1.0 - share) + libm::log(at(high)) * share)
    };
    let read = |depth: f64| if depth <= 1.0 { found.ns("read 4096 q1").unwrap_or(f64::NAN) } else { between(depth) };
    let write = |depth: f64| found.ns(if depth <= 1.0 { "write 4096 q1" } else { "random write 4096 to the end" }).unwrap_or(f64::NAN);
    finite(rates(measured, read, write))
}

/// As a controller of shares does it: a read costs what it costs at full load, and so does a write.
fn six_rates(found: &Findings, measured: &[Figure]) -> Vec<f64> {
    let deepest = found.observations.iter().rfind(|one| one.name.starts_with("read 4096 q")).map_or(f64::NAN, |one| one.value_ns);
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

fn off((figure, predicted, _): &Predicted) -> f64 {
    (predicted / figure.value - 1.0).abs()
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
        let held = share(some.iter().filter(|one| one.2).count(), some.len());
        println!("| {workload} | {what} | {error:.1} % | {near:.0} % | {held:.0} % |");
    }
    let held = share(every.iter().filter(|one| one.2).count(), every.len());
    let near = share(every.iter().filter(|one| off(one) < 0.15).count(), every.len());
    println!("all {} figures of {} drives: within 15 % {near:.0} %, held {held:.0} %", every.len(), all.len());
    let costs: Vec<f64> = all.iter().flat_map(|one| one.trim_costs.clone()).collect();
    let near = share(costs.iter().filter(|off| **off < 0.1).count(), costs.len());
    println!("costs of TRIM: off by {:.1} % at the median, within 10 % {near:.0} %", 100.0 * quantile(costs, 50));
    for (nth, name) in ["nearest shipped drive", "probes' own figures", "six rates"].into_iter().enumerate() {
        let errors: Vec<f64> = all.iter().flat_map(|one| one.baselines[nth].clone()).collect();
        println!("{name}: off by {:.1} % at the median of {}", 100.0 * quantile(errors.clone(), 50), errors.len());
    }
    let names = ["mixed, 1 in flight", "mixed, 4 in flight", "mixed, 32 in flight", "random writes in the end"];
    let rates: Vec<f64> =
        every.iter().filter(|one| one.0.what == What::Rate && names.contains(&one.0.workload)).map(|one| off(one)).collect();
    println!("twins, on what the last two predict: off by {:.1} %", 100.0 * quantile(rates, 50));
    for one in all {
        let held = share(one.predicted.iter().filter(|one| one.2).count(), one.predicted.len());
        let near = share(one.predicted.iter().filter(|one| off(one) < 0.15).count(), one.predicted.len());
        if env::var_os("TRIMTAB_TWINS_ALL").is_some() {
            for (figure, predicted, held) in &one.predicted {
                println!(
                    "    {} {}: {:.4e} for {:.4e} {}",
                    figure.workload,
                    figure.what.name(),
                    predicted,
                    figure.value,
                    if *held { "" } else { "NOT HELD" }
                );
            }
        }
        println!(
            "seed {}: misfit {:.2} ({:.2} of the true one), {} members, within 15 % {near:.0} %, held {held:.0} %; {}",
            one.seed, one.misfit, one.misfit_of_truth, one.explained, one.otherwise
        );
    }
    let unexplained: Vec<String> =
        all.iter().filter(|one| one.misfit > 1.0).map(|one| format!("{} ({:.1})", one.seed, one.misfit)).collect();
    println!("not explained (misfit above 1), by seed: {}", unexplained.join(", "));
}

#[test]
fn drives_drawn_at_random_are_found_again() {
    let asked: Option<u64> = env::var("TRIMTAB_TWINS").ok().and_then(|text| text.parse().ok());
    let drives = asked.unwrap_or(1);
    let first: u64 = env::var("TRIMTAB_TWINS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (next, all) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    println!("{drives} drives from seed {first} on");
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(drives as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + drives {
                        break;
                    }
                    all.lock().unwrap().extend(recovered(seed, asked.is_some()));
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|one| one.seed);
    assert_eq!(all.len() as u64, drives, "a drive that was drawn could not be learned");
    tell(&all);
    let median = |values: Vec<f64>| quantile(values, 50);
    let costs = median(all.iter().flat_map(|one| one.trim_costs.clone()).collect());
    let errors = median(all.iter().flat_map(|one| one.predicted.iter().map(off)).collect());
    assert!(costs < 0.05 && errors < 0.1, "costs of TRIM {costs}, predictions {errors}");
    for (nth, name) in ["nearest", "interpolated", "six rates"].into_iter().enumerate() {
        let baseline = median(all.iter().flat_map(|one| one.baselines[nth].clone()).collect());
        // Not all are tried in the sample of every day.
        assert!(baseline.is_nan() || errors < baseline, "{name} is better: {baseline}, {errors}");
    }
}
