//! Discard statistics: asked, accepted, refused and effective.

use crate::units::Bytes;
use alloc::vec::Vec;
use core::iter::Sum;
use core::ops::{Add, AddAssign};
use serde::{Deserialize, Serialize};

/// Number of commands, ranges or requests, and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Number.
    pub count: u64,
    /// Total size.
    pub bytes: Bytes,
}

impl Amount {
    /// An amount of `count` requests and `bytes` bytes.
    pub const fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes: Bytes(bytes) }
    }

    /// Increase since `before`. A counter that decreased (device replaced, reset) is
    /// taken to have restarted from zero.
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
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
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

/// Discard statistics. `None` means unknown, not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discards {
    /// Requests made; for a drive, the ranges in its commands.
    pub asked: Amount,
    /// Amount accepted by the device, if it counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Amount>,
    /// Requests refused. Their size is 0 if only their number is known.
    pub refused: Amount,
    /// Distinct error numbers of the refusals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errnos: Vec<i32>,
    /// Bytes that held data before but not after, if known.
    #[serde(rename = "effective_bytes")]
    pub effective: Option<Bytes>,
    /// Bytes freed by the workload, if known. Discard amplification is accepted / freed.
    #[serde(rename = "freed_bytes", default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Bytes>,
}

impl Discards {
    /// Adds a successful request. `accepted` becomes unknown once a request was not
    /// counted.
    pub fn carry_out(&mut self, request: Amount, counted: Option<Amount>) {
        let first = self.carried_out().count == 0;
        self.accepted =
            if first { counted } else { self.accepted.zip(counted).map(|(sum, one)| sum + one) };
        self.asked += request;
    }

    /// Adds a refused request.
    pub fn refuse(&mut self, request: Amount, errno: i32) {
        self.asked += request;
        self.refused += request;
        if let Err(at) = self.errnos.binary_search(&errno) {
            self.errnos.insert(at, errno);
        }
    }

    /// Requests that were not refused.
    #[must_use]
    pub const fn carried_out(&self) -> Amount {
        let (asked, refused) = (self.asked, self.refused);
        Amount::new(
            asked.count.saturating_sub(refused.count),
            asked.bytes.0.saturating_sub(refused.bytes.0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_since_and_sum_add_up() {
        let (before, now) = (Amount::new(10, 4096), Amount::new(12, 5000));
        assert_eq!(now.since(before), Amount::new(2, 904));
        assert_eq!(before.since(now), before, "a decreased counter restarts from zero");
        assert_eq!(
            Amount::new(12, 100).since(before),
            Amount::new(2, 100),
            "each field separately"
        );
        assert_eq!([before, now].into_iter().sum::<Amount>(), Amount::new(22, 9096));
        assert_eq!(Amount::new(u64::MAX, u64::MAX) + now, Amount::new(u64::MAX, u64::MAX));
    }

    #[test]
    fn discards_asked_is_carried_out_plus_refused() {
        let mut discards = Discards::default();
        discards.refuse(Amount::new(1, 10), 95);
        discards.carry_out(Amount::new(1, 100), Some(Amount::new(3, 80)));
        discards.refuse(Amount::new(1, 20), 5);
        discards.refuse(Amount::new(1, 30), 95);
        discards.carry_out(Amount::new(1, 200), Some(Amount::new(4, 120)));
        assert_eq!((discards.asked, discards.refused), (Amount::new(5, 360), Amount::new(3, 60)));
        assert_eq!(discards.carried_out(), Amount::new(2, 300));
        assert_eq!(discards.accepted, Some(Amount::new(7, 200)));
        assert_eq!(discards.errnos, [5, 95], "each once");
    }

    #[test]
    fn discards_accepted_is_unknown_after_uncounted_request() {
        let mut discards = Discards::default();
        discards.carry_out(Amount::new(1, 100), Some(Amount::new(3, 80)));
        discards.carry_out(Amount::new(1, 100), None);
        discards.carry_out(Amount::new(1, 100), Some(Amount::new(3, 80)));
        assert_eq!((discards.accepted, discards.asked), (None, Amount::new(3, 300)));
        let mut never_at_first = Discards::default();
        never_at_first.carry_out(Amount::new(1, 100), None);
        never_at_first.carry_out(Amount::new(1, 100), Some(Amount::new(3, 80)));
        assert_eq!(never_at_first.accepted, None);
    }
}
