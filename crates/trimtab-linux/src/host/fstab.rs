//! Tables in fstab format, parsed as libmount parses them.

use super::mountinfo::{self, Mount, unescape};
use super::root::Root;
use crate::sys::beneath::ResolvedObject;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;

const FSTAB: &str = "/etc/fstab";
/// Maximum number of bytes read of a table.
pub(crate) const BYTES_MAX: u64 = 1 << 20;
/// Tags that libmount resolves to devices, and the directory of the udev links for each.
const TAGS: [(&str, &str); 5] = [
    ("UUID", "/dev/disk/by-uuid"),
    ("LABEL", "/dev/disk/by-label"),
    ("PARTUUID", "/dev/disk/by-partuuid"),
    ("PARTLABEL", "/dev/disk/by-partlabel"),
    ("ID", "/dev/disk/by-id"),
];

/// A line, with escapes decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FstabEntry {
    /// The device or its tag.
    pub source: PathBuf,
    /// The mount point.
    pub target: PathBuf,
    /// The filesystem type.
    pub fs_type: String,
    /// The options, separated by commas.
    pub options: String,
    /// Byte range of the options in the table; empty, after the type, if there are none.
    pub options_at: Range<usize>,
}

impl FstabEntry {
    /// The option is set, with or without a value, matched as libmount does.
    pub(crate) fn has_option(&self, name: &str) -> bool {
        self.options
            .split(',')
            .any(|option| option.split_once('=').map_or(option, |(key, _)| key) == name)
    }

    /// The source is a tag such as `UUID=…`.
    pub(crate) fn is_tagged(&self) -> bool {
        is_tagged(&self.source)
    }

    pub(crate) fn is_swap(&self) -> bool {
        self.fs_type == "swap"
    }
}

/// The source is a tag such as `UUID=…`.
pub(crate) fn is_tagged(source: &Path) -> bool {
    tag_link(source).is_some()
}

/// The udev link for a tag such as `UUID=…`; `None` for any other source.
pub(crate) fn tag_link(source: &Path) -> Option<PathBuf> {
    let text = source.to_str()?;
    let (name, value) = text.split_once('=')?;
    let (_, directory) = TAGS.iter().find(|(tag, _)| *tag == name)?;
    Some(Path::new(directory).join(link_name(value.trim_matches(['"', '\'']))))
}

/// Encodes a value as udev does in link names.
fn link_name(value: &str) -> String {
    let mut name = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            c if !c.is_ascii() || c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) => {
                name.push(c)
            }
            c => name.push_str(&format!("\\x{:02x}", u32::from(c))),
        }
    }
    name
}

/// The lines of `/etc/fstab`.
pub(crate) fn read(root: &Root) -> Vec<FstabEntry> {
    parse(&root.read_bytes(Path::new(FSTAB), BYTES_MAX).unwrap_or_default())
}

/// Skips comments and the lines that libmount rejects: fewer than three fields, or a
/// fifth or sixth field that is not a number.
pub fn parse(bytes: &[u8]) -> Vec<FstabEntry> {
    let (mut found, mut at) = (Vec::new(), 0);
    for text in bytes.split_inclusive(|&b| b == b'\n') {
        found.extend(line(text.strip_suffix(b"\n").unwrap_or(text), at));
        at += text.len();
    }
    found
}

/// Parses the line that begins at byte `at` of the table.
fn line(line: &[u8], at: usize) -> Option<FstabEntry> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let fields: Vec<&[u8]> =
        line.split(|b| matches!(b, b' ' | b'\t')).filter(|f| !f.is_empty()).collect();
    let [source, target, fs_type, rest @ ..] = fields.as_slice() else { return None };
    let is_number =
        |field: &&[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse::<i32>().is_ok());
    if source.starts_with(b"#") || !rest.iter().skip(1).take(2).all(is_number) {
        return None;
    }
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    let position = |field: &[u8]| at + (field.as_ptr().addr() - line.as_ptr().addr());
    let options = rest.first().copied().unwrap_or_default();
    let start = rest.first().map_or(position(fs_type) + fs_type.len(), |field| position(field));
    Some(FstabEntry {
        source: path(source),
        target: path(target),
        fs_type: text(fs_type),
        options: text(options),
        options_at: start..start + options.len(),
    })
}

/// The unmounted fstab mount point between `path` and its mount, which the user means.
pub fn unmounted(root: &Root, mount: &Mount, path: &Path) -> Option<PathBuf> {
    mount_point(root, path)
        .filter(|point| point.starts_with(&mount.mount_point) && *point != mount.mount_point)
}

/// The innermost fstab mount point above `path`, or `path` itself.
fn mount_point(root: &Root, path: &Path) -> Option<PathBuf> {
    let points = read(root).into_iter().map(|entry| entry.target);
    points.filter(|point| path.starts_with(point)).max_by_key(|point| point.as_os_str().len())
}

/// Refuses a `path` below an unmounted fstab mount point: it is not on the filesystem
/// that the user means.
///
/// # Errors
/// [`UsageError`]. A path that cannot be examined passes; opening it reports the error.
pub fn require_mounted(path: &Path) -> Result<(), UsageError> {
    let found = || {
        let root = Root::live().ok()?;
        let named = ResolvedObject::look_up(path).ok()?;
        let mounts = mountinfo::read(&root).ok()?;
        let mount = mountinfo::of_named(&mounts, &named).ok()??;
        unmounted(&root, mount, &named.real_path().ok()?)
            .map(|point| (point, mount.mount_point.clone()))
    };
    let Some((point, other)) = found() else { return Ok(()) };
    let (point, other) = (point.display(), other.display());
    let what = format!(
        "{point} is in {FSTAB} but not mounted, so {} is on the filesystem of {other}",
        path.display()
    );
    Err(UsageError::missing(what).hint(format!("mount {point} first, or name {other}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_decodes_fstab_escapes() {
        let notrim = parse(b"/dev/sda1 / ext4 rw,X-fstrim.notrim=1 0 1\n");
        assert!(notrim[0].has_option("X-fstrim.notrim") && !notrim[0].has_option("X-fstrim"));
        let text = b"# /dev/sda9 /none ext4\n/dev/sda1\t/  ext4 defaults 0 1\n\
            UUID=x /with\\040space xfs X-fstrim.notrim\n/dev/sda2 none swap sw\nshort line\n\
            /dev/sda3 /bad ext4 defaults 0 one\n/dev/sda4 /worse ext4 # no options\n";
        let entries = parse(text);
        let targets: Vec<&str> = entries.iter().map(|e| e.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/", "/with space", "none"]);
        assert!(
            entries[1].is_tagged()
                && entries[1].has_option("X-fstrim.notrim")
                && entries[2].is_swap()
        );
        assert!(!is_tagged(Path::new("ZFS=rpool/root")) && !is_tagged(Path::new("/dev/sda")));
    }

    #[test]
    fn tag_link_encodes_value_as_udev_does() {
        for (source, expected) in [
            ("UUID=5d0e-7a1c", Some("/dev/disk/by-uuid/5d0e-7a1c")),
            ("LABEL=\"swap\"", Some("/dev/disk/by-label/swap")),
            ("LABEL=my disk/1", Some("/dev/disk/by-label/my\\x20disk\\x2f1")),
            ("LABEL=../../sda", Some("/dev/disk/by-label/..\\x2f..\\x2fsda")),
            ("PARTUUID=1-2", Some("/dev/disk/by-partuuid/1-2")),
            ("PARTLABEL=s", Some("/dev/disk/by-partlabel/s")),
            ("ID=ata-x", Some("/dev/disk/by-id/ata-x")),
            ("\u{feff}UUID=1", None),
            ("ZFS=rpool/root", None),
            ("/dev/sda2", None),
        ] {
            assert_eq!(tag_link(Path::new(source)).as_deref(), expected.map(Path::new), "{source}");
        }
    }

    #[test]
    fn unmounted_finds_fstab_mount_point() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("etc")).unwrap();
        let text = "/dev/a / ext4\n/dev/b /srv ext4 noauto\n/dev/c /srv/data\\040x xfs\n\
            UUID=1 none swap sw\n";
        std::fs::write(tree.path().join("etc/fstab"), text).unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let on = |mount_point: &str, path: &str| {
            let line = format!("20 1 8:1 / {mount_point} rw - ext4 /dev/sda1 rw\n");
            unmounted(&root, &mountinfo::parse(line.as_bytes())[0], Path::new(path))
        };
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!([on("/", "/srv"), on("/", "/srv/deep/er")], [found("/srv"), found("/srv")]);
        assert_eq!(on("/srv", "/srv/data x/y"), found("/srv/data x"));
        assert_eq!(
            [on("/", "/"), on("/", "/home"), on("/", "/srvs"), on("/srv", "/srv/other")],
            [const { None }; 4]
        );
    }
}
