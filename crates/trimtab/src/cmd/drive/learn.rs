//! `trimtab drive learn`.

use crate::cmd::options::{DestroyArgs, SafetyArgs};
use crate::twin::learn::limit::WriteLimit;
use crate::twin::learn::{self, TwinLearnRequest};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::Nanos;
use trimtab_linux::output::Context;
use trimtab_study::learn::Budget;

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
    pub(super) target: String,
    /// Probe to this extent.
    #[arg(long, value_enum, default_value_t = BudgetArg::Small)]
    budget: BudgetArg,
    /// Write at most this much: a size, or a share of the drive such as 1% [default: 1 % of the
    /// drive, at most 4 GB; with --budget full also two and a half times the free space].
    #[arg(long, value_name = "SIZE|SHARE")]
    write_limit: Option<WriteLimit>,
    /// Leave a real drive idle this long before it is read.
    #[arg(long, value_name = "TIME", default_value = "8s")]
    rest: Nanos,
    /// Start no further round on a real drive after this time. The search for matching drives
    /// follows, and takes a minute or two.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: Nanos,
    /// Write the twin to this file [default: NAME.toml in the directory 'twins' next to the store
    /// of results, where 'drive list' and 'study' find it].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Continue an interrupted run of the same command. Finished rounds are not repeated, nor,
    /// with --budget full, finished overwrites of the drive.
    #[arg(long)]
    resume: bool,
    /// Seed of addresses and of the ensemble.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BudgetArg {
    /// Write nothing: read existing data.
    Reads,
    /// Write little, and trim only blocks that the probes wrote.
    Small,
    /// Do the same, then overwrite all free space: measures the SLC cache, the rate behind it,
    /// recovery, and start and cost of garbage collection.
    Full,
}

pub fn run(args: DriveLearnArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let request = TwinLearnRequest {
        target: args.target,
        budget: match args.budget {
            BudgetArg::Reads => Budget::Reads,
            BudgetArg::Small => Budget::Small,
            BudgetArg::Full => Budget::Full,
        },
        write_limit: args.write_limit,
        rest: args.rest,
        time: args.time,
        output: args.output,
        replace: args.force,
        resume: args.resume,
        seed: args.seed,
        reserve: args.safety.reserve,
        destroy: args.destroy.named(),
    };
    learn::run(&request, context)
}
