//! Estimates the compressibility of data at low cost: a compressing drive stores data at
//! their compressed size.
//!
//! Examines at most four blocks of 4 KiB spread over the request. Per block, counts the
//! bytes in dictionary matches (four bytes or more, as LZ4 finds them, each costing three
//! bytes), and the order-0 entropy of the rest.

use std::sync::LazyLock;
use trimtab_drive::data::DataClass;

const BLOCK: usize = 4096;
const BLOCKS_MAX: usize = 4;
const TABLE_BITS: u32 = 10;
/// Output bytes per match: a token and an offset of two bytes.
const MATCH_COST: f32 = 3.0;
/// As in LZ4: after every 2^N misses the search skips one more byte at a time.
const SKIP_AFTER_MISSES_LOG2: u32 = 3;
/// Each byte of a match cancels this many misses.
const MISSES_FORGIVEN: usize = 2;
const SKIP_FROM_BYTES: usize = 2048;
/// Data at or above this share are incompressible: just below is estimation scatter.
const INCOMPRESSIBLE: f32 = 0.96;

/// Returns the class of `data`.
pub fn classify(data: &[u8]) -> DataClass {
    if is_zero(data) {
        return DataClass::Zero;
    }
    let blocks = data.len().div_ceil(BLOCK);
    let samples = blocks.min(BLOCKS_MAX);
    let sum: f32 = (0..samples)
        .map(|n| {
            let start = n * blocks / samples * BLOCK;
            stored_share(&data[start..data.len().min(start + BLOCK)])
        })
        .sum();
    let share = sum / samples as f32;
    if share >= INCOMPRESSIBLE {
        DataClass::Random
    } else {
        DataClass::Measured((share * 1000.0).round() as u16)
    }
}

/// All bytes are zero. Compares sixteen bytes at a time and stops at the first other one.
fn is_zero(data: &[u8]) -> bool {
    let (words, rest) = data.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Estimated compressed size of one block as a share of its size, 0 to 1.
fn stored_share(block: &[u8]) -> f32 {
    let mut table = [0_u16; 1 << TABLE_BITS];
    let mut literals = [0_u16; 256];
    // Literals counted, and bytes in matches.
    let (mut counted, mut matched, mut matches) = (0_usize, 0_usize, 0_usize);
    let (mut at, mut misses) = (0_usize, 0_usize);
    // A short block needs every byte for its entropy.
    let skip_after_log2 =
        if block.len() < SKIP_FROM_BYTES { usize::BITS - 1 } else { SKIP_AFTER_MISSES_LOG2 };
    // No sum below exceeds a few block lengths; checks would take a fifth of the time.
    while let Some(word) = word_at(block, at) {
        let slot = &mut table[(word.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS)) as usize];
        // Positions are stored plus one, so that 0 means none.
        let candidate = usize::from(std::mem::replace(slot, at.wrapping_add(1) as u16));
        let earlier = candidate.wrapping_sub(1);
        if candidate > 0 && word_at(block, earlier) == Some(word) {
            let length = match_length(block, earlier, at);
            at = at.wrapping_add(length);
            matched = matched.wrapping_add(length);
            matches = matches.wrapping_add(1);
            // Not reset to 0 as in LZ4: rare matches in such data must not slow down the
            // search.
            misses = misses.saturating_sub(length.wrapping_mul(MISSES_FORGIVEN));
        } else {
            let step = (misses >> skip_after_log2).wrapping_add(1);
            // Skipped bytes at hand are still counted, to keep the entropy estimate
            // accurate.
            let seen = step.min(word.to_le_bytes().len());
            for byte in &word.to_le_bytes()[..seen] {
                let literal = &mut literals[usize::from(*byte)];
                *literal = literal.wrapping_add(1);
            }
            counted = counted.wrapping_add(seen);
            at = at.wrapping_add(step);
            misses = misses.wrapping_add(1);
        }
    }
    let literal_bytes = block.len() - matched;
    let coded =
        literal_bytes as f32 * entropy(&literals, counted) / 8.0 + matches as f32 * MATCH_COST;
    (coded / block.len() as f32).min(1.0)
}

/// Four bytes in little-endian order.
fn word_at(block: &[u8], at: usize) -> Option<u32> {
    block.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn match_length(block: &[u8], earlier: usize, at: usize) -> usize {
    let (words, _) = block[at..].as_chunks::<8>();
    let (earlier_words, _) = block[earlier..].as_chunks::<8>();
    let mut equal = 0;
    for (a, b) in words.iter().zip(earlier_words) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return equal + (differ.trailing_zeros() / 8) as usize;
        }
        equal += 8;
    }
    equal
        + block[at + equal..]
            .iter()
            .zip(&block[earlier + equal..])
            .take_while(|(a, b)| a == b)
            .count()
}

/// Bits per symbol of `total` symbols with these counts. A small sample shows only some
/// of the values, so the plain estimate is raised by (k - 1) / (2 n ln 2) for k distinct
/// values among n symbols (Miller and Madow 1955).
fn entropy(counts: &[u16; 256], total: usize) -> f32 {
    /// n log2 n.
    static N_LOG_N: LazyLock<[f32; BLOCK + 1]> = LazyLock::new(|| {
        std::array::from_fn(|n| if n == 0 { 0.0 } else { n as f32 * (n as f32).log2() })
    });
    if total == 0 {
        return 0.0;
    }
    let table = &*N_LOG_N;
    let sum: f32 = counts.iter().map(|count| table[usize::from(*count)]).sum();
    let different = counts.iter().filter(|count| **count > 0).count();
    let correction = (different - 1) as f32 / (2.0 * std::f32::consts::LN_2);
    ((table[total] - sum + correction) / total as f32).min(8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::rng::Stream;

    fn class_of(class: DataClass, len: usize) -> DataClass {
        let mut data = vec![0; len];
        class.fill(&mut Stream::new(3, "classify"), &mut data);
        classify(&data)
    }

    #[test]
    fn classify_recognises_generated_classes() {
        for len in [512, 4096, 5000, 128 << 10, 1 << 20] {
            assert_eq!(class_of(DataClass::Zero, len), DataClass::Zero);
            assert_eq!(class_of(DataClass::Random, len), DataClass::Random, "{len}");
            for percent in [20, 50, 80] {
                let got = class_of(DataClass::Compressible(percent), len).incompressible_permille();
                let expected = 1000 - u16::from(percent) * 10;
                assert!(got.abs_diff(expected) <= 40, "{got} for {expected} of {len}");
            }
        }
        let text = class_of(DataClass::Text, 64 << 10).incompressible_permille();
        assert!((810..=840).contains(&text), "text keeps 82.1 %, not {text}/1000");
    }

    #[test]
    fn classify_of_source_code_agrees_with_lz4() {
        let source = include_str!("classify.rs").as_bytes();
        let kept = classify(&source[..4096]).incompressible_permille();
        assert!((250..700).contains(&kept), "{kept}");
    }

    #[test]
    fn is_zero_detects_a_single_nonzero_byte() {
        let mut data = vec![0; 4096];
        data[4095] = 1;
        assert_ne!(classify(&data), DataClass::Zero);
    }
}
