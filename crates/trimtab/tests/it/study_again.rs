//! Studies of real filesystems, again and again: none fails, and the mount is as it was before, also when they are killed at any moment.
//!
//! `TRIMTAB_SOAK_STUDIES=20` runs the default study so often on each filesystem, `TRIMTAB_SOAK_FULL=5` the full one, and
//! `TRIMTAB_SOAK_STUDY_KILLS=30` kills so many quick ones, instead of one quick study and a few kills.

use crate::support::{LoopMount, process, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use trimtab::session::discard_option::{Discard, mount_of};

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Everything that belongs to the program, apart from everybody else's.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let at = |name: &str| self.0.path().join(name);
        let mut command = process();
        command.args(args).env("TRIMTAB_RUNTIME_DIR", at("run")).env("TRIMTAB_STATE_DIR", at("state")).env("XDG_DATA_HOME", at("data"));
        command
    }

    fn study(&self, kind: &[&str], path: &Path) -> Command {
        let mut command = self.command(&["study", "--yes", "--reserve", "0", "--json"]);
        command.args(kind).arg(path).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn options(path: &Path) -> (String, String) {
    let mount = mount_of(path).unwrap();
    (mount.options, mount.fs_options)
}

/// What is there besides what mkfs made.
fn files(path: &Path) -> usize {
    fn below(directory: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
        entries.flatten().map(|entry| if entry.file_type().is_ok_and(|t| t.is_dir()) { 1 + below(&entry.path()) } else { 1 }).sum()
    }
    below(path) - usize::from(path.join("lost+found").exists())
}

fn check(fs_type: &str, output: &Output, path: &Path, before: &(String, String)) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{fs_type}: {said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["schema"], &document["complete"]), (&"trimtab.study".into(), &true.into()), "{fs_type}");
    for run in document["runs"].as_array().unwrap() {
        let codes = run["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap());
        assert!(run["complete"] == true && !codes.into_iter().any(|code| code == "run.failed"), "{fs_type}: {}", run["warnings"]);
    }
    assert_eq!(options(path), *before, "{fs_type}");
    assert_eq!(files(path), 0, "{fs_type}: something was left");
}

/// The size of the filesystem: for the full study, or for the quick one.
fn mount(fs_type: &str, large: bool) -> Option<LoopMount> {
    LoopMount::new(fs_type, if large { 4096 } else { 1024 }, "nodiscard,noatime")
}

#[test]
fn no_study_in_a_row_fails() {
    let (default, full) = (number("TRIMTAB_SOAK_STUDIES"), number("TRIMTAB_SOAK_FULL"));
    let kinds: Vec<(&[&str], u32)> = match (default, full) {
        (None, None) => vec![(&["--quick"], 1)],
        _ => vec![(&[], default.unwrap_or(0)), (&["--full"], full.unwrap_or(0))],
    };
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = mount(fs_type, default.or(full).is_some()) else { return skip("root, loop devices and mkfs") };
        let (path, home) = (mount.path(), Home::new());
        let before = options(&path);
        for (kind, times) in &kinds {
            for _ in 0..*times {
                let output = home.study(kind, &path).output().unwrap();
                check(fs_type, &output, &path, &before);
            }
            println!("{fs_type}: {times} studies {kind:?}: none failed, the mount was as before each time");
        }
    }
}

/// What a study was at when it was killed, as it can be seen from outside.
fn at_work(path: &Path) -> (&'static str, &'static str) {
    let online = if Discard::of(&mount_of(path).unwrap()).is_on() { "remounted" } else { "as mounted" };
    let then = files(path);
    std::thread::sleep(Duration::from_millis(2));
    let work = match (then, files(path)) {
        (0, 0) => "before, or between runs",
        (then, now) if now > then => "making files",
        (then, now) if now < then => "removing files",
        _ => "syncing or trimming",
    };
    (online, work)
}

#[test]
fn killed_at_any_moment_a_study_leaves_nothing_that_the_next_command_does_not_put_back() {
    let kills = number("TRIMTAB_SOAK_STUDY_KILLS").unwrap_or(3);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = mount(fs_type, false) else { return skip("root, loop devices and mkfs") };
        let (path, home) = (mount.path(), Home::new());
        let before = options(&path);
        let started = Instant::now();
        check(fs_type, &home.study(&["--quick"], &path).output().unwrap(), &path, &before);
        let took = started.elapsed();
        let mut seen = BTreeMap::new();
        for kill in 0..kills {
            let mut child = home.study(&["--quick"], &path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // Evenly over the time that a study takes, ends apart.
            std::thread::sleep(took.mul_f64(f64::from(2 * kill + 1) / f64::from(2 * kills)));
            let at = at_work(&path);
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            if child.wait().unwrap().success() {
                continue;
            }
            *seen.entry(at).or_insert(0) += 1;
            // Whatever comes next, here nothing that has to do with it.
            let next = home.command(&["results", "list"]).output().unwrap();
            assert!(next.status.success(), "{fs_type}, {at:?}: {}", String::from_utf8_lossy(&next.stderr));
            assert_eq!(options(&path), before, "{fs_type}, killed {at:?}");
        }
        // And the next study finds what they left, removes it, and is a study like any other.
        check(fs_type, &home.study(&["--quick"], &path).output().unwrap(), &path, &before);
        println!("{fs_type}: killed {} times, of a study of {took:.1?}: {seen:?}", seen.values().sum::<u32>());
        assert!(!seen.is_empty(), "none was killed in time: this proves nothing");
        let during = |online: &str| seen.keys().any(|(o, work)| *o == online && *work != "before, or between runs");
        let enough = kills < 20 || (during("as mounted") && (fs_type == "xfs" || during("remounted")));
        assert!(enough, "{fs_type}: phases that were missed, in {seen:?}");
    }
}
