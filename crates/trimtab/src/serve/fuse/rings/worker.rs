//! One thread that takes requests from its rings, has them served, and answers when they are due.

use super::Share;
use crate::serve::awake::REST;
use crate::serve::fuse::MAX_REQUEST_BYTES;
use crate::serve::fuse::node::Node;
use crate::serve::pace::{Due, Wait, wake_in_time};
use crate::sys::fuse_ring::FuseRing;
use rustix::thread::CpuSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Requests that one queue holds at once: as many as the loop driver sends.
const DEPTH: usize = 128;
/// So many answers are given to the kernel at once: it need not be asked for each, and whoever waits need not wait for all.
const SUBMITTED_AT: usize = 8;

/// One thread's queues, and the memory of the requests in them.
pub struct Worker {
    ring: FuseRing,
    node: Arc<Node>,
    /// Requests that have come, or errors.
    arrived: Vec<(usize, i32)>,
    /// Indices of requests that are answered but not due.
    due: Due<usize>,
    waiting: Arc<AtomicUsize>,
    /// Requests that can still come.
    alive: usize,
    /// The filesystem is being taken away: nobody waits for answers.
    ending: bool,
    /// Memory of requests has been used since it was given back.
    used: bool,
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
        wake_in_time();
        let ring = FuseRing::new(device, &share.queues, DEPTH, MAX_REQUEST_BYTES as usize)?;
        Ok(Self {
            arrived: Vec::with_capacity(ring.requests()),
            ring,
            node,
            due: Due::default(),
            waiting,
            alive: 0,
            ending: false,
            used: false,
            depth: 0.0,
            roaming: false,
            here,
            everywhere,
        })
    }

    /// Gives the kernel memory for all requests.
    pub fn register(&mut self) -> io::Result<()> {
        self.ring.register()?;
        self.alive = self.ring.requests();
        self.ring.take(&mut self.arrived);
        match self.arrived.iter().find(|(_, result)| *result < 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
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
                self.ring.take(&mut self.arrived);
            }
            self.settle(self.arrived.len() + self.due.waiting());
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
        match self.due.wait(Instant::now()) {
            Some(Wait::Sleep(time)) if !self.ending => drop(self.ring.enter(1, Some(time))?),
            Some(Wait::Spin(due)) => {
                self.ring.enter(0, None)?;
                while !self.ring.has_come() && !self.ending && Instant::now() < due {
                    std::hint::spin_loop();
                }
            }
            // All is answered at once.
            Some(Wait::Sleep(_)) => drop(self.ring.enter(0, None)?),
            None => {
                let rested = self.ring.enter(1, self.used.then_some(REST))?;
                if rested {
                    self.ring.give_back();
                    self.used = false;
                    self.due.rest();
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, request: usize) {
        self.used = true;
        let (headers, payload) = self.ring.request(request);
        let due = self.node.answer(headers, payload);
        match due {
            Some(due) if due > Instant::now() => {
                self.due.push(due, request);
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
        while let Some(request) = self.due.take(now, self.ending) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.commit(request);
        }
    }

    /// Gives the answer to `request`, and asks for another.
    fn commit(&mut self, request: usize) {
        let mut pushed = self.ring.commit(request);
        if pushed.is_ok() && self.ring.queued() >= SUBMITTED_AT {
            pushed = self.ring.enter(0, None).map(drop);
        }
        if let Err(error) = pushed {
            crate::output::complain(&format!("an answer of the drive is lost: {error}"));
            self.alive -= 1;
        }
    }
}
