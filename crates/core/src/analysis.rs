//! What numbers mean: histograms, steady state, change points, comparison.

pub mod histogram;
