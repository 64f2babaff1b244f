//! The front end that is itself a block device: the kernel's ublk driver passes every
//! request of the block layer to this process through io_uring.
//!
//! The device has a queue per CPU, and each queue a thread ([`Worker`]). Discards and
//! zero-writes are separate requests and run concurrently with others. A device is
//! identified by a mark that the kernel stores with it, never by its number.

mod parameters;
mod requests;
mod worker;

use crate::claim::{Claim, wait_for_end};
use crate::request::RequestServer;
use anyhow::Context as _;
use rustix::thread::CpuSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_linux::host::{self, disk::Disk};
use trimtab_linux::sys::ublk::control::Control;
use trimtab_linux::sys::ublk::queue::UblkQueue;
use trimtab_linux::sys::ublk::{self, Info};
use worker::{Worker, pin_thread};

/// Queue depth, as with a loop device.
const DEPTH: u16 = 128;
/// Maximum request size, as with a loop device over FUSE.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of queues: more threads would be idle.
const QUEUES_MAX: usize = 16;
/// Maximum wait for the device's nodes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A ublk device and its threads. Dropping this value does not remove the device.
pub struct UblkFront {
    control: Control,
    device: Info,
    threads: Vec<JoinHandle<()>>,
    waiting: Arc<AtomicUsize>,
}

/// Opens the driver, or returns the reason why it is unavailable.
fn open() -> anyhow::Result<Control> {
    let mut control = Control::open().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                "/dev/ublk-control does not exist (the module ublk_drv is missing or \
                    not loaded: `modprobe ublk_drv`)"
            }
            io::ErrorKind::PermissionDenied => "no permission to open /dev/ublk-control",
            _ => "cannot open /dev/ublk-control",
        };
        anyhow::Error::new(error).context(hint)
    })?;
    let features = control.features().context("cannot read the features of the ublk driver")?;
    anyhow::ensure!(
        features.is_some_and(|features| features & ublk::ENCODED != 0),
        "the kernel's ublk driver is too old (this program needs Linux 6.5)"
    );
    Ok(control)
}

/// This user may create devices.
pub fn is_open_to_users() -> bool {
    Control::open().is_ok()
}

impl UblkFront {
    /// Creates a device for `drive` with this mark.
    pub fn start(drive: &Arc<dyn RequestServer>, mark: u64) -> anyhow::Result<Self> {
        let mut control = open()?;
        let privileged = rustix::process::geteuid().is_root();
        let queues = rustix::thread::sched_getaffinity(None)
            .map_or(1, |processors| processors.count() as usize)
            .clamp(1, QUEUES_MAX);
        let flags = ublk::ENCODED | if privileged { 0 } else { ublk::UNPRIVILEGED };
        let wanted = Info::wanted(queues as u16, DEPTH, REQUEST_BYTES_MAX, flags, mark);
        let device = control.add(&wanted).context("the kernel cannot create a ublk device")?;
        let mut this = Self { control, device, threads: Vec::new(), waiting: Arc::default() };
        match this.begin(drive) {
            Ok(()) => Ok(this),
            Err(error) => {
                // The device is not visible yet.
                let _ = this.control.stop(&this.device);
                Err(match this.delete() {
                    Ok(()) => error,
                    Err(_) => error.context(format!(
                        "only root can remove {} again",
                        ublk::character_node(device.number).display()
                    )),
                })
            }
        }
    }

    fn begin(&mut self, drive: &Arc<dyn RequestServer>) -> anyhow::Result<()> {
        // Without privileges, access to the node allows everything else.
        let served = open_character_node(&self.device)?;
        let parameters = parameters::of(&drive.geometry(), self.device.request_bytes_max);
        self.control
            .set_parameters(&self.device, &parameters)
            .context("the ublk driver rejects the drive's parameters")?;
        self.serve_queues(drive, &served)?;
        drop(served);
        self.control
            .start(&self.device)
            .with_context(|| format!("{} cannot be started", self.disk().path().display()))
    }

    /// Starts a thread for each queue of the device, which can only be opened once.
    /// Returns when all of them are ready for requests.
    fn serve_queues(
        &mut self,
        drive: &Arc<dyn RequestServer>,
        served: &File,
    ) -> anyhow::Result<()> {
        let device = self.device;
        let usable =
            rustix::thread::sched_getaffinity(None).context("cannot read the CPU affinity")?;
        let (ready, all) = mpsc::channel();
        for queue in 0..device.queues {
            let file =
                served.try_clone().context("cannot share the ublk device between threads")?;
            let here = self
                .control
                .processors(&device, queue)
                .map_or(usable, |processors| common(&processors, &usable));
            let (drive, waiting, ready) =
                (Arc::clone(drive), Arc::clone(&self.waiting), ready.clone());
            let work = move || match worker(file, &device, queue, here, drive, waiting) {
                Ok(mut worker) => {
                    let registered = worker.register();
                    let works = registered.is_ok();
                    let _ = ready.send(registered);
                    drop(ready);
                    if works {
                        worker.run();
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            };
            self.threads.push(
                std::thread::Builder::new()
                    .name(format!("ublk-{queue}"))
                    .spawn(work)
                    .context("cannot start a thread")?,
            );
        }
        drop(ready);
        all.into_iter().collect::<io::Result<()>>().context("the ublk device cannot be served")
    }

    /// The block device.
    pub fn disk(&self) -> Disk {
        node(&self.device)
    }

    /// Number of delayed completions.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Removes the device, even if it is in use, and ends `claim` in between: from the stop
    /// on, no process can open the device. Without privileges the kernel only has a removal
    /// that waits for the last close.
    pub fn remove(mut self, claim: Option<Claim>) -> io::Result<()> {
        stop(&mut self.control, &self.device)?;
        drop(claim);
        self.delete()
    }

    /// Deletes a device that was stopped or never started.
    fn delete(&mut self) -> io::Result<()> {
        let patience = Instant::now() + PATIENCE;
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The kernel would wait for threads that have not ended.
        let ended = self.threads.iter().all(JoinHandle::is_finished);
        self.control.delete(&self.device, ended)
    }
}

fn node(device: &Info) -> Disk {
    Disk(format!("ublkb{}", device.number))
}

fn stop(control: &mut Control, device: &Info) -> io::Result<()> {
    match control.stop(device) {
        // Another process has deleted it.
        Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Err(error),
        _ => Ok(()),
    }
}

fn worker(
    file: File,
    device: &Info,
    queue: u16,
    here: CpuSet,
    drive: Arc<dyn RequestServer>,
    waiting: Arc<AtomicUsize>,
) -> io::Result<Worker> {
    let everywhere = pin_thread(&here)?;
    Ok(Worker::new(UblkQueue::new(file, device, queue)?, drive, here, everywhere, waiting))
}

/// CPUs in both sets; those of `other` if there are none.
fn common(one: &CpuSet, other: &CpuSet) -> CpuSet {
    let mut both = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| one.is_set(*cpu) && other.is_set(*cpu))
        .for_each(|cpu| both.set(cpu));
    if both.count() == 0 { *other } else { both }
}

/// The node appears with the device; unprivileged users wait for udev to hand it over.
fn open_character_node(device: &Info) -> anyhow::Result<File> {
    let path = ublk::character_node(device.number);
    let patience = Instant::now() + PATIENCE;
    loop {
        let opened =
            File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        match opened {
            Ok(file) => return Ok(file),
            Err(error) if may_come(&error) && Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(10))
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be opened", path.display()));
            }
        }
    }
}

fn may_come(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::EBUSY)
}

/// The devices with this mark that this user may see.
fn marked(control: &mut Control, mark: u64) -> io::Result<Vec<Info>> {
    let numbers = host::disk::of_ublk()?;
    Ok(numbers
        .into_iter()
        .filter_map(|number| control.info(number).ok())
        .filter(|device| device.mark == mark)
        .collect())
}

/// Removes the devices with this mark, which a dead server left; with `force` also while
/// in use: the users get I/O errors. There are none without the driver.
pub fn remove_left(mark: u64, force: bool) -> anyhow::Result<()> {
    let mut control = match Control::open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        control => control.context("cannot find the remains of the ublk device")?,
    };
    let devices =
        marked(&mut control, mark).context("cannot find the remains of the ublk device")?;
    let disks: Vec<Disk> =
        devices.iter().map(node).filter(|disk| disk.sysfs().exists() && !force).collect();
    let mut claims = Vec::new();
    for disk in &disks {
        let (shown, users) = (disk.path(), disk.users());
        anyhow::ensure!(users.is_empty(), "{} is still {}", shown.display(), users.join(", "));
        match Claim::take(disk).with_context(|| format!("cannot open {}", shown.display()))? {
            Claim::InUse => anyhow::bail!("{} is still in use", shown.display()),
            claim => claims.push(claim),
        }
    }
    let cannot = "cannot remove the ublk device";
    devices.iter().try_for_each(|device| stop(&mut control, device)).context(cannot)?;
    // The removal may wait for the last close.
    drop(claims);
    devices.iter().try_for_each(|device| control.delete(device, true)).context(cannot)?;
    disks.iter().for_each(wait_for_end);
    Ok(())
}
