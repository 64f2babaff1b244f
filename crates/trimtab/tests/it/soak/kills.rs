//! `kill -9` at any moment of every command that changes something outside its own files.

use super::*;

#[test]
fn killed_bench_leftovers_are_removed_by_next_command() {
    let Some(mount) = LoopMount::new("ext4", 512, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let run = tempfile::tempdir().unwrap();
    let with = |args: &[&str]| {
        let mut command = process();
        command.args(args).args(["--reserve", "1MB", "--yes", "--quiet"]).arg(mount.path());
        command.env("TRIMTAB_RUNTIME_DIR", run.path()).env("XDG_DATA_HOME", run.path());
        command
    };
    let names = || -> Vec<String> {
        let names = fs::read_dir(mount.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lost+found").collect()
    };
    let commands: [&[&str]; 5] = [
        &["bench", "tree", "--files", "300", "--tries", "1"],
        &[
            "bench",
            "postmark",
            "--number",
            "200",
            "--transactions",
            "500",
            "--tries",
            "1",
            "--subdirectories",
            "10",
        ],
        &[
            "bench",
            "age",
            "--total",
            "8MB",
            "--rounds",
            "2",
            "--test-size",
            "1MiB",
            "--test-time",
            "10ms",
            "--idle",
            "0s",
        ],
        &["verify", "--size", "4MiB"],
        &[
            "bench",
            "nfs",
            "--files",
            "100",
            "--points",
            "1",
            "--seconds",
            "1",
            "--warm-up",
            "0",
            "--peak",
            "200",
            "--streams",
            "2",
        ],
    ];
    for args in commands {
        let within = took(with(args));
        let (mut draw, mut left) = (Stream::new(6 + u64::from(std::process::id()), args[1]), 0);
        for _ in 0..kills() {
            kill_within(with(args), &mut draw, within * 5 / 4);
            left += u64::from(!names().is_empty());
        }
        // Leftovers without a marker count as those of a live process for one minute.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for name in names() {
            fs::File::open(mount.path().join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        ok(&mut with(commands[0]));
        assert_eq!(names(), Vec::<String>::new(), "after {args:?}");
        println!(
            "{}: killed {} times, something was left {left} times, and all of it was \
                taken away by the next command",
            args.join(" "),
            kills()
        );
    }
}

/// Kills the server whose record names the drive `killed`; true if there was one.
fn kill_server(run: &Path) -> bool {
    let record = fs::read(run.join("drives/killed/record.json"))
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let pid = record
        .and_then(|record| i32::try_from(record["pid"].as_i64()?).ok())
        .and_then(rustix::process::Pid::from_raw);
    let killed = pid.is_some_and(|pid| {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
    });
    std::thread::sleep(Duration::from_millis(20));
    killed
}

#[test]
fn killed_nbd_server_remains_are_removed_by_next_command() {
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
        command
            .args(["drive", "detach", "--all"])
            .env("TRIMTAB_RUNTIME_DIR", &run)
            .output()
            .unwrap()
    };
    let within = took(attach(&socket));
    assert!(detach().status.success() && !socket.exists());
    let (mut draw, mut left) = (Stream::new(7 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        let mut child =
            attach(&socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_nanos(draw.below(within.as_nanos() as u64 * 3 / 2)));
        kill_all_of(&run);
        child.wait().unwrap();
        left += u64::from(socket.exists());
        if n % 2 == 0 {
            detach();
        } else {
            // Attaching another drive with another socket cleans up as well.
            let other = scratch.path().join("other");
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
                "--nbd",
            ]);
            ok(command.arg(&other).env("TRIMTAB_RUNTIME_DIR", &run));
            assert!(!socket.exists(), "kill {n}");
            detach();
        }
        assert!(!socket.exists(), "kill {n}");
    }
    println!(
        "drive attach --nbd: killed {} times, its socket was left {left} times, and \
            taken away by the next command each time",
        kills()
    );
    // A socket that now belongs to another program stays. A server killed before it wrote
    // its record counts as starting for half a minute.
    let until = Instant::now() + Duration::from_secs(150);
    loop {
        // The server keeps the command's standard error, so take it from a file.
        let errors = scratch.path().join("errors");
        let status = attach(&socket)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&errors).unwrap())
            .status()
            .unwrap();
        if status.success() {
            break;
        }
        assert!(
            Instant::now() < until,
            "it cannot be attached: {}",
            fs::read_to_string(&errors).unwrap()
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    fs::rename(&socket, scratch.path().join("aside")).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(kill_server(&run), "it served");
    drop(other);
    detach();
    assert!(socket.exists(), "a socket of another program's was removed");
}

/// Starts a command, and kills it after a random time up to `within`; true if it was
/// still running.
fn kill_within(mut command: Command, draw: &mut Stream, within: Duration) -> bool {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_nanos(draw.below(within.as_nanos() as u64)));
    let running = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    running
}

/// Kills every process started with this runtime directory, including background
/// processes.
fn kill_all_of(run: &Path) {
    let variable = format!("TRIMTAB_RUNTIME_DIR={}\0", run.display());
    let is_one = |pid: i32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment.windows(variable.len()).any(|part| part == variable.as_bytes())
        })
    };
    let running = || -> Vec<rustix::process::Pid> {
        let names = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        names.filter(|pid| is_one(*pid)).filter_map(rustix::process::Pid::from_raw).collect()
    };
    // A process in the middle of an exec has no environment for a moment.
    let mut none = 0;
    while none < 3 {
        let found = running();
        if found.is_empty() {
            none += 1;
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        none = 0;
        // Open a pidfd for each before killing any, because a traced process dies with
        // its tracer. Files and locks are released only when the process is gone; its
        // environment disappears earlier.
        let handles: Vec<_> = found
            .iter()
            .filter_map(|pid| {
                rustix::process::pidfd_open(*pid, rustix::process::PidfdFlags::empty()).ok()
            })
            .collect();
        for pid in found {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        for handle in handles {
            let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            let gone = rustix::event::poll(
                &mut [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)],
                Some(&patience),
            );
            if gone == Ok(0) {
                abort_fuse(run);
            }
        }
    }
}

/// A FUSE server killed while it opens its own file waits in the kernel for its own
/// answer (seen once) until the connection is aborted.
fn abort_fuse(run: &Path) {
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        if let Some(mount) =
            line.split(' ').nth(4).filter(|mount| Path::new(mount).starts_with(run))
        {
            println!(
                "{mount}: its server was killed and is still there after 10 s, and \
                    its connection is broken"
            );
            let _ = rustix::mount::unmount(
                mount,
                rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH,
            );
        }
    }
}

/// The time that a command takes without a kill.
fn took(mut command: Command) -> Duration {
    let started = Instant::now();
    ok(&mut command);
    started.elapsed()
}

fn kills() -> u64 {
    number("TRIMTAB_SOAK_KILLS", 5)
}

/// A command unrelated to the killed one.
fn any_command(run: &Path) -> Command {
    let mut command = process();
    command.args(["results", "list"]).env("TRIMTAB_RUNTIME_DIR", run);
    command
}

fn said(name: &str, kills: u64, changed: u64) {
    println!(
        "{name}: killed {kills} times, something of the machine's was changed \
            {changed} times, and restored by the next command each time"
    );
}

#[test]
fn killed_trim_limit_is_restored_by_next_command() {
    // A drive that accepts large commands and needs a second per GB, so that the trim lasts
    // long enough and the policy sends small ones.
    let Some((drive, mount)) = slow_trims("ext4", "20GiB", (0, 1000), &[]) else { return };
    let limit = Path::new("/sys/block")
        .join(drive.device.file_name().unwrap())
        .join("queue/discard_max_bytes");
    let read = || fs::read_to_string(&limit).unwrap();
    let before = read();
    let trim = || {
        let mut command = process();
        command.args(["trim", "--restart", "--policy", "idle:budget=2ms"]).arg(mount.path());
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
            assert!(
                started.elapsed() < Duration::from_secs(60)
                    && child.0.try_wait().unwrap().is_none(),
                "no limit is lowered"
            );
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
    // A limit that an administrator lowers after the kill stays lowered.
    once_lowered();
    fs::write(&limit, "69632").unwrap();
    ok(&mut any_command(drive.runtime()));
    assert_eq!(read().trim(), "69632");
    mount.unmount();
    said("trim", kills(), changed);
}

#[test]
fn killed_study_mount_options_are_restored_by_doctor() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let run = tempfile::tempdir().unwrap();
    let options = || {
        let mount = mount_of(&mount.path()).unwrap();
        (mount.options, mount.fs_options)
    };
    let before = options();
    let study = || {
        let mut command = process();
        command
            .args([
                "study",
                "--quick",
                "--policies",
                "online",
                "--reserve",
                "0",
                "--yes",
                "--quiet",
            ])
            .arg(mount.path());
        command.env("TRIMTAB_RUNTIME_DIR", run.path()).env("XDG_DATA_HOME", run.path());
        command
    };
    let (mut draw, mut changed) = (Stream::new(2 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        kill_within(study(), &mut draw, Duration::from_millis(1500));
        changed += u64::from(options() != before);
        // Any verdict is fine: the command works on the filesystem.
        process()
            .arg("doctor")
            .arg(mount.path())
            .env("TRIMTAB_RUNTIME_DIR", run.path())
            .output()
            .unwrap();
        assert_eq!(options(), before, "kill {n}");
    }
    // Leftovers without a marker count as those of a live process for one minute.
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    for entry in fs::read_dir(mount.path()).unwrap() {
        fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
    }
    let mut clean = process();
    ok(clean
        .args(["bench", "tree", "--files", "5", "--reserve", "0", "--yes"])
        .arg(mount.path())
        .env("TRIMTAB_RUNTIME_DIR", run.path()));
    let left: Vec<_> = fs::read_dir(mount.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "lost+found")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    said("study", kills(), changed);
}

#[test]
fn killed_attach_remains_are_removed_by_detach() {
    if !have_root() || !Path::new("/dev/fuse").exists() {
        return skip("root and FUSE");
    }
    let run = tempfile::tempdir().unwrap();
    let attach = || {
        let mut command = process();
        command.args([
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--size",
            "1GiB",
            "--speed",
            "off",
            "--id",
            "killed",
        ]);
        command.env("TRIMTAB_RUNTIME_DIR", run.path());
        command
    };
    let detach = || {
        let mut command = process();
        ok(command
            .args(["drive", "detach", "--all", "--force"])
            .env("TRIMTAB_RUNTIME_DIR", run.path()));
    };
    let remains = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        fs::read_dir(run.path().join("drives")).map_or(0, Iterator::count)
            + mounts.matches(run.path().to_str().unwrap()).count()
    };
    let within = took(attach());
    detach();
    let (mut draw, mut left) = (Stream::new(3 + u64::from(std::process::id()), "kills"), 0);
    for n in 0..kills() {
        let mut child = attach().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_nanos(draw.below(within.as_nanos() as u64 * 3 / 2)));
        kill_all_of(run.path());
        child.wait().unwrap();
        left += u64::from(remains() > 0);
        // Leftovers without a record count as those of a live process for one minute.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for entry in fs::read_dir(run.path().join("drives")).into_iter().flatten() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
        detach();
        assert_eq!(remains(), 0, "kill {n}");
    }
    println!(
        "drive attach: killed {} times, something was left {left} times, and detached each time",
        kills()
    );
}

#[test]
fn killed_apply_is_restored_by_next_command() {
    let system = tempfile::tempdir().unwrap();
    let at = |name: &str| system.path().join(name);
    for (path, text) in [
        ("etc/fstab", "UUID=1 / ext4 rw 0 1\nUUID=2 /home ext4 rw,discard 0 2\n"),
        ("etc/trimtab/trimtab.toml", "# none\n"),
    ] {
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
        // Odd rounds kill an undo.
        if n % 2 == 1 {
            ok(&mut apply(&["idle", "/home"]));
            assert_eq!(etc(), after, "{n}");
        }
        let args = if n % 2 == 0 { &["idle", "/home"][..] } else { &["--undo"] };
        kill_within(apply(args), &mut draw, within * 3 / 2);
        let now = etc();
        caught += u64::from(
            now != before && now != after
                || fs::read_to_string(at("var/lib/trimtab/journal/apply-0001.json"))
                    .is_ok_and(|record| record.contains("\"finished\": false")),
        );
        // The next command on that system first recovers: the state is fully old or fully
        // new, and no temporary file remains.
        let undone = apply(&["--undo"]).output().unwrap();
        let now = etc();
        assert!(
            now == before,
            "kill {n}: {:?} {}",
            now.keys(),
            String::from_utf8_lossy(&undone.stderr)
        );
        let left: Vec<_> = fs::read_dir(at("var/lib/trimtab/journal"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        // Only the log remains.
        assert!(left.iter().all(|name| name == "log"), "kill {n}: {left:?}");
    }
    println!(
        "apply and its undoing: killed {} times, {caught} times between the files, \
            and restored by the next command each time",
        kills() * 4
    );
}
