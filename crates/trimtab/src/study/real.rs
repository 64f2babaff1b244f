//! A directory on a mounted filesystem as the target of a study.

use super::foreground_probe::{self, ProbeDirectories};
use super::run::{Offer, Rig};
use crate::postmark::execution;
use crate::store::recipe::starts_now;
use crate::trim::harm::harm;
use anyhow::Context as _;
use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::{self, Mount};
use trimtab_linux::host::root::Root;
use trimtab_linux::host::{EnvironmentRecorder, Place, environment};
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::ProgressPart;
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::session::discard_change::DiscardChange;
use trimtab_linux::session::discard_option::{DiscardOption, mount_of};
use trimtab_linux::session::safety::{Workspace, consent};
use trimtab_linux::session::{ProgressWatch, assemble};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::target::overhead::Overhead;
use trimtab_linux::trim::fitrim;
use trimtab_linux::trim::limit::CommandLimit;
use trimtab_linux::trim::lock::{DriveLocks, directory_of_locks, lock_file};
use trimtab_report::run::instant;
use trimtab_sim::run::{Field, Run, STUDY_TAKEN, TargetKind};
use trimtab_sim::runner::RunEnd;
use trimtab_sim::workload::FileWorkload as _;
use trimtab_sim::workload::tree::{Tree, TreeList};
use trimtab_study::study::job::{self, Job};
use trimtab_study::study::matrix::repeats;
use trimtab_study::study::policy;
use trimtab_study::study::policy_events::PolicyEvents;
use trimtab_study::study::untried::OmissionReason;

/// Largest change of the fill, in percent, for resuming a study: writes of other
/// processes in between have little effect.
const FILL_TOLERANCE_PERCENT: f64 = 3.0;

/// Policies that can be tried on a directory's filesystem.
#[derive(Debug)]
pub struct Possibilities {
    mount: Mount,
    /// Identifies this filesystem as mounted.
    identity: String,
    discard: DiscardOption,
    trim_obstacle: Option<String>,
    remount_obstacle: Option<String>,
    /// Held until the end, so that no other process trims in between.
    locks: Option<DriveLocks>,
}

impl Possibilities {
    /// Examines the filesystem of `path` without changing anything.
    pub fn find(path: &Path) -> anyhow::Result<Self> {
        let mount = mount_of(path)?;
        let dir = trimtab_linux::sys::beneath::Dir::open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let root = Root::live().context("cannot open /")?;
        let harm = harm(&root, &mount, &Stack::of_mount(&root, &mountinfo::read(&root)?, &mount));
        let trim_obstacle = harm
            .clone()
            .or_else(|| fitrim::obstacle(Some(&mount), &dir).map(|obstacle| obstacle.to_string()));
        let remount_obstacle = harm.or_else(|| remount_obstacle(&mount));
        let identity = identity(&mount, path, &dir)?;
        Ok(Self {
            discard: DiscardOption::of(&mount),
            identity,
            mount,
            trim_obstacle,
            remount_obstacle,
            locks: None,
        })
    }

    /// Fails if `workspace` is on another filesystem than the one examined by name: its
    /// mount option must not be changed.
    pub fn require_of(&self, workspace: &Workspace) -> anyhow::Result<()> {
        workspace.require_on(Some(&self.mount))
    }

    /// The requested policies, with the one that the filesystem is mounted with renamed
    /// to `as-mounted`, and a remark for each renamed one.
    pub fn named(&self, asked: &[String]) -> (Vec<String>, Vec<String>) {
        let same = if self.discard.is_on() { policy::ONLINE } else { policy::NONE };
        let is_same =
            |name: &&String| name.as_str() == same && self.discard_under(same) == self.discard;
        let remarks = asked.iter().filter(is_same).map(|name| {
            format!(
                "{} is mounted with {}, so '{name}' is '{}' here.",
                self.mount.mount_point.display(),
                self.discard,
                policy::AS_MOUNTED
            )
        });
        let mut names: Vec<String> = Vec::new();
        for name in asked {
            let name = if is_same(&name) { policy::AS_MOUNTED.to_owned() } else { name.clone() };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (names, remarks.collect())
    }

    /// True if a policy that trims will be tried. Without one, nothing is trimmed.
    fn trims(&self, wanted: &[String]) -> bool {
        let is_batched =
            |offer: &Offer| offer.policy == policy::BATCHED && offer.obstacle.is_none();
        (wanted.is_empty() || wanted.iter().any(|p| p == policy::BATCHED))
            && self.offers().iter().any(is_batched)
    }

    /// Announces that free space will be trimmed, if so.
    pub fn announce(&self, context: &Context) {
        if self.locks.is_some() {
            let point = self.mount.mount_point.display();
            let text = format!("All free space of {point} will be trimmed, also between runs.");
            context.remark(&text);
        }
    }

    /// Locks the drives until the end, if a policy trims. If another process is trimming
    /// them, such policies are not tried.
    pub fn lock(&mut self, path: &Path, wanted: &[String]) {
        if !self.trims(wanted) {
            return;
        }
        match lock_drives(path) {
            Ok(locks) => self.locks = Some(locks),
            Err(error) => self.trim_obstacle = Some(format!("{error:#}")),
        }
    }

    /// All policies; `as-mounted` is the baseline.
    pub fn offers(&self) -> Vec<Offer> {
        let offer = |policy: &str, obstacle: Option<OmissionReason>| Offer {
            policy: policy.to_owned(),
            obstacle,
        };
        let (trim, remount) = (
            self.trim_obstacle.clone().map(OmissionReason::Obstacle),
            self.remount_obstacle.clone().map(OmissionReason::Obstacle),
        );
        let as_mounted = offer(policy::AS_MOUNTED, None);
        let mut offers = if self.discard.is_on() {
            vec![
                as_mounted,
                offer(policy::NONE, remount.clone()),
                offer(policy::BATCHED, trim.or(remount)),
            ]
        } else {
            vec![
                as_mounted,
                offer(policy::BATCHED, trim.clone()),
                offer(policy::ONLINE, remount.or(trim)),
            ]
        };
        offers.extend(
            [policy::ADAPTIVE, policy::IDLE]
                .map(|policy| offer(policy, Some(OmissionReason::ModelledOnly))),
        );
        offers
    }

    /// The filesystem's discard option under `policy`.
    fn discard_under(&self, policy: &str) -> DiscardOption {
        match policy {
            policy::AS_MOUNTED => self.discard.clone(),
            policy::ONLINE => DiscardOption::online(&self.mount.fs_type),
            _ => DiscardOption::Off,
        }
    }

    /// True if a possible policy needs another mount option.
    fn remounts(&self, wanted: &[String]) -> bool {
        let is_wanted = |offer: &Offer| wanted.is_empty() || wanted.contains(&offer.policy);
        let possible = |offer: &Offer| {
            offer.obstacle.is_none() && self.discard_under(&offer.policy) != self.discard
        };
        self.offers().iter().any(|offer| is_wanted(offer) && possible(offer))
    }

    /// Asks for consent to change the mount option temporarily, if needed. Without
    /// consent, these policies are not tried.
    pub fn ask(&mut self, context: &Context, wanted: &[String]) -> anyhow::Result<()> {
        if !self.remounts(wanted) {
            return Ok(());
        }
        let other = if self.discard.is_on() {
            DiscardOption::Off
        } else {
            DiscardOption::online(&self.mount.fs_type)
        };
        let question = format!(
            "For some runs, {} will be remounted with {other}, and afterwards with \
                {} again. This affects all its users. Continue?",
            self.mount.mount_point.display(),
            self.discard
        );
        if !consent::ask(context, &question)? {
            self.remount_obstacle = Some("remounting needs your consent (--yes)".to_owned());
        }
        Ok(())
    }
}

/// Type, UUID, size, options and drives of the mounted filesystem, and creation time and
/// inode of its root, which `mkfs` changes even if it is given the same UUID.
fn identity(
    mount: &Mount,
    path: &Path,
    dir: &trimtab_linux::sys::beneath::Dir,
) -> anyhow::Result<String> {
    let stat = statvfs(path).with_context(|| format!("cannot access {}", path.display()))?;
    let place = Place::of_path(&Root::live()?, path)
        .with_context(|| format!("cannot find {}", path.display()))?;
    let uuid = trimtab_linux::sys::filesystem::uuid(dir);
    let size = stat.f_blocks.saturating_mul(stat.f_frsize);
    let stack = environment::describe(&place.stack);
    let Mount { dev, fs_type, options, fs_options, .. } = mount;
    let root =
        statx(CWD, &mount.mount_point, AtFlags::empty(), StatxFlags::BTIME | StatxFlags::INO)
            .with_context(|| format!("cannot access {}", mount.mount_point.display()))?;
    let made = (root.stx_mask & StatxFlags::BTIME.bits() != 0)
        .then_some((root.stx_btime.tv_sec, root.stx_btime.tv_nsec));
    let made = format!("{} {made:?}", root.stx_ino);
    Ok(format!(
        "{fs_type} {uuid:?} {} {size} {options} {fs_options} {dev} {stack} {made}",
        stat.f_fsid
    ))
}

/// Keeps other studies off a filesystem. The lock ends with the process.
#[derive(Debug)]
pub struct FilesystemLock {
    _lock: Option<File>,
}

impl FilesystemLock {
    /// Fails if another study is running on the filesystem of `path`: each would disturb
    /// the other and mistake its mount option for the user's.
    pub fn on(path: &Path) -> anyhow::Result<Self> {
        let mount = mount_of(path)?;
        let Ok(directory) = directory_of_locks(&run_directory()) else {
            return Ok(Self { _lock: None });
        };
        match lock_file(&directory, &format!("study-{}", mount.dev)) {
            Ok(Ok(file)) => Ok(Self { _lock: Some(file) }),
            Ok(Err(process)) => {
                let who =
                    process.map_or_else(String::new, |process| format!(" (process {process})"));
                anyhow::bail!(
                    "another study is running on {}{who}; wait until it ends",
                    mount.mount_point.display()
                )
            }
            // A user who cannot write the lock file cannot change the mount either.
            Err(_) => Ok(Self { _lock: None }),
        }
    }
}

/// Takes the locks of the drives below `path`, which every trim takes.
pub fn lock_drives(path: &Path) -> anyhow::Result<DriveLocks> {
    let root = Root::live()?;
    let place =
        Place::of_path(&root, path).with_context(|| format!("cannot find {}", path.display()))?;
    let locks = DriveLocks::take(&place.stack, &run_directory())?;
    // A limit left lowered by an interrupted trim would distort the measurement.
    let _ = CommandLimit::of_stack(&root, &place.stack).recover();
    Ok(locks)
}

fn remount_obstacle(mount: &Mount) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("changing the discard option needs root".to_owned());
    }
    match mount.fs_type.as_str() {
        "ext4" | "btrfs" | "f2fs" => None,
        "xfs" => {
            Some("xfs changes its discard option only by unmounting and mounting again".to_owned())
        }
        other => {
            Some(format!("{other} has no known discard option that can be changed while mounted"))
        }
    }
}

/// Directory options for a job.
fn dir_options(job: &Job) -> DirOptions {
    let options = match job {
        Job::Tree { .. } => DirOptions::default(),
        Job::Postmark(workload) => execution::dir_options(workload.inner().settings()),
    };
    DirOptions { seed: job.seed(), ..options }
}

/// The tool's own cost of a job.
fn overhead(job: &Job) -> Overhead {
    match job {
        Job::Tree { list, .. } => {
            Overhead::of_files(&mut Tree::new(Arc::clone(list), 1), Some(list.class()))
        }
        Job::Postmark(workload) => Overhead::of_files(&mut workload.as_ref().clone(), None),
    }
}

/// Runs jobs in a workspace.
#[derive(Debug)]
pub struct RealRig<'a> {
    context: &'a Context,
    label: String,
    path: PathBuf,
    workspace: Workspace,
    possibilities: Possibilities,
    trim_before: bool,
    runs: u64,
    /// The tool's own cost of each job, once measured.
    overheads: BTreeMap<&'static str, Overhead>,
}

impl<'a> RealRig<'a> {
    /// A study of `path`, named `label` by the user, in `workspace`. Everything is
    /// trimmed before the first run, or with `trim_before` before each, if possible, so
    /// that all start alike.
    pub fn new(
        context: &'a Context,
        label: &str,
        path: &Path,
        workspace: Workspace,
        possibilities: Possibilities,
        trim_before: bool,
    ) -> Self {
        Self {
            context,
            label: label.to_owned(),
            path: path.to_owned(),
            workspace,
            possibilities,
            trim_before,
            runs: 0,
            overheads: BTreeMap::new(),
        }
    }

    /// Ends the rig and returns the workspace.
    pub fn into_workspace(self) -> Workspace {
        self.workspace
    }

    /// Removes the directory of a run. A failure must not lose the run: it is reported
    /// and retried at the end of the study.
    fn remove_run(&self, name: &str) {
        if let Err(error) = self.workspace.remove_subdirectory(name) {
            self.context.remark(&format!("{error:#}"));
        }
    }

    /// Sets the discard option for a policy; dropping the result restores it.
    fn change_option(&self, discard: &DiscardOption) -> anyhow::Result<Option<DiscardChange>> {
        let possibilities = &self.possibilities;
        if *discard == possibilities.discard {
            return Ok(None);
        }
        DiscardChange::set(&possibilities.mount, discard).map(Some)
    }

    /// Measures foreground I/O while a tree is deleted under `policy`.
    fn probe_foreground(
        &mut self,
        run: &mut Run,
        list: &Arc<TreeList>,
        policy: &str,
        online: bool,
    ) -> anyhow::Result<RunEnd> {
        let name = format!("beside-{}", self.runs);
        let places = ProbeDirectories::new(&self.workspace, &name, 1)?;
        let plan = Tree::new(Arc::clone(list), 1).plan();
        let mut watch = ProgressWatch::new(
            self.context,
            &format!("foreground load, {policy}"),
            &plan,
            Some(self.workspace.guard()?),
        );
        let end = foreground_probe::measure(run, places, list, policy, online, &mut watch)?;
        run.complete &= end == RunEnd::Complete;
        for what in ["tree", "others"] {
            self.remove_run(&format!("{name}-{what}"));
        }
        Ok(end)
    }

    /// The start of a run of `job`.
    fn header(&self, job: &Job, policy: &str, discard: &DiscardOption) -> Run {
        let (name, settings, seed) = (job.name(), job.settings(), job.seed());
        let mut header =
            starts_now(name, settings, TargetKind::Directory, &self.label, policy, seed);
        header.policy_settings.push(Field::new(policy::DISCARD, discard.to_string()));
        header
    }
}

impl Rig for RealRig<'_> {
    fn offers(&self) -> Vec<Offer> {
        self.possibilities.offers()
    }

    fn identity(&self, job: &Job, policy: &str) -> (Run, String) {
        let header = self.header(job, policy, &self.possibilities.discard_under(policy));
        let place = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        (
            header,
            format!("{} {} {}", place.display(), self.trim_before, self.possibilities.identity),
        )
    }

    fn accepts(&self, earlier: &Run) -> bool {
        let fill = |run: &Run| {
            Field::find(&run.environment, "fs.fill")?.trim_end_matches(" %").parse::<f64>().ok()
        };
        let now = statvfs(&self.path).ok().filter(|stat| stat.f_blocks > 0);
        let now = now.map(|stat| {
            100.0 * stat.f_blocks.saturating_sub(stat.f_bfree) as f64 / stat.f_blocks as f64
        });
        now.zip(fill(earlier))
            .is_some_and(|(now, then)| (now - then).abs() <= FILL_TOLERANCE_PERCENT)
    }

    fn takes(&self, found: usize, taken: &mut [Run]) {
        for run in &mut *taken {
            let n = repeats(run);
            let s = if n == 1 { "" } else { "s" };
            let text = format!("{n} repeat{s}, started {}", instant(run.started_unix_ms));
            self.context.remark(&format!(
                "Reused from an interrupted study: {} {}, {text}.",
                run.workload, run.policy
            ));
            run.environment.retain(|field| field.key != STUDY_TAKEN);
            run.environment.push(Field::new(STUDY_TAKEN, text));
        }
        if taken.is_empty() && found > 0 {
            self.context.remark(
                "None of them matches these settings and this filesystem, mounted \
                    and filled as it is now: everything is measured.",
            );
        }
    }

    fn run(
        &mut self,
        job: &Job,
        policy: &str,
        part: &ProgressPart,
    ) -> anyhow::Result<(Run, RunEnd)> {
        self.runs += 1;
        let discard = self.possibilities.discard_under(policy);
        let changed = self.change_option(&discard)?;
        let observer = EnvironmentRecorder::start(&self.path)
            .with_context(|| format!("cannot access {}", self.path.display()))?;
        self.workspace.require_on(observer.place().mount.as_ref())?;
        let name = format!("run-{}", self.runs);
        let (dir, path) = self.workspace.subdirectory(&name)?;
        let mut target = MountedDir::new(DirTarget::new(dir, &path, dir_options(job)));
        let header = self.header(job, policy, &discard);
        let mut watch =
            ProgressWatch::part(self.context, part, &job.plan(), Some(self.workspace.guard()?));
        // Locked drives mean that trims will follow.
        let trim_before =
            self.possibilities.locks.is_some() && (self.trim_before || self.runs == 1);
        let mut events =
            PolicyEvents { inner: &mut watch, policy, trim_before, online: discard.is_on() };
        let outcome = job.run(&mut target, &mut events);
        drop(watch);
        let mut assembled = assemble(header, Some(observer), outcome, job::metrics);
        if assembled.1 == RunEnd::Complete
            && let Some(list) = job.beside()?
        {
            assembled.1 =
                self.probe_foreground(&mut assembled.0, &list, policy, discard.is_on())?;
        }
        // Before the run is stored, so that output and store agree.
        self.overheads.entry(job.name()).or_insert_with(|| overhead(job)).note(&mut assembled.0);
        self.remove_run(&name);
        changed.map_or(Ok(()), |changed| {
            changed.restore().context("cannot restore the mount options")
        })?;
        Ok(assembled)
    }
}
