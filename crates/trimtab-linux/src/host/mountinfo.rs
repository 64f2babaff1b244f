//! The mount table `/proc/self/mountinfo`: the filesystem, options and device of each
//! mount.

use super::root::{Root, TABLE_BYTES_MAX};
use crate::sys::beneath::ResolvedObject;
use crate::sys::mount_check;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNumber {
    /// Major number; 0 for filesystems without a single block device.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl std::fmt::Display for DevNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl DevNumber {
    /// Parses `major:minor`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// From a raw `dev_t`.
    pub fn from_raw(raw: u64) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, unique while mounted.
    pub id: u32,
    /// Id of the parent mount.
    pub parent: u32,
    /// Device number as `stat` reports it for files on it.
    pub dev: DevNumber,
    /// The directory of the filesystem that is mounted: not `/` for bind mounts and
    /// subvolumes.
    pub root: PathBuf,
    /// Mount point.
    pub mount_point: PathBuf,
    /// Options of this mount: `rw,relatime`.
    pub options: String,
    /// Filesystem type.
    pub fs_type: String,
    /// Source as mounted: `/dev/sda1`, `/dev/mapper/home`, `tmpfs`.
    pub source: PathBuf,
    /// Options of the filesystem: `rw,discard`.
    pub fs_options: String,
}

impl Mount {
    /// The option (`discard`, or `discard=async` in full) is set on the mount or the
    /// filesystem.
    pub fn has_option(&self, name: &str) -> bool {
        self.all_options().any(|o| o == name)
    }

    /// The value of `name=value`.
    pub fn option_value(&self, name: &str) -> Option<&str> {
        self.all_options().find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    }

    /// Writable: neither the mount nor the filesystem is read-only.
    pub fn is_writable(&self) -> bool {
        !self.has_option("ro")
    }

    /// Every option once: those of the mount, then the others of the filesystem (`rw` is
    /// in both).
    pub fn options_once(&self) -> String {
        let mut once: Vec<&str> = Vec::new();
        for option in self.all_options().filter(|o| !o.is_empty()) {
            if !once.contains(&option) {
                once.push(option);
            }
        }
        once.join(",")
    }

    /// All options, those of the mount first.
    pub fn all_options(&self) -> impl Iterator<Item = &str> {
        self.options.split(',').chain(self.fs_options.split(','))
    }
}

/// Reads the mount table of `root`, in the kernel's order.
pub fn read(root: &Root) -> std::io::Result<Vec<Mount>> {
    Ok(parse(&root.read_bytes(Path::new("/proc/self/mountinfo"), TABLE_BYTES_MAX)?))
}

/// The name of this process's mount namespace; empty if the kernel does not report it.
pub fn own_namespace() -> String {
    std::fs::read_link("/proc/self/ns/mnt")
        .map(|name| name.display().to_string())
        .unwrap_or_default()
}

/// The mount tables of the other visible mount namespaces, each with a process id in it.
pub fn other_namespaces() -> Vec<(u32, Vec<Mount>)> {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mut known: Vec<PathBuf> = namespace("self").into_iter().collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Some(of) = namespace(&pid.to_string()).filter(|of| !known.contains(of)) else {
            continue;
        };
        if let Ok(table) = std::fs::read(format!("/proc/{pid}/mountinfo")) {
            known.push(of);
            found.push((pid, parse(&table)));
        }
    }
    found
}

/// Parses a mount table; skips lines that do not match proc(5).
pub fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let mut next = || fields.next();
    let id = number(next()?)?;
    let parent = number(next()?)?;
    let dev = DevNumber::parse(std::str::from_utf8(next()?).ok()?)?;
    let root = path(next()?);
    let mount_point = path(next()?);
    let options = text(next()?);
    while next()? != b"-" {}
    let fs_type = text(next()?);
    let source = path(next()?);
    // The option list may be empty; no known kernel omits the field.
    let fs_options = next().map(text).unwrap_or_default();
    mount_point.is_absolute().then_some(Mount {
        id,
        parent,
        dev,
        root,
        mount_point,
        options,
        fs_type,
        source,
        fs_options,
    })
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn text(field: &[u8]) -> String {
    super::root::printable(&unescape(field))
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// The kernel's list of swap areas.
pub const SWAPS: &str = "/proc/swaps";

/// The devices and files that `/proc/swaps` lists.
pub fn swap_sources(table: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    let name = |line: &[u8]| {
        line.split(u8::is_ascii_whitespace).next().filter(|name| name.starts_with(b"/")).map(path)
    };
    table.split(|&b| b == b'\n').skip(1).filter_map(name)
}

/// Decodes escapes such as `\040`: a backslash and three octal digits are one byte.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Filesystem types that the kernel serves itself, without a server or a drive.
const IN_KERNEL: &str = "
    autofs bdev binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue
    nsfs proc pstore ramfs resctrl rpc_pipefs securityfs selinuxfs sysfs tmpfs tracefs";

/// Device numbers of the mounted filesystems that do not respond ([`mount_check`]).
/// Checks each one once. Empty for a recorded tree.
pub fn silent(root: &Root, mounts: &[Mount]) -> Vec<DevNumber> {
    if !root.is_live() {
        return Vec::new();
    }
    let mut asked: Vec<&Mount> = Vec::new();
    let mut known: HashSet<DevNumber> = HashSet::new();
    let last: HashMap<&Path, u32> =
        mounts.iter().map(|mount| (mount.mount_point.as_path(), mount.id)).collect();
    for mount in mounts {
        let covered = last.get(mount.mount_point.as_path()) != Some(&mount.id);
        if !covered
            && !IN_KERNEL.split_ascii_whitespace().any(|fs_type| fs_type == mount.fs_type)
            && known.insert(mount.dev)
        {
            asked.push(mount);
        }
    }
    let paths: Vec<&Path> = asked.iter().map(|mount| mount.mount_point.as_path()).collect();
    let silent = mount_check::silent(&paths);
    asked
        .iter()
        .filter(|mount| silent.contains(&mount.mount_point.as_path()))
        .map(|mount| mount.dev)
        .collect()
}

/// The mount of `path` (absolute, without links): the deepest, and of several the last.
pub fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let mut best: Option<&Mount> = None;
    for mount in mounts {
        let deeper =
            |b: &Mount| mount.mount_point.as_os_str().len() >= b.mount_point.as_os_str().len();
        if path.starts_with(&mount.mount_point) && best.is_none_or(deeper) {
            best = Some(mount);
        }
    }
    best
}

/// Finds mounts by their place and number without going through the whole table.
#[derive(Debug, Default)]
pub struct MountIndex {
    by_point: HashMap<PathBuf, Vec<usize>>,
    by_name: HashMap<OsString, Vec<usize>>,
    by_id: HashMap<u32, usize>,
    /// Answers of [`MountIndex::reached`] about mount points: many mounts may be at one.
    known: RefCell<HashMap<PathBuf, Option<usize>>>,
}

impl MountIndex {
    /// Of a table; every method takes that table again.
    pub fn new(mounts: &[Mount]) -> Self {
        let mut index = Self::default();
        for (at, mount) in mounts.iter().enumerate() {
            index.by_point.entry(mount.mount_point.clone()).or_default().push(at);
            index
                .by_name
                .entry(mount.mount_point.file_name().unwrap_or_default().to_owned())
                .or_default()
                .push(at);
            index.by_id.entry(mount.id).or_insert(at);
        }
        index
    }

    /// Whether something is mounted exactly there.
    pub fn is_mount_point(&self, path: &Path) -> bool {
        self.by_point.contains_key(path)
    }

    /// Places in the table of all mounts at exactly this mount point.
    pub fn at(&self, path: &Path) -> &[usize] {
        self.by_point.get(path).map_or(&[], Vec::as_slice)
    }

    /// The first mount point that ends in these components.
    pub fn ending_in<'a>(&self, mounts: &'a [Mount], end: &Path) -> Option<&'a Path> {
        let same_name = self.by_name.get(end.file_name()?)?;
        same_name
            .iter()
            .map(|at| mounts[*at].mount_point.as_path())
            .find(|point| point.ends_with(end))
    }

    /// Place in the table of the mount that `path` leads to now: as [`containing`],
    /// without mounts that a later one covers.
    pub fn reached(&self, mounts: &[Mount], path: &Path) -> Option<usize> {
        if !self.is_mount_point(path) {
            return self.look_up(mounts, path);
        }
        let known = self.known.borrow().get(path).copied();
        known.unwrap_or_else(|| {
            *self
                .known
                .borrow_mut()
                .entry(path.to_owned())
                .or_insert_with(|| self.look_up(mounts, path))
        })
    }

    fn look_up(&self, mounts: &[Mount], path: &Path) -> Option<usize> {
        // The deepest mount points first, and the last mount of each.
        let over: Vec<usize> = path
            .ancestors()
            .filter_map(|above| self.by_point.get(above))
            .flat_map(|all| all.iter().rev().copied())
            .collect();
        let covers = |at: usize, later: usize| {
            let (mount, over) = (&mounts[at], &mounts[later]);
            later > at
                && mount.mount_point.starts_with(&over.mount_point)
                && !self.stands_on(mounts, mount, over.id)
        };
        over.iter().find(|at| !over.iter().any(|later| covers(**at, *later))).copied()
    }

    /// Whether a mount is on the mount `id`, or on one that is.
    fn stands_on(&self, mounts: &[Mount], mount: &Mount, id: u32) -> bool {
        const DEPTH_MAX: usize = 64;
        let parent = |mount: &u32| {
            Some(mounts[*self.by_id.get(mount)?].parent).filter(|parent| parent != mount)
        };
        std::iter::successors(Some(mount.parent), parent).take(DEPTH_MAX).any(|one| one == id)
    }
}

/// The mount of `path`. Fails on a link that another user can have placed ([`Named`]).
pub fn of_path<'a>(
    root: &Root,
    mounts: &'a [Mount],
    path: &Path,
) -> std::io::Result<Option<&'a Mount>> {
    if !root.is_live() {
        return Ok(containing(mounts, &without_links(root, path)?));
    }
    of_named(mounts, &ResolvedObject::look_up(path)?)
}

/// Makes `path` absolute, resolves links. Fails on links that others can have placed
/// ([`Named`]).
pub fn without_links(root: &Root, path: &Path) -> std::io::Result<PathBuf> {
    if root.is_live() {
        ResolvedObject::look_up(path)?.real_path()
    } else {
        Ok(root.canonical(path).unwrap_or_else(|| lexical(path)))
    }
}

/// The mount of an object on the running machine: from the kernel (`statx`, since Linux
/// 5.8), otherwise by name. `None` also if the mount is in another namespace
/// (`/proc/PID/root/…`), even if this one has a mount of the same name.
pub fn of_named<'a>(
    mounts: &'a [Mount],
    named: &ResolvedObject,
) -> std::io::Result<Option<&'a Mount>> {
    Ok(match mount_id_of(named) {
        Some(id) => mounts.iter().find(|m| m.id == id),
        None => containing(mounts, &named.real_path()?),
    })
}

/// The id of the mount of an open file; `None` before Linux 5.8.
pub fn mount_id_of(file: impl rustix::fd::AsFd) -> Option<u32> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    StatxFlags::from_bits_retain(stat.stx_mask)
        .contains(StatxFlags::MNT_ID)
        .then(|| u32::try_from(stat.stx_mnt_id).ok())?
}

/// Makes `path` absolute and removes `.` and `..` without accessing any file.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => clean.push(name),
            std::path::Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// The last component of a source such as `/dev/sda1`, if it is a path.
pub fn device_name(source: &Path) -> Option<&OsStr> {
    source.as_os_str().as_bytes().starts_with(b"/").then(|| source.file_name())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &[u8] = br"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
36 27 0:31 /@home /home rw,noatime shared:7 master:1 propagate_from:2 - btrfs /dev/sda2 rw,discard=async,subvol=/@home
40 27 8:1 / /mnt/with\040space\134n rw - xfs /dev/sda1 rw
41 40 8:17 / /mnt/with\040space\134n ro - ext4 /dev/sdb1 ro
42 27 0:50 / /ho rw - tmpfs tmpfs
not a mount line
43 27 x:1 / /bad rw - ext4 /dev/x rw
";

    #[test]
    fn parse_reads_fields_of_proc_5() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 5);
        assert_eq!(mounts[0].dev, DevNumber { major: 254, minor: 0 });
        assert!(mounts[0].has_option("discard") && !mounts[1].has_option("discard"));
        assert_eq!(mounts[1].option_value("discard"), Some("async"));
        assert_eq!(mounts[1].root, Path::new("/@home"));
        assert_eq!(mounts[2].mount_point, Path::new(r"/mnt/with space\n"));
        assert!(mounts[2].is_writable() && !mounts[3].is_writable());
        assert_eq!(mounts[4].fs_options, "");
        assert_eq!(mounts[0].options_once(), "rw,relatime,discard", "rw is in both fields");
        assert_eq!(mounts[3].options_once(), "ro", "and stands once");
        assert_eq!(mounts[4].options_once(), "rw");
    }

    #[test]
    fn containing_returns_deepest_and_last_mount() {
        let mounts = parse(TABLE);
        let id = |path: &str| containing(&mounts, Path::new(path)).map(|m| m.id);
        assert_eq!(id("/home/user"), Some(36));
        assert_eq!(id("/homes"), Some(27), "/home is not a prefix of /homes in components");
        assert_eq!(id(r"/mnt/with space\n/x"), Some(41), "mounted over");
        assert_eq!(id("/"), Some(27));
    }

    #[test]
    fn swap_sources_reads_first_field() {
        let table = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                /dev/sda2   partition\t8388604\t\t0\t\t-2\n/my\\040swap file 1 0 -3\n\n";
        assert_eq!(
            swap_sources(table).collect::<Vec<_>>(),
            [Path::new("/dev/sda2"), Path::new("/my swap")]
        );
        assert_eq!(swap_sources(b"").count(), 0);
    }

    #[test]
    fn live_mount_table_contains_root() {
        let root = Root::live().unwrap();
        let mounts = read(&root).unwrap();
        let mount = of_path(&root, &mounts, Path::new("/proc/self")).unwrap().unwrap();
        assert_eq!(mount.fs_type, "proc");
    }

    proptest! {
        #[test]
        fn parse_never_panics(table in proptest::collection::vec(any::<u8>(), 0..400)) {
            for mount in parse(&table) {
                prop_assert!(mount.mount_point.is_absolute());
            }
        }

        #[test]
        fn unescape_inverts_kernel_escapes(name in proptest::collection::vec(any::<u8>(), 1..40)) {
            let mut escaped = Vec::new();
            for &byte in &name {
                if matches!(byte, b' ' | b'\t' | b'\n' | b'\\') {
                    escaped.extend(format!("\\{byte:03o}").bytes());
                } else {
                    escaped.push(byte);
                }
            }
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
