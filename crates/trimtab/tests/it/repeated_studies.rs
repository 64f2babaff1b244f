//! Repeated studies of real filesystems: none fails, and the mount is unchanged
//! afterwards, even if a study is killed at any moment.
//!
//! `TRIMTAB_SOAK_STUDIES=20` sets the number of default studies on each filesystem,
//! `TRIMTAB_SOAK_FULL=5` of full studies, and `TRIMTAB_SOAK_STUDY_KILLS=20` the kills of
//! quick studies in each phase, instead of one quick study on XFS and btrfs, and three kills
//! between two quick studies on ext4. `TRIMTAB_SOAK_FILESYSTEMS=xfs,btrfs` selects filesystems.

use crate::support::{LoopMount, process, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use trimtab_linux::session::discard_option::{DiscardOption, mount_of};

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The filesystems to try.
fn filesystems() -> Vec<&'static str> {
    let wanted = std::env::var("TRIMTAB_SOAK_FILESYSTEMS").ok();
    let is_wanted = |fs_type: &&str| {
        wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|one| one == *fs_type))
    };
    ["ext4", "xfs", "btrfs"].into_iter().filter(is_wanted).collect()
}

/// The program's state, store and runtime directories, private to this test.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let at = |name: &str| self.0.path().join(name);
        let mut command = process();
        command
            .args(args)
            .env("TRIMTAB_RUNTIME_DIR", at("run"))
            .env("TRIMTAB_STATE_DIR", at("state"))
            .env("XDG_DATA_HOME", at("data"));
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

/// The number of files, without those that mkfs made.
fn files(path: &Path) -> usize {
    fn below(directory: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
        entries
            .flatten()
            .map(|entry| {
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    1 + below(&entry.path())
                } else {
                    1
                }
            })
            .sum()
    }
    below(path) - usize::from(path.join("lost+found").exists())
}

fn check(fs_type: &str, output: &Output, path: &Path, before: &(String, String)) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{fs_type}: {said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["schema"], &document["complete"]),
        (&"trimtab.study".into(), &true.into()),
        "{fs_type}"
    );
    for run in document["runs"].as_array().unwrap() {
        let codes = run["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap());
        assert!(
            run["complete"] == true && !codes.into_iter().any(|code| code == "run.failed"),
            "{fs_type}: {}",
            run["warnings"]
        );
    }
    assert_eq!(options(path), *before, "{fs_type}");
    assert_eq!(files(path), 0, "{fs_type}: something was left");
}

/// A filesystem for the full study if `large`, otherwise for the quick one.
fn mount(fs_type: &str, large: bool) -> Option<LoopMount> {
    LoopMount::new(fs_type, if large { 4096 } else { 1024 }, "nodiscard,noatime")
}

#[test]
fn repeated_studies_succeed_and_restore_the_mount() {
    let (default, full) = (number("TRIMTAB_SOAK_STUDIES"), number("TRIMTAB_SOAK_FULL"));
    let kinds: Vec<(&[&str], u32)> = match (default, full) {
        (None, None) => vec![(&["--quick"], 1)],
        _ => vec![(&[], default.unwrap_or(0)), (&["--full"], full.unwrap_or(0))],
    };
    let soak = default.or(full).is_some();
    for fs_type in filesystems().into_iter().filter(|fs_type| soak || *fs_type != "ext4") {
        let Some(mount) = mount(fs_type, soak) else {
            return skip("root, loop devices and mkfs");
        };
        let (path, home) = (mount.path(), Home::new());
        let before = options(&path);
        for (kind, times) in &kinds {
            for _ in 0..*times {
                let output = home.study(kind, &path).output().unwrap();
                check(fs_type, &output, &path, &before);
            }
            println!(
                "{fs_type}: {times} studies {kind:?}: none failed, the mount was as \
                    before each time"
            );
        }
    }
}

/// The phase that a study is in, as seen from outside: the mount option and the activity.
fn at_work(path: &Path) -> (&'static str, &'static str) {
    let online = if DiscardOption::of(&mount_of(path).unwrap()).is_on() {
        "remounted"
    } else {
        "as mounted"
    };
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

/// Kills a study started in `home` after `from`, once it is in the `wanted` phase or in any.
/// Returns that phase, or `None` if the study ended first.
fn killed(
    home: &Home,
    path: &Path,
    from: Duration,
    wanted: Option<(&'static str, &'static str)>,
) -> Option<(&'static str, &'static str)> {
    let began = Instant::now();
    let mut child =
        home.study(&["--quick"], path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() < from {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let at = at_work(path);
        if wanted.is_none_or(|wanted| wanted == at) {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            return (!child.wait().unwrap().success()).then_some(at);
        }
    }
    None
}

/// Kills studies `each` times in each phase. Phases that no study reached are absent from
/// the result.
fn kill_in_each_phase(
    home: &Home,
    path: &Path,
    each: u32,
    took: Duration,
    mut check: impl FnMut((&'static str, &'static str)),
) -> BTreeMap<(&'static str, &'static str), u32> {
    const ONLINE: [&str; 2] = ["as mounted", "remounted"];
    const WORK: [&str; 4] =
        ["before, or between runs", "making files", "removing files", "syncing or trimming"];
    let mut seen = BTreeMap::new();
    for wanted in ONLINE.iter().flat_map(|online| WORK.iter().map(move |work| (*online, *work))) {
        let mut missed = 0;
        let mut share = 0.0_f64;
        while seen.get(&wanted).copied().unwrap_or(0) < each && missed < 3 {
            // Each try starts at another moment, spread over the study.
            share = (share + 0.618_034).fract();
            match killed(home, path, took.mul_f64(share * 0.9), Some(wanted)) {
                Some(at) => {
                    *seen.entry(at).or_insert(0) += 1;
                    check(at);
                }
                None => missed += 1,
            }
        }
    }
    seen
}

#[test]
fn killed_study_is_restored_by_next_command() {
    let each = number("TRIMTAB_SOAK_STUDY_KILLS");
    let tried = if each.is_some() { filesystems() } else { vec!["ext4"] };
    for fs_type in tried {
        let Some(mount) = mount(fs_type, false) else { return skip("root, loop devices and mkfs") };
        let (path, home) = (mount.path(), Home::new());
        let before = options(&path);
        let started = Instant::now();
        check(fs_type, &home.study(&["--quick"], &path).output().unwrap(), &path, &before);
        let took = started.elapsed();
        let put_back = |at| {
            // Any command that comes next on it.
            let next = home.command(&["doctor"]).arg(&path).output().unwrap();
            assert_eq!(
                options(&path),
                before,
                "{fs_type}, killed {at:?}: {}",
                String::from_utf8_lossy(&next.stderr)
            );
        };
        let seen = match each {
            Some(each) => kill_in_each_phase(&home, &path, each, took, put_back),
            // Evenly spread over the study's duration, without its ends.
            None => {
                let mut seen = BTreeMap::new();
                for kill in 0..3 {
                    let from = took.mul_f64(f64::from(2 * kill + 1) / 6.0);
                    if let Some(at) = killed(&home, &path, from, None) {
                        *seen.entry(at).or_insert(0) += 1;
                        put_back(at);
                    }
                }
                seen
            }
        };
        // The next study removes all leftovers and succeeds.
        check(fs_type, &home.study(&["--quick"], &path).output().unwrap(), &path, &before);
        println!(
            "{fs_type}: killed {} times, of a study of {took:.1?}: {seen:?}",
            seen.values().sum::<u32>()
        );
        assert!(!seen.is_empty(), "none was killed in time: this proves nothing");
        let during = |online: &str| {
            seen.iter().any(|((o, work), n)| {
                *o == online && *work != "before, or between runs" && Some(*n) >= each
            })
        };
        let enough =
            each.is_none() || (during("as mounted") && (fs_type == "xfs" || during("remounted")));
        assert!(enough, "{fs_type}: phases that were missed, in {seen:?}");
    }
}
