//! `trimtab results compare`.

use crate::error::UsageError;
use crate::output::Context;
use crate::report;
use crate::shape::comparison::{ComparisonV1, VERSION};
use crate::store::{Reference, RunId, Store};
use crate::study::Study;
use std::process::ExitCode;
use trimtab_core::analysis::compare::runs::{Side, against, warnings};
use trimtab_core::analysis::compare::{Options, Statistic};
use trimtab_core::run::Run;

/// Compare stored runs with the first of them: ratio, interval and verdict for every figure they share.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The verdict on measured runs needs three repeats a side (five with --median). They can be in one run, as with bench tree --tries 3, or in several runs joined by +. If the interval lies on one side of 1 there is a difference. If all of it lies between 0.909 and 1.1 there is no measurable difference: one of more than 10 % is excluded. Anything else is 'cannot tell'.

Modelled runs of one seed are deterministic and are compared exactly, one run a side: any difference is one. docs/method.md says how the interval is made.

Examples:
  trimtab results compare last~1 last
  trimtab results compare 0c4e5df9 bd7f9406 41aa0d17
  trimtab results compare study:last~1 study:last             each run with its like
  trimtab results compare last~5+last~4+last~3 last~2+last~1+last")]
pub struct Args {
    /// The baseline and what to compare with it: first digits of an id, last, last~1 …, several joined by +.
    #[arg(value_name = "RUN", required = true, num_args = 2.., value_parser = side)]
    sides: Vec<References>,
    /// Compare medians instead of means.
    #[arg(long)]
    median: bool,
    /// How sure the intervals are to be, in per cent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = percent)]
    confidence: f64,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs whose repeats are taken together.
#[derive(Debug, Clone)]
struct References(Vec<Reference>);

fn side(text: &str) -> Result<References, std::convert::Infallible> {
    text.split('+').map(super::reference).collect::<Result<_, _>>().map(References)
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (50.0..100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a share of 50 to below 100 per cent".to_owned()),
    }
}

/// Compares.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let store = super::open(context)?;
    let options = Options {
        statistic: if args.median { Statistic::Median } else { Statistic::Mean },
        confidence: args.confidence / 100.0,
        seed: args.seed,
        ..Options::default()
    };
    if let Some(studies) = studies(&store, &args.sides)? {
        return super::studies::compare(&studies, &options, context);
    }
    let loaded = load(&store, &args.sides)?;
    let runs: Vec<Vec<Run>> = loaded.iter().map(|(_, runs)| runs.iter().map(|(_, run)| run.clone()).collect()).collect();
    let sides: Vec<Side<'_>> = loaded.iter().zip(&runs).map(|((label, _), runs)| Side { label, runs }).collect();
    let others: Vec<_> = sides.iter().skip(1).map(|side| against(sides[0], *side, &options)).collect();
    let warnings = warnings(&sides);
    let shape = ComparisonV1::new(&loaded, options.confidence, &others, &warnings);
    context.report_styled("comparison", VERSION, &shape, || {
        let ids: Vec<String> = loaded.iter().map(|(_, runs)| joined(runs)).collect();
        report::text::render(&report::compare::document(&sides, &ids, options.confidence, &others, &warnings))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The studies, if each side is one. Repeats of a study's unlike runs mean nothing together.
fn studies(store: &Store, sides: &[References]) -> anyhow::Result<Option<Vec<(RunId, Study)>>> {
    let mut studies = Vec::new();
    for References(side) in sides {
        for reference in side {
            studies.extend(super::study(store, reference)?);
        }
    }
    if !studies.is_empty() && (studies.len() < sides.len() || sides.iter().any(|side| side.0.len() > 1)) {
        return Err(UsageError::new("a study can be compared with another study only")
            .hint("its runs are in 'trimtab results list --study'")
            .into());
    }
    Ok(Some(studies).filter(|studies| !studies.is_empty()))
}

fn joined(runs: &[(RunId, Run)]) -> String {
    runs.iter().map(|(id, _)| id.short()).collect::<Vec<_>>().join("+")
}

type Labelled = (String, Vec<(RunId, Run)>);

/// The sides with their labels: A, B … Z, then numbers.
fn load(store: &Store, sides: &[References]) -> anyhow::Result<Vec<Labelled>> {
    let label =
        |i: usize| u8::try_from(i).ok().filter(|i| *i < 26).map_or_else(|| (i + 1).to_string(), |i| char::from(b'A' + i).to_string());
    sides.iter().enumerate().map(|(i, references)| Ok((label(i), super::load(store, &references.0)?))).collect()
}
