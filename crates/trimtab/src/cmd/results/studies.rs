//! Studies beside each other: each of their runs with its like.

use super::form::Form;
use crate::output::Context;
use crate::report::{self, markdown};
use crate::store::RunId;
use serde::Serialize;
use trimtab_core::analysis::compare::Options;
use trimtab_core::analysis::compare::runs::Row;
use trimtab_core::document::{Document, Section};
use trimtab_core::study::{Study, beside};
use trimtab_core::usage::UsageError;

/// What `--json` prints.
#[derive(Serialize)]
struct Compared {
    baseline: String,
    study: String,
    cells: Vec<CellV1>,
    only_in_one: Vec<String>,
}

#[derive(Serialize)]
struct CellV1 {
    cell: String,
    figure: String,
    unit: &'static str,
    baseline_value: f64,
    value: f64,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    verdict: &'static str,
}

/// Compares studies with the first of them, prints that, and gives the figures that matter with their cells.
pub fn compare(studies: &[(RunId, Study)], options: &Options, form: Form, context: &Context) -> anyhow::Result<Vec<(String, Row)>> {
    let Some(((base_id, base), others)) = studies.split_first() else { return Ok(Vec::new()) };
    if form == Form::Tsv {
        return Err(UsageError::new("a comparison of studies has no tab-separated form").hint("use --json or --as markdown").into());
    }
    let mut all = Vec::new();
    let mut compared = Vec::new();
    let mut sections = Vec::new();
    for (id, study) in others {
        let rows = beside::headlines(base, study, options);
        let only = beside::only_in_one(base, study);
        sections.push(section(*base_id, *id, &rows, &only));
        compared.push(shape(*base_id, *id, &rows, only));
        all.extend(rows);
    }
    let subtitle = studies.iter().map(|(id, study)| format!("{}: {}", id.short(), study.target)).collect();
    let document = Document { title: format!("Comparison of {} studies", studies.len()), subtitle, sections, ..Document::default() };
    context.report_styled("studies-comparison", 1, &serde_json::json!({ "comparisons": compared }), || match form {
        Form::Markdown => markdown::render(&document),
        _ => report::text::render(&document),
    })?;
    Ok(all)
}

fn section(base: RunId, id: RunId, rows: &[(String, Row)], only: &[String]) -> Section {
    let title = "The figure that matters of each run; compare two runs for all others.";
    Section::new(format!("{} against {}", id.short(), base.short()), beside::blocks([&base.short(), &id.short()], title, rows, only, None))
}

fn shape(base: RunId, id: RunId, rows: &[(String, Row)], only_in_one: Vec<String>) -> Compared {
    let one = |(cell, row): &(String, Row)| CellV1 {
        cell: cell.clone(),
        figure: row.name.clone(),
        unit: row.unit.name(),
        baseline_value: row.comparison.a,
        value: row.comparison.b,
        ratio: row.comparison.ratio,
        interval: row.comparison.interval.map(|interval| [interval.low, interval.high]),
        verdict: row.comparison.verdict.words(row.unit),
    };
    Compared { baseline: base.to_string(), study: id.to_string(), cells: rows.iter().map(one).collect(), only_in_one }
}
