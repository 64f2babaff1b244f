//! `trimtab bench load TARGET`.

use crate::cmd::options::{self, DestroyArgs, count, percentage};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::simulate::Amount;
use trimtab_sim::workload::jobs::load::LoadSettings;

/// Measure latency against offered load: random operations at a sweep of rates.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A closed loop measures the highest rate. Each step then offers a percentage of it, at random \
times that do not depend on completions, and at most 1024 operations in flight. Latency counts \
from the time at which an operation was due. The knee is the lowest offered load whose p99 \
exceeds 10 times that of the lowest load; of writes if there are any. If the lowest load already \
saturates the target, the knee is there or below, with a warning. The closed loop is repeated at \
the end. If its rate has changed by more than 20 %, a warning replaces the knee. A modelled \
drive is first filled once in order.

Examples:
  trimtab bench load drive:intel-x25-m-160gb --precondition steady --time 24s
  trimtab bench load /dev/sdb --reads 100                                       reads only
  trimtab bench load /dev/sdb --destroy /dev/sdb --steps 25,50,75,100 --time 30s")]
pub struct BenchLoadArgs {
    /// Measure on a block device or a file (with --destroy), on a modelled drive
    /// (drive:NAME), or on 'null:' for the tool's own cost.
    pub target: String,
    /// Percentage of reads.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = percentage(0..=100))]
    pub reads: u8,
    /// Size of operations.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = block)]
    pub size: u32,
    /// Operations in flight of the closed loop.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count(1..=1024))]
    pub queue_depth: u32,
    /// Offer these percentages of the closed loop's rate, in ascending order.
    #[arg(
        long, value_name = "PERCENT,…", default_value = "10,20,30,40,50,60,70,80,90,100",
        value_parser = percents
    )]
    pub steps: Percents,
    /// Run the closed loop and each step this long; the first quarter is not recorded.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub time: Nanos,
    /// Write this much at random first: 100GB, or 1x the target's capacity; or 'steady':
    /// once over the target and its spare space, in an order that leaves it as endless
    /// random writes would. A device needs its spare space: steady:7%.
    #[arg(long, value_name = "AMOUNT|steady[:SPARE]", value_parser = preconditioning)]
    pub precondition: Option<LoadPreconditioning>,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Seed of addresses and times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}

/// Writes before the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPreconditioning {
    /// Random writes.
    Random(Amount),
    /// The steady state of random writes, on a target with this much spare space in
    /// percent.
    Steady(Option<f64>),
}

impl std::fmt::Display for LoadPreconditioning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random(amount) => amount.fmt(f),
            Self::Steady(None) => f.write_str("steady"),
            Self::Steady(Some(spare)) => write!(f, "steady:{spare}%"),
        }
    }
}

fn preconditioning(text: &str) -> Result<LoadPreconditioning, String> {
    match text.strip_prefix("steady") {
        None => text.parse().map(LoadPreconditioning::Random),
        Some("") => Ok(LoadPreconditioning::Steady(None)),
        Some(spare) => {
            let spare = spare.strip_prefix(':').unwrap_or(spare);
            options::percent(spare, 0.1..=400.0, "a spare space such as steady:7%")
                .map(|spare| LoadPreconditioning::Steady(Some(spare)))
        }
    }
}

/// Ascending percentages.
#[derive(Clone, Debug)]
pub struct Percents(Vec<u32>);

fn percents(text: &str) -> Result<Percents, String> {
    let percents: Option<Vec<u32>> =
        text.split(',').map(|percent| percent.trim_end_matches('%').parse().ok()).collect();
    let valid = |percents: &Vec<u32>| {
        percents.is_sorted_by(|a, b| a < b)
            && percents.iter().all(|percent| (1..=1000).contains(percent))
    };
    percents.filter(valid).map(Percents).ok_or_else(|| {
        "write ascending percentages from 1 to 1000, such as 25,50,75,100".to_owned()
    })
}

fn block(text: &str) -> Result<u32, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    u32::try_from(bytes.0)
        .ok()
        .filter(|bytes| (512..=1 << 20).contains(bytes))
        .ok_or_else(|| "write a size from 512 bytes to 1 MiB".to_owned())
}

fn time(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if time < Nanos::from_millis(10) {
        Err("write a time of at least 10ms".to_owned())
    } else {
        Ok(time)
    }
}

impl BenchLoadArgs {
    /// The load that these arguments describe.
    pub fn settings(&self) -> LoadSettings {
        LoadSettings {
            read_percent: self.reads,
            block: self.size,
            depth: self.queue_depth,
            percents: self.steps.0.clone(),
            time: self.time,
        }
    }
}
