//! A block trace on a modelled drive, at its own times.

use crate::drives::trace::{Event, Source};
use std::path::PathBuf;
use trimtab_core::data::DataClass;
use trimtab_core::run::Field;
use trimtab_core::simulate::passes::{self, Manner, Requests};
use trimtab_core::simulate::timing::Timing;
use trimtab_core::simulate::{Finished, Subject, Trace, Watcher};
use trimtab_core::trace::Format;
use trimtab_core::units::{Bytes, Nanos};

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Its file.
    pub path: PathBuf,
    /// Its format, if it is text whose first line does not give it away.
    pub format: Option<Format>,
    /// Which volume of a trace of several.
    pub volume: Option<u64>,
    /// When its requests are made.
    pub timing: Timing,
}

impl Trace for Traced {
    type Error = anyhow::Error;

    fn fields(&self) -> Vec<Field> {
        self.timing.setting().map(|(key, value)| Field::new(key, value)).into_iter().collect()
    }

    fn run(
        &self,
        data: DataClass,
        until: Option<Bytes>,
        subject: Subject,
        now: Nanos,
        watcher: &mut dyn Watcher,
    ) -> anyhow::Result<Finished> {
        let manner = Manner { timing: self.timing, data, until };
        passes::replay(
            || Source::open(&self.path, self.format, self.volume),
            &self.path.display().to_string(),
            manner,
            subject,
            now,
            watcher,
        )
    }
}

impl Requests for Source {
    type Error = anyhow::Error;

    fn next_request(&mut self) -> Option<anyhow::Result<Event>> {
        self.next()
    }

    fn place(&self) -> String {
        self.place()
    }

    fn says_data(&self) -> bool {
        self.header().is_some()
    }
}
