//! `trimtab trim PATH…`.

use crate::report;
use crate::trim::outcome::{Failed, exit_code, refusal};
use crate::trim::{self, Done, How, Request};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::output::error::{Blocked, one_line};
use trimtab_linux::output::{self, Context};
use trimtab_linux::session::notes::Reach;
use trimtab_linux::sys::interrupt::{self, Interrupted};
use trimtab_sim::target::TrimWindow;

const EXAMPLES: &str = "\
Examples:
  trimtab trim /                         everything, at once, in windows that are right for the filesystem
  trimtab trim --all                     what 'fstrim --fstab' trims: every filesystem of /etc/fstab
  trimtab trim / /home --policy idle     in idle time, in commands of 5 ms at most where the drive has such
  trimtab trim /srv --policy idle:budget=2ms
  trimtab trim /srv --policy idle --finish-within 1h
  trimtab trim /srv --window 10GiB+1GiB  only this range of the filesystem's addresses
  trimtab trim /srv --min-extent 1MiB    leave smaller free extents alone: far fewer commands
  trimtab trim /srv --dry-run            only say what would be asked, and how much would be sent

Always a whole filesystem is trimmed. What is pending on it is written out first (syncfs), since a filesystem takes what has just been
deleted for free only then; fstrim does not. --no-sync leaves that out, and so does --policy idle, because others would wait for it
(--sync does it there, too).

What has reached the drives is read from their own counters, each leg of an array by itself, not from what the filesystem returns. An interrupted trim
continues where it left off when it is started again with the same policy (--restart begins again); what was freed meanwhile where it had been is left to the next one.
While it runs the filesystem cannot be unmounted. Where others would wait longer for small free extents than the drive gains by them, --policy idle leaves those, and says so;
idle:complete=yes sends them too. Commands that take a small part of the budget are sent one after another at once. An idle trim runs with nice 10, as the services do. With --finish-within what is left when the time is over is sent at once. Only one trim runs on a drive at a time; this one waits for its
turn (--lock-wait), also beside the daemon.

A path that fails does not stop the others. --all passes by what fstrim passes by: filesystems that are not mounted, read-only, marked
X-fstrim.notrim, not on a block device, or on a device that takes no discards; bind mounts; tags (UUID=, LABEL=) that no device has.

Exit status: 0 all windows trimmed, or no trim needed (hard disks), 1 something was refused or failed, 2 wrong usage, 3 a layer below is in the way (as trimtab doctor
has it), for all of it or for one of several drives, 4 not proved (sent later, or not counted), 130 interrupted.";

/// Arguments of `trimtab trim`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Mount points, or other directories on the filesystems.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    paths: Vec<PathBuf>,
    /// Trim what 'fstrim --fstab' trims: the filesystems of /etc/fstab that are mounted read-write, and the root filesystem
    /// where the kernel command line names it (root=).
    #[arg(long, conflicts_with = "window")]
    all: bool,
    /// now, or idle with settings such as idle:budget=2ms:quiet=50ms:patience=10s.
    #[arg(long, default_value = "now", value_name = "POLICY")]
    policy: String,
    /// Trim only the windows that this range touches: START+LENGTH (ext4, XFS: of the device; btrfs: logical addresses).
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    window: Option<TrimWindow>,
    /// Leave free extents below this size alone.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_bytes)]
    min_extent: Bytes,
    /// With --policy idle: be done within this time, whatever others have of it, instead of as long as it takes not to be noticed.
    #[arg(long, value_name = "TIME")]
    finish_within: Option<Nanos>,
    /// Write out what is pending first, so that what was just deleted is trimmed: the default, except with --policy idle.
    #[arg(long, overrides_with = "no_sync")]
    sync: bool,
    /// Do not write out what is pending first: quicker, but what was deleted in the last seconds is left for the next trim.
    #[arg(long, overrides_with = "sync")]
    no_sync: bool,
    /// Only say what would be asked and (ext4, XFS) how much would be sent. Proves nothing about what the device would do.
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for a drive that is being trimmed already; 0s fails at once.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    lock_wait: Nanos,
    /// Start from the beginning even if an earlier trim was interrupted.
    #[arg(long)]
    restart: bool,
}

impl Args {
    fn resolve(&self) -> anyhow::Result<Request> {
        let how = How::of(&self.policy, self.finish_within, self.min_extent)?;
        Ok(Request {
            paths: self.paths.clone(),
            all: self.all,
            window: self.window,
            min_extent: self.min_extent,
            sync: self.sync || (!self.no_sync && matches!(how, How::AtOnce)),
            dry_run: self.dry_run,
            lock_wait: self.lock_wait,
            restart: self.restart,
            how,
        })
    }

    /// The mounts that it works on.
    pub fn reach(&self) -> Reach {
        if self.all { Reach::Everything } else { Reach::Paths(self.paths.clone()) }
    }
}

fn parse_bytes(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|e: trimtab_drive::units::ParseQuantityError| e.to_string())
}

fn parse_range(text: &str) -> Result<TrimWindow, String> {
    let (start, len) = text.split_once('+').ok_or("not START+LENGTH, such as 10GiB+1GiB")?;
    let (start, len) = (parse_bytes(start)?.0, parse_bytes(len)?.0);
    if len == 0 || start.checked_add(len).is_none() {
        return Err("the length must be above 0, and the end below 2^64".into());
    }
    Ok(TrimWindow { start, len })
}

/// Trims; prints the report, then what failed, the worst last: it decides the status.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let Done { mut report, failed: mut errors } = trim::run(&args.resolve()?, context)?;
    let alone = report.filesystems.is_empty() && report.passed_by.is_empty() && errors.len() == 1;
    errors.sort_by_key(|(_, error)| error.is::<Blocked>());
    errors.reverse();
    if !alone {
        let failed = |(path, error): &(PathBuf, anyhow::Error)| Failed { path: path.display().to_string(), why: one_line(error) };
        report.failed = errors.iter().map(failed).collect();
        context.report("trim", 1, &report, || report::trim::text(&report))?;
    }
    if !args.dry_run && interrupt::requested() {
        return Err(Interrupted.into());
    }
    let refused: Vec<String> = report.filesystems.iter().filter_map(refusal).collect();
    let refused = (!refused.is_empty()).then(|| anyhow::anyhow!("{}", refused.join("; ")));
    let mut errors: Vec<anyhow::Error> = errors.into_iter().map(|(_, error)| error).chain(refused).collect();
    let Some(worst) = errors.pop() else { return Ok(exit_code(&report)) };
    errors.iter().for_each(|error| output::complain(&one_line(error)));
    Err(worst)
}
