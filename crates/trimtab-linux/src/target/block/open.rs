//! Opens files and devices as block targets, and samples their contents.

use super::device::Claim;
use super::{BlockFile, BlockOptions, EngineChoice, TransferSlot, Trims};
use crate::sys::pool::Pool;
use crate::sys::transfer::{TransferAction, Transfers};
use anyhow::{Context as _, bail};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{IoSliceMut, Write as _};
use std::path::Path;
use std::time::Instant;
use trimtab_drive::Command;
use trimtab_drive::data::content::ContentGenerator;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::run::{Field, Severity, TargetKind, Warning};
use trimtab_sim::target::BlockInfo;

/// Unit of direct I/O if the system does not report one: suits every drive.
const BLOCK_SIZE_DEFAULT: u32 = 4096;
/// Maximum memory in flight; more is a mistake.
const IN_FLIGHT_MAX: u64 = 1 << 30;
/// Maximum number of operations in flight: a ring has at most 32768 entries.
const QUEUE_DEPTH_MAX: u32 = 32768;

impl BlockFile {
    /// Creates `name` in `dir`, all `size` bytes allocated. Errors call the directory
    /// `path`.
    pub fn create(
        dir: impl AsFd,
        path: &Path,
        name: &str,
        size: Bytes,
        options: &BlockOptions,
    ) -> anyhow::Result<Self> {
        let label = path.join(name).display().to_string();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mut warnings = Vec::new();
        let open = |flags| rustix::fs::openat(&dir, name, flags, Mode::RUSR | Mode::WUSR);
        let file = open_direct(flags, options.direct, &mut warnings, |flags| {
            open(flags).inspect_err(|errno| {
                if *errno == Errno::INVAL {
                    // The file may have been created before direct I/O was refused.
                    let _ = rustix::fs::unlinkat(&dir, name, rustix::fs::AtFlags::empty());
                }
            })
        })
        .with_context(|| format!("cannot create {label}"))?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
            Ok(()) => {}
            // Not every filesystem can allocate; then the first write of each block does
            // it.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(&file, size.0)
                .with_context(|| format!("cannot set the size of {label} to {size}"))?,
            Err(errno) => {
                return Err(errno).with_context(|| format!("cannot reserve {size} for {label}"));
            }
        }
        let (kind, block_size) = (TargetKind::Directory, block_size(&file));
        let trims = Trims::Queued(TransferAction::PunchHole);
        Self::assemble(file, label, kind, size, block_size, trims, warnings, options)
    }

    /// Opens an existing file. With `writable`, its content is overwritten but its length
    /// stays; files of the user require a claim.
    pub fn open_file(path: &Path, writable: bool, options: &BlockOptions) -> anyhow::Result<Self> {
        let label = path.display().to_string();
        let mut warnings = Vec::new();
        let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let file = open_direct(access, options.direct, &mut warnings, |flags| {
            rustix::fs::open(path, flags, Mode::empty())
        })
        .with_context(|| format!("cannot open {label}"))?;
        let stat = rustix::fs::fstat(&file).with_context(|| format!("cannot examine {label}"))?;
        let size = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
        let (kind, block_size) = (TargetKind::File, block_size(&file));
        let trims = Trims::Queued(TransferAction::PunchHole);
        Self::assemble(file, label, kind, size, block_size, trims, warnings, options)
    }

    /// Uses a block device or file returned by [`device::claim`](super::device::claim) or
    /// [`claim_file`](super::device::claim_file).
    pub fn open_claim(claim: Claim, options: &BlockOptions) -> anyhow::Result<Self> {
        let Claim { file, label, size, device } = claim;
        let mut warnings = Vec::new();
        let flags = rustix::fs::fcntl_getfl(&file)?;
        if options.direct {
            match rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT) {
                Ok(()) => {}
                Err(Errno::INVAL) if device.is_none() => {
                    warnings.push(page_cache("the filesystem does not support direct I/O"))
                }
                Err(errno) => return Err(errno).context("cannot use direct I/O"),
            }
        } else {
            warnings.push(page_cache("as requested"));
        }
        let (kind, block_size, trims) = match device {
            Some((block_size, true)) => {
                (TargetKind::BlockDevice, block_size, Trims::Queued(TransferAction::Discard))
            }
            Some((block_size, false)) => (TargetKind::BlockDevice, block_size, Trims::Unsupported),
            None => (TargetKind::File, block_size(&file), Trims::Queued(TransferAction::PunchHole)),
        };
        Self::assemble(file, label, kind, size, block_size, trims, warnings, options)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one structure, assembled in one place"
    )]
    fn assemble(
        file: OwnedFd,
        label: String,
        kind: TargetKind,
        size: Bytes,
        block_size: u32,
        trims: Trims,
        mut warnings: Vec<Warning>,
        options: &BlockOptions,
    ) -> anyhow::Result<Self> {
        let size = Bytes(size.0 - size.0 % u64::from(block_size));
        if size == Bytes::ZERO {
            bail!("{label} has less than one block of {block_size} bytes");
        }
        let depth = options.queue_depth_max;
        if depth == 0 || depth > QUEUE_DEPTH_MAX || options.bytes_in_flight_max > IN_FLIGHT_MAX {
            bail!(
                "cannot keep {depth} operations and {} bytes in flight: at most \
                    {QUEUE_DEPTH_MAX} and 1 GiB",
                options.bytes_in_flight_max
            );
        }
        let transfers = transfers(&file, options, &mut warnings)?;
        let waits = || options.engine == EngineChoice::Auto && always_waits(&file, block_size);
        let lone_calls = !transfers.is_ring() || waits();
        if lone_calls && transfers.is_ring() {
            warnings.push(lone_calls_used());
        }
        let idle = TransferSlot { op: Command::Flush, issued: Nanos::ZERO, submitted: Nanos::ZERO };
        Ok(Self {
            transfers,
            label,
            kind,
            info: BlockInfo {
                size,
                block_size,
                queue_depth_max: depth,
                trim: trims != Trims::Unsupported,
            },
            started: Instant::now(),
            content: ContentGenerator::new(options.seed),
            sequence: 0,
            trims,
            slots: vec![idle; depth as usize],
            queued: Vec::with_capacity(depth as usize),
            in_flight: 0,
            lone_calls,
            lone: None,
            early: Vec::new(),
            warnings,
        })
    }
}

fn open_direct(
    flags: OFlags,
    direct: bool,
    warnings: &mut Vec<Warning>,
    open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    if !direct {
        warnings.push(page_cache("as requested"));
        return open(flags);
    }
    match open(flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => {
            let file = open(flags)?;
            warnings.push(page_cache("the filesystem does not support direct I/O"));
            Ok(file)
        }
        result => result,
    }
}

fn block_size(file: &OwnedFd) -> u32 {
    let reported =
        rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
            .ok()
            .filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
            .map(|stat| stat.stx_dio_offset_align);
    reported
        .filter(|align| align.is_power_of_two() && *align <= 1 << 16)
        .map_or(BLOCK_SIZE_DEFAULT, |align| align.max(512))
}

fn transfers(
    file: &OwnedFd,
    options: &BlockOptions,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Transfers> {
    let (depth, bytes) = (options.queue_depth_max, options.bytes_in_flight_max as usize);
    if options.engine != EngineChoice::Threads {
        match Transfers::ring(file, depth, bytes) {
            Ok(ring) => {
                if ring.pins_each_time() {
                    warnings.push(unregistered());
                }
                return Ok(ring);
            }
            Err(error) if options.engine == EngineChoice::Uring => {
                return Err(error).context("cannot use io_uring");
            }
            Err(error) => warnings.push(no_uring(&error)),
        }
    }
    Transfers::threads(file, depth, bytes)
        .context("cannot get memory and threads for block operations")
}

/// The filesystem always blocks on reads, so io_uring hands every operation to a kernel
/// thread (`RWF_NOWAIT` in preadv2(2)).
fn always_waits(file: &OwnedFd, block_size: u32) -> bool {
    let Ok(mut memory) = Pool::new(block_size as usize) else { return false };
    let mut block = [IoSliceMut::new(memory.bytes(0, block_size as usize))];
    rustix::io::preadv2(file, &mut block, 0, ReadWriteFlags::NOWAIT) == Err(Errno::OPNOTSUPP)
}

fn page_cache(why: &str) -> Warning {
    let text =
        format!("The page cache was used ({why}): figures measure memory as much as the drive.");
    Warning::new("target.page-cache", Severity::Serious, text)
}

fn no_uring(error: &std::io::Error) -> Warning {
    let facts = vec![Field::new("errno", error.raw_os_error().unwrap_or(0).to_string())];
    let text = format!(
        "No io_uring here ({error}): threads with blocking calls were used, which \
            cost more CPU and latency per operation."
    );
    Warning::new("target.no-io-uring", Severity::Caution, text).with(facts)
}

fn unregistered() -> Warning {
    let text = "Memory could not be registered with io_uring (the limit of locked memory, \
        ulimit -l): it was pinned again for every operation.";
    Warning::new("target.unregistered-memory", Severity::Note, text.to_owned())
}

fn lone_calls_used() -> Warning {
    let text = "This filesystem always blocks, so io_uring hands every operation to a kernel \
        thread: lone operations used blocking calls instead.";
    Warning::new("target.blocking-calls", Severity::Note, text.to_owned())
}

pub(super) fn blocking_trims() -> Warning {
    let text = "This kernel cannot discard through io_uring (Linux 6.12 can): trims were done \
        one at a time, at any queue depth.";
    Warning::new("target.blocking-trims", Severity::Caution, text.to_owned())
}

/// See [`BlockFile::compressed_share`].
pub(super) fn compressed_share(
    file: &OwnedFd,
    label: &str,
    span: Bytes,
    size: Bytes,
) -> anyhow::Result<f64> {
    const PIECE: u64 = 1 << 20;
    let mut memory = Pool::new(PIECE as usize).context("cannot get memory to read into")?;
    let whole = span.0 / PIECE;
    let pieces = (size.0 / PIECE).clamp(1, whole.max(1));
    let mut encoder = flate2::write::DeflateEncoder::new(Counter(0), flate2::Compression::fast());
    let mut taken = 0_u64;
    for piece in 0..pieces {
        let offset = whole * piece / pieces * PIECE;
        let len = PIECE.min(span.0 - offset) as usize;
        let bytes = memory.bytes(0, len);
        let read = rustix::io::pread(file, &mut *bytes, offset)
            .with_context(|| format!("cannot read {len} bytes at {offset} of {label}"))?;
        encoder.write_all(&bytes[..read]).context("cannot compress")?;
        taken += read as u64;
    }
    let Counter(compressed) = encoder.finish().context("cannot compress")?;
    Ok(if taken == 0 { 0.0 } else { compressed as f64 / taken as f64 })
}

struct Counter(u64);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
