//! What to do, from the runs.

use super::blocked;
use super::difference::REPEATS_MIN;
use crate::study::costs::{self, Cells};
use crate::study::table::{FOREGROUND, samples};
use crate::study::waits::{self, Finding};
use crate::study::{Study, advice, policy};
use trimtab_sim::run::Provenance;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recommendation {
    /// Leave it to the filesystem: it costs nothing that can be measured, and gains something over months.
    Online,
    /// Trim now and then, not as files go.
    Batched,
    /// Trim when enough has been written: a fixed interval gains less.
    Adaptive,
    /// Trim in idle time: a batched trim makes others wait.
    Idle,
    /// Trimming neither costs nor gains anything that can be measured.
    NoDifference,
    /// Trimming costs something here and gains nothing.
    NotWorthIt,
    /// Every policy that gains something would trim without end.
    NeverDone,
    /// Discards do not arrive; that has to be mended first.
    Blocked,
    /// A policy was run, but no discard of it was counted: nothing can be said of it.
    NotTested,
    /// Too little could be tried.
    Unknown,
}

impl Recommendation {
    /// The policy that it is about, as runs name it.
    pub const fn policy(self) -> Option<&'static str> {
        match self {
            Self::Online => Some(policy::ONLINE),
            Self::Batched => Some(policy::BATCHED),
            Self::Adaptive => Some(policy::ADAPTIVE),
            Self::Idle => Some(policy::IDLE),
            Self::NotWorthIt => Some(policy::NONE),
            Self::NoDifference | Self::NeverDone | Self::Blocked | Self::NotTested | Self::Unknown => None,
        }
    }

    /// Whether anything is said that could be robust.
    pub const fn is_one(self) -> bool {
        !matches!(self, Self::Blocked | Self::NotTested | Self::Unknown)
    }
}

/// What to do, from the runs.
pub fn recommendation(study: &Study) -> Recommendation {
    let cells = Cells(&study.runs);
    if blocked(&cells).is_some() {
        return Recommendation::Blocked;
    }
    // What a policy gains is half of it.
    if study.runs.is_empty() {
        return Recommendation::Unknown;
    }
    let (stalls, online_costs) = (costs::stalls(study).is_some(), costs::online_cost(study).is_some());
    if advice::looked(study) && !advice::any_gain(study) {
        let costs = stalls || online_costs || costs::batched_costs(study);
        return if costs { Recommendation::NotWorthIt } else { Recommendation::NoDifference };
    }
    if too_few_repeats(study) && !advice::looked(study) && cells.has(policy::NONE) && cells.tested(policy::ONLINE) {
        return Recommendation::Batched;
    }
    // What never gets done is no choice, and neither is what gains nothing where something else does.
    let fits = |policy: &str| advice::finishes(study, policy) && advice::is_worth_it(study, policy);
    if stalls && fits(policy::IDLE) {
        return Recommendation::Idle;
    }
    // What was left out is not recommended where something else was tried.
    if online_costs && !cells.has(policy::BATCHED) {
        match [policy::IDLE, policy::ADAPTIVE].into_iter().find(|policy| cells.tested(policy) && fits(policy)) {
            Some(policy::IDLE) => return Recommendation::Idle,
            Some(_) => return Recommendation::Adaptive,
            None => {}
        }
    }
    match (cells.has(policy::NONE), cells.tested(policy::ONLINE), cells.tested(policy::BATCHED)) {
        (true, true, _) if !online_costs && advice::looked(study) && fits(policy::ONLINE) => Recommendation::Online,
        (true, true, _) if !online_costs && !advice::looked(study) => either(study),
        _ if advice::beats(study, policy::ADAPTIVE, policy::BATCHED) && fits(policy::ADAPTIVE) => Recommendation::Adaptive,
        _ if !advice::finishes(study, policy::BATCHED) => Recommendation::NeverDone,
        _ if !advice::is_worth_it(study, policy::BATCHED) => what_gains(&cells, fits),
        (true, true, _) => Recommendation::Batched,
        (true, false, true) if !cells.has(policy::ONLINE) => Recommendation::Batched,
        (true, ..) if cells.has(policy::ONLINE) || cells.has(policy::BATCHED) => Recommendation::NotTested,
        // Neither of the usual two was tried, but something that gains over months.
        (true, ..) => gained_over_months(study, fits).unwrap_or(Recommendation::Unknown),
        _ => Recommendation::Unknown,
    }
}

/// Online discard costs nothing that is waited for, and what it gains was not looked at: either will do, unless others wait for the batched trim and were
/// seen not to wait for online discard.
fn either(study: &Study) -> Recommendation {
    let clear = waits::beside(study, policy::ONLINE).is_none_or(|waits| waits.finding == Finding::Alike);
    if clear && costs::batched_costs(study) { Recommendation::Online } else { Recommendation::NoDifference }
}

/// What is left where a batched trim gains nothing, and something else does.
fn what_gains(cells: &Cells<'_>, fits: impl Fn(&str) -> bool) -> Recommendation {
    let left =
        [(policy::IDLE, Recommendation::Idle), (policy::ADAPTIVE, Recommendation::Adaptive), (policy::ONLINE, Recommendation::Online)];
    let found = left.into_iter().find(|(policy, _)| cells.tested(policy) && fits(policy));
    found.map_or(Recommendation::NotTested, |(_, recommendation)| recommendation)
}

/// What was compared with no trimming over months and gains something, whether or not its discards were counted while files were deleted.
fn gained_over_months(study: &Study, fits: impl Fn(&str) -> bool) -> Option<Recommendation> {
    let of = [(policy::IDLE, Recommendation::Idle), (policy::ADAPTIVE, Recommendation::Adaptive)];
    let gains = |policy: &str| !advice::gains(study, policy).is_empty() && fits(policy);
    of.into_iter().find(|(policy, _)| gains(policy)).map(|(_, recommendation)| recommendation)
}

/// Whether what was measured was repeated too seldom to tell a difference from noise: then nothing hangs on one, and what is safe whatever a TRIM
/// costs is recommended.
pub fn too_few_repeats(study: &Study) -> bool {
    let mut repeats = study.runs.iter().filter(|run| run.provenance == Provenance::Measured).filter_map(|run| samples(run, FOREGROUND));
    repeats.any(|samples| samples.len() < REPEATS_MIN)
}
