//! Learning a twin from logs: no drive is opened, and nothing is written but the twin.

mod import;
mod trace;

use super::parameters::parameters;
use crate::cmd::drive::learn::DriveLearnArgs;
use crate::drives::{self, crew, twins};
use crate::report::file::{self, OverwriteMode};
use anyhow::Context as _;
use import::Log;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use trace::TracedLoad;
use trimtab_drive::spec::text;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt;
use trimtab_report::layout::on_screen;
use trimtab_sim::trace::TraceReadOptions;
use trimtab_study::document::Table;
use trimtab_study::learn::learned::identifier;
use trimtab_study::learn::logs::fit::{LogFit, Statement, fit};
use trimtab_study::learn::logs::repeat::{Run, UNIT};
use trimtab_study::learn::logs::series::LogSeries;

const LEGEND: &str = "The estimate is the best drive's. Measured: the log shows it. Bounded: the log leaves a range. \
    Typical: the log does not show it; the interval is that of the class.";
/// Reads above this share of the bytes make a log unlike the model's run of writes.
const READS_MAX: f64 = 0.02;
/// More writes than this many times the drive are not of one drive.
const DRIVE_WRITES_MAX: f64 = 1e5;
/// No drive is faster, in MB/s.
const RATE_MAX: f64 = 1e6;
/// Depths further apart than this factor contradict each other.
const DEPTH_FACTOR: f64 = 1.5;

/// Reads the logs, fits, writes the twin and prints the result.
///
/// # Errors
/// If a log cannot be used, or no drive can be fitted.
pub fn run(request: &DriveLearnArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let start = request.target.strip_prefix("drive:").ok_or_else(|| {
        UsageError::new("--from needs a drive file of the data sheet, not a drive").hint(
            "make one with 'trimtab drive from-datasheet', and write drive:./FILE.toml for TARGET",
        )
    })?;
    let start = drives::load(start)?;
    let mut log = import::read(&request.load.from)?;
    let mut series = LogSeries::of_rows(&log.rows);
    series.is_of_unknown_unit = log.is_of_unknown_unit;
    let name = identifier(&start.spec.name);
    let output = match &request.output {
        Some(output) => output.clone(),
        None => twins::file(context, &name)?,
    };
    file::check(&output, request.force)?;
    let traced = traced(request, start.spec.capacity_bytes)?;
    let statement = statement(request, traced.as_ref(), &series, start.spec.capacity_bytes)?;
    if let Some(traced) = traced {
        log.notes.extend(traced.notes);
        log.read_share = log.read_share.max(traced.read_share);
    }
    series.notes.splice(0..0, log.notes.clone());
    series.notes.extend(contradictions(&log, &series, &statement));
    let mut watching = Progress::new(context, "learn", ProgressUnit::Items, 0);
    let today = chrono::Utc::now().format("%Y-%m-%d").to_string();
    let found = fit(
        &start,
        &series,
        &statement,
        (&today, request.seed),
        &|specs, show| crew::map(specs, show),
        &mut watching,
    );
    drop(watching);
    interrupt::check()?;
    let found = found.map_err(UsageError::new)?.ok_or_else(|| {
        UsageError::new(format!("the model cannot repeat the run on {}", request.target))
    })?;
    let place = if request.force { OverwriteMode::Replace } else { OverwriteMode::New };
    let written = file::write(&output, text::file(&found.drive).as_bytes(), place)?;
    say(&found, &series, &written, context)
}

/// The load of the trace, if one is given.
fn traced(request: &DriveLearnArgs, capacity: u64) -> anyhow::Result<Option<TracedLoad>> {
    let (load, reading) = (&request.load, request.load.reading.reading());
    if load.trace.is_none() && reading != TraceReadOptions::default() {
        return Err(UsageError::new("--format, --volume and --events are for --trace").into());
    }
    let used = Bytes((capacity as f64 * load.used) as u64);
    load.trace.as_ref().map(|path| trace::read(path, &reading, used)).transpose()
}

/// The statement of the load, checked against the log.
fn statement(
    request: &DriveLearnArgs,
    traced: Option<&TracedLoad>,
    series: &LogSeries,
    capacity: u64,
) -> Result<Statement, UsageError> {
    let load = &request.load;
    let pattern = traced.map(|traced| &traced.pattern).or(load.pattern.as_ref());
    let (Some(pattern), Some(start)) = (pattern.cloned(), load.state) else {
        return Err(UsageError::new("--from needs --state, and --pattern or --trace"));
    };
    let size = load.request.or(traced.map(|traced| traced.request)).unwrap_or(Bytes(UNIT));
    let units = size.0 / UNIT;
    if units == 0 || !size.0.is_multiple_of(UNIT) || units > 4096 {
        return Err(UsageError::new(format!("--request {size}: not a multiple of 4 KiB"))
            .hint("the model writes 4 KiB to 16 MiB at a time"));
    }
    if series.bytes() < capacity as f64 * load.used * 0.02 {
        return Err(UsageError::new(format!(
            "the log covers {} of writes, less than 2 % of the used {}",
            Bytes(series.bytes() as u64),
            Bytes((capacity as f64 * load.used) as u64)
        ))
        .hint("give a longer log, or a smaller --used"));
    }
    let drive_writes = series.bytes() / (capacity as f64 * load.used);
    if drive_writes > DRIVE_WRITES_MAX {
        return Err(UsageError::new(format!(
            "the log covers {drive_writes:.1e} times the used {}",
            Bytes((capacity as f64 * load.used) as u64)
        ))
        .hint("check the unit of its column of host writes"));
    }
    let fastest = series.written.windows(2).find_map(|pair| {
        let rate = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0).max(1e-9) / 1e6;
        (rate > RATE_MAX).then_some((rate, pair[1].0))
    });
    if let Some((rate, time_s)) = fastest {
        let problem =
            format!("{time_s:.0} s into the log it writes {rate:.1e} MB/s, which no drive can");
        return Err(UsageError::new(problem).hint("check the unit of its times"));
    }
    let run = Run {
        pattern,
        scattered: true,
        start,
        used: load.used,
        drive_writes: 0.0,
        depth: load.depth as usize,
        request_units: units as u32,
    };
    Ok(Statement { run, offered: load.offered.map(|rate| rate * size.as_f64()) })
}

/// Contradictions between the log and the statement.
fn contradictions(log: &Log, series: &LogSeries, statement: &Statement) -> Vec<String> {
    let mut notes = Vec::new();
    if log.read_share > READS_MAX {
        notes.push(format!(
            "{:.0} % of the bytes are reads, which the repeated run does not have; rates of writes \
             among reads are lower than the model assumes",
            100.0 * log.read_share
        ));
    }
    let total = series.bytes();
    let writes_s = series.rate_mbs(total * 0.8, total) * 1e6
        / (u64::from(statement.run.request_units) * UNIT) as f64;
    let stated = statement.run.depth as f64;
    match log.write_latency_us.map(|us| us * writes_s / 1e6) {
        Some(depth)
            if statement.offered.is_none()
                && !(1.0 / DEPTH_FACTOR..DEPTH_FACTOR).contains(&(depth / stated)) =>
        {
            notes.push(format!(
                "write latency times rate means {depth:.0} writes in flight, but --depth is \
                 {stated}: one of them, or --request, is wrong"
            ));
        }
        _ => {}
    }
    notes
}

fn say(
    found: &LogFit,
    series: &LogSeries,
    written: &Path,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let twin = found.drive.twin.as_ref().context("the result is no twin")?;
    let figures: Vec<_> = found
        .figures
        .iter()
        .map(|one| json!({ "name": one.kind.name(), "log": one.measured, "twin": one.twin }))
        .collect();
    let document = json!({
        "file": written,
        "origin": twin.origin,
        "parameters": twin.parameters,
        "members": twin.members.len(),
        "candidates_tried": found.tried,
        "figures": figures,
    });
    context.report("twin-from-log", 1, &document, || {
        let mut table = Table::new("", &["figure", "log", "twin", "off"]);
        for one in &found.figures {
            let digits = if one.measured < 10.0 { 2 } else { 0 };
            table.row([
                one.kind.name().to_owned(),
                format!("{:.digits$}", one.measured),
                format!("{:.digits$}", one.twin),
                match one.twin / one.measured {
                    ratio @ ..10.0 => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
                    _ => "over 10 times".to_owned(),
                },
            ]);
        }
        let head = format!(
            "{} of writes in the log; {}.",
            Bytes(series.bytes() as u64),
            if twin.origin.is_explained() {
                format!("{} of {} drives tried explain it", twin.members.len(), found.tried)
            } else {
                format!("no candidate fits; best {} of {} kept", twin.members.len(), found.tried)
            }
        );
        let notes: String =
            twin.origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
        let path = output::plain(&written.display().to_string()).into_owned();
        let end = if twin.origin.is_explained() {
            format!(
                "Written to {path}. Use it as {}",
                twins::argument(context, written, &found.drive)
            )
        } else {
            format!(
                "Written to {path}. It does not explain the log, so predictions on it mean little"
            )
        };
        [
            prose(&head),
            on_screen(&table),
            "\n".to_owned(),
            on_screen(&parameters(&twin.parameters)),
            prose(LEGEND),
            notes,
            prose(&end),
        ]
        .concat()
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
