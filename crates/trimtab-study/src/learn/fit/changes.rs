//! Alternative drives for a candidate: single changes, and random draws around it.

use super::super::candidate::{Candidate, DriveKind, UNIT_MAX, at};
use super::super::classes;
use super::super::invert::PROGRAM_OF_FLUSH;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

/// Flush time below which it counts as zero.
const FLUSH_MIN_NS: f64 = 5e3;

/// Index of the program time for new data.
const fn programs(kind: &DriveKind) -> usize {
    if kind.slc { at::SLC_PROGRAM } else { at::PROGRAM }
}

/// Changes the flash geometry while keeping the write rate.
fn arranged(from: &Candidate, change: impl Fn(&mut DriveKind)) -> Option<Candidate> {
    let mut to = from.clone();
    change(&mut to.kind);
    let kind = &to.kind;
    let possible = (1..=16).contains(&kind.channels) && (1..=16).contains(&kind.dies_per_channel) && kind.dies() <= 128;
    let fits = kind.row_bytes().is_multiple_of(kind.unit_bytes) || kind.unit_bytes.is_multiple_of(kind.row_bytes());
    if !possible || !(1..=8).contains(&kind.planes) || !(4096..=65_536).contains(&kind.page_bytes) || !fits {
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

/// Alternative numbers of dies and row sizes; pages below 16 KiB if the link may be of that era.
pub(super) fn arrangements(from: &Candidate, sata: bool) -> Vec<Candidate> {
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

/// Assigns a share of `crossing` of a lone read to the channel, and the rest to the cell.
/// Reads reveal little more than the sum, and gradient steps cannot move from slow cells to
/// slow channels.
pub(super) fn divided(from: &Candidate, crossing: f64) -> Candidate {
    let read = if from.kind.slc && !from.kind.folds { at::SLC_READ } else { at::READ };
    let unit = from.kind.unit_bytes as f64 * 1e9;
    let alone = from.number(read) + unit / from.number(at::CHANNEL);
    let mut to = from.clone();
    to.logs[read] = libm::log(alone * (1.0 - crossing));
    to.logs[at::CHANNEL] = libm::log(unit / (alone * crossing));
    to
}

/// Changes the mapping unit. Keeps the TRIM cost per byte and the effective TRIM granularity,
/// which is the larger of unit and alignment.
pub(super) fn mapped_by(from: &Candidate, unit: u64) -> Option<Candidate> {
    let granularity = from.kind.unit_bytes.max(from.kind.trim_alignment_bytes);
    let mut to = (4096..=UNIT_MAX).contains(&unit).then(|| {
        arranged(from, |kind| {
            kind.unit_bytes = unit;
            kind.trim_alignment_bytes = if granularity > unit { granularity } else { 0 };
        })
    })??;
    to.logs[at::TRIM_UNIT] += libm::log(unit as f64 / from.kind.unit_bytes as f64);
    Some(to)
}

pub(super) fn neighbours(from: &Candidate, sata: bool) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    all.extend(arranged(from, |kind| kind.dies_per_channel *= 2));
    all.extend(arranged(from, |kind| kind.dies_per_channel /= 2));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels * 2, kind.dies_per_channel / 2)));
    all.extend(arranged(from, |kind| (kind.channels, kind.dies_per_channel) = (kind.channels / 2, kind.dies_per_channel * 2)));
    all.extend(arranged(from, |kind| kind.channels *= 2));
    all.extend(arranged(from, |kind| kind.channels /= 2));
    // Ten channels, as in some early drives.
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
    let of_kind = |change: &dyn Fn(&mut DriveKind)| arranged(from, change);
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

/// Candidates of other families: without an SLC cache, or with one that is emptied or not.
pub(super) fn other_families(from: &Candidate) -> Vec<Candidate> {
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
        // Reads after a rest come from native cells if the SLC cache is emptied.
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

/// A drive with other flash behind the same host interface. Geometry, page size and times are
/// sampled; the program time keeps the write rate similar.
pub(super) fn scattered_from(from: &Candidate, random: &mut Stream) -> Option<Candidate> {
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
        to.logs[number] += sigma * random.normal();
    }
    Some(to)
}

const SCATTER: [(usize, f64); 6] =
    [(at::READ, 0.3), (at::CHANNEL, 0.5), (at::CACHE, 0.6), (at::PROGRAM, 0.15), (at::SLC_PROGRAM, 0.15), (at::SLC_READ, 0.15)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::ReportedProperties;

    /// 4 KiB over 40.96 MB/s take 100 µs, plus 60 µs in the cell. A quarter of the 160 µs on the
    /// channel is 40 µs, at 102.4 MB/s, and 120 µs remain for the cell.
    #[test]
    fn divided_keeps_the_latency_of_a_lone_read() {
        let reported = ReportedProperties {
            capacity_bytes: 120_000_000_000,
            logical_block_bytes: 512,
            queue_depth: 32,
            full_duplex: false,
            trim: None,
        };
        let mut from = classes::draw(&mut Stream::new(1, "a drive"), &reported);
        (from.kind.slc, from.kind.unit_bytes) = (false, 4096);
        (from.logs[at::READ], from.logs[at::CHANNEL]) = (libm::log(60e3), libm::log(40.96e6));
        let to = divided(&from, 0.25);
        assert!((to.number(at::READ) - 120e3).abs() < 1.0 && (to.number(at::CHANNEL) - 102.4e6).abs() < 1e3, "{to:?}");
        from.logs = to.logs;
        assert_eq!(from.kind, to.kind, "the kind is unchanged");
    }
}
