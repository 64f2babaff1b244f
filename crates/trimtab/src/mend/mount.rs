//! Mount option `discard` of a filesystem that resets all options that a remount does not
//! repeat (ntfs3).

use super::setting_state::SettingState;
use anyhow::{Context as _, ensure};
use rustix::io::Errno;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick};
use std::path::Path;
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::session::discard_option::{DiscardOption, mount_of, open};

/// The only filesystem type that needs this.
const FS_TYPE: &str = "ntfs3";

fn mounted(mount_point: &Path) -> anyhow::Result<Mount> {
    let mount = mount_of(mount_point)?;
    let shown = mount_point.display();
    ensure!(mount.mount_point == mount_point && mount.fs_type == FS_TYPE, "{shown} is not the mount point of an {FS_TYPE} any more");
    Ok(mount)
}

pub fn look(mount_point: &Path) -> SettingState {
    match mounted(mount_point) {
        Ok(mount) if DiscardOption::of(&mount).is_on() => SettingState::Set,
        Ok(_) => SettingState::Before,
        Err(_) => SettingState::Gone,
    }
}

/// The device mounted there.
pub fn device(mount_point: &Path) -> Option<String> {
    mounted(mount_point).ok().map(|mount| mount.dev.to_string())
}

/// The filesystem's options without those about discards and without the generic ones.
fn others(mount: &Mount) -> impl Iterator<Item = &str> {
    mount.fs_options.split(',').filter(|option| !matches!(*option, "" | "rw" | "ro" | "discard" | "nodiscard"))
}

/// Remounts with or without the option and verifies the result; all other options stay the
/// same.
pub fn remount(mount_point: &Path, discard: bool) -> anyhow::Result<()> {
    let mount = mounted(mount_point)?;
    let shown = mount_point.display();
    let found = open(&mount).with_context(|| format!("cannot open {shown}"))?;
    let change = || -> Result<(), Errno> {
        let fs = fspick(&found, c"", FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH)?;
        for option in others(&mount).chain(discard.then_some("discard")) {
            match option.split_once('=') {
                Some((key, value)) => fsconfig_set_string(&fs, key, value)?,
                None => fsconfig_set_flag(&fs, option)?,
            }
        }
        fsconfig_reconfigure(&fs)
    };
    change().map_err(std::io::Error::from).with_context(|| format!("cannot remount {shown}"))?;
    let now = mounted(mount_point)?;
    let what = if discard { "takes" } else { "gives up" };
    ensure!(DiscardOption::of(&now).is_on() == discard, "{shown} {what} the option discard only when it is unmounted and mounted again");
    ensure!(others(&now).eq(others(&mount)), "the options of {shown} were '{}' and are now '{}'", mount.fs_options, now.fs_options);
    Ok(())
}
