//! Block operations against fio, on the same file in the same run; and what the tool
//! itself costs.
//!
//! `cargo bench --bench blocks`; `TRIMTAB_BENCH_DIR` is where the file on a drive is made
//! (default: the current directory), `TRIMTAB_BENCH_SECONDS` how long each measurement
//! takes, `TRIMTAB_BENCH_ROUNDS` how often each is repeated.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod figures;

use figures::keep;
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::run::Phase;
use trimtab_sim::runner::blocks::{Recording, run, run_recording};
use trimtab_sim::runner::{RunEnd, RunOutcome};
use trimtab_sim::target::BlockTarget;
use trimtab_sim::workload::Limit;
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};

const BLOCK: u32 = 4096;
const DRIVE_FILE: Bytes = Bytes(1 << 30);
const MEMORY_FILE: Bytes = Bytes(256 << 20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--child") {
        child(&args[at + 1..]);
        return ExitCode::SUCCESS;
    }
    let _figures = figures::begin(
        "blocks",
        "Block operations of 4 KiB against fio, direct, on the same file, in turns.",
        &[["fio", "--version"]],
    );
    let plan = Plan {
        seconds: number("TRIMTAB_BENCH_SECONDS", 0.3),
        rounds: number("TRIMTAB_BENCH_ROUNDS", 31.0) as usize,
    };
    let mut held = true;
    held &= null_cost();
    let drive = std::env::var_os("TRIMTAB_BENCH_DIR")
        .map_or_else(|| std::env::current_dir().unwrap(), PathBuf::from);
    let places = [("drive", drive, DRIVE_FILE), ("tmpfs", PathBuf::from("/dev/shm"), MEMORY_FILE)];
    for (name, dir, size) in places {
        let dir = tempfile::tempdir_in(&dir).unwrap();
        let file = dir.path().join("data");
        prepare(&file, size);
        held &= recording_cost(name, &file, &plan);
        held &= against_fio(name, &file, size, &plan);
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Plan {
    seconds: f64,
    rounds: usize,
}

fn number(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Writes all of the file, so that reads find data and writes find blocks.
fn prepare(file: &Path, size: Bytes) {
    let dir = rustix::fs::open(file.parent().unwrap(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let options = BlockOptions {
        queue_depth_max: 8,
        bytes_in_flight_max: 8 << 20,
        ..BlockOptions::default()
    };
    let mut target =
        BlockFile::create(dir, file.parent().unwrap(), "data", size, &options).unwrap();
    let settings = SyntheticSettings {
        pattern: Pattern::Sequential,
        sizes: vec![(1 << 20, 1)],
        queue_depth: 8,
        limit: Limit::Bytes(size),
        ..settings(size, false, 1, Limit::Stream)
    };
    phase(run(&mut Synthetic::new(settings, 1).unwrap(), &mut target, &mut ()));
}

fn settings(span: Bytes, read: bool, queue_depth: u32, limit: Limit) -> SyntheticSettings {
    SyntheticSettings {
        pattern: Pattern::Uniform,
        mix: Mix { read_percent: if read { 100 } else { 0 }, trim_percent: 0 },
        sizes: vec![(BLOCK, 1)],
        data: DataClass::Random,
        offset: 0,
        span: span.0,
        queue_depth,
        limit,
    }
}

fn phase(outcome: RunOutcome) -> Phase {
    assert_eq!(outcome.end, RunEnd::Complete);
    outcome.recorded.phases.into_iter().next().unwrap()
}

fn iops(phase: &Phase) -> f64 {
    phase.ops_total() as f64 / phase.took.as_secs_f64()
}

/// One measurement of ours in a process of its own, so that its CPU time is the
/// process's: `FILE read|write DEPTH SECONDS`.
fn child(args: &[String]) {
    let [file, direction, depth, seconds] = args else { panic!("four arguments") };
    let depth = depth.parse().unwrap();
    let options = BlockOptions {
        queue_depth_max: depth,
        bytes_in_flight_max: u64::from(depth * BLOCK),
        ..BlockOptions::default()
    };
    let mut target = BlockFile::open_file(Path::new(file), true, &options).unwrap();
    assert_eq!(target.engine(), "io_uring");
    let size = target.info().size;
    let limit = match seconds.parse::<f64>().unwrap() {
        0.0 => Limit::Ops(1),
        seconds => Limit::Time(Nanos((seconds * 1e9) as u64)),
    };
    let mut workload =
        Synthetic::new(settings(size, direction == "read", depth, limit), 1).unwrap();
    println!("{}", iops(&phase(run(&mut workload, &mut target, &mut ()))));
}

/// Operations a second, and CPU seconds of the whole process.
#[derive(Clone, Copy)]
struct Sample {
    iops: f64,
    cpu: f64,
}

fn measure(mut command: Command, iops: impl Fn(&str) -> f64) -> Sample {
    let before = figures::children_cpu_s();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    Sample {
        iops: iops(&String::from_utf8(output.stdout).unwrap()),
        cpu: figures::children_cpu_s() - before,
    }
}

fn ours(file: &Path, read: bool, depth: u32, seconds: f64) -> Sample {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--child").arg(file).args([
        if read { "read" } else { "write" },
        &depth.to_string(),
        &seconds.to_string(),
    ]);
    measure(command, |out| out.trim().parse().unwrap())
}

/// The options under which fio does the same: direct, registered file and memory, no map
/// of places visited, new data for every write. `batch` lets it submit and take many at a
/// time, as ours does; its default is one at a time.
fn fio(file: &Path, size: Bytes, read: bool, depth: u32, seconds: f64, batch: bool) -> Sample {
    let mut command = Command::new("fio");
    command.args([
        "--name=x",
        "--ioengine=io_uring",
        "--direct=1",
        "--registerfiles=1",
        "--fixedbufs=1",
        "--nonvectored=1",
    ]);
    command.args([
        "--norandommap=1",
        "--randrepeat=0",
        "--refill_buffers=1",
        "--bs=4k",
        "--thread=1",
        "--output-format=json",
    ]);
    command
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--size={}", size.0))
        .arg(format!("--iodepth={depth}"));
    command.arg(if read { "--rw=randread" } else { "--rw=randwrite" });
    if seconds > 0.0 {
        command.args(["--time_based=1", &format!("--runtime={}ms", (seconds * 1e3) as u64)]);
    } else {
        command.arg("--number_ios=1");
    }
    if batch {
        command
            .args([&format!("--iodepth_batch_submit={depth}"), "--iodepth_batch_complete_min=1"]);
        command.arg(format!("--iodepth_batch_complete_max={depth}"));
    }
    measure(command, |out| {
        let json: serde_json::Value = serde_json::from_str(&out[out.find('{').unwrap()..]).unwrap();
        json["jobs"][0][if read { "read" } else { "write" }]["iops"].as_f64().unwrap()
    })
}

/// Both sides in turn, several times; medians of each and of the ratios.
fn against_fio(place: &str, file: &Path, size: Bytes, plan: &Plan) -> bool {
    let version = Command::new("fio")
        .arg("--version")
        .output()
        .expect("fio is installed (see .ci/packages.txt)");
    println!(
        "\n4 KiB on {place}, {} rounds of {} s, {}",
        plan.rounds,
        plan.seconds,
        String::from_utf8_lossy(&version.stdout).trim()
    );
    println!(
        "{:24} {:>12} {:>12} {:>22} {:>9} {:>9} {:>22}",
        "", "IOPS", "fio", "ratio", "CPU us", "fio", "ratio"
    );
    let mut held = true;
    for (read, depth) in [(true, 1), (false, 1), (true, 32), (false, 32)] {
        // What starting up costs is no part of an operation, on either side.
        let idle = Spread::of((0..3).map(|_| ours(file, read, depth, 0.0).cpu).collect()).median;
        for batch in if depth == 1 { &[false][..] } else { &[false, true] } {
            let fio_idle =
                Spread::of((0..3).map(|_| fio(file, size, read, depth, 0.0, *batch).cpu).collect())
                    .median;
            let mut rows = Vec::new();
            for _ in 0..plan.rounds {
                let mine = ours(file, read, depth, plan.seconds);
                let theirs = fio(file, size, read, depth, plan.seconds, *batch);
                let cost = |sample: Sample, idle: f64| {
                    (sample.cpu - idle) / (sample.iops * plan.seconds) * 1e6
                };
                rows.push([mine.iops, theirs.iops, cost(mine, idle), cost(theirs, fio_idle)]);
            }
            let column = |f: &dyn Fn(&[f64; 4]) -> f64| Spread::of(rows.iter().map(f).collect());
            let (iops_ratio, cpu_ratio) = (column(&|r| r[0] / r[1]), column(&|r| r[2] / r[3]));
            let [mine, theirs, cpu, fio_cpu] = std::array::from_fn(|i| column(&|r| r[i]).median);
            let name = format!(
                "{} QD{depth}{}",
                if read { "read" } else { "write" },
                if *batch { ", fio in batches" } else { "" }
            );
            let figures = [
                ("rate", "ops/s"),
                ("rate of fio", "ops/s"),
                ("processor time an operation", "us"),
                ("the same of fio", "us"),
            ];
            for (i, (figure, unit)) in figures.into_iter().enumerate() {
                keep(
                    &format!("{name} on {place}"),
                    figure,
                    unit,
                    &rows.iter().map(|row| row[i]).collect::<Vec<_>>(),
                );
            }
            let verdict = iops_ratio.at_least(0.98).max(cpu_ratio.at_most(1.0));
            held &= verdict != Verdict::Fails;
            println!(
                "{name:24} {mine:12.0} {theirs:12.0} {iops_ratio:>22} {cpu:9.2} \
                    {fio_cpu:9.2} {cpu_ratio:>22} {verdict}"
            );
        }
    }
    held
}

/// The null target: what an operation costs in the tool itself.
fn null_cost() -> bool {
    let mut held = true;
    println!("null target, with all recording");
    for depth in [1, 32] {
        let once = |_| {
            let mut target = NullBlocks::new(Bytes(1 << 40));
            let mut workload =
                Synthetic::new(settings(Bytes(1 << 40), false, depth, Limit::Ops(5_000_000)), 1)
                    .unwrap();
            1e9 / iops(&phase(run(&mut workload, &mut target, &mut ())))
        };
        let costs: Vec<f64> = (0..7).map(once).collect();
        keep(&format!("null target, QD{depth}"), "an operation", "ns", &costs);
        let cost = Spread::of(costs);
        let verdict = cost.at_most(300.0);
        held &= verdict != Verdict::Fails;
        println!("QD{depth:<3} {cost} ns an operation {verdict}");
    }
    held
}

/// The same operations with and without recording, in many short turns, since a drive is
/// not as steady as the difference is small.
fn recording_cost(place: &str, file: &Path, plan: &Plan) -> bool {
    let mut held = true;
    println!("\nrecording at QD32 on {place}");
    for read in [true, false] {
        let options = BlockOptions {
            queue_depth_max: 32,
            bytes_in_flight_max: u64::from(32 * BLOCK),
            ..BlockOptions::default()
        };
        let mut target = BlockFile::open_file(file, true, &options).unwrap();
        let size = target.info().size;
        let turn = Limit::Time(Nanos((plan.seconds * 2e8) as u64));
        let mut once = |recording| {
            let mut workload = Synthetic::new(settings(size, read, 32, turn), 1).unwrap();
            iops(&phase(run_recording(&mut workload, &mut target, recording, &mut ())))
        };
        let mut ratios = Vec::new();
        for pair in 0..plan.rounds * 8 {
            // Each goes first as often as the other.
            let (first, second) = if pair % 2 == 0 {
                (Recording::Full, Recording::CountsOnly)
            } else {
                (Recording::CountsOnly, Recording::Full)
            };
            let (a, b) = (once(first), once(second));
            ratios.push(if pair % 2 == 0 { a / b } else { b / a });
        }
        let name = if read { "read" } else { "write" };
        keep(
            &format!("recording, {name} QD32 on {place}"),
            "IOPS with over IOPS without",
            "ratio",
            &ratios,
        );
        let ratio = Spread::of(ratios);
        let verdict = ratio.at_least(0.98);
        held &= verdict != Verdict::Fails;
        println!("{name:6} {ratio} of the IOPS without recording {verdict}");
    }
    held
}

/// What a run says about a claim, from good to bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Holds,
    /// The median misses it, by less than the run can tell.
    Undecided,
    Fails,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Undecided => "not decided by this run",
            Self::Fails => "FAILS",
        })
    }
}

/// A median with its 95 % confidence interval, which order statistics give whatever the
/// distribution (the sign test's interval: ranks `n / 2 -+ 0.98 sqrt(n)`).
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = (values.len() - 1) as f64;
        let reach = 0.98 * (values.len() as f64).sqrt();
        let at = |rank: f64| values[rank.clamp(0.0, last) as usize];
        Self {
            low: at((last / 2.0 - reach).floor()),
            median: at((last / 2.0).round()),
            high: at((last / 2.0 + reach).ceil()),
        }
    }

    fn at_least(&self, limit: f64) -> Verdict {
        if self.median >= limit {
            Verdict::Holds
        } else if self.high >= limit {
            Verdict::Undecided
        } else {
            Verdict::Fails
        }
    }

    fn at_most(&self, limit: f64) -> Verdict {
        if self.median <= limit {
            Verdict::Holds
        } else if self.low <= limit {
            Verdict::Undecided
        } else {
            Verdict::Fails
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.median >= 10.0 { 0 } else { 3 };
        f.pad(&format!("{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.low, self.high))
    }
}
