//! Revises the kind. If no drive of the kind chosen by the small probes explains the whole
//! drive, other kinds with similar small figures are tried on both.

use super::super::changes::neighbours;
use super::super::kinds::family;
use super::super::{FitProblem as Part, FitResult, Point, Trials, shown};
use super::{WORSE_MAX, WholeFitProblem, discrete_variants, priors};
use crate::learn::candidate::{Candidate, DriveKind};
use crate::learn::classes;
use crate::learn::invert;
use crate::learn::probes::Findings;
use alloc::vec::Vec;

/// Misfit per figure above which the kind is revised.
const UNEXPLAINED: f64 = 0.1;
const STEPS: u32 = 3;
/// Kinds adapted to the small figures, and how many of those are fitted and tried on whole drives.
const ADAPTED: usize = 32;
const FITTED: usize = 14;
/// Number of kinds around the best of them that are tried on whole drives.
const SETTLED: usize = 4;
const ROUNDS_OF_PART: u32 = 3;
const ROUNDS_OF_WHOLE: u32 = 3;
/// Cost ratio above which the whole drive rules out a kind, and how many of the rest are examined.
const RULED_OUT: f64 = 3.0;
const LOOKED_INTO: usize = 5;
const ROUNDS_BY_CHANCE: u32 = 5;
/// Limit of candidates on whole drives, at 20 to 60 ms each, for examining further kinds.
const SPENT_MAX: usize = 10_000;
const GAIN_MIN: f64 = 4.0;

/// The best explanation of the whole drive, and others that are as good or nearly.
pub(super) type Explanation = (Point, Vec<Point>);

/// A kind with its costs under the small probes and the whole-drive probes.
#[derive(Clone)]
struct JointFit {
    part: Point,
    whole: Point,
}

impl JointFit {
    fn cost(&self) -> f64 {
        self.part.cost + self.whole.cost
    }

    /// A point with the total cost, for use in an ensemble.
    fn total(&self) -> Point {
        Point { cost: self.cost(), ..self.part.clone() }
    }
}

impl WholeFitProblem<'_> {
    /// Returns `found`, or a better explanation of another kind, and then sets `fitted` to it.
    pub(super) fn revise_kind(&mut self, fitted: &mut FitResult, small: &Findings, found: Explanation) -> Option<Explanation> {
        if self.is_explained(&found.0) {
            return Some(found);
        }
        let part = self.on_small_probes(small, |part| part.try_all(alloc::vec![fitted.best.clone()]))?;
        let first = JointFit { part: part.into_iter().flatten().next()?, whole: found.0.clone() };
        let mut all = alloc::vec![first.clone()];
        let mut best = first.clone();
        for _ in 0..STEPS {
            let next = self.best_alternative(fitted, small, &best, &mut all)?;
            let Some(next) = next.filter(|next| next.cost() + GAIN_MIN < best.cost()) else { break };
            best = next;
            if self.is_explained(&best.whole) || self.spent > SPENT_MAX {
                break;
            }
        }
        if best.cost() >= first.cost() {
            return Some(found);
        }
        all.retain(|one| one.cost() < best.cost() + WORSE_MAX && !one.part.candidate.is_kind_of(&best.part.candidate));
        let others: Vec<Point> = all.iter().map(JointFit::total).collect();
        *fitted = self.on_small_probes(small, |part| part.finished(best.total(), &others, fitted.families.clone()))?;
        self.priors = priors(fitted, self.plan);
        let (around_it, mut others) = self.best(&fitted.best)?;
        others.push(best.whole);
        others.push(around_it);
        self.kinds(others)
    }

    fn is_explained(&self, point: &Point) -> bool {
        self.misfit(&point.shown) <= UNEXPLAINED * self.found.observations.len() as f64
    }

    /// The best alternative to `here` by total cost. Adds everything tried to `all`.
    fn best_alternative(
        &mut self,
        fitted: &FitResult,
        small: &Findings,
        here: &JointFit,
        all: &mut Vec<JointFit>,
    ) -> Option<Option<JointFit>> {
        let known: Vec<Candidate> = all.iter().map(|one| one.part.candidate.clone()).collect();
        let parts = self.on_small_probes(small, |part| part.alternatives(&here.part, fitted, &known))?;
        let mut tried = self.with_whole_estimate(fitted, here, parts)?;
        self.search_thoroughly(fitted, here, &mut tried)?;
        // The small figures of a better kind may need another change.
        if let Some(best) = tried.iter().min_by(|a, b| a.cost().total_cmp(&b.cost())).cloned()
            && best.cost() < here.cost()
        {
            let mut parts = self.on_small_probes(small, |part| part.settled(best.part.clone()))?;
            parts.retain(|part| part.cost + GAIN_MIN < best.part.cost);
            parts.truncate(SETTLED);
            tried.extend(self.with_whole_estimate(fitted, &best, parts)?);
        }
        all.extend(tried.iter().cloned());
        Some(tried.into_iter().min_by(|a, b| a.cost().total_cmp(&b.cost())))
    }

    /// Searches the remaining kinds thoroughly, those with the best small figures first, until
    /// one explains the whole drive. The quick estimate says little about the parameters.
    fn search_thoroughly(&mut self, fitted: &FitResult, here: &JointFit, tried: &mut [JointFit]) -> Option<()> {
        let least = tried.iter().map(JointFit::cost).fold(here.cost(), f64::min);
        let mut open: Vec<&mut JointFit> = tried.iter_mut().filter(|one| one.cost() < RULED_OUT * least).collect();
        open.sort_by(|a, b| a.part.cost.total_cmp(&b.part.cost));
        for one in open.into_iter().take(LOOKED_INTO) {
            self.priors = priors(&FitResult { best: one.part.candidate.clone(), ..fitted.clone() }, self.plan);
            let (best, _) = self.searched(&one.part.candidate, ROUNDS_BY_CHANCE)?;
            if best.cost < one.whole.cost {
                one.whole = best;
            }
            if self.is_explained(&one.whole) || self.spent > SPENT_MAX {
                break;
            }
        }
        self.priors = priors(fitted, self.plan);
        Some(())
    }

    /// Adds a quick whole-drive estimate to those of `parts` that might cost less than `here`.
    fn with_whole_estimate(&mut self, fitted: &FitResult, here: &JointFit, parts: Vec<Point>) -> Option<Vec<JointFit>> {
        let mut all = Vec::new();
        for part in parts.into_iter().filter(|part| part.cost + GAIN_MIN < here.cost()) {
            if let Some(whole) = self.quick_estimate(fitted, &part.candidate, &here.whole.candidate)? {
                all.push(JointFit { part, whole });
            }
        }
        Some(all)
    }

    /// Runs `act` on the problem of the small probes.
    fn on_small_probes<T>(&mut self, found: &Findings, act: impl FnOnce(&mut Part<'_>) -> Option<T>) -> Option<T> {
        let plan = self.plan;
        let show = |candidate: &Candidate| shown(candidate, plan);
        let trials = Trials { tries: self.trials.tries, observer: &mut *self.trials.observer, tried: self.trials.tried };
        let mut part = Part { plan, found, priors: classes::priors(&plan.reported), trials, show: &show, loose: 1.0 };
        let came = act(&mut part);
        self.trials.tried = part.trials.tried;
        came
    }

    /// Quick fit of `kind` to the whole drive, with hidden properties of `best` or by arithmetic.
    fn quick_estimate(&mut self, fitted: &FitResult, kind: &Candidate, best: &Candidate) -> Option<Option<Point>> {
        let before = self.priors;
        self.priors = priors(&FitResult { best: kind.clone(), ..fitted.clone() }, self.plan);
        let inverted = invert::whole::invert(kind, &self.found, self.plan);
        let starts = discrete_variants(&inverted).into_iter().chain(discrete_variants(&super::with_whole_parameters(kind, best))).collect();
        let first = self.tried_in_order(starts)?.into_iter().next();
        let improved = match first {
            Some(point) => Some(self.improved(point, ROUNDS_OF_WHOLE)?),
            None => None,
        };
        self.priors = before;
        Some(improved)
    }
}

impl Part<'_> {
    /// Alternatives to `here` not in `known`, fitted to the small figures; best of families first.
    fn alternatives(&mut self, here: &Point, fitted: &FitResult, known: &[Candidate]) -> Option<Vec<Point>> {
        let all = neighbours(&here.candidate, !self.plan.reported.full_duplex)
            .into_iter()
            .chain(fitted.kinds.iter().chain(&fitted.families).cloned());
        let other = all.filter(|other| !known.iter().any(|known| alike(&known.kind, &other.kind))).collect();
        let mut points: Vec<Point> = self.try_all(other)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        families_first(&mut points);
        points.truncate(ADAPTED);
        let slopes = self.slopes(here)?;
        let mut points = self.adapted(points.into_iter().map(|point| (None, point)).collect(), &slopes)?;
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        families_first(&mut points);
        let mut each: Vec<Point> = Vec::new();
        for point in points {
            if each.len() < FITTED && !each.iter().any(|known| alike(&known.candidate.kind, &point.candidate.kind)) {
                let point = self.improve(point, ROUNDS_OF_PART)?;
                each.push(point);
            }
        }
        Some(each)
    }
}

/// Moves the best point of each family to the front of sorted points.
fn families_first(points: &mut [Point]) {
    let mut firsts = 0;
    for nth in 0..points.len() {
        let of = family(&points[nth].candidate.kind);
        if !points[..firsts].iter().any(|known| family(&known.candidate.kind) == of) {
            points[firsts..=nth].rotate_right(1);
            firsts += 1;
        }
    }
}

/// True if both kinds have the same figures on whole drives.
fn alike(a: &DriveKind, b: &DriveKind) -> bool {
    let flash = |kind: &DriveKind| (kind.channels, kind.dies_per_channel, kind.planes, kind.page_bytes, kind.unit_bytes);
    let rest = |kind: &DriveKind| (kind.slc, kind.folds, kind.compresses, kind.suspends);
    flash(a) == flash(b) && rest(a) == rest(b)
}
