//! Benchmarks: one workload on one target, or on two alternately.

pub mod age;
pub mod crystal;
pub mod finish;
pub mod modelled;
pub mod nfs;
pub mod small_files;
pub mod tree;
pub mod turns;

use std::process::ExitCode;
use trimtab_linux::output::Context;

/// Implements `Benchmark` for these requests.
macro_rules! benchmarks {
    ($($workload:ident::$request:ident),*) => {$(
        impl turns::Benchmark for $workload::$request {
            fn target(&mut self) -> &mut String {
                &mut self.target
            }

            fn run(&self, context: &Context) -> anyhow::Result<ExitCode> {
                $workload::run(self, context)
            }
        }
    )*};
}

benchmarks!(age::AgeRequest, crystal::CrystalRequest, nfs::NfsRequest, small_files::PostmarkBenchRequest, tree::TreeRequest);
