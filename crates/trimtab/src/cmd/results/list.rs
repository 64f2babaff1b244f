//! `trimtab results list`.

use crate::output::Context;
use crate::report::document::{Narrow, Table};
use crate::report::run::{instant, quantity};
use crate::report::text::clean;
use crate::runner::unix_ms;
use crate::store::{self, Filter, Summary};
use serde::Serialize;
use std::process::ExitCode;
use trimtab_core::run::Provenance;

/// List stored runs, newest last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results list
  trimtab results list --workload postmark --since 7d
  trimtab results list --target nvme --policy online --limit 5
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
    /// Only what began then or later: 2026-03-01, or 7d for the last seven days.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only the newest N.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Row {
    id: String,
    started_unix_ms: u64,
    workload: String,
    target: &'static str,
    target_label: String,
    policy: String,
    provenance: &'static str,
    systems: u32,
    complete: bool,
    warnings: u64,
    metric: Option<Figure>,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    mean: Option<f64>,
    repeats: usize,
}

#[derive(Serialize)]
struct List {
    runs: Vec<Row>,
}

/// Lists.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let filter = Filter {
        workload: args.workload.clone(),
        policy: args.policy.clone(),
        target: args.target.clone(),
        since_unix_ms: args.since.as_deref().map(|text| super::instant(text, unix_ms())).transpose()?,
        limit: args.limit,
    };
    let found = match store::open_to_read(context)? {
        Some(store) => store.list(&filter)?,
        None => Vec::new(),
    };
    let list = List { runs: found.iter().map(row).collect() };
    if found.is_empty() && !context.json {
        let which = if filter == Filter::default() { "no runs are stored yet" } else { "no stored run fits" };
        context.remark(which);
        return Ok(ExitCode::SUCCESS);
    }
    context.report("runs-list", 1, &list, || table(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn row(summary: &Summary) -> Row {
    let mean = |samples: &[f64]| Some(samples.iter().sum::<f64>() / samples.len() as f64).filter(|mean| mean.is_finite());
    Row {
        id: summary.id.to_string(),
        started_unix_ms: summary.started_unix_ms,
        workload: summary.workload.clone(),
        target: summary.target.name(),
        target_label: summary.target_label.clone(),
        policy: summary.policy.clone(),
        provenance: summary.provenance.name(),
        systems: summary.systems,
        complete: summary.complete,
        warnings: summary.warnings,
        metric: summary.metric.as_ref().map(|m| Figure {
            name: m.name.clone(),
            unit: m.unit.name(),
            mean: mean(&m.samples),
            repeats: m.samples.len(),
        }),
    }
}

fn table(found: &[Summary]) -> String {
    let header = ["id", "began", "workload", "target", "policy", "figure", "remarks"];
    let mut table = Table::new("", &header).when_narrow(Narrow::Records);
    for summary in found {
        let figure = summary.metric.as_ref().map_or_else(String::new, |m| {
            let mean = m.samples.iter().sum::<f64>() / m.samples.len() as f64;
            format!("{} {}", clean(&m.name), quantity(mean, m.unit))
        });
        let mut remarks = Vec::new();
        if summary.provenance != Provenance::Measured {
            remarks.push(summary.provenance.name().to_owned());
        }
        if summary.systems > 1 {
            remarks.push(format!("sum of {} systems", summary.systems));
        }
        if !summary.complete {
            remarks.push("interrupted".to_owned());
        }
        match summary.warnings {
            0 => {}
            1 => remarks.push("1 warning".to_owned()),
            n => remarks.push(format!("{n} warnings")),
        }
        table.row([
            summary.id.short(),
            instant(summary.started_unix_ms),
            clean(&summary.workload),
            clean(&summary.target_label),
            clean(&summary.policy),
            figure,
            remarks.join(", "),
        ]);
    }
    table.on_screen()
}
