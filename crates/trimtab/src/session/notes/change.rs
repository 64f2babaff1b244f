//! What can be changed for a while, and how it is put back.

use super::Left;
use crate::host::mountinfo::{self, DevNumber, Mount};
use crate::host::root::Root;
use crate::session::discard_option::{self, Discard};
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
    MountOption {
        /// Where it is mounted.
        mount_point: PathBuf,
        /// The mount's number.
        mount: u32,
        /// The filesystem's device: major and minor number.
        device: (u32, u32),
        /// What it was.
        before: String,
        /// What it was made.
        set: String,
    },
}

/// What became of a change that was to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before.
    PutBack,
    /// It was as before already, or is not there any more.
    Nothing,
    /// Somebody else has changed it since: it stays as it is.
    Changed,
    /// It could not be put back.
    Failed,
}

/// Attributes that are ever changed for a while; no note can have another one written to.
const ATTRIBUTES: [&str; 3] = ["discard_max_bytes", "iops_limit", "enable_uring"];

impl Change {
    /// Of the mount option of a filesystem.
    #[must_use]
    pub fn of_mount(mount: &Mount, set: &Discard) -> Self {
        Self::MountOption {
            mount_point: mount.mount_point.clone(),
            mount: mount.id,
            device: (mount.dev.major, mount.dev.minor),
            before: Discard::of(mount).to_string(),
            set: set.to_string(),
        }
    }

    fn before(&self) -> &str {
        match self {
            Self::Attribute { before, .. } | Self::MountOption { before, .. } => before,
        }
    }

    fn is_ours(&self, now: &str) -> bool {
        match self {
            Self::Attribute { set, .. } => set.iter().any(|set| set == now),
            Self::MountOption { set, .. } => set == now,
        }
    }

    /// Puts it back, if it is still what it was made.
    #[must_use]
    pub fn undo(&self) -> Left {
        let before = self.before();
        let (undone, text) = match self.now() {
            Ok(None) => (Undone::Nothing, format!("{self} is not there any more")),
            Ok(Some(now)) if now == before => (Undone::Nothing, format!("{self} is {before}")),
            Ok(Some(now)) if !self.is_ours(&now) => (
                Undone::Changed,
                format!("{self} was changed by a process that was killed, and to {now} by somebody else since: it stays so"),
            ),
            Ok(Some(now)) => match self.set(before) {
                Ok(()) => {
                    let after = self.now().ok().flatten().unwrap_or_default();
                    let nearest = if after == before { "" } else { " (the nearest that the kernel takes)" };
                    (Undone::PutBack, format!("{self} is {after} again{nearest}: a process that was killed had left it at {now}"))
                }
                Err(error) => (
                    Undone::Failed,
                    format!(
                        "{self} is {now} and was {before} before a process changed it that was killed; any command of trimtab's puts it back as \
                         root ({error})"
                    ),
                ),
            },
            Err(error) => {
                (Undone::Failed, format!("{self} was {before} before a process changed it that was killed, and cannot be read: {error}"))
            }
        };
        Left { undone, text }
    }

    /// What it is; `None` if it is not there any more.
    fn now(&self) -> io::Result<Option<String>> {
        match self {
            Self::Attribute { file, .. } => match std::fs::read_to_string(file) {
                Ok(text) => Ok(Some(text.trim().to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
                Err(error) => Err(error),
            },
            Self::MountOption { .. } => Ok(self.mount()?.map(|mount| Discard::of(&mount).to_string())),
        }
    }

    /// The mount that was changed, if it is still there.
    fn mount(&self) -> io::Result<Option<Mount>> {
        let Self::MountOption { mount, device: (major, minor), .. } = self else { return Ok(None) };
        let device = DevNumber { major: *major, minor: *minor };
        let mounts = mountinfo::read(&Root::live()?)?;
        Ok(mounts.into_iter().find(|found| found.id == *mount && found.dev == device))
    }

    fn set(&self, value: &str) -> io::Result<()> {
        match self {
            Self::Attribute { file, .. } => {
                if !file.file_name().is_some_and(|name| ATTRIBUTES.iter().any(|known| name == *known)) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "nothing that is ever changed for a while"));
                }
                match set_attribute(file, value) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => set_limit(file, value).unwrap_or(Err(error)),
                    done => done,
                }
            }
            Self::MountOption { .. } => {
                let wanted: Discard = value.parse().map_err(|what: String| io::Error::new(io::ErrorKind::InvalidData, what))?;
                let Some(mount) = self.mount()? else { return Ok(()) };
                discard_option::set(&mount, &wanted).map_err(|error| io::Error::other(format!("{error:#}")))
            }
        }
    }
}

/// A limit of discards that is no multiple of their granularity: a drive's own may be that, and the kernel takes it from nobody. The nearest that it
/// takes is less than one granule below. `None` if it is something else.
fn set_limit(file: &Path, value: &str) -> Option<io::Result<()>> {
    let bytes: u64 = value.parse().ok()?;
    let granularity: u64 = std::fs::read_to_string(file.with_file_name("discard_granularity")).ok()?.trim().parse().ok()?;
    let rounded = bytes - bytes.checked_rem(granularity)?;
    (rounded != bytes && rounded > 0).then(|| set_attribute(file, &rounded.to_string()))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute { file, .. } => write!(f, "{}", file.display()),
            Self::MountOption { mount_point, .. } => write!(f, "the discard option of {}", mount_point.display()),
        }
    }
}
