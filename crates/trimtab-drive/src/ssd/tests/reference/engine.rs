//! Serial resources, signals and an event queue.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// An event at some time.
pub(super) type Signal = usize;

/// A job in the queue of a die or a channel.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// Host data: runs after all signals and a share of the owed time.
    Program { after: Vec<Signal>, took: u64, share: u64, done: Signal },
    /// A read; background work continues for `wait` in parallel.
    Read { after: Vec<Signal>, took: u64, wait: Option<u64>, done: Signal },
    /// Background work that starts at a signal.
    Owe { from: Signal, ns: u64 },
}

/// A channel transfer of a read, which yields to earlier transfers with ready data.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) after: Signal,
    pub(super) left: u64,
    pub(super) done: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activity {
    Nothing,
    Background,
    /// Index of a transfer.
    Transfer(usize),
    Job(Signal),
}

/// A die or a channel.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) jobs: VecDeque<Job>,
    /// Transfers in submission order.
    pub(super) transfers: Vec<Transfer>,
    pub(super) doing: Activity,
    pub(super) since: u64,
    pub(super) until: u64,
    pub(super) owed: u64,
    /// Owed time paid since the last job.
    pub(super) worked_off: u64,
}

impl Server {
    /// True if only background work remains.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.transfers.is_empty() && !matches!(self.doing, Activity::Job(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Fire(Signal),
    Wake(usize),
}

/// Times of signals, and pending events.
#[derive(Default)]
pub(super) struct Engine {
    pub(super) now: u64,
    pub(super) fired: Vec<Option<u64>>,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) order: u64,
    pub(super) servers: Vec<Server>,
    /// Signals that fire `delay` after the last of other signals.
    pub(super) gates: Vec<(Vec<Signal>, u64, Signal)>,
}

impl Engine {
    pub(super) fn signal(&mut self) -> Signal {
        self.fired.push(None);
        self.fired.len() - 1
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time.max(self.now), self.order, event)));
    }

    /// Creates a signal that fires `delay` after the last of `after`.
    pub(super) fn gate(&mut self, after: Vec<Signal>, delay: u64) -> Signal {
        let signal = self.signal();
        self.gates.push((after, delay, signal));
        self.open_gates();
        signal
    }

    fn latest(&self, signals: &[Signal]) -> Option<u64> {
        signals
            .iter()
            .map(|signal| self.fired[*signal])
            .try_fold(0, |latest, at| at.map(|at| at.max(latest)))
    }

    fn open_gates(&mut self) {
        let mut gates = core::mem::take(&mut self.gates);
        gates.retain(|(after, delay, signal)| match self.latest(after) {
            Some(at) => {
                self.at(at + delay, Event::Fire(*signal));
                false
            }
            None => true,
        });
        self.gates = gates;
    }

    /// Advances time to `until`, including events at that time.
    pub(super) fn run_to(&mut self, until: u64) {
        self.poll_all();
        while let Some(Reverse((time, _, _))) = self.events.peek()
            && *time <= until
        {
            let Some(Reverse((time, _, event))) = self.events.pop() else { break };
            self.now = time;
            match event {
                Event::Fire(signal) => {
                    self.fired[signal] = Some(time);
                    self.open_gates();
                    self.poll_all();
                }
                Event::Wake(server) => self.poll(server),
            }
        }
        self.now = self.now.max(until);
    }

    /// Advances time until `signal` fires; returns that time.
    pub(super) fn run_until(&mut self, signal: Signal) -> u64 {
        while self.fired[signal].is_none() {
            self.poll_all();
            let Some(Reverse((time, _, _))) = self.events.peek() else {
                panic!("signal {signal} never fires")
            };
            let time = *time;
            self.run_to(time);
        }
        self.fired[signal].unwrap()
    }

    pub(super) fn poll_all(&mut self) {
        (0..self.servers.len()).for_each(|server| self.poll(server));
    }

    /// True if no work remains.
    pub(super) fn quiet(&self) -> bool {
        self.servers.iter().all(|server| server.is_idle() && server.owed == 0)
    }

    /// Accounts for elapsed time and starts the next job.
    fn poll(&mut self, at: usize) {
        let now = self.now;
        if let Activity::Job(done) = self.servers[at].doing {
            if now < self.servers[at].until {
                return;
            }
            self.servers[at].doing = Activity::Nothing;
            self.next_job(at);
            self.at(now, Event::Fire(done));
        }
        let server = &mut self.servers[at];
        if server.doing == Activity::Background {
            let worked = (now - server.since).min(server.owed);
            server.owed -= worked;
            server.worked_off += worked;
            server.doing = Activity::Nothing;
        }
        if self.transfer(at) {
            return;
        }
        loop {
            let wake = match self.servers[at].jobs.front().cloned() {
                None => u64::MAX,
                Some(Job::Owe { from, ns }) => match self.fired[from] {
                    Some(time) if time <= now => {
                        self.servers[at].owed += ns;
                        self.next_job(at);
                        continue;
                    }
                    _ => u64::MAX,
                },
                Some(Job::Program { after, took, share, done }) => {
                    let server = &mut self.servers[at];
                    // Pay at least a small part of the owed time.
                    let demanded = ((server.owed + server.worked_off) >> 12).max(share);
                    let lacks = demanded.saturating_sub(server.worked_off).min(server.owed);
                    match self.latest(&after) {
                        Some(time) if time <= now && lacks == 0 => {
                            return self.start(at, took, done);
                        }
                        Some(time) if time <= now => now + lacks,
                        _ => u64::MAX,
                    }
                }
                Some(Job::Read { after, took, wait, done }) => match self.latest(&after) {
                    Some(time) if time <= now => {
                        let begin = match wait {
                            Some(wait) if self.servers[at].owed > 0 => time + wait,
                            _ => now,
                        };
                        if begin <= now {
                            return self.start(at, took, done);
                        }
                        begin
                    }
                    _ => u64::MAX,
                },
            };
            let server = &mut self.servers[at];
            if server.owed > 0 {
                (server.doing, server.since) = (Activity::Background, now);
                let wake = wake.min(now + server.owed);
                self.at(wake, Event::Wake(at));
            } else if wake != u64::MAX {
                self.at(wake, Event::Wake(at));
            }
            return;
        }
    }

    /// Continues the first transfer whose data are ready, if any.
    fn transfer(&mut self, at: usize) -> bool {
        let now = self.now;
        let server = &mut self.servers[at];
        if let Activity::Transfer(nth) = server.doing {
            server.doing = Activity::Nothing;
            server.worked_off = 0;
            server.transfers[nth].left -= now - server.since;
            if server.transfers[nth].left == 0 {
                let done = server.transfers.remove(nth).done;
                self.at(now, Event::Fire(done));
            }
        }
        let there = |transfer: &Transfer| self.fired[transfer.after].is_some_and(|at| at <= now);
        let Some(nth) = self.servers[at].transfers.iter().position(there) else { return false };
        let server = &mut self.servers[at];
        (server.doing, server.since) = (Activity::Transfer(nth), now);
        let end = now + server.transfers[nth].left;
        self.at(end, Event::Wake(at));
        true
    }

    fn next_job(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.worked_off = 0;
        server.jobs.pop_front();
    }

    fn start(&mut self, at: usize, took: u64, done: Signal) {
        let server = &mut self.servers[at];
        (server.doing, server.until) = (Activity::Job(done), self.now + took);
        let until = server.until;
        self.at(until, Event::Wake(at));
    }
}
