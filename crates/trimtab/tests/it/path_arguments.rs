//! Paths that the user names: no command follows a link that another user could have
//! placed on the path. A special file is neither waited for nor read without limit.

use crate::attached_drive::ok;
use crate::support::{have_root, process, skip};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An arbitrary unprivileged user.
const ATTACKER: u32 = 65_534;
/// Far longer than a read-only command takes.
const PATIENCE: Duration = Duration::from_secs(60);
const TRACE: &str = "0,h,0,Write,0,1048576,1\n10000000,h,0,Read,0,4096,1\n";

/// A directory with paths to name, a store that holds a run, and a home.
struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let this = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(this.at("trace.csv"), TRACE).unwrap();
        ok(&mut this.command(&["bench", "tree", "--files", "1", "--tries", "1", "null:"], None));
        this
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command with a private store and runtime directory; `@` stands for the path
    /// under test, `%` for this directory.
    fn command(&self, args: &[&str], tried: Option<&Path>) -> Command {
        let mut command = process();
        let tried = tried.map_or_else(String::new, |path| path.to_str().unwrap().to_owned());
        command.args(args.iter().map(|arg| {
            arg.replace('@', &tried).replace('%', self.directory.path().to_str().unwrap())
        }));
        command
            .env("XDG_DATA_HOME", self.at("home"))
            .env("TRIMTAB_RUNTIME_DIR", self.at("run"))
            .env("TRIMTAB_STATE_DIR", self.at("state"));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Runs the command to its end and panics if it hangs.
    fn run(&self, args: &[&str], tried: &Path, stdin: Option<&str>) -> Output {
        let mut command = self.command(args, Some(tried));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if stdin.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let (Some(text), Some(mut input)) = (stdin, child.stdin.take()) {
            use std::io::Write as _;
            let _ = input.write_all(text.replace('@', tried.to_str().unwrap()).as_bytes());
        }
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > PATIENCE {
                child.kill().unwrap();
                let _ = self.command(&["drive", "detach", "--all", "--force"], None).output();
                panic!(
                    "{args:?} {} {stdin:?} does not end: {:?}",
                    tried.display(),
                    child.wait_with_output()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        child.wait_with_output().unwrap()
    }
}

/// Argument lists for every command that writes, creates or changes a file.
const OUTPUTS: [&[&str]; 14] = [
    &["results", "export", "--output", "@"],
    &["results", "report", "last", "--output", "@"],
    &["results", "report", "last", "--force", "--output", "@"],
    &[
        "drive",
        "attach",
        "ocz-vertex-le-100gb",
        "--size",
        "1GiB",
        "--no-block",
        "--detach-with",
        "1",
        "--nbd",
        "@",
    ],
    &[
        "drive",
        "attach",
        "ocz-vertex-le-100gb",
        "--size",
        "1GiB",
        "--no-block",
        "--detach-with",
        "1",
        "--nbd",
        "%/nbd",
        "--data",
        "@",
    ],
    &[
        "drive",
        "attach",
        "ocz-vertex-le-100gb",
        "--size",
        "1GiB",
        "--no-block",
        "--detach-with",
        "1",
        "--nbd",
        "%/nbd",
        "--record",
        "@",
    ],
    &["--store", "@", "bench", "tree", "--files", "1", "--tries", "1", "null:"],
    &["study", "--quick", "--report", "@", "--yes", "drive:ocz-vertex-le-100gb"],
    &["bench", "tree", "--files", "5", "--reserve", "0", "--yes", "@"],
    &["bench", "postmark", "--number", "5", "--transactions", "5", "--reserve", "0", "--yes", "@"],
    &["study", "--quick", "--reserve", "0", "--yes", "@"],
    &["doctor", "--record", "@"],
    &["apply", "idle", "/", "--sysroot", "@"],
    &["bench", "crystal", "@", "--destroy", "@", "--only", "write", "--size", "16MiB"],
];
/// The same for PostMark commands.
const POSTMARK_OUTPUTS: [&str; 3] =
    ["set location @\nset number 5\nset transactions 5\nrun\n", "run @\n", "show @\n"];

/// The paths below a directory, with the files' contents.
fn state(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(state(&path));
        }
        found.push((path.clone(), fs::read(&path).unwrap_or_default()));
    }
    found.sort();
    found
}

/// Argument lists for every command that examines or trims a path.
const LOOKS: [&[&str]; 14] = [
    &["trim", "--dry-run", "@"],
    &["trim", "@"],
    &["trim", "/proc", "@"],
    &["doctor", "@"],
    &["doctor", "/", "@"],
    &["doctor", "--record", "%/recorded", "@"],
    &["doctor", "--fix", "--dry-run", "@"],
    &["verify", "--yes", "--reserve", "0", "@"],
    &["history", "@"],
    &["wear", "@"],
    &["advise", "@", "--for", "zfs"],
    &["apply", "idle", "--dry-run", "@"],
    &["apply", "idle", "--dry-run", "--config", "@", "/"],
    &["drive", "learn", "--yes", "--reserve", "0", "@"],
];

#[test]
fn no_command_follows_link_of_another_user() {
    if !have_root() {
        return skip("root: two users");
    }
    let scratch = Scratch::new();
    let victim = scratch.at("victim");
    fs::create_dir_all(victim.join("dir/etc")).unwrap();
    fs::write(victim.join("dir/etc/fstab"), "/dev/x / ext4 rw 0 1\n").unwrap();
    fs::write(victim.join("dir/out"), "precious\n").unwrap();
    let before = state(&victim);
    // The attacker's own directory, a world-writable directory, links that the attacker
    // owns, and a link of root's that the attacker moved there.
    let mut tried = Vec::new();
    for (n, (owner, mode)) in [(ATTACKER, 0o755), (0, 0o1777)].into_iter().enumerate() {
        let ground = scratch.at(&format!("ground{n}"));
        fs::create_dir(&ground).unwrap();
        fs::set_permissions(&ground, fs::Permissions::from_mode(mode)).unwrap();
        for (link, whose) in [("theirs", ATTACKER), ("ours", 0)] {
            symlink(&victim, ground.join(link)).unwrap();
            lchown(ground.join(link), Some(whose), Some(whose)).unwrap();
            tried.push(ground.join(link));
        }
        chown(&ground, Some(owner), Some(owner)).unwrap();
    }
    for link in tried {
        let mut cases: Vec<(&[&str], Option<&str>)> =
            OUTPUTS.iter().chain(&INPUTS).chain(&LOOKS).map(|args| (*args, None)).collect();
        cases.extend(
            POSTMARK_OUTPUTS.iter().map(|text| (&["-q", "postmark", "/dev/null"][..], Some(*text))),
        );
        for (args, stdin) in cases {
            let of_directory = args.contains(&"--sysroot")
                || args.contains(&"--yes") && args.contains(&"@")
                || ["trim", "doctor"].contains(&args[0]);
            let path = link.join(if of_directory { "dir" } else { "dir/out" });
            let output = scratch.run(args, &path, stdin);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                said.contains("is a symbolic link"),
                "{args:?} {stdin:?} {}: {said}",
                path.display()
            );
            assert!(stdin.is_some() || !output.status.success(), "{args:?}: {said}");
            assert!(
                state(&victim) == before,
                "{args:?} {stdin:?} {} reached the victim: {:?}",
                path.display(),
                state(&victim)
            );
        }
    }
}

#[test]
fn commands_follow_links_of_the_same_user() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.at("real/below")).unwrap();
    symlink("real/below", scratch.at("link")).unwrap();
    symlink(scratch.at("link/../below"), scratch.at("again")).unwrap();
    fs::write(
        scratch.at("real/below/spec.toml"),
        "name = \"x\"\ndescription = \"x\"\ncapacity_bytes = 67_108_864\n[flash]\n",
    )
    .unwrap();
    for (n, link) in ["link", "again", "./link/.", "link/../below"].into_iter().enumerate() {
        ok(&mut scratch
            .command(&["results", "export", "--output", &format!("{link}/out{n}")], None));
        ok(&mut scratch.command(
            &[
                "--store",
                &format!("{link}/r{n}.db"),
                "bench",
                "tree",
                "--files",
                "1",
                "--tries",
                "1",
                "null:",
            ],
            None,
        ));
        ok(&mut scratch.command(&["drive", "show", &format!("{link}/spec.toml")], None));
        assert!(
            scratch.at("real/below").join(format!("out{n}")).is_file()
                && scratch.at("real/below").join(format!("r{n}.db")).is_file()
        );
    }
    // A store named through the user's own link.
    symlink("real/below/r0.db", scratch.at("r.db")).unwrap();
    let listed = ok(&mut scratch.command(&["--store", "r.db", "results", "list", "--json"], None));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("\"workload\": \"tree\""));
    assert!(scratch.at("r.db").is_symlink());
}

#[test]
fn store_in_directory_writable_by_others_is_refused() {
    if !have_root() {
        return skip("root: two users");
    }
    let scratch = Scratch::new();
    for (name, owner, mode) in
        [("theirs", ATTACKER, 0o755), ("shared", 0, 0o1777), ("group", 0, 0o775)]
    {
        let ground = scratch.at(name);
        fs::create_dir(&ground).unwrap();
        fs::set_permissions(&ground, fs::Permissions::from_mode(mode)).unwrap();
        chown(&ground, Some(owner), Some(owner)).unwrap();
        for below in ["r.db", "own/r.db"] {
            fs::create_dir_all(ground.join("own")).unwrap();
            let output = scratch.run(
                &["--store", "@", "bench", "tree", "--files", "1", "--tries", "1", "null:"],
                &ground.join(below),
                None,
            );
            let said = String::from_utf8_lossy(&output.stderr);
            // In a directory with the sticky bit, no other user can replace root's files,
            // so the store is accepted.
            let fine = name == "shared" && below == "own/r.db";
            assert_eq!(output.status.success(), fine, "{name} {below}: {said}");
            assert!(fine || said.contains("cannot be trusted"), "{name} {below}: {said}");
            assert_eq!(ground.join(below).exists(), fine);
        }
    }
}

/// Argument lists for every input file that the user names.
const INPUTS: [&[&str]; 15] = [
    &["drive", "show", "@"],
    &["drive", "simulate", "--drive", "@"],
    &["drive", "attach", "@", "--no-block", "--nbd", "%/nbd", "--detach-with", "1"],
    &["drive", "simulate", "--trace", "@", "--drive", "ocz-vertex-le-100gb"],
    &["drive", "trace", "@"],
    &["bench", "postmark", "drive:@"],
    &["bench", "tree", "--tar", "@", "null:"],
    &["study", "--quick", "--yes", "drive:@"],
    &["daemon", "--check", "--config", "@"],
    &["daemon", "--config", "@"],
    &["--store", "@", "results", "list"],
    &["doctor", "--sysroot", "@"],
    &["wear", "--from", "@"],
    &["wear", "--from", "-", "--before", "@"],
    &["report", "fleet", "@"],
];

/// Paths that are not regular files.
fn special(scratch: &Scratch) -> Vec<PathBuf> {
    let at = |name: &str| scratch.at(name);
    for pipe in ["pipe", "pipe.toml"] {
        ok(Command::new("mkfifo").arg(at(pipe)));
    }
    let socket = UnixListener::bind(at("socket")).unwrap();
    std::mem::forget(socket);
    fs::create_dir(at("directory")).unwrap();
    vec![
        at("pipe"),
        at("pipe.toml"),
        at("socket"),
        at("directory"),
        "/dev/zero".into(),
        "/dev/urandom".into(),
        "/dev/tty".into(),
    ]
}

#[test]
fn special_files_are_refused_without_waiting() {
    let scratch = Scratch::new();
    for path in special(&scratch) {
        for args in INPUTS.iter().chain(&OUTPUTS) {
            let directory = path.ends_with("directory");
            let wanted = args.contains(&"--yes")
                || args.contains(&"crystal")
                || args.contains(&"--sysroot")
                || args.contains(&"--record") && args[0] == "doctor";
            let device = path.starts_with("/dev")
                && (args.contains(&"--output") || args.contains(&"--report"));
            if directory && wanted || device {
                // These commands expect a directory, or may write to a terminal or such a
                // device.
                continue;
            }
            let output = scratch.run(args, &path, None);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{args:?} {}: {said}", path.display());
            assert!(
                said.lines().count() <= 3 && said.len() < 600,
                "{args:?} {}: {said}",
                path.display()
            );
        }
        for stdin in ["load @\n", "run @\n", "show @\n", "set location @\nrun\n"] {
            let device = path.starts_with("/dev");
            if device && !stdin.starts_with("load") && !stdin.starts_with("set") {
                continue;
            }
            let text = format!(
                "set number 5\nset transactions 5\nset location {}\n{stdin}",
                scratch.directory.path().display()
            );
            let output = scratch.run(&["-q", "postmark", "/dev/null"], &path, Some(&text));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let fine = path.ends_with("directory") && stdin.starts_with("set");
            assert!(fine || !said.is_empty(), "{stdin} {}", path.display());
        }
        let output = scratch.run(&["-q", "postmark", "@"], &path, Some(""));
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("cannot read"),
            "{}: {output:?}",
            path.display()
        );
    }
}

#[test]
fn endless_file_is_refused_at_a_limit() {
    let scratch = Scratch::new();
    let path = scratch.at("endless.toml");
    fs::File::create(&path).unwrap().set_len(1 << 43).unwrap();
    for args in INPUTS {
        let output = scratch.run(args, &path, None);
        assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    scratch.run(&["-q", "postmark", "@"], &path, Some(""));
}

#[test]
fn shell_pipes_are_read_and_written() {
    let scratch = Scratch::new();
    let program = crate::support::program();
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        crate::support::at_home(&mut command);
        command
            .args(["-c", script, "bash"])
            .arg(&program)
            .arg(scratch.directory.path())
            .env("XDG_DATA_HOME", scratch.at("home"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    fs::write(
        scratch.at("spec.toml"),
        "name = \"piped\"\ndescription = \"x\"\ncapacity_bytes = 67_108_864\n[flash]\n",
    )
    .unwrap();
    assert!(shell("$1 drive show <(cat $2/spec.toml)").contains("piped"));
    assert!(shell("cat $2/spec.toml | $1 drive show /dev/stdin").contains("piped"));
    assert!(shell("$1 postmark <(echo 'quit ') < /dev/null").contains("PostMark v1.51"));
    // Writing to /dev/stdout works for every kind of standard output and never replaces
    // the node.
    let node = fs::symlink_metadata("/dev/stdout").unwrap();
    for script in [
        "$1 results export --output /dev/stdout | cat",
        "$1 results export --output /dev/stdout > $2/b; cat $2/b",
        "echo first > $2/c; $1 results export --output /dev/stdout >> $2/c; grep -q \
            first $2/c && cat $2/c",
        "$1 results export --output >(cat > $2/d); for n in $(seq 100); do [ -s $2/d \
            ] && break; sleep 0.05; done; cat $2/d",
    ] {
        assert!(shell(script).contains("\"trimtab.runs\""), "{script}");
    }
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(
        fs::symlink_metadata("/dev/stdout").unwrap().ino(),
        node.ino(),
        "/dev/stdout was replaced"
    );
}

#[test]
fn daemon_config_of_another_user_is_refused() {
    if !have_root() {
        return skip("root: two users");
    }
    let scratch = Scratch::new();
    let config = scratch.at("trimtab.toml");
    fs::write(&config, "[default]\npolicy = \"none\"\n").unwrap();
    chown(&config, Some(ATTACKER), Some(ATTACKER)).unwrap();
    for args in [&["daemon", "--check", "--config", "@"][..], &["daemon", "--config", "@"]] {
        let output = scratch.run(args, &config, None);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("belongs to another user (uid 65534)"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn shared_writable_config_runs_no_shell_command() {
    if !have_root() {
        return skip("root: two users");
    }
    let scratch = Scratch::new();
    let orders =
        format!("!touch {}\nset report terse\nshow\nquit\n", scratch.at("reached").display());
    fs::write(scratch.at(".pmrc"), &orders).unwrap();
    let run = |args: &[&str]| {
        let output = scratch.run(&[&["-q", "postmark"], args].concat(), Path::new(""), Some(""));
        let shown = String::from_utf8_lossy(&output.stdout).contains("terse");
        (
            scratch.at("reached").exists(),
            shown,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (reached, shown, said) = run(&[]);
    assert!(reached && shown, "one's own is executed: {said}");
    fs::remove_file(scratch.at("reached")).unwrap();
    for (owner, mode) in [(ATTACKER, 0o644), (0, 0o666)] {
        chown(scratch.at(".pmrc"), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(scratch.at(".pmrc"), fs::Permissions::from_mode(mode)).unwrap();
        let (reached, shown, said) = run(&[]);
        assert!(!reached && !shown && said.contains(".pmrc is writable by other users"), "{said}");
        // A file named explicitly is read for its settings, but its commands do not run.
        let (reached, shown, said) = run(&["./.pmrc"]);
        assert!(!reached && shown && said.contains("are not executed"), "{said}");
    }
}
