//! Without pacing, against a loop device over a plain file in memory, in turns.

use crate::attached::{Attached, Plain, cpu_seconds, fio, memory};
use crate::figures::keep;
use crate::{claim, median, rounds};

const SIZE: u64 = 1 << 30;
/// What the server may need besides the data and the model.
const MEMORY_MAX: u64 = 64 << 20;

struct Job {
    name: &'static str,
    args: [&'static str; 3],
    side: &'static str,
    /// At least this part of the plain device's rate; or, at depth 1, at most that
    /// multiple of its latency.
    share: f64,
    latency: bool,
}

const fn job(
    name: &'static str,
    args: [&'static str; 3],
    side: &'static str,
    share: f64,
    latency: bool,
) -> Job {
    Job { name, args, side, share, latency }
}

const JOBS: [Job; 6] = [
    job(
        "4 KiB random read, QD32",
        ["--rw=randread", "--bs=4k", "--iodepth=32"],
        "read",
        0.4,
        false,
    ),
    job(
        "4 KiB random write, QD32",
        ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
        "write",
        0.4,
        false,
    ),
    job(
        "128 KiB sequential read, QD8",
        ["--rw=read", "--bs=128k", "--iodepth=8"],
        "read",
        0.4,
        false,
    ),
    job(
        "128 KiB sequential write, QD8",
        ["--rw=write", "--bs=128k", "--iodepth=8"],
        "write",
        0.4,
        false,
    ),
    job("4 KiB random read, QD1", ["--rw=randread", "--bs=4k", "--iodepth=1"], "read", 10.0, true),
    job(
        "4 KiB random write, QD1",
        ["--rw=randwrite", "--bs=4k", "--iodepth=1"],
        "write",
        10.0,
        true,
    ),
];

pub fn run() -> bool {
    let (plain, ours) = (Plain::new(SIZE), Attached::new("1GiB", &["--speed", "off"]));
    for device in [&plain.device, &ours.device] {
        fio(device, &["--rw=write", "--bs=1m", "--iodepth=4", "--size=1g"]);
    }
    let pid = ours.pid();
    let mut held = true;
    println!(
        "  {:<30} {:>14} {:>14} {:>8}   server's CPU",
        "", "plain loop", "virtual SSD", "ratio"
    );
    for job in &JOBS {
        let (mut theirs, mut mine, mut ratios, mut cpu) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds(7) {
            let (a, _) = measured(&plain.device, job);
            let before = cpu_seconds(pid);
            let (b, operations) = measured(&ours.device, job);
            cpu.push((cpu_seconds(pid) - before) * 1e6 / operations);
            ratios.push(b / a);
            theirs.push(a);
            mine.push(b);
        }
        let unit = if job.latency { "µs" } else { "MB/s" };
        keep(job.name, "plain loop device", unit, &theirs);
        keep(job.name, "virtual SSD", unit, &mine);
        keep(job.name, "server's processor time an operation", "µs", &cpu);
        let ratio = median(ratios);
        println!(
            "  {:<30} {:>9.1} {unit:<4} {:>9.1} {unit:<4} {ratio:>8.2}   {:.1} µs an operation",
            job.name,
            median(theirs),
            median(mine),
            median(cpu)
        );
        let holds = if job.latency { ratio <= job.share } else { ratio >= job.share };
        let words = if job.latency { "at most" } else { "at least" };
        held &=
            claim(holds, &format!("{words} {} of a loop device over a file in memory", job.share));
    }
    let (resident, shared) = (memory(pid, "VmRSS:"), memory(pid, "RssShmem:"));
    let needed = resident - shared;
    keep("memory", "resident", "B", &[resident as f64]);
    keep("memory", "of it data", "B", &[shared as f64]);
    println!("  resident {resident} bytes, of which data {shared}");
    held & claim(
        needed <= MEMORY_MAX,
        &format!(
            "memory beyond the data, the model's own included, is {:.1} MiB: at most 64 MiB",
            needed as f64 / 1048576.0
        ),
    )
}

/// MB/s, or the median latency in microseconds; and the operations done.
fn measured(device: &str, job: &Job) -> (f64, f64) {
    let mut args = job.args.to_vec();
    args.extend(["--size=1g", "--runtime=1", "--time_based"]);
    let side = &fio(device, &args)[job.side];
    let figure = if job.latency {
        side["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap() / 1e3
    } else {
        side["bw_bytes"].as_f64().unwrap() / 1e6
    };
    (figure, side["total_ios"].as_f64().unwrap())
}
