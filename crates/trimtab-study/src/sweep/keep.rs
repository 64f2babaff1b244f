//! Optional details of a run: series over time or bytes written, and latency histograms.

use super::hash::short_hash;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_sim::run::{LatencyPart, Run};

const SERIES: &str = "series";
const HISTOGRAMS: &str = "histograms";

/// Selection of details to store; empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailSelection(BTreeSet<String>);

impl DetailSelection {
    /// Adds `series` (all), `series:NAME`, or `histograms`.
    ///
    /// # Errors
    /// Any other word.
    pub fn add(&mut self, word: &str) -> Result<(), String> {
        let one = word.split_once(':').is_some_and(|(kind, name)| kind == SERIES && !name.is_empty());
        if !one && word != SERIES && word != HISTOGRAMS {
            return Err(format!("'{word}' cannot be kept; choose {SERIES}, {SERIES}:NAME or {HISTOGRAMS}"));
        }
        self.0.insert(word.to_owned());
        Ok(())
    }

    /// True if any series are stored.
    #[must_use]
    pub fn series(&self) -> bool {
        self.0.iter().any(|word| word.starts_with(SERIES))
    }

    /// True if histograms are stored.
    #[must_use]
    pub fn histograms(&self) -> bool {
        self.0.contains(HISTOGRAMS)
    }

    fn keeps(&self, series: &str) -> bool {
        self.0.contains(SERIES) || self.0.iter().any(|word| word.strip_prefix("series:") == Some(series))
    }

    /// The id of a cell with this selection. The selection is part of the id.
    #[must_use]
    pub fn id(&self, of_cell: String) -> String {
        if self.0.is_empty() { of_cell } else { short_hash(format!("{of_cell} {:?}", self.0)) }
    }

    /// The selected details of `run`.
    #[must_use]
    pub fn of(&self, run: &Run) -> Detail {
        let series = run.series.iter().filter(|series| self.keeps(&series.name)).map(|series| {
            let points = series.x.iter().zip(&series.y).filter(|(_, y)| y.is_finite()).map(|(x, y)| (*x, *y));
            StoredSeries {
                name: series.name.clone(),
                over: series.axis.name().to_owned(),
                unit: series.unit.name().to_owned(),
                points: points.collect(),
            }
        });
        let histograms = latencies(run).into_iter().filter(|_| self.histograms());
        let histograms =
            histograms.map(|(kind, histogram)| (kind.name().to_owned(), histogram.buckets().map(|(at, count)| (at.0, count)).collect()));
        Detail { series: series.collect(), histograms: histograms.collect() }
    }
}

/// Details of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Series.
    pub series: Vec<StoredSeries>,
    /// Latencies by kind of operation: upper bound of each bucket in nanoseconds, and its count.
    pub histograms: Vec<(String, Vec<(u64, u64)>)>,
}

impl Detail {
    /// True if there are no details.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.series.is_empty() && self.histograms.is_empty()
    }
}

/// A stored series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredSeries {
    /// Its name.
    pub name: String,
    /// `time` or `bytes-written`.
    pub over: String,
    /// Unit of the values.
    pub unit: String,
    /// Position in nanoseconds or bytes, and value.
    pub points: Vec<(u64, f64)>,
}

pub(super) fn latencies(run: &Run) -> Vec<(OpKind, Histogram)> {
    let mut all: Vec<(OpKind, Histogram)> = Vec::new();
    let of = run.phases.iter().flat_map(|phase| &phase.latencies).filter(|latency| latency.part == LatencyPart::Total);
    for latency in of.filter(|latency| latency.histogram.count() > 0) {
        match all.iter_mut().find(|(kind, _)| *kind == latency.kind) {
            Some((_, histogram)) => histogram.merge(&latency.histogram),
            None => all.push((latency.kind, latency.histogram.clone())),
        }
    }
    all
}
