//! `trimtab doctor PATH --fix` and `trimtab doctor --undo`.

use super::{DoctorArgs, exit_code, no_character_device};
use crate::mend::{self, guided};
use crate::report::mended;
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::BLOCKED;
use trimtab_linux::output::lines::prose;
use trimtab_linux::session::safety::consent;
use trimtab_linux::sys::interrupt;

/// Applies fixes, proves and prints the result, and exits with the final verdict.
pub fn fix(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let [path] = args.paths.as_slice() else {
        return Err(UsageError::new("--fix mends one path at a time")
            .hint("give one mount point, directory or device")
            .into());
    };
    ensure!(
        rustix::process::geteuid().is_root(),
        "--fix needs root: run with sudo; without it, trimtab doctor {} shows the steps",
        path.display()
    );
    no_character_device(path)?;
    if !args.dry_run && !consent::can_be_given(context) {
        return Err(UsageError::new(
            "--fix asks before each step, and there is no terminal to ask on",
        )
        .hint("say --yes, or --dry-run")
        .into());
    }
    interrupt::install().context("cannot catch signals")?;
    interrupt::must_finish();
    let report = guided::run(path, args.dry_run, args.reserve, context)?;
    let code = if report.is_disproved() {
        ExitCode::from(BLOCKED)
    } else {
        exit_code(std::slice::from_ref(&report.diagnosis))
    };
    context.report("doctor-fix", 1, &report, || mended::text(&report))?;
    Ok(code)
}

/// Undoes the last run of fixes.
pub fn undo(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    ensure!(rustix::process::geteuid().is_root(), "--undo needs root: run with sudo");
    interrupt::install().context("cannot catch signals")?;
    interrupt::must_finish();
    let mend::MendUndo { subject, lines } =
        mend::take_back(args.dry_run, &|said| context.remark(said))?;
    context.report(
        "doctor-undo",
        1,
        &json!({ "subject": subject, "dry_run": args.dry_run, "steps": lines }),
        || {
            let mut text = prose(&format!("{subject}:"));
            lines.iter().for_each(|line| text += &prose(line));
            if args.dry_run {
                text += &prose("dry run: nothing has been changed");
            }
            text
        },
    )?;
    Ok(ExitCode::SUCCESS)
}
