//! What others meet on a real filesystem beside a policy's trims: somebody appends and makes durable, 50 times a second, while a tree is deleted
//! and what it held is discarded. The counterpart of [`light_work`] on modelled drives, measured.

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
use trimtab_sim::runner::recorder::{Recorded, Recorder};
use trimtab_sim::runner::{End, Events, Progress, files};
use trimtab_sim::target::Trimmable as _;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetError, TargetResult};
use trimtab_sim::workload::tree::{self, Tree, TreeList};
use trimtab_study::study::light_work::{APPENDS_MAX, BLOCK, BUSY, Met};
use trimtab_study::study::{policy, policy_events};

/// So long it goes on before anything is deleted, and after the last discard.
const QUIET: Duration = Duration::from_millis(500);
/// So long discards of a filesystem that sends them by itself are looked at.
const ONLINE_LASTS: Duration = Duration::from_secs(2);
const FILE: &str = "light-work";

/// A directory of the workspace for what others do, and one for the tree.
#[derive(Debug)]
pub struct Places {
    /// Where the tree goes.
    pub tree: DirTarget,
    /// Where others work.
    pub others: DirTarget,
}

impl Places {
    /// Two new directories in `workspace`, with one clock.
    ///
    /// # Errors
    /// Directories that cannot be made.
    pub fn new(workspace: &Workspace, name: &str, seed: u64) -> anyhow::Result<Self> {
        let epoch = Instant::now();
        let make = |what: &str, fsync| -> anyhow::Result<DirTarget> {
            let (dir, path) = workspace.subdirectory(&format!("{name}-{what}"))?;
            Ok(DirTarget::new(dir, &path, DirOptions { seed, fsync, ..DirOptions::default() }).with_epoch(epoch))
        };
        Ok(Self { tree: make("tree", Fsync::Never)?, others: make("others", Fsync::Close)? })
    }
}

/// Whoever works beside it, and what is known to both.
struct Beside<'a, E> {
    /// Whoever watches.
    inner: &'a mut E,
    policy: &'a str,
    /// The filesystem discards what it frees.
    online: bool,
    /// Before it begins.
    others: Option<DirTarget>,
    working: Option<JoinHandle<TargetResult<(Met, Recorded)>>>,
    shared: Arc<Shared>,
    met: Option<(Met, Recorded)>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// Discards may be under way.
    trimming: AtomicBool,
}

impl Shared {
    /// Appends until it is over.
    fn work(&self, mut target: DirTarget) -> TargetResult<(Met, Recorded)> {
        let block = Payload::Fill { len: BLOCK, class: DataClass::Random };
        target.create(FILE, &block)?;
        let (mut met, started) = (Met::default(), target.now());
        let mut recorder = Recorder::new(started);
        recorder.begin_phase(BUSY.phase, started);
        let mut due = started;
        for _ in 0..APPENDS_MAX {
            if self.over.load(Ordering::Acquire) || interrupt::requested() {
                break;
            }
            target.idle_until(due);
            let (begun, trimming) = (target.now(), self.trimming.load(Ordering::Acquire));
            target.append(FILE, &block)?;
            let done = target.now();
            // A trim that began meanwhile is what it may have waited for.
            let trimming = trimming || self.trimming.load(Ordering::Acquire);
            recorder.op(OpKind::Append, begun, done, BLOCK);
            met.wait.record(done.saturating_sub(begun));
            met.backlog.record(begun.saturating_sub(due));
            met.over_time.record(due - started, done.saturating_sub(due), trimming);
            due += BUSY.interval;
        }
        let now = target.now();
        Ok((met, recorder.finish(now)))
    }
}

impl<E> Beside<'_, E> {
    fn begin(&mut self) -> TargetResult {
        let Some(target) = self.others.take() else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("others".to_owned()).spawn(move || shared.work(target));
        self.working = Some(thread.map_err(|error| TargetError {
            action: "start",
            object: "a thread".to_owned(),
            reason: error.to_string(),
            errno: error.raw_os_error(),
        })?);
        std::thread::sleep(QUIET);
        Ok(())
    }

    /// Does what the policy does once files are gone.
    fn trim(&self, target: &mut MountedDir) -> TargetResult {
        if self.online {
            // They come with the commit of what was deleted. The appends set off some of their own, so they never stand still.
            std::thread::sleep(ONLINE_LASTS);
        }
        if self.policy == policy::BATCHED {
            self.shared.trimming.store(true, Ordering::Release);
            target.trim_all()?;
        }
        self.shared.trimming.store(false, Ordering::Release);
        std::thread::sleep(QUIET);
        Ok(())
    }

    fn end(&mut self) -> TargetResult {
        self.shared.over.store(true, Ordering::Release);
        let Some(working) = self.working.take() else { return Ok(()) };
        self.met = Some(working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        Ok(())
    }
}

impl<E: Events<MountedDir>> Events<MountedDir> for Beside<'_, E> {
    fn stopped(&self) -> bool {
        self.inner.stopped()
    }

    fn progress(&mut self, progress: Progress<'_>) -> TargetResult {
        self.inner.progress(progress)
    }

    fn between(&mut self, target: &mut MountedDir, recorder: &mut Recorder, next: Option<&str>) -> TargetResult {
        match next {
            Some(tree::DELETE) => {
                self.begin()?;
                self.shared.trimming.store(self.online, Ordering::Release);
            }
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

/// Unpacks and deletes the tree of `list` under `policy` while somebody works beside it, and adds to `run` what they met: a phase, figures, and
/// latencies over time.
///
/// # Errors
/// What the filesystem does not do.
pub fn measure<E: Events<MountedDir>>(
    run: &mut Run,
    places: Places,
    list: &Arc<TreeList>,
    policy: &str,
    online: bool,
    inner: &mut E,
) -> anyhow::Result<End> {
    let mut target = MountedDir::new(places.tree);
    let mut beside = Beside { inner, policy, online, others: Some(places.others), working: None, shared: Arc::default(), met: None };
    let outcome = files::run(&mut Tree::new(Arc::clone(list), 1), &mut target, &mut beside);
    // Also if it failed: nobody goes on writing.
    let ended = beside.end();
    if let (End::Complete, Some((met, recorded))) = (&outcome.end, beside.met.take()) {
        run.metrics.extend(met.metrics(BUSY));
        run.pictures.latencies.push(met.over_time.finish(BUSY.phase));
        let began = run.phases.last().map(|last| last.started.saturating_add(last.took)).unwrap_or_default();
        run.phases.extend(recorded.phases.into_iter().map(|phase| trimtab_sim::run::Phase { started: began, ..phase }));
    }
    match outcome.end {
        End::Complete => ended.map(|()| End::Complete).map_err(Into::into),
        other => Ok(other),
    }
}
