//! `trimtab postmark` compared with recorded sessions, trees and system calls of the
//! original, and tests for its bugs.

use crate::support::{at_home, have_root, have_tool, process, program, skip, trimtab};
use predicates::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A fixture's section, up to the next line that begins with `===`.
fn section(text: &str, name: &str) -> String {
    let (_, rest) =
        text.split_once(&format!("=== {name}")).unwrap_or_else(|| panic!("no section {name}"));
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split("\n===").next().unwrap().to_owned() + "\n"
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postmark").join(name);
    fs::read_to_string(path).unwrap()
}

/// A scratch directory in memory.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("pm").tempdir_in("/dev/shm").unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// A scratch directory that contains two working directories.
fn work() -> (tempfile::TempDir, PathBuf) {
    let (dir, path) = scratch();
    fs::create_dir(path.join("pm")).unwrap();
    fs::create_dir(path.join("pm2")).unwrap();
    (dir, path)
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The output without help and error messages, whose wording may differ from the
/// original.
fn without_free_words(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let line = line.split("Error: ").next().unwrap();
            let (prompt, command) = line.split_at(line.rfind("pm>").map_or(0, |at| at + 3));
            if command.contains(" - ") { prompt } else { line }
        })
        .collect()
}

#[test]
fn postmark_sessions_match_original_on_real_directories() {
    for (name, config) in [
        ("03_defaults_realclock.txt", None),
        ("05_many_runs_one_session.txt", None),
        ("07_biases_and_out_of_files.txt", None),
        ("10_pmrc.txt", None),
        ("11_missing_config_argument.txt", Some("nope.cfg")),
        ("19a_location_72_characters.txt", None),
        ("20_golden_tree_default.txt", None),
    ] {
        let text = fixture(name);
        let (_dir, work) = if text.contains("WORK/pm") { work() } else { scratch() };
        let place = |text: &str| text.replace("WORK", work.to_str().unwrap());
        if text.contains("=== FILE .pmrc") {
            fs::write(work.join(".pmrc"), section(&text, "FILE .pmrc")).unwrap();
        }
        let output = trimtab()
            .arg("postmark")
            .args(config)
            .current_dir(&work)
            .write_stdin(place(&section(&text, "INPUT")))
            .assert()
            // Unlike the original, which ignores a missing file.
            .code(i32::from(config.is_some()))
            .get_output()
            .clone();
        let wanted = section(&text, "OUTPUT").replace("[no newline at end]\n", "");
        assert_eq!(
            without_free_words(&String::from_utf8(output.stdout).unwrap()),
            place(&without_free_words(&wanted)),
            "{name}"
        );
        if text.contains("AFTERWARDS: cat out.txt") {
            let out = fs::read_to_string(work.join("out.txt")).unwrap();
            assert_eq!(out, place(section(&text, "AFTERWARDS").trim_end()) + "\n");
        }
    }
}

#[test]
fn postmark_files_match_contents_of_original() {
    let text = fixture("20_golden_tree_default.txt");
    let (_dir, work) = work();
    let input = section(&text, "INPUT").replace("WORK", work.to_str().unwrap());
    if !have_tool("strace") {
        return skip("strace");
    }
    // Injected faults keep the files: the system calls that would remove them do nothing.
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=unlinkat",
        "-e",
        "inject=unlinkat:retval=0",
    ]);
    at_home(&mut command);
    run_with_input(command.arg(program()).args(["-q", "postmark"]), &input);
    let mut seen = 0;
    for line in section(&text, "AFTERWARDS").lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [size, mode, sum, path] = fields[..] else { continue };
        let path = PathBuf::from(path.replace("WORK", work.to_str().unwrap()));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(
            (metadata.len().to_string(), format!("{:o}", metadata.permissions().mode() & 0o777)),
            (size.into(), mode.into()),
            "{path:?}"
        );
        let output = Command::new("sha256sum").arg(&path).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().starts_with(sum), "{path:?}");
        seen += 1;
    }
    assert_eq!((seen, entries(&work.join("pm")).len()), (28, 28));
}

fn run_with_input(command: &mut Command, input: &str) -> std::process::Output {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The system calls on the working files, converted from strace output to the recorded
/// form: paths relative to WORK, the descriptor 4, and the older calls with the same
/// meaning.
fn calls(trace: &str, work: &str) -> Vec<String> {
    let mut dirs: BTreeMap<String, String> = BTreeMap::new();
    let mut files: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
        let result = result.trim().to_owned();
        let arguments = arguments.trim_end().strip_suffix(')').unwrap_or(arguments);
        let (first, others) = arguments.split_once(", ").unwrap_or((arguments, ""));
        let opens = name == "open" || (name == "openat" && first == "AT_FDCWD");
        if name == "close" && dirs.remove(first).is_some() {
            continue;
        }
        if opens && arguments.contains("O_DIRECTORY") {
            let path = arguments.split('"').nth(1).unwrap();
            dirs.insert(result, path.replace(work, "WORK"));
        } else if name == "fcntl" && dirs.contains_key(first) && others.starts_with("F_DUPFD") {
            let path = dirs[first].clone();
            dirs.insert(result, path);
        } else if let (Some(dir), Some(path)) =
            (dirs.get(first), others.strip_prefix('"').and_then(|rest| rest.split('"').next()))
        {
            let rest = &others[path.len() + 2..];
            let path = format!("\"{dir}/{path}\"");
            match name {
                // Opens a directory once for name lookups; the path that the user named
                // is resolved from the root.
                "openat" if rest.contains("O_DIRECTORY") => {
                    let path =
                        Path::new(dir).join(path.trim_matches('"').rsplit('/').next().unwrap());
                    let path = if others.starts_with("\".\"") {
                        dir.clone()
                    } else {
                        path.to_str().unwrap().replace(work, "WORK")
                    };
                    dirs.insert(result, path);
                }
                "openat2" if rest.contains("O_DIRECTORY") => {
                    dirs.insert(result, path.trim_matches('"').to_owned());
                }
                "openat" => {
                    files.push(result);
                    // The first flag has no effect on 64-bit systems. The other two
                    // protect existing files at no cost.
                    let rest = rest
                        .replace("|O_LARGEFILE", "")
                        .replace("|O_EXCL", "")
                        .replace("|O_NOFOLLOW", "");
                    calls.push(format!("openat(AT_FDCWD, {path}{rest}) = 4"));
                }
                "mkdirat" => calls.push(format!("mkdir({path}{rest}) = {result}")),
                "unlinkat" if rest == ", AT_REMOVEDIR" => {
                    calls.push(format!("rmdir({path}) = {result}"))
                }
                "unlinkat" => calls.push(format!("unlink({path}) = {result}")),
                _ => calls.push(line.to_owned()),
            }
        } else if files.last().is_some_and(|file| file == first) {
            let others = if others.is_empty() { String::new() } else { format!(", {others}") };
            calls.push(format!("{name}(4{others}) = {result}"));
            if name == "close" {
                files.clear();
            }
        }
    }
    calls
}

#[test]
fn postmark_system_calls_match_original() {
    if !have_tool("strace") {
        return skip("strace");
    }
    for name in [
        "30_syscalls_unbuffered.txt",
        "31_syscalls_unbuffered_exact_multiple.txt",
        "32_syscalls_buffered.txt",
    ] {
        let text = fixture(name);
        let (_dir, work) = work();
        let trace = work.join("trace");
        let input = section(&text, "CONFIG").replace("WORK", work.to_str().unwrap());
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-s", "16", "-o"])
            .arg(&trace)
            .arg(program())
            .args(["-q", "postmark"]);
        at_home(&mut command);
        assert!(run_with_input(&mut command, &input).status.success());
        let mut got = calls(&fs::read_to_string(&trace).unwrap(), work.to_str().unwrap());
        // The program inspects the location before the run.
        got.drain(
            ..got
                .iter()
                .position(|call| call.starts_with("mkdir") || call.contains("O_CREAT"))
                .unwrap(),
        );
        // The file exists when the program appends to it, so no O_CREAT is needed.
        let wanted: Vec<String> = section(&text, "CALLS")
            .replace("O_WRONLY|O_CREAT|O_APPEND, 0666", "O_WRONLY|O_APPEND")
            .trim_end()
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let got: Vec<String> =
            got.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(got, wanted, "{name}");
    }
}

/// Runs random settings with the original and with our program, and compares the reports.
#[test]
fn postmark_random_settings_match_original() {
    if !have_tool("postmark") {
        return skip("postmark");
    }
    let (_dir, work) = work();
    let mut rng = trimtab_drive::rng::Stream::new(1, "postmark-settings");
    let mut session = String::from("set report terse\n");
    for _ in 0..40 {
        let low = rng.between(1, 60);
        session += &format!(
            "set size {low} {}\nset number {}\nset transactions {}\nset seed {}\n\
                set read {}\nset write {}\n",
            low + rng.below(4000),
            rng.between(1, 40),
            rng.between(10, 400),
            rng.between(1, 1 << 31) as u32 & 0x7fff_ffff | 1,
            rng.between(1, 9000),
            rng.between(1, 9000),
        );
        session += &format!(
            "set bias read {}\nset bias create {}\n",
            rng.between(0, 11) as i64 - 1,
            rng.between(0, 11) as i64 - 1
        );
        session += &format!(
            "set buffering {}\nset subdirectories {}\n",
            rng.chance(0.5),
            rng.between(1, 4)
        );
        let pm = work.join("pm").display().to_string();
        let pm2 = work.join("pm2").display().to_string();
        session += &format!("set location {pm} {}\n", rng.between(1, 4));
        if rng.chance(0.5) {
            session += &format!("set location +{pm2} {}\n", rng.between(1, 4));
        }
        session += "show\nrun\n";
    }
    let original = run_with_input(&mut Command::new("postmark"), &session);
    let ours = run_with_input(process().args(["-q", "postmark"]), &session);
    assert_eq!(String::from_utf8_lossy(&ours.stderr), "");
    assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&original.stdout));
    assert!(entries(&work.join("pm")).is_empty());
}

fn session(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn postmark_runs_nine_transactions_in_a_long_path() {
    let (_dir, work) = work();
    let long = work.join("x".repeat(120)).join("y".repeat(90));
    fs::create_dir_all(&long).unwrap();
    let input = session(&[
        &format!("set location {}", long.display()),
        "set number 3",
        "set transactions 9",
        "run",
    ]);
    trimtab().args(["-q", "postmark"]).write_stdin(input).assert().success().stdout(
        predicate::str::contains("Performing transactions.........Done\n")
            .and(predicate::str::contains("(9 per second)")),
    );
    assert!(entries(&long).is_empty());
}

#[test]
fn postmark_large_write_needs_yes() {
    let (_dir, work) = work();
    // 15 GB in total, 100 MB at a time.
    let location = format!("set location {}", work.join("pm").display());
    let input = session(&[
        &location,
        "set size 1000000 1000001",
        "set number 100",
        "set transactions 60000",
        "run",
    ]);
    let assert = trimtab().args(["-q", "postmark"]).write_stdin(input).assert().code(1);
    assert.stderr(predicate::str::contains("that is more than 10.0 GB; use --yes to allow it"));
    assert!(entries(&work.join("pm")).is_empty());
}

#[test]
fn missing_location_ends_run_and_session_continues() {
    let (_dir, work) = work();
    let input = session(&[
        &format!("set location {}/nowhere", work.display()),
        "run",
        "set location pm",
        "run",
    ]);
    let assert =
        trimtab().args(["-q", "postmark"]).current_dir(&work).write_stdin(input).assert().code(1);
    assert
        .stderr(
            predicate::str::is_match(r"^trimtab: cannot use the location .*/nowhere: No such file or directory \(os error 2\)\n$").unwrap(),
        )
        .stdout(predicate::str::contains("pm>pm>\npm>pm>Creating files...Done"));
    let assert = trimtab()
        .args(["-q", "postmark"])
        .write_stdin("set location /etc/passwd\nrun\n")
        .assert()
        .code(1);
    assert.stderr(predicate::str::contains("ot a directory"));
}

#[test]
fn postmark_keeps_existing_files() {
    let (_dir, work) = work();
    let pm = work.join("pm");
    fs::write(pm.join("17"), b"precious").unwrap();
    fs::create_dir(pm.join("s1")).unwrap();
    fs::write(pm.join("s1/4"), b"precious too").unwrap();
    fs::write(pm.join("notes"), b"not in the way").unwrap();
    for buffering in ["true", "false"] {
        let run = |first: &str| {
            session(&[
                &format!("set location {}", pm.display()),
                &format!("set buffering {buffering}"),
                first,
                "run",
            ])
        };
        let assert = trimtab()
            .args(["-q", "--yes", "postmark"])
            .write_stdin(run("set number 20"))
            .assert()
            .code(1);
        assert.stderr(predicate::str::contains("pm/17 is in the way"));
        let assert = trimtab()
            .args(["-q", "postmark"])
            .write_stdin(run("set subdirectories 2"))
            .assert()
            .code(1);
        assert.stderr(predicate::str::contains("in the way"));
        fs::rename(pm.join("17"), pm.join("99999")).unwrap();
        trimtab().args(["-q", "postmark"]).write_stdin(run("set number 20")).assert().success();
        fs::rename(pm.join("99999"), pm.join("17")).unwrap();
    }
    assert_eq!(entries(&pm), ["17", "notes", "s1"]);
    assert_eq!(
        (fs::read(pm.join("17")).unwrap(), fs::read(pm.join("s1/4")).unwrap()),
        (b"precious".into(), b"precious too".into())
    );
}

#[test]
fn postmark_refuses_leftovers_of_killed_run() {
    let (_dir, work) = work();
    let config = work.join("config");
    fs::write(
        &config,
        session(&[
            "set location pm",
            "set number 5000",
            "set transactions 2000000",
            "set subdirectories 2",
            "run",
            "quit",
        ]),
    )
    .unwrap();
    let mut child = process()
        .args(["-q", "postmark"])
        .arg(&config)
        .current_dir(&work)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !work.join("pm/s0").is_dir() || entries(&work.join("pm/s0")).len() < 200 {
        assert!(Instant::now() < deadline, "the run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A second run in the same place is refused while the first one runs.
    fs::write(
        &config,
        session(&[
            "set location pm",
            "set number 50",
            "set transactions 20",
            "set subdirectories 2",
            "run",
            "quit",
        ]),
    )
    .unwrap();
    let second = || {
        let mut command = trimtab();
        command.args(["-q", "postmark"]).arg(&config).current_dir(&work);
        command
    };
    second().assert().code(1).stderr(predicate::str::contains("another PostMark run is using pm"));
    child.kill().unwrap();
    child.wait().unwrap();
    let left = entries(&work.join("pm/s1"));
    assert!(!left.is_empty());
    second().arg("--yes").assert().code(1).stderr(
        predicate::str::is_match(r"^trimtab: pm/s\d/\d+ and \d+ more files are in the way: remove")
            .unwrap(),
    );
    assert_eq!(entries(&work.join("pm/s1")), left);
}

#[test]
fn postmark_interrupt_leaves_nothing() {
    let (_dir, work) = work();
    for (signal, subdirectories) in [("INT", "1"), ("TERM", "4")] {
        let config = work.join("config");
        let lines = [
            "set location pm",
            "set location +pm2",
            "set transactions 100000000",
            &format!("set subdirectories {subdirectories}"),
            "run",
        ];
        fs::write(&config, session(&lines)).unwrap();
        let child = process()
            .args(["-q", "--yes", "postmark"])
            .arg(&config)
            .current_dir(&work)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while entries(&work.join("pm")).is_empty() {
            assert!(Instant::now() < deadline, "the run does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(
            Command::new("kill")
                .args(["-s", signal, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "trimtab: interrupted\n");
        assert!(entries(&work.join("pm")).is_empty() && entries(&work.join("pm2")).is_empty());
    }
}

#[test]
fn postmark_with_closed_stdout_leaves_nothing() {
    let (_dir, work) = work();
    let config = work.join("config");
    fs::write(
        &config,
        session(&["set location pm", "set transactions 20000", "run", "run", "quit"]),
    )
    .unwrap();
    let mut child = process()
        .args(["-q", "postmark"])
        .arg(&config)
        .current_dir(&work)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(!status.success() && entries(&work.join("pm")).is_empty(), "{status}");
}

#[test]
fn postmark_on_full_filesystem_leaves_nothing() {
    if !have_root() {
        return skip("root");
    }
    let (_dir, work) = work();
    let mount = Mounted::tmpfs(&work.join("pm"), "size=256k,nr_inodes=2000");
    for buffering in ["true", "false"] {
        let setting = format!("set buffering {buffering}");
        let lines =
            ["set location pm", "set number 100", "set transactions 200", &setting, "run", "run"];
        let assert = trimtab()
            .args(["-q", "postmark"])
            .current_dir(&work)
            .write_stdin(session(&lines))
            .assert()
            .code(1);
        assert.stderr(predicate::str::contains("at a time, but only 262 kB is free"));
        // The sizes fit, but allocation in whole pages fills the filesystem in the middle
        // of the run.
        let lines = [
            "set location pm",
            "set size 1000 1500",
            "set number 100",
            "set transactions 200",
            &setting,
            "run",
        ];
        let assert = trimtab()
            .args(["-q", "postmark"])
            .current_dir(&work)
            .write_stdin(session(&lines))
            .assert()
            .code(1);
        assert.stderr(
            predicate::str::is_match(
                r"^trimtab: cannot write pm/\d+: No space left on device \(os error 28\)\n$",
            )
            .unwrap(),
        );
        assert!(entries(&work.join("pm")).is_empty());
    }
    drop(mount);
}

#[test]
fn postmark_with_removed_or_readonly_location_fails() {
    let (_dir, work) = work();
    let config = work.join("config");
    fs::write(&config, session(&["set location pm", "set transactions 100000000", "run"])).unwrap();
    let child = process()
        .args(["-q", "--yes", "postmark"])
        .arg(&config)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while entries(&work.join("pm")).is_empty() {
        assert!(Instant::now() < deadline, "the run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    while work.join("pm").exists() {
        let _ = fs::remove_dir_all(work.join("pm"));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with("trimtab: cannot ")
            && error.contains("No such file or directory")
            && error.lines().count() == 1,
        "{error}"
    );
    if !have_root() {
        return skip("root");
    }
    let mount = Mounted::tmpfs(&work.join("pm2"), "ro");
    let assert = trimtab()
        .args(["-q", "postmark"])
        .current_dir(&work)
        .write_stdin("set location pm2\nrun\n")
        .assert()
        .code(1);
    assert.stderr("trimtab: cannot create pm2/1: Read-only file system (os error 30)\n");
    drop(mount);
}

/// A tmpfs, unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(path: &Path, options: &str) -> Self {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(path)
            .status()
            .unwrap();
        assert!(mount.success());
        Self(path.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn postmark_explains_out_of_files_on_stderr() {
    let (_dir, work) = work();
    let lines = ["set number 100", "set bias create 0", "set transactions 101", "run"];
    let assert = trimtab()
        .arg("postmark")
        .current_dir(&work)
        .write_stdin(session(&lines))
        .assert()
        .success();
    assert
        .stdout(predicate::str::ends_with(
            "out of files!\nFor this workload, either increase the number of files or\n\
            decrease the number of transactions.\nDeleting files...Done\npm>",
        ))
        .stderr(
            predicate::str::contains("the files ran out after 100 of 101 transactions")
                .and(predicate::str::contains("99.9 %")),
        );
}

#[test]
fn postmark_wrong_usage_is_refused() {
    trimtab().args(["bench", "postmark", "--rate", "-3"]).assert().code(2);
    trimtab()
        .args(["bench", "postmark", "--rate", "0"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("'0' for '--rate <N>'"));
    trimtab().args(["postmark", "a", "b"]).assert().code(2);
}

#[test]
fn postmark_impossible_numbers_are_refused() {
    let (_dir, work) = work();
    let lines = [
        "set number 1000000000",
        "run",
        "set number 10",
        "set size 2000000000 2147483647",
        "set number 1000000000",
        "run",
    ];
    let assert = trimtab()
        .args(["-q", "postmark"])
        .current_dir(&work)
        .write_stdin(session(&lines))
        .assert()
        .code(1);
    assert.stderr(predicate::str::contains("of memory").count(2));
    trimtab()
        .args(["bench", "postmark", "--number", "1000000000"])
        .arg(&work)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("of memory"));
    trimtab()
        .args(["bench", "postmark", "--size", "10:9"])
        .arg(&work)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("above the high one"));
    trimtab().args(["bench", "postmark", "--size", "5G"]).arg(&work).assert().code(2);
}

#[test]
fn postmark_bench_matches_published_counts() {
    let (_dir, work) = work();
    let store = work.join("store.db");
    let run = |args: &[&str]| {
        let mut command = trimtab();
        command.args(["bench", "postmark", "--json", "--store"]).arg(&store).args(args);
        let output = command.arg(work.join("pm")).assert().success().get_output().stdout.clone();
        serde_json::from_slice::<serde_json::Value>(&output).unwrap()
    };
    let a = run(&["--tries", "1", "--reserve", "0"]);
    let counts = |run: &serde_json::Value, name: &str| run["counters"][name].as_u64().unwrap();
    for (name, value) in [
        ("created", 20163),
        ("created.mixed", 10163),
        ("read", 10053),
        ("appended", 9945),
        ("deleted.alone", 10326),
    ] {
        assert_eq!(counts(&a, name), value, "{name}");
    }
    assert_eq!(
        (counts(&a, "read.bytes"), counts(&a, "written.bytes")),
        (584_971_616, 1_222_242_297)
    );
    let b = run(&[
        "--tries",
        "2",
        "--reserve",
        "0",
        "--subdirectories",
        "2",
        "--number",
        "100",
        "--transactions",
        "200",
    ]);
    assert_eq!(b["metrics"][0]["samples"].as_array().unwrap().len(), 2, "{}", b["metrics"]);
    assert_eq!(counts(&b, "transactions"), 200, "of one try");
    assert!(entries(&work.join("pm")).is_empty());
}

#[test]
fn postmark_json_has_runs_and_reports_only() {
    let (_dir, work) = work();
    let lines = [
        "set location pm",
        "show",
        "run",
        "!echo a shell speaks",
        "set number 10",
        "set bias create 0",
        "run",
    ];
    let output = trimtab()
        .args(["--json", "postmark"])
        .current_dir(&work)
        .write_stdin(session(&lines))
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["runs"].as_array().unwrap().len()),
        (Some("trimtab.postmark"), 2)
    );
    assert!(
        document["runs"][0]["verbose"].as_str().unwrap().starts_with("Time:\n\t1 seconds total\n")
    );
    assert!(document["runs"][0]["terse"].as_str().unwrap().starts_with("1 1 500.00 764.00"));
    assert!(document["runs"][1]["verbose"].is_null(), "files ran out");
    assert!(document["runs"][1]["run"]["warnings"].to_string().contains("postmark.out-of-files"));
}
