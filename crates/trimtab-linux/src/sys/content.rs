//! Content of blocks, generated with the widest vectors of the processor.

use trimtab_drive::data::DataClass;
use trimtab_drive::data::content::ContentGenerator;

/// As [`ContentGenerator::fill`].
pub fn fill(
    content: &ContentGenerator,
    class: DataClass,
    offset: u64,
    sequence: u64,
    buffer: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has these instructions.
        return unsafe { content.fill_avx512(class, offset, sequence, buffer) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { content.fill_avx2(class, offset, sequence, buffer) };
    }
    content.fill(class, offset, sequence, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_vector_widths_give_the_same_content() {
        let content = ContentGenerator::new(9);
        for class in [DataClass::Random, DataClass::Compressible(30), DataClass::Text] {
            let (mut plain, mut wide) = (vec![1; 3 * 4096], vec![2; 3 * 4096]);
            content.fill(class, 4096, 5, &mut plain);
            fill(&content, class, 4096, 5, &mut wide);
            assert_eq!(plain, wide, "{class}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                wide.fill(3);
                // SAFETY: the processor has these instructions.
                unsafe { content.fill_avx2(class, 4096, 5, &mut wide) };
                assert_eq!(plain, wide, "{class}");
            }
        }
    }
}
