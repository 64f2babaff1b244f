//! Claims a block device or file whose content may be destroyed: only if it is unused and
//! the user has named it twice.
//!
//! A path is resolved once. The checks and the writes apply to that object, not to
//! anything that takes its name later.

use super::signature;
pub use super::signature::OwnData;
use crate::host::block::device_directory;
use crate::host::mountinfo::DevNumber;
use crate::host::root::Root;
use crate::host::users;
use crate::sys::beneath::{self, ObjectIdentity};
use crate::sys::descriptor;
use anyhow::{Context as _, bail};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;

/// The content that the user allows to be destroyed.
#[derive(Debug, Clone, Default)]
pub struct DestroyConsent {
    /// The device or file, named a second time.
    pub again: Option<PathBuf>,
    /// Content that may be overwritten, by the names in the refusal.
    pub overwrite: Vec<String>,
}

impl DestroyConsent {
    /// The user allowed something to be destroyed.
    pub fn is_given(&self) -> bool {
        self.again.is_some() || !self.overwrite.is_empty()
    }
}

/// A claimed device or file.
#[derive(Debug)]
pub struct Claim {
    pub(super) file: OwnedFd,
    pub(super) label: String,
    pub(super) size: Bytes,
    /// For a device: the unit of operations, and whether it supports trims.
    pub(super) device: Option<(u32, bool)>,
}

impl Claim {
    /// Size of the device or file.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Unit of operations of a device.
    pub fn block_size(&self) -> Option<u32> {
        self.device.map(|(block_size, _)| block_size)
    }

    /// A second handle.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, label: self.label.clone(), ..*self })
    }

    /// The node in `/dev` of a whole drive; `None` for a partition or a file.
    ///
    /// # Errors
    /// The device or `/sys` cannot be read.
    pub fn drive_node(&self) -> anyhow::Result<Option<PathBuf>> {
        let root = Root::live().context("cannot read /sys and /proc")?;
        let rdev = rustix::fs::fstat(&self.file)?.st_rdev;
        let drive = device_directory(&root, DevNumber::from_raw(rdev))
            .filter(|sys| !root.exists(sys.join("partition")));
        let node = drive.and_then(|sys| Some(Path::new("/dev").join(sys.file_name()?)));
        Ok(node.filter(|node| rustix::fs::stat(node).is_ok_and(|stat| stat.st_rdev == rdev)))
    }
}

/// Opens the object of a descriptor again.
pub(super) fn reopen(object: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

/// The object behind a path, resolved once. Everything else happens to this object.
struct ResolvedTarget {
    object: OwnedFd,
    stat: Stat,
    label: String,
}

impl ResolvedTarget {
    /// Follows a link only if root or this user must have created it, as in
    /// `/dev/disk/by-id`.
    fn look_up(path: &Path) -> anyhow::Result<Self> {
        let label = path.display().to_string();
        let found = beneath::ResolvedObject::look_up(path)
            .with_context(|| format!("cannot examine {label}"))?;
        Ok(Self { stat: *found.stat(), object: found.into_object(), label })
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens the object itself, never one that has taken its name.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        reopen(&self.object, flags)
    }

    fn check_named_twice(&self, path: &Path, destroy: &DestroyConsent) -> anyhow::Result<()> {
        let label = &self.label;
        let Some(again) = &destroy.again else {
            return Err(UsageError::new(format!("everything on {label} would be destroyed"))
                .hint(format!("to allow that, add --destroy {label}"))
                .into());
        };
        let same = |other: &Stat| match self.kind() {
            FileType::BlockDevice => {
                other.st_rdev == self.stat.st_rdev
                    && FileType::from_raw_mode(other.st_mode) == FileType::BlockDevice
            }
            _ => ObjectIdentity::from(other) == ObjectIdentity::from(&self.stat),
        };
        if again == path || rustix::fs::stat(again).is_ok_and(|other| same(&other)) {
            return Ok(());
        }
        Err(UsageError::new(format!("--destroy {} is not {label}", again.display())).into())
    }
}

/// Claims the device at `path`: for reading, or for writing if it is named twice, unused,
/// and holds nothing that was not named.
pub fn claim(
    path: &Path,
    writable: bool,
    destroy: &DestroyConsent,
    own: Option<OwnData>,
) -> anyhow::Result<Claim> {
    let named = ResolvedTarget::look_up(path)?;
    let label = named.label.clone();
    anyhow::ensure!(named.kind() == FileType::BlockDevice, "{label} is not a block device");
    let root = Root::live().context("cannot read /sys and /proc")?;
    let dev = DevNumber::from_raw(named.stat.st_rdev);
    if writable {
        // Before all else: the hint for destroying data is not for a device in use.
        let users = users::of_device(&root, dev)?;
        if !users.is_empty() {
            bail!("{label} is in use: {}; nothing was written", users.join(", "));
        }
        named.check_named_twice(path, destroy)?;
    }
    let file = open(&named, writable)?;
    let size = Bytes(
        descriptor::device_bytes(&file)
            .with_context(|| format!("cannot determine the size of {label}"))?,
    );
    if writable {
        wait_for_openers(&root, dev, &label)?;
        check_content(&file, &label, size, &destroy.overwrite, own)?;
    }
    let queue = device_directory(&root, dev).map(|sys| {
        let disk = if root.exists(sys.join("partition")) {
            sys.parent().map(Path::to_owned).unwrap_or_default()
        } else {
            sys
        };
        disk.join("queue")
    });
    let attribute = |name: &str| queue.as_ref().and_then(|queue| root.read_u64(queue.join(name)));
    let block_size = attribute("logical_block_size")
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| n.is_power_of_two())
        .unwrap_or(4096);
    let trims = attribute("discard_max_bytes").is_some_and(|bytes| bytes > 0);
    Ok(Claim { file, label, size, device: Some((block_size, trims)) })
}

/// Claims the regular file at `path` for writing: named twice, unused, no unnamed
/// content.
pub fn claim_file(
    path: &Path,
    destroy: &DestroyConsent,
    own: Option<OwnData>,
) -> anyhow::Result<Claim> {
    let named = ResolvedTarget::look_up(path)?;
    let label = named.label.clone();
    anyhow::ensure!(named.kind() == FileType::RegularFile, "{label} is not a regular file");
    named.check_named_twice(path, destroy)?;
    let file = named.open(OFlags::RDWR).with_context(|| format!("cannot open {label}"))?;
    let users = users::of_file(&file)?;
    if !users.is_empty() {
        bail!("{label} is in use: {}; nothing was written", users.join(", "));
    }
    // While the file is open, no virtual drive can be attached with it.
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    {
        bail!("{label} is in use: another process has locked it; nothing was written");
    }
    let size = Bytes(named.stat.st_size.try_into().unwrap_or(0));
    check_content(&file, &label, size, &destroy.overwrite, own)?;
    Ok(Claim { file, label, size, device: None })
}

/// Time that a device may stay claimed after its process has ended: the kernel tears down
/// an io_uring ring after the process has ended, and the ring holds the device open until
/// then.
const CLAIM_LINGERS: Duration = Duration::from_secs(3);

fn open(named: &ResolvedTarget, writable: bool) -> anyhow::Result<OwnedFd> {
    let flags = if writable { OFlags::RDWR | OFlags::EXCL } else { OFlags::RDONLY };
    let give_up = Instant::now() + CLAIM_LINGERS;
    loop {
        match named.open(flags) {
            Ok(file) => return Ok(file),
            Err(Errno::BUSY) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(Errno::BUSY) => {
                bail!(
                    "{} is in use: mounted, swap, or part of another device, in a \
                        way that is not visible from here; nothing was written",
                    named.label
                )
            }
            Err(errno) => {
                return Err(errno).with_context(|| format!("cannot open {}", named.label));
            }
        }
    }
}

/// Fails if a process keeps the device open without claiming it. A process that scans all
/// devices has it open for a moment.
fn wait_for_openers(root: &Root, dev: DevNumber, label: &str) -> anyhow::Result<()> {
    let give_up = Instant::now() + CLAIM_LINGERS;
    loop {
        let openers = users::openers_of_device(root, dev);
        if openers.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up {
            bail!("{label} is in use: {}; nothing was written", openers.join(", "));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check_content(
    file: &OwnedFd,
    label: &str,
    size: Bytes,
    overwrite: &[String],
    own: Option<OwnData>,
) -> anyhow::Result<()> {
    let looked = || format!("cannot examine the contents of {label}");
    let mut found = signature::find(file, size).with_context(looked)?;
    found.extend(signature::probe(file).with_context(looked)?);
    if found.is_empty() && signature::holds_unknown_data(file, size, own).with_context(looked)? {
        found.push(signature::UNKNOWN_DATA.to_owned());
    }
    found.sort_unstable();
    found.dedup();
    let unnamed: Vec<String> = found.into_iter().filter(|name| !overwrite.contains(name)).collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    let options: Vec<String> = unnamed.iter().map(|name| format!("--overwrite '{name}'")).collect();
    Err(UsageError::new(format!("{label} holds {}; nothing was written", unnamed.join(" and ")))
        .hint(format!("to destroy that too, add {}", options.join(" ")))
        .into())
}
