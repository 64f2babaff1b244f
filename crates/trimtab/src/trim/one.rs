//! Trims one filesystem: checks for obstacles, takes the locks, trims the windows and
//! reports the outcome.

use super::ManualTrimRequest;
use super::harm::require_harmless;
use super::outcome::{FilesystemOutcome, SendEstimate, finish};
use super::whole::whole;
use crate::history::{History, PassEnd, TrimPass};
use anyhow::Context as _;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host;
use trimtab_linux::host::discards::{LayerDiscards, Meter};
use trimtab_linux::host::fstab;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::sys::beneath::ResolvedObject;
use trimtab_linux::sys::clock::unix_now;
use trimtab_linux::sys::interrupt;
use trimtab_linux::trim::delivery::{self, Delivery};
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::fitrim::Obstacle;
use trimtab_linux::trim::lock::DriveLocks;
use trimtab_linux::trim::resume::state_directory;
use trimtab_linux::trim::surface::Account;

/// Outcome for one path.
pub enum PathOutcome {
    Done(Box<FilesystemOutcome>),
    /// Another path named the same filesystem.
    Again(String),
}

/// Trims the filesystem of `path` unless `trimmed` (pairs of id and path) already
/// contains it.
pub fn trim_one(
    request: &ManualTrimRequest,
    path: &Path,
    trimmed: &mut Vec<(String, String)>,
    context: &Context,
) -> anyhow::Result<PathOutcome> {
    // Those of fstab have not been asked yet.
    host::require_answers(&[path])?;
    refuse_files(path)?;
    fstab::require_mounted(path)?;
    let mut fs = Filesystem::open(path)?;
    if let Some((_, other)) = trimmed.iter().find(|(id, _)| id == fs.id()) {
        return Ok(PathOutcome::Again(format!("on the same filesystem as {other}, trimmed once")));
    }
    // The kernel refuses every discard of a read-only device, but a loop device still
    // counts them.
    if fs.stack().layers.iter().any(|layer| layer.is_read_only(fs.root())) {
        return Err(delivery::obstructed(&fs, Obstacle::Device));
    }
    let mut outcome = match obstructed(request, &mut fs)? {
        Some(outcome) => outcome,
        None if request.dry_run => dry_run(request, &mut fs)?,
        None => trim(request, &mut fs, context)?,
    };
    trimmed.push((fs.id().to_owned(), path.display().to_string()));
    outcome.named = other_name(path, &fs);
    Ok(PathOutcome::Done(Box::new(outcome)))
}

/// Refuses a path that is a file, as fstrim does.
fn refuse_files(path: &Path) -> anyhow::Result<()> {
    // Opening reports a path that does not exist.
    if ResolvedObject::look_up(path).is_ok_and(|found| found.kind() != FileType::Directory) {
        let what = format!(
            "cannot trim '{}': it is not a directory; a trim covers a whole filesystem",
            path.display()
        );
        return Err(UsageError::missing(what).hint("name the mount point").into());
    }
    Ok(())
}

/// The named path, if it is not the mount point.
fn other_name(path: &Path, fs: &Filesystem) -> Option<String> {
    let named = ResolvedObject::look_up(path).ok()?.real_path().ok()?;
    (named != fs.mount().mount_point).then(|| path.display().to_string())
}

/// The outcome for a filesystem on which FITRIM cannot work; `None` if it can. A dry run
/// needs no permission to trim.
fn obstructed(
    request: &ManualTrimRequest,
    fs: &mut Filesystem,
) -> anyhow::Result<Option<FilesystemOutcome>> {
    let mut outcome = blank(request, fs);
    if let Some(problem) = fs.stack().layers.iter().find_map(|l| l.server_problem(fs.root())) {
        outcome.delivery = Some(Delivery::NotProved);
        outcome.remarks.push(problem.to_owned());
        return Ok(Some(outcome));
    }
    let Some(obstacle) =
        fs.obstacle().filter(|obstacle| !request.dry_run || *obstacle != Obstacle::Permission)
    else {
        return Ok(None);
    };
    let why =
        delivery::not_needed(fs, obstacle).ok_or_else(|| delivery::obstructed(fs, obstacle))?;
    outcome.complete = true;
    outcome.delivery = Some(Delivery::NothingToSend);
    outcome.remarks.push(why);
    Ok(Some(outcome))
}

/// Writes out pending changes, or adds a remark about recent deletes.
fn sync(request: &ManualTrimRequest, fs: &mut Filesystem, outcome: &mut FilesystemOutcome) {
    if !request.sync {
        outcome.remarks.push(
            "not synced first: deletes of the last seconds may wait for the next trim (--sync)"
                .to_owned(),
        );
        return;
    }
    match fs.commit() {
        Ok(took) => outcome.sync_seconds = Some(took.as_secs_f64()),
        Err(errno) => {
            let why = std::io::Error::from(errno);
            outcome.remarks.push(format!(
                "pending changes could not be written out: {why}; recent deletes may be missing"
            ));
        }
    }
}

/// Refuses a request that the filesystem would always reject.
fn require_possible(request: &ManualTrimRequest, fs: &Filesystem) -> anyhow::Result<()> {
    if let Some(why) = fs.refuses_min_extent(request.min_extent) {
        let shown = fs.mount().mount_point.display();
        return Err(UsageError::new(format!("cannot trim {shown}: {why}"))
            .hint("give a smaller --min-extent")
            .into());
    }
    Ok(())
}

fn dry_run(request: &ManualTrimRequest, fs: &mut Filesystem) -> anyhow::Result<FilesystemOutcome> {
    require_possible(request, fs)?;
    let mut outcome = blank(request, fs);
    sync(request, fs, &mut outcome);
    outcome.free_bytes = fs.free().map_or(0, |b| b.0);
    let windows = fs.layout().windows.clone();
    outcome.asked_bytes = windows.iter().fold(0, |sum, w| sum.saturating_add(w.len));
    let would_send = fs.would_send(&windows, request.min_extent);
    outcome.would_send =
        would_send.map(|(s, at_most)| SendEstimate { bytes: s.bytes, extents: s.extents, at_most });
    let (delivery, remarks) = delivery::forecast(fs);
    outcome.delivery = delivery;
    outcome.remarks.extend(remarks);
    outcome.remarks.push("no request was sent; this proves nothing about the device".to_owned());
    Ok(outcome)
}

fn blank(request: &ManualTrimRequest, fs: &Filesystem) -> FilesystemOutcome {
    FilesystemOutcome {
        path: fs.mount().mount_point.display().to_string(),
        fs_type: fs.mount().fs_type.clone(),
        policy: request.how.to_string(),
        min_extent: request.min_extent.0,
        unit: fs.layout().unit.clone(),
        windows: fs.layout().windows.len() as u64,
        free_bytes: fs.free().map_or(0, |b| b.0),
        remarks: fs.layout().remark.iter().cloned().collect(),
        ..FilesystemOutcome::default()
    }
}

fn trim(
    request: &ManualTrimRequest,
    fs: &mut Filesystem,
    context: &Context,
) -> anyhow::Result<FilesystemOutcome> {
    let shown = fs.mount().mount_point.display().to_string();
    require_possible(request, fs)?;
    require_harmless(fs)?;
    interrupt::must_finish();
    let locks = lock(request, fs, context).with_context(|| format!("cannot trim {shown}"))?;
    let mut outcome = blank(request, fs);
    let (began, started) = (unix_now(), Instant::now());
    sync(request, fs, &mut outcome);
    outcome.free_bytes = fs.free().map_or(0, |b| b.0);
    for file in fs.recover_limits() {
        outcome
            .remarks
            .push(format!("restored {}, which an interrupted trim had lowered", file.display()));
    }
    let meter = Meter::of_stack(Root::live().context("cannot open /")?, fs.stack().clone());
    let account = whole(request, fs, context, &mut outcome)?;
    // The locks are still held here.
    outcome.remarks.extend(fs.unlimit_commands());
    if account.discards.carried_out().count == 0
        && account.refusals.first().is_some_and(|(_, r)| r.errno == Errno::OPNOTSUPP)
    {
        return Err(delivery::obstructed(fs, Obstacle::Device));
    }
    finish(&mut outcome, &account, started);
    deliver(&mut outcome, fs, meter.judge(&account.layers));
    remember(request, fs, &account, began, &mut outcome);
    drop(locks);
    Ok(outcome)
}

/// Stores the trim for `trimtab history`.
fn remember(
    request: &ManualTrimRequest,
    fs: &Filesystem,
    account: &Account,
    began: Nanos,
    outcome: &mut FilesystemOutcome,
) {
    let ending = match (outcome.complete, interrupt::requested()) {
        (false, true) => PassEnd::Stopped("interrupted".to_owned()),
        _ => PassEnd::Complete,
    };
    let by_hand = outcome.policy.split(':').next().unwrap_or_default();
    let pass = TrimPass {
        by: "hand",
        policy: by_hand,
        policy_settings: request.how.settings(),
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

/// Judges from the layers' counts how far the discards came.
fn deliver(outcome: &mut FilesystemOutcome, fs: &Filesystem, layers: Vec<LayerDiscards>) {
    outcome.layers = layers;
    if outcome.requests == 0 && !outcome.complete {
        // Delivery is judged by requests, and none was made.
        return;
    }
    if outcome.refused.is_empty() {
        let (delivery, remarks) =
            delivery::judge(fs, &outcome.layers, Bytes(outcome.returned_bytes));
        outcome.delivery = Some(delivery);
        outcome.remarks.extend(remarks);
    }
}

/// Waits for the locks of the drives. The filesystem can be unmounted during the wait.
fn lock(
    request: &ManualTrimRequest,
    fs: &mut Filesystem,
    context: &Context,
) -> anyhow::Result<DriveLocks> {
    fs.release();
    let mut waited = false;
    let patience = request.lock_wait;
    let locks =
        DriveLocks::wait(fs.stack(), &run_directory(), Duration::from_nanos(patience.0), |busy| {
            waited = true;
            context.remark(&format!("{busy}; waiting for up to {patience} (--lock-wait)"));
        })?;
    if waited {
        fs.refresh()?;
    }
    Ok(locks)
}
