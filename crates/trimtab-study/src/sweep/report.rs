//! A sweep as a document: best policy by place, response of figures to axes, sensitivity.

use super::MODEL;
use super::design::DesignKind;
use super::indices;
use super::plan::Plan;
use super::table::{CellOutcome, SweepRow};
use super::value::{Axis, Value, Values};
use crate::document::{Chart, ChartLine, Document, SHADES, Section, SectionBlock, Table};
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::units::{grouped, three_digits};
use trimtab_sim::run::Better;

/// Default figures, and the direction in which each improves.
const SHOWN: [(&str, Better); 10] = [
    ("waf_last_quarter_ratio", Better::Lower),
    ("waf_steady_ratio", Better::Lower),
    ("write_rate_steady_mb_per_s", Better::Higher),
    ("random_write_steady_state_per_s", Better::Higher),
    ("random_write_burst_per_s", Better::Higher),
    ("write_latency_mean_ns", Better::Lower),
    ("write_latency_p99_ns", Better::Lower),
    ("read_latency_p99_ns", Better::Lower),
    ("erase_cycles_per_tb_count", Better::Lower),
    ("trim_s", Better::Lower),
];
/// Maximum bins per axis; neighbouring values share a bin.
const BINS: usize = 12;
/// Maximum lines of a chart, and maximum values of a text axis drawn as lines.
const LINES: usize = 6;
const LISTED: usize = 1000;
/// Relative difference up to which policies count as equal.
const TIE: f64 = 0.01;
/// For sampled points: differences up to this many standard errors count as chance.
const CHANCE: f64 = 2.0;
const POLICY: &str = "policy.name";

/// A sweep, binned along its axes.
struct SweepView<'a> {
    plan: &'a Plan,
    /// Finished cells: bin on each axis, and figures.
    cells: Vec<(Vec<usize>, &'a BTreeMap<String, f64>)>,
    bins: Vec<Bins>,
    figures: Vec<String>,
}

/// Text of a place, given by bins of axes.
type PlaceFormatter<'a> = dyn Fn(&[(usize, usize)]) -> String + 'a;

struct Bins {
    values: Vec<Value>,
    labels: Vec<String>,
    /// Position of each bin, for a numeric axis.
    at: Vec<Option<f64>>,
}

/// Renders the cells. `only` replaces the default columns if not empty.
#[must_use]
pub fn document(plan: &Plan, rows: &[SweepRow], only: &[String]) -> Document {
    let look = SweepView::of(plan, rows, only);
    let failed = rows.iter().filter(|row| matches!(row.outcome, CellOutcome::Failed(_))).count();
    let missing = plan.cells().saturating_sub(rows.len() as u64);
    let finished = grouped(look.cells.len() as u64);
    let count = format!(
        "{} cells: {finished} finished, {failed} failed, {missing} missing",
        grouped(plan.cells())
    );
    let mut sections =
        alloc::vec![Section::new("Axes", alloc::vec![SectionBlock::Table(look.axes())])];
    sections.extend(look.best());
    sections.extend(look.sensitivity(rows));
    for figure in &look.figures {
        sections.push(Section::new(figure.clone(), look.response(figure)));
    }
    sections.extend(look.failures(rows));
    sections.push(look.listed(rows).folded());
    Document {
        title: format!("{}: sweep", plan.name),
        subtitle: alloc::vec![format!("MODELLED, model {MODEL}"), count],
        answer: None,
        sections,
    }
}

impl<'a> SweepView<'a> {
    fn of(plan: &'a Plan, rows: &'a [SweepRow], only: &[String]) -> Self {
        let bins: Vec<Bins> = plan.axes.iter().map(Bins::of).collect();
        let places = |row: &SweepRow| {
            plan.axes
                .iter()
                .zip(plan.place(row.cell).values)
                .zip(&bins)
                .map(|((axis, value), bins)| bins.find(axis, &value))
                .collect()
        };
        let cells: Vec<_> =
            rows.iter().filter_map(|row| Some((places(row), row.figures()?))).collect();
        let has = |name: &str| cells.iter().any(|(_, figures)| figures.contains_key(name));
        let usual =
            || SHOWN.iter().map(|(name, _)| (*name).to_owned()).filter(|name| has(name)).collect();
        let figures = if only.is_empty() {
            usual()
        } else {
            only.iter().filter(|name| has(name)).cloned().collect()
        };
        Self { plan, cells, bins, figures }
    }

    fn policy(&self) -> Option<usize> {
        self.plan.axes.iter().position(|axis| axis.key == POLICY)
    }

    fn mean(&self, figure: &str, bins: &[(usize, usize)]) -> Option<f64> {
        let values = self.values(figure, bins);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn values(&self, figure: &str, bins: &[(usize, usize)]) -> Vec<f64> {
        let inside = |place: &[usize]| bins.iter().all(|(axis, bin)| place[*axis] == *bin);
        self.cells
            .iter()
            .filter(|(place, _)| inside(place))
            .filter_map(|(_, figures)| figures.get(figure).copied())
            .collect()
    }

    /// True if points are sampled, so that cells of a place differ in more than the
    /// policy.
    fn drawn(&self) -> bool {
        self.plan.design.kind != DesignKind::Grid
    }

    fn axes(&self) -> Table {
        let mut table = Table::new("What differs", &["axis", "values", "from", "to"]);
        for axis in &self.plan.axes {
            let probes = axis.probes();
            let end = |probe: Option<&(Value, usize)>| {
                probe.map_or_else(String::new, |(value, _)| value.to_string())
            };
            table.row([
                axis.key.clone(),
                axis.len().map_or_else(|| "drawn".to_owned(), grouped),
                end(probes.first()),
                end(probes.last()),
            ]);
        }
        table
    }

    fn best(&self) -> Option<Section> {
        let policy = self.policy().filter(|axis| self.bins[*axis].labels.len() > 1)?;
        let others: Vec<usize> =
            (0..self.bins.len()).filter(|axis| *axis != policy).take(2).collect();
        let one = |(figure, better): &(&str, Better)| {
            let words = |place: &[(usize, usize)]| {
                self.best_at(figure, *better, policy, place).unwrap_or_default()
            };
            SectionBlock::Table(self.plane(&format!("Best policy by {figure}"), &others, &words))
        };
        let shown: Vec<SectionBlock> = SHOWN
            .iter()
            .filter(|(name, _)| self.figures.iter().any(|figure| figure == name))
            .map(one)
            .collect();
        let text = if self.drawn() {
            "The policy with the best mean at each place; several if they are within \
                1 % or two standard errors, because points are sampled and cells of a place \
                also differ in the other axes. Blank if a policy has fewer than two cells \
                there; use a grid, repeats do not help."
        } else {
            "The policy with the best mean at each place; several if they are within \
                1 %. Blank if policies have different numbers of cells there."
        };
        (!shown.is_empty()).then(|| {
            Section::new(
                "Best policy",
                [alloc::vec![SectionBlock::Text(text.to_owned())], shown].concat(),
            )
        })
    }

    /// The best policies of a place by a figure; `None` if they are not comparable.
    fn best_at(
        &self,
        figure: &str,
        better: Better,
        policy: usize,
        place: &[(usize, usize)],
    ) -> Option<String> {
        let labels = &self.bins[policy].labels;
        let all: Vec<Vec<f64>> = (0..labels.len())
            .map(|bin| self.values(figure, &[place, &[(policy, bin)]].concat()))
            .collect();
        let enough = |values: &Vec<f64>| {
            if self.drawn() {
                values.len() > 1
            } else {
                !values.is_empty() && values.len() == all[0].len()
            }
        };
        if !all.iter().all(enough) {
            return None;
        }
        let sign = if better == Better::Higher { -1.0 } else { 1.0 };
        let known: Vec<(f64, f64)> = all
            .iter()
            .map(|values| mean_and_error(values))
            .map(|(mean, error)| (sign * mean, error))
            .collect();
        let (best, error) = known.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let near = |one: &(f64, f64)| {
            let chance = if self.drawn() { CHANCE * libm::hypot(one.1, error) } else { 0.0 };
            one.0 - best <= (TIE * libm::fabs(best)).max(chance)
        };
        Some(
            known
                .iter()
                .zip(labels)
                .filter(|(one, _)| near(one))
                .map(|(_, label)| label.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        )
    }

    fn plane(&self, caption: &str, axes: &[usize], cell: &PlaceFormatter<'_>) -> Table {
        let key = |axis: usize| self.plan.axes[axis].key.as_str();
        let labels = |axis: usize| self.bins[axis].labels.iter().map(String::as_str);
        let (rows, columns) = (axes.first().copied(), axes.get(1).copied());
        let corner = match (rows, columns) {
            (Some(rows), Some(columns)) => format!("{} \\ {}", key(rows), key(columns)),
            (Some(rows), None) => key(rows).to_owned(),
            _ => String::new(),
        };
        let header: Vec<&str> = core::iter::once(corner.as_str())
            .chain(columns.map_or_else(|| alloc::vec!["all"], |axis| labels(axis).collect()))
            .collect();
        let mut table = Table::new(caption, &header);
        for (n, label) in rows
            .map_or_else(|| alloc::vec!["all"], |axis| labels(axis).collect())
            .into_iter()
            .enumerate()
        {
            let at = |m: usize| {
                [rows.map(|axis| (axis, n)), columns.map(|axis| (axis, m))]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
            };
            table.row(
                core::iter::once(label.to_owned())
                    .chain((0..header.len() - 1).map(|m| cell(&at(m)))),
            );
        }
        table
    }

    fn response(&self, figure: &str) -> Vec<SectionBlock> {
        let lines_by = self.policy().or_else(|| {
            (0..self.bins.len())
                .find(|axis| self.bins[*axis].is_words() && self.bins[*axis].labels.len() <= LINES)
        });
        let mut blocks: Vec<SectionBlock> = (0..self.bins.len())
            .filter_map(|axis| self.along(figure, axis, lines_by.filter(|by| *by != axis)))
            .collect();
        let others: Vec<usize> = (0..self.bins.len())
            .filter(|axis| Some(*axis) != lines_by || self.bins.len() == 2)
            .take(3)
            .collect();
        for (n, a) in others.iter().enumerate() {
            blocks.extend(
                others[n + 1..].iter().map(|b| SectionBlock::Table(self.heat(figure, *a, *b))),
            );
        }
        blocks
    }

    fn along(&self, figure: &str, axis: usize, by: Option<usize>) -> Option<SectionBlock> {
        let (bins, key) = (&self.bins[axis], &self.plan.axes[axis].key);
        let groups: Vec<(String, Vec<(usize, usize)>)> = match by {
            Some(by) => self.bins[by]
                .labels
                .iter()
                .take(LINES)
                .enumerate()
                .map(|(bin, label)| (label.clone(), alloc::vec![(by, bin)]))
                .collect(),
            None => alloc::vec![("mean".to_owned(), Vec::new())],
        };
        let value =
            |group: &[(usize, usize)], bin| self.mean(figure, &[group, &[(axis, bin)]].concat());
        let title = format!("{figure} over {key}");
        if bins.is_words() {
            let names = groups.iter().map(|(name, _)| name.as_str());
            let header: Vec<&str> = core::iter::once(key.as_str()).chain(names).collect();
            let mut table = Table::new(title, &header);
            for (bin, label) in bins.labels.iter().enumerate() {
                let values = groups.iter().map(|(_, group)| value(group, bin));
                let shown = values.map(|value| value.map_or_else(String::new, three_digits));
                table.row(core::iter::once(label.clone()).chain(shown));
            }
            return Some(SectionBlock::Table(table));
        }
        let line = |(name, group): (String, Vec<(usize, usize)>)| {
            let points = bins.at.iter().enumerate();
            let points =
                points.filter_map(|(bin, at)| Some(((*at)?, value(&group, bin)?))).collect();
            ChartLine { name, points }
        };
        let lines: Vec<ChartLine> =
            groups.into_iter().map(line).filter(|line| !line.points.is_empty()).collect();
        (!lines.is_empty())
            .then(|| SectionBlock::Chart(Chart::lines(title, key, figure, lines, Vec::new())))
    }

    fn heat(&self, figure: &str, a: usize, b: usize) -> Table {
        let words = |place: &[(usize, usize)]| {
            self.mean(figure, place).map_or_else(String::new, three_digits)
        };
        let mut table = self.plane(&format!("Mean of {figure}; darker is higher"), &[a, b], &words);
        let value = |n: usize, m: usize| self.mean(figure, &[(a, n), (b, m)]);
        let (rows, columns) = (self.bins[a].labels.len(), self.bins[b].labels.len());
        let all: Vec<f64> = (0..rows)
            .flat_map(|n| (0..columns).map(move |m| (n, m)))
            .filter_map(|(n, m)| value(n, m))
            .collect();
        let (low, high) = all
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        let shade = |value: Option<f64>| {
            value
                .filter(|_| high > low)
                .map_or(0, |v| libm::round((v - low) / (high - low) * f64::from(SHADES)) as u8)
        };
        table.shades =
            (0..rows).map(|n| (0..columns).map(|m| shade(value(n, m))).collect()).collect();
        table
    }

    /// Sensitivity of each figure, if the design supports it.
    fn sensitivity(&self, rows: &[SweepRow]) -> Option<Section> {
        if self.drawn() {
            return None;
        }
        let text = "Share of the variance over the grid that disappears if only this axis is \
            known (alone), and that remains if all others are known (with others). All values \
            count as equally likely; variation between them is ignored.";
        let keys: Vec<&str> = self.plan.axes.iter().map(|axis| axis.key.as_str()).collect();
        let mut blocks = alloc::vec![SectionBlock::Text(text.to_owned())];
        for figure in &self.figures {
            let Some(indices) = self.indices(figure, rows) else { continue };
            let header = ["axis", "alone", "with others"];
            let mut table = Table::new(format!("What decides {figure}"), &header);
            for (key, (first, total)) in keys.iter().zip(indices) {
                let [first, total] = [first, total].map(|share| format!("{:.0} %", 100.0 * share));
                table.row([(*key).to_owned(), first, total]);
            }
            blocks.push(SectionBlock::Table(table));
        }
        (blocks.len() > 1 && keys.len() > 1).then(|| Section::new("What decides", blocks))
    }

    /// First and total index of each axis; `None` if cells are missing.
    fn indices(&self, figure: &str, rows: &[SweepRow]) -> Option<Vec<(f64, f64)>> {
        let mut points = alloc::vec![(0.0, 0_u64); usize::try_from(self.plan.design.points).ok()?];
        for row in rows {
            let value = row.figures()?.get(figure)?;
            let point = points.get_mut(usize::try_from(self.plan.place(row.cell).point).ok()?)?;
            *point = (point.0 + value, point.1 + 1);
        }
        let means: Option<Vec<f64>> =
            points.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect();
        let lens: Option<Vec<usize>> =
            self.plan.axes.iter().map(|axis| usize::try_from(axis.len()?).ok()).collect();
        indices::of_grid(&means?, &lens?)
    }

    fn failures(&self, rows: &[SweepRow]) -> Option<Section> {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        rows.iter().for_each(|row| {
            if let CellOutcome::Failed(reason) = &row.outcome {
                *reasons.entry(reason).or_default() += 1;
            }
        });
        let mut table = Table::new("Cells that failed", &["reason", "cells"]);
        reasons
            .iter()
            .for_each(|(reason, count)| table.row([(*reason).to_owned(), grouped(*count)]));
        (!reasons.is_empty())
            .then(|| Section::new("Failed", alloc::vec![SectionBlock::Table(table)]))
    }

    fn listed(&self, rows: &[SweepRow]) -> Section {
        let keys = self.plan.axes.iter().map(|axis| axis.key.as_str());
        let header: Vec<&str> = core::iter::once("cell")
            .chain(keys)
            .chain(self.figures.iter().map(String::as_str))
            .collect();
        let mut table = Table::new("Cells", &header);
        for row in rows.iter().take(LISTED) {
            let values =
                self.plan.place(row.cell).values.into_iter().map(|value| value.to_string());
            let figure = |name: &String| {
                row.figures()
                    .and_then(|figures| figures.get(name))
                    .map_or_else(String::new, |value| three_digits(*value))
            };
            table.row(
                core::iter::once(row.cell.to_string())
                    .chain(values)
                    .chain(self.figures.iter().map(figure)),
            );
        }
        let more = format!(
            "The first {LISTED} of {} cells; results.parquet and 'trimtab sweep \
                export' have all cells and figures.",
            grouped(rows.len() as u64)
        );
        let text = (rows.len() > LISTED).then_some(SectionBlock::Text(more));
        Section::new("All cells", text.into_iter().chain([SectionBlock::Table(table)]).collect())
    }
}

impl Bins {
    /// Bins the values. Neighbouring values share a bin if there are many.
    fn of(axis: &Axis) -> Self {
        let (values, about): (Vec<Value>, &str) = match axis.len() {
            Some(len) if len as usize <= BINS * 2 => {
                ((0..len).map(|nth| axis.nth(nth)).collect(), "")
            }
            _ => {
                ((0..BINS).map(|bin| axis.at((bin as f64 + 0.5) / BINS as f64)).collect(), "about ")
            }
        };
        let labels = values.iter().map(|value| format!("{about}{}", label(value))).collect();
        Self { labels, at: values.iter().map(Value::number).collect(), values }
    }

    fn find(&self, axis: &Axis, value: &Value) -> usize {
        if let Some(exact) = self.values.iter().position(|known| known == value) {
            return exact;
        }
        // The nearest bin on the scale of the axis.
        let log = matches!(&axis.values, Values::Range(range) if range.log);
        let scaled =
            |number: f64| if log { libm::log(number.max(f64::MIN_POSITIVE)) } else { number };
        let Some(number) = value.number().map(scaled) else { return 0 };
        let distance =
            |at: &Option<f64>| at.map_or(f64::INFINITY, |at| libm::fabs(scaled(at) - number));
        (0..self.at.len())
            .min_by(|a, b| distance(&self.at[*a]).total_cmp(&distance(&self.at[*b])))
            .unwrap_or(0)
    }

    fn is_words(&self) -> bool {
        self.at.iter().any(Option::is_none)
    }
}

/// Mean and standard error of values; the error of a single value is unknown.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, if values.len() > 1 { libm::sqrt(squares / (count - 1.0) / count) } else { 0.0 })
}

fn label(value: &Value) -> String {
    match value {
        // Sampled values have sixteen digits, written ones are short.
        Value::Number(number) if value.to_string().len() > 6 => three_digits(*number),
        other => other.to_string(),
    }
}
