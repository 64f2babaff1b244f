//! Probes that need a whole drive, or as much as may be used: the part itself and shared helpers.

use super::{ProbeSession, sequential};
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
pub const RANDOM_BYTES: u64 = 16 << 10;
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
pub(super) enum RestLength {
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
        let share = |bytes: u64| (u128::from(bytes) * u128::from(capacity) / u128::from(self.of.max(1))) as u64 / GRAIN * GRAIN;
        let held = share(self.held);
        Self { start: held, bytes: share(self.bytes).min(capacity / GRAIN * GRAIN - held), of: capacity, held }
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
    pub(super) const fn part(&self, from: u64, to: u64) -> Extent {
        let each = self.bytes / 16;
        Extent { offset: self.start + each * from, len: each * (to - from) }
    }

    /// Duration of a rest. Background work is proportional to the capacity.
    pub(super) fn rest(&self, rest: RestLength) -> Nanos {
        let for_a_gib = match rest {
            RestLength::Short => 0.1,
            RestLength::Long => 3.0,
        };
        PATIENCE + Nanos((for_a_gib * 1e9 * self.of as f64 / SIZE.as_f64()) as u64)
    }
}

/// Writes `extent` sequentially; nanoseconds per byte for each of `count` whole pieces.
pub(super) fn in_pieces(lab: &mut ProbeSession<'_>, extent: Extent, count: u64) -> TargetResult<Vec<f64>> {
    let step = super::SEQUENTIAL;
    let piece = (extent.len / count / step).max(1) * step;
    let place = |nth: u64| Extent { offset: extent.offset + nth * piece, len: piece };
    let each = |nth: u64| Ok(lab.stream(4, sequential(place(nth), DataClass::Random))?.took.0 as f64 / piece as f64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_keeps_shares_at_another_capacity() {
        let whole = ProbeRegion { start: 0, bytes: 30 << 30, of: 120 << 30, held: 60 << 30 };
        let small = whole.on(1 << 30);
        assert_eq!(small, ProbeRegion { start: 512 << 20, bytes: 256 << 20, of: 1 << 30, held: 512 << 20 });
        assert!(small.is_enough() && !ProbeRegion { bytes: 5 << 30, ..whole }.is_enough());
        assert_eq!(ProbeRegion::all((1 << 30) + 5).bytes, 1 << 30);
        // Proportional to the capacity, except for the two seconds before background work.
        assert_eq!((small.rest(RestLength::Long), whole.rest(RestLength::Long)), (Nanos::from_secs(5), Nanos::from_secs(362)));
        assert_eq!(small.written_max(), 640 << 20);
    }
}
