//! With pacing, completion times as fio sees them against those of the model.

use crate::attached::{Attached, fio};
use crate::figures::keep;
use crate::{claim, median, rounds};

/// Percentiles are to be this near, relatively or absolutely.
const RELATIVE: f64 = 0.05;
const ABSOLUTE_US: f64 = 100.0;

pub fn run() -> bool {
    let mut held = true;
    println!("  {:<20} {:>4} {:>12} {:>12} {:>12}", "", "", "model", "seen by fio", "error");
    for (rw, side) in [("--rw=randread", "read"), ("--rw=randwrite", "write")] {
        for depth in ["1", "32"] {
            let all: Vec<[(f64, f64); 2]> =
                (0..rounds(5)).map(|_| measured(rw, side, depth)).collect();
            for (n, name) in ["p50", "p99"].into_iter().enumerate() {
                let each = |pick: fn(&(f64, f64)) -> f64| {
                    all.iter().map(|both| pick(&both[n])).collect::<Vec<_>>()
                };
                keep(
                    &format!("{side} QD{depth}"),
                    &format!("{name} of the model"),
                    "µs",
                    &each(|b| b.0),
                );
                keep(
                    &format!("{side} QD{depth}"),
                    &format!("{name} as fio saw it"),
                    "µs",
                    &each(|b| b.1),
                );
                let of = |pick| median(each(pick));
                let (model, seen, error) = (of(|b| b.0), of(|b| b.1), of(|b| b.1 - b.0));
                println!(
                    "  4 KiB {side:<6} QD{depth:<4} {name:>6} {model:>9.1} µs \
                        {seen:>9.1} µs {error:>9.1} µs"
                );
                let holds = error.abs() <= ABSOLUTE_US.max(RELATIVE * model);
                held &= claim(holds, "within 5 % or 100 µs of the model's");
            }
        }
    }
    held
}

/// p50 and p99 in microseconds: the model's, and what fio saw.
fn measured(rw: &str, side: &str, depth: &str) -> [(f64, f64); 2] {
    let drive = Attached::new("1GiB", &[]);
    if side == "read" {
        // Reads find data; what is written for that is not looked at.
        fio(&drive.device, &["--rw=write", "--bs=1m", "--iodepth=4", "--size=256m"]);
    }
    let depth = format!("--iodepth={depth}");
    let job =
        fio(&drive.device, &[rw, "--bs=4k", &depth, "--size=256m", "--runtime=3", "--time_based"]);
    let model = &drive.status()["requests"][side]["latency"];
    let seen = &job[side]["clat_ns"]["percentile"];
    let both = |model_name: &str, fio_name: &str| {
        (model[model_name].as_f64().unwrap() / 1e3, seen[fio_name].as_f64().unwrap() / 1e3)
    };
    [both("p50_ns", "50.000000"), both("p99_ns", "99.000000")]
}
