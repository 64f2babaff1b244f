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
        let (undone, text) = match self.locate() {
            Ok(Ok(mount)) => self.undo_at(&mount, reach),
            Ok(Err(elsewhere)) => elsewhere,
            Err(error) => (
                UndoResult::Failed,
                format!(
                    "a killed process changed {self} from {}: cannot read it: {error}",
                    self.before
                ),
            ),
        };
        ChangeSettlement { undone, text }
    }

    fn undo_at(&self, mount: &Mount, reach: &MountScope) -> (UndoResult, String) {
        if let Some(settled) = self.settled(mount) {
            return settled;
        }
        let (option, now, before) =
            (option_of(&mount.mount_point), DiscardOption::of(mount), &self.before);
        let remedy = remedy(&mount.mount_point);
        let was = format!("a killed process set {option} to {now}; run {remedy}");
        if !reach.includes(mount.dev) {
            return (UndoResult::Left, format!("{was} to restore {before}"));
        }
        match self.put_back(mount) {
            Ok(()) => (
                UndoResult::PutBack,
                format!("{option} is {before} again: a killed process had set {now}"),
            ),
            Err(error) => {
                (UndoResult::Failed, format!("{was} as root to restore {before} ({error:#})"))
            }
        }
    }

    /// Returns the result if the option no longer has the set value; `None` otherwise.
    fn settled(&self, mount: &Mount) -> Option<(UndoResult, String)> {
        let (before, set) = self.values();
        let (shown, now) = (option_of(&mount.mount_point), DiscardOption::of(mount).to_string());
        if now == before {
            return Some((UndoResult::Nothing, format!("{shown} is {before}")));
        }
        let by_others = format!(
            "a killed process changed {shown} from {before}, and another process to {now} \
                since: it stays as it is"
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
        let (shown, now) = (option_of(&mount.mount_point), DiscardOption::of(mount).to_string());
        if now != set {
            return (UndoResult::Nothing, format!("{shown} is {now}"));
        }
        let text = format!(
            "a killed process changed {shown} from {before} to {set}, but {why}: it stays as \
                it is, {now}; it was {before} before"
        );
        (UndoResult::Changed, text)
    }

    /// A visible mount of the changed superblock, or the result if there is none.
    fn locate(&self) -> io::Result<Result<Mount, (UndoResult, String)>> {
        let mounts = mountinfo::read(&Root::live()?)?;
        let (identity, before) = (&self.identity, &self.before);
        let mounted_again = || {
            let is_there = |mount: &&Mount| {
                mount.dev == self.device() || mount.mount_point == self.mount_point
            };
            Err(match mounts.iter().find(is_there) {
                Some(mount) => self.not_ours(mount, "it has been mounted again since"),
                None => (UndoResult::Nothing, format!("{self} is not there any more")),
            })
        };
        Ok(match identity.superblock_lives() {
            Some(true) => self.of_superblock(&mounts),
            Some(false) => mounted_again(),
            None if !identity.is_of_this_namespace() => {
                let text = format!(
                    "a killed process in another mount namespace changed {self}; run {} there \
                        to restore {before}",
                    remedy(&self.mount_point)
                );
                Err((UndoResult::Left, text))
            }
            None => {
                let same = mounts
                    .iter()
                    .find(|found| found.id == self.mount && found.dev == self.device());
                match same {
                    Some(mount) if identity.is_same_mount(&MountIdentity::of(mount)?) => {
                        self.unless_changed(mount, true)
                    }
                    _ => mounted_again(),
                }
            }
        })
    }

    /// Locates a living superblock: first the same mount, then another visible mount,
    /// then other namespaces.
    fn of_superblock(&self, mounts: &[Mount]) -> Result<Mount, (UndoResult, String)> {
        let (before, set) = self.values();
        let is_of_it =
            |found: &&Mount| found.dev == self.device() && self.identity.is_of_type(found);
        let is_same =
            |found: &&Mount| found.id == self.mount && found.mount_point == self.mount_point;
        if let Some(same) = mounts.iter().filter(is_of_it).find(is_same) {
            return self.unless_changed(same, true);
        }
        // A mount hidden below another one cannot be reached.
        let reachable =
            mounts.iter().filter(is_of_it).find(|mount| discard_option::open(mount).is_ok());
        if let Some(other) = reachable {
            return self.unless_changed(other, false);
        }
        let elsewhere = mountinfo::other_namespaces()
            .into_iter()
            .find_map(|(pid, mounts)| Some((pid, mounts.iter().find(is_of_it)?.clone())));
        let Some((pid, mount)) = elsewhere else {
            let text = format!(
                "a killed process changed {self}: the filesystem on {} is in use, but mounted in \
                    no visible place; run 'trimtab doctor' where it is to restore {before}",
                self.device()
            );
            return Err((UndoResult::Left, text));
        };
        Err(self.settled(&mount).unwrap_or_else(|| {
            let there =
                format!("'nsenter -t {pid} -m trimtab doctor {}'", mount.mount_point.display());
            let text = format!(
                "a killed process set {self} to {set}, mounted in the mount namespace of process \
                    {pid} only; run {there} to restore {before}"
            );
            (UndoResult::Left, text)
        }))
    }

    /// The mount, unless its other options have changed. With `same` it is the recorded
    /// mount, so its own options count too.
    fn unless_changed(&self, mount: &Mount, same: bool) -> Result<Mount, (UndoResult, String)> {
        if self.identity.has_other_options(mount, same) {
            Err(self.not_ours(mount, "its options have been changed since"))
        } else {
            Ok(mount.clone())
        }
    }
}

fn remedy(mount_point: &Path) -> String {
    format!("'trimtab doctor {}'", mount_point.display())
}

fn option_of(mount_point: &Path) -> String {
    format!("the discard option of {}", mount_point.display())
}

impl fmt::Display for MountOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&option_of(&self.mount_point))
    }
}
