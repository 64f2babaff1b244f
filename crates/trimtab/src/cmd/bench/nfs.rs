//! `trimtab bench nfs [TARGET]`.

use crate::cmd::options::{SafetyArgs, count, number};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;

/// Run the NFSv3 operation mix of SPECsfs2008 at ten loads: an emulation, not SPEC's
/// benchmark.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every operation does the work of an NFS server: look up the name, act, make it durable, reply. \
The report gives response times at equally spaced loads up to the peak, and the overall \
response time (ORT). docs/method/nfs.md describes the emulation. The figures compare drives, \
filesystems and trim policies with each other, not with published SPECsfs results.

Examples:
  trimtab bench nfs /mnt/ssd
  trimtab bench nfs --peak 2000 --seconds 30 --repeats 3 /mnt/ssd
  trimtab bench nfs --files 2000 --points 5 --seconds 2 --warm-up 1 .")]
pub struct BenchNfsArgs {
    /// Measure on this directory, or on 'null:' for the tool's own cost.
    #[arg(default_value = ".")]
    pub target: String,
    /// Highest load, in operations a second over all streams [default: the rate of a
    /// trial at full speed].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub peak: Option<f64>,
    /// Measure at N loads, equally spaced up to the highest.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count(1..=100))]
    pub points: u32,
    /// Measure for N seconds at each load.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count(1..=86_400))]
    pub seconds: u32,
    /// Warm up for N seconds before each measurement.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(0..=86_400))]
    pub warm_up: u32,
    /// Repeat all loads N times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count(1..=1000))]
    pub repeats: u32,
    /// Run N streams at once, each with its own files.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1..=256))]
    pub streams: u32,
    /// Use N file names over all streams; 60 % of them exist at a time, 27 kB each on
    /// average.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count(1..=50_000_000))]
    pub files: u32,
    /// Write at most this much; a run that would write more is refused or ended.
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub written: Bytes,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Seed of files, operations and arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.001..=1e9, "operations a second, such as 2000")
}
