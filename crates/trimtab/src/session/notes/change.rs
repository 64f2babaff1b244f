//! What can be changed for a while, and how it is put back.

use super::Left;
use super::mounted::{Identity, Reach};
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
        /// Which mount it is, beyond its numbers; older notes do not say it.
        #[serde(default)]
        identity: Option<Box<Identity>>,
    },
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

/// What there is of what was changed.
enum Now {
    /// It is not there any more.
    Gone,
    /// It is another one, or was changed otherwise: why nothing is put back.
    Other(&'static str),
    /// What it is.
    Is(String),
}

/// Attributes that are ever changed for a while; no note can have another one written to.
const ATTRIBUTES: [&str; 3] = ["discard_max_bytes", "iops_limit", "enable_uring"];

impl Change {
    /// Of the mount option of a filesystem.
    ///
    /// # Errors
    /// A mount that is not what stands at its mount point.
    pub fn of_mount(mount: &Mount, set: &Discard) -> io::Result<Self> {
        Ok(Self::MountOption {
            mount_point: mount.mount_point.clone(),
            mount: mount.id,
            device: (mount.dev.major, mount.dev.minor),
            before: Discard::of(mount).to_string(),
            set: set.to_string(),
            identity: Some(Box::new(Identity::of(mount)?)),
        })
    }

    /// Whether it can be said from here what became of it.
    pub(super) fn is_seen_from_here(&self) -> bool {
        let Self::MountOption { identity: Some(identity), .. } = self else { return true };
        identity.is_seen_from_here()
    }

    /// Whether a command that reaches so far may put it back. Switches of drives concern no mount: any may.
    pub(super) fn is_within(&self, reach: &Reach) -> bool {
        let Self::MountOption { device: (major, minor), .. } = self else { return true };
        reach.includes(DevNumber { major: *major, minor: *minor })
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

    /// Puts it back, if it is still what it was made, and if it is within the reach of the command.
    #[must_use]
    pub fn undo(&self, reach: &Reach) -> Left {
        let before = self.before();
        let (undone, text) = match self.now() {
            Ok(Now::Gone) => (Undone::Nothing, format!("{self} is not there any more")),
            Ok(Now::Other(why)) => {
                (Undone::Changed, format!("{self} was changed by a process that was killed, but {why}: it stays as it is"))
            }
            Ok(Now::Is(now)) if now == before => (Undone::Nothing, format!("{self} is {before}")),
            Ok(Now::Is(now)) if !self.is_ours(&now) => (
                Undone::Changed,
                format!("{self} was changed by a process that was killed, and to {now} by somebody else since: it stays so"),
            ),
            Ok(Now::Is(now)) if !self.is_within(reach) => (
                Undone::Left,
                format!("{self} is {now} and was {before} before a process changed it that was killed; {} puts it back", self.remedy()),
            ),
            Ok(Now::Is(now)) => self.put_back(&now),
            Err(error) => {
                (Undone::Failed, format!("{self} was {before} before a process changed it that was killed, and cannot be read: {error}"))
            }
        };
        Left { undone, text }
    }

    fn put_back(&self, now: &str) -> (Undone, String) {
        let before = self.before();
        match self.set(before) {
            Ok(()) => {
                let after = if let Ok(Now::Is(after)) = self.now() { after } else { String::new() };
                let nearest = if after == before { "" } else { " (the nearest that the kernel takes)" };
                (Undone::PutBack, format!("{self} is {after} again{nearest}: a process that was killed had left it at {now}"))
            }
            Err(error) => (
                Undone::Failed,
                format!(
                    "{self} is {now} and was {before} before a process changed it that was killed; {} puts it back as root ({error})",
                    self.remedy()
                ),
            ),
        }
    }

    /// Which command puts it back.
    fn remedy(&self) -> String {
        match self {
            Self::Attribute { .. } => "any command of trimtab's".to_owned(),
            Self::MountOption { mount_point, .. } => format!("'trimtab doctor {}'", mount_point.display()),
        }
    }

    /// What it is.
    fn now(&self) -> io::Result<Now> {
        match self {
            Self::Attribute { file, .. } => match std::fs::read_to_string(file) {
                Ok(text) => Ok(Now::Is(text.trim().to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV) => Ok(Now::Gone),
                Err(error) => Err(error),
            },
            Self::MountOption { .. } => self.mount_now(),
        }
    }

    fn mount_now(&self) -> io::Result<Now> {
        let Self::MountOption { mount_point, device: (major, minor), set, identity, .. } = self else { return Ok(Now::Gone) };
        let mounts = mountinfo::read(&Root::live()?)?;
        let Some(mount) = self.mount_among(&mounts) else {
            let device = DevNumber { major: *major, minor: *minor };
            let is_like_it = |mount: &&Mount| mount.dev == device || mount.mount_point == *mount_point;
            let matters = mounts.iter().filter(is_like_it).any(|mount| Discard::of(mount).to_string() == *set);
            return Ok(if matters { Now::Other("it has been mounted anew since") } else { Now::Gone });
        };
        let difference = match identity {
            Some(identity) => identity.difference(&Identity::of(mount)?),
            None => None,
        };
        Ok(difference.map_or_else(|| Now::Is(Discard::of(mount).to_string()), Now::Other))
    }

    /// The mount that was changed, as far as numbers say, if it is still there.
    fn mount_among<'a>(&self, mounts: &'a [Mount]) -> Option<&'a Mount> {
        let Self::MountOption { mount_point, mount, device: (major, minor), identity, .. } = self else { return None };
        let device = DevNumber { major: *major, minor: *minor };
        let is_it = |found: &&Mount| found.id == *mount && found.dev == device && found.mount_point == *mount_point;
        mounts.iter().find(is_it).filter(|_| identity.as_ref().is_none_or(|identity| identity.is_of_this_boot()))
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
                let mounts = mountinfo::read(&Root::live()?)?;
                let Some(mount) = self.mount_among(&mounts) else { return Ok(()) };
                discard_option::set(mount, &wanted).map_err(|error| io::Error::other(format!("{error:#}")))
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
