//! Fits the numbers of given kinds to a few published rates, without probes.

use super::{CandidateEvaluator, FitProblem, Point, ProbeFunction, Trials, explained_by};
use crate::learn::candidate::{Candidate, NUMBERS};
use crate::learn::classes;
use crate::learn::probes::{Findings, ProbePlan};
use alloc::vec::Vec;

/// Kinds that are fitted, out of all that are evaluated.
const FITTED: usize = 8;
const ROUNDS: u32 = 8;
/// Nine in ten values lie within this many standard deviations.
const NINE_OF_TEN: f64 = 1.645;

/// Drive parameters from published rates.
#[derive(Clone, Debug)]
pub struct RateFit {
    /// The most plausible drive with these rates.
    pub best: Candidate,
    /// Its figures as logarithms, in order.
    pub shown: Vec<f64>,
    /// Mean squared residual, in units of the errors.
    pub misfit: f64,
    /// For each number, the share of the prior uncertainty that the rates removed, from 0 to 1.
    pub learned: [f64; NUMBERS],
    /// For each number, the interval of nine in ten such drives, to first order.
    pub bounds: [(f64, f64); NUMBERS],
}

/// Fits the numbers of `kinds` to `found`. `None` if every candidate is impossible.
pub fn fit(
    found: &Findings,
    plan: &ProbePlan,
    kinds: Vec<Candidate>,
    show: &ProbeFunction<'_>,
    tries: &dyn CandidateEvaluator,
) -> Option<RateFit> {
    let mut observer = ();
    let trials = Trials { tries, observer: &mut observer, tried: 0 };
    let mut problem = FitProblem { plan, found, priors: classes::priors(&plan.reported), trials, show, loose: 1.0 };
    let mut points: Vec<Point> = problem.try_all(kinds)?.into_iter().flatten().collect();
    points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    points.truncate(FITTED);
    let mut fitted = Vec::new();
    for point in points {
        fitted.push(problem.improve(point, ROUNDS)?);
    }
    let best = fitted.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
    let slopes = problem.slopes(&best)?;
    let spread = problem.spread(&best.candidate, &slopes)?;
    let learned = problem.learned(&best.candidate, &spread);
    let bounds = core::array::from_fn(|number| {
        let off = NINE_OF_TEN * libm::sqrt(spread.at(number, number).max(0.0));
        (libm::exp(best.candidate.logs[number] - off), libm::exp(best.candidate.logs[number] + off))
    });
    let (misfit, _) = explained_by(found, &best.shown);
    Some(RateFit { misfit, learned, bounds, best: best.candidate, shown: best.shown })
}
