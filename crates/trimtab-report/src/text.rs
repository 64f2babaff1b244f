//! A document for the terminal, with the order and numbers of the HTML; a line of a chart
//! becomes its first, last, lowest and highest value.

use super::escape::clean;
use super::layout;
use super::study::MORE;
use owo_colors::OwoColorize as _;
use std::fmt::Write as _;
use trimtab_drive::units::three_digits;
use trimtab_linux::output::{self, lines};
use trimtab_sim::run::{Severity, Warning};
use trimtab_study::document::{
    Chart, ChartKind, ChartLine, Document, Findings, Mark, Note, NoteKind, SectionBlock,
    StudyAnswer, Table, read_as,
};
use unicode_width::UnicodeWidthStr as _;

/// Width that an answer is laid out for; wider screens do not move its right edge.
const SCREEN: usize = 80;
/// Lines of it that an answer may take; the prompt takes one more.
const LINES: usize = 23;
/// Indentation below the label of a note.
const NOTE_INDENT: &str = "         ";

/// The text for its screen. Colours are escape sequences, which the printer removes if
/// not supported.
pub fn render(document: &Document) -> String {
    render_at(document, output::width())
}

/// The text at a width; `None` breaks no lines.
pub fn render_at(document: &Document, width: Option<usize>) -> String {
    let mut screen = Screen { text: String::new(), width, tight: 0 };
    screen.styled(&document.title, |line| line.bold().to_string());
    for line in &document.subtitle {
        screen.styled(line, |line| line.dimmed().to_string());
    }
    if let Some(answer) = &document.answer {
        screen.text.push('\n');
        screen.answer(answer);
    }
    for section in &document.sections {
        screen.text.push('\n');
        screen.styled(&section.title, |line| line.bold().underline().to_string());
        for block in &section.blocks {
            screen.block(block);
        }
    }
    screen.text
}

/// The answer alone: the first screen.
pub fn answer(answer: &StudyAnswer) -> String {
    answer_at(answer, output::width())
}

/// The answer at a width. If it does not fit on a screen, empty lines and then parts are
/// left out; --details shows them.
pub fn answer_at(answer: &StudyAnswer, width: Option<usize>) -> String {
    let shown = |answer: &StudyAnswer, tight: u8| {
        let mut screen = Screen { text: String::new(), width, tight };
        screen.answer(answer);
        screen.text
    };
    let fits = |text: &str| width.is_none() || text.lines().count() <= LINES;
    let mut less = answer.clone();
    let mut text = shown(&less, 0);
    for tight in 1..=ALL_TIGHT {
        if !fits(&text) {
            text = shown(&less, tight);
        }
    }
    while !fits(&text) && shorten(&mut less) {
        text = shown(&less, ALL_TIGHT);
    }
    text
}

/// An answer without empty lines.
const ALL_TIGHT: u8 = 3;
/// Rows that a table keeps on a small screen.
const ROWS_MIN: usize = 3;

/// Leaves out the least important part: details, then remarks and rows of the table.
/// False if only needed parts are left.
fn shorten(answer: &mut StudyAnswer) -> bool {
    let table = answer.table.get_or_insert_default();
    if let Some(at) = answer.notes.iter().rposition(|note| note.kind == NoteKind::Detail) {
        answer.notes.remove(at);
    } else if std::mem::take(&mut table.remarks) {
        [&mut table.header, &mut table.groups]
            .into_iter()
            .chain(&mut table.rows)
            .for_each(|row| drop(row.pop()));
    } else if let Some(at) = table.dispensable.pop().filter(|_| table.rows.len() > ROWS_MIN) {
        table.rows.remove(at);
        table.chosen.iter_mut().filter(|chosen| **chosen > at).for_each(|chosen| *chosen -= 1);
    } else {
        return false;
    }
    // Otherwise policies missing from the screen would look untried.
    if let Some(more) = answer.notes.iter_mut().find(|note| note.label == MORE) {
        "The rest".clone_into(&mut more.label);
    }
    true
}

/// Text under construction.
struct Screen {
    text: String,
    width: Option<usize>,
    /// Number of empty lines to leave out, the last ones first.
    tight: u8,
}

impl Screen {
    /// A styled paragraph; nothing for an empty one.
    fn styled(&mut self, text: &str, style: impl Fn(&str) -> String) {
        for line in lines::paragraph(&output::plain_line(text), self.width, "", "").lines() {
            self.text.push_str(&style(line));
            self.text.push('\n');
        }
    }

    fn paragraph(&mut self, text: &str, first: &str, rest: &str) {
        self.text.push_str(&lines::paragraph(&output::plain_line(text), self.width, first, rest));
    }

    fn block(&mut self, block: &SectionBlock) {
        match block {
            SectionBlock::Findings(findings) => self.findings(findings),
            SectionBlock::Text(paragraph) => self.paragraph(paragraph, "", ""),
            SectionBlock::Caption(_) => {}
            SectionBlock::Table(table) => self.table(table),
            SectionBlock::Chart(chart) => self.chart(chart),
            SectionBlock::Warnings(warnings) => {
                self.text.push_str(&warnings_at(warnings, self.width))
            }
        }
    }

    /// An empty line, if there is room for one of this level.
    fn blank(&mut self, level: u8) {
        if self.tight < level {
            self.text.push('\n');
        }
    }

    /// The drive; the policies; the table; notes and commands.
    fn answer(&mut self, answer: &StudyAnswer) {
        let (mut subject, origin) = (clean(&answer.subject), clean(&answer.origin));
        let full = clean(&answer.in_use());
        if self.width.is_none_or(|width| full.width() + origin.width() + 2 <= width) {
            subject = full;
        }
        let taken = subject.width() + origin.width();
        match self.width {
            Some(width) if taken + 2 > width => {
                self.paragraph(&subject, "", "");
                self.paragraph(&origin, "", "");
            }
            width => {
                let blank = width
                    .map_or(2, |width| width.min(SCREEN) - taken.min(width.min(SCREEN)))
                    .max(2);
                let _ = writeln!(
                    self.text,
                    "{}{}{}",
                    subject.bold(),
                    " ".repeat(blank),
                    origin.dimmed()
                );
            }
        }
        self.blank(3);
        for (nth, line) in answer.uses.iter().enumerate() {
            let label = if nth == 0 { "USE  " } else { "     " };
            for line in
                lines::paragraph(&clean(&line.in_words()), self.width, label, "     ").lines()
            {
                let _ = writeln!(self.text, "{}", line.bold());
            }
        }
        self.blank(2);
        if let Some(table) = &answer.table {
            self.table(table);
            self.blank(1);
        }
        answer.notes.iter().for_each(|note| self.note(note));
    }

    /// A note after its label of eight columns. Commands and paths stay on one line.
    fn note(&mut self, note: &Note) {
        let label = format!("{:8} ", clean(&note.label));
        let NoteKind::Command(remark) = &note.kind else {
            return self.paragraph(&note.text, &label, NOTE_INDENT);
        };
        let (command, remark) = (clean(&note.text), clean(remark));
        let fits = self
            .width
            .is_none_or(|width| label.len() + command.width() + 4 + remark.width() <= width);
        let between = if fits { "  " } else { "\n         " };
        let _ = match remark.is_empty() || !fits && self.tight == ALL_TIGHT {
            true => writeln!(self.text, "{label}{}", command.bold()),
            false => writeln!(
                self.text,
                "{label}{}{between}{}",
                command.bold(),
                format!("({remark})").dimmed()
            ),
        };
    }

    fn findings(&mut self, verdict: &Findings) {
        self.styled(&verdict.headline, |line| line.bold().to_string());
        for (title, items) in [
            ("Evidence:", &verdict.evidence),
            ("What would change it, and what this does not show:", &verdict.caveats),
        ] {
            if !items.is_empty() {
                self.paragraph(title, "", "");
                items.iter().for_each(|item| self.paragraph(item, "  - ", "    "));
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.paragraph(&table.caption, "", "");
        self.text.push_str(&layout::table(table, self.width));
    }

    fn chart(&mut self, chart: &Chart) {
        self.paragraph(&chart.title, "", "");
        match &chart.kind {
            ChartKind::Lines { lines, marks } => {
                lines.iter().for_each(|line| self.line(line));
                marks.iter().for_each(|mark| self.mark(mark));
                let axes = format!("{} over {}", chart.y_label, chart.x_label);
                let shown = lines::paragraph(&axes, self.width, "  ", "  ");
                shown.lines().for_each(|line| self.text.push_str(&format!("{}\n", line.dimmed())));
            }
            ChartKind::Dots { .. } => self.table(&Table {
                caption: String::new(),
                ..chart.table(read_as(&chart.y_label), three_digits)
            }),
        }
    }

    fn mark(&mut self, mark: &Mark) {
        self.paragraph(&format!("at {}: {}", three_digits(mark.x), mark.label), "  ", "      ");
    }

    fn line(&mut self, line: &ChartLine) {
        let text = format!("{}: {}", line.name, figures(&line.points));
        self.paragraph(&text, "  ", "      ");
    }
}

/// Warnings, the most serious first.
fn warnings_at(warnings: &[Warning], width: Option<usize>) -> String {
    let mut sorted: Vec<&Warning> = warnings.iter().collect();
    sorted.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    let mut text = String::new();
    for warning in sorted {
        let word = format!("{}:", warning.severity.name());
        let message = lines::paragraph(&format!("{word} {}", warning.text), width, "", "  ");
        let behind = message.strip_prefix(&word).unwrap_or(&message);
        let _ = match warning.severity {
            Severity::Note => write!(text, "{word}{behind}"),
            Severity::Caution => write!(text, "{}{behind}", word.yellow()),
            Severity::Serious => write!(text, "{}{behind}", word.red().bold()),
        };
    }
    text
}

/// Points from which on a line is summarised by its mean: its ends may lie anywhere in a
/// swing.
const MEAN_FROM: usize = 20;

/// The course of a line in figures: its ends, or with many points its mean; and its
/// extremes.
fn figures(points: &[(f64, f64)]) -> String {
    let finite: Vec<f64> = points.iter().map(|p| p.1).filter(|y| y.is_finite()).collect();
    let (Some(first), Some(last)) = (finite.first(), finite.last()) else {
        return "(no values)".to_owned();
    };
    if finite.len() == 1 {
        return format!("{} (one value)", three_digits(*first));
    }
    let high = finite.iter().copied().fold(f64::MIN, f64::max);
    let low = finite.iter().copied().fold(f64::MAX, f64::min);
    let (low, high) = (three_digits(low), three_digits(high));
    if finite.len() < MEAN_FROM {
        let (first, last) = (three_digits(*first), three_digits(*last));
        return format!("{first} → {last} (min {low}, max {high})");
    }
    let count = finite.len() as f64;
    let mean = three_digits(finite.iter().map(|value| value / count).sum());
    format!("mean {mean} (min {low}, max {high})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, value: impl Fn(u32) -> f64) -> ChartLine {
        ChartLine {
            name: name.into(),
            points: (0..600).map(|i| (f64::from(i), value(i))).collect(),
        }
    }

    fn drawn(lines: Vec<ChartLine>, width: Option<usize>) -> String {
        let kind = ChartKind::Lines { lines, marks: Vec::new() };
        let chart = Chart { title: "t".into(), x_label: "s".into(), y_label: "WAF".into(), kind };
        let document = Document {
            sections: vec![trimtab_study::document::Section::new(
                "S",
                vec![SectionBlock::Chart(chart)],
            )],
            ..Document::default()
        };
        anstream::adapter::strip_str(&render_at(&document, width)).to_string()
    }

    #[test]
    fn line_of_chart_shows_its_ends_and_extremes() {
        let falls = line("rate", |i| if i < 300 { 200.0 } else { 50.0 });
        for width in [None, Some(40), Some(120)] {
            let drawn = drawn(vec![falls.clone(), line("none", |_| 1.89)], width);
            assert!(drawn.contains("  rate: mean 125 (min 50.0, max 200)\n"), "{drawn}");
            assert!(drawn.contains("  none: mean 1.89 (min 1.89, max 1.89)\n"), "{drawn}");
            assert!(drawn.contains("WAF over s\n"), "{drawn}");
        }
        assert_eq!(figures(&[]), "(no values)");
        let few = [(1.0, 30.0), (2.0, 10.0), (3.0, 20.0)];
        assert_eq!(figures(&few), "30.0 → 20.0 (min 10.0, max 30.0)");
        // A sawtooth that begins and ends at its lowest value.
        let swings: Vec<_> = (0..201).map(|i| (f64::from(i), f64::from(i % 5))).collect();
        assert_eq!(figures(&swings), "mean 1.99 (min 0.00, max 4.00)");
        assert_eq!(figures(&[(1.0, 30.0), (2.0, f64::NAN)]), "30.0 (one value)");
    }

    #[test]
    fn control_characters_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
    }

    /// Regression: the name of an imported run printed a line that looked like a verdict.
    #[test]
    fn name_cannot_start_a_new_line() {
        let forged = "x\n/mnt [ext4]: proved";
        let section =
            trimtab_study::document::Section::new(forged, vec![SectionBlock::Text(forged.into())]);
        let document = Document {
            title: forged.into(),
            subtitle: vec![forged.into()],
            sections: vec![section],
            ..Document::default()
        };
        let shown = anstream::adapter::strip_str(&render_at(&document, None)).to_string();
        assert!(shown.matches("x /mnt").count() == 4 && !shown.contains("\n/mnt"), "{shown}");
    }
}
