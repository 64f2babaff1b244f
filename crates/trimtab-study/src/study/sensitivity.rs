//! Which assumption decides: small studies with one assumption changed at a time, within what is plausible, each judged by the same rules.

use super::ageing::{Ageing, DAILY};
use super::cells::{Cell, DATA, Extent, Question, Work};
use super::ensemble::{Ensemble, Fit};
use super::job::Job;
use super::modelled::{self, Setup};
use super::scale::Scale;
use super::small::Small;
use super::used::Used;
use super::verdict::{self, Recommendation};
use super::{Problem, Study, policy};
use crate::document::{Block, Section, Table};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::spec::{DriveSpec, Flash, Medium};
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorded;
use trimtab_sim::workload::churn;

/// What a small study is made on, and of.
const SCALE: Scale = Scale { name: "assumptions", divisor: 20, repeats: 1 };
const SMALL: Months = Months { size: Bytes(1_000_000_000), drive_writes: 1.0, thorough: false };
/// How it is kept.
const WORKLOAD: &str = "assumptions";
const SETTING: &str = "sensitivity";
const FILL_MIN: f64 = 0.2;

/// What is said where nothing was tried.
pub const NOT_TRIED: &str = "other assumptions were not tried";
const TRIM_COST: &str = "what a TRIM costs";
const HOW_FULL: &str = "how full it is";

/// How many assumptions are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// None: of a twin, only other drives that fit.
    Drives,
    /// Those on which a recommendation depends most often.
    Few,
    /// Each.
    All,
}

impl Breadth {
    fn includes(self, assumption: &str) -> bool {
        match self {
            Self::All => true,
            Self::Few => [TRIM_COST, HOW_FULL].contains(&assumption),
            Self::Drives => false,
        }
    }

    /// How many drives of a twin are tried.
    const fn members(self) -> usize {
        match self {
            Self::All => 16,
            Self::Few | Self::Drives => 8,
        }
    }
}

/// An assumption as what there can be several of: `TRIM costs`.
pub fn plural(assumption: &str) -> &str {
    match assumption {
        TRIM_COST => "TRIM costs",
        HOW_FULL => "fills",
        other => other,
    }
}

/// An assumption, and what follows where it is another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What is assumed.
    pub assumption: String,
    /// How.
    pub assumed: String,
    /// What was tried instead.
    pub tried: Vec<Tried>,
}

/// An assumption changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// To what.
    pub value: String,
    /// The policy that is recommended then, or what else is said.
    pub recommended: String,
}

/// What the small studies say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// What the small study with all assumptions as they are recommends; nothing where none is changed.
    pub recommended: String,
    /// The assumptions.
    pub rows: Vec<Row>,
    /// Of a twin, what other drives come to that explain what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<Ensemble>,
}

impl Row {
    /// What was tried and leads to something else than `recommended`.
    fn changing<'a>(&'a self, recommended: &'a str) -> impl Iterator<Item = &'a Tried> {
        self.tried.iter().filter(move |tried| tried.recommended != recommended)
    }
}

impl Sensitivity {
    /// As a run, so that it can be kept: all of it in one setting.
    pub fn as_run(&self, setup: &Setup) -> Run {
        let settings = vec![Field::new(SETTING, serde_json::to_string(self).unwrap_or_default())];
        Header { settings, ..header(setup) }.into_run(Recorded::default(), true)
    }

    /// What [`as_run`](Self::as_run) made; `None` if it is something else.
    pub fn of_run(run: &Run) -> Option<Self> {
        serde_json::from_str(Field::find(&run.settings, SETTING)?).ok()
    }

    /// The assumptions on which the recommendation depends.
    pub fn decisive(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.changing(&self.recommended).next().is_some()).collect()
    }

    /// A sentence for the verdict on `recommended`, what the study itself came to.
    pub fn sentence(&self, recommended: &str) -> String {
        let robust = self.about_assumptions(recommended);
        let ensemble = self.ensemble.as_ref().map(|ensemble| ensemble.sentence(recommended));
        [robust, ensemble].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn about_assumptions(&self, recommended: &str) -> Option<String> {
        let (all, decisive) = (self.rows.len(), self.decisive());
        if all == 0 && self.ensemble.is_some() {
            return None;
        }
        let aside = if recommended == self.recommended {
            String::new()
        } else {
            format!(" (The smaller studies that try assumptions come to {} where nothing is changed.)", self.recommended)
        };
        if decisive.is_empty() {
            return Some(format!("Robust: none of {all} assumptions, each changed within what is plausible, changes that.{aside}"));
        }
        let each: Vec<String> = decisive
            .iter()
            .map(|row| {
                let values: Vec<String> = row.changing(&self.recommended).map(|t| format!("{} with {}", t.recommended, t.value)).collect();
                format!("{} ({})", row.assumption, values.join(", "))
            })
            .collect();
        Some(format!("It holds under {} of {all} assumptions and depends on {}.{aside}", all - decisive.len(), each.join("; ")))
    }

    /// Whether the small study with nothing changed comes to the same as the study itself: otherwise it says nothing of that.
    pub fn is_about(&self, recommendation: Recommendation) -> bool {
        self.recommended == name(recommendation)
    }

    /// A few words: "robust: 10 of 10 assumptions", on what it depends, or that it is close.
    pub fn short(&self, recommendation: Recommendation) -> String {
        let close = || format!("close: smaller studies come to {}", self.recommended);
        if let Some(ensemble) = &self.ensemble {
            let gains = ensemble.gains(name(recommendation)).map(|gains| format!(": {gains}")).unwrap_or_default();
            let held = format!("{}{gains}", ensemble.short(name(recommendation)));
            // Which assumptions decide stands with all details.
            return match self.decisive().len() {
                _ if self.rows.is_empty() => held,
                _ if !self.is_about(recommendation) => format!("{held}; {}", close()),
                0 => format!("{held}; robust: {0} of {0} assumptions", self.rows.len()),
                some => format!("{held}; holds under {} of {} assumptions", self.rows.len() - some, self.rows.len()),
            };
        }
        if !self.is_about(recommendation) {
            return close();
        }
        let (all, decisive) = (self.rows.len(), self.decisive());
        let held = format!("{} of {all} assumptions", all - decisive.len());
        match decisive.split_first() {
            None => format!("robust: {held}"),
            Some((first, [])) => format!("holds under {held}; depends on {}", first.assumption),
            Some((first, more)) => format!("holds under {held}; depends on {} and {} more", first.assumption, more.len()),
        }
    }

    /// The table.
    pub fn section(&self) -> Section {
        let mut table = Table::new(
            format!("One assumption changed at a time, each time a small study of its own. Nothing changed: {}.", self.recommended),
            &["assumption", "assumed", "tried", "recommended then"],
        );
        for row in &self.rows {
            for (at, tried) in row.tried.iter().enumerate() {
                let first = |text: &str| if at == 0 { text.to_owned() } else { String::new() };
                let mark = if tried.recommended == self.recommended { "" } else { " (changes)" };
                table.row([first(&row.assumption), first(&row.assumed), tried.value.clone(), format!("{}{mark}", tried.recommended)]);
            }
        }
        Section::new("Assumptions", vec![Block::Table(table)])
    }
}

/// What is known of their run before it begins.
pub fn header(setup: &Setup) -> Header {
    Header::new(WORKLOAD, Vec::new(), TargetKind::ModelledVolume, &setup.label, policy::NONE, setup.seed)
}

/// A recommendation in a few words.
pub fn name(recommendation: Recommendation) -> &'static str {
    match recommendation {
        Recommendation::Online => policy::ONLINE,
        Recommendation::Batched => policy::BATCHED,
        Recommendation::Adaptive => policy::ADAPTIVE,
        Recommendation::Idle => policy::IDLE,
        Recommendation::NotWorthIt => "no trimming",
        Recommendation::NoDifference => "no difference",
        Recommendation::NeverDone => "none gets done",
        Recommendation::Blocked | Recommendation::NotTested | Recommendation::Unknown => "nothing to say",
    }
}

/// How much of months of use is made.
#[derive(Debug, Clone, Copy)]
struct Months {
    /// The capacity at which.
    size: Bytes,
    drive_writes: f64,
    thorough: bool,
}

/// All that a small study depends on.
#[derive(Debug, Clone)]
struct Case {
    setup: Setup,
    mix: churn::Settings,
    daily: f64,
    months: Months,
}

impl Case {
    fn flash(&mut self) -> Option<&mut Flash> {
        match &mut self.setup.drive.spec.medium {
            Medium::Flash(flash) => Some(flash),
            Medium::Disk(_) => None,
        }
    }

    /// The same months as those of the study itself on another drive: what differs then is the drive.
    fn member(&self, spec: &DriveSpec, extent: &Extent) -> Self {
        let mut other = self.clone();
        other.setup.drive.spec = spec.clone();
        other.setup.drive.twin = None;
        other.months = Months { size: extent.aged, drive_writes: extent.drive_writes, thorough: true };
        other
    }

    /// The runs of the small study.
    ///
    /// # Errors
    /// Such a drive is not possible.
    fn cells(&self, policies: &[PolicySpec]) -> Result<Vec<Cell>, Problem> {
        let small = Small::of(&self.setup.drive.spec, SMALL.size)?;
        let mut beside = self.setup.clone();
        beside.drive.spec = small.spec;
        let jobs: Vec<Job> = SCALE.jobs(self.setup.seed)?.into_iter().filter(|job| matches!(job, Job::Tree { .. })).collect();
        let mut cells = Vec::new();
        for policy in policies {
            for job in jobs.iter().filter(|_| !matches!(policy, PolicySpec::Adaptive(_))) {
                let work = Work::Job { setup: Box::new(beside.clone()), job: job.clone(), brief: true };
                cells.push(Cell { question: Question::Deleting, work, policy: *policy });
            }
            let Months { size, drive_writes, thorough } = self.months;
            let mut ageing = Ageing::new(self.setup.clone(), self.setup.fill, DATA, drive_writes);
            (ageing.size, ageing.mix, ageing.daily, ageing.thorough) = (size, self.mix, self.daily, thorough);
            cells.push(Cell { question: Question::Ageing, work: Work::Months(Box::new(ageing)), policy: *policy });
        }
        Ok(cells)
    }
}

/// What a small study of these runs recommends.
fn recommended(runs: Vec<Run>) -> &'static str {
    let (ageing, runs) = runs.into_iter().partition(|run| run.workload == super::ageing::CHURN);
    name(verdict::recommendation(&Study { runs, ageing, complete: true, ..Study::default() }))
}

/// One thing to try: which assumption, how it is now, what instead, and the case with it.
struct Trial {
    assumption: &'static str,
    assumed: String,
    value: String,
    case: Case,
}

/// Small studies to run: one as it is, and one with each assumption changed.
pub struct Trials {
    base: Case,
    trials: Vec<Trial>,
    /// Other drives that explain what was measured, where it is a twin.
    members: Vec<Case>,
    policies: Vec<PolicySpec>,
}

impl Trials {
    /// What there is to try. `None` if the drive takes no TRIM.
    ///
    /// # Errors
    /// A filesystem that cannot be made.
    pub fn new(setup: &Setup, policies: &[PolicySpec], breadth: Breadth, extent: &Extent) -> Result<Option<Self>, Problem> {
        let Some(flash) = setup.drive.spec.flash().filter(|flash| flash.trim.supported) else { return Ok(None) };
        let mix = churn::Settings { class: DATA, ..churn::Settings::default() };
        let mut base = Case { setup: setup.clone(), mix, daily: DAILY, months: SMALL };
        if base.setup.fill < FILL_MIN {
            // On an empty filesystem no file comes and goes.
            base.setup.fill = FILL_MIN;
            base.setup.used = Used::by_churn(&setup.volume, FILL_MIN, setup.seed)?;
        }
        let mut trials = trials(&base, flash)?;
        trials.retain(|trial| breadth.includes(trial.assumption));
        let twin = setup.drive.twin.as_ref();
        let members = twin.map(|twin| twin.members.iter().take(breadth.members()).map(|member| base.member(member, extent)).collect());
        Ok(Some(Self { base, trials, members: members.unwrap_or_default(), policies: policies.to_vec() }))
    }

    /// The runs of each study, where there is anything to compare with it the one in which nothing is changed first; an error where such a drive is not possible.
    pub fn studies(&self) -> impl Iterator<Item = Result<Vec<Cell>, Problem>> {
        let unchanged = (!self.trials.is_empty()).then_some(&self.base);
        unchanged.into_iter().chain(self.trials.iter().map(|trial| &trial.case)).chain(&self.members).map(|case| case.cells(&self.policies))
    }

    /// What follows from the runs of each study. That a changed drive is not possible is no error.
    ///
    /// # Errors
    /// That the unchanged one is not, and why.
    pub fn judge<E>(self, studies: impl IntoIterator<Item = Result<Vec<Run>, E>>) -> Result<Option<Sensitivity>, E> {
        let mut studies = studies.into_iter();
        let mut sensitivity = Sensitivity::default();
        if !self.trials.is_empty() {
            let Some(unchanged) = studies.next() else { return Ok(None) };
            recommended(unchanged?).clone_into(&mut sensitivity.recommended);
        }
        let mut studies = studies.map(Result::ok);
        for (trial, runs) in self.trials.into_iter().zip(studies.by_ref()) {
            // What is not possible (a drive with too little spare space for its open blocks) is left out.
            let Some(recommended) = runs.map(recommended) else { continue };
            let tried = Tried { value: trial.value, recommended: recommended.to_owned() };
            match sensitivity.rows.iter_mut().find(|row| row.assumption == trial.assumption) {
                Some(row) => row.tried.push(tried),
                None => {
                    sensitivity.rows.push(Row { assumption: trial.assumption.to_owned(), assumed: trial.assumed, tried: vec![tried] });
                }
            }
        }
        let fit = |runs: Vec<Run>| {
            let figures = Fit::new("", &runs);
            Fit { recommended: recommended(runs).to_owned(), ..figures }
        };
        let fits = studies.map(|runs| runs.map(fit)).collect();
        sensitivity.ensemble = self.base.setup.drive.twin.as_ref().and_then(|twin| Ensemble::new(twin, fits));
        Ok(Some(sensitivity))
    }
}

/// What decides what all of them say, as text.
pub fn detail(setup: &Setup, policies: &[PolicySpec], breadth: Breadth, extent: &Extent) -> String {
    format!("{setup:?} {policies:?} {SMALL:?} {SCALE:?} {breadth:?} {:?} {}", extent.aged, extent.drive_writes)
}

fn trials(base: &Case, flash: &Flash) -> Result<Vec<Trial>, Problem> {
    let mut trials = of_drive(base, flash);
    trials.extend(of_use(base)?);
    Ok(trials)
}

/// Assumptions about the drive.
fn of_drive(base: &Case, flash: &Flash) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |assumption: &'static str, assumed: String, value: String, change: &dyn Fn(&mut Flash)| {
        let mut case = base.clone();
        if let Some(flash) = case.flash() {
            change(flash);
        }
        trials.push(Trial { assumption, assumed, value, case });
    };
    let gc = &flash.ftl.gc;
    for free in [2, 16] {
        add("superblocks kept free in idle time", gc.idle_free.to_string(), free.to_string(), &|flash| flash.ftl.gc.idle_free = free);
    }
    let seconds = |ns: Option<u64>| ns.map_or_else(|| "never".to_owned(), |ns| trimtab_drive::units::Nanos(ns).to_string());
    for delay in [Some(100_000_000), None] {
        add("idle time before garbage is collected", seconds(gc.idle_delay_ns), seconds(delay), &|flash| {
            flash.ftl.gc.idle_delay_ns = delay
        });
    }
    for (times, divisor) in [(1, 2), (2, 1)] {
        let text = |spec: &DriveSpec| format!("{:.1} %", spare_percent(spec));
        let mut case = base.clone();
        case.setup.drive.spec = with_spare(&base.setup.drive.spec, times, divisor);
        let value = text(&case.setup.drive.spec);
        trials.push(Trial { assumption: "spare space", assumed: text(&base.setup.drive.spec), value, case });
    }
    trials.extend(of_trim(base, flash));
    trials
}

/// What a TRIM costs: where the specification says which other costs fit what is published, these, otherwise a tenth and ten times of it.
fn of_trim(base: &Case, flash: &Flash) -> Vec<Trial> {
    let text = |flash: &Flash| {
        let trim = &flash.trim;
        let ns = |ns: u64| trimtab_drive::units::Nanos(ns);
        format!("{} a command, {} a range, {} a mapped unit", ns(trim.command_ns), ns(trim.range_ns), ns(trim.unit_ns))
    };
    let others: Vec<DriveSpec> = if base.setup.drive.alternatives.is_empty() {
        let scaled = |times: u64, divisor: u64| {
            let mut case = base.clone();
            if let Some(flash) = case.flash() {
                let trim = &mut flash.trim;
                for cost in [&mut trim.command_ns, &mut trim.range_ns, &mut trim.unit_ns, &mut trim.gb_ns] {
                    *cost = cost.saturating_mul(times) / divisor;
                }
            }
            case.setup.drive.spec
        };
        vec![scaled(1, 10), scaled(10, 1)]
    } else {
        base.setup.drive.alternatives.iter().map(|alternative| alternative.spec.clone()).collect()
    };
    let trial = |spec: DriveSpec| {
        let mut case = base.clone();
        case.setup.drive.spec = spec;
        let value = case.flash().map_or_else(String::new, |flash| text(flash));
        Trial { assumption: TRIM_COST, assumed: text(flash), value, case }
    };
    others.into_iter().map(trial).collect()
}

/// Assumptions about the host and what is done on it.
fn of_use(base: &Case) -> Result<Vec<Trial>, Problem> {
    let mut trials = Vec::new();
    let mut add = |assumption: &'static str, assumed: String, value: String, change: &dyn Fn(&mut Case)| {
        let mut case = base.clone();
        change(&mut case);
        trials.push(Trial { assumption, assumed, value, case });
    };
    let setup = &base.setup;
    for gib in [1_u64, 32] {
        let text = |bytes: u64| format!("{:.0} GiB", bytes as f64 / (1_u64 << 30) as f64);
        let assumed = text(setup.volume.writeback.memory.0);
        add("memory of the host", assumed, text(gib << 30), &|case| case.setup.volume.writeback.memory = Bytes(gib << 30));
    }
    for (median, text) in [(8e3, "8 kB"), (400e3, "400 kB")] {
        add("median size of files", "40 kB".to_owned(), text.to_owned(), &|case| case.mix.median = median);
    }
    for daily in [0.01, 0.5] {
        let text = |daily: f64| format!("{:.0} % of the drive", daily * 100.0);
        add("written a day", text(base.daily), text(daily), &|case| case.daily = daily);
    }
    let other = if setup.volume.journal.converts_after_write { "ext4-2011" } else { "ext4" };
    let volume = modelled::volume_named(other);
    add("filesystem", modelled::generation(&setup.volume).to_owned(), modelled::generation(&volume).to_owned(), &|case| {
        case.setup.volume = volume.clone();
    });
    for fill in [0.3, 0.9] {
        let used = Used::by_churn(&setup.volume, fill, setup.seed)?;
        add(HOW_FULL, format!("{:.0} %", setup.fill * 100.0), format!("{:.0} %", fill * 100.0), &|case| {
            (case.setup.fill, case.setup.used) = (fill, used.clone());
        });
    }
    Ok(trials)
}

fn spare_percent(spec: &DriveSpec) -> f64 {
    let Medium::Flash(flash) = &spec.medium else { return 0.0 };
    (flash.geometry.raw_bytes() as f64 / spec.capacity_bytes.max(1) as f64 - 1.0) * 100.0
}

/// `spec` with `times / divisor` of its spare space.
fn with_spare(spec: &DriveSpec, times: u128, divisor: u128) -> DriveSpec {
    let mut spec = spec.clone();
    if let Medium::Flash(flash) = &mut spec.medium {
        let capacity = u128::from(spec.capacity_bytes);
        let spare = flash.geometry.raw_bytes().saturating_sub(capacity) * times / divisor;
        let permille = (spare * 1000).div_ceil(capacity.max(1));
        flash.geometry = flash.geometry.clone().with_over_provisioning(spec.capacity_bytes, permille as u32);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::shipped::{drive, drives};
    use trimtab_drive::spec::Trim;

    fn row(assumption: &str, recommended: [&str; 2]) -> Row {
        let tried = ["less", "more"].into_iter().zip(recommended);
        let tried = tried.map(|(value, recommended)| Tried { value: value.into(), recommended: recommended.into() }).collect();
        Row { assumption: assumption.into(), assumed: "some".into(), tried }
    }

    #[test]
    fn the_verdict_says_what_it_depends_on_or_that_it_is_robust() {
        let rows = vec![row("spare space", ["batched", "batched"]), row("how full it is", ["batched", "batched"])];
        let robust = Sensitivity { recommended: "batched".into(), rows, ensemble: None };
        assert!(robust.sentence("batched").starts_with("Robust: none of 2 assumptions"), "{}", robust.sentence("batched"));
        assert!(robust.sentence("idle").contains("come to batched where nothing is changed"));
        let mut depends = robust;
        depends.rows.push(row("what a TRIM costs", ["online", "batched"]));
        let said = depends.sentence("batched");
        assert!(said.contains("holds under 2 of 3 assumptions and depends on what a TRIM costs (online with less)"), "{said}");
        assert_eq!(
            (depends.decisive().len(), depends.short(Recommendation::Batched)),
            (1, "holds under 2 of 3 assumptions; depends on what a TRIM costs".to_owned())
        );
        // What the smaller studies vary is not what is recommended.
        assert_eq!(depends.short(Recommendation::Idle), "close: smaller studies come to batched");
        let run = depends.as_run(&case("ocz-vertex-le-100gb").setup);
        assert_eq!(Sensitivity::of_run(&run), Some(depends), "kept and read again");
    }

    fn case(name: &str) -> Case {
        let setup = Setup {
            drive: drive(name),
            label: name.to_owned(),
            volume: modelled::volume_named("ext4"),
            fill: 0.6,
            fill_class: DATA,
            used: Used::by_churn(&modelled::volume_named("ext4"), 0.6, 1).unwrap(),
            seed: 1,
        };
        Case { setup, mix: churn::Settings { class: DATA, ..churn::Settings::default() }, daily: DAILY, months: SMALL }
    }

    #[test]
    fn free_trim_is_best_online_and_expensive_one_is_not() {
        let policies = modelled::policies(&["none", "online", "batched"].map(str::to_owned)).unwrap();
        let mut case = case("ocz-vertex-le-100gb");
        let said = |case: &Case| {
            let runs = case.cells(&policies).unwrap().iter().map(|cell| cell.run(&mut ()).unwrap().0).collect();
            recommended(runs)
        };
        assert_ne!(said(&case), "online");
        let flash = case.flash().unwrap();
        flash.trim = Trim { command_ns: 0, range_ns: 0, unit_ns: 0, gb_ns: 0, queued: true, ..flash.trim.clone() };
        assert_eq!(said(&case), "online");
    }

    #[test]
    fn what_is_tried_differs_from_what_is_assumed_in_one_thing() {
        for drive in drives() {
            let Medium::Flash(flash) = &drive.spec.medium else { continue };
            let case = Case { setup: Setup { drive: drive.clone(), ..case("ocz-vertex-le-100gb").setup }, ..case("ocz-vertex-le-100gb") };
            let trials = of_drive(&case, flash);
            let assumptions: std::collections::BTreeSet<_> = trials.iter().map(|trial| trial.assumption).collect();
            assert_eq!(assumptions.len(), 4, "{}", drive.spec.name);
            let of_use = of_use(&case).unwrap();
            let all: std::collections::BTreeSet<&str> = trials.iter().chain(&of_use).map(|trial| trial.assumption).collect();
            let count = |breadth: Breadth| all.iter().filter(|name| breadth.includes(name)).count();
            assert_eq!((count(Breadth::Few), count(Breadth::All)), (2, 9), "{}", drive.spec.name);
            for trial in trials.iter().filter(|trial| trial.assumption == "spare space") {
                let (was, is) = (spare_percent(&drive.spec), spare_percent(&trial.case.setup.drive.spec));
                assert!((is / was - 2.0).abs() < 0.2 || (is / was - 0.5).abs() < 0.2, "{}: {was} {is}", drive.spec.name);
            }
        }
    }
}
