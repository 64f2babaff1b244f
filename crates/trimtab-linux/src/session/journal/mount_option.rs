//! A temporary change of a filesystem's discard option. The option belongs to the
//! superblock: every mount of it shows the option and can restore it. The change ends
//! when the filesystem is no longer mounted anywhere.

use super::mounted::{MountIdentity, MountScope};
use super::{ChangeSettlement, UndoResult};
use crate::host::mountinfo::{self, DevNumber, Mount};
use crate::host::root::Root;
use crate::session::discard_option::{self, DiscardOption};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The changed discard option of a mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountOption {
    /// Mount point.
    mount_point: PathBuf,
    /// Mount id.
    mount: u32,
    /// Device of the filesystem: major and minor number.
    device: (u32, u32),
    /// Option before the change.
    before: String,
    /// Option set by the change.
    set: String,
    /// Identity of the mount and superblock, beyond their numbers.
    identity: Box<MountIdentity>,
}

/// Current location of the changed superblock.
enum SuperblockLocation {
    /// Mounted here.
    Here(Mount),
    /// Mounted here, but its other options have changed.
    Changed(Mount),
    /// Mounted only in the mount namespace of this process.
    Namespace(u32, Mount),
    /// In use, but not mounted in any visible place.
    Hidden,
    /// The record is from another mount namespace, and this one cannot tell if it still
    /// exists.
    Unseen,
    /// Another filesystem is mounted in its place.
    MountedAgain(Mount),
    /// No longer mounted anywhere.
    Gone,
}

impl MountOption {
    /// Describes the change of `mount` to `set`. Fails if another mount is now at its
    /// mount point.
    pub fn of(mount: &Mount, set: &DiscardOption) -> io::Result<Self> {
        Ok(Self {
            mount_point: mount.mount_point.clone(),
            mount: mount.id,
            device: (mount.dev.major, mount.dev.minor),
            before: DiscardOption::of(mount).to_string(),
            set: set.to_string(),
            identity: Box::new(MountIdentity::of(mount)?),
        })
    }

    /// Device of the filesystem.
    pub fn device(&self) -> DevNumber {
        let (major, minor) = self.device;
        DevNumber { major, minor }
    }

    /// Returns the option before the change and the option that was set.
    pub fn values(&self) -> (&str, &str) {
        (&self.before, &self.set)
    }

    /// Restores the option through any visible mount of the superblock, if the option
    /// still has the set value and is within the command's reach.
    pub fn undo(&self, reach: &MountScope) -> ChangeSettlement {
        let (before, set) = self.values();
        let killed = "a process changed it that was killed";
        let (undone, text) = match self.whereabouts() {
            Err(error) => (
                UndoResult::Failed,
                format!("{self} was {before} before {killed}, and cannot be read: {error}"),
            ),
            Ok(SuperblockLocation::Gone) => {
                (UndoResult::Nothing, format!("{self} is not there any more"))
            }
            Ok(SuperblockLocation::MountedAgain(mount)) => {
                self.not_ours(&mount, "it has been mounted again since")
            }
            Ok(SuperblockLocation::Changed(mount)) => {
                self.not_ours(&mount, "its options have been changed since")
            }
            Ok(SuperblockLocation::Here(mount)) => return self.undo_at(&mount, reach),
            Ok(SuperblockLocation::Namespace(pid, mount)) => {
                if let Some((undone, text)) = self.settled(&mount) {
                    return ChangeSettlement { undone, text };
                }
                let there =
                    format!("'nsenter -t {pid} -m trimtab doctor {}'", mount.mount_point.display());
                let where_it_is = format!("mounted in the mount namespace of process {pid} only");
                (
                    UndoResult::Left,
                    format!(
                        "{self}, {where_it_is}, is {set} and was {before} before \
                            {killed}; {there} puts it back"
                    ),
                )
            }
            Ok(SuperblockLocation::Hidden) => {
                let what = format!(
                    "what is mounted from {} is in use, but not mounted where it can \
                        be seen from here",
                    self.device()
                );
                (
                    UndoResult::Left,
                    format!(
                        "{self} was {before} before {killed}: {what}; where it is, \
                            'trimtab doctor' puts it back"
                    ),
                )
            }
            Ok(SuperblockLocation::Unseen) => {
                let there = "in another mount namespace";
                (
                    UndoResult::Left,
                    format!(
                        "{self} was {before} before {killed} {there}; {} there puts it back",
                        remedy(&self.mount_point)
                    ),
                )
            }
        };
        ChangeSettlement { undone, text }
    }

    fn undo_at(&self, mount: &Mount, reach: &MountScope) -> ChangeSettlement {
        let (shown, now, before) =
            (OptionDisplay(&mount.mount_point), DiscardOption::of(mount), &self.before);
        let remedy = remedy(&mount.mount_point);
        let was = format!(
            "{shown} is {now} and was {before} before a process changed it that was killed"
        );
        let (undone, text) = if let Some(settled) = self.settled(mount) {
            settled
        } else if !reach.includes(mount.dev) {
            (UndoResult::Left, format!("{was}; {remedy} puts it back"))
        } else {
            match self.put_back(mount) {
                Ok(()) => (
                    UndoResult::PutBack,
                    format!(
                        "{shown} is {before} again: a process that was killed had left it at {now}"
                    ),
                ),
                Err(error) => (
                    UndoResult::Failed,
                    format!("{was}; {remedy} puts it back as root ({error:#})"),
                ),
            }
        };
        ChangeSettlement { undone, text }
    }

    /// Returns the result if the option no longer has the set value; `None` otherwise.
    fn settled(&self, mount: &Mount) -> Option<(UndoResult, String)> {
        let (before, set) = self.values();
        let (shown, now) =
            (OptionDisplay(&mount.mount_point), DiscardOption::of(mount).to_string());
        if now == before {
            return Some((UndoResult::Nothing, format!("{shown} is {before}")));
        }
        let by_others = format!(
            "{shown} was changed from {before} by a process that was killed, and to \
                {now} by another process since: it stays as it is"
        );
        (now != set).then_some((UndoResult::Changed, by_others))
    }

    fn put_back(&self, mount: &Mount) -> anyhow::Result<()> {
        let before: DiscardOption = self.before.parse().map_err(anyhow::Error::msg)?;
        discard_option::set(mount, &before)
    }

    /// Result for a filesystem that is not in the state the killed process left: the
    /// option stays as it is. The text contains the old option, because the record is
    /// removed. There is nothing to report if the option has a different value by now.
    fn not_ours(&self, mount: &Mount, why: &str) -> (UndoResult, String) {
        let (before, set) = self.values();
        let (shown, now) =
            (OptionDisplay(&mount.mount_point), DiscardOption::of(mount).to_string());
        if now != set {
            return (UndoResult::Nothing, format!("{shown} is {now}"));
        }
        let text = format!(
            "{shown} was changed from {before} to {set} by a process that was \
                killed, but {why}: it stays as it is, {now}; it was {before} before"
        );
        (UndoResult::Changed, text)
    }

    fn whereabouts(&self) -> io::Result<SuperblockLocation> {
        let mounts = mountinfo::read(&Root::live()?)?;
        let in_its_place = || {
            mounts
                .iter()
                .find(|mount| mount.dev == self.device() || mount.mount_point == self.mount_point)
                .cloned()
        };
        let identity = &self.identity;
        match identity.superblock_lives() {
            Some(true) => self.of_superblock(&mounts, identity),
            Some(false) => {
                Ok(in_its_place()
                    .map_or(SuperblockLocation::Gone, SuperblockLocation::MountedAgain))
            }
            None if !identity.is_of_this_namespace() => Ok(SuperblockLocation::Unseen),
            None => match mounts
                .iter()
                .find(|found| found.id == self.mount && found.dev == self.device())
            {
                Some(mount) if identity.is_same_mount(&MountIdentity::of(mount)?) => {
                    Ok(here(mount, identity, true))
                }
                _ => Ok(in_its_place()
                    .map_or(SuperblockLocation::Gone, SuperblockLocation::MountedAgain)),
            },
        }
    }

    /// Locates a living superblock: first the same mount, then another visible mount,
    /// then other namespaces.
    fn of_superblock(
        &self,
        mounts: &[Mount],
        identity: &MountIdentity,
    ) -> io::Result<SuperblockLocation> {
        let is_of_it = |found: &&Mount| found.dev == self.device() && identity.is_of_type(found);
        let is_same =
            |found: &&Mount| found.id == self.mount && found.mount_point == self.mount_point;
        if let Some(same) = mounts.iter().filter(is_of_it).find(is_same) {
            return Ok(here(same, identity, true));
        }
        // A mount hidden below another one cannot be reached.
        let reachable =
            mounts.iter().filter(is_of_it).find(|mount| discard_option::open(mount).is_ok());
        if let Some(other) = reachable {
            return Ok(here(other, identity, false));
        }
        let elsewhere = mountinfo::other_namespaces().into_iter().find_map(|(pid, mounts)| {
            let found = mounts.iter().find(is_of_it)?.clone();
            Some(SuperblockLocation::Namespace(pid, found))
        });
        Ok(elsewhere.unwrap_or(SuperblockLocation::Hidden))
    }
}

/// Classifies a mount of the superblock. With `same` it is the recorded mount, so its own
/// options count too.
fn here(mount: &Mount, identity: &MountIdentity, same: bool) -> SuperblockLocation {
    if identity.has_other_options(mount, same) {
        SuperblockLocation::Changed(mount.clone())
    } else {
        SuperblockLocation::Here(mount.clone())
    }
}

fn remedy(mount_point: &Path) -> String {
    format!("'trimtab doctor {}'", mount_point.display())
}

/// Displays the changed option.
struct OptionDisplay<'a>(&'a Path);

impl fmt::Display for OptionDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the discard option of {}", self.0.display())
    }
}

impl fmt::Display for MountOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OptionDisplay(&self.mount_point).fmt(f)
    }
}
