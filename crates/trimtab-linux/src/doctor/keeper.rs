//! The component that mounts a filesystem and therefore stores the options for later
//! mounts: fstab, Kubernetes, or udisks.

use super::{Remedy, shown, word};
use crate::host::fstab;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use std::path::Path;

/// File in which libmount records the program that requested a mount.
const UTAB: &str = "/run/mount/utab";
/// Path components of mount points that the kubelet and its storage drivers create, in
/// any root directory.
const OF_KUBELET: [&str; 2] = ["/kubelet/pods/", "/kubelet/plugins/"];
/// Directories in which udisks mounts; administrators also mount below the second.
const OF_UDISKS: [&str; 2] = ["/run/media", "/media"];

/// The component that mounts a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountManager {
    Fstab,
    Kubernetes,
    Udisks,
}

impl MountManager {
    pub fn of(root: &Root, mount: &Mount) -> Self {
        let point = mount.mount_point.as_path();
        let text = shown(point);
        if fstab::read(root).iter().any(|entry| entry.target == point) {
            return Self::Fstab;
        }
        let [run_media, media] = OF_UDISKS.map(|directory| {
            point.strip_prefix(directory).is_ok_and(|rest| rest.components().count() > 1)
        });
        match () {
            () if OF_KUBELET.iter().any(|part| text.contains(part)) => Self::Kubernetes,
            () if run_media || media || of_udisks(root, point) => Self::Udisks,
            () => Self::Fstab,
        }
    }

    /// The remedy that makes an option permanent.
    pub fn keeping(self, mount: &Mount, option: &str) -> Remedy {
        let point = word(&mount.mount_point);
        match self {
            Self::Fstab => {
                let verb = if option.contains('=') { "write" } else { "add" };
                Remedy::by_hand(format!("{verb} the option {option} to {point} in /etc/fstab"))
            }
            Self::Kubernetes => Remedy::by_hand(format!(
                "write the option {option} to mountOptions of its StorageClass, for \
                    new volumes, and of its PersistentVolume; then start its pods again"
            )),
            Self::Udisks => Remedy::by_hand(format!(
                "to keep it, add {option} to {0}_allow and {0}_defaults in \
                    /etc/udisks2/mount_options.conf, and mount again",
                mount.fs_type
            )),
        }
    }
}

/// True if libmount's records name udisks for the mount.
fn of_udisks(root: &Root, point: &Path) -> bool {
    let target = format!("TARGET={}", shown(point).replace(' ', "\\040"));
    let is_ours = |line: &str| {
        line.split(' ').any(|field| field == target) && line.contains("uhelper=udisks2")
    };
    root.read(UTAB).is_some_and(|text| text.lines().any(is_ours))
}
