//! `trimtab drive from-datasheet`.

use crate::cmd::options::{count, one_of, positive};
use crate::drives::datasheet::{FIGURES, Prediction, predictions};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use trimtab_drive::spec::datasheet::{DataSheet, HOST_US, Prior};
use trimtab_drive::spec::{SpecError, text};
use trimtab_drive::units::{Bytes, grouped, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::{self, Context};

/// Arguments of `trimtab drive from-datasheet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints a drive file. Values that the data sheet does not state are assumed, typical of \
data-centre drives, and marked so in [sources]. The first lines state predictions with intervals \
that hold nine in ten figures of measured data-centre drives, or nine in ten draws of the \
assumed values, whichever is wider. A measured drive of the class writes 0.96 to 1.19 times its \
rated random writes, in the median 1.08 times. A formula sizes the flash for the median; the \
model writes 6 to 8 % more than that (measured at 960 GB), and the predictions state what it writes.

Examples:
  trimtab drive from-datasheet new --capacity 960GB --random-write 70000 > new.toml
  trimtab drive from-datasheet big --capacity 3.84TB --raw 4200GiB --draws 20 > big.toml
  trimtab study drive:./new.toml --quick       its best trim policy, in half a minute")]
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
    /// Flash including spare space, if the data sheet states it.
    #[arg(long, value_name = "SIZE")]
    raw: Option<Bytes>,
    /// Latency of a 4 KiB read in microseconds.
    #[arg(long, value_name = "US", value_parser = positive)]
    read_latency: Option<f64>,
    /// Latency of a 4 KiB write in microseconds.
    #[arg(long, value_name = "US", value_parser = positive)]
    write_latency: Option<f64>,
    /// Draws of the assumed values for the intervals; 0 predicts nothing.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = count(0..=100))]
    draws: u32,
    /// Seed of the draws and of the model.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Interfaces with the rate of their payload.
const LINKS_MBS: &[(&str, f64)] =
    &[("sata", 570.0), ("pcie3", 3900.0), ("pcie4", 7800.0), ("pcie5", 15_700.0)];

/// An interval whose ends differ by more than this factor predicts nothing and is only in
/// JSON.
const UNPREDICTABLE: f64 = 10.0;

pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let sheet = DataSheet {
        name: args.name.clone(),
        capacity_bytes: args.capacity.0,
        link_mbs: args.interface,
        sequential_read_mbs: args.sequential_read,
        sequential_write_mbs: args.sequential_write,
        random_read_iops: args.random_read,
        random_write_iops: args.random_write,
        raw_bytes: args.raw.map(|raw| raw.0),
        read_latency_us: args.read_latency,
        write_latency_us: args.write_latency,
    };
    let usage =
        |problem: SpecError| UsageError::new(format!("this data sheet is impossible: {problem}"));
    let drive = sheet.drive(&Prior::MEDIAN).map_err(usage)?;
    let predicted = if args.draws == 0 {
        Vec::new()
    } else {
        predictions(&sheet, args.draws, args.seed).map_err(usage)?.to_vec()
    };
    let contradictions = sheet.contradictions();
    let toml = text::whole(&drive);
    if context.json {
        let prediction: serde_json::Map<_, _> = FIGURES
            .iter()
            .zip(&predicted)
            .map(|(one, of)| (one.key.to_owned(), json!(of)))
            .collect();
        context.report(
            "drive-from-datasheet",
            2,
            &json!({
                "file": toml,
                "prediction": prediction,
                "draws": args.draws,
                "seed": args.seed,
                "contradictions": contradictions,
            }),
            String::new,
        )?;
    } else {
        output::print(&(comment(&predicted, &contradictions, args) + &toml))?;
    }
    for contradiction in &contradictions {
        output::complain(&format!("{}: {contradiction}", args.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// Predictions and contradictions as comments of the drive file.
fn comment(predicted: &[Prediction], contradictions: &[String], args: &Args) -> String {
    let mut text = String::new();
    if !predicted.is_empty() {
        let _ = writeln!(
            text,
            "# Predictions with intervals ({} draws of the assumed values, seed {}):",
            args.draws, args.seed
        );
    }
    for (figure, of) in FIGURES.iter().zip(predicted) {
        let [median, low, high] = [of.median, of.low, of.high].map(three_digits);
        let words = figure.words;
        if of.high <= UNPREDICTABLE * of.low {
            let _ = writeln!(text, "#   {median} ({low} to {high}) {words}");
        }
    }
    if let (Some(rated), false) = (args.random_write, predicted.is_empty()) {
        let _ = writeln!(
            text,
            "#   rated: {} random writes per second, {:.0} MB/s",
            grouped(rated as u64),
            rated * 4096.0 / 1e6
        );
    }
    let rated = [("read", args.read_latency), ("write", args.write_latency)];
    let rated: Vec<String> =
        rated.iter().filter_map(|(kind, us)| us.map(|us| format!("{kind} {us} us"))).collect();
    if !rated.is_empty() {
        let _ = writeln!(
            text,
            "# Latencies at the drive, without the host's {HOST_US} us (rated: {})",
            rated.join(", ")
        );
    }
    for contradiction in contradictions {
        let _ = writeln!(text, "# The model misses the rated random writes: {contradiction}.");
    }
    text
}
