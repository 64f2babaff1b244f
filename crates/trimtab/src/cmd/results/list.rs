//! `trimtab results list`.

use super::form::{Form, FormArgs};
use crate::report::escape::clean;
use crate::report::layout::on_screen;
use crate::report::markdown;
use crate::report::run::{instant, readable};
use crate::report::terse::{Terse, number};
use crate::store::{self, Filter, Reference, RunId, Summary};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::sys::clock::unix_ms;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Provenance};
use trimtab_study::document::{Narrow, Table};

/// List stored runs, newest last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Where standard output is not a terminal and COLUMNS is not set, it is tab-separated: a line of names, then a line for each run. What is a list by itself (options) is as people read it; --json has all settings.

Examples:
  trimtab results list
  trimtab results list --workload postmark --since 7d
  trimtab results list --target nvme --policy online --limit 5
  trimtab results list --studies
  trimtab results list --study study:last
  trimtab results list --label kernel-6.19        what was kept with --label kernel-6.19
  trimtab results list | cut -f 1,12,14,17                id, figure, mean and options of each
  trimtab results list --json | jq -r '.runs[].id'")]
pub struct Args {
    /// Only of this workload.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only under this trim policy.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Only on targets whose name contains this.
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// Only runs that began at or after this time: 2026-03-01, or 7d for the last seven days.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only of this study: study:ID, study:last, study:last~1.
    #[arg(long, value_name = "STUDY", value_parser = super::study_reference)]
    study: Option<Reference>,
    /// Studies instead of single runs.
    #[arg(long, conflicts_with_all = ["study", "workload", "policy", "since"])]
    studies: bool,
    /// Only the newest N.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    form: FormArgs,
}

#[derive(Serialize)]
struct List<'a> {
    runs: &'a [Summary],
}

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let form = args.form.of_list(context)?;
    if args.studies {
        return studies(args, form, context);
    }
    let study = match &args.study {
        Some(reference) => Some(super::open(context)?.find_study(reference)?.0),
        None => None,
    };
    let filter = Filter {
        label: context.label.clone(),
        study,
        workload: args.workload.clone(),
        policy: args.policy.clone(),
        target: args.target.clone(),
        since_unix_ms: args.since.as_deref().map(|text| super::instant_of(text, unix_ms())).transpose()?,
        limit: args.limit,
    };
    let found = match store::open_to_read(context)? {
        Some(store) => store.list(&filter)?,
        None => Vec::new(),
    };
    // A program that requested TSV gets a table without rows.
    if found.is_empty() && !context.json && args.form.form != Some(Form::Tsv) {
        let which = if filter == Filter::default() { "no runs are stored yet" } else { "no stored run fits" };
        context.remark(which);
        return Ok(ExitCode::SUCCESS);
    }
    context.report("runs-list", 1, &List { runs: &found }, || match form {
        Form::Text => on_screen(&table(&found)),
        Form::Markdown => markdown::of_table(&table(&found)),
        Form::Tsv => terse(&found),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn terse(found: &[Summary]) -> String {
    let mut terse = Terse::new(&[
        "id",
        "label",
        "study",
        "began",
        "workload",
        "target",
        "policy",
        "fill",
        "provenance",
        "complete",
        "warnings",
        "figure",
        "unit",
        "mean",
        "repeats",
        "altered",
        "options",
    ]);
    for (run, options) in found.iter().zip(all_options(found)) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let figure = run.metric.as_ref();
        terse.row([
            run.id.to_string(),
            text(&run.label),
            run.study.map_or_else(String::new, |id| id.to_string()),
            instant(run.started_unix_ms).replace(" UTC", "Z").replacen(' ', "T", 1),
            run.workload.clone(),
            run.target_label.clone(),
            run.policy.clone(),
            text(&run.fill),
            run.provenance.name().to_owned(),
            if run.complete { "yes" } else { "no" }.to_owned(),
            run.warnings.to_string(),
            figure.map_or_else(String::new, |f| f.name.clone()),
            figure.map_or_else(String::new, |f| f.unit.name().to_owned()),
            number(run.mean()),
            figure.map_or_else(String::new, |f| f.samples.len().to_string()),
            if run.altered { "yes" } else { "no" }.to_owned(),
            options,
        ]);
    }
    terse.into_text()
}

/// Formats one column of the list for a run.
type Cell = fn(&Summary) -> String;

fn table(found: &[Summary]) -> Table {
    let columns: [(&str, Cell); 10] = [
        ("id", |run| run.id.short()),
        ("label", |run| run.label.as_deref().map(clean).unwrap_or_default()),
        ("study", |run| run.study.map_or_else(String::new, store::RunId::short)),
        ("began, UTC", |run| instant(run.started_unix_ms).trim_end_matches(":00 UTC").trim_end_matches(" UTC").to_owned()),
        ("workload", |run| clean(&run.workload)),
        ("target", |run| clean(&run.target_label)),
        ("policy", |run| clean(&run.policy)),
        ("fill", |run| run.fill.as_deref().map(clean).unwrap_or_default()),
        ("figure", figure),
        ("remarks", remarks),
    ];
    let mut cells: Vec<(&str, Vec<String>)> = columns.iter().map(|(name, cell)| (*name, found.iter().map(cell).collect())).collect();
    cells.insert(8, ("options", all_options(found)));
    // Omit columns that are empty for every run.
    cells.retain(|(_, cells)| said(cells));
    let header: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let mut table = Table::new("", &header).when_narrow(Narrow::Records);
    for row in 0..found.len() {
        table.row(cells.iter().map(|(_, cells)| cells[row].clone()));
    }
    table
}

fn said(cells: &[String]) -> bool {
    cells.iter().any(|cell| !cell.is_empty())
}

/// The runs of one workload on one target, without those that a study tries.
#[derive(Default)]
struct Alike<'a> {
    runs: usize,
    /// For each setting: the number of runs that have it, and its values.
    settings: BTreeMap<&'a str, (usize, BTreeSet<&'a str>)>,
    generations: BTreeSet<Option<&'a str>>,
}

impl<'a> Alike<'a> {
    fn groups(all: &'a [Summary]) -> BTreeMap<(&'a str, &'a str), Self> {
        let mut groups = BTreeMap::<_, Self>::new();
        for run in all.iter().filter(|run| Field::find(&run.settings, "tuning.question").is_none()) {
            let group = groups.entry((run.workload.as_str(), run.target_label.as_str())).or_default();
            group.runs += 1;
            group.generations.insert(run.generation.as_deref());
            let mut known = BTreeSet::new();
            for field in run.settings.iter().filter(|field| known.insert(&field.key)) {
                let (runs, values) = group.settings.entry(&field.key).or_default();
                *runs += 1;
                values.insert(&field.value);
            }
        }
        groups
    }

    /// True if another run has a different value.
    fn differs(&self, field: &Field) -> bool {
        let value = field.value.as_str();
        let without = (field.key == "repeats").then_some("1");
        let (runs, values) = self.settings.get(field.key.as_str()).map_or((0, None), |(runs, values)| (*runs, Some(values)));
        values.is_some_and(|values| values.iter().any(|other| *other != value)) || runs < self.runs && without != Some(value)
    }
}

/// The settings in which a run differs from similar runs.
fn options(run: &Summary, alike: Option<&Alike<'_>>) -> String {
    // The study's choice replaces the settings derived from it.
    if let (Some(question), Some(choice)) = (Field::find(&run.settings, "tuning.question"), Field::find(&run.settings, "tuning.choice")) {
        return clean(&format!("{question}: {choice}"));
    }
    let differs = |field: &Field| alike.is_some_and(|alike| alike.differs(field));
    // The fill level determines the amount of data.
    let implied = |key: &str| key == "fill" || (key == "live" && run.fill.is_some());
    let shown = run.settings.iter().filter(|field| !implied(&field.key) && (is_structured(field) || differs(field)));
    let settings = shown.map(|field| {
        let value = readable(&field.key, &field.value);
        if is_structured(field) { value } else { format!("{} {value}", field.key) }
    });
    let others = alike.is_some_and(|alike| alike.generations.iter().any(|other| *other != run.generation.as_deref()));
    let generation = run.generation.clone().filter(|_| others);
    clean(&settings.chain(generation).collect::<Vec<_>>().join(", "))
}

/// [`options`] of each run.
fn all_options(all: &[Summary]) -> Vec<String> {
    let groups = Alike::groups(all);
    all.iter().map(|run| options(run, groups.get(&(run.workload.as_str(), run.target_label.as_str())))).collect()
}

/// True for a JSON value: a run that is a study of its own.
fn is_structured(field: &Field) -> bool {
    field.value.starts_with(['{', '['])
}

fn figure(run: &Summary) -> String {
    run.metric.as_ref().map_or_else(String::new, |metric| {
        let mean = metric.samples.iter().sum::<f64>() / metric.samples.len() as f64;
        format!("{} {}", clean(&metric.name), quantity(mean, metric.unit))
    })
}

fn remarks(run: &Summary) -> String {
    let mut remarks = Vec::new();
    if run.altered {
        remarks.push("altered: not what was saved".to_owned());
    }
    if run.provenance != Provenance::Measured {
        remarks.push(run.provenance.name().to_owned());
    }
    if run.systems > 1 {
        remarks.push(format!("sum of {} systems", run.systems));
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

#[derive(Serialize)]
struct Studies {
    studies: Vec<StudyRow>,
}

#[derive(Serialize)]
struct StudyRow {
    id: RunId,
    target: String,
    complete: bool,
    began_unix_ms: u64,
    policies: Vec<String>,
    runs: Vec<RunId>,
}

/// Lists studies instead of runs.
fn studies(args: &Args, form: Form, context: &Context) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    if let Some(store) = store::open_to_read(context)? {
        for (id, record) in store.studies()? {
            let runs = store.list(&Filter { study: Some(id), ..Filter::default() })?;
            let mut policies: Vec<String> = runs.iter().map(|run| run.policy.clone()).collect();
            policies.sort();
            policies.dedup();
            rows.push(StudyRow {
                id,
                target: record.target,
                complete: record.complete,
                began_unix_ms: runs.iter().map(|run| run.started_unix_ms).min().unwrap_or(0),
                policies,
                runs: record.runs.iter().map(|(_, id)| *id).collect(),
            });
        }
    }
    rows.retain(|row| args.target.as_ref().is_none_or(|part| row.target.to_lowercase().contains(&part.to_lowercase())));
    let skipped = args.limit.map_or(0, |limit| rows.len().saturating_sub(limit));
    let list = Studies { studies: rows.split_off(skipped) };
    if list.studies.is_empty() && !context.json && args.form.form != Some(Form::Tsv) {
        context.remark("no studies are stored");
        return Ok(ExitCode::SUCCESS);
    }
    context.report("studies-list", 1, &list, || {
        if form == Form::Tsv {
            return terse_studies(&list);
        }
        let mut table = Table::new("", &["study", "began", "target", "runs", "policies", "remarks"]).when_narrow(Narrow::Records);
        for row in &list.studies {
            let remark = if row.complete { "" } else { "interrupted" };
            table.row([
                row.id.short(),
                instant(row.began_unix_ms),
                clean(&row.target),
                row.runs.len().to_string(),
                clean(&row.policies.join(", ")),
                remark.to_owned(),
            ]);
        }
        if form == Form::Markdown { markdown::of_table(&table) } else { on_screen(&table) }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn terse_studies(list: &Studies) -> String {
    let mut terse = Terse::new(&["id", "began", "target", "runs", "policies", "complete"]);
    for study in &list.studies {
        terse.row([
            study.id.to_string(),
            instant(study.began_unix_ms).replace(" UTC", "Z").replacen(' ', "T", 1),
            study.target.clone(),
            study.runs.len().to_string(),
            study.policies.join(","),
            if study.complete { "yes" } else { "no" }.to_owned(),
        ]);
    }
    terse.into_text()
}
