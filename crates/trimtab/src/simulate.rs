//! A workload on a modelled drive, with what the drive's insides did meanwhile.

pub mod sampled;

use crate::drives::model::{self, Model};
use crate::error::UsageError;
use crate::runner::{End, Events, Header, blocks};
use crate::target::drive::DriveTarget;
use sampled::Sampled;
use trimtab_core::analysis::steady::{SteadyState, steady_state};
use trimtab_core::data::DataClass;
use trimtab_core::drive::Device;
use trimtab_core::drive::spec::DriveSpec;
use trimtab_core::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_core::target::Clock as _;
use trimtab_core::units::{Bytes, Nanos, three_digits};
use trimtab_core::workload::Limit;
use trimtab_core::workload::synthetic::{Mix, Pattern, Settings as SyntheticSettings, Synthetic};

/// How many samples of the drive's insides a simulation takes.
const SAMPLES: u64 = 400;
/// Operation size and depth of the fill before the workload.
const FILL_BLOCK: u32 = 1 << 20;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the run is called in results.
    pub name: String,
    /// Which addresses.
    pub pattern: Pattern,
    /// Kinds of operations.
    pub mix: Mix,
    /// Sizes in bytes with weights.
    pub sizes: Vec<(u32, u32)>,
    /// What written data is like.
    pub data: DataClass,
    /// Operations in flight.
    pub queue_depth: u32,
    /// Share of the drive that is used, in per mille.
    pub span_permille: u32,
    /// Share of the drive that is written once, one after another, before the workload; in per mille.
    pub fill_permille: u32,
    /// How much is written.
    pub until_written: Amount,
    /// Seed.
    pub seed: u64,
}

/// An amount of data: absolute, or in capacities of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(Bytes),
    /// Times the capacity.
    Capacities(f64),
}

impl Amount {
    /// In bytes, on a drive of `capacity`.
    pub fn of(self, capacity: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Capacities(times) => Bytes((times * capacity.as_f64()) as u64),
        }
    }
}

impl std::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(times) = text.strip_suffix(['x', '×']) {
            let times: f64 = times.trim().parse().map_err(|_| format!("'{text}' is not a number of drive capacities such as 3x"))?;
            if times.is_finite() && times > 0.0 && times <= 1e6 {
                return Ok(Self::Capacities(times));
            }
            return Err(format!("'{text}' must lie above 0x and not above 1000000x"));
        }
        text.parse().map(Self::Bytes).map_err(|error: trimtab_core::units::ParseQuantityError| error.to_string())
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Capacities(times) => write!(f, "{times}x"),
        }
    }
}

/// Progress of a simulation in bytes written.
pub trait Watcher {
    /// So much has been written.
    fn written(&mut self, bytes: Bytes);
}

impl Watcher for () {
    fn written(&mut self, _bytes: Bytes) {}
}

struct Forward<'a, W: ?Sized>(&'a mut W);

impl<T: ?Sized, W: Watcher + ?Sized> Events<T> for Forward<'_, W> {
    fn progress(&mut self, progress: crate::runner::Progress<'_>) -> trimtab_core::target::TargetResult {
        self.0.written(progress.written);
        Ok(())
    }
}

/// Runs `plan` on a new drive of `spec`. What was simulated before an interrupt is in the run.
///
/// # Errors
/// Settings that mean nothing on this drive.
pub fn run(spec: &DriveSpec, label: &str, plan: &Plan, watcher: &mut (impl Watcher + ?Sized)) -> anyhow::Result<(Run, End)> {
    let capacity = Bytes(spec.capacity_bytes);
    let total = plan.until_written.of(capacity);
    let (fill, main) = workloads(spec, plan, total)?;
    let mut drive = model::build(spec, plan.seed)?;
    let mut now = Nanos::ZERO;
    if let Some(mut fill) = fill {
        (drive, now) = filled(drive, &mut fill)?;
    }
    let depth = spec.interface.queue_depth.max(plan.queue_depth);
    let sampled = Sampled::new(drive, now, Bytes((total.0 / SAMPLES).max(1)));
    let mut target = DriveTarget::new(sampled, depth).at(now);
    let mut main = main;
    let outcome = blocks::run(&mut main, &mut target, &mut Forward(watcher));
    let header = Header::new("simulate", settings(plan, total), TargetKind::ModelledDrive, label, "none", plan.seed);
    let mut run = header.into_run(outcome.recorded, outcome.end == End::Complete);
    describe(&mut run, target.into_drive(), capacity);
    Ok((run, outcome.end))
}

/// The fill, if any, and the workload itself.
fn workloads(spec: &DriveSpec, plan: &Plan, total: Bytes) -> anyhow::Result<(Option<Synthetic>, Synthetic)> {
    let smallest = plan.sizes.iter().map(|(size, _)| u64::from(*size)).min().unwrap_or(1).max(1);
    let share = |permille: u32, grain: u64| (u128::from(spec.capacity_bytes) * u128::from(permille) / 1000) as u64 / grain * grain;
    let writes_percent = 100_u64.saturating_sub(u64::from(plan.mix.read_percent) + u64::from(plan.mix.trim_percent));
    if writes_percent == 0 {
        return Err(UsageError::new("a workload without writes never gets to its end").hint("leave a share for writes").into());
    }
    let settings = SyntheticSettings {
        pattern: plan.pattern,
        mix: plan.mix,
        sizes: plan.sizes.clone(),
        data: plan.data,
        offset: 0,
        span: share(plan.span_permille, smallest),
        queue_depth: plan.queue_depth,
        // The budget of a phase counts all bytes; of these the share of the writes is written.
        limit: Limit::Bytes(Bytes((u128::from(total.0) * 100 / u128::from(writes_percent)) as u64)),
    };
    let main = Synthetic::new(settings.clone(), plan.seed).map_err(|error| UsageError::new(error.to_string()))?;
    let block = u64::from(spec.logical_block_bytes);
    let filled = share(plan.fill_permille, block);
    if filled == 0 {
        return Ok((None, main));
    }
    let fill = SyntheticSettings {
        pattern: Pattern::Sequential,
        mix: Mix::default(),
        sizes: vec![(FILL_BLOCK.min(u32::try_from(filled).unwrap_or(u32::MAX)), 1)],
        span: filled,
        queue_depth: 4.min(spec.interface.queue_depth),
        limit: Limit::Bytes(Bytes(filled)),
        ..settings
    };
    Ok((Some(Synthetic::new(fill, plan.seed).map_err(|error| UsageError::new(error.to_string()))?), main))
}

/// The drive after `fill` and a pause in which its caches are written out, and its time then.
fn filled(drive: Box<dyn Model>, fill: &mut Synthetic) -> anyhow::Result<(Box<dyn Model>, Nanos)> {
    const PAUSE: Nanos = Nanos::from_secs(60);
    let mut target = DriveTarget::new(drive, 64);
    blocks::run(fill, &mut target, &mut ()).complete()?;
    let now = target.now() + PAUSE;
    target.idle_until(now);
    Ok((target.into_drive(), now))
}

fn settings(plan: &Plan, total: Bytes) -> Vec<Field> {
    let sizes: Vec<String> =
        plan.sizes.iter().map(|(size, weight)| if plan.sizes.len() == 1 { size.to_string() } else { format!("{size}:{weight}") }).collect();
    vec![
        Field::new("pattern", plan.name.clone()),
        Field::new("size-bytes", sizes.join(",")),
        Field::new("read-percent", plan.mix.read_percent.to_string()),
        Field::new("trim-percent", plan.mix.trim_percent.to_string()),
        Field::new("data", plan.data.to_string()),
        Field::new("queue-depth", plan.queue_depth.to_string()),
        Field::new("span-permille", plan.span_permille.to_string()),
        Field::new("fill-permille", plan.fill_permille.to_string()),
        Field::new("until-written", total.to_string()),
    ]
}

/// Adds what the drive's insides did: series, counters, levels, and what could mislead.
fn describe(run: &mut Run, sampled: Sampled, capacity: Bytes) {
    let phase_written: Bytes = run.phases.iter().map(|phase| phase.written).sum();
    let host_rates = sampled.write_rates();
    let per_sample: Vec<Bytes> = sampled.written_per_sample();
    run.series.extend(sampled.series());
    let mut metric = |name: &str, unit, better, value: f64| {
        run.metrics.push(Metric { name: name.to_owned(), unit, better, samples: vec![value] });
    };
    if let Some(max) = host_rates.iter().copied().reduce(f64::max) {
        metric("write.rate.max", Unit::MegabytesPerSecond, Better::Higher, max);
    }
    // Rounds of a fiftieth of the whole, so that noise within a round is averaged away.
    let group = host_rates.len().div_ceil(50).max(1);
    let rounds: Vec<f64> = host_rates.chunks(group).map(|rates| rates.len() as f64 / rates.iter().map(|r| 1.0 / r).sum::<f64>()).collect();
    let bytes: Vec<Bytes> = per_sample.chunks(group).map(|bytes| bytes.iter().copied().sum()).collect();
    let steady = steady_state(&rounds, &bytes, capacity);
    if let SteadyState::Reached(window) = steady {
        metric("write.rate.steady", Unit::MegabytesPerSecond, Better::Higher, window.average);
    }
    if let Some(waf) = sampled.waf_total() {
        metric("waf", Unit::Ratio, Better::Lower, waf);
    }
    if let Some(waf) = sampled.waf_last_quarter() {
        metric("waf.last-quarter", Unit::Ratio, Better::Lower, waf);
    }
    metric("written", Unit::Bytes, Better::Neither, phase_written.as_f64());
    if steady.window().is_none() {
        run.warnings.push(Warning {
            code: "steady-state.not-reached".to_owned(),
            severity: Severity::Note,
            facts: vec![Field::new("written-capacities", three_digits(phase_written.as_f64() / capacity.as_f64()))],
            text: "steady state (SNIA PTS: five rounds, range within 20 %, slope within 10 %, after one capacity written) was not reached; write more".to_owned(),
        });
    }
    let drive = sampled.into_drive();
    run.counters.extend(drive.counters());
    run.environment.push(Field::new("drive.size", drive.size().to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;

    fn plan() -> Plan {
        Plan {
            name: "random".into(),
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(4096, 1)],
            data: DataClass::Random,
            queue_depth: 8,
            span_permille: 1000,
            fill_permille: 1000,
            until_written: Amount::Capacities(2.0),
            seed: 1,
        }
    }

    fn small() -> DriveSpec {
        let mut spec = model::sized(drives::load("ocz-vertex-le-100gb").unwrap().spec, Some(Bytes(1 << 30))).unwrap();
        spec.name = "small".into();
        spec
    }

    #[test]
    fn amounts_are_absolute_or_in_capacities() {
        assert_eq!("3x".parse(), Ok(Amount::Capacities(3.0)));
        assert_eq!("1.8TB".parse(), Ok(Amount::Bytes(Bytes(1_800_000_000_000))));
        for wrong in ["x", "-1x", "0x", "NaNx", "many"] {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_plan_gives_the_same_run_and_random_writes_amplify() {
        let mut first = run(&small(), "drive:small", &plan(), &mut ()).unwrap().0;
        let mut second = run(&small(), "drive:small", &plan(), &mut ()).unwrap().0;
        (first.started_unix_ms, second.started_unix_ms) = (0, 0);
        assert_eq!(first, second);
        let waf = first.metrics.iter().find(|m| m.name == "waf.last-quarter").unwrap().samples[0];
        assert!((1.5..6.0).contains(&waf), "{waf}");
        let written = first.metrics.iter().find(|m| m.name == "written").unwrap().samples[0];
        assert!((written / 2_147_483_648.0 - 1.0).abs() < 0.01, "{written}");
        assert!(first.series.iter().any(|s| s.name == "write.rate" && s.x.len() > 300));
    }

    #[test]
    fn a_workload_that_cannot_end_is_refused() {
        let mut reads = plan();
        reads.mix = Mix { read_percent: 100, trim_percent: 0 };
        assert!(run(&small(), "x", &reads, &mut ()).is_err());
    }
}
