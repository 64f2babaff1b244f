//! `bench age` on a real filesystem.

use crate::support::{LoopMount, skip, trimtab};
use predicates::str::contains;

#[test]
fn bench_age_measures_every_phase_and_leaves_nothing() {
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let small = "bench age --total 60MB --rounds 3 --test-size 4MiB --test-time 300ms --idle 0s \
        --reserve 0 --json";
    let output = trimtab().args(small.split(' ')).arg(mount.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let phases: Vec<&str> =
        run["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    let round = ["fill", "fill-sync", "delete", "delete-sync"];
    let mut expected = vec!["prepare", "random-write-before"];
    (0..3).for_each(|_| expected.extend(round));
    expected.extend(["random-write-after", "trim", "random-write-after-trim"]);
    assert_eq!(phases, expected);
    let metric = |name: &str| {
        let metrics = run["metrics"].as_array().unwrap();
        metrics.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("{name}"))["samples"]
            .as_array()
            .unwrap()
            .len()
    };
    for (name, samples) in [
        ("random-write-before.rate", 1),
        ("left-after-use", 1),
        ("left-after-trim", 1),
        ("fill+sync.rate", 3),
    ] {
        assert_eq!(metric(name), samples, "{name}");
    }
    let left = std::fs::read_dir(mount.path())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name() != "lost+found")
        .count();
    assert_eq!(left, 0);
}

#[test]
fn bench_age_on_tmpfs_reports_trim_as_not_measured() {
    let Some(mount) = LoopMount::tmpfs(128) else { return skip("root") };
    let small = "bench age --total 20MB --rounds 2 --test-size 4MiB --test-time 100ms --idle 0s \
        --reserve 0";
    trimtab()
        .args(small.split(' '))
        .arg(mount.path())
        .assert()
        .success()
        .stdout(contains("recovery by a trim was not measured"));
}

#[test]
fn bench_age_refuses_impossible_amounts() {
    let dir = tempfile::tempdir().unwrap();
    for (args, why) in [
        ("bench age --total 1MB", "less than 1.00 MB per round"),
        ("bench age --total 1GB --test-size 5", "--test-size"),
        ("bench age --total much", "much"),
        ("bench age", "--total"),
    ] {
        trimtab().args(args.split(' ')).arg(dir.path()).assert().code(2).stderr(contains(why));
    }
    trimtab()
        .args(["bench", "age", "--total", "100TB"])
        .arg(dir.path())
        .assert()
        .code(1)
        .stderr(contains("do not fit"));
}
