//! Fits the numbers of given kinds to a few published rates, without probes.

use super::local::{GAIN_MIN, Point, ROUNDS};
use super::part::SmallProbes;
use super::trials::Trials;
use super::{CandidateEvaluator, ProbeFunction, Problem};
use crate::learn::candidate::{Candidate, NUMBERS};
use crate::learn::lab::IsWorth;
use crate::learn::probes::{Findings, ProbePlan};
use alloc::vec::Vec;

/// Kinds that are fitted, out of all that are evaluated.
const FITTED: usize = 8;
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
    /// For each number, the share of the prior uncertainty that the rates removed, from 0
    /// to 1.
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
    let show = |candidate: &Candidate, _: &IsWorth<'_>| show(candidate);
    let space = SmallProbes::new(plan, &show);
    let mut problem =
        Problem::new(&space, found, plan.seed, Trials { tries, observer: &mut observer, tried: 0 });
    let mut fitted = Vec::new();
    for point in problem.in_order(kinds)?.into_iter().take(FITTED) {
        fitted.push(converged(&mut problem, point)?);
    }
    let best = fitted.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
    let (learned, bounds) = (problem.learned(&best)?, problem.bounds(&best, NINE_OF_TEN)?);
    let (misfit, ..) = problem.explained_by(&best.shown);
    Some(RateFit { misfit, learned, bounds, best: best.candidate, shown: best.shown })
}

/// Improves a point in rounds that each compute its slopes: rates are few and cheap.
fn converged(problem: &mut Problem<'_>, mut point: Point) -> Option<Point> {
    for _ in 0..ROUNDS {
        let before = point.cost;
        point = problem.improve(point, 1)?;
        if before - point.cost < GAIN_MIN {
            break;
        }
    }
    Some(point)
}
