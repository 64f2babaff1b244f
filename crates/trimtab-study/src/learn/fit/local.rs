//! The local optimiser: damped Gauss-Newton steps of the numbers of one kind.

use super::Problem;
use super::linear::Matrix;
use crate::learn::candidate::{Candidate, NUMBERS, OF_SMALL_PROBES};
use alloc::vec;
use alloc::vec::Vec;

/// Rounds of steps at most: one in ten fits needs more than six.
pub(super) const ROUNDS: u32 = 8;
/// A gain below this changes the likelihood of a drive by less than a sixth.
pub(super) const GAIN_MIN: f64 = 0.3;
/// Damping factors tried in each step; the best result wins.
const DAMPING: [f64; 4] = [0.0, 0.1, 1.0, 10.0];
/// Steps with the slopes of another point.
const ADAPTATIONS: u32 = 3;
/// Damping of these.
const DAMPING_OF_ONE: f64 = 0.05;
/// Step of a difference quotient, in the logarithm: above the resolution of nanoseconds,
/// below the distance of kinks.
const STEP: f64 = 0.04;
/// As [`STEP`], for sizes of a whole drive: two of the at least 160 superblocks of a
/// small one at the usual 10 % of spare space.
const STEP_OF_SIZES: f64 = 0.15;
/// Largest change of a logarithm in one step.
const MOVE_MAX: f64 = 1.5;

/// A candidate and its figures.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) candidate: Candidate,
    pub(super) shown: Vec<f64>,
    pub(super) cost: f64,
}

/// Derivative of the figures with respect to each number, one row per number.
pub(super) type Slopes = Vec<Vec<f64>>;

impl Problem<'_> {
    pub(super) fn residuals(&self, shown: &[f64]) -> Vec<f64> {
        self.judge().residuals(shown)
    }

    pub(super) fn misfit(&self, shown: &[f64]) -> f64 {
        self.judge().misfit(shown)
    }

    pub(super) fn cost(&self, candidate: &Candidate, shown: &[f64]) -> f64 {
        self.judge().cost(candidate, shown)
    }

    pub(super) fn slopes(&mut self, point: &Point) -> Option<Slopes> {
        let active: Vec<usize> =
            (0..NUMBERS).filter(|number| self.space.is_free(&point.candidate, *number)).collect();
        let moved = |number: &usize| {
            let mut candidate = point.candidate.clone();
            candidate.logs[*number] += step(&point.candidate, *number);
            candidate
        };
        let points = self.try_all(active.iter().map(moved).collect())?;
        let mut slopes = vec![vec![0.0; point.shown.len()]; NUMBERS];
        for (number, moved) in active.into_iter().zip(points) {
            if let Some(moved) = moved {
                let step = step(&point.candidate, number);
                slopes[number] = moved
                    .shown
                    .iter()
                    .zip(&point.shown)
                    .map(|(there, here)| (there - here) / step)
                    .collect();
            }
        }
        Some(slopes)
    }

    /// The matrix of the normal equations, including priors.
    pub(super) fn curvature(&self, candidate: &Candidate, slopes: &Slopes, damping: f64) -> Matrix {
        let mut matrix = Matrix::new(NUMBERS);
        for row in 0..NUMBERS {
            for column in 0..=row {
                let both = slopes[row].iter().zip(&slopes[column]).zip(&self.found.observations);
                let sum = both.map(|((a, b), one)| a * b / (one.sigma * one.sigma)).sum::<f64>()
                    / (self.loose * self.loose);
                matrix.set(row, column, sum);
            }
            let prior = self.space.prior(candidate, row).sigma;
            // A number that the figures do not depend on stays.
            let held = if self.space.is_free(candidate, row) { 1.0 / (prior * prior) } else { 1e6 };
            matrix.set(row, row, (matrix.at(row, row) + held) * (1.0 + damping));
        }
        matrix
    }

    /// The gradient for each number from `residuals` and the prior `means`.
    pub(super) fn pulls(
        &self,
        from: &Candidate,
        residuals: &[f64],
        means: &[f64; NUMBERS],
        slopes: &Slopes,
    ) -> Vec<f64> {
        let pull = |number: usize| {
            let figures = slopes[number].iter().zip(residuals).zip(&self.found.observations);
            let by_figures: f64 =
                figures.map(|((slope, off), one)| slope * off / (one.sigma * self.loose)).sum();
            let prior = self.space.prior(from, number).sigma;
            by_figures + (means[number] - from.logs[number]) / (prior * prior)
        };
        (0..NUMBERS).map(pull).collect()
    }

    /// The step that best explains the figures of `from` while staying close to the
    /// priors.
    fn step(&self, from: &Point, slopes: &Slopes, damping: f64) -> Option<Candidate> {
        let candidate = &from.candidate;
        let means =
            core::array::from_fn(|number| libm::log(self.space.prior(candidate, number).median));
        let pulls = self.pulls(candidate, &self.residuals(&from.shown), &means, slopes);
        let moves = self.curvature(candidate, slopes, damping).solve(&pulls)?;
        Some(self.moved(candidate, &moves))
    }

    /// `from` with the free numbers changed by `moves`.
    pub(super) fn moved(&self, from: &Candidate, moves: &[f64]) -> Candidate {
        let mut to = from.clone();
        for (number, moved) in moves.iter().enumerate() {
            if self.space.is_free(from, number) {
                to.logs[number] += moved.clamp(-MOVE_MAX, MOVE_MAX);
            }
        }
        to
    }

    /// Improves the numbers of a point, in at most `rounds`, until a round with the slopes
    /// of that point gains too little. Rounds before it correct the slopes by what their
    /// steps show.
    pub(super) fn improve(&mut self, mut point: Point, rounds: u32) -> Option<Point> {
        let mut slopes = self.slopes(&point)?;
        let mut are_its_own = true;
        for _ in 0..rounds {
            let steps =
                DAMPING.iter().filter_map(|damping| self.step(&point, &slopes, *damping)).collect();
            let steps = self.in_order_below(steps, &|_| point.cost)?;
            for step in steps.iter().rev() {
                correct(&mut slopes, &point, step);
            }
            let better = steps.into_iter().next().filter(|better| better.cost < point.cost);
            let gained = better.as_ref().map_or(0.0, |better| point.cost - better.cost);
            point = better.unwrap_or(point);
            if gained >= GAIN_MIN {
                are_its_own = false;
            } else if are_its_own {
                break;
            } else {
                slopes = self.slopes(&point)?;
                are_its_own = true;
            }
        }
        Some(point)
    }

    /// Adapts the numbers of points in a few steps. Starts with the slopes of a nearby
    /// point, and corrects them by what each step shows (Broyden 1965).
    pub(super) fn adapt(&mut self, points: Vec<Point>, slopes: &Slopes) -> Option<Vec<Point>> {
        let mut points: Vec<(Point, Slopes)> =
            points.into_iter().map(|point| (point, slopes.clone())).collect();
        for _ in 0..ADAPTATIONS {
            let step = |(point, slopes): &(Point, Slopes)| {
                self.step(point, slopes, DAMPING_OF_ONE).unwrap_or_else(|| point.candidate.clone())
            };
            let steps = points.iter().map(step).collect();
            for ((point, slopes), step) in points.iter_mut().zip(self.try_all(steps)?) {
                let Some(step) = step else { continue };
                correct(slopes, point, &step);
                if step.cost < point.cost {
                    *point = step;
                }
            }
        }
        let mut points: Vec<Point> = points.into_iter().map(|(point, _)| point).collect();
        sort(&mut points);
        Some(points)
    }
}

/// Corrects `slopes` so that they explain the difference between two points.
fn correct(slopes: &mut Slopes, from: &Point, to: &Point) {
    let moves: Vec<f64> =
        to.candidate.logs.iter().zip(from.candidate.logs).map(|(to, from)| to - from).collect();
    let squares: f64 = moves.iter().map(|moved| moved * moved).sum();
    if squares <= 0.0 {
        return;
    }
    for figure in 0..from.shown.len() {
        let expected: f64 =
            slopes.iter().zip(&moves).map(|(slopes, moved)| slopes[figure] * moved).sum();
        let off = to.shown[figure] - from.shown[figure] - expected;
        for (slopes, moved) in slopes.iter_mut().zip(&moves) {
            slopes[figure] += off * moved / squares;
        }
    }
}

/// Sorts points, those with the least cost first.
pub(super) fn sort(points: &mut [Point]) {
    points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
}

/// A step large enough to change a whole number.
fn step(candidate: &Candidate, number: usize) -> f64 {
    let one = libm::log(1.0 + 1.5 / candidate.number(number).max(1.0));
    if number < OF_SMALL_PROBES { STEP.max(one) } else { STEP_OF_SIZES }
}
