//! `trimtab drive replay`.

mod kept;

use crate::cmd::options::{ReadingArgs, TimingArgs};
use crate::drives;
use crate::report::layout::on_screen;
use crate::store;
use anyhow::Context as _;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Counting, Progress};
use trimtab_linux::sys::interrupt;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::runner::recorder::{Recorded, Recorder};
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::replay::{self, Outcome};
use trimtab_study::document::Table;
use trimtab_vssd::status::ByKind;
use trimtab_vssd::trace::Source;
use trimtab_vssd::trace::timing;

const EXAMPLES: &str = "\
Examples:
  trimtab drive replay recording --drive ocz-vertex-le-100gb
  trimtab drive replay recording --drive ocz-vertex-le-100gb --trim recorded --trim none --trim batched:every=1h --trim idle --rest 1d
  trimtab drive replay msr.csv --drive ./mine.toml --size 64GiB --volume 1 --fill 90

A trace without times, such as an fio iolog of version 2, needs --rate or --closed-loop.

What the trace trims is what its host had freed: 'none' never tells the drive, 'batched', 'adaptive' and 'idle' tell it in their own time.
Each policy's replay is kept as a run: trimtab results compare last~1 last, trimtab results rerun last.";

/// Arguments of `trimtab drive replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A recording of 'trimtab drive attach --record', or a text trace (see --format).
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// A shipped drive, or the path of a specification file.
    #[arg(long, value_name = "NAME|FILE")]
    drive: String,
    /// Another capacity, with the same over-provisioning.
    #[arg(long)]
    size: Option<Bytes>,
    /// recorded, or a trim policy: none, online, batched, adaptive, idle, with settings as in 'batched:every=1h'. May be given several times.
    #[arg(long = "trim", value_name = "POLICY", default_value = "recorded")]
    policies: Vec<Trim>,
    /// Share of the drive that is written once, in order, beforehand, in per cent.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    fill: u64,
    /// Let the drive rest for this long afterwards (such as 8d), so that a policy can still act. That time is not counted.
    #[arg(long, value_name = "TIME")]
    rest: Option<Nanos>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    timing: TimingArgs,
    /// Seed of everything random in the drive.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

/// As recorded, or under a policy.
#[derive(Clone, Debug)]
struct Trim(Option<PolicySpec>);

impl FromStr for Trim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "recorded" {
            return Ok(Self(None));
        }
        text.parse().map(|policy| Self(Some(policy))).map_err(|error: trimtab_sim::policy::ParsePolicyError| error.to_string())
    }
}

impl std::fmt::Display for Trim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(policy) => f.pad(&policy.to_string()),
            None => f.pad("recorded"),
        }
    }
}

/// Replays.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot handle signals")?;
    store::check(context)?;
    let drive = drives::load(&args.drive)?;
    let spec = model::sized(drive.spec.clone(), args.size)?;
    let few = few::superblocks(&drive.spec, &spec);
    if let Some(warning) = &few {
        context.remark(&warning.text);
    }
    let interface = Interface::of(&spec);
    timing::check(args.timing.timing(), &args.trace, &args.reading.reading())?;
    args.reading.announce(&args.trace, context)?;
    let mut outcomes = Vec::new();
    let mut kept = Vec::new();
    for trim in &args.policies {
        let header = kept::header(args, &drive, trim);
        let (outcome, recorded, of_trace) = replay(args, &spec, interface, trim, context)?;
        let mut run = kept::run(header, recorded, &outcome);
        run.warnings.extend(few.clone());
        run.warnings.extend(of_trace.iter().map(|text| kept::warning(text)));
        if outcomes.is_empty() {
            of_trace.iter().for_each(|warning| context.remark(warning));
        }
        kept.push(store::save(context, &run));
        outcomes.push((trim.to_string(), outcome));
    }
    let document = json!({ "drive": spec.name, "size": spec.capacity_bytes, "replays": outcomes.iter().map(|(trim, outcome)| as_json(trim, outcome)).collect::<Vec<_>>() });
    context.report("drive-replay", 1, &document, || in_words(&outcomes))?;
    for id in kept {
        let id = id.context("the result above could not be kept")?;
        context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of a policy, what was recorded, and what of the trace is not as it stands there.
type Replayed = (Outcome, Recorded, Vec<String>);

fn replay(args: &Args, spec: &DriveSpec, interface: Interface, trim: &Trim, context: &Context) -> anyhow::Result<Replayed> {
    let mut drive = model::build(spec, args.seed)?;
    let filled = fill(drive.as_mut(), &interface, args.fill)?;
    let mut progress = Progress::new(context, &format!("replaying, {trim}"), Counting::Items, 0);
    let (mut recorder, mut warnings) = (Recorder::new(filled.1), Vec::new());
    recorder.begin_phase("replay", filled.1);
    let outcome = replay::outcome(drive, interface, trim.0.as_ref(), args.timing.timing(), filled, interrupt::requested, |replay| {
        let mut source = Source::open(&args.trace, &args.reading.reading())?;
        let mut n = 0_u64;
        while let Some(event) = source.next() {
            let event = event?;
            let served = replay
                .event(&event)
                .map_err(|problem| UsageError::new(format!("{}: {problem}", source.place())).hint("--size makes the drive larger"))?;
            recorder.op(event.kind.op(), served.arrived, served.done, event.len);
            // After each request: the time before it can be long, and a policy may have had much to do in it.
            interrupt::check()?;
            if n.is_multiple_of(4096) {
                progress.set(n);
            }
            n += 1;
        }
        if n == 0 {
            return Err(UsageError::new(format!("{} has no request", args.trace.display())).into());
        }
        warnings = source.warnings();
        if let Some(rest) = args.rest {
            replay.rest(rest);
            interrupt::check()?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    let ended = filled.1.saturating_add(outcome.took);
    Ok((outcome, recorder.finish(ended), warnings))
}

/// Writes that much of the drive once, in order; gives how much that was and when it was done.
fn fill(drive: &mut dyn model::Model, interface: &Interface, percent: u64) -> anyhow::Result<(Bytes, Nanos)> {
    const STEP: u64 = 1 << 20;
    let block = u64::from(interface.geometry.logical_block);
    let end = (u128::from(interface.geometry.size) * u128::from(percent) / 100) as u64 / block * block;
    let (mut at, mut now) = (0, Nanos::ZERO);
    while at < end {
        interrupt::check()?;
        let extent = Extent { offset: at, len: STEP.min(end - at) };
        now = drive.submit(now, &Command::Write(extent, DataClass::Random)).done;
        at += extent.len;
    }
    Ok((Bytes(end), now))
}

fn as_json(trim: &str, outcome: &Outcome) -> serde_json::Value {
    json!({
        "trim": trim,
        "took_ns": outcome.took.0,
        "requests": ByKind::from(&outcome.counts),
        "waf": outcome.waf,
        "discards": outcome.account.discards,
        "never_told_bytes": outcome.account.never_told.0,
        "model": outcome.model,
    })
}

fn in_words(outcomes: &[(String, Outcome)]) -> String {
    let mut table = Table::new("", &["trim", "took", "WAF", "write p99", "read p99", "trims", "trimmed", "effective", "never told"]);
    for (trim, outcome) in outcomes {
        let p99 =
            |done: &trimtab_vssd::engine::Done| if done.count == 0 { "-".to_owned() } else { done.latency.percentile(99.0).to_string() };
        table.row([
            trim.clone(),
            outcome.took.to_string(),
            outcome.waf.map_or("-".to_owned(), |waf| format!("{waf:.3}")),
            p99(&outcome.counts.write),
            p99(&outcome.counts.read),
            outcome.counts.trim.count.to_string(),
            outcome.account.discards.ranges.asked.bytes.to_string(),
            Bytes(outcome.account.discards.effective_bytes()).to_string(),
            outcome.account.never_told.to_string(),
        ]);
    }
    on_screen(&table)
}
