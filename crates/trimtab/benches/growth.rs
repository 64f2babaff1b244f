//! Growth of the cost with the work: each row runs once as it is and once with ten times
//! the work. The exponent is the decimal logarithm of the ratio of both processor times.
//!
//! `cargo bench --bench growth`. Fails if an exponent exceeds 1.1.
#![allow(clippy::unwrap_used, missing_docs)]

mod figures;

use figures::keep;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Largest exponent that counts as linear.
const LINEAR_MAX: f64 = 1.1;

struct Row {
    name: &'static str,
    /// Arguments of the program for `work` units in a directory.
    arguments: fn(&Path, u64) -> Vec<String>,
    work: u64,
    unit: &'static str,
}

const ROWS: [Row; 4] = [
    Row {
        name: "study drive:sata-tlc-500gb --quick",
        arguments: |_, gb| {
            let size = format!("{gb}GB");
            words(&["study", "drive:sata-tlc-500gb", "--quick", "--aged-size", &size])
        },
        work: 2,
        unit: "GB modelled",
    },
    Row {
        name: "drive simulate crucial-m4-128gb",
        arguments: |_, writes| {
            let written = format!("{writes}x");
            let drive = ["drive", "simulate", "--drive", "crucial-m4-128gb", "--capacity", "8GiB"];
            [words(&drive), words(&["--until-written", &written])].concat()
        },
        work: 2,
        unit: "drive writes",
    },
    Row { name: "sweep run", arguments: sweep, work: 5, unit: "cells of 1 GiB" },
    Row { name: "postmark", arguments: postmark, work: 20_000, unit: "transactions" },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn sweep(directory: &Path, cells: u64) -> Vec<String> {
    let plan = directory.join("plan.toml");
    let text = format!(
        "name = \"growth\"\nrepeats = {}\n[base]\ndrive.name = \"crucial-m4-128gb\"\n\
            drive.capacity = \"1GiB\"\nworkload.drive_writes = 4\n[axes]\n\
            drive.over_provisioning_percent = {{ from = 8, to = 40, steps = 5 }}\n",
        cells / 5
    );
    fs::write(&plan, text).unwrap();
    let [plan, output] = [plan, directory.join("sweep")].map(|path| path.display().to_string());
    words(&["sweep", "run", &plan, "--output", &output])
}

fn postmark(directory: &Path, transactions: u64) -> Vec<String> {
    let (config, location) = (directory.join("config"), directory.join("location"));
    fs::create_dir(&location).unwrap();
    let text = format!(
        "set location {}\nset number 5000\nset transactions {transactions}\nrun\nquit\n",
        location.display()
    );
    fs::write(&config, text).unwrap();
    words(&["postmark", &config.display().to_string()])
}

fn main() -> ExitCode {
    let _figures = figures::begin("growth", "Processor time of one and ten times the work.", &[]);
    println!("{:<36} {:>22} {:>10} {:>10} {:>9}", "", "work", "once, s", "tenfold, s", "exponent");
    let mut linear = true;
    for row in &ROWS {
        let [once, tenfold] = [row.work, row.work * 10].map(|work| processor_s(row, work));
        let exponent = (tenfold / once).log10();
        keep(row.name, "processor time", "s", &[once, tenfold]);
        keep(row.name, "exponent", "ratio", &[exponent]);
        let work = format!("{} {}", row.work, row.unit);
        println!("{:<36} {work:>22} {once:>10.2} {tenfold:>10.2} {exponent:>9.2}", row.name);
        linear &= exponent <= LINEAR_MAX;
    }
    println!(
        "{}: no exponent exceeds {LINEAR_MAX}",
        if linear { "holds" } else { "DOES NOT HOLD" }
    );
    if linear { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Processor time of one run of the program.
fn processor_s(row: &Row, work: u64) -> f64 {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let before = figures::children_cpu_s();
    let status = Command::new(env!("CARGO_BIN_EXE_trimtab"))
        .arg("--quiet")
        .args((row.arguments)(directory.path(), work))
        .env("XDG_DATA_HOME", directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{}: {status}", row.name);
    figures::children_cpu_s() - before
}
