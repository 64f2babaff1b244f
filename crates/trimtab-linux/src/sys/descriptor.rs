//! Calls on open files that the libraries leave out.

use rustix::fd::{AsFd, AsRawFd as _, IntoRawFd as _, OwnedFd};
use rustix::io::Errno;
use std::io;

/// `BLKGETSIZE64` and `BLKDISCARD` of `linux/fs.h`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKDISCARD: libc::c_ulong = 0x1277;

/// Bytes of a block device.
///
/// # Errors
/// `ENOTTY` from all else.
pub fn device_bytes(device: impl AsFd) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes one 64-bit number.
    let result = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) };
    if result == 0 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Discards a range of a block device, and waits for that.
///
/// # Errors
/// What the device says.
pub fn discard(device: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two 64-bit numbers.
    let result = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKDISCARD as _, &raw const range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether anybody but this descriptor has the file open, which the kernel says when it is asked for a lease. False if it does not say.
pub fn somebody_has_it_open(file: impl AsFd) -> bool {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: no pointer is passed; the lease is given back at once.
    unsafe {
        if libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) == 0 {
            libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK);
            return false;
        }
    }
    matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
}

/// Closes and says how that went: network filesystems and quotas report late errors here.
///
/// # Errors
/// Those; the descriptor is closed even then.
pub fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: `file` gives up the descriptor, so it is closed exactly once.
    let result = unsafe { libc::close(file.into_raw_fd()) };
    if result == 0 {
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        None | Some(libc::EINTR) => Ok(()),
        Some(errno) => Err(Errno::from_raw_os_error(errno)),
    }
}

/// What a write into a pipe whose other end is closed does to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedPipe {
    /// It ends quietly, as every other filter does.
    Ends,
    /// It sees an error, as Rust arranges it at the start of every program.
    Errs,
}

impl ClosedPipe {
    /// From now on.
    pub fn set(self) {
        let action = match self {
            Self::Ends => libc::SIG_DFL,
            Self::Errs => libc::SIG_IGN,
        };
        // SAFETY: neither action runs code of ours.
        unsafe { libc::signal(libc::SIGPIPE, action) };
    }
}
