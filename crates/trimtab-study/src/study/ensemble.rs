//! What a study says of a twin: the same months on each of several drives that all explain what was measured.

use super::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use super::light_work::{BUSY_WAIT, SPARSE_WAIT};
use super::policy;
use super::table::mean;
use crate::document::{Block, Section, Table};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::spec::twin::{Known, Parameter, Twin};
use trimtab_drive::spec::{DriveSpec, Medium};
use trimtab_drive::units::three_digits;
use trimtab_sim::analysis::middle;
use trimtab_sim::run::Run;

/// With less than this share of the drives nothing is decided.
const DECIDED: f64 = 0.75;
/// A figure that tells drives apart no better than this (0: not at all, 1: always) is none on which it depends.
const SEPARATES: f64 = 0.5;
/// How much spare space there is stands under this name in a twin, as it is no field of its own.
const SPARE: &str = "flash.over_provisioning_permille";

/// What each of several drives comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ensemble {
    /// The drives.
    pub drives: Vec<Fit>,
    /// How many drives the twin has in all.
    pub of: usize,
    /// The figure that separates those that come to the most frequent answer from the others.
    pub depends_on: Option<Separates>,
    /// Fields of the twin that no probe told: its drives have them as the class has.
    #[serde(default)]
    pub of_the_class: Vec<String>,
    /// Whether the drives are only the nearest: no drive was found that explains what was measured.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unexplained: bool,
}

/// One drive that explains what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// What is recommended for it.
    pub recommended: String,
    /// What each policy comes to on it.
    pub policies: Vec<Shown>,
}

/// A policy on one drive, in the end of its months.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The policy.
    pub policy: String,
    /// Random writes a second.
    pub rate: Option<f64>,
    /// Write amplification.
    pub waf: Option<f64>,
    /// Erase cycles of each block for 10^12 bytes of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_tb: Option<f64>,
    /// The longest wait of one write of others beside the trims, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
}

/// A figure of the drive on which the answer hangs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Separates {
    /// The field.
    pub field: String,
    /// How it is known: from the class, or by which probes; and which would tell more.
    pub source: String,
}

impl Fit {
    /// What the runs of one drive show, of which `recommended` follows.
    #[must_use]
    pub fn new(recommended: &str, runs: &[Run]) -> Self {
        let ageing = runs.iter().filter(|run| run.workload == super::ageing::CHURN);
        let wait = |policy: &str| {
            let waits =
                runs.iter().filter(|run| run.policy == policy).filter_map(|run| mean(run, BUSY_WAIT).or_else(|| mean(run, SPARSE_WAIT)));
            waits.reduce(f64::max)
        };
        let shown = |run: &Run| Shown {
            policy: run.policy.clone(),
            rate: mean(run, RATE_STEADY),
            waf: mean(run, WAF_STEADY),
            cycles_per_tb: mean(run, CYCLES_PER_TB),
            wait_s: wait(&run.policy),
        };
        Self { recommended: recommended.to_owned(), policies: ageing.map(shown).collect() }
    }
}

impl Ensemble {
    /// What `fits` of the first members of `twin` come to; members that could not be tried are `None`.
    #[must_use]
    pub fn new(twin: &Twin, fits: Vec<Option<Fit>>) -> Option<Self> {
        let tried: Vec<(&DriveSpec, Fit)> = twin.members.iter().zip(fits).filter_map(|(member, fit)| Some((member, fit?))).collect();
        let typical = twin.parameters.iter().filter(|one| one.known == Known::Typical).map(|one| one.field.clone());
        let mut all = Self {
            drives: tried.iter().map(|(_, fit)| fit.clone()).collect(),
            of: twin.members.len(),
            depends_on: None,
            of_the_class: typical.collect(),
            unexplained: !twin.origin.is_explained(),
        };
        let (most, _) = *all.counts().first()?;
        let most = most.to_owned();
        let apart: Vec<(&DriveSpec, bool)> = tried.iter().map(|(member, fit)| (*member, fit.recommended == most)).collect();
        all.depends_on = separates(&twin.parameters, &apart);
        Some(all)
    }

    /// What is recommended, and on how many drives: the most frequent first.
    #[must_use]
    pub fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for fit in &self.drives {
            match counts.iter_mut().find(|(name, _)| *name == fit.recommended) {
                Some((_, count)) => *count += 1,
                None => counts.push((&fit.recommended, 1)),
            }
        }
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        counts
    }

    /// On how many drives that is recommended.
    fn agree(&self, recommended: &str) -> usize {
        self.drives.iter().filter(|fit| fit.recommended == recommended).count()
    }

    /// Whether enough drives that explain what was measured come to that.
    #[must_use]
    pub fn decides(&self, recommended: &str) -> bool {
        !self.unexplained && self.most_agree_on(recommended)
    }

    fn most_agree_on(&self, recommended: &str) -> bool {
        self.agree(recommended) as f64 >= DECIDED * self.drives.len() as f64
    }

    /// A few words: "best on 15 of 16 drives that fit", or what is on how many.
    #[must_use]
    pub fn short(&self, recommended: &str) -> String {
        if self.decides(recommended) {
            let what = if self.is_policy(recommended) { "best" } else { "the same" };
            return format!("{what} on {} of {} drives that fit", self.agree(recommended), self.drives.len());
        }
        if self.unexplained {
            return format!(
                "cannot be decided: no drive explains what was measured, and of the {} nearest {}",
                self.drives.len(),
                self.counted()
            );
        }
        let itself =
            if self.agrees_on_another(recommended) { format!("the twin itself comes to {recommended}, and ") } else { String::new() };
        format!("cannot be decided: {itself}of {} drives that fit {}", self.drives.len(), self.counted())
    }

    /// Whether most drives agree on something else than what the twin itself comes to.
    fn agrees_on_another(&self, recommended: &str) -> bool {
        self.counts().first().is_some_and(|(most, _)| *most != recommended && self.most_agree_on(most))
    }

    /// How many drives come to what: "idle on 5, batched on 2".
    fn counted(&self) -> String {
        self.counts().iter().map(|(name, count)| format!("{name} on {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Whether it is a policy that was tried, and not what else can be said.
    fn is_policy(&self, recommended: &str) -> bool {
        recommended != policy::NONE && self.drives.iter().flat_map(|fit| &fit.policies).any(|shown| shown.policy == recommended)
    }

    /// What `policy` gains against no trimming on nine in ten of these drives: "random writes +160 to +190 %, life +28 to +31 %".
    #[must_use]
    pub fn gains(&self, policy: &str) -> Option<String> {
        if self.unexplained || !self.is_policy(policy) {
            return None;
        }
        let gains = |what: fn(&Shown) -> Option<f64>, less_is_better: bool| {
            let gain = |fit: &Fit| {
                let of = |name: &str| fit.policies.iter().find(|shown| shown.policy == name).and_then(what);
                let ratio = of(policy)? / of(policy::NONE)?;
                Some(100.0 * (if less_is_better { 1.0 / ratio } else { ratio } - 1.0))
            };
            let (low, _, high) = nine_in_ten(self.drives.iter().filter_map(gain).collect())?;
            Some(if format!("{low:+.0}") == format!("{high:+.0}") { format!("{low:+.0} %") } else { format!("{low:+.0} to {high:+.0} %") })
        };
        let rate = gains(|shown| shown.rate, false).map(|range| format!("random writes {range}"));
        let life = gains(|shown| shown.cycles_per_tb, true).map(|range| format!("life {range}"));
        let all: Vec<String> = [rate, life].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A sentence or two for the verdict.
    #[must_use]
    pub fn sentence(&self, recommended: &str) -> String {
        if self.unexplained {
            return format!(
                "No drive was found that explains what was measured, so that months on the twin say little of the drive. Of the {} nearest: {}.",
                self.drives.len(),
                self.counted()
            );
        }
        let tried =
            format!("Of {} drives (the first of {}) that explain what was measured: {}.", self.drives.len(), self.of, self.counted());
        let itself = if self.agrees_on_another(recommended) { format!(" The twin itself comes to {recommended}.") } else { String::new() };
        let undecided = if self.decides(recommended) { "" } else { " So what was measured does not decide it." };
        let depends = self
            .depends_on
            .as_ref()
            .map_or_else(String::new, |on| format!(" What separates them most is {}, known from {}.", on.field, on.source));
        let of_the_class = if self.of_the_class.is_empty() {
            String::new()
        } else {
            format!(
                " No probe told {}: the drives have these as their class has, and on a drive that differs from it the months may be other than on any of them.",
                self.of_the_class.join(", ")
            )
        };
        let beyond = format!(
            " Of drives that fit as well, {:.0} in 100 lie outside the least and the greatest of so many.",
            200.0 / (self.drives.len() + 1) as f64
        );
        format!("{tried}{itself}{undecided}{depends}{beyond}{of_the_class}")
    }

    /// The median of a figure of a policy on these drives, and where nine of ten lie.
    #[must_use]
    pub fn range(&self, policy: &str, what: fn(&Shown) -> Option<f64>) -> String {
        range(self.drives.iter().flat_map(|fit| &fit.policies).filter(|shown| shown.policy == policy).filter_map(what).collect())
    }

    /// What each policy comes to on these drives.
    #[must_use]
    pub fn section(&self) -> Section {
        let which =
            if self.unexplained { "are the nearest to what was measured, and do not explain it" } else { "explain what was measured" };
        let title = format!(
            "The same months on each of {} drives that {which}, and deleting a smaller tree: the median, and {}.",
            self.drives.len(),
            if self.drives.len() < 20 { "the least and the greatest" } else { "the range of nine in ten" }
        );
        let columns = [
            "policy",
            "recommended on",
            "random writes/s in the end",
            "write amplification",
            "erase cycles/TB",
            "longest wait of others (ms)",
        ];
        let mut table = Table::new(title, &columns);
        let mut names: Vec<&str> = self.drives.iter().flat_map(|fit| &fit.policies).map(|shown| shown.policy.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of = |what| self.range(name, what);
            let figures = [
                of(|shown| shown.rate),
                of(|shown| shown.waf),
                of(|shown| shown.cycles_per_tb),
                of(|shown| shown.wait_s.map(|wait| wait * 1e3)),
            ];
            let agree = format!("{}", self.agree(called(name)));
            table.row([name.to_owned(), agree].into_iter().chain(figures));
        }
        Section::new("Drives that fit", alloc::vec![Block::Table(table)])
    }
}

/// A policy as it is recommended.
fn called(policy: &str) -> &str {
    if policy == policy::NONE { "no trimming" } else { policy }
}

/// The median, and where nine of ten lie, as text.
fn range(values: Vec<f64>) -> String {
    let Some((low, median, high)) = nine_in_ten(values) else { return "–".to_owned() };
    format!("{} ({} to {})", three_digits(median), three_digits(low), three_digits(high))
}

/// Below which one in twenty lies, the median, and above which one in twenty does; of fewer than twenty the least and the greatest.
fn nine_in_ten(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last * 50 / 1000], middle(&values), values[last - last * 50 / 1000]))
}

/// The figure whose values differ most between the drives that come to one answer and the others.
fn separates(parameters: &[Parameter], apart: &[(&DriveSpec, bool)]) -> Option<Separates> {
    let tables: Vec<(Option<toml::Table>, &DriveSpec, bool)> = apart.iter().map(|(spec, most)| (table_of(spec), *spec, *most)).collect();
    let mut best: Option<(f64, &Parameter)> = None;
    for parameter in parameters.iter().filter(|parameter| parameter.known != Known::Measured) {
        let value = |(table, spec, _): &(Option<toml::Table>, &DriveSpec, bool)| match parameter.field.as_str() {
            SPARE => spare(spec),
            field => number(table.as_ref()?, field),
        };
        let of = |most: bool| tables.iter().filter(|one| one.2 == most).filter_map(value).collect::<Vec<f64>>();
        let share = apartness(&of(true), &of(false));
        if best.is_none_or(|(least, _)| share > least) {
            best = Some((share, parameter));
        }
    }
    let (_, parameter) = best.filter(|(share, _)| *share >= SEPARATES)?;
    Some(Separates { field: parameter.field.clone(), source: parameter.source.clone() })
}

/// How well a value tells two groups apart: 0 not at all, 1 always (twice the area under the curve, less one). 0 where a group has one drive only.
fn apartness(some: &[f64], others: &[f64]) -> f64 {
    if some.len() < 2 || others.len() < 2 {
        return 0.0;
    }
    let score = |a: f64, b: f64| {
        if a > b {
            1.0
        } else if a < b {
            -1.0
        } else {
            0.0
        }
    };
    let sum: f64 = some.iter().flat_map(|a| others.iter().map(move |b| score(*a, *b))).sum();
    libm::fabs(sum) / (some.len() * others.len()) as f64
}

fn table_of(spec: &DriveSpec) -> Option<toml::Table> {
    let Medium::Flash(flash) = &spec.medium else { return None };
    let mut table = toml::Table::new();
    table.insert("interface".to_owned(), toml::Value::try_from(&spec.interface).ok()?);
    table.insert("flash".to_owned(), toml::Value::try_from(flash).ok()?);
    Some(table)
}

fn number(table: &toml::Table, field: &str) -> Option<f64> {
    match field.split_once('.') {
        Some((first, rest)) => number(table.get(first)?.as_table()?, rest),
        None => match table.get(field)? {
            toml::Value::Integer(value) => Some(*value as f64),
            toml::Value::Float(value) => Some(*value),
            toml::Value::Boolean(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        },
    }
}

fn spare(spec: &DriveSpec) -> Option<f64> {
    let Medium::Flash(flash) = &spec.medium else { return None };
    Some(flash.geometry.raw_bytes() as f64 / spec.capacity_bytes.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use trimtab_drive::shipped;
    use trimtab_drive::spec::twin::Origin;

    /// A twin whose members only differ in what a TRIM command costs, and in what erasure takes.
    fn twin(costs: &[u64]) -> Twin {
        let spec = shipped::drives().into_iter().find(|drive| drive.spec.name == "sata-tlc-500gb").unwrap().spec;
        let members = costs.iter().zip(0..).map(|(cost, nth)| {
            let mut member = spec.clone();
            if let Medium::Flash(flash) = &mut member.medium {
                (flash.trim.command_ns, flash.nand.erase_ns) = (*cost, 3_000_000 + nth % 2);
            }
            member
        });
        let parameter = |field: &str| Parameter {
            field: field.to_owned(),
            estimate: 1,
            low: 1,
            high: 2,
            known: Known::Typical,
            source: "the class".to_owned(),
        };
        Twin {
            origin: Origin { model: "x".to_owned(), ..Origin::default() },
            parameters: vec![parameter("flash.nand.erase_ns"), parameter("flash.trim.command_ns"), parameter(SPARE)],
            members: members.collect(),
        }
    }

    /// Rates 150, 240, 360 with and 100, 120, 120 without; 5, 4 and 4 erase cycles for 6.
    #[test]
    fn ensemble_gain_is_per_drive_not_of_medians() {
        let shown = |policy: &str, rate: f64, cycles: f64| Shown {
            policy: policy.to_owned(),
            rate: Some(rate),
            waf: None,
            cycles_per_tb: Some(cycles),
            wait_s: None,
        };
        let fit = |with: f64, without: f64, cycles: f64| Fit {
            recommended: "idle".to_owned(),
            policies: vec![shown("idle", with, cycles), shown("none", without, 6.0)],
        };
        let all = Ensemble {
            drives: vec![fit(150.0, 100.0, 5.0), fit(240.0, 120.0, 4.0), fit(360.0, 120.0, 4.0)],
            of: 64,
            depends_on: None,
            of_the_class: vec![],
            unexplained: false,
        };
        assert_eq!(all.gains("idle").as_deref(), Some("random writes +50 to +200 %, life +20 to +50 %"));
        assert_eq!((all.gains("none"), all.gains("no difference")), (None, None));
        assert_eq!(all.short("idle"), "best on 3 of 3 drives that fit");
        let same = Ensemble { drives: vec![Fit { recommended: "no difference".to_owned(), ..all.drives[0].clone() }; 2], ..all };
        assert_eq!(same.short("no difference"), "the same on 2 of 2 drives that fit");
    }

    fn fit(recommended: &str, rate: f64) -> Option<Fit> {
        let shown = Shown { policy: "idle".to_owned(), rate: Some(rate), waf: None, cycles_per_tb: None, wait_s: None };
        Some(Fit { recommended: recommended.to_owned(), policies: vec![shown] })
    }

    #[test]
    fn ensemble_counts_outcomes_and_names_the_cause() {
        let twin = twin(&[1, 2, 3, 90, 95, 4, 5, 6]);
        let said = ["idle", "idle", "idle", "batched", "batched", "idle", "idle", ""];
        let mut fits: Vec<Option<Fit>> = said.iter().zip(1..).map(|(name, nth)| fit(name, f64::from(nth))).collect();
        // One that is not possible.
        fits[7] = None;
        let all = Ensemble::new(&twin, fits).unwrap();
        assert_eq!(all.counts(), [("idle", 5), ("batched", 2)]);
        assert_eq!(all.short("idle"), "cannot be decided: of 7 drives that fit idle on 5, batched on 2");
        let on = all.depends_on.as_ref().unwrap();
        assert_eq!((on.field.as_str(), on.source.as_str()), ("flash.trim.command_ns", "the class"));
        let said = all.sentence("idle");
        assert!(said.starts_with("Of 7 drives (the first of 8) that explain what was measured: idle on 5, batched on 2. So"), "{said}");
        // A further one of as many is as likely at any place among 8: at either end in 2 of them.
        assert!(
            said.contains("25 in 100 lie outside") && said.contains("No probe told flash.nand.erase_ns, flash.trim.command_ns, flash.over"),
            "{said}"
        );
        let Block::Table(table) = &all.section().blocks[0] else { panic!("no table") };
        assert_eq!(table.rows[0], ["idle", "5", "4.00 (1.00 to 7.00)", "–", "–", "–"]);
    }

    /// Seen: "cannot be decided: of 8 drives that fit online on 8".
    #[test]
    fn where_the_twin_alone_comes_to_something_else_that_is_said() {
        let all = Ensemble::new(&twin(&[1, 2, 3, 4]), vec![fit("online", 1.0), fit("online", 2.0), fit("online", 3.0), fit("online", 1.0)])
            .unwrap();
        assert_eq!(all.short("batched"), "cannot be decided: the twin itself comes to batched, and of 4 drives that fit online on 4");
        assert!(
            all.sentence("batched").contains("online on 4. The twin itself comes to batched. So what was measured does not decide it.")
        );
        assert!(!all.sentence("online").contains("itself"));
    }

    /// Seen: "best on 8 of 8 drives that fit" of a twin that was off by seven times what figures may be off by.
    #[test]
    fn drives_that_explain_nothing_decide_nothing() {
        let mut twin = twin(&[1, 2]);
        twin.origin.misfit_permille = 4001;
        let all = Ensemble::new(&twin, vec![fit("idle", 1.0), fit("idle", 2.0)]).unwrap();
        assert!(!all.decides("idle") && all.gains("idle").is_none());
        assert_eq!(all.short("idle"), "cannot be decided: no drive explains what was measured, and of the 2 nearest idle on 2");
        assert!(all.sentence("idle").starts_with("No drive was found that explains what was measured"));
        let Block::Table(table) = &all.section().blocks[0] else { panic!("no table") };
        assert!(table.caption.contains("do not explain it"), "{}", table.caption);
    }

    #[test]
    fn what_all_come_to_hangs_on_nothing() {
        let twin = twin(&[1, 2, 3, 4]);
        let all = Ensemble::new(&twin, vec![fit("idle", 1.0), fit("idle", 2.0), fit("idle", 3.0), fit("batched", 1.0)]).unwrap();
        assert_eq!(
            (all.short("idle").as_str(), &all.depends_on),
            ("best on 3 of 4 drives that fit", &None),
            "one drive alone shows nothing"
        );
        assert!(Ensemble::new(&twin, vec![None, None]).is_none());
    }

    #[test]
    fn values_tell_groups_apart_as_counting_pairs_says() {
        assert_eq!(apartness(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        // Pairs: (1,2) less, (1,1) the same, (3,2) more, (3,1) more.
        assert_eq!(apartness(&[1.0, 3.0], &[2.0, 1.0]), 0.25);
        assert_eq!(apartness(&[1.0], &[2.0, 3.0]), 0.0);
    }
}
