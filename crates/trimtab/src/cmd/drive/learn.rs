//! `trimtab drive learn`.

use crate::cmd::options::{DestroyArgs, SafetyArgs, one_of};
use std::path::PathBuf;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_study::learn::Budget;

const BUDGETS: &[(&str, Budget)] =
    &[("reads", Budget::Reads), ("small", Budget::Small), ("full", Budget::Full)];

/// Arguments of `trimtab drive learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab drive learn /mnt/ssd                                 probe a temporary file there
  trimtab drive learn --budget reads /dev/nvme0n1              read only; as root, or with read permission
  trimtab drive learn --budget reads ~/large-file
  trimtab drive learn /dev/sdb --destroy /dev/sdb              also probe the cost of TRIM; destroys all data on the device
  trimtab drive learn --budget full --yes /mnt/ssd             also probe SLC cache and spare space; fills the free space repeatedly
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive show ./twin.toml
  trimtab study drive:./twin.toml

A real drive is probed in three rounds to measure the scatter. Rounds disturbed by other I/O are reported and repeated. TRIM is not probed through a \
filesystem. --budget full writes two and a half times the free space outside the reserve (with --destroy, the whole device). It does so once, over \
hours. A modelled drive is probed in virtual time. The probes use only what any drive reports (its capacity, queue and TRIM limits), not its \
specification. For --budget full, the model is scaled down with the same proportions.")]
pub struct DriveLearnArgs {
    /// Probe this drive: a directory or a large file on it, the device itself, or a model
    /// (drive:NAME, drive:FILE.toml).
    pub target: String,
    /// Probe to this extent: reads (write nothing: read existing data), small (write
    /// little, and trim only blocks that the probes wrote) or full (the same, then
    /// overwrite all free space: measures the SLC cache, the rate behind it, recovery,
    /// and start and cost of garbage collection).
    #[arg(long, default_value = "small", value_parser = one_of(BUDGETS))]
    pub budget: Budget,
    /// Write at most this much [default: 1 % of the drive, at most 4 GB; with --budget
    /// full also two and a half times the free space].
    #[arg(long, value_name = "SIZE")]
    pub write_limit: Option<Bytes>,
    /// Leave a real drive idle this long before it is read.
    #[arg(long, value_name = "TIME", default_value = "8s")]
    pub rest: Nanos,
    /// Start no further round on a real drive after this time. The search for matching
    /// drives follows, and takes a minute or two.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub time: Nanos,
    /// Write the twin to this file [default: NAME.toml in the directory 'twins' next to
    /// the store of results, where 'drive list' and 'study' find it].
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub force: bool,
    /// Seed of addresses and of the ensemble.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}
