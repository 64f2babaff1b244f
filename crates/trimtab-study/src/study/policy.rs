//! Names of policies in runs.

/// Nothing changed; what that means is in the run's policy settings.
pub const AS_MOUNTED: &str = "as-mounted";
/// No trimming while files go.
pub const NONE: &str = "none";
/// The filesystem discards what it frees, as it frees it.
pub const ONLINE: &str = "online";
/// One trim of the whole filesystem after the files are gone.
pub const BATCHED: &str = "batched";
/// One trim when enough has been written.
pub const ADAPTIVE: &str = "adaptive";
/// Small pieces in idle time.
pub const IDLE: &str = "idle";
/// Key of the policy setting that says how the filesystem discards: `nodiscard`, `discard`, `discard=async`.
pub const DISCARD: &str = "discard";
