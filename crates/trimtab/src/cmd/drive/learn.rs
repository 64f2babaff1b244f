//! `trimtab drive learn`.

use crate::cmd::options::{
    DestroyArgs, ReadingArgs, SafetyArgs, count, one_of, percent_above_0, positive,
};
use std::path::PathBuf;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_study::learn::Budget;
use trimtab_study::learn::logs::load::Pattern;
use trimtab_study::learn::logs::repeat::Start;

const BUDGETS: &[(&str, Budget)] = &[("small", Budget::Small), ("full", Budget::Full)];

const STATES: &[(&str, Start)] = &[
    ("trimmed", Start::Empty),
    ("sequential", Start::Sequential),
    ("random", Start::Random),
    ("overwritten", Start::Overwritten),
];

/// Statement of the load in a log.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From logs (--from)")]
pub struct LoadArgs {
    /// Learn from these logs of writes, and access no drive: a CSV or Parquet file with a
    /// column time_s, bandwidth and latency logs of fio, or readings of 'smartctl --json
    /// -x'. TARGET is the drive file of the data sheet.
    #[arg(
        long, value_name = "LOG", num_args = 1.., requires = "state",
        conflicts_with_all = ["budget", "write_limit", "rest", "time", "reserve", "destroy"]
    )]
    pub from: Vec<PathBuf>,
    /// Pattern of the writes: uniform, zipf:EXPONENT, or zones:SPACE/WRITES:… in percent
    /// (zones:90/10:10/90 sends 10 % of the writes to 90 % of the space).
    #[arg(long, value_name = "PATTERN", requires = "from", value_parser = pattern)]
    pub pattern: Option<Pattern>,
    /// Take the pattern and the size of the writes from this block trace instead.
    #[arg(long, value_name = "FILE", requires = "from", conflicts_with = "pattern")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// State of the used space before the log: trimmed, sequential or random (written
    /// once, in this order), or overwritten (by the same load, for long).
    #[arg(long, requires = "from", value_parser = one_of(STATES))]
    pub state: Option<Start>,
    /// Written part of the drive in percent; the rest is trimmed.
    #[arg(
        long, value_name = "PERCENT", requires = "from", default_value = "100",
        value_parser = share
    )]
    pub used: f64,
    /// Size of a write [default: 4KiB, or the mean of the trace].
    #[arg(long, value_name = "SIZE", requires = "from")]
    pub request: Option<Bytes>,
    /// Writes in flight, of all threads together.
    #[arg(
        long, value_name = "N", requires = "from", default_value_t = 128,
        value_parser = count(1..=65_536)
    )]
    pub depth: u32,
    /// Writes per second that the load offers [default: as many as the drive takes].
    #[arg(long, value_name = "N", requires = "from", value_parser = positive)]
    pub offered: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    percent_above_0(text).map(|percent| percent / 100.0)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    const TAKES: &str = "write uniform, zipf:EXPONENT or zones:SPACE/WRITES:…";
    match text.split_once(':') {
        None if text == "uniform" => Ok(Pattern::Uniform),
        Some(("zipf", exponent)) => match exponent.parse() {
            Ok(theta) if (0.0..10.0).contains(&theta) => Ok(Pattern::Zipf(theta)),
            _ => Err("the exponent must be from 0 to below 10".to_owned()),
        },
        Some(("zones", zones)) => {
            let share = |text: &str| -> Option<f64> {
                text.parse().ok().filter(|number| (0.0..=100.0).contains(number))
            };
            let zone = |zone: &str| {
                let (space, writes) = zone.split_once('/')?;
                Some((share(space)? / 100.0, share(writes)? / 100.0))
            };
            let zones: Vec<(f64, f64)> =
                zones.split(':').map(zone).collect::<Option<_>>().ok_or(TAKES)?;
            let whole = |sum: f64| (sum - 1.0).abs() < 1e-6;
            let sum = |of: fn(&(f64, f64)) -> f64| zones.iter().map(of).sum();
            if whole(sum(|zone| zone.0)) && whole(sum(|zone| zone.1)) {
                Ok(Pattern::Zones(zones))
            } else {
                Err("space and writes of the zones must each sum to 100".to_owned())
            }
        }
        _ => Err(TAKES.to_owned()),
    }
}

/// Arguments of `trimtab drive learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab drive learn /mnt/ssd                                 probe a temporary file there
  trimtab drive learn /dev/sdb --destroy /dev/sdb              also probe the cost of TRIM; \
destroys all data on the device
  trimtab drive learn --budget full --yes /mnt/ssd             also probe SLC cache and spare \
space; fills the free space repeatedly
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive show ./twin.toml
  trimtab study drive:./twin.toml
  trimtab drive learn drive:./pm9a3.toml --from log.csv --pattern uniform --state sequential
      from logs of a run; pm9a3.toml is of 'drive from-datasheet'

A real drive is probed in three rounds to measure the scatter. Rounds disturbed by other I/O are \
reported and repeated. TRIM is not probed through a filesystem. --budget full writes two and a \
half times the free space outside the reserve (with --destroy, the whole device). It does so \
once, over hours. A modelled drive is probed in virtual time. The probes use only what any drive \
reports (its capacity, queue and TRIM limits), not its specification. For --budget full, the \
model is scaled down with the same proportions.")]
pub struct DriveLearnArgs {
    /// Probe this drive: a directory on it, the device itself, or a model (drive:NAME,
    /// drive:FILE.toml). With --from, the drive file to start from.
    pub target: String,
    /// Probe to this extent: small (write little, and trim only blocks that the probes
    /// wrote) or full (the same, then
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
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}
