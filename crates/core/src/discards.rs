//! What was discarded, whoever counts it: asked for, accepted, refused and effective.

use crate::units::Bytes;
use alloc::vec::Vec;
use core::iter::Sum;
use core::ops::{Add, AddAssign};
use serde::{Deserialize, Serialize};

/// Commands, ranges or requests, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// Bytes of them.
    pub bytes: Bytes,
}

impl Amount {
    /// So many, of so many bytes.
    pub const fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes: Bytes(bytes) }
    }

    /// What came since `before`. A counter that went back (a device replaced, a reset) counts from zero.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        const fn delta(now: u64, then: u64) -> u64 {
            if now >= then { now - then } else { now }
        }
        Self::new(delta(self.count, before.count), delta(self.bytes.0, before.bytes.0))
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

/// Discards: asked, accepted, refused and effective, each on its own. A missing one is unknown, not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discards {
    /// Requests made; at a drive the ranges in its commands.
    pub asked: Amount,
    /// What the device accepted, where it counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Amount>,
    /// Requests refused. Their bytes are 0 where only the number was kept.
    pub refused: Amount,
    /// The error numbers of the refusals, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errnos: Vec<i32>,
    /// Bytes that held data before and not after, where that is known.
    #[serde(rename = "effective_bytes")]
    pub effective: Option<Bytes>,
    /// Bytes that the workload freed meanwhile, where that is known; discard amplification is accepted / freed.
    #[serde(rename = "freed_bytes", default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_and_all_together() {
        let (before, now) = (Amount::new(10, 4096), Amount::new(12, 5000));
        assert_eq!(now.since(before), Amount::new(2, 904));
        assert_eq!(before.since(now), before, "a counter that went back began at zero");
        assert_eq!(Amount::new(12, 100).since(before), Amount::new(2, 100), "each by itself");
        assert_eq!([before, now].into_iter().sum::<Amount>(), Amount::new(22, 9096));
        assert_eq!(Amount::new(u64::MAX, u64::MAX) + now, Amount::new(u64::MAX, u64::MAX));
    }
}
