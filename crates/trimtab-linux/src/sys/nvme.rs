//! The NVMe driver's ioctl interface, `linux/nvme_ioctl.h`; read commands only.

use rustix::fs::{self, FileType, Mode, OFlags, fstat, major, minor};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::path::Path;

const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xC048_4E41;
const GET_LOG_PAGE: u8 = 0x02;
const ALL_NAMESPACES: u32 = 0xFFFF_FFFF;
const PAGE_BYTES: usize = 512;
/// Generous timeout: drives return their log much sooner.
const TIMEOUT_MS: u32 = 2000;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct NvmePassthruCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11_15: [u32; 5],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<NvmePassthruCommand>() == 72);

/// The logs that are read, by their identifiers.
#[derive(Clone, Copy)]
pub enum Log {
    /// SMART / Health.
    Smart = 0x02,
    /// SMART / Health Extended of the Open Compute Project.
    Ocp = 0xC0,
}

/// Reads a log of the drive whose block device has this kernel name and device number.
///
/// # Errors
/// `PermissionDenied` unless root; `NotFound` if the node is another device; an error if
/// the drive rejects the command.
pub fn read(log: Log, name: &str, of_major: u32, of_minor: u32) -> io::Result<[u8; PAGE_BYTES]> {
    let node = Path::new("/dev").join(name);
    let device = fs::open(
        &node,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let stat = fstat(&device)?;
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    if !is_block || (major(stat.st_rdev), minor(stat.st_rdev)) != (of_major, of_minor) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut page = [0_u8; PAGE_BYTES];
    let mut command = NvmePassthruCommand {
        opcode: GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        address: page.as_mut_ptr() as u64,
        data_bytes: PAGE_BYTES as u32,
        // Number of dwords minus one, and the log identifier.
        cdw10: ((PAGE_BYTES as u32 / 4 - 1) << 16) | log as u32,
        timeout_ms: TIMEOUT_MS,
        ..NvmePassthruCommand::default()
    };
    // SAFETY: the command holds the address and size of the page, and both outlive the
    // call.
    match unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) } {
        0 => Ok(page),
        // A positive result is the NVMe status with which the drive rejected the command.
        status if status > 0 => Err(io::Error::other(format!(
            "the drive refuses its log {:02X}h, status {status:#x}",
            log as u32
        ))),
        _ => Err(io::Error::last_os_error()),
    }
}
