//! `trimtab bench tree [TARGET]`.

use crate::cmd::options::{ModelArgs, SafetyArgs, count};
use std::path::PathBuf;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_sim::workload::tree::DEFAULT_FILES;

/// Unpack a source tree, sync, delete it, sync; time each step.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The default tree has 36,706 files and 493 MB (10^6 bytes) in the shape of a kernel source tree; see docs/method/tree.md.

Examples:
  trimtab bench tree /mnt/ssd
  trimtab bench tree --tries 5 --tar linux-6.1.tar.xz /mnt/ssd
  trimtab bench tree --files 3670 --size 49MB .")]
pub struct BenchTreeArgs {
    /// Measure on a directory, on a modelled drive (drive:NAME), or on 'null:' for the
    /// tool's own cost.
    #[arg(default_value = ".")]
    pub target: String,
    /// Repeat N times.
    #[arg(long, default_value_t = 3, value_parser = count(1..=10_000))]
    pub tries: u32,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
}

/// Options for the source tree.
#[derive(Debug, Clone, clap::Args)]
pub struct SourceArgs {
    /// Unpack this archive (tar; plain or compressed by gzip or xz). It is read into
    /// memory first.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "size", "data"])]
    pub tar: Option<PathBuf>,
    /// Number of files in the synthetic tree.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FILES)]
    pub files: u64,
    /// Total bytes in the synthetic tree [default: 493MB, or in proportion to --files].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "68%")]
    pub data: DataClass,
    /// Seed of the tree's shape and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
