//! `trimtab drive replay`.

use crate::cmd::options::{ReadingArgs, TimingArgs};
use crate::drives::replay::{ReplayRequest, TrimSource};
use crate::drives::{self, replay};
use crate::report::layout::on_screen;
use crate::store;
use anyhow::Context as _;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::model;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt;
use trimtab_sim::simulate::replay::ReplayOutcome;
use trimtab_study::document::Table;
use trimtab_vssd::status::RequestsByKind;
use trimtab_vssd::trace::timing;

const EXAMPLES: &str = "\
Examples:
  trimtab drive replay recording --drive ocz-vertex-le-100gb
  trimtab drive replay recording --drive ocz-vertex-le-100gb --trim recorded --trim none --trim batched:every=1h --trim idle --rest 1d
  trimtab drive replay msr.csv --drive ./mine.toml --size 64GiB --volume 1 --fill 90

A trace without times, such as an fio iolog of version 2, needs --rate or --closed-loop.

The TRIMs of the trace are the host's deletes: 'none' never sends them, 'batched', 'adaptive' and 'idle' send them at their own times.
Each policy's replay is kept as a run: trimtab results compare last~1 last, trimtab results rerun last.";

/// Arguments of `trimtab drive replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveReplayArgs {
    /// Replay this recording of 'trimtab drive attach --record', or text trace (see --format).
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Replay on this drive: a shipped drive, or the path of a specification file.
    #[arg(long, value_name = "NAME|FILE")]
    drive: String,
    /// Use another capacity with the same over-provisioning.
    #[arg(long)]
    size: Option<Bytes>,
    /// Replay under this policy: recorded, none, online, batched, adaptive or idle, with settings
    /// as in 'batched:every=1h'. Repeat for more.
    #[arg(long = "trim", value_name = "POLICY", default_value = "recorded")]
    policies: Vec<TrimSource>,
    /// Write this percentage of the drive once, in order, before the replay.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    fill: u64,
    /// Let the drive rest this long afterwards (such as 8d), so that a policy can still act. This
    /// time is not counted.
    #[arg(long, value_name = "TIME")]
    rest: Option<Nanos>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    timing: TimingArgs,
    /// Seed of the drive's random behaviour.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl DriveReplayArgs {
    fn resolve(&self) -> ReplayRequest {
        ReplayRequest {
            trace: self.trace.clone(),
            drive: self.drive.clone(),
            size: self.size,
            policies: self.policies.clone(),
            fill: self.fill,
            rest: self.rest,
            reading: self.reading.reading(),
            timing: self.timing.timing(),
            seed: self.seed,
        }
    }
}

pub fn run(args: &DriveReplayArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot handle signals")?;
    store::check(context)?;
    let request = args.resolve();
    let drive = drives::load(&args.drive)?;
    let spec = model::sized(drive.spec.clone(), args.size)?;
    timing::check(request.timing, &args.trace, &request.reading)?;
    args.reading.announce(&args.trace, context)?;
    let mut kept = Vec::new();
    let outcomes = replay::run(&request, &drive, &spec, context, |run| kept.push(store::save(context, run)))?;
    let replays: Vec<_> = outcomes.iter().map(|(trim, outcome)| as_json(trim, outcome)).collect();
    let document = json!({ "drive": spec.name, "size": spec.capacity_bytes, "replays": replays });
    context.report("drive-replay", 1, &document, || in_words(&outcomes))?;
    for id in kept {
        let id = id.context("the result above could not be stored")?;
        context.remark(&format!("kept as {id}: trimtab results show {}", id.short()));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(trim: &str, outcome: &ReplayOutcome) -> serde_json::Value {
    json!({
        "trim": trim,
        "took_ns": outcome.took.0,
        "requests": RequestsByKind::from(&outcome.counts),
        "waf": outcome.waf,
        "discards": outcome.account.discards,
        "never_told_bytes": outcome.account.never_told.0,
        "model": outcome.model,
    })
}

fn in_words(outcomes: &[(String, ReplayOutcome)]) -> String {
    let mut table = Table::new("", &["trim", "took", "WAF", "write p99", "read p99", "trims", "trimmed", "effective", "never sent"]);
    for (trim, outcome) in outcomes {
        let p99 = |done: &trimtab_vssd::engine::RequestTally| {
            if done.count == 0 { "-".to_owned() } else { done.latency.percentile(99.0).to_string() }
        };
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
