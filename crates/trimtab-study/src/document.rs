//! A report independent of its output format: sections of verdicts, tables and charts.
//! The terminal and HTML renderers use the same document, so the order and the numbers
//! match.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::{Nanos, three_digits};
use trimtab_sim::run::Warning;

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Subject of the report.
    pub title: String,
    /// Lines below the title: workload, machine, time and version.
    pub subtitle: Vec<String>,
    /// One-screen summary; only a study has one.
    pub answer: Option<StudyAnswer>,
    /// Sections in order; the verdict comes first.
    pub sections: Vec<Section>,
}

/// The answer of a study, which fits on one screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyAnswer {
    /// The drive and the filesystem.
    pub subject: String,
    /// Fill and days of the months of use; left out where the line is too narrow.
    pub used: Option<String>,
    /// Measured or modelled, version and run time.
    pub origin: String,
    /// Recommendations: one, or one per drive.
    pub uses: Vec<RecommendationLine>,
    /// Comparison of the policies or of the drives.
    pub table: Option<Table>,
    /// Rule, conditions, checks, warnings and commands, in order.
    pub notes: Vec<Note>,
}

impl StudyAnswer {
    /// The subject with its fill and days.
    #[must_use]
    pub fn in_use(&self) -> String {
        match &self.used {
            Some(used) => format!("{}, {used}", self.subject),
            None => self.subject.clone(),
        }
    }
}

/// A line of an answer below its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Subject of the line, at most eight characters; empty if it continues the line
    /// above.
    pub label: String,
    /// The line.
    pub text: String,
    /// Purpose of the line.
    pub kind: NoteKind,
}

/// Purpose of an answer line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Text that is always shown.
    Needed,
    /// Text that is left out first if space is short.
    Detail,
    /// A command or a path to copy, with a remark that is left out if space is short.
    Command(String),
}

/// A recommendation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecommendationLine {
    /// A policy, or a statement that none is recommended.
    pub choice: String,
    /// The drives, if there are several.
    pub on: String,
    /// Effect of the choice, in a few words.
    pub meaning: String,
}

impl RecommendationLine {
    /// One line: `idle on SATA: trim in idle time`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let on = if self.on.is_empty() { String::new() } else { format!(" on {}", self.on) };
        let meaning =
            if self.meaning.is_empty() { String::new() } else { format!(": {}", self.meaning) };
        format!("{}{on}{meaning}", self.choice)
    }
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Content in order.
    pub blocks: Vec<SectionBlock>,
    /// Collapsed where the format allows it, because only some readers need it.
    pub folded: bool,
}

impl Section {
    /// Creates a section.
    pub fn new(title: impl Into<String>, blocks: Vec<SectionBlock>) -> Self {
        Self { title: title.into(), blocks, folded: false }
    }

    /// Collapses the section.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum SectionBlock {
    /// A verdict with its evidence.
    Findings(Findings),
    /// A paragraph.
    Text(String),
    /// Explains how to read the preceding picture; omitted if the picture is.
    Caption(String),
    /// A table.
    Table(Table),
    /// A chart. Its numbers are also shown as a table.
    Chart(Chart),
    /// Warnings about distorted figures.
    Warnings(Vec<Warning>),
}

/// A verdict in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The recommendation with its figures.
    pub headline: String,
    /// The figures that support it.
    pub evidence: Vec<String>,
    /// Conditions that would change it, and untested parts.
    pub caveats: Vec<String>,
}

/// A table. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Caption.
    pub caption: String,
    /// Column headings with units.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// Titles above groups of columns: none, or one per column (empty without a group).
    pub groups: Vec<String>,
    /// Recommended rows.
    pub chosen: Vec<usize>,
    /// The last column has remarks, which may be left out on a small screen.
    pub remarks: bool,
    /// Rows that may be left out on a small screen.
    pub dispensable: Vec<usize>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(caption: impl Into<String>, header: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            header: header.iter().map(|&h| h.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Column headings prefixed with their group titles, for formats with a single
    /// heading row.
    #[must_use]
    pub fn headings(&self) -> Vec<String> {
        let heading = |(at, heading): (usize, &String)| match self
            .groups
            .get(at)
            .filter(|group| !group.is_empty())
        {
            Some(group) => format!("{group} {heading}"),
            None => heading.clone(),
        };
        self.header.iter().enumerate().map(heading).collect()
    }

    /// Adds a row.
    pub fn row<I: IntoIterator<Item = S>, S: Into<String>>(&mut self, cells: I) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(
            row.len(),
            self.header.len(),
            "a row has as many cells as the table has columns"
        );
        self.rows.push(row);
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis with its unit.
    pub x_label: String,
    /// Label of the vertical axis with its unit.
    pub y_label: String,
    /// Kind of chart and its values.
    pub kind: ChartKind,
}

/// Kind of chart and its values.
#[derive(Clone, Debug, PartialEq)]
pub enum ChartKind {
    /// Lines over a number, on a linear and a logarithmic scale.
    Lines {
        /// The lines.
        lines: Vec<ChartLine>,
        /// Vertical marks: knees, the start of steady state.
        marks: Vec<Mark>,
    },
    /// Scatter plot of cost over gain, with a logarithmic vertical axis.
    Dots {
        /// Choices for the horizontal axis; the first is the default.
        axes: Vec<String>,
        /// The marks.
        dots: Vec<ScatterPoint>,
    },
}

/// A point of a scatter plot.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPoint {
    /// Name shown next to the point.
    pub name: String,
    /// Position on each horizontal axis; `None` if unknown.
    pub x: Vec<Option<f64>>,
    /// Height; must be above 0.
    pub y: f64,
    /// True if it is recommended.
    pub chosen: bool,
}

/// The label of a vertical axis without its unit, and a formatter for its values.
#[must_use]
pub fn read_as(label: &str) -> (&str, fn(f64) -> String) {
    let time = |seconds: f64| Nanos((seconds.max(0.0) * 1e9) as u64).to_string();
    match label.strip_suffix(", s") {
        Some(what) => (what, time),
        None if matches!(label, "s" | "seconds") => ("", time),
        None => (label, three_digits),
    }
}

impl Chart {
    /// Lines over a number, with vertical marks.
    pub fn lines(
        title: impl Into<String>,
        x_label: &str,
        y_label: &str,
        lines: Vec<ChartLine>,
        marks: Vec<Mark>,
    ) -> Self {
        let kind = ChartKind::Lines { lines, marks };
        Self { title: title.into(), x_label: x_label.to_owned(), y_label: y_label.to_owned(), kind }
    }

    /// The values as a table. `height` formats the vertical values, which appear below
    /// `heading`; `number` formats the horizontal ones.
    #[must_use]
    pub fn table(
        &self,
        (heading, height): (&str, fn(f64) -> String),
        number: fn(f64) -> String,
    ) -> Table {
        let cell =
            |value: Option<f64>, shown: fn(f64) -> String| value.map_or_else(String::new, shown);
        let header: Vec<&str> = match &self.kind {
            ChartKind::Lines { .. } => vec!["series", &self.x_label, heading],
            ChartKind::Dots { axes, .. } => {
                ["policy", heading].into_iter().chain(axes.iter().map(String::as_str)).collect()
            }
        };
        let mut table = Table::new(self.title.clone(), &header);
        match &self.kind {
            ChartKind::Lines { lines, marks } => {
                for line in lines {
                    line.points
                        .iter()
                        .for_each(|(x, y)| table.row([line.name.clone(), number(*x), height(*y)]));
                }
                marks.iter().for_each(|mark| {
                    table.row([format!("mark: {}", mark.label), number(mark.x), String::new()])
                });
            }
            ChartKind::Dots { dots, .. } => {
                for dot in dots {
                    table.row(
                        [dot.name.clone(), height(dot.y)]
                            .into_iter()
                            .chain(dot.x.iter().map(|x| cell(*x, number))),
                    );
                }
            }
        }
        table
    }
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// Name in the legend.
    pub name: String,
    /// Points with increasing x.
    pub points: Vec<(f64, f64)>,
}

/// A vertical mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Position.
    pub x: f64,
    /// Label.
    pub label: String,
}

/// Reduces a line to at most `most` points; every bucket keeps its minimum and maximum.
pub fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most || most < 4 {
        return points.to_vec();
    }
    let buckets = most / 2;
    let mut kept = Vec::with_capacity(most);
    for bucket in 0..buckets {
        let slice = &points[bucket * points.len() / buckets..(bucket + 1) * points.len() / buckets];
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (slice.iter().min_by(by_y), slice.iter().max_by(by_y)) else {
            continue;
        };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.push(*first);
        if second != first {
            kept.push(*second);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn thinned_keeps_extremes_and_order() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 100.0)).collect();
        points[5_000].1 = 1.0;
        points[7_777].1 = 900.0;
        let thin = thinned(&points, 300);
        assert!(thin.len() <= 300);
        assert!(thin.contains(&(5_000.0, 1.0)) && thin.contains(&(7_777.0, 900.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned(&points[..10], 300), points[..10]);
    }
}
