//! `trimtab drive list`.

use crate::drives::{self, SourceKind};
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
    /// How many sources say so of their figures.
    published: usize,
    fitted: usize,
    assumed: usize,
}

/// Prints the shipped drives.
pub fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let entries: Vec<Entry<'_>> = drives::shipped()
        .iter()
        .map(|drive| {
            let of = |kind| drive.sources.values().filter(|source| source.kind == kind).count();
            Entry {
                name: &drive.spec.name,
                description: &drive.spec.description,
                capacity_bytes: drive.spec.capacity_bytes,
                medium: if matches!(drive.spec.medium, Medium::Flash(_)) { "flash" } else { "disk" },
                published: of(SourceKind::Published),
                fitted: of(SourceKind::Fitted),
                assumed: of(SourceKind::Assumed),
            }
        })
        .collect();
    context.report("drives", 1, &entries, || {
        let mut table = output::table(&["drive", "capacity", "published/fitted/assumed", "what it is"]);
        for entry in &entries {
            table.add_row([entry.name, &Bytes(entry.capacity_bytes).to_string(), &format!("{}/{}/{}", entry.published, entry.fitted, entry.assumed), entry.description]);
        }
        if let Some(column) = table.column_mut(3) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        format!("{table}\nThe third column counts the figures' sources by kind; 'trimtab drive show NAME' has them all.\nUse one as drive:NAME, or your own file as drive:FILE.toml ('trimtab drive show NAME --toml' prints one to start from).")
    })?;
    Ok(ExitCode::SUCCESS)
}
