//! `trimtab results compare`.

use crate::cmd::options::percent;
use crate::store::shape::comparison::{self, VERSION};
use crate::store::{Reference, RunId, Store};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{NOT_PROVED, WORSE};
use trimtab_sim::analysis::compare::runs::{ComparisonRow, Side, against, unlike, warnings};
use trimtab_sim::analysis::compare::{ComparisonOptions, ComparisonVerdict};
use trimtab_sim::run::{Better, Run};

/// Compare stored runs with the first of them: ratio, interval and verdict for every
/// shared figure.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only runs of the same workload are compared.

Measured runs need two repeats a side for a verdict; more repeats detect smaller differences. The
repeats are in one run, as with bench tree --tries 3, or in several runs joined by +. The figures
differ if the interval of their ratio excludes 1. If it lies between 0.909 and 1.1 there is no
measurable difference. Otherwise the verdict is 'cannot tell'. A difference that is certainly below
1 % is said not to matter.

Modelled runs of one seed are deterministic, so one run a side is compared exactly; a difference
below 1 % is said not to matter. docs/method/statistics.md defines the interval.

For continuous integration: with --fail-above 5% the status is 5 if a figure is worse by more than 5
% and the verdict confirms it, and 4 if it looks so but the verdict is 'cannot tell'. --metric
selects the figures that count.

Examples:
  trimtab results compare last~1 last
  trimtab results compare 0c4e5df9 bd7f9406 41aa0d17
  trimtab results compare 0c4e5df9 last --fail-above 5% --metric delete+sync.seconds
  trimtab results compare last~5+last~4+last~3 last~2+last~1+last")]
pub struct ResultsCompareArgs {
    /// The baseline and the runs to compare with it: first digits of an id, last, last~1
    /// …; several joined by +.
    #[arg(value_name = "RUN", required = true, num_args = 2.., value_parser = side)]
    sides: Vec<References>,
    /// Exit with status 5 if a figure is worse than the baseline by more than this, in
    /// per cent.
    #[arg(long, value_name = "PERCENT", value_parser = allowance)]
    fail_above: Option<f64>,
    /// Apply --fail-above only to this figure; may be given several times [default: all
    /// figures with a direction of improvement].
    #[arg(long = "metric", value_name = "NAME", requires = "fail_above")]
    metrics: Vec<String>,
}

/// Runs whose repeats are pooled.
#[derive(Debug, Clone)]
struct References(Vec<Reference>);

fn side(text: &str) -> Result<References, std::convert::Infallible> {
    text.split('+').map(str::parse).collect::<Result<_, _>>().map(References)
}

fn allowance(text: &str) -> Result<f64, String> {
    percent(text, 0.0..=1e6, "a share of 0 or more per cent, such as 5%")
}

/// Runs the command.
pub fn run(args: &ResultsCompareArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let options = ComparisonOptions::default();
    for reference in args.sides.iter().flat_map(|References(side)| side) {
        if super::study(&store, reference)?.is_some() {
            return Err(UsageError::new("runs are compared, not studies")
                .hint("their runs are in 'trimtab results list --study study:last'")
                .into());
        }
    }
    let loaded = load(&store, &args.sides)?;
    let runs: Vec<Vec<Run>> =
        loaded.iter().map(|(_, runs)| runs.iter().map(|(_, run)| run.clone()).collect()).collect();
    let sides: Vec<Side<'_>> =
        loaded.iter().zip(&runs).map(|((label, _), runs)| Side { label, runs }).collect();
    check_workloads(&sides)?;
    let others: Vec<_> =
        sides.iter().skip(1).map(|side| against(sides[0], *side, &options)).collect();
    let warnings = warnings(&sides);
    let shape = comparison::document(&loaded, options.confidence, &others, &warnings);
    context.report_styled("comparison", VERSION, &shape, || {
        let ids: Vec<String> = loaded.iter().map(|(_, runs)| joined(runs)).collect();
        trimtab_report::text::render(&trimtab_report::compare::document(
            &sides, &ids, &others, &warnings,
        ))
    })?;
    let rows = sides.iter().skip(1).zip(&others);
    let named = rows.flat_map(|(side, against)| {
        against.figures.iter().map(move |row| (format!("{}: {}", side.label, row.name), row))
    });
    gate(args, named, context)
}

/// Rejects sides of different workloads.
pub fn check_workloads(sides: &[Side<'_>]) -> Result<(), UsageError> {
    unlike(sides).map_or(Ok(()), |workloads| {
        Err(UsageError::new(format!("different workloads cannot be compared: {workloads}"))
            .hint("choose runs of one workload from 'trimtab results list'"))
    })
}

/// Exit status by `--fail-above`: a measured excess fails, an inconclusive one is not
/// proved.
fn gate<'a>(
    args: &ResultsCompareArgs,
    rows: impl Iterator<Item = (String, &'a ComparisonRow)>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let Some(allowed) = args.fail_above else { return Ok(ExitCode::SUCCESS) };
    let rows: Vec<_> = rows
        .filter(|(_, row)| args.metrics.is_empty() || args.metrics.contains(&row.name))
        .collect();
    let missing: Vec<&str> = args
        .metrics
        .iter()
        .filter(|name| !rows.iter().any(|(_, row)| row.name == **name))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        return Err(UsageError::missing(format!("they do not share {}", missing.join(", ")))
            .hint("compare without --metric shows what they share")
            .into());
    }
    let mut worst = ExitCode::SUCCESS;
    let mut fails = false;
    for (name, row) in &rows {
        let Some(percent) = worse_by(row).filter(|percent| *percent > allowed) else { continue };
        // A negligible difference still exceeds a stricter limit.
        let measured = matches!(
            row.comparison.verdict,
            ComparisonVerdict::Worse | ComparisonVerdict::Negligible
        );
        let what = if measured {
            "worse"
        } else if row.comparison.verdict == ComparisonVerdict::CannotTell {
            "perhaps worse"
        } else {
            continue;
        };
        context.remark(&format!("{name} is {what} by {percent:.1} %, and {allowed} % are allowed"));
        fails |= measured;
        worst = ExitCode::from(if fails { WORSE } else { NOT_PROVED });
    }
    Ok(worst)
}

/// The deficit to the baseline, in per cent; `None` for a figure without a direction of
/// improvement or without a ratio.
fn worse_by(row: &ComparisonRow) -> Option<f64> {
    let ratio = row.comparison.ratio?;
    match row.better {
        Better::Lower => Some((ratio - 1.0) * 100.0),
        Better::Higher => Some((1.0 - ratio) * 100.0),
        Better::Neither => None,
    }
}

fn joined(runs: &[(RunId, Run)]) -> String {
    runs.iter().map(|(id, _)| id.short()).collect::<Vec<_>>().join("+")
}

type LabelledRuns = (String, Vec<(RunId, Run)>);

/// Loads the sides with their labels.
fn load(store: &Store, sides: &[References]) -> anyhow::Result<Vec<LabelledRuns>> {
    sides
        .iter()
        .enumerate()
        .map(|(i, references)| Ok((label(i), super::load(store, &references.0)?)))
        .collect()
}

/// The label of a side: A, B … Z, then numbers.
pub fn label(side: usize) -> String {
    u8::try_from(side)
        .ok()
        .filter(|i| *i < 26)
        .map_or_else(|| (side + 1).to_string(), |i| char::from(b'A' + i).to_string())
}
