//! Events: what was applied and trimmed on this machine.

use super::{BY, FILE, FS_ID, MINIMUM, REQUEST_SECONDS, WORKLOAD};
use crate::apply::{self, PolicyChangeKind, System};
use crate::store::{Filter, RunId, Store, StoreError};
use anyhow::{Context as _, bail};
use serde::Serialize;
use std::io;
use std::path::Path;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::fstab;
use trimtab_linux::host::mountinfo::{self, Mount};
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::{Dir, ResolvedObject};
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::resume::state_directory;
use trimtab_sim::run::{Field, Run};

/// One applied policy, undo or trim.
#[derive(Debug, Default, Serialize)]
pub struct HistoryEvent {
    pub unix_ms: u64,
    pub what: &'static str,
    pub path: String,
    pub policy: String,
    /// What started the trim: `daemon` or `hand`.
    pub by: Option<String>,
    /// Bytes that reached the drives, if they count them.
    pub sent_bytes: Option<u64>,
    pub sent_commands: Option<u64>,
    /// The count is a minimum.
    pub sent_is_minimum: bool,
    pub seconds: Option<f64>,
    /// Seconds inside requests.
    pub request_seconds: Option<f64>,
    pub outcome: String,
    /// Id of the run in the history's store.
    pub id: Option<String>,
    /// Id of the trimmed filesystem.
    #[serde(skip)]
    pub fs_id: Option<String>,
}

/// Events, oldest first.
#[derive(Debug, Serialize)]
pub struct Events {
    pub events: Vec<HistoryEvent>,
    /// Number of older events that the filter's limit left out.
    pub older: u64,
    /// `older` is a minimum: older trims were not examined.
    pub older_is_minimum: bool,
}

/// Filter for events.
#[derive(Debug)]
pub struct EventFilter<'a> {
    /// Only this filesystem.
    pub path: Option<&'a Path>,
    /// Largest number of events; the newest are kept.
    pub limit: usize,
}

impl Events {
    /// Reads the events that match the filter.
    pub fn read(wish: &EventFilter<'_>, context: &Context) -> anyhow::Result<Self> {
        let wanted = wish.path.map(|path| wanted(path, context)).transpose()?;
        let mut events = applied()?;
        // Filtering by filesystem needs more than the newest trims.
        let examined = wish.limit.saturating_mul(if wanted.is_some() { 20 } else { 1 });
        let (trims, unexamined) = trimmed(&state_directory().join(FILE), examined)?;
        events.extend(trims);
        events.retain(|event| wanted.as_ref().is_none_or(|wanted| wanted.is_of(event)));
        events.sort_by_key(|event| event.unix_ms);
        let is_missing = |path: &Path| path.symlink_metadata().is_err();
        if let Some(path) = wish.path.filter(|path| events.is_empty() && is_missing(path)) {
            let what = format!(
                "{} does not exist, and nothing was applied or trimmed there",
                path.display()
            );
            return Err(UsageError::missing(what)
                .hint("run 'trimtab history' without a path to list everything")
                .into());
        }
        let left_out = events.len().saturating_sub(wish.limit);
        // Trims that were not examined may be of another filesystem.
        let is_of_all = wanted.is_none();
        let older = left_out as u64 + if is_of_all { unexamined } else { 0 };
        let older_is_minimum = !is_of_all && unexamined > 0;
        Ok(Self { events: events.split_off(left_out), older, older_is_minimum })
    }
}

/// The filesystem to show.
struct FilesystemQuery {
    /// Present or past mount points.
    mount_points: Vec<String>,
    /// Id, if the filesystem is mounted and on a block device.
    fs_id: Option<String>,
}

impl FilesystemQuery {
    /// Compares ids if both have one: a filesystem can move to another mount point, and
    /// another one can take its place.
    fn is_of(&self, event: &HistoryEvent) -> bool {
        match (&self.fs_id, &event.fs_id) {
            (Some(wanted), Some(id)) => wanted == id,
            _ => self.mount_points.contains(&event.path),
        }
    }
}

impl From<&Path> for FilesystemQuery {
    fn from(path: &Path) -> Self {
        Self { mount_points: vec![path.display().to_string()], fs_id: None }
    }
}

/// The filesystem at `path`. If `path` no longer exists, the filesystem once mounted
/// there; if it is an unmounted mount point of fstab, that one.
fn wanted(path: &Path, context: &Context) -> anyhow::Result<FilesystemQuery> {
    let root = Root::live().context("cannot open /")?;
    let mounts = mountinfo::read(&root).context("cannot read the mount table")?;
    let named = match ResolvedObject::look_up(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(path.into()),
        named => named.with_context(|| format!("cannot access '{}'", path.display()))?,
    };
    let mount = mountinfo::of_named(&mounts, &named)
        .with_context(|| format!("cannot access '{}'", path.display()))?;
    let real = named.real_path().with_context(|| format!("cannot resolve '{}'", path.display()))?;
    let Some(mount) = mount else { return Ok(path.into()) };
    if let Some(point) = fstab::unmounted(&root, mount, &real) {
        context.remark(&format!(
            "{} is not mounted; these events are from when it was",
            point.display()
        ));
        return Ok(point.as_path().into());
    }
    if mount.mount_point != real {
        let (path, point) = (path.display(), mount.mount_point.display());
        context.remark(&format!(
            "{path} is on the filesystem mounted at {point}: this is the history of the \
            whole filesystem"
        ));
    }
    let mut same: Vec<&Mount> = mounts
        .iter()
        .filter(|other| other.dev == mount.dev && other.fs_type == mount.fs_type)
        .collect();
    // The named mount may show only part of the filesystem and be covered by another
    // mount.
    same.sort_by_key(|other| other.id != mount.id);
    let fs_id = same
        .iter()
        .find_map(|mount| Filesystem::open(&mount.mount_point).ok())
        .map(|fs| fs.id().to_owned());
    Ok(FilesystemQuery {
        mount_points: same.iter().map(|mount| mount.mount_point.display().to_string()).collect(),
        fs_id,
    })
}

fn applied() -> anyhow::Result<Vec<HistoryEvent>> {
    let system = System::new(None, None).context("cannot access the system")?;
    let one = |event: apply::PolicyChange| HistoryEvent {
        unix_ms: event.unix_ms,
        what: match event.what {
            PolicyChangeKind::Applied => "applied",
            PolicyChangeKind::Undone => "undone",
            PolicyChangeKind::PutBack => "put back",
        },
        path: event.path.display().to_string(),
        policy: event.policy,
        outcome: event
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
        ..HistoryEvent::default()
    };
    Ok(apply::events(&system)?.into_iter().map(one).collect())
}

/// The newest trims, and the number of older ones.
fn trimmed(store: &Path, limit: usize) -> anyhow::Result<(Vec<HistoryEvent>, u64)> {
    // A link of another user's is refused, whether or not it leads to a history.
    let is_missing = match Dir::sheltered_file(store) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        found => !found.with_context(|| format!("cannot use {}", store.display()))?.try_exists()?,
    };
    if is_missing {
        return Ok((Vec::new(), 0));
    }
    let store = match Store::open(store) {
        Err(StoreError::Foreign(path)) => {
            bail!("{} is not a history of trimtab; move it away to start a new one", path.display())
        }
        opened => opened?,
    };
    let filter = Filter { workload: Some(WORKLOAD.to_owned()), ..Filter::default() };
    let all = store.list(&filter)?;
    let older = all.len().saturating_sub(limit);
    let newest = store.list(&Filter { limit: Some(limit), ..filter })?;
    let event = |id: RunId| Ok(of_run(&store.load(id)?, id.short()));
    let events: anyhow::Result<_> = newest.into_iter().map(|summary| event(summary.id)).collect();
    Ok((events?, older as u64))
}

fn of_run(run: &Run, id: String) -> HistoryEvent {
    let discards = run.phases.first().and_then(|phase| phase.discards.as_ref());
    let refused = discards.map_or(0, |d| d.refused.count);
    let by = Field::find(&run.settings, BY).unwrap_or("daemon");
    HistoryEvent {
        unix_ms: run.started_unix_ms,
        what: "trimmed",
        path: run.target_label.clone(),
        policy: run.policy.clone(),
        by: Some(by.to_owned()),
        sent_bytes: discards.and_then(|d| d.accepted).map(|a| a.bytes.0),
        sent_commands: discards.and_then(|d| d.accepted).map(|a| a.count),
        sent_is_minimum: run.warnings.iter().any(|warning| warning.code == MINIMUM),
        seconds: run.phases.first().map(|phase| phase.took.as_secs_f64()),
        request_seconds: run
            .metrics
            .iter()
            .find(|metric| metric.name == REQUEST_SECONDS)
            .and_then(|metric| metric.samples.first().copied()),
        outcome: match (run.complete, refused) {
            (true, _) => "complete".to_owned(),
            (false, 0) => "stopped".to_owned(),
            (false, n) => format!("{n} refused"),
        },
        id: Some(id),
        fs_id: Field::find(&run.environment, FS_ID).map(str::to_owned),
    }
}
