//! Checksum and compression of the binary file formats.

use std::io::{self, Read, Write as _};

/// CRC-32 (IEEE 802.3) of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Compresses `bytes` (deflate) at the fastest level: what is stored is packed already.
pub fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// A reader of what [`compress`] stored.
pub fn decompressed<R: Read>(stored: R) -> impl Read {
    flate2::read::DeflateDecoder::new(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_of_check_string_is_standard_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
