//! `trimtab drive show`.

use crate::drives::{self, Drive};
use crate::twin::parameters::{LEGEND, parameters, shown};
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab_drive::spec::source::Source;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_report::layout::on_screen;
use trimtab_report::sources::rows;
use trimtab_study::document::Table;

/// Arguments of `trimtab drive show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  trimtab drive show ocz-vertex-le-100gb\n  trimtab drive show \
        ocz-vertex-le-100gb --toml > mine.toml\n  trimtab drive show ./mine.toml --json"
)]
pub struct DriveShowArgs {
    /// Show this drive: a shipped drive, a twin by its name, or the path of a
    /// specification file.
    drive: String,
    /// Print the file itself, as a template for your own specification.
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

pub fn run(args: &DriveShowArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.toml {
        // Only valid specifications are printed: a name may lead to any file.
        drives::load(&args.drive)?;
        output::print(&drives::text(&args.drive)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let drive = drives::load(&args.drive)?;
    let rows = rows(&drive, &drives::text(&args.drive)?)?;
    let field = |(field, value, source): &(String, Value, Source)| json!({ "field": field, "value": value, "source": source });
    let document = json!({
        "name": drive.spec.name,
        "description": drive.spec.description,
        "twin": drive.twin.as_ref().map(|twin| json!({ "origin": twin.origin, "parameters": twin.parameters, "members": twin.members.len() })),
        "fields": rows.iter().map(field).collect::<Vec<_>>(),
    });
    context.report("drive", 1, &document, || {
        let mut table = Table::new("", &["field", "value", "source"]);
        for (field, value, source) in &rows {
            table.row([
                field.clone(),
                shown(field, value),
                format!("{}: {}", source.kind.name(), source.text),
            ]);
        }
        [
            prose(&format!("{}: {}", drive.spec.name, drive.spec.description)),
            on_screen(&table),
            learned(&drive),
        ]
        .concat()
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The text about the twin: its origin, its parameters, and remarks.
fn learned(drive: &Drive) -> String {
    let Some(twin) = &drive.twin else { return String::new() };
    let origin = &twin.origin;
    let head = format!(
        "Learned from {} on {} ({} budget, seed {}, {} written); {} drives match the measurements.",
        origin.model,
        origin.learned,
        origin.budget,
        origin.seed,
        Bytes(origin.written_bytes),
        twin.members.len()
    );
    let notes: String =
        origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
    ["\n".to_owned(), prose(&head), on_screen(&parameters(&twin.parameters)), prose(LEGEND), notes]
        .concat()
}
