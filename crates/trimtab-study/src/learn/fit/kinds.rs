//! Search among the kinds of drives, one change at a time.

use super::super::candidate::{Candidate, DriveKind};
use super::super::invert::{invert, unit_written};
use super::changes::{arrangements, divided, mapped_by, neighbours, other_families, scattered_from};
use super::{FitProblem, GAIN_MIN, Point, ROUNDS};
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

/// Largest excess cost of a kind that still explains the figures.
const WORSE_MAX: f64 = 14.0;
const STARTS: usize = 2;
/// Maximum number of kinds to expand, and the minimum per family.
const EXPANSIONS: usize = 12;
const OF_A_FAMILY: usize = 1;
/// Largest excess cost of a kind that is expanded.
const PROMISING: f64 = 9.0;
/// Largest excess cost of a family that gets a turn; smaller if some drive fits exactly.
const FAMILY_EXCESS_MAX: f64 = 300.0;
const FAMILY_EXCESS_MAX_IF_EXACT: f64 = 30.0;
const EXACT: f64 = 0.04;
/// Neighbours adapted per expanded kind.
const ADAPTED: usize = 24;
/// Maximum number of kinds kept in addition to the best.
const KINDS_MAX: usize = 24;
/// Neighbours fitted without adaptation per expanded kind.
const FITTED: usize = 4;
/// Misfit per figure above which the search continues, with this many more expansions each time.
const UNEXPLAINED: f64 = 0.02;
const EXPANSIONS_AFTER: usize = 4;
/// Number of kinds polished at a time, and their largest excess cost.
const POLISHED: usize = 3;
const POLISHED_MAX: f64 = 40.0;
/// Number of families whose arrangements are all fitted in parallel.
const FAMILIES: usize = 2;
/// Channel shares of a lone read to try, and how many of the best are fitted.
const CROSSINGS: [f64; 3] = [0.3, 0.7, 0.95];
const DIVIDED: usize = 30;
/// Misfit per figure above which drives of any kind are sampled; the best of them are fitted.
const UNEXPLAINED_STILL: f64 = 0.1;
const SCATTERED: usize = 2000;
const SCATTERED_FITTED: usize = 48;
/// Number of sampled drives fitted until convergence.
const LAST: usize = 3;

/// A kind with its best numbers so far.
struct KindEntry {
    point: Point,
    fitted: bool,
    expanded: bool,
    polished: bool,
}

/// Presence of an SLC cache, emptied during rests, suspends programs for reads. Small changes
/// do not lead from one family to another.
pub(super) type Family = (bool, bool, bool);

pub(super) fn family(kind: &DriveKind) -> Family {
    (kind.slc, kind.slc && kind.folds, kind.suspends)
}

impl FitProblem<'_> {
    /// The best point, the best of each other kind that fits nearly as well, and of each family.
    ///
    /// Repeatedly fits the most promising kind and its neighbours; expands each family once.
    pub(super) fn best(&mut self) -> Option<(Point, Vec<Point>, Vec<Candidate>)> {
        let mut tried: Vec<KindEntry> = Vec::new();
        for point in self.starts()? {
            add(&mut tried, point, true);
        }
        self.expand(&mut tried, EXPANSIONS)?;
        self.polished(&mut tried)?;
        if self.unexplained(&tried)? {
            self.expand(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        if self.unexplained(&tried)? {
            for point in self.fit_all_arrangements(&tried)? {
                add(&mut tried, point, true);
            }
            self.expand(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        if self.worse_than(&tried, UNEXPLAINED_STILL)? {
            for point in self.scattered(&tried)? {
                add(&mut tried, point, true);
            }
            self.expand(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        let families = of_families(&tried).into_iter().map(|point| point.candidate.clone()).collect();
        let (nth, _) = tried.iter().enumerate().min_by(|a, b| a.1.point.cost.total_cmp(&b.1.point.cost))?;
        let best = self.improve(tried.swap_remove(nth).point, ROUNDS)?;
        let mut others: Vec<Point> = tried.into_iter().map(|one| one.point).filter(|point| point.cost < best.cost + WORSE_MAX).collect();
        others.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        others.truncate(KINDS_MAX);
        Some((best, others, families))
    }

    /// Regular search around `point`, best result first. Keeps or omits the SLC cache as given.
    pub(super) fn settled(&mut self, point: Point) -> Option<Vec<Point>> {
        let slc = point.candidate.kind.slc;
        let mut tried = Vec::new();
        add(&mut tried, point, true);
        self.expand(&mut tried, EXPANSIONS_AFTER)?;
        tried.retain(|one| one.point.candidate.kind.slc == slc);
        self.polished(&mut tried)?;
        let mut points: Vec<Point> = tried.into_iter().map(|one| one.point).collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Some(points)
    }

    fn unexplained(&self, tried: &[KindEntry]) -> Option<bool> {
        self.worse_than(tried, UNEXPLAINED)
    }

    fn worse_than(&self, tried: &[KindEntry], misfit: f64) -> Option<bool> {
        let least = tried.iter().min_by(|a, b| a.point.cost.total_cmp(&b.point.cost))?;
        Some(self.misfit(&least.point) > misfit * self.found.observations.len() as f64)
    }

    /// Samples drives around the known host and TRIM parameters, repeatedly keeping the better
    /// half.
    fn scattered(&mut self, tried: &[KindEntry]) -> Option<Vec<Point>> {
        let mut random = Stream::new(self.plan.seed, "scattered");
        let of_families = of_families(tried);
        let candidates = (0..SCATTERED).filter_map(|_| {
            let from = &of_families[random.below(of_families.len() as u64) as usize].candidate;
            scattered_from(from, &mut random)
        });
        let candidates: Vec<Candidate> = candidates.collect();
        let mut points: Vec<Point> = self.try_all(candidates)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        points.truncate(SCATTERED_FITTED);
        self.best_of_many(points)
    }

    /// Improves all points a little and keeps the better half, until the last ones converge.
    fn best_of_many(&mut self, mut points: Vec<Point>) -> Option<Vec<Point>> {
        while points.len() > LAST {
            let mut better = Vec::new();
            for point in points {
                better.push(self.improve(point, 1)?);
            }
            better.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            better.truncate((better.len() / 2).max(LAST));
            points = better;
        }
        points.into_iter().map(|point| self.improve(point, ROUNDS)).collect()
    }

    /// Polishes the best kinds not yet polished, unless the figures are fully explained.
    fn polished(&mut self, tried: &mut [KindEntry]) -> Option<()> {
        for _ in 0..POLISHED {
            if !self.unexplained(tried)? {
                break;
            }
            let least = tried.iter().map(|one| one.point.cost).min_by(f64::total_cmp)?;
            let open = tried.iter_mut().filter(|one| !one.polished && one.point.cost < least + POLISHED_MAX);
            let Some(one) = open.min_by(|a, b| a.point.cost.total_cmp(&b.point.cost)) else { break };
            one.polished = true;
            let better = self.polish(one.point.clone())?;
            if better.cost < one.point.cost - GAIN_MIN {
                (one.point, one.expanded) = (better, false);
            }
        }
        Some(())
    }

    /// Expands the most promising kinds, up to `turns`, and fits the results.
    fn expand(&mut self, tried: &mut Vec<KindEntry>, turns: usize) -> Option<()> {
        for _ in 0..turns {
            let Some(next) = self.next(tried) else { break };
            let point = tried[next].point.clone();
            let point = self.improve(point, ROUNDS)?;
            for changed in self.changed(&point)? {
                add(tried, changed, false);
            }
            let here = &mut tried[next];
            (here.fitted, here.expanded) = (true, true);
            if point.cost < here.point.cost {
                here.point = point;
            }
        }
        // Fits kinds that were only adapted before they count as explanations.
        for _ in 0..KINDS_MAX {
            let least = tried.iter().map(|one| one.point.cost).min_by(f64::total_cmp)?;
            let open = tried.iter().enumerate().filter(|(_, one)| !one.fitted && one.point.cost < least + WORSE_MAX);
            let Some((nth, _)) = open.min_by(|a, b| a.1.point.cost.total_cmp(&b.1.point.cost)) else { break };
            tried[nth].point = self.improve(tried[nth].point.clone(), 2)?;
            tried[nth].fitted = true;
        }
        Some(())
    }

    /// Fits every arrangement of the best families with its own slopes, halving the number each
    /// time. An arrangement may look bad only because of numbers made for another. Also tries the
    /// best-looking ones with lone reads divided differently.
    fn fit_all_arrangements(&mut self, tried: &[KindEntry]) -> Option<Vec<Point>> {
        let mut of_families = of_families(tried);
        of_families.truncate(FAMILIES);
        let sata = !self.plan.reported.full_duplex;
        let all: Vec<Candidate> = of_families.iter().flat_map(|point| arrangements(&point.candidate, sata)).collect();
        let other = all.iter().flat_map(|one| CROSSINGS.iter().map(|share| divided(one, *share))).collect();
        let mut points: Vec<Point> = self.try_all(all)?.into_iter().flatten().collect();
        let mut other: Vec<Point> = self.try_all(other)?.into_iter().flatten().collect();
        other.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        points.extend(other.into_iter().take(DIVIDED));
        self.best_of_many(points)
    }

    /// The best arrangements of each family, fitted.
    fn starts(&mut self) -> Option<Vec<Point>> {
        let first = invert(self.found, self.plan);
        let sata = !self.plan.reported.full_duplex;
        let waiting = |from: &Candidate| {
            let mut to = from.clone();
            to.kind.suspends = !from.kind.suspends;
            to
        };
        let families: Vec<Candidate> = core::iter::once(first.clone()).chain(other_families(&first)).collect();
        let families: Vec<Candidate> = families.iter().cloned().chain(families.iter().map(waiting)).collect();
        // Ineffective TRIMs below some alignment make the mapping unit look larger than it may be.
        let unit = unit_written(self.found).filter(|unit| *unit < first.kind.unit_bytes);
        let smaller: Vec<Candidate> = families.iter().filter_map(|family| mapped_by(family, unit?)).collect();
        let families: Vec<Candidate> = families.into_iter().chain(smaller).collect();
        let starts = families.iter().flat_map(|start| core::iter::once(start.clone()).chain(arrangements(start, sata))).collect();
        let mut points: Vec<Point> = self.try_all(starts)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut fitted = Vec::new();
        for start in families {
            let like = |point: &&Point| {
                let kind = &point.candidate.kind;
                family(kind) == family(&start.kind) && kind.unit_bytes == start.kind.unit_bytes
            };
            for point in points.iter().filter(like).take(STARTS) {
                fitted.push(self.improve(point.clone(), 3)?);
            }
        }
        Some(fitted)
    }

    /// The best neighbour of each kind, with numbers adapted to the change.
    fn changed(&mut self, best: &Point) -> Option<Vec<Point>> {
        let slopes = self.slopes(best)?;
        let points = self.try_all(neighbours(&best.candidate, !self.plan.reported.full_duplex))?;
        let mut all: Vec<Point> = points.into_iter().flatten().collect();
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        all.truncate(ADAPTED);
        let mut all = self.adapted(all.into_iter().map(|point| (None, point)).collect(), &slopes)?;
        // The most promising neighbours are fitted without adaptation.
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut fitted = Vec::new();
        for (nth, point) in all.into_iter().enumerate() {
            fitted.push(if nth < FITTED { self.improve(point, 2)? } else { point });
        }
        Some(fitted)
    }

    /// Next kind to expand: the best of a family without a turn, then the best overall.
    fn next(&self, tried: &[KindEntry]) -> Option<usize> {
        let cheapest = |a: &(usize, &KindEntry), b: &(usize, &KindEntry)| a.1.point.cost.total_cmp(&b.1.point.cost);
        let (_, best) = tried.iter().enumerate().min_by(cheapest)?;
        let (least, figures) = (best.point.cost, self.found.observations.len() as f64);
        let hopeless = if self.misfit(&best.point) < EXACT * figures { FAMILY_EXCESS_MAX_IF_EXACT } else { FAMILY_EXCESS_MAX };
        let turns = |of: Family| tried.iter().filter(|one| one.expanded && family(&one.point.candidate.kind) == of).count();
        let open = || tried.iter().enumerate().filter(|(_, one)| !one.expanded);
        let neglected = open()
            .filter(|(_, one)| one.point.cost < least + hopeless && turns(family(&one.point.candidate.kind)) < OF_A_FAMILY)
            .min_by(cheapest);
        let promising = open().filter(|(_, one)| one.point.cost < least + PROMISING).min_by(cheapest);
        neglected.or(promising).map(|(nth, _)| nth)
    }
}

fn of_families(tried: &[KindEntry]) -> Vec<&Point> {
    let mut best: Vec<&Point> = tried.iter().map(|one| &one.point).collect();
    best.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut of_families: Vec<&Point> = Vec::new();
    for point in best {
        if !of_families.iter().any(|known| family(&known.candidate.kind) == family(&point.candidate.kind)) {
            of_families.push(point);
        }
    }
    of_families
}

/// Records a kind, or better numbers for it.
fn add(tried: &mut Vec<KindEntry>, point: Point, fitted: bool) {
    match tried.iter_mut().find(|one| one.point.candidate.is_kind_of(&point.candidate)) {
        Some(known) if known.point.cost > point.cost => (known.point, known.polished) = (point, false),
        Some(_) => {}
        None => tried.push(KindEntry { point, fitted, expanded: false, polished: false }),
    }
}
