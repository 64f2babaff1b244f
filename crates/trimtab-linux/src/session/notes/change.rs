//! What can be changed for a while, and how it is put back.

use super::Left;
use super::mount_option::MountOption;
use super::mounted::Reach;
use crate::host::block::{restoring_limit, writable_limit};
use crate::host::mountinfo::Mount;
use crate::session::discard_option::Discard;
use crate::sys::beneath::set_attribute;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A switch of the kernel.
    Attribute {
        /// Below `/sys`.
        file: PathBuf,
        /// What it was.
        before: String,
        /// What it was made; the last one is the latest.
        set: Vec<String>,
    },
    /// The discard option of a mounted filesystem.
    MountOption(MountOption),
}

/// What became of a change that was to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before.
    PutBack,
    /// It was as before already, or is not there any more.
    Nothing,
    /// Somebody else has changed it since, or it is another one: it stays as it is.
    Changed,
    /// It could be put back, by a command that works on it.
    Left,
    /// It could not be put back.
    Failed,
}

impl Undone {
    /// Whether something remains to be put back, so that the note has to stay.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Left | Self::Failed)
    }
}

/// Attributes that are ever changed for a while; no note can have another one written to.
const ATTRIBUTES: [&str; 2] = ["discard_max_bytes", "iops_limit"];

impl Change {
    /// Of the mount option of a filesystem.
    ///
    /// # Errors
    /// A mount that is not what stands at its mount point.
    pub fn of_mount(mount: &Mount, set: &Discard) -> io::Result<Self> {
        MountOption::of(mount, set).map(Self::MountOption)
    }

    /// Whether a command that reaches so far may put it back. Switches of drives concern no mount: any may.
    pub(super) fn is_within(&self, reach: &Reach) -> bool {
        match self {
            Self::Attribute { .. } => true,
            Self::MountOption(option) => reach.includes(option.device()),
        }
    }

    /// What is to be known of a mount option while it is changed; `None` of switches of drives, which a trim changes and puts back.
    #[must_use]
    pub fn meanwhile(&self) -> Option<String> {
        let Self::MountOption(option) = self else { return None };
        let (before, set) = option.values();
        Some(format!(
            "{option} is {set} for a while and was {before} before: a process of trimtab changed it, and puts it back when it ends"
        ))
    }

    /// Puts it back, if it is still what it was made, and if it is within the reach of the command.
    #[must_use]
    pub fn undo(&self, reach: &Reach) -> Left {
        match self {
            Self::Attribute { file, before, set } => undo_attribute(file, before, set),
            Self::MountOption(option) => option.undo(reach),
        }
    }
}

fn undo_attribute(file: &Path, before: &str, set: &[String]) -> Left {
    let shown = file.display();
    let (undone, text) = match attribute(file) {
        Ok(None) => (Undone::Nothing, format!("{shown} is not there any more")),
        Ok(Some(now)) if now == before || Some(&now) == nearest(file, before).as_ref() => (Undone::Nothing, format!("{shown} is {now}")),
        Ok(Some(now)) if !set.contains(&now) => (
            Undone::Changed,
            format!(
                "{shown} was changed from {before} by a process that was killed, and to {now} by another process since: it stays as it is"
            ),
        ),
        Ok(Some(now)) => put_back_attribute(file, before, &now),
        Err(error) => {
            (Undone::Failed, format!("{shown} was {before} before a process changed it that was killed, and cannot be read: {error}"))
        }
    };
    Left { undone, text }
}

fn put_back_attribute(file: &Path, before: &str, now: &str) -> (Undone, String) {
    let shown = file.display();
    match set_known_attribute(file, before) {
        Ok(()) => {
            let after = attribute(file).ok().flatten().unwrap_or_default();
            let nearest = if after == before { "" } else { " (the nearest that the kernel takes)" };
            (Undone::PutBack, format!("{shown} is {after} again{nearest}: a process that was killed had left it at {now}"))
        }
        Err(error) => (
            Undone::Failed,
            format!(
                "{shown} is {now} and was {before} before a process changed it that was killed; any command of trimtab's puts it back as root ({error})"
            ),
        ),
    }
}

/// The nearest to a limit of discards that the kernel takes; `None` of anything else.
fn nearest(file: &Path, before: &str) -> Option<String> {
    Some(writable_limit(before.parse().ok()?, number_beside(file, "discard_granularity")?).to_string())
}

/// What it is; `None` if it is not there any more.
fn attribute(file: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_known_attribute(file: &Path, value: &str) -> io::Result<()> {
    if !file.file_name().is_some_and(|name| ATTRIBUTES.iter().any(|known| name == *known)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "nothing that is ever changed for a while"));
    }
    match set_attribute(file, value) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => set_limit(file, value).unwrap_or(Err(error)),
        done => done,
    }
}

/// A limit of discards that a drive had by itself, and that the kernel takes from nobody: see [`restoring_limit`]. `None` if it is something else.
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
