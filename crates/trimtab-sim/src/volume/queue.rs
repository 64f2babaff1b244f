//! The block layer: gathers writes into requests as a plug does, keeps them in two queues, and has a limited number in flight on the drive.

use super::spec::BlockLayer;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use trimtab_drive::data::DataClass;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent, Refusal};

/// Requests that a plug gathers before it lets go of them (`BLK_MAX_REQUEST_COUNT`).
const PLUG_REQUESTS: usize = 32;
/// A request of this size lets the plug go when another begins (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_BYTES: u64 = 128 << 10;
/// Less idle time than this is not worth telling the drive about.
const IDLE_MIN: Nanos = Nanos::from_micros(50);

/// Some requests that somebody waits for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u32);

/// Who is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody waits: reads, journal, what is synced.
    Sync,
    /// Nobody does yet: writeback.
    Async,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write(DataClass),
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    kind: Kind,
    offset: u64,
    len: u64,
    ready: Nanos,
    ticket: Ticket,
}

/// What passed through the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read requests.
    pub reads: Amount,
    /// Write requests.
    pub writes: Amount,
    /// Cache flushes.
    pub flushes: u64,
    /// Discard commands that the drive accepted.
    pub discards: Amount,
    /// Discard commands that it refused.
    pub discards_refused: u64,
}

impl Traffic {
    /// Requests that are no discards.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads.count + self.writes.count + self.flushes
    }
}

/// What others than trims do to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreground {
    /// Requests in flight or queued; at least this many.
    pub in_flight: u32,
    /// Since when there have been none.
    pub idle_since: Option<Nanos>,
    /// The longest that a request took that somebody waited for, from when it was ready, since this was asked last.
    pub wait_max: Option<Nanos>,
}

/// Requests under a ticket that have not completed.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    waiting: u32,
    done: Nanos,
    used: bool,
    /// Nobody will wait for it.
    forgotten: bool,
}

/// The block layer above one drive.
#[derive(Clone, Debug)]
pub struct Queue<D> {
    /// The drive.
    pub drive: D,
    layer: BlockLayer,
    plug: Vec<(Request, Urgency)>,
    sync: VecDeque<Request>,
    background: VecDeque<Request>,
    in_flight: BinaryHeap<Reverse<Nanos>>,
    tickets: Vec<Pending>,
    spare: Vec<u32>,
    /// When the last command was submitted.
    submitted: Nanos,
    /// When the last command completes.
    busy_until: Nanos,
    /// When the last command that is no trim completes.
    others_until: Nanos,
    /// The longest that a command took that somebody waited for, since this was asked last.
    wait_max: Option<Nanos>,
    /// Bytes of writes in the queues.
    write_backlog: u64,
    /// What passed through.
    pub traffic: Traffic,
    /// The first refusal that is no matter of TRIM.
    pub failed: Option<Refusal>,
}

impl<D> Queue<D> {
    pub(super) fn new(drive: D, layer: BlockLayer) -> Self {
        Self {
            drive,
            layer,
            plug: Vec::with_capacity(PLUG_REQUESTS),
            sync: VecDeque::new(),
            background: VecDeque::new(),
            in_flight: BinaryHeap::new(),
            tickets: Vec::new(),
            spare: Vec::new(),
            submitted: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            others_until: Nanos::ZERO,
            wait_max: None,
            write_backlog: 0,
            traffic: Traffic::default(),
            failed: None,
        }
    }

    /// A ticket for requests that somebody will wait for. It ends with [`finish`](Self::finish).
    pub fn ticket(&mut self) -> Ticket {
        let fresh = Pending { used: true, ..Pending::default() };
        if let Some(number) = self.spare.pop() {
            self.tickets[number as usize] = fresh;
            return Ticket(number);
        }
        self.tickets.push(fresh);
        Ticket(self.tickets.len() as u32 - 1)
    }

    /// Ends a ticket that has been waited for.
    pub fn finish(&mut self, ticket: Ticket) {
        let pending = &mut self.tickets[ticket.0 as usize];
        debug_assert!(pending.used && pending.waiting == 0);
        pending.used = false;
        self.spare.push(ticket.0);
    }

    /// Nobody will wait for this ticket: it ends by itself.
    pub fn forget(&mut self, ticket: Ticket) {
        self.unplug();
        self.tickets[ticket.0 as usize].forgotten = true;
        if self.tickets[ticket.0 as usize].waiting == 0 {
            self.finish(ticket);
        }
    }

    /// When all requests of a ticket will have completed; `None` while some are still queued.
    pub fn done(&self, ticket: Ticket) -> Option<Nanos> {
        let pending = &self.tickets[ticket.0 as usize];
        (pending.waiting == 0).then_some(pending.done)
    }

    /// Queues a write. It may become one request with the write before it.
    pub fn write(&mut self, now: Nanos, offset: u64, len: u64, class: DataClass, ticket: Ticket, urgency: Urgency) {
        self.gather(Request { kind: Kind::Write(class), offset, len, ready: now, ticket }, urgency);
    }

    /// Queues a read.
    pub fn read(&mut self, now: Nanos, offset: u64, len: u64, ticket: Ticket) {
        self.gather(Request { kind: Kind::Read, offset, len, ready: now, ticket }, Urgency::Sync);
    }

    /// Queues a flush of the drive's write cache. Whoever needs writes to be flushed waits for them first.
    pub fn flush(&mut self, now: Nanos, ticket: Ticket) {
        self.unplug();
        if self.layer.write_cache {
            self.tickets[ticket.0 as usize].waiting += 1;
            self.sync.push_back(Request { kind: Kind::Flush, offset: 0, len: 0, ready: now, ticket });
        } else {
            let done = &mut self.tickets[ticket.0 as usize].done;
            *done = (*done).max(now);
        }
    }

    /// Puts a request of any length into the plug, in requests of the size that the drive takes.
    fn gather(&mut self, request: Request, urgency: Urgency) {
        let most = u64::from(self.layer.request_max);
        let Request { mut offset, mut len, .. } = request;
        while len > 0 {
            // The last one gathered grows as far as it may.
            if let Some((last, kind_of)) = self.plug.last_mut()
                && *kind_of == urgency
                && last.ticket == request.ticket
                && last.offset + last.len == offset
                && last.len < most
                && same_kind(last.kind, request.kind)
            {
                let n = len.min(most - last.len);
                last.len += n;
                offset += n;
                len -= n;
                continue;
            }
            if self.plug.len() >= PLUG_REQUESTS || self.plug.last().is_some_and(|(last, _)| last.len >= PLUG_BYTES) {
                self.unplug();
            }
            let n = len.min(most);
            self.plug.push((Request { offset, len: n, ..request }, urgency));
            self.tickets[request.ticket.0 as usize].waiting += 1;
            offset += n;
            len -= n;
        }
    }

    /// Lets go of what has been gathered.
    pub fn unplug(&mut self) {
        for (request, urgency) in self.plug.drain(..) {
            if matches!(request.kind, Kind::Write(_)) {
                self.write_backlog += request.len;
            }
            match urgency {
                Urgency::Sync => self.sync.push_back(request),
                Urgency::Async => self.background.push_back(request),
            }
        }
    }

    /// Requests that wait to be sent.
    pub fn queued(&self) -> usize {
        self.sync.len() + self.background.len()
    }

    /// Whether a writer has to wait before it adds more.
    pub fn congested(&self) -> bool {
        self.queued() >= self.layer.queue_max as usize
    }

    /// Bytes of writes that wait to be sent.
    pub const fn write_backlog(&self) -> u64 {
        self.write_backlog
    }

    /// When the next request can be sent; `None` if none is queued.
    pub fn next_dispatch(&self) -> Option<Nanos> {
        let ready = match (self.sync.front(), self.background.front()) {
            (None, None) => return None,
            (Some(a), Some(b)) => a.ready.min(b.ready),
            (Some(a), None) | (None, Some(a)) => a.ready,
        };
        Some(ready.max(self.slot()))
    }

    /// When a place on the drive is free.
    fn slot(&self) -> Nanos {
        // What has completed by the last submission has been taken out then.
        let full = self.in_flight.len() >= self.layer.queue_depth.max(1) as usize;
        match self.in_flight.peek() {
            Some(Reverse(first)) if full => self.submitted.max(*first),
            _ => self.submitted,
        }
    }

    /// Forgets what has completed.
    fn retire(&mut self, at: Nanos) {
        while self.in_flight.peek().is_some_and(|Reverse(first)| *first <= at) {
            self.in_flight.pop();
        }
    }
}

impl<D: Device> Queue<D> {
    /// Sends the next request, at the instant that [`next_dispatch`](Self::next_dispatch) gave.
    pub fn dispatch(&mut self, at: Nanos) {
        let urgent = self.sync.front().is_some_and(|request| request.ready <= at);
        let Some(request) = (if urgent { self.sync.pop_front() } else { self.background.pop_front() }) else { return };
        let extent = Extent { offset: request.offset, len: request.len };
        let command = match request.kind {
            Kind::Read => Command::Read(extent),
            Kind::Write(class) => Command::Write(extent, class),
            Kind::Flush => Command::Flush,
        };
        let done = self.submit(at, &command);
        match request.kind {
            Kind::Read => {
                self.traffic.reads += Amount::new(1, request.len);
            }
            Kind::Write(_) => {
                self.traffic.writes += Amount::new(1, request.len);
                self.write_backlog -= request.len;
            }
            Kind::Flush => self.traffic.flushes += 1,
        }
        self.others_until = self.others_until.max(done);
        let took = done.saturating_sub(request.ready);
        if urgent {
            self.wait_max = Some(self.wait_max.map_or(took, |longest| longest.max(took)));
        }
        let pending = &mut self.tickets[request.ticket.0 as usize];
        pending.waiting -= 1;
        pending.done = pending.done.max(done);
        if pending.waiting == 0 && pending.forgotten {
            self.finish(request.ticket);
        }
    }

    /// Sends a TRIM past the queues, `now`: filesystems send one after another and wait for each. Gives when it will be done.
    pub fn trim(&mut self, now: Nanos, ranges: &[Extent]) -> Nanos {
        // A place on the drive has to be free for it, too.
        let at = now.max(self.slot());
        let command = Command::trim(ranges);
        self.before(at);
        let completion = self.drive.submit(at, &command);
        self.after(at, completion.done);
        if completion.result.is_ok() {
            self.traffic.discards += Amount::new(1, ranges.iter().map(|range| range.len).sum());
        } else {
            self.traffic.discards_refused += 1;
        }
        completion.done
    }

    fn submit(&mut self, at: Nanos, command: &Command<'_>) -> Nanos {
        self.before(at);
        let completion = self.drive.submit(at, command);
        if let Err(refusal) = completion.result {
            self.failed.get_or_insert(refusal);
        }
        self.after(at, completion.done);
        completion.done
    }

    /// Makes a place on the drive, and lets it have the time since it last had something to do.
    fn before(&mut self, at: Nanos) {
        self.retire(at);
        debug_assert!(at >= self.submitted, "commands are submitted in the order of time");
        if at > self.busy_until + IDLE_MIN {
            self.drive.idle(at);
        }
    }

    fn after(&mut self, at: Nanos, done: Nanos) {
        self.submitted = at;
        self.busy_until = self.busy_until.max(done);
        self.in_flight.push(Reverse(done));
    }

    /// Tells the drive that nothing comes before `until`.
    pub fn idle(&mut self, until: Nanos) {
        if until > self.busy_until + IDLE_MIN && self.queued() == 0 && until > self.submitted {
            self.drive.idle(until);
            self.submitted = until;
        }
    }

    /// What others than trims do to the drive at `now`.
    pub fn foreground(&mut self, now: Nanos) -> Foreground {
        let queued = self.queued() as u32;
        let busy = queued > 0 || self.others_until > now;
        Foreground {
            in_flight: if busy { queued.max(1) } else { 0 },
            idle_since: (!busy).then_some(self.others_until),
            wait_max: self.wait_max.take(),
        }
    }
}

fn same_kind(a: Kind, b: Kind) -> bool {
    match (a, b) {
        (Kind::Read, Kind::Read) => true,
        (Kind::Write(a), Kind::Write(b)) => a == b,
        _ => false,
    }
}
