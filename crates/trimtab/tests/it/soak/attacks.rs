//! Another user renames, links and swaps files during every command that writes.

use super::*;

/// An arbitrary unprivileged user.
const ATTACKER: u32 = 65_534;
/// The variables that give the attacker its ground and its canary.
const GROUND: &str = "TRIMTAB_TEST_ATTACK";
const CANARY: &str = "TRIMTAB_TEST_CANARY";
const PRECIOUS: &[u8] = b"somebody else's\n";

/// A directory of another user, which no command may change.
struct Canary {
    directory: tempfile::TempDir,
    before: BTreeMap<PathBuf, (u32, u32, u64, u64, Vec<u8>)>,
    /// The attacker's program.
    attacker: PathBuf,
}

impl Canary {
    fn new(place: &Path) -> Self {
        let directory =
            tempfile::Builder::new().prefix("trimtab-canary-").tempdir_in(place).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(directory.path().join("dir/deeper")).unwrap();
        for name in [
            "precious",
            "dir/1",
            "dir/marker",
            "dir/record.json",
            "dir/deeper/file",
            "dir/fstab",
            "dir/trimtab.toml",
        ] {
            fs::write(directory.path().join(name), PRECIOUS).unwrap();
        }
        let before = state(directory.path());
        // Another user may be unable to run the test program in place, but can run a
        // copy.
        let copy = Path::new("/dev/shm")
            .join(directory.path().file_name().unwrap())
            .with_extension("attacker");
        crate::support::copy_program(&std::env::current_exe().unwrap(), &copy);
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory, before, attacker: copy }
    }

    fn check(&self, after: &str) {
        let now = state(self.directory.path());
        assert!(now == self.before, "{after} reached a foreign file: {:?}", self.directory.path());
    }
}

/// The attacking user: this test program, run under another uid. It ends when its ground
/// is removed.
#[test]
#[ignore = "the other user of the tests below"]
fn child_that_attacks() {
    let (Ok(ground), Ok(canary)) = (std::env::var(GROUND), std::env::var(CANARY)) else { return };
    let (ground, canary) = (PathBuf::from(ground), PathBuf::from(canary));
    let mut draw = Stream::new(u64::from(std::process::id()), "attacker");
    let mut known: Vec<PathBuf> = Vec::new();
    let parent = rustix::process::getppid();
    // A pause of 0 leaves commands hardly any chance to succeed. The longer pauses let
    // them get halfway.
    let pause = Duration::from_micros([0, 0, 500, 5_000, 50_000][draw.below(5) as usize]);
    while ground.exists() && rustix::process::getppid() == parent {
        std::thread::sleep(Duration::from_nanos(draw.below(2 * pause.as_nanos() as u64 + 1)));
        let Ok(entries) = fs::read_dir(&ground) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !known.contains(&path) && known.len() < 500 {
                known.push(path);
            }
        }
        // Any name ever seen here may be reused.
        for path in &known {
            let aside = ground.join(format!("aside-{}", draw.below(8)));
            let target =
                if draw.chance(0.5) { canary.join("dir") } else { canary.join("precious") };
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

/// A directory owned by the attacker, with the attacker running in it.
struct Ground {
    // Dropped first, or the directory would not stay empty.
    attacker: Option<Ends>,
    directory: tempfile::TempDir,
}

impl Ground {
    /// A ground that contains these files, owned by root.
    fn new(canary: &Canary, place: &Path, files: &[&str]) -> Self {
        let directory = Self::calm(place, files);
        let mut command = Command::new(&canary.attacker);
        command
            .args(["--exact", "soak::attacks::child_that_attacks", "--ignored"])
            .uid(ATTACKER)
            .gid(ATTACKER)
            .current_dir("/");
        command
            .env(GROUND, directory.path())
            .env(CANARY, canary.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let attacker = loop {
            match command.spawn() {
                // Another thread forked while the copy was being written and still holds
                // it open.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                started => break started.unwrap(),
            }
        };
        Self { directory, attacker: Some(Ends(attacker)) }
    }

    /// The same directory without an attacker.
    fn calm(place: &Path, files: &[&str]) -> tempfile::TempDir {
        let directory =
            tempfile::Builder::new().prefix("trimtab-ground-").tempdir_in(place).unwrap();
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

    fn is_calm(&self) -> bool {
        self.attacker.is_none()
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

/// Runs a command during the attack and ignores its status; the command must end.
fn beside(args: &[&str], home: &Path, stdin: Option<&str>) -> bool {
    let mut command = process();
    command
        .args(args)
        .env("TRIMTAB_RUNTIME_DIR", home.join("run"))
        .env("TRIMTAB_STATE_DIR", home.join("state"))
        .env("XDG_DATA_HOME", home);
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(if stdin.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
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

/// Attacks one command the default number of times, and prints how often it still
/// succeeded.
fn attack(name: &str, files: &[&str], run: impl Fn(&Ground, &Path) -> bool) {
    attack_times(name, tries(10), files, run);
}

/// The number of attacks from the environment, or `otherwise`.
fn tries(otherwise: u64) -> u64 {
    number("TRIMTAB_SOAK_TRIES", otherwise)
}

fn attack_times(name: &str, tries: u64, files: &[&str], run: impl Fn(&Ground, &Path) -> bool) {
    attack_in(Path::new("/dev/shm"), name, tries, files, run);
}

/// The same on the filesystem of `place`.
fn attack_in(
    place: &Path,
    name: &str,
    tries: u64,
    files: &[&str],
    run: impl Fn(&Ground, &Path) -> bool,
) {
    let canary = Canary::new(place);
    let home = tempfile::tempdir().unwrap();
    let calm = Ground { directory: Ground::calm(place, files), attacker: None };
    assert!(
        run(&calm, home.path()),
        "{name} does not even work when nobody attacks: this would prove nothing"
    );
    drop(calm);
    let mut worked = 0;
    let mut done = 0;
    while done < tries {
        // Starts on a fresh ground now and then: a permanent obstacle would make every
        // later attempt fail early.
        let ground = Ground::new(&canary, place, files);
        for _ in 0..5.min(tries - done) {
            worked += u64::from(run(&ground, home.path()));
            done += 1;
        }
        canary.check(name);
    }
    println!(
        "{name}: {tries} tries beside an attacker, {worked} of them worked, nothing \
            of anybody else's was reached"
    );
}

#[test]
fn bench_and_postmark_under_attack_keep_foreign_files() {
    if !have_root() {
        return skip("root");
    }
    let common = ["--reserve", "0", "--yes"];
    attack("bench tree", &[], |ground, home| {
        beside(
            &[&["bench", "tree", "--files", "30", "--tries", "1", &ground.path(".")], &common[..]]
                .concat(),
            home,
            None,
        )
    });
    attack("bench postmark", &[], |ground, home| {
        beside(
            &[
                &[
                    "bench",
                    "postmark",
                    "--number",
                    "20",
                    "--transactions",
                    "20",
                    "--tries",
                    "1",
                    &ground.path("."),
                ],
                &common[..],
            ]
            .concat(),
            home,
            None,
        )
    });
    // This command takes longer.
    attack_times("bench crystal", tries(2), &[], |ground, home| {
        let quick = [
            "--size",
            "16MiB",
            "--passes",
            "1",
            "--bytes",
            "64KiB",
            "--interval",
            "0s",
            "--only",
            "write",
            "--buffered",
        ];
        beside(
            &[&["bench", "crystal", &ground.path(".")], &quick[..], &common[..]].concat(),
            home,
            None,
        )
    });
    attack("postmark", &[], |ground, home| {
        let out = ground.path("out");
        let text = format!(
            "set location {}\nset number 20\nset transactions 20\nshow {out}\nrun {out}\nquit\n",
            ground.path(".")
        );
        beside(&["postmark", "/dev/null"], home, Some(&text))
    });
    attack_times("bench nfs", tries(2), &[], |ground, home| {
        let quick = [
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
        ];
        beside(
            &[&["bench", "nfs", &ground.path(".")], &quick[..], &common[..]].concat(),
            home,
            None,
        )
    });
    attack_times("bench age", tries(4), &[], |ground, home| {
        let quick = [
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
        ];
        beside(
            &[&["bench", "age", &ground.path(".")], &quick[..], &common[..]].concat(),
            home,
            None,
        )
    });
}

#[test]
fn trim_verify_and_daemon_under_attack_keep_foreign_files() {
    let Some(mount) = LoopMount::new("ext4", 512, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    attack_in(&mount.path(), "verify", tries(4), &[], |ground, home| {
        beside(
            &["verify", "--yes", "--reserve", "1MB", "--size", "4MiB", &ground.path(".")],
            home,
            None,
        )
    });
    attack_in(&mount.path(), "trim", tries(10), &["d/file"], |ground, home| {
        beside(&["trim", &ground.path(".")], home, None)
    });
    // The metrics go to a directory of another user, as with Prometheus' node exporter.
    attack_in(&mount.path(), "daemon with metrics", tries(10), &[], |ground, home| {
        let (config, metrics) = (home.join("trimtab.toml"), ground.path("trimtab.prom"));
        let text = format!(
            "[daemon]\nstate = \"{}\"\nmetrics = \"{metrics}\"\n\
                metrics-every = \"1s\"\n[[filesystem]]\npath = \"{}\"\n\
                policy = \"batched\"\n",
            home.join("state").display(),
            mount.path().display()
        );
        fs::write(&config, text).unwrap();
        let mut command = process();
        command
            .args(["daemon", "--config"])
            .arg(&config)
            .env("TRIMTAB_RUNTIME_DIR", home.join("run"))
            .env("XDG_DATA_HOME", home);
        let mut child = Ends(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let written = || {
            fs::symlink_metadata(&metrics)
                .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == 0)
        };
        // Beside an attacker the metrics may never be written.
        let limit =
            if ground.is_calm() { Duration::from_secs(60) } else { Duration::from_millis(300) };
        let started = Instant::now();
        while !written() && started.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&child.0),
            rustix::process::Signal::TERM,
        );
        let written = written();
        child.0.wait().unwrap().success() && written
    });
}

#[test]
fn study_under_attack_keeps_foreign_files() {
    if !have_root() {
        return skip("root");
    }
    attack_times("study", tries(1), &["report.html"], |ground, home| {
        let (path, report) = (ground.path("."), ground.path("report.html"));
        beside(
            &["study", "--quick", "--reserve", "0", "--yes", "--report", &report, "--force", &path],
            home,
            None,
        )
    });
}

#[test]
fn path_arguments_under_attack_keep_foreign_files() {
    if !have_root() {
        return skip("root");
    }
    let kept = tempfile::tempdir().unwrap();
    let store = kept.path().join("r.db");
    let store = store.to_str().unwrap();
    ok(process()
        .args(["--store", store, "bench", "tree", "--files", "1", "--tries", "1", "null:"]));
    attack("results export", &["out"], |ground, home| {
        beside(
            &["--store", store, "results", "export", "--force", "--output", &ground.path("out")],
            home,
            None,
        )
    });
    attack("results report", &["out"], |ground, home| {
        beside(
            &[
                "--store",
                store,
                "results",
                "report",
                "last",
                "--force",
                "--output",
                &ground.path("out"),
            ],
            home,
            None,
        )
    });
    // Where other users may replace files, the program must refuse to create a store.
    attack("a new store (refused)", &[], |ground, home| {
        let store = ground.path("r.db");
        !beside(
            &["--store", &store, "bench", "tree", "--files", "1", "--tries", "1", "null:"],
            home,
            None,
        )
    });
    attack("doctor --record", &[], |ground, home| {
        beside(&["doctor", "--record", &ground.path("tree"), "/dev/shm"], home, None)
    });
    attack("bench crystal --destroy", &["out"], |ground, home| {
        let file = ground.path("out");
        let quick = [
            "--size",
            "16MiB",
            "--passes",
            "1",
            "--bytes",
            "64KiB",
            "--interval",
            "0s",
            "--only",
            "write",
            "--yes",
        ];
        beside(&[&["bench", "crystal", &file, "--destroy", &file], &quick[..]].concat(), home, None)
    });
}

#[test]
fn apply_sysroot_under_attack_keeps_foreign_files() {
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
fn drive_attach_under_attack_keeps_foreign_files() {
    if !have_root() {
        return skip("root");
    }
    attack("drive attach --data --record --nbd", &[], |ground, home| {
        let pid = std::process::id().to_string();
        let mut args = vec![
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--size",
            "1GiB",
            "--speed",
            "off",
            "--no-block",
            "--detach-with",
            &pid,
        ];
        let (data, record, nbd) = (ground.path("data"), ground.path("record"), ground.path("nbd"));
        args.extend(["--data", &data, "--record", &record, "--nbd", &nbd]);
        let attached = beside(&args, home, None);
        beside(&["drive", "detach", "--all", "--force"], home, None);
        attached
    });
}
