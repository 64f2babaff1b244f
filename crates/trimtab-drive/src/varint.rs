//! LEB128 encoding: seven bits per byte, lowest first.

use alloc::vec::Vec;

/// Appends `value` to `out`.
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Removes a number from the front of `rest`; `None` if there is none or it exceeds 64
/// bits.
pub fn take(rest: &mut &[u8]) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varint_round_trips(values in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut packed = Vec::new();
            values.iter().for_each(|value| push(&mut packed, *value));
            let mut rest = packed.as_slice();
            for value in values {
                prop_assert_eq!(take(&mut rest), Some(value));
            }
            prop_assert_eq!(take(&mut rest), None);
        }
    }

    #[test]
    fn take_refuses_numbers_over_64_bits() {
        assert_eq!(
            take(&mut [0xFF; 9].iter().chain(&[2]).copied().collect::<Vec<_>>().as_slice()),
            None
        );
    }
}
