//! Replays a trace on a modelled drive under several policies. Each replay is a run, stored
//! and compared like any other.

use super::Drive;
use crate::store::recipe;
use crate::store::recipe::starts_now;
use std::path::PathBuf;
use std::str::FromStr;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::sys::interrupt;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::header::RunHeader;
use trimtab_sim::runner::recorder::{Recorder, RunRecording};
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::replay::{self, ReplayOutcome};
use trimtab_sim::trace::TraceReadOptions;
use trimtab_vssd::trace::TraceSource;
use trimtab_vssd::trace::timing::Timing;

/// Request for a replay.
#[derive(Debug)]
pub struct ReplayRequest {
    /// The trace's file.
    pub trace: PathBuf,
    /// The drive as the user named it.
    pub drive: String,
    /// Another capacity with the same over-provisioning.
    pub size: Option<Bytes>,
    /// Policies, each replayed on a new drive.
    pub policies: Vec<TrimSource>,
    /// Percentage of the drive that is written once beforehand.
    pub fill: u64,
    /// Rest of the drive afterwards.
    pub rest: Option<Nanos>,
    /// Options for reading the trace.
    pub reading: TraceReadOptions,
    /// Timing of its requests.
    pub timing: Timing,
    /// Seed of the drive's random behaviour.
    pub seed: u64,
}

/// The recorded TRIMs, or a policy.
#[derive(Clone, Debug)]
pub struct TrimSource(pub Option<PolicySpec>);

impl FromStr for TrimSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "recorded" {
            return Ok(Self(None));
        }
        Ok(Self(Some(text.parse::<PolicySpec>()?)))
    }
}

impl std::fmt::Display for TrimSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(policy) => f.pad(&policy.to_string()),
            None => f.pad("recorded"),
        }
    }
}

/// Policies with their outcomes.
pub type Outcomes = Vec<(String, ReplayOutcome)>;

/// Replays the trace under each policy. Each run is kept as soon as it is finished.
pub fn run(
    request: &ReplayRequest,
    drive: &Drive,
    spec: &DriveSpec,
    context: &Context,
    mut keep: impl FnMut(&Run),
) -> anyhow::Result<Outcomes> {
    let few = few::superblocks(&drive.spec, spec);
    if let Some(warning) = &few {
        context.remark(&warning.text);
    }
    let mut outcomes = Vec::new();
    for trim in &request.policies {
        let header = header(request, drive, trim);
        let (outcome, recorded, of_trace) = replay(request, spec, trim, context)?;
        let mut run = kept(header, recorded, &outcome);
        run.warnings.extend(few.clone());
        run.warnings.extend(of_trace.iter().map(|text| Warning::new("trace.read", Severity::Note, text.clone())));
        if outcomes.is_empty() {
            of_trace.iter().for_each(|warning| context.remark(warning));
        }
        keep(&run);
        outcomes.push((trim.to_string(), outcome));
    }
    Ok(outcomes)
}

/// The outcome of a policy, the recording, and deviations from the trace.
type PolicyReplay = (ReplayOutcome, RunRecording, Vec<String>);

fn replay(request: &ReplayRequest, spec: &DriveSpec, trim: &TrimSource, context: &Context) -> anyhow::Result<PolicyReplay> {
    let interface = Interface::of(spec);
    let mut drive = model::build(spec, request.seed)?;
    let filled = fill(drive.as_mut(), &interface, request.fill)?;
    let mut progress = Progress::new(context, &format!("replaying, {trim}"), ProgressUnit::Items, 0);
    let (mut recorder, mut warnings) = (Recorder::new(filled.1), Vec::new());
    recorder.begin_phase("replay", filled.1);
    let outcome = replay::outcome(drive, interface, trim.0.as_ref(), request.timing, filled, interrupt::requested, |replay| {
        let mut source = TraceSource::open(&request.trace, &request.reading)?;
        let mut n = 0_u64;
        while let Some(event) = source.next() {
            let event = event?;
            let served = replay
                .event(&event)
                .map_err(|problem| UsageError::new(format!("{}: {problem}", source.place())).hint("--size makes the drive larger"))?;
            recorder.op(event.kind.op(), served.arrived, served.done, event.len);
            // After each request: the time before it can be long and full of the policy's work.
            interrupt::check()?;
            if n.is_multiple_of(4096) {
                progress.set(n);
            }
            n += 1;
        }
        if n == 0 {
            return Err(UsageError::new(format!("{} has no request", request.trace.display())).into());
        }
        warnings = source.warnings();
        if let Some(rest) = request.rest {
            replay.rest(rest);
            interrupt::check()?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    let ended = filled.1.saturating_add(outcome.took);
    Ok((outcome, recorder.finish(ended), warnings))
}

/// Writes this percentage of the drive once, in order; returns the bytes and the end time.
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

/// The header of the run, before it starts.
fn header(request: &ReplayRequest, drive: &Drive, trim: &TrimSource) -> RunHeader {
    let mut settings = vec![Field::new("trace", request.trace.display().to_string()), Field::new("fill", request.fill.to_string())];
    settings.extend(request.timing.setting().map(|(key, value)| Field::new(key, value)));
    settings.extend(request.size.map(|size| Field::new("capacity-bytes", size.0.to_string())));
    settings.extend(request.reading.volume.as_ref().map(|volume| Field::new("volume", volume.to_string())));
    settings.extend(request.rest.map(|rest| Field::new("rest", rest.to_string())));
    let policy = trim.0.as_ref().map_or("recorded", PolicySpec::name);
    let label = format!("drive:{}", request.drive);
    let mut header = starts_now("replay", settings, TargetKind::ModelledDrive, &label, policy, request.seed);
    header.policy_settings = trim.0.as_ref().map(PolicySpec::settings).unwrap_or_default();
    header.specification.extend(recipe::drive_fields(drive));
    header
}

/// The run, from the recording and the final state of drive and policy.
fn kept(header: RunHeader, recorded: RunRecording, outcome: &ReplayOutcome) -> Run {
    let mut run = header.into_run(recorded, true);
    if let Some(phase) = run.phases.last_mut() {
        phase.discards = Some(outcome.account.discards.ranges.clone());
    }
    let metric = |name: &str, unit, better, value| Metric { name: name.to_owned(), unit, better, samples: vec![value] };
    run.metrics = vec![metric("replay.seconds", Unit::Seconds, Better::Lower, outcome.took.as_secs_f64())];
    run.metrics.extend(outcome.waf.map(|waf| metric(metrics::WAF, Unit::Ratio, Better::Lower, waf)));
    run.metrics.push(metric("never-told.bytes", Unit::Bytes, Better::Neither, outcome.account.never_told.as_f64()));
    run.counters = outcome.model.iter().map(|(name, count)| (name.clone(), *count)).collect();
    run
}
