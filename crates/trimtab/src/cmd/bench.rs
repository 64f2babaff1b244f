//! `trimtab bench WORKLOAD [TARGET]`: runs one workload on one target.

pub mod age;
pub mod crystal;
pub mod fio;
pub mod load;
pub mod nfs;
pub mod pts;
pub mod small_files;
pub mod tree;

use crate::bench;
use anyhow::Context as _;
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal::MountScope;

/// Arguments of `trimtab bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab bench tree /mnt/ssd                   unpack, sync, delete, sync a tree of 36,706 files (493 MB), three times
  trimtab bench tree --tar linux.tar.xz /mnt    the same with your own archive
  trimtab bench age --total 1TB /mnt/ssd        ten rounds of filling and deleting, 4 KiB random writes before and after
  trimtab bench nfs /mnt/ssd                    an NFS server's operation mix at ten loads: \
response time over throughput
  trimtab bench crystal /mnt/ssd                CrystalDiskMark's tests on a test file
  trimtab bench fio jobs.fio drive:nvme-tlc-500gb    the jobs of a fio job file
  trimtab bench load drive:nvme-tlc-500gb       latency against offered load
  trimtab bench pts drive:nvme-tlc-500gb        SNIA's IOPS test on a modelled drive
  trimtab bench postmark /mnt/ssd               10,000 small files, 20,000 transactions, as in published results
  trimtab bench postmark --trim online drive:ocz-vertex-le-100gb    on a modelled drive and filesystem, in virtual time
  trimtab bench tree null:                      measure the tool's own cost")]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: BenchWorkload,
}

impl BenchArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        let target = match &self.workload {
            BenchWorkload::Crystal(args) => &args.target,
            BenchWorkload::Postmark(args) => &args.target,
            BenchWorkload::Tree(args) => &args.target,
            BenchWorkload::Age(args) => &args.target,
            BenchWorkload::Nfs(args) => &args.target,
            BenchWorkload::Fio(args) => &args.target,
            BenchWorkload::Load(args) => &args.target,
            BenchWorkload::Pts(args) => &args.target,
        };
        MountScope::of_targets([target.as_str()])
    }
}

#[derive(Debug, Subcommand)]
enum BenchWorkload {
    Crystal(Box<crystal::BenchCrystalArgs>),
    Postmark(Box<small_files::BenchPostmarkArgs>),
    Tree(Box<tree::BenchTreeArgs>),
    Age(Box<age::BenchAgeArgs>),
    Nfs(Box<nfs::BenchNfsArgs>),
    Fio(Box<fio::BenchFioArgs>),
    Load(Box<load::BenchLoadArgs>),
    Pts(Box<pts::BenchPtsArgs>),
}

/// Runs the workload and prints the report.
pub fn run(args: BenchArgs, context: &Context) -> anyhow::Result<ExitCode> {
    crate::store::check(context)?;
    // Installed even without files to remove: an interrupt reports the results so far.
    trimtab_linux::sys::interrupt::install().context("cannot catch signals")?;
    match args.workload {
        BenchWorkload::Crystal(args) => bench::crystal::run(&args, context),
        BenchWorkload::Postmark(args) => bench::small_files::run(&args, context),
        BenchWorkload::Tree(args) => bench::tree::run(&args, context),
        BenchWorkload::Age(args) => bench::age::run(&args, context),
        BenchWorkload::Nfs(args) => bench::nfs::run(&args, context),
        BenchWorkload::Fio(args) => bench::fio::run(&args, context),
        BenchWorkload::Load(args) => bench::load::run(&args, context),
        BenchWorkload::Pts(args) => bench::pts::run(&args, context),
    }
}
