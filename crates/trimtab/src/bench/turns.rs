//! Measures two targets alternately, and compares them in one line.
//!
//! Alternating exposes both to slow changes (heat, a drive that fills up, other
//! programs). The order is reversed each time (A B, B A, A B), so that neither always
//! comes second.

use crate::cmd::options::SecondTargetArgs;
use crate::store::RunId;
use crate::store::shape::comparison::{self, VERSION};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::process::ExitCode;
use trimtab_linux::output::{Context, RunCollection};
use trimtab_sim::analysis::compare::runs::{
    BaselineComparison, ComparisonRow, Side, against, warnings,
};
use trimtab_sim::analysis::compare::{
    ComparisonOptions, ComparisonVerdict, MetricComparison, percent_off,
};
use trimtab_sim::run::shown::{self, headline};
use trimtab_sim::run::{Run, Severity};

/// Runs the benchmark `once`, or alternately on two targets; `target` is the field of the
/// request that names the target.
///
/// # Errors
/// A target cannot be used, or a run failed or was interrupted.
pub fn run<R>(
    against: &SecondTargetArgs,
    mut request: R,
    target: fn(&mut R) -> &mut String,
    once: fn(&R, &Context) -> anyhow::Result<ExitCode>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    crate::store::check(context)?;
    // Installed even without files to remove: an interrupt reports the results so far.
    trimtab_linux::sys::interrupt::install().context("cannot catch signals")?;
    let Some(other) = &against.against else { return once(&request, context) };
    let turns = against.turns.unwrap_or(3);
    let targets = [target(&mut request).clone(), other.clone()];
    // Checked before any work.
    targets.iter().try_for_each(|target| TargetSpec::resolve(target).map(drop))?;
    let collected = RunCollection::default();
    let silent = Context { collected: Some(collected.clone()), ..context.clone() };
    let mut sides: [Vec<(RunId, Run)>; 2] = Default::default();
    for turn in 0..turns {
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            context.remark(&format!(
                "turn {} of {turns}: {}, {}",
                turn + 1,
                ["A", "B"][side],
                targets[side]
            ));
            target(&mut request).clone_from(&targets[side]);
            once(&request, &silent)?;
            sides[side].extend(collected.take().into_iter().map(|run| (RunId::of(&run), run)));
        }
    }
    let [a, b] = sides;
    conclude(context, a, b)
}

fn conclude(
    context: &Context,
    a: Vec<(RunId, Run)>,
    b: Vec<(RunId, Run)>,
) -> anyhow::Result<ExitCode> {
    let joined =
        |runs: &[(RunId, Run)]| runs.iter().map(|(id, _)| id.short()).collect::<Vec<_>>().join("+");
    let command = format!("trimtab results compare {} {}", joined(&a), joined(&b));
    let labelled = [("A".to_owned(), a), ("B".to_owned(), b)];
    let runs: Vec<Vec<Run>> = labelled
        .iter()
        .map(|(_, runs)| runs.iter().map(|(_, run)| run.clone()).collect())
        .collect();
    let sides: Vec<Side<'_>> =
        labelled.iter().zip(&runs).map(|((label, _), runs)| Side { label, runs }).collect();
    let options = ComparisonOptions::default();
    let compared = against(sides[0], sides[1], &options);
    let warnings = warnings(&sides);
    let line =
        summary(&sides, &compared, options.confidence).context("the two runs share no figure")?;
    let shape = comparison::document(
        &labelled,
        options.confidence,
        std::slice::from_ref(&compared),
        &warnings,
    );
    context.report("comparison", VERSION, &shape, || trimtab_linux::output::lines::prose(&line))?;
    // One warning of each kind: the runs' own reports were not shown.
    let mut seen = std::collections::BTreeSet::new();
    for warning in runs
        .iter()
        .flatten()
        .flat_map(|run| &run.warnings)
        .filter(|w| w.severity >= Severity::Caution)
    {
        if seen.insert(&warning.code) {
            context.remark(&format!("{}: {}", warning.severity.name(), warning.text));
        }
    }
    context.remark(&format!("all figures: {command}"));
    Ok(ExitCode::SUCCESS)
}

/// One line about the headline figure.
fn summary(sides: &[Side<'_>], compared: &BaselineComparison, confidence: f64) -> Option<String> {
    let first = sides.first()?.runs.first()?;
    let name = headline(first.metrics.clone())?.name;
    let row = compared.figures.iter().find(|row| row.name == name)?;
    let target = |side: usize| Some(sides.get(side)?.runs.first()?.target_label.clone());
    let verdict = in_words(row);
    let c = &row.comparison;
    let figures =
        format!("{} against {}", shown::quantity(c.b, row.unit), shown::quantity(c.a, row.unit));
    let turns = sides.first()?.runs.len();
    let each = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let (a, b) = (target(0)?, target(1)?);
    Some(format!(
        "{}, {name}: B ({b}) {verdict} A ({a}): {figures} ({}; {each})",
        first.workload,
        interval(c, confidence)
    ))
}

/// The relation of B to A, in words.
fn in_words(row: &ComparisonRow) -> String {
    let word = row.comparison.verdict.words(row.unit);
    match (row.comparison.verdict, row.comparison.ratio) {
        (ComparisonVerdict::Better | ComparisonVerdict::Worse, Some(ratio)) => {
            format!("is {} times {word} than", shown::ratio(ratio.max(1.0 / ratio)))
        }
        (ComparisonVerdict::Same, _) => "is exactly the same as".to_owned(),
        (ComparisonVerdict::Negligible, Some(ratio)) => {
            format!("differs by a negligible {} from", percent_off(ratio))
        }
        (ComparisonVerdict::NoDifference, _) => "shows no measurable difference from".to_owned(),
        (ComparisonVerdict::Different, Some(ratio)) => format!("is {} times", shown::ratio(ratio)),
        _ => "cannot be distinguished from".to_owned(),
    }
}

fn interval(c: &MetricComparison, confidence: f64) -> String {
    match (c.ratio, c.interval) {
        (_, Some(i)) if i.low == i.high => "exact".to_owned(),
        (Some(ratio), Some(i)) => {
            let shown = shown::ratio;
            format!(
                "B / A {}, {:.0} % interval {} to {}",
                shown(ratio),
                confidence * 100.0,
                shown(i.low),
                shown(i.high)
            )
        }
        (Some(ratio), None) => {
            format!("B / A {}, too few repeats for an interval", shown::ratio(ratio))
        }
        _ => "no ratio".to_owned(),
    }
}
