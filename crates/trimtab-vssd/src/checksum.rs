//! Checksum of file formats.

/// CRC-32 (IEEE 802.3) of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_of_check_string_is_standard_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
