//! `trimtab drive simulate`.

use crate::drives;
use crate::drives::model;
use crate::error::{Interrupted, UsageError};
use crate::interrupt;
use crate::output::Context;
use crate::progress::{Counting, Progress};
use crate::report;
use crate::runner::End;
use crate::shape::run::{RunV1, SCHEMA, VERSION};
use crate::simulate::{self, Amount, Plan, Watcher};
use crate::store;
use anyhow::Context as _;
use rayon::prelude::*;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use trimtab_core::data::DataClass;
use trimtab_core::drive::spec::DriveSpec;
use trimtab_core::run::Run;
use trimtab_core::units::Bytes;
use trimtab_core::workload::synthetic::{Mix, Pattern};

/// Arguments of `trimtab drive simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads: sequential, random, hot-cold (hot-cold:0.2/0.8 puts 80 % of the operations on 20 % of the space), zipf (zipf:0.9).

Examples:
  trimtab drive simulate --drive ocz-vertex-le-100gb --workload random --until-written 3x
  trimtab drive simulate --drive mine.toml --workload zipf:1.1 --size 4KiB:70,64KiB:30 --reads 30
  trimtab drive simulate --drive ocz-vertex-le-100gb --drive intel-520-120gb --workload random --trims 10 --json

Everything happens in virtual time: the same drive, workload and seed give the same bytes on every machine.")]
pub struct Args {
    /// A shipped drive or a specification file; several are simulated side by side.
    #[arg(long = "drive", required = true, value_name = "NAME|FILE")]
    drives: Vec<String>,
    /// Which addresses are written in which order.
    #[arg(long, default_value = "random", value_name = "SPEC")]
    workload: WorkloadSpec,
    /// Size of an operation, or several with weights: 4KiB:70,64KiB:30.
    #[arg(long, default_value = "4KiB", value_name = "SIZE[:WEIGHT],…")]
    size: Sizes,
    /// Share of reads, in per cent.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=99))]
    reads: u8,
    /// Share of trims, in per cent.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=99))]
    trims: u8,
    /// What written data is like: random, zero, text or a share that compresses, such as 40%.
    #[arg(long, default_value = "random", value_name = "CLASS")]
    data: DataClass,
    /// Operations in flight.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    queue_depth: u32,
    /// Share of the drive that the workload uses, in per cent.
    #[arg(long, default_value_t = 100.0, value_name = "PERCENT", value_parser = percent)]
    span: f64,
    /// Share of the drive that is written once in order before the workload, in per cent.
    #[arg(long, default_value_t = 100.0, value_name = "PERCENT", value_parser = percent_or_none)]
    fill: f64,
    /// How much is written: 1.8TB, or 3x the drive's capacity.
    #[arg(long, default_value = "3x", value_name = "AMOUNT")]
    until_written: Amount,
    /// Simulate a drive of this size with the same proportions.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Seed of addresses, sizes and kinds.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Clone)]
struct WorkloadSpec {
    text: String,
    pattern: Pattern,
}

impl FromStr for WorkloadSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
        let pattern = match (name, rest) {
            ("sequential", "") => Pattern::Sequential,
            ("random", "") => Pattern::Uniform,
            ("hot-cold", "") => Pattern::HotCold { space: 0.2, ops: 0.8 },
            ("hot-cold", rest) => {
                let (space, ops) = rest.split_once('/').ok_or("write hot-cold:SPACE/OPERATIONS, such as hot-cold:0.2/0.8")?;
                Pattern::HotCold { space: number(space)?, ops: number(ops)? }
            }
            ("zipf", "") => Pattern::Zipf { theta: 0.99 },
            ("zipf", rest) => Pattern::Zipf { theta: number(rest)? },
            _ => return Err(format!("there is no workload '{text}'; there are sequential, random, hot-cold and zipf")),
        };
        Ok(Self { text: text.to_owned(), pattern })
    }
}

#[derive(Debug, Clone)]
struct Sizes(Vec<(u32, u32)>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let size: Bytes = size.parse().map_err(|error: trimtab_core::units::ParseQuantityError| error.to_string())?;
            let size =
                u32::try_from(size.0).ok().filter(|size| *size > 0).ok_or_else(|| format!("{size} is not a size of an operation"))?;
            let weight: u32 = weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?;
            Ok((size, weight))
        };
        text.split(',').map(one).collect::<Result<_, String>>().map(Self)
    }
}

fn percent_or_none(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("'{text}' is not a share in per cent"))?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err(format!("{text} does not lie between 0 and 100 per cent")) }
}

fn percent(text: &str) -> Result<f64, String> {
    percent_or_none(text).and_then(|value| if value > 0.0 { Ok(value) } else { Err("the share must be above 0".to_owned()) })
}

/// Simulates, keeps and reports.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let plan = plan(args);
    let specs: Vec<(String, DriveSpec)> = args
        .drives
        .iter()
        .map(|name| Ok((name.clone(), model::sized(drives::load(name)?.spec, args.capacity)?)))
        .collect::<anyhow::Result<_>>()?;
    for (name, spec) in &specs {
        let block = spec.logical_block_bytes;
        if let Some((size, _)) = plan.sizes.iter().find(|(size, _)| size % block != 0) {
            return Err(UsageError::new(format!("operations of {size} bytes are no multiple of the {block}-byte blocks of {name}")).into());
        }
    }
    let total = specs.iter().map(|(_, spec)| plan.until_written.of(Bytes(spec.capacity_bytes)).0).sum();
    let bar = Mutex::new(Shared { bar: Progress::new(context, "simulate", Counting::Bytes, total), written: 0 });
    let results: Vec<anyhow::Result<(Run, End)>> = specs
        .par_iter()
        .map(|(name, spec)| simulate::run(spec, &format!("drive:{name}"), &plan, &mut Reporter { shared: &bar, last: 0 }))
        .collect();
    drop(bar);
    let mut runs = Vec::new();
    let mut end = End::Complete;
    for result in results {
        let (run, this_end) = result?;
        runs.push(run);
        if end == End::Complete {
            end = this_end;
        }
    }
    report_runs(context, &runs)?;
    match end {
        End::Complete => Ok(ExitCode::SUCCESS),
        End::Interrupted => Err(Interrupted.into()),
        End::Failed(error) => Err(error.into()),
    }
}

fn plan(args: &Args) -> Plan {
    Plan {
        name: args.workload.text.clone(),
        pattern: args.workload.pattern,
        mix: Mix { read_percent: args.reads, trim_percent: args.trims },
        sizes: args.size.0.clone(),
        data: args.data,
        queue_depth: args.queue_depth,
        span_permille: (args.span * 10.0).round() as u32,
        fill_permille: (args.fill * 10.0).round() as u32,
        until_written: args.until_written,
        seed: args.seed,
    }
}

struct Shared {
    bar: Progress,
    written: u64,
}

struct Reporter<'a> {
    shared: &'a Mutex<Shared>,
    last: u64,
}

impl Watcher for Reporter<'_> {
    fn written(&mut self, bytes: Bytes) {
        /// Threads meet at the bar once per so much.
        const STEP: u64 = 1 << 26;
        if bytes.0 < self.last + STEP {
            return;
        }
        if let Ok(mut shared) = self.shared.lock() {
            shared.written += bytes.0 - self.last;
            let written = shared.written;
            shared.bar.set(written);
        }
        self.last = bytes.0;
    }
}

/// Keeps all runs, then prints them: what was simulated is never lost to a failing store.
fn report_runs(context: &Context, runs: &[Run]) -> anyhow::Result<()> {
    let kept: Vec<_> = runs.iter().map(|run| store::save(context, run)).collect();
    let shapes: Vec<RunV1> = runs
        .iter()
        .zip(&kept)
        .map(|(run, kept)| {
            let mut shape = RunV1::from(run);
            shape.id = kept.as_ref().ok().map(ToString::to_string);
            shape
        })
        .collect();
    let text = || {
        let texts: Vec<String> = runs.iter().map(|run| report::text::render(&report::run::document(run))).collect();
        texts.join("\n")
    };
    match shapes.as_slice() {
        [only] => context.report(SCHEMA, VERSION, only, text)?,
        all => context.report("runs", VERSION, &serde_json::json!({ "runs": all }), text)?,
    }
    for id in kept {
        let id = id.context("the result above could not be kept")?;
        context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_and_sizes_are_read() {
        let pattern = |text: &str| text.parse::<WorkloadSpec>().map(|spec| spec.pattern);
        assert_eq!(pattern("hot-cold:0.1/0.9"), Ok(Pattern::HotCold { space: 0.1, ops: 0.9 }));
        assert_eq!(pattern("zipf:1.2"), Ok(Pattern::Zipf { theta: 1.2 }));
        assert!(pattern("rondom").unwrap_err().contains("there are sequential"));
        assert_eq!("4KiB:70,64KiB:30".parse::<Sizes>().unwrap().0, [(4096, 70), (65_536, 30)]);
        for wrong in ["", "0", "4KiB:x", "8TB"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
        assert!(percent("0").is_err() && percent("101").is_err() && percent("12.5%") == Ok(12.5));
    }
}
