//! Stored runs, one per row.

use crate::store::{RunId, Summary};
use trimtab_report::escape::clean;
use trimtab_report::run::instant;
use trimtab_sim::run::Provenance;
use trimtab_sim::run::shown::quantity;
use trimtab_study::document::Table;

/// Formats one column of the list for a run.
type ColumnFormatter = fn(&Summary) -> String;

/// Stored runs for people.
pub fn table(found: &[Summary]) -> Table {
    let columns: [(&str, ColumnFormatter); 10] = [
        ("id", |run| run.id.short()),
        ("label", |run| run.label.as_deref().map(clean).unwrap_or_default()),
        ("study", |run| run.study.map_or_else(String::new, RunId::short)),
        ("began, UTC", |run| instant(run.started_unix_ms).trim_end_matches(" UTC").to_owned()),
        ("workload", |run| clean(&run.workload)),
        ("target", |run| clean(&run.target_label)),
        ("policy", |run| clean(&run.policy)),
        ("fill", |run| run.fill.as_deref().map(clean).unwrap_or_default()),
        ("figure", figure),
        ("remarks", remarks),
    ];
    let mut cells: Vec<(&str, Vec<String>)> =
        columns.iter().map(|(name, cell)| (*name, found.iter().map(cell).collect())).collect();
    // Omit columns that are empty for every run.
    cells.retain(|(_, cells)| said(cells));
    let header: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let mut table = Table::new("", &header);
    for row in 0..found.len() {
        table.row(cells.iter().map(|(_, cells)| cells[row].clone()));
    }
    table
}

fn said(cells: &[String]) -> bool {
    cells.iter().any(|cell| !cell.is_empty())
}

fn figure(run: &Summary) -> String {
    let figure = run.metric.as_ref().zip(run.mean());
    figure.map_or_else(String::new, |(metric, mean)| {
        format!("{} {}", clean(&metric.name), quantity(mean, metric.unit))
    })
}

fn remarks(run: &Summary) -> String {
    let mut remarks = Vec::new();
    if run.provenance != Provenance::Measured {
        remarks.push(run.provenance.name().to_owned());
    }
    if !run.complete {
        remarks.push("interrupted".to_owned());
    }
    match run.warnings {
        0 => {}
        1 => remarks.push("1 warning".to_owned()),
        n => remarks.push(format!("{n} warnings")),
    }
    remarks.join(", ")
}
