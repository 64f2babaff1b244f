//! Scores each declared figure against the model.
//!
//! `frozen.toml` alone decides what is compared. A figure that the model does not produce
//! is a miss. Figures with the same modelled value on the same drive as an earlier row
//! are counted once, with the worst outcome.

use super::spec::{Configuration, ModelledFigures, PublishedData, number};
use serde::Serialize;
use std::collections::BTreeSet;

/// Target for fitted figures: maximum deviation in per cent.
pub const FITTED_TARGET_PERCENT: f64 = 10.0;
/// Target for predicted figures: maximum deviation in per cent.
pub const PREDICTED_TARGET_PERCENT: f64 = 25.0;
/// Maximum difference in per cent of modelled values that count as the same.
const SAME_PERCENT: f64 = 1.0;

/// One published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreRow {
    /// Workload: name of the table in the published file.
    pub workload: &'static str,
    /// Row name.
    pub name: String,
    /// The modelled drive.
    pub drive: String,
    /// Publication: title, author and date.
    pub source: String,
    /// Date since which the configuration is frozen.
    pub frozen: String,
    /// Reason why the drive is held out of fitting.
    pub held_out: Option<String>,
    /// Drive whose TRIM costs replace its own.
    pub trim_of: Option<String>,
    /// Figures of the row.
    pub figures: Vec<PublishedFigure>,
}

/// Classification of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "as")]
pub enum FigureKind {
    /// A prediction.
    Predicted,
    /// A prediction on a drive held out of all fitting.
    HeldOut,
    /// A figure that a parameter was fitted to.
    Fitted {
        /// The fitted parameter.
        parameter: String,
    },
    /// The same modelled value as in an earlier row, where it is counted.
    Repeats {
        /// Earlier row.
        row: String,
    },
    /// Shown but not scored.
    NotScored {
        /// Reason.
        reason: String,
    },
}

/// Result of comparing a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureOutcome {
    /// Within the target.
    Within,
    /// Outside the target, but within the uncertainty of the published reading.
    AsRead,
    /// Outside both.
    Off,
    /// The model does not produce it.
    Missing,
}

/// A published figure and its modelled value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// Name in the published file, with the unit as suffix.
    pub name: String,
    /// Published value.
    pub published: String,
    /// Range covered by the published reading: whole seconds, a range, or words.
    pub published_range: [f64; 2],
    /// Modelled value.
    pub modelled: Option<f64>,
    /// Deviation from the published value, or from the nearest end of a published range.
    pub deviation_percent: Option<f64>,
    /// Classification.
    pub kind: FigureKind,
    /// Outcome of this figure.
    pub outcome: FigureOutcome,
    /// Outcome that is counted: the worst among figures with the same value.
    pub counted: FigureOutcome,
    /// Explanation if the figure was a failed prediction before it was fitted.
    pub missed_before: Option<String>,
    /// Reason for a miss, or another remark.
    pub remark: Option<String>,
}

impl PublishedFigure {
    /// Maximum deviation for this classification, in per cent.
    pub const fn target_percent(kind: &FigureKind) -> f64 {
        if matches!(kind, FigureKind::Fitted { .. }) {
            FITTED_TARGET_PERCENT
        } else {
            PREDICTED_TARGET_PERCENT
        }
    }
}

/// Number of figures of one classification by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Within the target.
    pub within: usize,
    /// Only within the uncertainty of the reading.
    pub as_read: usize,
    /// Outside both.
    pub off: usize,
    /// Not produced by the model.
    pub missing: usize,
}

impl Tally {
    /// Total number of figures.
    pub const fn total(&self) -> usize {
        self.within + self.as_read + self.off + self.missing
    }

    const fn add(&mut self, outcome: FigureOutcome) {
        match outcome {
            FigureOutcome::Within => self.within += 1,
            FigureOutcome::AsRead => self.as_read += 1,
            FigureOutcome::Off => self.off += 1,
            FigureOutcome::Missing => self.missing += 1,
        }
    }
}

/// Score of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions.
    pub predicted: Tally,
    /// Predictions on drives held out of all fitting.
    pub held_out: Tally,
    /// Fits.
    pub fitted: Tally,
    /// Fits of figures that were failed predictions before.
    pub fitted_after_a_miss: usize,
    /// Parameters fitted to these figures or chosen with knowledge of them.
    pub parameters: usize,
    /// Figures that are only shown: derived, impossible to miss, or repeated.
    pub not_scored: usize,
    /// Number of `not_scored` figures that repeat another row.
    pub repeats: usize,
}

/// Builds the row of a configuration.
pub fn row(
    plan: &PublishedData,
    configuration: &Configuration,
    modelled: &ModelledFigures,
) -> anyhow::Result<ScoreRow> {
    let published = plan.published(configuration)?;
    let results =
        published.iter().filter(|(name, value)| plan.is_result(configuration, name, value));
    let figures = results
        .filter_map(|(name, value)| figure(plan, configuration, published, name, value, modelled))
        .collect();
    Ok(ScoreRow {
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
    plan: &PublishedData,
    configuration: &Configuration,
    published: &toml::Table,
    name: &str,
    value: &toml::Value,
    modelled: &ModelledFigures,
) -> Option<PublishedFigure> {
    let (text, range) = reading(name, value, configuration.read_as.get(name))?;
    let identity = plan.identity(configuration.of, name, published);
    let kind = if let Some(parameter) = configuration.fitted.get(name) {
        FigureKind::Fitted { parameter: parameter.clone() }
    } else if let Some(identity) = identity {
        FigureKind::NotScored { reason: format!("follows: {}", identity.why) }
    } else if let Some(reason) = configuration.unscored.get(name) {
        FigureKind::NotScored { reason: reason.clone() }
    } else if configuration.held_out.is_some() {
        FigureKind::HeldOut
    } else {
        FigureKind::Predicted
    };
    Some(judged(configuration, name, text, range, number(value), modelled.get(name).copied(), kind))
}

/// A published value as text, and the range it covers. A whole number of seconds is the
/// difference of two readings of a clock with whole seconds; PostMark also prints 1 for
/// 0.
fn reading(
    name: &str,
    value: &toml::Value,
    words: Option<&[f64; 2]>,
) -> Option<(String, [f64; 2])> {
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
    kind: FigureKind,
) -> PublishedFigure {
    let nearest = |modelled: f64| exact.unwrap_or_else(|| modelled.clamp(range[0], range[1]));
    let deviation_percent = modelled.map(|modelled| (modelled / nearest(modelled) - 1.0) * 100.0);
    let outcome = match (modelled, deviation_percent) {
        (Some(_), Some(off)) if off.abs() <= PublishedFigure::target_percent(&kind) => {
            FigureOutcome::Within
        }
        (Some(modelled), _) if (range[0]..=range[1]).contains(&modelled) => FigureOutcome::AsRead,
        (Some(_), _) => FigureOutcome::Off,
        (None, _) => FigureOutcome::Missing,
    };
    PublishedFigure {
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

/// Marks figures that repeat an earlier row; these count once, with the worst outcome.
pub fn join_repeats(rows: &mut [ScoreRow]) {
    for later in 1..rows.len() {
        for at in 0..rows[later].figures.len() {
            let figure = &rows[later].figures[at];
            let Some(modelled) = figure
                .modelled
                .filter(|_| matches!(figure.kind, FigureKind::Predicted | FigureKind::HeldOut))
            else {
                continue;
            };
            let (outcome, name) = (figure.outcome, figure.name.clone());
            let same = |other: &PublishedFigure| {
                let scored = matches!(
                    other.kind,
                    FigureKind::Predicted | FigureKind::HeldOut | FigureKind::Fitted { .. }
                );
                let close = other
                    .modelled
                    .is_some_and(|other| (modelled / other - 1.0).abs() * 100.0 <= SAME_PERCENT);
                scored && other.name == name && close
            };
            let (before, rest) = rows.split_at_mut(later);
            let row = &mut rest[0];
            let head = before
                .iter_mut()
                .filter(|other| other.drive == row.drive && other.workload == row.workload)
                .find_map(|other| {
                    let row_name = other.name.clone();
                    other
                        .figures
                        .iter_mut()
                        .find(|figure| same(figure))
                        .map(|figure| (row_name, figure))
                });
            if let Some((row_name, head)) = head {
                head.counted = head.counted.max(outcome);
                row.figures[at].kind = FigureKind::Repeats { row: row_name };
            }
        }
    }
}

/// Scores all rows.
pub fn score(plan: &PublishedData, rows: &[ScoreRow]) -> Score {
    let mut score = Score::default();
    let mut parameters = BTreeSet::new();
    for row in rows {
        let configuration =
            plan.configurations.iter().find(|configuration| configuration.name == row.name);
        for figure in &row.figures {
            match &figure.kind {
                FigureKind::Predicted => score.predicted.add(figure.counted),
                FigureKind::HeldOut => score.held_out.add(figure.counted),
                FigureKind::Fitted { parameter } => {
                    score.fitted.add(figure.counted);
                    score.fitted_after_a_miss += usize::from(figure.missed_before.is_some());
                    parameters.insert(parameter_of(row, parameter));
                }
                FigureKind::Repeats { .. } => score.repeats += 1,
                FigureKind::NotScored { .. } => score.not_scored += 1,
            }
        }
        parameters.extend(
            configuration
                .into_iter()
                .flat_map(|c| &c.chosen)
                .map(|chosen| parameter_of(row, chosen)),
        );
    }
    score.parameters = parameters.len();
    score
}

/// A filesystem parameter is shared by all rows; a drive parameter belongs to its drive.
fn parameter_of(row: &ScoreRow, parameter: &str) -> String {
    if parameter.starts_with("filesystem.") {
        parameter.to_owned()
    } else {
        format!("{} {parameter}", row.drive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PublishedData {
        PublishedData::shipped().unwrap()
    }

    fn named<'a>(plan: &'a PublishedData, name: &str) -> &'a Configuration {
        plan.configurations.iter().find(|c| c.name == name).unwrap()
    }

    fn find<'a>(row: &'a ScoreRow, name: &str) -> &'a PublishedFigure {
        row.figures.iter().find(|figure| figure.name == name).unwrap()
    }

    /// Every published number appears in a row. If the model does not produce it, it is a
    /// miss.
    #[test]
    fn figure_without_modelled_value_is_a_miss() {
        let plan = plan();
        let (mut all, mut scored) = (0, 0);
        for configuration in &plan.configurations {
            let row = row(&plan, configuration, &ModelledFigures::new()).unwrap();
            let published = plan.published(configuration).unwrap();
            let settings = plan.settings.get(row.workload).map_or(&[][..], Vec::as_slice);
            for (key, value) in published
                .iter()
                .filter(|(key, value)| number(value).is_some() && !settings.contains(key))
            {
                assert!(
                    row.figures.iter().any(|figure| &figure.name == key),
                    "{}: {key} = {value} is left out",
                    row.name
                );
            }
            all += row.figures.len();
            let score = score(&plan, &[row]);
            for tally in [score.predicted, score.held_out, score.fitted] {
                assert_eq!(tally.missing, tally.total());
                scored += tally.total();
            }
        }
        assert!(scored > 90 && all > scored, "{scored} of {all}");
        let ageing = row(&plan, named(&plan, "Corsair P128"), &ModelledFigures::new()).unwrap();
        assert_eq!(find(&ageing, "worst_write_loss_percent_any_drive").published, "72");
    }

    #[test]
    fn figure_outside_target_is_not_met() {
        let plan = plan();
        let configuration = named(&plan, "Corsair Force 3, atime");
        let modelled = ModelledFigures::from([
            ("create_s", 2.66),
            ("transactions_s", 11.2),
            ("delete_s", 0.58),
            ("total_s", 13.0),
        ]);
        let row = row(&plan, configuration, &modelled).unwrap();
        assert_eq!(find(&row, "create_s").outcome, FigureOutcome::AsRead);
        assert_eq!(find(&row, "transactions_s").outcome, FigureOutcome::Within);
        assert_eq!(find(&row, "delete_s").outcome, FigureOutcome::Off);
        let score = score(&plan, std::slice::from_ref(&row));
        assert_eq!(score.held_out, Tally { within: 1, as_read: 1, off: 1, missing: 0 });
        assert_eq!((score.predicted.total(), score.fitted.total(), score.not_scored), (0, 0, 1));
    }

    /// Three rows of one drive with equal modelled values, one missed, count as one miss.
    #[test]
    fn repeated_figures_count_once_with_worst_outcome() {
        let plan = plan();
        let create = |seconds| {
            ModelledFigures::from([
                ("create_s", seconds),
                ("transactions_s", 9.0),
                ("delete_s", 0.8),
                ("total_s", 12.0),
            ])
        };
        let rows = |second: f64| {
            let [a, b] = ["OCZ Vertex 2 LE, noatime", "OCZ Vertex 2 LE, atime"]
                .map(|name| named(&plan, name));
            let mut rows =
                vec![row(&plan, a, &create(3.2)).unwrap(), row(&plan, b, &create(second)).unwrap()];
            join_repeats(&mut rows);
            rows
        };
        let same = rows(3.21);
        assert_eq!(find(&same[0], "create_s").outcome, FigureOutcome::Within);
        assert_eq!(find(&same[0], "create_s").counted, FigureOutcome::Off);
        assert_eq!(
            find(&same[1], "create_s").kind,
            FigureKind::Repeats { row: "OCZ Vertex 2 LE, noatime".into() }
        );
        let different = rows(4.9);
        assert_eq!(find(&different[1], "create_s").kind, FigureKind::Predicted);
        assert!(score(&plan, &same).predicted.within < score(&plan, &different).predicted.within);
    }

    #[test]
    fn derived_or_unmissable_figures_are_not_scored() {
        let plan = plan();
        let minutes = row(
            &plan,
            named(&plan, "SandForce, 130 GB"),
            &ModelledFigures::from([("duration", 483.0)]),
        )
        .unwrap();
        assert!(matches!(find(&minutes, "duration").kind, FigureKind::NotScored { .. }));
        let rounds = row(&plan, named(&plan, "Intel 520"), &ModelledFigures::new()).unwrap();
        for name in [
            "write_sequential_incompressible_steady_percent_of_advertised",
            "write_sequential_between_knees_MBps",
        ] {
            assert!(matches!(find(&rounds, name).kind, FigureKind::NotScored { .. }), "{name}");
        }
        // Filesystem parameters count once overall, drive parameters once per drive.
        let all: Vec<ScoreRow> = plan
            .configurations
            .iter()
            .map(|c| row(&plan, c, &ModelledFigures::new()).unwrap())
            .collect();
        let score = score(&plan, &all);
        assert!(
            score.parameters >= 30 && score.parameters < score.fitted.total() + 20,
            "{score:?}"
        );
        assert_eq!(score.fitted_after_a_miss, 3);
    }
}
