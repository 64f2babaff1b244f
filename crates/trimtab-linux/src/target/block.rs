//! Files and block devices as block targets: direct I/O through io_uring or threads.

pub mod device;
mod open;
pub mod purge;
mod signature;

use super::null::{since, sleep_until};
use crate::sys::content;
use crate::sys::descriptor;
use crate::sys::fiemap;
use crate::sys::transfer::{Transfer, TransferAction, Transfers};
use std::time::{Duration, Instant};
use trimtab_drive::data::content::ContentGenerator;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent, Ranges};
use trimtab_sim::run::{TargetKind, Warning};
use trimtab_sim::target::{
    BlockCompletion, BlockInfo, BlockTarget, Clock, PacedTarget, TargetError, TargetResult,
};

/// Maximum number of operations submitted with one call. Single submissions cost one call
/// each; submitting all at once leaves an idle drive waiting while the data of the later
/// ones is generated (measured: 10 % of the IOPS of a virtio disk at depth 32).
const SUBMIT_BATCH: usize = 4;

/// The I/O engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring, or threads if it is unavailable. A lone operation uses a blocking call
    /// where the filesystem would hand it to a thread anyway.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Threads with blocking calls.
    Threads,
}

/// Options for a block target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Maximum number of operations in flight.
    pub queue_depth_max: u32,
    /// Maximum number of bytes in flight, for the deepest or largest phase of a workload.
    pub bytes_in_flight_max: u64,
    /// Seed of the data written.
    pub seed: u64,
    /// The I/O engine.
    pub engine: EngineChoice,
    /// Bypass the page cache; a file that cannot uses the page cache, with a warning.
    pub direct: bool,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            queue_depth_max: 32,
            bytes_in_flight_max: 32 << 20,
            seed: 0,
            engine: EngineChoice::Auto,
            direct: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trims {
    /// Queued in the engine.
    Queued(TransferAction),
    /// One at a time, with a blocking call.
    Blocking,
    /// Not supported.
    Unsupported,
}

#[derive(Clone, Copy, Debug)]
struct TransferSlot {
    op: Command<'static>,
    issued: Nanos,
    submitted: Nanos,
}

impl TransferSlot {
    /// The completion for a system call's `result`: bytes, 0, or a negative error number.
    #[inline]
    fn complete(&self, tag: u32, completed: Nanos, result: i32) -> BlockCompletion {
        let Self { op, issued, submitted } = *self;
        let whole = match op {
            Command::Read(extent) | Command::Write(extent, _) => {
                i64::from(result) == extent.len as i64
            }
            Command::Trim(_) | Command::Flush => result == 0,
        };
        let result = if whole { Ok(()) } else { Err(Box::new(unexplained(result))) };
        BlockCompletion { tag, issued, submitted, completed, result }
    }
}

/// A file or a block device as a block target.
pub struct BlockFile {
    transfers: Transfers,
    label: String,
    kind: TargetKind,
    info: BlockInfo,
    started: Instant,
    content: ContentGenerator,
    sequence: u64,
    trims: Trims,
    slots: Vec<TransferSlot>,
    /// Tags handed to the engine that it has not submitted to the kernel yet.
    queued: Vec<u32>,
    in_flight: u32,
    /// Lone operations use a blocking call. Set where every operation would go through a
    /// thread (of our own engine, or of io_uring on a filesystem that always blocks, such
    /// as tmpfs), which costs many times the operation.
    lone_calls: bool,
    /// A lone operation that has not been submitted yet.
    lone: Option<Transfer>,
    /// Completions collected before the caller asked for them.
    early: Vec<BlockCompletion>,
    warnings: Vec<Warning>,
}

impl std::fmt::Debug for BlockFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockFile")
            .field("label", &self.label)
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl BlockFile {
    /// A file or a block device.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Conditions that may distort figures taken here: no io_uring, no direct I/O …
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Name of the engine, for the settings.
    pub fn engine(&self) -> &'static str {
        if self.transfers.is_ring() { "io_uring" } else { "threads" }
    }

    /// The extents of the file in the address space of its filesystem.
    pub fn extents(&self) -> std::io::Result<Vec<fiemap::FileExtent>> {
        Ok(fiemap::of_file(self.transfers.file())?)
    }

    /// Compressed size as a fraction of the original (deflate, level 1), for a sample of
    /// `size` bytes read in 1 MiB pieces spread evenly over the first `span` bytes and
    /// compressed together. Near 1 for incompressible data; can exceed 1 by the
    /// compressor's own overhead.
    pub fn compressed_share(&mut self, span: Bytes, size: Bytes) -> anyhow::Result<f64> {
        open::compressed_share(self.transfers.file(), &self.label, span, size)
    }

    #[cold]
    fn error(&self, op: &Command<'_>, errno: i32) -> TargetError {
        self.failed(op, std::io::Error::from_raw_os_error(errno).to_string(), Some(errno))
    }

    #[cold]
    fn failed(&self, op: &Command<'_>, reason: String, errno: Option<i32>) -> TargetError {
        let label = &self.label;
        let object = op.extent().map_or_else(
            || label.clone(),
            |extent| format!("{} bytes at {} of {label}", op.bytes(), extent.offset),
        );
        TargetError::new(op.kind().name(), object, reason, errno)
    }

    #[cold]
    fn engine_error(&self, error: &std::io::Error) -> TargetError {
        TargetError::new(
            "drive",
            format!("io_uring on {}", self.label),
            error.to_string(),
            error.raw_os_error(),
        )
    }

    #[inline]
    fn check(&self, op: &Command<'_>) -> TargetResult {
        let Some(Extent { offset, len }) = op.extent() else { return Ok(()) };
        let mask = u64::from(self.info.block_size - 1);
        let end = offset.checked_add(len);
        if (offset | len) & mask == 0 && len > 0 && end.is_some_and(|end| end <= self.info.size.0) {
            return Ok(());
        }
        Err(self.misplaced(op))
    }

    #[cold]
    fn misplaced(&self, op: &Command<'_>) -> TargetError {
        let BlockInfo { block_size, size, .. } = self.info;
        self.failed(
            op,
            format!(
                "the range is not in whole blocks of {block_size} bytes within {} bytes",
                size.0
            ),
            None,
        )
    }

    /// Reserves `len` bytes of memory for `tag`. If the layout of the pool has to change,
    /// waits until everything in flight has completed.
    #[inline]
    fn place(&mut self, tag: u32, op: &Command<'_>) -> TargetResult {
        if self.transfers.fits(tag, op.bytes() as usize) { Ok(()) } else { self.relayout(tag, op) }
    }

    #[cold]
    fn relayout(&mut self, tag: u32, op: &Command<'_>) -> TargetResult {
        let mut early = std::mem::take(&mut self.early);
        let drained = self.take(self.in_flight, &mut early);
        self.early = early;
        drained?;
        self.transfers.lay_out(op.bytes() as usize);
        if self.transfers.fits(tag, op.bytes() as usize) {
            return Ok(());
        }
        let memory = self.transfers.memory_bytes();
        Err(self.failed(
            op,
            format!(
                "with {} in flight, that exceeds the {memory} bytes of memory reserved",
                tag + 1
            ),
            None,
        ))
    }

    #[inline]
    fn submit_queued(&mut self) -> TargetResult {
        if let Some(lone) = self.lone.take() {
            self.push(&lone);
        }
        if self.queued.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.transfers.submit() {
            return Err(self.engine_error(&error));
        }
        let submitted = since(self.started);
        for tag in self.queued.drain(..) {
            self.slots[tag as usize].submitted = submitted;
        }
        Ok(())
    }

    /// Submits the queue, waits for at least `min` completions and collects all of them.
    #[inline]
    fn take(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let mut missing = min.min(self.in_flight);
        if missing > 0
            && let Some(lone) = self.lone.take()
        {
            return self.call(&lone, done);
        }
        self.submit_queued()?;
        loop {
            let before = done.len();
            self.take_completed(missing, done)?;
            missing = missing.saturating_sub((done.len() - before) as u32);
            if missing == 0 {
                return Ok(());
            }
        }
    }

    #[inline]
    fn take_completed(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        if let Err(error) = self.transfers.wait(min as usize) {
            return Err(self.engine_error(&error));
        }
        let completed = since(self.started);
        let from = done.len();
        let slots = &self.slots;
        let mut unhappy = false;
        self.transfers.take(|tag: u32, result: i32| {
            let completion = slots[tag as usize].complete(tag, completed, result);
            unhappy |= completion.result.is_err();
            done.push(completion);
        });
        self.in_flight -= (done.len() - from) as u32;
        if unhappy {
            self.inspect(&mut done[from..]);
        }
        Ok(())
    }

    /// Runs a lone operation with a blocking call.
    #[inline]
    fn call(&mut self, request: &Transfer, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let result = self.transfers.call(request);
        let completion =
            self.slots[request.tag as usize].complete(request.tag, since(self.started), result);
        let unhappy = completion.result.is_err();
        done.push(completion);
        self.in_flight = 0;
        if unhappy {
            let last = done.len() - 1;
            self.inspect(&mut done[last..]);
        }
        Ok(())
    }

    #[cold]
    fn inspect(&mut self, done: &mut [BlockCompletion]) {
        for completion in done {
            let op = self.slots[completion.tag as usize].op;
            if let Err(error) = &completion.result {
                let result = error.errno;
                completion.result = self.explain(&op, result).map_err(Box::new);
                // A trim may have been repeated with a blocking call.
                completion.completed = since(self.started);
            }
        }
    }

    /// The error of an operation whose system call returned `result` (negative error
    /// number, or bytes); `None` if that is unknown.
    fn explain(&mut self, op: &Command<'_>, result: Option<i32>) -> TargetResult {
        let result = result.unwrap_or(-libc::EIO);
        if result >= 0 {
            return Err(self.failed(
                op,
                format!("only {result} bytes were transferred; was the file truncated?"),
                None,
            ));
        }
        let unknown_command = matches!(-result, libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY);
        if let Command::Trim(Ranges::One(Extent { offset, len })) = *op
            && unknown_command
            && self.trims == Trims::Queued(TransferAction::Discard)
            && self.transfers.is_ring()
        {
            self.trims = Trims::Blocking;
            self.warnings.push(open::blocking_trims());
            return self.trim_now(op, offset, len);
        }
        Err(self.error(op, -result))
    }

    fn trim_now(&self, op: &Command<'_>, offset: u64, len: u64) -> TargetResult {
        descriptor::discard(self.transfers.file(), offset, len)
            .map_err(|error| self.error(op, error.raw_os_error().unwrap_or(libc::EIO)))
    }

    #[inline]
    fn hand_over(&mut self, request: &Transfer) -> TargetResult {
        self.in_flight += 1;
        if self.lone_calls && self.in_flight == 1 {
            self.lone = Some(*request);
            return Ok(());
        }
        if let Some(lone) = self.lone.take() {
            self.push(&lone);
        }
        self.push(request);
        if self.queued.len() >= SUBMIT_BATCH { self.submit_queued() } else { Ok(()) }
    }

    #[inline]
    fn push(&mut self, request: &Transfer) {
        self.transfers.push(request);
        self.queued.push(request.tag);
    }

    fn submit_trim(
        &mut self,
        tag: u32,
        op: Command<'static>,
        offset: u64,
        len: u64,
    ) -> TargetResult {
        let action = match self.trims {
            Trims::Queued(action) => action,
            Trims::Blocking => {
                let issued = since(self.started);
                let result = self.trim_now(&op, offset, len).map_err(Box::new);
                let completed = since(self.started);
                self.early.push(BlockCompletion {
                    tag,
                    issued,
                    submitted: issued,
                    completed,
                    result,
                });
                return Ok(());
            }
            Trims::Unsupported => return Err(self.error(&op, libc::EOPNOTSUPP)),
        };
        let issued = since(self.started);
        self.slots[tag as usize] = TransferSlot { op, issued, submitted: issued };
        self.hand_over(&Transfer { tag, action, offset, len })
    }
}

/// Carries a failed result to [`BlockFile::explain`].
#[cold]
fn unexplained(result: i32) -> TargetError {
    TargetError::new("", "", "", Some(result))
}

impl Clock for BlockFile {
    #[inline]
    fn now(&mut self) -> Nanos {
        since(self.started)
    }

    fn idle_until(&mut self, instant: Nanos) {
        sleep_until(self.started, instant);
    }
}

impl BlockTarget for BlockFile {
    fn info(&self) -> &BlockInfo {
        &self.info
    }

    #[inline]
    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
        self.check(&op)?;
        let (action, offset, len) = match op {
            Command::Read(Extent { offset, len }) => {
                self.place(tag, &op)?;
                (TransferAction::Read, offset, len)
            }
            Command::Write(Extent { offset, len }, class) => {
                self.place(tag, &op)?;
                self.sequence = self.sequence.wrapping_add(1);
                let buffer = self.transfers.bytes(tag, len as usize);
                content::fill(&self.content, class, offset, self.sequence, buffer);
                (TransferAction::Write, offset, len)
            }
            Command::Trim(ranges) => {
                // A block device takes one range per request.
                let &[Extent { offset, len }] = &*ranges else { return Err(self.misplaced(&op)) };
                return self.submit_trim(tag, op, offset, len);
            }
            Command::Flush => (TransferAction::Flush, 0, 0),
        };
        // Taken after the data has been generated, which is not the drive's time.
        let issued = since(self.started);
        self.slots[tag as usize] = TransferSlot { op, issued, submitted: issued };
        self.hand_over(&Transfer { tag, action, offset, len })
    }

    #[inline]
    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let early = self.early.len() as u32;
        done.append(&mut self.early);
        self.take(min.saturating_sub(early), done)
    }
}

impl PacedTarget for BlockFile {
    /// A lone operation that needs a blocking call may exceed `instant`.
    fn reap_until(&mut self, instant: Nanos, done: &mut Vec<BlockCompletion>) -> TargetResult {
        if !self.early.is_empty() {
            return self.reap(0, done);
        }
        if let Some(lone) = self.lone.take() {
            return self.call(&lone, done);
        }
        self.submit_queued()?;
        if let Err(error) =
            self.transfers.wait_until(self.started + Duration::from_nanos(instant.0))
        {
            return Err(self.engine_error(&error));
        }
        self.take_completed(0, done)
    }
}

#[cfg(test)]
mod tests;
