//! The `discard` mount option: reads it from a mount and sets it on the filesystem.
//!
//! Only this option changes: `fspick` and `fsconfig` set single options. A remount by
//! `mount` would set all options again.

use crate::host::mountinfo::{self, Mount};
use crate::host::root::Root;
use crate::sys::beneath::ResolvedObject;
use crate::sys::mount_check::{MountCheck, PATIENCE, UnresponsivePathError};
use anyhow::{Context as _, bail};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::mount::{
    FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick,
};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// Online discard setting of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiscardOption {
    /// `nodiscard`.
    Off,
    /// `discard`.
    On,
    /// `discard=VALUE`, such as `discard=async` of btrfs.
    Mode(String),
}

impl DiscardOption {
    /// Returns the setting of `mount`.
    pub fn of(mount: &Mount) -> Self {
        let value = mount.all_options().find_map(|option| match option.split_once('=') {
            None if option == "discard" => Some(Self::On),
            Some(("discard", mode)) => Some(Self::Mode(mode.to_owned())),
            _ => None,
        });
        value.unwrap_or(Self::Off)
    }

    /// True for anything but `nodiscard`.
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }

    /// Returns the setting that enables online discard on this filesystem type.
    pub fn online(fs_type: &str) -> Self {
        if fs_type == "btrfs" { Self::Mode("async".to_owned()) } else { Self::On }
    }
}

impl fmt::Display for DiscardOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("nodiscard"),
            Self::On => f.pad("discard"),
            Self::Mode(mode) => write!(f, "discard={mode}"),
        }
    }
}

impl FromStr for DiscardOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nodiscard" => Ok(Self::Off),
            "discard" => Ok(Self::On),
            _ => match text.strip_prefix("discard=") {
                Some(mode)
                    if !mode.is_empty() && mode.bytes().all(|b| b.is_ascii_alphanumeric()) =>
                {
                    Ok(Self::Mode(mode.to_owned()))
                }
                _ => Err(format!("'{text}' is not a discard option")),
            },
        }
    }
}

/// Returns the current mount of `path`.
pub fn mount_of(path: &Path) -> anyhow::Result<Mount> {
    let root = Root::live()?;
    let mounts = mountinfo::read(&root).context("cannot read the mount table")?;
    let mount = mountinfo::of_path(&root, &mounts, path)
        .with_context(|| format!("cannot find {}", path.display()))?;
    mount
        .cloned()
        .with_context(|| format!("the mount of {} is not in the mount table", path.display()))
}

/// Returns the discard setting of the filesystem of `path`; `None` if it cannot be
/// determined.
pub fn of_path(path: &Path) -> Option<DiscardOption> {
    mount_of(path).ok().map(|mount| DiscardOption::of(&mount))
}

/// Opens the mount point with `O_PATH` and verifies that it is still this mount: the
/// owner of a directory on the way could have replaced it.
pub fn open(mount: &Mount) -> io::Result<OwnedFd> {
    // An interrupt does not shorten this wait, because it may be the reason for restoring
    // the option.
    if MountCheck::start(&mount.mount_point).is_ok_and(|mut check| !check.answers_within(PATIENCE))
    {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            UnresponsivePathError(mount.mount_point.clone()).to_string(),
        ));
    }
    let found = ResolvedObject::look_up(&mount.mount_point)?.into_object();
    let seen = statx(&found, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID)
        && seen.stx_mnt_id != u64::from(mount.id)
    {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "something else is mounted there by now",
        ));
    }
    Ok(found)
}

/// Sets the option on the filesystem of `mount` and verifies that it took effect.
pub fn set(mount: &Mount, wanted: &DiscardOption) -> anyhow::Result<()> {
    let shown = mount.mount_point.display();
    let found = open(mount).with_context(|| format!("cannot set {wanted} on {shown}"))?;
    let change = || {
        let fs = fspick(&found, c"", FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH)?;
        match wanted {
            DiscardOption::Off => fsconfig_set_flag(&fs, "nodiscard")?,
            DiscardOption::On => fsconfig_set_flag(&fs, "discard")?,
            DiscardOption::Mode(mode) => fsconfig_set_string(&fs, "discard", mode.as_str())?,
        }
        fsconfig_reconfigure(&fs)
    };
    change().with_context(|| format!("cannot set {wanted} on {shown}"))?;
    let now = DiscardOption::of(&mount_of(&mount.mount_point)?);
    if now != *wanted {
        bail!("{shown} took the option {wanted} and ignored it: it still has {now}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discard_option_round_trips_through_text() {
        for discard in [DiscardOption::Off, DiscardOption::On, DiscardOption::Mode("async".into())]
        {
            assert_eq!(discard.to_string().parse(), Ok(discard));
        }
        for text in ["", "discard=", "discard=a,rw", "ro"] {
            assert!(text.parse::<DiscardOption>().is_err(), "{text}");
        }
    }

    #[test]
    fn discard_option_is_parsed_from_mount_options() {
        let mount = |options: &str| {
            let line = format!("36 27 8:1 / /mnt rw,noatime - ext4 /dev/sda1 {options}\n");
            DiscardOption::of(&mountinfo::parse(line.as_bytes())[0])
        };
        assert_eq!(mount("rw,discard"), DiscardOption::On);
        assert_eq!(
            mount("rw,ssd,discard=async,space_cache=v2"),
            DiscardOption::Mode("async".into())
        );
        assert_eq!(mount("rw,nodiscard"), DiscardOption::Off);
        assert_eq!(mount("rw,discard_granularity=1"), DiscardOption::Off);
    }
}
