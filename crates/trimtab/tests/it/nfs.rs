//! `trimtab bench nfs` loads a real directory and removes all its files.

use crate::support::{process, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::process::Stdio;

fn bench(dir: &tempfile::TempDir, args: &[&str]) -> assert_cmd::Command {
    let mut command = trimtab();
    command.args([
        "bench",
        "nfs",
        "--files",
        "200",
        "--seconds",
        "1",
        "--warm-up",
        "0",
        "--streams",
        "2",
        "--reserve",
        "0",
    ]);
    command.args(args).arg(dir.path());
    command
}

fn is_empty(dir: &tempfile::TempDir) -> bool {
    std::fs::read_dir(dir.path()).unwrap().next().is_none()
}

#[test]
fn bench_nfs_measures_loads_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(&dir, &["--peak", "200", "--points", "2", "--repeats", "2", "--json"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let run: Value = serde_json::from_slice(&output).unwrap();
    let samples = |name: &str| -> Vec<f64> {
        let metrics = run["metrics"].as_array().unwrap();
        let metric =
            metrics.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        metric["samples"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    assert_eq!(
        (samples("ort").len(), samples("load-01.requested"), samples("load-02.requested")),
        (2, vec![100.0], vec![200.0])
    );
    assert!(
        samples("load-01.rate").iter().all(|rate| (50.0..150.0).contains(rate)),
        "{:?}",
        samples("load-01.rate")
    );
    let (low, high) = (samples("load-01.response")[0], samples("ort")[0]);
    assert!(low > 100.0 && high > 0.0 && high < 60.0, "{low} ns, {high} s");
    let codes: Vec<&str> =
        run["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"nfs.emulation"), "{codes:?}");
    assert!(is_empty(&dir));
}

#[test]
fn bench_nfs_stops_at_the_written_limit() {
    let dir = tempfile::tempdir().unwrap();
    bench(&dir, &["--peak", "1000000", "--points", "1"])
        .assert()
        .code(2)
        .stderr(contains("would write about").and(contains("--written")));
    bench(&dir, &["--written", "1MB", "--points", "1"])
        .assert()
        .code(1)
        .stderr(contains("the 1.00 MB that --written allows have been written"));
    bench(&dir, &["--peak", "fast"]).assert().code(2);
    trimtab().args(["bench", "nfs", "/no/such/directory"]).assert().code(1);
    assert!(is_empty(&dir));
}

#[test]
fn bench_nfs_interrupt_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = process()
        .args([
            "bench",
            "nfs",
            "--files",
            "200",
            "--seconds",
            "600",
            "--peak",
            "100",
            "--reserve",
            "0",
            "--written",
            "100GB",
            "--yes",
            "--store",
        ])
        .arg(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nfs-interrupted.db"))
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The measurement begins at about the time when the files of the last stream exist.
    while is_empty(&dir) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    // A busy machine may not remove all files within the second that a signal leaves.
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(is_empty(&dir) || said.contains("offers to remove it: interrupted"), "{said}");
}
