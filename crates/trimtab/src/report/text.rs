//! A document for the terminal, with the order and numbers of the HTML; charts become
//! sparklines.

use super::escape::clean;
use super::layout;
use owo_colors::OwoColorize as _;
use std::fmt::Write as _;
use trimtab_drive::units::three_digits;
use trimtab_linux::output::{self, lines};
use trimtab_sim::run::{Severity, Warning};
use trimtab_study::document::{
    Chart, ChartKind, ChartLine, ColumnUse, Document, Findings, Mark, NoteKind, RecommendationLine, SectionBlock, StudyAnswer, Table,
    dots_table, read_as,
};
use unicode_width::UnicodeWidthStr as _;

/// Width that an answer is laid out for; wider screens do not move its right edge.
const SCREEN: usize = 80;
/// Lines of it that an answer may take; the prompt takes one more.
const LINES: usize = 23;
/// Columns of a sparkline.
const SPARK_WIDTH: usize = 60;
/// Narrower sparklines are useless.
const SPARK_WIDTH_MIN: usize = 16;

/// The text for its screen. Colours are escape sequences, which the printer removes if not
/// supported.
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

/// The answer at a width. If it does not fit on a screen, parts are left out; --details shows
/// them.
pub fn answer_at(answer: &StudyAnswer, width: Option<usize>) -> String {
    let shown = |answer: &StudyAnswer, tight: u8| {
        let mut screen = Screen { text: String::new(), width, tight };
        screen.answer(answer);
        screen.text
    };
    let whole = shown(answer, 0);
    let fits = |text: &str| text.lines().count() <= LINES;
    if width.is_none() || fits(&whole) {
        return whole;
    }
    let closer = shown(answer, 1);
    if fits(&closer) && width.is_some_and(|width| width >= SCREEN) {
        return closer;
    }
    let (mut less, mut tight) = (answer.clone(), 0);
    for step in &LESS {
        // Tables lose one row at a time.
        while step(&mut less, &mut tight) {
            let text = shown(&marked(&less, answer), tight);
            if fits(&text) {
                return text;
            }
        }
    }
    shown(&marked(&less, answer), tight)
}

/// A reduced answer that says where the rest is, so that policies missing from it do not look
/// untried.
fn marked(less: &StudyAnswer, whole: &StudyAnswer) -> StudyAnswer {
    let mut marked = less.clone();
    let content = |answer: &StudyAnswer| {
        let cells = answer.tables.iter().map(|table| table.rows.iter().map(Vec::len).sum::<usize>()).sum::<usize>();
        (cells, answer.notes.len(), answer.undo.is_some())
    };
    if content(less) != content(whole)
        && let Some(more) = marked.more.as_mut().filter(|more| more.is_whole)
    {
        "Left out".clone_into(&mut more.label);
    }
    marked
}

/// An answer without empty lines.
const ALL_TIGHT: u8 = 3;

/// Leaves out part of an answer or an empty line; false if there was nothing to leave out.
type ShorteningStep = fn(&mut StudyAnswer, &mut u8) -> bool;

/// Parts that are left out if there is no room, the least important first.
const LESS: [ShorteningStep; 8] = [
    |_, tight| std::mem::replace(tight, ALL_TIGHT) < ALL_TIGHT,
    |answer, _| answer.more.as_mut().is_some_and(|more| !std::mem::take(&mut more.aside).is_empty()),
    |answer, _| drop_notes(answer, NoteKind::Detail),
    |answer, _| answer.tables.iter_mut().any(drop_repeated_columns),
    // The command to undo is also in the program's help.
    |answer, _| answer.undo.take().is_some(),
    // Policies that are neither recommended nor the baseline.
    |answer, _| answer.tables.iter_mut().any(drop_a_row),
    // With several drives, this note is about none of them.
    |answer, _| answer.uses.iter().any(|what| !what.on.is_empty()) && drop_notes(answer, NoteKind::CheckFirst),
    |answer, _| drop_notes(answer, NoteKind::Condition),
];

fn drop_notes(answer: &mut StudyAnswer, kind: NoteKind) -> bool {
    let before = answer.notes.len();
    answer.notes.retain(|note| note.kind != kind);
    answer.notes.len() < before
}

/// Leaves out columns that another condition repeats; false if there are none.
fn drop_repeated_columns(table: &mut Table) -> bool {
    let of = ColumnUse::Repeated;
    if !table.columns.contains(&of) {
        return false;
    }
    let columns = table.columns.clone();
    let kept = |row: &mut Vec<String>| {
        let mut columns = columns.iter();
        row.retain(|_| columns.next() != Some(&of));
    };
    kept(&mut table.header);
    kept(&mut table.groups);
    table.rows.iter_mut().for_each(kept);
    table.columns.retain(|column| *column != of);
    true
}

/// Leaves out the last dispensable row of a drive that keeps three others, or two if the
/// table has several drives.
fn drop_a_row(table: &mut Table) -> bool {
    let uses = &table.row_uses;
    let least = if uses.iter().any(|row| row.drive > 0) { 2 } else { 3 };
    let rows_of = |drive: usize| uses.iter().filter(|row| row.drive == drive).count();
    let Some(at) = uses.iter().rposition(|row| !row.needed && rows_of(row.drive) > least) else { return false };
    table.rows.remove(at);
    table.row_uses.remove(at);
    table.chosen.iter_mut().filter(|chosen| **chosen > at).for_each(|chosen| *chosen -= 1);
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
            SectionBlock::Film(film) => self.table(&film.table()),
            SectionBlock::Heat(heat) => self.table(&heat.table()),
            SectionBlock::Plane(_) => {}
            SectionBlock::Warnings(warnings) => self.text.push_str(&warnings_at(warnings, self.width)),
        }
    }

    /// An empty line, if there is room for one of this level.
    fn blank(&mut self, level: u8) {
        if self.tight < level {
            self.text.push('\n');
        }
    }

    /// The drive; the policy and the reason; the table; notes; commands; where to find the rest.
    fn answer(&mut self, answer: &StudyAnswer) {
        let (subject, origin) = (clean(&answer.subject), clean(&answer.origin));
        let taken = subject.width() + origin.width();
        match self.width {
            Some(width) if taken + 2 > width => {
                self.paragraph(&subject, "", "");
                self.paragraph(&origin, "", "");
            }
            width => {
                let blank = width.map_or(2, |width| width.min(SCREEN) - taken.min(width.min(SCREEN))).max(2);
                let _ = writeln!(self.text, "{}{}{}", subject.bold(), " ".repeat(blank), origin.dimmed());
            }
        }
        self.blank(ALL_TIGHT);
        for (nth, what) in answer.uses.iter().enumerate() {
            self.use_this(what, if nth == 0 { "USE  " } else { "     " });
        }
        if !answer.except.is_empty() {
            self.paragraph(&answer.except, "BUT  ", "     ");
        }
        for (nth, line) in answer.why.iter().enumerate() {
            self.paragraph(line, if nth == 0 { "WHY  " } else { "     " }, "     ");
        }
        for table in &answer.tables {
            self.blank(2);
            self.paragraph(&table.caption, "", "");
            self.text.push_str(&layout::table(table, self.width));
        }
        if !answer.notes.is_empty() {
            self.blank(1);
        }
        for note in &answer.notes {
            self.paragraph(&format!("{}: {}", note.label, note.text), "", "  ");
        }
        if answer.notes.is_empty() {
            self.blank(1);
        }
        self.apply(&answer.apply, answer.undo.as_deref());
        if let Some(report) = &answer.report {
            let _ = writeln!(self.text, "{:8} {}", "Report", clean(report));
        }
        if let Some(more) = &answer.more {
            let (line, aside) = (format!("{:8} {}", more.label, clean(&more.command)), clean(&more.aside));
            let fits = self.width.is_none_or(|width| line.width() + 4 + aside.width() <= width);
            let _ = match (aside.is_empty(), fits) {
                (true, _) => writeln!(self.text, "{line}"),
                (false, true) => writeln!(self.text, "{line}    {}", aside.dimmed()),
                (false, false) => writeln!(self.text, "{line}\n         {}", aside.dimmed()),
            };
        }
    }

    /// The commands to apply and to undo, on one line if there is room.
    fn apply(&mut self, apply: &[String], undo: Option<&str>) {
        let undo = undo.map(clean);
        if let ([only], Some(undo)) = (apply, &undo) {
            let (only, aside) = (clean(only), "  (undo: )".len() + undo.width());
            if self.width.is_none_or(|width| 9 + only.width() + aside <= width) {
                let _ = writeln!(self.text, "Apply    {}  (undo: {})", only.bold(), undo.bold());
                return;
            }
        }
        for (nth, command) in apply.iter().enumerate() {
            let _ = writeln!(self.text, "{}{}", if nth == 0 { "Apply    " } else { "         " }, clean(command).bold());
        }
        if let Some(undo) = undo {
            let _ = writeln!(self.text, "Undo     {}", undo.bold());
        }
    }

    /// The policy after a label of five columns; the confidence at the right edge, or below.
    fn use_this(&mut self, what: &RecommendationLine, label: &str) {
        let (choice, sure) = (clean(&what.in_words()), clean(&what.sure));
        let room = self.width.map_or(SCREEN, |width| width.min(SCREEN));
        let taken = label.len() + choice.width() + sure.width();
        // Closer together, they would read as one sentence.
        if !sure.is_empty() && taken + 4 <= room {
            let _ = writeln!(self.text, "{}{}{sure}", format!("{label}{choice}").bold(), " ".repeat(room - taken));
            return;
        }
        for line in lines::paragraph(&choice, self.width, label, "     ").lines() {
            let _ = writeln!(self.text, "{}", line.bold());
        }
        self.paragraph(&sure, "     ", "     ");
    }

    fn findings(&mut self, verdict: &Findings) {
        self.styled(&verdict.headline, |line| line.bold().to_string());
        for (title, items) in [("Evidence:", &verdict.evidence), ("What would change it, and what this does not show:", &verdict.caveats)] {
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
                self.sparklines(lines);
                marks.iter().for_each(|mark| self.mark(mark));
                let scale = if lines.len() > 1 { "; one scale for all" } else { "" };
                let axes = format!("{} over {}{scale}", chart.y_label, chart.x_label);
                let shown = lines::paragraph(&axes, self.width, "  ", "  ");
                shown.lines().for_each(|line| self.text.push_str(&format!("{}\n", line.dimmed())));
            }
            ChartKind::Dots { axes, dots } => {
                self.table(&Table { caption: String::new(), ..dots_table(chart, axes, dots, read_as(&chart.y_label), three_digits) })
            }
            ChartKind::Bars { categories, series } => {
                let (heading, read) = read_as(&chart.y_label);
                let mut header = vec![heading];
                header.extend(series.iter().map(|(name, _)| name.as_str()));
                let mut table = Table::new("", &header);
                for (i, category) in categories.iter().enumerate() {
                    let values = series.iter().map(|(_, values)| values.get(i).copied().flatten().map_or_else(String::new, read));
                    table.row(std::iter::once(category.clone()).chain(values));
                }
                self.table(&table);
            }
        }
    }

    fn mark(&mut self, mark: &Mark) {
        self.paragraph(&format!("at {}: {}", three_digits(mark.x), mark.label), "  ", "      ");
    }

    /// A row of blocks for each line, all on one scale; figures next to it, or below if there is
    /// no room.
    fn sparklines(&mut self, lines: &[ChartLine]) {
        let label = lines.iter().map(|line| clean(&line.name).chars().count()).max().unwrap_or(0);
        let high = lines.iter().flat_map(|line| &line.points).map(|p| p.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let figures: Vec<String> = lines.iter().map(|line| figures(&line.points)).collect();
        let longest = figures.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let room = self.width.unwrap_or(usize::MAX).saturating_sub(label + 3);
        let beside = room >= SPARK_WIDTH_MIN + 2 + longest;
        let spark = if beside { room - 2 - longest } else { room }.clamp(1, SPARK_WIDTH);
        for (line, figures) in lines.iter().zip(figures) {
            let row = format!("  {:label$} {}", clean(&line.name), sparkline(&line.points, high, spark));
            if beside {
                let _ = writeln!(self.text, "{row}  {figures}");
            } else {
                let _ = writeln!(self.text, "{row}");
                self.paragraph(&figures, "      ", "      ");
            }
        }
    }
}

/// Warnings, the most serious first.
fn warnings_at(warnings: &[Warning], width: Option<usize>) -> String {
    let mut sorted: Vec<&Warning> = warnings.iter().collect();
    sorted.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    let mut text = String::new();
    for warning in sorted {
        let word = match warning.severity {
            Severity::Note => "note:",
            Severity::Caution => "caution:",
            Severity::Serious => "serious:",
        };
        let message = lines::paragraph(&format!("{word} {}", warning.text), width, "", "  ");
        let behind = message.strip_prefix(word).unwrap_or(&message);
        let _ = match warning.severity {
            Severity::Note => write!(text, "{word}{behind}"),
            Severity::Caution => write!(text, "{}{behind}", word.yellow()),
            Severity::Serious => write!(text, "{}{behind}", word.red().bold()),
        };
    }
    text
}

/// A line in one row of block characters: the mean of each step on a scale from 0 to `high`;
/// a dot for no value.
fn sparkline(points: &[(f64, f64)], high: f64, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = width.min(points.len());
    let step = |step: usize| {
        let slice = &points[step * points.len() / width..(step + 1) * points.len() / width];
        let finite: Vec<f64> = slice.iter().map(|p| p.1).filter(|y| y.is_finite()).collect();
        if finite.is_empty() {
            return '·';
        }
        let mean = finite.iter().sum::<f64>() / finite.len() as f64;
        let level = if high > 0.0 { (mean / high * 7.0).round().clamp(0.0, 7.0) as usize } else { 0 };
        LEVELS[level]
    };
    (0..width).map(step).collect()
}

/// The first, last, lowest and highest value of a line.
fn figures(points: &[(f64, f64)]) -> String {
    let finite: Vec<f64> = points.iter().map(|p| p.1).filter(|y| y.is_finite()).collect();
    let (Some(first), Some(last)) = (finite.first(), finite.last()) else { return "(no values)".to_owned() };
    if finite.len() == 1 {
        return format!("{} (one value)", three_digits(*first));
    }
    let high = finite.iter().copied().fold(f64::MIN, f64::max);
    let low = finite.iter().copied().fold(f64::MAX, f64::min);
    format!("{} → {} (min {}, max {})", three_digits(*first), three_digits(*last), three_digits(low), three_digits(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, value: impl Fn(u32) -> f64) -> ChartLine {
        ChartLine { name: name.into(), points: (0..600).map(|i| (f64::from(i), value(i))).collect() }
    }

    fn drawn(lines: Vec<ChartLine>, width: Option<usize>) -> String {
        let kind = ChartKind::Lines { lines, marks: Vec::new() };
        let chart = Chart { title: "t".into(), x_label: "s".into(), y_label: "WAF".into(), kind };
        let document = Document {
            sections: vec![trimtab_study::document::Section::new("S", vec![SectionBlock::Chart(chart)])],
            ..Document::default()
        };
        anstream::adapter::strip_str(&render_at(&document, width)).to_string()
    }

    #[test]
    fn sparkline_shows_the_fall() {
        let drawn = drawn(vec![line("rate", |i| if i < 300 { 200.0 } else { 50.0 })], None);
        let row = drawn.lines().find(|line| line.contains("rate")).unwrap();
        assert!(row.contains("rate ███") && row.contains("█▃") && row.ends_with("200 → 50.0 (min 50.0, max 200)"), "{row}");
        assert_eq!((sparkline(&[], 1.0, 60), figures(&[])), (String::new(), "(no values)".to_owned()));
        assert_eq!(figures(&[(1.0, 30.0), (2.0, f64::NAN)]), "30.0 (one value)");
        assert_eq!(sparkline(&[(0.0, f64::NAN), (1.0, 0.0), (2.0, 8.0)], 8.0, 60), "·▁█");
    }

    /// Heights of the blocks in the row of a line.
    fn heights(drawn: &str, name: &str) -> Vec<u32> {
        let row = drawn.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        row.chars().filter(|c| ('▁'..='█').contains(c)).map(|c| c as u32 - '▁' as u32).collect()
    }

    #[test]
    fn compared_lines_have_one_scale() {
        for width in [None, Some(60), Some(80), Some(120)] {
            let drawn = drawn(vec![line("none", |_| 1.89), line("online", |i| if i == 0 { 1.89 } else { 1.06 })], width);
            let (none, online) = (heights(&drawn, "none"), heights(&drawn, "online"));
            assert!(none.iter().all(|h| *h == 7), "{drawn}");
            // 1.06 of 1.89 on eight levels.
            assert!(online[1..].iter().all(|h| *h == 4), "{drawn}");
            assert!(width.is_none_or(|width| drawn.lines().all(|line| line.chars().count() <= width)), "{drawn}");
        }
    }

    #[test]
    fn control_characters_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
    }

    /// Regression: the name of an imported run printed a line that looked like a verdict.
    #[test]
    fn name_cannot_start_a_new_line() {
        let forged = "x\n/mnt [ext4]: proved";
        let section = trimtab_study::document::Section::new(forged, vec![SectionBlock::Text(forged.into())]);
        let document = Document { title: forged.into(), subtitle: vec![forged.into()], sections: vec![section], ..Document::default() };
        let shown = anstream::adapter::strip_str(&render_at(&document, None)).to_string();
        assert!(shown.matches("x /mnt").count() == 4 && !shown.contains("\n/mnt"), "{shown}");
    }
}
