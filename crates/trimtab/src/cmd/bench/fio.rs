//! `trimtab bench fio FILE TARGET`.

use crate::cmd::options::DestroyArgs;
use std::path::PathBuf;
use trimtab_drive::data::DataClass;

/// Run the jobs of a fio job file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A modelled drive is first filled once in order; 'drive simulate --fio' has more options.

Examples:
  trimtab bench fio jobs.fio /dev/sdb --destroy /dev/sdb
  trimtab bench fio jobs.fio drive:nvme-tlc-500gb     on a modelled drive, in virtual time")]
pub struct BenchFioArgs {
    /// The job file. Supported keys: rw, rwmixread, bs, bssplit, blockalign, iodepth, size,
    /// offset, io_size, number_ios, rate, rate_iops, random_distribution, percentage_random, norandommap,
    /// ramp_time, runtime, time_based, loops, fsync, zero_buffers,
    /// buffer_compress_percentage, randseed, stonewall, thinktime, numjobs; as in fio
    /// also readwrite, blocksize, rwmixwrite and fdatasync.
    pub file: PathBuf,
    /// Measure on a block device or a file (with --destroy), on a modelled drive
    /// (drive:NAME), or on 'null:' for the tool's own cost.
    pub target: String,
    /// Write this kind of data in jobs that do not set one: random, zero, text, or a
    /// compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Seed of jobs without randseed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}
