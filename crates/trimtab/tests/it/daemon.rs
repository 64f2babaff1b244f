//! The daemon on real filesystems: it trims exactly what its rules allow, and survives
//! machine events such as suspend and crashes.

use crate::attached_drive::{ok, slow_trims};
use crate::support::{LoopMount, have_root, have_tool, process, skip, trimtab, unavailable};
use predicates::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use trimtab_linux::host::Place;
use trimtab_linux::host::discards::Meter;
use trimtab_linux::host::root::Root;

/// Each test has its own locks and state, but the tests measure time, so only one runs at
/// once.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct Daemon {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Daemon {
    fn start(config: &Path) -> Self {
        let (send, lines) = channel();
        let mut daemon = Self::start_with(config, |stderr| {
            let stderr = BufReader::new(stderr);
            std::thread::spawn(move || {
                stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)))
            });
        });
        daemon.lines = lines;
        daemon
    }

    fn start_with(config: &Path, read: impl FnOnce(ChildStderr)) -> Self {
        let mut child = process()
            .args(["daemon", "--config"])
            .arg(config)
            .env("TRIMTAB_RUNTIME_DIR", config.with_file_name("run"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        read(child.stderr.take().unwrap());
        Self { child, lines: channel().1, seen: Vec::new() }
    }

    /// Waits for a journal line that contains `part`.
    fn wait_for(&mut self, part: &str) -> String {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => {
                    panic!("no line with '{part}' ({error}); there were {:#?}", self.seen)
                }
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{:#?}", self.seen);
        self.seen.extend(self.lines.iter());
        self.seen.clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Set {
    directory: tempfile::TempDir,
}

impl Set {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn config(&self, rules: &str) -> PathBuf {
        let path = self.directory.path().join("trimtab.toml");
        let text = format!(
            "[daemon]\nstate = \"{0}/state\"\nmetrics = \"{0}/trimtab.prom\"\n\
                metrics-every = \"1s\"\n{rules}",
            self.directory.path().display()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// The program, with this set's locks.
    fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", self.directory.path().join("run")).args(args);
        command
    }

    fn metrics(&self) -> String {
        fs::read_to_string(self.directory.path().join("trimtab.prom")).unwrap_or_default()
    }

    fn history(&self) -> Vec<Value> {
        let store = self.directory.path().join("state/history.db");
        let run =
            trimtab().args(["results", "list", "--json", "--store"]).arg(store).assert().success();
        let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        document["runs"].as_array().unwrap().clone()
    }
}

fn rule(path: &Path, policy: &str) -> String {
    format!("[[filesystem]]\npath = \"{}\"\npolicy = \"{policy}\"\n", path.display())
}

fn sent(meter: &Meter) -> u64 {
    meter.count().unwrap().bytes.0
}

#[test]
fn daemon_trims_configured_filesystems_only() {
    let _one = ONE.lock();
    let (Some(named), Some(other)) =
        (LoopMount::new("ext4", 256, "nodiscard"), LoopMount::new("xfs", 512, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let config = set.config(
        &(rule(&named.path(), "none")
            + &rule(Path::new("/proc"), "idle")
            + &rule(Path::new("/no/such/mount"), "idle")),
    );
    let (on_named, on_other) =
        (Meter::start(&named.path()).unwrap(), Meter::start(&other.path()).unwrap());
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("/proc (proc) is not on a block device");
    daemon.wait_for("/no/such/mount is not mounted");
    daemon.wait_for("[ext4]: none, by the filesystem's counter, in block groups");
    assert_eq!(sent(&on_named), 0, "nothing before it is asked for");

    set.command(&["daemon", "--config"])
        .arg(&config)
        .assert()
        .code(1)
        .stderr(predicate::str::contains("another trimtab daemon is running"));

    daemon.signal(Signal::USR1);
    let line = daemon.wait_for("pass complete");
    assert!(line.contains("reached the drives"), "{line}");
    assert!(sent(&on_named) > 200 << 20, "{}", sent(&on_named));
    assert_eq!(sent(&on_other), 0);

    // The daemon ignores an invalid configuration and loads a valid one.
    fs::write(&config, "[[filesystem]]\npath = 5\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.wait_for("the configuration stays as it was");
    set.config(&rule(&other.path(), "batched:every=168h"));
    daemon.signal(Signal::HUP);
    daemon.wait_for("[xfs]: batched");
    daemon.wait_for("has been read again");
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    assert!(sent(&on_other) > 400 << 20);
    std::thread::sleep(Duration::from_millis(1200));
    let label =
        format!("mountpoint=\"{}\",fstype=\"xfs\",policy=\"batched\"", other.path().display());
    assert!(
        set.metrics().contains(&format!("trimtab_passes_total{{{label}}} 1")),
        "{}",
        set.metrics()
    );
    let lines = daemon.end();
    assert_eq!(
        lines.iter().filter(|l| l.contains("/proc (proc)")).count(),
        1,
        "said once: {lines:#?}"
    );
    let history = set.history();
    assert_eq!(history.len(), 2, "{history:#?}");
    assert!(
        history.iter().all(|r| r["workload"] == "trim" && r["complete"] == true),
        "{history:#?}"
    );
}

#[test]
fn daemon_resumes_stopped_pass_after_restart() {
    let _one = ONE.lock();
    let Some((_drive, mount)) = slow_trims("ext4", "2GiB", (200, 0), &[]) else { return };
    let set = Set::new();
    // 16 groups.
    let config = set.config(&rule(mount.path(), "idle"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[ext4]: idle");
    let meter = Meter::start(mount.path()).unwrap();
    daemon.signal(Signal::USR1);
    daemon.wait_for("begins a pass");
    let until = Instant::now() + Duration::from_secs(20);
    while sent(&meter) < 128 << 20 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = daemon.end();
    assert!(
        lines.iter().any(|l| l.contains("pass stopped (asked to stop), continues later")),
        "{lines:#?}"
    );
    let first = sent(&meter);
    assert!(first > 0 && first < 1500 << 20, "{first}");
    assert_eq!(set.history()[0]["complete"], false);

    let mut daemon = Daemon::start(&config);
    daemon.wait_for("continues a pass that was interrupted");
    daemon.wait_for("pass complete");
    drop(daemon.end());
    let all = sent(&meter);
    // On a busy machine, one of the 16 pieces may be sent again.
    assert!(all > 1900 << 20 && all < (2100 + 128) << 20, "{all}: every window once");
}

/// The daemon limits command size only during a pass. Between passes other processes trim
/// without that limit.
#[test]
fn discard_limit_is_restored_after_pass_and_crash() {
    let _one = ONE.lock();
    let Some((_drive, mount)) = slow_trims("ext4", "1GiB", (0, 4000), &[]) else { return };
    let stack = Place::of_path(&Root::live().unwrap(), mount.path()).unwrap().stack;
    let file = stack.top_layers().next().unwrap().queue().join("discard_max_bytes");
    let limit = || fs::read_to_string(&file).unwrap().trim().parse::<u64>().unwrap();
    // A driver's default limit may be slightly larger than the largest value that can be
    // written.
    let own = limit() - 8192;
    let lowered = || {
        let until = Instant::now() + Duration::from_secs(10);
        while limit() > own && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        limit()
    };
    let set = Set::new();
    let config = set.config(&rule(mount.path(), "idle"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[ext4]: idle");
    // A pass of some seconds, in small commands.
    let begin = |daemon: &Daemon| {
        let sync = || {
            let top = fs::File::open(mount.path()).unwrap();
            rustix::fs::syncfs(std::os::fd::AsFd::as_fd(&top)).unwrap();
        };
        fs::write(mount.path().join("file"), vec![1; 256 << 20]).unwrap();
        sync();
        fs::remove_file(mount.path().join("file")).unwrap();
        sync();
        daemon.signal(Signal::USR1);
    };
    for _ in 0..2 {
        begin(&daemon);
        assert!((1..=32 << 20).contains(&lowered()), "{}", limit());
        daemon.wait_for("pass complete");
        assert!(limit() > own, "{}", limit());
    }
    begin(&daemon);
    assert!(lowered() < own);
    // In the middle of a pass, while the daemon runs.
    set.command(&["trim"])
        .arg(mount.path())
        .assert()
        .success()
        .stdout(predicate::str::contains("restored").not());
    daemon.seen.extend(daemon.lines.try_iter());
    assert!(!daemon.seen.iter().any(|l| l.contains("restored")), "{:#?}", daemon.seen);
    // The daemon's pass may have ended while that trim waited for its own discards.
    begin(&daemon);
    assert!(lowered() < own);
    daemon.signal(Signal::KILL);
    drop(daemon);
    assert!(limit() < own);
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("again: a killed process had set");
    daemon.wait_for("[ext4]: idle");
    assert!(limit() > own, "{}", limit());
    daemon.end();
}

/// Each pass is recorded separately: a signal during a pass starts another pass, and
/// together they send more than the free space.
#[test]
fn signal_during_pass_starts_a_separate_pass() {
    let _one = ONE.lock();
    // XFS sends all free space in each pass.
    let Some((_drive, mount)) = slow_trims("xfs", "512MiB", (200, 0), &[]) else { return };
    let set = Set::new();
    let config = set.config(&rule(mount.path(), "idle"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[xfs]: idle");
    daemon.signal(Signal::USR1);
    daemon.wait_for("begins a pass");
    std::thread::sleep(Duration::from_millis(250));
    daemon.signal(Signal::USR1);
    let free = rustix::fs::statvfs(mount.path()).map(|s| s.f_bfree * s.f_frsize).unwrap();
    daemon.wait_for("pass complete");
    daemon.wait_for("begins another pass");
    daemon.wait_for("pass complete");
    drop(daemon.end());
    let history = set.history();
    assert_eq!(history.len(), 2, "{history:#?}");
    for run in &history {
        let id = run["id"].as_str().unwrap();
        let store = set.directory.path().join("state/history.db");
        let shown = trimtab()
            .args(["results", "show", id, "--json", "--store"])
            .arg(store)
            .assert()
            .success();
        let document: Value = serde_json::from_slice(&shown.get_output().stdout).unwrap();
        let sent = document["phases"][0]["discards"]["accepted_bytes"]
            .as_u64()
            .unwrap_or_else(|| panic!("{document}"));
        // An idle-time pass measures the cost of a command, and sends those pieces again.
        assert!(
            sent < free / 2 * 3 && sent >= free / 2,
            "{sent} reached a filesystem with {free} free"
        );
        assert_eq!(document["complete"], true);
    }
}

fn write(path: &Path, mib: usize) {
    for _ in 0..mib / 10 {
        let mut file = fs::File::create(path.join("file")).unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 10 << 20]).unwrap();
        file.sync_all().unwrap();
    }
}

/// The threshold is half of about 200 MiB free space: 60 MiB before a crash and 30 MiB
/// after it stay below, 40 MiB more exceed it.
#[test]
fn daemon_counts_written_bytes_across_a_crash() {
    let _one = ONE.lock();
    for (fs_type, counter_name) in
        [("ext4", "the filesystem's counter"), ("btrfs", "the kernel's counter of the device")]
    {
        let Some(mount) =
            LoopMount::new(fs_type, if fs_type == "ext4" { 256 } else { 320 }, "nodiscard")
        else {
            return skip("root, loop devices and mkfs");
        };
        let set = Set::new();
        let config = set.config(&rule(&mount.path(), "adaptive:share=50%:at-most=1s:poll=100ms"));
        let free = rustix::fs::statvfs(mount.path()).map(|s| s.f_bfree * s.f_frsize).unwrap() >> 20;
        assert!((200..320).contains(&free), "{free}");
        let mut daemon = Daemon::start(&config);
        assert!(daemon.wait_for("adaptive").contains(counter_name));
        std::thread::sleep(Duration::from_millis(800));
        write(&mount.path(), 60);
        std::thread::sleep(Duration::from_millis(300));
        daemon.signal(Signal::KILL);
        drop(daemon);
        // These writes count although the daemon does not poll now.
        write(&mount.path(), 20);
        let mut daemon = Daemon::start(&config);
        daemon.wait_for("adaptive");
        std::thread::sleep(Duration::from_millis(1500));
        daemon.seen.extend(daemon.lines.try_iter());
        assert!(
            !daemon.seen.iter().any(|l| l.contains("begins a pass")),
            "{fs_type}: {:#?}",
            daemon.seen
        );
        write(&mount.path(), usize::try_from(free / 2).unwrap() - 40);
        daemon.wait_for("begins a pass");
        daemon.wait_for("pass complete");
        daemon.end();
    }
}

#[test]
fn adaptive_without_writes_trims_by_time() {
    let _one = ONE.lock();
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let policy = rule(&mount.path(), "adaptive:at-least=2s:at-most=1s:poll=200ms");
    let mut daemon = Daemon::start(&set.config(&policy));
    daemon.wait_for("adaptive");
    let started = Instant::now();
    daemon.wait_for("begins a pass");
    assert!(started.elapsed() > Duration::from_millis(1500), "{:?}", started.elapsed());
    daemon.wait_for("pass complete");
    daemon.end();
}

#[test]
fn daemon_does_not_block_umount_during_pass() {
    let _one = ONE.lock();
    let Some((_drive, mount)) = slow_trims("ext4", "2GiB", (200, 0), &[]) else { return };
    let set = Set::new();
    let config = set.config(&rule(mount.path(), "idle"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[ext4]: idle");
    daemon.signal(Signal::USR1);
    daemon.wait_for("begins a pass");
    std::thread::sleep(Duration::from_millis(300));
    let device = trimtab_linux::session::discard_option::mount_of(mount.path()).unwrap().source;
    // It is busy during a command.
    let unmounted = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Command::new("umount").arg(mount.path()).output().unwrap().status.success()
    });
    assert!(unmounted);
    daemon.wait_for("continues later");
    assert!(Command::new("mount").arg(&device).arg(mount.path()).status().unwrap().success());
    daemon.wait_for("continues a pass that was interrupted");
    daemon.wait_for("pass complete");
    daemon.end();
}

/// FITRIM ends early and reports success when the freezer stops the task. The daemon
/// trims such windows again.
#[test]
fn daemon_pass_frozen_by_cgroup_trims_everything() {
    let _one = ONE.lock();
    let Some(freezer) = Freezer::new() else {
        return unavailable("the freezer of control groups, version 1");
    };
    let Some(mount) = LoopMount::new("xfs", 2048, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    for i in 0..4000 {
        fs::write(mount.path().join(i.to_string()), vec![1; 16 << 10]).unwrap();
    }
    rustix::fs::syncfs(std::os::fd::AsFd::as_fd(&fs::File::open(mount.path()).unwrap())).unwrap();
    (0..4000).step_by(2).for_each(|i| fs::remove_file(mount.path().join(i.to_string())).unwrap());
    rustix::fs::syncfs(std::os::fd::AsFd::as_fd(&fs::File::open(mount.path()).unwrap())).unwrap();
    let set = Set::new();
    let config = set.config(&rule(&mount.path(), "none"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[xfs]: none");
    let meter = Meter::start(&mount.path()).unwrap();
    freezer.add(&daemon.child);
    daemon.signal(Signal::USR1);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(5));
        freezer.set("FROZEN");
        std::thread::sleep(Duration::from_millis(450));
        freezer.set("THAWED");
    }
    daemon.wait_for("pass complete");
    daemon.end();
    assert!(meter.count().unwrap().count >= 2000, "{:?}", meter.count());
}

struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/freezer")
            .join(format!("trimtab-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn add(&self, child: &Child) {
        fs::write(self.0.join("cgroup.procs"), child.id().to_string()).unwrap();
    }

    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        let _ = (0..50).find(|_| {
            std::thread::sleep(Duration::from_millis(20));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

/// FITRIM on ext4 reports success for discards that the drive refused, so this also tests
/// detection.
#[test]
fn daemon_stops_trimming_drive_that_refuses_every_trim() {
    let _one = ONE.lock();
    let Some((_drive, mount)) =
        slow_trims("ext4", "256MiB", (0, 0), &["--fault", "trim-error:p=1"])
    else {
        return;
    };
    let set = Set::new();
    let trim = set.command(&["trim"]).arg(mount.path()).assert().code(1);
    trim.stdout(
        predicate::str::contains("refused at 0+").and(predicate::str::contains("os error 5")),
    );
    let mut daemon = Daemon::start(&set.config(&rule(mount.path(), "batched")));
    daemon.wait_for("[ext4]: batched");
    // The kernel counts failed commands like successful ones.
    let meter = Meter::start(mount.path()).unwrap();
    let failed = || meter.count().unwrap().count;
    daemon.signal(Signal::USR1);
    let line = daemon.wait_for("was refused");
    assert!(line.contains("error 5"), "{line}");
    std::thread::sleep(Duration::from_millis(1500));
    let first = failed();
    assert!(
        first > 0 && first < 200,
        "one window was asked for once, not again and again: {first}"
    );
    // A repeated signal gets an immediate retry, but only a limited number of times.
    let mut asked = 0;
    while !daemon.seen.iter().any(|l| l.contains("paused for")) {
        daemon.signal(Signal::USR1);
        asked += 1;
        assert!(asked < 150, "{:#?}", daemon.seen);
        std::thread::sleep(Duration::from_millis(300));
        daemon.seen.extend(daemon.lines.try_iter());
    }
    let then = failed();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(failed(), then);
    let lines = daemon.end();
    assert!(lines.iter().filter(|l| l.contains("was refused")).count() <= 4, "{lines:#?}");
    let metrics = set.metrics();
    for name in ["trimtab_passes_failed_total", "trimtab_requests_refused_total"] {
        let sample = metrics.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
        assert!(!sample.ends_with(" 0"), "{metrics}");
    }
    let history = set.history();
    // Each signal during a pass ends its record and starts another.
    assert!(
        !history.is_empty() && history.iter().all(|pass| pass["complete"] == false),
        "{history:#?}"
    );
}

#[test]
fn daemon_survives_power_cut_and_resumes_pass() {
    let _one = ONE.lock();
    let fault = ["--fault", "power-cut"];
    let Some((drive, mount)) = slow_trims("ext4", "256MiB", (100, 0), &fault) else { return };
    let set = Set::new();
    let mut daemon = Daemon::start(&set.config(&rule(mount.path(), "idle")));
    daemon.wait_for("[ext4]: idle");
    daemon.signal(Signal::USR1);
    daemon.wait_for("begins a pass");
    std::thread::sleep(Duration::from_millis(700));
    drive.power("cut");
    daemon.wait_for("was refused");
    drive.power("on");
    let path = mount.path().to_owned();
    ok(Command::new("umount").arg(&path));
    daemon.wait_for("continues later");
    ok(Command::new("mount").args(["-o", "nodiscard"]).arg(&drive.device).arg(&path));
    daemon.wait_for("continues a pass that was interrupted");
    daemon.wait_for("pass complete");
    daemon.end();
    let history = set.history();
    let complete: Vec<bool> = history.iter().map(|r| r["complete"].as_bool().unwrap()).collect();
    assert!(complete.contains(&true) && complete.contains(&false), "{history:#?}");
}

/// The drive is unplugged during a pass.
#[test]
fn daemon_survives_removal_of_drive_during_pass() {
    let _one = ONE.lock();
    let fault = ["--fault", "power-cut"];
    let Some((drive, mount)) = slow_trims("ext4", "256MiB", (100, 0), &fault) else { return };
    let Some(other) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let rules = rule(mount.path(), "idle") + &rule(&other.path(), "none");
    let mut daemon = Daemon::start(&set.config(&rules));
    daemon.wait_for("idle");
    daemon.wait_for("none");
    daemon.signal(Signal::USR1);
    daemon.wait_for("begins a pass");
    std::thread::sleep(Duration::from_millis(500));
    ok(Command::new("umount").arg("--lazy").arg(mount.path()));
    drive.command().args(["drive", "detach", "--all", "--force"]).assert().success();
    daemon.wait_for("continues later");
    // The daemon still serves the other filesystem.
    let meter = Meter::start(&other.path()).unwrap();
    fs::write(other.path().join("file"), vec![1; 8 << 20]).unwrap();
    rustix::fs::syncfs(std::os::fd::AsFd::as_fd(&fs::File::open(other.path()).unwrap())).unwrap();
    fs::remove_file(other.path().join("file")).unwrap();
    rustix::fs::syncfs(std::os::fd::AsFd::as_fd(&fs::File::open(other.path()).unwrap())).unwrap();
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    assert!(sent(&meter) >= 8 << 20);
    daemon.end();
    assert!(set.history().iter().any(|r| r["complete"] == false), "{:#?}", set.history());
}

#[test]
fn daemon_config_error_names_line_and_key() {
    let set = Set::new();
    let one_line = || predicate::str::contains("\n").count(1);
    let config = set.config(&rule(Path::new("/"), "adaptve"));
    for more in [&["--check"][..], &[]] {
        let run = trimtab().args(["daemon", "--config"]).arg(&config).args(more).assert().code(2);
        run.stderr(
            predicate::str::contains("trimtab.toml:7: policy: there is no trim policy 'adaptve'")
                .and(one_line()),
        );
    }
    let config = set.config(&rule(Path::new("/"), "idle:budget=2ms"));
    trimtab()
        .args(["daemon", "--check", "--config"])
        .arg(&config)
        .assert()
        .success()
        .stdout(predicate::str::contains("budget=2ms"));
    let forged = set.config(&rule(Path::new("/no\\nsuch: forged\\u001b[2J"), "idle"));
    let checked = trimtab().args(["daemon", "--check", "--config"]).arg(&forged).assert();
    let shown = String::from_utf8(checked.success().get_output().stdout.clone()).unwrap();
    assert_eq!(shown.trim_end().lines().count(), 2, "the head and one rule: {shown:?}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let config = set.config(&rule(Path::new("/"), "idle:budget=2ms"));
    let text = std::fs::read_to_string(&config).unwrap();
    for (metrics, status, why) in [
        ("/dev/null", 2, "toml:3: metrics: '/dev/null' is a device; name a file ending in .prom"),
        ("/no/such/a.prom", 1, "cannot open the directory of '/no/such/a.prom'"),
        ("/proc/a.prom", 1, "cannot write '/proc/a.prom'"),
    ] {
        if status == 1 && !crate::support::have_root() {
            continue;
        }
        let own = format!("{}/trimtab.prom", set.directory.path().display());
        std::fs::write(&config, text.replace(&own, metrics)).unwrap();
        let check = trimtab().args(["daemon", "--check", "--config"]).arg(&config).assert();
        // No verdict but the error.
        check.code(status).stdout("").stderr(predicate::str::contains(why).and(one_line()));
    }
    trimtab()
        .args(["daemon", "--check", "--config", "/no/such/file"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("/no/such/file").and(one_line()));
}

#[test]
fn last_pass_metric_is_known_after_a_restart() {
    let _one = ONE.lock();
    let (Some(trimmed), Some(idle)) =
        (LoopMount::new("ext4", 64, "nodiscard"), LoopMount::new("ext4", 64, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    // The sample of a metric, read once the metrics count `passes` passes.
    let sample = |name: &str, passes: u32| {
        let until = Instant::now() + Duration::from_secs(90);
        let of_trimmed = |line: &&str| line.contains(trimmed.path().to_str().unwrap());
        loop {
            let text = set.metrics();
            if text.lines().any(|line| {
                of_trimmed(&line)
                    && line.starts_with("trimtab_passes_total")
                    && line.ends_with(&format!(" {passes}"))
            }) {
                return text
                    .lines()
                    .find(|line| of_trimmed(line) && line.starts_with(name))
                    .map(str::to_owned);
            }
            assert!(Instant::now() < until, "{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let last_pass = |passes: u32| sample("trimtab_last_pass_timestamp", passes);
    let first_seen = |passes: u32| sample("trimtab_first_seen_timestamp", passes).unwrap();
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let config = set.config(&rule(&trimmed.path(), "batched"));
    let started = now();
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[ext4]: batched");
    assert_eq!(last_pass(0), None, "there was no pass");
    let seen = first_seen(0);
    let at: u64 = seen.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((started..=now()).contains(&at), "{seen}");
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    let known = last_pass(1).unwrap();
    let interval = sample("trimtab_pass_interval_seconds", 1).unwrap();
    assert!(interval.ends_with(" 604800"), "every 7 days: {interval}");
    assert!(known.rsplit(' ').next().unwrap().parse::<u64>().unwrap() > 1_600_000_000, "{known}");
    daemon.end();
    fs::remove_file(set.directory.path().join("trimtab.prom")).unwrap();
    // A restart in another second must not look like the first start.
    while now() == at {
        std::thread::sleep(Duration::from_millis(50));
    }

    let mut daemon = Daemon::start(
        &set.config(&(rule(&trimmed.path(), "batched") + &rule(&idle.path(), "batched"))),
    );
    daemon.wait_for("[ext4]: batched");
    daemon.wait_for("[ext4]: batched");
    assert_eq!(last_pass(0), Some(known));
    let samples = set.metrics().matches("\ntrimtab_last_pass_timestamp_seconds{").count();
    assert_eq!(samples, 1, "the other one had no pass");
    assert_eq!(first_seen(0), seen);
    daemon.end();
}

/// A filesystem that accepts no trim has metrics too: it is the one that needs an alert.
#[test]
fn verdict_metric_names_layer_and_accepted_finding() {
    let _one = ONE.lock();
    let (Some(blocked), Some(open)) =
        (LoopMount::new("ext4", 64, "nodiscard"), LoopMount::new("ext4", 64, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let device = blocked.device().trim_start_matches("/dev/").to_owned();
    fs::write(format!("/sys/block/{device}/queue/discard_max_bytes"), "0").unwrap();
    let set = Set::new();
    let wait_for = |mount: &LoopMount, verdict: &str| {
        let start = format!("trimtab_doctor_verdict{{mountpoint=\"{}\"", mount.path().display());
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let text = set.metrics();
            let found = text.lines().find(|line| {
                line.starts_with(&start) && line.contains(&format!(",verdict=\"{verdict}\""))
            });
            if let Some(line) = found {
                return line.to_owned();
            }
            assert!(Instant::now() < until, "no {verdict}: {text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let rules = rule(&blocked.path(), "batched") + &rule(&open.path(), "batched");
    let daemon = Daemon::start(&set.config(&rules));
    wait_for(&open, "reaches");
    let line = wait_for(&blocked, "blocked");
    assert!(line.contains(&format!(",layers=\"{device}")), "{line}");
    crate::mixin::require_clean_metrics(&set.metrics());
    set.config(&(rules + "[doctor]\nignore = [\"blocked\"]\n"));
    daemon.signal(Signal::HUP);
    wait_for(&blocked, "accepted");
    daemon.end();
}

#[test]
fn metrics_socket_serves_the_file_to_its_group() {
    let _one = ONE.lock();
    if !have_root() || !have_tool("curl") || !have_tool("setpriv") {
        return skip("root, curl and setpriv");
    }
    let set = Set::new();
    let directory = set.directory.path();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let socket = directory.join("metrics.sock");
    let config = set.config("");
    let keys = format!("metrics-every = \"1h\"\nmetrics-socket = \"{}\"", socket.display());
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("metrics-every = \"1s\"", &keys)).unwrap();
    // A killed daemon leaves its socket.
    drop(UnixListener::bind(&socket).unwrap());
    let mut daemon = Daemon::start(&config);
    let until = Instant::now() + Duration::from_secs(90);
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < until, "no socket");
        std::thread::sleep(Duration::from_millis(50));
    }
    let _silent = [(); 2].map(|()| UnixStream::connect(&socket).unwrap());
    let curl_as = |group: &str, path: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", group, "--clear-groups", "curl", "-sSi"]);
        let url = format!("http://localhost{path}");
        command.arg("--unix-socket").arg(&socket).arg(url).output().unwrap()
    };
    assert!(!curl_as("--regid=65534", "/metrics").status.success(), "another group");
    let curl = |path: &str| {
        let output = curl_as("--regid=0", path);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let answer = curl("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert_eq!(body, set.metrics());
    assert!(body.contains("\ntrimtab_build_info{"), "{body}");
    crate::mixin::require_clean_metrics(body);
    assert!(curl("/etc/passwd").starts_with("HTTP/1.0 404 "));
    let _ = fs::remove_file(&socket);
    // The other changes apply: metrics every second notice that the socket is gone.
    let text = fs::read_to_string(&config).unwrap().replace("\"1h\"", "\"1s\"");
    fs::write(&config, text.replace("metrics.sock", "other.sock")).unwrap();
    daemon.signal(Signal::HUP);
    daemon.wait_for("metrics-socket has changed: restart the daemon to apply it");
    daemon.wait_for("has been read again");
    daemon.wait_for("the metrics socket was removed or replaced");
    assert!(!daemon.end().iter().any(|line| line.contains("state has changed")));

    let daemon = Daemon::start(&config);
    let socket = directory.join("other.sock");
    while !socket.exists() {
        assert!(Instant::now() < until, "no socket");
        std::thread::sleep(Duration::from_millis(50));
    }
    daemon.end();
    assert!(!socket.exists(), "the daemon removes its socket");

    fs::write(&socket, "mine").unwrap();
    let why = "other.sock' exists and is not a socket";
    let check = trimtab().args(["daemon", "--check", "--config"]).arg(&config).assert();
    check.code(1).stderr(predicate::str::contains(why).and(predicate::str::contains("-socket: ")));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for(why);
    daemon.end();
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn daemon_survives_the_end_of_its_log_reader() {
    let _one = ONE.lock();
    if !have_root() {
        return skip("root");
    }
    let set = Set::new();
    let config = set.config("");
    let mut daemon = Daemon::start_with(&config, drop);
    let other = set.directory.path().join("other.prom");
    let until = Instant::now() + Duration::from_secs(90);
    while set.metrics().is_empty() {
        assert!(Instant::now() < until, "{:?}", daemon.child.try_wait());
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("trimtab.prom", "other.prom")).unwrap();
    daemon.signal(Signal::HUP);
    while !other.exists() {
        assert!(Instant::now() < until, "{:?}", daemon.child.try_wait());
        std::thread::sleep(Duration::from_millis(50));
    }
    daemon.end();
}

#[test]
fn damaged_state_and_history_are_set_aside_and_reported() {
    let _one = ONE.lock();
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let config = set.config(&rule(&mount.path(), "batched"));
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("[ext4]: batched");
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    daemon.end();
    let state = set.directory.path().join("state");
    let names = || {
        fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>()
    };
    let of_filesystem = names().into_iter().find(|name| name.starts_with("state-")).unwrap();
    for name in ["history.db", &of_filesystem] {
        fs::write(state.join(name), "rubbish").unwrap();
    }
    let mut daemon = Daemon::start(&config);
    daemon.wait_for("history.db.set-aside-1");
    daemon.wait_for(&format!("{of_filesystem}.set-aside-1"));
    daemon.wait_for("[ext4]: batched");
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    daemon.end();
    for name in ["history.db", &of_filesystem] {
        assert_eq!(
            fs::read(state.join(format!("{name}.set-aside-1"))).unwrap(),
            b"rubbish",
            "it is kept"
        );
    }
    assert_eq!(set.history().len(), 1, "a new history");
}

#[test]
fn daemon_reports_second_path_of_a_filesystem() {
    let _one = ONE.lock();
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let second = set.directory.path().join("second");
    fs::create_dir(&second).unwrap();
    ok(Command::new("mount").arg("--bind").arg(mount.path()).arg(&second));
    let config = set.config(&(rule(&mount.path(), "batched") + &rule(&second, "idle")));
    let said = format!("{} is the same filesystem as {}", second.display(), mount.path().display());
    let checked = trimtab().args(["daemon", "--check", "--config"]).arg(&config).output().unwrap();
    let mut daemon = Daemon::start(&config);
    let line = daemon.wait_for("is the same filesystem as");
    daemon.end();
    ok(Command::new("umount").arg(&second));
    assert!(line.contains(&said), "{line}");
    assert!(String::from_utf8_lossy(&checked.stdout).contains(&said), "{checked:?}");
}

#[test]
fn policy_runs_on_btrfs_that_discards_asynchronously() {
    let _one = ONE.lock();
    let Some(mount) = LoopMount::new("btrfs", 512, "discard=async") else {
        return skip("root, loop devices and mkfs");
    };
    let set = Set::new();
    let mut daemon = Daemon::start(&set.config(&rule(&mount.path(), "batched")));
    daemon.wait_for("[btrfs]: batched");
    daemon.signal(Signal::USR1);
    daemon.wait_for("pass complete");
    daemon.end();
}
