//! The daemon: watches mounted filesystems and lets a policy trim each of them.
//!
//! The main thread waits for signals and for changes of the mount table; each filesystem has a thread of its own, which sleeps
//! until its policy wants to be asked. Filesystems are open only while a request runs, so that they can be unmounted.

pub mod config;
mod control;
mod counter;
mod iops_limit;
mod metrics;
mod state;
mod task;

use crate::host::block::Stack;
use crate::host::mountinfo::{self, DevNumber, Mount};
use crate::host::root::Root;
use crate::session::directories::run_directory;
use crate::sys::beneath::{Dir, PRIVATE_FILE};
use crate::trim::history::History;
use crate::trim::lock::directory_of_locks;
use anyhow::{Context as _, bail};
use config::{Config, Rule};
use control::Control;
use metrics::Figures;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::{Common, Task, say};
use trimtab_core::discards::Amount;

/// Mounting often goes on for a moment.
const SETTLE: Duration = Duration::from_millis(500);
/// How long threads get to end their present requests.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// What `trimtab daemon` was asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration.
    pub config: PathBuf,
    /// Only ask every policy once, with the system going down.
    pub shutdown: bool,
}

/// A thread and the filesystem that it is for.
struct Worker {
    mount_id: u32,
    dev: DevNumber,
    rule: Rule,
    control: Arc<Control>,
    gone: Arc<AtomicBool>,
    figures: Arc<Mutex<Figures>>,
    thread: Option<JoinHandle<()>>,
}

struct Daemon {
    options: Options,
    config: Config,
    root: Root,
    common: Arc<Common>,
    workers: Vec<Worker>,
    /// What has been said, so that it is not said each time.
    said: BTreeSet<String>,
    metrics_written: Option<Instant>,
    /// Threads that end say so here.
    ended: (UnixStream, UnixStream),
}

/// Runs until told to end.
pub fn run(options: Options) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let root = Root::live().context("cannot open /")?;
    if !rustix::process::geteuid().is_root() {
        bail!("the daemon needs root: trimming (FITRIM) is for root");
    }
    let common = Common { state: config.state.clone(), history: History::new(&config.state), shutting_down: options.shutdown };
    Dir::open_or_make(&config.state).with_context(|| format!("cannot make {}", config.state.display()))?;
    let mut daemon = Daemon {
        options,
        config,
        root,
        common: Arc::new(common),
        workers: Vec::new(),
        said: BTreeSet::new(),
        metrics_written: None,
        ended: UnixStream::pair().context("cannot make a pair of sockets")?,
    };
    if daemon.options.shutdown {
        return daemon.shut_down();
    }
    let _only_one = only_one()?;
    daemon.serve()
}

const DAEMON_LOCK: &str = "daemon.lock";

/// The lock that only one daemon has.
fn only_one() -> anyhow::Result<File> {
    let directory = directory_of_locks(&run_directory())?;
    let opened = directory.open_or_create(DAEMON_LOCK, PRIVATE_FILE);
    let (mut file, _) = opened.with_context(|| format!("cannot open {}", directory.path().join(DAEMON_LOCK).display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut process = String::new();
        let _ = (&mut file).take(20).read_to_string(&mut process);
        bail!("another trimtab daemon is running (process {})", process.trim());
    }
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// One signal, as something that can be waited for together with other things.
struct SignalPipe {
    read: UnixStream,
}

impl SignalPipe {
    fn new(signal: i32) -> std::io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal, write)?;
        Ok(Self { read })
    }

    /// Whether it came since the last call.
    fn came(&self) -> bool {
        drained(&self.read)
    }
}

/// Whether anything was written into the other end.
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
        let signals = [SIGTERM, SIGINT, SIGHUP, SIGUSR1].map(SignalPipe::new);
        let [term, int, hup, usr1] = signals;
        let (term, int, hup, usr1) = (term?, int?, hup?, usr1?);
        let mounts = self.root.open(Path::new("/proc/self/mountinfo")).context("cannot open the mount table")?;
        self.ended.0.set_nonblocking(true)?;
        self.reconcile()?;
        notify(&[NotifyState::Ready, NotifyState::Status(&self.status())]);
        loop {
            let mut fds = vec![PollFd::from_borrowed_fd(mounts.as_fd(), PollFlags::PRI)];
            fds.extend([&term, &int, &hup, &usr1].map(|s| PollFd::new(&s.read, PollFlags::IN)));
            fds.push(PollFd::new(&self.ended.0, PollFlags::IN));
            let timeout = self.until_metrics().map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error)).context("cannot wait"),
            }
            let mounts_changed = fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR);
            if term.came() || int.came() {
                break;
            }
            if hup.came() {
                self.reload();
            }
            if usr1.came() {
                self.workers.iter().for_each(|w| w.control.force());
            }
            let ended = drained(&self.ended.0);
            if mounts_changed || ended {
                std::thread::sleep(SETTLE);
                self.reconcile()?;
            }
            self.write_metrics();
            notify(&[NotifyState::Status(&self.status())]);
        }
        notify(&[NotifyState::Stopping]);
        self.end();
        self.metrics_written = None;
        self.write_metrics();
        Ok(())
    }

    /// Every policy is asked with the system going down, one filesystem after the other.
    fn shut_down(&mut self) -> anyhow::Result<()> {
        for (mount, rule) in self.wanted()? {
            let control = Arc::new(Control::default());
            match Task::open(Arc::clone(&self.common), control, rule, &mount.mount_point, mount.id) {
                Ok(task) => task.run(),
                Err(error) => say(&format!("{error:#}")),
            }
        }
        Ok(())
    }

    /// The mounted filesystems that the configuration is about, each once.
    fn wanted(&mut self) -> anyhow::Result<Vec<(Mount, Rule)>> {
        let mounts = mountinfo::read(&self.root).context("cannot read the mount table")?;
        let mut wanted: Vec<(Mount, Rule)> = Vec::new();
        let named = |m: &&Mount| self.config.rules.iter().any(|r| r.path.as_deref() == Some(m.mount_point.as_path()));
        // Those named come first: the others get the default only if they are other filesystems.
        let (first, rest): (Vec<&Mount>, Vec<&Mount>) = mounts.iter().partition(named);
        let mut remarks = Vec::new();
        for mount in first.into_iter().chain(rest) {
            let Some(rule) = self.config.rule_for(&mount.mount_point) else { continue };
            // Mounted over: what is below cannot be reached.
            let top = mounts.iter().rev().find(|m| m.mount_point == mount.mount_point).is_some_and(|m| m.id == mount.id);
            let same = |(m, _): &(Mount, Rule)| {
                m.dev == mount.dev || (m.fs_type == "btrfs" && mount.fs_type == "btrfs" && m.source == mount.source)
            };
            if !top || wanted.iter().any(same) {
                continue;
            }
            if Stack::of_mount(&self.root, &mounts, mount).tops.is_empty() {
                if rule.path.is_some() {
                    remarks.push(format!(
                        "{} ({}) is not on a block device: there is nothing to trim",
                        mount.mount_point.display(),
                        mount.fs_type
                    ));
                }
                continue;
            }
            wanted.push((mount.clone(), rule.clone()));
        }
        for rule in &self.config.rules {
            if let Some(path) = rule.path.as_ref().filter(|p| !mounts.iter().any(|m| m.mount_point == **p)) {
                remarks.push(format!("{} is not mounted; it is taken up when it is", path.display()));
            }
        }
        remarks.into_iter().for_each(|remark| self.say_once(remark));
        Ok(wanted)
    }

    fn say_once(&mut self, text: String) {
        if !self.said.contains(&text) {
            say(&text);
            self.said.insert(text);
        }
    }

    /// Starts and ends threads so that they are those of the filesystems that are wanted.
    fn reconcile(&mut self) -> anyhow::Result<()> {
        let wanted = self.wanted()?;
        for worker in &mut self.workers {
            let still = |(m, r): &(Mount, Rule)| m.id == worker.mount_id && m.dev == worker.dev && *r == worker.rule;
            if !wanted.iter().any(still) {
                worker.control.stop();
                if let Some(thread) = worker.thread.take() {
                    join(thread, END_PATIENCE);
                }
            }
        }
        // What has ended by itself for good (refused for ever) stays in the list: it is not tried again each time.
        let came_back = |w: &Worker| w.gone.load(Ordering::Relaxed) && w.thread.as_ref().is_some_and(JoinHandle::is_finished);
        self.workers.retain(|w| w.thread.is_some() && !came_back(w));
        for (mount, rule) in wanted {
            if !self.workers.iter().any(|w| w.mount_id == mount.id && w.dev == mount.dev) {
                self.start(&mount, rule);
            }
        }
        Ok(())
    }

    fn start(&mut self, mount: &Mount, rule: Rule) {
        let control = Arc::new(Control::default());
        let opened = Task::open(Arc::clone(&self.common), Arc::clone(&control), rule.clone(), &mount.mount_point, mount.id);
        let task = match opened {
            Ok(task) => task,
            Err(error) => return self.say_once(format!("{error:#}")),
        };
        say(&task.introduction());
        let (figures, gone) = (task.figures(), task.gone());
        let ended = match self.ended.1.try_clone() {
            Ok(socket) => socket,
            Err(error) => return say(&format!("{}: {error}", mount.mount_point.display())),
        };
        let run = move || {
            task.run();
            let _ = (&ended).write_all(b".");
        };
        let spawned = std::thread::Builder::new().name("trim".into()).stack_size(512 << 10).spawn(run);
        match spawned {
            Ok(thread) => {
                self.workers.push(Worker { mount_id: mount.id, dev: mount.dev, rule, control, gone, figures, thread: Some(thread) });
            }
            Err(error) => say(&format!("{}: no thread can be started: {error}", mount.mount_point.display())),
        }
    }

    /// Takes up a changed configuration; a wrong one changes nothing.
    fn reload(&mut self) {
        if let (Ok(now), true) = (NotifyState::monotonic_usec_now(), std::env::var_os("NOTIFY_SOCKET").is_some()) {
            notify(&[NotifyState::Reloading, now]);
        }
        match Config::read(&self.options.config) {
            Ok(config) if config.state != self.config.state => {
                say("state cannot be changed while running; the configuration stays as it was")
            }
            Ok(config) => {
                self.config = config;
                self.said.clear();
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
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                join(thread, END_PATIENCE);
            }
        }
    }

    fn figures(&self) -> Vec<Figures> {
        self.workers.iter().map(|w| w.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    fn status(&self) -> String {
        let all = self.figures();
        let sent: Amount = all.iter().map(|f| f.sent).sum();
        let running = all.iter().filter(|f| f.running).count();
        format!("{} filesystems, {running} being trimmed, {} discarded since start", all.len(), sent.bytes)
    }

    /// Time until metrics are due; `None` if there are none.
    fn until_metrics(&self) -> Option<Duration> {
        self.config.metrics.as_ref()?;
        let every = Duration::from_nanos(self.config.metrics_every.0);
        Some(self.metrics_written.map_or(Duration::ZERO, |at| every.saturating_sub(at.elapsed())))
    }

    fn write_metrics(&mut self) {
        let Some(path) = self.config.metrics.clone().filter(|_| self.until_metrics() == Some(Duration::ZERO)) else { return };
        self.metrics_written = Some(Instant::now());
        if let Err(error) = metrics::write(&path, &self.figures()) {
            self.say_once(format!("cannot write metrics to {}: {error}", path.display()));
        }
    }
}

/// Waits for a thread, but not for ever: a request to some filesystems cannot be interrupted.
fn join(thread: JoinHandle<()>, patience: Duration) {
    let until = Instant::now() + patience;
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    if thread.is_finished() && thread.join().is_err() {
        say("a thread ended in a panic; its filesystem is not watched any more");
    }
}

/// Tells systemd; not being started by it is no error.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
