//! Trimming against `fstrim`, in the same run: what is sent, what others have of it, and
//! what the daemon costs. As root.
//!
//! `cargo bench --bench trimming [-- holes|foreground|daemon|DRIVE]`, where DRIVE is one
//! of those that others write to in the foreground; fails if a claim does not hold.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, dead_code, unused_imports)]

#[path = "../tests/it/attached_drive.rs"]
mod attached_drive;
mod block_trace;
mod figures;
#[path = "../tests/it/support.rs"]
mod support;

use attached_drive::{Attached, Mounted, ok};
use block_trace::{BlockTrace, Request};
use figures::keep;
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{LoopMount, have_root, process};
use trimtab_drive::units::Bytes;
use trimtab_linux::host::discards::Meter;
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::fitrim;

fn main() -> ExitCode {
    if !have_root() {
        eprintln!("trimming: not measured, this needs root");
        return ExitCode::SUCCESS;
    }
    let programs = [
        ["fstrim", "--version"],
        ["mkfs.ext4", "-V"],
        ["mkfs.xfs", "-V"],
        ["mkfs.btrfs", "--version"],
    ];
    let _figures = figures::begin(
        "trimming",
        "Trimming against fstrim, what others have of it, and what the daemon costs.",
        &programs,
    );
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| args.is_empty() || args.iter().any(|a| a == name);
    let mut held = true;
    if wanted("holes") {
        held &= holes();
    }
    let drives: Vec<&Beside> = BESIDE
        .iter()
        .filter(|b| wanted("foreground") || args.iter().any(|a| a == b.drive))
        .collect();
    held &= foreground(&drives);
    if wanted("daemon") {
        held &= daemon();
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn claim(holds: bool, what: &str) -> bool {
    println!("{}: {what}", if holds { "holds" } else { "DOES NOT HOLD" });
    holds
}

fn sync(path: &Path) {
    rustix::fs::syncfs(File::open(path).unwrap().as_fd()).unwrap();
}

/// `count` free extents of `len` bytes between files of the same size.
fn punch(path: &Path, count: usize, len: usize, delete: bool) {
    let content = vec![0x5a; len];
    let name = |i: usize| path.join(format!("{}/{i}", i / 1000));
    for i in 0..2 * count {
        if i % 1000 == 0 {
            fs::create_dir_all(path.join((i / 1000).to_string())).unwrap();
        }
        fs::write(name(i), &content).unwrap();
    }
    sync(path);
    if delete {
        drop_every_second(path, count);
        sync(path);
    }
}

fn drop_every_second(path: &Path, count: usize) {
    (0..count)
        .for_each(|i| fs::remove_file(path.join(format!("{}/{}", 2 * i / 1000, 2 * i))).unwrap());
}

/// Commands and bytes that the device counts for `action`, and how long it took.
fn counted(path: &Path, action: impl FnOnce()) -> (u64, u64, f64) {
    let meter = Meter::start(path).unwrap();
    let started = Instant::now();
    action();
    let seconds = started.elapsed().as_secs_f64();
    let counted = fitrim::settle(&meter, Duration::from_secs(30)).counted.unwrap();
    (counted.count, counted.bytes.0, seconds)
}

fn fstrim(path: &Path) {
    ok(Command::new("fstrim").arg(path));
}

fn trim(path: &Path, more: &[&str]) {
    ok(process().args(["trim", "--quiet", "--json", "--restart"]).args(more).arg(path));
}

fn free(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bfree * stat.f_frsize
}

fn row(case: &str, what: &str, (commands, bytes, seconds): (u64, u64, f64), of: u64) {
    let case = format!("{case}: {what}");
    let figures = [
        ("commands", "count", commands as f64),
        ("sent", "B", bytes as f64),
        ("free", "B", of as f64),
        ("took", "s", seconds),
    ];
    figures.into_iter().for_each(|(figure, unit, value)| keep(&case, figure, unit, &[value]));
    println!(
        "  {what:<34} {commands:>7} commands {:>8.1} MiB {:>6.1} % of free {seconds:>7.2} s",
        mib(bytes),
        100.0 * bytes as f64 / of as f64
    );
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What is sent, counted by the device.
fn holes() -> bool {
    let mut held = true;
    for count in [2000, 30_000] {
        let mount =
            LoopMount::new("xfs", if count > 10_000 { 4096 } else { 1024 }, "nodiscard").unwrap();
        let path = mount.path();
        punch(&path, count, 16 << 10, true);
        println!("XFS, {count} holes of 16 KiB, {:.0} MiB free", mib(free(&path)));
        let plain = counted(&path, || fstrim(&path));
        let by_group = counted(&path, || by_group(&path));
        let ours = counted(&path, || trim(&path, &[]));
        let idle = counted(&path, || trim(&path, &["--policy", "idle"]));
        for (what, sent) in [
            ("fstrim", plain),
            ("fstrim, a range for each group", by_group),
            ("trimtab trim", ours),
            ("trimtab trim --policy idle", idle),
        ] {
            row(&format!("XFS, {count} holes"), what, sent, free(&path));
        }
        held &= claim(
            ours.0 >= count as u64 && ours.1 >= free(&path),
            "trimtab trim sends every hole and all free space",
        );
        held &= claim(
            plain.0 < ours.0 / 4 * 3,
            "fstrim leaves holes out (how many depends on their order)",
        );
    }
    for fs_type in ["ext4", "btrfs"] {
        let mount = with_holes(fs_type);
        let path = mount.path();
        let all = free(&path);
        println!(
            "{fs_type}{}, 5000 holes of 16 KiB, {:.0} MiB free",
            if fs_type == "btrfs" { " after a full balance" } else { "" },
            mib(all)
        );
        let ours = counted(&path, || trim(&path, &[]));
        row(fs_type, "trimtab trim", ours, all);
        held &= if fs_type == "ext4" {
            claim(
                ours.0 >= 5000 && ours.1 >= all / 100 * 98,
                "every hole is sent, and 98 % of what statfs calls free",
            )
        } else {
            // Its statfs calls free what copies of metadata have been given.
            let twin = with_holes(fs_type);
            let plain = counted(&twin.path(), || fstrim(&twin.path()));
            row(fs_type, "fstrim, on another one like it", plain, all);
            claim(
                ours.0 >= 5000 && ours.1 >= plain.1 / 100 * 99,
                "every hole is sent, and as much as by fstrim",
            )
        };
        let again = counted(&path, || trim(&path, &[]));
        row(fs_type, "trimtab trim, a second time", again, all);
        if fs_type == "ext4" {
            held &= claim(again.0 == 0, "the second time sends nothing");
        } else {
            // Space outside of chunks is sent once for each mount, by the first that comes
            // first.
            let plain = counted(&path, || fstrim(&path));
            row(fs_type, "fstrim, afterwards", plain, all);
            held &= claim(again.1 + (4 << 20) >= plain.1, "as much as fstrim");
        }
    }
    held
}

/// 5000 free extents of 16 KiB between files, on btrfs after a full balance.
fn with_holes(fs_type: &str) -> LoopMount {
    let mount = LoopMount::new(fs_type, 2048, "nodiscard").unwrap();
    if fs_type == "btrfs" {
        ok(Command::new("btrfs").args(["balance", "start", "--full-balance"]).arg(mount.path()));
    }
    punch(&mount.path(), 5000, 16 << 10, true);
    mount
}

/// The workaround that is known for XFS.
fn by_group(path: &Path) {
    for window in Filesystem::open(path).unwrap().layout().windows.clone() {
        ok(Command::new("fstrim")
            .arg("-o")
            .arg(window.start.to_string())
            .arg("-l")
            .arg(window.len.to_string())
            .arg(path));
    }
}

/// Writes 4 KiB, direct, 200 times a second; latencies count from when a write was due.
struct Foreground {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(Instant, f64)>>,
}

impl Foreground {
    const SPAN: u64 = 32 << 20;
    const EVERY: Duration = Duration::from_millis(5);

    fn prepare(path: &Path) {
        fs::write(path.join("foreground"), vec![1; Self::SPAN as usize]).unwrap();
        sync(path);
    }

    fn start(path: &Path) -> Self {
        let file = rustix::fs::open(
            path.join("foreground"),
            OFlags::WRONLY | OFlags::DIRECT,
            Mode::empty(),
        )
        .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // Direct I/O wants an aligned buffer.
            let buffer = vec![0x33_u8; 8192];
            let at = buffer.as_ptr().align_offset(4096);
            let (mut all, mut due, mut seed) = (Vec::new(), Instant::now(), 1_u64);
            while !told.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let block = (seed >> 33) % (Self::SPAN / 4096);
                rustix::io::pwrite(&file, &buffer[at..at + 4096], block * 4096).unwrap();
                all.push((due, due.elapsed().as_secs_f64() * 1e3));
                due += Self::EVERY;
            }
            all
        });
        Self { stop, thread }
    }

    /// All writes: when each was due, and how many milliseconds it took.
    fn end(self) -> Vec<(Instant, f64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn p99(all: &[f64]) -> f64 {
    quantile(all, 990)
}

/// The value that so many of a thousand do not exceed.
fn quantile(all: &[f64], of_1000: usize) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    all.get((all.len() * of_1000).div_ceil(1000).saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// What one round came to, or several: milliseconds that writes took before and during.
#[derive(Default)]
struct Outcome {
    before_ms: Vec<f64>,
    during_ms: Vec<f64>,
    seconds: Vec<f64>,
    share: f64,
    commands: u64,
    /// After which share of the time nine tenths of the bytes had been sent, each round.
    ninety: Vec<f64>,
    /// Each round, in the device.
    rounds: Vec<InDevice>,
}

/// What the kernel saw of one round in the device: milliseconds that each write took
/// before and during, how many of the latter were there together with a discard, and what
/// a discard took at the median.
#[derive(Clone, Default)]
struct InDevice {
    before_ms: Vec<f64>,
    during_ms: Vec<f64>,
    met: usize,
    discard_ms: f64,
}

impl InDevice {
    /// From all requests, and when `how` began and ended on the clock of the trace.
    fn of(all: &[Request], began: f64, ended: f64) -> Self {
        let discards: Vec<&Request> =
            all.iter().filter(|one| one.is_discard && one.issued >= began).collect();
        let meets = |write: &Request| {
            discards
                .iter()
                .any(|discard| discard.issued < write.done && write.issued < discard.done)
        };
        let writes = |from: f64, to: f64| {
            all.iter().filter(move |one| one.is_write && one.issued >= from && one.issued < to)
        };
        // The first second fills caches.
        let first = all
            .iter()
            .map(|one| one.issued)
            .fold(began, f64::min)
            .max(began - BEFORE.as_secs_f64())
            + 1.0;
        let took = |requests: &mut dyn Iterator<Item = &Request>| {
            requests.map(Request::took_ms).collect::<Vec<_>>()
        };
        Self {
            before_ms: took(&mut writes(first, began)),
            during_ms: took(&mut writes(began, ended)),
            met: writes(began, ended).filter(|write| meets(write)).count(),
            discard_ms: quantile(
                &discards.iter().map(|one| one.took_ms()).collect::<Vec<_>>(),
                500,
            ),
        }
    }

    /// The same with so many writes during.
    fn first(&self, writes: usize) -> Self {
        Self { during_ms: self.during_ms.iter().copied().take(writes).collect(), ..self.clone() }
    }

    fn p99_holds(&self) -> bool {
        p99(&self.during_ms) <= 1.2 * p99(&self.before_ms)
    }

    /// At most one command more.
    fn p999_holds(&self, command_ms: f64) -> bool {
        quantile(&self.during_ms, 999) <= quantile(&self.before_ms, 999) + command_ms
    }
}

impl Outcome {
    fn add(&mut self, round: Self) {
        self.rounds.extend(round.rounds);
        self.before_ms.extend(round.before_ms);
        self.during_ms.extend(round.during_ms);
        self.ninety.extend(round.ninety);
        self.seconds.extend(round.seconds);
        // All rounds are alike; the worst counts.
        self.share = if self.share == 0.0 { round.share } else { self.share.min(round.share) };
        self.commands = self.commands.max(round.commands);
    }

    /// The mean of a round.
    fn seconds(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }
}

/// A drive beside whose trims others write.
struct Beside {
    drive: &'static str,
    size: &'static str,
    /// What a TRIM costs it.
    cost: &'static str,
    /// Of a command of half a mebibyte, in milliseconds.
    command_ms: f64,
    /// Longer than the policy's budget, whatever a command's size.
    dear: bool,
    /// Free extents of 512 KiB between files. Few where each takes long.
    holes: usize,
    /// Taken together, because a short trim is beside few writes.
    rounds: usize,
}

static BESIDE: [Beside; 2] = [
    Beside {
        drive: "sata-tlc-500gb",
        size: "32GiB",
        cost: "0.15 ms a command",
        command_ms: 0.15,
        dear: false,
        holes: 300,
        rounds: 10,
    },
    Beside {
        drive: "ocz-vertex-le-100gb",
        size: "1GiB",
        cost: "3.56 ms a command and 0.261 ms a mapped unit, and nothing else meanwhile",
        command_ms: 3.56 + 128.0 * 0.261,
        dear: true,
        holes: 40,
        rounds: 1,
    },
];

/// A fresh drive with a fragmented filesystem; the foreground before and during `how`.
/// Policies may take until `deadline`.
fn alongside(beside: &Beside, how: &str, deadline: Duration) -> Outcome {
    let drive = Attached::new(&[beside.drive, "--size", beside.size]);
    let discards = ["online", "btrfs async"].contains(&how);
    if how == "btrfs async" {
        ok(Command::new("mkfs.btrfs").args(["-q", "-f", "-K"]).arg(&drive.device));
    } else {
        ok(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&drive.device));
    }
    let options = match how {
        "online" => "discard",
        "btrfs async" => "discard=async,nodatacow",
        _ => "nodiscard",
    };
    let mount = Mounted::new(&drive.device, options).unwrap();
    let path = mount.path();
    Foreground::prepare(path);
    punch(path, beside.holes, 512 << 10, !discards);
    let all = if discards { (beside.holes as u64) << 19 } else { free(path) };
    let trace = BlockTrace::start(&drive.device).unwrap();
    let writer = Foreground::start(path);
    std::thread::sleep(BEFORE);
    let began = monotonic();
    let sent = Sent::watch(path);
    let started = Instant::now();
    match how {
        "none" => std::thread::sleep(BEFORE),
        "fstrim" => fstrim(path),
        "online" | "btrfs async" => {
            let meter = Meter::start(path).unwrap();
            drop_every_second(path, beside.holes);
            sync(path);
            if how == "online" {
                fitrim::settle(&meter, Duration::from_secs(60));
            } else {
                // It waits before it begins, and makes pauses.
                let wanted = all / 10 * 9;
                while meter.count().unwrap().bytes.0 < wanted && started.elapsed() < BTRFS_WITHIN {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        policy => {
            // Not all of it if it takes too long; the share says so.
            let mut child = process()
                .args(["trim", "--quiet", "--restart", "--policy", policy])
                .arg(path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            while started.elapsed() < deadline && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&child),
                rustix::process::Signal::TERM,
            );
            child.wait().unwrap();
        }
    }
    let (ended, ended_on_trace) = (Instant::now(), monotonic());
    let (commands, bytes, ninety) = sent.end(started, ended);
    let all_writes = writer.end();
    let in_device = InDevice::of(&trace.end().unwrap(), began, ended_on_trace);
    let part = |from: Instant, to: Instant| {
        all_writes.iter().filter(|w| w.0 >= from && w.0 < to).map(|w| w.1).collect::<Vec<_>>()
    };
    // The first second fills caches.
    let before = part(all_writes[0].0 + Duration::from_secs(1), started);
    let during = part(started, ended);
    Outcome {
        before_ms: before,
        during_ms: during,
        seconds: vec![(ended - started).as_secs_f64()],
        share: 100.0 * bytes as f64 / all as f64,
        commands,
        ninety: vec![ninety],
        rounds: vec![in_device],
    }
}

/// Others write for so long before a trim.
const BEFORE: Duration = Duration::from_secs(12);
/// btrfs may take so long to discard by itself: it waits for two minutes before it
/// begins. Tried in the first round only.
const BTRFS_WITHIN: Duration = Duration::from_secs(180);

/// Seconds of the clock that the trace has.
fn monotonic() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What the device counts of discards, every few milliseconds.
struct Sent {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(Instant, u64, u64)>>,
}

impl Sent {
    fn watch(path: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, meter) = (Arc::clone(&stop), Meter::start(path).unwrap());
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                let last = told.load(Ordering::Relaxed);
                let counted = meter.count().unwrap();
                all.push((Instant::now(), counted.count, counted.bytes.0));
                if last {
                    return all;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop, thread }
    }

    /// Commands, bytes, and after which share of the time nine tenths of the bytes had
    /// been sent.
    fn end(self, from: Instant, to: Instant) -> (u64, u64, f64) {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.thread.join().unwrap();
        let (_, commands, bytes) = *all.last().unwrap();
        let at = all.iter().find(|seen| seen.2 * 10 >= bytes * 9).map_or(to, |seen| seen.0);
        (commands, bytes, (at - from).as_secs_f64() / (to - from).as_secs_f64())
    }
}

/// What others have of a trim, on virtual SSDs.
fn foreground(drives: &[&Beside]) -> bool {
    drives.iter().fold(true, |held, beside| held & beside_trims(beside))
}

fn beside_trims(beside: &Beside) -> bool {
    const HOW: [&str; 5] = ["none", "fstrim", "online", "btrfs async", "idle"];
    println!(
        "{} ({}), ext4, {} holes of 512 KiB, 4 KiB written 200 times a second, {} rounds",
        beside.drive, beside.cost, beside.holes, beside.rounds
    );
    let mut outcomes: [Outcome; 5] = Default::default();
    let rounds = std::env::var("TRIMTAB_BENCH_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(beside.rounds);
    for round in 0..rounds {
        for (i, how) in
            HOW.iter().enumerate().filter(|(_, how)| round == 0 || **how != "btrfs async")
        {
            // A hundred and fifty times what fstrim took is what is claimed; a little
            // more shows by how much it is missed.
            let fstrim = outcomes[1].seconds.last().copied().unwrap_or(1e6);
            let round = alongside(
                beside,
                how,
                Duration::from_secs_f64(fstrim * 1.1 * AT_MOST)
                    .clamp(DEADLINE_LEAST, DEADLINE_MOST),
            );
            outcomes[i].add(round);
        }
    }
    println!(
        "  {:<10} {:>10} {:>10} {:>7} {:>10} {:>8} {:>9} {:>10}",
        "trim", "p99 before", "during", "ratio", "longest", "seconds", "commands", "% of free"
    );
    for (how, o) in HOW.iter().zip(&outcomes) {
        let (before, during) = (p99(&o.before_ms), p99(&o.during_ms));
        let longest = o.during_ms.iter().copied().fold(0.0, f64::max);
        let case = format!("{}: {how}", beside.drive);
        keep(&case, "took, of each round", "s", &o.seconds);
        for (figure, unit, value) in [
            ("p99 of writes before", "ms", before),
            ("writes before", "count", o.before_ms.len() as f64),
            ("p99 of writes during", "ms", during),
            ("longest write during", "ms", longest),
            ("writes during", "count", o.during_ms.len() as f64),
            ("commands", "count", o.commands as f64),
            ("share of the free space that was sent", "%", o.share),
        ] {
            keep(&case, figure, unit, &[value]);
        }
        println!(
            "  {how:<10} {before:>7.2} ms {during:>7.2} ms {:>7.2} {longest:>7.1} ms \
                {:>8.2} {:>9} {:>10.1}",
            during / before,
            o.seconds(),
            o.commands,
            o.share
        );
    }
    let [none, fstrim, .., idle] = &outcomes;
    let mut held = true;
    let command_ms =
        idle.rounds.iter().map(|round| round.discard_ms).fold(beside.command_ms, f64::max);
    for (how, outcome) in HOW.iter().zip(&outcomes) {
        for (nth, round) in outcome.rounds.iter().enumerate() {
            let [before, during] = [&round.before_ms, &round.during_ms];
            let figures = [p99(before), p99(during), quantile(before, 999), quantile(during, 999)];
            keep(
                &format!("{}: {how}, round {}, in the device", beside.drive, nth + 1),
                "p99 before, during, p99.9 before, during",
                "ms",
                &figures,
            );
            println!(
                "  {how}, round {}: in the device p99 {:.3} ms, {:.3} before; p99.9 \
                    {:.3} ms, {:.3} before; {} of {} writes met a command",
                nth + 1,
                figures[1],
                figures[0],
                figures[3],
                figures[2],
                round.met,
                during.len()
            );
        }
    }
    // What a round without any trim does not keep, chance takes; of as many writes, since
    // the slowest of more are slower.
    let in_all = |what: &str, holds: &dyn Fn(&InDevice) -> bool| {
        let kept = idle.rounds.iter().filter(|round| holds(round)).count();
        let pairs = none.rounds.iter().zip(&idle.rounds);
        let without = pairs.filter(|(none, idle)| holds(&none.first(idle.during_ms.len()))).count();
        let of = idle.rounds.len();
        claim(
            kept >= without,
            &format!(
                "{what}: in {kept} of {of} rounds, and in {without} without any \
                    trim, of as many writes"
            ),
        )
    };
    held &= claim(
        idle.rounds.iter().all(|round| round.met * 100 <= round.during_ms.len()),
        &format!(
            "fewer than 1 % of the writes are in the device together with a command: \
                {:.2} % in the worst round",
            100.0 * worst_met(idle)
        ),
    );
    if !beside.dear {
        held &= in_all("p99 in the device at most 1.2 times that before", &InDevice::p99_holds);
    }
    held &= in_all(
        &format!("p99.9 in the device at most one command ({command_ms:.2} ms) above that before"),
        &|round| round.p999_holds(command_ms),
    );
    let worst = idle.ninety.iter().copied().fold(0.0, f64::max);
    held &= claim(
        worst <= 2.0 / 3.0,
        &format!(
            "nine tenths of the bytes in the first two thirds of each pass: after \
                {:.0} % of the longest",
            100.0 * worst
        ),
    );
    let in_time = idle.seconds() <= AT_MOST * fstrim.seconds();
    held &= claim(
        in_time,
        &format!(
            "an idle trim takes at most {AT_MOST} times as long as fstrim: {:.0} times",
            idle.seconds() / fstrim.seconds()
        ),
    );
    println!("sent: {:.1} % of the free space, fstrim {:.1} %", idle.share, fstrim.share);
    held
}

/// The largest share of a round's writes that met a command.
fn worst_met(outcome: &Outcome) -> f64 {
    outcome
        .rounds
        .iter()
        .map(|round| round.met as f64 / round.during_ms.len().max(1) as f64)
        .fold(0.0, f64::max)
}

/// An idle pass may take this many times as long as fstrim: commands fill a
/// hundredth of the time, and gaps are waited for.
const AT_MOST: f64 = 150.0;
/// Policies have at least this long.
const DEADLINE_LEAST: Duration = Duration::from_secs(20);
/// And no longer.
const DEADLINE_MOST: Duration = Duration::from_secs(600);

/// What the daemon costs while there is nothing to do.
fn daemon() -> bool {
    let mounts: Vec<LoopMount> = ["ext4", "xfs", "btrfs", "ext4"]
        .iter()
        .map(|fs| LoopMount::new(fs, 512, "nodiscard").unwrap())
        .collect();
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("trimtab.toml");
    let policies = ["adaptive", "idle:at-least=1000h", "adaptive", "batched"];
    let mut text = format!(
        "[daemon]\nstate = \"{0}/state\"\nmetrics = \"{0}/trimtab.prom\"\n",
        scratch.path().display()
    );
    for (mount, policy) in mounts.iter().zip(policies) {
        text += &format!(
            "[[filesystem]]\npath = \"{}\"\npolicy = \"{policy}\"\n",
            mount.path().display()
        );
    }
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // In a mount namespace of its own: whoever mounts something elsewhere wakes it up.
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(process().get_program())
        .args(["daemon", "--config"])
        .arg(&config)
        .env("TRIMTAB_RUNTIME_DIR", scratch.path().join("run"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let (cpu, wakes) = (cpu_seconds(child.id()), wakeups(child.id()));
    let span = 60.0;
    std::thread::sleep(Duration::from_secs_f64(span));
    let (cpu, wakes) = (cpu_seconds(child.id()) - cpu, wakeups(child.id()) - wakes);
    let memory = rss_kib(child.id());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    child.wait().unwrap();
    keep("daemon, 4 filesystems, nothing to do", "processor time", "s/s", &[cpu / span]);
    keep("daemon, 4 filesystems, nothing to do", "wake-ups", "count/s", &[wakes as f64 / span]);
    keep("daemon, 4 filesystems, nothing to do", "resident memory", "KiB", &[memory as f64]);
    println!(
        "daemon, 4 filesystems, nothing to do, {span} s: {:.4} % of a core, {:.2} \
            wake-ups a second, {:.1} MiB resident",
        100.0 * cpu / span,
        wakes as f64 / span,
        memory as f64 / 1024.0
    );
    claim(cpu / span < 0.001, "below 0.1 % of a core") & claim(memory < 20 << 10, "below 20 MiB")
}

/// User and system time of all threads. In nanoseconds as the scheduler has it: clock
/// ticks would be too coarse.
fn cpu_seconds(process: u32) -> f64 {
    let one = |path: &Path| {
        fs::read_to_string(path.join("schedstat"))
            .ok()?
            .split_ascii_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    };
    threads(process).iter().filter_map(|t| one(t)).sum::<u64>() as f64 / 1e9
}

fn wakeups(process: u32) -> u64 {
    let one = |path: &Path| {
        let status = fs::read_to_string(path.join("status")).ok()?;
        status
            .lines()
            .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    threads(process).iter().filter_map(|t| one(t)).sum()
}

fn threads(process: u32) -> Vec<std::path::PathBuf> {
    fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|e| e.unwrap().path()).collect()
}

fn rss_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap()
}
