//! `trimtab drive list`.

use crate::drives::{self, SourceKind};
use crate::output::Context;
use crate::output::lines::prose;
use crate::report::layout::on_screen;
use serde::Serialize;
use std::process::ExitCode;
use trimtab_core::document::{Narrow, Table};
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
    measured: usize,
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
                measured: of(SourceKind::Measured),
            }
        })
        .collect();
    context.report("drives", 1, &entries, || {
        let mut table = Table::new("", &["drive", "capacity", "published/fitted/assumed", "what it is"]).when_narrow(Narrow::Records);
        for entry in &entries {
            let sources = format!("{}/{}/{}", entry.published, entry.fitted, entry.assumed);
            table.row([entry.name.to_owned(), Bytes(entry.capacity_bytes).to_string(), sources, entry.description.to_owned()]);
        }
        let hint = "The third column counts the figures' sources by kind; 'trimtab drive show NAME' has them all.\n\
                    Use one as drive:NAME, or your own file as drive:FILE.toml ('trimtab drive show NAME --toml' prints one to start from).";
        [on_screen(&table), prose(hint)].concat()
    })?;
    Ok(ExitCode::SUCCESS)
}
