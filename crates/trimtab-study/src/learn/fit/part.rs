//! Drives as the small probes see them: dies, rows, mapping unit, caches and TRIM.

use super::Space;
use crate::learn::candidate::{Candidate, DriveKind, NUMBERS, OF_SMALL_PROBES, UNIT_MAX, at};
use crate::learn::classes::{self, Prior};
use crate::learn::invert::{PROGRAM_OF_FLUSH, invert, unit_written};
use crate::learn::lab::IsWorth;
use crate::learn::probes::{Findings, ProbePlan};
use alloc::vec;
use alloc::vec::Vec;

/// Flush time below which it counts as zero.
const FLUSH_MIN_NS: f64 = 5e3;
/// Jumps of numbers over kinks of the figures, as factors: no read-ahead, or one of whole
/// rows; a cache of half or twice the size; pauses as short as a transfer.
const JUMPS: [(usize, f64); 6] = [
    (at::READ_AHEAD, 3.0),
    (at::READ_AHEAD, 1.0 / 3.0),
    (at::READ_AHEAD, 0.01),
    (at::CACHE, 2.0),
    (at::CACHE, 0.5),
    (at::SUSPEND, 0.5),
];

/// The space of the small probes.
pub(super) struct SmallProbes<'a> {
    plan: &'a ProbePlan,
    priors: [Prior; NUMBERS],
    show: &'a ShowFunction<'a>,
}

/// Runs the small probes on one candidate, while it is worth it.
pub(super) type ShowFunction<'a> = dyn Fn(&Candidate, &IsWorth<'_>) -> Option<Vec<f64>> + Sync + 'a;

impl<'a> SmallProbes<'a> {
    pub(super) fn new(plan: &'a ProbePlan, show: &'a ShowFunction<'a>) -> Self {
        Self { plan, priors: classes::priors(&plan.reported), show }
    }
}

impl Space for SmallProbes<'_> {
    fn show(&self, candidate: &Candidate, is_worth: &IsWorth<'_>) -> Option<Vec<f64>> {
        (self.show)(candidate, is_worth)
    }

    fn is_free(&self, candidate: &Candidate, number: usize) -> bool {
        number < OF_SMALL_PROBES && candidate.has(number)
    }

    fn prior(&self, _: &Candidate, number: usize) -> Prior {
        self.priors[number]
    }

    fn rarity(&self, candidate: &Candidate) -> f64 {
        let bits = candidate
            .shown_bits()
            .map_or(0.0, |bits| classes::rarity_of_bits(bits, candidate.kind.slc));
        bits + classes::rarity(&candidate.kind, &self.plan.reported)
    }

    fn is_same_kind(&self, one: &Candidate, other: &Candidate) -> bool {
        one.is_kind_of(other)
    }

    /// Dies and rows; presence of an SLC cache, emptied during rests; suspends programs
    /// for reads.
    fn family(&self, candidate: &Candidate) -> usize {
        let kind = &candidate.kind;
        let cache = usize::from(kind.slc)
            + usize::from(kind.slc && kind.folds)
            + 3 * usize::from(kind.suspends);
        (kind.dies() as usize * 64 + (kind.row_bytes() >> 10) as usize) * 6 + cache
    }

    /// Half a second: a candidate takes 2 ms.
    fn draws(&self) -> usize {
        300
    }

    fn neighbours(&self, from: &Candidate) -> Vec<Candidate> {
        let kind = &from.kind;
        let mut all = arrangements(from, !self.plan.reported.full_duplex);
        all.extend(
            [kind.unit_bytes * 2, kind.unit_bytes / 2]
                .into_iter()
                .filter_map(|unit| mapped_by(from, unit)),
        );
        let mut of_kind = |change: &dyn Fn(&mut DriveKind)| all.extend(arranged(from, change));
        of_kind(&|kind| kind.suspends = !kind.suspends);
        of_kind(&|kind| kind.protected = !kind.protected);
        of_kind(&|kind| kind.trim_queued = !kind.trim_queued);
        if !kind.slc {
            of_kind(&|kind| kind.compresses = !kind.compresses);
        }
        for spread in [0, 100, 200, 300, 400]
            .into_iter()
            .filter(|spread| kind.read_spread_permille.abs_diff(*spread) == 100)
        {
            of_kind(&|kind| kind.read_spread_permille = spread);
        }
        all.extend(other_caches(from));
        if let Some(shown) = from.shown_bits() {
            all.extend(classes::bits(kind.slc).into_iter().filter(|bits| *bits != shown).map(
                |bits| {
                    let mut to = from.clone();
                    to.hidden.bits_per_cell = bits;
                    to
                },
            ));
        }
        for (number, factor) in JUMPS {
            let mut to = from.clone();
            to.logs[number] += libm::log(factor);
            all.push(to);
        }
        all.retain(|to| to != from);
        all
    }
}

/// Where the search starts: the drive that arithmetic suggests, with and without an SLC
/// cache and suspended programs, and with the mapping unit that random writes show. TRIMs
/// without effect below some alignment make the unit look larger than it may be.
pub(super) fn starts(found: &Findings, plan: &ProbePlan) -> Vec<Candidate> {
    let first = invert(found, plan);
    let smaller = unit_written(found)
        .filter(|unit| *unit < first.kind.unit_bytes)
        .and_then(|unit| mapped_by(&first, unit));
    let units = core::iter::once(first).chain(smaller);
    let caches = units.flat_map(|one| core::iter::once(one.clone()).chain(other_caches(&one)));
    let both = |one: Candidate| {
        let mut other = one.clone();
        other.kind.suspends = !one.kind.suspends;
        [one, other]
    };
    caches.flat_map(both).collect()
}

/// Index of the program time for new data.
const fn programs(kind: &DriveKind) -> usize {
    if kind.slc { at::SLC_PROGRAM } else { at::PROGRAM }
}

/// Changes the flash geometry while keeping the write rate.
fn arranged(from: &Candidate, change: impl Fn(&mut DriveKind)) -> Option<Candidate> {
    let mut to = from.clone();
    change(&mut to.kind);
    let kind = &to.kind;
    if !kind.row_bytes().is_multiple_of(kind.unit_bytes)
        && !kind.unit_bytes.is_multiple_of(kind.row_bytes())
    {
        return None;
    }
    let side_by_side = |kind: &DriveKind| f64::from(kind.dies()) * kind.row_bytes() as f64;
    let more = libm::log(side_by_side(&to.kind) / side_by_side(&from.kind));
    let flushed = from.number(at::FLUSH) + from.number(programs(&from.kind));
    to.logs[at::PROGRAM] += more;
    to.logs[at::SLC_PROGRAM] += more;
    if !to.kind.protected {
        let program = programs(&to.kind);
        to.logs[program] = to.logs[program].min(libm::log(PROGRAM_OF_FLUSH * flushed));
    }
    // The total flush time, which includes one program, stays the same.
    to.logs[at::FLUSH] = libm::log((flushed - to.number(programs(&to.kind))).max(FLUSH_MIN_NS));
    to.logs[at::CHANNEL] -= libm::log(f64::from(to.kind.channels) / f64::from(from.kind.channels));
    Some(to)
}

/// Other numbers of dies and row sizes; pages below 16 KiB if the link may be of that
/// era, and ten channels as in some drives of it.
fn arrangements(from: &Candidate, sata: bool) -> Vec<Candidate> {
    let rows: &[u64] = if sata {
        &[4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]
    } else {
        &[16 << 10, 32 << 10, 64 << 10]
    };
    let few = [(2, 1), (10, 1), (10, 2)];
    let dies = [4, 8]
        .into_iter()
        .flat_map(|channels| [1, 2, 4, 8, 16].map(|dies| (channels, dies)))
        .chain(few);
    let each = |(channels, dies)| {
        rows.iter().filter_map(move |row| {
            arranged(from, |kind| {
                (kind.channels, kind.dies_per_channel) = (channels, dies);
                (kind.planes, kind.page_bytes) = ((row >> 14).max(1) as u32, (*row).min(16 << 10));
            })
        })
    };
    dies.flat_map(each).collect()
}

/// Changes the mapping unit. Keeps the TRIM cost per byte and the effective TRIM
/// granularity, which is the larger of unit and alignment.
fn mapped_by(from: &Candidate, unit: u64) -> Option<Candidate> {
    if !(4096..=UNIT_MAX).contains(&unit) {
        return None;
    }
    let granularity = from.kind.unit_bytes.max(from.kind.trim_alignment_bytes);
    let mut to = arranged(from, |kind| {
        kind.unit_bytes = unit;
        kind.trim_alignment_bytes = if granularity > unit { granularity } else { 0 };
    })?;
    to.logs[at::TRIM_UNIT] += libm::log(unit as f64 / from.kind.unit_bytes as f64);
    Some(to)
}

/// Candidates without an SLC cache, or with one that is emptied or not.
fn other_caches(from: &Candidate) -> Vec<Candidate> {
    if from.kind.compresses {
        return Vec::new();
    }
    let native_six_times_slower = libm::log(6.0);
    let reads_slower = libm::log(2.5);
    let with = |folds: bool| {
        let mut to = from.clone();
        (to.kind.slc, to.kind.folds) = (true, folds);
        let [few, many] = classes::bits(true);
        to.hidden.bits_per_cell = from.hidden.bits_per_cell.clamp(few, many);
        if !from.kind.slc {
            to.logs[at::SLC_PROGRAM] = from.logs[at::PROGRAM];
            to.logs[at::PROGRAM] += native_six_times_slower;
        }
        // Reads after a rest come from native cells if the SLC cache is emptied.
        let shown = if from.kind.slc && !from.kind.folds {
            from.logs[at::SLC_READ]
        } else {
            from.logs[at::READ]
        };
        (to.logs[at::READ], to.logs[at::SLC_READ]) =
            if folds { (shown, shown - reads_slower) } else { (shown + reads_slower, shown) };
        to
    };
    let without = || {
        let mut to = from.clone();
        (to.kind.slc, to.kind.folds) = (false, true);
        let [few, many] = classes::bits(false);
        to.hidden.bits_per_cell = from.hidden.bits_per_cell.clamp(few, many);
        to.logs[at::PROGRAM] = from.logs[at::SLC_PROGRAM];
        to.logs[at::READ] =
            if from.kind.folds { from.logs[at::READ] } else { from.logs[at::SLC_READ] };
        to
    };
    match (from.kind.slc, from.kind.folds) {
        (false, _) => vec![with(true), with(false)],
        (true, folds) => vec![with(!folds), without()],
    }
}
