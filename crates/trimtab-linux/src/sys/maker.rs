//! Generates write data with the widest vector instructions of the processor.

use trimtab_drive::data::DataClass;
use trimtab_drive::data::content::{ContentGenerator, UnitCheck};

/// Vector width to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// Available on every processor of the architecture.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Generates and checks content for one seed.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    content: ContentGenerator,
    width: Width,
}

impl Maker {
    /// Creates a generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self { content: ContentGenerator::new(seed), width: Width::detect() }
    }

    /// Returns the nonce of the unit that write number `sequence` stores at `offset`.
    pub fn nonce(&self, class: DataClass, offset: u64, sequence: u64) -> u64 {
        self.content.nonce(class, offset, sequence)
    }

    /// Like [`Content::fill`].
    #[inline]
    pub fn fill(&self, class: DataClass, offset: u64, sequence: u64, buffer: &mut [u8]) {
        match self.width {
            Width::Baseline => self.content.fill(class, offset, sequence, buffer),
            // SAFETY: `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { fill_avx2(&self.content, class, offset, sequence, buffer) },
            // SAFETY: `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { fill_avx512(&self.content, class, offset, sequence, buffer) },
        }
    }

    /// Like [`Content::check`].
    pub fn check(&self, class: DataClass, offset: u64, unit: &[u8]) -> UnitCheck {
        match self.width {
            Width::Baseline => self.content.check(class, offset, unit),
            // SAFETY: `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { check_avx2(&self.content, class, offset, unit) },
            // SAFETY: `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { check_avx512(&self.content, class, offset, unit) },
        }
    }
}

impl Width {
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            Self::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Self::Avx2
        } else {
            Self::Baseline
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::Baseline
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(
    content: &ContentGenerator,
    class: DataClass,
    offset: u64,
    sequence: u64,
    buffer: &mut [u8],
) {
    content.fill(class, offset, sequence, buffer);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn fill_avx512(
    content: &ContentGenerator,
    class: DataClass,
    offset: u64,
    sequence: u64,
    buffer: &mut [u8],
) {
    content.fill(class, offset, sequence, buffer);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn check_avx2(content: &ContentGenerator, class: DataClass, offset: u64, unit: &[u8]) -> UnitCheck {
    content.check(class, offset, unit)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn check_avx512(
    content: &ContentGenerator,
    class: DataClass,
    offset: u64,
    unit: &[u8],
) -> UnitCheck {
    content.check(class, offset, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maker_bytes_are_equal_for_every_simd_width() {
        let plain = ContentGenerator::new(9);
        for class in
            [DataClass::Random, DataClass::Compressible(30), DataClass::Text, DataClass::Zero]
        {
            let (mut a, mut b) = (vec![1; 3 * 4096], vec![2; 3 * 4096]);
            plain.fill(class, 4096, 5, &mut a);
            Maker { content: plain, width: Width::detect() }.fill(class, 4096, 5, &mut b);
            assert_eq!(a, b, "{class}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                Maker { content: plain, width: Width::Avx2 }.fill(class, 4096, 5, &mut b);
                assert_eq!(a, b, "{class}");
            }
        }
    }
}
