//! Stores every pass as a run, for `trimtab history` and `trimtab results`.

pub(crate) mod events;

use crate::store::{Store, StoreError};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use trimtab_drive::OpKind;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::host::Place;
use trimtab_linux::host::environment;
use trimtab_linux::sys::beneath::{self, Dir};
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::surface::Account;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{
    Better, Field, Metric, Phase, Provenance, Run, Severity, TargetKind, Unit, Warning,
};

/// File name of the store, in the state directory.
pub const FILE: &str = "history.db";
/// Workload name of its runs.
pub const WORKLOAD: &str = "trim";
/// Setting for what started the trim: `daemon` or `hand`.
pub const BY: &str = "by";

/// Key of the filesystem's id in a run's environment.
pub const FS_ID: &str = "fs.id";

/// Metric of the time inside requests.
const REQUEST_SECONDS: &str = "trim.requests.seconds";

/// Code of the warning that the counts are a minimum.
pub const MINIMUM: &str = "trim.minimum";

/// The history's store.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    /// Serialises saves; the store is opened for each pass, of which there are few.
    busy: Mutex<()>,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassEnd {
    /// All windows were visited.
    Complete,
    /// It was stopped and continues later.
    Stopped(String),
}

/// A pass to store.
#[derive(Debug)]
pub struct TrimPass<'a> {
    /// What started the trim: `daemon` or `hand`.
    pub by: &'static str,
    /// The policy.
    pub policy: &'a str,
    /// Its settings.
    pub policy_settings: Vec<Field>,
    /// Start or resumption, in nanoseconds since 1970.
    pub started: Nanos,
    /// Duration, as reported to the user.
    pub took: Nanos,
    /// Account of its requests.
    pub account: &'a Account,
    /// The end of the pass.
    pub ending: PassEnd,
}

impl History {
    /// The history in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE), busy: Mutex::new(()) }
    }

    /// Stores a pass. A file that is damaged or not a history is set aside first; the
    /// returned message says so.
    pub fn save(&self, fs: &Filesystem, pass: &TrimPass<'_>) -> anyhow::Result<Option<String>> {
        let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let run = run(fs, pass);
        if let Some(directory) = self.path.parent() {
            Dir::make_sheltered(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let save = || Store::create_or_open(&self.path)?.save(&run);
        match save() {
            Err(error @ (StoreError::Damaged { .. } | StoreError::Foreign(_))) => {
                let said = self.set_aside(&error)?;
                // Without the history, the message is still due.
                save().with_context(|| said.clone())?;
                Ok(Some(said))
            }
            saved => Ok(saved.map(|_| None)?),
        }
    }

    /// Sets aside a file that is damaged or not a history, and returns a message about
    /// it; `None` if the file is fine or missing.
    pub fn check(&self) -> anyhow::Result<Option<String>> {
        match Store::open(&self.path) {
            Err(error @ (StoreError::Damaged { .. } | StoreError::Foreign(_))) => {
                self.set_aside(&error).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn set_aside(&self, why: &StoreError) -> anyhow::Result<String> {
        let kept = beneath::set_aside(&self.path)
            .with_context(|| format!("{why}, and it cannot be set aside"))?;
        Ok(format!("{why}; it is kept as {}, and a new history begins", kept.display()))
    }
}

fn run(fs: &Filesystem, pass: &TrimPass<'_>) -> Run {
    let account = pass.account;
    let took = pass.took;
    let place = Place { mount: Some(fs.mount().clone()), stack: fs.stack().clone() };
    let mut environment = environment::capture(fs.root(), &place, &fs.mount().mount_point);
    environment.push(Field::new(FS_ID, fs.id()));
    let phase = Phase {
        name: "trim".into(),
        started: Nanos::ZERO,
        took,
        ops: vec![(OpKind::Trim, account.discards.carried_out().count)],
        read: Bytes::ZERO,
        written: Bytes::ZERO,
        latencies: Vec::new(),
        discards: Some(account.discards.clone()),
    };
    Run {
        workload: WORKLOAD.into(),
        settings: vec![Field::new("windows", fs.layout().unit.clone()), Field::new(BY, pass.by)],
        target: TargetKind::Directory,
        target_label: fs.mount().mount_point.display().to_string(),
        policy: pass.policy.into(),
        policy_settings: pass.policy_settings.clone(),
        provenance: Provenance::Measured,
        started_unix_ms: pass.started.0 / 1_000_000,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        complete: pass.ending == PassEnd::Complete && account.refusals.is_empty(),
        environment,
        phases: vec![phase],
        metrics: metrics(account, took),
        warnings: warnings(pass),
        ..Run::empty()
    }
}

fn metrics(account: &Account, took: Nanos) -> Vec<Metric> {
    let metric = |name: &str, unit, better, value| Metric::single(name, unit, better, value);
    let mut metrics = vec![
        metric(metrics::TRIM_SECONDS, Unit::Seconds, Better::Neither, took.as_secs_f64()),
        metric(REQUEST_SECONDS, Unit::Seconds, Better::Lower, account.trimming.as_secs_f64()),
        metric(
            "trim.longest-request.seconds",
            Unit::Seconds,
            Better::Lower,
            account.longest.as_secs_f64(),
        ),
    ];
    if let Some(sent) = account.discards.accepted {
        metrics.push(metric("trim.sent.bytes", Unit::Bytes, Better::Neither, sent.bytes.as_f64()));
        metrics.push(metric("trim.sent.commands", Unit::Count, Better::Neither, sent.count as f64));
        if account.trials > Bytes::ZERO {
            metrics.push(metric(
                "trim.sent-twice.bytes",
                Unit::Bytes,
                Better::Lower,
                account.trials.as_f64(),
            ));
        }
    }
    for (name, wait) in [
        ("trim.others-waited.during", account.wait_during),
        ("trim.others-waited.otherwise", account.wait_otherwise),
    ] {
        metrics.extend(wait.map(|w| metric(name, Unit::Nanos, Better::Lower, w.as_f64())));
    }
    metrics
}

/// Warnings about windows that were not trimmed.
fn warnings(pass: &TrimPass<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let PassEnd::Stopped(why) = &pass.ending {
        let text = format!("stopped ({why}); the remaining windows follow when it continues");
        warnings.push(Warning::new("trim.stopped", Severity::Caution, text));
    }
    if pass.account.is_minimum {
        warnings.push(Warning::new(MINIMUM, Severity::Caution, pass.account.minimum_remark()));
    }
    // The first few in full; the count covers all.
    for (window, refused) in pass.account.refusals.iter().take(20) {
        let facts = vec![
            Field::new("start", window.start.to_string()),
            Field::new("len", window.len.to_string()),
            Field::new("errno", refused.errno.raw_os_error().to_string()),
        ];
        let text = format!("{} at {} was not trimmed: {refused}", Bytes(window.len), window.start);
        warnings.push(Warning::new("trim.refused", Severity::Caution, text).with(facts));
    }
    warnings
}
