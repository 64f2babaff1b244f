//! The thread engine: blocking system calls, for systems without io_uring (old kernels,
//! containers that forbid it).

use super::{Transfer, TransferAction, TransferRequest};
use crate::sys::descriptor;
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// More threads than this bring no benefit.
const THREADS_MAX: u32 = 256;

/// A pool of threads, one per operation in flight up to `THREADS_MAX`.
pub struct Threads {
    shared: Arc<SharedTransferQueue>,
    workers: Vec<JoinHandle<()>>,
    taken: Vec<(u32, i32)>,
}

struct SharedTransferQueue {
    file: OwnedFd,
    state: Mutex<TransferQueueState>,
    work: Condvar,
    finished: Condvar,
}

#[derive(Default)]
struct TransferQueueState {
    queue: VecDeque<TransferRequest>,
    done: Vec<(u32, i32)>,
    closing: bool,
}

impl Threads {
    /// Starts `depth` threads on `file`, at most `THREADS_MAX`.
    pub fn new(file: OwnedFd, depth: u32) -> io::Result<Self> {
        let shared = Arc::new(SharedTransferQueue {
            file,
            state: Mutex::default(),
            work: Condvar::new(),
            finished: Condvar::new(),
        });
        let mut threads = Self { shared, workers: Vec::new(), taken: Vec::new() };
        for n in 0..depth.min(THREADS_MAX) {
            let shared = Arc::clone(&threads.shared);
            threads.workers.push(
                std::thread::Builder::new()
                    .name(format!("block-{n}"))
                    .spawn(move || shared.work())?,
            );
        }
        Ok(threads)
    }

    /// Queues a request for the next idle thread.
    pub fn push(&self, request: &TransferRequest) {
        self.shared.lock().queue.push_back(*request);
        self.shared.work.notify_one();
    }

    /// Waits until `min` completions can be taken.
    pub fn wait(&self, min: usize) {
        let mut state = self.shared.lock();
        while state.done.len() < min {
            state = self.shared.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until a completion can be taken, but not beyond `deadline`.
    pub fn wait_until(&self, deadline: Instant) {
        let state = self.shared.lock();
        let left = deadline.saturating_duration_since(Instant::now());
        drop(self.shared.finished.wait_timeout_while(state, left, |state| state.done.is_empty()));
    }

    /// Takes all completions and calls `each` with the tag and the system call's result,
    /// or a negative error number.
    pub fn take(&mut self, mut each: impl FnMut(u32, i32)) {
        std::mem::swap(&mut self.taken, &mut self.shared.lock().done);
        for (tag, result) in self.taken.drain(..) {
            each(tag, result);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has already printed the reason.
            let _ = worker.join();
        }
    }
}

impl SharedTransferQueue {
    fn lock(&self) -> MutexGuard<'_, TransferQueueState> {
        // The state is consistent whenever the lock is released, even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.queue.pop_front() {
                drop(state);
                let result = execute(&self.file, &request);
                state = self.lock();
                state.done.push((request.what.tag, result));
                self.finished.notify_one();
            } else if state.closing {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Executes a request with a blocking call. Returns the system call's result, or a
/// negative error number.
pub fn execute(file: &OwnedFd, request: &TransferRequest) -> i32 {
    let fd = file.as_raw_fd();
    let TransferRequest { what: Transfer { action, offset, len, .. }, address } = *request;
    loop {
        let result = match action {
            // SAFETY: the memory belongs to the request's tag until its completion is
            // taken.
            TransferAction::Read => unsafe {
                libc::pread(fd, address.cast(), len as usize, offset as libc::off_t)
            },
            // SAFETY: as for reads.
            TransferAction::Write => unsafe {
                libc::pwrite(fd, address.cast(), len as usize, offset as libc::off_t)
            },
            TransferAction::Flush => return status(rustix::fs::fdatasync(file.as_fd())),
            TransferAction::PunchHole => {
                let flags =
                    rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                return status(rustix::fs::fallocate(file.as_fd(), flags, offset, len));
            }
            TransferAction::Discard => return errno(descriptor::discard(file, offset, len)),
        };
        if result >= 0 {
            return result as i32;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            errno => return -errno.unwrap_or(libc::EIO),
        }
    }
}

fn errno(result: io::Result<()>) -> i32 {
    result.map_or_else(|error| -error.raw_os_error().unwrap_or(libc::EIO), |()| 0)
}

fn status(result: rustix::io::Result<()>) -> i32 {
    result.map_or_else(|errno| -errno.raw_os_error(), |()| 0)
}
