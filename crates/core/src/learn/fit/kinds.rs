//! The search among kinds of drives: one change at a time.

use super::super::candidate::{Candidate, Kind, at};
use super::{CHANGES, Point, Problem, ROUNDS, invert};
use alloc::vec::Vec;

/// Kinds that are worse by more do not explain the figures.
const WORSE_MAX: f64 = 14.0;
/// Arrangements that are fitted before the best is taken, with a part of one bit a cell and without.
const STARTS: usize = 6;
/// Kinds that are taken into account besides the best.
const KINDS_MAX: usize = 12;

impl Problem<'_> {
    /// The best point, and the best of each other kind that explains the figures nearly as well.
    pub(super) fn best(&mut self) -> Option<(Point, Vec<Point>)> {
        let first = invert(self.found, self.plan);
        // With a part of one bit a cell and without: one cannot be had from the other by small changes.
        let both: Vec<Candidate> = core::iter::once(first.clone()).chain(slc_or_not(&first)).collect();
        let starts = both.iter().flat_map(|start| core::iter::once(start.clone()).chain(arrangements(start))).collect();
        let mut points: Vec<Point> = self.try_all(starts)?.into_iter().flatten().collect();
        points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut improved = Vec::new();
        for slc in [false, true] {
            for point in points.iter().filter(|point| point.candidate.kind.slc == slc).take(STARTS) {
                improved.push(self.improve(point.clone(), 3)?);
            }
        }
        let mut best = improved.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        best = self.improve(best, ROUNDS)?;
        let mut seen: Vec<Point> = Vec::new();
        for _ in 0..CHANGES {
            let changed = self.changed(&best)?;
            seen.extend(changed.iter().cloned());
            let better = changed.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).filter(|point| point.cost < best.cost - 0.5);
            let Some(better) = better else { break };
            seen.push(best);
            best = self.improve(better, ROUNDS)?;
        }
        Some(others(best, seen))
    }

    /// The best of each kind that is one change away, its numbers adapted to the change.
    fn changed(&mut self, best: &Point) -> Option<Vec<Point>> {
        let slopes = self.slopes(best)?;
        let means = self.means();
        let points = self.try_all(neighbours(&best.candidate))?;
        let mut all: Vec<Point> = points.into_iter().flatten().collect();
        for _ in 0..3 {
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
            fitted.push(if nth < 5 { self.improve(point, 3)? } else { point });
        }
        Some(fitted)
    }
}

fn others(best: Point, seen: Vec<Point>) -> (Point, Vec<Point>) {
    let mut others: Vec<Point> = Vec::new();
    for point in seen.into_iter().filter(|point| point.candidate.kind != best.candidate.kind && point.cost < best.cost + WORSE_MAX) {
        match others.iter_mut().find(|other| other.candidate.kind == point.candidate.kind) {
            Some(other) if other.cost > point.cost => *other = point,
            Some(_) => {}
            None => others.push(point),
        }
    }
    others.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    others.truncate(KINDS_MAX);
    (best, others)
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
    // A flush waits for a program and for as long as before in all.
    to.logs[at::FLUSH] = libm::log((flushed - to.number(programs(&to.kind))).max(FLUSH_MIN_NS));
    to.logs[at::CHANNEL] -= libm::log(f64::from(to.kind.channels) / f64::from(from.kind.channels));
    Some(to)
}

/// Numbers of dies and rows that might be meant.
fn arrangements(from: &Candidate) -> Vec<Candidate> {
    let mut all = Vec::new();
    for dies in [2_u32, 4, 8, 16, 32, 64] {
        for row in [16_u64 << 10, 32 << 10, 64 << 10] {
            all.extend(arranged(from, |kind| {
                (kind.channels, kind.dies_per_channel) = (dies.min(8), (dies / 8).max(1));
                (kind.planes, kind.page_bytes) = ((row >> 14) as u32, 16 << 10);
            }));
        }
    }
    all
}

/// What is one change away.
fn neighbours(from: &Candidate) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    all.extend(arranged(from, |kind| kind.dies_per_channel *= 2));
    all.extend(arranged(from, |kind| kind.dies_per_channel /= 2));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels * 2, kind.dies_per_channel / 2)));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels / 2, kind.dies_per_channel * 2)));
    all.extend(arranged(from, |kind| kind.channels *= 2));
    all.extend(arranged(from, |kind| kind.channels /= 2));
    all.extend(arranged(from, |kind| kind.planes *= 2));
    all.extend(arranged(from, |kind| kind.planes /= 2));
    all.extend(arranged(from, |kind| (kind.dies_per_channel, kind.planes) = (kind.dies_per_channel * 2, kind.planes / 2)));
    all.extend(arranged(from, |kind| (kind.dies_per_channel, kind.planes) = (kind.dies_per_channel / 2, kind.planes * 2)));
    all.extend(arranged(from, |kind| kind.page_bytes /= 2));
    all.extend(arranged(from, |kind| kind.page_bytes *= 2));
    let of_kind = |change: &dyn Fn(&mut Kind)| arranged(from, change);
    for unit in [from.kind.unit_bytes * 2, from.kind.unit_bytes / 2].into_iter().filter(|unit| (4096..=65_536).contains(unit)) {
        // What counts for TRIM stays: the larger of unit and alignment.
        let granularity = from.kind.unit_bytes.max(from.kind.trim_alignment_bytes);
        all.extend(of_kind(&|kind| {
            kind.unit_bytes = unit;
            kind.trim_alignment_bytes = if granularity > unit { granularity } else { 0 };
        }));
    }
    all.extend(of_kind(&|kind| kind.suspends = !kind.suspends));
    all.extend(of_kind(&|kind| kind.protected = !kind.protected));
    all.extend(of_kind(&|kind| kind.trim_queued = !kind.trim_queued));
    all.extend(slc_or_not(from));
    for (number, more) in
        [(at::READ_AHEAD, 3.0), (at::READ_AHEAD, 1.0 / 3.0), (at::READ_AHEAD, 0.01), (at::CACHE, 2.0), (at::CACHE, 0.5), (at::SUSPEND, 0.5)]
    {
        let mut jump = from.clone();
        jump.logs[number] += libm::log(more);
        all.push(jump);
    }
    all
}

/// With a part of one bit a cell where there was none, or without.
fn slc_or_not(from: &Candidate) -> Option<Candidate> {
    if from.kind.compresses {
        return None;
    }
    let mut to = from.clone();
    to.kind.slc = !from.kind.slc;
    if to.kind.slc {
        to.logs[at::SLC_PROGRAM] = from.logs[at::PROGRAM];
        to.logs[at::PROGRAM] += libm::log(6.0);
        to.logs[at::SLC_READ] = from.logs[at::READ] - libm::log(2.5);
    } else {
        to.logs[at::PROGRAM] = from.logs[at::SLC_PROGRAM];
    }
    Some(to)
}
