//! Tab-separated values for scripts: a line of names, then a line per row. Numbers are
//! unformatted; the column name gives the unit.

use trimtab_linux::output::harmless_cell;

/// Rows below the names of their columns.
#[derive(Clone, Debug)]
pub struct TsvTable {
    text: String,
    columns: usize,
}

impl TsvTable {
    /// A table with these columns. New versions only append columns.
    #[must_use]
    pub fn new(columns: &[&str]) -> Self {
        Self { text: format!("{}\n", columns.join("\t")), columns: columns.len() }
    }

    /// Adds a row. Tabs and line ends become spaces; no cell is a formula.
    pub fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell_of(&cell)).collect();
        debug_assert_eq!(cells.len(), self.columns, "a row has as many cells as there are names");
        self.text.push_str(&cells.join("\t"));
        self.text.push('\n');
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

fn cell_of(cell: &str) -> String {
    harmless_cell(&cell.replace(['\t', '\n', '\r'], " "))
}

/// A number as its shortest exact text; empty for `None`.
#[must_use]
pub fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_same_number_of_cells() {
        let mut terse = TsvTable::new(&["a", "b"]);
        terse.row(["x\ty\nz\u{1b}[2J".to_owned(), number(Some(1e-7))]);
        terse.row([String::new(), number(Some(f64::NAN))]);
        let text = terse.into_text();
        assert!(text.lines().all(|line| line.split('\t').count() == 2) && text.lines().count() == 3, "{text:?}");
        let mut terse = TsvTable::new(&["a", "b"]);
        terse.row(["=HYPERLINK(1)".to_owned(), number(Some(-5.0))]);
        assert!(terse.into_text().ends_with("\n'=HYPERLINK(1)\t-5\n"));
        assert!(text.contains("x y z") && text.contains("0.0000001") && !text.contains('\u{1b}'), "{text:?}");
    }
}
