//! `trimtab daemon`.

use crate::daemon;
use crate::daemon::config::{Config, DEFAULT_PATH, Rule};
use crate::daemon::selection::Selection;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::mountinfo;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::error::USAGE;
use trimtab_linux::output::{self, Context, plain_line};
use trimtab_linux::session::journal::MountScope;
use trimtab_linux::sys::beneath::named::{self, Streams};

const EXAMPLES: &str = "\
Examples:
  trimtab daemon --check                 check the configuration
  trimtab daemon                         run as trimtab.service does; log to standard error
  trimtab daemon --config ./my.toml

Signals: SIGHUP reads the configuration again; a change of state or metrics-socket needs a restart, \
which the log says, but not --check. SIGUSR1 asks for a trim of everything now. SIGTERM ends \
the daemon; the next start continues an interrupted pass. Filesystems are kept open only during a \
request, so they can be unmounted at any time.

History: trimtab results list --store /var/lib/trimtab/history.db

Environment: TRIMTAB_RUNTIME_DIR replaces /run/trimtab (locks, and settings to restore after a crash); \
use the same for everything that trims. TRIMTAB_STATE_DIR replaces /var/lib/trimtab unless the \
configuration names a state directory.

Exit status: 0 ended by a signal, or the configuration is valid; 1 failed, or a file cannot be \
read or written; 2 the configuration is wrong.";

/// Arguments of `trimtab daemon`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DaemonArgs {
    /// Read this configuration.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
}

impl DaemonArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        if self.check { MountScope::Nothing } else { MountScope::Everything }
    }
}

#[derive(Serialize)]
struct RuleCheck {
    path: Option<String>,
    policy: String,
    settings: Vec<(String, String)>,
    /// Whether the path is a mount point now; `None` for the rule for all other
    /// filesystems.
    mounted: Option<bool>,
}

#[derive(Serialize)]
struct ConfigProblem {
    line: usize,
    text: String,
}

#[derive(Serialize)]
struct ConfigCheck {
    config: String,
    right: bool,
    rules: Vec<RuleCheck>,
    /// Rules without effect on this machine at present, with reasons.
    remarks: Vec<String>,
    errors: Vec<ConfigProblem>,
}

/// Checks the configuration, or runs the daemon.
pub fn run(args: &DaemonArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.check {
        return check(args, context);
    }
    refuse_unusable(args)?;
    Config::read(&args.config).map_err(|e| UsageError::new(e.to_string()))?;
    daemon::run(&args.config)?;
    Ok(ExitCode::SUCCESS)
}

/// An unreadable file fails with status 1, a wrong configuration with status 2.
fn refuse_unusable(args: &DaemonArgs) -> anyhow::Result<()> {
    let unusable = |why: String| UsageError::missing(format!("{}: {why}", args.config.display()));
    match named::open_to_read(&args.config, Streams::Pipes).and_then(|file| file.metadata()) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(unusable("is not a regular file".to_owned()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(unusable(format!("cannot be opened: {error}"))
                .hint("'trimtab apply POLICY PATH' creates one")
                .into())
        }
        Err(error) => Err(unusable(format!("cannot be opened: {error}")).into()),
    }
}

/// Prints the error of the configuration, or its rules and whether each is mounted.
fn check(args: &DaemonArgs, context: &Context) -> anyhow::Result<ExitCode> {
    refuse_unusable(args)?;
    let (config, error) = match Config::read(&args.config) {
        Ok(config) => (Some(config), None),
        Err(error) => (None, Some(error)),
    };
    let root = Root::live().ok();
    let mounts = root.as_ref().and_then(|root| mountinfo::read(root).ok());
    let selection = root
        .as_ref()
        .zip(config.as_ref())
        .and_then(|(root, config)| Selection::of(root, config).ok());
    let remarks = selection.map(|selection| selection.remarks).unwrap_or_default();
    let mounted = |path: &Path| {
        mounts.as_ref().map(|mounts| mounts.iter().any(|mount| mount.mount_point == path))
    };
    let unusable = config.as_ref().map(daemon::unusable_places).into_iter().flatten();
    let unusable = unusable
        .map(|text| ConfigProblem { line: 0, text: format!("{}: {text}", args.config.display()) });
    let rules = config
        .iter()
        .flat_map(|config| &config.rules)
        .map(|rule| checked(rule, rule.path.as_deref().and_then(mounted)));
    let checked = ConfigCheck {
        config: args.config.display().to_string(),
        right: config.is_some(),
        rules: rules.collect(),
        remarks,
        errors: error
            .iter()
            .map(|error| ConfigProblem { line: error.line, text: error.to_string() })
            .chain(unusable)
            .collect(),
    };
    if context.json {
        context.report("daemon-check", 2, &checked, String::new)?;
    } else if checked.errors.is_empty() {
        output::print(&text(&checked))?;
    }
    for error in &checked.errors {
        output::complain(&error.text);
    }
    Ok(match config {
        None => ExitCode::from(USAGE),
        Some(_) if checked.errors.is_empty() => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

fn checked(rule: &Rule, mounted: Option<bool>) -> RuleCheck {
    RuleCheck {
        path: rule.path.as_ref().map(|p| p.display().to_string()),
        policy: rule.policy.to_string(),
        settings: rule.policy.settings().into_iter().map(|f| (f.key, f.value)).collect(),
        mounted,
    }
}

/// The setting of bytes is stored as a number; shown as in a configuration.
fn in_units(key: &str, value: &str) -> String {
    let bytes = if key == "min-extent" { value.parse().unwrap_or(0) } else { 0_u64 };
    let mut units = ["GiB", "MiB", "KiB"].into_iter().zip([30, 20, 10]);
    let whole = units.find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    whole.map_or(value.to_owned(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

fn text(checked: &ConfigCheck) -> String {
    if checked.rules.is_empty() {
        return format!("{} is valid, but names no filesystem: nothing is trimmed", checked.config);
    }
    let mut lines = vec![format!("{} is valid:", checked.config)];
    for rule in &checked.rules {
        let settings: Vec<String> = rule
            .settings
            .iter()
            .map(|(k, v)| (k.trim_start_matches("policy."), v))
            .map(|(k, v)| format!("{k}={}", in_units(k, v)))
            .collect();
        let path = rule.path.as_deref().unwrap_or("every other filesystem");
        let absent =
            if rule.mounted == Some(false) { "; not mounted now, starts when it is" } else { "" };
        let settings =
            if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
        lines.push(format!("  {path}: {}{settings}{absent}", rule.policy));
    }
    // The line of an unmounted path already says that it is not mounted.
    lines.extend(
        checked
            .remarks
            .iter()
            .filter(|remark| !remark.contains("is not mounted"))
            .map(|remark| format!("  {remark}")),
    );
    lines.iter().map(|line| plain_line(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_in_a_configuration() {
        let shown = |key, value| in_units(key, value);
        assert_eq!(shown("min-extent", "65536"), "64KiB");
        assert_eq!(shown("min-extent", "1073741824"), "1GiB");
        assert_eq!(shown("min-extent", "1048577"), "1048577");
        assert_eq!(shown("min-extent", "0"), "0");
        assert_eq!(shown("share", "1024"), "1024", "no size");
    }
}
