//! A workload on a modelled drive, with what the drive's insides did meanwhile.

pub mod loops;
pub mod sampled;
pub mod steered;
pub mod traced;

use crate::drives::model::{self, Model};
use crate::error::UsageError;
use crate::runner::recorder::Recorded;
use crate::runner::{End, Events, Header, blocks};
use crate::serve::engine::Settings;
use crate::serve::pace::Speed;
use crate::target::drive::DriveTarget;
use loops::Loops;
use sampled::Sampled;
use steered::{Account, Steered};
use traced::Traced;
use trimtab_core::analysis::change_points::{Options, knees};
use trimtab_core::analysis::steady::{SteadyState, steady_state};
use trimtab_core::data::DataClass;
use trimtab_core::drive::spec::DriveSpec;
use trimtab_core::policy::PolicySpec;
use trimtab_core::run::{Better, Field, Metric, Run, Severity, TargetKind, Unit, Warning};
use trimtab_core::target::Clock as _;
use trimtab_core::units::{Bytes, Nanos, three_digits};
use trimtab_core::workload::Limit;
use trimtab_core::workload::synthetic::{Mix, Pattern, Settings as SyntheticSettings, Synthetic, TrimsOf};

/// How many samples of the drive's insides a simulation takes.
const SAMPLES: u64 = 400;
/// Operation size and depth of the fill before the workload.
const FILL_BLOCK: u32 = 1 << 20;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the run is called in results.
    pub name: String,
    /// Which operations.
    pub load: Load,
    /// What written data is like.
    pub data: DataClass,
    /// Share of the drive that is written once, one after another, before the workload; in per mille.
    pub fill_permille: u32,
    /// How much is written; `None` ends with the workload: a trace is replayed once.
    pub until_written: Option<Amount>,
    /// When the drive is told what is freed; `None` is at once.
    pub trim: Option<PolicySpec>,
    /// Seed.
    pub seed: u64,
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Synthetic addresses.
    Synthetic(Addresses),
    /// The test sets of CrystalDiskMark, again and again.
    Crystal(Loops),
    /// A block trace.
    Trace(Traced),
}

/// Synthetic operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Addresses {
    /// Which addresses.
    pub pattern: Pattern,
    /// Kinds of operations.
    pub mix: Mix,
    /// What trims are drawn from.
    pub trims_of: TrimsOf,
    /// Sizes in bytes with weights.
    pub sizes: Vec<(u32, u32)>,
    /// Operations in flight.
    pub queue_depth: u32,
    /// Share of the drive that is used, in per mille.
    pub span_permille: u32,
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
        match text.parse() {
            Ok(Bytes::ZERO) => Err("an amount to be written must be more than nothing".to_owned()),
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(error) => Err(trimtab_core::units::ParseQuantityError::to_string(&error)),
        }
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

/// The drive that a simulation runs on.
pub type Subject = Steered<Sampled>;

/// What a workload leaves behind.
pub struct Finished {
    /// Phases and series.
    pub recorded: Recorded,
    /// How it ended.
    pub end: End,
    /// The drive.
    pub subject: Subject,
    /// Figures that only this workload has.
    pub metrics: Vec<Metric>,
}

/// Runs `plan` on a new drive of `spec`. What was simulated before an interrupt is in the run.
///
/// # Errors
/// Settings that mean nothing on this drive; a trace that cannot be read.
pub fn run(spec: &DriveSpec, label: &str, plan: &Plan, watcher: &mut (impl Watcher + ?Sized)) -> anyhow::Result<(Run, End)> {
    let capacity = Bytes(spec.capacity_bytes);
    let total = plan.until_written.map(|amount| amount.of(capacity));
    if let Some(policy) = plan.trim.as_ref().filter(|policy| !matches!(policy, PolicySpec::None))
        && !model::build(spec, plan.seed)?.supports_trim()
    {
        return Err(UsageError::new(format!("{} does not support TRIM, so no policy but none can be tried: {policy}", spec.name)).into());
    }
    // Refused before the fill, which takes a while.
    let workload = Prepared::new(spec, plan, total)?;
    let drive = model::build(spec, plan.seed)?;
    let (drive, now, mapped) = match fill(spec, plan)? {
        None => (drive, Nanos::ZERO, Bytes::ZERO),
        Some((mut fill, bytes)) => {
            let (drive, now) = filled(drive, &mut fill)?;
            (drive, now, bytes)
        }
    };
    let every = total.map_or(capacity.0 / 2000, |total| total.0 / SAMPLES);
    let sampled = Sampled::new(drive, now, Bytes(every.max(1)));
    let subject = match &plan.trim {
        None => Steered::not(sampled),
        Some(policy) => Steered::new(sampled, Settings::of(spec, Speed::Unpaced), Some(policy), now, mapped),
    };
    let finished = workload.run(spec, plan, subject, now, watcher)?;
    let policy = plan.trim.as_ref().map_or_else(|| "online".to_owned(), ToString::to_string);
    let mut header = Header::new("simulate", settings(plan, total), TargetKind::ModelledDrive, label, &policy, plan.seed);
    header.policy_settings = plan.trim.as_ref().map(PolicySpec::settings).unwrap_or_default();
    let mut run = header.into_run(finished.recorded, finished.end == End::Complete);
    let (mut sampled, account) = finished.subject.into_parts();
    describe(&mut run, &mut sampled, capacity, matches!(plan.load, Load::Crystal(_)));
    run.metrics.extend(finished.metrics);
    if let Some(account) = account {
        account_for(&mut run, &account);
    }
    Ok((run, finished.end))
}

/// A workload that is known to make sense on the drive.
enum Prepared<'a> {
    Synthetic(Synthetic, u32),
    Crystal(&'a Loops, loops::Workload),
    Trace(&'a Traced),
}

impl<'a> Prepared<'a> {
    fn new(spec: &DriveSpec, plan: &'a Plan, total: Option<Bytes>) -> anyhow::Result<Self> {
        Ok(match &plan.load {
            Load::Synthetic(addresses) => {
                let total = total.unwrap_or(Bytes(spec.capacity_bytes));
                Self::Synthetic(synthetic(spec, plan, addresses, total)?, addresses.queue_depth)
            }
            Load::Crystal(loops) => Self::Crystal(loops, loops.workload(spec, plan, total)?),
            Load::Trace(trace) => Self::Trace(trace),
        })
    }

    fn run(
        self,
        spec: &DriveSpec,
        plan: &Plan,
        subject: Subject,
        now: Nanos,
        watcher: &mut (impl Watcher + ?Sized),
    ) -> anyhow::Result<Finished> {
        match self {
            Self::Synthetic(mut workload, depth) => {
                let mut target = DriveTarget::new(subject, spec.interface.queue_depth.max(depth)).at(now);
                let outcome = blocks::run(&mut workload, &mut target, &mut Forward(watcher));
                Ok(Finished { recorded: outcome.recorded, end: outcome.end, subject: target.into_drive(), metrics: Vec::new() })
            }
            Self::Crystal(loops, workload) => Ok(loops.run(spec, workload, subject, now, watcher)),
            Self::Trace(trace) => {
                trace.run(plan, plan.until_written.map(|amount| amount.of(Bytes(spec.capacity_bytes))), subject, now, watcher)
            }
        }
    }
}

fn share(spec: &DriveSpec, permille: u32, grain: u64) -> u64 {
    (u128::from(spec.capacity_bytes) * u128::from(permille) / 1000) as u64 / grain * grain
}

fn synthetic(spec: &DriveSpec, plan: &Plan, addresses: &Addresses, total: Bytes) -> anyhow::Result<Synthetic> {
    let smallest = addresses.sizes.iter().map(|(size, _)| u64::from(*size)).min().unwrap_or(1).max(1);
    let writes_percent = 100_u64.saturating_sub(u64::from(addresses.mix.read_percent) + u64::from(addresses.mix.trim_percent));
    if writes_percent == 0 {
        return Err(UsageError::new("a workload without writes never gets to its end").hint("leave a share for writes").into());
    }
    let settings = SyntheticSettings {
        pattern: addresses.pattern,
        mix: addresses.mix,
        sizes: addresses.sizes.clone(),
        data: plan.data,
        offset: 0,
        span: share(spec, addresses.span_permille, smallest),
        queue_depth: addresses.queue_depth,
        // The budget of a phase counts all bytes; of these the share of the writes is written.
        limit: Limit::Bytes(Bytes((u128::from(total.0) * 100 / u128::from(writes_percent)) as u64)),
    };
    let workload = Synthetic::new(settings, plan.seed);
    let workload = match addresses.trims_of {
        TrimsOf::All => workload,
        TrimsOf::InUse => workload.and_then(|workload| workload.trimming_in_use(share(spec, plan.fill_permille, 1))),
    };
    workload.map_err(|error| UsageError::new(error.to_string()).into())
}

/// What is written before the workload, and how much that is.
fn fill(spec: &DriveSpec, plan: &Plan) -> anyhow::Result<Option<(Synthetic, Bytes)>> {
    let filled = share(spec, plan.fill_permille, u64::from(spec.logical_block_bytes));
    if filled == 0 {
        return Ok(None);
    }
    let settings = SyntheticSettings {
        pattern: Pattern::Sequential,
        mix: Mix::default(),
        sizes: vec![(FILL_BLOCK.min(u32::try_from(filled).unwrap_or(u32::MAX)), 1)],
        data: plan.data,
        offset: 0,
        span: filled,
        queue_depth: 4.min(spec.interface.queue_depth),
        limit: Limit::Bytes(Bytes(filled)),
    };
    let fill = Synthetic::new(settings, plan.seed).map_err(|error| UsageError::new(error.to_string()))?;
    Ok(Some((fill, Bytes(filled))))
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

fn settings(plan: &Plan, total: Option<Bytes>) -> Vec<Field> {
    let mut fields = vec![Field::new("workload", plan.name.clone()), Field::new("data", plan.data.to_string())];
    match &plan.load {
        Load::Synthetic(addresses) => fields.extend(addresses.fields()),
        Load::Crystal(loops) => fields.extend(loops.fields()),
        Load::Trace(trace) => fields.extend(trace.timing.setting().map(|(key, value)| Field::new(key, value))),
    }
    fields.push(Field::new("fill-permille", plan.fill_permille.to_string()));
    fields.push(Field::new("until-written", total.map_or_else(|| "the end".to_owned(), |total| total.to_string())));
    fields
}

impl Addresses {
    fn fields(&self) -> [Field; 6] {
        let one = |(size, weight): &(u32, u32)| if self.sizes.len() == 1 { size.to_string() } else { format!("{size}:{weight}") };
        let sizes: Vec<String> = self.sizes.iter().map(one).collect();
        [
            Field::new("size-bytes", sizes.join(",")),
            Field::new("read-percent", self.mix.read_percent.to_string()),
            Field::new("trim-percent", self.mix.trim_percent.to_string()),
            Field::new(
                "trims-of",
                match self.trims_of {
                    TrimsOf::All => "all",
                    TrimsOf::InUse => "in-use",
                },
            ),
            Field::new("queue-depth", self.queue_depth.to_string()),
            Field::new("span-permille", self.span_permille.to_string()),
        ]
    }
}

/// One figure without repeats.
fn metric(name: &str, unit: Unit, better: Better, value: f64) -> Metric {
    Metric { name: name.to_owned(), unit, better, samples: vec![value] }
}

/// Adds what the drive's insides did: series, counters, levels, and what could mislead. Rounds have trends of their own.
fn describe(run: &mut Run, sampled: &mut Sampled, capacity: Bytes, in_rounds: bool) {
    let counters = sampled.finish().counters();
    let (written, _) = sampled.written();
    run.series.extend(sampled.series());
    let mut all = Vec::new();
    if let Some(waf) = sampled.waf_total() {
        all.push(metric("waf", Unit::Ratio, Better::Lower, waf));
    }
    if let Some(waf) = sampled.waf_last_quarter() {
        all.push(metric("waf.last-quarter", Unit::Ratio, Better::Lower, waf));
    }
    all.push(metric("written", Unit::Bytes, Better::Neither, written as f64));
    // Erased blocks have run out once one has to be collected; it costs little until what is collected holds valid data.
    for (name, counter) in [("spare-blocks.gone.written", "gc_superblocks"), ("moving.began.written", "nand_written_gc_slots")] {
        if let Some(when) = sampled.first_growth(counter) {
            all.push(metric(name, Unit::Bytes, Better::Neither, when.as_f64()));
        }
    }
    if !in_rounds {
        run.metrics.extend(levels(sampled, capacity));
        if !run.metrics.iter().any(|metric| metric.name == "write.rate.steady") {
            let heat = sampled.heat_to_come(group_of(sampled.write_rates().len())).pop().flatten();
            run.warnings.push(not_steady(written, capacity, heat));
        }
    }
    run.metrics.extend(all);
    run.counters.extend(counters);
    run.environment.push(Field::new("drive.size", capacity.to_string()));
}

/// Steps of a round, of so many in all: a fiftieth, so that noise within a round is averaged away.
const fn group_of(steps: usize) -> usize {
    let group = steps.div_ceil(50);
    if group == 0 { 1 } else { group }
}

/// The highest rate, the steady one, and the knees between them.
fn levels(sampled: &Sampled, capacity: Bytes) -> Vec<Metric> {
    let rates = sampled.write_rates();
    let bytes = sampled.written_per_sample();
    let rate = |name: &str, value| metric(name, Unit::MegabytesPerSecond, Better::Higher, value);
    let mut metrics: Vec<Metric> = rates.iter().copied().reduce(f64::max).map(|max| rate("write.rate.max", max)).into_iter().collect();
    let group = group_of(rates.len());
    let mut rounds: Vec<f64> = rates.chunks(group).map(|rates| rates.len() as f64 / rates.iter().map(|r| 1.0 / r).sum::<f64>()).collect();
    // No rate lasts that heat has yet to bring down.
    let warming = sampled.heat_to_come(group).into_iter().map(|heat| heat.is_some());
    rounds.iter_mut().zip(warming).filter(|(_, warming)| *warming).for_each(|(round, _)| *round = f64::NAN);
    let round_bytes: Vec<Bytes> = bytes.chunks(group).map(|bytes| bytes.iter().copied().sum()).collect();
    if let SteadyState::Reached(window) = steady_state(&rounds, &round_bytes, capacity) {
        metrics.push(rate("write.rate.steady", window.average));
    }
    for (n, knee) in (1..).zip(knees(&rates, &Options::default())) {
        let before: Bytes = bytes[..knee.index].iter().copied().sum();
        metrics.push(metric(&format!("write.rate.knee-{n}.written"), Unit::Bytes, Better::Neither, before.as_f64()));
        metrics.push(metric(&format!("write.rate.knee-{n}.rate"), Unit::MegabytesPerSecond, Better::Neither, knee.after));
    }
    metrics
}

fn not_steady(written: u64, capacity: Bytes, heat: Option<(f64, f64)>) -> Warning {
    if let Some((heads_for, throttles)) = heat {
        return Warning {
            code: "steady-state.warming-up".to_owned(),
            severity: Severity::Note,
            facts: vec![
                Field::new("heads-for-celsius", three_digits(heads_for)),
                Field::new("throttles-at-celsius", three_digits(throttles)),
            ],
            text: format!(
                "no rate is called steady: the drive is still warming up, to {heads_for:.0} degrees Celsius if it goes on like this, and is throttled at {throttles:.0}; write more"
            ),
        };
    }
    Warning {
        code: "steady-state.not-reached".to_owned(),
        severity: Severity::Note,
        facts: vec![Field::new("written-capacities", three_digits(written as f64 / capacity.as_f64()))],
        text: "steady state (SNIA PTS: five rounds, range within 20 %, slope within 10 %, after one capacity written) was not reached; write more".to_owned(),
    }
}

/// Adds what the policy told the drive, and what it kept to itself.
fn account_for(run: &mut Run, account: &Account) {
    let discards = &account.discards;
    let counted = [
        ("trim.commands", discards.commands),
        ("trim.asked.bytes", discards.asked.bytes),
        ("trim.effective.bytes", discards.effective_bytes),
        ("trim.repeated.bytes", discards.repeated_bytes),
        ("trim.refused.bytes", discards.refused.bytes),
        ("trim.never-told.bytes", account.never_told.0),
    ];
    run.counters.extend(counted.map(|(name, value)| (name.to_owned(), value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use crate::trace::timing::Timing;

    fn addresses(mix: Mix) -> Addresses {
        Addresses { pattern: Pattern::Uniform, mix, trims_of: TrimsOf::All, sizes: vec![(4096, 1)], queue_depth: 8, span_permille: 1000 }
    }

    fn plan() -> Plan {
        Plan {
            name: "random".into(),
            load: Load::Synthetic(addresses(Mix::default())),
            data: DataClass::Random,
            fill_permille: 1000,
            until_written: Some(Amount::Capacities(2.0)),
            trim: None,
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

    fn value(run: &Run, name: &str) -> f64 {
        run.metrics.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("{name}")).samples[0]
    }

    fn counter(run: &Run, name: &str) -> u64 {
        run.counters.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}")).1
    }

    fn crystal(trim: &str) -> Run {
        let plan = Plan {
            load: Load::Crystal("size=64MiB:passes=1:pass=64MiB:small-pass=2MiB".parse().unwrap()),
            fill_permille: 0,
            until_written: Some(Amount::Capacities(4.0)),
            trim: Some(trim.parse().unwrap()),
            ..plan()
        };
        let (run, end) = super::run(&small(), "drive:small", &plan, &mut ()).unwrap();
        assert_eq!(end, End::Complete);
        run
    }

    #[test]
    fn old_test_files_fill_the_drive_unless_it_is_told() {
        let (untold, told) = (crystal("none"), crystal("online"));
        let rounds = value(&untold, "rounds") as usize;
        assert!(rounds > 15, "{rounds}");
        for name in ["waf-of-round", "seq1m-q1.write.rate-of-round"] {
            let series = untold.series.iter().find(|s| s.name == name).unwrap();
            assert_eq!(series.x.len(), rounds, "{name}");
        }
        assert!(value(&untold, "spare-blocks.gone.written") >= 1e9, "not before the drive is full");
        // A file written to the drive's full size is stale as soon as it is deleted, and only then.
        assert_eq!(counter(&untold, "trim.asked.bytes"), 0);
        assert!(counter(&untold, "trim.never-told.bytes") > 800 << 20);
        assert_eq!(counter(&told, "trim.never-told.bytes"), 0);
        assert_eq!(counter(&told, "trim.effective.bytes"), (rounds as u64 - 1) * (64 << 20));
        assert!(counter(&untold, "now_mapped_bytes") > 900 << 20 && counter(&told, "now_mapped_bytes") <= 65 << 20);
        assert!(value(&untold, "waf") >= value(&told, "waf"));
    }

    #[test]
    fn a_trace_is_replayed_at_its_times_and_again_until_enough_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        std::fs::write(&path, "0,h,0,Write,0,1048576,1\n10000000,h,0,Read,0,4096,1\n20000000,h,0,Write,1048576,4096,1\n").unwrap();
        let plan = |until_written, path: &std::path::Path| Plan {
            load: Load::Trace(Traced { path: path.to_owned(), format: None, volume: None, timing: Timing::Recorded }),
            fill_permille: 0,
            until_written,
            ..plan()
        };
        let once = run(&small(), "x", &plan(None, &path), &mut ()).unwrap().0;
        assert_eq!(once.phases[0].written, Bytes((1 << 20) + 4096));
        let seconds = once.phases[0].took.as_secs_f64();
        assert!((2.0..2.1).contains(&seconds), "{seconds}");
        let twice = run(&small(), "x", &plan(Some(Amount::Bytes(Bytes(2 << 20))), &path), &mut ()).unwrap().0;
        assert_eq!(twice.phases[0].written, Bytes((2 << 20) + 4096), "the second time as far as needed");
        let bad = dir.path().join("bad.csv");
        std::fs::write(&bad, "0,h,0,Write,0,4096,1\n1,h,0,Write,99999999999,4096,1\n").unwrap();
        let error = run(&small(), "x", &plan(None, &bad), &mut ()).err().unwrap().to_string();
        assert!(error.contains("bad.csv, line 2: 4096 bytes at 99999999999"), "{error}");
        std::fs::write(&bad, "0,h,0,Read,0,4096,1\n").unwrap();
        let error = run(&small(), "x", &plan(Some(Amount::Capacities(1.0)), &bad), &mut ()).err().unwrap().to_string();
        assert!(error.contains("writes nothing"), "{error}");
    }

    /// Native cells of the drive take 16 rows of 32 KiB in 560 us, 936 MB/s, which heat it to 40 + 0.55 x 0.936 x 90 = 86 degrees: more than the 82 at which
    /// it is throttled, which it then stays, at 80 % of the speed and 77 degrees.
    #[test]
    fn no_rate_is_steady_that_heat_has_yet_to_bring_down() {
        let spec = model::sized(drives::load("nvme-tlc-500gb").unwrap().spec, Some(Bytes(20 << 30))).unwrap();
        let sequential = |capacities| {
            let load = Addresses { pattern: Pattern::Sequential, sizes: vec![(1 << 20, 1)], ..addresses(Mix::default()) };
            let plan =
                Plan { load: Load::Synthetic(load), until_written: Some(Amount::Capacities(capacities)), fill_permille: 0, ..plan() };
            run(&spec, "drive:small", &plan, &mut ()).unwrap().0
        };
        let said = |run: &Run, code: &str| run.warnings.iter().any(|warning| warning.code == code);
        let cool = sequential(5.0);
        assert!(cool.metrics.iter().all(|metric| metric.name != "write.rate.steady") && said(&cool, "steady-state.warming-up"));
        let hot = sequential(20.0);
        let (native, steady) = (16.0 * 32_768.0 / 560.0, value(&hot, "write.rate.steady"));
        assert!((steady / (0.8 * native) - 1.0).abs() < 0.05 && !said(&hot, "steady-state.warming-up"), "{steady} of {native} MB/s");
    }

    #[test]
    fn a_policy_on_a_drive_without_trim_is_refused() {
        let mut spec = small();
        let trimtab_core::drive::spec::Medium::Flash(flash) = &mut spec.medium else { panic!("an SSD") };
        flash.trim.supported = false;
        let with = |trim: &str| run(&spec, "x", &Plan { trim: Some(trim.parse().unwrap()), ..plan() }, &mut ());
        assert!(with("batched").err().unwrap().to_string().contains("does not support TRIM"));
        assert!(with("none").is_ok());
    }

    #[test]
    fn a_workload_that_cannot_end_is_refused() {
        let mut reads = plan();
        reads.load = Load::Synthetic(addresses(Mix { read_percent: 100, trim_percent: 0 }));
        assert!(run(&small(), "x", &reads, &mut ()).is_err());
    }
}
