//! The daemon: watches mounted filesystems and trims each under its policy.
//!
//! The main thread waits for signals and for changes of the mount table. Each filesystem
//! has its own thread, which sleeps until its policy is due. Filesystems are open only
//! during a request, so that they can be unmounted.

pub mod config;
mod control;
mod counter;
pub mod metrics;
pub mod selection;
pub mod socket;
mod state;
mod task;
pub mod wear;

use crate::history::{self, History};
use anyhow::{Context as _, bail};
use config::{Config, Rule};
use control::Control;
use metrics::{Figures, MountVerdict, Published};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sd_notify::NotifyState;
use selection::Selection;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::{DIAGNOSE_EVERY, Task, TaskContext, say};
use trimtab_drive::discards::Amount;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::{self, DevNumber, Mount};
use trimtab_linux::host::root::Root;
use trimtab_linux::output::ClosedPipeGuard;
use trimtab_linux::output::error::one_line;
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::sys::beneath::Dir;
use trimtab_linux::sys::mount_check::MountCheck;
use trimtab_linux::sys::unix_socket::BoundSocket;
use trimtab_linux::trim::lock::{directory_of_locks, lock_file};

/// Mount changes often come in groups; wait for the rest.
const SETTLE: Duration = Duration::from_millis(500);
/// Longest wait of the main thread for the first answers of filesystems.
const FIRST_ANSWER: Duration = Duration::from_millis(500);
/// Interval between checks of filesystems that did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Interval between readings of wear.
const WEAR_EVERY: Duration = Duration::from_secs(86_400);
/// Time for threads to finish their present requests.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// A thread and its filesystem.
struct Worker {
    mount_id: u32,
    dev: DevNumber,
    mount_point: PathBuf,
    /// The directory to check ([`Stack::place_to_check`]).
    place: PathBuf,
    /// A check of it that is still unanswered.
    check: Option<MountCheck>,
    rule: Rule,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// A filesystem that starts once its mount point answers.
struct PendingMount {
    mount: Mount,
    rule: Rule,
    check: MountCheck,
    /// The doctor's last verdict, if the filesystem could not be trimmed before.
    verdict: Option<MountVerdict>,
}

struct Daemon {
    config_path: PathBuf,
    config: Config,
    root: Root,
    common: Arc<TaskContext>,
    workers: Vec<Worker>,
    asked: Vec<PendingMount>,
    /// Figures of the filesystems that cannot be trimmed.
    untrimmed: Vec<Figures>,
    /// Time of the last diagnosis of all of these.
    diagnosed: Instant,
    /// Logged messages that are not repeated.
    said: BTreeSet<String>,
    metrics_written: Option<Instant>,
    /// The text of the last metrics.
    published: Published,
    socket: Option<BoundSocket>,
    wear_read: Option<Instant>,
    /// Threads signal their end here.
    ended: (UnixStream, UnixStream),
}

/// Runs with this configuration until a signal ends it.
pub fn run(config_path: &Path) -> anyhow::Result<()> {
    let config = Config::read(config_path)?;
    let root = Root::live().context("cannot open /")?;
    if !rustix::process::geteuid().is_root() {
        bail!(
            "the daemon needs root, as trimming does; start it as a service \
                (systemctl start trimtab) or with sudo"
        );
    }
    let common = TaskContext {
        state: config.state.clone(),
        history: History::new(&config.state),
        accepted: RwLock::new(config.ignore.clone()),
    };
    check_state(&config.state)?;
    // It trims also where its metrics cannot be written.
    if let Some(Err(error)) = config.metrics.as_deref().map(metrics::check) {
        say(&format!("metrics: {}", one_line(&error)));
    }
    Dir::make_sheltered(&config.state)
        .with_context(|| format!("cannot make {}", config.state.display()))?;
    let mut daemon = Daemon {
        config_path: config_path.to_owned(),
        config,
        root,
        common: Arc::new(common),
        workers: Vec::new(),
        asked: Vec::new(),
        untrimmed: Vec::new(),
        diagnosed: Instant::now(),
        said: BTreeSet::new(),
        metrics_written: None,
        published: Arc::new(Mutex::new(Arc::from(""))),
        socket: None,
        wear_read: None,
        ended: UnixStream::pair().context("cannot make a pair of sockets")?,
    };
    let _only_one = only_one()?;
    let _log_may_close = ClosedPipeGuard::new();
    match daemon.common.history.check() {
        Ok(set_aside) => set_aside.iter().for_each(|set_aside| say(set_aside)),
        Err(error) => say(&format!("{error:#}")),
    }
    daemon.serve()
}

/// The state and the metrics that cannot be written or served, each by its key.
pub fn unusable_places(config: &Config) -> Vec<String> {
    let state = Some(check_state(&config.state));
    let file = config.metrics.as_deref().map(metrics::check);
    let socket = config.metrics_socket.as_deref().map(socket::check);
    let failed = |key, checked: Option<anyhow::Result<()>>| {
        checked?.err().map(|error| format!("{key}: {}", one_line(&error)))
    };
    [("state", state), ("metrics", file), ("metrics-socket", socket)]
        .into_iter()
        .filter_map(|(key, checked)| failed(key, checked))
        .collect()
}

/// Fails if the daemon cannot keep its state and its history in this directory.
pub fn check_state(state: &Path) -> anyhow::Result<()> {
    let checked = Dir::check_sheltered(state)
        .and_then(|()| Dir::sheltered_file(&state.join(history::FILE)).map(drop));
    match checked {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // Left to root, who can look.
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => Ok(()),
        checked => checked.with_context(|| format!("cannot use the directory {}", state.display())),
    }
}

const DAEMON_LOCK: &str = "daemon.lock";

/// Takes the lock that allows only one daemon.
fn only_one() -> anyhow::Result<File> {
    let directory = directory_of_locks(&run_directory())?;
    let locked = lock_file(&directory, DAEMON_LOCK);
    match locked
        .with_context(|| format!("cannot open {}", directory.path().join(DAEMON_LOCK).display()))?
    {
        Ok(file) => Ok(file),
        Err(process) => {
            let process =
                process.map_or_else(String::new, |process| format!(" (process {process})"));
            bail!("another trimtab daemon is running{process}; stop it first")
        }
    }
}

/// A socket that gets data when the signal arrives.
fn signal_pipe(signal: i32) -> std::io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, write)?;
    Ok(read)
}

/// Empties the socket; true if it had data.
fn drained(mut socket: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while let Ok(1..) = socket.read(&mut bytes) {
        any = true;
    }
    any
}

impl Daemon {
    fn serve(&mut self) -> anyhow::Result<()> {
        let (term, int, hup, usr1) = (
            signal_pipe(SIGTERM)?,
            signal_pipe(SIGINT)?,
            signal_pipe(SIGHUP)?,
            signal_pipe(SIGUSR1)?,
        );
        let mounts = self
            .root
            .open(Path::new("/proc/self/mountinfo"))
            .context("cannot open the mount table")?;
        self.ended.0.set_nonblocking(true)?;
        self.reconcile()?;
        self.write_metrics();
        self.socket = self.serve_metrics();
        notify(&[NotifyState::Ready, NotifyState::Status(&self.status())]);
        loop {
            self.read_wear();
            let mut fds = vec![PollFd::from_borrowed_fd(mounts.as_fd(), PollFlags::PRI)];
            fds.extend(
                [&term, &int, &hup, &usr1, &self.ended.0]
                    .map(|socket| PollFd::new(socket, PollFlags::IN)),
            );
            let again = (!self.asked.is_empty()).then_some(ASK_AGAIN);
            let retry = (!self.untrimmed.is_empty())
                .then(|| DIAGNOSE_EVERY.saturating_sub(self.diagnosed.elapsed()));
            let timeout = self
                .until_metrics()
                .into_iter()
                .chain(again)
                .chain(retry)
                .chain([self.until_wear()])
                .min();
            let timeout = timeout.map(|left| Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            });
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error)).context("cannot wait"),
            }
            let mounts_changed = fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR);
            if drained(&term) || drained(&int) {
                break;
            }
            if drained(&hup) {
                self.reload();
            }
            if drained(&usr1) {
                self.workers.iter().for_each(|w| w.control.force());
            }
            let ended = drained(&self.ended.0);
            let is_due = !self.untrimmed.is_empty() && self.diagnosed.elapsed() >= DIAGNOSE_EVERY;
            if is_due {
                self.diagnosed = Instant::now();
                self.untrimmed.clear();
            }
            if mounts_changed || ended || is_due {
                std::thread::sleep(SETTLE);
                self.reconcile()?;
            }
            self.start_answering(Duration::ZERO);
            self.write_metrics();
            notify(&[NotifyState::Status(&self.status())]);
        }
        notify(&[NotifyState::Stopping]);
        self.end();
        self.metrics_written = None;
        self.write_metrics();
        Ok(())
    }

    /// The mounted filesystems that the configuration covers, each once.
    fn wanted(&mut self) -> anyhow::Result<Vec<(Mount, Rule)>> {
        let selection =
            Selection::of(&self.root, &self.config).context("cannot read the mount table")?;
        selection.remarks.into_iter().for_each(|remark| self.say_once(remark));
        Ok(selection.wanted)
    }

    fn say_once(&mut self, text: String) {
        if !self.said.contains(&text) {
            say(&text);
            self.said.insert(text);
        }
    }

    /// Starts and ends threads to match the selected filesystems.
    fn reconcile(&mut self) -> anyhow::Result<()> {
        let wanted = self.wanted()?;
        let untrimmed = std::mem::take(&mut self.untrimmed);
        for worker in &mut self.workers {
            let still = |(m, r): &(Mount, Rule)| {
                m.id == worker.mount_id && m.dev == worker.dev && *r == worker.rule
            };
            if !wanted.iter().any(still) {
                worker.control.stop();
                if let Some(thread) = worker.thread.take() {
                    let patience = if worker.check.is_some() { FIRST_ANSWER } else { END_PATIENCE };
                    join(thread, patience, &worker.mount_point);
                }
            }
        }
        // A thread that ended for good (always refused) stays in the list, so that it is
        // not started again each time.
        let came_back = |w: &Worker| {
            w.control.is_gone() && w.thread.as_ref().is_some_and(JoinHandle::is_finished)
        };
        self.workers.retain(|w| w.thread.is_some() && !came_back(w));
        self.asked.retain(|one| {
            wanted
                .iter()
                .any(|(m, r)| m.id == one.mount.id && m.dev == one.mount.dev && *r == one.rule)
        });
        for (mount, rule) in wanted {
            let is_known =
                self.workers.iter().any(|w| w.mount_id == mount.id && w.dev == mount.dev)
                    || self
                        .asked
                        .iter()
                        .any(|one| one.mount.id == mount.id && one.mount.dev == mount.dev);
            if !is_known {
                let shown = mount.mount_point.display().to_string();
                let verdict = untrimmed
                    .iter()
                    .find(|figures| figures.mount_point == shown)
                    .and_then(|figures| figures.verdict.clone());
                match MountCheck::start(&self.place_to_check(&mount)) {
                    Ok(check) => self.asked.push(PendingMount { mount, rule, check, verdict }),
                    Err(_) => self.start(&mount, rule, verdict),
                }
            }
        }
        self.start_answering(FIRST_ANSWER);
        let silent = self
            .asked
            .iter()
            .map(|one| one.mount.mount_point.display().to_string())
            .collect::<Vec<_>>();
        silent.into_iter().for_each(|shown| {
            self.say_once(format!("{shown} does not answer; it starts when it does"))
        });
        Ok(())
    }

    /// Starts threads for the filesystems that answer within `patience`.
    fn start_answering(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        for mut one in std::mem::take(&mut self.asked) {
            if one.check.answers_within(until.saturating_duration_since(Instant::now())) {
                self.start(&one.mount, one.rule, one.verdict);
            } else {
                self.asked.push(one);
            }
        }
    }

    /// Asks all filesystems for an answer and waits a moment, except for those that did
    /// not answer the last time.
    fn ask_all(&mut self) {
        let until = Instant::now() + FIRST_ANSWER;
        let mut started = Vec::new();
        for worker in &mut self.workers {
            started.push(worker.check.is_none());
            worker.check = worker.check.take().or_else(|| MountCheck::start(&worker.place).ok());
        }
        for (worker, started) in self.workers.iter_mut().zip(started) {
            let patience = if started {
                until.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let silent = worker.check.as_mut().is_some_and(|check| !check.answers_within(patience));
            worker.check = worker.check.take().filter(|_| silent);
            worker.control.figures().silent = silent;
        }
    }

    fn place_to_check(&self, mount: &Mount) -> PathBuf {
        let mounts = mountinfo::read(&self.root).unwrap_or_default();
        let stack = Stack::of_mount(&self.root, &mounts, mount);
        stack.place_to_check(mount).to_owned()
    }

    fn start(&mut self, mount: &Mount, rule: Rule, verdict: Option<MountVerdict>) {
        let control = Arc::new(Control::default());
        control.figures().verdict = verdict;
        let opened = Task::open(
            Arc::clone(&self.common),
            Arc::clone(&control),
            rule.clone(),
            &mount.mount_point,
            mount.id,
        );
        let task = match opened {
            Ok(task) => task,
            Err(error) => {
                self.untrimmed.extend(
                    Some(control.figures().clone())
                        .filter(|figures| !figures.mount_point.is_empty()),
                );
                return self.say_once(format!("{error:#}"));
            }
        };
        say(&task.introduction());
        let ended = match self.ended.1.try_clone() {
            Ok(socket) => socket,
            Err(error) => return say(&format!("{}: {error}", mount.mount_point.display())),
        };
        let run = move || {
            task.run();
            let _ = (&ended).write_all(b".");
        };
        let spawned =
            std::thread::Builder::new().name("trim".into()).stack_size(512 << 10).spawn(run);
        match spawned {
            Ok(thread) => {
                self.workers.push(Worker {
                    mount_id: mount.id,
                    dev: mount.dev,
                    mount_point: mount.mount_point.clone(),
                    place: self.place_to_check(mount),
                    check: None,
                    rule,
                    control,
                    thread: Some(thread),
                });
            }
            Err(error) => {
                say(&format!("{}: cannot start a thread: {error}", mount.mount_point.display()))
            }
        }
    }

    /// Applies a changed configuration; an invalid one changes nothing.
    fn reload(&mut self) {
        if let (Ok(now), true) =
            (NotifyState::monotonic_usec_now(), std::env::var_os("NOTIFY_SOCKET").is_some())
        {
            notify(&[NotifyState::Reloading, now]);
        }
        match Config::read(&self.config_path) {
            Ok(mut config) => {
                let Config { state, metrics_socket, .. } = &self.config;
                if config.state != *state {
                    say("state has changed: restart the daemon to apply it");
                }
                if config.metrics_socket != *metrics_socket {
                    say("metrics-socket has changed: restart the daemon to apply it");
                }
                config.state.clone_from(state);
                config.metrics_socket.clone_from(metrics_socket);
                *self.common.accepted.write().unwrap_or_else(PoisonError::into_inner) =
                    config.ignore.clone();
                self.config = config;
                self.said.clear();
                self.untrimmed.clear();
                match self.reconcile() {
                    Ok(()) => say("the configuration has been read again"),
                    Err(error) => say(&format!("{error:#}")),
                }
            }
            Err(error) => say(&format!("{error}; the configuration stays as it was")),
        }
        notify(&[NotifyState::Ready]);
    }

    fn end(&mut self) {
        self.workers.iter().for_each(|w| w.control.stop());
        self.ask_all();
        let until = Instant::now() + END_PATIENCE;
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A thread that waits for a silent filesystem ends with the process.
                let shown = worker.mount_point.display();
                let patience = if worker.check.is_some() {
                    say(&format!("{shown} does not answer; the daemon ends without it"));
                    FIRST_ANSWER
                } else {
                    until.saturating_duration_since(Instant::now())
                };
                join(thread, patience, &worker.mount_point);
            }
        }
    }

    fn figures(&self) -> Vec<Figures> {
        let watched = self.workers.iter().map(|w| w.control.figures().clone());
        let silent = self.asked.iter().map(|one| Figures {
            mount_point: one.mount.mount_point.display().to_string(),
            fs_type: one.mount.fs_type.clone(),
            policy: one.rule.policy.name().to_owned(),
            verdict: one.verdict.clone(),
            silent: true,
            ..Figures::default()
        });
        watched.chain(silent).chain(self.untrimmed.iter().cloned()).collect()
    }

    fn status(&self) -> String {
        let all = self.figures();
        let sent: Amount = all.iter().map(|f| f.sent).sum();
        let running = all.iter().filter(|f| f.running).count();
        let silent = all.iter().filter(|f| f.silent).count();
        let silent = if silent > 0 { format!("{silent} not answering, ") } else { String::new() };
        format!(
            "{} filesystems, {running} being trimmed, {silent}{} discarded since start",
            all.len(),
            sent.bytes
        )
    }

    /// Time until the next update of the metrics; `None` without metrics.
    fn until_metrics(&self) -> Option<Duration> {
        self.config.metrics.as_ref().or(self.config.metrics_socket.as_ref())?;
        let every = Duration::from_nanos(self.config.metrics_every.0);
        Some(self.metrics_written.map_or(Duration::ZERO, |at| every.saturating_sub(at.elapsed())))
    }

    fn until_wear(&self) -> Duration {
        self.wear_read.map_or(Duration::ZERO, |at| WEAR_EVERY.saturating_sub(at.elapsed()))
    }

    /// Reads the wear of the drives in a thread of its own: a drive may take seconds to
    /// answer.
    fn read_wear(&mut self) {
        if self.until_wear() > Duration::ZERO {
            return;
        }
        self.wear_read = Some(Instant::now());
        let state = self.config.state.clone();
        let read = move || {
            let read =
                Root::live().context("cannot open /").and_then(|root| wear::read(&root, &state));
            if let Err(error) = read {
                say(&format!("the wear of the drives is not kept: {error:#}"));
            }
        };
        if let Err(error) =
            std::thread::Builder::new().name("wear".into()).stack_size(512 << 10).spawn(read)
        {
            self.say_once(format!("cannot start a thread: {error}"));
        }
    }

    /// Serves the metrics, if configured. A socket that fails does not stop the trims.
    fn serve_metrics(&self) -> Option<BoundSocket> {
        let path = self.config.metrics_socket.as_ref()?;
        let served = socket::serve(path, Arc::clone(&self.published));
        served.map_err(|error| say(&format!("the metrics are not served: {error:#}"))).ok()
    }

    fn write_metrics(&mut self) {
        if self.until_metrics() != Some(Duration::ZERO) {
            return;
        }
        self.metrics_written = Some(Instant::now());
        self.ask_all();
        let text = metrics::render(&self.figures());
        if let Some(path) = &self.config.metrics
            && let Err(error) = metrics::write(path, &text)
        {
            self.say_once(format!("the metrics are not written: {error:#}"));
        }
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
        if self.socket.as_ref().is_some_and(|socket| !socket.is_in_place()) {
            self.say_once(
                "the metrics socket was removed or replaced: restart the daemon to serve the \
                    metrics again"
                    .to_owned(),
            );
        }
    }
}

/// Waits for the thread of a filesystem for a limited time: some filesystems' requests
/// cannot be interrupted. Logs a wait that takes long.
fn join(thread: JoinHandle<()>, patience: Duration, mount_point: &Path) {
    let start = Instant::now();
    let mut is_logged = false;
    while !thread.is_finished() && start.elapsed() < patience {
        if !is_logged && start.elapsed() >= SETTLE {
            say(&format!("{}: waiting for its present request", mount_point.display()));
            is_logged = true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if thread.is_finished() && thread.join().is_err() {
        say("a thread panicked; its filesystem is no longer watched");
    }
}

/// Notifies systemd; ignores its absence.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn state_below_directory_of_others_is_refused_before_it_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let state = other.join("new/state");
        assert!(check_state(&state).is_ok() && !other.join("new").exists());
        fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
        let error = format!("{:#}", check_state(&state).unwrap_err());
        assert!(error.contains("others may write to it") && !other.join("new").exists(), "{error}");
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&other, Some(1), None).unwrap();
            let error = format!("{:#}", check_state(&state).unwrap_err());
            assert!(error.contains("it belongs to another user"), "{error}");
        }
    }
}
