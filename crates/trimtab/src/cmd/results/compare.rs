//! `trimtab results compare`.

use crate::store::shape::comparison::{self, VERSION};
use crate::store::{Reference, RunId, Store};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::{Side, against, unlike, warnings};
use trimtab_sim::run::Run;

/// Compare stored runs with the first of them: ratio, interval and verdict for every
/// shared figure.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only runs of the same workload are compared.

Measured runs need two repeats a side for a verdict; more repeats detect smaller differences. The \
repeats are in one run, as with bench tree --tries 3, or in several runs joined by +. The figures \
differ if the interval of their ratio excludes 1. If it lies between 0.909 and 1.1 there is no \
measurable difference. Otherwise the verdict is 'cannot tell'. A difference that is certainly below \
1 % is said not to matter.

Modelled runs of one seed are deterministic, so one run a side is compared exactly; a difference \
below 1 % is said not to matter. docs/method/statistics.md defines the interval.

Examples:
  trimtab results compare last~1 last
  trimtab results compare 0c4e5df9 bd7f9406 41aa0d17
  trimtab results compare last~5+last~4+last~3 last~2+last~1+last")]
pub struct ResultsCompareArgs {
    /// The baseline and the runs to compare with it: first digits of an id, last, last~1
    /// …; several joined by +.
    #[arg(value_name = "RUN", required = true, num_args = 2.., value_parser = side)]
    sides: Vec<References>,
}

/// Runs whose repeats are pooled.
#[derive(Debug, Clone)]
struct References(Vec<Reference>);

fn side(text: &str) -> Result<References, std::convert::Infallible> {
    text.split('+').map(str::parse).collect::<Result<_, _>>().map(References)
}

/// Runs the command.
pub fn run(args: &ResultsCompareArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let options = ComparisonOptions::default();
    let references = || args.sides.iter().flat_map(|References(side)| side);
    // An unknown run first: the others may be right.
    for reference in references() {
        store.find_all(reference)?;
    }
    for reference in references() {
        if super::study(&store, reference)?.is_some() {
            return Err(UsageError::new("runs are compared, not studies")
                .hint(format!("their runs are in 'trimtab results list --study {reference}'"))
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
    Ok(ExitCode::SUCCESS)
}

/// Rejects sides of different workloads.
pub fn check_workloads(sides: &[Side<'_>]) -> Result<(), UsageError> {
    unlike(sides).map_or(Ok(()), |workloads| {
        Err(UsageError::new(format!("different workloads cannot be compared: {workloads}"))
            .hint("choose runs of one workload from 'trimtab results list'"))
    })
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
