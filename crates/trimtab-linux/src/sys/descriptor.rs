//! System calls on open files that the libraries do not provide.

use rustix::fd::{AsFd, AsRawFd as _, IntoRawFd as _, OwnedFd};
use rustix::io::Errno;
use std::io;

/// `BLKGETSIZE64` and `BLKDISCARD` of `linux/fs.h`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKDISCARD: libc::c_ulong = 0x1277;

/// Returns the size of a block device in bytes.
///
/// # Errors
/// `ENOTTY` if the file is not a block device.
pub fn device_bytes(device: impl AsFd) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes one 64-bit number.
    let result =
        unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) };
    if result == 0 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Discards a byte range of a block device and waits for completion.
///
/// # Errors
/// The device's error.
pub fn discard(device: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two 64-bit numbers.
    let result =
        unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKDISCARD as _, &raw const range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// True if the file is open through another descriptor. The kernel then refuses a lease
/// on it. Returns false if the kernel cannot tell.
pub fn somebody_has_it_open(file: impl AsFd) -> bool {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: no pointer is passed; the lease is released at once.
    unsafe {
        if libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) == 0 {
            libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK);
            return false;
        }
    }
    matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
}

/// Closes the file and returns the result: network filesystems and quotas report late
/// errors here.
///
/// # Errors
/// The late error; the descriptor is closed even then.
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

/// Reaction of the program to a write into a pipe whose reader is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedPipe {
    /// The program ends silently, as filters usually do.
    Ends,
    /// The write returns an error, which is Rust's default.
    Errs,
}

impl ClosedPipe {
    /// Applies this reaction from now on.
    pub fn set(self) {
        let action = match self {
            Self::Ends => libc::SIG_DFL,
            Self::Errs => libc::SIG_IGN,
        };
        // SAFETY: neither action runs user code.
        unsafe { libc::signal(libc::SIGPIPE, action) };
    }
}
