//! A document as Markdown, for issues and pages, with the order and numbers of the terminal.
//! External text is never markup.

use trimtab_drive::units::three_digits;
use trimtab_linux::output::plain;
use trimtab_study::document::{Chart, ChartKind, Document, NoteKind, SectionBlock, StudyAnswer, Table, read_as};

/// The whole document.
pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n", escaped(&document.title));
    for line in &document.subtitle {
        text += &format!("\n{}\n", escaped(line));
    }
    text += &document.answer.as_ref().map(of_answer).unwrap_or_default();
    for section in &document.sections {
        text += &format!("\n## {}\n", escaped(&section.title));
        for block in &section.blocks {
            text += &format!("\n{}", block_of(block));
        }
    }
    text
}

/// The answer, in the order of the first screen.
fn of_answer(answer: &StudyAnswer) -> String {
    let mut text = format!("\n{} ({})\n\n", escaped(&answer.subject), escaped(&answer.origin));
    answer.uses.iter().for_each(|what| text += &format!("**USE {}**\n\n", escaped(&what.in_words())));
    text += &answer.table.as_ref().map(of_table).unwrap_or_default();
    text.push('\n');
    let (commands, notes): (Vec<_>, Vec<_>) = answer.notes.iter().partition(|note| matches!(note.kind, NoteKind::Command(_)));
    notes.iter().for_each(|note| text += &format!("- {}: {}\n", escaped(&note.label), escaped(&note.text)));
    text.push('\n');
    commands.iter().for_each(|command| text += &format!("    {}\n", one_line(&command.text)));
    text
}

fn block_of(block: &SectionBlock) -> String {
    match block {
        SectionBlock::Text(paragraph) => format!("{}\n", escaped(paragraph)),
        SectionBlock::Caption(_) => String::new(),
        SectionBlock::Findings(verdict) => {
            let items = verdict.evidence.iter().chain(&verdict.caveats).map(|item| format!("- {}\n", escaped(item)));
            format!("**{}**\n\n{}", escaped(&verdict.headline), items.collect::<String>())
        }
        SectionBlock::Table(table) => of_table(table),
        SectionBlock::Chart(chart) => of_chart(chart),
        SectionBlock::Film(film) => of_table(&film.table()),
        SectionBlock::Heat(heat) => of_table(&heat.table()),
        SectionBlock::Warnings(warnings) => {
            warnings.iter().map(|w| format!("- {}: {} ({})\n", w.severity.name(), escaped(&w.text), escaped(&w.code))).collect()
        }
    }
}

/// A table with a rule below its header. The first column names the row; figures are
/// right-aligned.
pub fn of_table(table: &Table) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "));
    let rule = (0..table.header.len()).map(|at| if is_figures(table, at) { "---:" } else { "---" }).collect::<Vec<_>>().join("|");
    let caption = if table.caption.is_empty() { String::new() } else { format!("{}\n\n", escaped(&table.caption)) };
    let rows = table.rows.iter().map(|cells| row(cells)).collect::<String>();
    // The corner explains marks; as heading of the first column it would be its name.
    let mut headings = table.headings();
    let corner = table.groups.first().filter(|corner| !corner.is_empty());
    if let (Some(_), Some(first)) = (corner, headings.first_mut()) {
        first.clone_from(&table.header[0]);
    }
    let legend = corner.map_or_else(String::new, |corner| format!("\n{}\n", escaped(corner)));
    format!("{caption}{}|{rule}|\n{rows}{legend}", row(&headings))
}

fn is_figures(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
    column > 0 && cells.peek().is_some() && cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
}

/// Marks and bars become a table; lines have too many points.
fn of_chart(chart: &Chart) -> String {
    match &chart.kind {
        ChartKind::Lines { lines, .. } => {
            let names = lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>().join(", ");
            format!("{}: {} (points: trimtab results export --series)\n", escaped(&chart.title), escaped(&names))
        }
        ChartKind::Dots { .. } | ChartKind::Bars { .. } => of_table(&chart.table(read_as(&chart.y_label), three_digits)),
    }
}

/// Text reduced to one line.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes Markdown, HTML and cell separators.
fn escaped(text: &str) -> String {
    let line = one_line(text);
    let mut escaped = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_table_aligns_figures() {
        let mut table = Table::new("", &["run", "rate", "remark"]);
        table.row(["a", "1.5 MB/s", "1 warning"]);
        table.row(["b", "", "none"]);
        assert_eq!(of_table(&table), "| run | rate | remark |\n|---|---:|---|\n| a | 1.5 MB/s | 1 warning |\n| b |  | none |\n");
    }

    #[test]
    fn escaped_name_is_not_markup() {
        let name = "x|y](http://a) <img src=z> `code` **b**\n# title\u{1b}[31m";
        let text = escaped(name);
        let bare = text.replace("\\|", "").replace("\\]", "").replace("\\`", "").replace("\\*", "").replace("\\#", "").replace("\\[", "");
        assert!(!bare.contains(['|', ']', '`', '*', '#', '<', '>', '\n', '\u{1b}']), "{text}");
    }
}
