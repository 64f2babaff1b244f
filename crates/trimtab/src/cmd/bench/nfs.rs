//! `trimtab bench nfs [TARGET]`.

use super::AgainstArgs;
use crate::bench::nfs::Request;
use crate::cmd::options::SafetyArgs;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;

/// The NFSv3 operation mix of SPECsfs2008 at ten loads: an emulation, not SPEC's benchmark.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every operation is what an NFS server would do with it: look the name up, do it, make it
durable, answer. Response times are given at equally spaced loads up to the peak, and as
the overall response time (ORT). docs/method/nfs.md says what is emulated. The figures compare
drives, filesystems and trim policies with each other, and with no published SPECsfs result.

Examples:
  trimtab bench nfs /mnt/ssd
  trimtab bench nfs --peak 2000 --seconds 30 --repeats 3 /mnt/ssd
  trimtab bench nfs --files 2000 --points 5 --seconds 2 --warm-up 1 .")]
pub struct Args {
    /// A directory on the filesystem to measure, or null: for the tool's own cost.
    #[arg(default_value = ".")]
    pub(super) target: String,
    /// Highest load, operations a second of all streams together [default: what a trial at full speed achieves].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    peak: Option<f64>,
    /// Loads, equally spaced up to the highest.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    points: u32,
    /// Measured seconds at each load.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Seconds before that which are not measured.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    warm_up: u32,
    /// Repeat all loads this often.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Streams at once, each with files of its own.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    streams: u32,
    /// File names of all streams; 60 % of them exist at a time, 27 kB each on average.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    files: u32,
    /// Write no more than this; a run that would is refused, or ended.
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    written: Bytes,
    /// What written data is like: random, zero, text or a share that compresses, such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    data: DataClass,
    /// Seed of files, operations and arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) against: AgainstArgs,
    #[command(flatten)]
    safety: SafetyArgs,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected operations a second, such as 2000".to_owned()),
    }
}

impl Args {
    /// The benchmark that these arguments ask for.
    pub fn request(self) -> Request {
        Request {
            target: self.target,
            peak: self.peak,
            points: self.points,
            seconds: self.seconds,
            warm_up: self.warm_up,
            repeats: self.repeats,
            streams: self.streams,
            files: self.files,
            written: self.written,
            data: self.data,
            seed: self.seed,
            reserve: self.safety.reserve,
        }
    }
}
