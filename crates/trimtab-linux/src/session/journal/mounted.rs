//! Identifies the mount whose option was changed, and the mounts that a command works on.

use crate::host::mountinfo::{DevNumber, Mount, own_namespace};
use crate::host::processes::boot_id;
use crate::host::superblock::MountedSuperblock;
use crate::session::discard_option::{self, mount_of};
use crate::sys::beneath::ResolvedObject;
use rustix::fs::{AtFlags, FileType, StatxFlags, fstatvfs, statx};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a mount id that is never reused during a boot.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Distinguishes a mount from all others, including a later mount of the same filesystem
/// at the same place. Mount ids and device numbers alone are not enough, because the
/// kernel reuses them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountIdentity {
    /// Boot id: mount ids are valid only within a boot.
    boot: String,
    /// Mount namespace: mounts of other namespaces may be invisible.
    namespace: String,
    /// Unique mount id, if the kernel reports it.
    unique: Option<u64>,
    fs_type: String,
    /// Filesystem id from `statvfs`: for ext4 and btrfs, a hash of their UUID.
    fsid: u64,
    /// Filesystem UUID, if the kernel reports it.
    uuid: Option<[u8; 16]>,
    /// All options except discard options: the mount's, then the superblock's. They must
    /// be unchanged when the discard option is restored.
    other_options: String,
    /// Identity of the superblock, if the kernel reports it.
    superblock: Option<MountedSuperblock>,
}

impl MountIdentity {
    /// Returns the identity of a mount. Fails if another mount is now at its mount point.
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
            other_options: format!(
                "{} {}",
                other_options(&mount.options),
                other_options(&mount.fs_options)
            ),
            superblock: MountedSuperblock::of(mount, uuid),
        })
    }

    /// True if the filesystem has been mounted somewhere ever since; `None` if the kernel
    /// does not report it.
    pub fn superblock_lives(&self) -> Option<bool> {
        if self.boot != boot_id() {
            return Some(false);
        }
        self.superblock.as_ref()?.lives()
    }

    /// True if the record was written in this mount namespace.
    pub fn is_of_this_namespace(&self) -> bool {
        self.namespace == own_namespace()
    }

    /// True if the mount has the same filesystem type.
    pub fn is_of_type(&self, mount: &Mount) -> bool {
        self.fs_type == mount.fs_type
    }

    /// True if this is the same mount, regardless of its options.
    pub fn is_same_mount(&self, now: &Self) -> bool {
        Self {
            other_options: self.other_options.clone(),
            superblock: self.superblock.clone(),
            ..now.clone()
        } == *self
    }

    /// True if options other than discard options have changed: those of the superblock
    /// and, with `own`, those of the mount.
    pub fn has_other_options(&self, mount: &Mount, own: bool) -> bool {
        let (of_mount, of_superblock) = self.other_options.split_once(' ').unwrap_or_default();
        other_options(&mount.fs_options) != of_superblock
            || own && other_options(&mount.options) != of_mount
    }
}

fn other_options(options: &str) -> String {
    let is_other = |option: &&str| !option.starts_with("discard") && *option != "nodiscard";
    options.split(',').filter(is_other).collect::<Vec<_>>().join(",")
}

/// The mounts that a command works on. It changes no other mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountScope {
    /// None: the command only reads stored data or simulates.
    Nothing,
    /// The mounts of these paths.
    Paths(Vec<PathBuf>),
    /// All mounts.
    Everything,
}

impl MountScope {
    /// Reach of the targets of benchmarks and studies.
    pub fn of_targets<'a>(targets: impl IntoIterator<Item = &'a str>) -> Self {
        let is_real = |target: &&str| !target.starts_with("drive:") && !target.starts_with("null:");
        Self::Paths(targets.into_iter().filter(is_real).map(PathBuf::from).collect())
    }

    /// Returns the reach without some paths.
    #[must_use]
    pub fn without(self, left_out: &[&Path]) -> Self {
        match self {
            Self::Paths(paths) => Self::Paths(
                paths.into_iter().filter(|path| !left_out.contains(&path.as_path())).collect(),
            ),
            all_or_nothing => all_or_nothing,
        }
    }

    /// Returns the paths of [`MountScope::Paths`]; empty for other variants.
    pub fn paths(&self) -> &[PathBuf] {
        if let Self::Paths(paths) = self { paths } else { &[] }
    }

    /// True if the command works on a filesystem of this device.
    pub fn includes(&self, device: DevNumber) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Paths(paths) => paths.iter().any(|path| is_on(path, device)),
        }
    }
}

/// True if the path is on a filesystem of the device, or is the device itself.
fn is_on(path: &Path, device: DevNumber) -> bool {
    let is_it = |named: ResolvedObject| {
        named.kind() == FileType::BlockDevice && DevNumber::from_raw(named.stat().st_rdev) == device
    };
    ResolvedObject::look_up(path).is_ok_and(is_it)
        || mount_of(path).is_ok_and(|mount| mount.dev == device)
}
