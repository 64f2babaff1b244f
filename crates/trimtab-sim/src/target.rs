//! What executes operations, and owns the clock.
//!
//! A real target uses the monotonic clock, a modelled one virtual time; the code that drives them is the same.

pub mod drive;

use crate::op::Payload;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::Command;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};

/// Why a target could not do an operation. Carries the operating system's error number where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} {object}: {reason}")]
pub struct TargetError {
    /// What was tried: `create`, `write`, `trim` …
    pub action: &'static str,
    /// On what: a path, a range.
    pub object: String,
    /// Why not, in words.
    pub reason: String,
    /// The error number, if the operating system gave one.
    pub errno: Option<i32>,
}

/// Result of a target's operation.
pub type TargetResult<T = ()> = Result<T, TargetError>;

/// A clock that can be waited on.
pub trait Clock {
    /// Time since the target was opened.
    fn now(&mut self) -> Nanos;

    /// Lets the target be idle until `instant`; returns at once if that has passed.
    fn idle_until(&mut self, instant: Nanos);
}

/// Executes file operations inside a directory of its own. Each call returns when the operation is done.
pub trait FileTarget: Clock {
    /// Makes a directory.
    fn make_dir(&mut self, path: &str) -> TargetResult;
    /// Removes an empty directory.
    fn remove_dir(&mut self, path: &str) -> TargetResult;
    /// Creates a file and writes all of `payload`; a short write is an error.
    fn create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult;
    /// Appends all of `payload`.
    fn append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult;
    /// Reads the first `len` bytes; a short read is an error.
    fn read(&mut self, path: &str, len: u64) -> TargetResult;
    /// Removes a file.
    fn delete(&mut self, path: &str) -> TargetResult;
    /// Makes everything on the filesystem durable.
    fn sync(&mut self) -> TargetResult;
}

/// What an NFS server does to a filesystem, beyond [`FileTarget`]. What changes something is durable when it returns.
pub trait NfsTarget: FileTarget {
    /// Makes a symbolic link that leads to `to`. Not durable: for preparation.
    fn symlink(&mut self, path: &str, to: &str) -> TargetResult;
    /// Looks a name up.
    fn lookup(&mut self, path: &str) -> TargetResult;
    /// Reads the attributes of a file.
    fn getattr(&mut self, path: &str) -> TargetResult;
    /// Sets the times of a file.
    fn setattr(&mut self, path: &str) -> TargetResult;
    /// Reads the first names of a directory, as many as one reply holds; with their attributes if `plus`.
    fn readdir(&mut self, path: &str, plus: bool) -> TargetResult;
    /// Reads where a symbolic link leads.
    fn readlink(&mut self, path: &str) -> TargetResult;
    /// Checks whether a file may be read.
    fn access(&mut self, path: &str) -> TargetResult;
    /// Asks for the size and fill of the filesystem.
    fn fsstat(&mut self) -> TargetResult;
    /// Reads `len` bytes from `offset`; a short read is an error.
    fn read_at(&mut self, path: &str, offset: u64, len: u64) -> TargetResult;
    /// Writes all of `payload` at `offset`.
    fn write_at(&mut self, path: &str, offset: u64, payload: &Payload<'_>) -> TargetResult;
    /// Creates an empty file that does not exist.
    fn create_stable(&mut self, path: &str) -> TargetResult;
    /// Removes a file.
    fn remove_stable(&mut self, path: &str) -> TargetResult;
}

/// What a block target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Usable size.
    pub size: Bytes,
    /// Offsets and lengths are multiples of this.
    pub block_size: u32,
    /// The most operations that may be in flight.
    pub queue_depth_max: u32,
    /// Whether `Trim` is accepted.
    pub trim: bool,
}

/// One finished operation.
#[derive(Clone, Debug)]
pub struct BlockCompletion {
    /// The tag given at submission.
    pub tag: u32,
    /// When the operation was issued: stamped before submission.
    pub issued: Nanos,
    /// When submission had been handed over.
    pub submitted: Nanos,
    /// When it was seen to be complete.
    pub completed: Nanos,
    /// How it ended. Boxed, because a completion is moved several times and an error comes once.
    pub result: Result<(), Box<TargetError>>,
}

/// Executes block operations with up to `queue_depth_max` in flight.
pub trait BlockTarget: Clock {
    /// What the target is.
    fn info(&self) -> &BlockInfo;

    /// Starts `op`; `tag` is below `queue_depth_max` and not in flight. May be handed over together with later ones, at the latest by [`reap`](Self::reap).
    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult;

    /// `op` will be submitted soon: who simulates can fetch what it needs. Changes nothing.
    fn expect(&self, _op: &Command<'static>) {}

    /// Waits until at least `min` operations have completed since the last call, and adds all that have to `done`.
    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult;
}

/// A file target whose filesystem can be trimmed as a whole, and whose device counts discards.
pub trait Trimmable: FileTarget {
    /// Trims all free space; the caller sees to it that nobody else does. Returns what that did and for how long the device went on with it afterwards.
    fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)>;

    /// Discards since the last call (or since the target was opened); `None` if nobody counts.
    fn take_discards(&mut self) -> Option<Amount>;

    /// Waits until discards in the background have ended; for how long they went on.
    fn wait_for_discards(&mut self) -> Nanos;
}

/// A part of a filesystem that can be trimmed by one request, in the filesystem's own address space
/// (ext4 and XFS: bytes of the device; btrfs: logical addresses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrimWindow {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// What one trim request did: everything that is known, nothing that is guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimOutcome {
    /// Length of the request.
    pub asked: Bytes,
    /// What the filesystem returned; means different things per filesystem and is no proof.
    pub returned: Bytes,
    /// What the device counted meanwhile, where it counts.
    pub counted: Option<Amount>,
    /// How long it took.
    pub took: Nanos,
}
