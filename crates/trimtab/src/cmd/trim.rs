//! `trimtab trim PATH…`.

use crate::report;
use crate::trim::outcome::{SkippedPath, exit_code, refusal};
use crate::trim::{self, ManualTrimOutcome, ManualTrimRequest, TrimMode};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::output::error::{TrimBlockedError, one_line};
use trimtab_linux::output::{self, Context};
use trimtab_linux::session::journal::MountScope;
use trimtab_linux::sys::interrupt::{self, InterruptError};

const EXAMPLES: &str = "\
Examples:
  trimtab trim /                         the whole filesystem at once, in windows that suit it
  trimtab trim --all                     what 'fstrim --fstab' trims: all filesystems of /etc/fstab
  trimtab trim / /home --policy idle     in idle time, in commands of at most 5 ms where possible
  trimtab trim /srv --policy idle:budget=2ms
  trimtab trim /srv --policy idle --finish-within 1h
  trimtab trim /srv --min-extent 1MiB    skip smaller free extents: far fewer commands
  trimtab trim /srv --dry-run            show the requests and the amount, send nothing

A trim covers the whole filesystem. It writes out pending changes first (syncfs), which fstrim does \
not: a filesystem frees recently deleted blocks only then. --no-sync skips this. So does --policy \
idle, unless --sync is given, because it delays foreground I/O.

The amount is counted by the drives' own counters, for each leg of an array, not taken from the \
filesystem's reply. Start an interrupted trim with the same policy to continue it (--restart starts \
over). It skips blocks freed since then in the part already trimmed; the next trim sends them. \
The filesystem cannot be unmounted during a trim.

--policy idle skips small free extents that would delay foreground I/O more than they help the drive, \
and says so. idle:complete=yes sends them too. Commands that use a small part of the budget are sent \
back to back. An idle trim runs with nice 10, like the services. With --finish-within, the rest is \
sent at once when the time is over. Only one trim runs on a drive at a time, the daemon's included. \
A second one waits for its turn (--lock-wait).

A path that fails does not stop the others. --all skips what fstrim skips: filesystems that are not \
mounted, read-only, marked X-fstrim.notrim, not on a block device, or on a device without discard; \
bind mounts; tags (UUID=, LABEL=) that no device has.

Exit status: 0 all windows trimmed, or no trim needed (hard disks); 1 refused or failed; 2 wrong usage; \
3 a layer below blocks TRIM (see trimtab doctor), for one drive or all; 4 not proved (sent later, or \
not counted); 130 interrupted.";

/// Arguments of `trimtab trim`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "trimtab trim [OPTIONS] <PATHS...|--all>")]
pub struct TrimArgs {
    /// Trim the filesystems of these mount points or directories.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    paths: Vec<PathBuf>,
    /// Trim what 'fstrim --fstab' trims: the filesystems of /etc/fstab that are mounted
    /// read-write, and the root filesystem if the kernel command line names it (root=).
    #[arg(long)]
    all: bool,
    /// Trim under this policy: now, or idle with settings such as
    /// idle:budget=2ms:patience=10s.
    #[arg(long, default_value = "now", value_name = "POLICY")]
    policy: String,
    /// Skip free extents below this size.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    min_extent: Bytes,
    /// With --policy idle: try to finish within this time, even if foreground I/O slows
    /// down. After it, the rest is sent at once and takes as long as fstrim would.
    #[arg(long, value_name = "TIME")]
    finish_within: Option<Nanos>,
    /// Write out pending changes first, so that recent deletes are trimmed. The default,
    /// except with --policy idle.
    #[arg(long, conflicts_with = "no_sync")]
    sync: bool,
    /// Do not write out pending changes first: quicker, but deletes of the last seconds
    /// wait for the next trim.
    #[arg(long)]
    no_sync: bool,
    /// Only show the requests and (ext4, XFS) the amount that would be sent. Proves
    /// nothing about the device.
    #[arg(long)]
    dry_run: bool,
    /// Wait this long for a drive that is already being trimmed; 0s fails at once.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    lock_wait: Nanos,
    /// Start over even if an earlier trim was interrupted.
    #[arg(long)]
    restart: bool,
}

impl TrimArgs {
    fn resolve(&self) -> anyhow::Result<ManualTrimRequest> {
        let how = TrimMode::of(&self.policy, self.finish_within, self.min_extent)?;
        Ok(ManualTrimRequest {
            paths: self.paths.clone(),
            all: self.all,
            min_extent: self.min_extent,
            sync: self.sync || (!self.no_sync && matches!(how, TrimMode::AtOnce)),
            dry_run: self.dry_run,
            lock_wait: self.lock_wait,
            restart: self.restart,
            how,
        })
    }

    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        if self.all { MountScope::Everything } else { MountScope::Paths(self.paths.clone()) }
    }
}

/// Trims and prints the report, then the failures. The worst comes last and sets the exit
/// status.
pub fn run(args: &TrimArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let ManualTrimOutcome { mut report, failed: mut errors } =
        trim::run(&args.resolve()?, context)?;
    let alone = report.filesystems.is_empty() && report.passed_by.is_empty() && errors.len() == 1;
    errors.sort_by_key(|(_, error)| error.is::<TrimBlockedError>());
    errors.reverse();
    if !alone {
        let failed = |(path, error): &(PathBuf, anyhow::Error)| SkippedPath {
            path: path.display().to_string(),
            why: one_line(error),
        };
        report.failed = errors.iter().map(failed).collect();
        context.report("trim", 1, &report, || report::trim::text(&report))?;
    }
    if !args.dry_run && interrupt::requested() {
        return Err(InterruptError.into());
    }
    let refused: Vec<String> = report.filesystems.iter().filter_map(refusal).collect();
    let refused = (!refused.is_empty()).then(|| anyhow::anyhow!("{}", refused.join("; ")));
    let mut errors: Vec<anyhow::Error> =
        errors.into_iter().map(|(_, error)| error).chain(refused).collect();
    let Some(worst) = errors.pop() else { return Ok(exit_code(&report)) };
    errors.iter().for_each(|error| output::complain(&one_line(error)));
    Err(worst)
}
