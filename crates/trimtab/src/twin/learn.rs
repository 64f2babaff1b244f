//! Learning a twin: probe a drive and find the modelled drives that behave the same.

mod real;
mod whole;

use super::parameters::{LEGEND, parameters};
use super::probed_area;
use crate::cmd::drive::learn::DriveLearnArgs;
use crate::drives::below::UnderlyingDrive;
use crate::drives::{self, Drive, crew, twins};
use crate::report::file::{self, OverwriteMode};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
pub use real::command;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use trimtab_drive::spec::{DriveSpec, text};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt;
use trimtab_report::layout::on_screen;
use trimtab_study::learn::candidate::Candidate;
use trimtab_study::learn::fit::{CandidateEvaluator, FitResult, ProbeFunction};
use trimtab_study::learn::learned::{LearnError, LearnMeasurements};

const TAKES: &str = "drive learn takes a directory, a device, drive:NAME or drive:FILE.toml";

/// Probes, fits, writes the twin and prints the result.
pub fn run(request: &DriveLearnArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if !request.load.from.is_empty() {
        return super::logs::run(request, context);
    }
    interrupt::install().context("cannot install signal handlers")?;
    let target = TargetSpec::resolve_as(&request.target, TAKES)?;
    if let TargetSpec::Null(_) = target {
        return Err(UsageError::new(format!(
            "{} is not a drive that can be learned",
            request.target
        ))
        .into());
    }
    if matches!(target, TargetSpec::Drive(_)) {
        probed_area::check_nothing_is_risked(
            &request.target,
            request.safety.reserve,
            &request.destroy.named(),
        )?;
    }
    probed_area::check_rest(request.rest)?;
    let of = match target {
        TargetSpec::Drive(name) => LearnSubject::Modelled(Box::new(drives::load(&name)?.spec)),
        there => LearnSubject::There(
            there,
            Box::new(UnderlyingDrive::of_path(
                &Root::live().context("cannot read /sys and /proc")?,
                Path::new(&request.target),
            )?),
        ),
    };
    let name = match &of {
        LearnSubject::Modelled(spec) => spec.name.clone(),
        LearnSubject::There(_, below) => twins::name(context, below),
    };
    let output = match &request.output {
        Some(output) => output.clone(),
        None => twins::file(context, &name)?,
    };
    file::check(&output, request.force)?;
    let mut watching = Progress::new(context, "learn", ProgressUnit::Items, 0);
    let measured = match of {
        LearnSubject::Modelled(spec) => {
            let limit = request.write_limit.map(|limit| limit.0);
            LearnMeasurements::in_virtual_time(
                &spec,
                &request.target,
                request.budget,
                limit,
                request.seed,
                &mut watching,
            )
            .map_err(wrong)?
        }
        LearnSubject::There(target, below) => {
            real::measure(request, context, *below, &target, &mut watching)?
        }
    };
    let fitted = measured.fitted(&ParallelEvaluator, &mut watching);
    drop(watching);
    interrupt::check()?;
    let fitted = fitted.ok_or_else(|| {
        UsageError::new(format!(
            "no modelled drive explains the measurements on {}",
            request.target
        ))
    })?;
    let today = chrono::Utc::now().format("%Y-%m-%d").to_string();
    let learned = measured.twin(&name, &today, &fitted);
    let place = if request.force { OverwriteMode::Replace } else { OverwriteMode::New };
    let written = file::write(&output, text::file(&learned).as_bytes(), place)?;
    say(&learned, &measured, &fitted, &written, context)
}

/// The drive to learn.
enum LearnSubject {
    /// A modelled drive.
    Modelled(Box<DriveSpec>),
    /// The user's target, and the drive below it.
    There(TargetSpec, Box<UnderlyingDrive>),
}

/// `text` without its full stop: the place that prints a note adds one.
fn sentence(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}

/// Converts the error, with its usual exit status.
fn wrong(cannot: LearnError) -> anyhow::Error {
    match cannot {
        LearnError::Asked(asked) => asked.into(),
        LearnError::Drive(drive) => UsageError::new(drive.to_string()).into(),
        LearnError::Failed(failed) => failed.into(),
    }
}

/// Evaluates candidates on all processors.
struct ParallelEvaluator;

impl CandidateEvaluator for ParallelEvaluator {
    fn all(&self, candidates: &[Candidate], show: &ProbeFunction<'_>) -> Vec<Option<Vec<f64>>> {
        crew::map(candidates, show)
    }
}

/// "1 figure", "12 figures".
fn figures(count: usize) -> String {
    format!("{count} figure{}", if count == 1 { "" } else { "s" })
}

fn say(
    learned: &Drive,
    measured: &LearnMeasurements,
    fitted: &FitResult,
    written: &Path,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let twin = learned.twin.as_ref().expect("what was learned is a twin");
    let document = json!({
        "file": written,
        "origin": twin.origin,
        "parameters": twin.parameters,
        "members": twin.members.len(),
        "members_explained": fitted.explained,
        "candidates_tried": fitted.tried,
        "candidates_left_out": fitted.rejected,
        "found": measured.observations().map(|one| json!({ "name": one.name, "probe": one.probe, "value_ns": one.value_ns })).collect::<Vec<_>>(),
    });
    context.report("twin", 1, &document, || {
        let unexplained = match twin.origin.off() {
            0..5 => String::new(),
            off => {
                format!(
                    " The best explains two of three to within {:.0} %; predictions \
                        are less certain by this amount.",
                    off as f64 / 10.0
                )
            }
        };
        let explains = twin.origin.is_explained();
        let time = if twin.origin.which.is_none() { "MODELLED, in virtual time: " } else { "" };
        let head = format!(
            "{time}{}, budget {}; {} written. {} candidates were tried, {} drives \
                explain the figures.{unexplained}",
            figures(measured.observations().count()),
            twin.origin.budget,
            Bytes(measured.written()),
            fitted.tried,
            if explains { fitted.explained } else { 0 }
        );
        let head = if explains {
            head
        } else {
            format!("{head} The following is about the nearest drives; its intervals mean little.")
        };
        let notes: String =
            twin.origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
        let path = output::plain(&written.display().to_string()).into_owned();
        let end = if explains {
            format!("Written to {path}. Use it as {}", twins::argument(context, written, learned))
        } else {
            format!(
                "Written to {path}. It explains little of the drive, so predictions on \
                it mean little"
            )
        };
        [prose(&head), on_screen(&parameters(&twin.parameters)), prose(LEGEND), notes, prose(&end)]
            .concat()
    })?;
    Ok(ExitCode::SUCCESS)
}
