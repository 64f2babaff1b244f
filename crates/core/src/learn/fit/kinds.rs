//! The search among kinds of drives: one change at a time.

use super::super::candidate::{Candidate, Kind, at};
use super::super::classes;
use super::super::invert::{PROGRAM_OF_FLUSH, invert, unit_written};
use super::{Point, Problem, ROUNDS};
use crate::rng::{Stream, normal_quantile};
use alloc::vec::Vec;

/// Kinds that are worse by more do not explain the figures.
const WORSE_MAX: f64 = 14.0;
/// Arrangements that are fitted before the search begins, for each family.
const STARTS: usize = 2;
/// Kinds around which others are tried, at most; and so many of each family at least.
const EXPANSIONS: usize = 12;
const OF_A_FAMILY: usize = 1;
/// A kind that is worse by more is no place from where to look on.
const PROMISING: f64 = 9.0;
/// A family that is worse by more gets no turn; by far less where something explains every figure to a fifth of what it may be off by.
const HOPELESS: f64 = 300.0;
const HOPELESS_BESIDE_EXACT: f64 = 30.0;
const EXACT: f64 = 0.04;
/// Of the kinds around one, so many are adapted.
const ADAPTED: usize = 24;
/// Kinds that are taken into account besides the best.
const KINDS_MAX: usize = 24;
/// Of the kinds around one, so many are fitted as they are.
const FITTED: usize = 4;
/// Where the best is off by more, in units of what figures may be off by, all arrangements of so many families are fitted side by side, and so many more kinds
/// are looked around.
const UNEXPLAINED: f64 = 0.02;
/// So many kinds are polished at a time, if they are worse by less.
const POLISHED: usize = 3;
const POLISHED_MAX: f64 = 40.0;
const FAMILIES: usize = 2;
const EXPANSIONS_AFTER: usize = 4;
/// Where it is off by that even then, so many drives are drawn of whatever kind, and the best of them fitted.
const UNEXPLAINED_STILL: f64 = 0.1;
const SCATTERED: usize = 2000;
const SCATTERED_FITTED: usize = 48;
/// So many of these are fitted to the end.
const LAST: usize = 3;

/// A kind that was tried, at its best numbers so far.
struct Tried {
    point: Point,
    fitted: bool,
    expanded: bool,
    polished: bool,
}

/// Whether there is a part with one bit a cell, whether it was emptied, and whether reads wait: one cannot be had from another by small changes.
type Family = (bool, bool, bool);

fn family(kind: &Kind) -> Family {
    (kind.slc, kind.slc && kind.folds, kind.suspends)
}

impl Problem<'_> {
    /// The best point, and the best of each other kind that explains the figures nearly as well.
    ///
    /// The most promising kind is fitted and what is one change away from it is tried, again and again; of each family the best at least once.
    pub(super) fn best(&mut self) -> Option<(Point, Vec<Point>)> {
        let mut tried: Vec<Tried> = Vec::new();
        for point in self.starts()? {
            add(&mut tried, point, true);
        }
        self.look_around(&mut tried, EXPANSIONS)?;
        self.polished(&mut tried)?;
        if self.unexplained(&tried)? {
            self.look_around(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        if self.unexplained(&tried)? {
            for point in self.side_by_side(&tried)? {
                add(&mut tried, point, true);
            }
            self.look_around(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        if self.worse_than(&tried, UNEXPLAINED_STILL)? {
            for point in self.scattered(&tried)? {
                add(&mut tried, point, true);
            }
            self.look_around(&mut tried, EXPANSIONS_AFTER)?;
            self.polished(&mut tried)?;
        }
        let (nth, _) = tried.iter().enumerate().min_by(|a, b| a.1.point.cost.total_cmp(&b.1.point.cost))?;
        let best = self.improve(tried.swap_remove(nth).point, ROUNDS)?;
        let mut others: Vec<Point> = tried.into_iter().map(|one| one.point).filter(|point| point.cost < best.cost + WORSE_MAX).collect();
        others.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        others.truncate(KINDS_MAX);
        Some((best, others))
    }

    fn unexplained(&self, tried: &[Tried]) -> Option<bool> {
        self.worse_than(tried, UNEXPLAINED)
    }

    fn worse_than(&self, tried: &[Tried], misfit: f64) -> Option<bool> {
        let least = tried.iter().min_by(|a, b| a.point.cost.total_cmp(&b.point.cost))?;
        Some(self.misfit(&least.point) > misfit * self.found.observations.len() as f64)
    }

    /// Drives of whatever kind, drawn around what is known already of host and TRIM; the better half of them goes on each time, fitted a little more.
    fn scattered(&mut self, tried: &[Tried]) -> Option<Vec<Point>> {
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

    /// Improves all, the better half of them once more, and so on; the last to the end.
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

    /// Polishes the best kinds that have not been, if they do not explain the figures to the end.
    fn polished(&mut self, tried: &mut [Tried]) -> Option<()> {
        for _ in 0..POLISHED {
            if !self.unexplained(tried)? {
                break;
            }
            let least = tried.iter().map(|one| one.point.cost).min_by(f64::total_cmp)?;
            let open = tried.iter_mut().filter(|one| !one.polished && one.point.cost < least + POLISHED_MAX);
            let Some(one) = open.min_by(|a, b| a.point.cost.total_cmp(&b.point.cost)) else { break };
            one.polished = true;
            let better = self.polish(one.point.clone())?;
            if better.cost < one.point.cost - 0.3 {
                (one.point, one.expanded) = (better, false);
            }
        }
        Some(())
    }

    /// Tries what is one change away from the most promising kinds, `turns` of them, and fits what came of it.
    fn look_around(&mut self, tried: &mut Vec<Tried>, turns: usize) -> Option<()> {
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
        // What was only looked at is fitted before it is taken for one that explains the figures.
        for _ in 0..KINDS_MAX {
            let least = tried.iter().map(|one| one.point.cost).min_by(f64::total_cmp)?;
            let open = tried.iter().enumerate().filter(|(_, one)| !one.fitted && one.point.cost < least + WORSE_MAX);
            let Some((nth, _)) = open.min_by(|a, b| a.1.point.cost.total_cmp(&b.1.point.cost)) else { break };
            tried[nth].point = self.improve(tried[nth].point.clone(), 2)?;
            tried[nth].fitted = true;
        }
        Some(())
    }

    /// Every arrangement of the families that explain most, each by its own slopes: half of them goes on each time. What looks bad at numbers that were made for
    /// another may be what was meant.
    fn side_by_side(&mut self, tried: &[Tried]) -> Option<Vec<Point>> {
        let mut of_families = of_families(tried);
        of_families.truncate(FAMILIES);
        let sata = !self.plan.reported.full_duplex;
        let all = of_families.iter().flat_map(|point| arrangements(&point.candidate, sata)).collect();
        let points: Vec<Point> = self.try_all(all)?.into_iter().flatten().collect();
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
        // TRIMs of less than some alignment have no effect either: the unit may be smaller than they say.
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

    /// The best of each kind that is one change away, its numbers adapted to the change.
    fn changed(&mut self, best: &Point) -> Option<Vec<Point>> {
        let slopes = self.slopes(best)?;
        let means = self.means();
        let points = self.try_all(neighbours(&best.candidate, !self.plan.reported.full_duplex))?;
        let mut all: Vec<Point> = points.into_iter().flatten().collect();
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        all.truncate(ADAPTED);
        for _ in 0..2 {
            let steps = all.iter().map(|point| {
                let residuals = self.residuals(&point.shown);
                self.step(&point.candidate, &residuals, &means, &slopes, 0.05).unwrap_or_else(|| point.candidate.clone())
            });
            let steps: Vec<Candidate> = steps.collect();
            for (point, step) in all.iter_mut().zip(self.try_all(steps)?) {
                if let Some(step) = step.filter(|step| step.cost < point.cost) {
                    *point = step;
                }
            }
        }
        // The most promising are fitted as they are.
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut fitted = Vec::new();
        for (nth, point) in all.into_iter().enumerate() {
            fitted.push(if nth < FITTED { self.improve(point, 2)? } else { point });
        }
        Some(fitted)
    }

    /// Around which kind others are tried next: the best of a family that has had no turn, then the best of all.
    fn next(&self, tried: &[Tried]) -> Option<usize> {
        let cheapest = |a: &(usize, &Tried), b: &(usize, &Tried)| a.1.point.cost.total_cmp(&b.1.point.cost);
        let (_, best) = tried.iter().enumerate().min_by(cheapest)?;
        let (least, figures) = (best.point.cost, self.found.observations.len() as f64);
        let hopeless = if self.misfit(&best.point) < EXACT * figures { HOPELESS_BESIDE_EXACT } else { HOPELESS };
        let turns = |of: Family| tried.iter().filter(|one| one.expanded && family(&one.point.candidate.kind) == of).count();
        let open = || tried.iter().enumerate().filter(|(_, one)| !one.expanded);
        let neglected = open()
            .filter(|(_, one)| one.point.cost < least + hopeless && turns(family(&one.point.candidate.kind)) < OF_A_FAMILY)
            .min_by(cheapest);
        let promising = open().filter(|(_, one)| one.point.cost < least + PROMISING).min_by(cheapest);
        neglected.or(promising).map(|(nth, _)| nth)
    }
}

/// The best of each family, in order.
fn of_families(tried: &[Tried]) -> Vec<&Point> {
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

/// A drive with other flash behind the same host: arrangement, pages and what they take are drawn, programs so that it writes about as fast.
fn scattered_from(from: &Candidate, random: &mut Stream) -> Option<Candidate> {
    let dies = 2_u32 << random.below(6);
    let channels = (4_u32 << random.below(2)).min(dies);
    let planes = 1 << random.below(3);
    let mut to = arranged(from, |kind| {
        (kind.channels, kind.dies_per_channel) = (channels, dies / channels);
        (kind.planes, kind.page_bytes) = (planes, 16 << 10);
    })?;
    to.kind.read_spread_permille = if random.chance(0.5) { 0 } else { 100 * random.between(1, 4) as u16 };
    to.kind.suspends ^= random.chance(0.2);
    to.kind.compresses ^= !to.kind.slc && random.chance(0.2);
    if random.chance(0.2)
        && let Some(other) = mapped_by(&to, to.kind.unit_bytes / 2)
    {
        to = other;
    }
    to.hidden.bits_per_cell = classes::bits(to.kind.slc)[random.below(2) as usize];
    for (number, sigma) in SCATTER {
        to.logs[number] += sigma * normal_quantile(random.unit().clamp(1e-9, 1.0 - 1e-9));
    }
    Some(to)
}

/// By how much numbers of the flash are scattered.
const SCATTER: [(usize, f64); 6] =
    [(at::READ, 0.3), (at::CHANNEL, 0.5), (at::CACHE, 0.6), (at::PROGRAM, 0.15), (at::SLC_PROGRAM, 0.15), (at::SLC_READ, 0.15)];

/// Takes note of a kind, or of better numbers for it.
fn add(tried: &mut Vec<Tried>, point: Point, fitted: bool) {
    match tried.iter_mut().find(|one| one.point.candidate.is_kind_of(&point.candidate)) {
        Some(known) if known.point.cost > point.cost => (known.point, known.polished) = (point, false),
        Some(_) => {}
        None => tried.push(Tried { point, fitted, expanded: false, polished: false }),
    }
}

/// A flush that takes less besides is as good as one that takes nothing.
const FLUSH_MIN_NS: f64 = 5e3;

/// Which number fresh data are programmed in.
const fn programs(kind: &Kind) -> usize {
    if kind.slc { at::SLC_PROGRAM } else { at::PROGRAM }
}

/// Changes the arrangement of the flash so that it still writes as fast.
fn arranged(from: &Candidate, change: impl Fn(&mut Kind)) -> Option<Candidate> {
    let mut to = from.clone();
    change(&mut to.kind);
    let kind = &to.kind;
    let possible = (1..=16).contains(&kind.channels) && (1..=16).contains(&kind.dies_per_channel) && kind.dies() <= 128;
    let fits = kind.row_bytes().is_multiple_of(kind.unit_bytes) || kind.unit_bytes.is_multiple_of(kind.row_bytes());
    if !possible || !(1..=8).contains(&kind.planes) || !(4096..=65_536).contains(&kind.page_bytes) || !fits {
        return None;
    }
    let side_by_side = |kind: &Kind| f64::from(kind.dies()) * kind.row_bytes() as f64;
    let more = libm::log(side_by_side(&to.kind) / side_by_side(&from.kind));
    let flushed = from.number(at::FLUSH) + from.number(programs(&from.kind));
    to.logs[at::PROGRAM] += more;
    to.logs[at::SLC_PROGRAM] += more;
    if !to.kind.protected {
        let program = programs(&to.kind);
        to.logs[program] = to.logs[program].min(libm::log(PROGRAM_OF_FLUSH * flushed));
    }
    // A flush waits for a program and for as long as before in all.
    to.logs[at::FLUSH] = libm::log((flushed - to.number(programs(&to.kind))).max(FLUSH_MIN_NS));
    to.logs[at::CHANNEL] -= libm::log(f64::from(to.kind.channels) / f64::from(from.kind.channels));
    Some(to)
}

/// Numbers of dies and rows that might be meant; pages of less than 16 KiB where the link may be of their time.
fn arrangements(from: &Candidate, sata: bool) -> Vec<Candidate> {
    let mut all = Vec::new();
    let rows = [4_u64 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10].into_iter().skip(if sata { 0 } else { 2 });
    for dies in [2_u32, 4, 8, 16, 32, 64] {
        for row in rows.clone() {
            for channels in [4, 8].into_iter().filter(|channels| *channels == 4 || dies > 4) {
                all.extend(arranged(from, |kind| {
                    (kind.channels, kind.dies_per_channel) = (dies.min(channels), (dies / channels).max(1));
                    (kind.planes, kind.page_bytes) = ((row >> 14).max(1) as u32, row.min(16 << 10));
                }));
            }
        }
    }
    all
}

/// With another mapping unit, what a TRIM costs for each byte unchanged; and what counts for TRIM stays, the larger of unit and alignment.
fn mapped_by(from: &Candidate, unit: u64) -> Option<Candidate> {
    let granularity = from.kind.unit_bytes.max(from.kind.trim_alignment_bytes);
    let mut to = (4096..=65_536).contains(&unit).then(|| {
        arranged(from, |kind| {
            kind.unit_bytes = unit;
            kind.trim_alignment_bytes = if granularity > unit { granularity } else { 0 };
        })
    })??;
    to.logs[at::TRIM_UNIT] += libm::log(unit as f64 / from.kind.unit_bytes as f64);
    Some(to)
}

/// What is one change away.
fn neighbours(from: &Candidate, sata: bool) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    all.extend(arranged(from, |kind| kind.dies_per_channel *= 2));
    all.extend(arranged(from, |kind| kind.dies_per_channel /= 2));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels * 2, kind.dies_per_channel / 2)));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels / 2, kind.dies_per_channel * 2)));
    all.extend(arranged(from, |kind| kind.channels *= 2));
    all.extend(arranged(from, |kind| kind.channels /= 2));
    // Ten channels, as some of the first had.
    all.extend(
        [(8, 10), (10, 8)]
            .into_iter()
            .filter(|(is, _)| from.kind.channels == *is)
            .filter_map(|(_, other)| arranged(from, |kind| kind.channels = other)),
    );
    all.extend(arranged(from, |kind| kind.planes *= 2));
    all.extend(arranged(from, |kind| kind.planes /= 2));
    all.extend(arranged(from, |kind| (kind.dies_per_channel, kind.planes) = (kind.dies_per_channel * 2, kind.planes / 2)));
    all.extend(arranged(from, |kind| (kind.dies_per_channel, kind.planes) = (kind.dies_per_channel / 2, kind.planes * 2)));
    all.extend(arranged(from, |kind| kind.page_bytes /= 2));
    all.extend(arranged(from, |kind| kind.page_bytes *= 2));
    all.extend(arrangements(from, sata).into_iter().filter(|other| other.kind != from.kind));
    let of_kind = |change: &dyn Fn(&mut Kind)| arranged(from, change);
    all.extend([from.kind.unit_bytes * 2, from.kind.unit_bytes / 2].into_iter().filter_map(|unit| mapped_by(from, unit)));
    all.extend(of_kind(&|kind| kind.suspends = !kind.suspends));
    all.extend(of_kind(&|kind| kind.protected = !kind.protected));
    all.extend(of_kind(&|kind| kind.trim_queued = !kind.trim_queued));
    if !from.kind.slc {
        all.extend(of_kind(&|kind| kind.compresses = !kind.compresses));
    }
    all.extend(other_families(from));
    for more in [0, 100, 200, 300, 400].into_iter().filter(|more| from.kind.read_spread_permille.abs_diff(*more) == 100) {
        all.extend(of_kind(&|kind| kind.read_spread_permille = more));
    }
    if from.kind.read_spread_permille > 0 {
        all.extend(classes::bits(from.kind.slc).into_iter().filter(|bits| *bits != from.hidden.bits_per_cell).map(|bits| {
            let mut to = from.clone();
            to.hidden.bits_per_cell = bits;
            to
        }));
    }
    for (number, more) in
        [(at::READ_AHEAD, 3.0), (at::READ_AHEAD, 1.0 / 3.0), (at::READ_AHEAD, 0.01), (at::CACHE, 2.0), (at::CACHE, 0.5), (at::SUSPEND, 0.5)]
    {
        let mut jump = from.clone();
        jump.logs[number] += libm::log(more);
        all.push(jump);
    }
    all
}

const fn within([few, many]: [u8; 2], bits: u8) -> u8 {
    if bits < few {
        few
    } else if bits > many {
        many
    } else {
        bits
    }
}

/// With a part of one bit a cell where there was none, emptied or not, or without.
fn other_families(from: &Candidate) -> Vec<Candidate> {
    if from.kind.compresses {
        return Vec::new();
    }
    let with = |folds: bool| {
        let mut to = from.clone();
        (to.kind.slc, to.kind.folds) = (true, folds);
        to.hidden.bits_per_cell = within(classes::bits(true), from.hidden.bits_per_cell);
        if !from.kind.slc {
            to.logs[at::SLC_PROGRAM] = from.logs[at::PROGRAM];
            to.logs[at::PROGRAM] += libm::log(6.0);
        }
        // What is read after a rest is native cells, or it is not.
        let shown = if from.kind.slc && !from.kind.folds { from.logs[at::SLC_READ] } else { from.logs[at::READ] };
        (to.logs[at::READ], to.logs[at::SLC_READ]) = if folds { (shown, shown - libm::log(2.5)) } else { (shown + libm::log(2.5), shown) };
        to
    };
    let without = || {
        let mut to = from.clone();
        (to.kind.slc, to.kind.folds) = (false, true);
        to.hidden.bits_per_cell = within(classes::bits(false), from.hidden.bits_per_cell);
        to.logs[at::PROGRAM] = from.logs[at::SLC_PROGRAM];
        to.logs[at::READ] = if from.kind.folds { from.logs[at::READ] } else { from.logs[at::SLC_READ] };
        to
    };
    match (from.kind.slc, from.kind.folds) {
        (false, _) => alloc::vec![with(true), with(false)],
        (true, folds) => alloc::vec![with(!folds), without()],
    }
}
