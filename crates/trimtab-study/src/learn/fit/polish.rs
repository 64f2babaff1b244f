//! Refines numbers where gradient steps end: figures have kinks and jumps (pieces of a burst,
//! whole rows, the slower of two limits) that difference quotients cannot follow.

use super::super::candidate::{Candidate, NUMBERS};
use super::{FitProblem, GAIN_MIN, Point};
use alloc::vec::Vec;

/// Changes of the logarithm of one number; the others are adapted.
const JUMPS: [f64; 12] = [-0.6, -0.3, -0.18, -0.1, -0.05, -0.02, 0.02, 0.05, 0.1, 0.18, 0.3, 0.6];
/// Step factors for slopes.
const WIDER: [f64; 3] = [-1.0, 3.0, -5.0];
/// Number of jumps that are followed.
const FOLLOWED: usize = 24;
const ROUNDS: u32 = 16;

impl FitProblem<'_> {
    /// Improves numbers with other slopes, and with jumps of one number that the others follow.
    pub(super) fn polish(&mut self, mut point: Point) -> Option<Point> {
        for _ in 0..ROUNDS {
            let before = point.cost;
            point = self.jumped(point)?;
            point = self.by_wider_slopes(point)?;
            if before - point.cost < GAIN_MIN {
                break;
            }
        }
        Some(point)
    }

    fn by_wider_slopes(&mut self, mut point: Point) -> Option<Point> {
        let means = self.means();
        for wider in WIDER {
            let slopes = self.slopes_over(&point, wider)?;
            let residuals = self.residuals(&point.shown);
            let steps = self.damped(&point.candidate, &residuals, &means, &slopes);
            point = self.best_of(point, steps)?;
        }
        Some(point)
    }

    fn best_of(&mut self, point: Point, others: Vec<Candidate>) -> Option<Point> {
        let points = self.try_all(others)?;
        points.into_iter().flatten().chain(core::iter::once(point)).min_by(|a, b| a.cost.total_cmp(&b.cost))
    }

    fn jumped(&mut self, point: Point) -> Option<Point> {
        let slopes = self.slopes(&point)?;
        let mut jumps = Vec::new();
        for number in (0..NUMBERS).filter(|number| point.candidate.kind.has(*number)) {
            for jump in JUMPS {
                let mut to = point.candidate.clone();
                to.logs[number] += jump;
                jumps.push((number, to));
            }
        }
        let tried = self.try_all(jumps.iter().map(|(_, to)| to.clone()).collect())?;
        let mut tried: Vec<(Option<usize>, Point)> =
            jumps.iter().zip(tried).filter_map(|((number, _), point)| Some((Some(*number), point?))).collect();
        tried.sort_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
        tried.truncate(FOLLOWED);
        let points = self.adapted(tried, &slopes)?;
        points.into_iter().chain(core::iter::once(point)).min_by(|a, b| a.cost.total_cmp(&b.cost))
    }
}
