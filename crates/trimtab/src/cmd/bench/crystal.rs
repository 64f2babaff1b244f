//! `trimtab bench crystal [TARGET]`.

use crate::bench::purge::PurgeMethod;
use crate::cmd::options::{DestroyArgs, PURGES, SafetyArgs, one_of};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::workload::crystal::Profile;

const PROFILES: &[(&str, Profile)] =
    &[("cdm8", Profile::Cdm8), ("cdm3", Profile::Cdm3), ("nvme", Profile::Nvme)];

/// Run CrystalDiskMark's tests: sequential and random reads and writes of a test file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Profiles, all with direct I/O through io_uring:
  cdm8   Seq 1MiB Q8, Seq 1MiB Q1, Rnd 4KiB Q32, Rnd 4KiB Q1; all reads, then all writes
  cdm3   Seq 1MiB, Rnd 512KiB, Rnd 4KiB, Rnd 4KiB Q32; each read, then written
  nvme   Seq 1MiB Q8, Seq 128KiB Q32, Rnd 4KiB Q32T16, Rnd 4KiB Q1

The I/O of the tests is compared with the counters of the drives below. Figures of the page \
cache (tmpfs, a loop device without direct I/O) get a serious warning.

Every write has fresh data, so 'random' is incompressible and cannot be deduplicated.

Examples:
  trimtab bench crystal /mnt/ssd                                   on a test file of 1 GiB
  trimtab bench crystal --profile cdm3 --data 46% /mnt/ssd
  trimtab bench crystal --only read /dev/sdb                       read a device, write nothing
  trimtab bench crystal /dev/sdb --destroy /dev/sdb --loop-until-written 1.8TB
  trimtab bench crystal drive:ocz-vertex-le-100gb                  on a modelled drive")]
pub struct BenchCrystalArgs {
    /// Measure on a directory, on a file or block device (with --destroy), on a modelled
    /// drive (drive:NAME), or on 'null:' for the tool's own cost.
    #[arg(default_value = ".")]
    pub target: String,
    /// Run the tests of this profile.
    #[arg(long, default_value = "cdm8", value_parser = one_of(PROFILES))]
    pub profile: Profile,
    /// Size of the test file, or of the used part of a device.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size: Bytes,
    /// Run each test N times.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub passes: u32,
    /// Run each pass this long. A pass that writes ends earlier, after the bytes that a
    /// drive of 1 GB/s would write.
    #[arg(long, value_name = "TIME", default_value = "5s", conflicts_with = "bytes")]
    pub time: Nanos,
    /// End each pass after this many bytes instead.
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<Bytes>,
    /// Stay idle this long before each test.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub interval: Nanos,
    /// Run only the tests that read, or only those that write.
    #[arg(long, value_name = "read|write")]
    pub only: Option<Direction>,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Use the page cache, which measures memory as much as the drive.
    #[arg(long)]
    pub buffered: bool,
    /// Seed of addresses and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Repeat all tests until this much is written, and report where the rates fall and
    /// settle.
    #[arg(long, value_name = "SIZE")]
    pub loop_until_written: Option<Bytes>,
    /// Erase the device first: discard, format or sanitize (NVMe, by nvme-cli), or
    /// secure-erase (ATA, by hdparm). Samples read back prove it.
    #[arg(long, value_name = "METHOD", value_parser = one_of(PURGES))]
    pub purge: Option<PurgeMethod>,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}

/// One of the two kinds of test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// The tests that read.
    Read,
    /// The tests that write.
    Write,
}
