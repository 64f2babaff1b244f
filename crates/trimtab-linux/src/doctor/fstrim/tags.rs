//! Device tags in fstab (`UUID=…`), resolved as libblkid does: by udev's links, then by
//! probing all devices.

use crate::host::fstab;
use crate::host::root::Root;
use std::path::Path;
use std::process::{Command, Stdio};

/// This directory exists if udev creates links.
const LINKS: &str = "/dev/disk";
/// Fixed paths of findfs: never searched in a PATH that another user may have set.
const FINDFS: [&str; 2] = ["/usr/sbin/findfs", "/sbin/findfs"];

/// Returns whether a device has the tag; `None` if unknown or if the source is not a tag.
pub fn leads_to_a_device(root: &Root, source: &Path) -> Option<bool> {
    let link = fstab::tag_link(source)?;
    if root.link(&link).is_some() || root.exists(&link) {
        return Some(true);
    }
    let looked_at = || root.is_this_machine().then(|| findfs(source)).flatten();
    looked_at().or_else(|| root.is_directory(LINKS).map(|_| false))
}

/// The result of findfs, which probes all devices only as root.
fn findfs(tag: &Path) -> Option<bool> {
    let program = FINDFS.iter().find(|program| rustix::process::geteuid().is_root() && Path::new(program).exists())?;
    let status = Command::new(program).arg(tag).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.ok().map(|status| status.success())
}
