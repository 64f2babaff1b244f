//! `trimtab bench pts TARGET`.

use crate::bench::purge::PurgeMethod;
use crate::cmd::options::{DestroyArgs, PURGES, SafetyArgs, count, one_of};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::simulate::pts::PtsTest;

/// Run a test of SNIA's Performance Test Specification (PTS) 2.0.2 on a modelled drive, a
/// device or a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tests:
  iops   random requests of 7 mixes and up to 8 sizes, until the 4 KiB writes are steady
  tp     sequential reads and writes of 128 KiB and of 1 MiB, until the writes are steady
  lat    single random requests of 8 KiB, 4 KiB and 512 B, until writes of 4 KiB are steady
  wsat   4 KiB random writes of four capacities to a new drive (write saturation)
  hir    bursts of 4 KiB random writes with idle times from 5 to 50 s (host idle recovery)
  xsr    sequential writes, random writes, sequential writes again (cross stimulus recovery)
  cbw    JESD219A's mix of sizes with 1 to 1024 requests in flight (composite block size workload)
  dirth  8 KiB random requests, 65 % reads, with 1 to 1024 in flight (demand intensity)
Steady: over five rounds a range of at most 20 % of the mean, and a linear fit that changes by \
at most 10 %. A test ends at the first steady window, or after 25 rounds. iops waits only for 4 \
KiB writes: other figures, marked ~, may still change.
On a modelled drive, a new drive stands for a purged one, and a share of the capacity for a \
minute of the specification. On a device or a file, a minute is a minute: hir and xsr take most \
of a day. --round-time shortens it, and the result says so.

Examples:
  trimtab bench pts drive:intel-x25-m-160gb --capacity 16GiB
  trimtab bench pts drive:samsung-pm9a3-960gb --test wsat --capacity 16GiB --json
  trimtab bench pts /dev/sdb --destroy /dev/sdb --test lat
  trimtab bench pts /dev/nvme1n1 --destroy /dev/nvme1n1 --purge format --test wsat
  trimtab bench pts /mnt/ssd --capacity 4GiB --test tp --round-time 5s      on a test file")]
pub struct BenchPtsArgs {
    /// Measure on a modelled drive (drive:NAME), on a block device or file (with
    /// --destroy), or on a new file in a directory.
    pub target: String,
    /// Run this test.
    #[arg(long, value_name = "TEST", default_value = "iops", value_parser = one_of(TESTS))]
    pub test: PtsTest,
    /// Scale a larger modelled drive to this size with the same proportions. In a
    /// directory: size of the file [default: 8GiB; less on a smaller drive].
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Bytes>,
    /// Time that stands for a minute of the specification, on a device or a file
    /// [default: 1m].
    #[arg(long, value_name = "TIME")]
    pub round_time: Option<Nanos>,
    /// Requests in flight, where the specification leaves it to the tester.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count(1..=1024))]
    pub queue_depth: u32,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Seed of addresses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Erase the device first: discard, format or sanitize (NVMe, by nvme-cli), or
    /// secure-erase (ATA, by hdparm). Samples read back prove it.
    #[arg(long, value_name = "METHOD", value_parser = one_of(PURGES))]
    pub purge: Option<PurgeMethod>,
    #[command(flatten)]
    pub(crate) safety: SafetyArgs,
    #[command(flatten)]
    pub(crate) destroy: DestroyArgs,
}

const TESTS: &[(&str, PtsTest)] = &[
    ("iops", PtsTest::Iops),
    ("tp", PtsTest::Throughput),
    ("lat", PtsTest::Latency),
    ("wsat", PtsTest::WriteSaturation),
    ("hir", PtsTest::HostIdleRecovery),
    ("xsr", PtsTest::CrossStimulusRecovery),
    ("cbw", PtsTest::CompositeBlockSize),
    ("dirth", PtsTest::DemandIntensity),
];
