//! A trim by hand: the resolved request, and the outcome for each filesystem.

pub mod harm;
mod one;
pub mod outcome;
mod progress;
mod whole;

use self::one::PathOutcome;
use self::outcome::{SkippedPath, TrimReport};
use anyhow::Context as _;
use std::path::PathBuf;
use trimtab_drive::units::{Bytes, Nanos, exact};
use trimtab_drive::usage::{UsageError, did_you_mean};
use trimtab_linux::doctor;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{TrimBlockedError, one_line};
use trimtab_linux::sys::{interrupt, mount_check, priority};
use trimtab_sim::policy::{IdleSettings, ManualPolicy, Policy, PolicySpec, PolicyState};
use trimtab_sim::run::Field;
use trimtab_sim::setting::SettingError;

/// The resolved request of one `trimtab trim`.
#[derive(Debug)]
pub struct ManualTrimRequest {
    /// Mount points, or other directories on the filesystems; unused with `all`.
    pub paths: Vec<PathBuf>,
    /// Trim what `fstrim --fstab` trims.
    pub all: bool,
    /// The trim mode.
    pub how: TrimMode,
    /// Skip free extents below this size.
    pub min_extent: Bytes,
    /// Write out pending changes first.
    pub sync: bool,
    /// Send nothing.
    pub dry_run: bool,
    /// Longest wait for a drive that is already being trimmed.
    pub lock_wait: Nanos,
    /// Start over instead of continuing an interrupted trim.
    pub restart: bool,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct ManualTrimOutcome {
    /// One entry per filesystem.
    pub report: TrimReport,
    /// Paths that could not be trimmed, with the errors.
    pub failed: Vec<(PathBuf, anyhow::Error)>,
}

/// Trims one filesystem after the other. A failure does not stop the rest.
pub fn run(request: &ManualTrimRequest, context: &Context) -> anyhow::Result<ManualTrimOutcome> {
    if matches!(request.how, TrimMode::Idle(_)) {
        priority::yield_to_others();
    }
    interrupt::install().context("cannot handle signals")?;
    let (paths, passed_by) =
        if request.all { in_fstab()? } else { (request.paths.clone(), Vec::new()) };
    let mut report = TrimReport {
        dry_run: request.dry_run,
        filesystems: Vec::new(),
        passed_by,
        failed: Vec::new(),
    };
    let mut trimmed: Vec<(String, String)> = Vec::new();
    let mut failed: Vec<(PathBuf, anyhow::Error)> = Vec::new();
    for path in paths {
        match one::trim_one(request, &path, &mut trimmed, context) {
            Ok(PathOutcome::Done(outcome)) => report.filesystems.push(*outcome),
            Ok(PathOutcome::Again(what)) => {
                report.passed_by.push(SkippedPath { path: path.display().to_string(), why: what })
            }
            // As in fstrim --fstab, a device without discard is not a fault.
            Err(error) if request.all && error.is::<TrimBlockedError>() => {
                report
                    .passed_by
                    .push(SkippedPath { path: path.display().to_string(), why: one_line(&error) });
            }
            Err(error) => failed.push((path, error)),
        }
        if !request.dry_run && interrupt::requested() {
            break;
        }
    }
    Ok(ManualTrimOutcome { report, failed })
}

/// The mount points of fstab to trim, and those that are skipped.
fn in_fstab() -> anyhow::Result<(Vec<PathBuf>, Vec<SkippedPath>)> {
    let (mut paths, mut passed_by) = (Vec::new(), Vec::new());
    let listed =
        mount_check::in_time(|| doctor::fstrim_of_fstab(&Root::live()?)).and_then(|listed| listed);
    interrupt::check()?;
    for (path, why) in listed.context("cannot read the mount table")? {
        match why {
            Some(why) => passed_by.push(SkippedPath { path: path.display().to_string(), why }),
            None => paths.push(path),
        }
    }
    Ok((paths, passed_by))
}

/// Trim mode of a trim by hand: the policies that start at once.
#[derive(Debug)]
pub enum TrimMode {
    AtOnce,
    Idle(IdleSettings),
}

impl std::fmt::Display for TrimMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtOnce => f.write_str("now"),
            Self::Idle(settings) => PolicySpec::Idle(*settings).fmt(f),
        }
    }
}

impl TrimMode {
    /// Parses a policy with its settings. `finish_within` and `min_extent` are options
    /// of their own.
    pub fn of(
        policy: &str,
        finish_within: Option<Nanos>,
        min_extent: Bytes,
    ) -> anyhow::Result<Self> {
        let wrong = |why: String| UsageError::new(format!("--policy {policy}: {why}"));
        let ways = "use now, or idle with settings such as idle:budget=2ms";
        if policy == "now" && finish_within.is_some() {
            return Err(UsageError::new("--finish-within is for trims in idle time")
                .hint("add --policy idle")
                .into());
        }
        if finish_within == Some(Nanos::ZERO) {
            return Err(UsageError::new("--finish-within 0s leaves no time")
                .hint("omit it for no limit, or use --policy now")
                .into());
        }
        if policy == "now" {
            return Ok(Self::AtOnce);
        }
        // Parsed as a setting of the policy, so that the policy validates it.
        let within = finish_within
            .map_or(String::new(), |within| format!(":finish-within={}", exact(within)));
        match format!("{policy}{within}").parse() {
            Ok(PolicySpec::Idle(settings)) => {
                Ok(Self::Idle(IdleSettings { min_extent, ..settings }))
            }
            Ok(other) => Err(wrong(format!(
                "policy '{}' only schedules trims; a trim by hand needs now or idle",
                other.name()
            ))
            .hint(ways)
            .into()),
            // Without a key: the policy itself is unknown.
            Err(SettingError { key: None, .. }) => {
                let name = policy.split(':').next().unwrap_or_default();
                if name == "now" {
                    return Err(wrong("policy 'now' takes no settings".to_owned()).into());
                }
                let meant = did_you_mean(name, &["now", "idle"]);
                let hint = meant.unwrap_or_else(|| ways.to_owned());
                Err(wrong(format!("unknown policy '{name}' for a trim by hand")).hint(hint).into())
            }
            Err(error) => Err(wrong(error.to_string()).into()),
        }
    }

    /// The settings as stored with a run.
    fn settings(&self) -> Vec<Field> {
        match self {
            Self::AtOnce => PolicySpec::None.settings(),
            Self::Idle(settings) => PolicySpec::Idle(*settings).settings(),
        }
    }

    /// Builds the policy in the state of an interrupted pass.
    fn build(&self, min_extent: Bytes, state: &PolicyState) -> Box<dyn Policy> {
        match self {
            Self::AtOnce => Box::new(ManualPolicy::now(min_extent, state)),
            Self::Idle(settings) => PolicySpec::Idle(*settings).build(state),
        }
    }
}
