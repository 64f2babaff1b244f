//! The superblock behind a mount. The kernel keeps a directory for each below `/sys/fs`,
//! from the first mount to the last unmount. Its inode number differs each time.

use super::mountinfo::Mount;
use rustix::fs::stat;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A superblock of this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountedSuperblock {
    directory: PathBuf,
    inode: u64,
}

impl MountedSuperblock {
    /// The superblock of a mount, if the kernel shows it: by device, for btrfs by UUID.
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

    /// The superblock is still mounted in some mount namespace; `None` if unknown.
    pub fn lives(&self) -> Option<bool> {
        match stat(&self.directory) {
            Ok(found) => Some(found.st_ino == self.inode),
            Err(rustix::io::Errno::NOENT) => Path::new("/sys/fs").is_dir().then_some(false),
            Err(_) => None,
        }
    }
}

/// The UUID as btrfs names its directory.
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
    fn in_text_formats_uuid_as_sysfs_does() {
        let uuid = [
            0x50, 0xbb, 0xf6, 0xa9, 0xd9, 0x7f, 0x41, 0xcd, 0xac, 0x11, 0x6c, 0x6e, 0x7a, 0x47,
            0xf9, 0x95,
        ];
        assert_eq!(in_text(&uuid), "50bbf6a9-d97f-41cd-ac11-6c6e7a47f995");
    }
}
