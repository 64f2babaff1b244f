//! `validate volume`: compares the modelled filesystem with real ext4.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command as DriveCommand, Completion, Device};
use trimtab_linux::host::loops::LoopDevice;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::sys::beneath::{Dir, ObjectIdentity, PRIVATE_FILE};
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_report::layout::on_screen;
use trimtab_sim::op::FileOp;
use trimtab_sim::target::{Clock as _, FileTarget};
use trimtab_sim::volume::{Traffic, Volume, VolumeSpec};
use trimtab_sim::workload::postmark::{Postmark, PostmarkSettings};
use trimtab_sim::workload::tree::{Tree, TreeList};
use trimtab_sim::workload::{FileStep, FileWorkload};
use trimtab_study::document::Table;

/// Arguments of `validate volume`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs root and mke2fs. Exit status 1 if a value of the model deviates from the \
        real filesystem by more than 15 %."
)]
pub struct ValidateVolumeArgs {
    /// Filesystem sizes.
    #[arg(long, value_delimiter = ',', default_values = ["4GiB", "16GiB"])]
    sizes: Vec<Bytes>,
    /// Workloads.
    #[arg(
        long, value_enum, value_delimiter = ',', default_values = ["tree", "postmark"],
        value_name = "NAME"
    )]
    workloads: Vec<VolumeWorkload>,
    /// Repeat a failing row up to N times, because machine load affects when the kernel
    /// commits.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    tries: u32,
    /// Directory of the backing file, on a filesystem in memory.
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    scratch: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VolumeWorkload {
    /// 36,706 files, 493 MB, unpacked and deleted.
    Tree,
    /// 10,000 files, 20,000 transactions: the published configuration.
    Postmark,
}

impl VolumeWorkload {
    const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Postmark => "postmark",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct VolumeTraffic {
    written: u64,
    writes: u64,
    flushes: u64,
    discards: u64,
    discarded: u64,
}

impl VolumeTraffic {
    const fn since(&self, before: &Self) -> Self {
        Self {
            written: self.written - before.written,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
            discards: self.discards - before.discards,
            discarded: self.discarded - before.discarded,
        }
    }
}

#[derive(Debug)]
struct Pace {
    operations: Vec<Nanos>,
    /// Mean time per discard, including kernel time between two.
    discard: Nanos,
}

#[derive(Debug, serde::Serialize)]
struct VolumeRow {
    size: u64,
    workload: &'static str,
    discard: bool,
    real: VolumeTraffic,
    model: VolumeTraffic,
    agrees: bool,
}

const LIMIT: f64 = 0.15;
/// Flushes per commit. A sync makes one or two commits, depending on whether the last
/// write ends before the first commit begins.
const COMMIT_FLUSHES: u64 = 2;

/// True if the model agrees, or the value is not judged: write requests depend on CPU
/// load.
fn agrees(figure: TrafficFigure, real: u64, model: u64) -> bool {
    let near = (model as f64 - real as f64).abs() <= LIMIT * real as f64;
    match figure {
        TrafficFigure::Writes => true,
        TrafficFigure::Flushes => near || model.abs_diff(real) <= COMMIT_FLUSHES,
        _ => near,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrafficFigure {
    Written,
    Writes,
    Flushes,
    Discards,
    Discarded,
}

impl TrafficFigure {
    const ALL: [Self; 5] =
        [Self::Written, Self::Writes, Self::Flushes, Self::Discards, Self::Discarded];

    const fn name(self) -> &'static str {
        match self {
            Self::Written => "bytes written",
            Self::Writes => "write requests",
            Self::Flushes => "flushes",
            Self::Discards => "discards",
            Self::Discarded => "bytes discarded",
        }
    }

    const fn of(self, counts: &VolumeTraffic) -> u64 {
        match self {
            Self::Written => counts.written,
            Self::Writes => counts.writes,
            Self::Flushes => counts.flushes,
            Self::Discards => counts.discards,
            Self::Discarded => counts.discarded,
        }
    }
}

/// Runs the comparison.
pub fn run(args: &ValidateVolumeArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let mut rows = Vec::new();
    for size in &args.sizes {
        for workload in args.workloads.iter().map(|workload| workload.name()) {
            for discard in [false, true] {
                let mut row = compare(args, *size, workload, discard)?;
                for _ in 1..args.tries {
                    if !row.agrees {
                        row = compare(args, *size, workload, discard)?;
                    }
                }
                rows.push(row);
            }
        }
    }
    context.report("volume-validation", 1, &rows, || text(&rows))?;
    Ok(if rows.iter().all(|row| row.agrees) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare(
    args: &ValidateVolumeArgs,
    size: Bytes,
    workload: &'static str,
    discard: bool,
) -> anyhow::Result<VolumeRow> {
    let (real, pace) = on_ext4(args, size, workload, discard)?;
    let model = on_model(size, workload, discard, &pace)?;
    let agrees = TrafficFigure::ALL
        .iter()
        .all(|figure| agrees(*figure, figure.of(&real), figure.of(&model)));
    Ok(VolumeRow { size: size.0, workload, discard, real, model, agrees })
}

fn text(rows: &[VolumeRow]) -> String {
    let mut table = Table::new("", &["filesystem", "figure", "ext4", "model", "model/ext4"]);
    for row in rows {
        let name = format!(
            "{} GiB {}{}",
            row.size >> 30,
            row.workload,
            if row.discard { ", discard" } else { "" }
        );
        for figure in TrafficFigure::ALL {
            let (real, model) = (figure.of(&row.real), figure.of(&row.model));
            if real > 0 || model > 0 {
                let ratio = if real > 0 {
                    format!("{:.3}", model as f64 / real as f64)
                } else {
                    "-".to_owned()
                };
                let mark = if agrees(figure, real, model) { "" } else { " !" };
                table.row([
                    name.clone(),
                    figure.name().to_owned(),
                    real.to_string(),
                    model.to_string(),
                    ratio + mark,
                ]);
            }
        }
    }
    let outside = rows.iter().filter(|row| !row.agrees).count();
    let verdict = if outside == 0 {
        "all within it".to_owned()
    } else {
        format!("{outside} of {} outside (marked !)", rows.len())
    };
    let verdict =
        format!("Limit 15 %, or one commit for flushes; write requests not judged: {verdict}.");
    [on_screen(&table), prose(&verdict)].concat()
}

fn workload(name: &str) -> anyhow::Result<Box<dyn FileWorkload>> {
    if name == "tree" {
        let list = TreeList::synthetic(36_706, Bytes(493_000_000), DataClass::Random, 1)?;
        return Ok(Box::new(Tree::new(Arc::new(list), 1)));
    }
    Ok(Box::new(Postmark::new(&PostmarkSettings::published())?))
}

/// Runs all steps of a workload, with a sync before each phase and at the end to limit
/// the influence of timers. Returns the duration of each step. With `paces`, no step
/// takes less than its pace: the comparison is about device traffic, not machine speed.
fn execute_all<T: FileTarget>(
    workload: &mut dyn FileWorkload,
    target: &mut T,
    paces: Option<&[Nanos]>,
) -> anyhow::Result<Vec<Nanos>> {
    let mut took = Vec::new();
    let mut timed = |target: &mut T, op: &FileOp<'_>| -> anyhow::Result<()> {
        let began = target.now();
        target.execute(op)?;
        if let Some(pace) = paces.and_then(|paces| paces.get(took.len())) {
            target.idle_until(began.saturating_add(*pace));
        }
        took.push(target.now().saturating_sub(began));
        Ok(())
    };
    while let Some(step) = workload.next_step() {
        if interrupt::requested() {
            return Err(InterruptError.into());
        }
        match step {
            FileStep::Phase(_) => timed(target, &FileOp::Sync)?,
            FileStep::NotBefore(_) => {}
            FileStep::Op(op) => timed(target, &op)?,
        }
    }
    timed(target, &FileOp::Sync)?;
    Ok(took)
}

/// Releases all resources in reverse order, on errors too.
#[derive(Default)]
struct ResourceGuard {
    mounted: Option<PathBuf>,
    device: Option<(LoopDevice, ObjectIdentity)>,
}

impl Drop for ResourceGuard {
    fn drop(&mut self) {
        if let Some(path) = self.mounted.take() {
            let _ = Command::new("umount").arg(path).status();
        }
        if let Some((device, image)) = self.device.take() {
            let _ = device.detach(image, true);
        }
    }
}

fn tool(name: &str, args: &[&str]) -> anyhow::Result<()> {
    let output =
        Command::new(name).args(args).output().with_context(|| format!("cannot start {name}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn on_ext4(
    args: &ValidateVolumeArgs,
    size: Bytes,
    name: &str,
    discard: bool,
) -> anyhow::Result<(VolumeTraffic, Pace)> {
    // The programs that create and mount the filesystem receive its path.
    let parent = Dir::sheltered_directory(&args.scratch)
        .with_context(|| format!("cannot work in {}", args.scratch.display()))?;
    let scratch = tempfile::Builder::new().prefix("trimtab-validate-").tempdir_in(parent)?;
    let mut lab = ResourceGuard::default();
    let (image, mount) = (scratch.path().join("image"), scratch.path().join("mnt"));
    let here = Dir::open(scratch.path())?;
    let file = here.create_new("image", PRIVATE_FILE)?;
    file.set_len(size.0)?;
    here.mkdir("mnt")?;
    let device = LoopDevice::attach(&file, &image, 512)?;
    lab.device = Some((device, ObjectIdentity::of(&file)?));
    drop(file);
    let (node, at) = (device.path(), mount.to_string_lossy().into_owned());
    let node = node.to_string_lossy().into_owned();
    tool("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &node])?;
    tool("mount", &["-o", if discard { "discard" } else { "nodiscard" }, &node, &at])?;
    lab.mounted = Some(mount.clone());
    let work = Dir::open(&mount)?.mkdir("work")?;
    let at = work.path().to_owned();
    let mut target = DirTarget::new(work.into(), &at, DirOptions::default());
    target.sync()?;
    let before = read(device)?;
    let operations = execute_all(&mut *workload(name)?, &mut target, None)?;
    drop(target);
    let after = settled(device)?;
    let counts = after.since(&before);
    let discard = Nanos(discard_time(device)?.0 / counts.discards.max(1));
    Ok((counts, Pace { operations, discard }))
}

fn read(device: LoopDevice) -> anyhow::Result<VolumeTraffic> {
    let stat = DiskStat::read(&Root::live()?, Path::new(&device.sysfs()))
        .context("the loop device has no counters")?;
    let discards = stat.discards.unwrap_or_default();
    Ok(VolumeTraffic {
        written: stat.written.0,
        writes: stat.writes,
        flushes: stat.flushes.unwrap_or(0),
        discards: discards.count,
        discarded: discards.bytes.0,
    })
}

/// Total time of discards on the device; those of mkfs are few and short.
fn discard_time(device: LoopDevice) -> anyhow::Result<Nanos> {
    let stat = DiskStat::read(&Root::live()?, Path::new(&device.sysfs()))
        .context("the loop device has no counters")?;
    Ok(stat.discard_time)
}

/// Counters after half a second without discards.
fn settled(device: LoopDevice) -> anyhow::Result<VolumeTraffic> {
    let began = Instant::now();
    let mut last = read(device)?;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = read(device)?;
        if now.discards == last.discards || began.elapsed() > Duration::from_secs(120) {
            return Ok(now);
        }
        last = now;
    }
}

/// A drive about as fast as a loop device over memory.
#[derive(Debug)]
struct Memory {
    size: Bytes,
    busy_until: Nanos,
    discard: Nanos,
}

impl Device for Memory {
    fn size(&self) -> Bytes {
        self.size
    }
    fn logical_block(&self) -> u32 {
        512
    }
    fn supports_trim(&self) -> bool {
        true
    }
    fn submit(&mut self, now: Nanos, command: &DriveCommand<'_>) -> Completion {
        let cost = match command {
            DriveCommand::Read(extent) | DriveCommand::Write(extent, _) => 20_000 + extent.len / 4,
            DriveCommand::Trim(_) => self.discard.0,
            DriveCommand::Flush => 50_000,
        };
        self.busy_until = self.busy_until.max(now) + Nanos(cost);
        Completion { done: self.busy_until, result: Ok(()) }
    }
    fn idle(&mut self, _until: Nanos) {}
}

/// The volume with all paths below one directory, as on the real filesystem.
struct Subtree(Volume<Memory>);

impl trimtab_sim::target::Clock for Subtree {
    fn now(&mut self) -> Nanos {
        self.0.now()
    }
    fn idle_until(&mut self, instant: Nanos) {
        self.0.idle_until(instant);
    }
}

impl FileTarget for Subtree {
    fn execute(&mut self, op: &FileOp<'_>) -> trimtab_sim::target::TargetResult {
        self.0.execute(&op.at(&format!("work/{}", op.path())))
    }
}

fn on_model(size: Bytes, name: &str, discard: bool, pace: &Pace) -> anyhow::Result<VolumeTraffic> {
    let mut spec = VolumeSpec::ext4();
    // Same memory as this machine: nothing is written before a sync.
    spec.writeback.memory = Bytes(24 << 30);
    if discard {
        spec = spec.with_online_discard();
    }
    let drive = Memory { size, busy_until: Nanos::ZERO, discard: pace.discard };
    let mut target = Subtree(Volume::format(drive, spec, Nanos::ZERO)?);
    target.0.make_dir("work")?;
    target.0.sync()?;
    let before = traffic(&target);
    execute_all(&mut *workload(name)?, &mut target, Some(&pace.operations))?;
    while target.0.discarding() {
        let later = target.0.now() + Nanos::from_secs(1);
        target.0.idle_until(later);
    }
    Ok(traffic(&target).since(&before))
}

const fn traffic(target: &Subtree) -> VolumeTraffic {
    let Traffic { writes, flushes, discards, .. } = target.0.counters().traffic;
    VolumeTraffic {
        written: writes.bytes.0,
        writes: writes.count,
        flushes,
        discards: discards.count,
        discarded: discards.bytes.0,
    }
}
