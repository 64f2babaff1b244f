//! A report before it has a form: sections of verdicts, tables and charts. Terminal and HTML render the same document,
//! so both have the same order and the same numbers.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::{Nanos, grouped, three_digits};
use trimtab_sim::run::Warning;
use trimtab_sim::run::pictures::{LatencyMap, SHARE_MAX, SuperblockMap};

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// Lines below the title: what was run, where, when, by which version.
    pub subtitle: Vec<String>,
    /// What a reader came for, on one screen; a study has it.
    pub answer: Option<Answer>,
    /// Sections in order; the verdict comes first.
    pub sections: Vec<Section>,
}

/// The answer of a study: what fits on one screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The drive and the filesystem.
    pub subject: String,
    /// Measured or modelled, by which version, in what time.
    pub origin: String,
    /// What to use: of one drive, or of several beside each other.
    pub uses: Vec<Use>,
    /// Under what other conditions something else is to be used; empty if none is known.
    pub except: String,
    /// Why: at most two lines with the figures that decide.
    pub why: Vec<String>,
    /// The policies beside each other; empty if there is nothing to compare.
    pub tables: Vec<Table>,
    /// What to check first, what to be careful about.
    pub notes: Vec<Note>,
    /// What to type to follow it.
    pub apply: Vec<String>,
    /// What to type to have it as it was.
    pub undo: Option<String>,
    /// The report.
    pub report: Option<String>,
    /// Where the rest is.
    pub more: Option<More>,
}

/// A line of an answer below its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about, and so what it is worth where there is little room.
    pub kind: NoteKind,
    /// What stands before the colon.
    pub label: String,
    /// The line.
    pub text: String,
}

/// What a line of an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A figure that stands elsewhere too, or explains one.
    Detail,
    /// What to check before anything is applied.
    CheckFirst,
    /// Under what the figures hold.
    Condition,
    /// Everything else.
    Other,
}

/// Where the rest of an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// What stands before it.
    pub label: String,
    /// What to type.
    pub command: String,
    /// What else is to be said of it.
    pub aside: String,
    /// Whether it shows what was left out of the answer, too.
    pub is_whole: bool,
}

/// What to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// A policy, or that none is recommended.
    pub choice: String,
    /// On which drive, where there are several.
    pub on: String,
    /// What that does, in a few words.
    pub meaning: String,
    /// How sure it is, if that was looked at.
    pub sure: String,
}

impl Use {
    /// `idle on SATA SSD of today: trim in idle time`, without how sure it is.
    #[must_use]
    pub fn in_words(&self) -> String {
        let on = if self.on.is_empty() { String::new() } else { format!(" on {}", self.on) };
        let meaning = if self.meaning.is_empty() { String::new() } else { format!(": {}", self.meaning) };
        format!("{}{on}{meaning}", self.choice)
    }
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Content in order.
    pub blocks: Vec<Block>,
    /// Shut where it can be opened: for those who want to know everything.
    pub folded: bool,
}

impl Section {
    /// A section.
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks, folded: false }
    }

    /// The same, folded away.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A verdict with its evidence.
    Findings(Findings),
    /// A paragraph.
    Text(String),
    /// How the picture before it is read: nothing where there is no picture.
    Caption(String),
    /// A table.
    Table(Table),
    /// A chart. Its numbers are shown as a table too.
    Chart(Chart),
    /// The drive itself, over time.
    Film(Film),
    /// Latencies over time.
    Heat(Heat),
    /// Cells of a sweep, to be filtered where a script can run; paper has nothing of it.
    Plane(Plane),
    /// What may have distorted the figures.
    Warnings(Vec<Warning>),
}

/// Figures over axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Axes, with what each is divided into.
    pub axes: Vec<(String, Vec<String>)>,
    /// Figures.
    pub figures: Vec<String>,
    /// What lies where.
    pub places: Vec<PlaneCells>,
}

/// Cells at the same place of all axes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaneCells {
    /// What it is on each axis, by number.
    pub place: Vec<usize>,
    /// Of each figure the sum, and of how many cells.
    pub sums: Vec<(f64, u32)>,
}

/// A verdict in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The recommendation with its figures.
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
    /// Titles above columns that belong together: none, or one for each column, empty above those that stand alone.
    pub groups: Vec<String>,
    /// The rows that are recommended.
    pub chosen: Vec<usize>,
    /// What becomes of it where it does not fit.
    pub narrow: Narrow,
    /// Columns that may be left out where there is no room; none, or one for each column.
    pub columns: Vec<ColumnUse>,
    /// Rows that may be left out where there is no room; none, or one for each row.
    pub row_uses: Vec<RowUse>,
    /// A heat map: how dark each cell behind the first of a row is, up to [`SHADES`]; none, or as many rows as there are.
    pub shades: Vec<Vec<u8>>,
}

/// Whether a column may be left out where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnUse {
    /// Never.
    Needed,
    /// A figure that stands in another column for another condition.
    Repeated,
}

/// Whether a row may be left out where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowUse {
    /// Rows of one drive have the same number.
    pub drive: usize,
    /// It is recommended, or what others are compared with.
    pub needed: bool,
}

/// The darkest shade of a cell.
pub const SHADES: u8 = 8;

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

    /// Headings with the titles above them, for where there is one row of them only.
    #[must_use]
    pub fn headings(&self) -> Vec<String> {
        let heading = |(at, heading): (usize, &String)| match self.groups.get(at).filter(|group| !group.is_empty()) {
            Some(group) => format!("{group} {heading}"),
            None => heading.clone(),
        };
        self.header.iter().enumerate().map(heading).collect()
    }

    /// Adds a row.
    pub fn row<I: IntoIterator<Item = S>, S: Into<String>>(&mut self, cells: I) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(row.len(), self.header.len(), "a row has as many cells as the table has columns");
        self.rows.push(row);
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
    /// One mark each, on a logarithmic vertical scale: what it costs over what it gains.
    Dots {
        /// What may be put on the horizontal axis; the first is drawn where nobody can choose.
        axes: Vec<String>,
        /// The marks.
        dots: Vec<Dot>,
    },
}

/// A mark of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Its name, which stands beside it.
    pub name: String,
    /// Where, on each of the axes; `None` where that is not known.
    pub x: Vec<Option<f64>>,
    /// How high; above 0.
    pub y: f64,
    /// It is the one that is recommended.
    pub chosen: bool,
}

/// What the superblocks of drives held over time, two of them beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Film {
    /// What it shows.
    pub title: String,
    /// What is written beneath a moment: `written since filled, GB`, and what `x` is multiplied by.
    pub x_label: String,
    /// Of the numbers in the maps to that.
    pub x_scale: f64,
    /// Names and maps.
    pub drives: Vec<(String, SuperblockMap)>,
    /// Which two are shown first.
    pub shown: [usize; 2],
}

impl Film {
    /// What the superblocks of each drive held in the end, in per cent of the flash.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.title.clone(), &["policy", "needed", "kept, though no longer needed", "stale", "erased"]);
        for (name, map) in &self.drives {
            let each = map.superblocks as usize;
            let share = |values: &[u8]| {
                let last = &values[values.len().saturating_sub(each)..];
                last.iter().map(|v| f64::from(*v)).sum::<f64>() / f64::from(SHARE_MAX) / each.max(1) as f64 * 100.0
            };
            let (needed, unneeded, stale) = (share(&map.needed), share(&map.unneeded), share(&map.stale));
            let free = (100.0 - needed - unneeded - stale).max(0.0);
            let cells = [needed, unneeded, stale, free].map(|percent| format!("{percent:.0} %"));
            table.row(core::iter::once(name.clone()).chain(cells));
        }
        table
    }
}

impl Heat {
    /// How long the slowest of what was asked for took, and how many took long.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.title.clone(), &["policy", "asked for", "over 0.1 s", "longest"]);
        for (name, map) in &self.maps {
            let count = |least: Nanos| map.cells.iter().filter(|cell| LatencyMap::least(cell.1) >= least).map(|cell| cell.2).sum::<u64>();
            table.row([name.clone(), grouped(count(Nanos::ZERO)), grouped(count(Nanos::from_millis(100))), map.longest_in_words()]);
        }
        table
    }
}

/// The label of a vertical axis without its unit, and how its values are read: times have units of their own.
#[must_use]
pub fn read_as(label: &str) -> (&str, fn(f64) -> String) {
    let time = |seconds: f64| Nanos((seconds.max(0.0) * 1e9) as u64).to_string();
    match label.strip_suffix(", s") {
        Some(what) => (what, time),
        None if matches!(label, "s" | "seconds") => ("", time),
        None => (label, three_digits),
    }
}

/// Marks as a table, their numbers written by `number`, those of the vertical axis below `heading` by `height`.
pub fn dots_table(
    chart: &Chart,
    axes: &[String],
    dots: &[Dot],
    (heading, height): (&str, fn(f64) -> String),
    number: fn(f64) -> String,
) -> Table {
    let mut header = vec!["policy", heading];
    header.extend(axes.iter().map(String::as_str));
    let mut table = Table::new(chart.title.clone(), &header);
    for dot in dots {
        table.row([dot.name.clone(), height(dot.y)].into_iter().chain(dot.x.iter().map(|x| x.map_or_else(String::new, number))));
    }
    table
}

/// Bars as a table, their numbers written by `number`.
pub fn bars_table(chart: &Chart, categories: &[String], series: &[(String, Vec<Option<f64>>)], number: fn(f64) -> String) -> Table {
    let mut header = vec![chart.y_label.as_str()];
    header.extend(series.iter().map(|(name, _)| name.as_str()));
    let mut table = Table::new(chart.title.clone(), &header);
    for (at, category) in categories.iter().enumerate() {
        let values = series.iter().map(|(_, values)| values.get(at).copied().flatten().map_or_else(String::new, number));
        table.row(core::iter::once(category.clone()).chain(values));
    }
    table
}

/// How long what was asked for when took, two of them beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// Names and maps.
    pub maps: Vec<(String, LatencyMap)>,
    /// Which two are shown first.
    pub shown: [usize; 2],
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
