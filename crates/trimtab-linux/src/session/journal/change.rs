//! Temporary changes and their undo.

use super::ChangeSettlement;
use super::mount_option::MountOption;
use super::mounted::MountScope;
use crate::host::block::{restoring_limit, writable_limit};
use crate::host::mountinfo::Mount;
use crate::session::discard_option::DiscardOption;
use crate::sys::beneath::set_attribute;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A temporary change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A kernel attribute.
    Attribute {
        /// Path of the attribute, below `/sys`.
        file: PathBuf,
        /// Value before the change.
        before: String,
        /// Values set by this program, the latest last.
        set: Vec<String>,
    },
    /// The discard option of a filesystem.
    MountOption(MountOption),
}

/// Result of undoing a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoResult {
    /// The old value was restored.
    PutBack,
    /// Nothing to undo: it already had the old value, or no longer exists.
    Nothing,
    /// Another process has changed or replaced it since, so it stays as it is.
    Changed,
    /// Out of reach of this command. A command that works on it can restore it.
    Left,
    /// The old value could not be restored.
    Failed,
}

impl UndoResult {
    /// True if the undo is still to be done, so the record must stay.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Left | Self::Failed)
    }
}

/// Attribute that this program changes temporarily. A record cannot cause a write to any
/// other.
const ATTRIBUTE: &str = "discard_max_bytes";

impl Change {
    /// Describes a change of the discard option of a filesystem.
    ///
    /// # Errors
    /// Another mount is now at the mount point.
    pub fn of_mount(mount: &Mount, set: &DiscardOption) -> io::Result<Self> {
        MountOption::of(mount, set).map(Self::MountOption)
    }

    /// True if a command with this reach may undo the change. Any command may undo
    /// attributes of drives, which belong to no mount.
    pub(super) fn is_within(&self, reach: &MountScope) -> bool {
        match self {
            Self::Attribute { .. } => true,
            Self::MountOption(option) => reach.includes(option.device()),
        }
    }

    /// Describes a changed mount option while the change is in effect. Returns `None` for
    /// attributes of drives, which a trim changes and restores.
    pub fn meanwhile(&self) -> Option<String> {
        let Self::MountOption(option) = self else { return None };
        let (before, set) = option.values();
        Some(format!(
            "{option} is {set} for a while and was {before} before: a process of \
                trimtab changed it, and restores it when it ends"
        ))
    }

    /// Restores the old value, if the new one is still set and the command's reach
    /// includes it.
    pub fn undo(&self, reach: &MountScope) -> ChangeSettlement {
        match self {
            Self::Attribute { file, before, set } => undo_attribute(file, before, set),
            Self::MountOption(option) => option.undo(reach),
        }
    }
}

fn undo_attribute(file: &Path, before: &str, set: &[String]) -> ChangeSettlement {
    let shown = file.display();
    let (undone, text) = match attribute(file) {
        Ok(None) => (UndoResult::Nothing, format!("{shown} is not there any more")),
        Ok(Some(now)) if now == before || Some(&now) == nearest(file, before).as_ref() => {
            (UndoResult::Nothing, format!("{shown} is {now}"))
        }
        Ok(Some(now)) if !set.contains(&now) => (
            UndoResult::Changed,
            format!(
                "a killed process changed {shown} from {before}, and another process to {now} \
                    since: it stays as it is"
            ),
        ),
        Ok(Some(now)) => put_back_attribute(file, before, &now),
        Err(error) => (
            UndoResult::Failed,
            format!("a killed process changed {shown} from {before}: cannot read it: {error}"),
        ),
    };
    ChangeSettlement { undone, text }
}

fn put_back_attribute(file: &Path, before: &str, now: &str) -> (UndoResult, String) {
    let shown = file.display();
    match set_known_attribute(file, before) {
        Ok(()) => {
            let after = attribute(file).ok().flatten().unwrap_or_default();
            let nearest = if after == before { "" } else { " (the nearest that the kernel takes)" };
            (
                UndoResult::PutBack,
                format!("{shown} is {after} again{nearest}: a killed process had set {now}"),
            )
        }
        Err(error) => (
            UndoResult::Failed,
            format!(
                "a killed process set {shown} to {now}; run 'trimtab doctor' as root to restore \
                    {before} ({error})"
            ),
        ),
    }
}

/// Returns the value closest to a discard limit that the kernel accepts; `None` for other
/// attributes.
fn nearest(file: &Path, before: &str) -> Option<String> {
    Some(
        writable_limit(before.parse().ok()?, number_beside(file, "discard_granularity")?)
            .to_string(),
    )
}

/// Reads the attribute; `None` if it no longer exists.
fn attribute(file: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ENODEV) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn set_known_attribute(file: &Path, value: &str) -> io::Result<()> {
    if file.file_name().is_none_or(|name| name != ATTRIBUTE) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "nothing that is ever changed for a while",
        ));
    }
    match set_attribute(file, value) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            set_limit(file, value).unwrap_or(Err(error))
        }
        done => done,
    }
}

/// Restores a drive's initial discard limit, which the kernel rejects in a write: see
/// [`restoring_limit`]. Returns `None` for other attributes.
fn set_limit(file: &Path, value: &str) -> Option<io::Result<()>> {
    let bytes: u64 = value.parse().ok()?;
    let granularity = number_beside(file, "discard_granularity")?;
    let writable = restoring_limit(bytes, granularity, number_beside(file, "discard_max_hw_bytes"));
    (writable != bytes && writable > 0).then(|| set_attribute(file, &writable.to_string()))
}

fn number_beside(file: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(file.with_file_name(name)).ok()?.trim().parse().ok()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute { file, .. } => write!(f, "{}", file.display()),
            Self::MountOption(option) => option.fmt(f),
        }
    }
}
