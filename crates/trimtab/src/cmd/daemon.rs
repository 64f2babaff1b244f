//! `trimtab daemon`.

use crate::daemon::config::{Config, DEFAULT_PATH, Rule};
use crate::daemon::{self, Options};
use crate::error::UsageError;
use crate::output::Context;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  trimtab daemon --check                 is the configuration right?
  trimtab daemon                         as trimtab.service does; log lines go to standard error
  trimtab daemon --config ./my.toml

Signals: SIGHUP reads the configuration again, SIGUSR1 asks for a trim of everything now, SIGTERM ends it: a pass under way goes
on when it is started again. Filesystems are kept open only while a request runs, so they can be unmounted at any time.

History: trimtab results list --store /var/lib/trimtab/history.db

Environment: TRIMTAB_RUNTIME_DIR in place of /run/trimtab (locks, and what has to be put back after a crash; the same for all that
trim), TRIMTAB_STATE_DIR in place of /var/lib/trimtab where the configuration names no other.

Exit status: 0 ended by a signal, or the configuration is right; 1 failed; 2 the configuration is wrong.";

/// Arguments of `trimtab daemon`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The configuration.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
    /// The system is going down: trim what is configured for that, and end.
    #[arg(long, conflicts_with = "check")]
    shutdown: bool,
}

#[derive(Serialize)]
struct CheckedRule {
    path: Option<String>,
    policy: String,
    settings: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Checked {
    config: String,
    rules: Vec<CheckedRule>,
}

/// Checks, or runs.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.check {
        let config = Config::read(&args.config).map_err(|e| UsageError::new(e.to_string()))?;
        let checked = Checked { config: args.config.display().to_string(), rules: config.rules.iter().map(checked).collect() };
        context.report("daemon-check", 1, &checked, || text(&checked))?;
        return Ok(ExitCode::SUCCESS);
    }
    Config::read(&args.config).map_err(|e| UsageError::new(e.to_string()))?;
    daemon::run(Options { config: args.config.clone(), shutdown: args.shutdown })?;
    Ok(ExitCode::SUCCESS)
}

fn checked(rule: &Rule) -> CheckedRule {
    CheckedRule {
        path: rule.path.as_ref().map(|p| p.display().to_string()),
        policy: rule.policy.to_string(),
        settings: rule.policy.settings().into_iter().map(|f| (f.key, f.value)).collect(),
    }
}

fn text(checked: &Checked) -> String {
    if checked.rules.is_empty() {
        return format!("{} is right, and names no filesystem: nothing is trimmed", checked.config);
    }
    let mut lines = vec![format!("{} is right:", checked.config)];
    for rule in &checked.rules {
        let settings: Vec<String> = rule.settings.iter().map(|(k, v)| format!("{}={v}", k.trim_start_matches("policy."))).collect();
        lines.push(format!("  {}: {} ({})", rule.path.as_deref().unwrap_or("every other filesystem"), rule.policy, settings.join(", ")));
    }
    lines.join("\n")
}
