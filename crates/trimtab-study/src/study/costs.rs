//! What trimming costs those who work meanwhile, by what counts: measurably longer, and by more than a blink. The recommendation and the reasons that are
//! given for it both stand on this.

use super::job::Job;
use super::light_work::{BUSY_WAIT, SPARSE, SPARSE_WAIT};
use super::table::{FOREGROUND, jobs, mean, samples};
use super::verdict::{BLINK_SECONDS, compare, effective_policy, repeats_in_words, too_few_repeats};
use super::waits::{self, Finding};
use super::{Study, policy};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_sim::run::{Provenance, Run, metrics};

/// Idle trimming is worth it where one operation waits longer than this for a batched trim, and at most half as long for an idle one.
pub(super) const STALL_SECONDS: f64 = 0.05;

/// The runs of jobs, by what their policies amount to.
pub(super) struct Cells<'a>(pub &'a [Run]);

impl<'a> Cells<'a> {
    pub(super) fn find(&self, job: &str, policy: &str) -> Option<&'a Run> {
        self.0.iter().find(|run| run.workload == job && effective_policy(run) == policy)
    }

    pub(super) fn has(&self, policy: &str) -> bool {
        self.0.iter().any(|run| effective_policy(run) == policy)
    }

    /// Whether discards of a policy were counted: what was not seen to discard cannot be judged.
    pub(super) fn tested(&self, policy: &str) -> bool {
        self.of(policy).any(sent_something)
    }

    pub(super) fn of(&self, policy: &str) -> impl Iterator<Item = &'a Run> {
        self.0.iter().filter(move |run| effective_policy(run) == policy)
    }
}

/// Counters exist and moved.
pub(super) fn sent_something(run: &Run) -> bool {
    samples(run, metrics::DISCARD_COMMANDS).is_some_and(|counts| counts.iter().any(|count| *count > 0.0))
}

/// Where online discard costs most.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Worst<'a> {
    /// The workload.
    pub job: &'a str,
    /// The metric that shows it; empty where it is a sum of several.
    pub metric: String,
    /// What takes longer, as a noun.
    pub phase: String,
    /// With online discard, seconds.
    pub online: f64,
    /// Without, seconds.
    pub none: f64,
    /// It is the work itself, not somebody else's beside it.
    pub of_work: bool,
}

impl Worst<'_> {
    /// How many times as long it takes.
    fn times(&self) -> f64 {
        self.online / self.none
    }
}

/// The longest that one operation took beside `batched` and `idle`, where the first is a stall and the second is not.
pub(super) fn stalls(study: &Study) -> Option<(f64, f64)> {
    let longest = |policy| waits::longest(study, policy).filter(|longest| longest.every == SPARSE.interval).map(|longest| longest.seconds);
    longest(policy::BATCHED).zip(longest(policy::IDLE)).filter(|(batched, idle)| *batched > STALL_SECONDS && *idle <= batched / 2.0)
}

/// Whether others wait for a batched trim: chance aside where it was measured.
pub(super) fn batched_costs(study: &Study) -> bool {
    let cells = Cells(&study.runs);
    let measured = waits::beside(study, policy::BATCHED).is_some_and(|waits| waits.finding == Finding::Longer);
    let modelled = |job| longer(&cells, job, policy::BATCHED, &[policy::NONE], &metric(SPARSE_WAIT)).is_some();
    measured || jobs(&study.runs).into_iter().any(modelled)
}

/// How long deleting took as a whole, each time.
pub(super) fn deleting(study: &Study, job: &str, policy: &str) -> Option<Vec<f64>> {
    whole_deleting(Cells(&study.runs).find(job, policy)?)
}

/// Until the trim `batched` does the same work as `none`, and the more repeats, the better it shows what is noise.
const SAME_WORK: [&str; 2] = [policy::NONE, policy::BATCHED];

/// Why the difference that online discard makes to deleting does not count, where it does not.
pub(super) fn doubt(study: &Study, job: &str) -> Option<String> {
    let cells = Cells(&study.runs);
    if cells.find(job, policy::ONLINE).is_some_and(|run| !sent_something(run)) {
        return Some("no discard counted".to_owned());
    }
    let (online, without) = pair(&cells, job, policy::ONLINE, &SAME_WORK, &whole_deleting)?;
    let more = average(&online) - average(&without);
    let counted = online_cost(study).is_some_and(|worst| worst.of_work && worst.job == job);
    let modelled = study.runs.iter().all(|run| run.provenance != Provenance::Measured);
    match compare(&online, &without) {
        _ if more > 0.0 && counted && too_few_repeats(study) => Some(repeats_in_words(study)),
        _ if more > 0.0 && counted => None,
        // What was measured too seldom speaks for nothing.
        _ if too_few_repeats(study) => Some(format!("{}: cannot tell", repeats_in_words(study))),
        Some(comparison) if comparison.measurable && more.abs() > BLINK_SECONDS => None,
        Some(comparison) if comparison.measurable => Some("too short to notice".to_owned()),
        _ if modelled => Some("too little to count".to_owned()),
        _ => Some("within their scatter".to_owned()),
    }
}

/// All of a run's deleting, each time; `None` if a part of it is not known.
fn whole_deleting(run: &Run) -> Option<Vec<f64>> {
    let phases: Vec<&[f64]> = Job::deleting(&run.workload).iter().filter_map(|phase| samples(run, &format!("{phase}.seconds"))).collect();
    let repeats = phases.iter().map(|samples| samples.len()).min().filter(|repeats| *repeats > 0)?;
    Some((0..repeats).map(|repeat| phases.iter().map(|samples| samples[repeat]).sum()).collect())
}

/// A metric's repeats.
fn metric(name: &str) -> impl Fn(&Run) -> Option<Vec<f64>> {
    move |run| samples(run, name).map(<[f64]>::to_vec)
}

/// What online discard slows down most: of the work or, if it slows none of that down, of the appends beside it. `None` where it costs nothing, or was not
/// seen to discard.
pub(super) fn online_cost(study: &Study) -> Option<Worst<'_>> {
    let all = jobs(&study.runs);
    fn more<'a>(a: Worst<'a>, b: Worst<'a>) -> Worst<'a> {
        if b.times() > a.times() { b } else { a }
    }
    let of_work = all.iter().flat_map(|job| of_work(study, job)).reduce(more);
    let beside = || all.iter().filter_map(|job| beside(study, job)).reduce(more);
    of_work.or_else(beside).or_else(|| measured_beside(study))
}

/// The phases of deleting, all of it, and the whole work, as far as online discard slows them down.
fn of_work<'a>(study: &'a Study, job: &'a str) -> Vec<Worst<'a>> {
    let cells = Cells(&study.runs);
    let deleting = pair(&cells, job, policy::ONLINE, &SAME_WORK, &whole_deleting);
    // What one phase takes the more and another the less costs nobody anything.
    let no_longer = deleting.is_some_and(|(online, without)| average(&online) <= average(&without));
    let phases = Job::deleting(job).iter().filter(|_| !no_longer).map(|phase| (format!("{phase}.seconds"), format!("'{phase}'")));
    let named = phases.chain([(FOREGROUND.to_owned(), "whole work".to_owned())]);
    let parts = named.filter_map(|(name, phase)| {
        let (online, none) = slowed(&cells, job, &metric(&name), &SAME_WORK)?;
        Some(Worst { job, metric: name, phase, online, none, of_work: true })
    });
    let whole = slowed(&cells, job, &whole_deleting, &SAME_WORK).map(|(online, none)| Worst {
        job,
        metric: String::new(),
        phase: "deleting".to_owned(),
        online,
        none,
        of_work: true,
    });
    parts.chain(whole).collect()
}

/// The modelled appends of somebody who works at the machine.
fn beside<'a>(study: &'a Study, job: &'a str) -> Option<Worst<'a>> {
    let (online, none) = slowed(&Cells(&study.runs), job, &metric(SPARSE_WAIT), &[policy::NONE])?;
    let phase = "longest append beside it, one every 5 s,".to_owned();
    Some(Worst { job, metric: SPARSE_WAIT.to_owned(), phase, online, none, of_work: false })
}

/// The appends that were measured beside online discard, if they take longer than without.
fn measured_beside(study: &Study) -> Option<Worst<'_>> {
    let waits = waits::beside(study, policy::ONLINE).filter(|waits| waits.finding == Finding::Longer)?;
    let job = Cells(&study.runs).of(policy::ONLINE).find(|run| mean(run, BUSY_WAIT).is_some())?.workload.as_str();
    let phase = "longest append beside it, 50 a second,".to_owned();
    let (online, none) = waits.longest;
    Some(Worst { job, metric: BUSY_WAIT.to_owned(), phase, online, none, of_work: false })
}

/// Times of a run, one a repeat.
type Times<'a> = dyn Fn(&Run) -> Option<Vec<f64>> + 'a;

/// Times of `job` under `policy`, and under the others together.
fn pair(cells: &Cells<'_>, job: &str, policy: &str, others: &[&str], of: &Times<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    // What no discard was sent for is not slow because of one.
    let mine = of(cells.find(job, policy).filter(|run| sent_something(run))?)?;
    let without: Vec<f64> = others.iter().filter_map(|policy| cells.find(job, policy)).filter_map(of).flatten().collect();
    (!without.is_empty()).then_some((mine, without))
}

/// Means of a time of `job` under `policy` and without, if it is measurably longer, and by more than a blink.
fn longer(cells: &Cells<'_>, job: &str, policy: &str, others: &[&str], of: &Times<'_>) -> Option<(f64, f64)> {
    let (mine, without) = pair(cells, job, policy, others, of)?;
    let comparison = compare(&mine, &without)?;
    let (mine, without) = (average(&mine), average(&without));
    (comparison.measurable && comparison.ratio > 1.0 && mine - without > BLINK_SECONDS).then_some((mine, without))
}

/// The same of online discard.
fn slowed(cells: &Cells<'_>, job: &str, of: &Times<'_>, others: &[&str]) -> Option<(f64, f64)> {
    longer(cells, job, policy::ONLINE, others, of)
}

fn average(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}
