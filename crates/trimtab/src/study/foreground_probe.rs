//! Foreground I/O during a policy's trims on a real filesystem: 50 durable appends per
//! second while a tree is deleted and its space discarded. The measured counterpart of
//! [`light_work`] on modelled drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::sys::interrupt;
use trimtab_linux::target::dir::{DirOptions, DirTarget, Fsync};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_sim::op::Payload;
use trimtab_sim::run::Run;
use trimtab_sim::run::RunRecording;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunEnd, RunProgress, files};
use trimtab_sim::target::TrimTarget as _;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetError, TargetResult};
use trimtab_sim::workload::tree::{self, Tree, TreeList};
use trimtab_study::study::light_work::{APPENDS_MAX, BLOCK, BUSY, LoadLatencies};
use trimtab_study::study::{policy, policy_events};

/// Time with appends only, before the deletes and after the last discard.
const QUIET: Duration = Duration::from_millis(500);
/// Observation time for discards that a filesystem sends on its own.
const ONLINE_LASTS: Duration = Duration::from_secs(2);
const FILE: &str = "light-work";

/// Directories of the workspace for foreground I/O and for the tree.
#[derive(Debug)]
pub struct ProbeDirectories {
    /// Directory of the tree.
    pub tree: DirTarget,
    /// Directory of the foreground I/O.
    pub others: DirTarget,
}

impl ProbeDirectories {
    /// Creates two directories in `workspace`, with one clock.
    ///
    /// # Errors
    /// The directories cannot be created.
    pub fn new(workspace: &Workspace, name: &str, seed: u64) -> anyhow::Result<Self> {
        let epoch = Instant::now();
        let make = |what: &str, fsync| -> anyhow::Result<DirTarget> {
            let (dir, path) = workspace.subdirectory(&format!("{name}-{what}"))?;
            Ok(DirTarget::new(dir, &path, DirOptions { seed, fsync, ..DirOptions::default() })
                .with_epoch(epoch))
        };
        Ok(Self { tree: make("tree", Fsync::Never)?, others: make("others", Fsync::Close)? })
    }
}

/// State shared with the foreground thread.
struct ForegroundEvents<'a, E> {
    /// Receives the events.
    inner: &'a mut E,
    policy: &'a str,
    /// The filesystem discards what it frees.
    online: bool,
    /// The foreground directory, until the thread starts.
    others: Option<DirTarget>,
    working: Option<JoinHandle<TargetResult<(LoadLatencies, RunRecording)>>>,
    over: Arc<AtomicBool>,
    met: Option<(LoadLatencies, RunRecording)>,
}

/// Appends until `over`.
fn work(over: &AtomicBool, mut target: DirTarget) -> TargetResult<(LoadLatencies, RunRecording)> {
    let block = Payload::Fill { len: BLOCK, class: DataClass::Random };
    target.create(FILE, &block)?;
    let (mut met, started) = (LoadLatencies::default(), target.now());
    let mut recorder = Recorder::new(started);
    recorder.begin_phase(BUSY.phase, started);
    let mut due = started;
    for _ in 0..APPENDS_MAX {
        if over.load(Ordering::Acquire) || interrupt::requested() {
            break;
        }
        target.idle_until(due);
        let begun = target.now();
        target.append(FILE, &block)?;
        let done = target.now();
        recorder.op(OpKind::Append, begun, done, BLOCK);
        met.wait.record(done.saturating_sub(begun));
        met.backlog.record(begun.saturating_sub(due));
        due += BUSY.interval;
    }
    let now = target.now();
    Ok((met, recorder.finish(now)))
}

impl<E> ForegroundEvents<'_, E> {
    fn begin(&mut self) -> TargetResult {
        let Some(target) = self.others.take() else { return Ok(()) };
        let over = Arc::clone(&self.over);
        let thread = std::thread::Builder::new()
            .name("others".to_owned())
            .spawn(move || work(&over, target));
        self.working = Some(thread.map_err(|error| TargetError {
            action: "start",
            object: "a thread".to_owned(),
            reason: error.to_string(),
            errno: error.raw_os_error(),
        })?);
        std::thread::sleep(QUIET);
        Ok(())
    }

    /// Trims as the policy does after deletes.
    fn trim(&self, target: &mut MountedDir) -> TargetResult {
        if self.online {
            // Discards follow the commit of the deletes. The appends cause some of their
            // own, so discards never stop.
            std::thread::sleep(ONLINE_LASTS);
        }
        if self.policy == policy::BATCHED {
            target.trim_all()?;
        }
        std::thread::sleep(QUIET);
        Ok(())
    }

    fn end(&mut self) -> TargetResult {
        self.over.store(true, Ordering::Release);
        let Some(working) = self.working.take() else { return Ok(()) };
        self.met = Some(working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        Ok(())
    }
}

impl<E: Observer> Observer for ForegroundEvents<'_, E> {
    fn stopped(&self) -> bool {
        self.inner.stopped()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.inner.progress(progress)
    }
}

impl<E: Events<MountedDir>> Events<MountedDir> for ForegroundEvents<'_, E> {
    fn between(
        &mut self,
        target: &mut MountedDir,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        match next {
            Some(tree::DELETE) => self.begin()?,
            Some(_) => {}
            None => {
                match (self.policy, self.online) {
                    (policy::BATCHED, _) => self.inner.begins(policy_events::TRIM),
                    (_, true) => self.inner.begins(policy_events::DRAIN),
                    _ => {}
                }
                self.trim(target)?;
                self.end()?;
            }
        }
        self.inner.between(target, recorder, next)
    }
}

/// Unpacks and deletes the tree of `list` under `policy` during foreground I/O, and adds
/// the foreground results to `run`: a phase and figures.
///
/// # Errors
/// An operation of the filesystem fails.
pub fn measure<E: Events<MountedDir>>(
    run: &mut Run,
    places: ProbeDirectories,
    list: &Arc<TreeList>,
    policy: &str,
    online: bool,
    inner: &mut E,
) -> anyhow::Result<RunEnd> {
    let mut target = MountedDir::new(places.tree);
    let mut events = ForegroundEvents {
        inner,
        policy,
        online,
        others: Some(places.others),
        working: None,
        over: Arc::default(),
        met: None,
    };
    let outcome = files::run(&mut Tree::new(Arc::clone(list), 1), &mut target, &mut events);
    // Also after a failure, so that the thread stops writing.
    let ended = events.end();
    if let (RunEnd::Complete, Some((met, recorded))) = (&outcome.end, events.met.take()) {
        run.metrics.extend(met.metrics(BUSY));
        let began = run
            .phases
            .last()
            .map(|last| last.started.saturating_add(last.took))
            .unwrap_or_default();
        run.phases.extend(
            recorded
                .phases
                .into_iter()
                .map(|phase| trimtab_sim::run::Phase { started: began, ..phase }),
        );
    }
    match outcome.end {
        RunEnd::Complete => ended.map(|()| RunEnd::Complete).map_err(Into::into),
        other => Ok(other),
    }
}
