//! Schedule of a study's cells: order, results to store, abandoned cells, and merging of
//! repeats.

use super::untried::{OmissionReason, OmittedPart, StudyPart};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::units::Nanos;
use trimtab_sim::run::{Field, Metric, Provenance, Run, STUDY_CELL as CELL};

/// The cells of a study and their results so far.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    cells: Vec<MatrixEntry>,
    repeats: u32,
    untried: Vec<OmittedPart>,
}

#[derive(Clone, Debug)]
struct MatrixEntry {
    /// Part listed as not tested if the cell fails; all its cells are abandoned together.
    part: StudyPart,
    /// Name under which the run is stored and found again.
    name: Option<String>,
    runs: Vec<Run>,
    /// Finished repeats, and how many of them were stored before.
    done: u32,
    before: u32,
}

impl Matrix {
    /// Creates a matrix that runs each cell `repeats` times.
    #[must_use]
    pub fn new(repeats: u32) -> Self {
        Self { repeats, ..Self::default() }
    }

    /// Adds a cell; `kept` is its stored run, if any.
    pub fn add(&mut self, part: StudyPart, name: Option<String>, kept: Option<Run>) {
        let done = kept.as_ref().map_or(0, repeats);
        self.cells.push(MatrixEntry {
            part,
            name,
            runs: kept.into_iter().collect(),
            done,
            before: done,
        });
    }

    /// The cells to run in order, one entry per remaining repeat. The order alternates
    /// forwards and backwards, so that a steady drift affects all cells equally.
    #[must_use]
    pub fn visits(&self) -> Vec<usize> {
        let round = |repeat: u32| {
            let due = (0..self.cells.len()).filter(move |at| self.cells[*at].done <= repeat);
            let due: Vec<usize> =
                if repeat.is_multiple_of(2) { due.collect() } else { due.rev().collect() };
            due
        };
        (0..self.repeats).flat_map(round).collect()
    }

    /// True if that cell has been abandoned.
    #[must_use]
    pub fn is_given_up(&self, at: usize) -> bool {
        self.untried.iter().any(|untried| untried.part == self.cells[at].part)
    }

    /// True if that cell has no run yet.
    #[must_use]
    pub fn is_untouched(&self, at: usize) -> bool {
        self.cells[at].runs.is_empty()
    }

    /// Records a run of that cell. After the last repeat, returns the merged run to
    /// store.
    pub fn finished(&mut self, at: usize, run: Run) -> Option<Run> {
        let cell = &mut self.cells[at];
        cell.runs.push(run);
        cell.done += 1;
        if cell.done >= self.repeats { cell.to_keep() } else { None }
    }

    /// Abandons that cell and all others of the same part.
    pub fn failed(&mut self, at: usize, reason: String) {
        let untried = OmittedPart {
            part: self.cells[at].part.clone(),
            reason: OmissionReason::Obstacle(reason),
        };
        if !self.untried.contains(&untried) {
            self.untried.push(untried);
        }
    }

    /// Partial results of cells with repeats left, for the next start to resume from.
    pub fn unfinished(&self) -> impl Iterator<Item = Run> {
        self.cells
            .iter()
            .filter(|cell| cell.before < cell.done && cell.done < self.repeats)
            .filter_map(MatrixEntry::to_keep)
    }

    /// The run of each cell, if any, and the abandoned parts.
    #[must_use]
    pub fn close(self) -> (Vec<Option<Run>>, Vec<OmittedPart>) {
        (self.cells.into_iter().map(MatrixEntry::merged).collect(), self.untried)
    }
}

impl MatrixEntry {
    fn to_keep(&self) -> Option<Run> {
        self.name.as_ref()?;
        self.clone().merged()
    }

    fn merged(self) -> Option<Run> {
        let mut run = merge(self.runs)?;
        // A run stored before is returned byte for byte.
        if let Some(name) =
            self.name.filter(|name| Field::find(&run.environment, CELL) != Some(name))
        {
            run.environment.retain(|field| field.key != CELL);
            run.environment.push(Field::new(CELL, name));
        }
        Some(run)
    }
}

/// Number of repeats in a run of a study.
#[must_use]
pub fn repeats(run: &Run) -> u32 {
    Field::find(&run.settings, "repeats").and_then(|repeats| repeats.parse().ok()).unwrap_or(1)
}

/// Merges repeats: phases in sequence, one sample each, warnings once, series of the
/// first.
#[must_use]
pub fn merge(runs: Vec<Run>) -> Option<Run> {
    let repeats: u32 = runs.iter().map(repeats).sum();
    let mut runs = runs.into_iter();
    let mut merged = runs.next()?;
    merged.settings.retain(|field| field.key != "repeats");
    merged.settings.push(Field::new("repeats", repeats.to_string()));
    for run in runs {
        let offset = match merged.provenance {
            // Virtual time has no gap between two runs.
            Provenance::Modelled => merged
                .phases
                .last()
                .map_or(Nanos::ZERO, |last| last.started.saturating_add(last.took)),
            _ => Nanos(
                run.started_unix_ms
                    .saturating_sub(merged.started_unix_ms)
                    .saturating_mul(1_000_000),
            ),
        };
        merged.phases.extend(run.phases.into_iter().map(|mut phase| {
            phase.started = phase.started.saturating_add(offset);
            phase
        }));
        for metric in run.metrics {
            add_samples(&mut merged.metrics, metric);
        }
        for warning in run.warnings {
            if !merged.warnings.iter().any(|w| w.code == warning.code) {
                merged.warnings.push(warning);
            }
        }
        merged.complete &= run.complete;
    }
    Some(merged)
}

fn add_samples(metrics: &mut Vec<Metric>, metric: Metric) {
    match metrics.iter_mut().find(|m| m.name == metric.name) {
        Some(known) => known.samples.extend(metric.samples),
        None => metrics.push(metric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::RunRecording;
    use trimtab_sim::run::{Better, TargetKind, Unit};

    fn run(sample: f64) -> Run {
        let header = Run::new("tree", Vec::new(), TargetKind::Directory, "x", "online", 1);
        let mut run = header.into_run(RunRecording::default(), true);
        run.metrics.push(Metric {
            name: "n".into(),
            unit: Unit::Count,
            better: Better::Neither,
            samples: alloc::vec![sample],
        });
        run
    }

    #[test]
    fn matrix_alternates_order_and_skips_finished_cells() {
        let mut matrix = Matrix::new(3);
        matrix.add(StudyPart::policy("a"), Some("cell a".into()), None);
        let mut kept = run(7.0);
        kept.settings.push(Field::new("repeats", "2"));
        kept.metrics[0].samples = alloc::vec![7.0, 8.0];
        matrix.add(StudyPart::policy("b"), Some("cell b".into()), Some(kept));
        matrix.add(StudyPart::policy("c"), None, None);
        assert_eq!(matrix.visits(), [0, 2, 2, 0, 0, 1, 2]);
        assert_eq!(matrix.unfinished().count(), 0, "nothing was begun");
        let last = matrix.finished(1, run(9.0)).expect("its third");
        assert_eq!(
            (last.metrics[0].samples.as_slice(), repeats(&last)),
            ([7.0, 8.0, 9.0].as_slice(), 3)
        );
        assert_eq!(Field::find(&last.environment, CELL), Some("cell b"));
        assert_eq!(matrix.finished(0, run(1.0)), None);
        let mut taken = last.clone();
        taken.environment.push(Field::new("later", "x"));
        let mut whole = Matrix::new(3);
        whole.add(StudyPart::policy("b"), Some("cell b".into()), Some(taken.clone()));
        assert_eq!(whole.close().0, [Some(taken)], "nothing was added: it is the same run");
        assert_eq!(matrix.unfinished().map(|run| repeats(&run)).collect::<Vec<_>>(), [1]);
        matrix.failed(2, "gone".into());
        assert!(matrix.is_given_up(2) && !matrix.is_given_up(0));
        let (runs, untried) = matrix.close();
        assert_eq!(runs.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(
            untried,
            [OmittedPart {
                part: StudyPart::policy("c"),
                reason: OmissionReason::Obstacle("gone".into())
            }]
        );
    }
}
