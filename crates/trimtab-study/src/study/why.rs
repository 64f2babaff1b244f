//! Why: the two lines below what to use. They come from the same evaluation as the recommendation ([`verdict`]): a difference that does not count
//! there has a mark here that says why not, and what made another policy fall behind stands here.

use super::advice;
use super::answer::{days, percent, policies};
use super::costs::{self, Worst};
use super::judged::Judged;
use super::light_work::SPARSE_WAIT;
use super::months::{mark, setting, spaced};
use super::table::{jobs, mean};
use super::verdict::{self, Recommendation};
use super::{Study, kernels, policy, waits};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::units::{grouped, three_digits};
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Provenance, Unit};

/// At most two lines: what the choice gains, what others wait beside it, what deleting costs otherwise.
pub(super) fn lines(study: &Judged<'_>) -> Vec<String> {
    let (recommendation, chosen) = (study.recommendation, study.policy());
    if recommendation == Recommendation::Blocked {
        return alloc::vec![verdict::nothing_arrived(study)];
    }
    let mut lines: Vec<String> = gains(study, chosen).into_iter().collect();
    // Where nothing else names it, each line is about what is recommended.
    let subject = chosen.filter(|policy| lines.is_empty() && *policy != policy::NONE);
    let named = |text: String| subject.map_or_else(|| text.clone(), |policy| format!("{policy}: {text}"));
    let waits = waits_of(study, recommendation, chosen).map(|waits| Waits { text: named(waits.text), ..waits });
    // Where it was the work that online discard slows down, and nothing else speaks against it, that is the reason.
    let work = costs::online_cost(study).filter(|worst| worst.of_work);
    // That deleting is quicker where discards are sent with it is nothing that the recommendation stands on.
    let deletes = deleting(study, subject.unwrap_or(policy::NONE)).filter(|deletes| !deletes.quicker || chosen == Some(policy::ONLINE));
    let deletes = deletes.map(|deletes| named(format!("{} takes {}", deletes.what.to_lowercase(), deletes.text)));
    match (waits, deletes) {
        (Some(waits), deletes) if waits.decides || work.is_none() || deletes.is_none() => {
            lines.push(waits.text);
            lines.extend(deletes);
        }
        (waits, deletes) => {
            lines.extend(deletes);
            lines.extend(waits.map(|waits| waits.text));
        }
    }
    lines.truncate(2);
    lines
}

/// What the recommended policy gains over months; without one, what the best gains.
fn gains(study: &Study, chosen: Option<&str>) -> Option<String> {
    let days = days(study);
    let after = |fill: &str| {
        let days = days.map_or_else(String::new, |days| format!(", {days:.0} days"));
        format!("({} full{days})", spaced(fill))
    };
    let Some(policy) = chosen.filter(|policy| *policy != policy::NONE) else {
        let most = policies(study).into_iter().filter(|policy| *policy != policy::NONE).flat_map(|policy| advice::gains(study, policy));
        let most = most.flat_map(|gain| [(gain.rate, gain.steady, gain.fill), (gain.life.unwrap_or(1.0), true, gain.fill)]);
        let (most, steady, fill) = most.reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        let most = format!("{}{}", percent(most), mark(steady));
        return Some(format!("random writes and life at most {most} against no trimming {}", after(fill)));
    };
    let gains = advice::gains(study, policy);
    let gain = gains.iter().find(|gain| gain.counts()).or(gains.first())?;
    let rate = format!("random writes {}{}", percent(gain.rate), mark(gain.steady));
    let life = gain.life.map_or_else(String::new, |life| format!(", life {}", percent(life)));
    Some(format!("{rate}{life} against no trimming {}", after(gain.fill)))
}

/// A line on what others wait.
struct Waits {
    text: String,
    /// It shows a policy beside which others wait longer than beside the chosen one.
    decides: bool,
}

/// Such a wait counts as longer than another of so many times less.
const WORSE: f64 = 1.5;

/// What others wait beside the recommended policy, and beside the worst of the rest.
fn waits_of(study: &Study, recommendation: Recommendation, chosen: Option<&str>) -> Option<Waits> {
    let wait = |policy: &str| waits::longest(study, policy).map(|longest| longest.seconds);
    let waits: Vec<(&str, f64)> = policies(study).into_iter().filter_map(|policy| Some((policy, wait(policy)?))).collect();
    // Beside what was left out nobody waited: there is only what was compared with it.
    let untried = chosen.is_some_and(|policy| wait(policy).is_none());
    let online = costs::online_cost(study).is_some_and(|worst| !worst.of_work);
    let compared = |policy: &str| policy == policy::NONE || policy == policy::ONLINE && online;
    let waits: Vec<_> = waits.into_iter().filter(|(policy, _)| !untried || compared(policy)).collect();
    let Some((mine, chosen)) = chosen.and_then(|policy| Some((wait(policy)?, policy))) else {
        return without_choice(study, recommendation, waits).map(|text| Waits { text, decides: false });
    };
    let others: Vec<(&str, f64)> = waits.into_iter().filter(|(policy, _)| *policy != chosen).collect();
    let worse: Vec<(&str, f64)> = others.iter().copied().filter(|(_, wait)| *wait > mine * WORSE).collect();
    let decides = !worse.is_empty();
    // The quickest and the slowest of the worse ones say what the choice saves; where none is worse, what none costs is told.
    let mut named = if decides { worse } else { others.into_iter().filter(|(policy, _)| *policy == policy::NONE).collect() };
    named.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut named: Vec<String> = match &named[..] {
        [first, .., last] => alloc::vec![beside(study, first), beside(study, last)],
        rest => rest.iter().map(|other| beside(study, other)).collect(),
    };
    // A batched trim comes now and then; what online discard makes others wait comes whenever files go. That was the reason if nothing else was.
    let online = costs::online_cost(study).filter(|worst| !worst.of_work && chosen != policy::ONLINE && !decides);
    if let Some(online) = online {
        named.insert(0, format!("online {}, whenever files go", quantity(online.online, Unit::Seconds)));
    }
    let tail = if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) };
    let alone = if chosen == policy::NONE { " without trimming" } else { "" };
    let mine = format!("{}{}", quantity(mine, Unit::Seconds), chance(study, chosen));
    Some(Waits { text: format!("{} {mine}{alone}{tail}", at_most(study)), decides: decides || online_shown(&tail) })
}

/// Whose longest time it is: of one operation, from when it began. Who saves a file now and then waits for no other; 50 a second also wait for those
/// before them, which is another figure.
fn at_most(study: &Study) -> &'static str {
    if study.runs.iter().any(|run| mean(run, SPARSE_WAIT).is_some()) { "others wait at most" } else { "one append takes at most" }
}

/// Whether the tail tells what online discard makes others wait.
fn online_shown(tail: &str) -> bool {
    tail.contains("whenever files go")
}

/// What a wait that was measured says, if that is in doubt.
fn chance(study: &Study, policy: &str) -> &'static str {
    let measured = study.runs.iter().any(|run| run.provenance == Provenance::Measured);
    if measured && policy != policy::NONE && !costs::Cells(&study.runs).tested(policy) {
        return UNCOUNTED;
    }
    waits::beside(study, policy).map_or("", |waits| waits.mark())
}

/// Behind what was measured without a discard: it is not what discards cost.
const UNCOUNTED: &str = " (no discard counted)";

/// "beside an idle trim 153 ms".
fn beside(study: &Study, (policy, seconds): &(&str, f64)) -> String {
    let whose = match *policy {
        policy::NONE => "without trimming".to_owned(),
        policy::ONLINE => policy::ONLINE.to_owned(),
        policy::IDLE => "beside an idle trim".to_owned(),
        policy => format!("beside {} {policy} trim", if policy == policy::ADAPTIVE { "an" } else { "a" }),
    };
    format!("{whose} {}{}", quantity(*seconds, Unit::Seconds), chance(study, policy))
}

/// The longest waits where no policy is recommended.
fn without_choice(study: &Study, recommendation: Recommendation, mut waits: Vec<(&str, f64)>) -> Option<String> {
    let no_difference = recommendation == Recommendation::NoDifference;
    if no_difference {
        // It is about these.
        waits.retain(|(policy, _)| [policy::NONE, policy::ONLINE, policy::BATCHED].contains(policy));
    }
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> = waits.iter().take(3).map(|other| beside(study, other)).collect();
    // Measured waits have marks of their own.
    let modelled = study.runs.iter().all(|run| run.provenance != Provenance::Measured);
    let apart = |times: f64| waits.first().zip(waits.last()).is_some_and(|(most, least)| most.1 > least.1 * times);
    let aside = match no_difference {
        true if modelled && apart(1.02) => " (too little to count)",
        // One event each: beside none of them there were more long ones than without trimming, or nobody would say so.
        true if !modelled && apart(WORSE) && !named.iter().any(|one| one.ends_with(')')) => " (long ones no more often)",
        _ => "",
    };
    (!named.is_empty()).then(|| format!("{}: {}{aside}", at_most(study), named.join("; ")))
}

/// Deleting, without discards and with online discard.
pub(super) struct Deletes {
    /// What is deleted: "Deleting 36,706 files".
    pub what: String,
    /// What it takes.
    pub text: String,
    /// It is measurably quicker with online discard.
    quicker: bool,
}

/// What deleting takes under `mine` and with online discard, or if that is `mine` without, by what counts: where online discard costs most if it costs
/// something.
pub(super) fn deleting(study: &Study, mine: &str) -> Option<Deletes> {
    let worst = costs::online_cost(study).filter(|worst| worst.of_work);
    let all = jobs(&study.runs);
    let usual = || all.iter().find(|job| **job == "tree").or(all.first()).copied();
    let job = worst.as_ref().map(|worst| worst.job).or_else(usual)?;
    let setting_of = |key: &str| study.runs.iter().find(|run| run.workload == job).and_then(|run| setting(run, key));
    let files = setting_of("files").or_else(|| setting_of("number"));
    let what = files.map_or_else(|| "Deleting".to_owned(), |files| format!("Deleting {} files", with_commas(files)));
    let show = |seconds: f64| quantity(seconds, Unit::Seconds);
    let average = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
    let time = |policy: &str| costs::deleting(study, job, policy).map(|times| average(&times));
    let mut quicker = false;
    let online_is_mine = mine == policy::ONLINE;
    let without = if online_is_mine { None } else { time(mine) }.or_else(|| time(policy::NONE));
    let text = match (without, time(policy::ONLINE)) {
        (Some(none), Some(online)) => {
            if let Some(worst) = worst.filter(|_| online < none * WORSE) {
                return Some(Deletes {
                    what: format!("The {} of {job}", worst.phase.trim_matches('\'')),
                    text: in_phase(study, &worst),
                    quicker: false,
                });
            }
            let alike = (online - none).abs() <= none * 0.02;
            let here = (!alike && none > 0.0).then(|| format!("{}×", three_digits(online / none)));
            // "ext4 of Linux 2.6.39": that it is ext4 is known.
            let linux = |name: &str| name.rsplit_once(" of ").map_or_else(|| name.to_owned(), |(_, linux)| linux.to_owned());
            let other = kernels::ratio(study, job).map(|(ratio, name)| (three_digits(ratio), linux(name)));
            if alike {
                // Against what the ratio is has to be said where no other time stands beside it.
                let other = other.map_or_else(String::new, |(ratio, linux)| format!(" ({linux}: {ratio}× none's time)"));
                let than = if online_is_mine { "without trimming" } else { policy::ONLINE };
                return Some(Deletes { what, text: format!("{}; {than} as long{other}", show(none)), quicker: false });
            }
            let doubt = costs::doubt(study, job);
            quicker = online < none && doubt.is_none();
            let other = other.map(|(ratio, linux)| format!("{ratio}× on {linux}"));
            let here = here.into_iter().map(|ratio| doubt.as_ref().map_or_else(|| ratio.clone(), |doubt| format!("{ratio}, {doubt}")));
            let ratios: Vec<String> = here.chain(other).collect();
            let ratios = if ratios.is_empty() { String::new() } else { format!(" ({})", ratios.join("; ")) };
            match online_is_mine {
                true => format!("{}; without trimming {}{ratios}", show(online), show(none)),
                false => format!("{}; online {}{ratios}", show(none), show(online)),
            }
        }
        (Some(only), None) | (None, Some(only)) => show(only),
        (None, None) => return None,
    };
    Some(Deletes { what, text, quicker })
}

/// What one phase takes, where deleting as a whole does not show it: without online discard that is the mean of all that do the same work.
fn in_phase(study: &Study, worst: &Worst<'_>) -> String {
    let few = if verdict::too_few_repeats(study) { format!(", {}", verdict::repeats_in_words(study)) } else { String::new() };
    let ratio = three_digits(worst.online / worst.none);
    format!("{} otherwise; online {} ({ratio}×{few})", quantity(worst.none, Unit::Seconds), quantity(worst.online, Unit::Seconds))
}

/// A number that a setting holds, with commas.
pub(super) fn with_commas(digits: &str) -> String {
    digits.parse().map_or_else(|_| digits.to_owned(), grouped)
}

#[cfg(test)]
mod tests;
