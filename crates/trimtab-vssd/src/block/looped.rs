//! A loop device on a file served over FUSE.

use super::AttachContext;
use crate::fuse::{self, FuseSession, MAX_REQUEST_BYTES};
use crate::request::{Geometry, RequestServer};
use crate::runtime::{self, RuntimeDirectory, ServerRecord};
use anyhow::Context as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_linux::host::disk::Disk;
use trimtab_linux::host::loops::LoopDevice;
use trimtab_linux::loop_device::DetachResult;
use trimtab_linux::sys::beneath::{ObjectIdentity, set_attribute};

/// The FUSE mount and the loop device. Dropping this value removes neither.
pub struct LoopOnFuse {
    mounted: FuseSession,
    device: LoopDevice,
    served: ObjectIdentity,
}

impl LoopOnFuse {
    /// Creates both. First records what a crash would leave behind.
    pub fn make(
        drive: &Arc<dyn RequestServer>,
        place: &AttachContext<'_>,
        record: &mut ServerRecord,
    ) -> anyhow::Result<Self> {
        let mount_point = place.home.mount_point();
        let mounted =
            fuse::mount(Arc::clone(drive), place.pacer, runtime::SERVED_FILE, &mount_point)
                .map_err(explain_fuse)?;
        let made = (|| {
            let file = place.home.open_served().context("cannot open the served file")?;
            let served = ObjectIdentity::of(&file).context("cannot examine the served file")?;
            // Recorded before the device exists, so that the device is found after a
            // crash.
            record.served = Some((served.device, served.inode));
            place.home.write_record(record)?;
            let device = LoopDevice::attach(
                &file,
                &mount_point.join(runtime::SERVED_FILE),
                drive.geometry().logical_block,
            )?;
            Ok((device, served))
        })();
        match made {
            Ok((device, served)) => Ok(Self { mounted, device, served }),
            Err(error) => {
                // The first error is the one to report.
                let _ = place.home.unmount(record.served());
                Err(error)
            }
        }
    }

    pub fn disk(&self) -> Disk {
        self.device.disk()
    }

    /// Sets the queue attributes to the drive's. Describes each value that the kernel
    /// rejected.
    pub fn tune(&self, geometry: &Geometry) -> Vec<String> {
        tune(self.device, geometry, MAX_REQUEST_BYTES)
    }

    /// Detaches the loop device. On error, nothing has changed.
    pub fn release(&self, force: bool, problems: &mut Vec<String>) -> anyhow::Result<()> {
        let Self { device, served, .. } = self;
        let shown = device.path();
        // If the loop device now belongs to another file, its users do not matter.
        let users = if device.backing().is_some_and(|backing| backing.file == *served) {
            device.users()
        } else {
            Vec::new()
        };
        anyhow::ensure!(
            users.is_empty() || force,
            "{} is busy: {}",
            shown.display(),
            users.join(", ")
        );
        if !force && let Err(error) = device.sync(*served) {
            // A failed drive must still be detachable.
            problems.push(format!(
                "some data written to {} did not reach the drive: {error}",
                shown.display()
            ));
        }
        match device
            .detach(*served, force)
            .with_context(|| format!("cannot detach {}", shown.display()))?
        {
            DetachResult::InUse if !force => {
                anyhow::bail!("{} is busy: another process has it open", shown.display())
            }
            DetachResult::Foreign => problems.push(format!(
                "{} has another backing file now and was left unchanged: the drive's \
                    file was detached and another one attached",
                shown.display()
            )),
            DetachResult::Free | DetachResult::InUse => {}
        }
        Ok(())
    }

    /// Unmounts the file after [`Self::release`].
    pub fn remove(
        self,
        home: &RuntimeDirectory,
        served: Option<ObjectIdentity>,
        force: bool,
    ) -> anyhow::Result<()> {
        home.unmount(served).context("cannot unmount the served file")?;
        // A process that opened the served file can keep the session alive; do not wait
        // for it.
        let patience = Instant::now() + Duration::from_secs(2);
        while !force && !self.mounted.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn explain_fuse(error: std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => {
            "cannot mount over FUSE: /dev/fuse does not exist (try `modprobe fuse`)"
        }
        std::io::ErrorKind::PermissionDenied => "cannot mount over FUSE: that needs root",
        _ => "cannot mount over FUSE",
    };
    anyhow::Error::new(error).context(hint)
}

/// Sets the queue attributes to the drive's. Describes each value that the kernel
/// rejected.
pub fn tune(device: LoopDevice, geometry: &Geometry, request_bytes_max: u32) -> Vec<String> {
    let write_cache = if geometry.volatile_cache { "write back" } else { "write through" };
    let queue = device.sysfs().join("queue");
    // The kernel rejects values above the driver's request limit (for a loop device 4 GiB
    // less a sector), and values that are not a multiple of its unit.
    let limit = |name: &str| {
        std::fs::read_to_string(queue.join(name))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
    };
    let unit = limit("discard_granularity").unwrap_or(1).max(1);
    let discard_max_bytes =
        geometry.discard_max_bytes.min(limit("discard_max_hw_bytes").unwrap_or(u64::MAX)) / unit
            * unit;
    let settings = [
        ("rotational", "0".to_owned()),
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
