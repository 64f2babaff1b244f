//! Fits modelled drives to the figures: the best one, and others that explain them equally well.
//!
//! Residuals are differences of logarithms divided by the standard error of each figure. Class
//! priors count as further figures. Kinds (dies, rows, mapping unit ...) are varied one change at a
//! time, numbers are fitted with Levenberg-Marquardt steps. The ensemble uses randomised maximum
//! likelihood (Oliver, He and Reynolds 1996): each member is fitted to figures and priors perturbed
//! by their errors. Members that do not explain the figures are rejected.

mod changes;
mod kinds;
mod linear;
mod polish;
pub mod rates;
pub mod whole;

use super::candidate::{Candidate, FIELDS, NUMBERS};
use super::classes::{self, Prior};
use super::lab::ProbeSession;
use super::probes::{self, Findings, ProbePlan};
use super::{Observation, Observer};
use alloc::vec;
use alloc::vec::Vec;
use linear::Matrix;
use trimtab_drive::model;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::twin::explains;
use trimtab_sim::target::drive::DriveTarget;

/// Members of an ensemble.
pub const MEMBERS: usize = 64;
/// Limit of a residual's logarithm, so that a single inexplicable figure does not decide the fit.
const RESIDUAL_MAX: f64 = 0.7;
const ROUNDS: u32 = 8;
/// Error factor for comparing kinds: the errors of a small model are correlated.
const KIND_ERROR_FACTOR: f64 = 2.0;
/// Additional factor on the errors of members.
const MEMBER_ERROR_FACTOR: f64 = 1.5;
const GAIN_MIN: f64 = 0.3;
/// Damping factors tried in each step; the best result wins.
const DAMPING: [f64; 4] = [0.0, 0.1, 1.0, 10.0];
/// Step of a difference quotient, in the logarithm.
const STEP: f64 = 0.04;

/// Runs the probes of a plan on candidates. Implementations may evaluate candidates in
/// parallel; the results do not depend on the order.
pub trait CandidateEvaluator: Sync {
    /// The figures of each of `candidates` according to `show`; `None` for an impossible drive.
    fn all(&self, candidates: &[Candidate], show: &ProbeFunction<'_>) -> Vec<Option<Vec<f64>>>;
}

/// Runs the probes on one candidate.
pub type ProbeFunction<'a> = dyn Fn(&Candidate) -> Option<Vec<f64>> + Sync + 'a;

/// Evaluates candidates sequentially.
#[derive(Clone, Copy, Debug)]
pub struct SequentialEvaluator;

impl CandidateEvaluator for SequentialEvaluator {
    fn all(&self, candidates: &[Candidate], show: &ProbeFunction<'_>) -> Vec<Option<Vec<f64>>> {
        candidates.iter().map(show).collect()
    }
}

/// Logarithms of the probe results of a candidate, in probe order.
#[must_use]
pub fn shown(candidate: &Candidate, plan: &ProbePlan) -> Option<Vec<f64>> {
    let drive = model::build(&candidate.laboratory(plan), plan.seed).ok()?;
    let mut target = DriveTarget::new(drive, probes::DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    probes::there_already(&mut lab, plan).ok()?;
    let found = probes::run(&mut lab, plan, &mut ()).ok()?;
    Some(found.observations.iter().map(|one| libm::log(one.value_ns)).collect())
}

/// Misfit above which the best drive may be of the wrong kind. Of 29 randomly drawn drives
/// learned with `full`, eight had a larger misfit (docs/method/twin.md). Their intervals held
/// 8 to 100 % of the measured values, those of the others 78 to 100 %.
pub const OF_THE_RIGHT_KIND: f64 = 0.3;

/// Result of a fit.
#[derive(Clone, Debug)]
pub struct FitResult {
    /// The drive that explains the figures best.
    pub best: Candidate,
    /// Other drives that explain the figures, repeated with other hidden properties if few do.
    pub members: Vec<Candidate>,
    /// Number of distinct members that explain the figures.
    pub explained: u32,
    /// Mean squared residual of the figures; 1 matches their expected errors.
    pub misfit: f64,
    /// Deviation of the logarithms that two of three figures stay within.
    pub off: f64,
    /// For each number, the share of the prior uncertainty that the figures removed, from 0 to 1.
    pub learned: [f64; NUMBERS],
    /// Figures that the best drive does not explain, with its own value.
    pub odd: Vec<(Observation, f64)>,
    /// Number of candidates tried.
    pub tried: u32,
    /// Number of members rejected because they did not explain the figures.
    pub rejected: u32,
    /// The best drives of other kinds that explain the figures nearly as well.
    pub kinds: Vec<Candidate>,
    /// The best drive of each family (with or without SLC cache, emptied or not, with or without
    /// program suspension), however well it explains the figures.
    pub families: Vec<Candidate>,
    /// Result of the probes of the whole drive, if they ran.
    pub whole: Option<whole::WholeDriveFit>,
}

impl FitResult {
    /// True if the best drive explains the figures.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        explains(self.misfit, self.off())
    }

    /// The larger misfit of the small probes and of the whole drive.
    #[must_use]
    pub fn misfit_of_all(&self) -> f64 {
        self.misfit.max(self.whole.as_ref().map_or(0.0, |whole| whole.misfit))
    }

    /// The larger deviation of the small probes and of the whole drive.
    #[must_use]
    pub fn off(&self) -> f64 {
        self.off.max(self.whole.as_ref().map_or(0.0, |whole| whole.off))
    }
}

/// A candidate and its figures.
#[derive(Clone, Debug)]
struct Point {
    candidate: Candidate,
    shown: Vec<f64>,
    cost: f64,
}

struct Trials<'a> {
    tries: &'a dyn CandidateEvaluator,
    observer: &'a mut dyn Observer,
    tried: u32,
}

impl Trials<'_> {
    fn all(&mut self, candidates: &[Candidate], show: &ProbeFunction<'_>) -> Option<Vec<Option<Vec<f64>>>> {
        if self.observer.stopped() {
            return None;
        }
        let shown = self.tries.all(candidates, show);
        self.tried += candidates.len() as u32;
        self.observer.tried(self.tried);
        Some(shown)
    }
}

/// Evaluates candidates, and computes the cost of each for `found`.
fn points(
    candidates: Vec<Candidate>,
    shown: Vec<Option<Vec<f64>>>,
    found: &Findings,
    cost: impl Fn(&Candidate, &[f64]) -> f64,
) -> Vec<Option<Point>> {
    let point = |(candidate, shown): (Candidate, Option<Vec<f64>>)| {
        let shown = shown.filter(|shown| shown.len() == found.observations.len())?;
        let cost = cost(&candidate, &shown);
        Some(Point { candidate, shown, cost })
    };
    candidates.into_iter().zip(shown).map(point).collect()
}

/// The misfit of `shown`, and the unexplained figures.
fn explained_by(found: &Findings, shown: &[f64]) -> (f64, Vec<(Observation, f64)>) {
    let residuals = residuals(found, shown, 1.0);
    let misfit = residuals.iter().map(|one| one * one).sum::<f64>() / residuals.len().max(1) as f64;
    let odd = found.observations.iter().zip(shown).zip(&residuals).filter(|(_, residual)| libm::fabs(**residual) > 4.0);
    (misfit, odd.map(|((one, shown), _)| (one.clone(), libm::exp(*shown))).collect())
}

/// Deviation of the logarithms that two of three figures stay within.
fn off_by(found: &Findings, shown: &[f64]) -> f64 {
    let mut all: Vec<f64> = found.observations.iter().zip(shown).map(|(one, shown)| libm::fabs(libm::log(one.value_ns) - shown)).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() * 2 / 3).copied().unwrap_or(0.0)
}

struct FitProblem<'a> {
    plan: &'a ProbePlan,
    found: &'a Findings,
    priors: [Prior; NUMBERS],
    trials: Trials<'a>,
    show: &'a ProbeFunction<'a>,
    /// Factor on the errors of the figures.
    loose: f64,
}

/// Fits drives to `found`. Returns `None` if stopped, or if no candidate could be tried.
pub fn fit(found: &Findings, plan: &ProbePlan, tries: &dyn CandidateEvaluator, observer: &mut dyn Observer) -> Option<FitResult> {
    let trials = Trials { tries, observer, tried: 0 };
    let show = |candidate: &Candidate| shown(candidate, plan);
    let mut problem = FitProblem { plan, found, priors: classes::priors(&plan.reported), trials, show: &show, loose: 1.0 };
    let (best, others, families) = problem.best()?;
    problem.finished(best, &others, families)
}

impl FitProblem<'_> {
    /// Builds the ensemble around the best and other points. `families` are passed through.
    fn finished(&mut self, best: Point, others: &[Point], families: Vec<Candidate>) -> Option<FitResult> {
        let slopes = self.slopes(&best)?;
        let spread = self.spread(&best.candidate, &slopes)?;
        let (members, explained, rejected) = self.ensemble(&best, others)?;
        let learned = self.learned(&best.candidate, &spread);
        let (misfit, odd) = explained_by(self.found, &best.shown);
        let (tried, off) = (self.trials.tried, off_by(self.found, &best.shown));
        let kinds = others.iter().map(|point| point.candidate.clone()).collect();
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
            families,
            whole: None,
        })
    }

    fn try_all(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Option<Point>>> {
        let all = self.trials.all(&candidates, self.show)?;
        Some(points(candidates, all, self.found, |candidate, shown| self.cost(candidate, shown)))
    }

    /// Measured minus shown logarithms, in units of their errors.
    fn residuals(&self, shown: &[f64]) -> Vec<f64> {
        residuals(self.found, shown, self.loose)
    }

    fn cost(&self, candidate: &Candidate, shown: &[f64]) -> f64 {
        self.residuals(shown).iter().map(|one| one * one).sum::<f64>() + self.prior_distance(candidate)
    }

    /// Squared distance of a candidate from the class priors.
    fn prior_distance(&self, candidate: &Candidate) -> f64 {
        let of = |number: &usize| {
            let prior = self.priors[*number];
            let off = (candidate.logs[*number] - libm::log(prior.median)) / prior.sigma;
            off * off
        };
        let numbers: f64 = (0..NUMBERS).filter(|number| candidate.kind.has(*number)).map(|number| of(&number)).sum();
        let bits = candidate.shown_bits().map_or(0.0, |bits| classes::rarity_of_bits(bits, candidate.kind.slc));
        numbers + bits + classes::rarity(&candidate.kind, &self.plan.reported)
    }

    /// Derivative of the figures with respect to each number, one row per number.
    fn slopes(&mut self, point: &Point) -> Option<Vec<Vec<f64>>> {
        self.slopes_over(point, 1.0)
    }

    /// As [`slopes`](Self::slopes), with `wider` times the step.
    fn slopes_over(&mut self, point: &Point, wider: f64) -> Option<Vec<Vec<f64>>> {
        let steps: Vec<f64> = (0..NUMBERS).map(|number| wider * step(&point.candidate, number)).collect();
        let moved = |number: usize| {
            let mut candidate = point.candidate.clone();
            candidate.logs[number] += steps[number];
            candidate
        };
        let active: Vec<usize> = (0..NUMBERS).filter(|number| point.candidate.kind.has(*number)).collect();
        let points = self.try_all(active.iter().map(|number| moved(*number)).collect())?;
        let mut slopes = vec![vec![0.0; point.shown.len()]; NUMBERS];
        for (number, moved) in active.into_iter().zip(points) {
            if let Some(moved) = moved {
                slopes[number] = moved.shown.iter().zip(&point.shown).map(|(there, here)| (there - here) / steps[number]).collect();
            }
        }
        Some(slopes)
    }

    /// The matrix of the normal equations, including class priors.
    fn curvature(&self, candidate: &Candidate, slopes: &[Vec<f64>], damping: f64) -> Matrix {
        let mut matrix = Matrix::new(NUMBERS);
        for row in 0..NUMBERS {
            for column in 0..=row {
                let both = slopes[row].iter().zip(&slopes[column]).zip(&self.found.observations);
                let sum = both.map(|((a, b), one)| a * b / (one.sigma * one.sigma)).sum::<f64>() / (self.loose * self.loose);
                matrix.set(row, column, sum);
            }
            let prior = self.priors[row].sigma;
            let held = if candidate.kind.has(row) { 1.0 / (prior * prior) } else { 1e6 };
            matrix.set(row, row, (matrix.at(row, row) + held) * (1.0 + damping));
        }
        matrix
    }

    fn spread(&self, candidate: &Candidate, slopes: &[Vec<f64>]) -> Option<Matrix> {
        self.curvature(candidate, slopes, 0.0).inverse()
    }

    /// For each number, the share of the prior uncertainty that the figures removed.
    fn learned(&self, candidate: &Candidate, spread: &Matrix) -> [f64; NUMBERS] {
        core::array::from_fn(|number| {
            let left = libm::sqrt(spread.at(number, number).max(0.0)) / self.priors[number].sigma;
            if candidate.kind.has(number) { (1.0 - left * left).clamp(0.0, 1.0) } else { 0.0 }
        })
    }

    /// The step that best explains `residuals` while staying close to the class `means`.
    fn step(&self, from: &Candidate, residuals: &[f64], means: &[f64; NUMBERS], slopes: &[Vec<f64>], damping: f64) -> Option<Candidate> {
        let pulls = self.pulls(from, residuals, means, slopes);
        let moves = self.curvature(from, slopes, damping).solve(&pulls)?;
        let mut to = from.clone();
        for (number, moved) in moves.into_iter().enumerate() {
            if from.kind.has(number) {
                to.logs[number] += moved.clamp(-1.5, 1.5);
            }
        }
        Some(to)
    }

    /// Steps with increasing damping.
    fn damped(&self, from: &Candidate, residuals: &[f64], means: &[f64; NUMBERS], slopes: &[Vec<f64>]) -> Vec<Candidate> {
        DAMPING.iter().filter_map(|damping| self.step(from, residuals, means, slopes, *damping)).collect()
    }

    /// Adapts the other numbers of points with a deliberately moved one, using nearby `slopes`.
    fn adapted(&mut self, mut points: Vec<(Option<usize>, Point)>, slopes: &[Vec<f64>]) -> Option<Vec<Point>> {
        let means = self.means();
        for _ in 0..2 {
            let steps = points.iter().map(|(moved, point)| {
                let mut slopes = slopes.to_vec();
                if let Some(moved) = moved {
                    slopes[*moved].fill(0.0);
                }
                let residuals = self.residuals(&point.shown);
                let step = self.step(&point.candidate, &residuals, &means, &slopes, 0.05);
                let mut to = step.unwrap_or_else(|| point.candidate.clone());
                if let Some(moved) = moved {
                    to.logs[*moved] = point.candidate.logs[*moved];
                }
                to
            });
            let steps: Vec<Candidate> = steps.collect();
            for ((_, point), step) in points.iter_mut().zip(self.try_all(steps)?) {
                if let Some(step) = step.filter(|step| step.cost < point.cost) {
                    *point = step;
                }
            }
        }
        Some(points.into_iter().map(|(_, point)| point).collect())
    }

    /// The gradient for each number from `residuals` and the class `means`.
    fn pulls(&self, from: &Candidate, residuals: &[f64], means: &[f64; NUMBERS], slopes: &[Vec<f64>]) -> Vec<f64> {
        let pull = |number: usize| {
            let figures = slopes[number].iter().zip(residuals).zip(&self.found.observations);
            let by_figures: f64 = figures.map(|((slope, off), one)| slope * off / (one.sigma * self.loose)).sum();
            let prior = self.priors[number].sigma;
            by_figures + (means[number] - from.logs[number]) / (prior * prior)
        };
        (0..NUMBERS).map(pull).collect()
    }

    fn means(&self) -> [f64; NUMBERS] {
        self.priors.map(|prior| libm::log(prior.median))
    }

    /// Improves the numbers of a candidate until a round gains too little.
    fn improve(&mut self, mut point: Point, rounds: u32) -> Option<Point> {
        let means = self.means();
        for _ in 0..rounds {
            let slopes = self.slopes(&point)?;
            let residuals = self.residuals(&point.shown);
            let steps = self.damped(&point.candidate, &residuals, &means, &slopes);
            let better = self.try_all(steps)?.into_iter().flatten().min_by(|a, b| a.cost.total_cmp(&b.cost));
            let Some(better) = better.filter(|better| better.cost < point.cost) else { break };
            let gained = point.cost - better.cost;
            point = better;
            if gained < GAIN_MIN {
                break;
            }
        }
        Some(point)
    }

    /// Draws the members, choosing kinds by how well they explain the figures. Also returns how
    /// many members explained the figures and how many were rejected.
    fn ensemble(&mut self, best: &Point, others: &[Point]) -> Option<(Vec<Candidate>, u32, u32)> {
        let mut random = Stream::new(self.plan.seed, "ensemble");
        self.loose = MEMBER_ERROR_FACTOR * error_factor(self.misfit(best), best.shown.len());
        let mut kinds = Vec::new();
        for point in core::iter::once(best).chain(others) {
            let slopes = self.slopes(point)?;
            if let Some(spread) = self.spread(&point.candidate, &slopes) {
                kinds.push(Posterior { point, slopes, spread });
            }
        }
        let temper = KIND_ERROR_FACTOR * (self.loose / MEMBER_ERROR_FACTOR) * (self.loose / MEMBER_ERROR_FACTOR);
        let weights: Vec<f64> = kinds.iter().map(|kind| libm::exp(-0.5 / temper * (kind.point.cost - best.cost)).min(1.0)).collect();
        let known = (0..NUMBERS).filter(|number| best.candidate.kind.has(*number)).count() as f64;
        let most = chi_squared_99(known);
        let (explaining, rejected) = self.explaining(&kinds, &weights, most, &mut random)?;
        let explained = explaining.len();
        let again = |random: &mut Stream| explaining.get(random.below(explained as u64) as usize).unwrap_or(&best.candidate).clone();
        let others: Vec<Candidate> = (explained..MEMBERS).map(|_| again(&mut random)).collect();
        let hiding = |candidate: Candidate| {
            let drawn = classes::hidden(&mut random, &self.plan.reported, candidate.kind.slc);
            classes::programs_as_bits(candidate.hiding(drawn))
        };
        let members = explaining.into_iter().chain(others).map(hiding).collect();
        Some((members, explained as u32, rejected))
    }

    /// Draws members around `kinds` in proportion to their weights. Keeps those whose misfit
    /// exceeds that of their kind by at most `most`, and returns the number of the others.
    fn explaining(&mut self, kinds: &[Posterior<'_>], weights: &[f64], most: f64, random: &mut Stream) -> Option<(Vec<Candidate>, u32)> {
        let (mut explaining, mut rejected, mut shrunk) = (Vec::new(), 0, 1.0);
        for round in 0..6 {
            let missing = MEMBERS - explaining.len();
            let starts: Vec<&Posterior<'_>> = (0..missing).map(|_| &kinds[pick(random, weights)]).collect();
            let first: Vec<Draw> = starts.iter().map(|start| self.draw(start.point, shrunk, random)).collect();
            let candidates = first.iter().zip(&starts).map(|(draw, start)| self.towards(draw, start.point, start)).collect();
            let points = self.try_all(candidates)?;
            // Repeats from the new point, because the figures are not linear in the numbers.
            let again = first.iter().zip(&points).zip(&starts).map(|((draw, point), start)| match point {
                Some(point) => self.towards(draw, point, start),
                None => start.point.candidate.clone(),
            });
            let again: Vec<Candidate> = again.collect();
            let later = self.try_all(again)?;
            for ((one, two), start) in points.into_iter().zip(later).zip(&starts) {
                let better = [one, two].into_iter().flatten().min_by(|a, b| self.misfit(a).total_cmp(&self.misfit(b)));
                match better.filter(|point| self.misfit(point) <= self.misfit(start.point) + most) {
                    Some(point) => explaining.push(point.candidate),
                    None => rejected += 1,
                }
            }
            if explaining.len() >= MEMBERS {
                break;
            }
            // Moves draws closer if they lie where figures saturate.
            if round >= 2 {
                shrunk *= 0.7;
            }
        }
        Some((explaining, rejected))
    }

    fn misfit(&self, point: &Point) -> f64 {
        self.residuals(&point.shown).iter().map(|one| one * one).sum()
    }

    fn draw(&self, start: &Point, scale: f64, random: &mut Stream) -> Draw {
        let mut normal = || scale * random.normal();
        let noise = start.shown.iter().map(|_| normal()).collect();
        let means = core::array::from_fn(|number| libm::log(self.priors[number].median) + self.priors[number].sigma * normal());
        Draw { noise, means }
    }

    fn towards(&self, draw: &Draw, from: &Point, around: &Posterior<'_>) -> Candidate {
        let residuals: Vec<f64> = self.residuals(&from.shown).iter().zip(&draw.noise).map(|(residual, noise)| residual + noise).collect();
        let mut to = from.candidate.clone();
        let pulls = self.pulls(&from.candidate, &residuals, &draw.means, &around.slopes);
        for (number, moved) in around.spread.times(&pulls).into_iter().enumerate() {
            if to.kind.has(number) {
                to.logs[number] += moved.clamp(-3.0, 3.0);
            }
        }
        to
    }
}

/// A kind and the posterior around its best numbers.
struct Posterior<'a> {
    point: &'a Point,
    slopes: Vec<Vec<f64>>,
    spread: Matrix,
}

struct Draw {
    noise: Vec<f64>,
    means: [f64; NUMBERS],
}

/// Measured minus shown logarithms, in units of `loose` times their errors.
fn residuals(found: &Findings, shown: &[f64], loose: f64) -> Vec<f64> {
    let each = |(one, shown): (&Observation, &f64)| limit_residual(libm::log(one.value_ns) - shown) / (one.sigma * loose);
    found.observations.iter().zip(shown).map(each).collect()
}

/// Error factor of members if even the best drive fits worse than expected (Birge 1932).
fn error_factor(squares: f64, figures: usize) -> f64 {
    libm::sqrt(squares / figures.max(1) as f64).max(1.0)
}

/// Approximate 99th percentile of a chi-squared distribution (Wilson and Hilferty).
fn chi_squared_99(freedom: f64) -> f64 {
    freedom * libm::pow(1.0 - 2.0 / (9.0 * freedom) + 2.33 * libm::sqrt(2.0 / (9.0 * freedom)), 3.0)
}

/// Limits a difference of logarithms to [`RESIDUAL_MAX`].
fn limit_residual(off: f64) -> f64 {
    off / libm::sqrt(1.0 + off * off / (RESIDUAL_MAX * RESIDUAL_MAX))
}

/// A step large enough to change a whole number.
fn step(candidate: &Candidate, number: usize) -> f64 {
    let one = libm::log(1.0 + 1.5 / candidate.number(number).max(1.0));
    STEP.max(one)
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

const _: () = assert!(FIELDS.len() == NUMBERS, "each number is a field");
