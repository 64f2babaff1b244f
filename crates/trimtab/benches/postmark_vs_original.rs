//! `trimtab postmark` against Debian's `postmark`: the published configuration,
//! unbuffered, on tmpfs, in turns.
//!
//! `cargo bench --bench postmark_vs_original`; `TRIMTAB_BENCH_ROUNDS` is how many pairs
//! are run (default 31), `TRIMTAB_BENCH_POSTMARK` the original.
#![allow(clippy::unwrap_used, missing_docs)]

mod figures;

use figures::keep;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Wall clock and CPU time of one process, in seconds.
#[derive(Clone, Copy)]
struct Sample {
    wall: f64,
    cpu: f64,
}

fn main() -> ExitCode {
    let rounds =
        std::env::var("TRIMTAB_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(31);
    let original = std::env::var_os("TRIMTAB_BENCH_POSTMARK").unwrap_or_else(|| "postmark".into());
    let about = "PostMark, size 500 100000, number 10000, transactions 20000, read and write \
        4096, unbuffered, tmpfs; pairs in turns.";
    let _figures = figures::begin(
        "postmark_vs_original",
        about,
        &[[&original.to_string_lossy(), "--version"]],
    );
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    // The first pair warms up; who begins changes from pair to pair.
    for round in 0..=rounds {
        let a = || run(scratch.path(), &original, &[]);
        let b = || run(scratch.path(), &env!("CARGO_BIN_EXE_trimtab").into(), &["postmark"]);
        let (their, our) = if round % 2 == 0 {
            (a(), b())
        } else {
            let our = b();
            (a(), our)
        };
        if round > 0 {
            theirs.push(their);
            ours.push(our);
        }
    }
    println!(
        "PostMark, size 500 100000, number 10000, transactions 20000, read and write \
            4096, unbuffered, tmpfs; {rounds} pairs in turns"
    );
    println!(
        "{:<22} {:>34} {:>34}",
        "", "wall, s: median (quartiles)", "CPU, s: median (quartiles)"
    );
    for (name, samples) in [("postmark (Debian)", &theirs), ("trimtab postmark", &ours)] {
        println!(
            "{name:<22} {:>34} {:>34}",
            spread(samples, |s| s.wall),
            spread(samples, |s| s.cpu)
        );
        keep(name, "wall clock", "s", &samples.iter().map(|s| s.wall).collect::<Vec<_>>());
        keep(name, "processor time", "s", &samples.iter().map(|s| s.cpu).collect::<Vec<_>>());
    }
    let ratio = |of: fn(&Sample) -> f64| {
        quartiles(theirs.iter().zip(&ours).map(|(their, our)| of(our) / of(their)))
    };
    let (wall, cpu) = (ratio(|s| s.wall), ratio(|s| s.cpu));
    println!("{:<22} {:>34} {:>34}", "ratio in pairs", text(wall), text(cpu));
    let held = wall[1] <= 1.0 && cpu[1] <= 1.0;
    println!(
        "{}: neither wall nor CPU time above the original's, in the median of pairs",
        if held { "holds" } else { "DOES NOT HOLD" }
    );
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One run of `program` in a fresh directory.
fn run(scratch: &Path, program: &OsString, args: &[&str]) -> Sample {
    let location = scratch.join("location");
    fs::create_dir(&location).unwrap();
    let config = scratch.join("config");
    let lines = "set buffering false\nset size 500 100000\nset read 4096\nset write 4096\n\
        set number 10000\nset transactions 20000\nrun\nquit\n";
    fs::write(&config, format!("set location {}\n{lines}", location.display())).unwrap();
    let before = figures::children_cpu_s();
    let started = Instant::now();
    let output = Command::new(program)
        .args(args)
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let sample =
        Sample { wall: started.elapsed().as_secs_f64(), cpu: figures::children_cpu_s() - before };
    // A run that did something else is no comparison.
    assert!(
        String::from_utf8(output.stdout).unwrap().contains("\t20163 created ("),
        "{program:?} did not do the published run"
    );
    fs::remove_dir(&location).unwrap();
    sample
}

/// First quartile, median, third quartile.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn spread(samples: &[Sample], of: fn(&Sample) -> f64) -> String {
    text(quartiles(samples.iter().map(of)))
}

fn text([low, median, high]: [f64; 3]) -> String {
    format!("{median:.3} ({low:.3} to {high:.3})")
}
