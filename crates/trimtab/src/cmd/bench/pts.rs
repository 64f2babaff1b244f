//! `trimtab bench pts TARGET`.

use crate::cmd::options::one_of;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_sim::simulate::pts::PtsTest;

/// Run a test of SNIA's Performance Test Specification (PTS) 2.0.2 on a modelled drive.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tests:
  iops  two sequential capacities of 128 KiB writes, then at most 25 rounds of 7 mixes and
        up to 8 sizes of random requests, until the 4 KiB writes of five rounds are steady
  wsat  4 KiB random writes of four capacities to a new drive (write saturation)
Steady: over five rounds a range of at most 20 % of the mean, and a linear fit that changes by at most 10 %.
A new drive stands for a purged one. A round transfers a share of the capacity instead of lasting a minute per test point.

Examples:
  trimtab bench pts drive:nvme-tlc-500gb
  trimtab bench pts drive:samsung-pm9a3-960gb --test wsat --capacity 16GiB --json")]
pub struct BenchPtsArgs {
    /// A modelled drive (drive:NAME).
    pub target: String,
    /// Run this test.
    #[arg(long, value_name = "TEST", default_value = "iops", value_parser = one_of(TESTS))]
    pub test: PtsTest,
    /// Scale the drive to this size with the same proportions, if it is larger.
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub capacity: Bytes,
    /// Requests in flight.
    #[arg(
        long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub queue_depth: u32,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    pub data: DataClass,
    /// Seed of addresses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

const TESTS: &[(&str, PtsTest)] = &[("iops", PtsTest::Iops), ("wsat", PtsTest::WriteSaturation)];
