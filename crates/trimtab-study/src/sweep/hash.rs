//! Hashes that identify cells, plans and models.

use alloc::format;
use alloc::string::String;
use sha2::Digest as _;

/// Version of the model and a hash of its sources. Results of different models are never
/// combined.
pub const MODEL: &str = env!("TRIMTAB_MODEL");

/// 128 bits of SHA-256, in hexadecimal.
#[must_use]
pub fn short_hash(bytes: impl AsRef<[u8]>) -> String {
    hex(&sha2::Sha256::digest(bytes)[..16])
}

/// Two hexadecimal digits per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
