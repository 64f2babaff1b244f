//! Combined results of several drives that all explain the measurements of a real one.

use super::policy;
use super::recommendation::Recommendation;
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::twin::{Known, Parameter, Twin};
use trimtab_sim::analysis::middle;

/// Smallest share of drives that must agree for a decision.
const DECIDED: f64 = 0.75;
/// Smallest separation of a decisive field (0: no separation, 1: complete).
const SEPARATES: f64 = 0.5;
/// Name of the spare space in a twin, which has no field of its own.
const SPARE: &str = "flash.over_provisioning_permille";

/// Results of the small study on each drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ensemble {
    /// The drives.
    pub drives: Vec<Fit>,
    /// Total number of drives in the twin.
    pub of: usize,
    /// The field that best separates drives with the most frequent answer from the rest.
    pub depends_on: Option<DecidingField>,
    /// Fields of the twin that no probe identifies; its drives take them from the class
    /// prior.
    #[serde(default)]
    pub of_the_class: Vec<String>,
    /// True if no drive explains the measurements and these are only the nearest.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unexplained: bool,
}

/// Results of one candidate drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Recommendation for this drive.
    pub recommended: Recommendation,
    /// Figures of each policy on this drive.
    pub policies: Vec<PolicyResult>,
}

/// A policy on one drive at the end of its months.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyResult {
    /// The policy.
    pub policy: String,
    /// Random writes per second.
    pub rate: Option<f64>,
    /// Write amplification.
    pub waf: Option<f64>,
    /// Erase cycles per block for 10^12 host bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_tb: Option<f64>,
    /// Longest foreground write during trims, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
}

/// The field of the drive on which the recommendation depends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidingField {
    /// The field.
    pub field: String,
    /// Source of its value: class prior or probes, and the probes that would narrow it
    /// down.
    pub source: String,
}

impl Ensemble {
    /// Combines the results of the first members of `twin`; `None` for members that
    /// failed.
    #[must_use]
    pub fn new(twin: &Twin, fits: Vec<Option<Fit>>) -> Option<Self> {
        let tried: Vec<(&DriveSpec, Fit)> = twin
            .members
            .iter()
            .zip(fits)
            .filter_map(|(member, fit)| Some((member, fit?)))
            .collect();
        let typical = twin
            .parameters
            .iter()
            .filter(|one| one.known == Known::Typical)
            .map(|one| one.field.clone());
        let mut all = Self {
            drives: tried.iter().map(|(_, fit)| fit.clone()).collect(),
            of: twin.members.len(),
            depends_on: None,
            of_the_class: typical.collect(),
            unexplained: !twin.origin.is_explained(),
        };
        let (most, _) = *all.counts().first()?;
        let apart: Vec<(&DriveSpec, bool)> =
            tried.iter().map(|(member, fit)| (*member, fit.recommended == most)).collect();
        all.depends_on = separates(&twin.parameters, &apart);
        Some(all)
    }

    /// Recommendations with the number of drives for each, most frequent first.
    #[must_use]
    pub fn counts(&self) -> Vec<(Recommendation, usize)> {
        let mut counts: Vec<(Recommendation, usize)> = Vec::new();
        for fit in &self.drives {
            match counts.iter_mut().find(|(known, _)| *known == fit.recommended) {
                Some((_, count)) => *count += 1,
                None => counts.push((fit.recommended, 1)),
            }
        }
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        counts
    }

    /// Number of drives for which `recommended` follows.
    #[must_use]
    pub fn agree(&self, recommended: Recommendation) -> usize {
        self.drives.iter().filter(|fit| fit.recommended == recommended).count()
    }

    /// True if enough drives that explain the measurements lead to `recommended`.
    #[must_use]
    pub fn decides(&self, recommended: Recommendation) -> bool {
        !self.unexplained && self.most_agree_on(recommended)
    }

    fn most_agree_on(&self, recommended: Recommendation) -> bool {
        self.agree(recommended) as f64 >= DECIDED * self.drives.len() as f64
    }

    /// True if most drives agree on a recommendation other than the twin's own.
    #[must_use]
    pub fn agrees_on_another(&self, recommended: Recommendation) -> bool {
        self.counts()
            .first()
            .is_some_and(|(most, _)| *most != recommended && self.most_agree_on(*most))
    }

    /// Range of the gains of `policy` over no trimming on nine in ten drives; `None` if
    /// not run.
    #[must_use]
    pub fn gains(&self, policy: &str) -> Option<GainRanges> {
        let tried =
            self.drives.iter().flat_map(|fit| &fit.policies).any(|shown| shown.policy == policy);
        if self.unexplained || policy == policy::NONE || !tried {
            return None;
        }
        let gains = |what: fn(&PolicyResult) -> Option<f64>, less_is_better: bool| {
            let gain = |fit: &Fit| {
                let of = |name: &str| {
                    fit.policies.iter().find(|shown| shown.policy == name).and_then(what)
                };
                let ratio = of(policy)? / of(policy::NONE)?;
                Some(if less_is_better { 1.0 / ratio } else { ratio })
            };
            Range::of(self.drives.iter().filter_map(gain).collect())
        };
        Some(GainRanges {
            rate: gains(|shown| shown.rate, false),
            life: gains(|shown| shown.cycles_per_tb, true),
        })
    }

    /// Range of a figure of `policy` on these drives.
    #[must_use]
    pub fn range(&self, policy: &str, what: fn(&PolicyResult) -> Option<f64>) -> Option<Range> {
        Range::of(
            self.drives
                .iter()
                .flat_map(|fit| &fit.policies)
                .filter(|shown| shown.policy == policy)
                .filter_map(what)
                .collect(),
        )
    }
}

/// Ranges of the gains on nine in ten drives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainRanges {
    /// Random-write rate relative to no trimming.
    pub rate: Option<Range>,
    /// Drive life relative to no trimming.
    pub life: Option<Range>,
}

/// The range of nine in ten values; of all values if there are fewer than twenty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// A tenth: one value in twenty is lower.
    pub low: f64,
    /// Half are less.
    pub median: f64,
    /// One in twenty is more.
    pub high: f64,
}

impl Range {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some(Self {
            low: values[last * 50 / 1000],
            median: middle(&values),
            high: values[last - last * 50 / 1000],
        })
    }
}
/// The field whose values differ most between drives with one answer and the rest.
fn separates(parameters: &[Parameter], apart: &[(&DriveSpec, bool)]) -> Option<DecidingField> {
    let tables: Vec<(Option<toml::Table>, &DriveSpec, bool)> =
        apart.iter().map(|(spec, most)| (table_of(spec), *spec, *most)).collect();
    let mut best: Option<(f64, &Parameter)> = None;
    for parameter in parameters.iter().filter(|parameter| parameter.known != Known::Measured) {
        let value = |(table, spec, _): &(Option<toml::Table>, &DriveSpec, bool)| match parameter
            .field
            .as_str()
        {
            SPARE => spare(spec),
            field => number(table.as_ref()?, field),
        };
        let of = |most: bool| {
            tables.iter().filter(|one| one.2 == most).filter_map(value).collect::<Vec<f64>>()
        };
        let share = apartness(&of(true), &of(false));
        if best.is_none_or(|(least, _)| share > least) {
            best = Some((share, parameter));
        }
    }
    let (_, parameter) = best.filter(|(share, _)| *share >= SEPARATES)?;
    Some(DecidingField { field: parameter.field.clone(), source: parameter.source.clone() })
}

/// Separation of two groups by a value: 0 for none, 1 for complete (twice the area under
/// the ROC curve, minus one). Returns 0 if a group has only one drive.
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
    let flash = &spec.flash;
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
    let flash = &spec.flash;
    Some(flash.geometry.raw_bytes() as f64 / spec.capacity_bytes.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use trimtab_drive::shipped;
    use trimtab_drive::spec::twin::Origin;

    /// A twin whose members differ only in the costs of TRIM commands and erasure.
    fn twin(costs: &[u64]) -> Twin {
        let spec = shipped::drives()
            .into_iter()
            .find(|drive| drive.spec.name == "sata-tlc-500gb")
            .unwrap()
            .spec;
        let members = costs.iter().zip(0..).map(|(cost, nth)| {
            let mut member = spec.clone();
            let flash = &mut member.flash;
            (flash.trim.command_ns, flash.nand.erase_ns) = (*cost, 3_000_000 + nth % 2);
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
            parameters: vec![
                parameter("flash.nand.erase_ns"),
                parameter("flash.trim.command_ns"),
                parameter(SPARE),
            ],
            members: members.collect(),
        }
    }

    const IDLE: Recommendation = Recommendation::Use(policy::IDLE);
    const BATCHED: Recommendation = Recommendation::Use(policy::BATCHED);
    const ONLINE: Recommendation = Recommendation::Use(policy::ONLINE);

    /// Rates 150, 240, 360 against 100, 120, 120; 5, 4 and 4 erase cycles against 6.
    #[test]
    fn gains_are_computed_per_drive_not_from_medians() {
        let shown = |policy: &str, rate: f64, cycles: f64| PolicyResult {
            policy: policy.to_owned(),
            rate: Some(rate),
            waf: None,
            cycles_per_tb: Some(cycles),
            wait_s: None,
        };
        let fit = |with: f64, without: f64, cycles: f64| Fit {
            recommended: IDLE,
            policies: vec![shown("idle", with, cycles), shown("none", without, 6.0)],
        };
        let drives = vec![fit(150.0, 100.0, 5.0), fit(240.0, 120.0, 4.0), fit(360.0, 120.0, 4.0)];
        let all =
            Ensemble { drives, of: 64, depends_on: None, of_the_class: vec![], unexplained: false };
        let ends = |range: Option<Range>| range.map(|range| (range.low, range.high)).unwrap();
        let gains = all.gains("idle").unwrap();
        assert_eq!((ends(gains.rate), ends(gains.life)), ((1.5, 3.0), (1.2, 1.5)));
        assert_eq!((all.gains("none"), all.gains("batched")), (None, None));
    }

    fn fit(recommended: Recommendation, rate: f64) -> Option<Fit> {
        let shown = PolicyResult {
            policy: "idle".to_owned(),
            rate: Some(rate),
            waf: None,
            cycles_per_tb: None,
            wait_s: None,
        };
        Some(Fit { recommended, policies: vec![shown] })
    }

    #[test]
    fn ensemble_counts_answers_and_names_separating_field() {
        let twin = twin(&[1, 2, 3, 90, 95, 4, 5, 6]);
        let said = [IDLE, IDLE, IDLE, BATCHED, BATCHED, IDLE, IDLE, IDLE];
        let mut fits: Vec<Option<Fit>> =
            said.iter().zip(1..).map(|(name, nth)| fit(*name, f64::from(nth))).collect();
        // One impossible drive.
        fits[7] = None;
        let all = Ensemble::new(&twin, fits).unwrap();
        assert_eq!(all.counts(), [(IDLE, 5), (BATCHED, 2)]);
        assert!(!all.decides(IDLE));
        let on = all.depends_on.as_ref().unwrap();
        assert_eq!((on.field.as_str(), on.source.as_str()), ("flash.trim.command_ns", "the class"));
        assert_eq!(all.of_the_class.len(), 3);
        assert_eq!(
            all.range("idle", |shown| shown.rate),
            Some(Range { low: 1.0, median: 4.0, high: 7.0 })
        );
        assert_eq!(all.range("idle", |shown| shown.waf), None);
    }

    #[test]
    fn drives_can_agree_on_another_policy_than_twin() {
        let fits = vec![fit(ONLINE, 1.0), fit(ONLINE, 2.0), fit(ONLINE, 3.0), fit(ONLINE, 1.0)];
        let all = Ensemble::new(&twin(&[1, 2, 3, 4]), fits).unwrap();
        assert!(
            all.agrees_on_another(BATCHED) && !all.agrees_on_another(ONLINE) && all.decides(ONLINE)
        );
    }

    /// A twin whose error is seven times the tolerance.
    #[test]
    fn unexplained_drives_decide_nothing() {
        let mut twin = twin(&[1, 2]);
        twin.origin.misfit_permille = 4001;
        let all = Ensemble::new(&twin, vec![fit(IDLE, 1.0), fit(IDLE, 2.0)]).unwrap();
        assert!(all.unexplained && !all.decides(IDLE) && all.gains("idle").is_none());
    }

    #[test]
    fn single_drive_has_no_separating_field() {
        let twin = twin(&[1, 2, 3, 4]);
        let all = Ensemble::new(
            &twin,
            vec![fit(IDLE, 1.0), fit(IDLE, 2.0), fit(IDLE, 3.0), fit(BATCHED, 1.0)],
        )
        .unwrap();
        assert_eq!((all.decides(IDLE), &all.depends_on), (true, &None));
        assert!(Ensemble::new(&twin, vec![None, None]).is_none());
    }

    #[test]
    fn apartness_matches_pair_count() {
        assert_eq!(apartness(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        // Pairs: (1,2) less, (1,1) equal, (3,2) more, (3,1) more.
        assert_eq!(apartness(&[1.0, 3.0], &[2.0, 1.0]), 0.25);
        assert_eq!(apartness(&[1.0], &[2.0, 3.0]), 0.0);
    }
}
