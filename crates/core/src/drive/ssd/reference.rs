//! A second SSD, slow and simple: explicit resources, a queue of events, naive tables. The model must give the same completions.
//!
//! It shares no code with the model. What goes where is decided when a command is submitted, as the specification of the model says, and written down as
//! jobs that wait for signals (data have arrived, a place is free, a row is programmed). Dies and channels then do their jobs one by one as time goes on;
//! nothing is worked out ahead. Collection is first in, first out. Left out: compression, hot and cold data, map memory, units written in part, wear limits,
//! heat, read-ahead, and reads beside programs that have not ended.

use crate::drive::spec::*;
use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Something that happens at some instant.
type Signal = usize;

/// What a die or a channel has to do, in order.
#[derive(Clone, Debug)]
enum Job {
    /// Data of the host: once all signals are there, and after a share of what is owed.
    Program { after: Vec<Signal>, took: u64, share: u64, done: Signal },
    /// A read: background work goes on for `wait` beside it.
    Read { after: Vec<Signal>, took: u64, wait: Option<u64>, done: Signal },
    /// Background work from a signal on.
    Owe { from: Signal, ns: u64 },
    /// Nothing else before all that is owed is done.
    Drain,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Nothing,
    Background,
    Job(Signal),
}

/// A die, or a channel.
#[derive(Clone, Debug)]
struct Server {
    jobs: VecDeque<Job>,
    doing: Doing,
    since: u64,
    until: u64,
    owed: u64,
    /// Worked off since the last job was done.
    worked_off: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Fire(Signal),
    Wake(usize),
}

/// Instants of signals, and the events to come.
#[derive(Default)]
struct Engine {
    now: u64,
    fired: Vec<Option<u64>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    servers: Vec<Server>,
    /// Signals that fire `delay` after the last of others.
    gates: Vec<(Vec<Signal>, u64, Signal)>,
}

impl Engine {
    fn signal(&mut self) -> Signal {
        self.fired.push(None);
        self.fired.len() - 1
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time.max(self.now), self.order, event)));
    }

    /// A signal `delay` after the last of `after`.
    fn gate(&mut self, after: Vec<Signal>, delay: u64) -> Signal {
        let signal = self.signal();
        self.gates.push((after, delay, signal));
        self.open_gates();
        signal
    }

    fn latest(&self, signals: &[Signal]) -> Option<u64> {
        signals.iter().map(|signal| self.fired[*signal]).try_fold(0, |latest, at| at.map(|at| at.max(latest)))
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

    /// Lets time pass until `until`, events at that instant included.
    fn run_to(&mut self, until: u64) {
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

    /// Lets time pass until `signal`.
    fn run_until(&mut self, signal: Signal) -> u64 {
        while self.fired[signal].is_none() {
            self.poll_all();
            let Some(Reverse((time, _, _))) = self.events.peek() else { panic!("nothing will ever fire {signal}") };
            let time = *time;
            self.run_to(time);
        }
        self.fired[signal].unwrap()
    }

    fn poll_all(&mut self) {
        (0..self.servers.len()).for_each(|server| self.poll(server));
    }

    /// Whether nothing is left to do.
    fn quiet(&self) -> bool {
        self.servers.iter().all(|server| server.jobs.is_empty() && server.owed == 0 && !matches!(server.doing, Doing::Job(_)))
    }

    /// A server takes note of the time that has passed, and goes on with what is next.
    fn poll(&mut self, at: usize) {
        let now = self.now;
        if let Doing::Job(done) = self.servers[at].doing {
            if now < self.servers[at].until {
                return;
            }
            self.servers[at].doing = Doing::Nothing;
            self.next_job(at);
            self.at(now, Event::Fire(done));
        }
        let server = &mut self.servers[at];
        if server.doing == Doing::Background {
            let worked = (now - server.since).min(server.owed);
            server.owed -= worked;
            server.worked_off += worked;
            server.doing = Doing::Nothing;
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
                Some(Job::Drain) => {
                    if self.servers[at].owed == 0 {
                        self.next_job(at);
                        continue;
                    }
                    u64::MAX
                }
                Some(Job::Program { after, took, share, done }) => {
                    let server = &mut self.servers[at];
                    // At least a small part of what is owed when its turn comes.
                    let demanded = ((server.owed + server.worked_off) >> 12).max(share);
                    let lacks = demanded.saturating_sub(server.worked_off).min(server.owed);
                    match self.latest(&after) {
                        Some(time) if time <= now && lacks == 0 => return self.start(at, took, done),
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
                (server.doing, server.since) = (Doing::Background, now);
                let wake = wake.min(now + server.owed);
                self.at(wake, Event::Wake(at));
            } else if wake != u64::MAX {
                self.at(wake, Event::Wake(at));
            }
            return;
        }
    }

    fn next_job(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.worked_off = 0;
        server.jobs.pop_front();
    }

    fn start(&mut self, at: usize, took: u64, done: Signal) {
        let server = &mut self.servers[at];
        (server.doing, server.until) = (Doing::Job(done), self.now + took);
        let until = server.until;
        self.at(until, Event::Wake(at));
    }
}

#[derive(Clone, Debug, Default)]
struct Superblock {
    /// The unit in each slot written, `None` for padding.
    slots: Vec<Option<u32>>,
    free: bool,
    slc: bool,
    erases: u32,
    released: u64,
}

/// A row that is being filled.
#[derive(Clone, Debug)]
struct Row {
    place: usize,
    /// Its data and its place are there.
    after: Vec<Signal>,
    /// Its place is there.
    placed: Vec<Signal>,
}

/// Where a stream writes.
#[derive(Clone, Debug, Default)]
struct Head {
    group: usize,
    open: Option<usize>,
    row: Option<Row>,
}

/// Debt of dies or of channels.
#[derive(Clone, Debug, Default)]
struct Debt {
    undivided: u64,
    uncovered: u64,
    share: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Write(u64, u64),
    Read(u64, u64),
    Trim(u64, u64),
    Flush,
}

pub(super) struct Reference {
    engine: Engine,
    interface: Interface,
    flash: Flash,
    dies: usize,
    group_dies: usize,
    groups: usize,
    unit: u64,
    units: u64,
    row_slots: usize,
    page_slots: usize,
    slots: usize,
    slc_slots: usize,
    superblocks: Vec<Superblock>,
    map: BTreeMap<u32, (usize, usize)>,
    heads: Vec<Head>,
    turn: [usize; 2],
    collecting: bool,
    fifo: VecDeque<usize>,
    slc_fifo: VecDeque<usize>,
    releases: u64,
    /// The end of the last program from each place of the write cache, and the head that fills it.
    places: Vec<(Option<Signal>, Option<usize>)>,
    next_place: usize,
    debts: [Debt; 2],
    programs: u64,
    rows_moved: u64,
    programmed: Vec<Signal>,
    to_flush: bool,
    completions: Vec<Signal>,
    last_started: Signal,
    link: [Signal; 2],
    last_trim: Signal,
    blocked: Signal,
}

fn ns(bytes: u64, rate: u64) -> u64 {
    ((u128::from(bytes) * 1_000_000_000 + u128::from(rate) / 2) / u128::from(rate)) as u64
}

impl Reference {
    pub(super) fn new(spec: &DriveSpec) -> Self {
        let flash = spec.flash().unwrap().clone();
        let geometry = &flash.geometry;
        let dies = geometry.dies() as usize;
        let group_dies = geometry.superblock_dies as usize;
        let groups = dies / group_dies;
        let unit = flash.ftl.mapping_unit_bytes;
        let row_slots = (geometry.page_bytes * u64::from(geometry.planes) / unit) as usize;
        let page_slots = ((geometry.page_bytes / unit) as usize).max(1);
        let rows = geometry.pages_per_block as usize * group_dies;
        let slc_rows = (geometry.pages_per_block / u32::from(geometry.bits_per_cell)) as usize * group_dies;
        let count = geometry.blocks_per_plane as usize * groups;
        let superblock = |nth| Superblock { free: true, released: nth, ..Superblock::default() };
        let streams = 1 + usize::from(flash.slc_cache.is_some());
        let mut heads: Vec<Head> = (0..streams).flat_map(|_| 0..groups).map(|group| Head { group, ..Head::default() }).collect();
        if flash.ftl.streams.separate_gc {
            heads.push(Head::default());
        }
        let row_bytes = geometry.page_bytes * u64::from(geometry.planes);
        let places = if flash.write_cache.bytes == 0 { dies } else { ((flash.write_cache.bytes / row_bytes) as usize).max(1) };
        let mut engine = Engine::default();
        let server = Server { jobs: VecDeque::new(), doing: Doing::Nothing, since: 0, until: 0, owed: 0, worked_off: 0 };
        engine.servers = vec![server; dies + geometry.channels as usize];
        let zero = engine.gate(Vec::new(), 0);
        engine.run_to(0);
        Self {
            interface: spec.interface.clone(),
            dies,
            group_dies,
            groups,
            unit,
            units: spec.capacity_bytes / unit,
            row_slots,
            page_slots: if row_slots.is_multiple_of(page_slots) { page_slots } else { row_slots },
            slots: rows * row_slots,
            slc_slots: slc_rows * row_slots,
            superblocks: (0..count as u64).map(superblock).collect(),
            map: BTreeMap::new(),
            heads,
            turn: [0; 2],
            collecting: false,
            fifo: VecDeque::new(),
            slc_fifo: VecDeque::new(),
            releases: count as u64,
            places: vec![(None, None); places],
            next_place: 0,
            debts: Default::default(),
            programs: 0,
            rows_moved: 0,
            programmed: vec![zero],
            to_flush: false,
            completions: Vec::new(),
            last_started: zero,
            link: [zero; 2],
            last_trim: zero,
            blocked: zero,
            engine,
            flash,
        }
    }

    // What goes where.

    fn capacity(&self, block: usize) -> usize {
        if self.superblocks[block].slc { self.slc_slots } else { self.slots }
    }

    fn valid(&self, block: usize) -> Vec<u32> {
        let held = |(slot, unit): (usize, &Option<u32>)| unit.filter(|unit| self.map.get(unit) == Some(&(block, slot)));
        self.superblocks[block].slots.iter().enumerate().filter_map(held).collect()
    }

    fn free(&self) -> usize {
        self.superblocks.iter().filter(|block| block.free).count()
    }

    fn slc_used(&self) -> usize {
        self.superblocks.iter().filter(|block| block.slc && !block.free).count()
    }

    fn slc_limit(&self) -> usize {
        let Some(slc) = &self.flash.slc_cache else { return 0 };
        let blocks = |bytes: u64| (bytes.div_ceil(self.slc_slots as u64 * self.unit) as usize).min(self.superblocks.len());
        match slc.size {
            SlcSize::Fixed { bytes } => blocks(bytes),
            SlcSize::Dynamic { bytes_min, bytes_max } => {
                let unmapped = (self.units as usize - self.map.len()) / self.slots;
                (blocks(bytes_min) + unmapped).min(blocks(bytes_max))
            }
        }
    }

    fn room(&self, head: usize) -> usize {
        self.heads[head].open.map_or(0, |block| self.capacity(block) - self.superblocks[block].slots.len())
    }

    fn host_heads(&self) -> usize {
        self.groups * (1 + usize::from(self.flash.slc_cache.is_some()))
    }

    fn host_head(&self) -> usize {
        if let Some(slc) = &self.flash.slc_cache {
            let head = self.groups + self.turn[1];
            let folds = slc.when_full == SlcFull::FoldFirst && !self.slc_fifo.is_empty();
            if self.room(head) > 0 || self.slc_used() < self.slc_limit() || folds {
                return head;
            }
        }
        self.turn[0]
    }

    /// Writes a unit whose data are there at `arrived`; its place is there after the signals given.
    fn place(&mut self, unit: u32, arrived: Signal) -> Vec<Signal> {
        let at = self.host_head();
        if self.room(at) == 0 {
            self.open(at, arrived);
        }
        if self.heads[at].row.is_none() {
            self.take_place(at, arrived);
        }
        let row = self.heads[at].row.as_mut().unwrap();
        row.after.push(arrived);
        let mut placed = row.placed.clone();
        placed.push(arrived);
        if self.push(at, Some(unit)) {
            self.program(at);
            if self.groups > 1 {
                let turn = &mut self.turn[at / self.groups];
                *turn = (*turn + 1) % self.groups;
            }
        }
        self.close_if_full(at);
        placed
    }

    /// Puts a unit in the next slot; whether that fills a row.
    fn push(&mut self, at: usize, unit: Option<u32>) -> bool {
        let block = self.heads[at].open.unwrap();
        if let Some(unit) = unit {
            self.map.insert(unit, (block, self.superblocks[block].slots.len()));
        }
        self.superblocks[block].slots.push(unit);
        self.superblocks[block].slots.len().is_multiple_of(self.row_slots)
    }

    fn close_if_full(&mut self, at: usize) -> bool {
        let full = self.room(at) == 0;
        if full {
            let block = self.heads[at].open.take().unwrap();
            if self.superblocks[block].slc { &mut self.slc_fifo } else { &mut self.fifo }.push_back(block);
        }
        full
    }

    fn take_place(&mut self, at: usize, now: Signal) {
        if let Some(other) = self.places[self.next_place].1 {
            self.write_out(other, now);
        }
        let place = self.next_place;
        self.next_place = (place + 1) % self.places.len();
        self.places[place].1 = Some(at);
        let placed: Vec<Signal> = self.places[place].0.into_iter().collect();
        self.heads[at].row = Some(Row { place, after: placed.clone(), placed });
    }

    /// Programs the row that a head has been filling, whose last slot was just written.
    fn program(&mut self, at: usize) {
        let block = self.heads[at].open.unwrap();
        let row = self.heads[at].row.take().unwrap();
        let nth = (self.superblocks[block].slots.len() - 1) / self.row_slots;
        let die = block % self.groups * self.group_dies + nth % self.group_dies;
        let channel = self.dies + die % self.flash.geometry.channels as usize;
        let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
        let took = slc.map_or(self.flash.nand.program_ns, |slc| slc.program_ns);
        let transfer = ns(self.row_slots as u64 * self.unit, self.flash.nand.channel_bytes_per_s);
        let (arrived, ended) = (self.engine.signal(), self.engine.signal());
        let job = |after, took, share, done| Job::Program { after, took, share, done };
        self.engine.servers[channel].jobs.push_back(job(row.after, transfer, self.debts[1].share, arrived));
        self.engine.servers[die].jobs.push_back(job(vec![arrived], took, self.debts[0].share, ended));
        self.places[row.place] = (Some(ended), None);
        self.programmed.push(ended);
        self.programs += 1;
    }

    /// Programs the row of a head as it is, padded to a page.
    fn write_out(&mut self, at: usize, now: Signal) {
        let Some(row) = &mut self.heads[at].row else { return };
        row.after.push(now);
        let block = self.heads[at].open.unwrap();
        while !self.superblocks[block].slots.len().is_multiple_of(self.page_slots) {
            self.push(at, None);
        }
        self.program(at);
        self.close_if_full(at);
    }

    fn write_out_all(&mut self, now: Signal) {
        (0..self.heads.len()).for_each(|at| self.write_out(at, now));
    }

    fn open(&mut self, at: usize, now: Signal) {
        if !self.collecting {
            self.make_room(at, now);
            if self.room(at) > 0 {
                return self.spread();
            }
        }
        let dynamic = self.flash.ftl.wear.dynamic;
        let free = |group: usize| -> Vec<usize> {
            (0..self.superblocks.len()).filter(|block| block % self.groups == group && self.superblocks[*block].free).collect()
        };
        let own = self.heads[at].group;
        let group = if at < self.host_heads() && !free(own).is_empty() {
            own
        } else {
            (0..self.groups).rev().max_by_key(|group| free(*group).len()).unwrap()
        };
        let wear = |block: &usize| (if dynamic { self.superblocks[*block].erases } else { 0 }, self.superblocks[*block].released);
        let block = free(group).into_iter().min_by_key(wear).unwrap();
        let slc = self.flash.slc_cache.is_some() && (self.groups..2 * self.groups).contains(&at);
        let entry = &mut self.superblocks[block];
        (entry.free, entry.slc) = (false, slc);
        self.heads[at].open = Some(block);
        if !self.collecting {
            self.spread();
        }
    }

    fn make_room(&mut self, at: usize, now: Signal) {
        while self.slc_used() > self.slc_limit() && self.fold(now, true) {}
        let gc = self.flash.ftl.gc.clone();
        if self.free() >= gc.free_low as usize {
            return;
        }
        for _ in 0..64 * self.superblocks.len() {
            if self.free() + usize::from(self.room(at) > 0) >= gc.free_high as usize || !(self.collect(now, true) || self.fold(now, true)) {
                break;
            }
        }
    }

    fn fold(&mut self, now: Signal, waited_for: bool) -> bool {
        let block = self.slc_fifo.pop_front();
        block.into_iter().for_each(|block| self.relocate(block, now, waited_for));
        block.is_some()
    }

    fn collect(&mut self, now: Signal, waited_for: bool) -> bool {
        let Some(block) = self.fifo.pop_front() else { return false };
        let written: usize = self.superblocks.iter().map(|block| block.slots.len()).sum();
        if written == self.map.len() {
            self.fifo.push_back(block);
            return false;
        }
        self.relocate(block, now, waited_for);
        true
    }

    fn relocate(&mut self, block: usize, now: Signal, waited_for: bool) {
        let was_collecting = core::mem::replace(&mut self.collecting, true);
        let valid = self.valid(block);
        for unit in &valid {
            let at = if self.heads.len() > self.host_heads() { self.host_heads() } else { self.turn[0] };
            if self.room(at) == 0 {
                self.open(at, now);
            }
            if self.push(at, Some(*unit)) {
                if let Some(row) = &mut self.heads[at].row {
                    row.after.push(now);
                    self.program(at);
                } else {
                    self.rows_moved += 1;
                }
            }
            if self.close_if_full(at) && at < self.groups {
                self.turn[0] = (self.turn[0] + 1) % self.groups;
            }
        }
        self.collecting = was_collecting;
        let nand = &self.flash.nand;
        let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
        let rows_read = (self.capacity(block) / self.row_slots).min(valid.len()) as u64;
        let dies = rows_read * slc.map_or(nand.read_ns, |slc| slc.read_ns)
            + core::mem::take(&mut self.rows_moved) * nand.program_ns
            + self.group_dies as u64 * nand.erase_ns;
        let channels = if nand.copyback { 0 } else { ns(2 * valid.len() as u64 * self.unit, nand.channel_bytes_per_s) };
        let entry = &mut self.superblocks[block];
        *entry = Superblock { free: true, erases: entry.erases + 1, released: self.releases, ..Superblock::default() };
        self.releases += 1;
        let burst = waited_for && self.flash.ftl.gc.pacing == GcPacing::Burst;
        let count = self.engine.servers.len();
        for (debt, servers, owed) in [(0, 0..self.dies, dies), (1, self.dies..count, channels)] {
            let debt = &mut self.debts[debt];
            debt.uncovered += owed;
            let all = owed + debt.undivided;
            debt.undivided = all % servers.len() as u64;
            let each = all / servers.len() as u64;
            for server in &mut self.engine.servers[servers] {
                server.jobs.push_back(Job::Owe { from: now, ns: each });
                if burst {
                    server.jobs.push_back(Job::Drain);
                }
            }
        }
    }

    fn spread(&mut self) {
        let rows = (0..self.host_heads()).map(|head| self.room(head)).sum::<usize>() / self.row_slots;
        for debt in &mut self.debts {
            debt.uncovered = debt.uncovered.saturating_sub(debt.share * self.programs);
            debt.share = debt.uncovered.div_ceil(rows.max(1) as u64);
        }
        self.programs = 0;
    }

    // Commands.

    /// Gives the command at `now`; gives the signal of its completion.
    pub(super) fn submit(&mut self, now: u64, ask: &Ask) -> Signal {
        self.pass(now, false);
        let submitted = self.engine.signal();
        self.engine.fired[submitted] = Some(now);
        let mut after = vec![submitted, self.blocked, self.last_started];
        // With so many before it, that many of them must have completed.
        if let Some(slot) = (self.completions.len() + 1).checked_sub(self.interface.queue_depth as usize + 1) {
            after.push(self.nth_completion(slot));
        }
        let overhead = match (ask, self.interface.write_overhead_ns) {
            (Ask::Write(..), Some(ns)) => ns,
            _ => self.interface.command_overhead_ns,
        };
        let started = self.engine.gate(after, overhead);
        self.last_started = started;
        let ended = match *ask {
            Ask::Write(offset, len) => self.write(started, offset, len),
            Ask::Read(offset, len) => self.read(started, offset, len),
            Ask::Trim(offset, len) => self.trim(started, offset, len),
            Ask::Flush => self.flush(started),
        };
        let completion = self.engine.gate(ended, self.interface.latency_ns);
        self.completions.push(completion);
        completion
    }

    /// The signal of the n-th completion, counted from 0.
    fn nth_completion(&mut self, nth: usize) -> Signal {
        // Commands end out of order; the next that ends is waited for here.
        let mut pending: Vec<Signal> = self.completions.clone();
        loop {
            let mut times: Vec<u64> = pending.iter().filter_map(|signal| self.engine.fired[*signal]).collect();
            times.sort_unstable();
            if let Some(time) = times.get(nth) {
                let signal = self.engine.signal();
                self.engine.fired[signal] = Some(*time);
                return signal;
            }
            let Some(Reverse((time, _, _))) = self.engine.events.peek() else { panic!("command {nth} never completes") };
            let time = *time;
            self.engine.run_to(time);
            pending.clone_from(&self.completions);
        }
    }

    fn write(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let (mut at, end) = (offset, offset + len);
        let (mut after, mut before) = (Vec::new(), started);
        self.to_flush = true;
        while at < end {
            let piece = (end - at).min((256 << 10) - at % (256 << 10));
            let arrived = self.engine.gate(vec![before, self.link[0]], ns(piece, self.interface.rate_bytes_per_s));
            (self.link[0], before) = (arrived, arrived);
            for unit in at / self.unit..(at + piece) / self.unit {
                let placed = self.place(unit as u32, arrived);
                after.extend(placed);
            }
            at += piece;
        }
        if self.flash.write_cache.bytes == 0 {
            let all = self.engine.gate(after.clone(), 0);
            self.write_out_all(all);
            after.extend(&self.programmed);
        }
        after
    }

    fn read(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let place = |unit: u64| self.map.get(&(unit as u32)).map(|(block, slot)| (*block, slot / self.row_slots));
        // Neighbours in a row are one read.
        let mut reads: Vec<(usize, usize, u64)> = Vec::new();
        let mut last = None;
        for unit in offset / self.unit..(offset + len) / self.unit {
            let place = place(unit);
            match (place, reads.last_mut()) {
                (Some(_), Some(read)) if place == last => read.2 += 1,
                (Some((block, row)), _) => reads.push((block, row, 1)),
                (None, _) => {}
            }
            last = place;
        }
        let mut there = vec![started];
        for (block, row, units) in reads {
            let filling = self.heads.iter().any(|head| {
                let next = self.superblocks[block].slots.len();
                head.row.is_some() && head.open == Some(block) && (row * self.row_slots + 1..=(row + 1) * self.row_slots).contains(&next)
            });
            if filling {
                continue;
            }
            let die = block % self.groups * self.group_dies + row % self.group_dies;
            let channel = self.dies + die % self.flash.geometry.channels as usize;
            let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
            let took = slc.map_or(self.flash.nand.read_ns, |slc| slc.read_ns);
            let (sensed, arrived) = (self.engine.signal(), self.engine.signal());
            let wait = self.flash.nand.suspend_ns;
            self.engine.servers[die].jobs.push_back(Job::Read { after: vec![started], took, wait, done: sensed });
            let transfer = ns(units * self.unit, self.flash.nand.channel_bytes_per_s);
            self.engine.servers[channel].jobs.push_back(Job::Read { after: vec![sensed], took: transfer, wait: Some(0), done: arrived });
            there.push(arrived);
        }
        let rate = self.interface.rate_bytes_per_s;
        let link = usize::from(self.interface.full_duplex);
        let sent = self.engine.gate(vec![started, self.link[link]], ns(len, rate));
        self.link[link] = sent;
        let tail = self.engine.gate(there, ns(len.min(self.row_slots as u64 * self.unit), rate));
        vec![sent, tail]
    }

    fn trim(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let trim = self.flash.trim.clone();
        let effective = (offset / self.unit..(offset + len) / self.unit).filter(|unit| self.map.remove(&(*unit as u32)).is_some()).count();
        let took = trim.command_ns + trim.range_ns + effective as u64 * trim.unit_ns;
        let mut after = vec![started];
        if trim.queued {
            after.push(self.last_trim);
        } else {
            after.extend(&self.completions);
        }
        let done = self.engine.gate(after, took);
        if trim.queued {
            self.last_trim = done
        } else {
            self.blocked = done
        };
        if trim.starts_gc {
            while self.free() < self.flash.ftl.gc.idle_free as usize && self.worth_collecting() && self.collect(done, true) {}
            self.spread();
        }
        vec![done]
    }

    fn flush(&mut self, started: Signal) -> Vec<Signal> {
        if self.flash.write_cache.power_loss_protection {
            return vec![started];
        }
        self.write_out_all(started);
        let mut after = self.programmed.clone();
        after.push(started);
        let took = if core::mem::take(&mut self.to_flush) { self.flash.write_cache.flush_ns } else { 0 };
        vec![self.engine.gate(after, took)]
    }

    fn worth_collecting(&self) -> bool {
        let most = self.slots as u64 * u64::from(self.flash.ftl.gc.idle_valid_max_permille) / 1000;
        self.fifo.front().is_some_and(|block| self.valid(*block).len() as u64 <= most)
    }

    /// Nothing comes until `until`.
    pub(super) fn pass(&mut self, until: u64, told: bool) {
        // When the last command completes, if that is before.
        loop {
            self.engine.poll_all();
            if self.completions.iter().all(|signal| self.engine.fired[*signal].is_some()) {
                break;
            }
            match self.engine.events.peek() {
                Some(Reverse((time, _, _))) if *time <= until => {
                    let time = *time;
                    self.engine.run_to(time);
                }
                _ => return self.engine.run_to(until),
            }
        }
        let quiet = self.completions.iter().filter_map(|signal| self.engine.fired[*signal]).max().unwrap_or(0);
        let slc = self.flash.slc_cache.as_ref().and_then(|slc| slc.idle_fold_ns);
        let (out, gc) = (self.flash.write_cache.idle_write_out_ns, self.flash.ftl.gc.idle_delay_ns);
        let first = [slc, out, gc].into_iter().flatten().min().unwrap_or(u64::MAX);
        if until > quiet && (told || until - quiet > first) {
            self.rest(quiet, until, out, slc, gc);
        }
        self.engine.run_to(until);
    }

    fn rest(&mut self, quiet: u64, until: u64, out: Option<u64>, slc: Option<u64>, gc: Option<u64>) {
        if let Some(delay) = out
            && quiet + delay <= until
            && self.heads.iter().any(|head| head.row.is_some())
        {
            self.engine.run_to(quiet + delay);
            let now = self.instant();
            self.engine.fired[now] = Some(quiet + delay);
            self.write_out_all(now);
        }
        let mut now = self.until_quiet(until).max(quiet);
        if let Some(delay) = slc
            && !self.slc_fifo.is_empty()
        {
            now = now.max(quiet + delay);
            while now < until && !self.slc_fifo.is_empty() {
                self.engine.run_to(now);
                let from = self.instant();
                self.fold(from, false);
                now = self.until_quiet(until);
            }
        }
        if let Some(delay) = gc {
            now = now.max(quiet + delay);
            while now < until && self.free() < self.flash.ftl.gc.idle_free as usize && self.worth_collecting() {
                self.engine.run_to(now);
                let from = self.instant();
                if !self.collect(from, false) {
                    break;
                }
                now = self.until_quiet(until);
            }
        }
        self.engine.run_to(until);
        if self.engine.quiet() {
            self.debts.iter_mut().for_each(|debt| debt.uncovered = 0);
        }
        self.spread();
    }

    /// A signal of this instant.
    fn instant(&mut self) -> Signal {
        let now = self.engine.signal();
        self.engine.fired[now] = Some(self.engine.now);
        now
    }

    /// When everything is done, or `until` if that is later.
    fn until_quiet(&mut self, until: u64) -> u64 {
        loop {
            self.engine.poll_all();
            if self.engine.quiet() {
                return self.engine.now;
            }
            match self.engine.events.peek() {
                Some(Reverse((time, _, _))) if *time <= until => {
                    let time = *time;
                    self.engine.run_to(time);
                }
                _ => return until,
            }
        }
    }

    /// When a command completes.
    pub(super) fn completion(&mut self, of: Signal) -> u64 {
        self.engine.run_until(of)
    }
}

mod against_the_model {
    use super::super::Ssd;
    use super::super::tests::small;
    use super::*;
    use crate::data::DataClass;
    use crate::drive::{Command, Device, Extent};
    use crate::rng::Stream;
    use crate::units::Nanos;
    use alloc::string::String;

    fn pick<T: Copy>(rng: &mut Stream, of: &[T]) -> T {
        of[rng.below(of.len() as u64) as usize]
    }

    /// Any small drive of what the reference knows.
    fn any_spec(rng: &mut Stream) -> DriveSpec {
        small(|spec, flash| {
            let (channels, dies_per_channel) = (pick(rng, &[1, 2, 3]), pick(rng, &[1, 2]));
            let dies = channels * dies_per_channel;
            let superblock_dies = if rng.chance(0.6) { dies } else { pick(rng, &[1, channels]) };
            let (page_bytes, unit) = pick(rng, &[(4096, 4096), (16384, 4096), (16384, 16384), (8192, 4096)]);
            flash.geometry = Geometry {
                channels,
                dies_per_channel,
                planes: pick(rng, &[1, 2]),
                page_bytes,
                pages_per_block: rng.between(4, 10) as u32,
                blocks_per_plane: 1,
                superblock_dies,
                bits_per_cell: rng.between(2, 4) as u8,
            };
            flash.ftl.mapping_unit_bytes = unit;
            flash.ftl.victim = VictimPolicy::Fifo;
            // Relocated data that share superblocks with fresh ones on several groups of dies are left out, see docs/method.md.
            flash.ftl.streams.separate_gc = superblock_dies != dies || rng.chance(0.6);
            flash.ftl.wear.dynamic = rng.chance(0.5);
            let free_low = rng.between(2, 3) as u32;
            flash.ftl.gc = GarbageCollection {
                free_low,
                free_high: free_low + rng.below(3) as u32,
                pacing: if rng.chance(0.7) { GcPacing::Smooth } else { GcPacing::Burst },
                idle_delay_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
                idle_free: rng.between(2, 8) as u32,
                idle_valid_max_permille: rng.between(300, 1000) as u16,
            };
            flash.nand = NandTiming {
                read_ns: rng.between(10_000, 100_000),
                program_ns: rng.between(100_000, 2_000_000),
                erase_ns: rng.between(100_000, 5_000_000),
                channel_bytes_per_s: rng.between(20_000_000, 1_000_000_000),
                suspend_ns: rng.chance(0.5).then(|| rng.between(1_000, 100_000)),
                copyback: rng.chance(0.2),
                read_ahead_bytes: 0,
                ..NandTiming::default()
            };
            let row = page_bytes * u64::from(flash.geometry.planes);
            flash.write_cache = WriteCache {
                bytes: if rng.chance(0.1) { 0 } else { (row * rng.between(1, 12)).max(unit) },
                power_loss_protection: rng.chance(0.2),
                flush: FlushBehaviour::WriteOut,
                flush_ns: rng.below(200_000),
                idle_write_out_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
            };
            flash.trim = Trim {
                queued: rng.chance(0.5),
                command_ns: rng.below(1_000_000),
                range_ns: rng.below(100_000),
                unit_ns: rng.below(1_000),
                gb_ns: 0,
                starts_gc: rng.chance(0.2),
                ..Trim::default()
            };
            spec.interface = Interface {
                rate_bytes_per_s: rng.between(50_000_000, 3_000_000_000),
                full_duplex: rng.chance(0.5),
                queue_depth: pick(rng, &[1, 2, 3, 32]),
                command_overhead_ns: rng.below(20_000),
                write_overhead_ns: rng.chance(0.3).then(|| rng.below(40_000)),
                latency_ns: rng.below(50_000),
            };
            let superblock = flash.geometry.superblock_bytes() as u64;
            spec.capacity_bytes = superblock * rng.between(6, 14) + unit * rng.below(5);
            if rng.chance(0.6) {
                let size = if rng.chance(0.5) {
                    SlcSize::Fixed { bytes: superblock * rng.between(1, 3) / 2 }
                } else {
                    SlcSize::Dynamic { bytes_min: superblock / 4, bytes_max: superblock * rng.between(1, 4) }
                };
                flash.slc_cache = Some(SlcCache {
                    size,
                    program_ns: rng.between(50_000, 500_000),
                    read_ns: rng.between(5_000, 50_000),
                    when_full: pick(rng, &[SlcFull::WriteDirect, SlcFull::FoldFirst]),
                    idle_fold_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
                });
            }
            let slack = rng.below(4) as u32;
            let fits = |blocks| {
                let mut flash = flash.clone();
                flash.geometry.blocks_per_plane = blocks;
                DriveSpec { medium: Medium::Flash(flash), ..spec.clone() }.validate().is_ok()
            };
            flash.geometry.blocks_per_plane = (1..400).find(|blocks| fits(*blocks)).unwrap() + slack;
        })
    }

    fn any_ask(rng: &mut Stream, unit: u64, units: u64) -> Ask {
        let most = pick(rng, &[1, 2, 8, 24, 90]).min(units);
        let len = rng.between(1, most);
        let at = rng.below(units - len + 1);
        match rng.below(100) {
            0..78 => Ask::Write(at * unit, len * unit),
            78..86 => Ask::Read(at * unit, len * unit),
            86..93 => Ask::Trim(at * unit, len * unit),
            _ => Ask::Flush,
        }
    }

    /// Runs one case; says what differs.
    fn differs(seed: u64) -> Option<String> {
        let mut rng = Stream::new(seed, "reference");
        let spec = any_spec(&mut rng);
        let (unit, depth) = (spec.flash().unwrap().ftl.mapping_unit_bytes, rng.between(1, 5) as usize);
        let mut model = Ssd::new(&spec, 1).unwrap();
        let mut reference = Reference::new(&spec);
        let mut window: VecDeque<u64> = VecDeque::new();
        let mut asked = Vec::new();
        let mut now = 0;
        for nth in 0..rng.between(20, 120) {
            if rng.chance(0.08) {
                now = window.iter().copied().fold(now, u64::max) + pick(&mut rng, &[10_000, 3_000_000, 30_000_000, 300_000_000]);
                let told = rng.chance(0.5);
                if told {
                    model.idle(Nanos(now));
                    reference.pass(now, true);
                }
            }
            let ask = any_ask(&mut rng, unit, spec.capacity_bytes / unit);
            if window.len() >= depth {
                now = now.max(window.pop_front().unwrap());
            }
            if matches!(ask, Ask::Read(..)) {
                // Programs are promised, and so are bursts; a read beside them would break the promise here, and not in the model.
                now = window.iter().copied().fold(now, u64::max);
                loop {
                    model.idle(Nanos(now));
                    reference.pass(now, true);
                    let promised = model.clock.dies.each.iter().chain(&model.clock.channels.each).map(|lane| lane.free).max().unwrap();
                    if promised <= now {
                        break;
                    }
                    now = promised;
                }
            }
            let extent = |offset, len| Extent { offset, len };
            let done = match ask {
                Ask::Write(offset, len) => model.submit(Nanos(now), &Command::Write(extent(offset, len), DataClass::Random)),
                Ask::Read(offset, len) => model.submit(Nanos(now), &Command::Read(extent(offset, len))),
                Ask::Trim(offset, len) => model.submit(Nanos(now), &Command::Trim(&[extent(offset, len)])),
                Ask::Flush => model.submit(Nanos(now), &Command::Flush),
            };
            let signal = reference.submit(now, &ask);
            window.push_back(done.done.0);
            asked.push((nth, now, ask, done.done.0, signal));
        }
        if let Err(broken) = model.check_invariants() {
            return Some(broken);
        }
        for (nth, at, ask, done, signal) in asked {
            let expected = reference.completion(signal);
            if expected != done {
                return Some(std::format!(
                    "seed {seed}: {ask:?}, the {nth}th, given at {at}, is done at {done}, by the reference at {expected}: {spec:#?}"
                ));
            }
        }
        None
    }

    fn compare(cases: core::ops::Range<u64>) {
        let total = cases.end - cases.start;
        let wrong: Vec<(u64, String)> = cases.filter_map(|seed| differs(seed).map(|said| (seed, said))).collect();
        let seeds: Vec<u64> = wrong.iter().map(|(seed, _)| *seed).take(30).collect();
        assert!(wrong.is_empty(), "{} of {total} differ: {seeds:?}\n{}", wrong.len(), wrong[0].1);
    }

    /// A thousand cases, or as many as `TRIMTAB_REFERENCE_CASES` says.
    #[test]
    fn completions_are_those_of_the_reference() {
        let cases =
            std::env::var("TRIMTAB_REFERENCE_CASES").map_or(1000, |cases| cases.parse().expect("TRIMTAB_REFERENCE_CASES is a number"));
        compare(0..cases);
    }
}
