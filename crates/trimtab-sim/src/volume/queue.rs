//! The block layer: merges writes into requests with a plug, queues them by urgency, and
//! limits the number in flight on the drive.

use super::spec::BlockLayer;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent, Refusal};

/// Requests in a plug before it is flushed (`BLK_MAX_REQUEST_COUNT`).
const PLUG_REQUESTS: usize = 32;
/// A request of this size flushes the plug when another begins (`BLK_PLUG_FLUSH_SIZE`).
const PLUG_BYTES: u64 = 128 << 10;
/// Minimum idle time reported to the drive.
const IDLE_MIN: Nanos = Nanos::from_micros(50);

/// A group of requests to wait for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A caller is waiting: reads, journal, synced data.
    Sync,
    /// No caller is waiting: writeback.
    Async,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write(DataClass),
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    kind: RequestKind,
    offset: u64,
    len: u64,
    ready: Nanos,
    ticket: Ticket,
}

/// Traffic of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read requests.
    pub reads: Amount,
    /// Write requests.
    pub writes: Amount,
    /// Cache flushes.
    pub flushes: u64,
    /// Discard commands accepted by the drive.
    pub discards: Amount,
    /// Discard commands refused by the drive.
    pub discards_refused: u64,
}

impl Traffic {
    /// Requests excluding discards.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads.count + self.writes.count + self.flushes
    }
}

/// Activity on the drive excluding trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreground {
    /// Lower bound on the requests in flight or queued.
    pub in_flight: u32,
    /// Start of the current idle time.
    pub idle_since: Option<Nanos>,
    /// Longest duration of a synchronous request since the last call, from when it was
    /// ready.
    pub wait_max: Option<Nanos>,
}

/// Incomplete requests of a ticket.
#[derive(Clone, Copy, Debug, Default)]
struct TicketState {
    waiting: u32,
    done: Nanos,
    used: bool,
    /// No caller will wait for it.
    forgotten: bool,
}

/// The block layer above one drive.
#[derive(Clone, Debug)]
pub struct BlockQueue<D: ?Sized> {
    layer: BlockLayer,
    plug: Vec<(QueuedRequest, Urgency)>,
    sync: VecDeque<QueuedRequest>,
    background: VecDeque<QueuedRequest>,
    /// Completion times, ascending.
    in_flight: VecDeque<Nanos>,
    tickets: Vec<TicketState>,
    spare: Vec<u32>,
    /// Submission time of the last command.
    submitted: Nanos,
    /// Completion time of the last command.
    busy_until: Nanos,
    /// Completion time of the last command other than a trim.
    foreground_until: Nanos,
    /// Longest duration of a synchronous command since the last call.
    wait_max: Option<Nanos>,
    write_backlog: u64,
    /// Traffic so far.
    pub traffic: Traffic,
    /// First refusal of a command other than a TRIM.
    pub failed: Option<Refusal>,
    /// The drive.
    pub drive: D,
}

/// Inserts `value` into `sorted`; quick for values that are larger than most.
pub(super) fn insert_sorted<T: Ord>(sorted: &mut VecDeque<T>, value: T) {
    let at = sorted.iter().rposition(|other| *other <= value).map_or(0, |at| at + 1);
    sorted.insert(at, value);
}

impl<D> BlockQueue<D> {
    pub(super) fn new(drive: D, layer: BlockLayer) -> Self {
        Self {
            drive,
            layer,
            plug: Vec::with_capacity(PLUG_REQUESTS),
            sync: VecDeque::new(),
            background: VecDeque::new(),
            in_flight: VecDeque::new(),
            tickets: Vec::new(),
            spare: Vec::new(),
            submitted: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            foreground_until: Nanos::ZERO,
            wait_max: None,
            write_backlog: 0,
            traffic: Traffic::default(),
            failed: None,
        }
    }
}

impl<D: ?Sized> BlockQueue<D> {
    /// A ticket for requests to wait for. End it with [`finish`](Self::finish).
    pub fn ticket(&mut self) -> Ticket {
        let fresh = TicketState { used: true, ..TicketState::default() };
        if let Some(number) = self.spare.pop() {
            self.tickets[number as usize] = fresh;
            return Ticket(number);
        }
        self.tickets.push(fresh);
        Ticket(self.tickets.len() as u32 - 1)
    }

    /// Ends a completed ticket.
    pub fn finish(&mut self, ticket: Ticket) {
        let pending = &mut self.tickets[ticket.0 as usize];
        debug_assert!(pending.used && pending.waiting == 0);
        pending.used = false;
        self.spare.push(ticket.0);
    }

    /// Lets a ticket end by itself, without a waiting caller.
    pub fn forget(&mut self, ticket: Ticket) {
        self.unplug();
        self.tickets[ticket.0 as usize].forgotten = true;
        if self.tickets[ticket.0 as usize].waiting == 0 {
            self.finish(ticket);
        }
    }

    /// Completion time of all requests of a ticket; `None` while some are queued.
    pub fn done(&self, ticket: Ticket) -> Option<Nanos> {
        let pending = &self.tickets[ticket.0 as usize];
        (pending.waiting == 0).then_some(pending.done)
    }

    /// Queues a write. May merge with the previous one.
    pub fn write(
        &mut self,
        now: Nanos,
        offset: u64,
        len: u64,
        class: DataClass,
        ticket: Ticket,
        urgency: Urgency,
    ) {
        self.gather(
            QueuedRequest { kind: RequestKind::Write(class), offset, len, ready: now, ticket },
            urgency,
        );
    }

    pub fn read(&mut self, now: Nanos, offset: u64, len: u64, ticket: Ticket) {
        self.gather(
            QueuedRequest { kind: RequestKind::Read, offset, len, ready: now, ticket },
            Urgency::Sync,
        );
    }

    /// Queues a cache flush. The caller first waits for the writes that it should cover.
    pub fn flush(&mut self, now: Nanos, ticket: Ticket) {
        self.unplug();
        if self.layer.write_cache {
            self.tickets[ticket.0 as usize].waiting += 1;
            self.sync.push_back(QueuedRequest {
                kind: RequestKind::Flush,
                offset: 0,
                len: 0,
                ready: now,
                ticket,
            });
        } else {
            let done = &mut self.tickets[ticket.0 as usize].done;
            *done = (*done).max(now);
        }
    }

    /// Adds a request to the plug, split to the maximum request size.
    fn gather(&mut self, request: QueuedRequest, urgency: Urgency) {
        let most = u64::from(self.layer.request_max);
        let QueuedRequest { mut offset, mut len, .. } = request;
        while len > 0 {
            // Extend the last request as far as possible.
            if let Some((last, kind_of)) = self.plug.last_mut()
                && *kind_of == urgency
                && last.ticket == request.ticket
                && last.offset + last.len == offset
                && last.len < most
                && last.kind == request.kind
            {
                let n = len.min(most - last.len);
                last.len += n;
                offset += n;
                len -= n;
                continue;
            }
            if self.plug.len() >= PLUG_REQUESTS
                || self.plug.last().is_some_and(|(last, _)| last.len >= PLUG_BYTES)
            {
                self.unplug();
            }
            let n = len.min(most);
            self.plug.push((QueuedRequest { offset, len: n, ..request }, urgency));
            self.tickets[request.ticket.0 as usize].waiting += 1;
            offset += n;
            len -= n;
        }
    }

    pub fn unplug(&mut self) {
        for (request, urgency) in self.plug.drain(..) {
            if matches!(request.kind, RequestKind::Write(_)) {
                self.write_backlog += request.len;
            }
            match urgency {
                Urgency::Sync => self.sync.push_back(request),
                Urgency::Async => self.background.push_back(request),
            }
        }
    }

    pub fn queued(&self) -> usize {
        self.sync.len() + self.background.len()
    }

    /// True if a writer must wait before adding more.
    pub fn congested(&self) -> bool {
        self.queued() >= self.layer.queue_max as usize
    }

    pub const fn write_backlog(&self) -> u64 {
        self.write_backlog
    }

    /// Time of the next dispatch; `None` if nothing is queued.
    pub fn next_dispatch(&self) -> Option<Nanos> {
        let ready = match (self.sync.front(), self.background.front()) {
            (None, None) => return None,
            (Some(a), Some(b)) => a.ready.min(b.ready),
            (Some(a), None) | (None, Some(a)) => a.ready,
        };
        Some(ready.max(self.slot()))
    }

    /// Time at which the drive accepts another command.
    fn slot(&self) -> Nanos {
        // Entries completed by the last submission have been removed.
        let full = self.in_flight.len() >= self.layer.queue_depth.max(1) as usize;
        match self.in_flight.front() {
            Some(first) if full => self.submitted.max(*first),
            _ => self.submitted,
        }
    }

    fn retire(&mut self, at: Nanos) {
        while self.in_flight.front().is_some_and(|first| *first <= at) {
            self.in_flight.pop_front();
        }
    }
}

impl<D: Device + ?Sized> BlockQueue<D> {
    /// Sends the next request, at the time returned by
    /// [`next_dispatch`](Self::next_dispatch).
    pub fn dispatch(&mut self, at: Nanos) {
        let urgent = self.sync.front().is_some_and(|request| request.ready <= at);
        let Some(request) =
            (if urgent { self.sync.pop_front() } else { self.background.pop_front() })
        else {
            return;
        };
        let extent = Extent { offset: request.offset, len: request.len };
        let command = match request.kind {
            RequestKind::Read => Command::Read(extent),
            RequestKind::Write(class) => Command::Write(extent, class),
            RequestKind::Flush => Command::Flush,
        };
        let done = self.submit(at, &command);
        match request.kind {
            RequestKind::Read => {
                self.traffic.reads += Amount::new(1, request.len);
            }
            RequestKind::Write(_) => {
                self.traffic.writes += Amount::new(1, request.len);
                self.write_backlog -= request.len;
            }
            RequestKind::Flush => self.traffic.flushes += 1,
        }
        self.foreground_until = self.foreground_until.max(done);
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

    /// Sends a TRIM at `now`, bypassing the queues. Returns its completion time.
    pub fn trim(&mut self, now: Nanos, ranges: &[Extent]) -> Nanos {
        // It needs a free slot on the drive too.
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

    /// Frees a slot on the drive, and reports its idle time since the last command.
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
        insert_sorted(&mut self.in_flight, done);
    }

    /// Reports to the drive that it stays idle until `until`.
    pub fn idle(&mut self, until: Nanos) {
        if until > self.busy_until + IDLE_MIN && self.queued() == 0 && until > self.submitted {
            self.drive.idle(until);
            self.submitted = until;
        }
    }

    /// Activity on the drive excluding trims, at `now`.
    pub fn foreground(&mut self, now: Nanos) -> Foreground {
        let queued = self.queued() as u32;
        let busy = queued > 0 || self.foreground_until > now;
        Foreground {
            in_flight: if busy { queued.max(1) } else { 0 },
            idle_since: (!busy).then_some(self.foreground_until),
            wait_max: self.wait_max.take(),
        }
    }
}
