//! `bench … --against` runs two targets in turns and prints one line of comparison.

use crate::support::{LoopMount, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::PathBuf;

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("r.db")
    }

    fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = trimtab();
        command.args(args).arg("--store").arg(self.store());
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.command(args).arg("--json").output().unwrap().stdout).unwrap()
    }

    /// Targets of the stored runs, in order.
    fn targets(&self) -> Vec<String> {
        let list = self.json(&["results", "list"]);
        list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["target_label"].as_str().unwrap().to_owned())
            .collect()
    }
}

const TREE: [&str; 8] = ["bench", "tree", "--files", "300", "--size", "1MB", "--tries", "1"];

#[test]
fn bench_against_compares_modelled_drives_exactly() {
    let scratch = Scratch::new();
    let (a, b) = ("drive:ocz-vertex-le-100gb", "drive:laptop-7200rpm");
    let line = scratch
        .command(&[&TREE[..], &[a, "--against", b, "--turns", "2"]].concat())
        .assert()
        .success();
    let line = String::from_utf8(line.get_output().stdout.clone()).unwrap();
    assert_eq!(scratch.targets(), [a, b, b, a], "in turns, and the other way round each time");
    // The printed ratio follows from the stored runs by division.
    let figure = |run: &str| -> f64 {
        let metrics = scratch.json(&["results", "show", run])["metrics"].clone();
        metrics.as_array().unwrap().iter().find(|m| m["name"] == "delete+sync.seconds").unwrap()["samples"][0].as_f64().unwrap()
    };
    let (of_a, of_b) = (figure("last"), figure("last~1"));
    let (word, times) = if of_b > of_a { ("slower", of_b / of_a) } else { ("faster", of_a / of_b) };
    let said: f64 = line.split_once(" is ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!(
        (said / times - 1.0).abs() < 0.006 && line.contains(&format!(" times {word} than A ({a})")),
        "{times}: {line}"
    );
    assert!(
        line.contains("exact") && line.contains("2 turns") && line.lines().count() == 1,
        "{line}"
    );
    // The same drive against itself.
    let same = scratch
        .command(&[&TREE[..], &[a, "--against", a, "--turns", "1"]].concat())
        .assert()
        .success();
    same.stdout(contains("is exactly the same as"));
}

#[test]
fn bench_against_result_equals_results_compare() {
    let (Some(one), Some(other)) =
        (LoopMount::new("ext4", 256, "nodiscard"), LoopMount::new("xfs", 512, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let scratch = Scratch::new();
    let (a, b) = (one.path(), other.path());
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let bench = [&TREE[..], &["--reserve", "0", "--yes", a, "--against", b]].concat();
    let mut command = scratch.command(&bench);
    let output = command.arg("--json").assert().success().get_output().clone();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(scratch.targets(), [a, b, b, a, a, b], "three turns unless told otherwise");
    // The command named in the output gives the same document.
    let said = String::from_utf8(output.stderr).unwrap();
    let compare = said.lines().find_map(|line| line.split_once("all figures: trimtab ")).unwrap().1;
    let again = scratch.json(&compare.split(' ').collect::<Vec<_>>());
    assert_eq!(document, again);
    for side in document["sides"].as_array().unwrap() {
        assert_eq!(side["runs"].as_array().unwrap().len(), 3);
    }
    let left = |dir: &str| {
        std::fs::read_dir(dir)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name() != "lost+found")
            .count()
    };
    assert_eq!((left(a), left(b)), (0, 0));
}

#[test]
fn bench_against_accepts_all_workloads_and_checks_targets() {
    let scratch = Scratch::new();
    let postmark =
        ["bench", "postmark", "--number", "20", "--transactions", "20", "--tries", "1", "null:"];
    let nfs = [
        "bench",
        "nfs",
        "--peak",
        "2000",
        "--points",
        "1",
        "--seconds",
        "1",
        "--warm-up",
        "0",
        "--files",
        "500",
        "null:",
    ];
    let age = [
        "bench",
        "age",
        "--total",
        "20MB",
        "--rounds",
        "1",
        "--test-size",
        "1MiB",
        "--test-time",
        "10ms",
        "--idle",
        "0s",
        "null:",
    ];
    let crystal = [
        "bench",
        "crystal",
        "--size",
        "16MiB",
        "--passes",
        "1",
        "--bytes",
        "1MiB",
        "--interval",
        "0s",
        "drive:ocz-vertex-le-100gb",
    ];
    for bench in [&postmark[..], &nfs, &age, &crystal] {
        let target = bench[bench.len() - 1];
        let one_line =
            predicate::str::contains("\n").count(1).and(contains(format!("A ({target})")));
        scratch
            .command(&[bench, &["--against", target, "--turns", "1"]].concat())
            .assert()
            .success()
            .stdout(one_line);
    }
    assert_eq!(scratch.targets().len(), 8);
    let started = std::time::Instant::now();
    scratch
        .command(&["bench", "tree", "null:", "--tries", "5000", "--against", "/no/such/path"])
        .assert()
        .code(1)
        .stdout("");
    scratch.command(&["bench", "tree", "null:", "--turns", "3"]).assert().code(2);
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(scratch.targets().len(), 8);
}
