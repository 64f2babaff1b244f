//! `trimtab drive learn`.

use crate::cmd::options::{DestroyArgs, SafetyArgs};
use crate::twin::learn::limit::WriteLimit;
use crate::twin::learn::{self, Request};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::Nanos;
use trimtab_linux::output::Context;
use trimtab_study::learn::Budget;

/// Arguments of `trimtab drive learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab drive learn /mnt/ssd                                 through a file of its own there, which is removed
  trimtab drive learn --budget reads /dev/nvme0n1              reads only; as root, or whoever may read the device
  trimtab drive learn --budget reads ~/large-file
  trimtab drive learn /dev/sdb --destroy /dev/sdb              also what TRIMs cost; everything on the device is destroyed
  trimtab drive learn --budget full --yes /mnt/ssd             also its SLC cache and spare space: writes all that is free, again and again
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive show ./twin.toml
  trimtab study drive:./twin.toml

A real drive is probed in three rounds, to see how much figures scatter; what others did meanwhile is said, and such rounds are made again. Through a \
filesystem no TRIM is probed. With --budget full the free space below the reserve, or with --destroy the whole device, is written over two and a half \
times, once, in hours. A modelled drive is probed in virtual time, and nothing that its specification says is used but what any drive says of \
itself (its capacity, its queue, the limits of its TRIM); for --budget full it is made smaller, with all its shares as they are.")]
pub struct Args {
    /// A directory on the drive, a large file on it or the device itself; drive:NAME or drive:FILE.toml for a modelled drive.
    pub(super) target: String,
    /// How much is probed.
    #[arg(long, value_enum, default_value_t = BudgetArg::Small)]
    budget: BudgetArg,
    /// Most bytes that the probes write [default: 1 % of the drive, 4 GB at most; with the budget 'full' besides two and a half times what is free].
    /// A size, or a share of the drive such as 1%.
    #[arg(long, value_name = "SIZE|SHARE")]
    write_limit: Option<WriteLimit>,
    /// For how long a real drive is left alone before it is read.
    #[arg(long, value_name = "TIME", default_value = "8s")]
    rest: Nanos,
    /// Begin no further round on a real drive after this long. The search for drives that explain what was found comes after the rounds, and takes a minute
    /// or two.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: Nanos,
    /// Where the twin is written [default: NAME.toml in the directory 'twins' beside the store of results, where 'drive list' and 'study' find it].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over an older file.
    #[arg(long)]
    force: bool,
    /// Go on where the same command was interrupted or killed: rounds that were finished are not measured again, nor, with the budget 'full', what writing
    /// over the drive found, if that was finished.
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
    /// Nothing is written: reads of data that are there.
    Reads,
    /// Little is written; what is trimmed was written by the probes.
    Small,
    /// The same, and then all that is free is written over: how large an SLC cache is, how fast the drive is behind it and how it recovers, when it begins to
    /// collect, and what that costs.
    Full,
}

/// Learns the twin.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let request = Request {
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
