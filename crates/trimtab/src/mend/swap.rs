//! Swap areas: switches discards on or off by deactivating and reactivating the area with the
//! same priority. Requires enough free memory to hold the area's contents.

use super::program;
use super::setting_state::SettingState;
use anyhow::{Context as _, ensure};
use std::path::Path;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::block::device_of_source;
use trimtab_linux::host::mountinfo::{SwapArea, swap_areas};
use trimtab_linux::host::processes::available_memory;
use trimtab_linux::host::root::{Root, TABLE_BYTES_MAX};

/// The active area on a device, under any of the device's names.
fn area(root: &Root, device: &Path) -> Option<SwapArea> {
    let sys = device_of_source(root, device)?;
    let table = root.read_bytes(Path::new(trimtab_linux::host::mountinfo::SWAPS), TABLE_BYTES_MAX).ok()?;
    swap_areas(&table).find(|area| device_of_source(root, &area.source).as_ref() == Some(&sys))
}

/// State of the area; the kernel does not expose its discard setting.
pub fn look(root: &Root, device: &Path) -> SettingState {
    if area(root, device).is_some() { SettingState::Hidden } else { SettingState::Gone }
}

/// Current priority, which only the kernel knows.
pub fn priority(root: &Root, device: &Path) -> Option<i32> {
    area(root, device).map(|area| area.priority)
}

/// Reactivates an area that a killed process deactivated. `swapon` verifies that it is a swap
/// area.
pub fn restore(device: &Path, priority: i32, say: &dyn Fn(&str)) -> anyhow::Result<()> {
    program::run(&swapon(&device.to_string_lossy(), priority, false), None, say)
}

pub fn again(root: &Root, device: &Path, discard: bool, say: &dyn Fn(&str)) -> anyhow::Result<()> {
    let shown = device.display();
    let area = area(root, device).with_context(|| format!("{shown} is no swap area any more"))?;
    let room = available_memory().unwrap_or(Bytes::ZERO);
    // Other processes continue to allocate memory.
    ensure!(area.used.0 <= room.0 / 2, "{shown} holds {} and only {room} of memory are available: it stays as it is", area.used);
    let name = device.to_string_lossy().into_owned();
    program::run(&["swapoff", "--", &name].map(str::to_owned), None, say)?;
    let on = |discard: bool| program::run(&swapon(&name, area.priority, discard), None, say);
    on(discard).or_else(|error| {
        // An area with the wrong discard setting is better than no swap.
        on(!discard).with_context(|| format!("{shown} is no swap area now"))?;
        Err(error)
    })
}

/// Builds the command line; omits a negative priority, which only the kernel assigns.
fn swapon(name: &str, priority: i32, discard: bool) -> Vec<String> {
    let mut line = vec!["swapon".to_owned()];
    line.extend(discard.then(|| "--discard".to_owned()));
    line.extend((priority >= 0).then(|| format!("--priority={priority}")));
    line.extend(["--".to_owned(), name.to_owned()]);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapon_keeps_a_chosen_priority() {
        assert_eq!(swapon("/dev/sda2", 5, true).join(" "), "swapon --discard --priority=5 -- /dev/sda2");
        assert_eq!(swapon("/dev/sda2", -2, false).join(" "), "swapon -- /dev/sda2");
    }
}
