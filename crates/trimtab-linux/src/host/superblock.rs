//! Which superblock a mount shows: the kernel has one directory below `/sys/fs` for each, made when the filesystem is mounted first and
//! gone when it is mounted nowhere any more. Its inode number is another one each time.

use super::mountinfo::Mount;
use rustix::fs::stat;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A superblock of this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Superblock {
    /// Below `/sys/fs`.
    directory: PathBuf,
    inode: u64,
}

impl Superblock {
    /// Of what is mounted; `None` where the kernel shows none: it does for ext4, XFS and F2FS by device, for btrfs by UUID.
    #[must_use]
    pub fn of(mount: &Mount, uuid: Option<[u8; 16]>) -> Option<Self> {
        let name = match mount.fs_type.as_str() {
            "btrfs" => in_text(&uuid?),
            "ext4" | "xfs" | "f2fs" => {
                let device = std::fs::read_link(format!("/sys/dev/block/{}", mount.dev)).ok()?;
                device.file_name()?.to_str()?.to_owned()
            }
            _ => return None,
        };
        let directory = Path::new("/sys/fs").join(&mount.fs_type).join(name);
        Some(Self { inode: stat(&directory).ok()?.st_ino, directory })
    }

    /// Whether it still is mounted anywhere, in whichever mount namespace; `None` if that cannot be seen.
    #[must_use]
    pub fn lives(&self) -> Option<bool> {
        match stat(&self.directory) {
            Ok(found) => Some(found.st_ino == self.inode),
            Err(rustix::io::Errno::NOENT) => Path::new("/sys/fs").is_dir().then_some(false),
            Err(_) => None,
        }
    }
}

/// As btrfs names its directory.
fn in_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_in_sysfs() {
        let uuid = [0x50, 0xbb, 0xf6, 0xa9, 0xd9, 0x7f, 0x41, 0xcd, 0xac, 0x11, 0x6c, 0x6e, 0x7a, 0x47, 0xf9, 0x95];
        assert_eq!(in_text(&uuid), "50bbf6a9-d97f-41cd-ac11-6c6e7a47f995");
    }
}
