//! `trimtab drive check`.

use crate::cmd::options::{DestroyArgs, SafetyArgs};
use std::path::PathBuf;
use trimtab_drive::units::Nanos;

/// Default number of drives of the ensemble to use.
pub const MEMBERS: u32 = 64;

/// Arguments of `trimtab drive check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The workloads: 4 KiB reads and writes, mixed 7 to 3, with 1, 4 and 32 in flight; random writes until their rate is steady; TRIMs of many sizes \
with concurrent reads; unpacking and deleting a tree, and PostMark, on ext4. No probe runs any of them. The predictions are written to a file \
before any measurement, and their SHA-256 is printed, as sha256sum shows it. Both drives are modelled at 1 GiB with the same proportions, in virtual time.
On a real drive: reads of 4 and 32 KiB, and with a directory or --destroy mixed reads and writes, on 32 MiB, three times.
The exit status is 0 whether or not the predictions hold; with --json, 'held' and 'figures' count them.

Examples:
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive check ./twin.toml drive:sata-tlc-500gb
  trimtab drive check ./twin.toml /mnt/ssd")]
pub struct DriveCheckArgs {
    /// The file of a twin, as written by 'drive learn'.
    pub twin: String,
    /// The drive of the twin: a directory or a large file on it (only read), the device
    /// itself, or a model (drive:NAME, drive:FILE.toml).
    pub target: String,
    /// Write the predictions to this file; a number is added if it exists [default:
    /// NAME-predictions.json].
    #[arg(long, value_name = "FILE")]
    pub predictions: Option<PathBuf>,
    /// Use the first N drives of the ensemble; fewer are quicker and give a rougher
    /// interval.
    #[arg(
        long, default_value_t = MEMBERS, value_name = "N",
        value_parser = clap::value_parser!(u32).range(2..=4096)
    )]
    pub members: u32,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub seed: u64,
    /// Leave a real drive idle this long before each workload.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub rest: Nanos,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}
