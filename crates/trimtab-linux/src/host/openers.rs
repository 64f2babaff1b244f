//! The processes that have a file or a device open, matched by device number and inode.

use super::mountinfo::DevNumber;
use super::root::printable;
use crate::sys::beneath::ObjectIdentity;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};
use std::fmt;
use std::path::Path;

/// Another process that has the object open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Process id.
    pub pid: u32,
    /// Its command, made safe for a terminal.
    pub command: String,
}

impl fmt::Display for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "open in {} (pid {})", self.command, self.pid)
    }
}

/// The object behind one descriptor of a process.
struct Object {
    kind: FileType,
    device: DevNumber,
    identity: ObjectIdentity,
}

/// The processes that have one of these block devices open.
pub fn of_devices(numbers: &[DevNumber]) -> Vec<Opener> {
    find(|object| object.kind == FileType::BlockDevice && numbers.contains(&object.device))
}

/// The processes that have this file open.
pub fn of_file(identity: ObjectIdentity) -> Vec<Opener> {
    find(|object| object.kind == FileType::RegularFile && object.identity == identity)
}

/// Searches visible processes only; without root, only those of this user.
fn find(is_it: impl Fn(&Object) -> bool) -> Vec<Opener> {
    let own = std::process::id();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
            .filter(|pid| *pid != own)
        else {
            continue;
        };
        let descriptors =
            std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if descriptors
            .filter_map(|descriptor| object(&descriptor.path()))
            .any(|object| is_it(&object))
        {
            let command =
                printable(&std::fs::read(process.path().join("comm")).unwrap_or_default());
            found.push(Opener { pid, command });
        }
    }
    found
}

fn object(descriptor: &Path) -> Option<Object> {
    // STATX_DONT_SYNC: a network server that hangs must not block this.
    let stat = rustix::fs::statx(
        CWD,
        descriptor,
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::TYPE | StatxFlags::INO,
    )
    .ok()?;
    Some(Object {
        kind: FileType::from_raw_mode(stat.stx_mode.into()),
        device: DevNumber { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor },
        identity: ObjectIdentity {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn of_file_finds_opener_after_rename() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "x").unwrap();
        let identity = ObjectIdentity::of(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(of_file(identity), []);
        let open = std::fs::File::open(&path).unwrap();
        let mut child =
            Command::new("sleep").arg("60").stdin(open).stdout(Stdio::null()).spawn().unwrap();
        std::fs::rename(&path, directory.path().join("g")).unwrap();
        let found = of_file(identity);
        child.kill().unwrap();
        child.wait().unwrap();
        // Other tests fork, so another process may hold the descriptor until it executes.
        let opener = found.iter().find(|opener| opener.pid == child.id()).unwrap();
        assert!(opener.to_string().starts_with("open in "));
    }
}
