//! The kind, asked again: where no drive of the kind that the small probes chose explains the figures of the whole drive, others that show nearly the same under the
//! small ones are tried on both.

use super::super::changes::neighbours;
use super::super::{Fitted, Point, Problem as Part, Trials, shown};
use super::{Problem, others, priors};
use crate::learn::candidate::Candidate;
use crate::learn::classes;
use crate::learn::invert;
use crate::learn::probes::Findings;
use alloc::vec::Vec;

/// Where figures are off by more, in units of what they may be off by, the kind is asked again.
const UNEXPLAINED: f64 = 0.3;
/// So many times at most.
const TURNS: u32 = 2;
/// Kinds that are fitted to the small figures, and those of them that are tried on whole drives.
const ADAPTED: usize = 24;
const FITTED: usize = 10;
const ROUNDS_OF_PART: u32 = 3;
const ROUNDS_OF_WHOLE: u32 = 3;
/// What another has to gain.
const GAIN_MIN: f64 = 4.0;

/// What explains the figures of the whole drive: the best, and others that do as well or nearly.
pub(super) type Found = (Point, Vec<Point>);

/// A kind with what both probes say of it.
struct Both {
    part: Point,
    cost: f64,
}

impl Problem<'_> {
    /// What was found, or what is found around another kind that explains both better; `fitted` is that kind's then.
    pub(super) fn asked_again(&mut self, fitted: &mut Fitted, small: &Findings, found: Found) -> Option<Found> {
        let mut found = found;
        for _ in 0..TURNS {
            if self.misfit(&found.0.shown) <= UNEXPLAINED * self.found.observations.len() as f64 {
                break;
            }
            let points = self.on_a_part(small, |part| part.alternatives(fitted))?;
            let Some((here, others)) = points.split_first() else { break };
            let least = here.cost + found.0.cost;
            let mut both = Vec::new();
            for part in others.iter().filter(|part| part.cost + GAIN_MIN < least) {
                let cost = part.cost + self.at_a_glance(fitted, &part.candidate, &found.0.candidate)?;
                both.push(Both { part: part.clone(), cost });
            }
            let Some(best) = both.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).filter(|best| best.cost + GAIN_MIN < least) else { break };
            *fitted = self.on_a_part(small, |part| part.finished(best.part.clone(), &[]))?;
            self.priors = priors(fitted, self.plan);
            found = self.best(fitted)?;
        }
        Some(found)
    }

    /// Does something with the figures of the small probes.
    fn on_a_part<T>(&mut self, found: &Findings, act: impl FnOnce(&mut Part<'_>) -> Option<T>) -> Option<T> {
        let plan = self.plan;
        let show = |candidate: &Candidate| shown(candidate, plan);
        let trials = Trials { tries: self.trials.tries, observer: &mut *self.trials.observer, tried: self.trials.tried };
        let mut part = Part { plan, found, priors: classes::priors(&plan.reported), trials, show: &show, loose: 1.0 };
        let came = act(&mut part);
        self.trials.tried = part.trials.tried;
        came
    }

    /// About the least cost of the figures of the whole drive that `kind` can have: what is hidden is as in the best so far, or as arithmetic says.
    fn at_a_glance(&mut self, fitted: &Fitted, kind: &Candidate, best: &Candidate) -> Option<f64> {
        let before = self.priors;
        self.priors = priors(&Fitted { best: kind.clone(), ..fitted.clone() }, self.plan);
        let inverted = invert::whole::invert(kind, &self.found, self.plan);
        let starts = others(&inverted).into_iter().chain(others(&super::around(kind, best))).collect();
        let tried = self.tried_in_order(starts)?;
        let mut cost = f64::INFINITY;
        if let Some(point) = tried.into_iter().next() {
            cost = self.improved(point, ROUNDS_OF_WHOLE)?.cost;
        }
        self.priors = before;
        Some(cost)
    }
}

impl Part<'_> {
    /// The best of `fitted`, and then other kinds that might show the same, each with numbers fitted to it, one of each arrangement.
    fn alternatives(&mut self, fitted: &Fitted) -> Option<Vec<Point>> {
        let here = self.try_all(alloc::vec![fitted.best.clone()])?.into_iter().flatten().next()?;
        let all = neighbours(&here.candidate, !self.plan.reported.full_duplex).into_iter().chain(fitted.kinds.iter().cloned());
        let other = all.filter(|other| !other.is_kind_of(&here.candidate)).collect();
        let mut points: Vec<Point> = self.try_all(other)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        points.truncate(ADAPTED);
        let slopes = self.slopes(&here)?;
        let mut points = self.adapted(points.into_iter().map(|point| (None, point)).collect(), &slopes)?;
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut each: Vec<Point> = alloc::vec![here];
        for point in points {
            if each.len() <= FITTED && !each.iter().any(|known| arrangement(&known.candidate) == arrangement(&point.candidate)) {
                let point = self.improve(point, ROUNDS_OF_PART)?;
                each.push(point);
            }
        }
        Some(each)
    }
}

/// What of a kind the figures of whole drives hang on.
fn arrangement(candidate: &Candidate) -> (u32, u64, u64, bool, bool, bool) {
    let kind = &candidate.kind;
    (kind.dies(), kind.row_bytes(), kind.unit_bytes, kind.slc, kind.compresses, kind.suspends)
}
