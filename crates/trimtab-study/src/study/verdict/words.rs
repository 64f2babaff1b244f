//! The verdict in sentences.

use super::difference::REPEATS_MIN;
use super::{BLINK_SECONDS, Recommendation, blocked, queues, repeats_in_words, sent_nothing, too_few_repeats};
use crate::study::costs::{self, Cells};
use crate::study::light_work::{BUSY_BACKLOG, SPARSE};
use crate::study::table::{mean, policy_title, samples};
use crate::study::waits::{self, Finding};
use crate::study::{Study, advice, kernels, policy, sensitivity};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::Unit;
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::quantity;

pub(super) fn headline(study: &Study, recommendation: Recommendation, cells: &Cells<'_>) -> String {
    let Some(first) = study.all().next() else { return "Nothing was measured to its end, so there is nothing to say.".to_owned() };
    let batch =
        if cells.has(policy::BATCHED) { format!("A batched trim takes {}{}.", trim_cost(cells), beside_it(study)) } else { String::new() };
    let months = |policy: &str| advice::sentence(study, policy);
    let text = match recommendation {
        Recommendation::Blocked => format!(
            "TRIM does not reach the device: under '{}' not one discard arrived, although files were deleted. 'trimtab doctor' says where it is blocked.",
            blocked(cells).unwrap_or_default()
        ),
        Recommendation::Idle => match costs::stalls(study) {
            Some((batched, idle)) => format!(
                "Trim in idle time, paced: an append made durable every 5 s takes up to {} beside a batched trim, up to {} beside an idle one.{} {} {}",
                quantity(batched, Unit::Seconds),
                quantity(idle, Unit::Seconds),
                backlogs(cells),
                months(policy::IDLE),
                online_costs(study),
            ),
            None => format!(
                "Trim in idle time, paced. {} {} Trimming in batches was not tried beside it.",
                months(policy::IDLE),
                online_costs(study)
            ),
        },
        Recommendation::Online => format!(
            "Let the filesystem discard as it frees (mount option discard): {}. {} {}",
            costs::online_cost(study).map_or("that makes no measurable difference to what users wait for", |_| "nothing else that was tried gains anything"),
            months(policy::ONLINE),
            if advice::looked(study) { online_costs(study) } else { batch.clone() }
        ),
        Recommendation::NoDifference if advice::looked(study) => {
            format!(
                "Trimming makes no measurable difference here, neither to what users wait for nor to the drive over months. Leave it as it is. {batch}"
            )
        }
        Recommendation::NoDifference => {
            format!("Online discard makes no measurable difference to what users wait for here: trim with it or in batches; what trimming gains over months was not looked at. {batch}")
        }
        Recommendation::NeverDone => {
            "No policy is recommended: on a drive whose TRIM is as expensive as this one's, not even a batched trim is done before the next is due."
                .to_owned()
        }
        Recommendation::NotWorthIt => {
            format!(
                "Do not trim: over months it makes no measurable difference to this drive. {} {}",
                online_costs(study),
                stall_costs(study)
            )
        }
        Recommendation::Adaptive => format!(
            "Trim when three quarters of the free space have been written, not as files go and not by the calendar. {} {} {batch}",
            months(policy::ADAPTIVE),
            online_costs(study)
        ),
        Recommendation::Batched if too_few_repeats(study) && cells.tested(policy::ONLINE) => {
            let seen = costs::online_cost(study).map_or_else(String::new, |worst| {
                let (online, none) = (quantity(worst.online, Unit::Seconds), quantity(worst.none, Unit::Seconds));
                format!(" ({}'s {} took {online} instead of {none} there)", worst.job, worst.phase)
            });
            format!(
                "Trim in batches: that is safe whatever a TRIM costs here. With {} it cannot be told whether online discard costs anything{seen}; {REPEATS_MIN} can (--repeats {REPEATS_MIN}). {batch}",
                repeats_in_words(study)
            )
        }
        Recommendation::Batched => match costs::online_cost(study) {
            Some(_) => format!("Trim in batches, not as files go. {} {} {batch}", online_costs(study), months(policy::BATCHED)),
            None => {
                format!("Trim in batches: deleting costs nothing more then. {batch} Whether online discard would do, could not be tried.")
            }
        },
        Recommendation::NotTested => not_tested(cells, &batch),
        Recommendation::Unknown if cells.has(policy::BATCHED) => {
            format!("The filesystem was mounted with online discard, and what that costs could not be compared with none. {batch}")
        }
        Recommendation::Unknown if study.runs.is_empty() => {
            "What the policies cost while files are deleted was not asked, so none is recommended.".to_owned()
        }
        Recommendation::Unknown => {
            format!("Only '{}' could be tried here, so there is nothing to compare it with.", policy_title(first))
        }
    };
    let price = price(study, recommendation.policy());
    let about = Some(recommendation).filter(|recommendation| recommendation.is_one());
    let robust = about.and_then(|about| Some(study.sensitivity()?.sentence(sensitivity::name(about)))).unwrap_or_default();
    format!("{text} {price} {robust}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What could not be judged, and why.
fn not_tested(cells: &Cells<'_>, batch: &str) -> String {
    let (_, what, why) = untested_of(cells);
    format!("{what} was not tested here: {why}. {}", if cells.tested(policy::BATCHED) { batch } else { "" })
}

/// The same in a clause: "online discard was not tested here: not one discard was counted".
pub(in crate::study) fn untested(study: &Study) -> String {
    let (what, _, why) = untested_of(&Cells(&study.runs));
    format!("{what} was not tested here: {why}")
}

/// What could not be judged, within a sentence and at its beginning; and why.
fn untested_of(cells: &Cells<'_>) -> (&'static str, &'static str, &'static str) {
    let online = cells.has(policy::ONLINE) && !cells.tested(policy::ONLINE);
    let (policy, what, first) = match online {
        true => (policy::ONLINE, "online discard", "Online discard"),
        false => (policy::BATCHED, "batched trimming", "Batched trimming"),
    };
    let why = match cells.of(policy).next() {
        Some(run) if queues(run) => "the filesystem sends its discards minutes later, and none was counted until then",
        Some(run) if sent_nothing(run) => "not one discard was counted",
        _ => "nothing here counts discards",
    };
    (what, first, why)
}

/// A sentence on the phase that online discard slows down most.
fn online_costs(study: &Study) -> String {
    costs::online_cost(study).map_or_else(String::new, |worst| {
        format!(
            "With online discard {}'s {} takes {} instead of {} ({}×{}).",
            worst.job,
            worst.phase,
            quantity(worst.online, Unit::Seconds),
            quantity(worst.none, Unit::Seconds),
            three_digits(worst.online / worst.none),
            kernels::other(study, worst.job, &worst.metric).map_or_else(String::new, |other| {
                let here = study.runs.first().map_or("?", kernels::generation);
                format!(" with {here}; {other}")
            })
        )
    })
}

/// What others were measured to wait beside a batched trim, if that is longer than without.
fn beside_it(study: &Study) -> String {
    let longer = waits::beside(study, policy::BATCHED).filter(|waits| waits.finding == Finding::Longer);
    longer.map_or_else(String::new, |waits| {
        let (with, without) = (quantity(waits.longest.0, Unit::Seconds), quantity(waits.longest.1, Unit::Seconds));
        format!(", and beside it one append of others takes up to {with} instead of {without}")
    })
}

/// What others wait beside the trims of the policy that is recommended; empty if that is a blink, or said already.
fn price(study: &Study, policy: Option<&str>) -> String {
    let Some(policy) = policy.filter(|policy| ![policy::NONE, policy::IDLE].contains(policy)) else { return String::new() };
    let sparse = |longest: &waits::Longest<'_>| longest.every == SPARSE.interval && longest.seconds > BLINK_SECONDS;
    waits::longest(study, policy).filter(sparse).map_or_else(String::new, |longest| {
        format!("Beside it one append, made durable every 5 s, takes up to {}.", quantity(longest.seconds, Unit::Seconds))
    })
}

fn stall_costs(study: &Study) -> String {
    costs::stalls(study).map_or_else(String::new, |(batched, _)| {
        format!("Beside a batched trim one append, made durable, takes up to {}.", quantity(batched, Unit::Seconds))
    })
}

/// A sentence on how far operations that come at a rate of their own fall behind; empty if they keep up everywhere.
fn backlogs(cells: &Cells<'_>) -> String {
    let most = |policy: &str| cells.of(policy).filter_map(|run| mean(run, BUSY_BACKLOG)).reduce(f64::max);
    let (batched, idle) = (most(policy::BATCHED), most(policy::IDLE));
    batched.zip(idle).filter(|(batched, _)| *batched > BLINK_SECONDS).map_or_else(String::new, |(batched, idle)| {
        format!(
            " Where 50 arrive each second, whether or not earlier ones are done, they fall behind by {} beside the batched trim, by {} beside the idle one.",
            quantity(batched, Unit::Seconds),
            quantity(idle, Unit::Seconds)
        )
    })
}

/// How long batched trims took, each time of every workload: "at most 0.2 s", or "0.2 s to 1.3 s".
fn trim_cost(cells: &Cells<'_>) -> String {
    let times: Vec<f64> = cells.of(policy::BATCHED).filter_map(|run| samples(run, metrics::TRIM_SECONDS)).flatten().copied().collect();
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let show = |x| quantity(x, Unit::Seconds);
    match times.len() {
        0 => "an unknown time".to_owned(),
        1 => show(most),
        _ if most < least * 1.5 => format!("at most {}", show(most)),
        _ => format!("{} to {}", show(least), show(most)),
    }
}
