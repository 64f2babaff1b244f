//! Names of metrics and series. Stored runs contain them, so they never change.

/// Duration of the deletion in seconds.
pub const DELETE_SECONDS: &str = "delete.seconds";
/// Bytes discarded over bytes freed.
pub const DISCARD_AMPLIFICATION: &str = "discard.amplification";
/// Bytes of discards counted by the device.
pub const DISCARD_BYTES: &str = "discard.bytes";
/// Discards counted by the device.
pub const DISCARD_COMMANDS: &str = "discard.commands";
/// Host writes in bytes that the erase limit allows at the write amplification of the
/// last quarter of writes (TBW).
pub const ENDURANCE_WRITTEN: &str = "endurance.written";
/// Host writes in bytes until the first superblock of the drive retired.
pub const FIRST_RETIRED_WRITTEN: &str = "first-retired.written";
/// Longest operation in each interval, nanoseconds.
pub const LATENCY_MAX: &str = "latency.max";
/// Mean duration of operations in each interval, nanoseconds.
pub const LATENCY_MEAN: &str = "latency.mean";
/// Operations per second.
pub const OPS_RATE: &str = "ops.rate";
/// Best pass of a test in MB/s.
pub const RATE_MAX: &str = "rate.max";
/// Read rate in MB/s.
pub const READ_RATE: &str = "read.rate";
/// Time spent in trims in seconds.
pub const TRIM_SECONDS: &str = "trim.seconds";
/// Write amplification: medium writes over host writes.
pub const WAF: &str = "waf";
/// Write amplification over the last quarter of writes.
pub const WAF_LAST_QUARTER: &str = "waf.last-quarter";
/// Host writes in bytes until the drive was worn out: its endurance (TBW).
pub const WORN_OUT_WRITTEN: &str = "worn-out.written";
/// Write rate in MB/s.
pub const WRITE_RATE: &str = "write.rate";
/// Steady write rate in MB/s.
pub const WRITE_RATE_STEADY: &str = "write.rate.steady";
