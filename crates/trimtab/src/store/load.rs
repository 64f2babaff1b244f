//! Reads runs from the store.

use super::{Reference, Result, RunId, Store, StoreError, StoredRun, ambiguous, body};
use serde::{Serialize, Serializer};
use trimtab_sim::run::json::entries;
use trimtab_sim::run::shown::headline;
use trimtab_sim::run::{Field, Metric, Provenance, Run, TargetKind, Unit};

/// Selects the runs to list. An empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Exact workload.
    pub workload: Option<String>,
    /// Substring of the target's name.
    pub target: Option<String>,
    /// Substring of the label.
    pub label: Option<String>,
    /// Study that contains the run.
    pub study: Option<RunId>,
    /// Maximum number of runs; the newest are listed.
    pub limit: Option<usize>,
}

/// One-line summary of a stored run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its id.
    pub id: RunId,
    /// Start time, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Workload.
    pub workload: String,
    /// Kind of target.
    pub target: TargetKind,
    /// The target as the user named it.
    pub target_label: String,
    /// Trim policy.
    pub policy: String,
    /// Source of the figures.
    pub provenance: Provenance,
    /// False if the run was interrupted.
    pub complete: bool,
    /// Number of warnings.
    pub warnings: u64,
    /// User-assigned label.
    pub label: Option<String>,
    /// The latest study that contains it.
    pub study: Option<RunId>,
    /// Fill level of the filesystem, if it was set.
    pub fill: Option<String>,
    /// Its settings.
    #[serde(serialize_with = "entries::serialize")]
    pub settings: Vec<Field>,
    /// The headline figure, if there is one.
    #[serde(serialize_with = "figure")]
    pub metric: Option<Metric>,
}

impl Summary {
    /// The mean of the headline figure; `None` without a figure or if the mean is not
    /// finite.
    pub fn mean(&self) -> Option<f64> {
        self.metric.as_ref().and_then(mean)
    }
}

fn mean(metric: &Metric) -> Option<f64> {
    Some(metric.samples.iter().sum::<f64>() / metric.samples.len() as f64)
        .filter(|mean| mean.is_finite())
}

fn figure<S: Serializer>(metric: &Option<Metric>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct StoredFigure<'a> {
        name: &'a str,
        unit: Unit,
        mean: Option<f64>,
        repeats: usize,
    }
    let figure = metric.as_ref().map(|m| StoredFigure {
        name: &m.name,
        unit: m.unit,
        mean: mean(m),
        repeats: m.samples.len(),
    });
    figure.serialize(serializer)
}

impl Store {
    /// The matching runs, oldest first. Only [`Store::load`] checks a run against its id.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let is_in_study = |run: &StoredRun| {
            filter.study.is_none_or(|id| {
                self.studies.iter().any(|(of, study)| *of == id && study.contains(run.id))
            })
        };
        let mut found = Vec::new();
        for run in self.runs.iter().rev().filter(|run| is_in_study(run)) {
            if filter.limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
            let summary = self.summary(run)?;
            if filter.fits(&summary) {
                found.push(summary);
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Resolves `last`, `last~1` … to the run or whole study that one command saved.
    /// Returns any other reference unchanged.
    pub fn resolve(&self, reference: &Reference) -> Reference {
        let Reference::Last(back) = reference else { return reference.clone() };
        let singles = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, run)| self.study_of(run.id).is_none())
            .map(|(at, run)| (at, 0, Reference::Prefix(run.id.to_string())));
        // A study is as recent as its newest run.
        let studies = self.studies.iter().enumerate().filter_map(|(nth, (id, study))| {
            let newest = self.runs.iter().rposition(|run| study.contains(run.id))?;
            Some((newest, 1 + nth, Reference::Study(id.to_string())))
        });
        let mut all: Vec<_> = singles.chain(studies).collect();
        all.sort_by_key(|(at, nth, _)| std::cmp::Reverse((*at, *nth)));
        all.into_iter().nth(*back as usize).map_or_else(|| reference.clone(), |(_, _, found)| found)
    }

    /// Finds the run that `reference` names.
    pub fn find(&self, reference: &Reference) -> Result<RunId> {
        let meant = self.resolve(reference);
        let ids: Vec<RunId> = match &meant {
            Reference::Prefix(prefix) => {
                let ids = self.runs.iter().map(|run| run.id);
                ids.filter(|id| id.to_string().starts_with(prefix.as_str())).collect()
            }
            _ => Vec::new(),
        };
        match &ids[..] {
            [] => Err(self.no_single_run(reference, &meant)),
            [id] => Ok(*id),
            several => Err(ambiguous(reference, several)),
        }
    }

    /// The error for a reference that names no single run; it mentions a study, which
    /// other commands accept.
    fn no_single_run(&self, reference: &Reference, meant: &Reference) -> StoreError {
        match self.find_study(meant) {
            Ok((id, study)) => StoreError::Study {
                reference: reference.to_string(),
                id: id.short(),
                runs: study.runs.len(),
            },
            Err(_) => self.no_run(&reference.to_string()),
        }
    }

    /// Loads the run with this id, if its content still has this id.
    pub fn load(&self, id: RunId) -> Result<Run> {
        let stored = self.run(id).ok_or_else(|| self.no_run(&id.to_string()))?;
        let run = self.unpack(stored)?;
        let found = RunId::of(&run);
        if found == id {
            return Ok(run);
        }
        let path = self.path().display();
        Err(StoreError::Other(format!(
            "run {id} in store {path} was altered: its present content has the id \
                {found}; remove it with trimtab results delete {id}"
        )))
    }

    pub(super) fn run(&self, id: RunId) -> Option<&StoredRun> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub(super) fn unpack(&self, stored: &StoredRun) -> Result<Run> {
        let (at, len) = stored.body;
        body::unpack(&self.log.read_at(at, len)?)
            .map_err(|detail| self.log.damaged(format!("run {}: {detail}", stored.id)))
    }

    /// The latest study that contains this run.
    fn study_of(&self, run: RunId) -> Option<RunId> {
        self.studies.iter().rev().find(|(_, study)| study.contains(run)).map(|(id, _)| *id)
    }

    fn summary(&self, stored: &StoredRun) -> Result<Summary> {
        let run = body::parse(stored.head.get())
            .map_err(|detail| self.log.damaged(format!("run {}: {detail}", stored.id)))?;
        let known = |key: &str| {
            Field::find(&run.settings, key)
                .or_else(|| Field::find(&run.environment, key))
                .map(str::to_owned)
        };
        Ok(Summary {
            label: stored.label.clone(),
            study: self.study_of(stored.id),
            fill: known("fill").or_else(|| known("fs.fill")),
            id: stored.id,
            started_unix_ms: run.started_unix_ms,
            target: run.target,
            provenance: run.provenance,
            complete: run.complete,
            warnings: run.warnings.len() as u64,
            workload: run.workload,
            target_label: run.target_label,
            policy: run.policy,
            settings: run.settings,
            metric: headline(run.metrics),
        })
    }
}

impl Filter {
    /// True if the run fits, apart from the study and the limit.
    fn fits(&self, run: &Summary) -> bool {
        let contains = |text: &str, part: &Option<String>| {
            part.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
        };
        self.workload.as_ref().is_none_or(|workload| run.workload == *workload)
            && contains(&run.target_label, &self.target)
            && contains(run.label.as_deref().unwrap_or_default(), &self.label)
    }
}
