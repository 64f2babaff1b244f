//! Requests and answers over io_uring (Linux 6.14) instead of reads and writes of `/dev/fuse`.
//!
//! The kernel keeps a queue of requests for every processor and gives a request to the queue of the processor on which it was made. A thread on
//! that processor takes it from memory, and gives the answer and asks for the next request in one system call: nobody waits for another processor
//! to wake up. What is not due yet waits in the same thread.

use super::memory::Memory;
use super::node::Node;
use super::wire::{self, Headers};
use crate::serve::awake::{Awake, REST};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use rustix::thread::CpuSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read as _};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that one queue holds at once: as many as the loop driver sends.
const DEPTH: usize = 128;
/// So many answers are given to the kernel at once: it need not be asked for each, and whoever waits need not wait for all.
const SUBMITTED_AT: usize = 8;
/// A sleeping thread is back this much after its alarm, typically; the rest is spent looking at the clock.
const SPIN: Duration = Duration::from_micros(15);
/// Where the kernel says whether it takes requests over io_uring; off unless the administrator has switched it on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

type Ring = IoUring<squeue::Entry128>;

/// Which queues each thread serves.
#[derive(Debug)]
pub struct Plan {
    threads: Vec<Share>,
}

#[derive(Debug)]
struct Share {
    processor: usize,
    queues: Vec<u16>,
}

impl Plan {
    /// A thread for each processor that this process may use, which also serve the queues of others; `None` where the kernel or its settings do
    /// not allow that.
    pub fn new() -> Option<Self> {
        let possible = count_of(std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?.trim())?;
        let usable = rustix::thread::sched_getaffinity(None).ok()?;
        let threads =
            (0..possible.min(CpuSet::MAX_CPU)).filter(|cpu| usable.is_set(*cpu)).map(|processor| Share { processor, queues: Vec::new() });
        let mut plan = Self { threads: threads.collect() };
        for queue in 0..possible {
            let own = plan.threads.iter().position(|share| share.processor == queue);
            let at = own.unwrap_or(queue.checked_rem(plan.threads.len())?);
            plan.threads[at].queues.push(u16::try_from(queue).ok()?);
        }
        (Path::new(SWITCH).exists() && new_ring(1).is_ok()).then_some(plan)
    }

    /// Starts the threads on the mounted filesystem behind `device`, whose first request was answered with the agreement to do this. Returns
    /// when the kernel has been told of all queues.
    pub fn start(self, device: &OwnedFd, node: &Arc<Node>) -> io::Result<Rings> {
        let waiting = Arc::new(AtomicUsize::new(0));
        let (ready, all) = mpsc::channel();
        let mut threads = Vec::new();
        for share in self.threads {
            let (device, node, waiting, ready) = (device.try_clone()?, Arc::clone(node), Arc::clone(&waiting), ready.clone());
            let name = format!("fuse-ring-{}", share.processor);
            threads.push(std::thread::Builder::new().name(name).spawn(move || match Served::new(&share, device, node, waiting) {
                Ok(mut served) => {
                    let registered = served.register();
                    let works = registered.is_ok();
                    let _ = ready.send(registered);
                    drop(ready);
                    if works {
                        served.run();
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            })?);
        }
        drop(ready);
        all.into_iter().collect::<io::Result<()>>()?;
        Ok(Rings { threads, waiting })
    }
}

/// How many processors a list such as `0-3,8` names.
fn count_of(list: &str) -> Option<usize> {
    let of = |range: &str| match range.split_once('-') {
        None => range.parse::<usize>().ok().map(|_| 1),
        Some((first, last)) => Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1),
    };
    list.split(',').map(of).sum()
}

fn new_ring(commands: usize) -> io::Result<Ring> {
    let commands = u32::try_from(commands.next_power_of_two()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(commands.max(2)).build(commands.min(256))
}

/// Switches the kernel's support on while a filesystem is mounted, if it is off. A filesystem that was mounted so keeps it.
pub struct Switch {
    /// Locked, so that nobody else who does the same takes this for the administrator's choice.
    file: Option<File>,
}

impl Switch {
    /// Switched on, if this process may; nothing but the speed depends on it.
    pub fn on() -> Self {
        Self::turn(Path::new(SWITCH))
    }

    fn turn(path: &Path) -> Self {
        let open = || {
            let mut file = File::options().read(true).write(true).open(path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            let mut state = String::new();
            file.read_to_string(&mut state)?;
            if state.trim() == "N" {
                file.write_all_at(b"Y", 0)?;
                return Ok(Some(file));
            }
            io::Result::Ok(None)
        };
        Self { file: open().unwrap_or_default() }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.write_all_at(b"N", 0);
        }
    }
}

/// The threads that serve a mounted filesystem. They end when it is unmounted.
pub struct Rings {
    threads: Vec<JoinHandle<()>>,
    waiting: Arc<AtomicUsize>,
}

impl Rings {
    /// How many answers are being kept back until they are due.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether all threads have ended.
    pub fn are_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// One thread's queues, and the memory of the requests in them.
struct Served {
    // Dropped first: the kernel uses the memory until then.
    ring: Ring,
    headers: Vec<Headers>,
    payloads: Memory,
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

impl Served {
    fn new(share: &Share, device: OwnedFd, node: Arc<Node>, waiting: Arc<AtomicUsize>) -> io::Result<Self> {
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
            payloads: Memory::new(requests * super::MAX_REQUEST_BYTES as usize)?,
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
    fn register(&mut self) -> io::Result<()> {
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
        let bytes = super::MAX_REQUEST_BYTES as usize;
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
    fn run(&mut self) {
        while self.alive > 0 {
            // What came with the registration is there already.
            if self.arrived.is_empty() {
                if let Err(error) = self.wait() {
                    eprintln!("trimtab: the drive's requests cannot be taken any more: {error}");
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
        let due = self.node.answer(&mut self.headers[request], self.payloads.bytes(range));
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
            errno => eprintln!("trimtab: the kernel refused an answer of the drive: {}", io::Error::from_raw_os_error(errno)),
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
            eprintln!("trimtab: an answer of the drive is lost: {error}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("enable_uring");
        let state = || std::fs::read_to_string(&path).unwrap().trim().to_owned();
        for (before, after) in [("N\n", "N"), ("Y\n", "Y")] {
            std::fs::write(&path, before).unwrap();
            let switch = Switch::turn(&path);
            assert_eq!(state(), "Y");
            drop(switch);
            assert_eq!(state(), after);
        }
        assert!(Switch::turn(&directory.path().join("missing")).file.is_none());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(["0", "0-1", "0-3,8", "0-127"].map(count_of), [Some(1), Some(2), Some(5), Some(128)]);
        assert_eq!(["", "a", "3-1", "0-", "-"].map(count_of), [None; 5]);
    }
}
