//! Verifiable block content: fresh for every write and generated at memory speed.
//!
//! Each 4 KiB unit starts with an 8-byte nonce: seed, offset and sequence number of the
//! write, mixed to look random. The rest follows from seed, offset and nonce. So no two
//! writes are alike (no deduplication), nothing in a unit predicts its rest (no
//! compression), and damaged or misplaced units are detected without a copy of the
//! written data.

use super::DataClass;

/// Size of a unit of content in bytes.
pub const UNIT: usize = 4096;

/// Number of parallel generators, enough to fill the widest vector registers.
const LANES: usize = 8;
/// Bytes per step of all lanes.
const STEP: usize = LANES * 8;
/// Each chunk of a compressible unit is part random and part zero.
const CHUNK: usize = 512;

/// Content generator and checker for one seed.
#[derive(Clone, Copy, Debug)]
pub struct ContentGenerator {
    seed: u64,
}

/// Result of checking a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitCheck {
    /// Content of a write under this seed at this offset, with its nonce.
    Written(u64),
    /// All zeros: never written, or class [`DataClass::Zero`].
    Zeros,
    /// Any other content.
    Foreign,
}

impl ContentGenerator {
    /// Creates a generator for `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Nonce of write `sequence` at `offset`, as found by [`check`](Self::check).
    #[inline]
    #[must_use]
    pub const fn nonce(&self, class: DataClass, offset: u64, sequence: u64) -> u64 {
        let nonce = mix(mix(self.seed ^ sequence) ^ offset);
        match class {
            DataClass::Text => u64::from_le_bytes(printable(nonce, mix(nonce))),
            _ => nonce,
        }
    }

    /// Fills `buffer` with the content of write number `sequence` at `offset`.
    pub fn fill(&self, class: DataClass, offset: u64, sequence: u64, buffer: &mut [u8]) {
        self.fill_inlined(class, offset, sequence, buffer);
    }

    /// As [`fill`](Self::fill), with wider vectors.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    pub fn fill_avx2(&self, class: DataClass, offset: u64, sequence: u64, buffer: &mut [u8]) {
        self.fill_inlined(class, offset, sequence, buffer);
    }

    /// As [`fill`](Self::fill), with the widest vectors.
    ///
    /// # Safety
    /// The processor has AVX-512 F and VL.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub fn fill_avx512(&self, class: DataClass, offset: u64, sequence: u64, buffer: &mut [u8]) {
        self.fill_inlined(class, offset, sequence, buffer);
    }

    #[inline(always)]
    fn fill_inlined(&self, class: DataClass, offset: u64, sequence: u64, buffer: &mut [u8]) {
        if class.incompressible_permille() == 0 {
            buffer.fill(0);
            return;
        }
        let mut place = offset;
        for unit in buffer.chunks_mut(UNIT) {
            let nonce = self.nonce(class, place, sequence);
            fill_unit(class, nonce, self.key(place, nonce), unit);
            place = place.wrapping_add(UNIT as u64);
        }
    }

    /// Checks a `unit` of at most [`UNIT`] bytes, read from `offset` and written as
    /// `class`.
    #[must_use]
    pub fn check(&self, class: DataClass, offset: u64, unit: &[u8]) -> UnitCheck {
        if unit.iter().all(|byte| *byte == 0) {
            return UnitCheck::Zeros;
        }
        let Some((head, _)) = unit.split_first_chunk::<8>() else { return UnitCheck::Foreign };
        let nonce = u64::from_le_bytes(*head);
        let mut expected = [0; UNIT];
        let Some(expected) = expected.get_mut(..unit.len()) else { return UnitCheck::Foreign };
        fill_unit(class, nonce, self.key(offset, nonce), expected);
        if expected == unit { UnitCheck::Written(nonce) } else { UnitCheck::Foreign }
    }

    #[inline(always)]
    const fn key(&self, offset: u64, nonce: u64) -> u64 {
        mix(nonce ^ mix(self.seed.wrapping_add(offset)))
    }
}

/// Fills `buffer` with the content of `class` for `key`, without nonces.
#[inline(always)]
pub(super) fn fill_keyed(class: DataClass, key: u64, buffer: &mut [u8]) {
    let mut lanes = RandomLanes::new(key);
    match class {
        DataClass::Zero => buffer.fill(0),
        DataClass::Random => lanes.fill(buffer),
        DataClass::Compressible(_) | DataClass::Measured(_) => {
            for chunk in buffer.chunks_mut(CHUNK) {
                let keep = chunk.len() * usize::from(class.incompressible_permille()) / 1000;
                let (random, zero) = chunk.split_at_mut(keep);
                lanes.fill(random);
                zero.fill(0);
            }
        }
        DataClass::Text => {
            for chunk in buffer.chunks_mut(STEP) {
                let words: [u64; LANES * 2] = {
                    let (a, b) = (lanes.step(), lanes.step());
                    core::array::from_fn(|i| if i < LANES { a[i] } else { b[i - LANES] })
                };
                for (text, words) in chunk.chunks_mut(8).zip(words.chunks_exact(2)) {
                    let len = text.len();
                    text.copy_from_slice(&printable(words[0], words[1])[..len]);
                }
            }
        }
    }
}

#[inline(always)]
fn fill_unit(class: DataClass, nonce: u64, key: u64, unit: &mut [u8]) {
    fill_keyed(class, key, unit);
    let len = unit.len().min(8);
    unit[..len].copy_from_slice(&nonce.to_le_bytes()[..len]);
}

/// Eight characters from ' ' to '~', each drawn from 16 bits with negligible bias.
const fn printable(a: u64, b: u64) -> [u8; 8] {
    let mut text = [0; 8];
    let mut i = 0;
    while i < 8 {
        let word = if i < 4 { a } else { b };
        let draw = (word >> (16 * (i % 4))) as u16;
        text[i] = b' ' + ((draw as u32 * 95) >> 16) as u8;
        i += 1;
    }
    text
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014) on its Weyl increment, a bijection.
#[inline(always)]
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// xoroshiro128+ (Blackman and Vigna 2018) in every lane.
struct RandomLanes {
    s0: [u64; LANES],
    s1: [u64; LANES],
}

impl RandomLanes {
    #[inline(always)]
    fn new(key: u64) -> Self {
        Self {
            s0: core::array::from_fn(|lane| mix(key.wrapping_add(2 * lane as u64))),
            // Odd, because an all-zero lane would stay zero.
            s1: core::array::from_fn(|lane| mix(key.wrapping_add(2 * lane as u64 + 1)) | 1),
        }
    }

    #[inline(always)]
    fn step(&mut self) -> [u64; LANES] {
        let mut out = [0; LANES];
        for ((out, s0), s1) in out.iter_mut().zip(&mut self.s0).zip(&mut self.s1) {
            *out = s0.wrapping_add(*s1);
            let mixed = *s1 ^ *s0;
            *s0 = s0.rotate_left(24) ^ mixed ^ (mixed << 16);
            *s1 = mixed.rotate_left(37);
        }
        out
    }

    #[inline(always)]
    fn fill(&mut self, buffer: &mut [u8]) {
        let (steps, rest) = buffer.as_chunks_mut::<STEP>();
        for bytes in steps {
            *bytes = to_bytes(self.step());
        }
        if !rest.is_empty() {
            let len = rest.len();
            rest.copy_from_slice(&to_bytes(self.step())[..len]);
        }
    }
}

#[inline(always)]
fn to_bytes(words: [u64; LANES]) -> [u8; STEP] {
    let mut bytes = [0; STEP];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const CLASSES: [DataClass; 5] = [
        DataClass::Random,
        DataClass::Compressible(40),
        DataClass::Compressible(99),
        DataClass::Text,
        DataClass::Zero,
    ];

    #[test]
    fn fill_never_repeats_a_unit() {
        let content = ContentGenerator::new(7);
        let mut seen = BTreeSet::new();
        for sequence in 0..50 {
            let mut buffer = vec![0; 8 * UNIT];
            // The same offset every time, which a repeated buffer would reveal.
            content.fill(DataClass::Random, 0, sequence, &mut buffer);
            for unit in buffer.chunks(512) {
                assert!(seen.insert(Vec::from(unit)), "write {sequence} repeated a block");
            }
        }
    }

    #[test]
    fn fill_random_has_eight_bits_of_entropy_per_byte() {
        let mut buffer = vec![0; 1 << 20];
        ContentGenerator::new(1).fill(DataClass::Random, 0, 0, &mut buffer);
        let mut pairs = vec![0_u32; 65536];
        for pair in buffer.chunks_exact(2) {
            pairs[usize::from(u16::from_le_bytes([pair[0], pair[1]]))] += 1;
        }
        // Chi-square over 65536 cells: expected 65535, deviation 362, tolerance five of
        // them.
        let chi: f64 =
            pairs.iter().map(|n| (f64::from(*n) - 8.0) * (f64::from(*n) - 8.0) / 8.0).sum();
        assert!((chi - 65535.0).abs() < 5.0 * 362.0, "{chi}");
    }

    #[test]
    fn fill_text_uses_every_printable_character() {
        let mut buffer = vec![0; 8192];
        ContentGenerator::new(1).fill(DataClass::Text, 0, 0, &mut buffer);
        assert!(buffer.iter().all(|byte| (b' '..=b'~').contains(byte)));
        assert_eq!(buffer.iter().collect::<BTreeSet<_>>().len(), 95);
    }

    #[test]
    fn check_distinguishes_zeros_from_foreign_data() {
        let content = ContentGenerator::new(3);
        assert_eq!(content.check(DataClass::Random, 0, &[0; UNIT]), UnitCheck::Zeros);
        assert_eq!(content.check(DataClass::Random, 0, &[7; UNIT]), UnitCheck::Foreign);
        let mut other = [0; UNIT];
        ContentGenerator::new(4).fill(DataClass::Random, 0, 0, &mut other);
        assert_eq!(content.check(DataClass::Random, 0, &other), UnitCheck::Foreign);
    }

    proptest! {
        #[test]
        fn check_recognises_units_and_detects_damage(
            class in prop::sample::select(&CLASSES[..4]), seed in any::<u64>(), sequence in any::<u64>(),
            place in 0_u64..1 << 40, bit in 0..UNIT * 8,
        ) {
            let content = ContentGenerator::new(seed);
            let offset = place * UNIT as u64;
            let mut buffer = vec![0; 2 * UNIT];
            content.fill(class, offset, sequence, &mut buffer);
            let second = &mut buffer[UNIT..];
            let nonce = content.nonce(class, offset + UNIT as u64, sequence);
            prop_assert_eq!(content.check(class, offset + UNIT as u64, second), UnitCheck::Written(nonce));
            prop_assert_eq!(content.check(class, offset, second), UnitCheck::Foreign, "misplaced by one unit");
            second[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(content.check(class, offset + UNIT as u64, second), UnitCheck::Foreign, "a flipped bit");
        }

        #[test]
        fn fill_accepts_any_length(class in prop::sample::select(&CLASSES[..]), len in 0_usize..10_000) {
            let content = ContentGenerator::new(1);
            let mut buffer = vec![0xa5; len];
            content.fill(class, 0, 5, &mut buffer);
            for (number, unit) in buffer.chunks(UNIT).enumerate() {
                let place = (number * UNIT) as u64;
                let nonce = content.nonce(class, place, 5);
                match unit.len() {
                    _ if class == DataClass::Zero => prop_assert!(unit.iter().all(|byte| *byte == 0)),
                    8.. => prop_assert_eq!(content.check(class, place, unit), UnitCheck::Written(nonce)),
                    short => prop_assert_eq!(unit, &nonce.to_le_bytes()[..short]),
                }
            }
        }
    }
}
