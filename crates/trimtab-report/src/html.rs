//! A document as one self-contained HTML file: works offline, makes no requests, light
//! and dark, phone and print.

use super::escape::{clean, escape};
use super::layout::NOT_STEADY;
use super::{page_data, palette};
use std::fmt::Write as _;
use trimtab_linux::output::lines::atoms;
use trimtab_sim::run::Warning;
use trimtab_study::document::{
    Chart, ChartKind, Document, Findings, NoteKind, SectionBlock, StudyAnswer, Table, thinned,
};

/// Points of a line that are drawn and listed; the store has all of them.
const POINTS_MAX: usize = 240;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The chart library that the script draws with; see `vendor/README.md`.
const LIBRARY: &str = include_str!("vendor/uplot.min.js");
const LIBRARY_STYLE: &str = include_str!("vendor/uplot.min.css");

/// Renders the file.
pub fn render(document: &Document) -> String {
    let mut page = Page::default();
    page.body(document);
    let title = escape(&document.title);
    let style = format!("{LIBRARY_STYLE}\n{STYLE}{}", look_style());
    let mut html = String::with_capacity(page.html.len() + 256 * 1024);
    let script =
        if page.live.is_empty() { SCRIPT.to_owned() } else { format!("{LIBRARY}\n{SCRIPT}") };
    // The policy forbids every request, so that opening a report discloses nothing, and
    // all scripts and styles except the two below.
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
            base-uri 'none'; form-action 'none'; img-src data: blob:; style-src '{}'; \
            script-src '{}'\">\n<meta name=\"viewport\" content=\"width=device-width, \
            initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
            <meta name=\"referrer\" content=\"no-referrer\">\n\
            <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
            <style>{style}</style>\n</head>\n<body>\n",
        hash(&style),
        hash(&script)
    );
    html.push_str(&page.html);
    if !page.live.is_empty() {
        let _ = writeln!(
            html,
            "<script type=\"application/json\" id=\"charts\">{}</script>",
            data(&page.live)
        );
    }
    let _ = write!(html, "<script>{script}</script>\n</body>\n</html>\n");
    html
}

/// Hash of a script or a style for the content security policy.
fn hash(text: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    format!(
        "sha256-{}",
        base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text))
    )
}

/// Data in the page, escaped so that it cannot end its element.
fn data(values: &[serde_json::Value]) -> String {
    let json = serde_json::to_string(values).unwrap_or_else(|_| "[]".to_owned());
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => {
                let _ = write!(safe, "\\u{:04x}", u32::from(c));
            }
            c if !trimtab_linux::output::is_text(c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A page under construction: the HTML, and the script's data.
#[derive(Default)]
struct Page {
    html: String,
    live: Vec<serde_json::Value>,
    charts: usize,
}

impl Page {
    fn body(&mut self, document: &Document) {
        let html = &mut self.html;
        let _ = writeln!(html, "<header>\n<h1>{}</h1>", escape(&document.title));
        for line in &document.subtitle {
            let _ = writeln!(html, "<p class=\"sub\">{}</p>", prose(line));
        }
        html.push_str("</header>\n<main>\n");
        if let Some(answer) = &document.answer {
            write_answer(html, answer);
        }
        if document.sections.iter().filter(|section| !section.folded).count() > 2 {
            html.push_str("<nav aria-label=\"Sections\"><ul>\n");
            for (i, section) in
                document.sections.iter().enumerate().filter(|(_, section)| !section.folded)
            {
                let _ = writeln!(html, "<li><a href=\"#s{i}\">{}</a></li>", escape(&section.title));
            }
            html.push_str("</ul></nav>\n");
        }
        for (i, section) in document.sections.iter().enumerate() {
            let title = escape(&section.title);
            let _ = match section.folded {
                true => writeln!(
                    self.html,
                    "<details class=\"section\" id=\"s{i}\"><summary><h2>{title}</h2></summary>"
                ),
                false => writeln!(self.html, "<section id=\"s{i}\">\n<h2>{title}</h2>"),
            };
            section.blocks.iter().for_each(|block| self.block(block));
            self.html.push_str(if section.folded { "</details>\n" } else { "</section>\n" });
        }
        self.html.push_str("</main>\n");
    }

    fn block(&mut self, block: &SectionBlock) {
        let html = &mut self.html;
        match block {
            SectionBlock::Findings(findings) => write_findings(html, findings),
            SectionBlock::Text(text) | SectionBlock::Caption(text) => {
                let _ = writeln!(html, "<p>{}</p>", prose(text));
            }
            SectionBlock::Table(table) => write_table(html, table, false),
            SectionBlock::Chart(chart) => {
                self.charts += 1;
                let chart = prepared(chart);
                let live = self.keep(page_data::chart(&chart));
                write_chart(&mut self.html, &chart, self.charts, live);
            }
            SectionBlock::Warnings(warnings) => write_warnings(html, warnings),
        }
    }

    /// Adds data for the script; returns its index.
    fn keep(&mut self, value: serde_json::Value) -> usize {
        self.live.push(value);
        self.live.len() - 1
    }
}

/// [`escape`] for prose: keeps a number and its unit on one line.
fn prose(text: &str) -> String {
    const NO_BREAK: &str = "\u{a0}";
    let mut glued = String::with_capacity(text.len());
    // Within an atom, a blank only precedes a unit; all other blanks and line ends stay.
    let mut rest = text;
    for atom in atoms(text).iter().filter(|atom| atom.contains(' ')) {
        let Some(at) = rest.find(atom.as_str()) else { continue };
        glued.push_str(&rest[..at]);
        glued.push_str(&atom.replace(' ', NO_BREAK));
        rest = &rest[at + atom.len()..];
    }
    glued.push_str(rest);
    escape(&glued)
}

/// Colours of the series, for the script.
fn look_style() -> String {
    let mut style = String::new();
    let variables = |colours: &[&str]| {
        let looks = colours.iter().enumerate();
        looks.map(|(at, colour)| format!("--look{at}:{colour};")).collect::<String>()
    };
    let _ = writeln!(style, ":root{{{}}}", variables(&palette::LIGHT));
    let _ = writeln!(
        style,
        "@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}",
        variables(&palette::DARK)
    );
    style
}

/// The answer, with the words, figures and order of the terminal's first screen.
fn write_answer(html: &mut String, answer: &StudyAnswer) {
    let _ = writeln!(
        html,
        "<section class=\"answer\" aria-label=\"The answer\">\n\
            <p class=\"origin\"><strong>{}</strong> <span>{}</span></p>",
        escape(&answer.in_use()),
        prose(&answer.origin)
    );
    for what in &answer.uses {
        let on =
            if what.on.is_empty() { String::new() } else { format!(" on {}", escape(&what.on)) };
        let (choice, meaning) = (escape(&what.choice), prose(&what.meaning));
        let _ = writeln!(
            html,
            "<p class=\"use\"><b>USE</b> <strong>{choice}</strong>{on}: {meaning}</p>"
        );
    }
    answer.table.iter().for_each(|table| write_table(html, table, true));
    html.push_str("<dl class=\"notes\">\n");
    for note in &answer.notes {
        let label = escape(&note.label);
        let _ = match &note.kind {
            NoteKind::Command(remark) => writeln!(
                html,
                "<dt>{label}</dt><dd><code>{}</code> {}</dd>",
                escape(&note.text),
                prose(remark)
            ),
            _ => writeln!(html, "<dt>{label}</dt><dd>{}</dd>", prose(&note.text)),
        };
    }
    html.push_str("</dl>\n</section>\n");
}

fn write_findings(html: &mut String, verdict: &Findings) {
    let _ = writeln!(
        html,
        "<div class=\"verdict\"><p class=\"headline\">{}</p>",
        prose(&verdict.headline)
    );
    for (title, items) in [
        ("Evidence", &verdict.evidence),
        ("What would change it, and what is not shown", &verdict.caveats),
    ] {
        if !items.is_empty() {
            let _ = writeln!(html, "<h3>{title}</h3>\n<ul>");
            for item in items {
                let _ = writeln!(html, "<li>{}</li>", prose(item));
            }
            html.push_str("</ul>\n");
        }
    }
    html.push_str("</div>\n");
}

/// Tables with more columns are set tighter, so that they fit a wide page.
const COLUMNS_PLAIN: usize = 9;
/// Cells with more characters are text, which may wrap.
const FIGURE_CHARS: usize = 50;

/// A table. The rows of one that stacks become blocks on narrow screens, each figure
/// after its column's name.
fn write_table(html: &mut String, table: &Table, stacks: bool) {
    let names = table.headings();
    let caption = prose(&table.caption);
    let _ = writeln!(
        html,
        "<p class=\"caption\">{caption} <button type=\"button\" class=\"csv\">CSV</button></p>"
    );
    html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html.push_str(&escape(&table.caption));
    let classes = [(table.header.len() > COLUMNS_PLAIN, "wide"), (stacks, "stack")];
    let classes: Vec<&str> =
        classes.into_iter().filter_map(|(has, class)| has.then_some(class)).collect();
    let classes = if classes.is_empty() {
        String::new()
    } else {
        format!(" class=\"{}\"", classes.join(" "))
    };
    let _ = writeln!(html, "\"><table{classes}>\n<thead>");
    write_groups(html, table);
    html.push_str("<tr>");
    let is_remark = |at: usize| table.remarks && at + 1 == table.header.len();
    for (at, heading) in table.header.iter().enumerate() {
        let class = if is_remark(at) { " class=\"text\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", prose(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let is_marked = |i: usize| {
        i > 0
            && table
                .rows
                .iter()
                .any(|row| row.get(i).is_some_and(|cell| cell.ends_with(NOT_STEADY)))
    };
    let marked: Vec<bool> = (0..table.header.len()).map(is_marked).collect();
    for (at, row) in table.rows.iter().enumerate() {
        html.push_str(if table.chosen.contains(&at) { "<tr class=\"chosen\">" } else { "<tr>" });
        for (i, cell) in row.iter().enumerate() {
            let marked = marked.get(i) == Some(&true);
            // The mark hangs to the right of its figure, so that digits stay aligned.
            let hung = if marked && !cell.ends_with(NOT_STEADY) {
                "<span class=\"hung\" aria-hidden=\"true\"></span>"
            } else {
                ""
            };
            let is_text = is_remark(i) || cell.chars().count() > FIGURE_CHARS;
            let cell = format!("{}{hung}", prose(cell));
            let of =
                if stacks { format!(" data-of=\"{}\"", escape(&names[i])) } else { String::new() };
            let _ = match i {
                0 => write!(html, "<th scope=\"row\">{cell}</th>"),
                _ if is_text => write!(html, "<td class=\"text\"{of}>{cell}</td>"),
                _ => write!(html, "<td{of}>{cell}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

/// Titles above groups of columns.
fn write_groups(html: &mut String, table: &Table) {
    if table.groups.is_empty() {
        return;
    }
    html.push_str("<tr class=\"groups\">");
    let mut at = 0;
    while let Some(group) = table.groups.get(at) {
        let span = table.groups[at..].iter().take_while(|other| *other == group).count();
        let _ = write!(html, "<th colspan=\"{span}\">{}</th>", escape(group));
        at += span;
    }
    html.push_str("</tr>\n");
}

fn write_warnings(html: &mut String, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    html.push_str("<ul class=\"warnings\">\n");
    for warning in warnings {
        let (class, code) = (warning.severity.name(), escape(&warning.code));
        let _ = writeln!(
            html,
            "<li class=\"{class}\"><strong>{class}:</strong> {} <code>{code}</code></li>",
            prose(&warning.text)
        );
    }
    html.push_str("</ul>\n");
}

fn write_chart(html: &mut String, chart: &Chart, number: usize, live: usize) {
    let title = prose(&chart.title);
    let _ = writeln!(
        html,
        "<figure id=\"c{number}\" data-chart=\"{live}\">\n<figcaption>{title}</figcaption>"
    );
    if let ChartKind::Lines { lines, .. } = &chart.kind {
        for line in lines {
            if let [(x, y)] =
                line.points.iter().filter(|(_, y)| y.is_finite()).collect::<Vec<_>>()[..]
            {
                let (name, x_label, y_label) =
                    (prose(&line.name), prose(&chart.x_label), prose(&chart.y_label));
                let _ = writeln!(
                    html,
                    "<p class=\"sub\">{name} has only one value, shown as a dot: {} \
                        ({y_label}) at {} ({x_label}).</p>",
                    plain(*y),
                    plain(*x)
                );
            }
        }
    }
    let _ = writeln!(html, "<details class=\"numbers\"><summary>The numbers</summary>");
    write_table(html, &chart.table((&chart.y_label, plain), plain), false);
    html.push_str("</details>\n</figure>\n");
}

/// The chart reduced to a drawable number of points, without control characters.
fn prepared(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    for text in [&mut chart.title, &mut chart.x_label, &mut chart.y_label] {
        *text = clean(text);
    }
    match &mut chart.kind {
        ChartKind::Lines { lines, marks } => {
            for line in lines {
                line.points = thinned(&line.points, POINTS_MAX);
            }
            marks.iter_mut().for_each(|mark| mark.label = clean(&mark.label));
        }
        ChartKind::Dots { axes, dots } => {
            axes.iter_mut().for_each(|axis| *axis = clean(axis));
            dots.iter_mut().for_each(|dot| dot.name = clean(&dot.name));
        }
    }
    chart
}

/// A number for a table of data: up to six significant digits.
fn plain(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::Severity;
    use trimtab_study::document::{ChartLine, Mark, Section};

    fn document(hostile: &str) -> Document {
        let mut table = Table::new(hostile, &["a", hostile]);
        table.row([hostile, "1"]);
        let line = ChartLine {
            name: hostile.into(),
            points: (0..5000).map(|i| (f64::from(i), f64::from(i % 7) * 10.0 + 1.0)).collect(),
        };
        let warning = Warning {
            code: hostile.into(),
            severity: Severity::Serious,
            facts: vec![],
            text: hostile.into(),
        };
        let chart = |kind| {
            SectionBlock::Chart(Chart {
                title: hostile.into(),
                x_label: hostile.into(),
                y_label: hostile.into(),
                kind,
            })
        };
        let blocks = vec![
            SectionBlock::Findings(Findings {
                headline: hostile.into(),
                evidence: vec![hostile.into()],
                caveats: vec![hostile.into()],
            }),
            SectionBlock::Text(hostile.into()),
            SectionBlock::Table(table),
            chart(ChartKind::Lines {
                lines: vec![line],
                marks: vec![Mark { x: 3.0, label: hostile.into() }],
            }),
            SectionBlock::Warnings(vec![warning]),
        ];
        Document {
            title: hostile.into(),
            subtitle: vec![hostile.into()],
            sections: vec![Section::new(hostile, blocks)],
            ..Document::default()
        }
    }

    /// Regression: an empty picture for a series with one value.
    #[test]
    fn render_explains_series_with_one_value() {
        let line = |name: &str, points: &[(f64, f64)]| ChartLine {
            name: name.into(),
            points: points.to_vec(),
        };
        let (one, two) = (
            line("alone", &[(2.0, 30.0), (3.0, f64::NAN)]),
            line("both", &[(1.0, 5.0), (2.0, 6.0)]),
        );
        let kind = ChartKind::Lines { lines: vec![one, two], marks: Vec::new() };
        let chart =
            Chart { title: "t".into(), x_label: "GB".into(), y_label: "writes/s".into(), kind };
        let sections = vec![Section::new("s", vec![SectionBlock::Chart(chart)])];
        let html = render(&Document { sections, ..Document::default() });
        assert!(
            html.contains("alone has only one value, shown as a dot: 30 (writes/s) at 2 (GB)."),
            "{html}"
        );
        assert!(!html.contains("both has only"));
    }

    #[test]
    fn render_escapes_hostile_text() {
        let hostile = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m";
        let html = render(&document(hostile));
        assert!(!html.contains("<img") && !html.contains('\u{1b}'));
        assert_eq!(html.matches("</script>").count(), 2, "the page's own, and that of its data");
    }

    #[test]
    fn prose_keeps_number_and_unit_together() {
        assert_eq!(
            prose("waits 148 ms, of 1.5 GB;  12 %\nin 5 files <b>"),
            "waits 148\u{a0}ms, of 1.5\u{a0}GB;  12\u{a0}%\nin 5 files &lt;b&gt;"
        );
        let html = render(&document("at 148 ms"));
        assert!(html.contains("<p>at 148\u{a0}ms</p>") && html.contains("<li>at 148\u{a0}ms</li>"));
    }

    #[test]
    fn render_gives_one_small_file_without_requests() {
        let html = render(&document("plain"));
        assert!(html.len() < 400_000, "{} bytes", html.len());
        for request in ["http://", "https://", "url(", "@import", "<iframe", "src="] {
            // The library names its home in a comment.
            let found = html.replace("/*! https://github.com/leeoniya/uPlot", "");
            assert!(!found.contains(request), "{request}");
        }
        assert_eq!(html.matches("<figure ").count(), 1);
    }
}
