//! Sweeps: cells a second, two processes against one, and what 10,000 cells take.
//!
//! `cargo bench --bench sweeps`, on a quiet machine with two cores or more.
//! `TRIMTAB_BENCH_CELLS` (default 200, a multiple of 200) is how many cells are measured:
//! drives of 8 GiB, five policies and two workloads, each drive written over eight times.
#![allow(clippy::unwrap_used, missing_docs)]

mod figures;

use figures::keep;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::time::Instant;

/// What two processes do, against one.
const TWICE_MIN: f64 = 1.9;
const PROJECTED: f64 = 10_000.0;

/// 50 combinations, repeated with other seeds.
fn plan(cells: usize) -> String {
    format!(
        "name = \"bench\"\nrepeats = {}\n[base]\ndrive.name = \"crucial-m4-128gb\"\n\
            drive.capacity = \"8GiB\"\nworkload.drive_writes = 8\n\
            workload.trim_percent = 10\n[axes]\n\
            drive.over_provisioning_percent = {{ from = 8, to = 40, steps = 5 }}\n\
            policy = [\"none\", \"online\", \"batched:every=1h\", \"adaptive\", \"idle\"]\n\
            workload = [\"random\", \"hot-cold\"]\n",
        cells.div_ceil(50)
    )
}

fn start(plan: &Path, output: &Path, shard: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.args(["--quiet", "sweep", "run"]).arg(plan).arg("--output").arg(output).args([
        "--threads",
        "1",
        "--shard",
        shard,
    ]);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// Seconds until all shards are done, each in a process with one thread.
fn seconds(plan: &Path, output: &Path, shards: &[&str]) -> f64 {
    let began = Instant::now();
    let all: Vec<Child> = shards.iter().map(|shard| start(plan, output, shard)).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    began.elapsed().as_secs_f64()
}

fn main() -> ExitCode {
    let cells: usize =
        std::env::var("TRIMTAB_BENCH_CELLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let about = "Sweeps: drives of 8 GiB, five policies, two workloads, 8 drive \
        writes each; one thread a process.";
    let _figures = figures::begin("sweeps", about, &[]);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = scratch.path().join("plan.toml");
    // One process does a quarter of them: it is only there to be compared with.
    let few = cells / 4;
    std::fs::write(&path, plan(few)).unwrap();
    let one = seconds(&path, &scratch.path().join("one"), &["1/1"]);
    let two = seconds(&path, &scratch.path().join("two"), &["1/2", "2/2"]);
    let same = std::fs::read(scratch.path().join("one/results.parquet")).unwrap()
        == std::fs::read(scratch.path().join("two/results.parquet")).unwrap();
    let twice = one / two;
    keep(&format!("{few} cells"), "one process", "s", &[one]);
    keep(&format!("{few} cells"), "two processes", "s", &[two]);
    println!(
        "{few} cells: one process {one:.1} s, two {two:.1} s: {twice:.2} times \
            ({TWICE_MIN} claimed), the same bytes: {same}"
    );
    std::fs::write(&path, plan(cells)).unwrap();
    let all = seconds(&path, &scratch.path().join("all"), &["1/2", "2/2"]);
    keep(&format!("{cells} cells"), "two processes", "s", &[all]);
    let rate = cells as f64 / all;
    let hours = PROJECTED / rate / 3600.0;
    println!(
        "{cells} cells of 8 GiB, 8 drive-writes each, two processes: {all:.1} s, \
            {rate:.3} cells a second; 10,000 take {hours:.2} h"
    );
    if twice >= TWICE_MIN && same { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
