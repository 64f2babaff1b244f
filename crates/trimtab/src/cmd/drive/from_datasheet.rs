//! `trimtab drive from-datasheet`.

use crate::cmd::options::{one_of, positive};
use crate::drives::datasheet::{Steady, steady_states};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use trimtab_drive::spec::datasheet::{DataSheet, Prior};
use trimtab_drive::spec::{SpecError, text};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::{self, Context};

/// Arguments of `trimtab drive from-datasheet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints a drive file. Values that the data sheet does not state are assumed, typical of data-centre drives, and marked so in [sources].
The first lines state the steady state under uniform 4 KiB writes that the model predicts, and its interval over draws of the assumed values.

Examples:
  trimtab drive from-datasheet pe8110 --capacity 960GB --interface pcie4 --sequential-read 6500 --sequential-write 1700 \\
      --random-read 900000 --random-write 70000 --dwpd 1 > pe8110.toml
  trimtab drive from-datasheet big --capacity 3.84TB --sequential-write 6750 --raw 4200GiB --draws 20 > big.toml
  trimtab drive simulate --drive ./pe8110.toml --workload random --capacity 8GiB")]
pub struct Args {
    /// Name of the drive: lower-case letters, digits, '.', '-' and '_'.
    name: String,
    /// User capacity.
    #[arg(long, value_name = "SIZE")]
    capacity: Bytes,
    /// Interface, which limits the rates: SATA of 6 Gbit/s, or PCIe 3.0, 4.0 or 5.0 with
    /// four lanes.
    #[arg(long, value_parser = one_of(LINKS_MBS))]
    interface: Option<f64>,
    /// Sequential read rate in MB/s.
    #[arg(long, value_name = "MB/S", value_parser = positive)]
    sequential_read: Option<f64>,
    /// Sequential write rate in MB/s.
    #[arg(long, value_name = "MB/S", value_parser = positive)]
    sequential_write: Option<f64>,
    /// Random 4 KiB reads per second.
    #[arg(long, value_name = "IOPS", value_parser = positive)]
    random_read: Option<f64>,
    /// Sustained random 4 KiB writes per second. They tell the spare space.
    #[arg(long, value_name = "IOPS", value_parser = positive)]
    random_write: Option<f64>,
    /// Drive writes per day over the warranty.
    #[arg(long, value_name = "N", value_parser = positive)]
    dwpd: Option<f64>,
    /// Flash including spare space, if the data sheet states it.
    #[arg(long, value_name = "SIZE")]
    raw: Option<Bytes>,
    /// Latency of a 4 KiB read in microseconds.
    #[arg(long, value_name = "US", value_parser = positive)]
    read_latency: Option<f64>,
    /// Latency of a 4 KiB write in microseconds.
    #[arg(long, value_name = "US", value_parser = positive)]
    write_latency: Option<f64>,
    /// Draws of the assumed values for the interval; 0 predicts nothing.
    #[arg(
        long, value_name = "N", default_value_t = 6,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    draws: u32,
    /// Seed of the draws and of the model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Interfaces with the rate of their payload.
const LINKS_MBS: &[(&str, f64)] =
    &[("sata", 570.0), ("pcie3", 3900.0), ("pcie4", 7800.0), ("pcie5", 15_700.0)];

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let sheet = DataSheet {
        name: args.name.clone(),
        capacity_bytes: args.capacity.0,
        link_mbs: args.interface,
        sequential_read_mbs: args.sequential_read,
        sequential_write_mbs: args.sequential_write,
        random_read_iops: args.random_read,
        random_write_iops: args.random_write,
        dwpd: args.dwpd,
        raw_bytes: args.raw.map(|raw| raw.0),
        read_latency_us: args.read_latency,
        write_latency_us: args.write_latency,
    };
    let usage =
        |problem: SpecError| UsageError::new(format!("this data sheet is impossible: {problem}"));
    let drive = sheet.drive(&Prior::MEDIAN).map_err(usage)?;
    let steady = if args.draws == 0 {
        Vec::new()
    } else {
        steady_states(&sheet, args.draws, args.seed).map_err(usage)?
    };
    let toml = text::whole(&drive);
    if context.json {
        let range = |of: fn(&Steady) -> f64| {
            interval(&steady, of)
                .map(|(median, low, high)| json!({ "median": median, "low": low, "high": high }))
        };
        let prediction = json!({ "steady_mbs": range(|one| one.mbs), "waf": range(|one| one.waf), "draws": args.draws, "seed": args.seed });
        context.report(
            "drive-from-datasheet",
            1,
            &json!({ "file": toml, "prediction": prediction }),
            String::new,
        )?;
    } else {
        output::print(&(comment(&steady, args) + &toml))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Value with the median priors, and the least and greatest of all draws.
fn interval(steady: &[Steady], of: fn(&Steady) -> f64) -> Option<(f64, f64, f64)> {
    let median = of(steady.first()?);
    let values = steady.iter().map(of);
    Some((median, values.clone().fold(median, f64::min), values.fold(median, f64::max)))
}

/// The prediction as comments of the drive file.
fn comment(steady: &[Steady], args: &Args) -> String {
    let mut text = String::new();
    let (Some(rate), Some(waf)) =
        (interval(steady, |one| one.mbs), interval(steady, |one| one.waf))
    else {
        return text;
    };
    let iops = |mbs: f64| mbs * 1e6 / 4096.0 / 1000.0;
    let _ = writeln!(
        text,
        "# Predicted steady state under uniform 4 KiB writes, with the range over {} \
            draws of the assumed values (seed {}):",
        args.draws, args.seed
    );
    let _ = writeln!(
        text,
        "#   {:.0} MB/s ({:.0} to {:.0}), {:.0} thousand writes per second ({:.0} to {:.0})",
        rate.0,
        rate.1,
        rate.2,
        iops(rate.0),
        iops(rate.1),
        iops(rate.2)
    );
    let _ = writeln!(text, "#   write amplification {:.2} ({:.2} to {:.2})", waf.0, waf.1, waf.2);
    text
}
