//! `trimtab drive check`.

use crate::cmd::options::{DestroyArgs, SafetyArgs};
use crate::twin::check::{self, MEMBERS, Request};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::Nanos;
use trimtab_linux::output::Context;

/// Arguments of `trimtab drive check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The workloads: reads and writes of 4 KiB, mixed 7 to 3, with 1, 4 and 32 in flight; random writes until they stay as fast as they are; TRIMs of many sizes \
with a read beside them; a tree that is unpacked and deleted, and PostMark, on ext4. No probe runs any of them. The predictions are written to a file before \
anything is measured, and its SHA-256 is printed, as sha256sum shows it. Both drives are tried at 1 GiB of the same proportions, in virtual time.
On a real drive: reads of 4 and 32 KiB, and with a directory or --destroy mixed reads and writes, on 32 MiB, three times.
The exit status is 0 whether intervals hold or not; with --json, 'held' and 'figures' say how many do.

Examples:
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive check ./twin.toml drive:sata-tlc-500gb
  trimtab drive check ./twin.toml /mnt/ssd")]
pub struct Args {
    /// The file of a twin, as 'drive learn' writes it.
    twin: String,
    /// The drive that it is a twin of: a directory on it, a large file on it that is only read, or the device itself; drive:NAME or drive:FILE.toml.
    pub(super) target: String,
    /// Where to store the predictions; a number is added if the file exists [default: NAME-predictions.json].
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    /// How many drives of the ensemble are tried, the first of them; fewer are quicker and give a rougher interval.
    #[arg(long, default_value_t = MEMBERS, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    members: u32,
    /// Of a modelled drive, months of file churn too: at 60 % and 90 % full, under five policies. Takes minutes; --members 8 makes it shorter.
    #[arg(long)]
    churn: bool,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 5, value_name = "N")]
    seed: u64,
    /// How long to leave a real drive alone before each workload.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    rest: Nanos,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
}

/// Checks the twin.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let request = Request {
        twin: args.twin,
        target: args.target,
        predictions: args.predictions,
        members: args.members,
        churn: args.churn,
        seed: args.seed,
        rest: args.rest,
        reserve: args.safety.reserve,
        destroy: args.destroy.named(),
    };
    check::run(&request, context)
}
