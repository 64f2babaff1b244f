//! `trimtab bench postmark [TARGET]`.

use crate::cmd::options::{FSYNC, ModelArgs, SafetyArgs, count, number, one_of};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::target::dir::Fsync;
use trimtab_sim::workload::postmark::PostmarkSettings;

/// Run PostMark's operations with ordinary options: create, read, append to and delete
/// many small files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options this is the configuration of the published results: 10,000 files of 500 to \
100,000 bytes, 20,000 transactions, calls of 4 KiB, seed 42. Every operation and byte is \
PostMark's; 'trimtab postmark' speaks its command language.

Examples:
  trimtab bench postmark /mnt/ssd
  trimtab bench postmark --fsync close /mnt/ssd
  trimtab bench postmark --rate 2000 --tries 1 /mnt/ssd      latency at 2000 transactions a second
  trimtab bench postmark null:                               what the tool itself costs")]
pub struct BenchPostmarkArgs {
    /// Measure on a directory, on a modelled drive (drive:NAME), or on 'null:' for the
    /// tool's own cost.
    #[arg(default_value = ".")]
    pub target: String,
    /// Repeat N times; every repeat does the same.
    #[arg(long, default_value_t = 3, value_parser = count(1..=10_000))]
    pub tries: u32,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Make written files durable: never, or before closing each one.
    #[arg(long, default_value = "never", value_parser = one_of(FSYNC))]
    pub fsync: Fsync,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
}

/// Workload options.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// Create files of at least LOW and less than HIGH bytes, which grow up to HIGH.
    #[arg(long, value_name = "LOW:HIGH", default_value = "500:100000", value_parser = sizes)]
    pub size: (u32, u32),
    /// Create N files at the start.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub number: u32,
    /// Run N transactions: each reads or appends, then creates or deletes.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub transactions: u32,
    /// Seed of sizes and operations.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u32,
    /// Spread the files over N subdirectories.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub subdirectories: u32,
    /// Start at most N transactions a second. Latency then counts from the due time of a
    /// transaction.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
}

impl WorkloadArgs {
    /// The settings that these arguments describe.
    pub fn settings(&self) -> PostmarkSettings {
        PostmarkSettings {
            size_low: self.size.0,
            size_high: self.size.1,
            number: self.number,
            transactions: self.transactions,
            seed: self.seed,
            subdirectories: self.subdirectories,
            interval: self.rate.map(|rate| Nanos(((1e9 / rate).round() as u64).max(1))),
            ..PostmarkSettings::published()
        }
    }
}

/// Transactions per second.
fn rate(text: &str) -> Result<f64, String> {
    number(text, 1e-6..=1e9, "transactions a second, from 0.000001 to 1000000000")
}

fn sizes(text: &str) -> Result<(u32, u32), String> {
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    Ok((bytes(low)?, bytes(high)?))
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    u32::try_from(bytes.0).map_err(|_| format!("{text} is more than 4 GiB"))
}
