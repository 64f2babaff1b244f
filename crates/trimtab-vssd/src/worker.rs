//! One thread that takes requests of the kernel from its slots, has them served, and answers when they are due.

use crate::awake::REST;
use crate::pace::{Due, Wait, wake_in_time};
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// So many answers are given to the kernel at once: it need not be asked for each, and whoever waits need not wait for all.
const SUBMITTED_AT: usize = 8;

/// Memory that the kernel puts requests into, and takes answers from.
pub trait Slots {
    /// How many there are.
    fn requests(&self) -> usize;

    /// Gives all to the kernel.
    fn offer(&mut self) -> io::Result<()>;

    /// Takes what has come from the kernel: slots with requests, or negative error numbers in their place.
    fn take(&mut self, arrived: &mut Vec<(usize, i32)>);

    /// Whether something has come.
    fn has_come(&mut self) -> bool;

    /// Answers that the kernel has not been given yet.
    fn queued(&mut self) -> usize;

    /// Gives the kernel what it has not been given, and waits for so many requests, or so long; then it gives true.
    fn enter(&mut self, want: usize, sleep: Option<std::time::Duration>) -> io::Result<bool>;

    /// Has the request in a slot served, and keeps the answer there. Gives when it is due.
    fn serve(&mut self, slot: usize) -> Option<Instant>;

    /// Gives the answer in a slot, and asks for another request.
    fn commit(&mut self, slot: usize) -> io::Result<()>;

    /// Gives the memory of all slots back. Only when no request is in any.
    fn give_back(&mut self);

    /// Whether this error number (positive) is how the kernel says that no more requests will come.
    fn is_end(errno: i32) -> bool;
}

/// A thread's slots, and what is in them.
pub struct Worker<S> {
    slots: S,
    /// Requests that have come, or errors.
    arrived: Vec<(usize, i32)>,
    /// Slots that are answered but not due.
    due: Due<usize>,
    waiting: Arc<AtomicUsize>,
    /// Requests that can still come.
    alive: usize,
    /// Nobody waits for answers any more.
    ending: bool,
    /// Memory of slots has been used since it was given back.
    used: bool,
    /// Requests at hand, on average over the last times.
    depth: f64,
    roaming: bool,
    here: CpuSet,
    everywhere: CpuSet,
}

/// Ties this thread to these processors: what is set up from here on is set up there. Gives those that it could run on before.
pub fn settle_down(here: &CpuSet) -> io::Result<CpuSet> {
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    rustix::thread::sched_setaffinity(None, here)?;
    wake_in_time();
    Ok(everywhere)
}

impl<S: Slots> Worker<S> {
    /// A worker at `slots`, in a thread that is tied to the processors `here`, and may run `everywhere`.
    pub fn new(slots: S, here: CpuSet, everywhere: CpuSet, waiting: Arc<AtomicUsize>) -> Self {
        Self {
            arrived: Vec::with_capacity(slots.requests()),
            slots,
            due: Due::default(),
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

    /// Gives the kernel memory for all requests.
    pub fn register(&mut self) -> io::Result<()> {
        self.slots.offer()?;
        self.alive = self.slots.requests();
        self.slots.take(&mut self.arrived);
        match self.arrived.iter().find(|(_, result)| *result < 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Serves until no more requests can come.
    pub fn run(&mut self) {
        while self.alive > 0 {
            // What came with the registration is there already.
            if self.arrived.is_empty() {
                if let Err(error) = self.wait() {
                    trimtab_linux::output::complain(&format!("the drive's requests cannot be taken any more: {error}"));
                    return;
                }
                self.slots.take(&mut self.arrived);
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
            Some(Wait::Sleep(time)) if !self.ending => drop(self.slots.enter(1, Some(time))?),
            Some(Wait::Spin(due)) => {
                self.slots.enter(0, None)?;
                while !self.slots.has_come() && !self.ending && Instant::now() < due {
                    std::hint::spin_loop();
                }
            }
            // All is answered at once.
            Some(Wait::Sleep(_)) => drop(self.slots.enter(0, None)?),
            None => {
                let rested = self.slots.enter(1, self.used.then_some(REST))?;
                if rested {
                    self.slots.give_back();
                    self.used = false;
                    self.due.rest();
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, request: usize) {
        self.used = true;
        match self.slots.serve(request) {
            Some(due) if due > Instant::now() => {
                self.due.push(due, request);
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.commit(request),
        }
    }

    /// A request will not come back: the drive is being taken away, most likely.
    fn lost(&mut self, result: i32) {
        self.alive -= 1;
        if S::is_end(-result) {
            self.ending = true;
        } else {
            trimtab_linux::output::complain(&format!(
                "the kernel refused an answer of the drive: {}",
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

    /// Gives the answer to `request`, and asks for another.
    fn commit(&mut self, request: usize) {
        let mut pushed = self.slots.commit(request);
        if pushed.is_ok() && self.slots.queued() >= SUBMITTED_AT {
            pushed = self.slots.enter(0, None).map(drop);
        }
        if let Err(error) = pushed {
            trimtab_linux::output::complain(&format!("an answer of the drive is lost: {error}"));
            self.alive -= 1;
        }
    }
}
