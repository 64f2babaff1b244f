//! The machine below a path: its filesystem, its drive, every layer between them, and
//! interference from other processes. Read from `/sys`, `/proc` and `/etc`, never from a
//! device.
//!
//! Every measurement uses [`EnvironmentRecorder`]: call `start` before and `finish`
//! after.

pub mod answers;
pub mod block;
pub mod cached;
pub mod discards;
pub mod disk;
pub mod drive;
pub mod environment;
pub mod fstab;
pub mod health;
pub mod identity;
pub mod interference;
pub mod loops;
pub mod memory;
pub mod mountinfo;
pub mod openers;
pub mod processes;
pub mod record;
pub mod root;
pub mod stat;
pub mod superblock;
pub mod users;

use crate::sys::beneath::ResolvedObject;
use crate::sys::mount_check;
use anyhow::Context as _;
use block::Stack;
use interference::{MachineSample, OwnIo};
use mountinfo::{DevNumber, Mount};
use root::Root;
use std::io;
use std::path::Path;
use trimtab_sim::run::{Field, Warning};

/// The mount and block device stack of a file, directory, mount point or device node.
#[derive(Clone, Debug)]
pub struct Place {
    /// The mount that holds the path; `None` for a device node.
    pub mount: Option<Mount>,
    /// The layers below the mount or the device.
    pub stack: Stack,
}

impl Place {
    /// Resolves `path`: a device node to its device, anything else to its filesystem.
    pub fn of_path(root: &Root, path: &Path) -> io::Result<Self> {
        let mounts = mountinfo::read(root)?;
        if root.is_live() {
            match ResolvedObject::look_up(path) {
                Ok(named) if named.kind() == rustix::fs::FileType::BlockDevice => {
                    return Ok(Self::of_device(
                        root,
                        &mounts,
                        DevNumber::from_raw(named.stat().st_rdev),
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    let dev = Some(error.kind())
                        .filter(|kind| *kind == io::ErrorKind::NotFound)
                        .and_then(|_| kernel_name(root, path));
                    return dev.map(|dev| Self::of_device(root, &mounts, dev)).ok_or(error);
                }
            }
        } else if path.starts_with("/dev") || !path.is_absolute() {
            // A recorded tree has no device nodes, only the names of its devices.
            let name = path.to_str().unwrap_or_default();
            let sys =
                block::device_of_source(root, path).or_else(|| block::device_by_name(root, name));
            let dev = sys.and_then(|sys| DevNumber::parse(&root.read(sys.join("dev"))?));
            // Filesystems can be mounted below /dev as well (/dev/shm).
            let mounted = || {
                mounts.iter().any(|mount| {
                    mount.mount_point.starts_with("/dev") && path.starts_with(&mount.mount_point)
                })
            };
            if let Some(dev) = dev {
                return Ok(Self::of_device(root, &mounts, dev));
            } else if !path.is_absolute() || !mounted() {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the recorded tree has no device of this name",
                ));
            }
        }
        let mount = mountinfo::of_path(root, &mounts, path)?.cloned();
        let stack = mount.as_ref().map(|m| Stack::of_mount(root, &mounts, m)).unwrap_or_default();
        Ok(Self { mount, stack })
    }

    fn of_device(root: &Root, mounts: &[Mount], dev: DevNumber) -> Self {
        Self { mount: None, stack: Stack::of_device(root, mounts, dev) }
    }
}

/// The device with this kernel name: `cciss!c0d0` and `/dev/cciss!c0d0` are
/// `/dev/cciss/c0d0`.
fn kernel_name(root: &Root, path: &Path) -> Option<DevNumber> {
    let name =
        path.strip_prefix("/dev").unwrap_or(path).to_str().filter(|name| !name.contains('/'))?;
    DevNumber::parse(&root.read(Path::new("/sys/class/block").join(name).join("dev"))?)
}

/// Checks that `paths` respond, and below each of them the filesystem of every file that a
/// loop device is on: its server may hang although the kernel answers for the filesystem
/// above.
///
/// # Errors
/// A filesystem does not respond within [`mount_check::PATIENCE`]; an interrupt.
pub fn require_answers(paths: &[&Path]) -> anyhow::Result<()> {
    mount_check::require_answers(paths)?;
    let root = Root::live().context("cannot open /")?;
    for path in paths {
        // The command reports a path that does not exist.
        let Ok(place) = Place::of_path(&root, path) else { continue };
        place.stack.require_answers().with_context(|| format!("cannot use {}", path.display()))?;
    }
    Ok(())
}

/// Watches the machine during a measurement.
#[derive(Debug)]
pub struct EnvironmentRecorder {
    root: Root,
    place: Place,
    environment: Vec<Field>,
    before: MachineSample,
}

impl EnvironmentRecorder {
    /// Records the state of the machine, the drive and the filesystem of `path`
    /// (directory, file or device) and starts watching for interference. Values that
    /// cannot be read are omitted. Fails only if `path` does not exist.
    pub fn start(path: &Path) -> io::Result<Self> {
        let root = Root::live()?;
        let place = Place::of_path(&root, path)?;
        let environment = environment::capture(&root, &place, path);
        let before = MachineSample::take(&root, &place.stack);
        Ok(Self { root, place, environment, before })
    }

    /// The mount and stack of the path.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Stops watching. Returns the environment with the interference seen during the
    /// measurement (`interference.*`), and warnings. `own` is the I/O of the measured
    /// code; without it, the process's own accounting is used.
    pub fn finish(self, own: Option<OwnIo>) -> (Vec<Field>, Vec<Warning>) {
        let after = MachineSample::take(&self.root, &self.place.stack);
        let (fields, warnings) = interference::judge(&self.before, &after, own);
        let mut environment = self.environment;
        environment.extend(health::afterwards(&self.root, &self.place.stack));
        environment.extend(fields);
        (environment, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observer_reports_filesystem_and_drive() {
        let directory = tempfile::tempdir().unwrap();
        let observer = EnvironmentRecorder::start(directory.path()).unwrap();
        let (environment, _) = observer.finish(None);
        let value = |key: &str| Field::find(&environment, key);
        assert!(value("kernel.release").is_some());
        assert!(value("fs.type").is_some());
        assert!(value("interference.seconds").is_some());
        let mut keys: Vec<&str> = environment.iter().map(|f| f.key.as_str()).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count, "each key once");
    }

    #[test]
    fn kernel_name_of_device_resolves_to_its_path() {
        let root = Root::live().unwrap();
        for name in root.list("/sys/class/block").into_iter().take(3) {
            let dev = DevNumber::parse(&root.read(format!("/sys/class/block/{name}/dev")).unwrap());
            assert_eq!(
                Place::of_path(&root, Path::new(&name))
                    .unwrap()
                    .stack
                    .top_layers()
                    .next()
                    .map(|layer| layer.dev),
                dev,
                "{name}"
            );
        }
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("sys/class/block/cciss!c0d0");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("dev"), "104:0").unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        for name in ["cciss!c0d0", "/dev/cciss!c0d0"] {
            assert_eq!(kernel_name(&root, Path::new(name)), DevNumber::parse("104:0"), "{name}");
        }
        assert_eq!(
            [
                kernel_name(&root, Path::new("/dev/cciss/c0d0")),
                kernel_name(&root, Path::new("../x"))
            ],
            [None, None]
        );
    }

    #[test]
    fn observer_of_missing_path_is_an_error() {
        assert_eq!(
            EnvironmentRecorder::start(Path::new("/no/such/path")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
