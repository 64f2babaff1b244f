//! Compact, exact encodings for what has many numbers: histograms, over which ids are made, and series, as stores of version 3 and older hold them.

use trimtab_core::run::histogram::Histogram;
use trimtab_core::units::Nanos;

/// Why a blob cannot be read: what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BlobError(&'static str);

fn push(blob: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        blob.push(value as u8 | 0x80);
        value >>= 7;
    }
    blob.push(value as u8);
}

fn pull(blob: &mut &[u8]) -> Result<u64, BlobError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = blob.split_first().ok_or(BlobError("ends within a number"))?;
        *blob = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(BlobError("holds a number of more than 64 bits"))
}

/// Buckets of a histogram: value less the value before, count.
#[must_use]
pub fn from_histogram(histogram: &Histogram) -> Vec<u8> {
    let mut blob = Vec::new();
    let mut before = 0;
    for (value, count) in histogram.buckets() {
        push(&mut blob, value.0 - before);
        push(&mut blob, count);
        before = value.0;
    }
    blob
}

/// The histogram of [`from_histogram`].
pub fn to_histogram(mut blob: &[u8]) -> Result<Histogram, BlobError> {
    let mut buckets = Vec::new();
    let mut value = 0_u64;
    while !blob.is_empty() {
        value = value.checked_add(pull(&mut blob)?).ok_or(BlobError("holds values of more than 64 bits"))?;
        buckets.push((Nanos(value), pull(&mut blob)?));
    }
    Histogram::from_buckets(buckets).map_err(|_| BlobError("holds impossible counts"))
}

/// Places that do not decrease: each is stored less the one before.
pub fn to_places(mut blob: &[u8]) -> Result<Vec<u64>, BlobError> {
    let mut places = Vec::new();
    let mut place = 0_u64;
    while !blob.is_empty() {
        place = place.wrapping_add(pull(&mut blob)?);
        places.push(place);
    }
    Ok(places)
}

/// Values, 8 bytes each.
pub fn to_values(blob: &[u8]) -> Result<Vec<f64>, BlobError> {
    let (chunks, rest) = blob.as_chunks::<8>();
    if rest.is_empty() { Ok(chunks.iter().map(|c| f64::from_le_bytes(*c)).collect()) } else { Err(BlobError("ends within a number")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Places that do not decrease: each less the one before.
    fn from_places(places: &[u64]) -> Vec<u8> {
        let mut blob = Vec::new();
        let mut before = 0;
        for &place in places {
            // Wrapping, so that even places out of order come back as they were.
            push(&mut blob, place.wrapping_sub(before));
            before = place;
        }
        blob
    }

    /// Values, 8 bytes each.
    fn from_values(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn numbers_come_back(places in prop::collection::vec(any::<u64>(), 0..50), values in prop::collection::vec(prop::num::f64::ANY, 0..50)) {
            prop_assert_eq!(to_places(&from_places(&places)), Ok(places));
            let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&to_values(&from_values(&values)).unwrap()), bits(&values));
        }

        #[test]
        fn histograms_come_back(values in prop::collection::vec((any::<u64>(), 0_u32..64, 1_u64..1000), 0..50)) {
            let mut histogram = Histogram::new();
            for (value, shift, n) in values {
                histogram.record_n(Nanos(value >> shift), n);
            }
            prop_assert_eq!(to_histogram(&from_histogram(&histogram)), Ok(histogram));
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = (to_histogram(&bytes), to_places(&bytes), to_values(&bytes));
        }
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(to_places(&[0x80]), Err(BlobError("ends within a number")));
        assert_eq!(to_places(&[0xff; 11]), Err(BlobError("holds a number of more than 64 bits")));
        assert_eq!(to_places(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Ok(vec![u64::MAX]));
        assert_eq!(to_histogram(&[5, 0]), Err(BlobError("holds impossible counts")));
        assert_eq!(to_values(&[0; 9]), Err(BlobError("ends within a number")));
    }
}
