//! `trimtab bench WORKLOAD [TARGET]`: runs one workload on one target.

mod age;
mod crystal;
mod fio;
mod load;
mod nfs;
mod pts;
mod small_files;
mod tree;

use crate::bench;
use crate::bench::modelled;
use crate::bench::turns::{self, SecondTarget};
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::notes::MountScope;
use trimtab_sim::policy::PolicySpec;

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
    match args.workload {
        BenchWorkload::Crystal(args) => turns::run(args.against.against(), args.request(), |r| &mut r.target, bench::crystal::run, context),
        BenchWorkload::Postmark(args) => {
            turns::run(args.against.against(), args.request(), |r| &mut r.target, bench::small_files::run, context)
        }
        BenchWorkload::Tree(args) => turns::run(args.against.against(), args.request(), |r| &mut r.target, bench::tree::run, context),
        BenchWorkload::Age(args) => turns::run(args.against.against(), args.request(), |r| &mut r.target, bench::age::run, context),
        BenchWorkload::Nfs(args) => turns::run(args.against.against(), args.request(), |r| &mut r.target, bench::nfs::run, context),
        BenchWorkload::Fio(args) => turns::run(None, args.request(), |r| &mut r.target, bench::fio::run, context),
        BenchWorkload::Load(args) => turns::run(None, args.request(), |r| &mut r.target, bench::load::run, context),
        BenchWorkload::Pts(args) => turns::run(None, args.request(), |r| &mut r.target, bench::pts::run, context),
    }
}

/// Options for comparing two targets.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "In turns with another target")]
pub struct SecondTargetArgs {
    /// Measure this target as well, alternating with the other, and compare them in one line.
    #[arg(long, value_name = "TARGET")]
    against: Option<String>,
    /// Measure each target N times [default: 3].
    #[arg(long, value_name = "N", requires = "against", value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: Option<u32>,
}

impl SecondTargetArgs {
    fn against(&self) -> Option<SecondTarget> {
        self.against.clone().map(|target| SecondTarget { target, turns: self.turns.unwrap_or(3) })
    }
}

/// Options for `drive:NAME` only.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "On a modelled drive (drive:NAME)")]
pub struct ModelArgs {
    /// Use this trim policy: none, online, batched, adaptive or idle, with settings as in a study
    /// [default: none]
    #[arg(long, value_name = "POLICY")]
    trim: Option<PolicySpec>,
    /// Put this filesystem on the drive: ext4 (current), ext4-2011 (Linux 2.6.39) or desktop-2011
    /// (synchronous catalogue) [default: ext4]
    #[arg(long, value_name = "NAME", value_parser = ["ext4", "ext4-2011", "desktop-2011"])]
    filesystem: Option<String>,
    /// Fill the filesystem to this percentage at the start [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=95))]
    fill: Option<u8>,
}

impl ModelArgs {
    fn options(self) -> modelled::ModelledVolumeOptions {
        modelled::ModelledVolumeOptions { trim: self.trim, filesystem: self.filesystem, fill: self.fill }
    }
}
