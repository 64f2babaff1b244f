//! Names of metrics and series that several places make or look for. They are in stored runs: none ever changes.

/// What it took to delete, seconds.
pub const DELETE_SECONDS: &str = "delete.seconds";
/// Bytes discarded over bytes freed.
pub const DISCARD_AMPLIFICATION: &str = "discard.amplification";
/// Bytes of the discards that the device counted.
pub const DISCARD_BYTES: &str = "discard.bytes";
/// Discards that the device counted.
pub const DISCARD_COMMANDS: &str = "discard.commands";
/// Bytes that the host had written when the first superblock of the drive retired.
pub const FIRST_RETIRED_WRITTEN: &str = "first-retired.written";
/// The longest that an operation took in each interval, nanoseconds.
pub const LATENCY_MAX: &str = "latency.max";
/// What an operation took on average in each interval, nanoseconds.
pub const LATENCY_MEAN: &str = "latency.mean";
/// Operations a second.
pub const OPS_RATE: &str = "ops.rate";
/// The best pass of a test, megabytes a second.
pub const RATE_MAX: &str = "rate.max";
/// Megabytes read a second.
pub const READ_RATE: &str = "read.rate";
/// Time inside trims, seconds.
pub const TRIM_SECONDS: &str = "trim.seconds";
/// Bytes written to the medium over bytes written by the host.
pub const WAF: &str = "waf";
/// The same over the last quarter of what was written.
pub const WAF_LAST_QUARTER: &str = "waf.last-quarter";
/// Bytes that the host had written when the drive was worn out: its endurance (TBW).
pub const WORN_OUT_WRITTEN: &str = "worn-out.written";
/// Megabytes written a second.
pub const WRITE_RATE: &str = "write.rate";
/// The same in steady state.
pub const WRITE_RATE_STEADY: &str = "write.rate.steady";
