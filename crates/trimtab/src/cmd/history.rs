//! `trimtab history`: lists what was applied and trimmed on this machine.

use crate::cmd::options::count;
use crate::history::events::{EventFilter, Events};
use crate::report::history::text;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal;

/// List what was applied, undone and trimmed on this machine, by hand and by the daemon;
/// newest last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each trim is a run: 'trimtab results show ID --store /var/lib/trimtab/history.db' shows all of it.

Examples:
  trimtab history
  trimtab history /home -n 100
  trimtab history --json | jq -c '.events[]'")]
pub struct HistoryArgs {
    /// Show only this filesystem: a mount point, or a directory on it.
    path: Option<PathBuf>,
    /// Show only the newest N events.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30, value_parser = count(1..))]
    limit: u32,
}

/// Prints the events.
pub fn run(args: &HistoryArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let wish = EventFilter { path: args.path.as_deref(), limit: args.limit as usize };
    let is_denied =
        |error: &anyhow::Error| !rustix::process::geteuid().is_root() && journal::is_denied(error);
    let events = Events::read(&wish, context).map_err(|error| match is_denied(&error) {
        true => error.context("the history belongs to root: run with sudo"),
        false => error,
    })?;
    if events.events.is_empty() && !context.json {
        context.remark("the history has no trim and no applied policy");
        return Ok(ExitCode::SUCCESS);
    }
    context.report("history", 1, &events, || text(&events))?;
    Ok(ExitCode::SUCCESS)
}
