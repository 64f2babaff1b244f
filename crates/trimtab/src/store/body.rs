//! The stored form of a run: the JSON of `trimtab.run`, as one compressed block.

use super::shape::import::TEXT_MAX;
use std::io::Read as _;
use trimtab_sim::run::Run;

/// Fast, and compresses to a quarter of the text.
const LEVEL: i32 = 3;

/// The JSON of a run.
pub fn json(run: &Run) -> Vec<u8> {
    serde_json::to_vec(run).expect("a run holds only what JSON can say")
}

/// Packs a run for storage.
pub fn pack(run: &Run) -> Vec<u8> {
    zstd::encode_all(&json(run)[..], LEVEL).expect("memory takes what is written to it")
}

/// Unpacks a run; the error describes the damage.
pub fn unpack(body: &[u8]) -> Result<Run, String> {
    let mut json = Vec::new();
    let decoder = zstd::Decoder::with_buffer(body).map_err(|error| error.to_string())?;
    decoder.take(TEXT_MAX).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}
