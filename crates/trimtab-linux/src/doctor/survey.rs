//! The subjects of `trimtab doctor --all`, and the storage that it omits.

use super::filesystem::NonBlockStorage;
use super::{Diagnosis, Doctor, is_numbered, mechanisms, shown};
use crate::host::Place;
use crate::host::block::{Layer, Stack, shown_name};
use crate::host::mountinfo::{self, DevNumber, Mount};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Storage without a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndiagnosedStorage {
    /// Device or mount point.
    pub name: String,
    /// The reason.
    pub why: &'static str,
}

/// All diagnoses of a machine, and the storage without one.
#[derive(Debug, Default)]
pub struct Survey {
    /// One per filesystem on block devices, swap area, volume and drive.
    pub diagnoses: Vec<Diagnosis>,
    /// Storage that no diagnosis covers.
    pub not_judged: Vec<UndiagnosedStorage>,
}

/// Role of a block device in a survey.
enum Class {
    /// Judged if no judged subject uses it.
    Drive,
    /// The same, but built from other devices, and judged before the drives.
    Volume,
    LeftOut(&'static str),
}

fn class(name: &str) -> Class {
    const MADE_OF_OTHERS: [&str; 6] = ["dm-", "md", "bcache", "drbd", "zd", "rbd"];
    let numbered = |prefix: &str| is_numbered(name, prefix);
    match name {
        _ if MADE_OF_OTHERS.iter().any(|prefix| {
            name.starts_with(prefix) && (prefix.ends_with('-') || numbered(prefix))
        }) =>
        {
            Class::Volume
        }
        _ if numbered("loop") => Class::LeftOut("a loop device that nothing is mounted from"),
        _ if numbered("zram") || numbered("ram") => Class::LeftOut("memory, not a drive"),
        _ if numbered("mtdblock") || numbered("ubiblock") => {
            Class::LeftOut("raw flash memory, which its filesystem erases itself")
        }
        _ if numbered("sr") || numbered("fd") => Class::LeftOut("an optical or floppy drive"),
        _ if is_boot_area(name) => {
            Class::LeftOut("a boot or replay-protected area of an eMMC device")
        }
        _ => Class::Drive,
    }
}

/// True for `mmcblk0boot0`, `mmcblk0boot1`, `mmcblk0rpmb`.
pub(super) fn is_boot_area(name: &str) -> bool {
    let area = name
        .strip_prefix("mmcblk")
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    area.is_some_and(|area| {
        area == "rpmb"
            || area.strip_prefix("boot").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// True if a mount without block devices still stores its data on this machine's drives.
fn has_hidden_drives(mount: &Mount) -> bool {
    matches!(mount.fs_type.as_str(), "zfs" | "bcachefs") || mount.source.starts_with("/dev")
}

/// The reason for omitting a mount without block devices, if it deserves a line.
fn elsewhere(mount: &Mount) -> Option<&'static str> {
    match NonBlockStorage::of(&mount.fs_type, &mount.source)? {
        NonBlockStorage::Machine => Some("on another machine"),
        NonBlockStorage::Overlay => {
            Some("an overlay: its upper directory is on another filesystem")
        }
        NonBlockStorage::Filesystems => Some("its files are those of other filesystems"),
        NonBlockStorage::Memory | NonBlockStorage::Image => None,
    }
}

impl Doctor<'_> {
    /// Surveys every mounted filesystem on drives once; then swap; then unused volumes
    /// and drives.
    pub fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        let mut used: HashSet<PathBuf> = HashSet::new();
        self.survey_mounts(&mut survey, &mut used);
        for sys in self.swaps() {
            used.extend(self.device(&sys, &mut survey.diagnoses));
        }
        let names = self.root.list("/sys/block");
        let sizes = |name: &String| {
            let sys = self.root.canonical(format!("/sys/block/{name}"))?;
            (self.root.read_u64(sys.join("size")).unwrap_or(0) > 0).then(|| (name.clone(), sys))
        };
        let devices: Vec<(String, PathBuf)> = names.iter().filter_map(sizes).collect();
        let below: HashSet<PathBuf> =
            devices.iter().flat_map(|(_, sys)| self.slaves(sys)).collect();
        // A volume below another one is judged together with it.
        let (inner, outer): (Vec<_>, Vec<_>) =
            devices.into_iter().partition(|(_, sys)| below.contains(sys));
        let (volumes, others): (Vec<_>, Vec<_>) =
            outer.into_iter().partition(|(name, _)| matches!(class(name), Class::Volume));
        for (name, sys) in volumes.into_iter().chain(inner).chain(others) {
            if used.contains(&sys) {
                continue;
            }
            match class(&name) {
                Class::LeftOut(why) => {
                    survey.not_judged.push(UndiagnosedStorage { name: shown_name(&name), why })
                }
                Class::Volume | Class::Drive => {
                    used.extend(self.device(&sys, &mut survey.diagnoses))
                }
            }
        }
        survey
    }

    fn survey_mounts(&self, survey: &mut Survey, used: &mut HashSet<PathBuf>) {
        let mut seen: HashSet<Vec<PathBuf>> = HashSet::new();
        let mut sources: HashSet<PathBuf> = HashSet::new();
        // Several mounts may share one filesystem.
        let mut stacks: HashMap<(DevNumber, &Path, Option<&str>), Stack> = HashMap::new();
        let silent = mountinfo::silent(self.root, &self.mounts);
        let mut seen_silent: Vec<DevNumber> = Vec::new();
        // Prefer a reachable mount of each filesystem.
        let (covered, open): (Vec<&Mount>, Vec<&Mount>) =
            self.mounts.iter().partition(|mount| self.is_covered(mount));
        let (files, directories): (Vec<&Mount>, Vec<&Mount>) =
            open.into_iter().partition(|mount| self.is_file(mount));
        for mount in directories.into_iter().chain(covered).chain(files) {
            let key = (mount.dev, mount.source.as_path(), mount.option_value("rtdev"));
            let stack = &*stacks
                .entry(key)
                .or_insert_with(|| Stack::of_mount(self.root, &self.mounts, mount));
            let place = || Place { mount: Some(mount.clone()), stack: stack.clone() };
            if silent.contains(&mount.dev) {
                if !seen_silent.contains(&mount.dev) {
                    seen_silent.push(mount.dev);
                    used.extend(stack.layers.iter().map(|l| l.sys.clone()));
                    survey.diagnoses.push(self.examine_silent(mount));
                }
                continue;
            }
            let tops: Vec<PathBuf> = stack.top_layers().map(|l| l.sys.clone()).collect();
            if tops.is_empty() && self.is_not_recorded(mount) {
                let name = shown(&mount.mount_point);
                survey.not_judged.push(UndiagnosedStorage { name, why: "not recorded" });
            } else if tops.is_empty() {
                // All datasets of a pool share one diagnosis.
                let pool = mount
                    .source
                    .iter()
                    .next()
                    .map(PathBuf::from)
                    .filter(|_| mount.fs_type == "zfs");
                let source = pool.unwrap_or_else(|| mount.source.clone());
                if has_hidden_drives(mount) && sources.insert(source) {
                    survey.diagnoses.push(self.examine(shown(&mount.mount_point), &place()));
                } else if let Some(why) = elsewhere(mount) {
                    survey
                        .not_judged
                        .push(UndiagnosedStorage { name: shown(&mount.mount_point), why });
                }
            } else if seen.insert(tops) {
                used.extend(stack.layers.iter().map(|l| l.sys.clone()));
                // A file in a container is no name for the filesystem that it is on.
                let device =
                    stack.top_layers().next().map(Layer::node).filter(|_| self.is_file(mount));
                survey.diagnoses.push(
                    self.examine(device.unwrap_or_else(|| shown(&mount.mount_point)), &place()),
                );
            }
        }
    }

    /// The recorded tree lacks the device: 'doctor --record DIR PATH' records only PATH.
    fn is_not_recorded(&self, mount: &Mount) -> bool {
        !self.root.is_this_machine() && mount.source.starts_with("/dev")
    }

    /// A single file is mounted, as container managers do.
    fn is_file(&self, mount: &Mount) -> bool {
        const OF_CONTAINERS: [&str; 3] = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
        let named = || OF_CONTAINERS.iter().any(|file| mount.mount_point == Path::new(file));
        // A mount may hang.
        let is_directory = if self.root.is_this_machine() {
            None
        } else {
            self.root.is_directory(&mount.mount_point)
        };
        mount.root != Path::new("/")
            && is_directory.map_or_else(named, |is_directory| !is_directory)
    }

    fn slaves(&self, sys: &Path) -> Vec<PathBuf> {
        let slaves = sys.join("slaves");
        self.root
            .list(&slaves)
            .iter()
            .filter_map(|name| self.root.canonical(slaves.join(name)))
            .collect()
    }

    /// Examines the device at `sys`; returns the layers below it.
    fn device(&self, sys: &Path, all: &mut Vec<Diagnosis>) -> Vec<PathBuf> {
        let dev = self.root.read(sys.join("dev")).and_then(|d| DevNumber::parse(&d));
        let stack =
            dev.map(|dev| Stack::of_device(self.root, &self.mounts, dev)).unwrap_or_default();
        // LVM metadata and caches are judged with their volumes.
        let Some(top) = stack.top_layers().next().filter(|top| !top.gets_no_discards()) else {
            return Vec::new();
        };
        let name = top.node();
        let layers = stack.layers.iter().map(|l| l.sys.clone()).collect();
        all.push(self.examine(name, &Place { mount: None, stack }));
        layers
    }

    /// The block devices in use as swap; excludes swap files and memory.
    pub(super) fn swaps(&self) -> Vec<PathBuf> {
        mechanisms::swap_devices(self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::Root;

    /// Once, every mount that 'doctor --record DIR PATH' leaves out was unknown.
    #[test]
    fn mount_without_recorded_device_is_not_judged() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        std::fs::write(
            tree.path().join("proc/self/mountinfo"),
            "9 1 8:1 / /mnt rw - ext4 /dev/sda1 rw\n",
        )
        .unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let survey = Doctor::new(&root).unwrap().survey();
        assert!(survey.diagnoses.is_empty());
        let left_out: Vec<_> = survey.not_judged.iter().map(|one| (&*one.name, one.why)).collect();
        assert_eq!(left_out, [("/mnt", "not recorded")]);
    }

    #[test]
    fn devices_are_classed_by_name() {
        let kind = |name: &str| match class(name) {
            Class::Drive => 'd',
            Class::Volume => 'v',
            Class::LeftOut(_) => '-',
        };
        for (name, expected) in [
            ("sda", 'd'),
            ("nvme0n1", 'd'),
            ("mmcblk0", 'd'),
            ("cciss!c0d0", 'd'),
            ("fdisk", 'd'),
            ("mmcblk0boot0", '-'),
            ("mmcblk1boot1", '-'),
            ("mmcblk0rpmb", '-'),
            ("mmcblk0gp0", 'd'),
            ("mtdblock3", '-'),
            ("ubiblock0_0", '-'),
            ("zram3", '-'),
            ("ram0", '-'),
            ("loop7", '-'),
            ("sr0", '-'),
            ("dm-4", 'v'),
            ("md127", 'v'),
            ("md_d0", 'd'),
            ("zd16", 'v'),
            ("drbd1", 'v'),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
