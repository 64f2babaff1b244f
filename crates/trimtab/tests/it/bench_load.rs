//! `bench load`: latency against offered load.

use crate::support::{LoopDevice, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::fs;

fn figures(args: &[&str]) -> impl Fn(&str) -> f64 {
    let output =
        trimtab().args(["bench", "load"]).args(args).args(["--json", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    move |name: &str| {
        let metric =
            run["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        metric.unwrap_or_else(|| panic!("no {name} in {run}"))["samples"][0].as_f64().unwrap()
    }
}

/// Oracles: the closed loop completes its depth once per mean latency (Little's law), an
/// open loop what it offers, within five standard deviations of Poisson arrivals.
#[test]
fn modelled_drive_completes_what_is_offered_up_to_its_knee() {
    let figure =
        figures(&["drive:ocz-vertex-le-100gb", "--time", "400ms", "--steps", "10,50,90,130"]);
    let max = figure("closed-loop.write.job.iops");
    let mean = figure("closed-loop.write.job.latency.mean") / 1e9;
    assert!((max * mean / 32.0 - 1.0).abs() < 0.01, "{max} in {mean} s");
    for percent in [10.0, 50.0, 90.0] {
        let (offered, achieved) = (
            figure(&format!("load-{percent}.offered")),
            figure(&format!("load-{percent}.write.job.iops")),
        );
        let deviation = (offered * 0.3).sqrt() / 0.3;
        assert!((offered / (max * percent / 100.0) - 1.0).abs() < 1e-9);
        assert!((achieved - offered).abs() < 5.0 * deviation, "{achieved} of {offered}");
    }
    assert!(figure("load-130.write.job.iops") < 1.05 * max);
    assert_eq!(figure("knee.percent"), 130.0);
    assert_eq!(figure("knee.offered"), figure("load-130.offered"));
}

/// Oracle: with 75 % of reads, three quarters of what is offered are reads.
#[test]
fn rows_of_a_mix_compare_offered_and_achieved_of_one_operation() {
    let store = tempfile::tempdir().unwrap();
    let load = |args: &[&str]| {
        let mut command = trimtab();
        let output = command
            .arg("--store")
            .arg(store.path().join("s.db"))
            .args(args)
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        String::from_utf8(output).unwrap()
    };
    let screen = load(&[
        "bench",
        "load",
        "drive:sata-tlc-500gb",
        "--time",
        "200ms",
        "--steps",
        "50,200",
        "--reads",
        "75",
    ]);
    let row = |text: &str, name: &str| -> Vec<f64> {
        let row = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}:\n{text}"));
        row.split_whitespace()
            .skip(1)
            .take(2)
            .map(|rate| rate.replace(',', "").parse().unwrap())
            .collect()
    };
    let (reads, writes) = (row(&screen, "load-50.read"), row(&screen, "load-50.write"));
    assert!((reads[0] / writes[0] - 3.0).abs() < 0.02, "{reads:?} {writes:?}");
    assert!(
        [reads, writes].iter().all(|rates| (rates[1] / rates[0] - 1.0).abs() < 0.1),
        "{screen}"
    );
    assert!(screen.contains(" IOPS of reads and writes: "), "{screen}");
    let shown = load(&["results", "show", "last"]);
    assert_eq!(row(&shown, "load-50.read"), row(&screen, "load-50.read"));
    assert!(
        shown.contains("Knee at 200 % of the closed loop") && shown.contains("Phases"),
        "{shown}"
    );
}

#[test]
fn load_writes_a_device_only_if_it_is_named_twice() {
    let Some(device) = LoopDevice::new(16) else { return skip("loop devices") };
    let node = device.node();
    let load = |args: &[&str]| {
        let mut command = trimtab();
        command.args(["bench", "load", &node, "--time", "100ms", "--steps", "20,60"]).args(args);
        command.assert()
    };
    load(&[]).code(2).stderr(contains(format!("add --destroy {node}"))).stdout("");
    load(&["--reads", "100"]).success().stdout(contains("load-60.read"));
    assert!(fs::read(&node).unwrap().iter().all(|byte| *byte == 0), "reads write nothing");
    load(&["--reads", "30", "--destroy", &node])
        .success()
        .stdout(contains("load-20.write").and(contains("load-20.read")));
    assert!(fs::read(&node).unwrap().iter().any(|byte| *byte != 0));
}

/// Oracle: a target cannot complete twice its highest rate.
#[test]
fn saturated_lowest_step_is_at_or_above_the_knee() {
    let load = |steps: &str, json: &str| {
        let mut command = trimtab();
        command.args(["bench", "load", "drive:ocz-vertex-le-100gb", "--time", "200ms"]);
        let output = command.args(["--steps", steps, json]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let run: Value = serde_json::from_str(&load("200,300", "--json")).unwrap();
    let has = |list: &str, key: &str, name: &str| {
        run[list].as_array().unwrap().iter().find(|one| one[key] == name).cloned()
    };
    assert_eq!(has("metrics", "name", "knee.percent").unwrap()["samples"][0], 200.0);
    assert!(has("warnings", "code", "load.saturated").is_some(), "{run}");
    let screen = load("200,300", "--plain");
    assert!(screen.contains("Knee at or below 200 % of the closed loop"), "{screen}");
    assert!(!load("10,20", "--json").contains("load.saturated"));
}

#[test]
fn steps_that_do_not_ascend_are_refused() {
    for steps in ["50,10", "0,10", "10,x", "", "10,2000"] {
        let refused = trimtab()
            .args(["bench", "load", "null:", "--steps", steps])
            .assert()
            .code(2)
            .stdout("");
        refused.stderr(contains("write ascending percentages from 1 to 1000"));
    }
    trimtab()
        .args(["bench", "load", "null:", "--time", "1ms"])
        .assert()
        .code(2)
        .stderr(contains("at least 10ms"));
}

/// `small.toml`: a shipped drive with these changes, in a directory.
fn small_drive(name: &str, changes: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let shown = trimtab().args(["drive", "show", name, "--toml"]).output().unwrap();
    let mut file = String::from_utf8(shown.stdout).unwrap();
    for (from, to) in changes {
        assert!(file.contains(from), "{from}");
        file = file.replace(from, to);
    }
    fs::write(directory.path().join("small.toml"), file).unwrap();
    directory
}

/// A drive with an SLC cache, scaled down to a 128th. Past the cache, the rate is a small
/// part of the first closed loop's.
/// Oracle: the achieved rates of both closed loops.
#[test]
fn target_that_slows_down_has_no_knee() {
    let directory = small_drive(
        "nvme-tlc-500gb",
        &[
            ("500_107_862_016", "3_906_994_176"),
            ("pages_per_block = 512", "pages_per_block = 4"),
            ("4_000_000_000", "31_250_000"),
            ("80_000_000_000", "625_000_000"),
        ],
    );
    let load = |more: &[&str]| {
        let mut command = trimtab();
        command.current_dir(directory.path()).args(["bench", "load", "drive:./small.toml"]);
        command.args(["--time", "40ms", "--steps", "10,50,100"]).args(more).output().unwrap()
    };
    let output = load(&["--precondition", "1x", "--json"]);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = |job: &str| {
        let name = format!("{job}.write.job.iops");
        let all = run["metrics"].as_array().unwrap();
        all.iter().find(|metric| metric["name"] == *name).unwrap()["samples"][0].as_f64().unwrap()
    };
    assert!(rate("closed-loop-again") < 0.8 * rate("closed-loop"), "{run}");
    assert!(run.to_string().contains("load.changed"), "{run}");
    assert!(!run.to_string().contains("knee.percent"), "{run}");
    let screen = String::from_utf8(load(&["--precondition", "1x"]).stdout).unwrap();
    assert!(
        screen.contains("the target slowed from ")
            && screen.contains("Write more of it first")
            && screen.contains("No knee is stated"),
        "{screen}"
    );
    let refused = String::from_utf8(load(&["--precondition", "steady"]).stderr).unwrap();
    assert!(
        refused.contains("writes past its SLC cache") && !refused.contains("disk"),
        "{refused}"
    );
}

#[test]
fn load_without_a_knee_names_higher_steps() {
    let mut command = trimtab();
    command.args(["bench", "load", "drive:ocz-vertex-le-100gb", "--time", "200ms"]);
    let advice = "try --steps 10,20,30,40";
    command.args(["--steps", "10,20"]).assert().success().stdout(contains(advice));
}

/// Oracle: superblocks of 16 dies, two planes and 16 pages of 8 KiB hold 4.19 MB. One is
/// collected at a time, so a step of 10 % must record that much.
#[test]
fn steps_shorter_than_a_collection_cycle_name_the_time_needed() {
    let changes = [
        ("128_035_676_160", "2_000_000_000"),
        ("pages_per_block = 256", "pages_per_block = 16"),
        ("blocks_per_plane = 2048", "blocks_per_plane = 512"),
    ];
    let directory = small_drive("crucial-m4-128gb", &changes);
    let load = |more: &[&str]| -> Value {
        let mut command = trimtab();
        command.current_dir(directory.path()).args(["bench", "load", "drive:./small.toml"]);
        let output = command.args(["--steps", "10,50", "--json"]).args(more).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let warning = |run: &Value| {
        let all = run["warnings"].as_array().unwrap();
        all.iter().find(|one| one["code"] == "load.short-steps").cloned()
    };
    let short = load(&["--precondition", "steady", "--time", "1s"]);
    let found = warning(&short).unwrap_or_else(|| panic!("{short}"));
    let enough = found["facts"]["enough-seconds"].as_str().unwrap().parse::<f64>().unwrap();
    let figures = short["metrics"].as_array().unwrap();
    let rate = figures.iter().find(|one| one["name"] == "load-10.offered").unwrap();
    let superblock = f64::from(16 * 2 * 16 * 8192);
    let expected = superblock / 4096.0 / rate["samples"][0].as_f64().unwrap() / 0.75;
    assert!((expected..expected + 1.0).contains(&enough), "{found}: {expected}");
    let long = ["--precondition", "steady", "--time", &format!("{enough}s")];
    // Neither reads nor a drive that was filled once and hardly written since collect.
    for quiet in [&long[..], &["--precondition", "steady", "--reads", "100"], &["--time", "20ms"]] {
        assert!(warning(&load(quiet)).is_none(), "{quiet:?}");
    }
}
