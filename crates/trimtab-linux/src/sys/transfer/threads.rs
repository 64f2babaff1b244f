//! Threads with blocking system calls, where there is no io_uring (old kernels, containers that forbid it).

use super::{Action, Request, Transfer};
use crate::sys::descriptor;
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// More threads than this gain nothing.
const THREADS_MAX: u32 = 256;

/// As many threads as operations may be in flight.
pub struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    taken: Vec<(u32, i32)>,
}

struct Shared {
    file: OwnedFd,
    state: Mutex<State>,
    work: Condvar,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Request>,
    done: Vec<(u32, i32)>,
    closing: bool,
}

impl Threads {
    /// Up to `depth` threads on `file`.
    pub fn new(file: OwnedFd, depth: u32) -> io::Result<Self> {
        let shared = Arc::new(Shared { file, state: Mutex::default(), work: Condvar::new(), finished: Condvar::new() });
        let mut threads = Self { shared, workers: Vec::new(), taken: Vec::new() };
        for n in 0..depth.min(THREADS_MAX) {
            let shared = Arc::clone(&threads.shared);
            threads.workers.push(std::thread::Builder::new().name(format!("block-{n}")).spawn(move || shared.work())?);
        }
        Ok(threads)
    }

    /// Hands a request to whichever thread is free.
    pub fn push(&self, request: &Request) {
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

    /// Takes all completions: tag, and the result of the system call or the negative error number.
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
            // A worker that panicked has printed why.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that hold the lock.
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

/// Makes a request, and waits for it. What the system call gave, or the negative error number.
pub fn execute(file: &OwnedFd, request: &Request) -> i32 {
    let fd = file.as_raw_fd();
    let Request { what: Transfer { action, offset, len, .. }, address } = *request;
    loop {
        let result = match action {
            // SAFETY: the memory belongs to the tag of the request until its completion is taken.
            Action::Read => unsafe { libc::pread(fd, address.cast(), len as usize, offset as libc::off_t) },
            // SAFETY: the same.
            Action::Write => unsafe { libc::pwrite(fd, address.cast(), len as usize, offset as libc::off_t) },
            Action::Flush => return status(rustix::fs::fdatasync(file.as_fd())),
            Action::PunchHole => {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                return status(rustix::fs::fallocate(file.as_fd(), flags, offset, len));
            }
            Action::Discard => return errno(descriptor::discard(file, offset, len)),
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
