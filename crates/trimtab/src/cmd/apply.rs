//! `trimtab apply POLICY PATH`.

use crate::apply::{self, ApplyPlan, System};
use crate::report::applied::{self, ApplyReport, Change};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::usage::{UsageError, quoted};
use trimtab_linux::output::Context;
use trimtab_linux::session::journal::MountScope;
use trimtab_sim::policy::PolicySpec;

const EXAMPLES: &str = "\
Examples:
  trimtab apply idle /                     the daemon trims / in idle time
  trimtab apply idle:budget=2ms /home      with settings (trimtab study prints them)
  trimtab apply batched:nightly=3h /srv
  trimtab apply online /home               set the discard mount option in /etc/fstab
  trimtab apply none /home                 remove discard, and stop the daemon's trims
  trimtab apply idle / --dry-run           only show what would change
  trimtab apply --undo                     undo the last change
  trimtab apply idle / --sysroot ./image   configure a system that is not running

Writes /etc/fstab and /etc/trimtab/trimtab.toml: one line or section for each, and keeps the rest of \
both. In fstab, online sets discard (btrfs: discard=async). The other policies remove it, or set \
nodiscard on filesystems that discard by default (btrfs, f2fs). ntfs3 keeps discard, because \
it refuses every trim without it. All lines of one filesystem get the same option, since its first \
mount decides. Mounts and services are not touched; the output names what to restart. Records in \
/var/lib/trimtab/journal keep the earlier files. --undo restores the changed lines and keeps later \
edits. Applying the same policy twice changes nothing the second time.

Exit status: 0 applied, or nothing to do; 1 failed, and all files are as they were; 2 wrong usage.";

/// Arguments of `trimtab apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    /// Apply this policy: none, online, batched, adaptive or idle, with settings such as
    /// idle:budget=2ms.
    #[arg(required_unless_present = "undo", conflicts_with = "undo")]
    policy: Option<String>,
    /// Mount point of the filesystem.
    #[arg(required_unless_present = "undo", conflicts_with = "undo")]
    path: Option<PathBuf>,
    /// Undo the last change.
    #[arg(long)]
    undo: bool,
    /// Show the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Configure the system below this directory instead of the running one.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Write this configuration of the daemon [default: /etc/trimtab/trimtab.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ApplyArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        match &self.path {
            _ if self.sysroot.is_some() || self.dry_run => MountScope::Nothing,
            Some(path) => MountScope::Paths(vec![path.clone()]),
            None => MountScope::Everything,
        }
    }
}

/// Plans and shows the change, and makes it unless this is a dry run.
pub fn run(args: &ApplyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    apply_or_undo(args, context).map_err(|error| match needs_root(args, &error) {
        true => error.context("needs root: run with sudo"),
        false => error,
    })
}

/// Reports whether the error is a missing permission on the running system's files.
fn needs_root(args: &ApplyArgs, error: &anyhow::Error) -> bool {
    args.sysroot.is_none()
        && !rustix::process::geteuid().is_root()
        && trimtab_linux::session::journal::is_denied(error)
}

fn apply_or_undo(args: &ApplyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let system =
        System::new(args.sysroot.as_deref(), args.config.as_deref()).map_err(|e| {
            match (&args.sysroot, &args.config) {
                (Some(directory), _) if !directory.is_dir() => UsageError::missing(format!(
                    "cannot use '{}' as --sysroot: {e}",
                    directory.display()
                ))
                .hint("give a directory"),
                (_, Some(file)) => {
                    UsageError::new(format!("cannot use '{}' as --config: {e}", file.display()))
                }
                _ => UsageError::new(format!("cannot read the system's files: {e}")),
            }
        })?;
    let unfinished = if args.dry_run { None } else { apply::put_back_unfinished(&system)? };
    if let Some(unfinished) = &unfinished {
        context.remark(&in_words(unfinished));
    }
    let (plan, kept) = match (&args.policy, &args.path) {
        (Some(policy), Some(path)) => {
            require_order(policy, path)?;
            let plan = apply::plan(&system, policy, path)?;
            let kept = if args.dry_run { None } else { apply::carry_out(&system, &plan)? };
            (plan, kept)
        }
        // An apply that was killed is the last change.
        _ => match unfinished {
            Some(unfinished) => (unfinished.plan, None),
            None => (apply::undo(&system, args.dry_run)?, None),
        },
    };
    let report = report(args, plan, kept);
    context.report("apply", 1, &report, || applied::text(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses swapped arguments.
fn require_order(policy: &str, path: &Path) -> Result<(), UsageError> {
    let is_policy = |text: &str| text.parse::<PolicySpec>().is_ok();
    match path.to_str().filter(|path| is_policy(path) && !is_policy(policy)) {
        Some(path) => Err(UsageError::new("the policy comes first, then the path")
            .hint(format!("trimtab apply {path} {}", quoted(policy)))),
        None => Ok(()),
    }
}

/// For every other command: restores the files that an apply which was killed left
/// changed in the running system.
pub fn at_start(context: &Context) {
    let put_back = || apply::put_back_unfinished(&System::new(None, None)?);
    match put_back() {
        Ok(None) => {}
        Ok(Some(unfinished)) => {
            let text = in_words(&unfinished);
            context.remark(&text);
            trimtab_linux::session::journal::found(
                trimtab_linux::session::journal::ChangeSettlement {
                    undone: trimtab_linux::session::journal::UndoResult::PutBack,
                    text,
                },
            );
        }
        // Only the owner of the records can read them.
        Err(error) if trimtab_linux::session::journal::is_denied(&error) => {}
        Err(error) => trimtab_linux::output::complain(&format!(
            "cannot check whether a killed 'apply' left changed files: {error:#}"
        )),
    }
}

fn in_words(unfinished: &apply::UnfinishedChange) -> String {
    let apply::UnfinishedChange { plan, changed } = unfinished;
    let list = |files: &mut dyn Iterator<Item = &PathBuf>| {
        files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let mut text =
        format!("'apply {} {}' or its undo was killed: ", plan.policy, plan.mount_point.display());
    text += &match plan.edits.is_empty() {
        true => "nothing had to be restored".to_owned(),
        false => format!("restored {}", list(&mut plan.edits.iter().map(|edit| &edit.file))),
    };
    if !changed.is_empty() {
        text += &format!("; left alone because changed since: {}", list(&mut changed.iter()));
    }
    text
}

fn report(args: &ApplyArgs, plan: ApplyPlan, kept: Option<PathBuf>) -> ApplyReport {
    ApplyReport {
        dry_run: args.dry_run,
        undo: args.undo,
        policy: plan.policy,
        path: plan.mount_point.display().to_string(),
        changes: plan
            .edits
            .iter()
            .map(|e| Change { file: e.file.display().to_string(), diff: e.diff() })
            .collect(),
        kept: kept.map(|k| k.display().to_string()),
        remarks: plan.remarks,
        sysroot: args.sysroot.clone(),
    }
}
