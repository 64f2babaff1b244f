use super::*;
use crate::study::ageing::{BEHIND, CYCLES_PER_TB, RATE_STEADY};
use crate::study::answer::{self, Around};
use crate::study::fixtures::met;
use crate::study::light_work::SPARSE_WAIT;
use crate::study::table::FOREGROUND;
use alloc::vec;
use proptest::prelude::*;
use trimtab_sim::run::{Better, Field, Metric, Run, TargetKind, metrics};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorded;

/// What was found out of one policy.
#[derive(Clone, Debug)]
struct Found {
    /// Seconds of deleting, of syncing after it, and of the whole work, each repeat.
    times: Vec<[f64; 3]>,
    /// Seconds that others wait at most (modelled), or how many of a hundred appends took so many milliseconds (measured).
    wait: f64,
    long: u64,
    commands: f64,
    /// Rate and cycles at two fills.
    months: [[f64; 2]; 2],
    behind: f64,
}

/// A whole study, of which every second part may be missing.
#[derive(Clone, Debug)]
struct Evidence {
    measured: bool,
    months: bool,
    discard: &'static str,
    policies: Vec<(&'static str, Found)>,
}

fn run(evidence: &Evidence, workload: &str, policy: &str, figures: &[(&str, Unit, Vec<f64>)]) -> Run {
    let kind = if evidence.measured { TargetKind::Directory } else { TargetKind::ModelledVolume };
    let mut run = Header::new(workload, Vec::new(), kind, "/mnt", policy, 1).into_run(Recorded::default(), true);
    let discard = if policy == policy::ONLINE { evidence.discard } else { "nodiscard" };
    run.policy_settings.push(Field::new(policy::DISCARD, discard));
    run.metrics = figures
        .iter()
        .map(|(name, unit, samples)| Metric { name: (*name).into(), unit: *unit, better: Better::Lower, samples: samples.clone() })
        .collect();
    run
}

fn study(evidence: &Evidence) -> Study {
    let tree = |(policy, found): &(&str, Found)| {
        let column = |at: usize| found.times.iter().map(|times| times[at]).collect::<Vec<_>>();
        let commands = if *policy == policy::NONE { 0.0 } else { found.commands };
        let mut figures = vec![
            ("delete.seconds", Unit::Seconds, column(0)),
            ("delete-sync.seconds", Unit::Seconds, column(1)),
            (FOREGROUND, Unit::Seconds, found.times.iter().map(|times| times.iter().sum()).collect()),
            (metrics::DISCARD_COMMANDS, Unit::Count, vec![commands]),
        ];
        if !evidence.measured {
            figures.push((SPARSE_WAIT, Unit::Seconds, vec![found.wait]));
        }
        let made = run(evidence, "tree", policy, &figures);
        if evidence.measured { met(made, &[(100 - found.long, 5), (found.long, (found.wait * 1000.0) as u64 + 6)]) } else { made }
    };
    let aged = |(policy, found): &(&str, Found)| {
        [("60%", 0), ("90%", 1)].map(|(fill, at)| {
            let [rate, cycles] = found.months[at];
            let figures = [
                (RATE_STEADY, Unit::OpsPerSecond, vec![rate]),
                (CYCLES_PER_TB, Unit::Count, vec![cycles]),
                (BEHIND, Unit::Percent, vec![found.behind]),
            ];
            let mut run = run(evidence, "churn", policy, &figures);
            run.settings.push(Field::new("fill", fill));
            run
        })
    };
    let ageing = evidence.policies.iter().filter(|_| evidence.months).flat_map(aged).collect();
    Study { target: "/mnt".into(), runs: evidence.policies.iter().map(tree).collect(), ageing, complete: true, ..Study::default() }
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let time = || prop_oneof![0.001..0.05, 0.05..0.5, 0.5..15.0f64];
    let times = move |repeats: usize| proptest::collection::vec([time(), time(), time()], repeats);
    let found = move |repeats: usize| {
        let month = || [prop_oneof![Just(30e3), 20e3..45e3], prop_oneof![Just(8.0), 6.0..12.0]];
        let commands = prop_oneof![1 => Just(0.0), 5 => 1.0..1000.0f64];
        let behind = prop_oneof![4 => Just(0.0), 1 => Just(100.0)];
        (times(repeats), time(), 0..60u64, commands, [month(), month()], behind).prop_map(
            |(mut times, wait, long, commands, months, behind)| {
                // Repeats are alike, or nothing would ever be measurable.
                let first = times[0];
                times.iter_mut().enumerate().for_each(|(at, time)| *time = first.map(|seconds| seconds * (1.0 + 0.02 * at as f64)));
                Found { times, wait, long, commands, months, behind }
            },
        )
    };
    let all = [policy::NONE, policy::ONLINE, policy::BATCHED, policy::ADAPTIVE, policy::IDLE];
    let discard = prop_oneof![Just("discard"), Just("discard=sync"), Just("discard=async")];
    (any::<bool>(), any::<bool>(), discard, 1..5usize, 1..32u8).prop_flat_map(move |(measured, months, discard, repeats, subset)| {
        let repeats = if measured { repeats } else { 1 };
        let tried: Vec<&'static str> =
            all.into_iter().enumerate().filter(|(at, _)| subset & (1 << at) != 0).map(|(_, name)| name).collect();
        // What is measured knows no months, no adaptive and no idle trims.
        let tried: Vec<&'static str> =
            tried.into_iter().filter(|name| !measured || ![policy::ADAPTIVE, policy::IDLE].contains(name)).collect();
        proptest::collection::vec(found(repeats), tried.len()).prop_map(move |found| Evidence {
            measured,
            months: months && !measured,
            discard,
            policies: tried.iter().copied().zip(found).collect(),
        })
    })
}

/// Seconds as they stand in a sentence: `1.50 s`, `153 ms`, `40.0 us`.
fn seconds(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.replace(',', "").parse().ok()?;
    let scale = match words.next()?.trim_end_matches([',', ';', ')']) {
        "s" => 1.0,
        "ms" => 1e-3,
        "ns" => 1e-9,
        _ => 1e-6,
    };
    Some(value * scale)
}

/// A figure on the screen: of which policy, and whether what stands behind it takes it back.
#[derive(Clone, Debug)]
struct Told {
    policy: &'static str,
    seconds: f64,
    doubtful: bool,
}

/// The times that a line tells of policies, read as a reader would: of the chosen one what is told without a name.
fn told(line: &str, chosen: Option<&'static str>) -> Vec<Told> {
    const DOUBTS: [&str; 10] = [
        "cannot tell",
        "too few",
        "may be chance",
        "no more often",
        "long more often",
        "no discard counted",
        "too little",
        "too short",
        "scatter",
        "whenever files go",
    ];
    // Of whom the line is, if it says so.
    let policies = [policy::ONLINE, policy::BATCHED, policy::ADAPTIVE, policy::IDLE];
    let subject = policies.into_iter().find(|policy| line.strip_prefix(policy).is_some_and(|rest| rest.starts_with(": ")));
    let line = subject.map_or(line, |subject| &line[subject.len() + 2..]);
    // Deleting is what everybody waits for who does not discard as files go.
    let deleting = !line.starts_with("others") && !line.starts_with("one append");
    let all_doubtful = line.contains("too little to count)")
        || line.ends_with("(long ones no more often)")
        || deleting && DOUBTS.iter().any(|doubt| line.contains(doubt));
    let others = [
        ("online", policy::ONLINE),
        ("batched trim", policy::BATCHED),
        ("idle trim", policy::IDLE),
        ("adaptive trim", policy::ADAPTIVE),
        ("without trimming", policy::NONE),
        ("takes", subject.unwrap_or(policy::NONE)),
    ];
    let mut all = Vec::new();
    let flat = line.replace(", beside", "; beside").replace(", without", "; without").replace(", online", "; online");
    for piece in flat.split("; ") {
        let doubtful = all_doubtful || DOUBTS.iter().any(|doubt| piece.contains(doubt));
        let of_chosen = piece.starts_with("others wait at most ") || piece.starts_with("one append takes at most ");
        let first = chosen.filter(|_| of_chosen).map(|chosen| ("at most", chosen));
        for (words, policy) in others.into_iter().chain(first) {
            let at = piece.find(words).and_then(|at| seconds(&piece[at + words.len()..]));
            all.extend(at.map(|seconds| Told { policy, seconds, doubtful }));
        }
    }
    all
}

/// Whether the first is so much longer that a reader takes it for a reason.
fn is_reason(longer: f64, shorter: f64) -> bool {
    longer > shorter * 1.5 && longer - shorter > 0.06
}

/// The gains in a line, in per cent.
fn gains_in(line: &str) -> Vec<f64> {
    let words: Vec<&str> = line.split(['(', ')', ',', ' ']).collect();
    words.iter().filter(|word| word.starts_with(['+', '-'])).filter_map(|word| word.parse().ok()).collect()
}

/// What in the reasons speaks against what they are the reasons for.
fn contradiction(study: &Study) -> Option<String> {
    let answer = answer::of(&Judged::of(study), &Around::default());
    let choice = answer.uses[0].choice.as_str();
    let chosen = [policy::NONE, policy::ONLINE, policy::BATCHED, policy::ADAPTIVE, policy::IDLE].into_iter().find(|name| *name == choice);
    let gains: Vec<f64> = answer.why.iter().filter(|line| line.starts_with("random writes")).flat_map(|line| gains_in(line)).collect();
    let gained = gains.iter().any(|gain| *gain >= 5.0);
    let against = if chosen == Some(policy::NONE) { gains.iter().any(|gain| *gain > 5.0) } else { !gained };
    if !gains.is_empty() && chosen.is_some() && against {
        return Some(format!("{choice} with gains of {gains:?}"));
    }
    let lines: Vec<Vec<Told>> = answer.why.iter().filter(|line| !line.starts_with("random")).map(|line| told(line, chosen)).collect();
    if choice == "online or batched" {
        let both = |line: &[Told]| {
            let of = |name: &str| line.iter().find(|told| told.policy == name).cloned();
            // Who trims in batches deletes as without.
            let pair = of(policy::ONLINE).zip(of(policy::BATCHED).or_else(|| of(policy::NONE)));
            pair.is_some_and(|(a, b)| !a.doubtful && !b.doubtful && (is_reason(a.seconds, b.seconds) || is_reason(b.seconds, a.seconds)))
        };
        return lines.iter().any(|line| both(line)).then(|| format!("{choice}: {lines:?}"));
    }
    let chosen = chosen?;
    let mut sums: alloc::collections::BTreeMap<&str, (u32, u32)> = alloc::collections::BTreeMap::new();
    for line in &lines {
        let of = |name: &str| line.iter().find(|told| told.policy == name);
        let Some(mine) = of(chosen).or_else(|| of(policy::NONE)) else { continue };
        for other in line.iter().filter(|told| told.policy != chosen && !told.doubtful && !mine.doubtful) {
            let (against, speaking_for) = sums.entry(other.policy).or_default();
            *against += u32::from(is_reason(mine.seconds, other.seconds));
            *speaking_for += u32::from(is_reason(other.seconds, mine.seconds));
        }
    }
    // That trimming costs something is why it has to gain something, where that was looked at.
    let trims = chosen != policy::NONE;
    let excused = |other: &str| other == policy::NONE && (gained || trims && gains.is_empty());
    let bad = sums.into_iter().find(|(other, (against, speaking_for))| *against > 0 && *speaking_for == 0 && !excused(other));
    bad.map(|bad| format!("{choice}: {bad:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
    #[test]
    fn the_reasons_never_speak_for_another_policy(evidence in evidence()) {
        let study = study(&evidence);
        let answer = answer::of(&Judged::of(&study), &Around::default());
        prop_assert_eq!(contradiction(&study), None, "{:?} {:?}", answer.uses, answer.why);
    }
}
