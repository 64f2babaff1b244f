//! `trimtab drive list`.

use crate::drives::twins::{self, StoredTwin, TwinDirectory};
use crate::drives::{self, Drive};
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab_drive::spec::text;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_report::layout::on_screen;
use trimtab_report::sources;
use trimtab_study::document::Table;

/// Number of values of each kind: published, fitted, measured, assumed.
fn counts(drive: &Drive) -> [usize; 4] {
    sources::counts(&text::whole(drive)).map_or([0; 4], |all| all.map(|(count, _)| count))
}

fn entries(drives: &[Drive]) -> Value {
    let entry = |drive: &Drive| {
        let [published, fitted, measured, assumed] = counts(drive);
        json!({
            "name": drive.spec.name,
            "description": drive.spec.description,
            "capacity_bytes": drive.spec.capacity_bytes,
            "medium": "flash",
            "published": published,
            "fitted": fitted,
            "assumed": assumed,
            "measured": measured,
        })
    };
    drives.iter().map(entry).collect()
}

fn twin_entry(kept: &StoredTwin) -> Option<Value> {
    let (spec, twin) = (&kept.drive.spec, kept.drive.twin.as_ref()?);
    let origin = &twin.origin;
    Some(json!({
        "name": spec.name,
        "file": kept.path,
        "model": origin.model,
        "firmware": origin.firmware,
        "learned": origin.learned,
        "budget": origin.budget,
        "capacity_bytes": spec.capacity_bytes,
        "members": twin.members.len(),
        "misfit_permille": origin.misfit_permille,
    }))
}

/// The reason why `drive:NAME` means another drive than `twin`, if it does.
fn hidden(twin: &StoredTwin, before: &[StoredTwin]) -> Option<String> {
    let name = &twin.drive.spec.name;
    let other = if drives::known().any(|drive| drive.spec.name == *name) {
        "the shipped drive of that name".to_owned()
    } else {
        before.iter().find(|other| other.drive.spec.name == *name)?.path.display().to_string()
    };
    Some(format!("{}: drive:{name} is {other}; use the path for this one", twin.path.display()))
}

/// Drives of published rates; their names describe them.
fn of_rates() -> String {
    let mut table = Table::new("", &["drive", "capacity"]);
    for Drive { spec, .. } in drives::measured() {
        table.row([spec.name.clone(), Bytes(spec.capacity_bytes).to_string()]);
    }
    let what = "Real models with six rates published by their owners (reads and writes, \
        sequential and random), and modelled drives that match these. \
        They are for random reads and writes, not for sustained writes: no SLC cache is \
        modelled. Spare space and TRIM costs were not measured, and are typical of the class:";
    [prose(what), on_screen(&table)].concat()
}

/// Prints the shipped drives, those of published rates, and the twins learned here.
pub fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let TwinDirectory { twins, mut odd } = twins::found(context);
    odd.extend(twins.iter().enumerate().filter_map(|(nth, twin)| hidden(twin, &twins[..nth])));
    let document = json!({
        "drives": entries(drives::shipped()),
        "data_center": entries(drives::data_center()),
        "measured": entries(drives::measured()),
        "twins": twins.iter().filter_map(twin_entry).collect::<Value>(),
        "notes": odd,
    });
    context.report("drives", 1, &document, || {
        let mut table =
            Table::new("", &["drive", "capacity", "published/fitted/assumed", "what it is"]);
        for drive in drives::shipped().iter().chain(drives::data_center()) {
            let [published, fitted, _, assumed] = counts(drive);
            let Drive { spec, .. } = drive;
            table.row([
                spec.name.clone(),
                Bytes(spec.capacity_bytes).to_string(),
                format!("{published}/{fitted}/{assumed}"),
                spec.description.clone(),
            ]);
        }
        let hint = "The third column counts values; 'trimtab drive show NAME' lists them.\n\
            Use a drive as drive:NAME, or your own file as \
            drive:FILE.toml ('trimtab drive show NAME --toml' prints a template).";
        [on_screen(&table), prose(hint), of_rates(), learned(&twins), noticed(&odd)].concat()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Remarks that are printed in full.
const NAMED: usize = 5;

/// Remarks about files that cannot be used as twins, or not by name.
fn noticed(odd: &[String]) -> String {
    let more = odd.len().saturating_sub(NAMED);
    let lines =
        odd.iter().take(NAMED).map(|one| prose(&format!("Noticed: {}.", output::plain(one))));
    lines.chain((more > 0).then(|| prose(&format!("Noticed: {more} more like these.")))).collect()
}

/// The table of twins; empty if there are none.
fn learned(twins: &[StoredTwin]) -> String {
    let Some(directory) = twins.first().and_then(|twin| twin.path.parent()) else {
        return String::new();
    };
    let columns = ["drive", "twin of", "firmware", "learned", "budget", "capacity"];
    let mut table = Table::new("", &columns);
    for twin in twins {
        let Some(origin) = twin.origin() else { continue };
        let firmware = origin.firmware.clone().unwrap_or_else(|| "–".to_owned());
        let (name, capacity) =
            (twin.drive.spec.name.clone(), Bytes(twin.drive.spec.capacity_bytes).to_string());
        table.row([
            name,
            origin.model.clone(),
            firmware,
            origin.learned.clone(),
            origin.budget.clone(),
            capacity,
        ]);
    }
    let directory = directory.display().to_string();
    let head = format!(
        "Twins, learned by 'trimtab drive learn', used as drive:NAME; files in {}:",
        output::plain(&directory)
    );
    [prose(&head), on_screen(&table)].concat()
}
