//! `trimtab drive list`.

use crate::drives;
use crate::output::{self, Context};
use serde::Serialize;
use std::process::ExitCode;
use trimtab_core::drive::spec::Medium;
use trimtab_core::units::Bytes;

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    description: &'a str,
    capacity_bytes: u64,
    medium: &'static str,
}

/// Prints the shipped drives.
pub fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let entries: Vec<Entry<'_>> = drives::shipped()
        .iter()
        .map(|drive| Entry {
            name: &drive.spec.name,
            description: &drive.spec.description,
            capacity_bytes: drive.spec.capacity_bytes,
            medium: if matches!(drive.spec.medium, Medium::Flash(_)) { "flash" } else { "disk" },
        })
        .collect();
    context.report("drives", 1, &entries, || {
        let mut table = output::table(&["drive", "capacity", "what it is"]);
        for entry in &entries {
            table.add_row([entry.name, &Bytes(entry.capacity_bytes).to_string(), entry.description]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        format!("{table}\nUse one as drive:NAME, or your own file as drive:FILE.toml ('trimtab drive show NAME --toml' prints one to start from).")
    })?;
    Ok(ExitCode::SUCCESS)
}
