//! Tables in the format of fstab, read as libmount reads them.

use crate::host::mountinfo::unescape;
use crate::host::root::Root;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The most bytes read of a table.
pub const BYTES_MAX: u64 = 1 << 20;
/// Names of tags that libmount turns into devices.
const TAGS: [&str; 5] = ["UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"];

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub source: PathBuf,
    pub target: PathBuf,
    pub fs_type: String,
    pub options: String,
}

impl Entry {
    pub fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }

    /// Whether the source is a tag such as `UUID=…`, which is looked up.
    pub fn is_tagged(&self) -> bool {
        is_tagged(&self.source)
    }

    pub fn is_swap(&self) -> bool {
        self.fs_type == "swap"
    }

    /// Whether a swap area is discarded by an option.
    pub fn swap_discards(&self) -> bool {
        self.options.split(',').any(|option| option == "discard" || option.starts_with("discard="))
    }
}

/// Whether a source is a tag such as `UUID=…`.
pub fn is_tagged(source: &Path) -> bool {
    let text = source.to_string_lossy();
    text.split_once('=').is_some_and(|(name, _)| TAGS.contains(&name))
}

/// The lines of `/etc/fstab`.
pub fn read(root: &Root) -> Vec<Entry> {
    parse(&root.read_bytes(Path::new("/etc/fstab"), BYTES_MAX).unwrap_or_default())
}

/// Leaves out comments and lines that libmount rejects: fewer than three fields, or a fifth or sixth that is no number.
pub fn parse(bytes: &[u8]) -> Vec<Entry> {
    bytes.split(|&b| b == b'\n').filter_map(line).collect()
}

fn line(line: &[u8]) -> Option<Entry> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let fields: Vec<&[u8]> = line.split(|b| matches!(b, b' ' | b'\t')).filter(|f| !f.is_empty()).collect();
    let [source, target, fs_type, rest @ ..] = fields.as_slice() else { return None };
    let is_number = |field: &&[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse::<i32>().is_ok());
    if source.starts_with(b"#") || !rest.iter().skip(1).take(2).all(is_number) {
        return None;
    }
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    Some(Entry {
        source: path(source),
        target: path(target),
        fs_type: text(fs_type),
        options: rest.first().map(|options| text(options)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_is_read_with_its_escapes() {
        let text = b"# /dev/sda9 /none ext4\n/dev/sda1\t/  ext4 defaults 0 1\nUUID=x /with\\040space xfs X-fstrim.notrim\n\
                     /dev/sda2 none swap sw\nshort line\n/dev/sda3 /bad ext4 defaults 0 one\n/dev/sda4 /worse ext4 # no options\n";
        let entries = parse(text);
        let targets: Vec<&str> = entries.iter().map(|e| e.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/", "/with space", "none"]);
        assert!(entries[1].is_tagged() && entries[1].has_option("X-fstrim.notrim") && entries[2].is_swap());
        assert!(!is_tagged(Path::new("ZFS=rpool/root")) && !is_tagged(Path::new("/dev/sda")));
    }
}
