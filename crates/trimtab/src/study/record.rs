//! Studies in the store: the runs of studies that ran together, and notes about each.

use crate::store::{self, RunId, StudyRecord, StudyRun};
use serde::{Deserialize, Serialize};
use trimtab_linux::output::Context;
use trimtab_sim::run::{Field, Run};
use trimtab_study::study::Study;
use trimtab_study::study::sensitivity::Sensitivity;
use trimtab_study::study::untried::OmittedPart;

/// Separates the number of a further target from the name of a part.
const OF_TARGET: char = '/';
/// Separates targets in a list.
const BETWEEN_TARGETS: &str = ", ";

/// Facts about a study besides its runs.
#[derive(Debug, Serialize, Deserialize)]
struct StudyNote {
    target: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    untried: Vec<OmittedPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Sensitivity>,
}

impl StudyNote {
    fn of(study: &Study) -> Self {
        Self {
            target: study.target.clone(),
            untried: study.untried.clone(),
            sensitivity: study.sensitivity.clone(),
        }
    }

    fn study(self, complete: bool) -> Study {
        Study {
            target: self.target,
            complete,
            untried: self.untried,
            sensitivity: self.sensitivity,
            ..Study::default()
        }
    }
}

/// Names of the parts of a study in the store.
const PARTS: [&str; 2] = ["runs", "ageing"];

const fn parts(study: &Study) -> [&Vec<Run>; 2] {
    [&study.runs, &study.ageing]
}

const fn parts_mut(study: &mut Study) -> [&mut Vec<Run>; 2] {
    [&mut study.runs, &mut study.ageing]
}

/// The studies of `record`, one per target; `load` reads a run.
///
/// # Errors
/// The errors of `load`.
pub fn restored<E>(
    record: &StudyRecord,
    load: impl Fn(RunId) -> Result<Run, E>,
) -> Result<Vec<Study>, E> {
    let notes = record.notes.iter().filter_map(parsed);
    let mut studies: Vec<Study> = notes.map(|note| note.study(record.complete)).collect();
    if studies.is_empty() {
        studies.push(Study {
            target: record.target.clone(),
            complete: record.complete,
            ..Study::default()
        });
    }
    for StudyRun { part, run } in &record.runs {
        let (of, part) = part.split_once(OF_TARGET).unwrap_or(("0", part));
        let study = of.parse::<usize>().ok().and_then(|at| studies.get_mut(at));
        let at = PARTS.iter().position(|name| *name == part);
        let Some((study, at)) = study.zip(at) else { continue };
        parts_mut(study)[at].push(load(*run)?);
    }
    Ok(studies)
}

/// The content of a note; `None` if another version of the program wrote a different
/// format.
fn parsed(note: &Field) -> Option<StudyNote> {
    serde_json::from_str(&note.value).ok()
}

/// Sensitivities of the studies of `record`.
pub fn sensitivities(record: &StudyRecord) -> impl Iterator<Item = Sensitivity> {
    record.notes.iter().filter_map(|note| parsed(note)?.sensitivity)
}

/// Stores the runs of studies that ran together, and the fact that they belong together.
/// Runs that are already stored are not stored again. Studies without runs store nothing.
///
/// # Errors
/// The store cannot be written.
pub fn keep(context: &Context, studies: &[Study]) -> store::Result<Option<RunId>> {
    if studies.iter().all(Study::is_empty) {
        return Ok(None);
    }
    let mut runs = Vec::new();
    let mut notes = Vec::new();
    for (at, study) in studies.iter().enumerate() {
        for (part, all) in PARTS.iter().zip(parts(study)) {
            for run in all {
                let part =
                    if at == 0 { (*part).to_owned() } else { format!("{at}{OF_TARGET}{part}") };
                runs.push(StudyRun { part, run: store::save(context, run)? });
            }
        }
        let note = serde_json::to_string(&StudyNote::of(study));
        notes.push(Field::new(at.to_string(), note.expect("notes hold only what JSON can say")));
    }
    let targets: Vec<&str> = studies.iter().map(|study| study.target.as_str()).collect();
    let complete = studies.iter().all(|study| study.complete);
    let record = StudyRecord { target: targets.join(BETWEEN_TARGETS), complete, runs, notes };
    store::open_to_write(context)?.save_study(&record).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_study::study::recommendation::Recommendation;
    use trimtab_study::study::untried::{OmissionReason, StudyPart};

    fn study(target: &str, untried: &[&str]) -> Study {
        let untried = untried.iter().map(|policy| OmittedPart {
            part: StudyPart::policy(*policy),
            reason: OmissionReason::Obstacle("no root".to_owned()),
        });
        Study {
            target: target.to_owned(),
            complete: true,
            untried: untried.collect(),
            ..Study::default()
        }
    }

    #[test]
    fn restored_studies_equal_kept_studies() {
        let dir = tempfile::tempdir().unwrap();
        let context = Context { store: Some(dir.path().join("r.db")), ..Context::default() };
        let run = |seed| Run { seed, ..crate::store::shape::any_run::example() };
        let sensitivity = Sensitivity {
            cell: "c".to_owned(),
            recommended: Some(Recommendation::NoDifference),
            ..Sensitivity::default()
        };
        let all = [
            Study {
                runs: vec![run(1)],
                ageing: vec![run(2)],
                ..study("drive:/a, b/c.toml", &["online"])
            },
            study("drive:b", &["online"]),
            Study {
                ageing: vec![run(3)],
                sensitivity: Some(sensitivity.clone()),
                ..study("drive:c", &[])
            },
        ];
        let id = keep(&context, &all).unwrap().unwrap();
        let store = store::open_to_read(&context).unwrap().unwrap();
        let record = &store.studies().iter().find(|(of, _)| *of == id).unwrap().1;
        let restored = restored(record, |id| store.load(id)).unwrap();
        // A series holds NaN, which never equals itself.
        assert_eq!(format!("{restored:?}"), format!("{:?}", all.to_vec()));
        assert_eq!(sensitivities(record).collect::<Vec<_>>(), [sensitivity]);
        assert!(keep(&context, &all[1..2]).unwrap().is_none(), "there is no run");
    }
}
