//! A report before it has a form: sections of verdicts, tables and charts. Terminal and HTML render the same document,
//! so both have the same order and the same numbers.

use trimtab_core::run::Warning;

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// Lines below the title: what was run, where, when, by which version.
    pub subtitle: Vec<String>,
    /// Sections in order; the verdict comes first.
    pub sections: Vec<Section>,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Content in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section.
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The answer, before anything else.
    Verdict(Verdict),
    /// A paragraph.
    Text(String),
    /// Shell commands to copy.
    Commands(Vec<String>),
    /// A table.
    Table(Table),
    /// A chart. Its numbers are shown as a table too.
    Chart(Chart),
    /// What may have distorted the figures.
    Warnings(Vec<Warning>),
}

/// An answer with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// One sentence.
    pub headline: String,
    /// The figures that carry it.
    pub evidence: Vec<String>,
    /// What would change it, and what was not shown.
    pub caveats: Vec<String>,
}

/// A table. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Column headings with units.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// What becomes of it where it does not fit.
    pub narrow: Narrow,
}

/// What becomes of a table on a screen that it does not fit on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Narrow {
    /// Columns move below each other, each time behind the first: for figures that are compared down a column.
    #[default]
    Panels,
    /// A row at a time, its first cell above the others: for lists of unlike things.
    Records,
}

impl Table {
    /// An empty table.
    pub fn new(caption: impl Into<String>, header: &[&str]) -> Self {
        Self { caption: caption.into(), header: header.iter().map(|&h| h.to_owned()).collect(), ..Self::default() }
    }

    /// The same, with what becomes of it on a narrow screen.
    #[must_use]
    pub const fn when_narrow(mut self, narrow: Narrow) -> Self {
        self.narrow = narrow;
        self
    }

    /// The table for the screen that it is printed on.
    #[must_use]
    pub fn on_screen(&self) -> String {
        super::layout::table(self, crate::output::width())
    }

    /// Adds a row.
    pub fn row<I: IntoIterator<Item = S>, S: Into<String>>(&mut self, cells: I) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(row.len(), self.header.len(), "a row has as many cells as the table has columns");
        self.rows.push(row);
    }
}

/// For the screen that it is printed on, without a newline at its end.
impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.on_screen().trim_end_matches('\n'))
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Label of the horizontal axis, with its unit. Bars ignore it.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// How values are drawn.
    pub kind: ChartKind,
}

/// How values are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum ChartKind {
    /// Lines over a number, on a linear and a logarithmic scale.
    Lines {
        /// One line each.
        lines: Vec<Line>,
        /// Vertical marks: knees, the beginning of steady state.
        marks: Vec<Mark>,
    },
    /// Groups of bars: one group a category, one bar a series.
    Bars {
        /// Names of the groups.
        categories: Vec<String>,
        /// Name and one value a category (`None` where there is none).
        series: Vec<(String, Vec<Option<f64>>)>,
    },
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points with increasing x.
    pub points: Vec<(f64, f64)>,
}

/// A vertical mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What is there.
    pub label: String,
}

/// At most `most` points of a line that keep its shape: of every bucket the lowest and the highest.
pub fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most || most < 4 {
        return points.to_vec();
    }
    let buckets = most / 2;
    let mut kept = Vec::with_capacity(most);
    for bucket in 0..buckets {
        let slice = &points[bucket * points.len() / buckets..(bucket + 1) * points.len() / buckets];
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (slice.iter().min_by(by_y), slice.iter().max_by(by_y)) else { continue };
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
    fn thinning_keeps_extremes_and_order() {
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
