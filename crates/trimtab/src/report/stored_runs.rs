//! Stored runs, one per row.

use crate::store::{RunId, Summary};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_report::escape::clean;
use trimtab_report::run::{instant, readable};
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Provenance};
use trimtab_study::document::{NarrowLayout, Table};

/// Formats one column of the list for a run.
type ColumnFormatter = fn(&Summary) -> String;

/// Stored runs for people.
pub fn table(found: &[Summary]) -> Table {
    let columns: [(&str, ColumnFormatter); 10] = [
        ("id", |run| run.id.short()),
        ("label", |run| run.label.as_deref().map(clean).unwrap_or_default()),
        ("study", |run| run.study.map_or_else(String::new, RunId::short)),
        ("began, UTC", |run| {
            instant(run.started_unix_ms)
                .trim_end_matches(":00 UTC")
                .trim_end_matches(" UTC")
                .to_owned()
        }),
        ("workload", |run| clean(&run.workload)),
        ("target", |run| clean(&run.target_label)),
        ("policy", |run| clean(&run.policy)),
        ("fill", |run| run.fill.as_deref().map(clean).unwrap_or_default()),
        ("figure", figure),
        ("remarks", remarks),
    ];
    let mut cells: Vec<(&str, Vec<String>)> =
        columns.iter().map(|(name, cell)| (*name, found.iter().map(cell).collect())).collect();
    cells.insert(8, ("options", all_options(found)));
    // Omit columns that are empty for every run.
    cells.retain(|(_, cells)| said(cells));
    let header: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let mut table = Table::new("", &header).when_narrow(NarrowLayout::Records);
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
struct WorkloadRuns<'a> {
    runs: usize,
    /// For each setting: the number of runs that have it, and its values.
    settings: BTreeMap<&'a str, (usize, BTreeSet<&'a str>)>,
    generations: BTreeSet<Option<&'a str>>,
}

impl<'a> WorkloadRuns<'a> {
    fn groups(all: &'a [Summary]) -> BTreeMap<(&'a str, &'a str), Self> {
        let mut groups = BTreeMap::<_, Self>::new();
        for run in all.iter().filter(|run| Field::find(&run.settings, "tuning.question").is_none())
        {
            let group =
                groups.entry((run.workload.as_str(), run.target_label.as_str())).or_default();
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
        let (runs, values) = self
            .settings
            .get(field.key.as_str())
            .map_or((0, None), |(runs, values)| (*runs, Some(values)));
        values.is_some_and(|values| values.iter().any(|other| *other != value))
            || runs < self.runs && without != Some(value)
    }
}

/// The settings in which a run differs from similar runs.
fn options(run: &Summary, alike: Option<&WorkloadRuns<'_>>) -> String {
    // The study's choice replaces the settings derived from it.
    if let (Some(question), Some(choice)) =
        (Field::find(&run.settings, "tuning.question"), Field::find(&run.settings, "tuning.choice"))
    {
        return clean(&format!("{question}: {choice}"));
    }
    let differs = |field: &Field| alike.is_some_and(|alike| alike.differs(field));
    // The fill level determines the amount of data.
    let implied = |key: &str| key == "fill" || (key == "live" && run.fill.is_some());
    let shown = run
        .settings
        .iter()
        .filter(|field| !implied(&field.key) && (is_structured(field) || differs(field)));
    let settings = shown.map(|field| {
        let value = readable(&field.key, &field.value);
        if is_structured(field) { value } else { format!("{} {value}", field.key) }
    });
    let others = alike.is_some_and(|alike| {
        alike.generations.iter().any(|other| *other != run.generation.as_deref())
    });
    let generation = run.generation.clone().filter(|_| others);
    clean(&settings.chain(generation).collect::<Vec<_>>().join(", "))
}

/// [`options`] of each run.
fn all_options(all: &[Summary]) -> Vec<String> {
    let groups = WorkloadRuns::groups(all);
    all.iter()
        .map(|run| options(run, groups.get(&(run.workload.as_str(), run.target_label.as_str()))))
        .collect()
}

/// True for a JSON value: a run that is a study of its own.
fn is_structured(field: &Field) -> bool {
    field.value.starts_with(['{', '['])
}

fn figure(run: &Summary) -> String {
    let figure = run.metric.as_ref().zip(run.mean());
    figure.map_or_else(String::new, |(metric, mean)| {
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
