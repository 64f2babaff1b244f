//! The cost of a plan: cells, time and memory.

use super::calibrate::Calibration;
use super::{Examination, ValidatedPlan};
use crate::drives::crew::processors;
use crate::report::layout::on_screen;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_study::document::Table;
use trimtab_study::sweep::Value;

/// The cost of a plan.
#[derive(Debug, serde::Serialize)]
pub struct Estimate {
    name: String,
    cells: u64,
    points: u64,
    repeats: u64,
    /// Cells that were examined, and the number of invalid ones.
    looked_at: u64,
    impossible: u64,
    impossible_reason: Option<String>,
    /// Largest memory of a cell, and memory that can be used here.
    cell_memory_bytes_max: u64,
    memory_bytes: u64,
    /// Concurrent cells.
    threads: u64,
    /// Trial cells, and their duration.
    calibration_cells: u64,
    calibration_s: f64,
    /// Seconds per cell on one thread, and of the whole sweep here; null if unknown.
    cell_s: Option<f64>,
    all_s: Option<f64>,
}

impl Estimate {
    /// The cost of `checked`, from an examination of its cells and trial runs.
    pub fn of(checked: &ValidatedPlan, looked: Examination, calibration: Calibration) -> Self {
        let cells = checked.plan.cells();
        let memory = super::usable_memory();
        let threads = (memory.0 / looked.memory_max.max(1)).min(processors() as u64);
        let all_s = calibration.cell_s.map(|cell| cell * cells as f64 / threads.max(1) as f64);
        Self {
            name: checked.plan.name.clone(),
            cells,
            points: cells / checked.plan.repeats,
            repeats: checked.plan.repeats,
            looked_at: looked.looked_at,
            impossible: looked.impossible,
            impossible_reason: looked.reason,
            cell_memory_bytes_max: looked.memory_max,
            memory_bytes: memory.0,
            threads,
            calibration_cells: calibration.tried,
            calibration_s: calibration.took_s,
            cell_s: calibration.cell_s,
            all_s,
        }
    }

    /// The estimate as text.
    pub fn text(&self, checked: &ValidatedPlan) -> String {
        let mut table = Table::new(format!("axes of {}", self.name), &["axis", "values", "from", "to"]);
        for axis in &checked.plan.axes {
            let probes = axis.probes();
            let end = |probe: Option<&(Value, usize)>| probe.map_or_else(String::new, |(value, _)| value.to_string());
            let count = axis.len().map_or_else(|| "drawn".to_owned(), grouped);
            table.row([axis.key.clone(), count, end(probes.first()), end(probes.last())]);
        }
        let seconds = |s: f64| Nanos((s * 1e9) as u64).to_string();
        let repeats =
            if self.repeats > 1 { format!(" ({} points, {} repeats)", grouped(self.points), self.repeats) } else { String::new() };
        let time = match (self.cell_s, self.all_s) {
            (Some(cell), Some(all)) => format!(
                "about {} here with {} at once, {} each ({} cells were run for {})",
                seconds(all),
                self.threads,
                seconds(cell),
                self.calibration_cells,
                seconds(self.calibration_s)
            ),
            _ if self.calibration_cells == 0 => "not estimated".to_owned(),
            _ => {
                format!("unknown: {} cells were run for {}, but none came far enough", self.calibration_cells, seconds(self.calibration_s))
            }
        };
        let memory = format!("at most {} per cell; {} can be used here", Bytes(self.cell_memory_bytes_max), Bytes(self.memory_bytes));
        let mut text = format!("{}\ncells   {}{repeats}\ntime    {time}\nmemory  {memory}\n", on_screen(&table), grouped(self.cells));
        if self.threads == 0 {
            text.push_str("        too little for a cell\n");
        }
        if let Some(reason) = &self.impossible_reason {
            let of = if self.looked_at < self.cells {
                format!("{} of {} examined", self.impossible, self.looked_at)
            } else {
                grouped(self.impossible)
            };
            text.push_str(&format!("fail    {of} cannot be run: {reason}\n"));
        }
        text
    }
}
