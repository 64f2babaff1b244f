//! Random search over all parameters and kinds at once, where slopes and single jumps end:
//! the figures of small drives change in steps, because superblocks are whole.

use super::super::Point;
use super::{WholeFitProblem, discrete_variants, has, mapped, of, other_size, paged, same_kind, sizes, victims, with};
use crate::learn::candidate::Candidate;
use crate::learn::classes::{self, Prior, SIZES};
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::VictimPolicy;

/// Misfit per figure above which the search runs.
const UNEXPLAINED: f64 = 0.05;
/// Maximum number of rounds, and of consecutive rounds without a gain.
pub(super) const ROUNDS: u32 = 14;
const IDLE_ROUNDS: u32 = 4;
const DRAWN: usize = 40;
/// Number of kinds to draw from; each is drawn with this probability before the next.
const KINDS: usize = 6;
const FAVOURED: f64 = 0.6;
/// Minimum and maximum size of a change, in units of [`SCATTER`].
const MOVED: (f64, f64) = (0.01, 1.2);
/// Standard deviations of the logarithms for a change of size 1.
const SCATTER: [f64; SIZES] = [0.25, 0.4, 0.4, 0.4, 0.3, 0.3, 0.4];
/// Probability that a parameter is drawn from its prior instead.
const FROM_PRIOR: f64 = 0.07;
/// Probability of also changing a discrete property.
const OTHER_KIND: f64 = 0.35;

/// Steps of the spare space scan in each direction and their logarithmic size; factors on the
/// SLC cache; and how many of the best continue.
const SPARES_SCANNED: i32 = 11;
const SPARE_STEP: f64 = 0.022;
const CACHES_SCANNED: [f64; 7] = [0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0];
const CACHES_KEPT: usize = 12;
const KINDS_FITTED: usize = 3;

impl WholeFitProblem<'_> {
    /// Adds points found around the best one, unless a point already explains the figures.
    pub(super) fn wider(&mut self, mut points: Vec<Point>, rounds: u32) -> Option<Vec<Point>> {
        let mut random = Stream::new(self.plan.seed, "whole drives, by chance");
        let mut idle = 0;
        points.extend(self.of_other_blocks(&least(&points)?.candidate)?);
        let best = least(&points)?.clone();
        if !self.explains(&best) {
            points.extend(self.scanned(&best.candidate)?);
            points.extend(self.of_each_cache(&best.candidate)?);
        }
        for _ in 0..rounds {
            let best = least(&points)?.clone();
            if self.explains(&best) || idle >= IDLE_ROUNDS {
                break;
            }
            points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            let from = best_of_kinds(&points);
            let drawn = (0..DRAWN).map(|_| moved(draw_favouring_first(&from, &mut random), &self.priors, &mut random)).collect();
            points.extend(self.try_all(drawn)?.into_iter().flatten());
            idle = if least(&points)?.cost < best.cost { 0 } else { idle + 1 };
        }
        let best = least(&points)?.clone();
        if !self.explains(&best) {
            points.push(self.improve(best)?);
        }
        Some(points)
    }

    /// Variants with other numbers of pages per block.
    fn of_other_blocks(&mut self, from: &Candidate) -> Option<Vec<Point>> {
        let all =
            classes::PAGES.into_iter().filter(|pages| *pages != from.hidden.pages_per_block).map(|pages| paged(from, pages)).collect();
        let mut fitted = Vec::new();
        for point in self.tried_in_order(all)? {
            fitted.push(self.improve(point)?);
        }
        Some(fitted)
    }

    /// Scans the spare space around that of `from` and the minimum SLC cache, then repeats with
    /// other victim selection policies. Fits the best kinds.
    fn scanned(&mut self, from: &Candidate) -> Option<Vec<Point>> {
        let caches: &[f64] = if from.kind.slc { &CACHES_SCANNED } else { &[1.0] };
        let moved = |from: &Candidate, nth: i32, cache: f64| {
            let mut all = sizes(from);
            all[of::SPARE] += f64::from(nth) * SPARE_STEP;
            all[of::SLC_LEAST] += libm::log(cache);
            with(from, &all)
        };
        let steps = -SPARES_SCANNED..=SPARES_SCANNED;
        let fixed_or_not = core::iter::once(from.clone()).chain(other_size(from));
        let beside = fixed_or_not.flat_map(|from| {
            steps
                .clone()
                .flat_map(move |nth| caches.iter().map(move |cache| (nth, *cache)))
                .map(move |(nth, cache)| moved(&from, nth, cache))
        });
        let all: Vec<Candidate> = if from.kind.slc {
            let mut tried = self.tried_in_order(beside.collect())?;
            tried.truncate(CACHES_KEPT);
            tried.into_iter().map(|point| point.candidate).collect()
        } else {
            beside.collect()
        };
        let tried = self.tried_in_order(all.iter().flat_map(victims).collect())?;
        let best: Vec<Candidate> = best_of_kinds(&tried).into_iter().take(KINDS_FITTED).cloned().collect();
        let mut fitted = Vec::new();
        for point in self.tried_in_order(best)? {
            fitted.push(self.improve(point)?);
        }
        Some(fitted)
    }

    /// Fits the best variant for each other kind of SLC cache, with suitable parameters.
    fn of_each_cache(&mut self, from: &Candidate) -> Option<Vec<Point>> {
        let cache = |one: &Candidate| (one.hidden.bits_per_cell, has(one, of::SLC_MORE));
        let all = core::iter::once(from.clone()).chain(other_size(from)).flat_map(|one| discrete_variants(&one));
        let mut known = alloc::vec![cache(from)];
        let mut fitted = Vec::new();
        for point in self.tried_in_order(all.collect())? {
            if from.kind.slc && !known.contains(&cache(&point.candidate)) {
                known.push(cache(&point.candidate));
                fitted.push(self.improve(point)?);
            }
        }
        Some(fitted)
    }

    /// True if the point explains the figures.
    pub(super) fn explains(&self, point: &Point) -> bool {
        self.misfit(&point.shown) <= UNEXPLAINED * self.found.observations.len() as f64
    }
}

fn least(points: &[Point]) -> Option<&Point> {
    points.iter().min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// The best point of each of the best kinds, from sorted points.
fn best_of_kinds(points: &[Point]) -> Vec<&Candidate> {
    let mut known: Vec<&Candidate> = Vec::new();
    for point in points {
        if known.len() < KINDS && !known.iter().any(|one| same_kind(one, &point.candidate)) {
            known.push(&point.candidate);
        }
    }
    known
}

/// Draws one of them, earlier ones with higher probability.
fn draw_favouring_first<'a>(from: &[&'a Candidate], random: &mut Stream) -> &'a Candidate {
    let mut nth = 0;
    while nth + 1 < from.len() && !random.chance(FAVOURED) {
        nth += 1;
    }
    from[nth]
}

/// Changes some parameters by a large or small amount, and sometimes the kind.
fn moved(from: &Candidate, priors: &[Prior; SIZES], random: &mut Stream) -> Candidate {
    let to = if random.chance(OTHER_KIND) { change_kind(from, random) } else { from.clone() };
    let far = MOVED.0 * libm::pow(MOVED.1 / MOVED.0, random.unit());
    let mut all = sizes(&to);
    let surely = random.below(SIZES as u64) as usize;
    for size in (0..SIZES).filter(|size| has(from, *size)) {
        let step = far * SCATTER[size] * random.normal();
        if size == surely || random.chance(0.5) {
            all[size] += step;
        }
        if random.chance(FROM_PRIOR) {
            all[size] = libm::log(priors[size].median) + priors[size].sigma * random.normal();
        }
    }
    with(&to, &all)
}

/// Changes one property: victim selection, relocated data, pages, map memory or SLC cache.
fn change_kind(from: &Candidate, random: &mut Stream) -> Candidate {
    let mut to = from.clone();
    let hidden = &mut to.hidden;
    match random.below(if from.kind.slc { 7 } else { 4 }) {
        0 => hidden.victim = another_victim(hidden.victim, random),
        1 => hidden.separate_gc ^= true,
        2 => to = paged(from, classes::PAGES[random.below(classes::PAGES.len() as u64) as usize]),
        3 => to = mapped(from, if has(from, of::MAP) { 0 } else { classes::map_ppm(random) }),
        4 => hidden.slc_direct ^= true,
        5 if from.shown_bits().is_none() => {
            hidden.bits_per_cell =
                classes::bits(true).into_iter().find(|bits| *bits != hidden.bits_per_cell).unwrap_or(hidden.bits_per_cell);
        }
        _ => to = other_size(from).unwrap_or(to),
    }
    to
}

fn another_victim(is: VictimPolicy, random: &mut Stream) -> VictimPolicy {
    let others: Vec<VictimPolicy> = classes::VICTIMS.iter().map(|(victim, _)| *victim).filter(|victim| *victim != is).collect();
    others[random.below(others.len() as u64) as usize]
}
