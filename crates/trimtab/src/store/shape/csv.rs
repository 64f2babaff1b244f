//! Figures as CSV, for spreadsheets: one row per repeat of each metric. The columns are in
//! docs/method/stored-results.md. Only a run's first row holds its specification. An empty
//! cell means "not set".
//!
//! Phases, latencies and series are not included; JSON has everything.

use crate::store::RunId;
use std::collections::BTreeMap;
use trimtab_linux::output::harmless_cell;
use trimtab_sim::run::Run;

const HEAD: [&str; 11] = [
    "id",
    "workload",
    "target",
    "target_label",
    "policy",
    "seed",
    "provenance",
    "systems",
    "started_unix_ms",
    "tool_version",
    "complete",
];
const METRIC: [&str; 5] = ["metric", "unit", "better", "repeat", "value"];
const SCOPES: [&str; 4] = ["setting.", "policy.", "environment.", SPECIFICATION];
/// Prefix of columns with long texts.
const SPECIFICATION: &str = "specification.";

/// The settings and the environment of a run, by column.
fn fields(run: &Run) -> Vec<(String, &str)> {
    let lists = [&run.settings, &run.policy_settings, &run.environment, &run.specification];
    let mut all = Vec::new();
    for (prefix, list) in SCOPES.into_iter().zip(lists) {
        all.extend(list.iter().map(|f| (format!("{prefix}{}", f.key), f.value.as_str())));
    }
    all
}

/// Formats the figures of `runs`.
pub fn write(runs: &[Run]) -> String {
    let mut extra: Vec<String> = Vec::new();
    for (column, _) in runs.iter().flat_map(fields) {
        if !extra.contains(&column) {
            extra.push(column);
        }
    }
    let header = HEAD
        .into_iter()
        .chain(METRIC)
        .map(str::to_owned)
        .chain(extra.iter().map(|column| harmless_cell(column)));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer
        .write_record(header)
        .and_then(|()| runs.iter().try_for_each(|run| write_rows(&mut writer, run, &extra)));
    written
        .and_then(|()| Ok(writer.flush()?))
        .expect("writing to memory does not fail, and all rows have the header's columns");
    let bytes = writer.into_inner().expect("it has been flushed");
    String::from_utf8(bytes).expect("only text was written")
}

fn write_rows(writer: &mut csv::Writer<Vec<u8>>, run: &Run, extra: &[String]) -> csv::Result<()> {
    let head = [
        RunId::of(run).to_string(),
        run.workload.clone(),
        run.target.name().to_owned(),
        run.target_label.clone(),
        run.policy.clone(),
        run.seed.to_string(),
        run.provenance.name().to_owned(),
        run.systems.to_string(),
        run.started_unix_ms.to_string(),
        run.tool_version.clone(),
        run.complete.to_string(),
    ];
    let fields: BTreeMap<String, &str> = fields(run).into_iter().collect();
    let mut first = true;
    for metric in &run.metrics {
        for (repeat, sample) in metric.samples.iter().enumerate() {
            let figure = [
                metric.name.clone(),
                metric.unit.name().to_owned(),
                metric.better.name().to_owned(),
                (repeat + 1).to_string(),
                sample.to_string(),
            ];
            let shown = |column: &String| first || !column.starts_with(SPECIFICATION);
            let settings = extra.iter().map(|column| {
                fields
                    .get(column)
                    .filter(|_| shown(column))
                    .map_or_else(String::new, |v| (*v).to_owned())
            });
            writer.write_record(
                head.iter().cloned().chain(figure).chain(settings).map(|cell| harmless_cell(&cell)),
            )?;
            first = false;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::example;
    use trimtab_sim::run::Field;

    #[test]
    fn csv_format_matches_snapshot() {
        insta::assert_snapshot!(write(&[example()]));
    }

    #[test]
    fn csv_quotes_cells_and_gives_the_specification_once() {
        let target_label = "a \"quoted\", label\nin two lines ü".to_owned();
        let specification = vec![Field::new("drive", "name = \"x\"\n[flash]\n")];
        let text = write(&[Run { target_label, specification, ..example() }]);
        assert!(text.contains("\"a \"\"quoted\"\", label\nin two lines ü\""), "{text}");
        assert_eq!(text.matches("[flash]").count(), 1, "{text}");
        assert!(example().metrics[0].samples.len() > 1, "several rows");
    }
}
