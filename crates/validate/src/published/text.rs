//! Formats the comparison for a screen of any width.

use super::comparison::PublishedComparison;
use super::render;
use super::score::ScoreRow;
use trimtab_linux::output::lines::paragraph;
use trimtab_report::layout::table;
use trimtab_study::document::Table;

/// Formats the comparison for `width` columns; `None` does not wrap lines.
pub fn screen(comparison: &PublishedComparison, width: Option<usize>) -> String {
    let mut text = String::from("Published and modelled measurements\n\n");
    let mut score = Table::new("", &render::TALLY_HEAD);
    for tally in render::tallies(comparison) {
        score.row(tally);
    }
    text.push_str(&table(&score, width));
    text.push('\n');
    let notes = [render::notes(comparison), render::earlier_scores(comparison)].concat();
    for note in notes.iter().map(String::as_str).chain(render::WORDS) {
        text.push_str(&paragraph(note, width, "", ""));
        text.push('\n');
    }
    let mut workload = "";
    for row in &comparison.rows {
        if row.workload != workload {
            workload = row.workload;
            text.push_str(&format!("{}\n\n", render::title(workload).to_uppercase()));
        }
        text.push_str(&one(row, width));
        text.push('\n');
    }
    if !comparison.orders.is_empty() {
        text.push_str("SLOWER OF TWO (not scored: follows from figures above)\n\n");
        let mut orders = Table::new("", &render::ORDER_HEAD);
        for order in render::orders(comparison) {
            orders.row(order);
        }
        text.push_str(&table(&orders, width));
    }
    text
}

fn one(row: &ScoreRow, width: Option<usize>) -> String {
    let mut text = paragraph(&format!("{} ({})", row.name, row.drive), width, "", "  ");
    text.push_str(&paragraph(&render::publication(row), width, "  ", "  "));
    let mut figures = Table::new("", &render::FIGURE_HEAD);
    for figure in &row.figures {
        let [name, published, modelled, off, counts] = render::cells(figure);
        figures.row([name.replace('_', " "), published, modelled, off, counts]);
    }
    text.push_str(&table(&figures, width));
    for remark in render::remarks(row) {
        text.push_str(&paragraph(&remark.replace('_', " "), width, "* ", "  "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::comparison::PublishedComparison;
    use crate::published::score::{self, row};
    use crate::published::spec::ModelledFigures;
    use crate::published::spec::PublishedData;
    use unicode_width::UnicodeWidthStr as _;

    /// All rows, without model results.
    #[test]
    fn lines_fit_on_narrow_and_wide_screens() {
        let plan = PublishedData::shipped().unwrap();
        let rows: Vec<ScoreRow> = plan
            .configurations
            .iter()
            .map(|c| row(&plan, c, &ModelledFigures::from([("total_s", 12.3)])).unwrap())
            .collect();
        let comparison = PublishedComparison {
            score: score::score(&plan, &rows),
            rows,
            history: plan.history.clone(),
            orders: Vec::new(),
        };
        for width in [80, 120] {
            let text = screen(&comparison, Some(width));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(!text.contains("|---"), "that is Markdown");
            for row in &comparison.rows {
                assert!(text.contains(&row.name), "{}", row.name);
            }
            assert!(text.contains("Patrick Nagel") && text.contains("author not known"));
        }
    }
}
