//! Probes that need a whole drive, or as much as may be used, and that part of the drive.

use super::{Findings, ProbePlan, ProbeSession, RandomOffsets, SETTLE, reads, sequential};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// Capacity of scaled-down drives (`study::small`).
pub const SIZE: Bytes = Bytes(1 << 30);
/// Upper bound for the bytes written by these probes, in eighths of the part.
pub const WRITES_EIGHTHS: u64 = 20;
/// Smallest useful share of a drive. Less is barely more than the permanently free space.
pub const SHARE_MIN: f64 = 0.05;
/// Timed pieces of the first write.
pub const FILL_PIECES: u64 = 32;
/// Timed pieces of rewriting an eighth.
pub const BURST_PIECES: u64 = 10;
/// Bytes of a random write: more than most mapping units, to save time.
const RANDOM_BYTES: u64 = 16 << 10;
/// The part is a multiple of this.
const GRAIN: u64 = 1 << 20;
/// Idle time after which drives start background work: a second or two.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// The part of a drive that the probes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRegion {
    /// Offset of the part on the target.
    pub start: u64,
    /// Size of the part.
    pub bytes: u64,
    /// The drive's capacity.
    pub of: u64,
    /// Bytes of the drive that hold user data and stay unchanged.
    pub held: u64,
}

/// Length of an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestLength {
    /// Leaves some background work unfinished.
    Short,
    /// Long enough to finish all background work.
    Long,
}

impl ProbeRegion {
    /// The whole of an empty drive of that capacity.
    #[must_use]
    pub const fn all(capacity: u64) -> Self {
        Self { start: 0, bytes: capacity / GRAIN * GRAIN, of: capacity, held: 0 }
    }

    /// The same proportions on a drive of another capacity, after the user data.
    #[must_use]
    pub fn on(&self, capacity: u64) -> Self {
        let share = |bytes: u64| {
            (u128::from(bytes) * u128::from(capacity) / u128::from(self.of.max(1))) as u64 / GRAIN
                * GRAIN
        };
        let held = share(self.held);
        Self {
            start: held,
            bytes: share(self.bytes).min(capacity / GRAIN * GRAIN - held),
            of: capacity,
            held,
        }
    }

    /// True if the part is large enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.bytes as f64 >= SHARE_MIN * self.of as f64 && self.bytes >= 64 * GRAIN
    }

    /// Maximum number of bytes written to it.
    #[must_use]
    pub const fn written_max(&self) -> u64 {
        self.bytes / 8 * WRITES_EIGHTHS
    }

    /// The extent from `from` to `to` sixteenths.
    const fn part(&self, from: u64, to: u64) -> Extent {
        let each = self.bytes / 16;
        Extent { offset: self.start + each * from, len: each * (to - from) }
    }

    /// Duration of a rest. Background work is proportional to the capacity.
    fn rest(&self, rest: RestLength) -> Nanos {
        let for_a_gib = match rest {
            RestLength::Short => 0.1,
            RestLength::Long => 3.0,
        };
        PATIENCE + Nanos((for_a_gib * 1e9 * self.of as f64 / SIZE.as_f64()) as u64)
    }
}

/// Writes `extent` sequentially; nanoseconds per byte for each of `count` whole pieces.
fn in_pieces(lab: &mut ProbeSession<'_>, extent: Extent, count: u64) -> TargetResult<Vec<f64>> {
    let step = super::SEQUENTIAL;
    let piece = (extent.len / count / step).max(1) * step;
    let place = |nth: u64| Extent { offset: extent.offset + nth * piece, len: piece };
    let each = |nth: u64| {
        Ok(lab.stream(4, sequential(place(nth), DataClass::Random))?.took.0 as f64 / piece as f64)
    };
    (0..count).take_while(|nth| (nth + 1) * piece <= extent.len).map(each).collect()
}

/// Writes the user data of the represented drive to a new modelled drive.
///
/// # Errors
/// The target fails.
pub fn there_already(lab: &mut ProbeSession<'_>, whole: &ProbeRegion) -> TargetResult {
    if whole.held == 0 {
        return Ok(());
    }
    lab.stream(4, sequential(Extent { offset: 0, len: whole.held }, DataClass::Random))?;
    lab.one(Command::Flush)?;
    lab.idle(whole.rest(RestLength::Long));
    Ok(())
}

/// Writes the whole part sequentially once: the amount at full speed, and the rate after
/// it.
pub(super) fn slc_cache(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let Some(whole) = plan.whole else { return Ok(()) };
    for (nth, ns) in (1..).zip(in_pieces(lab, whole.part(0, 16), FILL_PIECES)?) {
        found.add(format!("fill {nth}"), ns, 0.03);
    }
    lab.one(Command::Flush)?;
    Ok(())
}

const MOVED_READS: usize = 64;

/// Rewrites an eighth of the full part after a short and a long rest: speed of background
/// work, and cache size of a full drive. Also lone reads of data that moved in the
/// meantime.
pub(super) fn recovery(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let Some(whole) = plan.whole else { return Ok(()) };
    for (rest, name, from) in [(RestLength::Short, "short", 4), (RestLength::Long, "long", 8)] {
        lab.idle(whole.rest(rest));
        for (nth, ns) in (1..).zip(in_pieces(lab, whole.part(from, from + 2), BURST_PIECES)?) {
            found.add(format!("after a {name} rest {nth}"), ns, 0.06);
        }
        lab.one(Command::Flush)?;
    }
    lab.idle(whole.rest(RestLength::Long));
    let stream =
        lab.stream(1, reads(plan, "moved", whole.part(0, 4), plan.small(), MOVED_READS))?;
    found.add("read moved q1", stream.middle_ns(), 0.02);
    Ok(())
}

const PIECES: u64 = 16;
/// Number and divisor of the shorter pieces after the rest.
const AFTER: u64 = 4;
const SHORTER: u64 = 6;

/// Random writes over the full part until garbage is everywhere, and again after a rest:
/// start and cost of garbage collection.
pub(super) fn collection(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let Some(whole) = plan.whole else { return Ok(()) };
    let size = RANDOM_BYTES.max(plan.small());
    let mut places = RandomOffsets::new(plan, "collection", whole.part(0, 16), size);
    let mut piece = |lab: &mut ProbeSession<'_>, count: u64| -> TargetResult<f64> {
        let writes = places
            .by_ref()
            .take(count as usize)
            .map(|extent| Command::Write(extent, DataClass::Random));
        Ok(lab.stream(32, writes)?.took.0 as f64 / count as f64)
    };
    let count = whole.bytes / PIECES / size;
    for nth in 1..=PIECES {
        if !lab.is_worth(&found.observations) {
            return Ok(());
        }
        found.add(format!("collected {nth}"), piece(lab, count)?, 0.05);
    }
    lab.one(Command::Flush)?;
    lab.idle(whole.rest(RestLength::Long));
    for nth in 1..=AFTER {
        found.add(format!("collected after a rest {nth}"), piece(lab, count / SHORTER)?, 0.08);
    }
    Ok(())
}

/// Divisors of the part.
const MAP_PARTS: [u64; 4] = [64, 16, 4, 1];
const MAP_READS: usize = 192;

/// Lone reads within increasingly large parts. If the map does not fit in memory, reads
/// load map pages first; the larger the part, the more often.
pub(in crate::learn) fn map(
    lab: &mut ProbeSession<'_>,
    plan: &ProbePlan,
    found: &mut Findings,
) -> TargetResult {
    let Some(whole) = plan.whole else { return Ok(()) };
    lab.one(Command::Flush)?;
    lab.idle(SETTLE);
    for parts in MAP_PARTS {
        let within = Extent { offset: whole.start, len: whole.bytes / parts };
        let took = lab
            .stream(1, reads(plan, &format!("map of 1/{parts}"), within, plan.small(), MAP_READS))?
            .took;
        // The mean, not the middle: the share of reads that wait for the map matters.
        found.add(format!("read in 1/{parts} q1"), took.0 as f64 / MAP_READS as f64, 0.03);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_keeps_shares_at_another_capacity() {
        let whole = ProbeRegion { start: 0, bytes: 30 << 30, of: 120 << 30, held: 60 << 30 };
        let small = whole.on(1 << 30);
        assert_eq!(
            small,
            ProbeRegion { start: 512 << 20, bytes: 256 << 20, of: 1 << 30, held: 512 << 20 }
        );
        assert!(small.is_enough() && !ProbeRegion { bytes: 5 << 30, ..whole }.is_enough());
        assert_eq!(ProbeRegion::all((1 << 30) + 5).bytes, 1 << 30);
        // Proportional to the capacity, except for the two seconds before background
        // work.
        assert_eq!(
            (small.rest(RestLength::Long), whole.rest(RestLength::Long)),
            (Nanos::from_secs(5), Nanos::from_secs(362))
        );
        assert_eq!(small.written_max(), 640 << 20);
    }
}
