//! `trimtab history`: applied changes, undone changes and trims.

use crate::support::{LoopMount, run, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::fs;

fn events(command: &mut assert_cmd::Command) -> Vec<Value> {
    let output = command.arg("--json").assert().success().get_output().stdout.clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(document["schema"], "trimtab.history");
    document["events"].as_array().unwrap().clone()
}

#[test]
fn manual_trim_is_in_history_with_drive_counts() {
    let state = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| {
        let mut command = trimtab();
        command.env("TRIMTAB_STATE_DIR", state.path()).args(args);
        command
    };
    command(&["history"]).assert().success().stdout("").stderr(contains("the history has no trim"));
    let (Some(one), Some(other)) =
        (LoopMount::new("ext4", 256, "nodiscard"), LoopMount::new("ext4", 256, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let trim = |mount: &LoopMount, more: &[&str]| -> Value {
        let output = command(&["trim", "--json"])
            .args(more)
            .arg(mount.path())
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        serde_json::from_slice::<Value>(&output).unwrap()["filesystems"][0].clone()
    };
    let sent = [
        trim(&one, &[]),
        trim(&other, &["--policy", "idle"]),
        trim(&one, &["--min-extent", "1MiB"]),
    ];
    trim(&one, &["--dry-run"]);
    let all = events(&mut command(&["history"]));
    assert_eq!(all.len(), 3, "a dry run is none: {all:#?}");
    for (event, outcome) in all.iter().zip(&sent) {
        assert_eq!(
            (&event["what"], &event["by"], &event["outcome"]),
            (&"trimmed".into(), &"hand".into(), &"complete".into())
        );
        assert_eq!(
            (&event["path"], &event["sent_bytes"]),
            (&outcome["path"], &outcome["sent_bytes"])
        );
        assert_eq!(event["sent_commands"], outcome["sent_commands"]);
        // Regression: two clocks gave 620 ms on the screen and 0.82 s here for one trim.
        // Runs store whole nanoseconds.
        let (kept, said) =
            (event["seconds"].as_f64().unwrap(), outcome["seconds"].as_f64().unwrap());
        assert!((kept - said).abs() < 2e-9, "{kept} {said}");
    }
    assert_eq!((&all[0]["policy"], &all[1]["policy"]), (&"now".into(), &"idle".into()));
    assert!(all[0]["sent_bytes"].as_u64().unwrap() > 200 << 20);
    // Selected by filesystem, by a directory on it, and after it is gone.
    fs::create_dir(other.path().join("below")).unwrap();
    assert_eq!(events(command(&["history"]).arg(other.path().join("below"))), all[1..2]);
    let gone = one.path();
    drop(one);
    let of_gone = events(command(&["history"]).arg(&gone));
    assert_eq!(of_gone.len(), 2);
    assert_eq!(events(&mut command(&["history", "-n", "1"])), all[2..]);
    // `results show` accepts the id in the history.
    let id = all[0]["id"].as_str().unwrap();
    let store = state.path().join("history.db");
    trimtab()
        .args(["results", "show", id, "--store"])
        .arg(store)
        .assert()
        .success()
        .stdout(contains("trim.sent.bytes"));
    let text = command(&["history"]).output().unwrap().stdout;
    assert_eq!(
        String::from_utf8(text)
            .unwrap()
            .lines()
            .filter(|line| line.contains("  trimmed  "))
            .count(),
        3
    );
}

#[test]
fn trim_without_history_directory_still_trims() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let not_a_directory = tempfile::NamedTempFile::new().unwrap();
    let mut command = trimtab();
    command.env("TRIMTAB_STATE_DIR", not_a_directory.path()).arg("trim").arg(mount.path());
    command.assert().success().stdout(contains("this trim is not in the history"));
}

#[test]
fn history_lists_apply_and_its_undo() {
    let system = tempfile::tempdir().unwrap();
    let sysroot = system.path();
    for directory in ["etc/trimtab", "proc/self", "var/lib"] {
        fs::create_dir_all(sysroot.join(directory)).unwrap();
    }
    fs::write(sysroot.join("etc/fstab"), "/dev/sda1 /srv ext4 defaults 0 2\n").unwrap();
    fs::write(sysroot.join("proc/self/mountinfo"), "20 1 8:1 / /srv rw - ext4 /dev/sda1 rw\n")
        .unwrap();
    let apply = |args: &[&str]| {
        trimtab().arg("apply").args(args).arg("--sysroot").arg(sysroot).assert().success()
    };
    let state = sysroot.join("var/lib/trimtab");
    let history = || {
        let mut command = trimtab();
        command.env("TRIMTAB_STATE_DIR", &state).arg("history");
        command
    };
    let all = || events(&mut history());
    assert!(all().is_empty());
    apply(&["online", "/srv"]);
    // The state after a kill in the middle of a line.
    let log = sysroot.join("var/lib/trimtab/journal/log");
    fs::write(&log, fs::read_to_string(&log).unwrap() + "{\"unix_ms\": 17").unwrap();
    apply(&["--undo", "--dry-run"]);
    apply(&["--undo"]);
    apply(&["online", "/srv", "--dry-run"]);
    let all = all();
    let shown: Vec<(&str, &str, &str)> = all
        .iter()
        .map(|e| {
            (
                e["what"].as_str().unwrap(),
                e["policy"].as_str().unwrap(),
                e["path"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(shown, [("applied", "online", "/srv"), ("undone", "online", "/srv")]);
    history()
        .arg("/no/such/path")
        .assert()
        .code(1)
        .stderr(contains("/no/such/path does not exist"));
    let fstab = contains("/etc/fstab").and(contains("undone"));
    history().assert().success().stdout(fstab);
}

/// A bind mount, unmounted on drop.
struct Bound(tempfile::TempDir);

impl Bound {
    fn to(path: &std::path::Path) -> Self {
        let bound = Self(tempfile::tempdir().unwrap());
        run("mount", &["--bind", path.to_str().unwrap(), bound.0.path().to_str().unwrap()])
            .unwrap();
        bound
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = run("umount", &[self.0.path().to_str().unwrap()]);
    }
}

#[test]
fn history_of_bind_mount_is_that_of_its_filesystem() {
    let state = tempfile::tempdir().unwrap();
    let history = |path: &std::path::Path| {
        let mut command = trimtab();
        events(command.env("TRIMTAB_STATE_DIR", state.path()).arg("history").arg(path)).len()
    };
    let (Some(mount), Some(other)) =
        (LoopMount::new("ext4", 64, "nodiscard"), LoopMount::new("ext4", 64, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    fs::create_dir(mount.path().join("below")).unwrap();
    // Trimmed through a path that no longer exists.
    let gone = Bound::to(&mount.path().join("below"));
    trimtab()
        .env("TRIMTAB_STATE_DIR", state.path())
        .arg("trim")
        .arg(gone.0.path())
        .assert()
        .success();
    drop(gone);
    let bound = Bound::to(&mount.path().join("below"));
    assert_eq!(
        [history(bound.0.path()), history(&mount.path()), history(&other.path())],
        [1, 1, 0]
    );
}

#[test]
fn store_and_zero_events_are_refused_by_history() {
    for command in [&["history"][..], &["trim", "/"]] {
        let refused = trimtab()
            .env("TRIMTAB_STATE_DIR", "/nowhere")
            .args(command)
            .args(["--store", "/nowhere/x.db"])
            .assert()
            .code(2);
        refused.stderr(
            contains("/nowhere/history.db")
                .and(contains("TRIMTAB_STATE_DIR names another directory")),
        );
    }
    trimtab()
        .args(["history", "-n", "0"])
        .assert()
        .code(2)
        .stderr(contains("a whole number from 1"));
}

#[test]
fn unreadable_history_error_advises_moving_it_away() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("history.db");
    let said = |expected: &str| {
        let assert =
            trimtab().env("TRIMTAB_STATE_DIR", state.path()).arg("history").assert().code(1);
        assert.stderr(contains(expected).and(contains("--store").not()));
    };
    fs::write(
        &file,
        "something else, and long enough for a header of a database, which has a hundred \
        bytes: so it is read as one\n",
    )
    .unwrap();
    said("is not a history of trimtab; move it away to start a new one");
}
