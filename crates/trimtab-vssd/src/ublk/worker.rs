//! A thread that receives requests of a ublk queue, executes them and completes them when
//! due.

use super::requests;
use crate::cpu_latency::RELEASE_AFTER;
use crate::pace::{DelayQueue, WaitMethod, minimise_timer_slack};
use crate::request::RequestServer;
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use trimtab_linux::sys::ublk::queue::UblkQueue;

/// Number of completions submitted at once: a system call for each would be expensive,
/// and waiting for all would delay the first ones.
const SUBMITTED_AT: usize = 8;
/// `UBLK_IO_RES_ABORT`, and the error of a ring that is being torn down: no more requests
/// arrive.
const ENDS: [i32; 2] = [libc::ENODEV, libc::ECANCELED];

/// The slots of a queue, and their state.
pub struct Worker {
    queue: UblkQueue,
    drive: Arc<dyn RequestServer>,
    /// The result of the request in each slot.
    results: Vec<i32>,
    /// Requests that have arrived, or errors.
    arrived: Vec<(usize, i32)>,
    /// Slots that are executed but not due.
    due: DelayQueue<usize>,
    waiting: Arc<AtomicUsize>,
    /// Number of requests that can still arrive.
    alive: usize,
    /// The host does not wait for completions any more.
    ending: bool,
    /// Slot memory has been used since it was freed.
    used: bool,
    /// Moving average of the number of requests at hand.
    depth: f64,
    roaming: bool,
    here: CpuSet,
    everywhere: CpuSet,
}

/// Pins this thread and its later allocations to the CPUs `here`. Returns the old
/// affinity.
pub fn pin_thread(here: &CpuSet) -> io::Result<CpuSet> {
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    rustix::thread::sched_setaffinity(None, here)?;
    minimise_timer_slack();
    Ok(everywhere)
}

impl Worker {
    /// A worker for `queue`, in a thread pinned to the CPUs `here` that may run
    /// `everywhere`.
    pub fn new(
        queue: UblkQueue,
        drive: Arc<dyn RequestServer>,
        here: CpuSet,
        everywhere: CpuSet,
        waiting: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            arrived: Vec::with_capacity(queue.requests()),
            results: vec![0; queue.requests()],
            queue,
            drive,
            due: DelayQueue::default(),
            waiting,
            alive: 0,
            ending: false,
            used: false,
            depth: 0.0,
            roaming: false,
            here,
            everywhere,
        }
    }

    /// Offers memory for all requests to the kernel.
    pub fn register(&mut self) -> io::Result<()> {
        self.queue.fetch_all()?;
        self.alive = self.queue.requests();
        self.queue.take(&mut self.arrived);
        match self.arrived.iter().find(|(_, result)| *result < 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Serves until no more requests can arrive.
    pub fn run(&mut self) {
        while self.alive > 0 {
            // The first arrivals came with the registration.
            if self.arrived.is_empty() {
                if let Err(error) = self.wait() {
                    trimtab_linux::output::complain(&format!(
                        "cannot receive requests of the drive any more: {error}"
                    ));
                    return;
                }
                self.queue.take(&mut self.arrived);
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

    /// Chooses the CPUs to run on for this number of requests at hand. A single request
    /// is fastest on the CPU that issued it, because no other CPU has to wake up. With
    /// many, that CPU is better left to the processes that issue them.
    fn settle(&mut self, requests: usize) {
        self.depth += (requests as f64 - self.depth) / 16.0;
        let roaming = if self.roaming { self.depth > 1.25 } else { self.depth > 2.0 };
        if roaming != self.roaming {
            self.roaming = roaming;
            let allowed = if roaming { &self.everywhere } else { &self.here };
            let _ = rustix::thread::sched_setaffinity(None, allowed);
        }
    }

    /// Submits the queue, and waits for a request or until a completion is due.
    fn wait(&mut self) -> io::Result<()> {
        match self.due.wait(Instant::now()) {
            Some(WaitMethod::Sleep(time)) if !self.ending => drop(self.queue.enter(1, Some(time))?),
            Some(WaitMethod::Spin(due)) => {
                self.queue.enter(0, None)?;
                while !self.queue.has_come() && !self.ending && Instant::now() < due {
                    std::hint::spin_loop();
                }
            }
            // Everything is completed immediately.
            Some(WaitMethod::Sleep(_)) => drop(self.queue.enter(0, None)?),
            None => {
                let rested = self.queue.enter(1, self.used.then_some(RELEASE_AFTER))?;
                if rested {
                    self.queue.give_back();
                    self.used = false;
                    self.due.rest();
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, request: usize) {
        self.used = true;
        let (described, memory) = self.queue.request(request);
        let answer = requests::serve(&*self.drive, &described, memory);
        self.results[request] = answer.result;
        match answer.due {
            Some(due) if due > Instant::now() => {
                self.due.push(due, request);
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.commit(request),
        }
    }

    /// Handles a request that will not return, usually because the drive is being
    /// removed.
    fn lost(&mut self, result: i32) {
        self.alive -= 1;
        if ENDS.contains(&-result) {
            self.ending = true;
        } else {
            trimtab_linux::output::complain(&format!(
                "the kernel rejected a response of the drive: {}",
                io::Error::from_raw_os_error(-result)
            ));
        }
    }

    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some(request) = self.due.take(now, self.ending) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.commit(request);
        }
    }

    /// Completes `request`, and offers its slot for another one.
    fn commit(&mut self, request: usize) {
        let mut pushed = self.queue.commit(request, self.results[request]);
        if pushed.is_ok() && self.queue.queued() >= SUBMITTED_AT {
            pushed = self.queue.enter(0, None).map(drop);
        }
        if let Err(error) = pushed {
            trimtab_linux::output::complain(&format!("a response of the drive is lost: {error}"));
            self.alive -= 1;
        }
    }
}
