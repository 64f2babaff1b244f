//! The io_uring engine: one ring, one file, one range of registered memory.

use super::{Transfer, TransferAction, TransferRequest};
use crate::sys::pool::Pool;
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The only registered file.
const FILE: types::Fixed = types::Fixed(0);
/// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`, Linux 6.12: discards without blocking
/// the submitter.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;
/// Largest range that can be registered as one buffer.
const REGISTERED_MAX: usize = 1 << 30;
/// Pause between two polls on kernels without a wait with a time limit.
const POLL: Duration = Duration::from_micros(20);

/// A ring with a registered file. The pool is registered too if the limit on locked
/// memory allows it.
pub struct Ring {
    ring: IoUring,
    /// The memory is registered: pinned once instead of for every operation.
    pub registered: bool,
}

impl Ring {
    /// Creates a ring for `entries` operations in flight on `file` and `pool`. The pool
    /// must outlive the ring.
    pub fn new(file: &OwnedFd, entries: u32, pool: &Pool) -> io::Result<Self> {
        let ring = build(entries.next_power_of_two())?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let memory = libc::iovec { iov_base: pool.base().cast(), iov_len: pool.len() };
        // SAFETY: the owner of both unmaps the pool only after the last operation has
        // completed.
        let registered = pool.len() <= REGISTERED_MAX
            && unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok();
        Ok(Self { ring, registered })
    }

    /// Queues a request. The ring has an entry for every tag, so it cannot be full.
    #[inline]
    pub fn push(&mut self, request: &TransferRequest) {
        let entry = self.entry(request).user_data(u64::from(request.what.tag));
        // SAFETY: the memory of the request lies in the pool and belongs to its tag until
        // its completion is taken.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the ring has an entry for every tag");
    }

    #[inline]
    fn entry(&self, request: &TransferRequest) -> squeue::Entry {
        let TransferRequest { what: Transfer { action, offset, len, .. }, address } = *request;
        match action {
            TransferAction::Read if self.registered => {
                opcode::ReadFixed::new(FILE, address, len as u32, 0).offset(offset).build()
            }
            TransferAction::Read => {
                opcode::Read::new(FILE, address, len as u32).offset(offset).build()
            }
            TransferAction::Write if self.registered => {
                opcode::WriteFixed::new(FILE, address, len as u32, 0).offset(offset).build()
            }
            TransferAction::Write => {
                opcode::Write::new(FILE, address, len as u32).offset(offset).build()
            }
            TransferAction::Flush => {
                opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()
            }
            TransferAction::PunchHole => opcode::Fallocate::new(FILE, len)
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            TransferAction::Discard => {
                let mut command = [0; 16];
                command[..8].copy_from_slice(&len.to_ne_bytes());
                opcode::UringCmd16::new(FILE, BLOCK_URING_CMD_DISCARD)
                    .addr(Some(offset))
                    .cmd(command)
                    .build()
            }
        }
    }

    /// Submits all queued requests to the kernel.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        loop {
            let queued = self.ring.submission().len();
            if queued == 0 {
                return Ok(());
            }
            // SAFETY: no argument is passed, and the entries are valid (see `push`).
            match unsafe { self.ring.submitter().enter::<()>(queued as u32, 0, 0, None) } {
                Ok(_) => {}
                Err(error) => self.retry(error)?,
            }
        }
    }

    /// Waits until `min` completions can be taken.
    #[inline]
    pub fn wait(&mut self, min: usize) -> io::Result<()> {
        while self.ring.completion().len() < min {
            // SAFETY: no argument is passed.
            match unsafe {
                self.ring.submitter().enter::<()>(0, min as u32, EnterFlags::GETEVENTS.bits(), None)
            } {
                Ok(_) => {}
                Err(error) => self.retry(error)?,
            }
        }
        Ok(())
    }

    /// Waits until a completion can be taken, but not beyond `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<()> {
        while self.ring.completion().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if !self.ring.params().is_feature_ext_arg() {
                // Linux before 5.11 has no wait with a time limit.
                std::thread::sleep(left.min(POLL));
                continue;
            }
            let time = types::Timespec::from(left);
            match self
                .ring
                .submitter()
                .submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => break,
                Err(error) => self.retry(error)?,
            }
        }
        Ok(())
    }

    /// Interruptions and a shortage of request memory are transient; other errors are
    /// permanent.
    #[cold]
    fn retry(&self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) => {
                std::thread::yield_now();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Takes all completions and calls `each` with the tag and the system call's result,
    /// or a negative error number.
    #[inline]
    pub fn take(&mut self, mut each: impl FnMut(u32, i32)) {
        for completion in self.ring.completion() {
            each(completion.user_data() as u32, completion.result());
        }
    }
}

/// Builds the most efficient ring that this kernel supports. The waiting thread runs
/// completions (Linux 6.1), or at least is not interrupted by them (5.19), or the ring
/// has no such option.
fn build(entries: u32) -> io::Result<IoUring> {
    let deferred =
        IoUring::builder().setup_clamp().setup_single_issuer().setup_defer_taskrun().build(entries);
    match deferred {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        result => return result,
    }
    match IoUring::builder().setup_clamp().setup_coop_taskrun().build(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        result => result,
    }
}
