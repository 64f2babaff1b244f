//! Tags of devices in fstab (`UUID=…`), looked up as libblkid does: by udev's links, then by looking at all devices.

use crate::host::fstab;
use crate::host::root::Root;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exists where udev makes links.
const LINKS: &str = "/dev/disk";
/// Where findfs is looked for: never along a PATH that another user may have set.
const FINDFS: [&str; 2] = ["/usr/sbin/findfs", "/sbin/findfs"];

/// Whether a device has the tag; `None` if that is not known, and for what is no tag.
pub fn leads_to_a_device(root: &Root, source: &Path) -> Option<bool> {
    let link = fstab::tag_link(source)?;
    if root.link(&link).is_some() || root.exists(&link) {
        return Some(true);
    }
    let looked_at = || root.is_this_machine().then(|| findfs(source)).flatten();
    looked_at().or_else(|| root.is_directory(LINKS).map(|_| false))
}

/// The answer of findfs, which only root's looks at all devices.
fn findfs(tag: &Path) -> Option<bool> {
    let program = FINDFS.iter().find(|program| rustix::process::geteuid().is_root() && Path::new(program).exists())?;
    let status = Command::new(program).arg(tag).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.ok().map(|status| status.success())
}
