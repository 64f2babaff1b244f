//! `bench tree`, and the safety rules of every command that writes into a directory.

use crate::support::{LoopMount, have_root, process, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SMALL: [&str; 8] = ["bench", "tree", "--files", "60", "--size", "300kB", "--reserve", "0"];

/// A directory in memory, so that no test waits for a disk.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| !p.ends_with("lost+found"))
        .collect()
}

/// Starts a run in `dir` that lasts long enough to be disturbed, and waits until its
/// workspace contains files.
#[expect(clippy::zombie_processes, reason = "every caller waits for the child")]
fn long_run(dir: &Path) -> (Child, PathBuf) {
    let child = process()
        .args(["bench", "tree", "--tries", "500", "--reserve", "0", "--yes"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing happens");
        if let Some(workspace) = entries(dir).pop()
            && workspace.join("run/tree/arch").is_dir()
        {
            return (child, workspace);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[test]
fn bench_tree_on_real_filesystems_leaves_nothing() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 320, "") else {
            return skip("root, loop devices and mkfs");
        };
        let expected = contains("delete+sync.seconds")
            .and(contains("unpack create"))
            .and(contains("as-mounted"));
        trimtab()
            .args(SMALL)
            .args(["--tries", "2"])
            .arg(mount.path())
            .assert()
            .success()
            .stdout(expected);
        assert!(entries(&mount.path()).is_empty(), "{fs_type}");
    }
}

#[test]
fn bench_tree_unpacks_archive_and_refuses_outside_paths() {
    let dir = scratch();
    let archive = |name: &str, path: &str| {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(5);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"hello"[..]).unwrap();
        let file = dir.path().join(name);
        std::fs::write(&file, builder.into_inner().unwrap()).unwrap();
        file
    };
    let place = scratch();
    let run = |file: PathBuf| {
        let mut command = trimtab();
        command.args(["bench", "tree", "--reserve", "0", "--tar"]).arg(file).arg(place.path());
        command.assert()
    };
    run(archive("good.tar", "a/b")).success().stdout(contains("files 1,"));
    run(archive("evil.tar", "../evil")).code(1).stderr(contains("is outside the tree"));
    assert!(
        entries(place.path()).is_empty() && !place.path().parent().unwrap().join("evil").exists()
    );
    run(PathBuf::from("/no/such.tar")).code(1).stderr(contains("cannot open /no/such.tar"));
}

#[test]
fn bench_tree_refuses_unusable_target_or_size() {
    let dir = scratch();
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let one_line = || predicate::function(|text: &str| text.lines().count() == 1);
    trimtab()
        .args(SMALL)
        .arg(&file)
        .assert()
        .code(1)
        .stderr(contains("needs a directory").and(one_line()));
    trimtab()
        .args(SMALL)
        .arg(dir.path().join("missing"))
        .assert()
        .code(1)
        .stderr(contains("there is no").and(one_line()));
    trimtab()
        .args(["bench", "tree", "--files", "0"])
        .arg(dir.path())
        .assert()
        .code(2)
        .stderr(contains("at least one file").and(one_line()));
    let absurd = ["bench", "tree", "--files", "18446744073709551615", "--size", "1"];
    trimtab().args(absurd).arg(dir.path()).assert().code(2).stderr(contains("too many"));
    let huge = ["bench", "tree", "--tries", "1", "--size", "1000PB", "--yes"];
    trimtab().args(huge).arg(dir.path()).assert().code(1).stderr(contains("do not fit"));
    assert_eq!(entries(dir.path()), [file]);
}

#[test]
fn bench_tree_readonly_or_immutable_directory_has_errno() {
    let Some(mount) = LoopMount::new("ext4", 64, "") else {
        return skip("root, loop devices and mkfs");
    };
    let fixed = mount.path().join("fixed");
    std::fs::create_dir(&fixed).unwrap();
    let chattr =
        |flag: &str| Command::new("chattr").arg(flag).arg(&fixed).status().unwrap().success();
    assert!(chattr("+i"));
    trimtab().args(SMALL).arg(&fixed).assert().code(1).stderr(
        contains("cannot make a working directory").and(contains("Operation not permitted")),
    );
    assert!(chattr("-i"));
    mount.remount("ro");
    trimtab()
        .args(SMALL)
        .arg(mount.path())
        .assert()
        .code(1)
        .stderr(contains("it is mounted read-only"));
}

#[test]
fn bench_tree_on_full_filesystem_leaves_nothing() {
    let Some(mount) = LoopMount::tmpfs(8) else { return skip("root") };
    let large = ["bench", "tree", "--files", "60", "--size", "9MB", "--reserve", "0"];
    trimtab().args(large).arg(mount.path()).assert().code(1).stderr(contains("do not fit"));
    // Enough bytes are free, but no inodes.
    mount.remount("nr_inodes=40");
    trimtab()
        .args(SMALL)
        .arg(mount.path())
        .assert()
        .code(1)
        .stderr(contains("No space left on device").and(contains("cannot create")));
    assert!(entries(&mount.path()).is_empty());
}

#[test]
fn bench_tree_interrupt_leaves_nothing() {
    for sent in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let dir = scratch();
        let (child, _) = long_run(dir.path());
        signal(&child, sent);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
        assert!(entries(dir.path()).is_empty());
    }
}

/// As with `| head`: the run removes its workspace after it prints the result.
#[test]
fn bench_whose_output_is_closed_leaves_no_workspace() {
    let dir = scratch();
    let mut child = process()
        .args(SMALL)
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    assert!(entries(dir.path()).is_empty(), "{:?}", entries(dir.path()));
}

#[test]
fn bench_tree_fails_if_its_workspace_is_removed() {
    let dir = scratch();
    let (child, workspace) = long_run(dir.path());
    let moved = dir.path().join("moved");
    std::fs::rename(&workspace, &moved).unwrap();
    while std::fs::remove_dir_all(&moved).is_err() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("No such file or directory"), "{stderr}");
}

#[test]
fn bench_tree_yes_removes_leftovers_of_killed_run() {
    let dir = scratch();
    let (mut child, workspace) = long_run(dir.path());
    let alive = trimtab().args(SMALL).arg("--yes").arg(dir.path()).assert().success();
    alive.stderr(contains("crashed").not());
    assert!(workspace.exists(), "the other run lives");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    assert!(workspace.exists());
    trimtab()
        .args(SMALL)
        .arg(dir.path())
        .assert()
        .success()
        .stderr(contains("left by a run that crashed").and(contains("--yes")));
    assert!(workspace.exists(), "nobody agreed to remove it");
    trimtab().args(SMALL).arg("--yes").arg(dir.path()).assert().success();
    assert!(entries(dir.path()).is_empty());
}

/// A bind mount has the device number of its filesystem.
#[test]
fn bench_tree_keeps_leftovers_with_a_mount_inside() {
    if !have_root() {
        return skip("root");
    }
    struct Unmounted(std::path::PathBuf);
    impl Drop for Unmounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
    let dir = scratch();
    let (mut child, workspace) = long_run(dir.path());
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let (photos, inside) = (dir.path().join("photos"), workspace.join("run/tree/inside1"));
    std::fs::create_dir(&photos).unwrap();
    std::fs::write(photos.join("precious"), "x").unwrap();
    for place in [inside, workspace.join("run-7")] {
        std::fs::create_dir_all(&place).unwrap();
        assert!(
            Command::new("mount").arg("--bind").args([&photos, &place]).status().unwrap().success()
        );
        let mounted = Unmounted(place);
        trimtab()
            .args(SMALL)
            .arg("--yes")
            .arg(dir.path())
            .assert()
            .code(1)
            .stderr(contains("something is mounted in it"));
        assert!(photos.join("precious").exists());
        drop(mounted);
    }
    trimtab().args(SMALL).arg("--yes").arg(dir.path()).assert().success();
    assert_eq!(entries(dir.path()), [photos]);
}

#[test]
fn bench_tree_large_write_needs_yes() {
    let dir = scratch();
    let much = ["bench", "tree", "--tries", "9999", "--reserve", "0"];
    let expected = contains("--yes").and(contains("4.93 TB")).and(contains("more than 10.0 GB"));
    trimtab().args(much).arg(dir.path()).assert().code(2).stdout("").stderr(expected);
    assert!(entries(dir.path()).is_empty());
}

#[test]
fn bench_tree_on_null_needs_no_consent() {
    trimtab()
        .args(["bench", "tree", "--files", "500", "--tries", "20", "null:"])
        .assert()
        .success()
        .stdout(contains("tree on null:"));
}
