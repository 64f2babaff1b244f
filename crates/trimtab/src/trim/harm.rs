//! Drives that lose data when they are trimmed.

use crate::daemon::config::Config;
use trimtab_linux::doctor;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_linux::trim::filesystem::Filesystem;

/// The reason not to trim a filesystem: a drive below it loses data when it is trimmed,
/// and the configuration does not accept that.
pub fn harm(root: &Root, mount: &Mount, stack: &Stack) -> Option<String> {
    let config = Config::of_root(root).and_then(Result::ok);
    doctor::trim_refusal(
        root,
        mount,
        stack,
        &config.map(|config| config.ignore).unwrap_or_default(),
    )
}

/// Refuses such drives.
pub fn require_harmless(fs: &Filesystem) -> anyhow::Result<()> {
    match harm(fs.root(), fs.mount(), fs.stack()) {
        Some(why) => anyhow::bail!("cannot trim {}: {why}", fs.mount().mount_point.display()),
        None => Ok(()),
    }
}
