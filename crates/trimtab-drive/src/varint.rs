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

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of DWARF 5, section 7.6, and both ends of the range.
    #[test]
    fn push_appends_leb128() {
        let mut packed = Vec::new();
        [0, 2, 127, 128, 129, 12_857, u64::MAX].iter().for_each(|value| push(&mut packed, *value));
        let ones = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(packed[..9], [0, 2, 127, 0x80, 1, 0x81, 1, 0xB9, 0x64]);
        assert_eq!(packed[9..], ones);
    }
}
