//! `trimtab history`: lists what was applied and trimmed on this machine.

use crate::cmd::options::count;
use crate::history::events::{EventFilter, Events};
use crate::report::history::text;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal;
use trimtab_linux::sys::clock::unix_ms;

/// List what was applied, undone and trimmed on this machine, by hand and by the daemon;
/// newest last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each trim is a run: 'trimtab results show ID --store /var/lib/trimtab/history.db' shows all of it.

Examples:
  trimtab history
  trimtab history /home --since 7d
  trimtab history --json | jq -c '.events[]'")]
pub struct HistoryArgs {
    /// Show only this filesystem: a mount point, or a directory on it.
    path: Option<PathBuf>,
    /// Show only events that began at or after this time: 2026-03-01, or 7d for the last
    /// seven days.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show only the newest N events.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30, value_parser = count(1..))]
    limit: u32,
    /// Show the history of the system below this directory instead of the running one.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

/// Prints the events.
pub fn run(args: &HistoryArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let since = args.since.as_deref().map(|text| instant_of(text, unix_ms())).transpose()?;
    let wish = EventFilter {
        path: args.path.as_deref(),
        since_unix_ms: since,
        limit: args.limit as usize,
        sysroot: args.sysroot.as_deref(),
    };
    let is_denied = |error: &anyhow::Error| {
        args.sysroot.is_none() && !rustix::process::geteuid().is_root() && journal::is_denied(error)
    };
    let events = Events::read(&wish, context).map_err(|error| match is_denied(&error) {
        true => error.context("the history belongs to root: run with sudo"),
        false => error,
    })?;
    if events.events.is_empty() && !context.json {
        let when = args.since.as_ref().map_or_else(String::new, |when| {
            let is_age = when.parse::<trimtab_drive::units::Nanos>().is_ok();
            format!(" {} {when}", if is_age { "in the last" } else { "since" })
        });
        context.remark(&format!("the history has no trim and no applied policy{when}"));
        return Ok(ExitCode::SUCCESS);
    }
    context.report("history", 1, &events, || text(&events))?;
    Ok(ExitCode::SUCCESS)
}

/// Parses a time: `2026-03-01`, `2026-03-01T12:00Z`, or an age such as `7d`, `12h`.
fn instant_of(text: &str, now_unix_ms: u64) -> Result<u64, UsageError> {
    if let Ok(ago) = text.parse::<trimtab_drive::units::Nanos>() {
        return Ok(now_unix_ms.saturating_sub(ago.0 / 1_000_000));
    }
    let timestamp = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    let minute =
        || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%MZ").map(|time| time.and_utc());
    let day = || text.parse::<NaiveDate>().map(|date| date.and_time(NaiveTime::MIN).and_utc());
    let timestamp = timestamp.or_else(|_| minute()).or_else(|_| day());
    timestamp.ok().and_then(|time| u64::try_from(time.timestamp_millis()).ok()).ok_or_else(|| {
        UsageError::new(format!("'{}' is not a time", text.escape_debug()))
            .hint("say 2026-03-01, 2026-03-01T12:00:00Z or 7d")
    })
}
