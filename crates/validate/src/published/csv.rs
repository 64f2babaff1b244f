//! Every published figure as a line of CSV.

use super::comparison::PublishedComparison;
use super::render;

const HEAD: &str = "workload,row,drive,figure,published,modelled,off,counts,remark,held_out,\
    trim_costs_of,source,frozen\n";

/// The figures of all rows, with names and values as in the Markdown document.
pub fn figures(comparison: &PublishedComparison) -> String {
    let mut text = String::from(HEAD);
    for row in &comparison.rows {
        for figure in &row.figures {
            let [name, published, modelled, off, counts] = render::cells(figure);
            let remark = render::remark(figure);
            let fields = [
                row.workload,
                &row.name,
                &row.drive,
                &name,
                &published,
                &modelled,
                &off,
                &counts,
                &remark,
                row.held_out.as_deref().unwrap_or_default(),
                row.trim_of.as_deref().unwrap_or_default(),
                &row.source,
                &row.frozen,
            ];
            text.push_str(&fields.map(field).join(","));
            text.push('\n');
        }
    }
    text
}

/// A field, quoted if it contains a comma, a quote or a line break.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
