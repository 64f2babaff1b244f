//! `validate ssd-iq`: predicts published runs of ten data-centre SSD units.
//!
//! `steady.csv` holds the measured figures, `drives/data-center` a specification of each unit.

pub mod data;
pub mod load;
pub mod model;
pub mod score;
mod sheets;
#[cfg(test)]
mod tests;

use crate::parallel;
use anyhow::Context as _;
use data::Measured;
use model::Outcome;
use score::{Figure, Hits};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab::report::layout::on_screen;
use trimtab_drive::shipped;
use trimtab_drive::spec::datasheet::Prior;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::SourceKind;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_study::document::Table;

/// Units and the names of their specifications.
pub const UNITS: [(&str, &str); 10] = [
    ("h0", "sk-hynix-pe8110-960gb"),
    ("i0", "solidigm-d7-p5520-1920gb-i0"),
    ("i1", "solidigm-d7-p5520-1920gb-i1"),
    ("i4i", "aws-i4i-3750gb"),
    ("k4", "kioxia-cm7-r-3840gb-k4"),
    ("k5", "kioxia-cm7-r-3840gb-k5"),
    ("m0", "micron-7450-pro-960gb"),
    ("mp0", "micron-7450-max-800gb"),
    ("s0", "samsung-pm9a3-960gb"),
    ("wd", "wd-dc-960gb"),
];

/// Arguments of `validate ssd-iq`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  validate ssd-iq                        all units
  validate ssd-iq --unit mp0,m0          two units
  validate ssd-iq --from-data-sheet      leave each unit out: its data sheet and the class only
  validate ssd-iq --data more.csv        other runs, in the columns of crates/validate/src/ssd_iq/steady.csv")]
pub struct Args {
    /// Only these units: h0, i0, i1, i4i, k4, k5, m0, mp0, s0, wd.
    #[arg(long, value_name = "UNIT", value_delimiter = ',')]
    unit: Vec<String>,
    /// Only this experiment of the publication: wa14, op02, ...
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Leave one unit out: predict each from its data sheet and the class, without its own runs.
    #[arg(long)]
    from_data_sheet: bool,
    /// Measured runs in a file instead of the embedded ones.
    #[arg(long, value_name = "FILE.csv")]
    data: Option<PathBuf>,
    /// Pages per erase block of the scaled-down drive.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pages: u32,
    /// Seed of the drives and their writes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A unit, its specification and the parameters that were fitted or assumed.
#[derive(Clone, Debug, Serialize)]
struct Parameters {
    unit: String,
    drive: String,
    published: usize,
    fitted: Vec<String>,
    assumed: usize,
}

#[derive(Serialize)]
struct Document<'a> {
    seed: u64,
    pages_per_block: u32,
    parameters: &'a [Parameters],
    figures: &'a [Figure],
    hits: &'a [Hits],
    not_compared: Vec<(&'a str, &'a str, &'a str, &'static str)>,
}

/// Predicts the runs and prints both figures.
///
/// # Errors
/// If interrupted, or if the runs cannot be read.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let rows = rows(args)?;
    let outcomes = outcomes(&rows, args, context)?;
    let figures = all_figures(&rows, &outcomes, args.from_data_sheet);
    let hits = score::hits(&figures);
    let mut parameters = Vec::new();
    for (unit, _) in UNITS.iter().filter(|(unit, _)| rows.iter().any(|row| row.unit == *unit)) {
        parameters.push(parameters_of(unit, &drive(unit, args.from_data_sheet)?));
    }
    let not_compared = rows
        .iter()
        .filter_map(|row| Some((row.unit.as_str(), row.experiment.as_str(), row.pattern.as_str(), *row.run.as_ref().err()?)))
        .collect();
    let document =
        Document { seed: args.seed, pages_per_block: args.pages, parameters: &parameters, figures: &figures, hits: &hits, not_compared };
    context.report("ssd-iq", 1, &document, || text(&document))?;
    Ok(ExitCode::SUCCESS)
}

fn rows(args: &Args) -> anyhow::Result<Vec<Measured>> {
    if let Some(unknown) = args.unit.iter().find(|unit| !UNITS.iter().any(|(name, _)| name == unit)) {
        let names: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
        return Err(UsageError::new(format!("--unit {unknown}: unknown unit")).hint(format!("valid: {}", names.join(", "))).into());
    }
    let of_file = |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let csv = args.data.as_ref().map_or_else(|| Ok(data::STEADY.to_owned()), of_file)?;
    let mut rows = data::parse(&csv).map_err(UsageError::new)?;
    rows.retain(|row| args.unit.is_empty() || args.unit.contains(&row.unit));
    rows.retain(|row| args.experiment.as_ref().is_none_or(|name| *name == row.experiment));
    if let Some(row) = rows.iter().find(|row| !UNITS.iter().any(|(name, _)| *name == row.unit)) {
        return Err(UsageError::new(format!("the runs name an unknown unit '{}'", row.unit)).into());
    }
    if rows.is_empty() {
        return Err(UsageError::new("no measured run matches").hint("omit --unit and --experiment for all runs").into());
    }
    Ok(rows)
}

/// The specification of `unit`, or with `from_data_sheet` the one that its data sheet gives.
///
/// # Errors
/// If its data sheet is not usable.
pub fn drive(unit: &str, from_data_sheet: bool) -> anyhow::Result<Drive> {
    if from_data_sheet {
        let sheet = sheets::of(unit).with_context(|| format!("no data sheet of unit {unit}"))?;
        return Ok(sheet.drive(&Prior::MEDIAN)?);
    }
    let (_, name) = UNITS.iter().find(|(name, _)| *name == unit).with_context(|| format!("no unit {unit}"))?;
    shipped::named(name).with_context(|| format!("no shipped drive {name}"))
}

/// Results of the model, in the order of `rows`; `None` for runs that it cannot repeat. Equal
/// runs of one unit are simulated once.
fn outcomes(rows: &[Measured], args: &Args, context: &Context) -> anyhow::Result<Vec<Option<Outcome>>> {
    let mut distinct: Vec<&Measured> = Vec::new();
    for row in rows.iter().filter(|row| row.run.is_ok()) {
        if !distinct.iter().any(|one| one.unit == row.unit && one.run == row.run) {
            distinct.push(row);
        }
    }
    let found = parallel::map(context, "runs", &distinct, |row| {
        if interrupt::requested() {
            return Err(InterruptError.into());
        }
        let run = row.run.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))?;
        let drive = drive(&row.unit, args.from_data_sheet)?;
        Ok(model::run(&drive.spec, run, args.pages, args.seed)?)
    })?;
    let of = |row: &Measured| {
        let at = distinct.iter().position(|one| one.unit == row.unit && one.run == row.run)?;
        found.get(at).copied()
    };
    Ok(rows.iter().map(|row| row.run.as_ref().ok().and_then(|_| of(row))).collect())
}

/// Figures of all rows. A share of read-only pages is related to the uniform run of the same
/// experiment.
fn all_figures(rows: &[Measured], outcomes: &[Option<Outcome>], open: bool) -> Vec<Figure> {
    let compared = || rows.iter().zip(outcomes).filter_map(|(row, outcome)| Some((row, outcome.as_ref()?)));
    let uniform = |of: &Measured| {
        let same = |row: &Measured| row.unit == of.unit && row.experiment == of.experiment && row.pattern == "uniform";
        compared().find(|(row, _)| same(row)).map(|(row, outcome)| (row.outcome.steady_mbs, outcome.steady_mbs))
    };
    compared().flat_map(|(row, outcome)| score::figures(row, outcome, uniform(row), open)).collect()
}

fn parameters_of(unit: &str, drive: &Drive) -> Parameters {
    let of = |kind| drive.sources.iter().filter(move |(_, source)| source.kind == kind);
    Parameters {
        unit: unit.to_owned(),
        drive: drive.spec.name.clone(),
        published: of(SourceKind::Published).count(),
        fitted: of(SourceKind::Fitted).map(|(field, source)| format!("{field}: {}", source.text)).collect(),
        assumed: of(SourceKind::Assumed).count(),
    }
}

fn text(document: &Document<'_>) -> String {
    let mut table = Table::new("", &["unit", "experiment", "pattern", "figure", "measured", "predicted", "interval", "off", "result"]);
    for one in document.figures {
        let digits = if one.measured < 20.0 { 2 } else { 0 };
        let kind = match (one.counted, one.fitted) {
            (false, _) => "not steady",
            (_, true) => "fitted",
            (_, false) => "predicted",
        };
        table.row([
            one.unit.clone(),
            one.experiment.clone(),
            one.pattern.clone(),
            one.figure.to_owned(),
            format!("{:.digits$}", one.measured),
            format!("{:.digits$}", one.predicted),
            format!("{:.digits$} to {:.digits$}", one.interval.0, one.interval.1),
            format!("{:+.1} %", one.off_percent()),
            format!("{} ({kind})", if one.hit { "hit" } else { "MISS" }),
        ]);
    }
    let mut hits = Table::new("", &["figure", "fitted", "predicted", "median off", "in interval"]);
    let of = |(hit, all): (usize, usize)| format!("{hit} of {all}");
    for one in document.hits {
        let off = format!("{:.1} %", one.median_off_percent);
        hits.row([one.figure.to_owned(), of(one.fitted), of(one.predicted), off, of(one.covered)]);
    }
    let mut used = Table::new("", &["unit", "drive", "published", "assumed", "fitted"]);
    for one in document.parameters {
        let fitted = if one.fitted.is_empty() { "nothing".to_owned() } else { one.fitted.join("; ") };
        used.row([one.unit.clone(), one.drive.clone(), one.published.to_string(), one.assumed.to_string(), fitted]);
    }
    let left = document
        .not_compared
        .iter()
        .map(|(unit, experiment, pattern, reason)| prose(&format!("Not compared: {unit} {experiment} {pattern}: {reason}.")));
    [on_screen(&table), "\n".to_owned(), on_screen(&hits), "\n".to_owned(), on_screen(&used)].into_iter().chain(left).collect()
}
