//! A replay as a run: kept, compared and made again like any other.

use super::{Args, Trim};
use crate::drives::Drive;
use crate::store::recipe;
use crate::store::recipe::starts_now;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorded;
use trimtab_sim::simulate::replay::Outcome;

/// What is known before it starts.
pub fn header(args: &Args, drive: &Drive, trim: &Trim) -> Header {
    let mut settings = vec![Field::new("trace", args.trace.display().to_string()), Field::new("fill", args.fill.to_string())];
    settings.extend(args.timing.timing().setting().map(|(key, value)| Field::new(key, value)));
    settings.extend(args.size.map(|size| Field::new("capacity-bytes", size.0.to_string())));
    settings.extend(args.reading.reading().volume.map(|volume| Field::new("volume", volume.to_string())));
    settings.extend(args.rest.map(|rest| Field::new("rest", rest.to_string())));
    let policy = trim.0.as_ref().map_or("recorded", PolicySpec::name);
    let label = format!("drive:{}", args.drive);
    let mut header = starts_now("replay", settings, TargetKind::ModelledDrive, &label, policy, args.seed);
    header.policy_settings = trim.0.as_ref().map(PolicySpec::settings).unwrap_or_default();
    header.specification.extend(recipe::drive_fields(drive));
    header
}

/// The run, from what was recorded and what the drive and its policy say at the end.
pub fn run(header: Header, recorded: Recorded, outcome: &Outcome) -> Run {
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

/// What of the trace is not replayed as it stands there.
pub fn warning(text: &str) -> Warning {
    Warning { code: "trace.read".into(), severity: Severity::Note, facts: Vec::new(), text: text.to_owned() }
}
