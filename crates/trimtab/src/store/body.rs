//! The stored form of a run: the JSON of `trimtab.run`, as one compressed block.

use super::shape::import::TEXT_MAX;
use super::shape::run::RunV1;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{Read as _, Write as _};
use trimtab_sim::run::Run;

/// The JSON of a run.
pub fn json(run: &Run) -> Vec<u8> {
    serde_json::to_vec(run).expect("a run holds only what JSON can say")
}

/// Packs a run for storage.
pub fn pack(run: &Run) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(&json(run))
        .and_then(|()| encoder.finish())
        .expect("memory takes what is written to it")
}

/// Unpacks a run; the error describes the damage.
pub fn unpack(body: &[u8]) -> Result<Run, String> {
    let mut json = Vec::new();
    ZlibDecoder::new(body)
        .take(TEXT_MAX)
        .read_to_end(&mut json)
        .map_err(|error| error.to_string())?;
    serde_json::from_slice::<RunV1>(&json).map(Run::from).map_err(|error| error.to_string())
}
