//! Names of policies in runs.

/// The filesystem as mounted; the run's policy settings have details.
pub const AS_MOUNTED: &str = "as-mounted";
/// No trimming while files are deleted.
pub const NONE: &str = "none";
/// The filesystem discards blocks as it frees them.
pub const ONLINE: &str = "online";
/// One trim of the whole filesystem after the files are deleted.
pub const BATCHED: &str = "batched";
/// One trim after enough has been written.
pub const ADAPTIVE: &str = "adaptive";
/// Trims small pieces in idle time.
pub const IDLE: &str = "idle";
/// Setting key of the filesystem's discard mode: `nodiscard`, `discard`, `discard=async`.
pub const DISCARD: &str = "discard";
