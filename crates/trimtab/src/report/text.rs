//! A document for the terminal: the same order and the same numbers as the HTML, charts as sparklines.

use super::document::{Block, Chart, ChartKind, Document, Mark, Table, Verdict};
use crate::output;
use owo_colors::OwoColorize as _;
use std::fmt::Write as _;
use trimtab_core::run::{Severity, Warning};
use trimtab_core::units::three_digits;

/// Columns of a sparkline.
const SPARK_WIDTH: usize = 60;

/// The text. Colours are escape sequences that the printer removes where nobody can see them.
pub fn render(document: &Document) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", clean(&document.title).bold());
    for line in &document.subtitle {
        let _ = writeln!(text, "{}", clean(line).dimmed());
    }
    for section in &document.sections {
        let _ = writeln!(text, "\n{}", clean(&section.title).bold().underline());
        for block in &section.blocks {
            write_block(&mut text, block);
        }
    }
    text
}

/// `text` without control characters, nor such as turn the direction of what follows: names of drives, paths and imported
/// results must not be able to steer a terminal.
pub fn clean(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' || turns(c) { '\u{fffd}' } else { c }).collect()
}

fn write_block(text: &mut String, block: &Block) {
    match block {
        Block::Verdict(verdict) => write_verdict(text, verdict),
        Block::Text(paragraph) => {
            let _ = writeln!(text, "{}", clean(paragraph));
        }
        Block::Commands(commands) => {
            for command in commands {
                let _ = writeln!(text, "    {}", clean(command).bold());
            }
        }
        Block::Table(table) => write_table(text, table),
        Block::Chart(chart) => write_chart(text, chart),
        Block::Warnings(warnings) => write_warnings(text, warnings),
    }
}

fn write_verdict(text: &mut String, verdict: &Verdict) {
    let _ = writeln!(text, "{}", clean(&verdict.headline).bold());
    for (title, items) in [("Evidence:", &verdict.evidence), ("What would change it, and what this does not show:", &verdict.caveats)] {
        if !items.is_empty() {
            let _ = writeln!(text, "{title}");
            for item in items {
                let _ = writeln!(text, "  - {}", clean(item));
            }
        }
    }
}

fn write_table(text: &mut String, table: &Table) {
    let header: Vec<String> = table.header.iter().map(|h| clean(h)).collect();
    let mut drawn = output::table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &table.rows {
        drawn.add_row(row.iter().map(|cell| clean(cell)));
    }
    let _ = writeln!(text, "{}\n{drawn}", clean(&table.caption));
}

/// Warnings, the most serious first.
pub fn write_warnings(text: &mut String, warnings: &[Warning]) {
    let mut sorted: Vec<&Warning> = warnings.iter().collect();
    sorted.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    for warning in sorted {
        let message = clean(&warning.text);
        let _ = match warning.severity {
            Severity::Note => writeln!(text, "note: {message}"),
            Severity::Caution => writeln!(text, "{} {message}", "caution:".yellow()),
            Severity::Serious => writeln!(text, "{} {message}", "serious:".red().bold()),
        };
    }
}

fn write_chart(text: &mut String, chart: &Chart) {
    let _ = writeln!(text, "{}", clean(&chart.title));
    match &chart.kind {
        ChartKind::Lines { lines, marks } => {
            let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
            for line in lines {
                let _ = writeln!(text, "  {:width$} {}", clean(&line.name), sparkline(&line.points));
            }
            write_marks(text, marks);
            let _ = writeln!(text, "  {}", format!("{} over {}", clean(&chart.y_label), clean(&chart.x_label)).dimmed());
        }
        ChartKind::Bars { categories, series } => {
            let mut header = vec![chart.y_label.as_str()];
            header.extend(series.iter().map(|(name, _)| name.as_str()));
            let mut table = Table::new("", &header);
            for (i, category) in categories.iter().enumerate() {
                let values = series.iter().map(|(_, values)| values.get(i).copied().flatten().map_or_else(String::new, three_digits));
                table.row(std::iter::once(category.clone()).chain(values));
            }
            write_table(text, &table);
        }
    }
}

fn write_marks(text: &mut String, marks: &[Mark]) {
    for mark in marks {
        let _ = writeln!(text, "  at {}: {}", three_digits(mark.x), clean(&mark.label));
    }
}

/// A line in one row of block characters: the mean of each step on a scale from 0 to the line's maximum, with its first, lowest, highest and last value.
fn sparkline(points: &[(f64, f64)]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite: Vec<f64> = points.iter().map(|p| p.1).filter(|y| y.is_finite()).collect();
    let (Some(first), Some(last)) = (finite.first(), finite.last()) else { return "(no values)".to_owned() };
    let high = finite.iter().copied().fold(f64::MIN, f64::max);
    let low = finite.iter().copied().fold(f64::MAX, f64::min);
    let width = SPARK_WIDTH.min(finite.len());
    let mut drawn = String::new();
    for step in 0..width {
        let slice = &finite[step * finite.len() / width..(step + 1) * finite.len() / width];
        let mean = slice.iter().sum::<f64>() / slice.len() as f64;
        let level = if high > 0.0 { (mean / high * 7.0).round().clamp(0.0, 7.0) as usize } else { 0 };
        drawn.push(LEVELS[level]);
    }
    format!("{drawn}  {} → {} (min {}, max {})", three_digits(*first), three_digits(*last), three_digits(low), three_digits(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_the_fall() {
        let points: Vec<(f64, f64)> = (0..600).map(|i| (f64::from(i), if i < 300 { 200.0 } else { 50.0 })).collect();
        let drawn = sparkline(&points);
        assert!(drawn.starts_with('█') && drawn.contains('▃') && drawn.ends_with("200 → 50.0 (min 50.0, max 200)"), "{drawn}");
        assert_eq!(sparkline(&[]), "(no values)");
    }

    #[test]
    fn control_characters_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
