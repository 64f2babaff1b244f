//! `trimtab study` without a target: compares three modelled drives, to show where the
//! trim policy matters and where it does not.

use super::modelled;
use super::{QuestionArg, StudyArgs, checkpoints, conclude};
use crate::study::checkpoint::Checkpoints;
use crate::study::run;
use anyhow::Context as _;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt;
use trimtab_study::study::cells::StudyExtent;
use trimtab_study::study::request::{STAND_IN, StudyRequest};
use trimtab_study::study::scale::{FULL, QUICK, Scale};
use trimtab_study::study::trials::Breadth;

/// The SandForce drive of the articles, and two current drives.
const DRIVES: [&str; 3] = ["ocz-vertex-le-100gb", "sata-tlc-500gb", "nvme-tlc-500gb"];

/// Studies all three drives, keeps the runs as one study, and prints the comparison.
pub fn run(args: &StudyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    interrupt::install().context("cannot install signal handlers")?;
    let asked = asked(args);
    let targets = DRIVES.map(|name| format!("drive:{name}"));
    let checkpoints_of_each: Vec<Checkpoints> = targets
        .iter()
        .map(|target| checkpoints(args, context, target))
        .collect::<anyhow::Result<_>>()?;
    let used = modelled::used(args)?;
    let each = DRIVES.iter().zip(&targets).zip(&checkpoints_of_each);
    let all = each.map(|((name, target), checkpoints)| {
        modelled::study(args, name, target, &asked, &used, checkpoints)
    });
    let studies = run::modelled(context, all.collect::<anyhow::Result<_>>()?)?;
    conclude(args, context, &studies, began)
}

/// The requested study, scaled to about half a minute by default.
fn asked(args: &StudyArgs) -> StudyRequest {
    let (drive_writes, fills) = match (args.quick, args.full) {
        (true, _) => (1.0, vec![0.6]),
        (_, true) => (5.0, vec![0.6, 0.9]),
        _ => (2.0, vec![0.6, 0.9]),
    };
    let extent = StudyExtent {
        drive_writes,
        aged: args.aged(),
        fills: args.fills(fills),
        ageing: args.asks(QuestionArg::Ageing),
    };
    let scale =
        Scale { repeats: args.repeats.unwrap_or(1), ..if args.full { FULL } else { QUICK } };
    let assumptions = match (args.questions.is_empty(), args.quick, args.full) {
        (true, true, _) => None,
        (true, false, true) => Some(Breadth::All),
        (true, false, false) => Some(Breadth::Few),
        (false, ..) => args.questions.contains(&QuestionArg::Assumptions).then_some(Breadth::All),
    };
    let stand_in = (!args.full).then_some(STAND_IN);
    StudyRequest {
        deleting: args.asks(QuestionArg::Deleting),
        scale,
        stand_in,
        extent,
        only_tree: !args.full,
        assumptions,
    }
}
