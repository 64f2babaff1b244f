//! `trimtab results`, and its store when killed, shared, corrupt or from a newer version.

use crate::support::{LoopMount, save_runs, skip, trimtab};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;
use trimtab::store::{Store, StoreError, StudyRecord, StudyRun};
use trimtab_sim::run::Run;

struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.file(name), text).unwrap();
        self.file(name)
    }

    /// `trimtab results …` with a private store.
    fn results(&self, args: &[&str]) -> Command {
        let mut command = trimtab();
        command.arg("--store").arg(self.file("r.db")).arg("results").args(args);
        command
    }

    /// Runs a command that stores a result.
    fn made(&self, args: &[&str]) {
        let mut command = trimtab();
        command.arg("--store").arg(self.file("r.db")).arg("--quiet").args(args);
        command.assert().success();
    }

    fn json(&self, args: &[&str]) -> Value {
        let output =
            self.results(args).arg("--json").assert().success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    }

    /// Saves a run with the `repeats` of a `metric`; returns its id.
    fn enter(&self, [workload, name, metric, unit]: [&str; 4], repeats: &str) -> String {
        let samples: Vec<f64> = repeats.split(',').map(|value| value.parse().unwrap()).collect();
        let better = if unit == "s" { "lower" } else { "higher" };
        self.save(json!({
            "workload": workload, "target_label": name,
            "metrics": [{"name": metric, "unit": unit, "better": better, "samples": samples}],
        }))
    }

    /// Saves a run with these fields; returns its id.
    fn save(&self, run: Value) -> String {
        save_runs(&self.file("r.db"), [run]).remove(0)
    }

    fn add(&self, name: &str, seconds: &str) -> String {
        self.enter(["tree", name, "delete", "s"], seconds)
    }
}

/// Saves `n` runs with consecutive seeds from `first`.
fn add_runs(store: &Path, first: u64, n: u64) {
    let x: Vec<u64> = (0..2000).map(|i| i * 1_000_000_000).collect();
    let run = |seed| {
        json!({
            "workload": "w", "target_label": "l", "seed": seed,
            "series": [{"name": "s", "axis": "time", "unit": "ops/s", "x": x, "y": x}],
        })
    };
    save_runs(store, (first..first + n).map(run));
}

#[test]
fn compare_uses_repeats_of_one_or_several_runs() {
    let scratch = Scratch::new();
    scratch.add("slow", "40.2,40.9,40.4");
    scratch.add("fast", "0.65,0.64,0.66");
    scratch
        .results(&["compare", "last~1", "last"])
        .assert()
        .success()
        .stdout(contains("faster").and(contains("0.0160 to").or(contains("0.015"))));
    for seconds in ["10.0", "10.1", "9.9", "20.0", "20.1", "19.9"] {
        scratch.add(seconds, seconds);
    }
    scratch
        .results(&["compare", "last~5", "last"])
        .assert()
        .success()
        .stdout(contains("cannot tell"));
    scratch
        .results(&["compare", "last~5+last~4+last~3", "last~2+last~1+last"])
        .assert()
        .success()
        .stdout(contains("slower").and(contains("2.00")));
    scratch.results(&["compare", "last"]).assert().code(2);
    scratch
        .results(&["compare", "last", "last~99"])
        .assert()
        .code(1)
        .stderr(contains("has no run 'last~99'"));
}

#[test]
fn output_overwrites_a_file_only_with_force() {
    let scratch = Scratch::new();
    scratch.add("one", "1");
    let out = scratch.write("out", "precious");
    let export = ["results", "export"];
    let report = ["results", "report", "last"];
    for command in [&export[..], &report] {
        let run = |more: &[&str]| {
            let mut run = trimtab();
            run.arg("--store")
                .arg(scratch.file("r.db"))
                .args(command)
                .arg("--output")
                .args(more)
                .assert()
        };
        let out = out.to_str().unwrap();
        run(&[out]).code(2).stdout("").stderr(contains("already exists").and(contains("--force")));
        assert_eq!(fs::read_to_string(out).unwrap(), "precious");
        run(&[out, "--force"]).success();
        let new = fs::read(out).unwrap();
        assert!(!new.is_empty() && new != b"precious");
        fs::write(out, "precious").unwrap();
        let other = scratch.file("new");
        let said = run(&[other.to_str().unwrap(), "--json"]).success().get_output().stdout.clone();
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(Path::new(said["file"].as_str().unwrap()), other);
        fs::remove_file(other).unwrap();
        // A special file is written to directly.
        assert_eq!(run(&["/dev/stdout"]).success().get_output().stdout.len(), new.len());
    }
}

#[test]
fn compare_verdict_needs_repeats_and_the_figures_direction() {
    let scratch = Scratch::new();
    scratch.add("base", "10.0,10.1,9.9");
    scratch.add("slower", "11.0,11.1,10.9");
    scratch.add("once", "12.0");
    scratch.add("faster", "8.0,8.1,7.9");
    let compare = |other: &str, verdict: &'static str| {
        scratch.results(&["compare", "last~3", other]).assert().success().stdout(contains(verdict));
    };
    // 10 % slower, with separate intervals.
    compare("last~2", "slower");
    // One repeat: it looks worse, but the data cannot prove it.
    compare("last~1", "cannot tell");
    compare("last", "faster");
    // For a rate, lower is worse.
    let rate = |name: &str, rate: &str| scratch.enter(["w", name, "writes", "ops/s"], rate);
    rate("base", "100,101,99");
    rate("lower", "80,81,79");
    let verdict = |args: [&str; 3]| scratch.results(&args).assert().success();
    verdict(["compare", "last~1", "last"]).stdout(contains("slower"));
    verdict(["compare", "last", "last~1"]).stdout(contains("faster"));
}

#[test]
fn compare_of_unlike_workloads_is_refused() {
    let scratch = Scratch::new();
    for (workload, seconds) in
        [("tree", "40.2,40.9,40.4"), ("tree", "41.2,41.9,41.4"), ("postmark", "0.65,0.64,0.66")]
    {
        scratch.enter([workload, "x", "total", "s"], seconds);
    }
    let said = "different workloads cannot be compared: A is tree, B is postmark; choose runs \
        of one workload from 'trimtab results list'";
    for args in [
        &["compare", "last~1", "last"][..],
        &["compare", "last~1", "last", "--json"],
        &["report", "last~1", "last"],
    ] {
        let refused = scratch.results(args).current_dir(scratch.file("")).assert().code(2);
        // With --json, standard output contains the error as a document.
        assert!(args.contains(&"--json") || refused.get_output().stdout.is_empty(), "{args:?}");
        let error = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
        assert!(error.contains(said) && error.lines().count() == 1, "{args:?}: {error}");
    }
    assert!(!scratch.file("trimtab-report.html").exists());
    scratch
        .results(&["compare", "last~2", "last~1+last"])
        .assert()
        .code(2)
        .stderr(contains("B is tree and postmark"));
    scratch.results(&["compare", "last~2", "last~1"]).assert().success();
}

#[test]
fn compare_warns_of_unlike_settings_before_its_ratios() {
    let scratch = Scratch::new();
    for files in ["500", "36706"] {
        scratch.save(json!({
            "workload": "tree", "target_label": "x", "settings": {"files": files},
            "metrics": [{"name": "total", "unit": "s", "better": "lower", "samples": [5.0]}],
        }));
    }
    let shown = scratch.results(&["compare", "last~1", "last"]).assert().success();
    let shown = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no '{text}' in\n{shown}"));
    assert!(at("setting files differs: A 500; B 36706") < at("B against A"), "{shown}");
}

#[test]
fn compare_of_two_repeats_finds_a_large_difference() {
    let scratch = Scratch::new();
    for rate in ["5130,5118", "550,561"] {
        scratch.enter(["crystal", "x", "read", "MB/s"], rate);
    }
    let row = scratch.json(&["compare", "last~1", "last"])["comparisons"][0]["figures"][0].clone();
    assert_eq!(row["verdict"], "slower", "{row}");
    let (low, high) = (row["interval"][0].as_f64().unwrap(), row["interval"][1].as_f64().unwrap());
    assert!(low < 0.108 && 0.108 < high && high < 0.2, "{row}");
}

#[test]
fn results_list_show_and_delete_find_runs() {
    let scratch = Scratch::new();
    scratch.results(&["list"]).assert().code(1).stderr(contains("does not exist"));
    let id = scratch.add("Intel \u{1b}[31m320", "19");
    scratch.add("other", "9");
    scratch
        .results(&["list"])
        .assert()
        .success()
        .stdout(contains(&id[..8]).and(contains("\u{1b}").not()));
    scratch
        .results(&["list", "--label", "none"])
        .assert()
        .success()
        .stdout("")
        .stderr(contains("no stored run fits"));
    scratch.results(&["show", &id]).assert().success().stdout(contains("19.0 s"));
    scratch.results(&["show", "zz"]).assert().code(1).stderr(contains(
        "has no run 'zz'; a run is named by the first digits of its id, study:ID, last",
    ));
    scratch.results(&["delete", &id, "last~7"]).assert().code(1);
    assert_eq!(scratch.json(&["list"])["runs"].as_array().unwrap().len(), 2, "all or none");
    scratch
        .results(&["delete", &id])
        .assert()
        .success()
        .stdout(contains(format!("deleted {id}: tree on")));
    scratch.results(&["show", &id]).assert().code(1).stderr(contains("has no run"));
}

#[test]
fn results_delete_asks_before_it_deletes_a_study() {
    let scratch = Scratch::new();
    scratch.add("one", "1");
    scratch.add("two", "2");
    let mut store = Store::create_or_open(&scratch.file("r.db")).unwrap();
    let runs: Vec<_> = ["last~1", "last"]
        .map(|run| StudyRun {
            part: "runs".to_owned(),
            run: store.find(&run.parse().unwrap()).unwrap(),
        })
        .into();
    let id = store
        .save_study(&StudyRecord { target: "x".into(), complete: true, runs, notes: Vec::new() })
        .unwrap();
    let said = format!("'last' is study {} of 2 runs; say --yes", id.short());
    scratch.results(&["delete", "last"]).assert().code(2).stdout("").stderr(contains(said));
    assert_eq!(scratch.json(&["list"])["runs"].as_array().unwrap().len(), 2);
    let deleted = scratch.results(&["delete", "last", "--yes"]).assert().success();
    assert_eq!(deleted.get_output().stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
    assert!(scratch.json(&["list"])["runs"].as_array().unwrap().is_empty());
}

/// Once, the study was named before the unknown run.
#[test]
fn compare_names_an_unknown_run_before_a_study() {
    let scratch = Scratch::new();
    scratch.add("one", "1");
    let mut store = Store::create_or_open(&scratch.file("r.db")).unwrap();
    let run = store.find(&"last".parse().unwrap()).unwrap();
    let runs = vec![StudyRun { part: "runs".to_owned(), run }];
    store
        .save_study(&StudyRecord { target: "x".into(), complete: true, runs, notes: Vec::new() })
        .unwrap();
    for sides in [["zzzz", "last"], ["last", "zzzz"]] {
        let compared = scratch.results(&[&["compare"], &sides[..]].concat()).assert();
        compared.code(1).stderr(contains("has no run 'zzzz'"));
    }
}

#[test]
fn unusable_store_is_refused_before_bench_and_study() {
    let scratch = Scratch::new();
    for (store, why) in [
        (scratch.file("no/such/dir/r.db"), "No such file or directory"),
        (scratch.directory.path().to_owned(), "Is a directory"),
        (scratch.write("list.txt", &"a shopping list ".repeat(20)), "is not a store of trimtab"),
    ] {
        for command in [&["bench", "tree", "null:"][..], &["study", "--quick"]] {
            trimtab()
                .arg("--store")
                .arg(&store)
                .args(command)
                .assert()
                .code(1)
                .stdout("")
                .stderr(contains(why));
        }
    }
}

#[test]
fn store_of_another_version_is_refused_by_every_command() {
    let scratch = Scratch::new();
    scratch.add("one", "1");
    let stored = String::from_utf8_lossy(&fs::read(scratch.file("r.db")).unwrap()).into_owned();
    scratch.write("r.db", &stored.replacen("store   5", "store 999", 1));
    for args in [&["list"][..], &["show"], &["export"], &["delete", "last"]] {
        scratch
            .results(args)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains("has version 999, and this trimtab reads version 5"));
    }
}

/// Once, a save to a full disk left 35 bytes that were no store.
#[test]
fn new_store_on_a_full_disk_stays_a_store() {
    let Some(full) = LoopMount::tmpfs(8) else { return skip("root and tmpfs") };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(full.path(), mode).unwrap();
    let store = full.path().join("results.db");
    let ballast = full.path().join("ballast");
    assert!(fs::write(&ballast, vec![0x5a; 9 << 20]).is_err(), "the disk is full");
    let save = || Store::create_or_open(&store).unwrap().save(&Run::empty());
    let error = save().unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert_eq!(fs::metadata(&store).unwrap().len(), 0, "an empty file is a store");
    fs::remove_file(&ballast).unwrap();
    save().unwrap();
}

/// The killed process is this test, started again to save ten runs.
#[test]
fn killed_save_leaves_all_or_nothing_in_store() {
    const BATCH: u64 = 10;
    const FIRST: &str = "FIRST_SEED_OF_A_BATCH";
    if let Ok(first) = std::env::var(FIRST) {
        return add_runs(Path::new("r.db"), first.parse().unwrap(), BATCH);
    }
    let scratch = Scratch::new();
    let store = scratch.file("r.db");
    let (mut finished, mut caught) = (0, 0);
    for round in 0..40_u64 {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "results::killed_save_leaves_all_or_nothing_in_store"])
            .env(FIRST, (round * BATCH).to_string())
            .current_dir(&scratch.directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From the first write to the commit, the critical time for a kill.
        while !is_in_change(&store) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(200 * round));
        child.kill().unwrap();
        finished += u64::from(child.wait().unwrap().success());
        caught += u64::from(is_in_change(&store));
        let runs = committed_runs(&store);
        assert!(runs.is_multiple_of(BATCH) && runs >= finished * BATCH, "{runs}");
    }
    assert!(caught >= 5, "killed within a write {caught} times");
    // The next save always succeeds.
    let before = committed_runs(&store);
    add_runs(&store, 1_000_000, BATCH);
    assert_eq!(committed_runs(&store), before + BATCH);
}

/// The committed length in the first line of a store; 0 without one.
fn committed(store: &[u8]) -> usize {
    store.get(18..34).map_or(0, hexadecimal)
}

fn hexadecimal(digits: &[u8]) -> usize {
    usize::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()
}

/// True if the store has bytes that are not committed.
fn is_in_change(store: &Path) -> bool {
    fs::read(store).is_ok_and(|bytes| bytes.len() > committed(&bytes).max(35))
}

/// Counts the runs of a store, and checks that each has its whole body.
fn committed_runs(store: &Path) -> u64 {
    let bytes = fs::read(store).unwrap_or_default();
    let (mut at, mut runs) = (35, 0);
    while at < committed(&bytes) {
        let (entries, bodies) =
            (hexadecimal(&bytes[at..at + 16]), hexadecimal(&bytes[at + 17..at + 33]));
        let text = str::from_utf8(&bytes[at + 34..at + 34 + entries]).unwrap();
        let mut promised = 0;
        for line in text.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            promised += entry["run"]["bytes"].as_u64().unwrap();
            runs += 1;
        }
        assert_eq!(promised, bodies as u64);
        at += 34 + entries + bodies;
    }
    assert_eq!(at.max(committed(&bytes)), at);
    runs
}

#[test]
fn store_accepts_concurrent_writers() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let scratch = &scratch;
            scope.spawn(move || {
                for round in 0..8 {
                    scratch.add(&format!("writer {writer}, round {round}"), "1,2,3");
                }
            });
        }
    });
    let list = scratch.json(&["list"]);
    let mut labels: Vec<&str> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["target_label"].as_str().unwrap())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), 24);
}

#[test]
fn results_list_shows_and_filters_labels() {
    let scratch = Scratch::new();
    for (tries, label) in [("1", "kernel 6.18"), ("2", "kernel 6.19")] {
        let bench = ["bench", "tree", "--files", "20", "--tries", tries];
        scratch.made(&[&bench[..], &["null:", "--label", label]].concat());
    }
    let found = scratch.json(&["list", "--label", "6.19"]);
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(
        (runs.len(), runs[0]["label"].as_str(), runs[0]["settings"]["tries"].as_str()),
        (1, Some("kernel 6.19"), Some("2"))
    );
    assert_eq!(runs[0]["metric"]["name"], "delete+sync.seconds");
    let shown = contains("kernel 6.18").and(contains("kernel 6.19"));
    scratch.results(&["list"]).assert().success().stdout(shown);
}

#[test]
fn measured_run_stores_its_command() {
    let Some(mount) = LoopMount::tmpfs(64) else { return skip("root") };
    let scratch = Scratch::new();
    let path: &Path = &mount.path();
    let path = path.to_str().unwrap();
    let bench = ["bench", "tree", "--files", "20", "--tries", "1", "--reserve", "0", path];
    scratch.made(&[&bench[..], &["--label", "x"]].concat());
    let run = scratch.json(&["show", "last"]);
    let command: Vec<String> =
        serde_json::from_str(run["specification"]["command"].as_str().unwrap()).unwrap();
    assert_eq!(command, bench);
}

#[test]
fn label_selects_runs_to_export_and_is_refused_where_unused() {
    let scratch = Scratch::new();
    scratch.add("one", "1");
    scratch.add("two", "2");
    scratch.made(&["bench", "tree", "--files", "20", "--tries", "1", "--label", "new", "null:"]);
    let runs = |args: &[&str]| scratch.json(args)["runs"].as_array().unwrap().len();
    assert_eq!((runs(&["export"]), runs(&["export", "--label", "new"])), (3, 1));
    let refused = |args: &[&str], code, text: &str| {
        scratch.results(args).assert().code(code).stdout("").stderr(contains(text));
    };
    refused(&["export", "--label", "old"], 1, "no stored run has the label 'old'");
    refused(&["export", "last", "--label", "new"], 2, "leave one of both out");
    refused(&["show", "--label", "new"], 2, "leave --label out");
}
