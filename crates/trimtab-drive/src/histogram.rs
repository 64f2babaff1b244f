//! Latency histograms with bounded relative error.

use crate::units::Nanos;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

/// Latencies from 1 ns to over an hour, in nanoseconds to three significant digits:
/// reported values are within 0.1 % of a recorded one.
#[derive(Clone)]
pub struct Histogram(BucketCounts);

/// All buckets while recording, only non-empty ones after parsing, which saves memory.
#[derive(Clone)]
enum BucketCounts {
    Recording(hdrhistogram::Histogram<u64>),
    ReadBack(Vec<(Nanos, u64)>),
}

impl BucketCounts {
    fn all(&self) -> Cow<'_, hdrhistogram::Histogram<u64>> {
        match self {
            Self::Recording(all) => Cow::Borrowed(all),
            Self::ReadBack(buckets) => Cow::Owned(recorded(buckets)),
        }
    }

    #[inline]
    fn recording(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        if let Self::ReadBack(buckets) = self {
            *self = Self::Recording(recorded(buckets));
        }
        match self {
            Self::Recording(all) => all,
            Self::ReadBack(_) => unreachable!("replaced above"),
        }
    }
}

fn recorded(buckets: &[(Nanos, u64)]) -> hdrhistogram::Histogram<u64> {
    let mut all = empty();
    buckets.iter().for_each(|(value, count)| record(&mut all, *value, *count));
    all
}

fn empty() -> hdrhistogram::Histogram<u64> {
    // Auto-resizing avoids clearing and merging memory that is never used.
    hdrhistogram::Histogram::new(3).expect("three digits are valid")
}

#[inline]
fn record(all: &mut hdrhistogram::Histogram<u64>, latency: Nanos, n: u64) {
    all.record_n(latency.0.min(Histogram::MAX.0), n).expect("auto-resizing, with a bounded size");
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.buckets().eq(other.buckets())
    }
}

impl fmt::Debug for Histogram {
    /// Prints the buckets instead of tens of thousands of zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets().map(|(value, count)| (value.0, count))).finish()
    }
}

/// Reason why buckets do not form a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// A bucket with a count of 0.
    #[error("the bucket at {} ns has a count of 0", .0.0)]
    Empty(Nanos),
    /// The counts overflow.
    #[error("the sum of the counts exceeds 64 bits")]
    TooMany,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Maximum value, 2 hours; longer latencies are recorded as this.
    pub const MAX: Nanos = Nanos::from_secs(7200);

    /// Creates an empty histogram. Memory grows from 16 kB to 280 kB with the largest
    /// value; a parsed histogram takes 16 bytes per bucket.
    #[must_use]
    pub fn new() -> Self {
        Self(BucketCounts::Recording(empty()))
    }

    /// Records one latency.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.record_n(latency, 1);
    }

    /// Records `n` equal latencies.
    #[inline]
    pub fn record_n(&mut self, latency: Nanos, n: u64) {
        record(self.0.recording(), latency, n);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.recording().add(&*other.0.all()).expect("auto-resizing");
    }

    /// Number of recorded values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.all().len()
    }

    /// Latency that `percent` per cent (0 to 100) of the values do not exceed; 0 if
    /// empty.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Nanos {
        Nanos(self.0.all().value_at_quantile(percent / 100.0))
    }

    /// Largest value; 0 if empty.
    #[must_use]
    pub fn max(&self) -> Nanos {
        Nanos(self.0.all().max())
    }

    /// Smallest value; 0 if empty.
    #[must_use]
    pub fn min(&self) -> Nanos {
        Nanos(self.0.all().min())
    }

    /// Mean in nanoseconds; 0 if empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.all().mean()
    }

    /// Rebuilds a histogram from its [`Self::buckets`] (value, count), exactly.
    ///
    /// # Errors
    /// If a count is 0 or the sum overflows 64 bits.
    pub fn from_buckets(
        buckets: impl IntoIterator<Item = (Nanos, u64)>,
    ) -> Result<Self, BucketError> {
        let mut all = empty();
        let mut total = 0_u64;
        for (value, count) in buckets {
            if count == 0 {
                return Err(BucketError::Empty(value));
            }
            total = total.checked_add(count).ok_or(BucketError::TooMany)?;
            record(&mut all, value, count);
        }
        Ok(Self(BucketCounts::ReadBack(Self(BucketCounts::Recording(all)).buckets().collect())))
    }

    /// Non-empty buckets: largest value of the bucket, count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let (recording, read_back) = match &self.0 {
            BucketCounts::Recording(all) => (Some(all), &[][..]),
            BucketCounts::ReadBack(buckets) => (None, &buckets[..]),
        };
        let of_all = recording.into_iter().flat_map(|all| all.iter_recorded());
        of_all
            .map(|v| (Nanos(v.value_iterated_to()), v.count_at_value()))
            .chain(read_back.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn histogram_from_its_buckets_is_equal(values in prop::collection::vec((any::<u64>(), 0_u32..64, 1_u64..1000), 0..100)) {
            let mut histogram = Histogram::new();
            for (value, shift, n) in values {
                histogram.record_n(Nanos(value >> shift), n);
            }
            let back = Histogram::from_buckets(histogram.buckets().collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(&back, &histogram);
            prop_assert_eq!((back.max(), back.min(), back.percentile(99.0)), (histogram.max(), histogram.min(), histogram.percentile(99.0)));
        }
    }

    #[test]
    fn histogram_from_buckets_is_compact_and_records() {
        let mut histogram = Histogram::new();
        [5, 700, 3_600_000_000_000].into_iter().for_each(|ns| histogram.record(Nanos(ns)));
        let mut back = Histogram::from_buckets(histogram.buckets()).unwrap();
        assert!(matches!(&back.0, BucketCounts::ReadBack(buckets) if buckets.len() == 3));
        assert_eq!((back.count(), back.mean_ns()), (3, histogram.mean_ns()));
        back.record(Nanos(9));
        histogram.record(Nanos(9));
        assert_eq!(back, histogram);
    }

    #[test]
    fn from_buckets_refuses_invalid_counts() {
        assert_eq!(Histogram::from_buckets([(Nanos(5), 0)]), Err(BucketError::Empty(Nanos(5))));
        assert_eq!(
            Histogram::from_buckets([(Nanos(5), u64::MAX), (Nanos(6), 1)]),
            Err(BucketError::TooMany)
        );
    }
}
