//! What follows from the runs of a study. A pure function of them, the same for real and modelled targets.

mod difference;
mod evidence;
mod recommendation;
#[cfg(test)]
mod tests;
mod words;

use super::costs::{self, Cells, STALL_SECONDS};
use super::table::{FOREGROUND, jobs, samples};
use super::waits::{self, Finding};
use super::{Study, advice, policy};
use crate::document::Verdict;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
pub use difference::{Comparison, compare};
use evidence::{caveats, evidence};
pub use recommendation::{Recommendation, recommendation, too_few_repeats};
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Field, Run};
use words::headline;
pub(super) use words::untested;

/// What nobody notices.
pub(super) const BLINK_SECONDS: f64 = 0.05;

/// What the policy of a run amounts to: `as-mounted` is `none` or `online`, as the filesystem was mounted.
pub fn effective_policy(run: &Run) -> &str {
    if run.policy != policy::AS_MOUNTED {
        return &run.policy;
    }
    let discard = Field::find(&run.policy_settings, policy::DISCARD);
    match discard {
        Some("nodiscard") => policy::NONE,
        Some(_) => policy::ONLINE,
        None => policy::AS_MOUNTED,
    }
}

/// `one repeat`.
pub(super) fn repeats_in_words(study: &Study) -> String {
    match study.runs.iter().filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0) {
        1 => "one repeat".to_owned(),
        few => format!("{few} repeats"),
    }
}

/// Whether a run of `policy` is in the study: what was left out may be all that remains.
pub fn was_tried(study: &Study, policy: &str) -> bool {
    study.all().any(|run| effective_policy(run) == policy)
}

/// The verdict, in full.
pub(super) fn of(study: &Study, recommendation: Recommendation) -> Verdict {
    let cells = Cells(&study.runs);
    let mut verdict = Verdict { headline: headline(study, recommendation, &cells), evidence: advice::evidence(study), caveats: Vec::new() };
    for job in jobs(&study.runs) {
        for run in study.runs.iter().filter(|run| run.workload == job) {
            verdict.evidence.extend(evidence(run));
        }
    }
    for policy in [policy::ONLINE, policy::BATCHED] {
        let Some(waits) = waits::beside(study, policy) else { continue };
        let to = if waits.finding == Finding::TooFew { &mut verdict.caveats } else { &mut verdict.evidence };
        to.push(waits.evidence(policy));
    }
    verdict.caveats.extend(advice::never_done(study));
    if let Some(chosen) = recommendation.policy() {
        verdict.caveats.extend(advice::changes(study, chosen, costs::stalls(study), STALL_SECONDS));
    }
    caveats(study, &cells, &mut verdict.caveats);
    verdict
}

/// A policy that trims, if not one discard of any arrived. Discards that are queued for later prove nothing.
fn blocked<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let trims = |run: &&Run| matches!(effective_policy(run), policy::ONLINE | policy::BATCHED) && !queues(run);
    let nothing = cells.0.iter().all(|run| samples(run, metrics::DISCARD_COMMANDS).is_none_or(|_| sent_nothing(run)));
    cells.0.iter().filter(trims).find(|run| nothing && sent_nothing(run)).map(effective_policy)
}

/// That deleting brought no discard, in a clause.
pub(super) fn nothing_arrived(study: &Study) -> String {
    let policy = blocked(&Cells(&study.runs)).unwrap_or(policy::BATCHED);
    format!("under '{policy}' files were deleted, and not one discard was counted")
}

/// btrfs sends asynchronous discards minutes later.
fn queues(run: &Run) -> bool {
    run.policy_settings.iter().any(|f| f.key == policy::DISCARD && f.value == "discard=async")
}

/// Counters exist and did not move.
fn sent_nothing(run: &Run) -> bool {
    samples(run, metrics::DISCARD_COMMANDS).is_some_and(|counts| counts.iter().all(|count| *count == 0.0))
}
