//! A run as the store keeps it: as in `trimtab.run`, in one piece, compressed.

use super::shape::import::TEXT_MAX;
use std::io::Read as _;
use trimtab_sim::run::Run;

/// Quick, and a quarter of the size of the text.
const LEVEL: i32 = 3;

/// The JSON of a run.
pub fn json(run: &Run) -> Vec<u8> {
    serde_json::to_vec(run).expect("a run holds only what JSON can say")
}

/// The body of a run.
pub fn pack(run: &Run) -> Vec<u8> {
    zstd::encode_all(&json(run)[..], LEVEL).expect("memory takes what is written to it")
}

/// The run of a body, or why there is none.
pub fn unpack(body: &[u8]) -> Result<Run, String> {
    let mut json = Vec::new();
    let decoder = zstd::Decoder::with_buffer(body).map_err(|error| error.to_string())?;
    decoder.take(TEXT_MAX).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}
