//! One thread that takes requests from its rings, has them served, and answers when they are due.

use super::Share;
use crate::serve::awake::{Awake, REST};
use crate::serve::fuse::MAX_REQUEST_BYTES;
use crate::serve::fuse::node::Node;
use crate::serve::fuse::wire::{self, Headers};
use crate::serve::pace::SPIN;
use crate::sys::pool::Pool;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use rustix::thread::CpuSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests that one queue holds at once: as many as the loop driver sends.
const DEPTH: usize = 128;
/// So many answers are given to the kernel at once: it need not be asked for each, and whoever waits need not wait for all.
const SUBMITTED_AT: usize = 8;

type Ring = IoUring<squeue::Entry128>;

/// A ring for so many commands at once.
pub fn new_ring(commands: usize) -> io::Result<Ring> {
    let commands = u32::try_from(commands.next_power_of_two()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(commands.max(2)).build(commands.min(256))
}

/// One thread's queues, and the memory of the requests in them.
pub struct Worker {
    // Dropped first: the kernel uses the memory until then.
    ring: Ring,
    headers: Vec<Headers>,
    payloads: Pool,
    device: OwnedFd,
    node: Arc<Node>,
    queues: Vec<u16>,
    /// Requests that have come, or errors.
    arrived: Vec<(usize, i32)>,
    /// What is answered but not due: when, and the request's index.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    waiting: Arc<AtomicUsize>,
    /// Requests that can still come.
    alive: usize,
    /// The filesystem is being taken away: nobody waits for answers.
    ending: bool,
    /// Memory of requests has been used since it was given back.
    used: bool,
    /// From the first answer that is not due at once until the drive has had nothing to do for a while.
    awake: Option<Awake>,
    /// Requests at hand, on average over the last times.
    depth: f64,
    roaming: bool,
    here: CpuSet,
    everywhere: CpuSet,
}

impl Worker {
    pub fn new(share: &Share, device: OwnedFd, node: Arc<Node>, waiting: Arc<AtomicUsize>) -> io::Result<Self> {
        let everywhere = rustix::thread::sched_getaffinity(None)?;
        let mut here = CpuSet::new();
        here.set(share.processor);
        rustix::thread::sched_setaffinity(None, &here)?;
        // The default slack of 50 µs is what a drive needs for a whole read.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let requests = share.queues.len() * DEPTH;
        Ok(Self {
            ring: new_ring(requests)?,
            headers: (0..requests).map(|_| Headers::new()).collect(),
            payloads: Pool::sparse(requests * MAX_REQUEST_BYTES as usize)?,
            device,
            node,
            queues: share.queues.clone(),
            arrived: Vec::with_capacity(requests),
            due: BinaryHeap::new(),
            waiting,
            alive: 0,
            ending: false,
            used: false,
            awake: None,
            depth: 0.0,
            roaming: false,
            here,
            everywhere,
        })
    }

    fn queue_of(&self, request: usize) -> u16 {
        self.queues[request / DEPTH]
    }

    /// Gives the kernel memory for all requests.
    pub fn register(&mut self) -> io::Result<()> {
        let headers = self.headers.as_mut_ptr();
        let vectors: Vec<[libc::iovec; 2]> = (0..self.headers.len())
            .map(|request| {
                let payload = self.payload_range(request);
                [
                    libc::iovec { iov_base: headers.wrapping_add(request).cast(), iov_len: size_of::<Headers>() },
                    libc::iovec { iov_base: self.payloads.address(payload.start).cast(), iov_len: payload.len() },
                ]
            })
            .collect();
        for (request, vector) in vectors.iter().enumerate() {
            let command = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), wire::REGISTER)
                .cmd(wire::command(self.queue_of(request), 0))
                .addr(Some(vector.as_ptr() as u64));
            self.push(with_len(command.build(), 2), request)?;
        }
        // The vectors have to be there until the kernel has read them.
        while !self.ring.submission().is_empty() {
            self.enter(0, None)?;
        }
        self.alive = self.headers.len();
        self.take();
        match self.arrived.iter().find(|(_, result)| *result < 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Takes what has come from the kernel.
    fn take(&mut self) {
        self.arrived.extend(self.ring.completion().map(|completion| (completion.user_data() as usize, completion.result())));
    }

    fn payload_range(&self, request: usize) -> std::ops::Range<usize> {
        let bytes = MAX_REQUEST_BYTES as usize;
        request * bytes..(request + 1) * bytes
    }

    fn push(&mut self, entry: squeue::Entry128, request: usize) -> io::Result<()> {
        let entry = entry.user_data(request as u64);
        // SAFETY: headers, payload and (until they are submitted, in the caller) vectors outlive the command; the kernel leaves them alone while
        // the request is ours.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// Serves until the filesystem is unmounted.
    pub fn run(&mut self) {
        while self.alive > 0 {
            // What came with the registration is there already.
            if self.arrived.is_empty() {
                if let Err(error) = self.wait() {
                    crate::output::complain(&format!("the drive's requests cannot be taken any more: {error}"));
                    return;
                }
                self.take();
            }
            self.settle(self.arrived.len() + self.due.len());
            let mut arrived = std::mem::take(&mut self.arrived);
            for (request, result) in arrived.drain(..) {
                match result {
                    0.. => self.serve(request),
                    _ => self.lost(result),
                }
            }
            self.arrived = arrived;
            self.answer_due();
        }
    }

    /// Chooses where to run, with so many requests at hand. A request that comes alone is served soonest where it was made, because no other
    /// processor has to be woken up. With many it is better to leave that processor to those who make them.
    fn settle(&mut self, requests: usize) {
        self.depth += (requests as f64 - self.depth) / 16.0;
        let roaming = if self.roaming { self.depth > 1.25 } else { self.depth > 2.0 };
        if roaming != self.roaming {
            self.roaming = roaming;
            let allowed = if roaming { &self.everywhere } else { &self.here };
            let _ = rustix::thread::sched_setaffinity(None, allowed);
        }
    }

    /// Submits what is to be submitted, and waits for a request or until an answer is due.
    fn wait(&mut self) -> io::Result<()> {
        let next = self.due.peek().map(|Reverse((due, _))| *due);
        let left = next.map(|due| if self.ending { Duration::ZERO } else { due.saturating_duration_since(Instant::now()) });
        match (next, left) {
            (Some(due), Some(left)) if left <= SPIN => {
                self.enter(0, None)?;
                while self.ring.completion().is_empty() && !self.ending && Instant::now() < due {
                    std::hint::spin_loop();
                }
            }
            (_, Some(left)) => drop(self.enter(1, Some(left - SPIN))?),
            _ => {
                let rested = self.enter(1, self.used.then_some(REST))?;
                if rested {
                    // The kernel writes to this memory in this thread only, in system calls.
                    self.payloads.give_back();
                    self.used = false;
                    self.awake = None;
                }
            }
        }
        Ok(())
    }

    /// Submits what is to be submitted, and waits for `want` completions, or so long; then it gives true.
    fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let timespec = sleep.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let queued = self.ring.submission().len();
        // SAFETY: the argument is of the kind that the flag says, and what was queued stays valid (see `push`).
        match unsafe { self.ring.submitter().enter(queued as u32, want as u32, flags.bits(), Some(&args)) } {
            Ok(_) => Ok(false),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(true),
                // Interruptions and a shortage of memory pass.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn serve(&mut self, request: usize) {
        let range = self.payload_range(request);
        self.used = true;
        let due = self.node.answer(&mut self.headers[request], self.payloads.bytes(range.start, range.len()));
        match due {
            Some(due) if due > Instant::now() => {
                self.awake.get_or_insert_with(Awake::hold);
                self.due.push(Reverse((due, request)));
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.commit(request),
        }
    }

    /// A request will not come back: the filesystem was unmounted, most likely.
    fn lost(&mut self, result: i32) {
        self.alive -= 1;
        match -result {
            libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED => self.ending = true,
            errno => {
                crate::output::complain(&format!("the kernel refused an answer of the drive: {}", io::Error::from_raw_os_error(errno)))
            }
        }
    }

    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, request))) = self.due.peek()
            && (*due <= now || self.ending)
        {
            let request = *request;
            self.due.pop();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.commit(request);
        }
    }

    /// Gives the answer to `request`, and asks for another.
    fn commit(&mut self, request: usize) {
        let command = wire::command(self.queue_of(request), self.headers[request].commit_id);
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), wire::COMMIT_AND_FETCH).cmd(command).build();
        let mut pushed = self.push(entry, request);
        if pushed.is_ok() && self.ring.submission().len() >= SUBMITTED_AT {
            pushed = self.enter(0, None).map(drop);
        }
        if let Err(error) = pushed {
            crate::output::complain(&format!("an answer of the drive is lost: {error}"));
            self.alive -= 1;
        }
    }
}

/// The library has no way to give a command a length, which `FUSE_IO_URING_CMD_REGISTER` wants.
fn with_len(mut entry: squeue::Entry128, len: u32) -> squeue::Entry128 {
    const { assert!(size_of::<squeue::Entry128>() == 128) };
    // SAFETY: the entry is a `struct io_uring_sqe` of 128 bytes, `len` of which are the four from byte 24 on.
    unsafe { (&raw mut entry).cast::<u32>().add(6).write(len) };
    entry
}
