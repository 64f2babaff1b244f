//! Tables in the format of fstab, read as libmount reads them, and the filesystems that `fstrim --fstab` trims.

use super::block::Stack;
use super::mountinfo::{self, Mount, unescape};
use super::root::Root;
use crate::sys::beneath::Named;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;

const FSTAB: &str = "/etc/fstab";
/// The option of fstab that leaves a filesystem out.
const NO_TRIM: &str = "X-fstrim.notrim";
/// The most bytes read of a table.
pub(crate) const BYTES_MAX: u64 = 1 << 20;
/// Names of tags that libmount turns into devices.
const TAGS: [&str; 5] = ["UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"];

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) fs_type: String,
    pub(crate) options: String,
}

impl Entry {
    /// Whether the option is set, with or without a value, as libmount matches it.
    pub(crate) fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option.split_once('=').map_or(option, |(key, _)| key) == name)
    }

    /// Whether the source is a tag such as `UUID=…`, which is looked up.
    pub(crate) fn is_tagged(&self) -> bool {
        is_tagged(&self.source)
    }

    pub(crate) fn is_swap(&self) -> bool {
        self.fs_type == "swap"
    }

    /// Whether a swap area is discarded by an option.
    pub(crate) fn swap_discards(&self) -> bool {
        self.options.split(',').any(|option| option == "discard" || option.starts_with("discard="))
    }
}

/// Whether a source is a tag such as `UUID=…`.
pub(crate) fn is_tagged(source: &Path) -> bool {
    let text = source.to_string_lossy();
    text.split_once('=').is_some_and(|(name, _)| TAGS.contains(&name))
}

/// The lines of `/etc/fstab`.
pub(crate) fn read(root: &Root) -> Vec<Entry> {
    parse(&root.read_bytes(Path::new(FSTAB), BYTES_MAX).unwrap_or_default())
}

/// Whether fstab mounts something there, once and without the option `discard`.
pub(crate) fn lacks_discard(root: &Root, mount_point: &Path) -> bool {
    let entries = read(root);
    let found: Vec<&Entry> = entries.iter().filter(|entry| entry.target == mount_point).collect();
    matches!(found.as_slice(), [entry] if !entry.has_option("discard"))
}

/// Leaves out comments and lines that libmount rejects: fewer than three fields, or a fifth or sixth that is no number.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Entry> {
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

/// The mount points of fstab, each with the reason why it is passed by, if it is. The root filesystem is added where no line names it.
pub fn to_trim(root: &Root) -> std::io::Result<Vec<(PathBuf, Option<&'static str>)>> {
    let mounts = mountinfo::read(root)?;
    let entries = mounted(read(root)).into_iter();
    Ok(entries.map(|entry| (entry.target.clone(), passed(root, &mounts, &entry))).collect())
}

/// The unmounted mount point of fstab between `path` and `mount`, the mount that `path` is on. Its filesystem is the one that the user means.
#[must_use]
pub fn unmounted(root: &Root, mount: &Mount, path: &Path) -> Option<PathBuf> {
    let between = |point: &PathBuf| path.starts_with(point) && point.starts_with(&mount.mount_point) && *point != mount.mount_point;
    let points = mounted(read(root)).into_iter().map(|entry| entry.target);
    points.filter(between).max_by_key(|point| point.as_os_str().len())
}

/// Refuses a `path` below an unmounted mount point of fstab: it is on another filesystem than the user means.
///
/// # Errors
/// [`UsageError`]. A path that cannot be examined passes: the caller reports it when opening it.
pub fn require_mounted(path: &Path) -> Result<(), UsageError> {
    let found = || {
        let root = Root::live().ok()?;
        let named = Named::look_up(path).ok()?;
        let mounts = mountinfo::read(&root).ok()?;
        let mount = mountinfo::of_named(&mounts, &named).ok()??;
        unmounted(&root, mount, &named.real_path().ok()?).map(|point| (point, mount.mount_point.clone()))
    };
    let Some((point, other)) = found() else { return Ok(()) };
    let (point, other) = (point.display(), other.display());
    let what = format!("{point} is in {FSTAB} and not mounted, so {} is on the filesystem of {other}", path.display());
    Err(UsageError::missing(what).hint(format!("mount {point} first, or name {other}")))
}

/// The lines with a mount point.
fn mounted(entries: Vec<Entry>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = entries.into_iter().filter(|entry| entry.target.is_absolute()).collect();
    if !entries.iter().any(|entry| entry.target == Path::new("/")) {
        entries.insert(0, Entry { target: "/".into(), ..Entry::default() });
    }
    entries
}

/// Why a line is passed by; `None` if it is not.
fn passed(root: &Root, mounts: &[Mount], entry: &Entry) -> Option<&'static str> {
    if entry.has_option(NO_TRIM) {
        return Some("fstab says X-fstrim.notrim");
    }
    let Some(mount) = mountinfo::of_path(root, mounts, &entry.target).ok().flatten() else { return Some("not mounted") };
    if mount.mount_point != entry.target {
        return Some("not mounted");
    }
    if entry.has_option("ro") || !mount.is_writable() {
        return Some("mounted read-only");
    }
    Stack::of_mount(root, mounts, mount).tops.is_empty().then_some("not on a block device")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_is_read_with_its_escapes() {
        let notrim = parse(b"/dev/sda1 / ext4 rw,X-fstrim.notrim=1 0 1\n");
        assert!(notrim[0].has_option("X-fstrim.notrim") && !notrim[0].has_option("X-fstrim"));
        let text = b"# /dev/sda9 /none ext4\n/dev/sda1\t/  ext4 defaults 0 1\nUUID=x /with\\040space xfs X-fstrim.notrim\n\
                     /dev/sda2 none swap sw\nshort line\n/dev/sda3 /bad ext4 defaults 0 one\n/dev/sda4 /worse ext4 # no options\n";
        let entries = parse(text);
        let targets: Vec<&str> = entries.iter().map(|e| e.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/", "/with space", "none"]);
        assert!(entries[1].is_tagged() && entries[1].has_option("X-fstrim.notrim") && entries[2].is_swap());
        assert!(!is_tagged(Path::new("ZFS=rpool/root")) && !is_tagged(Path::new("/dev/sda")));
    }

    #[test]
    fn fstab_lines_name_mount_points_and_root_is_added() {
        let points = |text: &str| mounted(parse(text.as_bytes())).into_iter().map(|entry| entry.target).collect::<Vec<_>>();
        assert_eq!(points(""), [Path::new("/")]);
        let text = "# /dev/a /none ext4\n/dev/a /with\\040space ext4\nUUID=x none swap sw\n/dev/b\t/\txfs defaults,X-fstrim.notrim 0 1\n";
        assert_eq!(points(text), [Path::new("/with space"), Path::new("/")]);
    }

    #[test]
    fn mount_point_of_fstab_without_a_mount_is_found() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("etc")).unwrap();
        let text = "/dev/a / ext4\n/dev/b /srv ext4 noauto\n/dev/c /srv/data\\040x xfs\nUUID=1 none swap sw\n";
        std::fs::write(tree.path().join("etc/fstab"), text).unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let on = |mount_point: &str, path: &str| {
            let line = format!("20 1 8:1 / {mount_point} rw - ext4 /dev/sda1 rw\n");
            unmounted(&root, &mountinfo::parse(line.as_bytes())[0], Path::new(path))
        };
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!([on("/", "/srv"), on("/", "/srv/deep/er")], [found("/srv"), found("/srv")]);
        assert_eq!(on("/srv", "/srv/data x/y"), found("/srv/data x"));
        assert_eq!([on("/", "/"), on("/", "/home"), on("/", "/srvs"), on("/srv", "/srv/other")], [const { None }; 4]);
    }

    #[test]
    fn lines_are_passed_by_as_fstrim_passes_them_by() {
        let tree = tempfile::tempdir().unwrap();
        let proc = tree.path().join("proc/self");
        std::fs::create_dir_all(&proc).unwrap();
        let table = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 8:2 / /ro ro - ext4 /dev/sda2 ro\n22 20 0:9 / /tmp rw - tmpfs none rw\n";
        std::fs::write(proc.join("mountinfo"), table).unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let mounts = mountinfo::read(&root).unwrap();
        let why = |mount_point: &str, options: &str| {
            passed(&root, &mounts, &Entry { target: mount_point.into(), options: options.into(), ..Entry::default() }).unwrap_or("")
        };
        assert_eq!(why("/", "defaults,X-fstrim.notrim"), "fstab says X-fstrim.notrim");
        assert_eq!(why("/away", "defaults"), "not mounted");
        assert_eq!([why("/ro", ""), why("/", "noatime,ro")], ["mounted read-only"; 2]);
        assert_eq!(why("/tmp", ""), "not on a block device");
    }
}
