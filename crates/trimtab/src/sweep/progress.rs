//! The progress of a sweep.

use super::directory::{Directory, RESULTS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trimtab_drive::units::grouped;
use trimtab_study::sweep::table::{CellOutcome, SweepRow};

/// The progress of a sweep.
#[derive(Debug, serde::Serialize)]
pub struct SweepProgress {
    name: String,
    directory: PathBuf,
    cells: u64,
    finished: u64,
    /// Cells that failed.
    pub failed: u64,
    missing: u64,
    /// Reasons of failed cells, with their counts.
    reasons: Vec<(String, u64)>,
    /// Cells with warnings.
    with_warnings: u64,
    /// Codes of warnings, with the number of their cells.
    warnings: BTreeMap<String, u64>,
    /// File of the results, once all cells are finished.
    results: Option<PathBuf>,
}

impl SweepProgress {
    /// The progress of the sweep in `directory`, whose finished cells are `rows`.
    pub fn of(path: &Path, directory: &Directory, rows: &[SweepRow]) -> Self {
        let mut reasons: Vec<(String, u64)> = Vec::new();
        for reason in rows.iter().filter_map(|row| {
            if let CellOutcome::Failed(reason) = &row.outcome { Some(reason) } else { None }
        }) {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason.clone(), 1)),
            }
        }
        let failed: u64 = reasons.iter().map(|(_, count)| count).sum();
        let mut warnings: BTreeMap<String, u64> = BTreeMap::new();
        let mut with_warnings = 0;
        for row in rows {
            let CellOutcome::Finished { warnings: codes, .. } = &row.outcome else { continue };
            with_warnings += u64::from(!codes.is_empty());
            for code in codes {
                *warnings.entry(code.clone()).or_default() += 1;
            }
        }
        let (cells, rows) = (directory.about.cells, rows.len() as u64);
        Self {
            name: directory.about.name.clone(),
            directory: path.to_owned(),
            cells,
            finished: rows - failed,
            failed,
            missing: cells.saturating_sub(rows),
            reasons,
            with_warnings,
            warnings,
            results: (rows == cells).then(|| path.join(RESULTS)),
        }
    }

    /// The progress as text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} of {} cells are finished",
            self.name,
            grouped(self.finished),
            grouped(self.cells)
        );
        if self.failed > 0 {
            text.push_str(&format!(", {} failed", grouped(self.failed)));
        }
        if self.missing > 0 {
            text.push_str(&format!(", {} are missing", grouped(self.missing)));
        }
        text.push('\n');
        /// Number of reasons that are printed; the table has the others.
        const SHOWN: usize = 5;
        for (reason, count) in self.reasons.iter().take(SHOWN) {
            text.push_str(&format!("  failed, {}: {reason}\n", grouped(*count)));
        }
        if self.with_warnings > 0 {
            let codes: Vec<String> = self
                .warnings
                .iter()
                .map(|(code, count)| format!("{code} in {}", grouped(*count)))
                .collect();
            text.push_str(&format!(
                "  {} cells have warnings: {}\n",
                grouped(self.with_warnings),
                codes.join(", ")
            ));
        }
        if let Some(results) = &self.results {
            text.push_str(&format!("results: {}\n", results.display()));
        }
        text
    }
}
