//! Sweeps: any division gives the same bytes, no finished cell is lost, and errors appear
//! before anything runs.

use super::support::{LoopMount, process, skip, trimtab};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BASE: &str = "name = \"small\"\n[base]\ndrive.name = \"crucial-m4-128gb\"\n\
    drive.capacity = \"128MiB\"\ndrive.flash.geometry.pages_per_block = 8\n\
    workload.name = \"random\"\nworkload.drive_writes = 0.5\n";
const AXES: &str = "[axes]\ndrive.over_provisioning_percent = { from = 10, to = 40, steps = 3 }\n\
    policy = [\"none\", \"online\"]\nworkload.trim_percent = [0, 20]\n";

/// A private directory with a plan in it.
fn place(plan: &str) -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = scratch.path().join("plan.toml");
    fs::write(&path, plan).unwrap();
    (scratch, path)
}

fn at(scratch: &TempDir, name: &str) -> String {
    scratch.path().join(name).display().to_string()
}

fn sweep(args: &[&str]) -> assert_cmd::assert::Assert {
    trimtab().arg("sweep").args(args).assert()
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

fn csv(directory: &str) -> String {
    text(&sweep(&["export", directory]).success().get_output().stdout)
}

fn results(directory: &str) -> Vec<u8> {
    fs::read(Path::new(directory).join("results.parquet")).unwrap()
}

#[test]
fn sweep_results_are_identical_for_any_sharding() {
    let (scratch, plan) = place(&format!("{BASE}{AXES}"));
    let plan = plan.to_str().unwrap();
    let whole = at(&scratch, "whole");
    let said = sweep(&["run", plan, "--output", &whole, "--threads", "1"]).success();
    assert!(
        text(&said.get_output().stdout).contains("small: 12 of 12 cells are finished"),
        "{said}"
    );
    let (parquet, table) = (results(&whole), csv(&whole));
    // Oracle: the column of codes in the table.
    let cells = table.lines().filter(|line| line.contains("drive.few-superblocks")).count();
    let stated = format!("drive.few-superblocks in {cells}");
    assert!(cells > 0 && text(&said.get_output().stdout).contains(&stated), "{said} {table}");
    assert!(
        table.lines().count() == 13 && parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1")
    );
    for (shards, threads) in [(1, "2"), (2, "1"), (2, "2"), (3, "2")] {
        let parts: Vec<String> = (1..=shards)
            .map(|part| at(&scratch, &format!("{part}-of-{shards}-{threads}")))
            .collect();
        for (n, part) in parts.iter().enumerate() {
            sweep(&[
                "run",
                plan,
                "--output",
                part,
                "--shard",
                &format!("{}/{shards}", n + 1),
                "--threads",
                threads,
            ])
            .success();
            assert_eq!(Path::new(part).join("results.parquet").exists(), shards == 1);
        }
        let merged = at(&scratch, &format!("merged-{shards}-{threads}"));
        let all: Vec<&str> = ["merge", "--output", &merged]
            .into_iter()
            .chain(parts.iter().map(String::as_str))
            .collect();
        sweep(&all).success();
        assert!(
            results(&merged) == parquet && csv(&merged) == table,
            "{shards} shards, {threads} threads"
        );
    }
    // All shards share one directory: the last one writes the results.
    let together = at(&scratch, "together");
    for shard in ["2/2", "1/2"] {
        sweep(&["run", plan, "--output", &together, "--shard", shard]).success();
    }
    assert!(results(&together) == parquet);
    // The table has consecutive cells, each with its inputs.
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| {
        header
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| panic!("{name}: {header:?}"))
    };
    let (policy, waf, over) = (
        column("axis_policy_name"),
        column("waf_ratio"),
        column("axis_drive_over_provisioning_percent"),
    );
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows.iter().map(|row| format!("{} {}", row[over], row[policy])).take(5).collect::<Vec<_>>(),
        ["10 none", "10 none", "10 online", "10 online", "25 none"]
    );
    assert!(rows.iter().all(|row| row[waf].parse::<f64>().unwrap() >= 1.0));
}

/// A cell has the same figures as a simulation of its own.
#[test]
fn sweep_cell_matches_drive_simulate() {
    let (scratch, plan) = place(
        "[base]\ndrive.name = \"crucial-m4-128gb\"\ndrive.capacity = \"8GiB\"\n\
            workload.drive_writes = 0.02\n[axes]\n\
            workload.name = [\"random\", \"zipf:1.1\"]\n",
    );
    let out = at(&scratch, "out");
    sweep(&["run", plan.to_str().unwrap(), "--output", &out]).success();
    let table = csv(&out);
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let of = |row: usize, name: &str| {
        table
            .lines()
            .nth(row)
            .unwrap()
            .split(',')
            .nth(header.iter().position(|n| *n == name).unwrap())
            .unwrap()
            .to_owned()
    };
    for (row, workload) in [(1, "random"), (2, "zipf:1.1")] {
        let args = [
            "drive",
            "simulate",
            "--drive",
            "crucial-m4-128gb",
            "--capacity",
            "8GiB",
            "--workload",
            workload,
            "--until-written",
            "0.02x",
            "--json",
        ];
        let said: serde_json::Value =
            serde_json::from_slice(&trimtab().args(args).output().unwrap().stdout).unwrap();
        let said = said.to_string();
        for counter in ["nand_written_bytes", "host_written_bytes", "gc_superblocks"] {
            let value = of(row, &format!("counter_{counter}"));
            assert!(
                said.contains(&format!("\"{counter}\":{value}"))
                    || said.contains(&format!("\"{counter}\",{value}")),
                "{workload} {counter} {value}"
            );
        }
    }
}

#[test]
fn killed_sweep_run_reuses_finished_cells() {
    let plan = format!("{}{}", BASE.replace("0.5", "3"), AXES.replace("steps = 3", "steps = 11"));
    let (scratch, plan) = place(&plan);
    let plan = plan.to_str().unwrap();
    let (killed, whole) = (at(&scratch, "killed"), at(&scratch, "whole"));
    let mut before = 0;
    for _ in 0..3 {
        let mut child =
            process().args(["sweep", "run", plan, "--output", &killed]).spawn().unwrap();
        let started = Instant::now();
        // Until another cell is finished.
        while finished(&killed) <= before && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = finished(&killed);
        assert!(now > before || now == 44, "{now} after {before}");
        before = now;
    }
    let said = sweep(&["run", plan, "--output", &killed]).success();
    let said = text(&said.get_output().stderr);
    assert!(
        before == 44 || said.contains(&format!("{before} of 44 cells were already finished")),
        "{before}: {said}"
    );
    sweep(&["run", plan, "--output", &whole]).success();
    assert!(results(&killed) == results(&whole) && csv(&killed) == csv(&whole));
}

#[test]
fn sweep_interrupt_keeps_and_reports_finished_cells() {
    let plan = format!("{}{}", BASE.replace("0.5", "3"), AXES.replace("steps = 3", "steps = 11"));
    let (scratch, plan) = place(&plan);
    let out = at(&scratch, "out");
    let mut command = process();
    let child = command
        .args(["sweep", "run", plan.to_str().unwrap(), "--output", &out])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while finished(&out) == 0 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let ended = child.wait_with_output().unwrap();
    let count = finished(&out);
    assert!(count < 44 && ended.status.code() == Some(130), "{count}: {ended:?}");
    assert!(
        text(&ended.stderr)
            .contains(&format!("{count} cells are finished; run the same command to continue")),
        "{ended:?}"
    );
    assert!(!Path::new(&out).join("results.parquet").exists());
    let said = sweep(&["status", &out]).success();
    assert!(
        text(&said.get_output().stdout)
            .contains(&format!("{count} of 44 cells are finished, {} are missing", 44 - count)),
        "{said}"
    );
}

/// The number of whole lines in the journal.
fn finished(directory: &str) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let journals = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    journals.map(|path| fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count()).sum()
}

#[test]
fn failed_sweep_cell_has_reason_and_other_cells_run() {
    let (scratch, plan) =
        place(&format!("{BASE}[axes]\ndrive.flash.geometry.superblock_dies = [16, 3, 4]\n"));
    let out = at(&scratch, "out");
    let said = sweep(&["run", plan.to_str().unwrap(), "--output", &out]).code(1);
    let said = text(&said.get_output().stdout);
    assert!(
        said.contains("2 of 3 cells are finished, 1 failed") && said.contains("superblock_dies"),
        "{said}"
    );
    sweep(&["status", &out]).success();
    let table = csv(&out);
    let failed = table.lines().nth(2).unwrap();
    assert!(failed.contains(",failed,") && failed.contains("superblock_dies"), "{failed}");
}

/// The plan's count includes a workload that its run would refuse. The run that leaves it
/// out fails.
#[test]
fn sweep_plan_counts_cells_that_run_refuses() {
    let axes = "[axes]\nworkload.theta = [0.0, 1.0, 10.0]\n";
    let (scratch, plan) = place(&format!("{}{axes}", BASE.replace("\"random\"", "\"zipf\"")));
    let (out, plan) = (at(&scratch, "out"), plan.to_str().unwrap());
    let said = sweep(&["plan", plan]).success();
    let said = text(&said.get_output().stdout);
    assert!(said.contains("1 cannot be run") && said.contains("Zipf exponent"), "{said}");
    let said = sweep(&["run", plan, "--output", &out]).code(1);
    let said = text(&said.get_output().stdout);
    assert!(
        said.contains("2 of 3 cells are finished, 1 failed") && said.contains("Zipf exponent"),
        "{said}"
    );
}

/// More values with the same cells: finished cells are not run again.
#[test]
fn extended_sweep_plan_reuses_finished_cells() {
    let (scratch, plan) = place(&format!("{BASE}[axes]\nworkload.queue_depth = [1, 8]\n"));
    let out = at(&scratch, "out");
    sweep(&["run", plan.to_str().unwrap(), "--output", &out]).success();
    fs::write(&plan, format!("{BASE}[axes]\nworkload.queue_depth = [32, 8, 1]\n")).unwrap();
    let (finished, merged) = (results(&out), at(&scratch, "merged"));
    sweep(&["run", plan.to_str().unwrap(), "--output", &merged]).success();
    for args in [["run", plan.to_str().unwrap()], ["merge", &merged]] {
        let said = sweep(&[&args[..], &["--output", &out]].concat()).code(2);
        let said = text(&said.get_output().stderr);
        assert!(said.contains("has the results of another plan or model"), "{said}");
        assert!(said.lines().count() == 1 && results(&out) == finished, "{said}");
    }
    fs::remove_file(Path::new(&out).join("results.parquet")).unwrap();
    let said = sweep(&["run", plan.to_str().unwrap(), "--output", &out]).success();
    assert!(
        text(&said.get_output().stderr).contains("2 of 3 cells were already finished"),
        "{said}"
    );
    let depths: Vec<String> =
        csv(&out).lines().skip(1).map(|line| line.split(',').nth(7).unwrap().to_owned()).collect();
    assert_eq!(depths, ["32", "8", "1"]);
    let again = at(&scratch, "again");
    sweep(&["run", plan.to_str().unwrap(), "--output", &again]).success();
    assert!(results(&out) == results(&again));
}

#[test]
fn sweep_plan_error_is_one_line_before_the_run() {
    for (plan, expected) in [
        (String::new(), "a plan without axes"),
        (
            format!("{BASE}[axes]\nworkload.queue_dept = [1]\n"),
            "line 9: workload.queue_dept: workload random has no setting \
                'queue_dept'; did you mean 'queue_depth'?",
        ),
        (
            format!("{BASE}[axes]\nworkload.fill_percent = [nan]\n"),
            "line 9: workload.fill_percent: nan is not a usable number",
        ),
        (
            format!(
                "{BASE}[axes]\nworkload.queue_depth = {{ from = 1, to = 1000, steps \
                    = 1000 }}\ndrive.flash.nand.read_ns = {{ from = 1, to = 1000000, steps \
                    = 1000000 }}\n"
            ),
            "the plan has 1,000,000,000 cells",
        ),
        (
            "[base]\ndrive = \"crucial-m4-128bg\"\n[axes]\npolicy = [\"none\"]\n".to_owned(),
            "did you mean 'crucial-m4-128gb'",
        ),
        (
            "[base]\ndrive = \"crucial-m4-128gb\"\n[axes]\nworkload = [\"trace:nowhere.csv\"]\n"
                .to_owned(),
            "line 4: workload.name: ",
        ),
    ] {
        let (scratch, path) = place(&plan);
        let out = at(&scratch, "out");
        for args in [
            vec!["plan", path.to_str().unwrap()],
            vec!["run", path.to_str().unwrap(), "--output", &out],
        ] {
            let said = sweep(&args).code(2);
            let said = text(&said.get_output().stderr);
            assert!(said.contains(expected) && said.lines().count() == 1, "{expected}: {said}");
        }
        assert!(!Path::new(&out).exists());
    }
}

#[test]
fn sweep_plan_states_cells_and_memory() {
    let (_scratch, plan) = place(&format!("{BASE}{AXES}"));
    let said = sweep(&["plan", plan.to_str().unwrap(), "--json"]).success();
    let said: serde_json::Value = serde_json::from_slice(&said.get_output().stdout).unwrap();
    assert_eq!(
        (said["schema"].as_str(), said["cells"].as_u64()),
        (Some("trimtab.sweep.plan"), Some(12))
    );
    // 4 bytes for each of 32,768 units and for each flash location, and there are at
    // least as many locations as units.
    assert!(said["cell_memory_bytes_max"].as_u64().unwrap() > 2 * 4 * 32_768);
}

#[test]
fn sweep_merge_refuses_missing_or_unlike_shards() {
    let (scratch, plan) = place(&format!("{BASE}[axes]\nworkload.queue_depth = [1, 8]\n"));
    let plan = plan.to_str().unwrap();
    let (a, b, all) = (at(&scratch, "a"), at(&scratch, "b"), at(&scratch, "all"));
    sweep(&["run", plan, "--output", &a, "--shard", "1/2"]).success();
    let said = text(&sweep(&["merge", &a, "--output", &all]).code(1).get_output().stderr);
    assert!(said.contains("1 of 2 cells are missing, the first is cell 1"), "{said}");
    sweep(&["run", plan, "--output", &b, "--shard", "2/2"]).success();
    let about = Path::new(&b).join("sweep.json");
    let honest = fs::read_to_string(&about).unwrap();
    let model = honest.lines().find(|line| line.contains("\"model\"")).unwrap();
    fs::write(&about, honest.replace(model, "  \"model\": \"0.0.9-0123456789abcdef\",")).unwrap();
    let said = text(&sweep(&["merge", &a, &b, "--output", &all]).code(1).get_output().stderr);
    assert!(said.contains("differ in models"), "{said}");
    fs::write(&about, &honest).unwrap();
    // Damage anywhere but at the end.
    let journal = fs::read_dir(&b)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .unwrap();
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, whole.replacen("host_written", "host_wrltten", 1)).unwrap();
    let said = text(&sweep(&["merge", &a, &b, "--output", &all]).code(1).get_output().stderr);
    assert!(said.contains("line 1: it is damaged"), "{said}");
    assert!(!Path::new(&all).exists());
    fs::write(&journal, whole).unwrap();
    sweep(&["merge", &a, &b, "--output", &all]).success();
    let said = text(&sweep(&["status", &at(&scratch, "")]).code(1).get_output().stderr);
    assert!(said.contains("is not the directory of a sweep"), "{said}");
}

#[test]
fn sweep_run_on_full_disk_keeps_finished_cells() {
    let Some(full) = LoopMount::tmpfs(1) else { return skip("no tmpfs can be mounted") };
    let (scratch, plan) = place(&format!("{BASE}{AXES}"));
    let plan = plan.to_str().unwrap();
    let out = full.path().join("out");
    fs::write(full.path().join("ballast"), vec![0; (1 << 20) - (40 << 10)]).unwrap();
    let said =
        text(&sweep(&["run", plan, "--output", out.to_str().unwrap()]).code(1).get_output().stderr);
    assert!(said.contains("No space left on device"), "{said}");
    let before = finished(out.to_str().unwrap());
    fs::remove_file(full.path().join("ballast")).unwrap();
    let said = text(
        &sweep(&["run", plan, "--output", out.to_str().unwrap()]).success().get_output().stderr,
    );
    assert!(
        before > 0 && said.contains(&format!("{before} of 12 cells were already finished")),
        "{before}: {said}"
    );
    let whole = at(&scratch, "whole");
    sweep(&["run", plan, "--output", &whole]).success();
    assert!(results(out.to_str().unwrap()) == results(&whole));
}

#[test]
fn sweep_json_that_does_not_fit_its_plan_is_refused() {
    let (scratch, plan) = place(&format!("{BASE}{AXES}"));
    let out = at(&scratch, "out");
    sweep(&["run", plan.to_str().unwrap(), "--output", &out, "--shard", "1/12"]).success();
    let about: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(Path::new(&out).join("sweep.json")).unwrap())
            .unwrap();
    let other = "0".repeat(32);
    for (field, value, expected) in [
        ("plan", serde_json::json!("x"), "'plan' is not a hash"),
        ("plan", serde_json::json!("ééééééé"), "'plan' is not a hash"),
        ("plan", serde_json::json!(other), "belong to different sweeps"),
        ("cells", serde_json::json!(u64::MAX), "belong to different sweeps"),
    ] {
        let mut changed = about.clone();
        changed[field] = value;
        fs::write(Path::new(&out).join("sweep.json"), changed.to_string()).unwrap();
        let merged = at(&scratch, "merged");
        for args in
            [&["status", &out][..], &["export", &out], &["merge", &out, "--output", &merged]]
        {
            let assert = sweep(args).code(1);
            let said = text(&assert.get_output().stderr);
            assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
        }
    }
    sweep(&["run", plan.to_str().unwrap(), "--output", &out, "--shard", "1/12"]).success();
    sweep(&["status", &out]).success();
}
