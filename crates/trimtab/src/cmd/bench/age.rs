//! `trimtab bench age [TARGET]`.

use crate::cmd::options::{ModelArgs, SafetyArgs, count};
use trimtab_drive::units::{Bytes, Nanos};

/// Fill with mixed files and delete them, round after round; measure 4 KiB random writes
/// before, after, and after a trim.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each round writes its share of --total as operating system files, games, music and videos, and \
deletes them all. A drive is worn in after several full writes, so make --total a few times its \
size. This takes hours and uses up a share of the drive's life.

Examples:
  trimtab bench age --total 1TB /mnt/ssd     ten rounds of 100 GB, as published
  trimtab bench age --total 2GB --rounds 4 .
  trimtab bench age --total 300GB --trim online drive:ocz-vertex-le-100gb    in virtual time, without wear")]
pub struct BenchAgeArgs {
    /// Measure on a directory, on a modelled drive (drive:NAME), or on 'null:' for the
    /// tool's own cost.
    #[arg(default_value = ".")]
    pub target: String,
    /// Write this many bytes, in all rounds together.
    #[arg(long, value_name = "SIZE")]
    pub total: Bytes,
    /// Fill and delete this many times.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count(1..=100_000))]
    pub rounds: u32,
    /// Size of the file for the random writes.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub test_size: Bytes,
    /// Run each of the three random-write tests this long, or until the file's size is
    /// written.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub test_time: Nanos,
    /// Keep this many random writes in flight.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count(1..=1024))]
    pub queue_depth: u32,
    /// Stay idle this long before each random-write test.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub idle: Nanos,
    /// Seed of sizes, order and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}
