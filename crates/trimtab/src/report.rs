//! Reports of results that only the program has, and the files that hold reports.

pub(crate) mod applied;
pub mod file;
pub(crate) mod history;
pub(crate) mod mended;
pub(crate) mod stored_runs;
pub(crate) mod trim;
pub mod virtual_ssd;
pub(crate) mod wear_metrics;
