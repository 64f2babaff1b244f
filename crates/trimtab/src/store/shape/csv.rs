//! Figures as CSV: one row per repeat of each metric, for spreadsheets and for figures
//! published elsewhere.
//!
//! Columns in any order; those in brackets are optional:
//! `workload`, `target_label`, `metric`, `unit`, `value`, [`id`, `target`, `policy`,
//! `seed`, `provenance`, `systems`, `started_unix_ms`, `tool_version`, `complete`,
//! `better`, `repeat`], and any number of [`setting.NAME`, `policy.NAME`,
//! `environment.NAME`, `specification.NAME`]. Only a run's first row holds its
//! specification. Consecutive rows that agree in all columns except the metric's form one
//! run. An empty cell means "not set".
//!
//! Phases, latencies and series are not included; JSON has everything.

use crate::store::RunId;
use csv::StringRecord;
use std::collections::BTreeMap;
use std::str::FromStr;
use trimtab_linux::output::{begins_formula, harmless_cell};
use trimtab_sim::run::{Better, Field, Metric, Provenance, Run, TargetKind, Unit};

/// Description and position of an error.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line}{}: {what}",
    column.as_ref().map(|c| format!(", column {}", c.escape_debug())).unwrap_or_default()
)]
pub struct CsvError {
    line: u64,
    column: Option<String>,
    what: String,
}

const REQUIRED: [&str; 5] = ["workload", "target_label", "metric", "unit", "value"];
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
/// Prefix of columns with long texts, which do not distinguish rows.
const SPECIFICATION: &str = "specification.";

/// Default direction of improvement for figures of this unit.
const fn usual_direction(unit: Unit) -> Better {
    match unit {
        Unit::Seconds | Unit::Nanos => Better::Lower,
        Unit::MegabytesPerSecond | Unit::OpsPerSecond => Better::Higher,
        Unit::Bytes | Unit::Count | Unit::Ratio | Unit::Percent => Better::Neither,
    }
}

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

/// Reverts [`harmless_cell`].
fn as_it_was(cell: &str) -> &str {
    cell.strip_prefix('\'')
        .filter(|cell| begins_formula(cell.trim_start_matches('\'')))
        .unwrap_or(cell)
}

/// Parses the runs in `text`.
pub fn read(text: &str) -> Result<Vec<Run>, CsvError> {
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let header = reader.headers().map_err(broken)?.clone();
    check_header(&header)?;
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<Vec<String>> = None;
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let position = record.position().cloned();
        let mut record: StringRecord = record.iter().map(as_it_was).collect();
        record.set_position(position);
        let row = CsvRow {
            header: &header,
            record: &record,
            line: record.position().map_or(0, csv::Position::line),
        };
        let of_run = |column: &str| !METRIC.contains(&column) && !column.starts_with(SPECIFICATION);
        let head: Vec<String> = header
            .iter()
            .zip(&record)
            .filter(|(c, _)| of_run(c))
            .map(|(_, v)| v.to_owned())
            .collect();
        let specified = header
            .iter()
            .zip(&record)
            .any(|(column, value)| column.starts_with(SPECIFICATION) && !value.is_empty());
        if specified || before.as_ref() != Some(&head) {
            runs.push(row.run()?);
            before = Some(head);
        }
        let run = runs.last_mut().expect("the first row has made one");
        row.add_sample(run)?;
    }
    Ok(runs)
}

fn broken(error: csv::Error) -> CsvError {
    let line = error.position().map_or(1, csv::Position::line);
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns, and the header has {expected_len}")
        }
        _ => error.to_string(),
    };
    CsvError { line, column: None, what }
}

fn check_header(header: &StringRecord) -> Result<(), CsvError> {
    let fault = |column: &str, what: String| {
        Err(CsvError { line: 1, column: Some(column.to_owned()), what })
    };
    for (i, column) in header.iter().enumerate() {
        let known = HEAD.contains(&column)
            || METRIC.contains(&column)
            || SCOPES.iter().any(|s| column.starts_with(s));
        if !known {
            return fault(
                column,
                format!(
                    "not known; columns are {}, {}, setting.NAME, policy.NAME, \
                        environment.NAME and specification.NAME",
                    HEAD.join(", "),
                    METRIC.join(", ")
                ),
            );
        }
        if header.iter().take(i).any(|other| other == column) {
            return fault(column, "there twice".to_owned());
        }
    }
    match REQUIRED.iter().find(|required| !header.iter().any(|column| column == **required)) {
        Some(missing) => fault(missing, "missing".to_owned()),
        None => Ok(()),
    }
}

/// One row, with its position for messages.
struct CsvRow<'a> {
    header: &'a StringRecord,
    record: &'a StringRecord,
    line: u64,
}

impl CsvRow<'_> {
    /// The cell in a column; `None` if it is empty or the column is missing.
    fn cell(&self, column: &str) -> Option<&str> {
        let at = self.header.iter().position(|c| c == column)?;
        self.record.get(at).filter(|cell| !cell.is_empty())
    }

    fn fault(&self, column: &str, what: String) -> CsvError {
        CsvError { line: self.line, column: Some(column.to_owned()), what }
    }

    fn parse<T: FromStr>(&self, column: &str, default: T, expected: &str) -> Result<T, CsvError> {
        let Some(cell) = self.cell(column) else { return Ok(default) };
        cell.trim()
            .parse()
            .map_err(|_| self.fault(column, format!("'{}' is not {expected}", cell.escape_debug())))
    }

    fn named<T: FromStr<Err = String>>(&self, column: &str, default: T) -> Result<T, CsvError> {
        let Some(cell) = self.cell(column) else { return Ok(default) };
        cell.trim().parse().map_err(|what| self.fault(column, what))
    }

    fn required(&self, column: &str) -> Result<&str, CsvError> {
        self.cell(column).ok_or_else(|| self.fault(column, "empty".to_owned()))
    }

    fn text(&self, column: &str) -> String {
        self.cell(column).unwrap_or_default().to_owned()
    }

    /// The run that this row describes, without figures.
    fn run(&self) -> Result<Run, CsvError> {
        let systems: u32 = self.parse("systems", 1, "a number of systems")?;
        if systems == 0 {
            return Err(self.fault("systems", "a result is of at least one system".to_owned()));
        }
        let scope = |prefix: &str| {
            let set = self.header.iter().zip(self.record).filter(|(_, value)| !value.is_empty());
            set.filter_map(|(column, value)| Some(Field::new(column.strip_prefix(prefix)?, value)))
                .collect()
        };
        Ok(Run {
            workload: self.required("workload")?.to_owned(),
            settings: scope(SCOPES[0]),
            target: self.named("target", TargetKind::Elsewhere)?,
            target_label: self.required("target_label")?.to_owned(),
            policy: self.text("policy"),
            policy_settings: scope(SCOPES[1]),
            seed: self.parse("seed", 0, "a seed (a whole number)")?,
            provenance: self.named("provenance", Provenance::Entered)?,
            systems,
            started_unix_ms: self.parse(
                "started_unix_ms",
                0,
                "a time in milliseconds since 1970",
            )?,
            tool_version: self.text("tool_version"),
            complete: self.parse("complete", true, "true or false")?,
            environment: scope(SCOPES[2]),
            specification: scope(SPECIFICATION),
            ..Run::empty()
        })
    }

    fn add_sample(&self, run: &mut Run) -> Result<(), CsvError> {
        let name = self.required("metric")?;
        self.required("unit")?;
        let unit = self.named("unit", Unit::Count)?;
        let better = self.named("better", usual_direction(unit))?;
        let cell = self.required("value")?;
        let value = cell.trim().parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| {
            self.fault("value", format!("'{}' is not a finite number", cell.escape_debug()))
        })?;
        match run.metrics.iter_mut().find(|m| m.name == name) {
            None => run.metrics.push(Metric {
                name: name.to_owned(),
                unit,
                better,
                samples: vec![value],
            }),
            Some(metric) if metric.unit == unit && metric.better == better => {
                metric.samples.push(value)
            }
            Some(_) => {
                return Err(self.fault(
                    "unit",
                    format!("the repeats of '{}' differ in unit or direction", name.escape_debug()),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::example;
    use proptest::prelude::*;

    #[test]
    fn csv_round_trips_figures_settings_and_environment() {
        let mut run = example();
        run.target_label = "a \"quoted\", label\nin two lines ü".into();
        let other =
            Run { settings: vec![Field::new("tries", "3")], seed: 8, systems: 4, ..example() };
        let made = vec![
            Field::new("command", "[\"study\"]"),
            Field::new("drive", "name = \"x\"\n[flash]\n"),
        ];
        // Two equal runs: the first row of each begins a run.
        let again = Run { specification: made.clone(), ..example() };
        let runs = [run, other, again.clone(), again];
        let back = read(&write(&runs)).unwrap();
        let bare = |run: &Run| Run {
            phases: Vec::new(),
            series: Vec::new(),
            counters: Vec::new(),
            warnings: Vec::new(),
            ..run.clone()
        };
        assert_eq!(back, runs.iter().map(bare).collect::<Vec<_>>());
    }

    #[test]
    fn csv_format_matches_snapshot() {
        insta::assert_snapshot!(write(&[example()]));
    }

    #[test]
    fn csv_of_published_table_needs_five_columns() {
        let text = "workload,target_label,metric,unit,value,systems\n\
            sfs2008,EMC VNX,ops,ops/s,497623,4\nsfs2008,EMC VNX,ort,ns,960000,4\n\
            sfs2008,FAS6240,ops,ops/s,190675,\n";
        let runs = read(text).unwrap();
        let shown: Vec<_> = runs
            .iter()
            .map(|r| (r.target_label.as_str(), r.systems, r.metrics.len(), r.provenance))
            .collect();
        assert_eq!(
            shown,
            [("EMC VNX", 4, 2, Provenance::Entered), ("FAS6240", 1, 1, Provenance::Entered)]
        );
        assert_eq!(
            (runs[0].metrics[0].better, runs[0].metrics[1].better),
            (Better::Higher, Better::Lower)
        );
    }

    #[test]
    fn csv_error_names_line_and_column() {
        let head = "workload,target_label,metric,unit,value,systems\n";
        for (text, expected) in [
            ("workload,metric\n", "line 1, column target_label: missing"),
            (
                "workload,target_label,metric,unit,value,colour\n",
                "line 1, column colour: not known",
            ),
            (
                "workload,target_label,metric,unit,value,value\n",
                "line 1, column value: there twice",
            ),
            ("w,l,m,s,1,1\n", "line 1, column w: not known"),
            (
                &format!("{head}w,l,m,s,1,1\nw,l,m,s,x,1\n"),
                "line 3, column value: 'x' is not a finite number",
            ),
            (
                &format!("{head}w,l,m,s,1,1\nw,l,m,s,nan,1\n"),
                "line 3, column value: 'nan' is not a finite number",
            ),
            (
                &format!("{head}w,l,m,s,-inf,1\n"),
                "line 2, column value: '-inf' is not a finite number",
            ),
            (
                &format!("{head}w,l,m,s,1e999,1\n"),
                "line 2, column value: '1e999' is not a finite number",
            ),
            (&format!("{head}w,l,m,parsec,1,1\n"), "line 2, column unit: unknown unit 'parsec'"),
            (
                &format!("{head}w,l,m,s,1,0\n"),
                "line 2, column systems: a result is of at least one",
            ),
            (&format!("{head}w,l,m,s\n"), "line 2: 4 columns, and the header has 6"),
            (&format!("{head}w,l,m,s,,1\n"), "line 2, column value: empty"),
            (
                &format!("{head}w,l,m,s,1,1\nw,l,m,ns,1,1\n"),
                "line 3, column unit: the repeats of 'm' differ",
            ),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{expected}: {message}");
        }
    }

    proptest! {
        #[test]
        fn csv_read_of_any_text_never_panics(text in "(workload,target_label,metric,unit,value\n)?(.|\n)*") {
            let _ = read(&text);
        }
    }
}
