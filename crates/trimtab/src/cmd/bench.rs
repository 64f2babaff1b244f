//! `trimtab bench WORKLOAD [TARGET]`: one workload on one target.

pub mod age;
pub mod crystal;
pub mod finish;
pub mod modelled;
pub mod nfs;
pub mod postmark;
pub mod tree;
pub mod turns;

use anyhow::Context as _;
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::notes::Reach;

/// Arguments of `trimtab bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab bench tree /mnt/ssd                   unpack, sync, delete, sync a tree of 36,706 files (493 MB), three times
  trimtab bench tree --tar linux.tar.xz /mnt    the same with your own archive
  trimtab bench age --total 1TB /mnt/ssd        ten rounds of filling and deleting, 4 KiB random writes before and after
  trimtab bench nfs /mnt/ssd                    an NFS server's operation mix at ten loads: response time over throughput
  trimtab bench crystal /mnt/ssd                CrystalDiskMark's tests on a test file
  trimtab bench postmark /mnt/ssd               10,000 small files, 20,000 transactions, as in published results
  trimtab bench postmark --trim online drive:ocz-vertex-le-100gb    on a modelled drive and filesystem, in virtual time
  trimtab bench tree /mnt/a --against /mnt/b    two targets in turns, and one line that says how they compare
  trimtab bench tree null:                      what the tool itself costs")]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
}

impl Args {
    /// The mounts that it works on.
    pub fn reach(&self) -> Reach {
        let of = |target: &str, against: &turns::AgainstArgs| Reach::of_targets([Some(target), against.target()].into_iter().flatten());
        match &self.workload {
            Workload::Crystal(args) => of(&args.target, &args.against),
            Workload::Postmark(args) => of(&args.target, &args.against),
            Workload::Tree(args) => of(&args.target, &args.against),
            Workload::Age(args) => of(&args.target, &args.against),
            Workload::Nfs(args) => of(&args.target, &args.against),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Workload {
    Crystal(Box<crystal::Args>),
    Postmark(Box<postmark::Args>),
    Tree(Box<tree::Args>),
    Age(Box<age::Args>),
    Nfs(Box<nfs::Args>),
}

/// Runs the workload and reports.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    crate::store::check(context)?;
    // Also where nothing has to be removed: what was measured until then is said.
    trimtab_linux::sys::interrupt::install().context("cannot catch signals")?;
    match args.workload {
        Workload::Crystal(mut args) => turns::run(&mut *args, context),
        Workload::Postmark(mut args) => turns::run(&mut *args, context),
        Workload::Tree(mut args) => turns::run(&mut *args, context),
        Workload::Age(mut args) => turns::run(&mut *args, context),
        Workload::Nfs(mut args) => turns::run(&mut *args, context),
    }
}

/// Every workload can be run in turns.
macro_rules! in_turns {
    ($($workload:ident),*) => {$(
        impl turns::InTurns for $workload::Args {
            fn against(&self) -> &turns::AgainstArgs {
                &self.against
            }

            fn target(&mut self) -> &mut String {
                &mut self.target
            }

            fn measure(&self, context: &Context) -> anyhow::Result<ExitCode> {
                $workload::run(self, context)
            }
        }
    )*};
}

in_turns!(crystal, postmark, tree, age, nfs);
