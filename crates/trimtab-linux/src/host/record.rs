//! A recording of the files read on the running machine, written as a tree that can be
//! examined elsewhere (`--sysroot`).

mod anonymous;

use crate::sys::beneath::{Dir, PRIVATE_FILE};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Offset of the IDENTIFY DEVICE data in VPD page 89h, and the words that identify a
/// single drive: serial number, World Wide Name and serial number of the medium.
const IDENTIFY_OFFSET: usize = 60;
const IDENTIFY_SERIAL_WORDS: [std::ops::Range<usize>; 3] = [10..20, 108..112, 176..206];

/// All files, directories and links read, by path without links.
#[derive(Clone, Debug, Default)]
pub struct SysrootRecorder {
    files: BTreeMap<PathBuf, Vec<u8>>,
    directories: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl SysrootRecorder {
    /// Records the content of a file.
    pub fn file(&mut self, path: &Path, bytes: &[u8]) {
        self.files.insert(path.to_owned(), bytes.to_owned());
    }

    /// Records a directory, or an object whose content has not been read yet.
    pub fn found(&mut self, path: &Path, directory: bool) {
        if directory {
            self.directories.insert(path.to_owned());
        } else {
            self.files.entry(path.to_owned()).or_default();
        }
    }

    /// Records a link.
    pub fn link(&mut self, path: &Path, target: &Path) {
        self.links.insert(path.to_owned(), target.to_owned());
    }

    /// Removes the serial numbers of drives, also from paths below `/dev/disk/by-id`.
    pub fn forget_serials(&mut self) {
        for (path, bytes) in &mut self.files {
            match path.file_name().and_then(|n| n.to_str()) {
                Some("vpd_pg89") => forget_in_identify(bytes),
                Some("serial" | "wwid" | "wwn" | "eui" | "nguid" | "vpd_pg80" | "vpd_pg83") => {
                    bytes.clear()
                }
                _ if !path.starts_with("/sys") => *bytes = without_ids(bytes),
                _ => {}
            }
        }
    }

    /// Writes the tree to `directory`, which must be empty or absent. Returns the file
    /// count. Nothing stays after an error.
    pub fn write(&self, directory: &Path) -> io::Result<usize> {
        let tree = Dir::open_or_make(directory)?;
        if !tree.names()?.is_empty() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the directory is not empty"));
        }
        self.fill(&tree).inspect_err(|_| {
            let _ = Dir::of_file(directory).and_then(|(of, name)| of.remove_tree(name, &tree));
        })
    }

    fn fill(&self, tree: &Dir) -> io::Result<usize> {
        for path in &self.directories {
            tree.make_below(path)?;
        }
        let place = |path: &Path| {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            io::Result::Ok((
                tree.make_below(path.parent().unwrap_or(Path::new("/")))?,
                name.to_owned(),
            ))
        };
        for (path, bytes) in &self.files {
            let (directory, name) = place(path)?;
            directory.create_new(name, PRIVATE_FILE)?.write_all(bytes)?;
        }
        // Links come last, so that no path is written through a link.
        for (path, target) in &self.links {
            let (directory, name) = place(path)?;
            directory.symlink(target, name)?;
        }
        Ok(self.files.len())
    }
}

fn forget_in_identify(page: &mut [u8]) {
    for words in IDENTIFY_SERIAL_WORDS {
        if let Some(bytes) =
            page.get_mut(IDENTIFY_OFFSET + 2 * words.start..IDENTIFY_OFFSET + 2 * words.end)
        {
            bytes.fill(0);
        }
    }
}

/// Replaces `…/by-id/ata-MODEL_SERIAL-part1` by `…/by-id/x`.
fn without_ids(bytes: &[u8]) -> Vec<u8> {
    const MARK: &[u8] = b"/by-id/";
    let mut clean = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(MARK.len()).position(|w| w == MARK) {
        let behind = at + MARK.len();
        clean.extend_from_slice(&rest[..behind]);
        clean.push(b'x');
        rest = &rest[behind..];
        let end =
            rest.iter().position(|b| b.is_ascii_whitespace() || *b == b',').unwrap_or(rest.len());
        rest = &rest[end..];
    }
    clean.extend_from_slice(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_that_fails_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let mut recorder = SysrootRecorder::default();
        recorder.file(Path::new("/etc/fstab"), b"x");
        recorder.file(Path::new("/etc/fstab/below"), b"x");
        recorder.write(&place.path().join("tree")).unwrap_err();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn forget_serials_removes_serial_numbers() {
        let mut recorder = SysrootRecorder::default();
        let mut page = vec![7; 572];
        page[60 + 2 * 27] = 9;
        recorder.file(Path::new("/sys/devices/a/device/vpd_pg89"), &page);
        recorder.file(Path::new("/sys/devices/a/serial"), b"S3CR3T");
        recorder.file(
            Path::new("/etc/fstab"),
            b"/dev/disk/by-id/ata-M_S3CR3T-part1 / ext4 defaults 0 1\nUUID=12 /a xfs\n",
        );
        recorder.forget_serials();
        let page = &recorder.files[Path::new("/sys/devices/a/device/vpd_pg89")];
        assert_eq!(
            (page[60 + 20], page[60 + 39], page[60 + 40], page[60 + 216], page[60 + 54]),
            (0, 0, 7, 0, 9)
        );
        assert!(recorder.files[Path::new("/sys/devices/a/serial")].is_empty());
        assert_eq!(
            recorder.files[Path::new("/etc/fstab")],
            b"/dev/disk/by-id/x / ext4 defaults 0 1\nUUID=12 /a xfs\n"
        );
    }

    #[test]
    fn write_refuses_directory_with_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut recorder = SysrootRecorder::default();
        recorder.found(Path::new("/a/b"), false);
        recorder.file(Path::new("/a/b"), b"x");
        recorder.link(Path::new("/l"), Path::new("/a"));
        assert_eq!(recorder.write(&directory.path().join("new")).unwrap(), 1);
        assert_eq!(std::fs::read(directory.path().join("new/a/b")).unwrap(), b"x");
        assert!(recorder.write(directory.path()).is_err());
    }
}
