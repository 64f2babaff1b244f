//! Replays a trace on a modelled drive under several policies. Each replay is a run,
//! stored and compared like any other.

use crate::cmd::drive::replay::{DriveReplayArgs, TrimSource};
use crate::drives::{self, Drive};
use crate::store::recipe::starts_now;
use crate::store::{self, recipe};
use anyhow::Context as _;
use serde_json::json;
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};
use trimtab_linux::host::memory;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::sys::interrupt;
use trimtab_report::layout::on_screen;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::RunRecording;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::replay::{self, ReplayOutcome};
use trimtab_study::document::Table;
use trimtab_vssd::status::RequestsByKind;
use trimtab_vssd::trace::TraceSource;
use trimtab_vssd::trace::timing;

/// Remark on policies that trim after the trace.
const UNTIMED: &str = "trims after the trace (--rest) take no time of the replay";

/// Replays the trace under each policy, keeps each replay as a run and prints the
/// outcomes.
pub fn run(request: &DriveReplayArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot handle signals")?;
    store::check(context)?;
    let drive = drives::load(&request.drive)?;
    let spec = model::sized(drive.spec.clone(), request.size)?;
    timing::check(request.timing.timing(), &request.trace, &request.reading.reading())?;
    request.reading.announce(&request.trace, context)?;
    let few = few::superblocks(&drive.spec, &spec);
    if let Some(warning) = &few {
        context.remark(&warning.text);
    }
    let (mut outcomes, mut kept) = (Vec::new(), Vec::new());
    for trim in &request.policies {
        let header = header(request, &drive, trim);
        let (outcome, recorded, of_trace) = replay(request, &spec, trim, context)?;
        let mut run = self::kept(header, recorded, &outcome);
        run.warnings.extend(few.clone());
        run.warnings.extend(
            of_trace.iter().map(|text| Warning::new("trace.read", Severity::Note, text.clone())),
        );
        if outcomes.is_empty() {
            of_trace.iter().for_each(|warning| context.remark(warning));
        }
        kept.push(store::save(context, &run));
        outcomes.push((trim.to_string(), outcome));
    }
    let replays: Vec<_> = outcomes.iter().map(|(trim, outcome)| as_json(trim, outcome)).collect();
    let document = json!({ "drive": spec.name, "size": spec.capacity_bytes, "replays": replays });
    context.report("drive-replay", 1, &document, || in_words(&outcomes, request.rest.is_some()))?;
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

fn in_words(outcomes: &[(String, ReplayOutcome)], rests: bool) -> String {
    let mut table = Table::new(
        "",
        &[
            "trim",
            "took",
            "WAF",
            "write p99",
            "read p99",
            "trims",
            "trimmed",
            "effective",
            "never sent",
        ],
    );
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
    let is_steered = rests && outcomes.iter().any(|(trim, _)| trim != "recorded");
    let remark = if is_steered { prose(&format!("Remark: {UNTIMED}.")) } else { String::new() };
    on_screen(&table) + &remark
}

/// The outcome of a policy, the recording, and deviations from the trace.
type PolicyReplay = (ReplayOutcome, RunRecording, Vec<String>);

fn replay(
    request: &DriveReplayArgs,
    spec: &DriveSpec,
    trim: &TrimSource,
    context: &Context,
) -> anyhow::Result<PolicyReplay> {
    let interface = Interface::of(spec);
    memory::check_drive(spec)?;
    let mut drive = model::build(spec, request.seed)?;
    let filled = fill(drive.as_mut(), &interface, request.fill)?;
    let mut progress =
        Progress::new(context, &format!("replaying, {trim}"), ProgressUnit::Items, 0);
    let (mut recorder, mut warnings) = (Recorder::new(filled.1), Vec::new());
    recorder.begin_phase("replay", filled.1);
    let outcome = replay::outcome(
        drive,
        interface,
        trim.0.as_ref(),
        request.timing.timing(),
        filled,
        interrupt::requested,
        |replay| {
            let mut source = TraceSource::open(&request.trace, &request.reading.reading())?;
            let mut n = 0_u64;
            while let Some(event) = source.next() {
                let event = event?;
                let served = replay.event(&event).map_err(|problem| {
                    UsageError::new(format!("{}: {problem}", source.place()))
                        .hint("--size makes the drive larger")
                })?;
                recorder.op(event.kind.op(), served.arrived, served.done, event.len);
                // After each request: the time before it can be long and full of the
                // policy's work.
                interrupt::check()?;
                if n.is_multiple_of(4096) {
                    progress.set(n);
                }
                n += 1;
            }
            if n == 0 {
                return Err(
                    UsageError::new(format!("{} has no request", request.trace.display())).into()
                );
            }
            warnings = source.warnings();
            if let Some(rest) = request.rest {
                replay.rest(rest);
                interrupt::check()?;
            }
            Ok::<_, anyhow::Error>(())
        },
    )?;
    let ended = filled.1.saturating_add(outcome.took);
    Ok((outcome, recorder.finish(ended), warnings))
}

/// Writes this percentage of the drive once, in order; returns the bytes and the end
/// time.
fn fill(
    drive: &mut dyn model::Model,
    interface: &Interface,
    percent: u64,
) -> anyhow::Result<(Bytes, Nanos)> {
    const STEP: u64 = 1 << 20;
    let block = u64::from(interface.geometry.logical_block);
    let end =
        (u128::from(interface.geometry.size) * u128::from(percent) / 100) as u64 / block * block;
    let (mut at, mut now) = (0, Nanos::ZERO);
    while at < end {
        interrupt::check()?;
        let extent = Extent { offset: at, len: STEP.min(end - at) };
        now = drive.submit(now, &Command::Write(extent, DataClass::Random)).done;
        at += extent.len;
    }
    Ok((Bytes(end), now))
}

/// The header of the run, before it starts.
fn header(request: &DriveReplayArgs, drive: &Drive, trim: &TrimSource) -> Run {
    let mut settings = vec![
        Field::new("trace", request.trace.display().to_string()),
        Field::new("fill", request.fill.to_string()),
    ];
    settings.extend(request.timing.timing().setting().map(|(key, value)| Field::new(key, value)));
    settings.extend(request.size.map(|size| Field::new("capacity-bytes", size.0.to_string())));
    settings.extend(
        request.reading.reading().volume.map(|volume| Field::new("volume", volume.to_string())),
    );
    settings.extend(request.rest.map(|rest| Field::new("rest", rest.to_string())));
    let policy = trim.0.as_ref().map_or("recorded", PolicySpec::name);
    let label = format!("drive:{}", request.drive);
    let mut header =
        starts_now("replay", settings, TargetKind::ModelledDrive, &label, policy, request.seed);
    header.policy_settings = trim.0.as_ref().map(PolicySpec::settings).unwrap_or_default();
    header.specification.extend(recipe::drive_fields(drive));
    header
}

/// The run, from the recording and the final state of drive and policy.
fn kept(header: Run, recorded: RunRecording, outcome: &ReplayOutcome) -> Run {
    let mut run = header.into_run(recorded, true);
    if let Some(phase) = run.phases.last_mut() {
        phase.discards = Some(outcome.account.discards.ranges.clone());
    }
    let metric = |name: &str, unit, better, value| Metric {
        name: name.to_owned(),
        unit,
        better,
        samples: vec![value],
    };
    run.metrics =
        vec![metric("replay.seconds", Unit::Seconds, Better::Lower, outcome.took.as_secs_f64())];
    run.metrics
        .extend(outcome.waf.map(|waf| metric(metrics::WAF, Unit::Ratio, Better::Lower, waf)));
    run.metrics.push(metric(
        "never-told.bytes",
        Unit::Bytes,
        Better::Neither,
        outcome.account.never_told.as_f64(),
    ));
    let is_steered = Field::find(&run.settings, "rest").is_some() && run.policy != "recorded";
    run.warnings.extend(is_steered.then(|| {
        Warning::new("replay.rest", Severity::Caution, format!("{UNTIMED}, recorded ones do"))
    }));
    run.counters = outcome.model.iter().map(|(name, count)| (name.clone(), *count)).collect();
    run
}
