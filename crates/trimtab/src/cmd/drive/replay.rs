//! `trimtab drive replay`.

use crate::cmd::options::{ReadingArgs, TimingArgs};
use std::path::PathBuf;
use std::str::FromStr;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::PolicySpec;

const EXAMPLES: &str = "\
Examples:
  trimtab drive replay recording --drive ocz-vertex-le-100gb
  trimtab drive replay recording --drive ocz-vertex-le-100gb --trim recorded --trim none --trim batched:every=1h --trim idle --rest 1d
  trimtab drive replay msr.csv --drive ./mine.toml --size 64GiB --volume 1 --fill 90

A trace without times, such as an fio iolog of version 2, needs --rate or --closed-loop.

The TRIMs of the trace are the host's deletes: 'none' never sends them, 'batched', 'adaptive' and 'idle' send them at their own times.
Each policy's replay is kept as a run: trimtab results compare last~1 last.";

/// Arguments of `trimtab drive replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveReplayArgs {
    /// Replay this recording of 'trimtab drive attach --record', or text trace (see
    /// --format).
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Replay on this drive: a shipped drive, or the path of a specification file.
    #[arg(long, value_name = "NAME|FILE")]
    pub drive: String,
    /// Use another capacity with the same over-provisioning.
    #[arg(long)]
    pub size: Option<Bytes>,
    /// Replay under this policy: recorded, none, online, batched, adaptive or idle, with
    /// settings as in 'batched:every=1h'. Repeat for more.
    #[arg(long = "trim", value_name = "POLICY", default_value = "recorded")]
    pub policies: Vec<TrimSource>,
    /// Write this percentage of the drive once, in order, before the replay.
    #[arg(
        long, default_value_t = 0, value_name = "PERCENT",
        value_parser = clap::value_parser!(u64).range(..=100)
    )]
    pub fill: u64,
    /// Let the drive rest this long afterwards (such as 8d), so that a policy can still
    /// act. This time is not counted.
    #[arg(long, value_name = "TIME")]
    pub rest: Option<Nanos>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) timing: TimingArgs,
    /// Seed of the drive's random behaviour.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

/// The recorded TRIMs, or a policy.
#[derive(Clone, Debug)]
pub struct TrimSource(pub Option<PolicySpec>);

impl FromStr for TrimSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "recorded" {
            return Ok(Self(None));
        }
        Ok(Self(Some(text.parse::<PolicySpec>()?)))
    }
}

impl std::fmt::Display for TrimSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(policy) => f.pad(&policy.to_string()),
            None => f.pad("recorded"),
        }
    }
}
