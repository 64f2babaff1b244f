//! The cost of a plan: cells, time and memory.

use super::calibrate::Calibration;
use super::{Checked, Looked};
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
    /// Cells that were made, and those of them that cannot be run.
    looked_at: u64,
    impossible: u64,
    impossible_reason: Option<String>,
    /// The most that a cell takes, and what can be used here.
    cell_memory_bytes_max: u64,
    memory_bytes: u64,
    /// Cells at once.
    threads: u64,
    /// Cells that were run to find out how long they take, and how long that took.
    calibration_cells: u64,
    calibration_s: f64,
    /// Seconds of a cell on one thread, and of all of them here; null if that was not found out.
    cell_s: Option<f64>,
    all_s: Option<f64>,
}

impl Estimate {
    /// The cost of `checked`, from what a look at its cells and trial cells showed.
    pub fn of(checked: &Checked, looked: Looked, calibration: Calibration) -> Self {
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

    /// The estimate as people read it.
    pub fn text(&self, checked: &Checked) -> String {
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
            _ if self.calibration_cells == 0 => "not tried".to_owned(),
            _ => format!(
                "not known: {} cells were run for {}, and none came far enough",
                self.calibration_cells,
                seconds(self.calibration_s)
            ),
        };
        let memory = format!("{} a cell at most; {} can be used here", Bytes(self.cell_memory_bytes_max), Bytes(self.memory_bytes));
        let mut text = format!("{}\ncells   {}{repeats}\ntime    {time}\nmemory  {memory}\n", on_screen(&table), grouped(self.cells));
        if self.threads == 0 {
            text.push_str("        too little for a cell\n");
        }
        if let Some(reason) = &self.impossible_reason {
            let of = if self.looked_at < self.cells {
                format!("{} of {} that were looked at", self.impossible, self.looked_at)
            } else {
                grouped(self.impossible)
            };
            text.push_str(&format!("fail    {of} cannot be run: {reason}\n"));
        }
        text
    }
}
