//! Compares studies, each run with its counterpart.

use super::StoredStudy;
use crate::store::RunId;
use crate::store::shape::comparison::figures;
use serde_json::{Map, Value, json};
use trimtab_linux::output::Context;
use trimtab_report::study::study_comparison;
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::ComparisonRow;
use trimtab_study::document::{Document, Section};
use trimtab_study::study::Study;

/// Compares studies with the first of them, prints the result, and returns the headline
/// figures with their cells.
pub fn compare(
    studies: &[StoredStudy],
    options: &ComparisonOptions,
    context: &Context,
) -> anyhow::Result<Vec<(String, ComparisonRow)>> {
    let Some((base, others)) = studies.split_first() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    let mut compared = Vec::new();
    let mut sections = Vec::new();
    for other in others {
        let (rows, only) = paired(&base.studies, &other.studies, options);
        sections.push(section(base.id, other.id, &rows, &only));
        compared.push(shape(base.id, other.id, &rows, &only));
        all.extend(rows);
    }
    let targets = |kept: &StoredStudy| {
        kept.studies.iter().map(|study| study.target.clone()).collect::<Vec<_>>().join(", ")
    };
    let subtitle =
        studies.iter().map(|kept| format!("{}: {}", kept.id.short(), targets(kept))).collect();
    let document = Document {
        title: format!("Comparison of {} studies", studies.len()),
        subtitle,
        sections,
        ..Document::default()
    };
    context.report_styled("studies-comparison", 1, &json!({ "comparisons": compared }), || {
        trimtab_report::text::render(&document)
    })?;
    Ok(all)
}

/// The headline figures of runs that both sides have, and the runs that only one side
/// has. If a side has several targets, compares studies of the same target.
fn paired(
    base: &[Study],
    other: &[Study],
    options: &ComparisonOptions,
) -> (Vec<(String, ComparisonRow)>, Vec<String>) {
    if let ([a], [b]) = (base, other) {
        return (study_comparison::headlines(a, b, options), study_comparison::only_in_one(a, b));
    }
    let none = Study::default();
    let like = |study: &Study, all| <[Study]>::iter(all).find(|one| one.target == study.target);
    let shared = base.iter().map(|a| (a, like(a, other).unwrap_or(&none)));
    let others = other.iter().filter(|b| like(b, base).is_none()).map(|b| (&none, b));
    let (mut rows, mut only) = (Vec::new(), Vec::new());
    for (a, b) in shared.chain(others) {
        let target = if a.target.is_empty() { &b.target } else { &a.target };
        rows.extend(
            study_comparison::headlines(a, b, options)
                .into_iter()
                .map(|(cell, row)| (format!("{target}, {cell}"), row)),
        );
        only.extend(
            study_comparison::only_in_one(a, b).into_iter().map(|cell| format!("{target}, {cell}")),
        );
    }
    (rows, only)
}

fn section(base: RunId, id: RunId, rows: &[(String, ComparisonRow)], only: &[String]) -> Section {
    let (base, id) = (base.short(), id.short());
    Section::new(format!("{id} against {base}"), study_comparison::blocks([&base, &id], rows, only))
}

fn shape(
    base: RunId,
    id: RunId,
    rows: &[(String, ComparisonRow)],
    only_in_one: &[String],
) -> Value {
    let one = |(cell, row): &(String, ComparisonRow)| -> Map<String, Value> {
        let named = [("cell", cell.as_str()), ("figure", &row.name), ("unit", row.unit.name())];
        let named = named.map(|(key, value)| (key.to_owned(), json!(value)));
        named.into_iter().chain(figures(&row.comparison, row.unit)).collect()
    };
    json!({ "baseline": base, "study": id, "cells": rows.iter().map(one).collect::<Value>(), "only_in_one": only_in_one })
}
