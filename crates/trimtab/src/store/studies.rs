//! Studies: groups of runs, with notes that belong to no single run.

use super::{Reference, Result, RunId, Store, StoreError, ambiguous};
use serde::{Deserialize, Serialize};
use trimtab_sim::run::{Field, json::entries};

/// A study, with references to its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRecord {
    /// The studied target, as the user named it.
    pub target: String,
    /// False if the study was interrupted.
    pub complete: bool,
    /// Its runs, in order.
    pub runs: Vec<StudyRun>,
    /// Additional notes: the target or twin of each, and JSON.
    #[serde(default, with = "entries")]
    pub notes: Vec<Field>,
}

/// A run of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRun {
    /// The part of the study that it belongs to: `runs`, `1/ageing`.
    pub part: String,
    /// Its id.
    pub run: RunId,
}

impl StudyRecord {
    /// Id derived from the content: saving the same study again gives the same
    /// entry.
    pub fn id(&self) -> RunId {
        let runs: Vec<String> =
            self.runs.iter().map(|StudyRun { part, run }| format!("{part} {run}")).collect();
        let notes: Vec<String> =
            self.notes.iter().map(|field| format!("{}: {}", field.key, field.value)).collect();
        RunId::of_text(&[self.target.as_str(), &runs.join("\n"), &notes.join("\n")].join("\n\n"))
    }

    /// True if the run belongs to it.
    pub fn contains(&self, run: RunId) -> bool {
        self.runs.iter().any(|of| of.run == run)
    }
}

impl Store {
    /// All studies, oldest first.
    pub fn studies(&self) -> &[(RunId, StudyRecord)] {
        &self.studies
    }

    /// Finds the study that `reference` names.
    pub fn find_study(&self, reference: &Reference) -> Result<(RunId, StudyRecord)> {
        let path = self.path().display();
        let missing = || {
            StoreError::Other(format!(
                "store {path} has no study '{reference}'; see trimtab results list --studies"
            ))
        };
        let mut all = self.studies().to_vec();
        if let Reference::LastStudy(back) = reference {
            let at = all.len().checked_sub(1 + *back as usize).ok_or_else(missing)?;
            return Ok(all.swap_remove(at));
        }
        let (Reference::Study(prefix) | Reference::Prefix(prefix)) = reference else {
            return Err(missing());
        };
        all.retain(|(id, _)| id.to_string().starts_with(prefix.as_str()));
        match all.len() {
            0 => Err(missing()),
            1 => Ok(all.swap_remove(0)),
            _ => Err(ambiguous(reference, &all.iter().map(|(id, _)| *id).collect::<Vec<_>>())),
        }
    }

    /// Finds the runs that `reference` names: one run, or all runs of a study.
    pub fn find_all(&self, reference: &Reference) -> Result<Vec<RunId>> {
        let reference = &self.resolve(reference);
        let of_study = |store: &Self| {
            Ok(store.find_study(reference)?.1.runs.into_iter().map(|of| of.run).collect())
        };
        match reference {
            Reference::Study(_) | Reference::LastStudy(_) => of_study(self),
            _ => match self.find(reference) {
                Err(StoreError::Study { .. }) => of_study(self),
                other => Ok(vec![other?]),
            },
        }
    }
}
