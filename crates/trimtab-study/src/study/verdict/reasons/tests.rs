//! Reasons must not argue for a policy other than the recommended one.

use super::*;
use crate::study::Study;
use crate::study::ageing::{BEHIND, CYCLES_PER_TB, RATE_STEADY};
use crate::study::light_work::SPARSE_P95;
use crate::study::metrics::FOREGROUND;
use crate::study::verdict::tests::latency::met;
use crate::study::verdict::{Rule, Verdict};
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use proptest::prelude::*;
use trimtab_sim::run::RunRecording;
use trimtab_sim::run::{Better, Field, Metric, Run, TargetKind, Unit, metrics};

/// Figures of one policy.
#[derive(Clone, Debug)]
struct PolicyFigures {
    /// Seconds of deleting, of syncing after it, and of the whole work, for each repeat.
    times: Vec<[f64; 3]>,
    /// Worst foreground latency in seconds (modelled), or the number of long appends out
    /// of a hundred with their milliseconds (measured).
    wait: f64,
    long: u64,
    commands: f64,
    /// Rate and cycles at two fill levels.
    months: [[f64; 2]; 2],
    behind: f64,
}

/// A whole study; every second part may be missing.
#[derive(Clone, Debug)]
struct Evidence {
    measured: bool,
    months: bool,
    discard: &'static str,
    policies: Vec<(&'static str, PolicyFigures)>,
}

fn run(
    evidence: &Evidence,
    workload: &str,
    policy: &str,
    figures: &[(&str, Unit, Vec<f64>)],
) -> Run {
    let kind = if evidence.measured { TargetKind::Directory } else { TargetKind::ModelledVolume };
    let mut run = Run::new(workload, Vec::new(), kind, "/mnt", policy, 1)
        .into_run(RunRecording::default(), true);
    let discard = if policy == policy::ONLINE { evidence.discard } else { "nodiscard" };
    run.policy_settings.push(Field::new(policy::DISCARD, discard));
    run.metrics = figures
        .iter()
        .map(|(name, unit, samples)| Metric {
            name: (*name).into(),
            unit: *unit,
            better: Better::Lower,
            samples: samples.clone(),
        })
        .collect();
    run
}

fn study(evidence: &Evidence) -> Study {
    let tree = |(policy, found): &(&str, PolicyFigures)| {
        let column = |at: usize| found.times.iter().map(|times| times[at]).collect::<Vec<_>>();
        let commands = if *policy == policy::NONE { 0.0 } else { found.commands };
        let mut figures = vec![
            ("delete.seconds", Unit::Seconds, column(0)),
            ("delete-sync.seconds", Unit::Seconds, column(1)),
            (
                FOREGROUND,
                Unit::Seconds,
                found.times.iter().map(|times| times.iter().sum()).collect(),
            ),
            (metrics::DISCARD_COMMANDS, Unit::Count, vec![commands]),
        ];
        if !evidence.measured {
            figures.push((SPARSE_P95, Unit::Seconds, vec![found.wait]));
        }
        let made = run(evidence, "tree", policy, &figures);
        if evidence.measured {
            met(made, &[(100 - found.long, 5), (found.long, (found.wait * 1000.0) as u64 + 6)])
        } else {
            made
        }
    };
    let aged = |(policy, found): &(&str, PolicyFigures)| {
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
    Study {
        target: "/mnt".into(),
        runs: evidence.policies.iter().map(tree).collect(),
        ageing,
        complete: true,
        ..Study::default()
    }
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
                // Repeats are similar, otherwise nothing would be measurable.
                let first = times[0];
                times.iter_mut().enumerate().for_each(|(at, time)| {
                    *time = first.map(|seconds| seconds * (1.0 + 0.02 * at as f64))
                });
                PolicyFigures { times, wait, long, commands, months, behind }
            },
        )
    };
    let all = [policy::NONE, policy::ONLINE, policy::BATCHED, policy::ADAPTIVE, policy::IDLE];
    let discard = prop_oneof![Just("discard"), Just("discard=sync"), Just("discard=async")];
    (any::<bool>(), any::<bool>(), discard, 1..5usize, 1..32u8).prop_flat_map(
        move |(measured, months, discard, repeats, subset)| {
            let repeats = if measured { repeats } else { 1 };
            let tried: Vec<&'static str> = all
                .into_iter()
                .enumerate()
                .filter(|(at, _)| subset & (1 << at) != 0)
                .map(|(_, name)| name)
                .collect();
            // Measured studies have no months of use and no adaptive or idle trims.
            let tried: Vec<&'static str> = tried
                .into_iter()
                .filter(|name| !measured || ![policy::ADAPTIVE, policy::IDLE].contains(name))
                .collect();
            proptest::collection::vec(found(repeats), tried.len()).prop_map(move |found| Evidence {
                measured,
                months: months && !measured,
                discard,
                policies: tried.iter().copied().zip(found).collect(),
            })
        },
    )
}

/// True if `longer` exceeds `shorter` by enough to be a reason.
fn is_reason(longer: f64, shorter: f64) -> bool {
    longer > shorter * 1.5 && longer - shorter > 0.06
}

/// Times of one reason without doubtful ones: of the recommended policy, and of others.
fn times(
    reason: &RecommendationReason<'_>,
    mine: &'static str,
) -> (Option<f64>, Vec<(String, f64)>) {
    match reason {
        RecommendationReason::Latency(latency) if latency.aside.is_none() => {
            let sure = |one: &PolicyLatency<'_>| one.doubt.is_none();
            let others = latency
                .others
                .iter()
                .filter(|one| sure(one))
                .map(|one| (one.policy.to_owned(), one.seconds));
            (latency.chosen.filter(sure).map(|one| one.seconds), others.collect())
        }
        RecommendationReason::Deleting(deleting) => match (deleting.difference(), deleting.part) {
            _ if deleting.doubt.is_some() => (None, vec![]),
            (Some((none, online)), _) if mine == policy::ONLINE => {
                (Some(online), vec![(policy::NONE.to_owned(), none)])
            }
            (Some((none, online)), _) => (Some(none), vec![(policy::ONLINE.to_owned(), online)]),
            (None, Some(cost)) if mine == policy::ONLINE => (Some(cost.online_seconds), vec![]),
            (None, Some(cost)) => {
                (Some(cost.none_seconds), vec![(policy::ONLINE.to_owned(), cost.online_seconds)])
            }
            (None, None) => (None, vec![]),
        },
        _ => (None, vec![]),
    }
}

/// A reason that argues against its own recommendation.
fn contradiction(verdict: &Verdict<'_>) -> Option<String> {
    let mine = verdict.policy()?;
    let (mut against, mut supporting) = (Vec::new(), Vec::new());
    for (time, others) in verdict.reasons.iter().map(|reason| times(reason, mine)) {
        let Some(time) = time else { continue };
        for (other, seconds) in others {
            // The cost of trimming explains why it needs a gain, if gains were measured.
            let excused = other == policy::NONE && mine != policy::NONE;
            if is_reason(time, seconds) && !excused {
                against.push(other);
            } else if is_reason(seconds, time) {
                supporting.push(other);
            }
        }
    }
    against
        .into_iter()
        .find(|other| !supporting.contains(other))
        .map(|other| alloc::format!("{mine}: {other} is quicker"))
}

/// A policy that satisfies the stated rule better than the recommended one, computed
/// independently.
fn beaten(evidence: &Evidence, verdict: &Verdict<'_>) -> Option<String> {
    let (Rule::MostWrites { limit_seconds }, Some(mine)) = (verdict.rule, verdict.policy()) else {
        return None;
    };
    let simplest_first = ["none", "batched", "online", "adaptive", "idle"];
    let place = |name: &str| simplest_first.iter().position(|one| *one == name);
    let of = |name: &str| {
        evidence.policies.iter().find(|(policy, _)| *policy == name).map(|(_, found)| found)
    };
    let [rate, cycles] = of(mine)?.months[0];
    let keeps = |name: &str, found: &PolicyFigures| {
        let cost = verdict.comparison.online_cost.filter(|cost| cost.part.is_work());
        let slows = name == policy::ONLINE && cost.is_some();
        name == policy::NONE || (found.wait <= limit_seconds && found.behind < 90.0 && !slows)
    };
    let mut others =
        evidence.policies.iter().filter(|(name, found)| *name != mine && keeps(name, found));
    if !keeps(mine, of(mine)?) {
        return Some(alloc::format!("{mine} does not keep the rule itself"));
    }
    // Others have less than 5 % more writes. With as many writes, they have less than 5 %
    // less wear. With as little wear, they are less simple.
    let better = others.find(|(name, found)| {
        let [other_rate, other_cycles] = found.months[0];
        let as_fast = other_rate * 1.05 > rate && rate * 1.05 > other_rate;
        other_rate >= rate * 1.0501
            || (as_fast
                && other_rate > rate
                && other_cycles * 1.0501 <= cycles
                && place(name) < place(mine))
    })?;
    Some(alloc::format!("{better:?} is better than {mine} with {rate} and {cycles}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
    #[test]
    fn reasons_never_contradict_the_recommendation(evidence in evidence()) {
        let study = study(&evidence);
        let verdict = Verdict::of(&study);
        prop_assert_eq!(contradiction(&verdict), None, "{:?} {:?}", verdict.recommendation, verdict.reasons);
    }

    #[test]
    fn recommended_policy_is_not_beaten_under_its_rule(evidence in evidence()) {
        let study = study(&evidence);
        let verdict = Verdict::of(&study);
        prop_assert_eq!(beaten(&evidence, &verdict), None, "{:?} {:?}", verdict.recommendation, verdict.rule);
    }
}
