//! The cost of a plan: cells and memory.

use super::ValidatedPlan;
use crate::drives::crew::processors;
use crate::drives::memory::MemoryBudget;
use trimtab_drive::units::{Bytes, grouped};
use trimtab_drive::usage::UsageError;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;
use trimtab_study::sweep::Value;

/// Cells that are examined before the sweep starts, spread over the plan.
const LOOKED_AT: u64 = 20_000;

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
}

impl Estimate {
    /// The cost of `checked`, from all of its cells or a sample spread over it.
    ///
    /// # Errors
    /// None of the cells is valid.
    pub fn of(checked: &ValidatedPlan) -> anyhow::Result<Self> {
        let (plan, cells, memory) =
            (&checked.plan, checked.plan.cells(), MemoryBudget::of_this_machine().total());
        let (mut looked_at, mut impossible, mut impossible_reason, mut memory_max) =
            (0, 0, None, 0);
        for cell in (0..cells).step_by(usize::try_from(cells.div_ceil(LOOKED_AT).max(1))?) {
            looked_at += 1;
            match plan.cell(&plan.place(cell), &checked.files) {
                Ok(cell) => memory_max = cell.memory().0.max(memory_max),
                Err(wrong) => {
                    impossible += 1;
                    impossible_reason.get_or_insert(wrong.text);
                }
            }
        }
        if let Some(reason) = impossible_reason.as_ref().filter(|_| impossible == looked_at) {
            return Err(UsageError::new(format!("no cell of this plan is valid: {reason}")).into());
        }
        Ok(Self {
            name: plan.name.clone(),
            cells,
            points: cells / plan.repeats,
            repeats: plan.repeats,
            looked_at,
            impossible,
            impossible_reason,
            cell_memory_bytes_max: memory_max,
            memory_bytes: memory.0,
            threads: (memory.0 / memory_max.max(1)).min(processors() as u64),
        })
    }

    /// The estimate as text.
    pub fn text(&self, checked: &ValidatedPlan) -> String {
        let mut table =
            Table::new(format!("axes of {}", self.name), &["axis", "values", "from", "to"]);
        for axis in &checked.plan.axes {
            let probes = axis.probes();
            let end = |probe: Option<&(Value, usize)>| {
                probe.map_or_else(String::new, |(value, _)| value.to_string())
            };
            let count = grouped(axis.len());
            table.row([axis.key.clone(), count, end(probes.first()), end(probes.last())]);
        }
        let repeats = if self.repeats > 1 {
            format!(" ({} points, {} repeats)", grouped(self.points), self.repeats)
        } else {
            String::new()
        };
        let memory = format!(
            "at most {} per cell; {} can be used here",
            Bytes(self.cell_memory_bytes_max),
            Bytes(self.memory_bytes)
        );
        let mut text = format!(
            "{}\ncells   {}{repeats}\nmemory  {memory}, {} at once\n",
            on_screen(&table),
            grouped(self.cells),
            self.threads
        );
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
