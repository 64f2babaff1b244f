//! Runs candidates: each drive once, and only as long as its figures can matter.

use super::local::{Point, sort};
use super::{CandidateEvaluator, Observation, Problem, Space, logs};
use crate::learn::candidate::{Candidate, DriveKind, HiddenProperties, NUMBERS};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use trimtab_sim::runner::{Observer, RunProgress};

/// Runs candidates and counts them.
pub(super) struct Trials<'a> {
    pub(super) tries: &'a dyn CandidateEvaluator,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) tried: u32,
}

/// Figures of each drive that was run to the end; `None` for an impossible drive.
#[derive(Default)]
pub(super) struct KnownRuns(BTreeMap<[u64; NUMBERS], Vec<KnownRun>>);

struct KnownRun {
    kind: DriveKind,
    hidden: HiddenProperties,
    shown: Option<Vec<f64>>,
}

impl KnownRuns {
    fn get(&self, candidate: &Candidate) -> Option<&Option<Vec<f64>>> {
        let same = |one: &&KnownRun| one.kind == candidate.kind && one.hidden == candidate.hidden;
        self.0.get(&candidate.whole_numbers())?.iter().find(same).map(|one| &one.shown)
    }

    fn insert(&mut self, candidate: &Candidate, shown: Option<Vec<f64>>) {
        let run = KnownRun { kind: candidate.kind, hidden: candidate.hidden, shown };
        self.0.entry(candidate.whole_numbers()).or_default().push(run);
    }
}

/// Cost above which a candidate does not matter.
pub(super) type CostLimit<'a> = dyn Fn(&Candidate) -> f64 + Sync + 'a;

/// Compares figures with the measured ones.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) space: &'a dyn Space,
    pub(super) measured: &'a [Observation],
    /// Factor on the errors of the figures.
    pub(super) loose: f64,
}

/// Limit of a residual's logarithm, a factor of two, so that no single figure decides the
/// fit.
const RESIDUAL_MAX: f64 = 0.7;

impl Judge<'_> {
    /// Measured minus shown logarithms, in units of their errors.
    pub(super) fn residuals(&self, shown: &[f64]) -> Vec<f64> {
        let limit = |off: f64| off / libm::sqrt(1.0 + off * off / (RESIDUAL_MAX * RESIDUAL_MAX));
        let each = |(one, shown): (&Observation, &f64)| {
            limit(libm::log(one.value_ns) - shown) / (one.sigma * self.loose)
        };
        self.measured.iter().zip(shown).map(each).collect()
    }

    /// Sum of the squared residuals.
    pub(super) fn misfit(&self, shown: &[f64]) -> f64 {
        self.residuals(shown).iter().map(|one| one * one).sum()
    }

    /// Misfit, distance from the priors and rarity. Of the first figures only, it is a
    /// lower bound: squares are added in order, and rounding keeps the order of sums.
    pub(super) fn cost(&self, candidate: &Candidate, shown: &[f64]) -> f64 {
        self.misfit(shown) + self.prior_distance(candidate) + self.space.rarity(candidate)
    }

    /// Squared distance of a candidate from the priors of its numbers.
    fn prior_distance(&self, candidate: &Candidate) -> f64 {
        let of = |number: usize| {
            let prior = self.space.prior(candidate, number);
            let off = (candidate.logs[number] - libm::log(prior.median)) / prior.sigma;
            off * off
        };
        (0..NUMBERS).filter(|number| self.space.is_free(candidate, *number)).map(of).sum()
    }
}

impl Problem<'_> {
    pub(super) fn judge(&self) -> Judge<'_> {
        Judge { space: self.space, measured: &self.found.observations, loose: self.loose }
    }

    /// Evaluates candidates. The inner value is `None` for an impossible drive; the outer
    /// one if the observer stops the fit.
    pub(super) fn try_all(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Option<Point>>> {
        self.try_below(candidates, &|_| f64::INFINITY)
    }

    /// As [`try_all`](Self::try_all), but `None` for some or all drives with a cost above
    /// `most`: their runs end as soon as that is certain.
    fn try_below(
        &mut self,
        candidates: Vec<Candidate>,
        most: &CostLimit<'_>,
    ) -> Option<Vec<Option<Point>>> {
        if self.trials.observer.stopped() {
            return None;
        }
        let figures = self.found.observations.len();
        let mut fresh: Vec<Candidate> = Vec::new();
        for candidate in &candidates {
            if self.known.get(candidate).is_none() && !fresh.contains(candidate) {
                fresh.push(candidate.clone());
            }
        }
        let judge = self.judge();
        let show = |candidate: &Candidate| {
            let most = most(candidate);
            judge.space.show(candidate, &|so_far| judge.cost(candidate, &logs(so_far)) <= most)
        };
        let all = self.trials.tries.all(&fresh, &show);
        for (candidate, shown) in fresh.iter().zip(all) {
            // A run that ended early is not known.
            if shown.as_ref().is_none_or(|shown| shown.len() == figures) {
                self.known.insert(candidate, shown);
            }
        }
        self.trials.tried += candidates.len() as u32;
        let progress = RunProgress {
            phase: "candidate drives",
            ops: self.trials.tried.into(),
            ..RunProgress::default()
        };
        self.trials.observer.progress(progress).ok()?;
        let point = |candidate: Candidate| {
            let shown = self.known.get(&candidate)?.clone()?;
            let cost = self.cost(&candidate, &shown);
            Some(Point { candidate, shown, cost })
        };
        Some(candidates.into_iter().map(point).collect())
    }

    /// As [`try_all`](Self::try_all): the possible drives, those with the least cost
    /// first.
    pub(super) fn in_order(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Point>> {
        self.in_order_below(candidates, &|_| f64::INFINITY)
    }

    /// As [`in_order`](Self::in_order), with or without drives whose cost is above `most`.
    pub(super) fn in_order_below(
        &mut self,
        candidates: Vec<Candidate>,
        most: &CostLimit<'_>,
    ) -> Option<Vec<Point>> {
        let mut points: Vec<Point> =
            self.try_below(candidates, most)?.into_iter().flatten().collect();
        sort(&mut points);
        Some(points)
    }
}
