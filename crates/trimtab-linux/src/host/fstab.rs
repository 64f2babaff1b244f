//! Which filesystems of `/etc/fstab` are to be trimmed: those that `fstrim --fstab` trims.

use super::block::Stack;
use super::mountinfo::{self, Mount, unescape};
use super::root::Root;
use crate::sys::beneath::Named;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;

const FSTAB: &str = "/etc/fstab";
const FSTAB_BYTES_MAX: u64 = 1 << 20;
/// The option of fstab that leaves a filesystem out.
const NO_TRIM: &str = "X-fstrim.notrim";

/// A line of fstab that names a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    mount_point: PathBuf,
    options: String,
}

/// The mount points of fstab, each with the reason why it is passed by, if it is.
pub fn to_trim(root: &Root) -> std::io::Result<Vec<(PathBuf, Option<&'static str>)>> {
    let mounts = mountinfo::read(root)?;
    let lines = lines(&root.read_bytes(Path::new(FSTAB), FSTAB_BYTES_MAX).unwrap_or_default()).into_iter();
    Ok(lines.map(|line| (line.mount_point.clone(), passed(root, &mounts, &line))).collect())
}

/// The mount point of fstab, at or above `path` but below the `mount` that this is on, where nothing is mounted: there `path` does not lead to the filesystem that it stands for.
#[must_use]
pub fn unmounted(root: &Root, mount: &Mount, path: &Path) -> Option<PathBuf> {
    let between = |point: &PathBuf| path.starts_with(point) && point.starts_with(&mount.mount_point) && *point != mount.mount_point;
    let points = lines(&root.read_bytes(Path::new(FSTAB), FSTAB_BYTES_MAX).unwrap_or_default()).into_iter().map(|line| line.mount_point);
    points.filter(between).max_by_key(|point| point.as_os_str().len())
}

/// An error if the filesystem that `path` stands for is not mounted: what is done there would be done to another one.
///
/// # Errors
/// [`UsageError`]; a path that cannot be looked at is none, since whoever opens it says so.
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

/// Lines with a mount point; the root filesystem is added where none names it.
fn lines(fstab: &[u8]) -> Vec<Line> {
    let line = |line: &[u8]| {
        let mut fields = line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let source = fields.next()?;
        let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
        let options = String::from_utf8_lossy(fields.nth(1).unwrap_or_default()).into_owned();
        (!source.starts_with(b"#") && mount_point.is_absolute()).then_some(Line { mount_point, options })
    };
    let mut lines: Vec<Line> = fstab.split(|byte| *byte == b'\n').filter_map(line).collect();
    if !lines.iter().any(|line| line.mount_point == Path::new("/")) {
        lines.insert(0, Line { mount_point: "/".into(), options: String::new() });
    }
    lines
}

/// Why a line is passed by; `None` if it is not.
fn passed(root: &Root, mounts: &[Mount], line: &Line) -> Option<&'static str> {
    let has = |option: &str| line.options.split(',').any(|o| o == option);
    if has(NO_TRIM) {
        return Some("fstab says X-fstrim.notrim");
    }
    let Some(mount) = mountinfo::of_path(root, mounts, &line.mount_point).ok().flatten() else { return Some("not mounted") };
    if mount.mount_point != line.mount_point {
        return Some("not mounted");
    }
    if has("ro") || !mount.is_writable() {
        return Some("mounted read-only");
    }
    Stack::of_mount(root, mounts, mount).tops.is_empty().then_some("not on a block device")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_lines_name_mount_points_and_root_is_added() {
        let points = |text: &str| lines(text.as_bytes()).into_iter().map(|line| line.mount_point).collect::<Vec<_>>();
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
            passed(&root, &mounts, &Line { mount_point: mount_point.into(), options: options.into() }).unwrap_or("")
        };
        assert_eq!(why("/", "defaults,X-fstrim.notrim"), "fstab says X-fstrim.notrim");
        assert_eq!(why("/away", "defaults"), "not mounted");
        assert_eq!([why("/ro", ""), why("/", "noatime,ro")], ["mounted read-only"; 2]);
        assert_eq!(why("/tmp", ""), "not on a block device");
    }
}
