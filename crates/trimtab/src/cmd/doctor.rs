//! `trimtab doctor [PATH|DEVICE]`.

use crate::error::UsageError;
use crate::host::doctor::{Diagnosis, Doctor, VerdictKind, render};
use crate::host::root::Root;
use crate::output::Context;
use anyhow::Context as _;
use serde::Serialize;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status if TRIM is blocked somewhere.
pub const BLOCKED: u8 = 3;
/// Exit status if it cannot be told.
pub const UNKNOWN: u8 = 4;

const EXAMPLES: &str = "\
Examples:
  trimtab doctor                    every mounted filesystem and every drive
  trimtab doctor /home              the filesystem that /home is on
  trimtab doctor /dev/sda           a device
  trimtab doctor --json / | jq .diagnoses[0].verdict.kind

Nothing is opened for writing, and no device is opened at all. Without root, device-mapper tables stay unseen; the answer says so.

A recorded tree (--sysroot) holds copies of what is read under /sys, /proc, /etc, /usr/lib/systemd and /run, links included,
and the output of `dmsetup table` and `dmsetup status` as dmsetup-table and dmsetup-status.

Exit status: 0 TRIM reaches the drives or is not needed, 3 blocked at some layer, 4 unknown, 1 failed, 2 wrong usage.
With several answers the worst counts: blocked, then unknown.";

/// Arguments of `trimtab doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File, directory, mount point or block device [default: everything].
    paths: Vec<PathBuf>,
    /// Every mounted filesystem and every drive.
    #[arg(long, conflicts_with = "paths")]
    all: bool,
    /// Examine a recorded tree instead of this machine.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    diagnoses: Vec<Diagnosis>,
}

/// Diagnoses, prints, and exits with the verdict.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let root = match &args.sysroot {
        Some(directory) => Root::recorded(directory)
            .map_err(|e| UsageError::new(format!("cannot use '{}' as --sysroot: {e}", directory.display())).hint("give a directory"))?,
        None => Root::live().context("cannot open /")?,
    };
    if root.is_live() {
        args.paths.iter().try_for_each(|path| no_character_device(path))?;
    }
    let doctor = Doctor::new(&root).context("cannot read the mount table (/proc/self/mountinfo)")?;
    let diagnoses = if args.paths.is_empty() {
        doctor.examine_all()
    } else {
        let each = args.paths.iter().map(|p| doctor.examine_path(p).with_context(|| format!("cannot examine '{}'", p.display())));
        each.collect::<anyhow::Result<Vec<_>>>()?
    };
    anyhow::ensure!(!diagnoses.is_empty(), "found neither a mounted filesystem on a block device nor a drive");
    let code = exit_code(&diagnoses);
    let report = Report { diagnoses };
    context.report("doctor", 1, &report, || report.diagnoses.iter().map(render).collect::<Vec<_>>().join("\n"))?;
    Ok(code)
}

/// A character device is neither a drive, nor is its directory what was asked about.
fn no_character_device(path: &Path) -> Result<(), UsageError> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.file_type().is_char_device() => {
            Err(UsageError::new(format!("'{}' is no block device but a character device", path.display()))
                .hint("give a block device such as /dev/sda or /dev/nvme0n1, or anything on a filesystem"))
        }
        // Whatever else is wrong with it is said later.
        _ => Ok(()),
    }
}

fn exit_code(diagnoses: &[Diagnosis]) -> ExitCode {
    let any = |kind: VerdictKind| diagnoses.iter().any(|d| d.verdict.kind == kind);
    if any(VerdictKind::Blocked) {
        ExitCode::from(BLOCKED)
    } else if any(VerdictKind::Unknown) {
        ExitCode::from(UNKNOWN)
    } else {
        ExitCode::SUCCESS
    }
}
