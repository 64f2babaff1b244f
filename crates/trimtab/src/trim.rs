//! A trim by hand: a resolved request, and what became of each filesystem.

mod one;
pub mod outcome;
mod progress;
mod whole;

use self::one::One;
use self::outcome::{PassedBy, Report};
use anyhow::Context as _;
use std::path::PathBuf;
use trimtab_drive::units::{Bytes, Nanos, exact};
use trimtab_drive::usage::UsageError;
use trimtab_linux::doctor;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{Blocked, one_line};
use trimtab_linux::sys::{interrupt, mount_check, priority};
use trimtab_sim::policy::{IdleSettings, Now, ParsePolicyError, Policy, PolicySpec, State};
use trimtab_sim::run::Field;
use trimtab_sim::target::TrimWindow;

/// What to trim, and how.
#[derive(Debug)]
pub struct Request {
    /// Mount points, or other directories on the filesystems; not for `all`.
    pub paths: Vec<PathBuf>,
    /// What `fstrim --fstab` trims.
    pub all: bool,
    /// Under which policy.
    pub how: How,
    /// Only the windows that this range touches.
    pub window: Option<TrimWindow>,
    /// Free extents below this size are left alone.
    pub min_extent: Bytes,
    /// What is pending is written out first.
    pub sync: bool,
    /// Nothing is sent.
    pub dry_run: bool,
    /// How long to wait for a drive that is being trimmed already.
    pub lock_wait: Nanos,
    /// An interrupted trim is not continued.
    pub restart: bool,
}

impl Request {
    /// The least extent that is asked for in the end.
    fn least(&self) -> Bytes {
        match &self.how {
            How::Idle(settings) => settings.min_extent,
            How::AtOnce => self.min_extent,
        }
    }
}

/// What became of a request.
#[derive(Debug)]
pub struct Done {
    /// Of each filesystem.
    pub report: Report,
    /// Paths that could not be trimmed, and why.
    pub failed: Vec<(PathBuf, anyhow::Error)>,
}

/// Trims, one filesystem after the other. What fails does not stop the rest.
pub fn run(request: &Request, context: &Context) -> anyhow::Result<Done> {
    if matches!(request.how, How::Idle(_)) {
        priority::yield_to_others();
    }
    interrupt::install().context("cannot handle signals")?;
    let (paths, passed_by) = if request.all { in_fstab()? } else { (request.paths.clone(), Vec::new()) };
    let mut report = Report { dry_run: request.dry_run, filesystems: Vec::new(), passed_by, failed: Vec::new() };
    let mut trimmed: Vec<(String, String)> = Vec::new();
    let mut failed: Vec<(PathBuf, anyhow::Error)> = Vec::new();
    for path in paths {
        match one::trim_one(request, &path, &mut trimmed, context) {
            Ok(One::Done(outcome)) => report.filesystems.push(*outcome),
            Ok(One::Again(what)) => report.passed_by.push(PassedBy { path: path.display().to_string(), why: what }),
            // As fstrim --fstab: a device that takes no discards is no fault.
            Err(error) if request.all && error.is::<Blocked>() => {
                report.passed_by.push(PassedBy { path: path.display().to_string(), why: one_line(&error) });
            }
            Err(error) => failed.push((path, error)),
        }
        if !request.dry_run && interrupt::requested() {
            break;
        }
    }
    Ok(Done { report, failed })
}

/// The mount points of fstab to trim, and those that are passed by.
fn in_fstab() -> anyhow::Result<(Vec<PathBuf>, Vec<PassedBy>)> {
    let (mut paths, mut passed_by) = (Vec::new(), Vec::new());
    let listed = mount_check::in_time(|| doctor::fstrim_of_fstab(&Root::live()?)).and_then(|listed| listed);
    interrupt::check()?;
    for (path, why) in listed.context("cannot read the mount table")? {
        match why {
            Some(why) => passed_by.push(PassedBy { path: path.display().to_string(), why }),
            None => paths.push(path),
        }
    }
    Ok((paths, passed_by))
}

/// How it is to be trimmed; when is now.
#[derive(Debug)]
pub enum How {
    AtOnce,
    Idle(IdleSettings),
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtOnce => f.write_str("now"),
            Self::Idle(settings) => PolicySpec::Idle(*settings).fmt(f),
        }
    }
}

impl How {
    /// From a policy with its settings as text; the other two are settings of it, too.
    pub fn of(policy: &str, finish_within: Option<Nanos>, min_extent: Bytes) -> anyhow::Result<Self> {
        let wrong = |why: String| UsageError::new(format!("--policy {policy}: {why}"));
        let ways = "use now, or idle with settings as in idle:budget=2ms";
        if policy == "now" && finish_within.is_some() {
            return Err(UsageError::new("--finish-within is for trims in idle time").hint("add --policy idle").into());
        }
        if policy == "now" {
            return Ok(Self::AtOnce);
        }
        // Read as a setting of the policy, so that it is checked as one.
        let within = finish_within.map_or(String::new(), |within| format!(":finish-within={}", exact(within)));
        match format!("{policy}{within}").parse() {
            Ok(PolicySpec::Idle(settings)) => Ok(Self::Idle(IdleSettings { min_extent: settings.min_extent.max(min_extent), ..settings })),
            Ok(other) => Err(wrong(format!("'{}' says when to trim, and this is a trim by hand", other.name())).hint(ways).into()),
            Err(ParsePolicyError::Unknown(name)) => {
                let meant = PolicySpec::nearest(&name).filter(|meant| *meant == "idle");
                let did_you_mean = meant.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
                Err(wrong(format!("a trim by hand knows no policy '{name}'{did_you_mean}")).hint(ways).into())
            }
            Err(error) => Err(wrong(error.to_string()).into()),
        }
    }

    /// Its settings, as they are kept with a run.
    fn settings(&self) -> Vec<Field> {
        match self {
            Self::AtOnce => PolicySpec::None.settings(),
            Self::Idle(settings) => PolicySpec::Idle(*settings).settings(),
        }
    }

    /// The policy, where an interrupted pass left off.
    fn build(&self, min_extent: Bytes, state: &State) -> Box<dyn Policy> {
        match self {
            Self::AtOnce => Box::new(Now::new(min_extent, state)),
            Self::Idle(settings) => PolicySpec::Idle(*settings).build(state),
        }
    }
}
