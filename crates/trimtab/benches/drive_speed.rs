//! Speed and memory of the SSD model, its timing on, collection in steady state, one
//! thread.
//!
//! `cargo bench --bench drive_speed`. Rates are per second of processor time, so that
//! other work on the machine counts less; the median of `TRIMTAB_BENCH_ROUNDS` (default
//! 5). Claims are multiples of the rate at which this machine copies pages in the same run.
#![allow(clippy::unwrap_used, missing_docs)]

mod figures;

use figures::keep;
use std::process::{Command, ExitCode};
// For its allocator.
use trimtab as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::{DriveSpec, Flash, Geometry, Interface};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{self as drive, Device, Extent};

const PAGE: u64 = 4096;
/// Writes in flight: a completion lets the next one go.
const QUEUE_DEPTH: usize = 32;

struct Claim {
    name: &'static str,
    raw_bytes: u64,
    superblock_dies: u32,
    /// Claimed rate of random writes, as a multiple of copied pages.
    random_min: f64,
    /// Claimed rate of sequential pages, as a multiple of copied pages.
    sequential_min: f64,
}

fn main() -> ExitCode {
    if let Some(which) = std::env::var(WHICH).ok().and_then(|which| which.parse::<usize>().ok()) {
        println!("{}", remember(REMEMBERED[which]));
        return ExitCode::SUCCESS;
    }
    let about = "The SSD model: greedy, 4 KiB mapping, 256 pages a block, 8 channels, OP (T-U)/U \
        = 10 %, timing on; per second of processor time.";
    let _figures = figures::begin("drive_speed", about, &[]);
    let claims = [
        Claim {
            name: "8 GiB",
            raw_bytes: 8 << 30,
            superblock_dies: 1,
            random_min: 2.0,
            sequential_min: 8.0,
        },
        Claim {
            name: "128 GiB",
            raw_bytes: 128 << 30,
            superblock_dies: 1,
            random_min: 0.7,
            sequential_min: 8.0,
        },
    ];
    println!(
        "greedy, 4 KiB mapping, 256 pages a block, 8 channels, OP (T-U)/U = 10 %, \
            timing on; per second of processor time\n"
    );
    println!(
        "{:10} {:>26} {:>10} {:>14} {:>8} {:>10}",
        "raw", "what", "M pages/s", "pages copied", "claim", "holds"
    );
    let mut held = true;
    for claim in claims {
        held &= measure(&claim);
    }
    held &= memory();
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn spec(raw_bytes: u64, unit: u64, superblock_dies: u32) -> DriveSpec {
    let geometry = Geometry {
        channels: 8,
        dies_per_channel: 1,
        planes: 1,
        page_bytes: unit,
        pages_per_block: 256,
        blocks_per_plane: (raw_bytes / 8 / 256 / unit) as u32,
        superblock_dies,
        bits_per_cell: 3,
    };
    DriveSpec {
        name: "bench".into(),
        description: String::new(),
        capacity_bytes: (raw_bytes as f64 / 1.1) as u64 / unit * unit,
        logical_block_bytes: 4096,
        interface: Interface::default(),
        flash: Flash {
            geometry,
            ftl: trimtab_drive::spec::Ftl { mapping_unit_bytes: unit, ..Default::default() },
            ..Flash::default()
        },
    }
}

fn made(spec: &DriveSpec) -> Ssd {
    Ssd::new(spec, 1).unwrap()
}

fn measure(claim: &Claim) -> bool {
    let rounds =
        std::env::var("TRIMTAB_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let mut bench = Bench {
        ssd: made(&spec(claim.raw_bytes, PAGE, claim.superblock_dies)),
        now: Nanos::ZERO,
        rng: Stream::new(3, "bench"),
    };
    let units = bench.ssd.size().0 / PAGE;
    let mut held = true;
    let copied = bench.copied(rounds);
    let mut report = |what: &str, pages: u64, claimed: Option<f64>, seconds: &mut [f64]| {
        keep(
            claim.name,
            what,
            "pages/s",
            &seconds.iter().map(|seconds| pages as f64 / seconds).collect::<Vec<_>>(),
        );
        seconds.sort_by(f64::total_cmp);
        let rate = pages as f64 / seconds[seconds.len() / 2];
        let ratio = rate / copied;
        let holds = claimed.is_none_or(|claimed| ratio >= claimed);
        held &= holds;
        let claimed = claimed.map_or(String::new(), |claimed| format!("{claimed}"));
        println!(
            "{:10} {what:>26} {:>10.1} {:>14} {claimed:>8} {:>10}",
            claim.name,
            rate / 1e6,
            format!("{ratio:.2} times"),
            if claimed.is_empty() {
                ""
            } else if holds {
                "yes"
            } else {
                "NO"
            }
        );
    };
    report("first sequential fill", units, None, &mut [bench.timed(|bench| bench.sequential())]);
    // Steady state: at 10 % over-provisioning two drive writes come within a per cent of
    // it, three within noise.
    bench.random(3 * units);
    let count = units.min(8 << 20);
    let before = bench.ssd.counters().clone();
    let mut seconds: Vec<f64> =
        (0..rounds).map(|_| bench.timed(|bench| bench.random(count))).collect();
    let waf = bench.ssd.waf_since(&before).unwrap();
    report("random writes", count, Some(claim.random_min), &mut seconds);
    report("sequential after random", units, None, &mut [bench.timed(|bench| bench.sequential())]);
    let mut seconds: Vec<f64> =
        (0..rounds).map(|_| bench.timed(|bench| bench.sequential())).collect();
    report("sequential", units, Some(claim.sequential_min), &mut seconds);
    let mut trims: Vec<f64> = Vec::new();
    for _ in 0..rounds {
        trims.push(bench.timed(|bench| bench.trim()));
        bench.sequential();
    }
    report("trims of 1 GiB", units, Some(claim.sequential_min), &mut trims);
    println!("{:10} {:>26} {waf:>10.2}", claim.name, "WAF of the random writes");
    keep(claim.name, "WAF of the random writes", "ratio", &[waf]);
    bench.ssd.check_invariants().unwrap();
    held
}

struct Bench {
    ssd: Ssd,
    now: Nanos,
    rng: Stream,
}

impl Bench {
    /// Processor time of this thread that `work` takes, in seconds.
    fn timed(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let clock = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        let start = clock();
        work(self);
        clock() - start
    }

    /// Pages of 4 KiB that this machine copies in a second of processor time, from random
    /// places of 256 MiB: the median of `rounds`.
    fn copied(&mut self, rounds: usize) -> f64 {
        const COPIES: u64 = 1 << 20;
        let from = vec![1_u8; 256 << 20];
        let mut page = vec![0; PAGE as usize];
        let pages = from.len() as u64 / PAGE;
        let mut seconds: Vec<f64> = (0..rounds)
            .map(|_| {
                self.timed(|bench| {
                    for _ in 0..COPIES {
                        let at = (bench.rng.below(pages) * PAGE) as usize;
                        page.copy_from_slice(std::hint::black_box(&from[at..at + PAGE as usize]));
                        std::hint::black_box(&mut page);
                    }
                })
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        COPIES as f64 / seconds[rounds / 2]
    }

    fn write(&mut self, offset: u64, len: u64) -> Nanos {
        self.ssd
            .submit(self.now, &drive::Command::Write(Extent { offset, len }, DataClass::Random))
            .done
    }

    /// Writes `count` random pages with a sliding window of [`QUEUE_DEPTH`]; offsets are
    /// drawn a window ahead, as a queue would hold them.
    fn random(&mut self, count: u64) {
        let units = self.ssd.size().0 / PAGE;
        let mut done = [self.now; QUEUE_DEPTH];
        let mut offsets = [0; QUEUE_DEPTH].map(|_: u64| self.rng.below(units) * PAGE);
        for nth in 0..count {
            let at = nth as usize % QUEUE_DEPTH;
            self.now = self.now.max(done[at]);
            let offset = core::mem::replace(&mut offsets[at], self.rng.below(units) * PAGE);
            self.ssd.prefetch(offsets[at]);
            done[at] = self.write(offset, PAGE);
        }
    }

    /// Writes the whole drive in commands of 1 MiB.
    fn sequential(&mut self) {
        let size = self.ssd.size().0;
        for offset in (0..size).step_by(1 << 20) {
            self.now = self.write(offset, (1 << 20).min(size - offset));
        }
    }

    /// Trims the whole drive in commands of 1 GiB.
    fn trim(&mut self) {
        let size = self.ssd.size().0;
        for offset in (0..size).step_by(1 << 30) {
            let range = Extent { offset, len: (1 << 30).min(size - offset) };
            self.now = self.ssd.submit(self.now, &drive::Command::trim(&[range])).done;
        }
    }
}

/// Drives whose memory is measured: what they are called, raw bytes, bytes of a mapping
/// unit.
const REMEMBERED: [(&str, u64, u64); 2] = [
    ("128 GiB raw, 4 KiB units", 128 << 30, PAGE),
    ("4.4 TB raw, 16 KiB units", 4_400_000_000_000, 16384),
];
/// Set for a process that measures one of them: a process keeps what a drive before took.
const WHICH: &str = "TRIMTAB_BENCH_MEMORY_OF";

/// Resident memory of a drive of which every unit was written twice.
fn memory() -> bool {
    let mut held = true;
    println!("\n{:34} {:>12} {:>16} {:>8}", "memory", "MiB", "bytes per unit", "claim");
    for (which, (name, _, unit)) in REMEMBERED.into_iter().enumerate() {
        let measured = Command::new(std::env::current_exe().unwrap())
            .env(WHICH, which.to_string())
            .output()
            .unwrap();
        let measured = String::from_utf8(measured.stdout).unwrap();
        let (bytes, units) = measured.trim().split_once(' ').unwrap();
        let (bytes, units): (u64, u32) = (bytes.parse().unwrap(), units.parse().unwrap());
        // At most 10 bytes a mapped unit and 64 MiB besides; less than the map alone was
        // not measured.
        let limit = 10 * u64::from(units) + (64 << 20);
        let holds =
            bytes >= 4 * u64::from(units) && bytes <= limit && (unit == PAGE || bytes <= 3 << 30);
        held &= holds;
        keep(name, "resident memory", "B", &[bytes as f64]);
        let per_unit = bytes as f64 / f64::from(units);
        println!(
            "{name:34} {:>12.0} {per_unit:>16.2} {:>8}",
            bytes as f64 / f64::from(1 << 20),
            if holds { "yes" } else { "NO" }
        );
    }
    held
}

/// Bytes that such a drive takes, and its units.
fn remember((_, raw_bytes, unit): (&str, u64, u64)) -> String {
    let before = resident();
    let mut bench = Bench {
        ssd: made(&spec(raw_bytes, unit, 8)),
        now: Nanos::ZERO,
        rng: Stream::new(1, "memory"),
    };
    bench.sequential();
    bench.sequential();
    format!("{} {}", resident().saturating_sub(before), bench.ssd.layout().units)
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}
