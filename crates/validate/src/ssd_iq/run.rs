//! Figures of a run, measured or modelled.

use super::model::{Run, series};
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_study::learn::logs::series::{BIN, crossing};

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunFigures {
    /// Rate of the first 2 % of the used size in MB/s.
    pub fresh_mbs: f64,
    /// Rate of the last fifth in MB/s.
    pub steady_mbs: f64,
    /// Slowest bin in MB/s.
    pub trough_mbs: f64,
    /// Start of the first bin below the mean of fresh and steady rate, in drive writes.
    pub cliff_at: Option<f64>,
    /// WAF of the last fifth without metadata.
    pub gc_waf: Option<f64>,
}

/// Runs `run` on `spec`, [scaled](super::model::small) to `pages` times 2 GiB.
///
/// # Errors
/// If the specification is invalid.
pub fn run(spec: &DriveSpec, run: &Run, pages: u32, seed: u64) -> Result<RunFigures, SpecError> {
    let (series, used_bytes) = series(spec, run, pages, seed)?;
    let metadata = spec.flash.ftl.metadata_permille;
    let floor = 1.0 + f64::from(metadata) / 1000.0;
    let (outcome, bins) = (series.outcome(used_bytes), series.bins(used_bytes));
    let cliff = crossing(&bins, outcome.fresh_mbs, outcome.steady_mbs);
    Ok(RunFigures {
        fresh_mbs: outcome.fresh_mbs,
        steady_mbs: outcome.steady_mbs,
        trough_mbs: bins.iter().copied().fold(f64::INFINITY, f64::min),
        cliff_at: cliff.map(|nth| nth as f64 * BIN),
        gc_waf: outcome.waf.map(|waf| waf / floor),
    })
}
