//! An io_uring that carries commands for the ublk driver, with requests as their completions.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, squeue};
use std::io;
use std::time::Duration;

/// To be used in the thread that made it.
pub struct CommandRing(IoUring<squeue::Entry128>);

impl CommandRing {
    /// For so many commands at a time.
    pub(super) fn new(commands: usize) -> io::Result<Self> {
        let commands = u32::try_from(commands.next_power_of_two()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(commands.max(2)).build(commands.min(256))?;
        Ok(Self(ring))
    }

    /// Queues a command of this name.
    ///
    /// # Safety
    /// What the command names in memory outlives it, and nobody gets at that while the kernel may.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry128, name: usize) -> io::Result<()> {
        let entry = entry.user_data(name as u64);
        // SAFETY: as the caller promises.
        while unsafe { self.0.submission().push(&entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// What has come: names of commands, and what the kernel says of them.
    pub(super) fn completions(&mut self) -> impl Iterator<Item = (usize, i32)> {
        self.0.completion().map(|completion| (completion.user_data() as usize, completion.result()))
    }

    /// Whether something has come.
    pub(super) fn has_come(&mut self) -> bool {
        !self.0.completion().is_empty()
    }

    /// Commands that the kernel has not been given yet.
    pub(super) fn queued(&mut self) -> usize {
        self.0.submission().len()
    }

    /// Submits what is to be submitted, and waits for `want` completions, or so long; then it gives true.
    pub(super) fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let timespec = sleep.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let queued = self.queued();
        // SAFETY: the argument is of the kind that the flag says, and what was queued stays valid (see `push`).
        match unsafe { self.0.submitter().enter(queued as u32, want as u32, flags.bits(), Some(&args)) } {
            Ok(_) => Ok(false),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(true),
                // Interruptions and a shortage of memory pass.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(false),
                _ => Err(error),
            },
        }
    }
}
