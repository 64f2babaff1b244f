//! `bench tree`, `postmark` and `age` on the modelled filesystem of a modelled drive.

use crate::support::trimtab;
use predicates::str::contains;
use serde_json::Value;

const DRIVE: &str = "drive:ocz-vertex-le-100gb";

fn json(args: &[&str]) -> Value {
    let store = tempfile::tempdir().unwrap();
    let assert = trimtab()
        .args(args)
        .args(["--json", "--store"])
        .arg(store.path().join("store.db"))
        .arg(DRIVE)
        .assert()
        .success();
    let mut run: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    for key in ["id", "started_unix_ms"] {
        run.as_object_mut().unwrap().remove(key);
    }
    run
}

#[test]
fn tree_delete_is_slower_online_and_reproducible() {
    let tree = |trim| {
        json(&[
            "bench",
            "tree",
            "--files",
            "1000",
            "--tries",
            "1",
            "--filesystem",
            "ext4-2011",
            "--trim",
            trim,
        ])
    };
    let (none, online) = (tree("none"), tree("online"));
    assert_eq!(online, tree("online"));
    let deleted = |run: &Value| {
        let metric = run["metrics"]
            .as_array()
            .unwrap()
            .iter()
            .find(|m| m["name"] == "delete+sync.seconds")
            .unwrap();
        metric["samples"][0].as_f64().unwrap()
    };
    assert!(
        deleted(&online) > 2.0 * deleted(&none),
        "{} and {} s",
        deleted(&online),
        deleted(&none)
    );
    assert_eq!((&none["policy"], &online["policy"]), (&"none".into(), &"online".into()));
}

#[test]
fn postmark_on_modelled_drive_has_the_counts_of_null() {
    let run = json(&[
        "bench",
        "postmark",
        "--number",
        "100",
        "--transactions",
        "200",
        "--tries",
        "1",
        "--filesystem",
        "desktop-2011",
    ]);
    let counted = trimtab()
        .args([
            "bench",
            "postmark",
            "--number",
            "100",
            "--transactions",
            "200",
            "--tries",
            "1",
            "--json",
            "null:",
        ])
        .assert()
        .success();
    let null: Value = serde_json::from_slice(&counted.get_output().stdout).unwrap();
    let counters = |run: &Value| run["counters"].as_object().unwrap().clone();
    let (all, own) = (counters(&run), counters(&null));
    assert!(
        own.contains_key("created.mixed")
            && own.iter().all(|(name, count)| all.get(name) == Some(count)),
        "{own:?}, {all:?}"
    );
}

#[test]
fn bench_options_without_effect_are_refused() {
    let refused = |args: &[&str], why: &'static str| {
        trimtab().arg("bench").args(args).assert().code(2).stderr(contains(why))
    };
    refused(
        &["tree", "--trim", "online", "null:"],
        "--trim is for modelled drives, but null: is not one",
    );
    refused(&["postmark", "--fill", "60", "."], "--fill is for modelled drives");
    refused(&["postmark", "--fsync", "close", DRIVE], "through the page cache");
    refused(&["tree", "--trim", "onlin", DRIVE], "onlin");
    trimtab()
        .args(["bench", "tree", "drive:ocz-vertx"])
        .assert()
        .code(1)
        .stderr(contains("ocz-vertx"));
}

/// No command costs as much as a round on the real drive, and the trim recovers the speed
/// that the rounds cost.
#[test]
fn bench_age_on_modelled_drive_recovers_after_trim() {
    let small = "bench age --total 15GB --rounds 5 --test-size 64MiB --fill 80"
        .split(' ')
        .collect::<Vec<_>>();
    let run = json(&small);
    assert_eq!(run, json(&small), "the same every time");
    let phases: Vec<&str> =
        run["phases"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!((phases[0], phases.len()), ("random-write-before", 1 + 4 * 5 + 3));
    let metric = |name: &str| {
        run["metrics"].as_array().unwrap().iter().find(|m| m["name"] == name).unwrap()["samples"][0]
            .as_f64()
            .unwrap()
    };
    assert!(metric("random-write-before.rate") > 0.0 && metric("trim.seconds") > 1.0);
    assert!(
        metric("left-after-trim") >= metric("left-after-use"),
        "{} {}",
        metric("left-after-trim"),
        metric("left-after-use")
    );
    let tries = |args: &str, why: &'static str| {
        trimtab().args(args.split(' ')).arg(DRIVE).assert().code(2).stderr(contains(why));
    };
    tries("bench age --total 300GB --rounds 2", "increase --rounds to make each smaller");
    tries("bench age --total 1GB --trim onlin", "onlin");
}
