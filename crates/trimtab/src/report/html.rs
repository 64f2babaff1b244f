//! A document as one self-contained HTML file: opens offline, asks nobody for anything, light and dark, phone and print.

use super::document::{Block, Chart, ChartKind, Document, Table, Verdict, thinned};
use super::svg;
use super::text::clean;
use std::fmt::Write as _;
use trimtab_core::run::{Severity, Warning};

/// Points of a line that are drawn and listed; the store has all of them.
const POINTS_MAX: usize = 240;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The file.
pub fn render(document: &Document) -> String {
    let mut html = String::with_capacity(256 * 1024);
    let title = escape(&document.title);
    // The policy forbids every request, so that opening a report cannot tell anybody.
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
        series_style()
    );
    for line in &document.subtitle {
        let _ = writeln!(html, "<p class=\"sub\">{}</p>", escape(line));
    }
    html.push_str("</header>\n<nav aria-label=\"Sections\"><ul>\n");
    for (i, section) in document.sections.iter().enumerate() {
        let _ = writeln!(html, "<li><a href=\"#s{i}\">{}</a></li>", escape(&section.title));
    }
    html.push_str("</ul></nav>\n<main>\n");
    let mut charts = 0;
    for (i, section) in document.sections.iter().enumerate() {
        let _ = writeln!(html, "<section id=\"s{i}\">\n<h2>{}</h2>", escape(&section.title));
        for block in &section.blocks {
            write_block(&mut html, block, &mut charts);
        }
        html.push_str("</section>\n");
    }
    let _ = write!(html, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    html
}

/// `text` with everything that means something in HTML made harmless, in content and in attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in HTML; drive names contain them now and then.
            c if !crate::output::is_text(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// How each series looks: its colour in dark mode, and a dash pattern of its own.
fn series_style() -> String {
    const DARK: [&str; 6] = ["#6CB2FF", "#FF9D6B", "#4FD1C5", "#D0A0FF", "#F2C94C", "#A9B4C4"];
    const DASHES: [&str; 6] = ["none", "8 3", "2 3", "10 3 2 3", "5 5", "1 4"];
    let mut style = String::new();
    for ((light, dark), dash) in svg::PALETTE.iter().zip(DARK).zip(DASHES) {
        let _ = writeln!(style, "svg [stroke=\"{light}\"]{{stroke-dasharray:{dash}}}");
        let _ = writeln!(
            style,
            "@media screen and (prefers-color-scheme:dark){{svg [stroke=\"{light}\"]{{stroke:{dark}}}svg [fill=\"{light}\"]{{fill:{dark}}}}}"
        );
    }
    style
}

fn write_block(html: &mut String, block: &Block, charts: &mut usize) {
    match block {
        Block::Verdict(verdict) => write_verdict(html, verdict),
        Block::Text(text) => {
            let _ = writeln!(html, "<p>{}</p>", escape(text));
        }
        Block::Commands(commands) => {
            let _ = writeln!(html, "<pre><code>{}</code></pre>", escape(&commands.join("\n")));
        }
        Block::Table(table) => write_table(html, table),
        Block::Chart(chart) => {
            *charts += 1;
            write_chart(html, chart, *charts);
        }
        Block::Warnings(warnings) => write_warnings(html, warnings),
    }
}

fn write_verdict(html: &mut String, verdict: &Verdict) {
    let _ = writeln!(html, "<div class=\"verdict\"><p class=\"headline\">{}</p>", escape(&verdict.headline));
    for (title, items) in [("Evidence", &verdict.evidence), ("What would change it, and what this does not show", &verdict.caveats)] {
        if !items.is_empty() {
            let _ = writeln!(html, "<h3>{title}</h3>\n<ul>");
            for item in items {
                let _ = writeln!(html, "<li>{}</li>", escape(item));
            }
            html.push_str("</ul>\n");
        }
    }
    html.push_str("</div>\n");
}

fn write_table(html: &mut String, table: &Table) {
    html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html.push_str(&escape(&table.caption));
    html.push_str("\"><table>\n");
    let _ = writeln!(html, "<caption>{} <button type=\"button\" class=\"csv\">CSV</button></caption>\n<thead><tr>", escape(&table.caption));
    for heading in &table.header {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = if i == 0 { write!(html, "<th scope=\"row\">{cell}</th>") } else { write!(html, "<td>{cell}</td>") };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn write_warnings(html: &mut String, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    html.push_str("<ul class=\"warnings\">\n");
    for warning in warnings {
        let (class, word) = match warning.severity {
            Severity::Note => ("note", "Note"),
            Severity::Caution => ("caution", "Caution"),
            Severity::Serious => ("serious", "Serious"),
        };
        let _ = writeln!(
            html,
            "<li class=\"{class}\"><strong>{word}:</strong> {} <code>{}</code></li>",
            escape(&warning.text),
            escape(&warning.code)
        );
    }
    html.push_str("</ul>\n");
}

fn write_chart(html: &mut String, chart: &Chart, number: usize) {
    let chart = prepared(chart);
    let title = escape(&chart.title);
    let _ = writeln!(html, "<figure>\n<figcaption>{title}</figcaption>");
    let linear = svg::draw(&chart, false);
    let logarithmic = matches!(chart.kind, ChartKind::Lines { .. }).then(|| svg::draw(&chart, true)).flatten();
    match (linear, logarithmic) {
        (Some(linear), Some(logarithmic)) => {
            let _ = writeln!(
                html,
                "<fieldset class=\"scale\"><legend>Scale</legend>\
                 <input type=\"radio\" name=\"scale{number}\" id=\"log{number}\" class=\"log\" checked><label for=\"log{number}\">logarithmic</label> \
                 <input type=\"radio\" name=\"scale{number}\" id=\"lin{number}\" class=\"lin\"><label for=\"lin{number}\">linear</label></fieldset>\n\
                 <div class=\"plot plot-log\">{logarithmic}</div>\n<div class=\"plot plot-lin\">{linear}</div>"
            );
        }
        (Some(only), None) | (None, Some(only)) => {
            let _ = writeln!(html, "<div class=\"plot\">{only}</div>");
        }
        (None, None) => html.push_str("<p>There is nothing to draw.</p>\n"),
    }
    write_legend(html, &chart);
    let _ = writeln!(html, "<details><summary>The numbers</summary>");
    write_table(html, &numbers(&chart));
    html.push_str("</details>\n</figure>\n");
}

/// The chart with few enough points to draw and to list, and without control characters, which the drawing library lets through.
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
        ChartKind::Bars { categories, .. } => categories.iter_mut().for_each(|category| *category = clean(category)),
    }
    chart
}

fn write_legend(html: &mut String, chart: &Chart) {
    let (names, bars): (Vec<&str>, bool) = match &chart.kind {
        ChartKind::Lines { lines, .. } => (lines.iter().map(|line| line.name.as_str()).collect(), false),
        ChartKind::Bars { series, .. } => (series.iter().map(|(name, _)| name.as_str()).collect(), true),
    };
    html.push_str("<ul class=\"legend\">");
    for (name, colour) in names.iter().zip(svg::PALETTE.iter().cycle()) {
        let swatch = if bars {
            format!("<rect width=\"28\" height=\"10\" fill=\"{colour}\"/>")
        } else {
            format!("<line x1=\"0\" y1=\"5\" x2=\"28\" y2=\"5\" stroke=\"{colour}\" stroke-width=\"3\"/>")
        };
        let _ = write!(html, "<li><svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">{swatch}</svg>{}</li>", escape(name));
    }
    html.push_str("</ul>\n");
}

/// What a chart shows, as a table.
fn numbers(chart: &Chart) -> Table {
    match &chart.kind {
        ChartKind::Lines { lines, marks } => {
            let mut table = Table::new(chart.title.clone(), &["series", &chart.x_label, &chart.y_label]);
            for line in lines {
                for (x, y) in &line.points {
                    table.row([line.name.clone(), plain(*x), plain(*y)]);
                }
            }
            for mark in marks {
                table.row([format!("mark: {}", mark.label), plain(mark.x), String::new()]);
            }
            table
        }
        ChartKind::Bars { categories, series } => {
            let mut header = vec![chart.y_label.as_str()];
            header.extend(series.iter().map(|(name, _)| name.as_str()));
            let mut table = Table::new(chart.title.clone(), &header);
            for (i, category) in categories.iter().enumerate() {
                let values = series.iter().map(|(_, values)| values.get(i).copied().flatten().map_or_else(String::new, plain));
                table.row(std::iter::once(category.clone()).chain(values));
            }
            table
        }
    }
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
    use crate::report::document::{Line, Mark, Section};

    fn document(hostile: &str) -> Document {
        let mut table = Table::new(hostile, &["a", hostile]);
        table.row([hostile, "1"]);
        let line = Line { name: hostile.into(), points: (0..5000).map(|i| (f64::from(i), f64::from(i % 7) * 10.0 + 1.0)).collect() };
        let warning = Warning { code: hostile.into(), severity: Severity::Serious, facts: vec![], text: hostile.into() };
        let chart = |kind| Block::Chart(Chart { title: hostile.into(), x_label: hostile.into(), y_label: hostile.into(), kind });
        let blocks = vec![
            Block::Verdict(Verdict { headline: hostile.into(), evidence: vec![hostile.into()], caveats: vec![hostile.into()] }),
            Block::Text(hostile.into()),
            Block::Commands(vec![hostile.into()]),
            Block::Table(table),
            chart(ChartKind::Lines { lines: vec![line], marks: vec![Mark { x: 3.0, label: hostile.into() }] }),
            chart(ChartKind::Bars { categories: vec![hostile.into()], series: vec![(hostile.into(), vec![Some(3.0)])] }),
            Block::Warnings(vec![warning]),
        ];
        Document { title: hostile.into(), subtitle: vec![hostile.into()], sections: vec![Section::new(hostile, blocks)] }
    }

    #[test]
    fn no_text_can_become_markup() {
        let hostile = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m";
        let html = render(&document(hostile));
        assert!(!html.contains("<img") && !html.contains('\u{1b}'));
        assert_eq!(html.matches("</script>").count(), 1, "the page's own");
    }

    #[test]
    fn it_is_one_small_file_that_asks_nobody() {
        let html = render(&document("plain"));
        assert!(html.len() < 300_000, "{} bytes", html.len());
        for request in ["http://", "https://", "url(", "@import", "<iframe", "src="] {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(request), "{request}");
        }
        assert_eq!(html.matches("<figure>").count(), 2);
        assert!(html.contains("logarithmic"));
    }
}
