//! `trimtab bench postmark [TARGET]`.

use super::finish::{self, Watch};
use super::modelled::{self, ModelArgs};
use super::turns::AgainstArgs;
use crate::cmd::options::{Choice, SafetyArgs};
use crate::cmd::postmark::config::{THREADS_MAX, interval_of_rate, rate_option};
use crate::cmd::postmark::{details, memory};
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::Observer;
use trimtab_linux::output::Context;
use trimtab_linux::session::runner::together;
use trimtab_linux::session::safety::{self, Workspace};
use trimtab_linux::target::dir::{Calls, DirOptions, DirTarget, Fsync};
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::{End, Outcome};
use trimtab_sim::target::FileTarget;
use trimtab_sim::workload::postmark::{Counts, Postmark, Settings, Tries};
use trimtab_sim::workload::{FileWorkload as _, Plan};

/// PostMark's operations with ordinary options: many small files, created, read, appended to and deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without options this is the configuration of the published results: 10,000 files of 500 to 100,000 bytes, 20,000 transactions,
calls of 4 KiB, seed 42. Every operation and byte is PostMark's; 'trimtab postmark' speaks its command language.

Examples:
  trimtab bench postmark /mnt/ssd
  trimtab bench postmark --fsync close --threads 4 /mnt/ssd
  trimtab bench postmark --rate 2000 --tries 1 /mnt/ssd      latency at 2000 transactions a second
  trimtab bench postmark null:                               what the tool itself costs")]
pub struct Args {
    /// A directory on the filesystem to measure, drive:NAME for a modelled drive, or null: for the tool's own cost.
    #[arg(default_value = ".")]
    pub(super) target: String,
    /// Repeat this often; every try does the same.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tries: u32,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Make written files durable: never, or before each is closed.
    #[arg(long, value_enum, default_value_t = Choice(Fsync::Never))]
    fsync: Choice<Fsync>,
    /// Bypass the page cache; what is not a whole aligned block still goes through it.
    #[arg(long, conflicts_with = "buffered")]
    direct: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    pub(super) against: AgainstArgs,
    #[command(flatten)]
    safety: SafetyArgs,
}

/// What is done.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// New files are at least LOW and less than HIGH bytes, and files grow up to HIGH.
    #[arg(long, value_name = "LOW:HIGH", default_value = "500:100000", value_parser = sizes)]
    size: (u32, u32),
    /// Files at the start.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    number: u32,
    /// Transactions: each reads or appends, then creates or deletes.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    transactions: u32,
    /// Seed.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u32,
    /// Spread the files over this many subdirectories.
    #[arg(long, value_name = "N", default_value_t = 0)]
    subdirectories: u32,
    /// Spread the files over as many locations as there are weights, such as 5:2:1.
    #[arg(long, value_name = "W:W…", value_delimiter = ':')]
    weights: Vec<u32>,
    /// Bytes per read call.
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = block)]
    read_block: u32,
    /// Bytes per write call.
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = block)]
    write_block: u32,
    /// Gather calls in a 4096-byte buffer, as C's buffered streams do.
    #[arg(long)]
    buffered: bool,
    /// Tenths of transactions that read rather than append; -1 for neither.
    #[arg(long, value_name = "B", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-1..=10))]
    bias_read: i8,
    /// Tenths of transactions that create rather than delete; -1 for neither.
    #[arg(long, value_name = "B", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-1..=10))]
    bias_create: i8,
    /// Start at most N transactions a second in each stream; latency then counts from when a transaction was due.
    #[arg(long, value_name = "N", value_parser = rate_option)]
    rate: Option<f64>,
    /// Independent streams that run at once, each with all these files and transactions and a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: u32,
}

impl WorkloadArgs {
    fn settings(&self) -> anyhow::Result<Settings> {
        let settings = Settings {
            size_low: self.size.0,
            size_high: self.size.1,
            number: self.number,
            transactions: self.transactions,
            seed: self.seed,
            weights: self.weights.clone(),
            subdirectories: self.subdirectories,
            read_block: self.read_block,
            write_block: self.write_block,
            buffering: self.buffered,
            bias_read: u8::try_from(self.bias_read).ok(),
            bias_create: u8::try_from(self.bias_create).ok(),
            interval: self.rate.and_then(interval_of_rate),
        };
        settings.check().map_err(|error| UsageError::new(error.to_string()))?;
        Ok(settings)
    }
}

fn sizes(text: &str) -> Result<(u32, u32), String> {
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    Ok((block(low)?, block(high)?))
}

fn block(text: &str) -> Result<u32, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    u32::try_from(bytes.0).map_err(|_| format!("{text} is more than 4 GiB"))
}

/// Everything that is to be run.
struct Job<'a> {
    args: &'a Args,
    settings: Settings,
    options: DirOptions,
}

impl Job<'_> {
    fn streams(&self) -> anyhow::Result<Vec<Tries>> {
        let stream = |index| Postmark::new(&self.settings.stream(index)).map(|run| Tries::new(run, self.args.tries));
        let streams: Result<_, _> = (0..self.args.workload.threads).map(stream).collect();
        streams.map_err(|error| UsageError::new(error.to_string()).into())
    }

    fn header(&self, kind: TargetKind) -> Header {
        let mut fields = details::fields(&self.settings, self.args.fsync.0, self.args.direct, self.args.workload.threads);
        fields.push(Field::new("tries", self.args.tries.to_string()));
        starts_now("postmark", fields, kind, &self.args.target, "as-mounted", self.settings.seed.into())
    }

    /// Runs the streams, and makes a run of what comes out.
    fn run<T: FileTarget + Send>(
        &self,
        mut streams: Vec<(Tries, T)>,
        header: Header,
        observer: Option<Observer>,
        mut watch: Watch,
    ) -> (Run, End) {
        let outcome: Outcome = together::run(&mut streams, &mut watch);
        drop(watch);
        let (mut run, end) = finish::assemble(header, observer, outcome, |_| Vec::new());
        let counts: Vec<&[Counts]> = streams.iter().map(|(tries, _)| tries.finished()).collect();
        details::add(&mut run, &self.settings, &counts);
        (run, end)
    }

    fn on_directory(&self, context: &Context, path: &Path) -> anyhow::Result<((Run, End), Option<Workspace>)> {
        let streams = self.streams()?;
        let plan = sum(&streams);
        let workspace = safety::prepare(context, self.args.safety.reserve, path, "bench postmark", &plan)?;
        let observer = Observer::start(path).with_context(|| format!("cannot look at {}", path.display()))?;
        let epoch = Instant::now();
        let mut targets = Vec::new();
        for (index, tries) in streams.into_iter().enumerate() {
            let (dir, dir_path) = workspace.subdirectory(&format!("stream{index}"))?;
            targets.push((tries, DirTarget::new(dir, &dir_path, self.options).with_epoch(epoch)));
        }
        let watch = Watch::new(context, "postmark", &plan, Some(workspace.guard()?));
        let done = self.run(targets, self.header(TargetKind::Directory), Some(observer), watch);
        Ok((done, Some(workspace)))
    }

    fn on_null(&self, context: &Context) -> anyhow::Result<(Run, End)> {
        let streams = self.streams()?;
        let watch = Watch::new(context, "postmark", &sum(&streams), None);
        let targets = streams.into_iter().map(|tries| (tries, NullFiles::new())).collect();
        Ok(self.run(targets, self.header(TargetKind::Null), None, watch))
    }

    /// One stream in virtual time: the modelled filesystem knows neither system calls nor threads.
    fn on_drive(&self, context: &Context, name: &str) -> anyhow::Result<(Run, End)> {
        if self.args.workload.threads > 1 || self.args.direct || self.args.fsync.0 != Fsync::Never {
            let problem = "on a modelled drive postmark has one stream, through the page cache, without fsync";
            return Err(UsageError::new(problem).hint("leave --threads, --direct and --fsync out").into());
        }
        let [mut tries] = <[Tries; 1]>::try_from(self.streams()?).expect("one stream was asked for");
        let header = self.header(TargetKind::ModelledVolume);
        let job =
            modelled::Job { target: &self.args.target, workload_name: "postmark", workload: &mut tries, header, metrics: |_| Vec::new() };
        let (mut run, end) = modelled::run(&self.args.model, context, name, job)?;
        details::add(&mut run, &self.settings, &[tries.finished()]);
        Ok((run, end))
    }

    /// The tool's own cost in one stream, as fast as it goes.
    fn overhead(&self) -> Option<Overhead> {
        let settings = Settings { interval: None, ..self.settings.clone() };
        Some(Overhead::of_files(&mut Postmark::new(&settings).ok()?, None))
    }
}

fn sum(streams: &[Tries]) -> Plan {
    streams.iter().map(Tries::plan).fold(Plan { ops: Some(0), ..Plan::default() }, |sum, plan| Plan {
        written: sum.written.saturating_add(plan.written),
        space: sum.space.saturating_add(plan.space),
        ops: sum.ops.zip(plan.ops).map(|(a, b)| a.saturating_add(b)),
    })
}

/// Runs it and reports.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&args.target)?;
    args.model.check(&spec)?;
    let settings = args.workload.settings()?;
    let calls = if settings.buffering { Calls::Stdio } else { Calls::Blocks { empty_remainder: true } };
    let options = DirOptions {
        write_block: settings.write_block,
        read_block: settings.read_block,
        calls,
        fsync: args.fsync.0,
        direct: args.direct,
        ..DirOptions::default()
    };
    options.check().map_err(UsageError::new)?;
    memory::check(&settings, args.workload.threads)?;
    let job = Job { args, settings, options };
    let ((mut run, end), workspace) = match &spec {
        TargetSpec::Directory(path) => job.on_directory(context, path)?,
        TargetSpec::Drive(name) => (job.on_drive(context, name)?, None),
        TargetSpec::Null(_) => (job.on_null(context)?, None),
        other => return Err(other.refused(format!("the postmark workload needs a directory, and {other} is none")).into()),
    };
    if matches!(spec, TargetSpec::Directory(_))
        && end == End::Complete
        && let Some(overhead) = job.overhead()
    {
        overhead.note(&mut run);
    }
    finish::clean_up(context, workspace, finish::conclude(context, &run, end))
}
