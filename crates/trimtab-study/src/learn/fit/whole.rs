//! Parameters that are only visible on a fully written drive: spare space, SLC cache, victim
//! selection. Fitted last, around the drives that explain the small probes, by running the
//! probes of the whole drive on scaled-down candidates.

mod kind_search;
mod step_search;

use super::super::Observer;
use super::super::candidate::{Candidate, NUMBERS, at};
use super::super::classes::{self, Prior, SIZES};
use super::super::invert;
use super::super::lab::ProbeSession;
use super::super::probes::{self, Findings, ProbePlan};
use super::linear::Matrix;
use super::{
    CandidateEvaluator, FitResult, KIND_ERROR_FACTOR, MEMBER_ERROR_FACTOR, Point, Trials, chi_squared_99, explained_by, off_by, pick,
    points,
};
use crate::study::small::SmallDrive;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::model;
use trimtab_drive::rng::Stream;
use trimtab_sim::target::drive::DriveTarget;

/// Indices of the parameters.
pub mod of {
    /// Spare space.
    pub const SPARE: usize = 0;
    /// Erase time of a block.
    pub const ERASE: usize = 1;
    /// Minimum SLC cache, on a full drive.
    pub const SLC_LEAST: usize = 2;
    /// Additional SLC cache on an empty drive.
    pub const SLC_MORE: usize = 3;
    /// Program time of a row of native cells, if new data do not go there first.
    pub const PROGRAM: usize = 4;
    /// Read time of a page of native cells.
    pub const READ: usize = 5;
    /// Memory for the map, if not all of it fits.
    pub const MAP: usize = 6;
}

/// Candidates fitted per victim selection policy.
const TRIED: usize = 1;
/// Candidates with this many times the cost of the best are not fitted.
const COST_RATIO_MAX: f64 = 5.0;
const ROUNDS: u32 = 6;
/// Factors on the inverted spare space that give further starting points.
const SPARES: [f64; 4] = [1.0, 0.45, 0.7, 1.5];
/// Map memory to try, as `Hidden::map_ppm`, for drives that do not hold the whole map.
const MAPS: [u32; 3] = [25, 100, 350];
/// Largest excess cost of a point from which the search continues.
const WORSE_MAX: f64 = 12.0;
/// Steps of difference quotients. The spare space of small drives changes by whole superblocks.
const STEPS: [f64; SIZES] = [0.2, 0.08, 0.08, 0.08, 0.08, 0.08, 0.15];
/// Jumps of single parameters, for the same reason.
const JUMPS: [(usize, f64); 14] = [
    (of::SPARE, -0.14),
    (of::SPARE, -0.06),
    (of::SPARE, 0.06),
    (of::SPARE, 0.14),
    (of::SLC_LEAST, -0.25),
    (of::SLC_LEAST, 0.25),
    (of::SLC_MORE, -0.25),
    (of::SLC_MORE, 0.25),
    (of::PROGRAM, -0.4),
    (of::PROGRAM, 0.3),
    (of::ERASE, -0.5),
    (of::ERASE, 0.5),
    (of::MAP, -0.4),
    (of::MAP, 0.4),
];
/// Number of other seeds on which the best drive is run, to measure random variation.
const OTHER_SEEDS: u64 = 5;
/// Lower limit of the prior standard deviation from the small probes.
const KNOWN_MIN: f64 = 0.01;
/// Above this standard deviation, the small probes count as uninformative.
const UNKNOWN: f64 = 0.5;

/// Result of the fit to the whole drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeDriveFit {
    /// As [`Fitted::misfit`], for the whole drive.
    pub misfit: f64,
    /// As [`Fitted::off`], for the whole drive.
    pub off: f64,
    /// For each parameter, the share of the prior uncertainty that these figures removed.
    pub learned: [f64; SIZES],
}

/// Logarithms of the results of the whole-drive probes on a scaled-down candidate, in order.
#[must_use]
pub fn shown(candidate: &Candidate, plan: &ProbePlan) -> Option<Vec<f64>> {
    shown_by(candidate, plan, plan.seed)
}

/// As [`shown`], on a drive built with `seed`.
fn shown_by(candidate: &Candidate, plan: &ProbePlan, seed: u64) -> Option<Vec<f64>> {
    let small = SmallDrive::of(&candidate.spec("candidate", "a candidate", &plan.reported), probes::whole::SIZE).ok()?.spec;
    let whole = plan.whole?.on(small.capacity_bytes);
    let mut target = DriveTarget::new(model::build(&small, seed).ok()?, probes::DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    probes::whole::there_already(&mut lab, &whole).ok()?;
    let found = probes::run_whole(&mut lab, &ProbePlan { whole: Some(whole), ..*plan }, &mut ()).ok()?;
    Some(found.observations.iter().map(|one| libm::log(one.value_ns)).collect())
}

struct WholeFitProblem<'a> {
    found: Findings,
    plan: &'a ProbePlan,
    priors: [Prior; SIZES],
    trials: Trials<'a>,
    loose: f64,
    /// Number of candidates that ran the probes of the whole drive.
    spent: usize,
}

/// Fits the drives of `fitted`, which explain `small`, to the whole-drive figures `found`.
/// Returns `None` if stopped, or if no candidate could be tried.
pub fn refine(
    fitted: &FitResult,
    (small, found): (&Findings, &Findings),
    plan: &ProbePlan,
    tries: &dyn CandidateEvaluator,
    observer: &mut dyn Observer,
) -> Option<FitResult> {
    let priors = priors(fitted, plan);
    let mut fitted = fitted.clone();
    let trials = Trials { tries, observer, tried: fitted.tried };
    let mut problem = WholeFitProblem { found: found.clone(), plan, priors, trials, loose: 1.0, spent: 0 };
    let (mut best, mut others) = problem.best(&fitted.best)?;
    if problem.allow_for_chance(&best)? {
        (best, others) = problem.search_again(best, others)?;
    }
    let (best, others) = problem.revise_kind(&mut fitted, small, (best, others))?;
    let slopes = problem.slopes(&best)?;
    let spread = problem.curvature(&best.candidate, &slopes, 0.0).inverse()?;
    let (members, explained, rejected) = problem.members(&fitted, &best, &others, &slopes)?;
    let learned = core::array::from_fn(|size| {
        let left = libm::sqrt(spread.at(size, size).max(0.0)) / problem.priors[size].sigma;
        if has(&best.candidate, size) { (1.0 - left * left).clamp(0.0, 1.0) } else { 0.0 }
    });
    let (misfit, odd) = explained_by(&problem.found, &best.shown);
    let mut learned_numbers = fitted.learned;
    for (number, size) in [(at::PROGRAM, of::PROGRAM), (at::READ, of::READ)] {
        if learned_numbers[number] < UNKNOWN {
            learned_numbers[number] = learned[size];
        }
    }
    Some(FitResult {
        learned: learned_numbers,
        odd: fitted.odd.iter().cloned().chain(odd).collect(),
        tried: problem.trials.tried,
        rejected: fitted.rejected + rejected,
        explained: fitted.explained.min(explained),
        whole: Some(WholeDriveFit { misfit, off: off_by(found, &best.shown), learned }),
        best: best.candidate,
        members,
        ..fitted
    })
}

fn priors(fitted: &FitResult, plan: &ProbePlan) -> [Prior; SIZES] {
    let class = classes::priors(&plan.reported);
    let after = |number: usize| {
        if fitted.learned[number] < UNKNOWN {
            return class[number];
        }
        let left = libm::sqrt((1.0 - fitted.learned[number]).max(0.0)) * class[number].sigma;
        Prior { median: fitted.best.number(number), sigma: left.max(KNOWN_MIN) }
    };
    let mut all = classes::sizes();
    (all[of::PROGRAM], all[of::READ]) = (after(at::PROGRAM), after(at::READ));
    all
}

fn has(candidate: &Candidate, size: usize) -> bool {
    let (least, most) = candidate.hidden.slc_ppm;
    match size {
        of::SLC_LEAST => candidate.kind.slc,
        of::SLC_MORE => candidate.kind.slc && most > least,
        of::MAP => candidate.hidden.map_ppm > 0,
        _ => true,
    }
}

fn sizes(candidate: &Candidate) -> [f64; SIZES] {
    let hidden = &candidate.hidden;
    let (least, most) = hidden.slc_ppm;
    let log = |value: f64| libm::log(value.max(1.0));
    [
        log(hidden.over_provisioning_permille.into()),
        log(hidden.erase_ns as f64),
        log(least.into()),
        log(most.saturating_sub(least).into()),
        candidate.logs[at::PROGRAM],
        candidate.logs[at::READ],
        log(hidden.map_ppm.into()),
    ]
}

/// `candidate` with these parameters, limited to valid values.
fn with(candidate: &Candidate, sizes: &[f64; SIZES]) -> Candidate {
    let mut to = candidate.clone();
    let value = |size: usize, low: f64, high: f64| libm::round(libm::exp(sizes[size])).clamp(low, high);
    to.hidden.over_provisioning_permille = value(of::SPARE, 20.0, 1500.0) as u32;
    to.hidden.erase_ns = value(of::ERASE, 1e5, 1e9) as u64;
    if has(candidate, of::SLC_LEAST) {
        let least = value(of::SLC_LEAST, 500.0, 300_000.0) as u32;
        let more = if has(candidate, of::SLC_MORE) { value(of::SLC_MORE, 500.0, 900_000.0) as u32 } else { 0 };
        to.hidden.slc_ppm = (least, least + more);
    }
    if has(candidate, of::MAP) {
        to.hidden.map_ppm = value(of::MAP, 1.0, 976.0) as u32;
    }
    (to.logs[at::PROGRAM], to.logs[at::READ]) = (sizes[of::PROGRAM], sizes[of::READ]);
    to
}

/// `candidate` with this many pages per block. The visible erase time per page stays the same.
fn paged(candidate: &Candidate, pages: u32) -> Candidate {
    let mut to = candidate.clone();
    let scaled = libm::round(to.hidden.erase_ns as f64 * f64::from(pages) / f64::from(to.hidden.pages_per_block)) as u64;
    (to.hidden.pages_per_block, to.hidden.erase_ns) = (pages, scaled);
    to
}

/// `candidate` with every victim selection, with and without separate relocated data.
fn victims(candidate: &Candidate) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (victim, separate_gc) in classes::VICTIMS.iter().flat_map(|(victim, _)| [(*victim, true), (*victim, false)]) {
        let mut other = candidate.clone();
        (other.hidden.victim, other.hidden.separate_gc) = (victim, separate_gc);
        all.push(other);
    }
    all
}

fn discrete_variants(candidate: &Candidate) -> Vec<Candidate> {
    let mut all = victims(candidate);
    if candidate.kind.slc {
        all = all
            .into_iter()
            .flat_map(|one| {
                let shown = one.shown_bits();
                classes::bits(true).into_iter().filter(move |bits| shown.is_none_or(|shown| shown == *bits)).flat_map(move |bits| {
                    let one = one.clone();
                    [true, false].into_iter().map(move |direct| {
                        let mut other = one.clone();
                        (other.hidden.bits_per_cell, other.hidden.slc_direct) = (bits, direct);
                        other
                    })
                })
            })
            .collect();
    }
    all
}

/// The same drive with this much map memory; 0 for all.
fn mapped(candidate: &Candidate, map_ppm: u32) -> Candidate {
    let mut other = candidate.clone();
    other.hidden.map_ppm = map_ppm;
    other
}

/// The same drive with an SLC cache of fixed size instead of a shrinking one, or the reverse.
fn other_size(candidate: &Candidate) -> Option<Candidate> {
    let (least, most) = candidate.hidden.slc_ppm;
    let mut other = candidate.clone();
    other.hidden.slc_ppm = if most > least { (most, most) } else { (least, least + least / 2) };
    candidate.kind.slc.then_some(other)
}

impl WholeFitProblem<'_> {
    fn try_all(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Option<Point>>> {
        self.spent += candidates.len();
        let all = self.trials.all(&candidates, &|candidate| shown(candidate, self.plan))?;
        Some(points(candidates, all, &self.found, |candidate, shown| self.cost(candidate, shown)))
    }

    fn residuals(&self, shown: &[f64]) -> Vec<f64> {
        super::residuals(&self.found, shown, self.loose)
    }

    fn misfit(&self, shown: &[f64]) -> f64 {
        self.residuals(shown).iter().map(|one| one * one).sum()
    }

    fn cost(&self, candidate: &Candidate, shown: &[f64]) -> f64 {
        let sizes = sizes(candidate);
        let off = |size: usize| (sizes[size] - libm::log(self.priors[size].median)) / self.priors[size].sigma;
        let prior_distance: f64 = (0..SIZES).filter(|size| has(candidate, *size)).map(|size| off(size) * off(size)).sum();
        self.misfit(shown) + prior_distance + classes::rarity_of_hidden(candidate, &self.plan.reported)
    }

    /// The best point, and others that explain the figures as well or nearly.
    fn best(&mut self, kind: &Candidate) -> Option<(Point, Vec<Point>)> {
        self.searched(kind, step_search::ROUNDS)
    }

    /// As [`best`](Self::best), with this many rounds of random search.
    fn searched(&mut self, kind: &Candidate, rounds: u32) -> Option<(Point, Vec<Point>)> {
        let start = mapped(&invert::whole::invert(kind, &self.found, self.plan), 0);
        let with_spare = |share: &f64| {
            let mut other = start.clone();
            other.hidden.over_provisioning_permille = (f64::from(start.hidden.over_provisioning_permille) * share) as u32;
            other
        };
        let starts: Vec<Candidate> = SPARES.iter().map(with_spare).chain(MAPS.iter().map(|ppm| mapped(&start, *ppm))).collect();
        let mut points = self.fitted_from(starts)?;
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        // Repeats from the new point, where other discrete properties may be better.
        let again = points.first()?.candidate.clone();
        points.extend(self.fitted_from(vec![again])?);
        let points = self.wider(points, rounds)?;
        self.kinds(points)
    }

    /// Widens the errors of figures that vary with the seed: random victim selection, or a
    /// completely full cache. The variation counts once for the probed drive and once for the
    /// candidate. Returns true if the errors grew considerably.
    fn allow_for_chance(&mut self, best: &Point) -> Option<bool> {
        let mut all = vec![best.shown.clone()];
        for seed in 1..=OTHER_SEEDS {
            let plan = self.plan;
            let shown =
                self.trials.all(core::slice::from_ref(&best.candidate), &|one| shown_by(one, plan, plan.seed.wrapping_add(seed)))?;
            all.extend(shown.into_iter().flatten().filter(|shown| shown.len() == best.shown.len()));
        }
        let mut much = false;
        for (nth, one) in self.found.observations.iter_mut().enumerate() {
            let variance = variance(all.iter().map(|shown| shown[nth]));
            much |= variance > one.sigma * one.sigma / 4.0;
            one.sigma = libm::sqrt(one.sigma * one.sigma + 2.0 * variance);
        }
        Some(much)
    }

    fn search_again(&mut self, best: Point, others: Vec<Point>) -> Option<(Point, Vec<Point>)> {
        let again = best.candidate.clone();
        let mut points: Vec<Point> = core::iter::once(best).chain(others).collect();
        for point in &mut points {
            point.cost = self.cost(&point.candidate, &point.shown);
        }
        points.extend(self.fitted_from(vec![again])?);
        self.kinds(points)
    }

    /// The best point, and the best of each other kind with nearly as good a fit.
    fn kinds(&self, mut points: Vec<Point>) -> Option<(Point, Vec<Point>)> {
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut known: Vec<Point> = Vec::new();
        for point in points {
            if !known.iter().any(|one| same_kind(&one.candidate, &point.candidate)) {
                known.push(point);
            }
        }
        let least = known.first()?.cost;
        let widened = super::error_factor(self.misfit(&known.first()?.shown), self.found.observations.len());
        known.retain(|point| point.cost < least + WORSE_MAX * widened * widened);
        let best = known.remove(0);
        Some((best, known))
    }

    /// Evaluates variants of other kinds, and fits the best of each victim selection policy.
    fn fitted_from(&mut self, starts: Vec<Candidate>) -> Option<Vec<Point>> {
        let all = starts
            .iter()
            .flat_map(|start| core::iter::once(start.clone()).chain(other_size(start)))
            .flat_map(|one| discrete_variants(&one));
        let tried = self.tried_in_order(all.collect())?;
        let least = tried.first()?.cost;
        let mut fitted = Vec::new();
        for (victim, _) in classes::VICTIMS {
            let of_it = tried.iter().filter(|point| point.candidate.hidden.victim == victim && point.cost < COST_RATIO_MAX * least);
            for point in of_it.take(TRIED) {
                fitted.push(self.improve(point.clone())?);
            }
        }
        Some(fitted)
    }

    fn tried_in_order(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Point>> {
        let mut points: Vec<Point> = self.try_all(candidates)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Some(points)
    }

    fn slopes(&mut self, point: &Point) -> Option<Vec<Vec<f64>>> {
        let active: Vec<usize> = (0..SIZES).filter(|size| has(&point.candidate, *size)).collect();
        let moved = |size: &usize| {
            let mut to = sizes(&point.candidate);
            to[*size] += STEPS[*size];
            with(&point.candidate, &to)
        };
        let points = self.try_all(active.iter().map(moved).collect())?;
        let mut slopes = vec![vec![0.0; point.shown.len()]; SIZES];
        for (size, moved) in active.into_iter().zip(points) {
            let Some(moved) = moved else { continue };
            // Uses the actual change, because the parameters are whole numbers.
            let step = sizes(&moved.candidate)[size] - sizes(&point.candidate)[size];
            if libm::fabs(step) > STEPS[size] / 10.0 {
                slopes[size] = moved.shown.iter().zip(&point.shown).map(|(there, here)| (there - here) / step).collect();
            }
        }
        Some(slopes)
    }

    fn curvature(&self, candidate: &Candidate, slopes: &[Vec<f64>], damping: f64) -> Matrix {
        let mut matrix = Matrix::new(SIZES);
        for row in 0..SIZES {
            for column in 0..=row {
                let both = slopes[row].iter().zip(&slopes[column]).zip(&self.found.observations);
                matrix.set(row, column, both.map(|((a, b), one)| a * b / (one.sigma * one.sigma)).sum::<f64>() / (self.loose * self.loose));
            }
            let prior = self.priors[row].sigma;
            let held = if has(candidate, row) { 1.0 / (prior * prior) } else { 1e6 };
            matrix.set(row, row, (matrix.at(row, row) + held) * (1.0 + damping));
        }
        matrix
    }

    /// The step of a candidate for `residuals` and class `means`.
    fn step(&self, from: &Candidate, residuals: &[f64], means: &[f64; SIZES], slopes: &[Vec<f64>], damping: f64) -> Option<Candidate> {
        let here = sizes(from);
        let pull = |size: usize| {
            let figures = slopes[size].iter().zip(residuals).zip(&self.found.observations);
            let by_figures: f64 = figures.map(|((slope, off), one)| slope * off / (one.sigma * self.loose)).sum();
            by_figures + (means[size] - here[size]) / (self.priors[size].sigma * self.priors[size].sigma)
        };
        let moves = self.curvature(from, slopes, damping).solve(&(0..SIZES).map(pull).collect::<Vec<f64>>())?;
        let to = core::array::from_fn(|size| if has(from, size) { here[size] + moves[size].clamp(-0.7, 0.7) } else { here[size] });
        Some(with(from, &to))
    }

    fn means(&self) -> [f64; SIZES] {
        self.priors.map(|prior| libm::log(prior.median))
    }

    fn improve(&mut self, point: Point) -> Option<Point> {
        self.improved(point, ROUNDS)
    }

    fn improved(&mut self, mut point: Point, rounds: u32) -> Option<Point> {
        let means = self.means();
        for _ in 0..rounds {
            let slopes = self.slopes(&point)?;
            let residuals = self.residuals(&point.shown);
            let steps = [0.0, 0.3, 3.0].iter().filter_map(|damping| self.step(&point.candidate, &residuals, &means, &slopes, *damping));
            let jumps = JUMPS.iter().filter(|(size, _)| has(&point.candidate, *size)).map(|(size, jump)| {
                let mut to = sizes(&point.candidate);
                to[*size] += jump;
                with(&point.candidate, &to)
            });
            let steps: Vec<Candidate> = steps.chain(jumps).collect();
            let better = self.try_all(steps)?.into_iter().flatten().min_by(|a, b| a.cost.total_cmp(&b.cost));
            let Some(better) = better.filter(|better| better.cost < point.cost) else { break };
            let gained = point.cost - better.cost;
            point = better;
            if gained < 0.5 {
                break;
            }
        }
        Some(point)
    }

    /// Refits each member to perturbed figures of the whole drive. Also returns how many members
    /// explained them and how many were rejected.
    fn members(&mut self, fitted: &FitResult, best: &Point, others: &[Point], slopes: &[Vec<f64>]) -> Option<(Vec<Candidate>, u32, u32)> {
        let mut random = Stream::new(self.plan.seed, "whole ensemble");
        let widened = super::error_factor(self.misfit(&best.shown), best.shown.len());
        self.loose = MEMBER_ERROR_FACTOR * widened;
        let kinds: Vec<&Point> = core::iter::once(best).chain(others).collect();
        let weight = |kind: &&Point| libm::exp(-0.5 / KIND_ERROR_FACTOR * (kind.cost - best.cost) / (widened * widened)).min(1.0);
        let weights: Vec<f64> = kinds.iter().map(weight).collect();
        let most = chi_squared_99(SIZES as f64 + NUMBERS as f64);
        let mut draws = Vec::new();
        let mut starts = Vec::new();
        for member in &fitted.members {
            let noise: Vec<f64> = best.shown.iter().map(|_| random.normal()).collect();
            let mut means: [f64; SIZES] =
                core::array::from_fn(|size| libm::log(self.priors[size].median) + self.priors[size].sigma * random.normal());
            if !member.kind.slc {
                // A member is already a draw from the small probes.
                (means[of::PROGRAM], means[of::READ]) = (member.logs[at::PROGRAM], member.logs[at::READ]);
            }
            draws.push((noise, means));
            starts.push(with_whole_parameters(member, &kinds[pick(&mut random, &weights)].candidate));
        }
        let (mut members, mut rejected) = (Vec::new(), 0);
        for point in self.drawn(starts, &draws, slopes, self.misfit(&best.shown) + most)? {
            match point {
                Some(candidate) => members.push(candidate),
                None => rejected += 1,
            }
        }
        let explained = members.len() as u32;
        while members.len() < fitted.members.len() {
            let nearest = || with_whole_parameters(&fitted.members[members.len()], &best.candidate);
            let again = if explained == 0 { nearest() } else { members[random.below(explained.into()) as usize].clone() };
            members.push(again);
        }
        Some((members, explained, rejected))
    }

    /// Steps from each of `starts` to the optimum of its draw, and repeats because the figures
    /// are not linear. Halves a step that leads too far. The inner value is `None` if no result
    /// has a misfit below `most`.
    fn drawn(&mut self, starts: Vec<Candidate>, draws: &[Draw], slopes: &[Vec<f64>], most: f64) -> Option<Vec<Option<Candidate>>> {
        let mut kept: Vec<Option<Candidate>> = vec![None; starts.len()];
        let mut next = starts.clone();
        for round in 0..ROUNDS {
            let points = self.try_all(next.clone())?;
            for (nth, point) in points.into_iter().enumerate() {
                let fits = point.as_ref().is_some_and(|point| self.misfit(&point.shown) <= most);
                match point {
                    Some(point) if round == 0 || fits => {
                        if round > 0 {
                            kept[nth] = Some(point.candidate.clone());
                        }
                        let (noise, means) = &draws[nth];
                        let residuals: Vec<f64> = self.residuals(&point.shown).iter().zip(noise).map(|(off, noise)| off + noise).collect();
                        next[nth] = self.step(&point.candidate, &residuals, means, slopes, 0.0).unwrap_or(point.candidate);
                    }
                    _ => {
                        let (from, to) = (sizes(kept[nth].as_ref().unwrap_or(&starts[nth])), sizes(&next[nth]));
                        next[nth] = with(&starts[nth], &core::array::from_fn(|size| f64::midpoint(from[size], to[size])));
                    }
                }
            }
        }
        Some(kept)
    }
}

fn variance(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0).max(1.0)
}

type Draw = (Vec<f64>, [f64; SIZES]);

/// `member` with the parameters found for the whole drive.
fn with_whole_parameters(member: &Candidate, found: &Candidate) -> Candidate {
    let mut to = member.clone();
    let (pages, bits) = (member.hidden.pages_per_block, member.hidden.bits_per_cell);
    to.hidden = paged(found, pages).hidden;
    if !member.kind.slc || member.shown_bits().is_some() {
        to.hidden.bits_per_cell = bits;
    }
    if member.kind.slc {
        to.logs[at::PROGRAM] = found.logs[at::PROGRAM];
        to.logs[at::READ] = found.logs[at::READ];
    }
    to
}

fn same_kind(a: &Candidate, b: &Candidate) -> bool {
    let of = |one: &Candidate| {
        let hidden = &one.hidden;
        (hidden.victim, hidden.separate_gc, hidden.bits_per_cell, hidden.slc_direct, has(one, of::SLC_MORE), has(one, of::MAP))
    };
    of(a) == of(b)
}
