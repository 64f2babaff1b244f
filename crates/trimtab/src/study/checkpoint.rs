//! Checkpoints of a study: each finished run is stored, so that an interrupted study can
//! be resumed.

use super::record;
use crate::store::{self, Filter, RunId, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use trimtab_linux::output::Context;
use trimtab_sim::run::STUDY_CELL as CELL;
use trimtab_sim::run::{Field, Provenance, Run};
use trimtab_study::study::matrix::repeats;
use trimtab_study::study::sensitivity::Sensitivity;

/// Checkpoints in the store of results.
#[derive(Debug)]
pub struct Checkpoints {
    store: Mutex<Store>,
    found: Mutex<BTreeMap<String, (RunId, Run)>>,
    sensitivities: Vec<Sensitivity>,
}

impl Checkpoints {
    /// Opens the store. With `resume`, the stored runs of `target` may be reused;
    /// measured ones only from unfinished studies, so that a new measurement is a
    /// measurement.
    ///
    /// # Errors
    /// The store cannot be opened or read.
    pub fn open(context: &Context, target: &str, resume: bool) -> anyhow::Result<Self> {
        let store = store::open_to_write(context)?;
        let mut found: BTreeMap<String, (RunId, Run)> = BTreeMap::new();
        let studies = if resume { store.studies() } else { &[] };
        let sensitivities =
            studies.iter().flat_map(|(_, study)| record::sensitivities(study)).collect();
        let complete = studies.iter().filter(|(_, study)| study.complete);
        let ended: BTreeSet<RunId> =
            complete.flat_map(|(_, study)| &study.runs).map(|of| of.run).collect();
        let filter = Filter { target: Some(target.to_owned()), ..Filter::default() };
        for summary in if resume { store.list(&filter)? } else { Vec::new() } {
            let run = store.load(summary.id)?;
            let Some(cell) = cell_of(&run).map(str::to_owned) else { continue };
            if run.provenance == Provenance::Measured && ended.contains(&summary.id) {
                continue;
            }
            if run.complete
                && found.get(&cell).is_none_or(|(_, known)| repeats(known) <= repeats(&run))
            {
                found.insert(cell, (summary.id, run));
            }
        }
        Ok(Self { store: Mutex::new(store), found: Mutex::new(found), sensitivities })
    }

    /// An earlier run of this cell that may be reused.
    pub fn find(&self, cell: &str) -> Option<Run> {
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(cell)
            .map(|(_, run)| run.clone())
    }

    /// The result of an earlier study of these assumptions, if it may be reused.
    pub fn sensitivity(&self, cell: &str) -> Option<Sensitivity> {
        self.sensitivities.iter().rfind(|sensitivity| sensitivity.cell == cell).cloned()
    }

    /// Number of finished runs that may be reused.
    pub fn found(&self) -> usize {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Stores a finished run.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put(&self, run: &Run) -> anyhow::Result<()> {
        // A thread that panicked left no unfinished change, so the lock is usable.
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = store.save(run)?;
        // A run that continues an earlier one contains and replaces it. A newly measured
        // run started later and replaces nothing.
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |known: &&mut (RunId, Run)| known.1.started_unix_ms == run.started_unix_ms;
        if let Some(known) = cell_of(run).and_then(|cell| found.get_mut(cell)).filter(goes_on) {
            let before = std::mem::replace(known, (saved.id, run.clone())).0;
            if before != saved.id {
                store.delete(&[before])?;
            }
        }
        Ok(())
    }
}

/// The cell of a study's run.
pub fn cell_of(run: &Run) -> Option<&str> {
    Field::find(&run.environment, CELL)
}

/// The name of a cell: a hash of the run's header and of `detail`, which holds everything
/// else that determines its result.
pub fn name(header: trimtab_sim::run::Run, detail: &str) -> String {
    let mut run = header.into_run(trimtab_sim::run::RunRecording::default(), true);
    run.started_unix_ms = 0;
    // The command does not affect the result.
    run.specification.clear();
    run.environment.push(Field::new("detail", detail));
    RunId::of(&run).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::RunRecording;
    use trimtab_sim::run::TargetKind;

    #[test]
    fn continued_run_replaces_its_part_and_a_new_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let run = |started_unix_ms, repeats: &str| {
            let settings = vec![Field::new("repeats", repeats)];
            let mut run = Run::new("tree", settings, TargetKind::Directory, "x", "none", 1)
                .into_run(RunRecording::default(), true);
            run.started_unix_ms = started_unix_ms;
            run.environment.push(Field::new(CELL, "cell"));
            run
        };
        let mut store = Store::create_or_open(&dir.path().join("results.db")).unwrap();
        let old = run(1000, "1");
        let id = store.save(&old).unwrap().id;
        let kept = Checkpoints {
            store: Mutex::new(store),
            found: Mutex::new([("cell".to_owned(), (id, old))].into()),
            sensitivities: Vec::new(),
        };
        let starts = || {
            let store = kept.store.lock().unwrap();
            let all = store.list(&Filter::default()).unwrap();
            let mut starts: Vec<(u64, u32)> = all
                .iter()
                .map(|s| store.load(s.id).unwrap())
                .map(|r| (r.started_unix_ms, repeats(&r)))
                .collect();
            starts.sort_unstable();
            starts
        };
        kept.put(&run(2000, "1")).unwrap();
        assert_eq!(starts(), [(1000, 1), (2000, 1)], "the first is not part of the second");
        kept.put(&run(1000, "3")).unwrap();
        assert_eq!(starts(), [(1000, 3), (2000, 1)], "the first is part of the third");
    }
}
