//! Verdicts on made-up studies, some of them based on published ones.

pub mod latency;

use super::finding::Finding;
use super::*;
use crate::study::comparison::costs::AffectedWork;
use crate::study::light_work::SPARSE_P95;
use crate::study::metrics::FOREGROUND;
use crate::study::untried::{OmittedPart, StudyPart as UntriedPart};
use alloc::vec;
use latency::met;
use trimtab_sim::run::{Better, Field, Metric, Run, TargetKind, Unit};

fn run(job: &str, policy: &str, discard: &str, metrics: &[(&str, Unit, &[f64])]) -> Run {
    let header =
        trimtab_sim::run::Run::new(job, Vec::new(), TargetKind::Directory, "/mnt", policy, 1);
    let mut run = header.into_run(trimtab_sim::run::RunRecording::default(), true);
    run.policy_settings.push(Field::new(policy::DISCARD, discard));
    run.metrics = metrics
        .iter()
        .map(|(name, unit, samples)| Metric {
            name: (*name).into(),
            unit: *unit,
            better: Better::Lower,
            samples: samples.to_vec(),
        })
        .collect();
    run
}

/// The published rows of the tree workload: 0.17 s against 40.41 s for the sync after
/// deleting.
fn tree(policy: &str, discard: &str, sync: &[f64], commands: f64, trim: Option<f64>) -> Run {
    let foreground: Vec<f64> = sync.iter().map(|s| s + 3.0).collect();
    let commands = [commands];
    let trim = trim.map(|t| [t]);
    let mut metrics: Vec<(&str, Unit, &[f64])> = vec![
        ("delete.seconds", Unit::Seconds, &[0.47, 0.48, 0.47]),
        ("delete-sync.seconds", Unit::Seconds, sync),
        ("foreground.seconds", Unit::Seconds, &foreground),
        ("discard.commands", Unit::Count, &commands),
        ("discard.bytes", Unit::Bytes, &[493e6]),
    ];
    if let Some(trim) = &trim {
        metrics.push(("trim.seconds", Unit::Seconds, trim));
    }
    run("tree", policy, discard, &metrics)
}

fn rule(study: &Study) -> (Recommendation, Rule) {
    let verdict = Verdict::of(study);
    (verdict.recommendation, verdict.rule)
}

const fn take(policy: &'static str, rule: Rule) -> (Recommendation, Rule) {
    (Recommendation::Use(policy), rule)
}

fn study(runs: Vec<Run>) -> Study {
    Study { target: "/mnt".into(), runs, complete: true, ..Study::default() }
}

fn none() -> Run {
    tree("none", "nodiscard", &[0.17; 3], 0.0, None)
}

fn batched() -> Run {
    tree("batched", "nodiscard", &[0.17; 3], 120.0, Some(0.8))
}

fn online(sync: f64) -> Run {
    tree("online", "discard", &[sync; 3], 500.0, None)
}

#[test]
fn trim_time_is_of_all_repeats() {
    let mut batched = batched();
    batched
        .metrics
        .iter_mut()
        .find(|metric| metric.name == metrics::TRIM_SECONDS)
        .unwrap()
        .samples = vec![0.4, 0.8, 1.2];
    let study = study(vec![none(), batched, online(40.4)]);
    let verdict = Verdict::of(&study);
    let range = verdict.findings.iter().find_map(|finding| match finding {
        Finding::TrimTime { trims, least_seconds, most_seconds, .. } => {
            Some((*trims, *least_seconds, *most_seconds))
        }
        _ => None,
    });
    assert_eq!(range, Some((3, 0.4, 1.2)));
}

#[test]
fn published_slowdown_recommends_batched() {
    // The result is the same if the filesystem was mounted with discard.
    let mounted = tree("as-mounted", "discard", &[40.4, 40.1, 40.8], 36_000.0, None);
    let as_mounted = tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None);
    let slow = tree("online", "discard", &[40.4, 40.1, 40.8], 36_000.0, None);
    for runs in [vec![as_mounted, batched(), slow], vec![mounted, none()]] {
        let study = study(runs);
        let verdict = Verdict::of(&study);
        assert_eq!(
            (verdict.recommendation, verdict.rule),
            take(policy::BATCHED, Rule::OnlineCosts)
        );
        let cost = verdict.findings.iter().find_map(|finding| {
            if let Finding::OnlineCost(cost) = finding { Some(*cost) } else { None }
        });
        let cost = cost.unwrap();
        // 40.43 s against 0.17 s.
        assert_eq!((cost.job, cost.part), ("tree", AffectedWork::Phase("delete-sync")));
        assert!(
            (cost.times() - 237.8).abs() < 0.2 && (cost.online_seconds - 40.433).abs() < 0.01,
            "{cost:?}"
        );
    }
}

#[test]
fn difference_within_scatter_is_ignored() {
    let runs = vec![
        tree("as-mounted", "nodiscard", &[1.0, 2.0, 3.0], 0.0, None),
        tree("online", "discard", &[2.0, 3.0, 3.5], 36.0, None),
    ];
    assert_eq!(rule(&study(runs)), (Recommendation::NoDifference, Rule::CostsNothing));
}

/// One quick repeat each: online looks twice as slow as none, but so does batched.
#[test]
fn batched_runs_are_repeats_of_the_same_work_until_their_trim() {
    let once = |mut run: Run| {
        run.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
        run
    };
    let runs = vec![
        tree("as-mounted", "nodiscard", &[0.36], 0.0, None),
        once(tree("batched", "nodiscard", &[0.70], 120.0, Some(0.1))),
        tree("online", "discard", &[0.74], 40.0, None),
    ];
    assert_eq!(Verdict::of(&study(runs)).comparison.online_cost, None, "noise is not a cost");
}

#[test]
fn single_repeat_gives_no_recommendation() {
    for sync in [0.1, 0.17, 0.3, 0.9, 40.0] {
        let once = |mut run: Run| {
            run.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
            run
        };
        let runs = vec![
            once(tree("as-mounted", "nodiscard", &[0.17], 0.0, None)),
            once(tree("batched", "nodiscard", &[0.17], 120.0, Some(0.1))),
            once(tree("online", "discard", &[sync], 40.0, None)),
        ];
        let study = study(runs);
        let verdict = Verdict::of(&study);
        assert_eq!(
            (verdict.recommendation, verdict.rule),
            (Recommendation::TooFewRepeats, Rule::TooFewRepeats),
            "{sync}"
        );
        let Some(Finding::TooFewRepeats { repeats: 1, needed: 3, seen }) =
            &verdict.findings.first()
        else {
            panic!("{:?}", verdict.findings)
        };
        assert_eq!(seen.is_some(), sync > 0.2, "{seen:?}");
        assert_eq!((verdict.confidence, verdict.reasons), (Confidence::None, Vec::new()));
    }
}

#[test]
fn verdict_without_arriving_discards_is_blocked() {
    let study = study(vec![none(), tree("batched", "nodiscard", &[0.17], 0.0, Some(0.1))]);
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, &verdict.reasons[..]),
        (Recommendation::Blocked, &[RecommendationReason::Blocked { policy: "batched" }][..])
    );
}

#[test]
fn verdict_with_queued_discards_is_not_tested() {
    let queued = tree("as-mounted", "discard=async", &[0.17], 0.0, None);
    let study = study(vec![queued, none(), batched()]);
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, verdict.rule),
        (Recommendation::NotTested, Rule::NotCounted)
    );
    let untested = UntestedPolicy { policy: policy::ONLINE, discards: DiscardCount::Queued };
    assert_eq!(
        (verdict.untested(), &verdict.findings[0]),
        (untested, &Finding::Untested(untested))
    );
    assert!(
        matches!(verdict.findings[1], Finding::TrimTime { .. })
            && verdict.caveats.contains(&Finding::DiscardsQueued { job: "tree" })
    );
}

#[test]
fn verdict_without_discard_counters_is_not_tested() {
    let uncounted = |mut run: Run| {
        run.metrics.retain(|metric| !metric.name.starts_with("discard."));
        run
    };
    // Slow deleting without counters may have other causes than discards.
    for sync in [0.17, 40.0] {
        for (online, discards) in [
            (tree("online", "discard", &[sync; 3], 0.0, None), DiscardCount::Zero),
            (uncounted(online(sync)), DiscardCount::Unknown),
        ] {
            let study = study(vec![none(), batched(), online]);
            assert_eq!(rule(&study), (Recommendation::NotTested, Rule::NotCounted));
            assert_eq!(
                Verdict::of(&study).untested(),
                UntestedPolicy { policy: policy::ONLINE, discards }
            );
        }
    }
    let alone = study(vec![uncounted(none()), uncounted(batched())]);
    assert_eq!(rule(&alone), (Recommendation::NotTested, Rule::NotCounted));
    assert_eq!(Verdict::of(&alone).untested().policy, policy::BATCHED);
    // A policy that could not be run is a different case.
    let only = study(vec![none(), batched()]);
    assert_eq!(rule(&only), (Recommendation::Unknown, Rule::TooLittle));
    assert!(matches!(
        Verdict::of(&only).findings[0],
        Finding::OnlyPolicy { policy: "batched", .. }
    ));
}

/// No trimming, batched and online at the same speed; foreground appends as
/// (milliseconds, count).
fn waited(
    without: &[(u64, u64)],
    with_batched: &[(u64, u64)],
    with_online: &[(u64, u64)],
) -> Study {
    study(vec![met(none(), without), met(batched(), with_batched), met(online(0.17), with_online)])
}

#[test]
fn measured_latency_counts_only_beyond_chance() {
    let quick = [(50, 1), (2, 8)];
    let tests = |findings: &[Finding<'_>]| -> Vec<(&'static str, TestResult, (u64, u64))> {
        let of = |finding: &Finding<'_>| match finding {
            Finding::LatencyTest { policy, result, with, .. } => Some((*policy, *result, *with)),
            _ => None,
        };
        findings.iter().filter_map(of).collect()
    };
    // No append takes longer than 8 ms.
    let study = waited(&quick, &quick, &quick);
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, tests(&verdict.caveats)),
        (Recommendation::NoDifference, vec![])
    );
    assert_eq!(tests(&verdict.evidence)[0], (policy::ONLINE, TestResult::Alike, (0, 52)));
    // 20 of 60 take 900 ms online, 0 of 52 without: by chance in C(60, 20) / C(112, 20).
    let slow = [(40, 1), (20, 900)];
    let study = waited(&quick, &quick, &slow);
    let verdict = Verdict::of(&study);
    assert_eq!((verdict.recommendation, verdict.rule), take(policy::BATCHED, Rule::OnlineCosts));
    let cost = verdict.comparison.online_cost.unwrap();
    assert_eq!(cost.part, AffectedWork::Append(AppendLoad::FiftyPerSecond));
    assert!(
        (cost.online_seconds - 0.9).abs() < 0.01 && (cost.none_seconds - 0.008).abs() < 0.001,
        "{cost:?}"
    );
    assert_eq!(tests(&verdict.evidence)[0], (policy::ONLINE, TestResult::Longer, (20, 60)));
    // One of 60 would occur by chance in 60 of 112 cases, regardless of its length.
    let study = waited(&quick, &quick, &[(59, 1), (1, 9_000)]);
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, tests(&verdict.caveats)),
        (Recommendation::NoDifference, vec![(policy::ONLINE, TestResult::TooFew, (1, 60))])
    );
    // Appends take as long without discards.
    assert_eq!(rule(&waited(&slow, &slow, &slow)).0, Recommendation::NoDifference);
    // A batched trim that delays foreground I/O is reported, whatever is recommended.
    let study = waited(&quick, &slow, &quick);
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, verdict.rule),
        take(policy::ONLINE, Rule::OnlyBatchedCosts)
    );
    // No discard was counted, so no append was delayed by one.
    let mut uncounted = waited(&quick, &quick, &slow);
    uncounted.runs[2].metrics.iter_mut().find(|m| m.name == "discard.commands").unwrap().samples =
        vec![0.0];
    assert_eq!(
        (rule(&uncounted).0, Verdict::of(&uncounted).comparison.online_cost),
        (Recommendation::NotTested, None)
    );
}

#[test]
fn confidence_of_untested_policy_is_not_tried() {
    let mut study = study(vec![none(), online(11.0)]);
    assert_eq!(Verdict::of(&study).confidence, Confidence::NotTried { policy: policy::BATCHED });
    study.runs.push(batched());
    assert_eq!(Verdict::of(&study).confidence, Confidence::Repeats { repeats: 3, enough: true });
}

#[test]
fn single_policy_is_reported_as_only_policy() {
    let mut study = study(vec![tree("as-mounted", "nodiscard", &[0.17], 0.0, None)]);
    let untried = OmittedPart {
        part: UntriedPart::policy("batched"),
        reason: UntriedReason::Obstacle("needs root".into()),
    };
    study.untried.push(untried.clone());
    let verdict = Verdict::of(&study);
    assert_eq!(
        verdict.findings,
        [Finding::OnlyPolicy { policy: "as-mounted", discard: Some("nodiscard") }]
    );
    assert!(verdict.caveats.contains(&Finding::Untried(untried)));
}

#[test]
fn noise_between_equal_work_is_reported() {
    let mut batched = batched();
    batched.metrics.iter_mut().find(|m| m.name == FOREGROUND).unwrap().samples =
        vec![9.0, 9.0, 9.0];
    let study = study(vec![none(), batched]);
    assert!(
        Verdict::of(&study)
            .caveats
            .iter()
            .any(|finding| matches!(finding, Finding::Noise { job: "tree", .. }))
    );
}

/// A run of months of churn with this rate and this wear.
fn aged(policy: &str, rate: f64, cycles: f64) -> Run {
    use crate::study::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
    let metrics: [(&str, Unit, &[f64]); 3] = [
        (RATE_STEADY, Unit::OpsPerSecond, &[rate]),
        (CYCLES_PER_TB, Unit::Count, &[cycles]),
        (WAF_STEADY, Unit::Ratio, &[cycles / 7.0]),
    ];
    let mut aged = run("churn", policy, "nodiscard", &metrics);
    aged.settings.push(Field::new("fill", "60%"));
    aged
}

const WITHIN_LIMIT: Rule = Rule::MostWrites { limit_seconds: 0.05 };

#[test]
fn other_fill_can_recommend_another_policy() {
    let at = |mut run: Run, fill: &str| {
        run.settings[0].value = fill.into();
        run
    };
    let mut ageing =
        vec![aged("none", 28e3, 11.0), aged("online", 36e3, 7.0), aged("batched", 30e3, 8.0)];
    ageing.extend(
        [("none", 20e3), ("online", 26e3), ("batched", 26.1e3)]
            .map(|(policy, rate)| at(aged(policy, rate, 9.0), "90%")),
    );
    let study = Study { ageing, ..study(vec![none(), online(0.17), batched()]) };
    let verdict = Verdict::of(&study);
    assert_eq!(verdict.policy(), Some(policy::ONLINE));
    assert_eq!(
        (verdict.other_fills[0].fill, verdict.other_fills[0].recommendation),
        ("90%", Recommendation::Use(policy::BATCHED))
    );
}

#[test]
fn months_of_use_decide_recommendation() {
    let with = |sync: f64, ageing: Vec<Run>| Study {
        ageing,
        ..study(vec![none(), online(sync), batched()])
    };
    // No cost and no gain.
    let same = with(
        0.17,
        vec![aged("none", 30e3, 7.0), aged("online", 30e3, 7.0), aged("batched", 30.1e3, 7.0)],
    );
    assert_eq!(rule(&same), (Recommendation::NoDifference, Rule::GainsNothing));
    // A cost and no gain.
    assert_eq!(rule(&with(11.0, same.ageing.clone())), take(policy::NONE, Rule::GainsNothing));
    // A gain, without a cost or with one.
    let gains = vec![
        aged("none", 28e3, 11.0),
        aged("online", 36e3, 7.0),
        aged("batched", 35e3, 7.8),
        aged("adaptive", 35e3, 7.7),
    ];
    let free = with(0.17, gains.clone());
    let verdict = Verdict::of(&free);
    assert_eq!((verdict.recommendation, verdict.rule), take(policy::ONLINE, WITHIN_LIMIT));
    // 11 / 7 times the life; against batched trims 36 / 35 and 7.8 / 7.
    let (gain, over) = (verdict.gains[0], verdict.gains_over_batched[0]);
    assert_eq!((gain.rates, gain.life, gain.fill), ((36e3, 28e3), Some(11.0 / 7.0), "60%"));
    assert_eq!(
        (over.baseline, over.rate, over.life),
        (policy::BATCHED, 36.0 / 35.0, Some(7.8 / 7.0))
    );
    assert_eq!(
        rule(&with(11.0, gains.clone())),
        take(policy::BATCHED, WITHIN_LIMIT),
        "as good as adaptive, and simpler"
    );
    let mut adaptive = gains;
    adaptive[2] = aged("batched", 30e3, 10.0);
    assert_eq!(rule(&with(11.0, adaptive)), take(policy::ADAPTIVE, WITHIN_LIMIT));
}

/// Regression: a study interrupted before the months without trimming had run said that no
/// policy gains anything.
#[test]
fn interrupted_study_has_no_answer() {
    let mut study = Study {
        ageing: vec![aged("none", 30e3, 1.0), aged("batched", 36e3, 1.0)],
        ..study(vec![none(), batched()])
    };
    assert_eq!(rule(&study), take(policy::BATCHED, WITHIN_LIMIT));
    study.complete = false;
    assert_eq!(rule(&study), (Recommendation::Unknown, Rule::Interrupted));
    study.ageing.clear();
    assert_eq!(rule(&study), (Recommendation::Unknown, Rule::Interrupted));
}

/// Its foreground latency counts as that of every other policy does. A study recommended
/// idle trims with 1.16 s and excluded online discard for 57 ms.
#[test]
fn raised_limit_of_stalls_holds_for_online_discard_too() {
    let stalls = |mut run: Run, seconds: f64| {
        run.metrics.push(Metric {
            name: SPARSE_P95.into(),
            unit: Unit::Seconds,
            better: Better::Lower,
            samples: vec![seconds; 3],
        });
        run
    };
    let idle = tree("idle", "nodiscard", &[0.17; 3], 120.0, None);
    let study = Study {
        ageing: vec![aged("none", 20e3, 2.0), aged("online", 32e3, 1.0), aged("idle", 31e3, 1.0)],
        ..study(vec![stalls(none(), 0.003), stalls(online(0.17), 0.057), stalls(idle, 1.16)])
    };
    assert_eq!(rule(&study), take(policy::ONLINE, Rule::MostWrites { limit_seconds: 2.0 * 0.057 }));
}

#[test]
fn study_in_which_nothing_was_erased_has_no_answer() {
    let with = |cycles: [f64; 2]| Study {
        ageing: vec![aged("none", 30e3, cycles[0]), aged("batched", 36e3, cycles[1])],
        ..study(vec![none(), batched()])
    };
    assert_eq!(rule(&with([0.0, 0.0])), (Recommendation::Unknown, Rule::NothingErased));
    assert_eq!(rule(&with([1.0, 0.0])), take(policy::BATCHED, WITHIN_LIMIT));
}

/// A study of none and idle, which tripled the rate.
#[test]
fn policy_with_gain_over_none_alone_is_recommended() {
    for policy in [policy::IDLE, policy::ADAPTIVE] {
        let runs = vec![
            tree(policy::NONE, "nodiscard", &[0.05], 0.0, None),
            tree(policy, "nodiscard", &[0.05], 100.0, None),
        ];
        let study = Study {
            ageing: vec![aged(policy::NONE, 10_000.0, 200.0), aged(policy, 33_000.0, 70.0)],
            ..study(runs)
        };
        assert_eq!(rule(&study), take(policy, WITHIN_LIMIT));
        assert_eq!(Verdict::of(&study).gains[0].rates, (33_000.0, 10_000.0));
    }
}

#[test]
fn gain_below_threshold_is_not_stated() {
    let stated = |rates: [f64; 2], cycles: [f64; 2]| {
        let ageing = vec![
            aged("none", rates[0], cycles[0]),
            aged("online", rates[1], cycles[1]),
            aged("batched", rates[1], cycles[1]),
        ];
        let study = Study { ageing, ..study(vec![none(), online(11.0), batched()]) };
        let verdict = Verdict::of(&study);
        verdict.findings.iter().find_map(|finding| match finding {
            Finding::Months { gains, .. } => Some(
                gains
                    .iter()
                    .map(|gain| (gain.is_faster(), gain.longer_life().is_some()))
                    .collect::<Vec<_>>(),
            ),
            _ => None,
        })
    };
    assert_eq!(stated([555_417.0, 555_417.0], [11.0, 7.0]), Some(vec![(false, true)]));
    assert_eq!(stated([28_000.0, 36_000.0], [7.0, 7.0]), Some(vec![(true, false)]));
    assert_eq!(stated([28_000.0, 28_100.0], [7.0, 7.0]), None, "do not trim");
}

#[test]
fn policy_that_never_finishes_is_not_recommended() {
    use crate::study::ageing::BEHIND;
    let metric = |mut run: Run, name: &str, value: f64| {
        run.metrics.push(Metric {
            name: name.into(),
            unit: Unit::Seconds,
            better: Better::Lower,
            samples: vec![value],
        });
        run
    };
    let idle = tree("idle", "nodiscard", &[0.17], 120.0, Some(0.8));
    let runs = [(none(), 0.003), (online(11.0), 3.0), (batched(), 0.7), (idle, 0.15)];
    let runs: Vec<Run> =
        runs.into_iter().map(|(run, wait)| metric(run, SPARSE_P95, wait)).collect();
    let of = |idle: f64, batched: f64| {
        let late = |policy: &str, rate, cycles, percent| {
            metric(aged(policy, rate, cycles), BEHIND, percent)
        };
        let ageing = vec![
            aged("none", 28e3, 11.0),
            late("batched", 35e3, 7.8, batched),
            late("idle", 36e3, 7.3, idle),
        ];
        Study { ageing, ..study(runs.clone()) }
    };
    // No policy meets 50 ms: the limit is twice the shortest latency.
    assert_eq!(rule(&of(60.0, 2.0)), take(policy::IDLE, Rule::MostWrites { limit_seconds: 0.3 }));
    let instead = of(100.0, 2.0);
    assert_eq!(rule(&instead), take(policy::BATCHED, Rule::MostWrites { limit_seconds: 1.4 }));
    let verdict = Verdict::of(&instead);
    assert!(
        verdict.caveats.iter().any(
            |finding| matches!(finding, Finding::NeverDone(behind) if behind.policy == "idle")
        )
    );
    assert_eq!(rule(&of(100.0, 100.0)), (Recommendation::NeverDone, Rule::NeverDone));
}

#[test]
fn empty_study_has_no_verdict() {
    let study = study(Vec::new());
    let verdict = Verdict::of(&study);
    assert_eq!(
        (verdict.recommendation, verdict.confidence),
        (Recommendation::Unknown, Confidence::None)
    );
    assert!(verdict.findings.is_empty() && verdict.reasons.is_empty());
}
