//! A block trace on a modelled drive, at its own times.

use std::path::PathBuf;
use trimtab_sim::simulate::Trace;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::Reading;
use trimtab_vssd::trace::Source;

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Its file.
    pub path: PathBuf,
    /// How its text is read.
    pub reading: Reading,
    /// When its requests are made.
    pub timing: Timing,
}

impl Trace for Traced {
    type Error = anyhow::Error;

    type Requests<'a> = Source;

    fn timing(&self) -> Timing {
        self.timing
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn open(&self) -> anyhow::Result<Source> {
        Source::open(&self.path, &self.reading)
    }
}
