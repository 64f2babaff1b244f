//! `trimtab trim PATH…`.

mod outcome;
mod whole;

use self::outcome::{Failed, Outcome, PassedBy, Report, WouldSend, exit_code, finish, refusal, text};
use self::whole::whole;
use crate::history::{Ending, History, Pass};
use anyhow::Context as _;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, Nanos, exact, grouped};
use trimtab_drive::usage::UsageError;
use trimtab_linux::doctor;
use trimtab_linux::host::discards::{LayerDiscards, Meter};
use trimtab_linux::host::fstab;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::error::{Blocked, one_line};
use trimtab_linux::output::progress::{Counting, Progress};
use trimtab_linux::output::{self, Context};
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::session::notes::Reach;
use trimtab_linux::sys::beneath::Named;
use trimtab_linux::sys::clock::unix_now;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::Interrupted as UserInterrupt;
use trimtab_linux::sys::priority;
use trimtab_linux::trim::delivery::{self, Delivery};
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::fitrim::Obstacle;
use trimtab_linux::trim::lock::DriveLocks;
use trimtab_linux::trim::resume::state_directory;
use trimtab_linux::trim::surface::{Account, at_once};
use trimtab_sim::policy::{IdleSettings, Now, ParsePolicyError, Patience, Policy, PolicySpec, State};
use trimtab_sim::run::Field;
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

/// A window that is refused is left out. After this many in a row it is not a place on the drive that fails; the rest is left alone.
const PATIENCE: Patience = Patience { tries: 1, windows: 8 };

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

/// Trims, one filesystem after the other. What fails does not stop the rest; the status is that of the worst.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let policy = How::of(args)?;
    if matches!(policy, How::Idle(_)) {
        priority::yield_to_others();
    }
    interrupt::install().context("cannot handle signals")?;
    interrupt::must_finish();
    let (paths, passed_by) = if args.all { in_fstab()? } else { (args.paths.clone(), Vec::new()) };
    let mut report = Report { dry_run: args.dry_run, filesystems: Vec::new(), passed_by, failed: Vec::new() };
    let mut trimmed: Vec<(String, String)> = Vec::new();
    let mut errors: Vec<(&PathBuf, anyhow::Error)> = Vec::new();
    for path in &paths {
        match one(args, &policy, path, &mut trimmed, context) {
            Ok(One::Done(outcome)) => report.filesystems.push(*outcome),
            Ok(One::Again(what)) => report.passed_by.push(PassedBy { path: path.display().to_string(), why: what }),
            // As fstrim --fstab: a device that takes no discards is no fault.
            Err(error) if args.all && error.is::<Blocked>() => {
                report.passed_by.push(PassedBy { path: path.display().to_string(), why: one_line(&error) });
            }
            Err(error) => errors.push((path, error)),
        }
        if !args.dry_run && interrupt::requested() {
            break;
        }
    }
    conclude(args, context, report, errors)
}

/// The mount points of fstab to trim, and those that are passed by.
fn in_fstab() -> anyhow::Result<(Vec<PathBuf>, Vec<PassedBy>)> {
    let root = Root::live().context("cannot open /")?;
    let (mut paths, mut passed_by) = (Vec::new(), Vec::new());
    for (path, why) in doctor::fstrim_of_fstab(&root).context("cannot read the mount table")? {
        match why {
            Some(why) => passed_by.push(PassedBy { path: path.display().to_string(), why }),
            None => paths.push(path),
        }
    }
    Ok((paths, passed_by))
}

/// Prints the report, then what failed, the worst last: it decides the status.
fn conclude(args: &Args, context: &Context, mut report: Report, mut errors: Vec<(&PathBuf, anyhow::Error)>) -> anyhow::Result<ExitCode> {
    let alone = report.filesystems.is_empty() && report.passed_by.is_empty() && errors.len() == 1;
    errors.sort_by_key(|(_, error)| error.is::<Blocked>());
    errors.reverse();
    if !alone {
        let failed = |(path, error): &(&PathBuf, anyhow::Error)| Failed { path: path.display().to_string(), why: one_line(error) };
        report.failed = errors.iter().map(failed).collect();
        context.report("trim", 1, &report, || text(&report))?;
    }
    if !args.dry_run && interrupt::requested() {
        return Err(UserInterrupt.into());
    }
    let refused: Vec<String> = report.filesystems.iter().filter_map(refusal).collect();
    let refused = (!refused.is_empty()).then(|| anyhow::anyhow!("{}", refused.join("; ")));
    let mut errors: Vec<anyhow::Error> = errors.into_iter().map(|(_, error)| error).chain(refused).collect();
    let Some(worst) = errors.pop() else { return Ok(exit_code(&report)) };
    errors.iter().for_each(|error| output::complain(&one_line(error)));
    Err(worst)
}

/// What became of one path.
enum One {
    Done(Box<Outcome>),
    /// Its filesystem is another path's, too.
    Again(String),
}

/// Trims the filesystem of `path`, unless it is in `trimmed`: ids, and what they were trimmed as.
fn one(args: &Args, policy: &How, path: &Path, trimmed: &mut Vec<(String, String)>, context: &Context) -> anyhow::Result<One> {
    refuse_files(path)?;
    fstab::require_mounted(path)?;
    let mut fs = Filesystem::open(path)?;
    if let Some((_, other)) = trimmed.iter().find(|(id, _)| id == fs.id()) {
        return Ok(One::Again(format!("on the same filesystem as {other}, trimmed once")));
    }
    // The kernel refuses every discard of such a device, and a loop device counts them all the same.
    if fs.stack().layers.iter().any(|layer| layer.is_read_only(fs.root())) {
        return Err(delivery::obstructed(&fs, Obstacle::Device));
    }
    let mut outcome = match obstructed(args, policy, &mut fs)? {
        Some(outcome) => outcome,
        None if args.dry_run => dry_run(args, policy, &mut fs)?,
        None => trim(args, policy, &mut fs, context)?,
    };
    trimmed.push((fs.id().to_owned(), path.display().to_string()));
    outcome.named = other_name(path, &fs);
    Ok(One::Done(Box::new(outcome)))
}

/// Whoever names a file means the file; fstrim refuses it as well.
fn refuse_files(path: &Path) -> anyhow::Result<()> {
    // A path that leads nowhere is reported when it is opened.
    if Named::look_up(path).is_ok_and(|found| found.kind() != FileType::Directory) {
        let what = format!("cannot trim '{}': it is not a directory, and a trim is for a whole filesystem", path.display());
        return Err(UsageError::missing(what).hint("name the directory where that is mounted").into());
    }
    Ok(())
}

/// What was named, if it is not where the filesystem is mounted.
fn other_name(path: &Path, fs: &Filesystem) -> Option<String> {
    let named = Named::look_up(path).ok()?.real_path().ok()?;
    (named != fs.mount().mount_point).then(|| path.display().to_string())
}

/// How it is to be trimmed; when is now.
enum How {
    AtOnce,
    Idle(IdleSettings),
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtOnce => f.write_str("now"),
            Self::Idle(settings) => PolicySpec::Idle(*settings).fmt(f),
        }
    }
}

impl How {
    fn of(args: &Args) -> anyhow::Result<Self> {
        let wrong = |why: String| UsageError::new(format!("--policy {}: {why}", args.policy));
        let ways = "use now, or idle with settings as in idle:budget=2ms";
        if args.policy == "now" && args.finish_within.is_some() {
            return Err(UsageError::new("--finish-within is for trims in idle time").hint("add --policy idle").into());
        }
        if args.policy == "now" {
            return Ok(Self::AtOnce);
        }
        // Read as a setting of the policy, so that it is checked as one.
        let within = args.finish_within.map_or(String::new(), |within| format!(":finish-within={}", exact(within)));
        match format!("{}{within}", args.policy).parse() {
            Ok(PolicySpec::Idle(settings)) => {
                Ok(Self::Idle(IdleSettings { min_extent: settings.min_extent.max(args.min_extent), ..settings }))
            }
            Ok(other) => Err(wrong(format!("'{}' says when to trim, and this is a trim by hand", other.name())).hint(ways).into()),
            Err(ParsePolicyError::Unknown(name)) => {
                let meant = PolicySpec::nearest(&name).filter(|meant| *meant == "idle");
                let did_you_mean = meant.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
                Err(wrong(format!("a trim by hand knows no policy '{name}'{did_you_mean}")).hint(ways).into())
            }
            Err(error) => Err(wrong(error.to_string()).into()),
        }
    }

    /// Its settings, as they are kept with a run.
    fn settings(&self) -> Vec<Field> {
        match self {
            Self::AtOnce => PolicySpec::None.settings(),
            Self::Idle(settings) => PolicySpec::Idle(*settings).settings(),
        }
    }

    /// The policy, where an interrupted pass left off.
    fn build(&self, min_extent: Bytes, state: &State) -> Box<dyn Policy> {
        match self {
            Self::AtOnce => Box::new(Now::new(min_extent, state)),
            Self::Idle(settings) => PolicySpec::Idle(*settings).build(state),
        }
    }
}

/// What comes of a filesystem on which FITRIM cannot work; `None` where it can. A dry run needs no right to trim.
fn obstructed(args: &Args, policy: &How, fs: &mut Filesystem) -> anyhow::Result<Option<Outcome>> {
    let Some(obstacle) = fs.obstacle().filter(|obstacle| !args.dry_run || *obstacle != Obstacle::Permission) else { return Ok(None) };
    let why = delivery::not_needed(fs, obstacle).ok_or_else(|| delivery::obstructed(fs, obstacle))?;
    let mut outcome = blank(args, policy, fs);
    outcome.complete = true;
    outcome.delivery = Some(Delivery::NothingToSend);
    outcome.remarks.push(why);
    Ok(Some(outcome))
}

/// Whether what is pending is written out first.
fn syncs(args: &Args, policy: &How) -> bool {
    args.sync || (!args.no_sync && matches!(policy, How::AtOnce))
}

/// Writes out what is pending, and says what that means for what was just deleted.
fn sync(args: &Args, policy: &How, fs: &mut Filesystem, outcome: &mut Outcome) {
    if !syncs(args, policy) {
        outcome.remarks.push("not synced first: what was deleted in the last seconds may be left for the next time (--sync)".to_owned());
        return;
    }
    match fs.commit() {
        Ok(took) => outcome.sync_seconds = Some(took.as_secs_f64()),
        Err(errno) => {
            let why = std::io::Error::from(errno);
            outcome.remarks.push(format!("what was pending could not be written out: {why}; what was just deleted may be left"));
        }
    }
}

/// An error where the filesystem would refuse every request.
fn require_possible(args: &Args, policy: &How, fs: &Filesystem) -> anyhow::Result<()> {
    if let Some(why) = fs.refuses_min_extent(least(args, policy)) {
        let shown = fs.mount().mount_point.display();
        return Err(UsageError::new(format!("cannot trim {shown}: {why}")).hint("give a smaller --min-extent").into());
    }
    if args.window.is_some() && chosen(args, fs).next().is_none() {
        return Err(UsageError::new("the range given with --window lies outside the filesystem's addresses").into());
    }
    Ok(())
}

fn dry_run(args: &Args, policy: &How, fs: &mut Filesystem) -> anyhow::Result<Outcome> {
    require_possible(args, policy, fs)?;
    let mut outcome = blank(args, policy, fs);
    sync(args, policy, fs, &mut outcome);
    outcome.free_bytes = fs.free().map_or(0, |b| b.0);
    outcome.windows = chosen(args, fs).count() as u64;
    outcome.asked_bytes = chosen(args, fs).fold(0, |sum, w| sum.saturating_add(w.len));
    let windows: Vec<TrimWindow> = chosen(args, fs).copied().collect();
    let would_send = fs.would_send(&windows, least(args, policy));
    outcome.would_send = would_send.map(|(s, at_most)| WouldSend { bytes: s.bytes, extents: s.extents, at_most });
    let (delivery, remarks) = delivery::forecast(fs);
    outcome.delivery = delivery;
    outcome.remarks.extend(remarks);
    outcome.remarks.push("nothing was asked of the kernel; this proves nothing about what the device would do".to_owned());
    Ok(outcome)
}

/// The windows that are asked for.
fn chosen<'a>(args: &'a Args, fs: &'a Filesystem) -> impl Iterator<Item = &'a TrimWindow> {
    let touches = |w: &&TrimWindow| {
        args.window.is_none_or(|range| w.start < range.start.saturating_add(range.len) && range.start < w.start.saturating_add(w.len))
    };
    fs.layout().windows.iter().filter(touches)
}

fn blank(args: &Args, policy: &How, fs: &Filesystem) -> Outcome {
    Outcome {
        path: fs.mount().mount_point.display().to_string(),
        named: None,
        fs_type: fs.mount().fs_type.clone(),
        policy: policy.to_string(),
        min_extent: args.min_extent.0,
        unit: fs.layout().unit.clone(),
        windows: fs.layout().windows.len() as u64,
        requests: 0,
        complete: false,
        resumed: false,
        sync_seconds: None,
        free_bytes: fs.free().map_or(0, |b| b.0),
        asked_bytes: 0,
        returned_bytes: 0,
        sent_bytes: None,
        sent_commands: None,
        sent_is_minimum: false,
        sent_twice_bytes: 0,
        would_send: None,
        delivery: None,
        layers: Vec::new(),
        refused: Vec::new(),
        seconds: 0.0,
        trimming_seconds: 0.0,
        longest_request_seconds: 0.0,
        others_waited_during_ms: None,
        others_waited_otherwise_ms: None,
        remarks: fs.layout().remark.iter().cloned().collect(),
    }
}

fn trim(args: &Args, policy: &How, fs: &mut Filesystem, context: &Context) -> anyhow::Result<Outcome> {
    let shown = fs.mount().mount_point.display().to_string();
    require_possible(args, policy, fs)?;
    let locks = lock(args, fs, context).with_context(|| format!("cannot trim {shown}"))?;
    let mut outcome = blank(args, policy, fs);
    let (began, started) = (unix_now(), Instant::now());
    sync(args, policy, fs, &mut outcome);
    outcome.free_bytes = fs.free().map_or(0, |b| b.0);
    for file in fs.recover_limits() {
        outcome.remarks.push(format!("put back {}, which an interrupted trim had lowered", file.display()));
    }
    let meter = Meter::of_stack(Root::live().context("cannot open /")?, fs.stack().clone());
    let account = match args.window {
        Some(_) => {
            let account = windows(args, fs, context, Path::new(&outcome.path))?;
            outcome.windows = chosen(args, fs).count() as u64;
            outcome.complete = account.discards.carried_out().count == outcome.windows;
            account
        }
        None => whole(args, policy, fs, context, &mut outcome)?,
    };
    // While the locks are held.
    outcome.remarks.extend(fs.unlimit_commands());
    if account.discards.carried_out().count == 0 && account.refusals.first().is_some_and(|(_, r)| r.errno == Errno::OPNOTSUPP) {
        return Err(delivery::obstructed(fs, Obstacle::Device));
    }
    finish(&mut outcome, &account, started);
    deliver(&mut outcome, fs, meter.judge(&account.layers));
    remember(policy, fs, &account, began, &mut outcome);
    drop(locks);
    Ok(outcome)
}

/// Keeps it for `trimtab history`.
fn remember(policy: &How, fs: &Filesystem, account: &Account, began: Nanos, outcome: &mut Outcome) {
    let ending = match (outcome.complete, interrupt::requested()) {
        (false, true) => Ending::Stopped("interrupted".to_owned()),
        _ => Ending::Complete,
    };
    let by_hand = outcome.policy.split(':').next().unwrap_or_default();
    let pass = Pass {
        by: "hand",
        policy: by_hand,
        policy_settings: policy.settings(),
        started: began,
        took: Nanos((outcome.seconds * 1e9) as u64),
        account,
        ending,
    };
    match History::new(&state_directory()).save(fs, &pass) {
        Ok(set_aside) => outcome.remarks.extend(set_aside),
        Err(error) => outcome.remarks.push(format!("this trim is not in the history: {error:#}")),
    }
}

/// How far the discards came, by what the layers counted.
fn deliver(outcome: &mut Outcome, fs: &Filesystem, layers: Vec<LayerDiscards>) {
    outcome.layers = layers;
    if outcome.requests == 0 && !outcome.complete {
        // What arrives is judged by requests, and there was none.
        return;
    }
    if outcome.refused.is_empty() {
        let (delivery, remarks) = delivery::judge(fs, &outcome.layers, Bytes(outcome.returned_bytes));
        outcome.delivery = Some(delivery);
        outcome.remarks.extend(remarks);
    }
}

/// The least extent that is asked for in the end.
fn least(args: &Args, policy: &How) -> Bytes {
    match policy {
        How::Idle(settings) => settings.min_extent,
        How::AtOnce => args.min_extent,
    }
}

/// The locks of the drives, once nobody else has them. Meanwhile the filesystem can be unmounted.
fn lock(args: &Args, fs: &mut Filesystem, context: &Context) -> anyhow::Result<DriveLocks> {
    fs.release();
    let mut waited = false;
    let patience = args.lock_wait;
    let locks = DriveLocks::wait(fs.stack(), &run_directory(), Duration::from_nanos(patience.0), |busy| {
        waited = true;
        context.remark(&format!("{busy}; waiting for up to {patience} (--lock-wait)"));
    })?;
    if waited {
        fs.refresh()?;
    }
    Ok(locks)
}

/// A view of a trim of `windows` of the filesystem that `path` is on: how much of its addresses has been gone over, and what the drives count.
fn view<'a>(context: &Context, path: &Path, windows: impl Iterator<Item = &'a TrimWindow>) -> Progress {
    let addresses = windows.map(|window| window.len).sum();
    Progress::new(context, "trimming", Counting::Bytes, addresses).with_discards(|| Meter::start(path).ok())
}

/// Windows that were gone over, without what was tried of them before: the bar is not to pass its end.
fn show(progress: &mut Progress, account: &Account, waits: bool) {
    progress.set(account.gone_over.0);
    progress.say(|| {
        let wait = waits.then(|| "waiting for idle time".to_owned());
        let others = account.wait_during.filter(|wait| *wait > Nanos::ZERO).map(|wait| format!("others waited {wait}"));
        let said = [format!("requests {}", grouped(account.discards.carried_out().count)), format!("longest {}", account.longest)];
        wait.into_iter().chain(said).chain(others).collect()
    });
}

/// Some windows, at once.
fn windows(args: &Args, fs: &mut Filesystem, context: &Context, path: &Path) -> anyhow::Result<Account> {
    let windows: Vec<TrimWindow> = chosen(args, fs).copied().collect();
    let before = fs.last_least();
    fs.prepare(args.min_extent, false);
    let mut progress = view(context, path, windows.iter());
    let account = at_once(fs, &windows, args.min_extent, |account| {
        show(&mut progress, account, false);
        interrupt::requested()
    });
    // The other groups still are as the pass before left them.
    fs.restore_least(before);
    Ok(account)
}
