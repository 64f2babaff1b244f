//! `trimtab results`: finding, comparing and moving what was measured.

mod add;
mod compare;
mod delete;
mod export;
mod import;
mod list;
mod report;
mod show;

use crate::error::UsageError;
use crate::output::Context;
use crate::store::{self, Reference, RunId, Store};
use clap::Subcommand;
use std::process::ExitCode;
use trimtab_core::run::Run;

/// Arguments of `trimtab results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A run is named by the first digits of its id, or by last, last~1, last~2 …

Examples:
  trimtab results list --workload tree
  trimtab results show last
  trimtab results compare last~1 last
  trimtab results report last~1 last --output both.html
  trimtab results export --output results.json")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::Args),
    Show(show::Args),
    Compare(compare::Args),
    Report(report::Args),
    Export(export::Args),
    Import(import::Args),
    Add(add::Args),
    Delete(delete::Args),
}

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::List(args) => list::run(args, context),
        Action::Show(args) => show::run(args, context),
        Action::Compare(args) => compare::run(args, context),
        Action::Report(args) => report::run(args, context),
        Action::Export(args) => export::run(args, context),
        Action::Import(args) => import::run(args, context),
        Action::Add(args) => add::run(args, context),
        Action::Delete(args) => delete::run(args, context),
    }
}

/// The store, for a command that names a run in it.
fn open(context: &Context) -> anyhow::Result<Store> {
    let store = store::open_to_read(context)?;
    store.ok_or_else(|| anyhow::anyhow!("nothing has been stored yet; run trimtab bench, or trimtab results import"))
}

fn reference(text: &str) -> Result<Reference, String> {
    text.parse()
}

/// The runs that `references` mean, in their order.
fn load(store: &Store, references: &[Reference]) -> anyhow::Result<Vec<(RunId, Run)>> {
    references
        .iter()
        .map(|reference| {
            let id = store.find(reference)?;
            Ok((id, store.load(id)?))
        })
        .collect()
}

/// `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// An instant: `2026-03-01`, `2026-03-01T12:00Z`, or how long ago: `7d`, `12h`.
fn instant(text: &str, now_unix_ms: u64) -> Result<u64, UsageError> {
    if let Ok(ago) = text.parse::<trimtab_core::units::Nanos>() {
        return Ok(now_unix_ms.saturating_sub(ago.0 / 1_000_000));
    }
    let timestamp = text.parse::<jiff::Timestamp>().or_else(|_| {
        text.parse::<jiff::civil::Date>().and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC)).map(|zoned| zoned.timestamp())
    });
    timestamp
        .ok()
        .and_then(|t| u64::try_from(t.as_millisecond()).ok())
        .ok_or_else(|| UsageError::new(format!("'{}' is no time", text.escape_debug())).hint("say 2026-03-01, 2026-03-01T12:00:00Z or 7d"))
}
