//! Which mount it was whose option was changed, and which mounts a command works on.

use crate::host::mountinfo::{DevNumber, Mount, own_namespace};
use crate::host::processes::boot_id;
use crate::host::superblock::Superblock;
use crate::session::discard_option::{self, mount_of};
use crate::sys::beneath::Named;
use rustix::fs::{AtFlags, FileType, StatxFlags, fstatvfs, statx};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: the mount's number is none that another mount of this boot ever had.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// What tells a mount from any other, also from a later one of the same filesystem at the same place: numbers of mounts and of devices are given out anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Numbers of mounts are those of a boot.
    boot: String,
    /// Those of others cannot be seen from everywhere.
    namespace: String,
    /// The number that no other mount has had, where the kernel says it.
    unique: Option<u64>,
    fs_type: String,
    /// The filesystem's, from `statvfs`: of ext4 and btrfs a hash of their UUID.
    fsid: u64,
    /// Where the kernel says it.
    uuid: Option<[u8; 16]>,
    /// All options but those of discards, the mount's and then the superblock's: what they were, and must be when one of those is put back.
    other_options: String,
    /// The kernel's own, where it shows one; older notes do not say it.
    #[serde(default)]
    superblock: Option<Superblock>,
}

impl Identity {
    /// Of a mount, if it still is what stands at its mount point.
    pub fn of(mount: &Mount) -> io::Result<Self> {
        let found = discard_option::open(mount)?;
        let seen = statx(&found, c"", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE)?;
        let is_unique = StatxFlags::from_bits_retain(seen.stx_mask).contains(MNT_ID_UNIQUE);
        let uuid = crate::sys::filesystem::uuid(&found);
        Ok(Self {
            boot: boot_id(),
            namespace: own_namespace(),
            unique: is_unique.then_some(seen.stx_mnt_id),
            fs_type: mount.fs_type.clone(),
            fsid: fstatvfs(&found)?.f_fsid,
            uuid,
            other_options: format!("{} {}", other_options(&mount.options), other_options(&mount.fs_options)),
            superblock: Superblock::of(mount, uuid),
        })
    }

    /// Whether the filesystem has been mounted all the time since, somewhere; `None` if the kernel does not say it.
    pub fn superblock_lives(&self) -> Option<bool> {
        if self.boot != boot_id() {
            return Some(false);
        }
        self.superblock.as_ref()?.lives()
    }

    /// Whether it was noted where the same mounts are seen as here.
    pub fn is_of_this_namespace(&self) -> bool {
        self.namespace == own_namespace()
    }

    /// Whether a mount is of such a filesystem.
    pub fn is_of_type(&self, mount: &Mount) -> bool {
        self.fs_type == mount.fs_type
    }

    /// Whether this is the very same mount, whatever its options.
    pub fn is_same_mount(&self, now: &Self) -> bool {
        Self { other_options: self.other_options.clone(), superblock: self.superblock.clone(), ..now.clone() } == *self
    }

    /// Whether options other than those of discards are not what they were: those of the superblock, and with `own` those of the mount, too.
    pub fn has_other_options(&self, mount: &Mount, own: bool) -> bool {
        let (of_mount, of_superblock) = self.other_options.split_once(' ').unwrap_or_default();
        other_options(&mount.fs_options) != of_superblock || own && other_options(&mount.options) != of_mount
    }
}

fn other_options(options: &str) -> String {
    let is_other = |option: &&str| !option.starts_with("discard") && *option != "nodiscard";
    options.split(',').filter(is_other).collect::<Vec<_>>().join(",")
}

/// The mounts that a command works on. Only theirs are ever changed by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None: it reads what is stored, or models.
    Nothing,
    /// Those of these paths.
    Paths(Vec<PathBuf>),
    /// All.
    Everything,
}

impl Reach {
    /// Of targets as benchmarks and studies take them.
    pub fn of_targets<'a>(targets: impl IntoIterator<Item = &'a str>) -> Self {
        let is_real = |target: &&str| !target.starts_with("drive:") && !target.starts_with("null:");
        Self::Paths(targets.into_iter().filter(is_real).map(PathBuf::from).collect())
    }

    /// The same without some paths.
    #[must_use]
    pub fn without(self, left_out: &[&Path]) -> Self {
        match self {
            Self::Paths(paths) => Self::Paths(paths.into_iter().filter(|path| !left_out.contains(&path.as_path())).collect()),
            all_or_nothing => all_or_nothing,
        }
    }

    /// The paths, where it is a matter of paths.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        if let Self::Paths(paths) = self { paths } else { &[] }
    }

    /// Whether it works on what is mounted from a device.
    pub fn includes(&self, device: DevNumber) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Paths(paths) => paths.iter().any(|path| is_on(path, device)),
        }
    }
}

/// Whether a path is on a device, or is that device.
fn is_on(path: &Path, device: DevNumber) -> bool {
    let is_it = |named: Named| named.kind() == FileType::BlockDevice && DevNumber::from_raw(named.stat().st_rdev) == device;
    Named::look_up(path).is_ok_and(is_it) || mount_of(path).is_ok_and(|mount| mount.dev == device)
}
