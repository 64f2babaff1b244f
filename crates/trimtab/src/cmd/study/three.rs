//! `trimtab study` without a target: three modelled drives beside each other, so that one sees where TRIM policy matters and where it does not.

use super::kept;
use super::modelled;
use super::{Args, Question, checkpoints, write_html};
use crate::output::Context;
use crate::report;
use crate::study::checkpoint::Checkpoints;
use crate::study::run;
use crate::sys::interrupt;
use crate::sys::interrupt::Interrupted;
use anyhow::Context as _;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_core::study::answer::Around;
use trimtab_core::study::asked::Asked;
use trimtab_core::study::cells::Extent;
use trimtab_core::study::judged::Judged;
use trimtab_core::study::scale::{FULL, QUICK, Scale};
use trimtab_core::study::sensitivity::Breadth;
use trimtab_core::study::{Study, overview};
use trimtab_core::usage::UsageError;

/// The SandForce drive of the articles, and two of today.
const DRIVES: [&str; 3] = ["ocz-vertex-le-100gb", "sata-tlc-500gb", "nvme-tlc-500gb"];

/// Runs all three, keeps each as a study of its own, and prints what is different.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    interrupt::install().context("cannot install signal handlers")?;
    if args.questions.contains(&Question::Tuning) {
        let hint = format!("trimtab study drive:{} --questions tuning", DRIVES[0]);
        return Err(UsageError::new("what data and tuning change is asked of one drive").hint(hint).into());
    }
    let asked = asked(args);
    let targets = DRIVES.map(|name| format!("drive:{name}"));
    let checkpoints_of_each: Vec<Box<dyn Checkpoints>> =
        targets.iter().map(|target| checkpoints(args, context, target)).collect::<anyhow::Result<_>>()?;
    let used = modelled::used(args)?;
    let each = DRIVES.iter().zip(&targets).zip(&checkpoints_of_each);
    let all = each.map(|((name, target), checkpoints)| modelled::study(args, name, target, &asked, &used, &**checkpoints));
    let studies = run::modelled(context, all.collect::<anyhow::Result<_>>()?)?;
    conclude(args, context, &studies, began)
}

/// What half a minute is enough for; or what was asked for.
fn asked(args: &Args) -> Asked {
    let (drive_writes, fills) = match (args.quick, args.full) {
        (true, _) => (1.0, vec![0.6]),
        (_, true) => (5.0, vec![0.6, 0.9]),
        _ => (2.0, vec![0.6, 0.9]),
    };
    let extent = Extent { drive_writes, aged: args.aged(), fills: args.fills(fills), ageing: args.asks(Question::Ageing), tuning: false };
    let scale = Scale { repeats: args.repeats.unwrap_or(1), ..if args.full { FULL } else { QUICK } };
    let assumptions = match (args.questions.is_empty(), args.quick, args.full) {
        (true, true, _) => None,
        (true, false, true) => Some(Breadth::All),
        (true, false, false) => Some(Breadth::Few),
        (false, ..) => args.questions.contains(&Question::Assumptions).then_some(Breadth::All),
    };
    Asked { deleting: args.asks(Question::Deleting), scale, extent, only_tree: !args.full, assumptions }
}

fn conclude(args: &Args, context: &Context, studies: &[Study], began: Instant) -> anyhow::Result<ExitCode> {
    if studies.iter().all(|study| study.is_empty() && !study.complete) {
        context.remark(super::NOTHING_FINISHED);
        return Err(Interrupted.into());
    }
    let kept: anyhow::Result<Vec<_>> = studies.iter().map(|study| kept::keep(context, study, None).map_err(Into::into)).collect();
    let ids: Vec<_> = kept.as_ref().map(|ids| ids.iter().flatten().copied().collect()).unwrap_or_default();
    let names: Vec<String> = ids.iter().map(|id: &crate::store::RunId| id.short()).collect();
    let mut around =
        Around { took: Some(began.elapsed()), report: None, kept: (!names.is_empty()).then(|| names.join(" ")), predicted: None };
    let judged = Judged::all(studies);
    let report = write_html(args, context, &overview::document(&judged, &around, report::text::height));
    around.report = report.as_ref().ok().map(|path| path.display().to_string());
    let shapes: Vec<_> = judged.iter().enumerate().map(|(at, study)| kept::shape(ids.get(at).copied(), study, &around)).collect();
    context.report_styled("study-overview", 1, &serde_json::json!({ "studies": shapes }), || match args.details {
        true => report::text::render(&overview::document(&judged, &around, report::text::height)),
        false => report::text::answer(&overview::answer(&judged, &around, report::text::height)),
    })?;
    kept.context("the result above could not be kept")?;
    let path = report?;
    if args.details || context.json {
        context.remark(&format!("report: {}", path.display()));
    }
    if studies.iter().all(|study| study.complete) {
        Ok(ExitCode::SUCCESS)
    } else {
        context.remark("Interrupted. What was finished is kept; the same command with --resume continues from there.");
        Err(Interrupted.into())
    }
}
