//! What counts, and how: each declared figure against the model's, and what the whole comes to.
//!
//! Nothing here chooses what is compared; `frozen.toml` has. A figure that the model does not produce is a miss. A figure for which the model says
//! the same on the same drive as in a row before is one statement, counted once, by the worst of its outcomes.

use super::spec::{Configuration, Modelled, Plan, number};
use serde::Serialize;
use std::collections::BTreeSet;

/// Largest deviation of a fitted figure from the published one, in per cent.
pub const FITTED_TARGET_PERCENT: f64 = 10.0;
/// Largest deviation of a predicted figure.
pub const PREDICTED_TARGET_PERCENT: f64 = 25.0;
/// Figures of the model closer than this are the same statement.
const SAME_PERCENT: f64 = 1.0;

/// One published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Workload: the table of the published file.
    pub workload: &'static str,
    /// What it is called.
    pub name: String,
    /// The modelled drive.
    pub drive: String,
    /// Title, author and date.
    pub source: String,
    /// Since when what is compared is fixed.
    pub frozen: String,
    /// Why nothing of the drive was fitted on published results.
    pub held_out: Option<String>,
    /// By which other drive's its costs of TRIM were replaced.
    pub trim_of: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// What a figure counts as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "as")]
pub enum Kind {
    /// A prediction.
    Predicted,
    /// A prediction on a drive that nothing was fitted on.
    HeldOut,
    /// A parameter was fitted on it.
    Fitted {
        /// Which.
        parameter: String,
    },
    /// The model says the same as in a row before: counted there.
    Repeats {
        /// That row.
        row: String,
    },
    /// Shown only.
    NotScored {
        /// Why.
        reason: String,
    },
}

/// How a figure came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Within the target.
    Within,
    /// Not within the target, but what the published reading can stand for.
    AsRead,
    /// Neither.
    Off,
    /// The model does not produce it.
    Missing,
}

/// A published figure and the model's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name in the published file; the unit comes last.
    pub name: String,
    /// As published.
    pub published: String,
    /// What the published reading can stand for: whole seconds, a range, words.
    pub published_range: [f64; 2],
    /// The model's.
    pub modelled: Option<f64>,
    /// How far the model is from the published figure, or from the nearest end of a published range.
    pub deviation_percent: Option<f64>,
    /// What it counts as.
    pub kind: Kind,
    /// How it came out.
    pub outcome: Outcome,
    /// The worst outcome of the figures that say the same, by which it is counted.
    pub counted: Outcome,
    /// Whether it was a prediction, missed, before it was fitted; and what happened.
    pub missed_before: Option<String>,
    /// Why not, or what else has to be known.
    pub remark: Option<String>,
}

impl Figure {
    /// How far a figure of its kind may be off, in per cent.
    pub const fn target_percent(kind: &Kind) -> f64 {
        if matches!(kind, Kind::Fitted { .. }) { FITTED_TARGET_PERCENT } else { PREDICTED_TARGET_PERCENT }
    }
}

/// How many figures of a kind came out how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Within the target.
    pub within: usize,
    /// Only as read.
    pub as_read: usize,
    /// Off.
    pub off: usize,
    /// Not produced by the model.
    pub missing: usize,
}

impl Tally {
    /// All.
    pub const fn total(&self) -> usize {
        self.within + self.as_read + self.off + self.missing
    }

    const fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Within => self.within += 1,
            Outcome::AsRead => self.as_read += 1,
            Outcome::Off => self.off += 1,
            Outcome::Missing => self.missing += 1,
        }
    }
}

/// What the comparison comes to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions.
    pub predicted: Tally,
    /// Predictions on drives that nothing was fitted on.
    pub held_out: Tally,
    /// Fits.
    pub fitted: Tally,
    /// Fits of figures that had been predictions, and missed.
    pub fitted_after_a_miss: usize,
    /// Parameters fitted on these figures or chosen with them in view.
    pub parameters: usize,
    /// Figures that follow from others, or cannot be missed, or say what another row says: shown only.
    pub not_scored: usize,
    /// Figures among them that repeat another row.
    pub repeats: usize,
}

/// The row of a configuration.
pub fn row(plan: &Plan, configuration: &Configuration, modelled: &Modelled) -> anyhow::Result<Row> {
    let published = plan.published(configuration)?;
    let results = published.iter().filter(|(name, value)| plan.is_result(configuration, name, value));
    let figures = results.filter_map(|(name, value)| figure(plan, configuration, published, name, value, modelled)).collect();
    Ok(Row {
        workload: configuration.of.table(),
        name: configuration.name.clone(),
        drive: configuration.drive.clone(),
        source: plan.source(configuration)?.to_string(),
        frozen: configuration.frozen.to_string(),
        held_out: configuration.held_out.clone(),
        trim_of: configuration.trim_of.clone(),
        figures,
    })
}

fn figure(
    plan: &Plan,
    configuration: &Configuration,
    published: &toml::Table,
    name: &str,
    value: &toml::Value,
    modelled: &Modelled,
) -> Option<Figure> {
    let (text, range) = reading(name, value, configuration.read_as.get(name))?;
    let identity = plan.identity(configuration.of, name, published);
    let kind = if let Some(parameter) = configuration.fitted.get(name) {
        Kind::Fitted { parameter: parameter.clone() }
    } else if let Some(identity) = identity {
        Kind::NotScored { reason: format!("follows: {}", identity.why) }
    } else if let Some(reason) = configuration.unscored.get(name) {
        Kind::NotScored { reason: reason.clone() }
    } else if configuration.held_out.is_some() {
        Kind::HeldOut
    } else {
        Kind::Predicted
    };
    Some(judged(configuration, name, text, range, number(value), modelled.get(name).copied(), kind))
}

/// A published value as text, and what it can stand for. A whole number of seconds is the difference of two readings of a clock of whole
/// seconds, and 1 is also what PostMark says for 0.
fn reading(name: &str, value: &toml::Value, words: Option<&[f64; 2]>) -> Option<(String, [f64; 2])> {
    if let Some(range) = words {
        return Some((value.as_str().unwrap_or_default().to_owned(), *range));
    }
    if let Some(range) = value.as_array() {
        let (low, high) = (number(range.first()?)?, number(range.get(1)?)?);
        return Some((format!("{low} to {high}"), [low, high]));
    }
    let exact = number(value)?;
    let ticks = f64::from(u8::from(value.is_integer() && name.ends_with("_s")));
    Some((format!("{exact}"), [exact - ticks, exact + ticks]))
}

fn judged(
    configuration: &Configuration,
    name: &str,
    published: String,
    range: [f64; 2],
    exact: Option<f64>,
    modelled: Option<f64>,
    kind: Kind,
) -> Figure {
    let nearest = |modelled: f64| exact.unwrap_or_else(|| modelled.clamp(range[0], range[1]));
    let deviation_percent = modelled.map(|modelled| (modelled / nearest(modelled) - 1.0) * 100.0);
    let outcome = match (modelled, deviation_percent) {
        (Some(_), Some(off)) if off.abs() <= Figure::target_percent(&kind) => Outcome::Within,
        (Some(modelled), _) if (range[0]..=range[1]).contains(&modelled) => Outcome::AsRead,
        (Some(_), _) => Outcome::Off,
        (None, _) => Outcome::Missing,
    };
    Figure {
        name: name.to_owned(),
        published,
        published_range: range,
        modelled,
        deviation_percent,
        kind,
        outcome,
        counted: outcome,
        missed_before: configuration.missed_before.get(name).cloned(),
        remark: configuration.remarks.get(name).cloned(),
    }
}

/// Finds figures that say what a row before says, on the same drive; these count once, by the worst.
pub fn join_repeats(rows: &mut [Row]) {
    for later in 1..rows.len() {
        for at in 0..rows[later].figures.len() {
            let figure = &rows[later].figures[at];
            let Some(modelled) = figure.modelled.filter(|_| matches!(figure.kind, Kind::Predicted | Kind::HeldOut)) else { continue };
            let (outcome, name) = (figure.outcome, figure.name.clone());
            let same = |other: &Figure| {
                let scored = matches!(other.kind, Kind::Predicted | Kind::HeldOut | Kind::Fitted { .. });
                let close = other.modelled.is_some_and(|other| (modelled / other - 1.0).abs() * 100.0 <= SAME_PERCENT);
                scored && other.name == name && close
            };
            let (before, rest) = rows.split_at_mut(later);
            let row = &mut rest[0];
            let head = before.iter_mut().filter(|other| other.drive == row.drive && other.workload == row.workload).find_map(|other| {
                let row_name = other.name.clone();
                other.figures.iter_mut().find(|figure| same(figure)).map(|figure| (row_name, figure))
            });
            if let Some((row_name, head)) = head {
                head.counted = head.counted.max(outcome);
                row.figures[at].kind = Kind::Repeats { row: row_name };
            }
        }
    }
}

/// What the rows come to.
pub fn score(plan: &Plan, rows: &[Row]) -> Score {
    let mut score = Score::default();
    let mut parameters = BTreeSet::new();
    for row in rows {
        let configuration = plan.configurations.iter().find(|configuration| configuration.name == row.name);
        for figure in &row.figures {
            match &figure.kind {
                Kind::Predicted => score.predicted.add(figure.counted),
                Kind::HeldOut => score.held_out.add(figure.counted),
                Kind::Fitted { parameter } => {
                    score.fitted.add(figure.counted);
                    score.fitted_after_a_miss += usize::from(figure.missed_before.is_some());
                    parameters.insert(parameter_of(row, parameter));
                }
                Kind::Repeats { .. } => score.repeats += 1,
                Kind::NotScored { .. } => score.not_scored += 1,
            }
        }
        parameters.extend(configuration.into_iter().flat_map(|c| &c.chosen).map(|chosen| parameter_of(row, chosen)));
    }
    score.parameters = parameters.len();
    score
}

/// A parameter of a filesystem is one wherever it is used; one of a drive belongs to the drive.
fn parameter_of(row: &Row, parameter: &str) -> String {
    if parameter.starts_with("filesystem.") { parameter.to_owned() } else { format!("{} {parameter}", row.drive) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::shipped().unwrap()
    }

    fn named<'a>(plan: &'a Plan, name: &str) -> &'a Configuration {
        plan.configurations.iter().find(|c| c.name == name).unwrap()
    }

    fn find<'a>(row: &'a Row, name: &str) -> &'a Figure {
        row.figures.iter().find(|figure| figure.name == name).unwrap()
    }

    /// Every number that was published stands in a row, whether or not the model says anything; and what it does not say is a miss.
    #[test]
    fn figures_that_the_model_does_not_produce_are_misses() {
        let plan = plan();
        let (mut all, mut scored) = (0, 0);
        for configuration in &plan.configurations {
            let row = row(&plan, configuration, &Modelled::new()).unwrap();
            let published = plan.published(configuration).unwrap();
            let settings = plan.settings.get(row.workload).map_or(&[][..], Vec::as_slice);
            for (key, value) in published.iter().filter(|(key, value)| number(value).is_some() && !settings.contains(key)) {
                assert!(row.figures.iter().any(|figure| &figure.name == key), "{}: {key} = {value} is left out", row.name);
            }
            all += row.figures.len();
            let score = score(&plan, &[row]);
            for tally in [score.predicted, score.held_out, score.fitted] {
                assert_eq!(tally.missing, tally.total());
                scored += tally.total();
            }
        }
        assert!(scored > 90 && all > scored, "{scored} of {all}");
        let ageing = row(&plan, named(&plan, "Corsair P128"), &Modelled::new()).unwrap();
        assert_eq!(find(&ageing, "worst_write_loss_percent_any_drive").published, "72");
    }

    #[test]
    fn only_what_is_within_its_target_is_met() {
        let plan = plan();
        let configuration = named(&plan, "Corsair Force 3, atime");
        let modelled = Modelled::from([("create_s", 2.66), ("transactions_s", 11.2), ("delete_s", 0.58), ("total_s", 13.0)]);
        let row = row(&plan, configuration, &modelled).unwrap();
        assert_eq!(find(&row, "create_s").outcome, Outcome::AsRead);
        assert_eq!(find(&row, "transactions_s").outcome, Outcome::Within);
        assert_eq!(find(&row, "delete_s").outcome, Outcome::Off);
        let score = score(&plan, std::slice::from_ref(&row));
        assert_eq!(score.held_out, Tally { within: 1, as_read: 1, off: 1, missing: 0 });
        assert_eq!((score.predicted.total(), score.fitted.total(), score.not_scored), (0, 0, 1));
    }

    /// Three rows of one drive for which the model says the same, one of which it misses: one miss, not two hits beside it.
    #[test]
    fn what_the_model_says_twice_counts_once_and_by_the_worst() {
        let plan = plan();
        let create = |seconds| Modelled::from([("create_s", seconds), ("transactions_s", 9.0), ("delete_s", 0.8), ("total_s", 12.0)]);
        let rows = |second: f64| {
            let [a, b] = ["OCZ Vertex 2 LE, noatime", "OCZ Vertex 2 LE, atime"].map(|name| named(&plan, name));
            let mut rows = vec![row(&plan, a, &create(3.2)).unwrap(), row(&plan, b, &create(second)).unwrap()];
            join_repeats(&mut rows);
            rows
        };
        let same = rows(3.21);
        assert_eq!(find(&same[0], "create_s").outcome, Outcome::Within);
        assert_eq!(find(&same[0], "create_s").counted, Outcome::Off);
        assert_eq!(find(&same[1], "create_s").kind, Kind::Repeats { row: "OCZ Vertex 2 LE, noatime".into() });
        let different = rows(4.9);
        assert_eq!(find(&different[1], "create_s").kind, Kind::Predicted);
        assert!(score(&plan, &same).predicted.within < score(&plan, &different).predicted.within);
    }

    #[test]
    fn what_cannot_be_missed_or_follows_from_others_is_not_scored() {
        let plan = plan();
        let minutes = row(&plan, named(&plan, "SandForce, 130 GB"), &Modelled::from([("duration", 483.0)])).unwrap();
        assert!(matches!(find(&minutes, "duration").kind, Kind::NotScored { .. }));
        let rounds = row(&plan, named(&plan, "Intel 520"), &Modelled::new()).unwrap();
        for name in ["write_sequential_incompressible_steady_percent_of_advertised", "write_sequential_between_knees_MBps"] {
            assert!(matches!(find(&rounds, name).kind, Kind::NotScored { .. }), "{name}");
        }
        // Three filesystem parameters are one each wherever they are used, those of drives are the drive's.
        let all: Vec<Row> = plan.configurations.iter().map(|c| row(&plan, c, &Modelled::new()).unwrap()).collect();
        let score = score(&plan, &all);
        assert!(score.parameters >= 30 && score.parameters < score.fitted.total() + 20, "{score:?}");
        assert_eq!(score.fitted_after_a_miss, 3);
    }
}
