//! Hashes by which cells, plans and models are told apart.

use alloc::format;
use alloc::string::String;
use sha2::Digest as _;

/// The model: its version, and a hash of what it is made of. Results of different models are never put together.
pub const MODEL: &str = env!("TRIMTAB_MODEL");

/// 128 bits of SHA-256, in hexadecimal.
#[must_use]
pub fn short_hash(bytes: impl AsRef<[u8]>) -> String {
    hex(&sha2::Sha256::digest(bytes)[..16])
}

/// Two digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
