//! The stored form of a run: the JSON of `trimtab.run`, as one compressed block.

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{Read as _, Write as _};
use trimtab_sim::run::shown::headline;
use trimtab_sim::run::{Field, Run};

/// Longest JSON of a run.
const TEXT_MAX: u64 = 256 << 20;

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

/// What a list of runs shows: the run without most of its measurements.
pub fn head(run: &Run) -> Run {
    let fill = |field: &&Field| ["fill", "fs.fill"].contains(&field.key.as_str());
    Run {
        workload: run.workload.clone(),
        target_label: run.target_label.clone(),
        policy: run.policy.clone(),
        started_unix_ms: run.started_unix_ms,
        target: run.target,
        provenance: run.provenance,
        complete: run.complete,
        settings: run.settings.clone(),
        environment: run.environment.iter().filter(fill).cloned().collect(),
        metrics: headline(run.metrics.clone()).into_iter().collect(),
        warnings: run.warnings.clone(),
        ..Run::empty()
    }
}

/// Unpacks a run; the error describes the damage.
pub fn unpack(body: &[u8]) -> Result<Run, String> {
    let mut json = String::new();
    ZlibDecoder::new(body)
        .take(TEXT_MAX)
        .read_to_string(&mut json)
        .map_err(|error| error.to_string())?;
    parse(&json)
}

/// Reads the JSON of a run.
pub fn parse(json: &str) -> Result<Run, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}
