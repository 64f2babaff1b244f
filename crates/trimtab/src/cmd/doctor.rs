//! `trimtab doctor [PATH|DEVICE]`.

mod fix;
mod summary;

use crate::daemon::config::Config;
use crate::daemon::selection;
use crate::mend;
use anyhow::Context as _;
use rustix::fs::FileType;
use rustix::system::uname;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
pub use summary::line as summary_line;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::doctor::{Diagnosis, Doctor, Survey, UndiagnosedStorage};
use trimtab_linux::host::mountinfo;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::error::{BLOCKED, FailureKind, NOT_PROVED, of_named, one_line};
use trimtab_linux::output::lines::paragraph;
use trimtab_linux::output::{self, Context};
use trimtab_linux::session::journal::{self, MountScope};
use trimtab_linux::session::safety;
use trimtab_linux::sys::beneath::{Dir, ResolvedObject};
use trimtab_linux::sys::mount_check;
use trimtab_report::diagnosis::render;

const EXAMPLES: &str = "\
Examples:
  trimtab doctor                    every mounted filesystem and every drive
  trimtab doctor --all --summary    one line for each of them
  trimtab doctor /home              the filesystem that /home is on
  trimtab doctor /dev/sda           a device
  trimtab doctor --json / | jq '.diagnoses[0].verdict.kind'
  trimtab doctor / --report seen    save anonymous data for a bug report in the directory seen
  trimtab doctor /home --fix        fix it; confirm each step
  trimtab doctor /home --fix --dry-run   only show the first steps
  trimtab doctor --undo             undo what --fix did last

Without --fix and --undo, doctor changes nothing and opens no device. Like every command, it first \
restores limits that a killed trim left lowered. Without root it cannot read device-mapper tables, \
and says so.

--fix starts at the drive: it mends the lowest layer that blocks TRIM, looks again, and repeats this \
until nothing is left that it may change. It records each step in /var/lib/trimtab/journal before it \
makes it, and proves the result at the end, as 'trimtab verify' does. cryptsetup itself asks for the \
passphrase. What needs a reboot, an unmounted filesystem or another drive is only printed. --undo \
reverts the steps in reverse order, but keeps settings that were changed since. If --fix is killed \
in a step, doctor reports the record; --undo reverts what it has done.

--sysroot reads a recorded tree: copies of the files that doctor reads below /sys, /proc, /etc, \
/usr/lib/systemd and /run, links included, and the output of `dmsetup table` and `dmsetup status` in \
dmsetup-table and dmsetup-status. --record writes such a tree. It contains the mount table and \
fstab, and crypttab and the kernel's command line if a diagnosis needs them: look at it before you \
share it. Serial numbers are removed; --serials keeps them. --report writes one for a public bug \
report: serial numbers, UUIDs, the host name and names of mount points, volumes and labels become \
x1, x2 and so on, and comments and network mounts are left out. Models and firmware stay.

A filesystem that does not answer within 2 s (a hung server or drive) is a finding, and its verdict \
is unknown.

Exit status: 0 TRIM reaches the drives or is not needed, 3 a layer blocks it or it harms a drive, 4 \
unknown, 1 failed, 2 wrong usage. Of several results the worst counts: failed, then blocked, then \
unknown. Findings that /etc/trimtab/trimtab.toml accepts ([doctor] ignore) do not count. With --fix, \
the status is that of the end, or 1 if a step failed; with --undo it is 0 or 1.";

/// Arguments of `trimtab doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// File, directory, mount point or block device [default: everything].
    paths: Vec<PathBuf>,
    /// Every mounted filesystem and every drive.
    #[arg(long, conflicts_with = "paths")]
    all: bool,
    /// Print one line for each filesystem and device.
    #[arg(long, conflicts_with_all = ["fix", "undo"])]
    summary: bool,
    /// Examine a recorded tree instead of this machine.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Save all data that was read as a recorded tree in a new directory.
    #[arg(long, value_name = "DIR", conflicts_with = "sysroot")]
    record: Option<PathBuf>,
    /// As --record, without what identifies the machine or its user: for a bug report.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sysroot", "record"])]
    report: Option<PathBuf>,
    /// Keep the drives' serial numbers in the recorded tree.
    #[arg(long, requires = "record")]
    serials: bool,
    /// Fix what needs no reboot and puts no data at risk; asks before each step (--yes:
    /// does not ask).
    #[arg(long, requires = "paths", conflicts_with_all = ["all", "sysroot", "record", "report"])]
    fix: bool,
    /// Undo the last --fix.
    #[arg(long, conflicts_with_all = ["fix", "paths", "all", "sysroot", "record", "report"])]
    undo: bool,
    /// With --fix or --undo: show the steps without doing them.
    #[arg(long)]
    dry_run: bool,
    /// Free space that the proof after --fix must not use [default: 5% of the filesystem,
    /// at least 1 GiB].
    #[arg(long, value_name = "SIZE", requires = "fix")]
    reserve: Option<Bytes>,
}

impl DoctorArgs {
    /// True if the command applies or undoes fixes.
    pub fn changes_something(&self) -> bool {
        self.fix || self.undo
    }

    /// The directory for a recorded tree.
    fn tree(&self) -> Option<&PathBuf> {
        self.record.as_ref().or(self.report.as_ref())
    }

    /// The mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        match &self.sysroot {
            Some(_) => MountScope::Nothing,
            None if self.dry_run => MountScope::Nothing,
            None if self.paths.is_empty() => MountScope::Everything,
            None => MountScope::Paths(self.paths.clone()),
        }
    }
}

#[derive(Serialize)]
struct DiagnosisFailure {
    path: String,
    why: String,
}

#[derive(Serialize)]
struct DoctorReport {
    diagnoses: Vec<Diagnosis>,
    /// Storage that no diagnosis covers.
    not_judged: Vec<UndiagnosedStorage>,
    /// Given paths that cannot be examined.
    not_examined: Vec<DiagnosisFailure>,
    /// Leftovers of killed processes, and the outcome of their cleanup.
    left_by_killed: Vec<String>,
    /// Mount options that a running process has changed temporarily.
    changed_for_a_while: Vec<String>,
    /// Directories left by crashed runs.
    left_directories: Vec<PathBuf>,
}

/// Diagnoses, prints, and exits with the verdict. Always reports leftovers of killed
/// processes.
pub fn run(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let outcome = match (args.fix, args.undo) {
        (false, false) if args.dry_run => {
            Err(UsageError::new("--dry-run shows the steps of --fix or of --undo")
                .hint("say one of them")
                .into())
        }
        (false, false) => examine(args, context),
        (true, _) => fix::fix(args, context),
        (_, true) => fix::undo(args, context),
    };
    if outcome.is_err() {
        journal::found_at_start().iter().for_each(|left| context.remark(&left.text));
    }
    outcome
}

fn examine(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let root = root(args)?;
    let mut failed: Vec<(String, anyhow::Error)> = Vec::new();
    let named: Vec<&Path> = args.paths.iter().map(PathBuf::as_path).collect();
    let silent = if root.is_this_machine() { mount_check::silent(&named) } else { Vec::new() };
    let answering = || args.paths.iter().filter(|path| !silent.contains(&path.as_path()));
    check_directories(args, &root)?;
    let config = config(&root, context);
    let doctor = selection::doctor(&root, config.as_ref())
        .context("cannot read the mount table (/proc/self/mountinfo)")?;
    let Survey { mut diagnoses, not_judged } = if args.paths.is_empty() {
        doctor.survey()
    } else {
        let mut survey = Survey::default();
        for path in &args.paths {
            let is_looked_at = root.is_this_machine() && !silent.contains(&path.as_path());
            match examine_path(&doctor, path, is_looked_at, args.tree().is_some()) {
                Ok(diagnosis) => survey.diagnoses.push(diagnosis),
                Err(error) => failed.push((path.display().to_string(), error)),
            }
        }
        survey
    };
    if diagnoses.is_empty()
        && let Some((_, only)) = failed.pop()
    {
        complain(&failed);
        return Err(only);
    }
    let accepted = config.map(|config| config.ignore).unwrap_or_default();
    diagnoses.iter_mut().for_each(|diagnosis| diagnosis.accept(&accepted));
    anyhow::ensure!(
        !diagnoses.is_empty(),
        "found neither a mounted filesystem on a block device nor a drive"
    );
    write_recording(args, &root, context)?;
    let code = exit_code(&diagnoses);
    let (left, changed_for_a_while, left_directories) = if root.is_live() {
        let reach = args.reach().without(&silent);
        let changed = journal::changed_now(&reach).unwrap_or_default();
        (journal::found_at_start(), changed, left_directories(answering(), &diagnoses))
    } else {
        Default::default()
    };
    let mending = if root.is_live() { mend::unfinished() } else { Vec::new() };
    let left_by_killed = left.into_iter().map(|left| left.text).chain(mending).collect();
    let not_examined = failed
        .iter()
        .map(|(path, error)| DiagnosisFailure { path: path.clone(), why: one_line(error) })
        .collect();
    let report = DoctorReport {
        diagnoses,
        not_judged,
        not_examined,
        left_by_killed,
        changed_for_a_while,
        left_directories,
    };
    context.report_styled("doctor", 1, &report, || text(&report, args.summary))?;
    complain(&failed);
    Ok(failed
        .first()
        .map_or(code, |(_, error)| ExitCode::from(FailureKind::of(error).exit_status())))
}

/// The tree to examine.
fn root(args: &DoctorArgs) -> anyhow::Result<Root> {
    match &args.sysroot {
        Some(directory) => Root::recorded(directory).map_err(|e| {
            let what = format!("cannot use '{}' as --sysroot: {e}", directory.display());
            UsageError::missing(what).hint("give a directory").into()
        }),
        None if args.tree().is_some() => Root::recording_live().context("cannot open /"),
        None => Root::live().context("cannot open /"),
    }
}

/// Saves what was read, for --record and --report.
fn write_recording(args: &DoctorArgs, root: &Root, context: &Context) -> anyhow::Result<()> {
    let (Some(directory), Some(mut recording)) = (args.tree(), root.recording()) else {
        return Ok(());
    };
    if args.report.is_some() {
        recording.anonymize(&uname().nodename().to_string_lossy());
    } else if !args.serials {
        recording.forget_serials();
    }
    let files = recording
        .write(directory)
        .with_context(|| format!("cannot write to '{}'", directory.display()))?;
    context.remark(&format!(
        "{files} files in {}: look at them before you hand them on",
        directory.display()
    ));
    Ok(())
}

/// Refuses a --sysroot that is no recorded tree, and to record into a directory in use.
fn check_directories(args: &DoctorArgs, root: &Root) -> Result<(), UsageError> {
    if let Some(directory) = args.sysroot.as_ref().filter(|_| mountinfo::read(root).is_err()) {
        let what = format!(
            "'{}' is not a recorded tree: it has no mount table (proc/self/mountinfo)",
            directory.display()
        );
        return Err(UsageError::missing(what).hint("make a tree with: trimtab doctor --record DIR"));
    }
    let is_used = |directory: &&PathBuf| {
        Dir::open(directory).and_then(|dir| dir.names()).is_ok_and(|names| !names.is_empty())
    };
    if let Some(directory) = args.tree().filter(is_used) {
        let what = format!(
            "'{}' is not empty, and a recorded tree needs a directory of its own",
            directory.display()
        );
        return Err(UsageError::missing(what).hint("name a new directory"));
    }
    Ok(())
}

/// Diagnoses one path. `is_looked_at`: the path can be accessed without blocking.
fn examine_path(
    doctor: &Doctor<'_>,
    path: &Path,
    is_looked_at: bool,
    records: bool,
) -> anyhow::Result<Diagnosis> {
    if is_looked_at {
        no_character_device(path)?;
    }
    // A recorded tree does not contain the links in /dev.
    let real = if records && is_looked_at { real_path(path)? } else { path.to_owned() };
    let hint = "name a mount point, a directory or a block device";
    doctor.examine_path(&real).map_err(|error| of_named(error, path, "cannot examine", hint))
}

fn complain(failed: &[(String, anyhow::Error)]) {
    failed.iter().for_each(|(_, error)| output::complain(&one_line(error)));
}

/// Finds leftovers of crashed runs in the given directories and at mount points; they may
/// also be in other directories.
fn left_directories<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    diagnoses: &[Diagnosis],
) -> Vec<PathBuf> {
    let directory = |path: &PathBuf| {
        ResolvedObject::look_up(path)
            .ok()
            .filter(|named| named.kind() == FileType::Directory)?
            .real_path()
            .ok()
    };
    // A directory of a filesystem that does not answer may be among them.
    let all_answer = !diagnoses.iter().any(Diagnosis::is_silent);
    let asked = paths.filter(|_| all_answer).filter_map(directory);
    let places: BTreeSet<PathBuf> = asked.chain(mount_points(diagnoses)).collect();
    places.iter().flat_map(|place| safety::workspace::left_in(place)).collect()
}

/// Mount points of the filesystems that respond.
fn mount_points(diagnoses: &[Diagnosis]) -> impl Iterator<Item = PathBuf> {
    diagnoses
        .iter()
        .filter(|diagnosis| diagnosis.filesystem.is_some() && !diagnosis.is_silent())
        .map(|diagnosis| PathBuf::from(&diagnosis.subject))
}

/// The daemon's configuration in the tree. With an invalid one, the daemon does not
/// start.
fn config(root: &Root, context: &Context) -> Option<Config> {
    let config = Config::of_root(root)?;
    config
        .map_err(|error| {
            context.remark(&format!(
                "no finding is accepted, and trimtab.service does not start: {error}"
            ))
        })
        .ok()
}

fn text(report: &DoctorReport, summary: bool) -> String {
    let mut text = if summary {
        let width = output::terminal_width();
        report.diagnoses.iter().map(|diagnosis| summary_line(diagnosis, width) + "\n").collect()
    } else {
        report.diagnoses.iter().map(render).collect::<Vec<_>>().join("\n")
    };
    let mut say = |lead: &str, what: &str| {
        text +=
            &paragraph(&format!("{lead}: {}", output::plain_line(what)), output::width(), "", "  ")
    };
    report
        .not_judged
        .iter()
        .for_each(|one| say("not judged", &format!("{}: {}", one.name, one.why)));
    report.left_by_killed.iter().for_each(|left| say("left by a killed process", left));
    report.changed_for_a_while.iter().for_each(|changed| say("for a while", changed));
    for left in &report.left_directories {
        let what = format!(
            "{}; the next study, bench or verify there offers to remove it (--yes: without asking)",
            left.display()
        );
        say("left by a run that crashed", &what);
    }
    text
}

fn real_path(path: &Path) -> anyhow::Result<PathBuf> {
    match ResolvedObject::look_up(path).and_then(|named| named.real_path()) {
        // The examination reports the missing path.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(path.to_owned()),
        real => real.with_context(|| format!("cannot examine '{}'", path.display())),
    }
}

/// Rejects a character device: it is not a drive, and the filesystem of its directory is
/// not the subject.
fn no_character_device(path: &Path) -> Result<(), UsageError> {
    match ResolvedObject::look_up(path) {
        Ok(named) if named.kind() == FileType::CharacterDevice => Err(UsageError::missing(
            format!("'{}' is a character device, not a block device", path.display()),
        )
        .hint("give a block device such as /dev/sda or /dev/nvme0n1, or anything on a filesystem")),
        // Other errors are reported later.
        _ => Ok(()),
    }
}

fn exit_code(diagnoses: &[Diagnosis]) -> ExitCode {
    let statuses: Vec<u8> = diagnoses.iter().map(Diagnosis::exit_status).collect();
    // Blocked is worse than unknown.
    let worst = [BLOCKED, NOT_PROVED].into_iter().find(|status| statuses.contains(status));
    worst.map_or(ExitCode::SUCCESS, ExitCode::from)
}
