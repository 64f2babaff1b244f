//! Loop devices: attach, tune, see who uses one, detach.

use crate::host::mountinfo::{self, DevNumber};
use crate::host::root::Root;
use crate::serve::request::Geometry;
use anyhow::Context as _;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// Devices below this number are never taken away for good (the kernel's `BLK_DEV_LOOP_MIN_COUNT` is 8 unless changed).
const MADE_AT_BOOT: u32 = 8;
/// No device beyond this number is tried.
const NUMBER_MAX: u32 = 4096;
/// How often another device is tried if somebody else was faster.
const ATTEMPTS: u32 = 64;
/// What it looks like when somebody else has taken a device, or has just had it removed.
const TAKEN: [i32; 3] = [libc::EBUSY, libc::ENXIO, libc::ENOENT];

impl LoopConfig {
    fn new(file: &File, name: &Path, logical_block: u32) -> Self {
        let name = name.as_os_str().as_encoded_bytes();
        let mut file_name = [0; 64];
        let kept = name.len().min(63);
        file_name[..kept].copy_from_slice(&name[..kept]);
        let info = LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_PARTSCAN | LO_FLAGS_DIRECT_IO,
            file_name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        };
        Self { fd: file.as_raw_fd() as u32, block_size: logical_block, info, reserved: [0; 8] }
    }
}

const _: () = assert!(size_of::<LoopInfo64>() == 232 && size_of::<LoopConfig>() == 304);

/// A loop device by its number. Knowing one does not keep it attached, and dropping this detaches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopDevice(pub u32);

impl LoopDevice {
    /// Attaches `backing`, which takes discards, to a loop device of its own with this logical block size, unbuffered, scanning for partitions.
    pub fn attach(backing: &Path, logical_block: u32) -> anyhow::Result<Self> {
        let control = open_control().context("cannot open /dev/loop-control (is the loop driver there? try `modprobe loop`)")?;
        let file = File::options().read(true).write(true).open(backing).context("cannot open the served file")?;
        let config = LoopConfig::new(&file, backing, logical_block);
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..ATTEMPTS {
            let this = Self::fresh(&control).context("no loop device can be had")?;
            match this.configure(&config) {
                Ok(()) if this.takes_discards() => return Ok(this),
                // Somebody had the device open, so that it kept the queue limits of its former user.
                Ok(()) => {
                    last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
                    let _ = this.detach();
                }
                Err(error) if error.raw_os_error().is_some_and(|errno| TAKEN.contains(&errno)) => last = error,
                Err(error) => return Err(error).with_context(|| format!("cannot configure {}", this.path().display())),
            }
        }
        Err(last).context("every loop device that was tried was taken by somebody else at the same moment")
    }

    /// A device that nobody has used before, so that no limit of a former user sticks to it; or, where none can be added, a free one that has
    /// been told to forget.
    fn fresh(control: &File) -> io::Result<Self> {
        for number in 0..NUMBER_MAX {
            match ioctl(control, LOOP_CTL_ADD, number.into()) {
                Ok(_) if Self(number).path().exists() => return Ok(Self(number)),
                // There is a device, but no node for it: /dev is not the kernel's.
                Ok(_) => {
                    let _ = ioctl(control, LOOP_CTL_REMOVE, number.into());
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(_) => break,
            }
        }
        let this = Self(ioctl(control, LOOP_CTL_GET_FREE, 0)? as u32);
        if !this.path().exists() {
            let number = this.0;
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("/dev/loop{number} is not there (try `mknod /dev/loop{number} b 7 {number}`)"),
            ));
        }
        this.renew(true);
        Ok(this)
    }

    fn configure(self, config: &LoopConfig) -> io::Result<()> {
        let device = File::options().read(true).write(true).open(self.path())?;
        ioctl(&device, LOOP_CONFIGURE, std::ptr::from_ref(config) as libc::c_ulong).map(|_| ())
    }

    /// False if limits that somebody set for a former user forbid them: the driver itself asks the file, and ours takes them.
    fn takes_discards(self) -> bool {
        std::fs::read_to_string(self.sysfs().join("queue/discard_max_bytes")).map_or(true, |text| text.trim() != "0")
    }

    /// The device node.
    pub fn path(self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.0))
    }

    /// Its directory in sysfs.
    pub fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/block/loop{}", self.0))
    }

    /// The file it is attached to; `None` if it is free.
    pub fn backing_file(self) -> Option<PathBuf> {
        let text = std::fs::read_to_string(self.sysfs().join("loop/backing_file")).ok()?;
        let path = text.trim_end_matches('\n');
        Some(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)))
    }

    /// Makes the queue show what the drive would show. Gives what the kernel would not take, in words.
    pub fn tune(self, geometry: &Geometry, request_bytes_max: u32) -> Vec<String> {
        let write_cache = if geometry.volatile_cache { "write back" } else { "write through" };
        let settings = [
            ("rotational", u8::from(geometry.rotational).to_string()),
            ("write_cache", write_cache.to_owned()),
            ("discard_max_bytes", geometry.discard_max_bytes.to_string()),
            ("max_sectors_kb", (request_bytes_max >> 10).to_string()),
        ];
        let queue = self.sysfs().join("queue");
        let mut missed = Vec::new();
        for (name, value) in settings {
            if let Err(error) = std::fs::write(queue.join(name), &value) {
                missed.push(format!("cannot set queue/{name} of loop{} to {value}: {error}", self.0));
            }
        }
        missed
    }

    /// Has the driver forget what was set in the queue of this free device. It keeps that for the next user otherwise; and a
    /// device that was once told to allow no discards takes no other limit any more (seen on Linux 6.18). The device itself stays only with `keep`.
    fn renew(self, keep: bool) {
        let Ok(control) = open_control() else { return };
        // Fails if somebody has taken it already; then it is theirs.
        if ioctl(&control, LOOP_CTL_REMOVE, self.0.into()).is_ok() && keep {
            let _ = ioctl(&control, LOOP_CTL_ADD, self.0.into());
        }
    }

    /// Writes what the kernel still holds of the device to the drive.
    pub fn sync(self) -> io::Result<()> {
        File::options().read(true).write(true).open(self.path())?.sync_all()
    }

    /// Who uses the device or a partition of it, in words; empty if nobody does.
    pub fn users(self) -> Vec<String> {
        let mut users = Vec::new();
        let mut numbers = Vec::new();
        let mut nodes = Vec::new();
        for directory in self.with_partitions() {
            let Some(name) = directory.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            numbers.extend(std::fs::read_to_string(directory.join("dev")).ok().and_then(|text| DevNumber::parse(&text)));
            for holder in std::fs::read_dir(directory.join("holders")).into_iter().flatten().flatten() {
                users.push(format!("{} on top of {name}", holder.file_name().to_string_lossy()));
            }
            nodes.push(PathBuf::from("/dev").join(name));
        }
        users.extend(mounts_of(&numbers, &nodes));
        users.extend(swaps_of(&nodes));
        users.extend(openers_of(&nodes));
        users
    }

    /// Detaches it; returns once it is free. If somebody still has it open, the kernel detaches it when they close it,
    /// and the result is `false`.
    pub fn detach(self) -> io::Result<bool> {
        let device = match File::options().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(self.path()) {
            Ok(device) => device,
            // Only the node may be missing, where /dev is not the kernel's.
            Err(error) if self.backing_file().is_some() => return Err(error),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) || error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        match ioctl(&device, LOOP_CLR_FD, 0) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(true),
            Err(error) => return Err(error),
        }
        drop(device);
        let patience = Instant::now() + Duration::from_secs(5);
        while self.backing_file().is_some() {
            if Instant::now() > patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.renew(self.0 < MADE_AT_BOOT);
        Ok(true)
    }

    fn with_partitions(self) -> Vec<PathBuf> {
        let own = self.sysfs();
        let prefix = format!("loop{}p", self.0);
        let mut all = vec![own.clone()];
        for entry in std::fs::read_dir(&own).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                all.push(entry.path());
            }
        }
        all
    }
}

/// All loop devices whose backing file lies in `directory`.
pub fn attached_below(directory: &Path) -> Vec<LoopDevice> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|n| n.parse().ok()) else { continue };
        let device = LoopDevice(number);
        if device.backing_file().is_some_and(|file| file.starts_with(directory)) {
            found.push(device);
        }
    }
    found
}

/// Where devices with these numbers (or, for btrfs, these nodes) are mounted.
fn mounts_of(numbers: &[DevNumber], nodes: &[PathBuf]) -> Vec<String> {
    let mounts = Root::live().and_then(|root| mountinfo::read(&root)).unwrap_or_default();
    mounts
        .iter()
        .filter(|mount| numbers.contains(&mount.dev) || nodes.contains(&mount.source))
        .map(|mount| format!("mounted on {} ({})", mount.mount_point.display(), mount.fs_type))
        .collect()
}

fn swaps_of(nodes: &[PathBuf]) -> Vec<String> {
    let table = std::fs::read("/proc/swaps").unwrap_or_default();
    mountinfo::swap_sources(&table).filter(|source| nodes.contains(source)).map(|_| "used as swap".to_owned()).collect()
}

/// Processes other than this one that have one of the nodes open.
fn openers_of(nodes: &[PathBuf]) -> Vec<String> {
    let own = std::process::id();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == own {
            continue;
        }
        let opens = std::fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| nodes.contains(&target)));
        if opens {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("open in {} (pid {pid})", name.trim()));
        }
    }
    found
}

fn open_control() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/loop-control")
}

fn ioctl(file: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the requests used here take a number, or a pointer to a `LoopConfig` that outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
