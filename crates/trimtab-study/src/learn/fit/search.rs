//! The global search: draws kinds of drives, fits the best, and follows single changes of
//! these.

use super::local::{GAIN_MIN, Point, ROUNDS as STEPS, sort};
use super::{OF_THE_RIGHT_KIND, Problem};
use crate::learn::candidate::{Candidate, NUMBERS};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

/// Rounds of draws and climbs at most. One takes about 3,000 candidates of the small
/// probes, 6 s.
const ROUNDS: u32 = 4;
/// Mean squared residual below which a drive explains the figures: a seventh of their
/// errors.
const EXPLAINED: f64 = 0.02;
/// Most changes of a drawn drive: dies, rows and one other property.
const CHANGES_MAX: u64 = 3;
/// Smallest and largest distance of draws from a point, in standard deviations of what
/// the figures leave open.
const DISTANCE: (f64, f64) = (0.1, 3.0);
/// Kinds that are adapted after the first draw and compete to be fitted after each, and
/// neighbours that are adapted in a climb: about a third of the arrangements.
const FITTED: usize = 24;
/// Kinds that are fitted to the end; also families, and starts, around which drives are
/// drawn.
const BEST: usize = 4;
/// Kinds whose neighbours are tried in each round.
const CLIMBS: u32 = 8;
/// Neighbours of each that are fitted, with as many rounds.
const NEIGHBOURS: u32 = 2;
/// Excess cost of a kind that is about as good: as likely as the best in one of 90 cases.
const PROMISING: f64 = 9.0;
/// Largest excess cost of a kind that still explains the figures: one of a thousand.
const EXCESS_MAX: f64 = 14.0;
/// Most kinds that are returned. Each needs its own slopes in an ensemble.
const KINDS_MAX: usize = 12;

/// A kind with its best numbers so far.
struct Kind {
    point: Point,
    fitted: bool,
    climbed: bool,
}

impl Problem<'_> {
    /// The best point, and the best of each other kind that explains the figures nearly
    /// as well.
    pub(super) fn search(&mut self, starts: Vec<Candidate>) -> Option<Vec<Point>> {
        let mut random = Stream::new(self.seed, "search");
        let mut all: Vec<Kind> = Vec::new();
        let drawn: Vec<Candidate> = (0..self.space.draws())
            .map(|nth| self.changed(&starts[nth % starts.len()], &mut random))
            .collect();
        let mut points = self.in_order(starts)?;
        let mut starts = points.clone();
        starts.truncate(BEST);
        self.add_promising(&mut points, drawn)?;
        points = self.adapt_alike(self.promising(&points))?;
        let mut before = f64::INFINITY;
        for round in 0..ROUNDS {
            points.retain(|point| {
                let known = all
                    .iter()
                    .find(|one| self.space.is_same_kind(&one.point.candidate, &point.candidate));
                known.is_none_or(|known| point.cost < known.point.cost)
            });
            for (nth, point) in self.best_of_many(&points)?.into_iter().enumerate() {
                self.add(&mut all, point, nth < BEST);
            }
            self.climb(&mut all)?;
            if round == 0 {
                self.allow_for_chance(&mut all)?;
            }
            if self.is_explained(&all)? {
                break;
            }
            let around: Vec<Point> = self
                .best_of_families(&all)
                .into_iter()
                .take(BEST)
                .chain(&starts)
                .cloned()
                .collect();
            // Draws around a drive of the right kind that found nothing better.
            let best = least(&all)?;
            let is_right_kind = self.is_within(best, OF_THE_RIGHT_KIND);
            if is_right_kind && before - best.cost < GAIN_MIN {
                break;
            }
            before = best.cost;
            points = self.drawn_around(&around, &mut random)?;
        }
        self.nearly_as_good(all)
    }

    /// Adds `drawn` to `points`, except drives that [`promising`](Self::promising) would not
    /// choose.
    fn add_promising(&mut self, points: &mut Vec<Point>, drawn: Vec<Candidate>) -> Option<()> {
        for some in drawn.chunks(FITTED) {
            let chosen = self.promising(points);
            let (space, last) = (self.space, chosen.get(FITTED - 1).map(|point| point.cost));
            let mut best_of_families: BTreeMap<usize, f64> = BTreeMap::new();
            for point in chosen.iter().rev() {
                best_of_families.insert(space.family(&point.candidate), point.cost);
            }
            let most = |candidate: &Candidate| {
                let best = best_of_families.get(&space.family(candidate));
                match (last, best) {
                    (None, _) => f64::INFINITY,
                    (Some(last), _) if best_of_families.len() == FITTED => last,
                    (Some(last), best) => best.map_or(f64::INFINITY, |best| best.max(last)),
                }
            };
            points.extend(self.in_order_below(some.to_vec(), &most)?);
            sort(points);
        }
        Some(())
    }

    /// The [`FITTED`] of `candidates` with the least cost, in order.
    fn nearest(&mut self, candidates: Vec<Candidate>) -> Option<Vec<Point>> {
        let mut points: Vec<Point> = Vec::new();
        for some in candidates.chunks(FITTED) {
            let most = points.get(FITTED - 1).map_or(f64::INFINITY, |point| point.cost);
            points.extend(self.in_order_below(some.to_vec(), &|_| most)?);
            sort(&mut points);
            points.truncate(FITTED);
        }
        Some(points)
    }

    /// Widens the errors of figures that vary with the seed: random victim selection, or
    /// a completely full cache. The variation counts once for the probed drive and once
    /// for the candidate.
    fn allow_for_chance(&mut self, all: &mut [Kind]) -> Option<()> {
        let best = least(all)?;
        let others = self
            .space
            .with_other_seeds(&best.candidate)
            .into_iter()
            .filter(|shown| shown.len() == best.shown.len());
        let shown: Vec<Vec<f64>> = core::iter::once(best.shown.clone()).chain(others).collect();
        let count = shown.len() as f64;
        for (nth, one) in self.found.observations.iter_mut().enumerate() {
            let mean = shown.iter().map(|shown| shown[nth]).sum::<f64>() / count;
            let squares: f64 =
                shown.iter().map(|shown| (shown[nth] - mean) * (shown[nth] - mean)).sum();
            one.sigma = libm::sqrt(one.sigma * one.sigma + 2.0 * squares / (count - 1.0).max(1.0));
        }
        for kind in all {
            kind.point.cost = self.cost(&kind.point.candidate, &kind.point.shown);
        }
        Some(())
    }

    /// True if one of the most promising kinds explains the figures.
    fn is_explained(&self, all: &[Kind]) -> Option<bool> {
        let least = least(all)?.cost;
        let promising = all.iter().map(|one| &one.point).filter(|one| one.cost < least + PROMISING);
        Some(promising.into_iter().any(|point| self.is_within(point, EXPLAINED)))
    }

    /// True if the mean squared residual of a point is at most `misfit`.
    fn is_within(&self, point: &Point, misfit: f64) -> bool {
        self.misfit(&point.shown) <= misfit * point.shown.len() as f64
    }

    /// `from` with up to [`CHANGES_MAX`] changes.
    fn changed(&self, from: &Candidate, random: &mut Stream) -> Candidate {
        let mut to = from.clone();
        for _ in 0..random.between(1, CHANGES_MAX) {
            let mut neighbours = self.space.neighbours(&to);
            if !neighbours.is_empty() {
                to = neighbours.swap_remove(random.below(neighbours.len() as u64) as usize);
            }
        }
        to
    }

    /// Draws drives around points, in the directions that the figures leave open, and
    /// adapts their numbers.
    fn drawn_around(&mut self, around: &[Point], random: &mut Stream) -> Option<Vec<Point>> {
        let mut points = Vec::new();
        for point in around {
            let slopes = self.slopes(point)?;
            let root = self.curvature(&point.candidate, &slopes, 0.0).inverse()?.root()?;
            let drawn = (0..self.space.draws() / around.len()).map(|nth| {
                let far = DISTANCE.0 * libm::pow(DISTANCE.1 / DISTANCE.0, random.unit());
                let normal: Vec<f64> = (0..NUMBERS).map(|_| far * random.normal()).collect();
                let moves: Vec<f64> = root
                    .chunks(NUMBERS)
                    .map(|row| row.iter().zip(&normal).map(|(a, b)| a * b).sum())
                    .collect();
                let moved = self.moved(&point.candidate, &moves);
                if nth % 2 == 0 { moved } else { self.changed(&moved, random) }
            });
            let drawn = drawn.collect();
            let drawn = self.in_order(drawn)?;
            points.extend(self.adapt(drawn, &slopes)?);
        }
        sort(&mut points);
        Some(points)
    }

    /// The best of `points`, sorted by cost: first those of different families, then of
    /// other kinds.
    fn promising(&self, points: &[Point]) -> Vec<Point> {
        let mut kinds: Vec<Kind> = Vec::new();
        for point in points {
            self.add(&mut kinds, point.clone(), false);
        }
        let firsts: Vec<Point> = self.best_of_families(&kinds).into_iter().cloned().collect();
        let rest = kinds.into_iter().map(|kind| kind.point);
        let rest = rest.filter(|point| {
            !firsts.iter().any(|first| self.space.is_same_kind(&first.candidate, &point.candidate))
        });
        firsts.iter().cloned().chain(rest).take(FITTED).collect()
    }

    /// The most promising of `points`; the first [`BEST`] are fitted to the end.
    fn best_of_many(&mut self, points: &[Point]) -> Option<Vec<Point>> {
        let mut points = self.promising(points);
        sort(&mut points);
        let mut fitted = Vec::new();
        for (nth, point) in points.into_iter().enumerate() {
            fitted.push(if nth < BEST { self.improve(point, STEPS)? } else { point });
        }
        Some(fitted)
    }

    /// Adapts points with the slopes of the best that has the same numbers.
    fn adapt_alike(&mut self, mut points: Vec<Point>) -> Option<Vec<Point>> {
        sort(&mut points);
        let mut adapted = Vec::new();
        while let Some(best) = points.first() {
            let space = self.space;
            let numbers = |candidate: &Candidate| -> [bool; NUMBERS] {
                core::array::from_fn(|number| space.is_free(candidate, number))
            };
            let slopes = self.slopes(best)?;
            let of_best = numbers(&best.candidate);
            let (alike, others) =
                points.into_iter().partition(|point| numbers(&point.candidate) == of_best);
            points = others;
            adapted.extend(self.adapt(alike, &slopes)?);
        }
        sort(&mut adapted);
        Some(adapted)
    }

    /// Tries the neighbours of the most promising kinds.
    fn climb(&mut self, all: &mut Vec<Kind>) -> Option<()> {
        for turn in 0..CLIMBS {
            let Some(next) = self.next(all, turn % 2 == 1) else { break };
            let point = self.improve(all[next].point.clone(), STEPS)?;
            (all[next].fitted, all[next].climbed) = (true, true);
            all[next].point = point.clone();
            let slopes = self.slopes(&point)?;
            let near = self.nearest(self.space.neighbours(&point.candidate))?;
            for (nth, neighbour) in self.adapt(near, &slopes)?.into_iter().enumerate() {
                let neighbour = if nth < NEIGHBOURS as usize {
                    self.improve(neighbour, NEIGHBOURS)?
                } else {
                    neighbour
                };
                self.add(all, neighbour, false);
            }
        }
        Some(())
    }

    /// The next kind to climb from: the best, or the best of a family without a turn.
    /// Only the best if the figures are explained.
    fn next(&self, all: &[Kind], other_family: bool) -> Option<usize> {
        let family = |kind: &Kind| self.space.family(&kind.point.candidate);
        let had_a_turn = |of: usize| all.iter().any(|one| one.climbed && family(one) == of);
        let cheapest =
            |a: &(usize, &Kind), b: &(usize, &Kind)| a.1.point.cost.total_cmp(&b.1.point.cost);
        let open = || all.iter().enumerate().filter(|(_, one)| !one.climbed);
        let next = if self.is_explained(all)? {
            all.iter().enumerate().min_by(cheapest).filter(|(_, best)| !best.climbed)
        } else if other_family {
            open().filter(|(_, one)| !had_a_turn(family(one))).min_by(cheapest)
        } else {
            open().min_by(cheapest)
        };
        next.map(|(nth, _)| nth)
    }

    /// Records a kind, or better numbers for it.
    fn add(&self, all: &mut Vec<Kind>, point: Point, fitted: bool) {
        match all
            .iter_mut()
            .find(|one| self.space.is_same_kind(&one.point.candidate, &point.candidate))
        {
            Some(known) if known.point.cost > point.cost => {
                known.climbed &= known.point.cost - point.cost < GAIN_MIN;
                known.point = point;
            }
            Some(_) => {}
            None => all.push(Kind { point, fitted, climbed: false }),
        }
    }

    /// The best point of each family, the best first.
    fn best_of_families<'a>(&self, all: &'a [Kind]) -> Vec<&'a Point> {
        let mut points: Vec<&Point> = all.iter().map(|one| &one.point).collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut firsts: Vec<&Point> = Vec::new();
        for point in points {
            if !firsts.iter().any(|known| {
                self.space.family(&known.candidate) == self.space.family(&point.candidate)
            }) {
                firsts.push(point);
            }
        }
        firsts
    }

    /// The kinds that explain the figures nearly as well as the best, fitted, the best
    /// first.
    fn nearly_as_good(&mut self, all: Vec<Kind>) -> Option<Vec<Point>> {
        let most = least(&all)?.cost + EXCESS_MAX;
        let mut kinds: Vec<Kind> = all.into_iter().filter(|kind| kind.point.cost < most).collect();
        kinds.sort_by(|a, b| a.point.cost.total_cmp(&b.point.cost));
        kinds.truncate(KINDS_MAX);
        let mut points = Vec::new();
        for kind in kinds {
            points.push(if kind.fitted { kind.point } else { self.improve(kind.point, 1)? });
        }
        sort(&mut points);
        Some(points)
    }
}

fn least(all: &[Kind]) -> Option<&Point> {
    all.iter().map(|kind| &kind.point).min_by(|a, b| a.cost.total_cmp(&b.cost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::fit::part::{self, SmallProbes};
    use crate::learn::fit::trials::Trials;
    use crate::learn::fit::{SequentialEvaluator, shown, shown_while};
    use crate::learn::lab::IsWorth;
    use crate::learn::probes::{Findings, ProbePlan};
    use crate::learn::{Budget, Observation, ReportedProperties};
    use alloc::format;
    use core::sync::atomic::{AtomicU32, Ordering};
    use trimtab_drive::shipped;

    /// A plan for the smallest area, and figures of the first start moved by a tenth.
    fn measured() -> (ProbePlan, Findings, Vec<Candidate>) {
        let spec = shipped::named("sata-tlc-500gb").unwrap().spec;
        let reported = ReportedProperties::of(&spec);
        let plan = ProbePlan::new(Budget::Small, reported, 24 << 20, 1).unwrap();
        let starts = part::starts(&Findings::default(), &plan);
        let mut random = Stream::new(1, "errors");
        let figures = shown(&starts[0], &plan).unwrap().into_iter().enumerate();
        let observations = figures.map(|(nth, log)| Observation {
            name: format!("{nth}"),
            probe: "",
            value_ns: libm::exp(log + 0.1 * random.normal()),
            sigma: 0.03,
        });
        let found = Findings { observations: observations.collect(), ..Findings::default() };
        (plan, found, starts)
    }

    /// Candidates and their order do not depend on runs that end early.
    #[test]
    fn early_end_of_runs_changes_no_choice() {
        let (plan, found, starts) = measured();
        let ended = AtomicU32::new(0);
        let show = |candidate: &Candidate, is_worth: &IsWorth<'_>| {
            let shown = shown_while(candidate, &plan, is_worth)?;
            ended.fetch_add(u32::from(shown.len() < found.observations.len()), Ordering::Relaxed);
            Some(shown)
        };
        let space = SmallProbes::new(&plan, &show);
        let mut observer = ();
        let trials = Trials { tries: &SequentialEvaluator, observer: &mut observer, tried: 0 };
        let mut problem = Problem::new(&space, &found, 1, trials);
        let mut random = Stream::new(1, "draws");
        let drawn: Vec<Candidate> =
            (0..96).map(|nth| problem.changed(&starts[nth % starts.len()], &mut random)).collect();
        let costs = |points: &[Point]| -> Vec<(Candidate, f64)> {
            points.iter().map(|point| (point.candidate.clone(), point.cost)).collect()
        };
        let mut points = problem.in_order(starts.clone()).unwrap();
        problem.add_promising(&mut points, drawn.clone()).unwrap();
        let nearest = problem.nearest(drawn.clone()).unwrap();
        let promising = problem.promising(&points);
        assert!(ended.load(Ordering::Relaxed) > 10, "{ended:?} of 96 ended early");
        let before = ended.load(Ordering::Relaxed);
        // Without limits.
        let mut all = problem.in_order(starts).unwrap();
        all.extend(problem.in_order(drawn.clone()).unwrap());
        sort(&mut all);
        assert_eq!(costs(&promising), costs(&problem.promising(&all)));
        let in_order = problem.in_order(drawn).unwrap();
        assert_eq!(costs(&nearest), costs(&in_order[..FITTED]));
        assert_eq!(ended.load(Ordering::Relaxed), before);
    }

    /// A drive runs once, also if its numbers differ by less than a nanosecond or a byte.
    #[test]
    fn known_drives_are_not_run_again() {
        let (plan, found, starts) = measured();
        let runs = AtomicU32::new(0);
        let show = |candidate: &Candidate, _: &IsWorth<'_>| {
            runs.fetch_add(1, Ordering::Relaxed);
            shown(candidate, &plan)
        };
        let space = SmallProbes::new(&plan, &show);
        let mut observer = ();
        let trials = Trials { tries: &SequentialEvaluator, observer: &mut observer, tried: 0 };
        let mut problem = Problem::new(&space, &found, 1, trials);
        let mut same = starts[0].clone();
        for log in &mut same.logs {
            *log += 1e-12;
        }
        assert_eq!(same.laboratory(&plan), starts[0].laboratory(&plan));
        assert_eq!(same.spec("a", "a", &plan.reported), starts[0].spec("a", "a", &plan.reported));
        let figures = |points: Vec<Option<Point>>| -> Vec<Vec<f64>> {
            points.into_iter().map(|point| point.unwrap().shown).collect()
        };
        let first = figures(problem.try_all(starts.clone()).unwrap());
        assert_eq!(runs.load(Ordering::Relaxed) as usize, starts.len());
        assert_eq!(figures(problem.try_all(starts.clone()).unwrap()), first);
        assert_eq!(figures(problem.try_all(alloc::vec![same]).unwrap()), first[..1]);
        assert_eq!(runs.load(Ordering::Relaxed) as usize, starts.len());
        assert_eq!(shown(&starts[0], &plan).as_ref(), first.first());
    }
}
