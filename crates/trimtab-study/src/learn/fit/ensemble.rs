//! The ensemble: drives of several kinds, each fitted to perturbed figures and priors.

use super::linear::Matrix;
use super::local::{Point, Slopes};
use super::{FitResult, Observation, Problem, WholeDriveFit, whole};
use crate::learn::candidate::{Candidate, NUMBERS, OF_SMALL_PROBES, at};
use crate::learn::classes;
use crate::learn::probes::ProbePlan;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

/// Members of an ensemble: bounds of nine in ten leave three on either side.
pub const MEMBERS: usize = 64;
/// Error factor for comparing kinds: the errors of a small model are correlated.
const KIND_ERROR_FACTOR: f64 = 2.0;
/// Additional factor on the errors of members, for the same reason.
const MEMBER_ERROR_FACTOR: f64 = 1.5;
/// Steps towards perturbed figures: one, and a correction because the figures are not
/// linear.
const STEPS: u32 = 2;
/// How often members that do not explain the figures are drawn again.
const ATTEMPTS: u32 = 4;
/// Residuals, in units of their errors, above which a figure is listed as unexplained.
const ODD: f64 = 4.0;

/// A point, and what the figures leave open around it.
pub(super) struct Spread {
    point: Point,
    slopes: Slopes,
    covariance: Matrix,
}

struct Draw {
    noise: Vec<f64>,
    means: [f64; NUMBERS],
}

impl Problem<'_> {
    pub(super) fn spread(&mut self, point: &Point) -> Option<Spread> {
        let slopes = self.slopes(point)?;
        let covariance = self.curvature(&point.candidate, &slopes, 0.0).inverse()?;
        Some(Spread { point: point.clone(), slopes, covariance })
    }

    /// For each number, the share of the prior uncertainty that the figures removed.
    pub(super) fn learned(&mut self, point: &Point) -> Option<[f64; NUMBERS]> {
        let spread = self.spread(point)?;
        Some(core::array::from_fn(|number| {
            let left = libm::sqrt(spread.covariance.at(number, number).max(0.0))
                / self.space.prior(&point.candidate, number).sigma;
            if self.space.is_free(&point.candidate, number) {
                (1.0 - left * left).clamp(0.0, 1.0)
            } else {
                0.0
            }
        }))
    }

    /// For each number, the interval within `sigmas` standard deviations, to first order.
    pub(super) fn bounds(&mut self, point: &Point, sigmas: f64) -> Option<[(f64, f64); NUMBERS]> {
        let spread = self.spread(point)?;
        Some(core::array::from_fn(|number| {
            let off = sigmas * libm::sqrt(spread.covariance.at(number, number).max(0.0));
            (
                libm::exp(point.candidate.logs[number] - off),
                libm::exp(point.candidate.logs[number] + off),
            )
        }))
    }

    /// Builds the ensemble around `kinds`, the best first, from the small probes.
    pub(super) fn finished(&mut self, kinds: Vec<Point>, plan: &ProbePlan) -> Option<FitResult> {
        let best = kinds[0].clone();
        let learned = self.learned(&best)?;
        let mut random = Stream::new(self.seed, "ensemble");
        let (spreads, weights) = self.weighted(&kinds)?;
        let (mut members, mut rejected) = (Vec::new(), 0);
        for _ in 0..ATTEMPTS {
            let starts: Vec<(Candidate, &Spread)> = (members.len()..MEMBERS)
                .map(|_| &spreads[pick(&mut random, &weights)])
                .map(|spread| (spread.point.candidate.clone(), spread))
                .collect();
            let drawn = self.perturbed(starts, &mut random)?;
            rejected += drawn.iter().filter(|one| one.is_none()).count() as u32;
            members.extend(drawn.into_iter().flatten());
        }
        let explained = members.len() as u32;
        repeat(&mut members, &best.candidate, &mut random);
        let hide = |one: Candidate| {
            let drawn = classes::with_hidden_drawn(one.clone(), &mut random, &plan.reported);
            classes::programs_as_bits(one.hiding(&drawn))
        };
        let members = members.into_iter().map(hide).collect();
        let (misfit, off, odd) = self.explained_by(&best.shown);
        let kinds = kinds[1..].iter().map(|point| point.candidate.clone()).collect();
        let tried = self.trials.tried;
        Some(FitResult {
            misfit,
            off,
            learned,
            odd,
            tried,
            rejected,
            best: best.candidate,
            members,
            explained,
            kinds,
            whole: None,
        })
    }

    /// Fits each member of `fitted` to perturbed figures of the whole drive, around
    /// `points`.
    pub(super) fn refined(&mut self, fitted: FitResult, points: Vec<Point>) -> Option<FitResult> {
        let best = points[0].clone();
        let of_whole = self.learned(&best)?;
        let mut learned = fitted.learned;
        for number in (OF_SMALL_PROBES..NUMBERS).chain([at::PROGRAM, at::READ]) {
            learned[number] =
                if learned[number] < whole::KNOWN_MIN { of_whole[number] } else { learned[number] };
        }
        let mut random = Stream::new(self.seed, "whole ensemble");
        let (spreads, weights) = self.weighted(&points)?;
        let starts: Vec<(Candidate, &Spread)> = fitted
            .members
            .iter()
            .map(|member| {
                let alike = |spread: &Spread| {
                    f64::from(u8::from(spread.point.candidate.is_kind_of(member)))
                };
                let of_kind: Vec<f64> = spreads
                    .iter()
                    .zip(&weights)
                    .map(|(spread, weight)| weight * alike(spread))
                    .collect();
                let any = of_kind.iter().all(|weight| *weight <= 0.0);
                let spread = &spreads[pick(&mut random, if any { &weights } else { &of_kind })];
                (whole::on_whole_drive(member, &spread.point.candidate), spread)
            })
            .collect();
        let drawn = self.perturbed(starts, &mut random)?;
        let mut members: Vec<Candidate> = drawn.into_iter().flatten().collect();
        let explained = members.len() as u32;
        let rejected = fitted.rejected + MEMBERS as u32 - explained;
        repeat(&mut members, &best.candidate, &mut random);
        let (misfit, off, odd) = self.explained_by(&best.shown);
        Some(FitResult {
            learned,
            odd: fitted.odd.iter().cloned().chain(odd).collect(),
            tried: self.trials.tried,
            rejected,
            explained: fitted.explained.min(explained),
            whole: Some(WholeDriveFit { misfit, off }),
            best: best.candidate,
            members,
            ..fitted
        })
    }

    /// Spreads of `kinds`, the best first, and their likelihoods. Widens the errors for
    /// members.
    fn weighted(&mut self, kinds: &[Point]) -> Option<(Vec<Spread>, Vec<f64>)> {
        // The error factor if even the best drive fits worse than expected (Birge 1932).
        let widened =
            libm::sqrt(self.misfit(&kinds[0].shown) / kinds[0].shown.len().max(1) as f64).max(1.0);
        self.loose = MEMBER_ERROR_FACTOR * widened;
        let mut spreads = Vec::new();
        for point in kinds {
            spreads.push(self.spread(point)?);
        }
        let weight = |point: &Point| {
            libm::exp(-0.5 / KIND_ERROR_FACTOR * (point.cost - kinds[0].cost) / (widened * widened))
                .min(1.0)
        };
        Some((spreads, kinds.iter().map(weight).collect()))
    }

    /// Steps from each start towards the optimum of a draw of figures and priors. Halves
    /// a step that leads too far, and keeps the result that explains the figures best,
    /// because they are not linear. The inner value is `None` if no result explains them.
    fn perturbed(
        &mut self,
        starts: Vec<(Candidate, &Spread)>,
        random: &mut Stream,
    ) -> Option<Vec<Option<Candidate>>> {
        let draws: Vec<Draw> =
            starts.iter().map(|(start, spread)| self.draw(start, spread, random)).collect();
        let mut kept: Vec<Option<(f64, Candidate)>> = vec![None; starts.len()];
        let mut next: Vec<Candidate> = starts.iter().map(|(start, _)| start.clone()).collect();
        for step in 0..=STEPS {
            let points = self.try_all(next.clone())?;
            for (nth, point) in points.into_iter().enumerate() {
                let (start, spread) = &starts[nth];
                let most = self.misfit(&spread.point.shown) + self.margin(&spread.point.candidate);
                let fitting = point
                    .map(|point| (self.misfit(&point.shown), point))
                    .filter(|(misfit, _)| step == 0 || *misfit <= most);
                if let Some((misfit, point)) = fitting {
                    next[nth] = self.towards(&draws[nth], &point, spread);
                    if step > 0 && kept[nth].as_ref().is_none_or(|(least, _)| misfit < *least) {
                        kept[nth] = Some((misfit, point.candidate));
                    }
                } else {
                    let from = kept[nth].as_ref().map_or(start, |(_, candidate)| candidate);
                    for (to, from) in next[nth].logs.iter_mut().zip(from.logs) {
                        *to = f64::midpoint(*to, from);
                    }
                }
            }
        }
        Some(kept.into_iter().map(|kept| kept.map(|(_, candidate)| candidate)).collect())
    }

    /// The 99th percentile of a chi-squared distribution with as many degrees of freedom
    /// as numbers (Wilson and Hilferty).
    fn margin(&self, candidate: &Candidate) -> f64 {
        let freedom = (0..NUMBERS).filter(|number| candidate.has(*number)).count() as f64;
        freedom
            * libm::pow(1.0 - 2.0 / (9.0 * freedom) + 2.33 * libm::sqrt(2.0 / (9.0 * freedom)), 3.0)
    }

    fn draw(&self, start: &Candidate, spread: &Spread, random: &mut Stream) -> Draw {
        let noise = spread.point.shown.iter().map(|_| random.normal()).collect();
        let mean = |number: usize| {
            let prior = self.space.prior(start, number);
            libm::log(prior.median) + prior.sigma * random.normal()
        };
        Draw { noise, means: core::array::from_fn(mean) }
    }

    fn towards(&self, draw: &Draw, from: &Point, around: &Spread) -> Candidate {
        let residuals: Vec<f64> = self
            .residuals(&from.shown)
            .iter()
            .zip(&draw.noise)
            .map(|(residual, noise)| residual + noise)
            .collect();
        let pulls = self.pulls(&from.candidate, &residuals, &draw.means, &around.slopes);
        self.moved(&from.candidate, &around.covariance.times(&pulls))
    }

    /// The misfit of `shown`, the deviation that two of three figures stay within, and
    /// the unexplained figures.
    pub(super) fn explained_by(&self, shown: &[f64]) -> (f64, f64, Vec<(Observation, f64)>) {
        let figures = || self.found.observations.iter().zip(shown);
        let residuals = || self.residuals(shown).into_iter().map(|one| one * self.loose);
        let misfit = residuals().map(|one| one * one).sum::<f64>() / shown.len().max(1) as f64;
        let mut off: Vec<f64> =
            figures().map(|(one, shown)| libm::fabs(libm::log(one.value_ns) - shown)).collect();
        off.sort_by(f64::total_cmp);
        let off = off.get(off.len() * 2 / 3).copied().unwrap_or(0.0);
        let odd = figures().zip(residuals()).filter(|(_, residual)| libm::fabs(*residual) > ODD);
        (misfit, off, odd.map(|((one, shown), _)| (one.clone(), libm::exp(*shown))).collect())
    }
}

/// Fills up `members` with repetitions, or with `best` if there are none.
fn repeat(members: &mut Vec<Candidate>, best: &Candidate, random: &mut Stream) {
    let explained = members.len();
    while members.len() < MEMBERS {
        members.push(if explained == 0 {
            best.clone()
        } else {
            members[random.below(explained as u64) as usize].clone()
        });
    }
}

/// Draws an index with probability proportional to `weights`.
fn pick(random: &mut Stream, weights: &[f64]) -> usize {
    let mut left = random.unit() * weights.iter().sum::<f64>();
    for (nth, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return nth;
        }
    }
    0
}
