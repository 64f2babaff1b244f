//! A block trace on a modelled drive, with the trace's timing.

use std::path::PathBuf;
use trimtab_sim::simulate::Trace;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::TraceReadOptions;
use trimtab_vssd::trace::TraceSource;

/// A trace and how to replay it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInput {
    /// The trace's file.
    pub path: PathBuf,
    /// Options for reading the file.
    pub reading: TraceReadOptions,
    /// Timing of its requests.
    pub timing: Timing,
}

impl Trace for TraceInput {
    type Error = anyhow::Error;

    type Requests<'a> = TraceSource;

    fn timing(&self) -> Timing {
        self.timing
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn open(&self) -> anyhow::Result<TraceSource> {
        TraceSource::open(&self.path, &self.reading)
    }
}
