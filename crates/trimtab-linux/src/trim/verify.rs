//! Proves on the raw device that blocks freed by a filesystem are discarded, instead of
//! trusting its configuration.
//!
//! Writes small files with known content next to each other, deletes every other one and
//! trims its space. Then reads back the raw blocks of the deleted files, and those of the
//! kept ones, which must be unchanged. The discard counters of every layer show how far
//! the discards came.

pub mod arrival;
pub mod extents;
pub mod in_use;
pub mod readback;
pub mod verdict;

use crate::doctor::{self, Tables};
use crate::host::block::{Layer, Stack};
use crate::host::discards::{self, LayerDiscards, Meter};
use crate::host::drive;
use crate::host::mountinfo::DevNumber;
use crate::host::stat::DiskStat;
use crate::session::directories::run_directory;
use crate::session::discard_option::DiscardOption;
use crate::session::safety::Workspace;
use crate::sys::interrupt;
use crate::trim::filesystem::Filesystem;
use crate::trim::fitrim;
use crate::trim::lock::{DriveBusyError, DriveLocks};
use crate::trim::surface::at_once;
use anyhow::{Context as _, bail};
use arrival::LayerArrival;
use extents::{DeviceExtent, MappedExtent, Mapper};
use readback::{BLOCK, BlockContents, RawDevice, interior};
use rustix::fs::{Mode, OFlags, openat, syncfs};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;
use trimtab_sim::target::TrimWindow;
use verdict::{DiscardDelay, Promise, ProofObservations, VerdictKind};

const PIECE_MIN: u64 = 1 << 20;
/// Maximum file size, for large discard units (thin pools, memory cards).
const PIECE_MAX: u64 = 64 << 20;
/// Maximum number of attempts if other processes reuse the freed space.
pub const TRIES: u32 = 3;
/// Time allowed for a filesystem to free the space of deleted files.
const FREE_PATIENCE: Duration = Duration::from_secs(15);

/// Options for a proof.
#[derive(Clone, Debug)]
pub struct ProofOptions {
    /// Bytes to free; the same amount is kept for comparison.
    pub size: Bytes,
    /// Wait after the trim before reading back.
    pub wait: Duration,
    /// Maximum wait for a drive that is being trimmed already.
    pub lock_wait: Duration,
    /// Do not trim: observe what the filesystem discards by itself during the wait.
    pub as_mounted: bool,
}

/// The result of a proof.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Mount point.
    pub path: String,
    /// Type of the filesystem.
    pub fs_type: String,
    /// The verdict.
    pub verdict: VerdictKind,
    /// Explanation of the verdict.
    pub text: String,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// Part of these in whole discard units.
    pub expected_bytes: u64,
    /// Discard unit.
    pub unit_bytes: u64,
    /// Contents of the freed blocks of 4096 B.
    pub freed: BlockContents,
    /// Contents of the same blocks in a second read.
    pub freed_again: BlockContents,
    /// Contents of the blocks of the kept files.
    pub kept: BlockContents,
    /// The drive's promise for reads after TRIM.
    pub promise: Promise,
    /// Discards counted at each layer.
    pub layers: Vec<LayerArrival>,
    /// Remarks on these counts.
    pub counted: Vec<String>,
    /// Other remarks.
    pub remarks: Vec<String>,
}

/// Bytes that a proof on the filesystem of `path` writes, and the space it needs.
pub fn space(path: &Path, options: &ProofOptions) -> anyhow::Result<Bytes> {
    let fs = Filesystem::open(path)?;
    let (piece, count) = pieces(discard_unit(&fs), options);
    Ok(Bytes(piece.saturating_mul(2 * count)))
}

/// Size of the files, and the number of files to free.
fn pieces(unit: u64, options: &ProofOptions) -> (u64, u64) {
    let piece = unit.saturating_mul(4).clamp(PIECE_MIN, PIECE_MAX);
    (piece, (options.size.0 / piece).max(2))
}

fn discard_unit(fs: &Filesystem) -> u64 {
    fs.stack()
        .top_layers()
        .filter_map(|l| fs.root().read_u64(l.queue().join("discard_granularity")))
        .max()
        .unwrap_or(0)
}

/// Runs the proof in `workspace`. Calls `waiting` before waiting for another trim.
pub fn prove(
    workspace: &Workspace,
    options: &ProofOptions,
    waiting: impl FnOnce(&DriveBusyError),
) -> anyhow::Result<Proof> {
    let mut fs = Filesystem::open(workspace.path())?;
    let shown = fs.mount().mount_point.display().to_string();
    if let Some(obstacle) = fs.obstacle().filter(|_| !options.as_mounted) {
        if let Some(why) = crate::trim::delivery::not_needed(&fs, obstacle) {
            return Ok(Proof { verdict: VerdictKind::NotNeeded, text: why, ..blank(&fs, options) });
        }
        bail!(crate::trim::delivery::obstructed(&fs, obstacle));
    }
    let locks = DriveLocks::wait(fs.stack(), &run_directory(), options.lock_wait, waiting);
    let _locks = locks.with_context(|| format!("cannot trim {shown}"))?;
    let mut proof = blank(&fs, options);
    for file in fs.recover_limits() {
        proof
            .remarks
            .push(format!("restored {}, which an interrupted trim had lowered", file.display()));
    }
    if let Err(error) = prove_repeatedly(workspace, &mut fs, options, &mut proof) {
        if !error.is::<UnmappableFileError>() {
            return Err(error);
        }
        proof.verdict = VerdictKind::Unknown;
        proof.text = format!("unknown: {error:#}");
    }
    Ok(proof)
}

/// The reliability of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptResult {
    /// No other writes: the result is the drive's doing.
    Undisturbed,
    /// Other writes reached the device; the freed space was free at each check.
    Disturbed,
    /// Freed space was reused, or kept files were moved: the result means nothing.
    Reused,
}

/// Repeats the proof until the result can be attributed to the drive. If other processes
/// write, a result against the drive must be the same in every attempt.
fn prove_repeatedly(
    workspace: &Workspace,
    fs: &mut Filesystem,
    options: &ProofOptions,
    proof: &mut Proof,
) -> anyhow::Result<()> {
    let mut seen: Vec<VerdictKind> = Vec::new();
    let mut reused = 0;
    for number in 1..=TRIES {
        let probe = Probe::write(workspace, fs, proof, options)?;
        match probe.finish(fs, options, proof)? {
            AttemptResult::Reused => reused += 1,
            AttemptResult::Disturbed
                if !matches!(
                    proof.verdict,
                    VerdictKind::Zeroed | VerdictKind::NotYet | VerdictKind::NotSent
                ) =>
            {
                seen.push(proof.verdict);
            }
            AttemptResult::Undisturbed | AttemptResult::Disturbed => {
                if reused > 0 {
                    proof.remarks.push(format!(
                        "other processes reused the freed space in {reused} of \
                            {number} attempts; the proof was repeated"
                    ));
                }
                return Ok(());
            }
        }
        if number < TRIES {
            workspace.remove_subdirectory(DIRECTORY)?;
        }
    }
    let same = reused == 0 && seen.iter().all(|kind| *kind == seen[0]);
    if !same {
        proof.verdict = VerdictKind::Unknown;
        proof.text = verdict::disturbed_text(reused, TRIES);
    }
    Ok(())
}

/// Directory of the files in the workspace.
const DIRECTORY: &str = "verify";

/// The place of a file cannot be determined. The proof is impossible, which is not a
/// failure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UnmappableFileError(String);

fn blank(fs: &Filesystem, options: &ProofOptions) -> Proof {
    Proof {
        path: fs.mount().mount_point.display().to_string(),
        fs_type: fs.mount().fs_type.clone(),
        verdict: VerdictKind::Unknown,
        text: String::new(),
        freed_bytes: 0,
        expected_bytes: 0,
        unit_bytes: discard_unit(fs),
        freed: BlockContents::default(),
        freed_again: BlockContents::default(),
        kept: BlockContents::default(),
        promise: promise(fs),
        layers: Vec::new(),
        counted: Vec::new(),
        remarks: if options.as_mounted {
            vec!["nothing was trimmed: these are only the filesystem's own discards".into()]
        } else {
            Vec::new()
        },
    }
}

/// The weakest promise of the drives below.
fn promise(fs: &Filesystem) -> Promise {
    let mut drives = fs.stack().drives().map(|d| match drive::ata_identify(fs.root(), d) {
        Some(identify) if identify.zero_after_trim() => Promise::Zeroes,
        Some(identify) if identify.deterministic_after_trim() => Promise::Same,
        _ => Promise::Unknown,
    });
    let first = drives.next().unwrap_or(Promise::Unknown);
    drives.fold(first, |least, one| if least == one { least } else { Promise::Unknown })
}

/// A file of known content, derived from its seed.
struct ProofFile {
    seed: u64,
    len: u64,
    name: String,
    extents: Vec<MappedExtent>,
    placed: Vec<DeviceExtent>,
}

impl ProofFile {
    fn content(&self) -> Vec<u8> {
        content(self.seed, self.len)
    }
}

fn content(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    DataClass::Random.fill(&mut Stream::new(seed, "verify"), &mut bytes);
    bytes
}

/// The extents of the first `len` bytes of a file: space may be allocated beyond its end.
fn extents_within(file: &File, len: u64) -> anyhow::Result<Vec<MappedExtent>> {
    let mut extents = extents::of_file(file)?;
    extents.retain_mut(|e| {
        e.len = e.len.min(len.saturating_sub(e.in_file));
        e.len > 0
    });
    Ok(extents)
}

/// Bytes written to the devices of the filesystem; `None` if they do not count.
fn writes(fs: &Filesystem) -> Option<u64> {
    fs.stack()
        .top_layers()
        .map(|layer| DiskStat::read(fs.root(), &layer.sys).map(|stat| stat.written.0))
        .sum()
}

struct Probe {
    directory: rustix::fd::OwnedFd,
    freed: Vec<ProofFile>,
    kept: Vec<ProofFile>,
    unit: u64,
}

impl Probe {
    /// Writes the files and determines and checks their places on the devices.
    fn write(
        workspace: &Workspace,
        fs: &mut Filesystem,
        proof: &Proof,
        options: &ProofOptions,
    ) -> anyhow::Result<Self> {
        let (directory, _) = workspace.subdirectory(DIRECTORY)?;
        let (piece, count) = pieces(proof.unit_bytes, options);
        let seed = random_seed();
        let mut probe =
            Self { directory, freed: Vec::new(), kept: Vec::new(), unit: proof.unit_bytes };
        for i in 0..2 * count {
            interrupt::check()?;
            let one = probe.write_piece(i, seed.wrapping_add(i), piece)?;
            if i % 2 == 0 { probe.freed.push(one) } else { probe.kept.push(one) }
        }
        probe.place(fs).map_err(|e| UnmappableFileError(format!("{e:#}")))?;
        probe.check_mapping()?;
        Ok(probe)
    }

    fn write_piece(&self, number: u64, seed: u64, len: u64) -> anyhow::Result<ProofFile> {
        let name = format!("piece-{number}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(
            openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR)
                .context("cannot create a file")?,
        );
        file.write_all(&content(seed, len))
            .and_then(|()| file.sync_all())
            .context("cannot write a file")?;
        let extents =
            extents_within(&file, len).map_err(|e| UnmappableFileError(format!("{e:#}")))?;
        Ok(ProofFile { seed, len, name, extents, placed: Vec::new() })
    }

    /// Maps the files to devices once all are written: btrfs creates chunks for them.
    fn place(&mut self, fs: &mut Filesystem) -> anyhow::Result<()> {
        let (mount, stack) = (fs.mount().clone(), fs.stack().clone());
        let mapper = Mapper::new(&mount, &stack, fs.file()?)?;
        for piece in self.freed.iter_mut().chain(&mut self.kept) {
            for extent in &piece.extents {
                piece.placed.extend(mapper.place(extent)?);
            }
        }
        Ok(())
    }

    /// Checks one block of each place: other contents mean another kind of address.
    fn check_mapping(&self) -> anyhow::Result<()> {
        let mut reader = DeviceReader::default();
        for piece in self.freed.iter().chain(&self.kept) {
            let written = piece.content();
            for placed in piece.placed.iter().filter_map(|p| interior(p, BLOCK as u64)) {
                let mut content = BlockContents::default();
                reader.look(
                    &DeviceExtent { len: BLOCK as u64, ..placed },
                    &written,
                    &mut content,
                )?;
                if content.written != 1 {
                    let text = "the blocks at the addresses that the filesystem names do not \
                        hold the file (data in the journal, encrypted or transformed on the way)";
                    bail!(UnmappableFileError(text.into()));
                }
            }
        }
        Ok(())
    }

    fn finish(
        self,
        fs: &mut Filesystem,
        options: &ProofOptions,
        proof: &mut Proof,
    ) -> anyhow::Result<AttemptResult> {
        proof.freed_bytes = self.freed.iter().map(|p| p.len).sum();
        proof.expected_bytes =
            self.freed.iter().flat_map(|p| self.interiors(p)).map(|p| p.len).sum();
        let meter = Meter::start(&fs.mount().mount_point).context("cannot find the devices")?;
        let free = self.delete(fs)?;
        let written = writes(fs);
        if !options.as_mounted {
            self.trim(fs)?;
        }
        wait(options.wait)?;
        fitrim::settle(&meter, Duration::from_secs(30));
        let stack = meter.stack();
        let without_use =
            fs.diagnosis().map(|diagnosis| diagnosis.without_use(stack)).unwrap_or_default();
        let arrival = arrival::arrival(
            stack,
            &meter.layers(),
            &self.freed_on(stack),
            &Tables::read(fs.root()),
            &without_use,
        );
        let sent = stack
            .tops
            .iter()
            .filter_map(|&top| arrival.layers.get(top)?.discards.bytes())
            .sum::<u64>();
        proof.freed = self.read(&self.freed)?;
        proof.freed_again = self.read(&self.freed)?;
        proof.kept = self.read(&self.kept)?;
        let observed = ProofObservations {
            freed: proof.freed,
            again: proof.freed_again,
            kept: proof.kept,
            arrival,
            promise: proof.promise,
            later: sends_later(fs, options).filter(|_| sent < proof.expected_bytes),
            sends_nothing: remedy_for_silence(fs, options),
            cached_by: fs.stack().cached().map(Layer::title),
        };
        (proof.verdict, proof.text) = verdict::judge(&observed);
        let counts: Vec<LayerDiscards> =
            observed.arrival.layers.iter().map(|l| l.discards.clone()).collect();
        proof.counted = discards::remarks(&counts);
        if let Ok(diagnosis) = fs.diagnosis()
            && let Some((verdict, text, remark)) =
                agree(proof.verdict, &proof.text, &diagnosis.verdict)
        {
            (proof.verdict, proof.text) = (verdict, text);
            proof.counted.extend(remark);
        }
        proof.layers = observed.arrival.layers;
        if proof.expected_bytes < proof.freed_bytes {
            let rest = Bytes(proof.freed_bytes - proof.expected_bytes);
            let remark = format!("{rest} at the borders of discard units were excluded");
            if !proof.remarks.contains(&remark) {
                proof.remarks.push(remark);
            }
        }
        let alone = written.is_some() && writes(fs) == written;
        // Space used by other processes since then is recorded once it is committed.
        syncfs(self.directory.as_fd()).context("cannot sync the filesystem")?;
        let untouched =
            free != Some(false) && self.is_free(fs) != Some(false) && self.kept_in_place();
        Ok(match (untouched, alone) {
            (false, _) => AttemptResult::Reused,
            (true, true) => AttemptResult::Undisturbed,
            (true, false) => AttemptResult::Disturbed,
        })
    }

    /// The bytes to free in whole discard units, on each of the filesystem's own devices.
    fn freed_on(&self, stack: &Stack) -> Vec<(usize, u64)> {
        let device =
            |path: &Path| rustix::fs::stat(path).map(|s| DevNumber::from_raw(s.st_rdev)).ok();
        let mut freed: Vec<(usize, u64)> = stack.tops.iter().map(|&top| (top, 0)).collect();
        for placed in self.freed.iter().flat_map(|p| self.interiors(p)) {
            let number = device(&placed.device);
            for (top, bytes) in &mut freed {
                if stack.tops.len() == 1 || stack.layers.get(*top).map(|l| l.dev) == number {
                    *bytes = bytes.saturating_add(placed.len);
                }
            }
        }
        freed
    }

    /// All freed space is free now; `None` if the filesystem does not report it.
    fn is_free(&self, fs: &mut Filesystem) -> Option<bool> {
        let extents: Vec<MappedExtent> =
            self.freed.iter().flat_map(|p| p.extents.iter().copied()).collect();
        let mount = fs.mount().clone();
        in_use::all_free(&mount, fs.file().ok()?, &extents)
    }

    /// The kept files are still in place: a defragmenter, for example, moves files.
    fn kept_in_place(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.kept.iter().all(|piece| {
            let now = openat(&self.directory, &piece.name, flags, Mode::empty())
                .ok()
                .and_then(|fd| extents_within(&File::from(fd), piece.len).ok());
            now.as_ref() == Some(&piece.extents)
        })
    }

    /// Deletes the files to free, and waits until the filesystem has freed their space.
    /// Returns whether all of it was seen to be free; `None` if the filesystem does not
    /// report it.
    fn delete(&self, fs: &mut Filesystem) -> anyhow::Result<Option<bool>> {
        let before = fs.free().context("cannot read the free space")?;
        for piece in &self.freed {
            rustix::fs::unlinkat(&self.directory, &piece.name, rustix::fs::AtFlags::empty())
                .context("cannot delete a file")?;
        }
        let freed: u64 = self.freed.iter().map(|p| p.len).sum();
        let started = Instant::now();
        loop {
            syncfs(self.directory.as_fd()).context("cannot sync the filesystem")?;
            let free = self.is_free(fs);
            let now = fs.free().context("cannot read the free space")?;
            // Without a map, other processes may free or use as much in the same time.
            if free == Some(true)
                || free.is_none() && now.0 >= before.0.saturating_add(freed / 2)
                || started.elapsed() > FREE_PATIENCE
            {
                // Space may count as free shortly before it can be trimmed.
                syncfs(self.directory.as_fd()).context("cannot sync the filesystem")?;
                return Ok(free);
            }
            wait(Duration::from_millis(50))?;
        }
    }

    /// Trims only the windows that contain freed space.
    fn trim(&self, fs: &mut Filesystem) -> anyhow::Result<()> {
        fs.refresh()?;
        let by_address =
            matches!(fs.mount().fs_type.as_str(), "ext2" | "ext3" | "ext4" | "xfs" | "btrfs");
        let extents: Vec<MappedExtent> =
            self.freed.iter().flat_map(|p| p.extents.iter().copied()).collect();
        let holds = |w: &TrimWindow| {
            extents.iter().any(|e| {
                e.address < w.start.saturating_add(w.len)
                    && w.start < e.address.saturating_add(e.len)
            })
        };
        let windows: Vec<TrimWindow> =
            fs.layout().windows.iter().copied().filter(|w| !by_address || holds(w)).collect();
        let least = fs.last_least();
        fs.prepare(Bytes::ZERO, false);
        let account = at_once(fs, &windows, Bytes::ZERO, |account| {
            interrupt::requested() || !account.refusals.is_empty()
        });
        fs.restore_least(least);
        interrupt::check()?;
        match account.refusals.first() {
            Some((_, refused)) if refused.errno == Errno::OPNOTSUPP => {
                bail!(crate::trim::delivery::obstructed(fs, fitrim::Obstacle::Device))
            }
            Some((_, refused)) => {
                bail!("cannot trim {}: {refused}", fs.mount().mount_point.display())
            }
            None => Ok(()),
        }
    }

    fn interiors<'a>(&self, piece: &'a ProofFile) -> impl Iterator<Item = DeviceExtent> + use<'a> {
        let unit = self.unit;
        piece.placed.iter().filter_map(move |p| interior(p, unit))
    }

    fn read(&self, pieces: &[ProofFile]) -> anyhow::Result<BlockContents> {
        let mut reader = DeviceReader::default();
        let mut content = BlockContents::default();
        for piece in pieces {
            interrupt::check()?;
            let written = piece.content();
            for placed in self.interiors(piece) {
                reader.look(&placed, &written, &mut content)?;
            }
        }
        Ok(content)
    }
}

/// The delay of a filesystem that queues its discards.
fn sends_later(fs: &Filesystem, options: &ProofOptions) -> Option<DiscardDelay> {
    if fs.sends_later() {
        return Some(DiscardDelay::new(
            "when the device has been idle for a while",
            2,
            options.wait,
        ));
    }
    // Freed space is kept for 120 s (BTRFS_DISCARD_DELAY); FITRIM does not wait for that.
    let queues =
        options.as_mounted && DiscardOption::of(fs.mount()) == DiscardOption::online("btrfs");
    queues.then(|| {
        DiscardDelay::new("what was freed two minutes later (discard=async)", 3, options.wait)
    })
}

/// The command for online discard, if the proof would observe it and it is disabled.
fn remedy_for_silence(fs: &Filesystem, options: &ProofOptions) -> Option<String> {
    let silent = options.as_mounted && !doctor::discards_online(fs.root(), fs.mount(), fs.stack());
    let option = if fs.mount().fs_type == "btrfs" { "discard=async" } else { "discard" };
    let path = quoted(&fs.mount().mount_point.display().to_string());
    silent.then(|| match fs.mount().fs_type.as_str() {
        // XFS accepts the option only at mount; a remount with it succeeds and changes
        // nothing.
        "xfs" => format!("umount {path}, and mount it with the option discard"),
        _ => format!("mount -o remount,{option} {path}"),
    })
}

/// Combines the proof with the doctor's verdict: the freed space was at places that
/// discards reach, but the doctor may know devices of the same filesystem where they do
/// not. Returns the verdict, its text and a remark; `None` if nothing changes.
pub fn agree(
    kind: VerdictKind,
    text: &str,
    doctor: &doctor::DiscardVerdict,
) -> Option<(VerdictKind, String, Option<String>)> {
    let proved = matches!(kind, VerdictKind::Zeroed | VerdictKind::Changed);
    if !proved || doctor.kind != doctor::VerdictKind::Blocked {
        return None;
    }
    if doctor.reaches.is_empty() {
        return Some((
            kind,
            text.to_owned(),
            Some(format!("trimtab doctor disagrees: {}", doctor.text)),
        ));
    }
    Some((
        VerdictKind::LegLeftOut,
        format!("{}; the proof covers only the other devices: {text}", doctor.text),
        None,
    ))
}

/// Devices, each opened once.
#[derive(Default)]
struct DeviceReader {
    devices: Vec<RawDevice>,
}

impl DeviceReader {
    fn look(
        &mut self,
        placed: &DeviceExtent,
        written: &[u8],
        content: &mut BlockContents,
    ) -> anyhow::Result<()> {
        let at = match self.devices.iter().position(|d| d.path == placed.device) {
            Some(at) => at,
            None => {
                let device = RawDevice::open(&placed.device).with_context(|| {
                    format!("cannot open {} for reading", placed.device.display())
                })?;
                self.devices.push(device);
                self.devices.len() - 1
            }
        };
        let in_file = usize::try_from(placed.in_file).unwrap_or(usize::MAX);
        let mut found = BlockContents::default();
        let see = |done: u64, bytes: &[u8]| {
            for (n, block) in bytes.chunks(BLOCK).enumerate() {
                let from = in_file.saturating_add(done as usize).saturating_add(n * BLOCK);
                found.note(
                    block,
                    written.get(from..from.saturating_add(block.len())).unwrap_or_default(),
                );
            }
        };
        self.devices[at]
            .read(placed.offset, placed.len, see)
            .with_context(|| format!("cannot read {}", placed.device.display()))?;
        content.add(&found);
        Ok(())
    }
}

/// Sleeps; fails on an interrupt.
fn wait(duration: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + duration;
    loop {
        interrupt::check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// A random seed, so that no earlier run has left the same content on the drive.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
