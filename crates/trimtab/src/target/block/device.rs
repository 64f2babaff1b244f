//! Taking a block device whose content may be destroyed: only what nobody uses, and what the user has named twice.

use super::signature;
use crate::error::UsageError;
use crate::host::block::{Stack, device_directory, device_of_source};
use crate::host::mountinfo::{self, DevNumber};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use anyhow::{Context as _, bail};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_core::units::Bytes;

/// Options of commands that may use a device or a file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Safety")]
pub struct DestroyArgs {
    /// The device or file again, if TARGET is one and is written to: everything on it is destroyed.
    #[arg(long, value_name = "TARGET")]
    pub destroy: Option<PathBuf>,
    /// Destroy the device or file even though it holds this: the name in the refusal (ext2/3/4, gpt, luks …). Repeat for more.
    #[arg(long, value_name = "WHAT")]
    pub overwrite: Vec<String>,
}

/// A device that is ours: nobody else can mount it or build on it meanwhile.
#[derive(Debug)]
pub struct Claim {
    pub(super) file: OwnedFd,
    pub(super) label: String,
    pub(super) size: Bytes,
    pub(super) block_size: u32,
    pub(super) trims: bool,
}

impl Claim {
    /// Size of the device.
    pub fn size(&self) -> Bytes {
        self.size
    }
}

/// Takes the device at `path`: for reading, or for writing if it is named twice and holds nothing that was not named.
pub fn claim(path: &Path, writable: bool, args: &DestroyArgs) -> anyhow::Result<Claim> {
    let label = path.display().to_string();
    if writable {
        check_named_twice(path, args)?;
    }
    let root = Root::live().context("cannot read /sys and /proc")?;
    let dev = device_number(path)?;
    if writable {
        let users = users(&root, dev)?;
        if !users.is_empty() {
            bail!("{label} is in use: {}; nothing was written", users.join(", "));
        }
    }
    let file = open(path, writable)?;
    // The node may have changed its meaning since it was looked at.
    let stat = rustix::fs::fstat(&file).map_err(std::io::Error::from)?;
    if DevNumber::from_raw(stat.st_rdev) != dev {
        bail!("{label} became another device meanwhile; nothing was written");
    }
    let size = ioctl_u64(&file, BLKGETSIZE64).with_context(|| format!("cannot find out how large {label} is"))?;
    if writable {
        check_signatures(&file, &label, Bytes(size), &args.overwrite)?;
    }
    let queue = device_directory(&root, dev).map(|sys| {
        let disk = if root.exists(sys.join("partition")) { sys.parent().map(Path::to_owned).unwrap_or_default() } else { sys };
        disk.join("queue")
    });
    let attribute = |name: &str| queue.as_ref().and_then(|queue| root.read_u64(queue.join(name)));
    let block_size = attribute("logical_block_size").and_then(|n| u32::try_from(n).ok()).filter(|n| n.is_power_of_two()).unwrap_or(4096);
    let trims = attribute("discard_max_bytes").is_some_and(|bytes| bytes > 0);
    Ok(Claim { file, label, size: Bytes(size), block_size, trims })
}

/// Checks that the file at `path` may be destroyed: it is named twice, used by no loop device and as no swap, and holds nothing that was
/// not named.
pub fn check_file(path: &Path, args: &DestroyArgs) -> anyhow::Result<()> {
    check_named_twice(path, args)?;
    let label = path.display().to_string();
    let root = Root::live().context("cannot read /sys and /proc")?;
    let users = users_of_file(&root, path);
    if !users.is_empty() {
        bail!("{label} is in use: {}; nothing was written", users.join(", "));
    }
    let file = open(path, false)?;
    let stat = rustix::fs::fstat(&file).map_err(std::io::Error::from).with_context(|| format!("cannot look at {label}"))?;
    check_signatures(&file, &label, Bytes(stat.st_size.try_into().unwrap_or(0)), &args.overwrite)
}

/// Loop devices over the file, and whether it is swap.
fn users_of_file(root: &Root, path: &Path) -> Vec<String> {
    let identity = |path: &Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let Some(ours) = identity(path) else { return Vec::new() };
    let is_ours = |path: &str| identity(Path::new(path)) == Some(ours);
    let mut users = Vec::new();
    for name in root.list("/sys/block") {
        let backing = root.read(Path::new("/sys/block").join(&name).join("loop/backing_file"));
        if backing.is_some_and(|file| is_ours(&file)) {
            users.push(format!("it is what /dev/{name} stands on"));
        }
    }
    let swaps = root.read("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next()).any(is_ours) {
        users.push("it is swap".to_owned());
    }
    users
}

/// An error unless the device or file at `path` is named a second time.
fn check_named_twice(path: &Path, args: &DestroyArgs) -> anyhow::Result<()> {
    let label = path.display();
    let Some(again) = &args.destroy else {
        return Err(UsageError::new(format!("everything on {label} would be destroyed"))
            .hint(format!("if that is what you want, say --destroy {label} as well"))
            .into());
    };
    let identity = |path: &Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev));
    let device = |identity: (u64, u64, u64)| if identity.2 == 0 { (identity.0, identity.1) } else { (0, identity.2) };
    let same = again == path || identity(again).is_some_and(|again| identity(path).is_some_and(|path| device(path) == device(again)));
    if same { Ok(()) } else { Err(UsageError::new(format!("--destroy {} is not {label}", again.display())).into()) }
}

fn device_number(path: &Path) -> anyhow::Result<DevNumber> {
    let stat = rustix::fs::stat(path).map_err(std::io::Error::from).with_context(|| format!("cannot look at {}", path.display()))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::BlockDevice {
        bail!("{} is not a block device", path.display());
    }
    Ok(DevNumber::from_raw(stat.st_rdev))
}

/// Who uses the device, a partition of it, or something built on it.
fn users(root: &Root, dev: DevNumber) -> anyhow::Result<Vec<String>> {
    let mounts = mountinfo::read(root).context("cannot read the mount table")?;
    let stands_on = |stack: &Stack| stack.layers.iter().any(|layer| layer.dev == dev);
    let mut users: Vec<String> = Vec::new();
    for mount in &mounts {
        if stands_on(&Stack::of_mount(root, &mounts, mount)) {
            users.push(format!("mounted at {}", mount.mount_point.display()));
        }
    }
    let swaps = root.read_bytes(Path::new("/proc/swaps"), TABLE_BYTES_MAX).unwrap_or_default();
    for source in mountinfo::swap_sources(&swaps) {
        let swap = device_of_source(root, &source).and_then(|sys| DevNumber::parse(&root.read(sys.join("dev"))?));
        if swap.is_some_and(|swap| stands_on(&Stack::of_device(root, &mounts, swap))) {
            users.push(format!("swap on {}", source.display()));
        }
    }
    if let Some(sys) = device_directory(root, dev) {
        for holder in root.list(sys.join("holders")) {
            users.push(format!("part of {holder}"));
        }
    }
    users.dedup();
    Ok(users)
}

/// How long a device may stay claimed by a process that is already gone: the kernel tears an io_uring ring down after
/// its process has ended, and until then the ring holds the device open.
const CLAIM_LINGERS: Duration = Duration::from_secs(3);

fn open(path: &Path, writable: bool) -> anyhow::Result<OwnedFd> {
    let flags = if writable { OFlags::RDWR | OFlags::EXCL } else { OFlags::RDONLY };
    let give_up = Instant::now() + CLAIM_LINGERS;
    loop {
        match rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => return Ok(file),
            Err(Errno::BUSY) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
            Err(errno) => {
                let error = anyhow::Error::new(std::io::Error::from(errno)).context(format!("cannot open {}", path.display()));
                return Err(match errno {
                    Errno::BUSY => error.context("the device is in use (mounted, swap, or part of something else)"),
                    _ => error,
                });
            }
        }
    }
}

fn check_signatures(file: &OwnedFd, label: &str, size: Bytes, overwrite: &[String]) -> anyhow::Result<()> {
    let found = signature::find(file, size).with_context(|| format!("cannot look at what {label} holds"))?;
    let unnamed: Vec<&str> = found.into_iter().filter(|name| !overwrite.iter().any(|allowed| allowed == name)).collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    let options: Vec<String> = unnamed.iter().map(|name| format!("--overwrite '{name}'")).collect();
    Err(UsageError::new(format!("{label} holds {}; nothing was written", unnamed.join(" and ")))
        .hint(format!("to destroy that too, add {}", options.join(" ")))
        .into())
}

/// `BLKGETSIZE64` of `linux/fs.h`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

fn ioctl_u64(file: &OwnedFd, request: libc::c_ulong) -> std::io::Result<u64> {
    let mut value = 0_u64;
    // SAFETY: the requests used here write one 64-bit number.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, &raw mut value) };
    if result == 0 { Ok(value) } else { Err(std::io::Error::last_os_error()) }
}
