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
use crate::bench::turns;
use crate::cmd::options::SecondTargetArgs;
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
  trimtab bench nfs /mnt/ssd                    an NFS server's operation mix at ten loads: response time over throughput
  trimtab bench crystal /mnt/ssd                CrystalDiskMark's tests on a test file
  trimtab bench fio jobs.fio drive:nvme-tlc-500gb    the jobs of a fio job file
  trimtab bench load drive:nvme-tlc-500gb       latency against offered load
  trimtab bench pts drive:nvme-tlc-500gb        SNIA's IOPS test on a modelled drive
  trimtab bench postmark /mnt/ssd               10,000 small files, 20,000 transactions, as in published results
  trimtab bench postmark --trim online drive:ocz-vertex-le-100gb    on a modelled drive and filesystem, in virtual time
  trimtab bench tree /mnt/a --against /mnt/b    alternate between two targets, and compare them in one line
  trimtab bench tree null:                      measure the tool's own cost")]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: BenchWorkload,
}

impl BenchArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        let of = |target: &str, against: &SecondTargetArgs| {
            MountScope::of_targets([Some(target), against.against.as_deref()].into_iter().flatten())
        };
        match &self.workload {
            BenchWorkload::Crystal(args) => of(&args.target, &args.against),
            BenchWorkload::Postmark(args) => of(&args.target, &args.against),
            BenchWorkload::Tree(args) => of(&args.target, &args.against),
            BenchWorkload::Age(args) => of(&args.target, &args.against),
            BenchWorkload::Nfs(args) => of(&args.target, &args.against),
            BenchWorkload::Fio(args) => MountScope::of_targets([args.target.as_str()]),
            BenchWorkload::Load(args) => MountScope::of_targets([args.target.as_str()]),
            BenchWorkload::Pts(args) => MountScope::of_targets([args.target.as_str()]),
        }
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
    let alone = SecondTargetArgs::default();
    match args.workload {
        BenchWorkload::Crystal(args) => turns::run(
            &args.against.clone(),
            *args,
            |r| &mut r.target,
            bench::crystal::run,
            context,
        ),
        BenchWorkload::Postmark(args) => turns::run(
            &args.against.clone(),
            *args,
            |r| &mut r.target,
            bench::small_files::run,
            context,
        ),
        BenchWorkload::Tree(args) => {
            turns::run(&args.against.clone(), *args, |r| &mut r.target, bench::tree::run, context)
        }
        BenchWorkload::Age(args) => {
            turns::run(&args.against.clone(), *args, |r| &mut r.target, bench::age::run, context)
        }
        BenchWorkload::Nfs(args) => {
            turns::run(&args.against.clone(), *args, |r| &mut r.target, bench::nfs::run, context)
        }
        BenchWorkload::Fio(args) => {
            turns::run(&alone, *args, |r| &mut r.target, bench::fio::run, context)
        }
        BenchWorkload::Load(args) => {
            turns::run(&alone, *args, |r| &mut r.target, bench::load::run, context)
        }
        BenchWorkload::Pts(args) => {
            turns::run(&alone, *args, |r| &mut r.target, bench::pts::run, context)
        }
    }
}
