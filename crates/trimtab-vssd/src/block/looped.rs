//! A file served over FUSE, under a loop device.

use super::Place;
use crate::fuse::{self, MAX_REQUEST_BYTES, Mounted};
use crate::request::{Geometry, Serve};
use crate::runtime::{self, Home, Record};
use anyhow::Context as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_linux::host::disk::Disk;
use trimtab_linux::host::loops::LoopDevice;
use trimtab_linux::loop_device::Detached;
use trimtab_linux::sys::beneath::{Identity, set_attribute};

/// Both. They stay when this is dropped.
pub struct Looped {
    mounted: Mounted,
    device: LoopDevice,
    served: Identity,
}

impl Looped {
    /// Makes both, and notes in the record what a crash would leave.
    pub fn make(drive: &Arc<dyn Serve>, place: &Place<'_>, record: &mut Record) -> anyhow::Result<Self> {
        let mount_point = place.home.mount_point();
        let mounted = fuse::mount(Arc::clone(drive), place.pacer, runtime::SERVED_FILE, &mount_point).map_err(explain_fuse)?;
        let made = (|| {
            let file = place.home.open_served().context("cannot open the served file")?;
            let served = Identity::of(&file).context("cannot look at the served file")?;
            // Before there is a device on it, so that it is found after a crash.
            record.served = Some((served.device, served.inode));
            place.home.write_record(record)?;
            let device = LoopDevice::attach(&file, &mount_point.join(runtime::SERVED_FILE), drive.geometry().logical_block)?;
            Ok((device, served))
        })();
        match made {
            Ok((device, served)) => Ok(Self { mounted, device, served }),
            Err(error) => {
                // What went wrong first is what the user has to hear.
                let _ = place.home.unmount(record.served());
                Err(error)
            }
        }
    }

    pub fn disk(&self) -> Disk {
        self.device.disk()
    }

    /// Makes the queue show what the drive would show. Gives what the kernel would not take, in words.
    pub fn tune(&self, geometry: &Geometry) -> Vec<String> {
        tune(self.device, geometry, MAX_REQUEST_BYTES)
    }

    /// Takes the loop device away. Nothing has changed if this fails.
    pub fn let_go(&self, force: bool, problems: &mut Vec<String>) -> anyhow::Result<()> {
        let Self { device, served, .. } = self;
        let shown = device.path();
        // Another's users are none of ours.
        let users = if device.backing().is_some_and(|backing| backing.file == *served) { device.users() } else { Vec::new() };
        anyhow::ensure!(users.is_empty() || force, "{} is busy: {}", shown.display(), users.join(", "));
        if !force && let Err(error) = device.sync(*served) {
            // A drive that has failed must not stay attached because of that.
            problems.push(format!("not all that was written to {} has reached the drive: {error}", shown.display()));
        }
        match device.detach(*served, force).with_context(|| format!("cannot detach {}", shown.display()))? {
            Detached::InUse if !force => anyhow::bail!("{} is busy: another process has it open", shown.display()),
            Detached::Foreign => problems.push(format!(
                "{} stands on something else by now, so it was left alone: the drive's was detached and another attached in its place",
                shown.display()
            )),
            Detached::Free | Detached::InUse => {}
        }
        Ok(())
    }

    /// After that: unmounts the file.
    pub fn take_away(self, home: &Home, served: Option<Identity>, force: bool) -> anyhow::Result<()> {
        home.unmount(served).context("cannot unmount the served file")?;
        // Somebody who opened the served file itself can keep the session alive, but not us.
        let patience = Instant::now() + Duration::from_secs(2);
        while !force && !self.mounted.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn explain_fuse(error: std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "cannot mount over FUSE: /dev/fuse is not there (try `modprobe fuse`)",
        std::io::ErrorKind::PermissionDenied => "cannot mount over FUSE: that needs root",
        _ => "cannot mount over FUSE",
    };
    anyhow::Error::new(error).context(hint)
}

/// Makes the queue show what the drive would show. Gives what the kernel would not take, in words.
pub fn tune(device: LoopDevice, geometry: &Geometry, request_bytes_max: u32) -> Vec<String> {
    let write_cache = if geometry.volatile_cache { "write back" } else { "write through" };
    let queue = device.sysfs().join("queue");
    // The kernel refuses more than the driver takes in one request (a loop device takes 4 GiB less a sector), and parts of its unit.
    let limit = |name: &str| std::fs::read_to_string(queue.join(name)).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let unit = limit("discard_granularity").unwrap_or(1).max(1);
    let discard_max_bytes = geometry.discard_max_bytes.min(limit("discard_max_hw_bytes").unwrap_or(u64::MAX)) / unit * unit;
    let settings = [
        ("rotational", u8::from(geometry.rotational).to_string()),
        ("write_cache", write_cache.to_owned()),
        ("discard_max_bytes", discard_max_bytes.to_string()),
        ("max_sectors_kb", (request_bytes_max >> 10).to_string()),
    ];
    let mut missed = Vec::new();
    for (name, value) in settings {
        if let Err(error) = set_attribute(&queue.join(name), &value) {
            missed.push(format!("cannot set queue/{name} of loop{} to {value}: {error}", device.0));
        }
    }
    missed
}
