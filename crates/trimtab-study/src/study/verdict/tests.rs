//! Verdicts on studies that are made up, some of them after published ones.

use super::*;
use crate::study::Untried;
use crate::study::light_work::SPARSE_WAIT;
use alloc::vec;
use trimtab_sim::run::{Better, Metric, TargetKind, Unit};

fn run(job: &str, policy: &str, discard: &str, metrics: &[(&str, Unit, &[f64])]) -> Run {
    let header = trimtab_sim::runner::header::Header::new(job, Vec::new(), TargetKind::Directory, "/mnt", policy, 1);
    let mut run = header.into_run(trimtab_sim::runner::recorder::Recorded::default(), true);
    run.policy_settings.push(Field::new(policy::DISCARD, discard));
    run.metrics = metrics
        .iter()
        .map(|(name, unit, samples)| Metric { name: (*name).into(), unit: *unit, better: Better::Lower, samples: samples.to_vec() })
        .collect();
    run
}

/// The published rows of the tree workload: 0.17 s against 40.41 s for the sync after deleting.
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

fn of(study: &Study) -> Verdict {
    super::of(study, recommendation(study))
}

fn recommended(study: &Study) -> Option<&'static str> {
    recommendation(study).policy()
}

fn study(runs: Vec<Run>) -> Study {
    Study { target: "/mnt".into(), runs, complete: true, ..Study::default() }
}

/// Seen: a range of means of 10 and 12 ms beside "trim at most 16 ms".
#[test]
fn trim_time_covers_all_repeats_and_names_the_mean() {
    let mut batched = tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8));
    let trims = batched.metrics.iter_mut().find(|metric| metric.name == metrics::TRIM_SECONDS).unwrap();
    trims.samples = vec![0.4, 0.8, 1.2];
    let runs = vec![
        tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
        batched,
        tree("online", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
    ];
    let verdict = of(&study(runs));
    assert!(verdict.headline.contains("A batched trim takes 400 ms to 1.20 s"), "{}", verdict.headline);
    assert!(verdict.evidence.iter().any(|line| line.contains("then 800 ms of trimming, on average")), "{:?}", verdict.evidence);
}

#[test]
fn the_published_slowdown_leads_to_batches() {
    let verdict = of(&study(vec![
        tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
        tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
        tree("online", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
    ]));
    assert!(verdict.headline.starts_with("Trim in batches"), "{}", verdict.headline);
    for part in ["delete-sync", "40.4 s", "170 ms", "238×", "800 ms"] {
        assert!(verdict.headline.contains(part), "{part}: {}", verdict.headline);
    }
}

#[test]
fn the_same_holds_if_the_filesystem_was_mounted_with_discard() {
    let verdict = of(&study(vec![
        tree("as-mounted", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
        tree("none", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
    ]));
    assert!(verdict.headline.contains("not as files go"), "{}", verdict.headline);
}

#[test]
fn what_scatters_as_much_as_it_differs_is_no_difference() {
    let verdict = of(&study(vec![
        tree("as-mounted", "nodiscard", &[1.0, 2.0, 3.0], 0.0, None),
        tree("online", "discard", &[2.0, 3.0, 3.5], 36.0, None),
    ]));
    assert!(verdict.headline.contains("no measurable difference"), "{}", verdict.headline);
}

#[test]
fn batched_runs_are_repeats_of_the_same_work_until_their_trim() {
    // One quick repeat each: online looks twice as slow as none, but so does batched, which did the same as none.
    let mut batched = tree("batched", "nodiscard", &[0.70], 120.0, Some(0.1));
    batched.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
    let study = study(vec![tree("as-mounted", "nodiscard", &[0.36], 0.0, None), batched, tree("online", "discard", &[0.74], 40.0, None)]);
    let headline = of(&study).headline;
    assert!(!headline.contains("instead of"), "noise is no cost: {headline}");
}

/// Seen: of five quick studies one came to another policy than the others.
#[test]
fn with_one_repeat_the_verdict_hangs_on_no_noise() {
    for online in [0.1, 0.17, 0.3, 0.9, 40.0] {
        let once = |mut run: Run| {
            run.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
            run
        };
        let study = study(vec![
            once(tree("as-mounted", "nodiscard", &[0.17], 0.0, None)),
            once(tree("batched", "nodiscard", &[0.17], 120.0, Some(0.1))),
            once(tree("online", "discard", &[online], 40.0, None)),
        ]);
        assert_eq!(recommendation(&study), Recommendation::Batched, "{online}");
        let headline = of(&study).headline;
        assert!(headline.contains("With one repeat it cannot be told whether online discard costs anything"), "{headline}");
        assert_eq!(headline.contains("took 40.0 s instead of 170 ms"), online > 30.0, "{headline}");
    }
}

#[test]
fn discards_that_never_arrive_come_first() {
    let verdict =
        of(&study(vec![tree("as-mounted", "nodiscard", &[0.17], 0.0, None), tree("batched", "nodiscard", &[0.17], 0.0, Some(0.1))]));
    assert!(verdict.headline.starts_with("TRIM does not reach the device"), "{}", verdict.headline);
}

#[test]
fn queued_discards_that_have_not_arrived_yet_prove_nothing() {
    let study = study(vec![
        tree("as-mounted", "discard=async", &[0.17], 0.0, None),
        tree("none", "nodiscard", &[0.17], 0.0, None),
        tree("batched", "nodiscard", &[0.17], 16.0, Some(0.1)),
    ]);
    assert_eq!((recommendation(&study), recommended(&study)), (Recommendation::NotTested, None));
    let headline = of(&study).headline;
    assert!(headline.starts_with("Online discard was not tested here: the filesystem sends its discards minutes later"), "{headline}");
    assert!(headline.ends_with("A batched trim takes 100 ms."), "{headline}");
    // The first screen blames nothing that was counted in the table below it.
    let meaning = super::super::answer::of(&super::super::judged::Judged::of(&study), &super::super::answer::Around::default()).uses[0]
        .meaning
        .clone();
    assert_eq!(
        meaning,
        "online discard was not tested here: the filesystem sends its discards minutes later, and none was counted until then"
    );
    assert!(of(&study).caveats.iter().any(|c| c.contains("minutes later")));
}

#[test]
fn without_the_counters_that_carry_it_there_is_no_verdict() {
    let uncounted = |mut run: Run| {
        run.metrics.retain(|metric| !metric.name.starts_with("discard."));
        run
    };
    let none = || tree("none", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None);
    let batched = || tree("batched", "nodiscard", &[0.17; 3], 120.0, Some(0.8));
    // As slow as it is: nobody knows whether by discards.
    for sync in [0.17, 40.0] {
        for online in [tree("online", "discard", &[sync; 3], 0.0, None), uncounted(tree("online", "discard", &[sync; 3], 9.0, None))] {
            let with = study(vec![none(), batched(), online]);
            assert_eq!(recommendation(&with), Recommendation::NotTested, "{}", of(&with).headline);
            assert!(of(&with).headline.starts_with("Online discard was not tested here"), "{}", of(&with).headline);
        }
    }
    let alone = study(vec![uncounted(none()), uncounted(batched())]);
    assert_eq!(recommendation(&alone), Recommendation::NotTested);
    assert_eq!(of(&alone).headline, "Batched trimming was not tested here: nothing here counts discards.");
    // What could not be tried is another matter.
    assert_eq!(recommendation(&study(vec![none(), batched()])), Recommendation::Batched);
}

/// No trimming, batched and online of the same speed, beside which appends of others took so many milliseconds so many times.
fn waited(none: &[(u64, u64)], batched: &[(u64, u64)], online: &[(u64, u64)]) -> Study {
    use crate::study::fixtures::met;
    study(vec![
        met(tree("as-mounted", "nodiscard", &[0.17; 3], 0.0, None), none),
        met(tree("batched", "nodiscard", &[0.17; 3], 120.0, Some(0.8)), batched),
        met(tree("online", "discard", &[0.17; 3], 500.0, None), online),
    ])
}

#[test]
fn significant_foreground_latency_counts() {
    let quick = [(50, 1), (2, 8)];
    // Nobody waits longer than 8 ms.
    let none = waited(&quick, &quick, &quick);
    assert_eq!((recommendation(&none), of(&none).caveats.iter().any(|c| c.contains("too few"))), (Recommendation::NoDifference, false));
    assert!(of(&none).evidence.iter().any(|e| e.contains("beside 'online' 0 of 52 appends of others took longer than 50.0 ms")));
    // A third of 60 take 900 ms beside online discard, none of 52 without: 20 of 20 by chance in C(60, 20) / C(112, 20), less than 0.01 %.
    let online = waited(&quick, &quick, &[(40, 1), (20, 900)]);
    assert_eq!((recommendation(&online), recommended(&online)), (Recommendation::Batched, Some(policy::BATCHED)));
    let verdict = of(&online);
    assert!(
        verdict.headline.contains("With online discard tree's longest append beside it, 50 a second, takes 900 ms instead of 8.0"),
        "{}",
        verdict.headline
    );
    assert!(verdict.evidence.iter().any(|e| e.contains("beside 'online' 20 of 60 appends of others took longer than 50.0 ms, without trimming 0 of 52: more than chance explains (it happens in less than 0.01 % of cases)")), "{:?}", verdict.evidence);
    // One of 60: it would come in 60 of 112 cases by chance, 53.6 %, however long it is.
    let one = waited(&quick, &quick, &[(59, 1), (1, 9_000)]);
    assert_eq!(recommendation(&one), Recommendation::NoDifference);
    assert!(
        of(&one).caveats.iter().any(|c| c.contains("1 of 60") && c.contains("too few to say (it happens in 53.6 % of cases)")),
        "{:?}",
        of(&one).caveats
    );
    // Without discards they wait as long.
    let slow = [(40, 1), (20, 900)];
    assert_eq!(recommendation(&waited(&slow, &slow, &slow)), Recommendation::NoDifference);
    // A batched trim that others wait for is told, whatever is recommended.
    let batched = waited(&quick, &[(40, 1), (20, 900)], &quick);
    assert_eq!(recommendation(&batched), Recommendation::Online, "nobody waits for that");
    assert!(
        of(&batched).headline.contains("beside it one append of others takes up to 900 ms instead of 8.0"),
        "{}",
        of(&batched).headline
    );
    // No discard was counted, so nobody waited for one.
    let mut uncounted = online;
    uncounted.runs[2].metrics.iter_mut().find(|m| m.name == "discard.commands").unwrap().samples = vec![0.0];
    assert_eq!(recommendation(&uncounted), Recommendation::NotTested);
    assert!(!of(&uncounted).headline.contains("900 ms"), "{}", of(&uncounted).headline);
}

#[test]
fn what_remains_and_was_not_tried_is_known_as_such() {
    let mut study =
        study(vec![tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None), tree("online", "discard", &[11.0, 11.0, 11.0], 500.0, None)]);
    let chosen = recommended(&study).unwrap();
    assert_eq!((chosen, was_tried(&study, chosen)), (policy::BATCHED, false));
    study.runs.push(tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)));
    assert!(was_tried(&study, recommended(&study).unwrap()));
}

#[test]
fn one_policy_alone_is_said_to_be_alone_with_the_reasons() {
    let mut study = study(vec![tree("as-mounted", "nodiscard", &[0.17], 0.0, None)]);
    study.untried.push(Untried { policy: "batched".into(), reason: "trimming (FITRIM) needs root".into() });
    let verdict = of(&study);
    assert!(verdict.headline.contains("Only 'as-mounted (nodiscard)'"), "{}", verdict.headline);
    assert!(verdict.caveats.iter().any(|c| c.contains("FITRIM") && c.contains("batched")));
}

#[test]
fn noise_between_equal_work_is_said() {
    let mut batched = tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8));
    batched.metrics.iter_mut().find(|m| m.name == FOREGROUND).unwrap().samples = vec![9.0, 9.0, 9.0];
    let verdict = of(&study(vec![tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None), batched]));
    assert!(verdict.caveats.iter().any(|c| c.contains("noise")), "{:?}", verdict.caveats);
}

/// A run of months of churn with this rate and this wear.
fn aged(policy: &str, rate: f64, cycles: f64) -> Run {
    use crate::study::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
    let metrics: [(&str, Unit, &[f64]); 3] =
        [(RATE_STEADY, Unit::OpsPerSecond, &[rate]), (CYCLES_PER_TB, Unit::Count, &[cycles]), (WAF_STEADY, Unit::Ratio, &[cycles / 7.0])];
    let mut aged = run("churn", policy, "nodiscard", &metrics);
    aged.settings.push(Field::new("fill", "60%"));
    aged
}

#[test]
fn what_months_of_churn_show_decides() {
    let deleting = |online: f64| {
        vec![
            tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None),
            tree("online", "discard", &[online, online, online], 500.0, None),
            tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
        ]
    };
    let with = |online: f64, ageing: Vec<Run>| Study { ageing, ..study(deleting(online)) };
    // Neither costs nor gains anything.
    let none = with(0.17, vec![aged("none", 30e3, 7.0), aged("online", 30e3, 7.0), aged("batched", 30.1e3, 7.0)]);
    assert_eq!(recommendation(&none), Recommendation::NoDifference);
    assert!(of(&none).headline.contains("makes no measurable difference"), "{}", of(&none).headline);
    // Costs, and gains nothing.
    let idle_drive = with(11.0, none.ageing.clone());
    assert_eq!(recommendation(&idle_drive), Recommendation::NotWorthIt);
    // Gains, and costs nothing; or costs.
    let gains = vec![aged("none", 28e3, 11.0), aged("online", 36e3, 7.0), aged("batched", 35e3, 7.8), aged("adaptive", 35e3, 7.7)];
    let online = with(0.17, gains.clone());
    assert_eq!((recommendation(&online), recommended(&online)), (Recommendation::Online, Some(policy::ONLINE)));
    assert!(
        of(&online)
            .headline
            .contains("36,000 4 KiB random writes a second under load instead of 28,000 and 1.57× the drive's life at 60 % full"),
        "{}",
        of(&online).headline
    );
    assert_eq!(recommendation(&with(11.0, gains.clone())), Recommendation::Batched);
    let mut adaptive = gains;
    adaptive[2] = aged("batched", 30e3, 10.0);
    assert_eq!(recommendation(&with(11.0, adaptive)), Recommendation::Adaptive);
}

/// Seen: "only 'none' could be tried" of a study of none and idle, which tripled the rate.
#[test]
fn single_policy_is_recommended_over_none_if_it_gains() {
    for policy in [policy::IDLE, policy::ADAPTIVE] {
        let study_of = |rate: f64| {
            let runs = vec![tree(policy::NONE, "nodiscard", &[0.05], 0.0, None), tree(policy, "nodiscard", &[0.05], 100.0, None)];
            Study { ageing: vec![aged(policy::NONE, 10_000.0, 200.0), aged(policy, rate, 70.0)], ..study(runs) }
        };
        assert_eq!(recommended(&study_of(33_000.0)), Some(policy));
        let headline = of(&study_of(33_000.0)).headline;
        assert!(
            headline.starts_with("Trim ") && headline.contains("33,000 4 KiB random writes a second under load instead of 10,000"),
            "{headline}"
        );
    }
}

#[test]
fn no_gain_is_stated_that_is_none() {
    // Seen: "555417 4 KiB random writes a second instead of 555417".
    let runs = vec![
        tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None),
        tree("online", "discard", &[11.0, 11.0, 11.0], 500.0, None),
        tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
    ];
    let study = |rates: [f64; 2], cycles: [f64; 2]| {
        let ageing = vec![aged("none", rates[0], cycles[0]), aged("online", rates[1], cycles[1]), aged("batched", rates[1], cycles[1])];
        of(&Study { ageing, ..study(runs.clone()) }).headline
    };
    let life_only = study([555_417.0, 555_417.0], [11.0, 7.0]);
    assert!(life_only.contains("1.57× the drive's life") && !life_only.contains("random writes"), "{life_only}");
    let rate_only = study([28_000.0, 36_000.0], [7.0, 7.0]);
    assert!(rate_only.contains("instead of 28,000") && !rate_only.contains("life"), "{rate_only}");
    let neither = study([28_000.0, 28_100.0], [7.0, 7.0]);
    assert!(!neither.contains("instead of 28,000") && !neither.contains('×') || neither.contains("Do not trim"), "{neither}");
}

#[test]
fn unfinished_policy_is_not_recommended_with_reason() {
    use crate::study::ageing::BEHIND;
    let with_wait = |mut run: Run, wait: f64| {
        run.metrics.push(Metric { name: SPARSE_WAIT.into(), unit: Unit::Seconds, better: Better::Lower, samples: vec![wait] });
        run
    };
    let runs = vec![
        with_wait(tree("none", "nodiscard", &[0.17], 0.0, None), 0.003),
        with_wait(tree("online", "discard", &[11.0], 500.0, None), 3.0),
        with_wait(tree("batched", "nodiscard", &[0.17], 120.0, Some(0.8)), 0.7),
        with_wait(tree("idle", "nodiscard", &[0.17], 120.0, Some(0.8)), 0.15),
    ];
    let late = |mut run: Run, percent: f64| {
        run.metrics.push(Metric { name: BEHIND.into(), unit: Unit::Percent, better: Better::Lower, samples: vec![percent] });
        run
    };
    let study = |idle: f64, batched: f64| {
        let ageing = vec![aged("none", 28e3, 11.0), late(aged("batched", 35e3, 7.8), batched), late(aged("idle", 36e3, 7.3), idle)];
        Study { ageing, ..study(runs.clone()) }
    };
    assert_eq!(recommendation(&study(60.0, 2.0)), Recommendation::Idle);
    let instead = study(100.0, 2.0);
    assert_eq!(recommendation(&instead), Recommendation::Batched);
    assert!(of(&instead).caveats.iter().any(|line| line.contains("'idle' never gets done at 60 % full")), "{:?}", of(&instead).caveats);
    let none = study(100.0, 100.0);
    assert_eq!((recommendation(&none), recommended(&none)), (Recommendation::NeverDone, None));
    assert!(of(&none).headline.starts_with("No policy is recommended"), "{}", of(&none).headline);
}

#[test]
fn an_empty_study_has_nothing_to_say() {
    assert!(of(&study(Vec::new())).headline.contains("nothing to say"));
}

#[test]
fn few_repeats_need_a_large_ratio() {
    assert!(!compare(&[1.4], &[1.0]).unwrap().measurable);
    assert!(compare(&[1.6], &[1.0]).unwrap().measurable);
    assert!(!compare(&[1.6], &[1.0, 1.7]).unwrap().measurable, "within the range of the others");
    assert!(compare(&[1.0, 1.01, 0.99], &[0.9, 0.91, 0.89]).unwrap().measurable);
    assert!(!compare(&[1.0, 1.3, 0.7], &[0.9, 0.91, 0.89]).unwrap().measurable);
    assert_eq!(compare(&[], &[1.0]), None);
}
