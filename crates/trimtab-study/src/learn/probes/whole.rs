//! Probes that need a whole drive, or as much of one as may be used: the part itself, and what they have in common.

use super::{Lab, sequential};
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent};
use trimtab_sim::target::TargetResult;

/// The size at which drives are tried that are not there: everything that goes with the capacity shrinks together (`study::small`).
pub const SIZE: Bytes = Bytes(1 << 30);
/// All of these probes together write less than this many times the part that they use, in eighths.
pub const WRITES_EIGHTHS: u64 = 20;
/// The least part of a drive in which something can be learned: less is hardly more than what is always kept free.
pub const SHARE_MIN: f64 = 0.05;
/// Pieces in which the first writing is timed.
pub const FILL_PIECES: u64 = 32;
/// And those in which an eighth is written again.
pub const BURST_PIECES: u64 = 10;
/// What is written at random places: more than most mapping units, so that it is over soon.
pub const RANDOM_BYTES: u64 = 16 << 10;
/// The part is a multiple of this.
const GRAIN: u64 = 1 << 20;
/// Drives begin to tidy up when they have been left alone for a second or two.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// The part of a drive that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// First byte, on what is probed.
    pub start: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// The drive's capacity.
    pub of: u64,
    /// Bytes of the drive that hold data of others, which stay as they are.
    pub held: u64,
}

/// For how long a drive is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// So that some of what there is to tidy up is left.
    Short,
    /// So that nothing is.
    Long,
}

impl Whole {
    /// All of a drive of that capacity, which holds nothing.
    #[must_use]
    pub const fn all(capacity: u64) -> Self {
        Self { start: 0, bytes: capacity / GRAIN * GRAIN, of: capacity, held: 0 }
    }

    /// The same shares of a drive of another capacity, behind what is held there.
    #[must_use]
    pub fn on(&self, capacity: u64) -> Self {
        let share = |bytes: u64| (u128::from(bytes) * u128::from(capacity) / u128::from(self.of.max(1))) as u64 / GRAIN * GRAIN;
        let held = share(self.held);
        Self { start: held, bytes: share(self.bytes).min(capacity / GRAIN * GRAIN - held), of: capacity, held }
    }

    /// Whether there is enough of it.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.bytes as f64 >= SHARE_MIN * self.of as f64 && self.bytes >= 64 * GRAIN
    }

    /// Most bytes that are written to it.
    #[must_use]
    pub const fn written_max(&self) -> u64 {
        self.bytes / 8 * WRITES_EIGHTHS
    }

    /// From `from` to `to` sixteenths.
    pub(super) const fn part(&self, from: u64, to: u64) -> Extent {
        let each = self.bytes / 16;
        Extent { offset: self.start + each * from, len: each * (to - from) }
    }

    /// How long a rest is: what there is to be done goes with the capacity.
    pub(super) fn rest(&self, rest: Rest) -> Nanos {
        let for_a_gib = match rest {
            Rest::Short => 0.1,
            Rest::Long => 3.0,
        };
        PATIENCE + Nanos((for_a_gib * 1e9 * self.of as f64 / SIZE.as_f64()) as u64)
    }
}

/// Writes `extent` in order: nanoseconds of a byte in each of `count` pieces. What is left over is not written.
pub(super) fn in_pieces(lab: &mut Lab<'_>, extent: Extent, count: u64) -> TargetResult<Vec<f64>> {
    let step = super::SEQUENTIAL;
    let piece = (extent.len / count / step).max(1) * step;
    let place = |nth: u64| Extent { offset: extent.offset + nth * piece, len: piece };
    let each = |nth: u64| Ok(lab.stream(4, sequential(place(nth), DataClass::Random))?.took.0 as f64 / piece as f64);
    (0..count).take_while(|nth| (nth + 1) * piece <= extent.len).map(each).collect()
}

/// Gives a new modelled drive what others hold on the drive that it stands for.
///
/// # Errors
/// A target that fails.
pub fn there_already(lab: &mut Lab<'_>, whole: &Whole) -> TargetResult {
    if whole.held == 0 {
        return Ok(());
    }
    lab.stream(4, sequential(Extent { offset: 0, len: whole.held }, DataClass::Random))?;
    lab.one(Command::Flush)?;
    lab.idle(whole.rest(Rest::Long));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_what_they_are_at_another_size() {
        let whole = Whole { start: 0, bytes: 30 << 30, of: 120 << 30, held: 60 << 30 };
        let small = whole.on(1 << 30);
        assert_eq!(small, Whole { start: 512 << 20, bytes: 256 << 20, of: 1 << 30, held: 512 << 20 });
        assert!(small.is_enough() && !Whole { bytes: 5 << 30, ..whole }.is_enough());
        assert_eq!(Whole::all((1 << 30) + 5).bytes, 1 << 30);
        // What is left of a GiB goes with the capacity; the two seconds until a drive begins do not.
        assert_eq!((small.rest(Rest::Long), whole.rest(Rest::Long)), (Nanos::from_secs(5), Nanos::from_secs(362)));
        assert_eq!(small.written_max(), 640 << 20);
    }
}
