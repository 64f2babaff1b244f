//! What our binary files share: numbers of few bytes, and checksums.

/// Appends `value` as LEB128: seven bits a byte, the lowest first.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a LEB128 number from the front of `rest`; `None` if there is none, or it needs more than 64 bits.
pub fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// CRC-32 (IEEE 802.3) of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_being_packed(values in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut packed = Vec::new();
            values.iter().for_each(|value| push_varint(&mut packed, *value));
            let mut rest = packed.as_slice();
            for value in values {
                prop_assert_eq!(take_varint(&mut rest), Some(value));
            }
            prop_assert_eq!(take_varint(&mut rest), None);
        }
    }

    #[test]
    fn too_large_numbers_are_refused() {
        assert_eq!(take_varint(&mut [0xFF; 9].iter().chain(&[2]).copied().collect::<Vec<_>>().as_slice()), None);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
