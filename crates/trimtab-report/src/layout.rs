//! Text and tables for a screen of any width: the only place that breaks lines.
//!
//! Lines break between words, but never between a number and its unit. A table that does
//! not fit wraps its cells. If its longest words do not fit next to each other, its
//! columns are stacked, one row at a time.

use super::escape::clean;
use std::ops::Range;
use trimtab_linux::output::lines::{atoms, lines, paragraph, width_of};
use trimtab_study::document::Table;

/// Follows an unsteady figure. It hangs to the right, so that digits stay aligned.
pub const NOT_STEADY: &str = "~";
/// Width of the gap between columns.
const GAP: usize = 2;
/// A cell that needs more lines than this in its column gets the whole width.
const CELL_LINES_MAX: usize = 5;
/// Indentation of continuation lines.
const INDENT: usize = 4;

/// Follows the name of the recommended row.
const CHOSEN: &str = " <-";

/// Total width of columns with these widths.
fn across(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The table in the width of its screen.
pub fn on_screen(of: &Table) -> String {
    table(of, trimtab_linux::output::width())
}

/// The table in the program's style: a rule below the header, figures to the right, a
/// final newline.
pub fn table(table: &Table, width: Option<usize>) -> String {
    let grid = Grid::of(table);
    let mut shown = String::new();
    if grid.columns.is_empty() {
        return shown;
    }
    let Some(width) = width else {
        const ANY: usize = 1 << 20;
        let widths = grid
            .widths(ANY)
            .unwrap_or_else(|| grid.columns.iter().map(LayoutColumn::whole).collect());
        grid.draw(&widths, &mut shown);
        return shown;
    };
    match grid.widths(width) {
        Some(widths) => grid.draw(&widths, &mut shown),
        None => grid.records(width, &mut shown),
    }
    shown
}

/// One column: its heading and its cells.
#[derive(Clone, Debug)]
struct LayoutColumn {
    /// Title above it and its neighbours of the same group.
    group: String,
    heading: String,
    cells: Vec<String>,
    right: bool,
}

impl LayoutColumn {
    fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.heading).chain(&self.cells)
    }

    /// Width at which nothing wraps.
    fn whole(&self) -> usize {
        self.all().map(|cell| width_of(cell)).max().unwrap_or(0)
    }

    /// Width below which an atom would break.
    fn least(&self) -> usize {
        self.all().flat_map(|cell| atoms(cell)).map(|atom| width_of(&atom)).max().unwrap_or(0)
    }

    /// Lines of the tallest cell at a width.
    fn height(&self, width: usize) -> usize {
        self.cells.iter().map(|cell| lines(cell, Some(width)).len()).max().unwrap_or(0)
    }
}

/// Columns drawn next to each other.
#[derive(Clone, Debug)]
struct Grid {
    columns: Vec<LayoutColumn>,
    rows: usize,
}

impl Grid {
    fn of(table: &Table) -> Self {
        let one_line = |text: &String| clean(text).replace(['\n', '\t'], " ");
        let column = |(at, heading): (usize, &String)| {
            let mut cells: Vec<String> = table
                .rows
                .iter()
                .map(|row| row.get(at).map(one_line).unwrap_or_default())
                .collect();
            for row in table.chosen.iter().filter(|_| at == 0) {
                if let Some(cell) = cells.get_mut(*row) {
                    cell.push_str(CHOSEN);
                }
            }
            let marked = cells.iter().any(|cell| cell.ends_with(NOT_STEADY));
            // The mark hangs to the right of its figure, so that digits stay aligned.
            for cell in cells.iter_mut().filter(|cell| {
                marked && is_figure(cell) && !cell.is_empty() && !cell.ends_with(NOT_STEADY)
            }) {
                cell.push(' ');
            }
            let right = at > 0
                && cells.iter().all(|cell| is_figure(cell))
                && cells.iter().any(|cell| !cell.is_empty());
            LayoutColumn {
                group: table.groups.get(at).map(one_line).unwrap_or_default(),
                heading: one_line(heading),
                cells,
                right,
            }
        };
        Self {
            columns: table.header.iter().enumerate().map(column).collect(),
            rows: table.rows.len(),
        }
    }

    /// Column widths that fit within `width`; `None` if that would break atoms or make a
    /// cell much taller than wide.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let room = width.checked_sub(GAP * (self.columns.len() - 1))?;
        let (mut least, whole): (Vec<usize>, Vec<usize>) =
            self.columns.iter().map(|c| (c.least(), c.whole())).unzip();
        // A group's title is on one line, so its columns together are at least as wide.
        for (title, span) in self.groups() {
            let missing = width_of(title).saturating_sub(across(&least[span.clone()]));
            let columns = span.len();
            for (nth, at) in span.enumerate() {
                least[at] += (missing + nth) / columns;
            }
        }
        let whole: Vec<usize> =
            whole.iter().zip(&least).map(|(whole, least)| *whole.max(least)).collect();
        if least.iter().sum::<usize>() > room {
            return None;
        }
        // The widest columns shrink first: the highest limit that fits.
        let at = |limit: usize| -> Vec<usize> {
            least.iter().zip(&whole).map(|(least, whole)| limit.clamp(*least, *whole)).collect()
        };
        let fits = |limit: &usize| at(*limit).iter().sum::<usize>() <= room;
        let widths = at((0..=room).rev().find(fits)?);
        let low =
            |(column, width): (&LayoutColumn, &usize)| column.height(*width) <= CELL_LINES_MAX;
        self.columns.iter().zip(&widths).all(low).then_some(widths)
    }

    /// Titles above several columns, with their range.
    fn groups(&self) -> Vec<(&str, Range<usize>)> {
        let mut groups: Vec<(&str, Range<usize>)> = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            match groups.last_mut() {
                Some((title, span)) if *title == column.group => span.end = at + 1,
                _ => groups.push((&column.group, at..at + 1)),
            }
        }
        groups.retain(|(title, _)| !title.is_empty());
        groups
    }

    /// Draws the line of group titles, each centred above its columns; nothing without
    /// groups.
    fn draw_groups(&self, widths: &[usize], shown: &mut String) {
        let mut line = String::new();
        for (title, span) in self.groups() {
            let from = across(&widths[..span.start]) + if span.start > 0 { GAP } else { 0 };
            let middle = from + (across(&widths[span]).saturating_sub(width_of(title))) / 2;
            line.push_str(&" ".repeat(middle.saturating_sub(width_of(&line))));
            line.push_str(title);
        }
        if !line.is_empty() {
            shown.push_str(&line);
            shown.push('\n');
        }
    }

    fn draw(&self, widths: &[usize], shown: &mut String) {
        self.draw_groups(widths, shown);
        let draw_row = |cells: Vec<&String>, shown: &mut String| {
            let parts: Vec<Vec<String>> =
                cells.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
            for line in 0..parts.iter().map(Vec::len).max().unwrap_or(0).max(1) {
                let mut drawn = String::new();
                for ((column, part), width) in self.columns.iter().zip(&parts).zip(widths) {
                    let text = part.get(line).map_or("", String::as_str);
                    let blank = " ".repeat(width.saturating_sub(width_of(text)));
                    let (before, after) =
                        if column.right { (blank.as_str(), "") } else { ("", blank.as_str()) };
                    drawn.push_str(&[before, text, after, "  "].concat());
                }
                shown.push_str(drawn.trim_end());
                shown.push('\n');
            }
        };
        draw_row(self.columns.iter().map(|c| &c.heading).collect(), shown);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        shown.push_str(&rule.join("──"));
        shown.push('\n');
        for row in 0..self.rows {
            draw_row(self.columns.iter().map(|c| &c.cells[row]).collect(), shown);
        }
    }

    /// Draws one row at a time: its first cell, then the others after their headings.
    fn records(&self, width: usize, shown: &mut String) {
        let indent = " ".repeat(INDENT);
        for row in 0..self.rows {
            let heading =
                |column: &LayoutColumn| match (column.group.as_str(), column.heading.as_str()) {
                    ("", heading) => heading.to_owned(),
                    (group, heading) => format!("{group} {heading}"),
                };
            let headings: Vec<String> = self.columns.iter().map(heading).collect();
            let mut cells = headings
                .iter()
                .zip(&self.columns)
                .map(|(heading, column)| (heading.as_str(), column.cells[row].as_str()));
            shown.push_str(&paragraph(
                cells.next().map_or("", |(_, cell)| cell),
                Some(width),
                "",
                &indent,
            ));
            let mut line = String::new();
            for (heading, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
                let item =
                    if heading.is_empty() { cell.to_owned() } else { format!("{heading}: {cell}") };
                if !line.is_empty() && INDENT + width_of(&line) + 2 + width_of(&item) <= width {
                    line.push_str("; ");
                    line.push_str(&item);
                    continue;
                }
                shown.push_str(&paragraph(
                    &line,
                    Some(width),
                    &indent,
                    &[indent.as_str(), "  "].concat(),
                ));
                line = item;
            }
            shown.push_str(&paragraph(
                &line,
                Some(width),
                &indent,
                &[indent.as_str(), "  "].concat(),
            ));
        }
    }
}

/// The lines of a cell; one that fits stays unchanged.
fn wrapped(cell: &str, width: usize) -> Vec<String> {
    if width_of(cell) <= width { vec![cell.to_owned()] } else { lines(cell, Some(width)) }
}

/// True for an empty cell, a dash, or a number with a unit.
fn is_figure(cell: &str) -> bool {
    let text = cell.trim_end().trim_start_matches(['+', '-', '−', '<', '>', '≥', '≤', '~', '(']);
    cell.is_empty() || text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Table {
        let mut table = Table::new("", &["policy", "4 KiB random writes, steady", "what it is"]);
        table.row(["none", "27,900/s", "nothing is trimmed"]);
        table.row(["batched", "148 ms (3.1×)", "one trim of the whole filesystem"]);
        table
    }

    #[test]
    fn table_wraps_before_it_stacks() {
        let shown = |width| table(&sample(), Some(width));
        assert_eq!(
            shown(80),
            "policy   4 KiB random writes, steady  what it is\n\
             ──────────────────────────────────────────────────────────────────────\n\
             none                        27,900/s  nothing is trimmed\n\
             batched                148 ms (3.1×)  one trim of the whole filesystem\n"
        );
        assert!(shown(44).lines().all(|line| width_of(line) <= 44), "{}", shown(44));
        assert_eq!(shown(24).lines().next_back(), Some("      filesystem"));
    }

    /// Regression: a table of five columns was split at 80 columns although it fits with
    /// a wrapped first column.
    #[test]
    fn group_titles_do_not_split_a_table_that_fits() {
        let mut measured = Table::new(
            "",
            &["policy", "tree", "postmark", "wait at most", "trim at most", "counted"],
        );
        measured.groups =
            ["", "foreground time", "foreground time", "50 appends/s", "", "discards"]
                .map(str::to_owned)
                .to_vec();
        measured.row(["as-mounted (discard=async)", "152 ms", "152 ms", "8.00 ms", "-", "0"]);
        measured.row(["batched", "155 ms", "155 ms", "410 ms", "480 ms", "12"]);
        let lines =
            |width| table(&measured, Some(width)).lines().map(str::to_owned).collect::<Vec<_>>();
        // Longest words: 15, and 6, 8, 12, 6, 8 with gaps of 2.
        let least = 15 + 6 + 8 + 12 + 6 + 8 + 5 * 2;
        for width in [least, 70, 75, 80, 90] {
            let all = lines(width);
            assert_eq!(
                all.iter().filter(|line| line.starts_with('─')).count(),
                1,
                "{width}: {all:#?}"
            );
            assert!(all.iter().all(|line| width_of(line) <= width), "{width}: {all:#?}");
        }
        assert!(lines(least - 1).iter().all(|line| !line.starts_with('─')), "one record per row");
    }

    /// Regression: the digits of `36,200~` were one place left of `27,900 `.
    #[test]
    fn digits_stay_aligned_with_marked_figures() {
        let mut rates = Table::new("", &["policy", "writes/s", "WAF"]);
        rates.row(["none", "27,900", "1.49"]);
        rates.row(["idle", "36,200~", "1.02"]);
        rates.row(["never", "-", "1.00"]);
        let shown = table(&rates, Some(80));
        let ends: Vec<usize> = ["27,900", "36,200"]
            .map(|figure| shown.lines().find_map(|line| line.find(figure)).unwrap())
            .into();
        assert_eq!(ends[0], ends[1], "{shown}");
    }

    #[test]
    fn number_stays_with_its_unit() {
        assert_eq!(
            atoms("waits 148 ms, of 1.5 GB; (12 %) 5 files 3 × 7"),
            ["waits", "148 ms,", "of", "1.5 GB;", "(12 %)", "5", "files", "3 ×", "7"]
        );
        assert_eq!(
            paragraph("it takes 148 ms here", Some(12), "- ", "  "),
            "- it takes\n  148 ms\n  here\n"
        );
        assert_eq!(paragraph("as  it is", None, "", ""), "as  it is\n");
    }

    fn cell() -> impl Strategy<Value = String> {
        prop_oneof![
            (0_u32..1_000_000, prop::sample::select(vec!["ms", "s", "MB/s", "GB", "%", "/s"]))
                .prop_map(|(n, unit)| format!("{n} {unit}")),
            (0_u32..10_000_000).prop_map(|n| format!("{n}/s")),
            (0_u32..1000, 0_u32..1000).prop_map(|(a, b)| format!("{a}.{b} s ({b}.{a}×)")),
            prop::collection::vec("[a-zäé-]{1,12}", 0..8).prop_map(|words| words.join(" ")),
            Just(String::new()),
        ]
    }

    /// Numbers with their units, found without the code under test.
    fn figures(cell: &str) -> Vec<String> {
        let words: Vec<&str> = cell.split(' ').collect();
        let mut figures = Vec::new();
        for (at, word) in words.iter().enumerate() {
            if word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit()) {
                let unit = words
                    .get(at + 1)
                    .filter(|unit| ["ms", "s", "MB/s", "GB", "%", "/s"].contains(*unit));
                figures
                    .push(unit.map_or_else(|| (*word).to_owned(), |unit| format!("{word} {unit}")));
            }
        }
        figures
    }

    proptest! {
        #[test]
        fn table_of_any_content_and_width_keeps_figures_whole(
            columns in 1_usize..9, rows in prop::collection::vec(prop::collection::vec(cell(), 9), 0..7),
            header in prop::collection::vec(cell(), 9), width in 1_usize..140,
        ) {
            let mut drawn = Table::new("", &header.iter().take(columns).map(String::as_str).collect::<Vec<_>>());
            rows.iter().for_each(|row| drawn.row(row.iter().take(columns).cloned()));
            let shown = table(&drawn, Some(width));
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let mut longest = 0;
            for cell in rows.iter().flat_map(|row| row.iter().take(columns)) {
                for figure in figures(cell) {
                    prop_assert!(shown.lines().any(|line| line.contains(&figure)), "{figure} is not whole at {width}:\n{shown}");
                }
                for word in words(cell) {
                    prop_assert!(shown.contains(&word), "{word} is not whole at {width}:\n{shown}");
                }
            }
            for cell in rows.iter().flatten().chain(&header) {
                longest = figures(cell).iter().map(|f| width_of(f)).chain(words(cell).iter().map(|w| width_of(w))).fold(longest, usize::max);
            }
            for line in shown.lines() {
                // A single atom may be longer, after the indentation of a record and the
                // colon of a heading.
                prop_assert!(width_of(line) <= width.max(longest + INDENT + 3), "{} columns of {width}:\n{shown}", width_of(line));
            }
        }
    }
}
