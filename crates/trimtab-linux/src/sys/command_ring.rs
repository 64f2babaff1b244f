//! An io_uring for ublk driver commands. The driver delivers requests as completions of these
//! commands.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, squeue};
use std::io;
use std::time::Duration;

/// Ring for ublk commands. Only the thread that created it may use it.
pub struct CommandRing(IoUring<squeue::Entry128>);

impl CommandRing {
    /// Creates a ring for up to `commands` commands in flight.
    pub(super) fn new(commands: usize) -> io::Result<Self> {
        let commands = u32::try_from(commands.next_power_of_two()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(commands.max(2)).build(commands.min(256))?;
        Ok(Self(ring))
    }

    /// Queues a command; its completion returns `name`.
    ///
    /// # Safety
    /// The memory that the command points to outlives it, and no code accesses that memory while
    /// the kernel may.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry128, name: usize) -> io::Result<()> {
        let entry = entry.user_data(name as u64);
        // SAFETY: the caller upholds the contract above.
        while unsafe { self.0.submission().push(&entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// Returns the pending completions: the name of each command, and the kernel's result.
    pub(super) fn completions(&mut self) -> impl Iterator<Item = (usize, i32)> {
        self.0.completion().map(|completion| (completion.user_data() as usize, completion.result()))
    }

    /// True if a completion is pending.
    pub(super) fn has_come(&mut self) -> bool {
        !self.0.completion().is_empty()
    }

    /// Number of commands that are not submitted yet.
    pub(super) fn queued(&mut self) -> usize {
        self.0.submission().len()
    }

    /// Submits the queued commands and waits for `want` completions. Returns true if `sleep`
    /// expires first.
    pub(super) fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let timespec = sleep.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let queued = self.queued();
        // SAFETY: the argument has the type that EXT_ARG requires, and the queued entries stay
        // valid (see `push`).
        match unsafe { self.0.submitter().enter(queued as u32, want as u32, flags.bits(), Some(&args)) } {
            Ok(_) => Ok(false),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(true),
                // Interruptions and memory shortage are transient.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(false),
                _ => Err(error),
            },
        }
    }
}
