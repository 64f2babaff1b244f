//! `bench pts`: SNIA's tests on modelled drives, checked by an independent script of the
//! rule.

use crate::support::{have_tool, skip, trimtab};
use predicates::str::contains;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn check(args: &[&str], expected: &str) {
    if !have_tool("python3") {
        return skip("python3");
    }
    let output =
        trimtab().args(["bench", "pts"]).args(args).args(["--json", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pts_rule.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(&output.stdout).unwrap();
    let said = python.wait_with_output().unwrap();
    assert!(said.status.success(), "{args:?}: see the assertion above");
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), expected, "{args:?}");
}

#[test]
fn iops_rounds_end_at_first_steady_window() {
    check(&["drive:ocz-vertex-le-100gb", "--capacity", "512MiB"], "13 rounds, steady");
}

#[test]
fn iops_rounds_end_at_25_if_never_steady() {
    check(&["drive:solidigm-d7-p5520-1920gb-i0", "--capacity", "512MiB"], "25 rounds, not steady");
}

#[test]
fn write_saturation_writes_four_capacities() {
    check(&["drive:nvme-tlc-500gb", "--capacity", "1GiB", "--test", "wsat"], "128 rounds, steady");
}

#[test]
fn pts_report_has_points_and_proof() {
    let report = trimtab()
        .args(["bench", "pts", "drive:ocz-vertex-le-100gb", "--capacity", "512MiB"])
        .assert()
        .success();
    let report = report
        .stdout(contains("Steady in rounds 9 to 13"))
        .stdout(contains("1MiB"))
        .stdout(contains("65/35"));
    report.stdout(contains("A new drive of 537 MB stands for a purged one"));
}

#[test]
fn pts_refuses_other_targets_and_small_drives() {
    let refused = |args: &[&str], why: &str| {
        trimtab()
            .args(["bench", "pts"])
            .args(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(why));
    };
    refused(&["drive:laptop-7200rpm"], "is a disk");
    refused(&["null:"], "TARGET is drive:NAME");
    refused(&["drive:ocz-vertex-le-100gb", "--capacity", "48MiB"], "use at least --capacity 64MiB");
}
