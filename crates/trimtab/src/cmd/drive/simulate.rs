//! `trimtab drive simulate`.

use crate::bench::finish;
use crate::cmd::options::{
    self, ReadingArgs, TimingArgs, count, one_of, percent_above_0, percentage,
};
use crate::drives::simulate::loops::Loops;
use crate::drives::simulate::traced::TraceInput;
use crate::drives::simulate::{self, Addresses, Amount, DriveLoad, DriveSimulationPlan};
use crate::drives::{self, job_file};
use crate::store::recipe;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::sys::interrupt;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Run, Severity, Warning};
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::TraceReadOptions;
use trimtab_sim::workload::jobs::Job;
use trimtab_sim::workload::synthetic::{Mix, Pattern, RequestSizes, TrimPattern};
use trimtab_vssd::trace::timing;

/// Arguments of `trimtab drive simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads:
  sequential, random, hot-cold[:SPACE/OPERATIONS], zipf[:EXPONENT]
      hot-cold:0.2/0.8 puts 80 % of the operations on 20 % of the space
  crystal[:KEY=VALUE]…
      rounds of CrystalDiskMark's tests, each on a new test file; by default on an empty drive \
without TRIM for the old files. 9.2 GB a round (cdm8 and nvme: 10.8 GB): \
profile=cdm3|cdm8|nvme, size=1000MB of the file, \
passes=5 of each test, pass=745MB, small-pass=74.5MB with operations below 64 KiB, interval=5s \
before each test, tests=write|both, place=next|same|scattered, space=SIZE: the part of the drive \
for the files
  jesd219
      the enterprise workload by which vendors rate endurance (JESD219A): 60 % writes of 512 \
bytes to 64 KiB, half of them to 5 % of the drive

Examples:
  trimtab drive simulate --drive ocz-vertex-le-100gb --workload random --until-written 3x
  trimtab drive simulate --drive mine.toml --workload zipf:1.1 --size 4KiB:70,64KiB:30 --reads 30
  trimtab drive simulate --drive ocz-vertex-le-100gb --workload crystal --data random --until-written 1.8TB
  trimtab drive simulate --drive ocz-vertex-le-100gb --workload crystal:place=scattered \
--until-written 1.8TB --trim online
  trimtab drive simulate --drive ocz-vertex-le-100gb --workload random --trims 10 --json
  trimtab drive simulate --drive nvme-tlc-500gb --capacity 8GiB --workload random --trims 30 --trims-of in-use
  trimtab drive simulate --drive nvme-tlc-500gb --fio jobs.fio --json
  trimtab drive simulate --drive ./mine.toml --capacity 64GiB --trace msr.csv --volume 1 --fill 90 --trim idle
  trimtab drive simulate --drive mine.toml --workload jesd219        TBW, if mine.toml has an erase_limit

Everything happens in virtual time: the same drive, workload and seed give the same figures on \
every machine, to the byte. Only\nthe time and the id of the run differ.")]
pub struct DriveSimulateArgs {
    /// Simulate this drive: a shipped drive or a specification file.
    #[arg(long, value_name = "NAME|FILE")]
    drive: String,
    /// Run this workload.
    #[arg(long, default_value = "random", value_name = "SPEC")]
    workload: WorkloadSpec,
    /// Run the jobs of this fio job file instead of a workload.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "until_written"])]
    fio: Option<PathBuf>,
    /// Replay this block trace instead of a workload: a recording of 'drive attach
    /// --record', or another (see --format). Its TRIMs are the host's deletes: the trim
    /// policy decides when the drive gets them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "fio", "steady"])]
    trace: Option<PathBuf>,
    /// Write this kind of data: random, zero, text, or a compressible share such as 40%.
    #[arg(long, default_value = "random", value_name = "CLASS")]
    data: DataClass,
    /// Write this much: 1.8TB, or 3x the drive's capacity [default: 3x;
    /// with --trace once through].
    #[arg(long, value_name = "AMOUNT")]
    until_written: Option<Amount>,
    /// Use this trim policy: none, online, batched, adaptive or idle, with settings as in
    /// 'batched:every=1h' [default: online; with crystal none].
    #[arg(long, value_name = "POLICY")]
    trim: Option<PolicySpec>,
    /// Write this percentage of the drive once, in order, before the workload [default:
    /// 100; with crystal and --trace 0].
    #[arg(long, value_name = "PERCENT", value_parser = percent_or_none)]
    fill: Option<f64>,
    /// Start in the steady state of random, hot-cold or zipf: fill the drive by about one
    /// drive write in a suitable order.
    #[arg(long, conflicts_with = "fio")]
    steady: bool,
    /// Scale the drive to this size with the same proportions.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Seed of addresses, sizes and operations.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    addresses: AddressArgs,
    #[command(flatten)]
    traced: TraceArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With --trace")]
struct TraceArgs {
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    timing: TimingArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With sequential, random, hot-cold and zipf")]
struct AddressArgs {
    /// Use operations of this size, or of several sizes with weights: 4KiB:70,64KiB:30
    /// [default: 4KiB].
    #[arg(long, value_name = "SIZE[:WEIGHT],…")]
    size: Option<RequestSizes>,
    /// Percentage of reads [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = percentage(..=100))]
    reads: Option<u8>,
    /// Percentage of trims [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = percentage(..=99))]
    trims: Option<u8>,
    /// Draw the addresses of trims from this set: 'all' by the workload's own pattern, in
    /// use or not (with uniform writes of one size, a share 1 - q stays in use, where q
    /// is trims divided by trims plus writes); or 'in-use', each equally often, as in
    /// Frankie et al. 2012 ((1 - 2q) / (1 - q) stays in use).
    #[arg(
        long, value_name = "SET", requires = "trims", default_value = "all",
        value_parser = one_of(TRIM_SETS)
    )]
    trims_of: TrimPattern,
    /// Operations in flight [default: 32].
    #[arg(long, value_name = "N", value_parser = count(1..=65_536))]
    queue_depth: Option<u32>,
    /// Use this percentage of the drive [default: 100].
    #[arg(long, value_name = "PERCENT", value_parser = percent_above_0)]
    span: Option<f64>,
}

const UNTIL_WRITTEN: Amount = Amount::Capacities(3.0);
const TRIM_SETS: &[(&str, TrimPattern)] =
    &[("all", TrimPattern::All), ("in-use", TrimPattern::InUse)];

#[derive(Debug, Clone)]
struct WorkloadSpec {
    text: String,
    kind: WorkloadKind,
}

#[derive(Debug, Clone, PartialEq)]
enum WorkloadKind {
    Addresses(Pattern),
    Crystal(Loops),
    Jesd219,
    Jobs(Vec<Job>),
    Trace(TraceInput),
}

impl FromStr for WorkloadSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = match text.split_once(':').unwrap_or((text, "")) {
            ("crystal", rest) => WorkloadKind::Crystal(rest.parse()?),
            ("jesd219", "") => WorkloadKind::Jesd219,
            _ => WorkloadKind::Addresses(Pattern::parse(text, &["crystal", "jesd219"])?),
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// Bytes to read and write until `written` bytes are written: three of five requests
/// write.
const fn jesd219_bytes(Bytes(written): Bytes) -> u64 {
    (written / 3).saturating_mul(5)
}

fn percent_or_none(text: &str) -> Result<f64, String> {
    options::percent(text, 0.0..=100.0, "a percentage from 0 to 100")
}

/// Simulates the drive, keeps the run and prints the report.
pub fn run(args: &DriveSimulateArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let drive = drives::load(&args.drive)?;
    let spec = model::sized(drive.spec.clone(), args.capacity)?;
    let plan = plan(args, &spec, context)?;
    if let DriveLoad::Synthetic(addresses) = &plan.load {
        let (block, name) = (spec.logical_block_bytes, &args.drive);
        let takes_trims = spec.flash.trim.supported;
        if addresses.mix.trim_percent > 0 && !takes_trims {
            let what =
                format!("--trims {}: {name} does not support TRIM", addresses.mix.trim_percent);
            return Err(UsageError::new(what)
                .hint("leave --trims out, or choose a drive with TRIM")
                .into());
        }
        if let Some((size, _)) = addresses.sizes.iter().find(|(size, _)| size % block != 0) {
            let what = format!(
                "operations of {size} bytes are not a multiple of the {block}-byte blocks of {name}"
            );
            return Err(UsageError::new(what).into());
        }
    }
    let total = plan.until_written.map_or(0, |amount| amount.of(Bytes(spec.capacity_bytes)).0);
    let mut bar = Progress::new(context, "simulate", ProgressUnit::Bytes, total);
    let (mut run, end) = simulate::run(&spec, &format!("drive:{}", args.drive), &plan, &mut bar)?;
    drop(bar);
    run.warnings.extend(few::superblocks(&drive.spec, &spec));
    run.warnings.extend(unwritten_reads(args, &run));
    recipe::note_drive(&mut run, &drive);
    finish::conclude(context, &run, end)
}

/// A caution if a trace reads from a drive that was empty by default.
fn unwritten_reads(args: &DriveSimulateArgs, run: &Run) -> Option<Warning> {
    let reads = run.phases.iter().any(|phase| phase.read > Bytes::ZERO);
    let text = "the drive was empty before the trace, and reads of space that the trace has not \
                written take no time on the flash; use --fill 100, or --fill 0 if this is meant";
    (args.trace.is_some() && args.fill.is_none() && reads)
        .then(|| Warning::new("trace.unwritten-space", Severity::Caution, text.to_owned()))
}

fn plan(
    args: &DriveSimulateArgs,
    spec: &DriveSpec,
    context: &Context,
) -> anyhow::Result<DriveSimulationPlan> {
    let (reading, timing) = (args.traced.reading.reading(), args.traced.timing.timing());
    let (name, kind) = match (&args.fio, &args.trace) {
        (Some(path), _) => {
            (format!("fio:{}", path.display()), WorkloadKind::Jobs(job_file::read(path, context)?))
        }
        (_, Some(path)) => {
            timing::check(timing, path, &reading)?;
            args.traced.reading.announce(path, context)?;
            let trace = TraceInput { path: path.clone(), reading, timing };
            (format!("trace:{}", path.display()), WorkloadKind::Trace(trace))
        }
        _ if reading != TraceReadOptions::default() || timing != Timing::Recorded => {
            let what = "--format, --volume, --events, --rate and --closed-loop need --trace";
            return Err(UsageError::new(what).into());
        }
        _ => (args.workload.text.clone(), args.workload.kind.clone()),
    };
    let given = &args.addresses;
    let shares = given.reads.is_some() || given.trims.is_some() || given.span.is_some();
    let others = shares || given.size.is_some() || given.queue_depth.is_some();
    if others && !matches!(kind, WorkloadKind::Addresses(_)) {
        let text = "--size, --reads, --trims, --queue-depth and --span only apply to \
            sequential, random, hot-cold and zipf";
        return Err(UsageError::new(text)
            .hint("write settings of crystal after its name: 'crystal:size=1GB:tests=both'")
            .into());
    }
    let (reads, trims) = (given.reads.unwrap_or(0), given.trims.unwrap_or(0));
    if u32::from(reads) + u32::from(trims) > 100 {
        let sum = u32::from(reads) + u32::from(trims);
        let what = format!("--reads {reads} and --trims {trims} add up to {sum} %");
        return Err(UsageError::new(what).hint("use at most 100 %; the rest are writes").into());
    }
    let load = match kind {
        WorkloadKind::Addresses(pattern) => DriveLoad::Synthetic(Addresses {
            pattern,
            mix: Mix { read_percent: reads, trim_percent: trims },
            trims_of: given.trims_of,
            sizes: given.size.as_ref().map_or_else(|| vec![(4096, 1)], |sizes| sizes.0.clone()),
            queue_depth: given.queue_depth.unwrap_or(32),
            span_permille: (given.span.unwrap_or(100.0) * 10.0).round() as u32,
        }),
        WorkloadKind::Crystal(loops) => DriveLoad::Crystal(loops),
        WorkloadKind::Jesd219 => {
            let written = args.until_written.unwrap_or(UNTIL_WRITTEN);
            let job = Job::jesd219("jesd219", spec.logical_block_bytes);
            let bytes = jesd219_bytes(written.of(Bytes(spec.capacity_bytes)));
            DriveLoad::Jobs(vec![Job { io_size: Some(bytes), ..job }])
        }
        WorkloadKind::Jobs(jobs) => DriveLoad::Jobs(jobs),
        WorkloadKind::Trace(trace) => DriveLoad::Trace(trace),
    };
    let filled = matches!(load, DriveLoad::Synthetic(_) | DriveLoad::Jobs(_));
    Ok(DriveSimulationPlan {
        name,
        data: args.data,
        fill_permille: (args.fill.unwrap_or(if filled { 100.0 } else { 0.0 }) * 10.0).round()
            as u32,
        steady: args.steady,
        until_written: args.until_written.or((!matches!(
            load,
            DriveLoad::Jobs(_) | DriveLoad::Trace(_)
        ))
        .then_some(UNTIL_WRITTEN)),
        trim: args.trim.or(if matches!(load, DriveLoad::Crystal(_)) {
            Some(PolicySpec::None)
        } else {
            None
        }),
        seed: args.seed,
        load,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jesd219_bytes_of_any_amount_are_a_number() {
        assert_eq!(
            [0, 300, u64::MAX].map(|written| jesd219_bytes(Bytes(written))),
            [0, 500, u64::MAX]
        );
    }

    #[test]
    fn workload_and_request_sizes_parse() {
        let kind = |text: &str| text.parse::<WorkloadSpec>().map(|spec| spec.kind);
        assert_eq!(
            kind("hot-cold:0.1/0.9"),
            Ok(WorkloadKind::Addresses(Pattern::HotCold { space: 0.1, ops: 0.9 }))
        );
        assert_eq!(kind("zipf:1.2"), Ok(WorkloadKind::Addresses(Pattern::Zipf { theta: 1.2 })));
        assert_eq!(kind("crystal"), Ok(WorkloadKind::Crystal(Loops::default())));
        assert!(kind("rondom").unwrap_err().ends_with("did you mean 'random'?"));
        assert!(kind("crystal:sise=1").unwrap_err().contains("no setting 'sise'"));
        assert_eq!(
            "4KiB:70,64KiB:30".parse::<RequestSizes>().unwrap().0,
            [(4096, 70), (65_536, 30)]
        );
        for wrong in ["", "0", "4KiB:x", "8TB"] {
            assert!(wrong.parse::<RequestSizes>().is_err(), "{wrong}");
        }
        let percent = percent_above_0;
        assert!(percent("0").is_err() && percent("101").is_err() && percent("12.5%") == Ok(12.5));
    }
}
