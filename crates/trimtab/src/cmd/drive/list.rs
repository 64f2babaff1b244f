//! `trimtab drive list`.

use crate::drives::{self, Drive, SourceKind, twins};
use crate::report::layout::on_screen;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;
use trimtab_drive::spec::Medium;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_study::document::{NarrowLayout, Table};

#[derive(Serialize)]
struct DriveListEntry<'a> {
    name: &'a str,
    description: &'a str,
    capacity_bytes: u64,
    medium: &'static str,
    /// Number of sources that are published.
    published: usize,
    fitted: usize,
    assumed: usize,
    measured: usize,
}

/// A twin that was learned here.
#[derive(Serialize)]
struct Twin {
    name: String,
    file: std::path::PathBuf,
    model: String,
    firmware: Option<String>,
    learned: String,
    budget: String,
    capacity_bytes: u64,
    /// Number of drives in the ensemble.
    members: usize,
    misfit_permille: u64,
}

/// Usable twins, and the reasons why other files are not.
fn twins(context: &Context) -> (Vec<Twin>, Vec<String>) {
    let of = |kept: twins::StoredTwin| {
        let twin = kept.drive.twin?;
        let origin = twin.origin;
        Some(Twin {
            name: kept.drive.spec.name,
            file: kept.path,
            model: origin.model,
            firmware: origin.firmware,
            learned: origin.learned,
            budget: origin.budget,
            capacity_bytes: kept.drive.spec.capacity_bytes,
            members: twin.members.len(),
            misfit_permille: origin.misfit_permille,
        })
    };
    let twins::TwinDirectory { twins, mut odd } = twins::found(context);
    let twins: Vec<Twin> = twins.into_iter().filter_map(of).collect();
    odd.extend(twins.iter().enumerate().filter_map(|(nth, twin)| hidden(twin, &twins[..nth])));
    (twins, odd)
}

/// The reason why `drive:NAME` means another drive than `twin`, if it does.
fn hidden(twin: &Twin, before: &[Twin]) -> Option<String> {
    let other = if drives::known().any(|drive| drive.spec.name == twin.name) {
        "the shipped drive of that name".to_owned()
    } else {
        before.iter().find(|other| other.name == twin.name)?.file.display().to_string()
    };
    Some(format!("{}: drive:{} is {other}; use the path for this one", twin.file.display(), twin.name))
}

fn entries(drives: &[Drive]) -> Vec<DriveListEntry<'_>> {
    let entry = |drive| {
        let Drive { spec, sources, .. }: &Drive = drive;
        let of = |kind| sources.values().filter(|source| source.kind == kind).count();
        DriveListEntry {
            name: &spec.name,
            description: &spec.description,
            capacity_bytes: spec.capacity_bytes,
            medium: if matches!(spec.medium, Medium::Flash(_)) { "flash" } else { "disk" },
            published: of(SourceKind::Published),
            fitted: of(SourceKind::Fitted),
            assumed: of(SourceKind::Assumed),
            measured: of(SourceKind::Measured),
        }
    };
    drives.iter().map(entry).collect()
}

/// Drives of published rates; their names describe them.
fn of_rates(entries: &[DriveListEntry<'_>]) -> String {
    let mut table = Table::new("", &["drive", "capacity"]).when_narrow(NarrowLayout::Records);
    for entry in entries {
        table.row([entry.name.to_owned(), Bytes(entry.capacity_bytes).to_string()]);
    }
    let what = "Real models with six rates published by their owners (reads and writes, sequential and random), and modelled drives that match these; \
                their SLC cache, spare space and TRIM costs were not measured, and are typical of the class:";
    [prose(what), on_screen(&table)].concat()
}

/// Prints the shipped drives, those of published rates, and the twins learned here.
pub fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let entries = self::entries(drives::shipped());
    let data_center = self::entries(drives::data_center());
    let measured = self::entries(drives::measured());
    let (twins, odd) = twins(context);
    context.report(
        "drives",
        1,
        &json!({ "drives": entries, "data_center": data_center, "measured": measured, "twins": twins, "notes": odd }),
        || {
            let mut table =
                Table::new("", &["drive", "capacity", "published/fitted/assumed", "what it is"]).when_narrow(NarrowLayout::Records);
            for entry in entries.iter().chain(&data_center) {
                let sources = format!("{}/{}/{}", entry.published, entry.fitted, entry.assumed);
                table.row([entry.name.to_owned(), Bytes(entry.capacity_bytes).to_string(), sources, entry.description.to_owned()]);
            }
            let hint = "The third column counts the figures' sources by kind; 'trimtab drive show NAME' lists them.\n\
                    Use a drive as drive:NAME, or your own file as drive:FILE.toml ('trimtab drive show NAME --toml' prints a template).";
            [on_screen(&table), prose(hint), of_rates(&measured), learned(&twins), noticed(&odd)].concat()
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Remarks that are printed in full.
const NAMED: usize = 5;

/// Remarks about files that cannot be used as twins, or not by name.
fn noticed(odd: &[String]) -> String {
    let more = odd.len().saturating_sub(NAMED);
    let lines = odd.iter().take(NAMED).map(|one| prose(&format!("Noticed: {}.", output::plain(one))));
    lines.chain((more > 0).then(|| prose(&format!("Noticed: {more} more like these.")))).collect()
}

/// The table of twins; empty if there are none.
fn learned(twins: &[Twin]) -> String {
    if twins.is_empty() {
        return String::new();
    }
    let columns = ["drive", "twin of", "firmware", "learned", "budget", "capacity"];
    let mut table = Table::new("", &columns).when_narrow(NarrowLayout::Records);
    for twin in twins {
        let firmware = twin.firmware.clone().unwrap_or_else(|| "–".to_owned());
        let capacity = Bytes(twin.capacity_bytes).to_string();
        table.row([twin.name.clone(), twin.model.clone(), firmware, twin.learned.clone(), twin.budget.clone(), capacity]);
    }
    let directory = twins.first().and_then(|twin| twin.file.parent()).map(|path| path.display().to_string()).unwrap_or_default();
    let head = format!("Twins, learned by 'trimtab drive learn', used as drive:NAME; files in {}:", output::plain(&directory));
    [prose(&head), on_screen(&table)].concat()
}
