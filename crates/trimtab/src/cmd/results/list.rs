//! `trimtab results list`.

use crate::report::stored_runs::table;
use crate::store::{self, Filter, Reference, RunId, Summary};
use serde::Serialize;
use serde_json::json;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_report::escape::clean;
use trimtab_report::layout::on_screen;
use trimtab_report::run::instant;
use trimtab_study::document::Table;

/// List stored runs in the order they were kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab results list
  trimtab results list --limit 5
  trimtab results list --studies
  trimtab results list --study study:last
  trimtab results list --label kernel-6.19        what was kept with --label kernel-6.19
  trimtab results list --json | jq -r '.runs[] | select(.workload == \"tree\") | .id'")]
pub struct ResultsListArgs {
    /// Only of this study: study:ID, study:last, study:last~1.
    #[arg(long, value_name = "STUDY", value_parser = super::study_reference)]
    study: Option<Reference>,
    /// Studies instead of single runs.
    #[arg(long, conflicts_with = "study")]
    studies: bool,
    /// Only the last N kept.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Serialize)]
struct List<'a> {
    runs: &'a [Summary],
}

/// Runs the command.
pub fn run(args: &ResultsListArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.studies {
        return studies(args, context);
    }
    let study = match &args.study {
        Some(reference) => Some(super::open(context)?.find_study(reference)?.0),
        None => None,
    };
    let label = context.label.clone();
    let filter =
        Filter { label, study, limit: args.limit.map(NonZeroUsize::get), ..Filter::default() };
    let found = match store::open_to_read(context)? {
        Some(store) => store.list(&filter)?,
        None => Vec::new(),
    };
    if found.is_empty() && !context.json {
        let which = if filter == Filter::default() {
            "no runs are stored yet"
        } else {
            "no stored run fits"
        };
        context.remark(which);
        return Ok(ExitCode::SUCCESS);
    }
    context.report("runs-list", 1, &List { runs: &found }, || on_screen(&table(&found)))?;
    Ok(ExitCode::SUCCESS)
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
fn studies(args: &ResultsListArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    if let Some(store) = store::open_to_read(context)? {
        for (id, record) in store.studies() {
            let runs = store.list(&Filter { study: Some(*id), ..Filter::default() })?;
            let mut policies: Vec<String> = runs.iter().map(|run| run.policy.clone()).collect();
            policies.sort();
            policies.dedup();
            rows.push(StudyRow {
                id: *id,
                target: record.target.clone(),
                complete: record.complete,
                began_unix_ms: runs.iter().map(|run| run.started_unix_ms).min().unwrap_or(0),
                policies,
                runs: record.runs.iter().map(|of| of.run).collect(),
            });
        }
    }
    let skipped = args.limit.map_or(0, |limit| rows.len().saturating_sub(limit.get()));
    let studies = rows.split_off(skipped);
    if studies.is_empty() && !context.json {
        context.remark("no studies are stored");
        return Ok(ExitCode::SUCCESS);
    }
    context.report("studies-list", 1, &json!({ "studies": studies }), || {
        let mut table =
            Table::new("", &["study", "began", "target", "runs", "policies", "remarks"]);
        for row in &studies {
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
        on_screen(&table)
    })?;
    Ok(ExitCode::SUCCESS)
}
