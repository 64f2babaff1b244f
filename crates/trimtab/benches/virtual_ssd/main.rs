//! The virtual SSD: how fast it is without pacing, how exact with it, and what
//! filesystems of the running kernel discard on it.
//!
//! `cargo bench --bench virtual_ssd -- [speed] [pacing] [discards] [xfs]`; all four by
//! default. Needs root, fio and the filesystems' tools. `TRIMTAB_BENCH_ROUNDS` is how
//! often each measurement is repeated, `TRIMTAB_BENCH_PROGRAM` another build of the
//! program. Every claim is checked; the exit status says whether all hold.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod attached;
mod discards;
#[path = "../figures/mod.rs"]
mod figures;
mod pacing;
mod speed;
mod xfs;

use std::process::ExitCode;

/// Measures, prints, and says whether its claims hold.
type Part = fn() -> bool;

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let parts: [(&str, Part); 4] = [
        ("speed", speed::run),
        ("pacing", pacing::run),
        ("discards", discards::run),
        ("xfs", xfs::run),
    ];
    let programs = [
        ["fio", "--version"],
        ["mkfs.ext4", "-V"],
        ["mkfs.xfs", "-V"],
        ["mkfs.btrfs", "--version"],
    ];
    let _figures = figures::begin(
        "virtual_ssd",
        "The virtual SSD: speed, pacing, what filesystems discard on it.",
        &programs,
    );
    let mut held = true;
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|other| other == name) {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!(
                "\n{name} (load before: {})",
                load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
            );
            held &= part();
        }
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a claim and whether it holds.
fn claim(holds: bool, text: &str) -> bool {
    println!("  {} {text}", if holds { "holds:" } else { "DOES NOT HOLD:" });
    holds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

fn rounds(default: usize) -> usize {
    std::env::var("TRIMTAB_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
