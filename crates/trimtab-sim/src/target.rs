//! Targets execute operations and own the clock: the monotonic clock on real targets,
//! virtual time on modelled ones. The calling code is the same for both.

pub mod drive;

use crate::op::{FileOp, NfsOp, Payload};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::Command;
use trimtab_drive::data::DataClass;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};

/// Failure of an operation, with the operating system's error number if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} {object}: {reason}")]
pub struct TargetError {
    /// Attempted action: `create`, `write`, `trim` …
    pub action: &'static str,
    /// Object of the action: a path, a range.
    pub object: String,
    /// Reason, in words.
    pub reason: String,
    /// Error number of the operating system.
    pub errno: Option<i32>,
}

impl TargetError {
    /// Failure of `action` on `object`.
    pub fn new(
        action: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
        errno: Option<i32>,
    ) -> Self {
        Self { action, object: object.into(), reason: reason.into(), errno }
    }
}

/// Result of a target's operation.
pub type TargetResult<T = ()> = Result<T, TargetError>;

/// A clock that can be waited on.
pub trait Clock {
    /// Time since the target was opened.
    fn now(&mut self) -> Nanos;

    /// Idles until `instant`; returns at once if it has passed.
    fn idle_until(&mut self, instant: Nanos);
}

/// Executes file operations inside its own directory. Calls block until done.
pub trait FileTarget: Clock {
    /// Executes `op`. Writing or reading less than asked is an error.
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult;

    /// Creates a directory.
    fn make_dir(&mut self, path: &str) -> TargetResult {
        self.execute(&FileOp::MakeDir(path))
    }

    /// Removes an empty directory.
    fn remove_dir(&mut self, path: &str) -> TargetResult {
        self.execute(&FileOp::RemoveDir(path))
    }

    /// Creates a file and writes the whole `payload`.
    fn create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.execute(&FileOp::Create(path, *payload))
    }

    /// Appends the whole `payload`.
    fn append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.execute(&FileOp::Append(path, *payload))
    }

    /// Reads the first `len` bytes.
    fn read(&mut self, path: &str, len: u64) -> TargetResult {
        self.execute(&FileOp::Read(path, len))
    }

    /// Removes a file.
    fn delete(&mut self, path: &str) -> TargetResult {
        self.execute(&FileOp::Delete(path))
    }

    /// Makes all data on the filesystem durable.
    fn sync(&mut self) -> TargetResult {
        self.execute(&FileOp::Sync)
    }
}

/// Operations of an NFS server beyond [`FileTarget`]. Changes are durable on return.
pub trait NfsTarget: FileTarget {
    /// Creates a symbolic link to `to`. Not durable: for preparation.
    fn symlink(&mut self, path: &str, to: &str) -> TargetResult;
    /// Executes `op`; what it writes is of class `data`. A short read is an error.
    fn serve(&mut self, op: &NfsOp<'_>, data: DataClass) -> TargetResult;
}

/// Properties of a block target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Usable size.
    pub size: Bytes,
    /// Offsets and lengths are multiples of this.
    pub block_size: u32,
    /// Maximum number of operations in flight.
    pub queue_depth_max: u32,
    /// True if `Trim` is supported.
    pub trim: bool,
}

/// A completed operation.
#[derive(Clone, Debug)]
pub struct BlockCompletion {
    /// Tag given at submission.
    pub tag: u32,
    /// Time of issue, taken before submission.
    pub issued: Nanos,
    /// End of the submission call.
    pub submitted: Nanos,
    /// Time at which the completion was observed.
    pub completed: Nanos,
    /// Result. Boxed, because completions are moved several times and errors are rare.
    pub result: Result<(), Box<TargetError>>,
}

/// Executes block operations, up to `queue_depth_max` in flight.
pub trait BlockTarget: Clock {
    /// Properties of the target.
    fn info(&self) -> &BlockInfo;

    /// Starts `op`. `tag` is below `queue_depth_max` and not in flight. The target may
    /// batch submissions until the next [`reap`](Self::reap).
    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult;

    /// Announces an `op` to be submitted soon, so that a simulator can prefetch. No side
    /// effects.
    fn expect(&self, _op: &Command<'static>) {}

    /// Waits for at least `min` completions since the last call; appends all to `done`.
    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult;
}

/// A block target that can wait for a time and for completions together.
pub trait PacedTarget: BlockTarget {
    /// Waits for one completion, but not beyond `instant`; appends all to `done`. Only
    /// called with operations in flight.
    fn reap_until(&mut self, instant: Nanos, done: &mut Vec<BlockCompletion>) -> TargetResult;
}

/// A file target with full-filesystem trim and a device that counts discards.
pub trait TrimTarget: FileTarget {
    /// Trims all free space; the caller excludes concurrent trims. Returns the result and
    /// the time that discards continued in the background afterwards.
    fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)>;

    /// Discards since the last call (or since opening); `None` if not counted.
    fn take_discards(&mut self) -> Option<Amount>;

    /// Waits for background discards to end; returns their remaining duration.
    fn wait_for_discards(&mut self) -> Nanos;
}

/// A range of a filesystem that one request can trim, in the filesystem's address space
/// (ext4 and XFS: bytes of the device; btrfs: logical addresses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrimWindow {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// Result of one trim request; facts only, no estimates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimOutcome {
    /// Length of the request.
    pub asked: Bytes,
    /// Value returned by the filesystem. Its meaning varies and it proves nothing.
    pub returned: Bytes,
    /// Discards counted by the device during the request.
    pub counted: Option<Amount>,
    /// Duration.
    pub took: Nanos,
}
