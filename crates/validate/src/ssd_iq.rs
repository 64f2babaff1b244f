//! `validate ssd-iq`: predicts published runs of ten data-centre SSD units.
//!
//! `steady.csv` holds the measured figures, `drives/data-center` a specification of each
//! unit.

mod calibrate;
pub mod cases;
pub mod data;
pub mod errors;
pub mod offered;
pub mod run;
pub mod score;
mod sheets;
#[cfg(test)]
mod tests;
pub mod zones;

use crate::parallel;
use anyhow::Context as _;
use cases::{Case, Value};
use data::Measured;
use errors::Errors;
use offered::Sweep;
use score::{Figure, Hits};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::shipped;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::datasheet::Prior;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::SourceKind;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;
use trimtab_study::learn::logs::{load, repeat as model};

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
  validate ssd-iq                             all units
  validate ssd-iq --unit mp0,m0               two units
  validate ssd-iq --unit mp0 --draws 8        one unit, with intervals
  validate ssd-iq --experiment lat10          latency against offered load only
  validate ssd-iq --leave-out unit            each unit from its data sheet and the class only
  validate ssd-iq --leave-out experiment      each experiment from the data sheet and the unit's other experiments
  validate ssd-iq --data more.csv             other runs, in the columns of steady.csv, latency.csv or zones.csv
                                              in crates/validate/src/ssd_iq")]
pub struct Args {
    /// Only these units: h0, i0, i1, i4i, k4, k5, m0, mp0, s0, wd.
    #[arg(long, value_name = "UNIT", value_delimiter = ',')]
    unit: Vec<String>,
    /// Only this experiment of the publication: wa14, op02, lat10, ...
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Predict without the measurements of the unit, or of the experiment on that unit.
    #[arg(long, value_name = "WHAT")]
    leave_out: Option<LeaveOut>,
    /// Measured runs in files instead of the embedded ones.
    #[arg(long, value_name = "FILE.csv")]
    data: Vec<PathBuf>,
    /// Write the predictions to a file before they are compared.
    #[arg(long, value_name = "FILE.csv")]
    freeze: Option<PathBuf>,
    /// Write the errors of the predictions, from which later intervals follow, to a file.
    #[arg(long, value_name = "FILE.csv")]
    errors: Option<PathBuf>,
    /// Draws of the assumed values, whose spread is part of the intervals. Each takes about
    /// as long as half the predictions.
    #[arg(
        long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=64)
    )]
    draws: u32,
    /// Size of the scaled-down drives in units of 2 GiB. Draws use one unit.
    #[arg(
        long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    size: u32,
    /// Seed of the drives and their writes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measurements that a prediction must not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LeaveOut {
    /// All of the unit.
    Unit,
    /// Those of the same experiment on the unit.
    Experiment,
}

/// What `--leave-out` leaves out, in words.
fn left_out(args: &Args) -> &'static str {
    match args.leave_out {
        None => "nothing",
        Some(LeaveOut::Unit) => "unit",
        Some(LeaveOut::Experiment) => "experiment",
    }
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
    size_2gib: u32,
    draws: u32,
    predictions_sha256: &'a str,
    parameters: &'a [Parameters],
    figures: &'a [Figure],
    hits: &'a [Hits],
    not_compared: Vec<(&'a str, &'a str, &'a str, &'static str)>,
}

/// The measurements.
#[derive(Default)]
struct Measurements {
    rows: Vec<Measured>,
    sweeps: Vec<Sweep>,
    zones: Vec<zones::ZoneRun>,
}

impl Measurements {
    /// Adds those in `csv`, which its columns identify.
    fn add(&mut self, csv: &str) -> Result<(), UsageError> {
        let columns = csv.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
        let has = |name: &str| columns.split(',').any(|column| column == name);
        if has("offered_ops_s") {
            self.sweeps.extend(offered::parse(csv).map_err(UsageError::new)?);
        } else if has("zone_MiB") {
            self.zones.extend(zones::parse(csv).map_err(UsageError::new)?);
        } else {
            self.rows.extend(data::parse(csv).map_err(UsageError::new)?);
        }
        Ok(())
    }

    fn embedded() -> Result<Self, UsageError> {
        let mut embedded = Self::default();
        [data::STEADY, offered::LATENCY, zones::ZONES]
            .into_iter()
            .try_for_each(|csv| embedded.add(csv))?;
        Ok(embedded)
    }

    fn cases(&self) -> Vec<Case> {
        let runs = self.rows.iter().filter_map(Case::of_run);
        runs.chain(self.sweeps.iter().map(Case::of_sweep))
            .chain(self.zones.iter().map(Case::of_zones))
            .collect()
    }
}

/// Predicts the runs and prints both figures.
///
/// # Errors
/// If interrupted, or if the runs cannot be read.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let measurements = measurements(args)?;
    let mut cases = measurements.cases();
    cases.retain(|case| args.unit.is_empty() || args.unit.contains(&case.unit));
    cases.retain(|case| args.experiment.as_ref().is_none_or(|name| *name == case.experiment));
    if cases.is_empty() {
        return Err(UsageError::new("no measured run matches")
            .hint("omit --unit and --experiment for all runs")
            .into());
    }
    let predictions = predictions(&cases, args, context)?;
    let frozen = frozen(&cases, &predictions);
    if let Some(path) = &args.freeze {
        std::fs::write(path, &frozen)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let sha256 = Sha256::digest(&frozen).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    // Measured figures are used from here on.
    let figures = compared(&cases, &predictions, args.leave_out.is_none());
    if let Some(path) = &args.errors {
        std::fs::write(path, score::error_rows(&figures, left_out(args)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let hits = score::hits(&figures, &Errors::embedded(left_out(args)));
    let mut parameters = Vec::new();
    for (unit, _) in UNITS.iter().filter(|(unit, _)| cases.iter().any(|case| case.unit == *unit)) {
        parameters.push(parameters_of(unit, &drive(unit, args.leave_out.is_some())?));
    }
    let not_compared = measurements
        .rows
        .iter()
        .filter(|row| args.unit.is_empty() || args.unit.contains(&row.unit))
        .filter_map(|row| {
            Some((
                row.unit.as_str(),
                row.experiment.as_str(),
                row.pattern.as_str(),
                *row.run.as_ref().err()?,
            ))
        })
        .collect();
    let document = Document {
        seed: args.seed,
        size_2gib: args.size,
        draws: args.draws,
        predictions_sha256: &sha256,
        parameters: &parameters,
        figures: &figures,
        hits: &hits,
        not_compared,
    };
    context.report("ssd-iq", 3, &document, || text(&document))?;
    Ok(ExitCode::SUCCESS)
}

fn measurements(args: &Args) -> anyhow::Result<Measurements> {
    let names: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = args.unit.iter().find(|unit| !names.contains(&unit.as_str())) {
        return Err(UsageError::new(format!("--unit {unknown}: unknown unit"))
            .hint(format!("valid: {}", names.join(", ")))
            .into());
    }
    if args.data.is_empty() {
        return Ok(Measurements::embedded()?);
    }
    let mut measurements = Measurements::default();
    for path in &args.data {
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        measurements.add(&csv)?;
    }
    if let Some(case) =
        measurements.cases().iter().find(|case| !names.contains(&case.unit.as_str()))
    {
        return Err(
            UsageError::new(format!("the runs name an unknown unit '{}'", case.unit)).into()
        );
    }
    Ok(measurements)
}

/// The specification of `unit`, or with `from_data_sheet` the one that its data sheet
/// gives.
///
/// # Errors
/// If its data sheet is not usable.
pub fn drive(unit: &str, from_data_sheet: bool) -> anyhow::Result<Drive> {
    if from_data_sheet {
        let sheet = sheets::of(unit).with_context(|| format!("no data sheet of unit {unit}"))?;
        return Ok(sheet.drive(&Prior::MEDIAN)?);
    }
    let (_, name) =
        UNITS.iter().find(|(name, _)| *name == unit).with_context(|| format!("no unit {unit}"))?;
    shipped::named(name).with_context(|| format!("no shipped drive {name}"))
}

/// A unit, the experiment that its drive must not be fitted to, and the number of the
/// draw; draw 0 is the prediction.
type DriveKey<'a> = (&'a str, Option<&'a str>, u32);

fn key<'a>(case: &'a Case, leave_out: Option<LeaveOut>, draw: u32) -> DriveKey<'a> {
    (&case.unit, (leave_out == Some(LeaveOut::Experiment)).then_some(&*case.experiment), draw)
}

/// Drives of all cases and draws. Fits use the embedded measurements only.
fn drives<'a>(
    cases: &'a [Case],
    args: &Args,
    context: &Context,
) -> anyhow::Result<BTreeMap<DriveKey<'a>, DriveSpec>> {
    let embedded = Measurements::embedded()?;
    let priors = calibrate::priors(args.draws, args.seed);
    let all =
        cases.iter().flat_map(|case| (0..=args.draws).map(|draw| key(case, args.leave_out, draw)));
    let keys: Vec<DriveKey<'_>> =
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let made = parallel::map(context, "drives", &keys, |(unit, left_out, draw)| {
        if interrupt::requested() {
            return Err(InterruptError.into());
        }
        if *draw == 0 && args.leave_out.is_none() {
            return Ok(self::drive(unit, false)?.spec);
        }
        let prior =
            draw.checked_sub(1).and_then(|nth| priors.get(nth as usize)).unwrap_or(&Prior::MEDIAN);
        let training = match args.leave_out {
            Some(LeaveOut::Unit) => calibrate::Training::default(),
            _ => calibrate::training(unit, &embedded.rows, &embedded.sweeps, *left_out),
        };
        calibrate::drive(unit, prior, &training, args.seed + u64::from(*draw))
    })?;
    Ok(keys.into_iter().zip(made).collect())
}

/// Figures of the model for each case, with intervals. Equal cases are simulated once.
fn predictions(
    cases: &[Case],
    args: &Args,
    context: &Context,
) -> anyhow::Result<Vec<Vec<score::Prediction>>> {
    let drives = drives(cases, args, context)?;
    let mut distinct: Vec<(&Case, u32)> = Vec::new();
    for case in cases {
        if !distinct.iter().any(|(one, _)| same(one, case, args.leave_out)) {
            distinct.extend((0..=args.draws).map(|draw| (case, draw)));
        }
    }
    let found = parallel::map(context, "runs", &distinct, |(case, draw)| {
        if interrupt::requested() {
            return Err(InterruptError.into());
        }
        let spec = drives.get(&key(case, args.leave_out, *draw)).context("no drive for a run")?;
        let pages = if *draw == 0 { args.size } else { 1 };
        Ok(case.predict(spec, pages, args.seed + u64::from(*draw))?)
    })?;
    let of = |case: &Case, draw: u32| -> &[Value] {
        let at = distinct
            .iter()
            .position(|(one, number)| *number == draw && same(one, case, args.leave_out));
        at.and_then(|at| found.get(at)).map_or(&[], Vec::as_slice)
    };
    let complete = |case: &Case, draw: u32| -> Vec<Value> {
        let values = of(case, draw);
        let relative = cases::relative(cases, case, values, |other| of(other, draw));
        values.iter().cloned().chain(relative).collect()
    };
    // Nothing is fitted to a unit without measurements.
    let (errors, alone) = (Errors::embedded(left_out(args)), Errors::embedded("unit"));
    let predicted = |case: &Case| {
        let errors = if errors.has(&case.unit) { &errors } else { &alone };
        let drawn: Vec<Vec<Value>> = (1..=args.draws).map(|draw| complete(case, draw)).collect();
        score::with_intervals(
            &case.unit,
            &complete(case, 0),
            &drawn.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            errors,
        )
    };
    Ok(cases.iter().map(predicted).collect())
}

/// True if one simulation serves both cases.
fn same(one: &Case, other: &Case, leave_out: Option<LeaveOut>) -> bool {
    key(one, leave_out, 0) == key(other, leave_out, 0) && one.kind == other.kind
}

/// All predictions as text, without a measured figure.
fn frozen(cases: &[Case], predictions: &[Vec<score::Prediction>]) -> String {
    let mut text = "unit,experiment,at,figure,predicted,low,high\n".to_owned();
    for (case, predictions) in cases.iter().zip(predictions) {
        for one in predictions {
            let (low, high) = one.interval;
            let at = one.value.at.replace(',', "");
            let figure = one.value.figure.replace(',', "");
            let _ = writeln!(
                text,
                "{},{},{at},{figure},{},{low},{high}",
                case.unit, case.experiment, one.value.value
            );
        }
    }
    text
}

/// Measured figures against the predictions.
fn compared(cases: &[Case], predictions: &[Vec<score::Prediction>], shipped: bool) -> Vec<Figure> {
    let values: Vec<Vec<Value>> = cases
        .iter()
        .map(|case| case.measured.iter().map(|(value, _)| value.clone()).collect())
        .collect();
    let of = |case: &Case| -> &[Value] {
        cases
            .iter()
            .position(|one| std::ptr::eq(one, case))
            .and_then(|at| values.get(at))
            .map_or(&[], Vec::as_slice)
    };
    let one = |(case, predictions): (&Case, &Vec<score::Prediction>)| {
        let counted = case.measured.first().is_some_and(|(_, counted)| *counted);
        let relative = cases::relative(cases, case, of(case), of).map(|value| (value, counted));
        let measured: Vec<(Value, bool)> = case.measured.iter().cloned().chain(relative).collect();
        score::figures(case, predictions, &measured, shipped)
    };
    cases.iter().zip(predictions).flat_map(one).collect()
}

fn parameters_of(unit: &str, drive: &Drive) -> Parameters {
    let of = |kind| drive.sources.iter().filter(move |(_, source)| source.kind == kind);
    Parameters {
        unit: unit.to_owned(),
        drive: drive.spec.name.clone(),
        published: of(SourceKind::Published).count(),
        fitted: of(SourceKind::Fitted)
            .map(|(field, source)| format!("{field}: {}", source.text))
            .collect(),
        assumed: of(SourceKind::Assumed).count(),
    }
}

/// Comparisons whose errors are embedded, with their headings.
const LEFT_OUT: [(&str, &str); 3] = [
    ("nothing", "shipped drive"),
    ("experiment", "experiment left out"),
    ("unit", "data sheet alone"),
];

fn percent((part, all): (usize, usize)) -> String {
    format!("{:.0} %", 100.0 * part as f64 / all.max(1) as f64)
}

fn out_of((part, all): (usize, usize)) -> String {
    format!("{part} of {all}")
}

/// Every figure, measured and predicted.
fn figures_table(document: &Document<'_>) -> Table {
    let mut table = Table::new(
        "",
        &[
            "unit",
            "experiment",
            "pattern",
            "figure",
            "measured",
            "predicted",
            "interval",
            "off",
            "result",
        ],
    );
    for one in document.figures {
        let digits = if one.measured < 6.0 { 2 } else { 0 };
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
    table
}

/// Hits for each figure.
fn hits_table(document: &Document<'_>) -> Table {
    let mut hits = Table::new(
        "",
        &[
            "figure",
            "fitted",
            "predicted",
            "median off",
            "in interval",
            "interval of a further unit",
        ],
    );
    for one in document.hits {
        let off = format!("{:.1} %", one.median_off_percent);
        let (fitted, predicted) = (out_of(one.fitted), out_of(one.predicted));
        let (held, share) = (out_of(one.covered), percent(one.covered));
        hits.row([
            one.figure.to_owned(),
            fitted,
            predicted,
            off,
            format!("{held} ({share})"),
            format!("{:.2} to {:.2} times", one.interval_factors.0, one.interval_factors.1),
        ]);
    }
    hits
}

/// Figures within the intervals that other units, experiments or sheets give.
fn coverage_table() -> Table {
    let mut held = Table::new(
        "",
        &["in the interval of the other units", LEFT_OUT[0].1, LEFT_OUT[1].1, LEFT_OUT[2].1],
    );
    let columns = LEFT_OUT.map(|(left_out, _)| errors::coverage(left_out));
    for figure in columns[0].keys() {
        let of = |column: &BTreeMap<String, (usize, usize)>| {
            column
                .get(figure)
                .map_or("-".to_owned(), |count| format!("{} ({})", out_of(*count), percent(*count)))
        };
        held.row([figure.clone(), of(&columns[0]), of(&columns[1]), of(&columns[2])]);
    }
    held
}

fn text(document: &Document<'_>) -> String {
    let mut used = Table::new("", &["unit", "drive", "published", "assumed", "fitted"]);
    let mut fitted = String::new();
    for one in document.parameters {
        for text in &one.fitted {
            fitted += &prose(&format!("Fitted of {}: {text}", one.unit));
        }
        used.row([
            one.unit.clone(),
            one.drive.clone(),
            one.published.to_string(),
            one.assumed.to_string(),
            one.fitted.len().to_string(),
        ]);
    }
    let left = document.not_compared.iter().map(|(unit, experiment, pattern, reason)| {
        prose(&format!("Not compared: {unit} {experiment} {pattern}: {reason}."))
    });
    let hash = format!(
        "SHA-256 of the predictions before the comparison: {}\n",
        document.predictions_sha256
    );
    [
        on_screen(&figures_table(document)),
        "\n".to_owned(),
        on_screen(&hits_table(document)),
        "\n".to_owned(),
        on_screen(&coverage_table()),
        "\n".to_owned(),
        on_screen(&used),
        fitted,
        "\n".to_owned(),
        hash,
    ]
    .into_iter()
    .chain(left)
    .collect()
}
