//! Two who never rest: another user who renames, links and swaps beside every command that writes, and `kill -9` at any moment of every
//! command that changes something outside its own files.
//!
//! `TRIMTAB_SOAK_TRIES=1000` attacks each command so often, and `TRIMTAB_SOAK_KILLS=200` kills each so often, instead of a few times.

use crate::attached::{Attached, Mounted, have, ok};
use crate::support::{LoopMount, at_home, have_root, process, skip};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab::session::discard_option::mount_of;
use trimtab_core::rng::Stream;

/// Nobody in particular.
const ATTACKER: u32 = 65_534;
/// Tells the attacker where to attack, and what.
const GROUND: &str = "TRIMTAB_TEST_ATTACK";
const CANARY: &str = "TRIMTAB_TEST_CANARY";
const PRECIOUS: &[u8] = b"somebody else's\n";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Everything below a directory: kind, owner, mode, size, content and inode.
fn state(directory: &Path) -> BTreeMap<PathBuf, (u32, u32, u64, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (metadata.uid(), metadata.mode(), metadata.len(), metadata.ino(), content));
    }
    found
}

/// A directory of somebody else's, that nothing may reach.
struct Canary {
    directory: tempfile::TempDir,
    before: BTreeMap<PathBuf, (u32, u32, u64, u64, Vec<u8>)>,
    /// The program that attacks it.
    attacker: PathBuf,
}

impl Canary {
    fn new(place: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("trimtab-canary-").tempdir_in(place).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(directory.path().join("dir/deeper")).unwrap();
        for name in ["precious", "dir/1", "dir/marker", "dir/record.json", "dir/deeper/file", "dir/fstab", "dir/trimtab.toml"] {
            fs::write(directory.path().join(name), PRECIOUS).unwrap();
        }
        let before = state(directory.path());
        // Where another user cannot run the program of the tests, a copy can be.
        let copy = Path::new("/dev/shm").join(directory.path().file_name().unwrap()).with_extension("attacker");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory, before, attacker: copy }
    }

    fn check(&self, after: &str) {
        let now = state(self.directory.path());
        assert!(now == self.before, "{after} reached what is somebody else's: {:?}", self.directory.path());
    }
}

/// The other user: this very program, as somebody else. It ends with its ground.
#[test]
#[ignore = "the other user of the tests below"]
fn attacker() {
    let (Ok(ground), Ok(canary)) = (std::env::var(GROUND), std::env::var(CANARY)) else { return };
    let (ground, canary) = (PathBuf::from(ground), PathBuf::from(canary));
    let mut draw = Stream::new(u64::from(std::process::id()), "attacker");
    let mut known: Vec<PathBuf> = Vec::new();
    let parent = rustix::process::getppid();
    // Some are so quick that hardly anything works beside them; what works half needs a slower one.
    let pause = Duration::from_micros([0, 0, 500, 5_000, 50_000][draw.below(5) as usize]);
    while ground.exists() && rustix::process::getppid() == parent {
        std::thread::sleep(Duration::from_nanos(draw.below(2 * pause.as_nanos() as u64 + 1)));
        let Ok(entries) = fs::read_dir(&ground) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !known.contains(&path) && known.len() < 500 {
                known.push(path);
            }
        }
        // Whatever has ever had a name here may have it again.
        for path in &known {
            let aside = ground.join(format!("aside-{}", draw.below(8)));
            let target = if draw.chance(0.5) { canary.join("dir") } else { canary.join("precious") };
            match draw.below(6) {
                0 => drop(fs::rename(path, &aside).and_then(|()| symlink(&target, path))),
                1 => drop(fs::rename(path, &aside).and_then(|()| fs::create_dir(path))),
                2 => drop(fs::remove_file(path).and_then(|()| symlink(&target, path))),
                3 => drop(symlink(&target, path)),
                4 => drop(fs::hard_link(canary.join("precious"), path)),
                _ => drop(fs::remove_file(path)),
            }
        }
        for n in 0..8 {
            let aside = ground.join(format!("aside-{n}"));
            let _ = fs::remove_file(&aside).or_else(|_| fs::remove_dir_all(&aside));
        }
        if draw.chance(0.01) {
            known.clear();
        }
    }
}

/// Ends a child however a test ends.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of the attacker's in which the attacker is at work.
struct Ground {
    // Ended first, or the directory would not stay empty.
    _attacker: Option<Ends>,
    directory: tempfile::TempDir,
}

impl Ground {
    /// With these files in it, which are root's.
    fn new(canary: &Canary, place: &Path, files: &[&str]) -> Self {
        let directory = Self::calm(place, files);
        let mut command = Command::new(&canary.attacker);
        command.args(["--exact", "standing::attacker", "--ignored"]).uid(ATTACKER).gid(ATTACKER).current_dir("/");
        command.env(GROUND, directory.path()).env(CANARY, canary.directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let attacker = loop {
            match command.spawn() {
                // Another thread started something while the copy was written, and has not closed it yet.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::sleep(Duration::from_millis(5)),
                started => break started.unwrap(),
            }
        };
        Self { directory, _attacker: Some(Ends(attacker)) }
    }

    /// The same before anybody attacks.
    fn calm(place: &Path, files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::Builder::new().prefix("trimtab-ground-").tempdir_in(place).unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "/dev/x / ext4 rw 0 1\n").unwrap();
            if *file == "out" {
                fs::File::create(path).unwrap().set_len(16 << 20).unwrap();
            }
        }
        chown(directory.path(), Some(ATTACKER), Some(ATTACKER)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        directory
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.attacker);
    }
}

/// Runs a command of the program beside the attacker, whatever comes of it; it has to end.
fn beside(args: &[&str], home: &Path, stdin: Option<&str>) -> bool {
    let mut command = process();
    command.args(args).env("TRIMTAB_RUNTIME_DIR", home.join("run")).env("TRIMTAB_STATE_DIR", home.join("state")).env("XDG_DATA_HOME", home);
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = Ends(command.spawn().unwrap());
    if let (Some(text), Some(mut input)) = (stdin, child.0.stdin.take()) {
        use std::io::Write as _;
        let _ = input.write_all(text.as_bytes());
    }
    let started = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            return status.success();
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{args:?} does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Attacks one command so often, and says how often it worked all the same.
fn attack(name: &str, files: &[&str], run: impl Fn(&Ground, &Path) -> bool) {
    attack_times(name, tries(20), files, run);
}

/// So many, unless it is said how many.
fn tries(otherwise: u64) -> u64 {
    number("TRIMTAB_SOAK_TRIES", otherwise)
}

fn attack_times(name: &str, tries: u64, files: &[&str], run: impl Fn(&Ground, &Path) -> bool) {
    attack_in(Path::new("/dev/shm"), name, tries, files, run);
}

/// On the filesystem of `place`.
fn attack_in(place: &Path, name: &str, tries: u64, files: &[&str], run: impl Fn(&Ground, &Path) -> bool) {
    let canary = Canary::new(place);
    let home = tempfile::tempdir().unwrap();
    let calm = Ground { directory: Ground::calm(place, files), _attacker: None };
    assert!(run(&calm, home.path()), "{name} does not even work when nobody attacks: this would prove nothing");
    drop(calm);
    let mut worked = 0;
    let mut done = 0;
    while done < tries {
        // Now and then on fresh ground: what is in the way for good would make it easy.
        let ground = Ground::new(&canary, place, files);
        for _ in 0..5.min(tries - done) {
            worked += u64::from(run(&ground, home.path()));
            done += 1;
        }
        canary.check(name);
    }
    println!("{name}: {tries} tries beside an attacker, {worked} of them worked, nothing of anybody else's was reached");
}

#[test]
fn benchmarks_beside_an_attacker() {
    if !have_root() {
        return skip("root");
    }
    let common = ["--reserve", "0", "--yes"];
    attack("bench tree", &[], |ground, home| {
        beside(&[&["bench", "tree", "--files", "30", "--tries", "1", &ground.path(".")], &common[..]].concat(), home, None)
    });
    attack("bench postmark", &[], |ground, home| {
        beside(
            &[&["bench", "postmark", "--number", "20", "--transactions", "20", "--tries", "1", &ground.path(".")], &common[..]].concat(),
            home,
            None,
        )
    });
    // It takes longer.
    attack_times("bench crystal", tries(2), &[], |ground, home| {
        let quick = ["--size", "16MiB", "--passes", "1", "--bytes", "64KiB", "--interval", "0s", "--only", "write", "--buffered"];
        beside(&[&["bench", "crystal", &ground.path(".")], &quick[..], &common[..]].concat(), home, None)
    });
    attack("postmark", &[], |ground, home| {
        let out = ground.path("out");
        let text = format!("set location {}\nset number 20\nset transactions 20\nshow {out}\nrun {out}\nquit\n", ground.path("."));
        beside(&["postmark", "/dev/null"], home, Some(&text))
    });
    attack_times("bench nfs", tries(2), &[], |ground, home| {
        let quick = ["--files", "100", "--points", "1", "--seconds", "1", "--warm-up", "0", "--peak", "200", "--streams", "2"];
        beside(&[&["bench", "nfs", &ground.path(".")], &quick[..], &common[..]].concat(), home, None)
    });
    attack_times("bench age", tries(4), &[], |ground, home| {
        let quick = ["--total", "8MB", "--rounds", "2", "--test-size", "1MiB", "--test-time", "10ms", "--idle", "0s"];
        beside(&[&["bench", "age", &ground.path(".")], &quick[..], &common[..]].concat(), home, None)
    });
}

#[test]
fn trims_beside_an_attacker() {
    let Some(mount) = LoopMount::new("ext4", 512, "nodiscard") else { return skip("root, loop devices and mkfs") };
    attack_in(&mount.path(), "verify", tries(4), &[], |ground, home| {
        beside(&["verify", "--yes", "--reserve", "1MB", "--size", "4MiB", &ground.path(".")], home, None)
    });
    attack_in(&mount.path(), "trim", tries(10), &["d/file"], |ground, home| beside(&["trim", &ground.path(".")], home, None));
    // Its figures go to a directory of another user's, as for Prometheus' node exporter.
    attack_in(&mount.path(), "daemon with metrics", tries(10), &[], |ground, home| {
        let (config, metrics) = (home.join("trimtab.toml"), ground.path("trimtab.prom"));
        let text = format!(
            "[daemon]\nstate = \"{}\"\nmetrics = \"{metrics}\"\nmetrics-every = \"1s\"\n[[filesystem]]\npath = \"{}\"\npolicy = \"batched\"\n",
            home.join("state").display(),
            mount.path().display()
        );
        fs::write(&config, text).unwrap();
        let mut command = process();
        command.args(["daemon", "--config"]).arg(&config).env("TRIMTAB_RUNTIME_DIR", home.join("run")).env("XDG_DATA_HOME", home);
        let mut child = Ends(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), rustix::process::Signal::TERM);
        let written = fs::symlink_metadata(&metrics).is_ok_and(|metadata| metadata.is_file() && metadata.uid() == 0);
        child.0.wait().unwrap().success() && written
    });
}

#[test]
fn benchmarks_that_are_killed() {
    let Some(mount) = LoopMount::new("ext4", 512, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let run = tempfile::tempdir().unwrap();
    let with = |args: &[&str]| {
        let mut command = process();
        command.args(args).args(["--reserve", "1MB", "--yes", "--quiet"]).arg(mount.path());
        command.env("TRIMTAB_RUNTIME_DIR", run.path()).env("XDG_DATA_HOME", run.path());
        command
    };
    let names = || -> Vec<String> {
        let names = fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lost+found").collect()
    };
    let commands: [&[&str]; 5] = [
        &["bench", "tree", "--files", "300", "--tries", "1"],
        &["bench", "postmark", "--number", "200", "--transactions", "500", "--tries", "1", "--subdirectories", "10"],
        &["bench", "age", "--total", "8MB", "--rounds", "2", "--test-size", "1MiB", "--test-time", "10ms", "--idle", "0s"],
        &["verify", "--size", "4MiB"],
        &["bench", "nfs", "--files", "100", "--points", "1", "--seconds", "1", "--warm-up", "0", "--peak", "200", "--streams", "2"],
    ];
    for args in commands {
        let within = took(with(args));
        let (mut draw, mut left) = (Stream::new(6 + u64::from(std::process::id()), args[1]), 0);
        for _ in 0..kills() {
            kill_within(with(args), &mut draw, within * 5 / 4);
            left += u64::from(!names().is_empty());
        }
        // What a kill leaves before there is a marker, or while it goes, may belong to one that lives for a minute.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for name in names() {
            fs::File::open(mount.path().join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        ok(&mut with(commands[0]));
        assert_eq!(names(), Vec::<String>::new(), "after {args:?}");
        println!(
            "{}: killed {} times, something was left {left} times, and all of it was taken away by the next command",
            args.join(" "),
            kills()
        );
    }
}

/// Kills the server that says in its record that it serves the drive `killed`; true if there was one.
fn kill_server(run: &Path) -> bool {
    let record =
        fs::read(run.join("drives/killed/record.json")).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let pid = record.and_then(|record| i32::try_from(record["pid"].as_i64()?).ok()).and_then(rustix::process::Pid::from_raw);
    let killed = pid.is_some_and(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok());
    std::thread::sleep(Duration::from_millis(20));
    killed
}

#[test]
fn an_nbd_server_that_is_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let (run, socket) = (scratch.path().join("run"), scratch.path().join("nbd"));
    let attach = |socket: &Path| {
        let mut command = process();
        command.args([
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--size",
            "1GiB",
            "--speed",
            "off",
            "--no-block",
            "--id",
            "killed",
            "--nbd",
        ]);
        command.arg(socket).env("TRIMTAB_RUNTIME_DIR", &run).process_group(0);
        command
    };
    let detach = || {
        let mut command = process();
        command.args(["drive", "detach", "--all"]).env("TRIMTAB_RUNTIME_DIR", &run).output().unwrap()
    };
    let within = took(attach(&socket));
    assert!(detach().status.success() && !socket.exists());
    let (mut draw, mut left) = (Stream::new(7 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        let mut child = attach(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_nanos(draw.below(within.as_nanos() as u64 * 3 / 2)));
        kill_all_of(&run);
        child.wait().unwrap();
        left += u64::from(socket.exists());
        if n % 2 == 0 {
            detach();
        } else {
            // Another drive, with another socket, clears up as well.
            let other = scratch.path().join("other");
            let mut command = process();
            command.args(["drive", "attach", "ocz-vertex-le-100gb", "--size", "1GiB", "--speed", "off", "--no-block", "--nbd"]);
            ok(command.arg(&other).env("TRIMTAB_RUNTIME_DIR", &run));
            assert!(!socket.exists(), "kill {n}");
            detach();
        }
        assert!(!socket.exists(), "kill {n}");
    }
    println!(
        "drive attach --nbd: killed {} times, its socket was left {left} times, and taken away by the next command each time",
        kills()
    );
    // What is somebody else's by then stays.
    let mut child = attach(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    fs::rename(&socket, scratch.path().join("aside")).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(kill_server(&run), "it served");
    drop(other);
    detach();
    assert!(socket.exists(), "a socket of another program's was removed");
}

#[test]
fn a_study_beside_an_attacker() {
    if !have_root() {
        return skip("root");
    }
    attack_times("study", tries(1), &["report.html"], |ground, home| {
        let (path, report) = (ground.path("."), ground.path("report.html"));
        beside(&["study", "--quick", "--reserve", "0", "--yes", "--report", &report, "--force", &path], home, None)
    });
}

#[test]
fn files_that_are_named_beside_an_attacker() {
    if !have_root() {
        return skip("root");
    }
    let kept = tempfile::tempdir().unwrap();
    let store = kept.path().join("r.db");
    let store = store.to_str().unwrap();
    ok(process().args(["--store", store, "results", "add", "--name", "x", "--workload", "w", "--metric", "t=1 s"]));
    let trace = kept.path().join("trace.csv");
    fs::write(&trace, "0,h,0,Write,0,1048576,1\n10000000,h,0,Read,0,4096,1\n").unwrap();
    let trace = trace.to_str().unwrap();
    attack("results export", &["out"], |ground, home| {
        beside(&["--store", store, "results", "export", "--force", "--output", &ground.path("out")], home, None)
    });
    attack("results report", &["out"], |ground, home| {
        beside(&["--store", store, "results", "report", "last", "--force", "--output", &ground.path("out")], home, None)
    });
    attack("drive trace", &["out"], |ground, home| {
        beside(&["drive", "trace", trace, "--to", "fio", "--force", "--output", &ground.path("out")], home, None)
    });
    // Where anybody may put a journal no store is made: it has to be refused each time.
    attack("a new store (refused)", &[], |ground, home| {
        let store = ground.path("r.db");
        !beside(&["--store", &store, "results", "add", "--name", "x", "--workload", "w", "--metric", "t=1 s"], home, None)
    });
    attack("doctor --record", &[], |ground, home| beside(&["doctor", "--record", &ground.path("tree")], home, None));
    attack("bench crystal --destroy", &["out"], |ground, home| {
        let file = ground.path("out");
        let quick = ["--size", "16MiB", "--passes", "1", "--bytes", "64KiB", "--interval", "0s", "--only", "write", "--yes"];
        beside(&[&["bench", "crystal", &file, "--destroy", &file, "--cdm-text", &ground.path("text")], &quick[..]].concat(), home, None)
    });
}

#[test]
fn a_system_below_a_directory_beside_an_attacker() {
    if !have_root() {
        return skip("root");
    }
    let files = ["etc/fstab", "var/lib/x", "etc/trimtab/x"];
    for policy in ["idle", "online"] {
        attack(&format!("apply {policy} --sysroot"), &files, |ground, home| {
            let system = ground.path(".");
            let applied = beside(&["apply", policy, "/", "--sysroot", &system], home, None);
            beside(&["apply", "--undo", "--sysroot", &system], home, None);
            applied
        });
    }
}

#[test]
fn an_attached_drive_beside_an_attacker() {
    if !have_root() {
        return skip("root");
    }
    attack("drive attach --data --record --nbd", &[], |ground, home| {
        let pid = std::process::id().to_string();
        let mut args =
            vec!["drive", "attach", "ocz-vertex-le-100gb", "--size", "1GiB", "--speed", "off", "--no-block", "--detach-with", &pid];
        let (data, record, nbd) = (ground.path("data"), ground.path("record"), ground.path("nbd"));
        args.extend(["--data", &data, "--record", &record, "--nbd", &nbd]);
        let attached = beside(&args, home, None);
        beside(&["drive", "detach", "--all", "--force"], home, None);
        attached
    });
}

/// Starts a command, and kills it after a random time up to `within`; true if it was still running.
fn kill_within(mut command: Command, draw: &mut Stream, within: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_nanos(draw.below(within.as_nanos() as u64)));
    let running = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    running
}

/// Kills whatever was started with this runtime directory, in the background too.
fn kill_all_of(run: &Path) {
    let variable = format!("TRIMTAB_RUNTIME_DIR={}\0", run.display());
    let is_one = |pid: i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.windows(variable.len()).any(|part| part == variable.as_bytes()))
    };
    let running = || -> Vec<rustix::process::Pid> {
        let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        names.filter(|pid| is_one(*pid)).filter_map(rustix::process::Pid::from_raw).collect()
    };
    // One that is just being executed has no environment for a moment.
    let mut none = 0;
    while none < 3 {
        let found = running();
        if found.is_empty() {
            none += 1;
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        none = 0;
        // All are held before any is killed: whoever is traced by another dies with that one. Their files are closed, and their locks
        // given up, when they are gone; their environment goes before that.
        let handles: Vec<_> =
            found.iter().filter_map(|pid| rustix::process::pidfd_open(*pid, rustix::process::PidfdFlags::empty()).ok()).collect();
        for pid in found {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        for handle in handles {
            let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            let _ = rustix::event::poll(&mut [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)], Some(&patience));
        }
    }
}

/// How long a command takes when nobody kills it.
fn took(mut command: Command) -> Duration {
    let started = Instant::now();
    ok(&mut command);
    started.elapsed()
}

fn kills() -> u64 {
    number("TRIMTAB_SOAK_KILLS", 8)
}

/// Any command that has nothing to do with what was killed.
fn any_command(run: &Path) -> Command {
    let mut command = process();
    command.args(["results", "list"]).env("TRIMTAB_RUNTIME_DIR", run);
    command
}

fn said(name: &str, kills: u64, changed: u64) {
    println!(
        "{name}: killed {kills} times, something of the machine's was changed {changed} times, and put back by the next command each time"
    );
}

#[test]
fn a_trim_that_is_killed() {
    if !have_root() || !Path::new("/dev/fuse").exists() || !have(&["mkfs.ext4"]) {
        return skip("root, FUSE and e2fsprogs");
    }
    // A drive that takes large commands, and a policy that wants small ones, for long enough.
    let drive = Attached::new(&["nvme-tlc-500gb", "--size", "20GiB"]);
    ok(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0"]).arg(&drive.device));
    let mount = Mounted::new(&drive.device, "noatime").unwrap();
    let limit = Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("queue/discard_max_bytes");
    let read = || fs::read_to_string(&limit).unwrap();
    let before = read();
    let trim = || {
        let mut command = process();
        command.args(["trim", "--restart", "--policy", "idle:budget=2ms:quiet=1ms:piece-max=4MiB"]).arg(mount.path());
        command.env("TRIMTAB_RUNTIME_DIR", drive.runtime());
        command
    };
    let (mut draw, mut changed) = (Stream::new(1 + u64::from(std::process::id()), "kills"), 0);
    let mut back = |n: u64| {
        changed += u64::from(read() != before);
        ok(&mut any_command(drive.runtime()));
        assert_eq!(read(), before, "kill {n}");
        assert_eq!(fs::read_dir(drive.runtime().join("notes")).map_or(0, Iterator::count), 0);
    };
    let once_lowered = || {
        let mut child = Ends(trim().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let started = Instant::now();
        while read() == before {
            assert!(started.elapsed() < Duration::from_secs(60) && child.0.try_wait().unwrap().is_none(), "no limit is lowered");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    once_lowered();
    back(0);
    for n in 1..kills() {
        kill_within(trim(), &mut draw, Duration::from_secs(3));
        back(n);
    }
    assert!(changed > 0);
    // Lowered by an administrator after a kill, it stays so.
    once_lowered();
    fs::write(&limit, "69632").unwrap();
    ok(&mut any_command(drive.runtime()));
    assert_eq!(read().trim(), "69632");
    mount.unmount();
    said("trim", kills(), changed);
}

#[test]
fn a_study_that_is_killed() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let run = tempfile::tempdir().unwrap();
    let options = || {
        let mount = mount_of(&mount.path()).unwrap();
        (mount.options, mount.fs_options)
    };
    let before = options();
    let study = || {
        let mut command = process();
        command.args(["study", "--quick", "--policies", "online", "--reserve", "0", "--yes", "--quiet"]).arg(mount.path());
        command.env("TRIMTAB_RUNTIME_DIR", run.path()).env("XDG_DATA_HOME", run.path());
        command
    };
    let (mut draw, mut changed) = (Stream::new(2 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        kill_within(study(), &mut draw, Duration::from_millis(1500));
        changed += u64::from(options() != before);
        ok(&mut any_command(run.path()));
        assert_eq!(options(), before, "kill {n}");
    }
    // What was killed before it had a marker, or on its way out, may be of one that lives for a minute.
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    for entry in fs::read_dir(mount.path()).unwrap() {
        fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
    }
    let mut clean = process();
    ok(clean.args(["bench", "tree", "--files", "5", "--reserve", "0", "--yes"]).arg(mount.path()).env("TRIMTAB_RUNTIME_DIR", run.path()));
    let left: Vec<_> =
        fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().file_name()).filter(|name| name != "lost+found").collect();
    assert!(left.is_empty(), "{left:?}");
    said("study", kills(), changed);
}

#[test]
fn an_attach_that_is_killed() {
    if !have_root() || !Path::new("/dev/fuse").exists() || !have(&["strace"]) {
        return skip("root, FUSE and strace");
    }
    let switch = Path::new("/sys/module/fuse/parameters/enable_uring");
    let read = || fs::read_to_string(switch).unwrap_or_default();
    let before = read();
    let run = tempfile::tempdir().unwrap();
    let attach = || {
        let mut command = process();
        command.args(["drive", "attach", "ocz-vertex-le-100gb", "--size", "1GiB", "--speed", "off", "--id", "killed"]);
        command.env("TRIMTAB_RUNTIME_DIR", run.path());
        command
    };
    // The switch is on for some 0.1 ms before and after mount(2), which nobody would ever hit.
    let attach_slowly = || {
        let plain = attach();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=mount", "-e", "inject=mount:delay_enter=30000:delay_exit=30000"]);
        command.arg(plain.get_program()).args(plain.get_args()).env("TRIMTAB_RUNTIME_DIR", run.path());
        at_home(&mut command);
        command
    };
    let detach = || {
        let mut command = process();
        ok(command.args(["drive", "detach", "--all", "--force"]).env("TRIMTAB_RUNTIME_DIR", run.path()));
    };
    let within = took(attach());
    detach();
    // Here strace stays with the server.
    let patience = within * 10 + Duration::from_secs(2);
    let (mut draw, mut changed) = (Stream::new(3 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        let mut child = attach_slowly().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Every other one as soon as the switch is seen to be on.
        let until = Instant::now() + Duration::from_nanos(draw.below(within.as_nanos() as u64 * 3));
        let started = Instant::now();
        while if n % 2 == 0 { Instant::now() < until } else { read() == before && started.elapsed() < patience } {
            std::thread::sleep(Duration::from_micros(200));
        }
        kill_all_of(run.path());
        child.wait().unwrap();
        changed += u64::from(read() != before);
        ok(&mut any_command(run.path()));
        assert_eq!(read(), before, "kill {n}");
        // What was killed before it had a record may be of one that lives for a minute.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for entry in fs::read_dir(run.path().join("drives")).into_iter().flatten() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
        detach();
        let left = fs::read_dir(run.path().join("drives")).map_or(0, Iterator::count);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(left == 0 && !mounts.contains(run.path().to_str().unwrap()), "kill {n}: {left} directories, {mounts}");
    }
    println!(
        "drive attach: killed {} times, the kernel's switch was left on {changed} times, and put back by the next command each time",
        kills()
    );
    assert!(changed > 0 || before.trim() != "N");
}

#[test]
fn an_apply_that_is_killed() {
    let system = tempfile::tempdir().unwrap();
    let at = |name: &str| system.path().join(name);
    for (path, text) in
        [("etc/fstab", "UUID=1 / ext4 rw 0 1\nUUID=2 /home ext4 rw,discard 0 2\n"), ("etc/trimtab/trimtab.toml", "# none\n")]
    {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), text).unwrap();
    }
    let etc = || {
        state(&at("etc"))
            .into_iter()
            .filter(|(path, _)| path.is_file())
            .map(|(path, (uid, mode, _, _, text))| (path, (uid, mode, text)))
            .collect::<BTreeMap<_, _>>()
    };
    let apply = |args: &[&str]| {
        let mut command = process();
        command.args(["apply", "--sysroot"]).arg(system.path()).args(args);
        command
    };
    let before = etc();
    let within = took(apply(&["idle", "/home"]));
    let after = etc();
    assert_ne!(before, after);
    ok(&mut apply(&["--undo"]));
    assert_eq!(etc(), before);
    let (mut draw, mut caught) = (Stream::new(4 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() * 4 {
        // Odd ones kill an undo.
        if n % 2 == 1 {
            ok(&mut apply(&["idle", "/home"]));
            assert_eq!(etc(), after, "{n}");
        }
        let args = if n % 2 == 0 { &["idle", "/home"][..] } else { &["--undo"] };
        kill_within(apply(args), &mut draw, within * 3 / 2);
        let now = etc();
        caught += u64::from(now != before && now != after || at("var/lib/trimtab/applied/pending").exists());
        // One command of that system, which looks first: then all is as before or as after, and no file is left.
        let undone = apply(&["--undo"]).output().unwrap();
        let now = etc();
        assert!(now == before, "kill {n}: {:?} {}", now.keys(), String::from_utf8_lossy(&undone.stderr));
        let left: Vec<_> =
            fs::read_dir(at("var/lib/trimtab/applied")).into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
        // What was done is remembered.
        assert!(left.iter().all(|name| name == "log"), "kill {n}: {left:?}");
    }
    println!(
        "apply and its undoing: killed {} times, {caught} times between the files, and put back by the next command each time",
        kills() * 4
    );
}

#[test]
fn a_daemon_that_is_killed() {
    if !have(&["mkfs.btrfs"]) {
        return skip("btrfs-progs");
    }
    let Some(mount) = LoopMount::new("btrfs", 512, "discard=async") else { return skip("root, loop devices and mkfs") };
    let run = tempfile::tempdir().unwrap();
    let uuid = String::from_utf8(ok(Command::new("findmnt").args(["-no", "UUID"]).arg(mount.path())).stdout).unwrap();
    let knob = Path::new("/sys/fs/btrfs").join(uuid.trim()).join("discard/iops_limit");
    let read = || fs::read_to_string(&knob).unwrap();
    let before = read();
    let config = run.path().join("trimtab.toml");
    fs::write(&config, format!("[[filesystem]]\npath = \"{}\"\npolicy = \"idle\"\n", mount.path().display())).unwrap();
    let daemon = || {
        let mut command = process();
        command.args(["daemon", "--config"]).arg(&config).env("TRIMTAB_RUNTIME_DIR", run.path()).env("TRIMTAB_STATE_DIR", run.path());
        command
    };
    let (mut draw, mut changed) = (Stream::new(5 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        kill_within(daemon(), &mut draw, Duration::from_millis(600));
        changed += u64::from(read() != before);
        ok(&mut any_command(run.path()));
        assert_eq!(read(), before, "kill {n}");
    }
    said("daemon", kills(), changed);
}
