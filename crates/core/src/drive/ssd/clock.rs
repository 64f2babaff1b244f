//! Time: how long dies, channels, the link and the command processor are taken, by "busy until" counters.
//!
//! Everything is integer nanoseconds on the drive's clock. An operation starts when what it needs is free and takes what the
//! specification says; nothing is simulated in between. `docs/method.md` states each rule.

use crate::drive::layout::Layout;
use crate::drive::spec::{DriveSpec, Flash, GcPacing};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Flash work that is not a host's own command: collection, folding, levelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Rows read.
    pub(super) rows_read: u64,
    /// Rows programmed.
    pub(super) rows_programmed: u64,
    /// Superblocks erased.
    pub(super) erases: u64,
    /// Bytes that cross the channels twice (read and written).
    pub(super) bytes: u64,
    /// The rows read lie in one-bit superblocks.
    pub(super) from_slc: bool,
}

/// Work of the flash that host writes pay off bit by bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Debt {
    /// Time owed, summed over dies.
    pub(super) die_ns: u64,
    /// Of it, what each program of host data pays.
    pub(super) die_pay_ns: u64,
    /// Time owed, summed over channels.
    pub(super) channel_ns: u64,
    /// Of it, what each program of host data pays.
    pub(super) channel_pay_ns: u64,
}

/// Durations of the moment: the specification's, lengthened while the drive is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Durations {
    pub(super) read: u64,
    pub(super) program: u64,
    pub(super) erase: u64,
    pub(super) slc_read: u64,
    pub(super) slc_program: u64,
    pub(super) row_transfer: u64,
}

/// The clock of a drive.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    pub(super) die_free: Vec<u64>,
    pub(super) die_read_free: Vec<u64>,
    pub(super) channel_free: Vec<u64>,
    die_channel: Vec<u32>,
    /// One for writes and one for reads; on a half-duplex link only the first is used.
    pub(super) link_free: [u64; 2],
    pub(super) processor_free: u64,
    /// Nothing starts before this: a TRIM that is not queued is under way.
    pub(super) blocked_until: u64,
    /// Completions of commands in flight, ascending.
    pub(super) in_flight: VecDeque<u64>,
    pub(super) debt: Debt,
    /// When each row of the write cache is free again.
    pub(super) rows: Vec<u64>,
    /// Physical address at which each of them begins.
    pub(super) row_addresses: Vec<u32>,
    pub(super) row_next: u32,
    /// When all programs of host data so far have ended.
    pub(super) programs_end: u64,
    /// That instant at the last flush.
    pub(super) flushed: u64,
    /// Bytes that crossed the flash since the temperature was last worked out.
    pub(super) heat_bytes: u64,
    pub(super) now: Durations,
    nominal: Durations,
    row_bytes: u64,
    row_programs: u64,
    superblock_dies: u64,
    channel_rate: u64,
    suspend: Option<u64>,
    copyback: bool,
    burst: bool,
    link_rate: u64,
    engine_rate: u64,
    reads_link: usize,
    queue_depth: usize,
    overhead: u64,
    pub(super) latency: u64,
}

/// Nanoseconds for `bytes` at `rate` bytes per second, rounded to nearest.
#[inline]
pub(super) const fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    if bytes < 1 << 34 { (bytes * 1_000_000_000 + rate / 2) / rate } else { (bytes as u128 * 1_000_000_000 / rate as u128) as u64 }
}

impl Clock {
    pub(super) fn new(spec: &DriveSpec, flash: &Flash, layout: &Layout) -> Self {
        let (geometry, nand, slc) = (&flash.geometry, &flash.nand, flash.slc_cache.as_ref());
        let dies = geometry.dies() as usize;
        let row_bytes = u64::from(layout.row_slots) * layout.slot_bytes;
        let programs = u64::from(layout.row_programs);
        let rows = (flash.write_cache.bytes / row_bytes).max(1) as usize;
        let nominal = Durations {
            read: nand.read_ns * programs,
            program: nand.program_ns * programs,
            erase: nand.erase_ns,
            slc_read: slc.map_or(nand.read_ns, |slc| slc.read_ns) * programs,
            slc_program: slc.map_or(nand.program_ns, |slc| slc.program_ns) * programs,
            row_transfer: transfer_ns(row_bytes, nand.channel_bytes_per_s),
        };
        Self {
            die_free: vec![0; dies],
            die_read_free: vec![0; dies],
            channel_free: vec![0; geometry.channels as usize],
            die_channel: (0..dies as u32).map(|die| die % geometry.channels).collect(),
            link_free: [0; 2],
            processor_free: 0,
            blocked_until: 0,
            in_flight: VecDeque::new(),
            debt: Debt::default(),
            rows: vec![0; rows],
            row_addresses: vec![0; rows],
            row_next: 0,
            programs_end: 0,
            flushed: 0,
            heat_bytes: 0,
            now: nominal,
            nominal,
            row_bytes,
            row_programs: programs,
            superblock_dies: u64::from(geometry.superblock_dies),
            channel_rate: nand.channel_bytes_per_s,
            suspend: nand.suspend_ns,
            copyback: nand.copyback,
            burst: flash.ftl.gc.pacing == GcPacing::Burst,
            link_rate: spec.interface.rate_bytes_per_s,
            engine_rate: flash.compression.as_ref().map_or(0, |compression| compression.engine_bytes_per_s),
            reads_link: usize::from(spec.interface.full_duplex),
            queue_depth: spec.interface.queue_depth as usize,
            overhead: spec.interface.command_overhead_ns,
            latency: spec.interface.latency_ns,
        }
    }

    /// Slows everything in the flash to `permille` of its speed, and programming to `program_permille` of that.
    pub(super) fn throttle(&mut self, permille: u16, program_permille: u16) {
        let slow = |ns: u64| ns * 1000 / u64::from(permille);
        let slow_program = |ns: u64| slow(ns) * 1000 / u64::from(program_permille);
        let nominal = self.nominal;
        self.now = Durations {
            read: slow(nominal.read),
            program: slow_program(nominal.program),
            erase: slow(nominal.erase),
            slc_read: slow(nominal.slc_read),
            slc_program: slow_program(nominal.slc_program),
            row_transfer: slow(nominal.row_transfer),
        };
    }

    /// When a command submitted at `now` gets a place in the queue.
    #[inline]
    pub(super) fn admit(&mut self, now: u64) -> u64 {
        match self.in_flight.back() {
            Some(latest) if *latest > now => {}
            _ => {
                self.in_flight.clear();
                return now.max(self.blocked_until);
            }
        }
        while self.in_flight.front().is_some_and(|done| *done <= now) {
            self.in_flight.pop_front();
        }
        let mut start = now;
        while self.in_flight.len() >= self.queue_depth {
            start = self.in_flight.pop_front().map_or(now, |done| done.max(now));
        }
        start.max(self.blocked_until)
    }

    /// Notes when a command completes.
    #[inline]
    pub(super) fn complete(&mut self, done: u64) {
        // Nearly always the latest.
        let mut at = self.in_flight.len();
        while at > 0 && self.in_flight[at - 1] > done {
            at -= 1;
        }
        if at == self.in_flight.len() {
            self.in_flight.push_back(done);
        } else {
            self.in_flight.insert(at, done);
        }
    }

    /// When all commands in flight have completed.
    pub(super) fn latest_completion(&self) -> u64 {
        self.in_flight.back().copied().unwrap_or(0)
    }

    /// The command processor takes up a command that has its place at `start`; gives when it is done with it.
    #[inline]
    pub(super) fn process(&mut self, start: u64) -> u64 {
        self.processor_free = start.max(self.processor_free) + self.overhead;
        self.processor_free
    }

    /// When `bytes` from the host are in the drive, from `start` on.
    #[inline]
    pub(super) fn receive(&mut self, start: u64, bytes: u64) -> u64 {
        let mut took = transfer_ns(bytes, self.link_rate);
        if self.engine_rate != 0 {
            took = took.max(transfer_ns(bytes, self.engine_rate));
        }
        self.link_free[0] = start.max(self.link_free[0]) + took;
        self.link_free[0]
    }

    /// When `bytes` have reached the host: the link is taken from `start` on, and the last of the data, `tail` bytes, is there at `ready`.
    #[inline]
    pub(super) fn send(&mut self, start: u64, ready: u64, bytes: u64, tail: u64) -> u64 {
        let link = &mut self.link_free[self.reads_link];
        *link = start.max(*link) + transfer_ns(bytes, self.link_rate);
        (*link).max(ready + transfer_ns(tail, self.link_rate))
    }

    /// Takes the next row of the write cache for data from physical `address` on; gives its index and when it is free.
    #[inline(always)]
    pub(super) fn take_row(&mut self, address: u32) -> (u32, u64) {
        let row = self.row_next;
        self.row_addresses[row as usize] = address;
        self.row_next = if row as usize + 1 == self.rows.len() { 0 } else { row + 1 };
        (row, core::mem::replace(&mut self.rows[row as usize], 0))
    }

    /// Whether one of the last `searched` rows taken begins at `address` or in the row that does, and is still there at `now`.
    pub(super) fn holds_row(&self, address: u32, now: u64, searched: usize) -> bool {
        let rows = self.rows.len();
        (1..=searched.min(rows)).any(|back| {
            let at = (self.row_next as usize + rows - back) % rows;
            self.row_addresses[at] == address && self.rows[at] > now
        })
    }

    /// Reads nothing and writes a page of the mapping on `die`; nobody waits for it.
    pub(super) fn write_map_page(&mut self, die: u32, now: u64) {
        let free = &mut self.die_free[die as usize];
        *free = now.max(*free) + self.now.program;
    }

    /// Programs a row of host data on `die` that is complete at `ready`, and with it pays off debt. Gives the end.
    #[inline(always)]
    pub(super) fn program(&mut self, die: u32, ready: u64, slc: bool) -> u64 {
        let channel = &mut self.channel_free[self.die_channel[die as usize] as usize];
        let mut transfer_start = ready.max(*channel);
        let die_free = &mut self.die_free[die as usize];
        let debt = &mut self.debt;
        let mut owed = 0;
        if debt.die_ns != 0 {
            // Work that the idle time before this program had room for delays nobody.
            let channel_owed = debt.channel_pay_ns.min(debt.channel_ns);
            debt.channel_ns -= channel_owed;
            transfer_start += channel_owed.saturating_sub(transfer_start - *channel);
            owed = debt.die_pay_ns.min(debt.die_ns);
            debt.die_ns -= owed;
        }
        let arrived = transfer_start + self.now.row_transfer;
        *channel = arrived;
        let busy_until = *die_free + owed;
        let end = arrived.max(busy_until) + if slc { self.now.slc_program } else { self.now.program };
        *die_free = end;
        self.heat_bytes = self.heat_bytes.wrapping_add(self.row_bytes);
        self.programs_end = self.programs_end.max(end);
        end
    }

    /// Reads a row on `die` of which `bytes` cross the channel; not before `ready`. Gives when they are in the controller.
    pub(super) fn read(&mut self, die: u32, ready: u64, bytes: u64, slc: bool) -> u64 {
        let took = if slc { self.now.slc_read } else { self.now.read };
        let free = &mut self.die_free[die as usize];
        let read_free = &mut self.die_read_free[die as usize];
        let start = match self.suspend {
            _ if *free <= ready => ready,
            None => *free,
            Some(suspend) => (ready + suspend).max(*read_free).min(*free),
        };
        *free = (*free).max(start) + took;
        *read_free = start + took;
        let channel = &mut self.channel_free[self.die_channel[die as usize] as usize];
        // A read under way takes the channel in turn, but does not wait for writes that are queued for later.
        let transfer = transfer_ns(bytes, self.channel_rate);
        let arrived = if *channel <= start + took { start + took + transfer } else { *channel + transfer };
        *channel = (*channel).max(start + took) + transfer;
        self.heat_bytes = self.heat_bytes.wrapping_add(bytes);
        arrived
    }

    /// Time of `work` summed over dies, and summed over channels.
    pub(super) fn cost(&self, work: &Work) -> (u64, u64) {
        let read = if work.from_slc { self.now.slc_read } else { self.now.read };
        let die = work.rows_read * read + work.rows_programmed * self.now.program + work.erases * self.superblock_dies * self.now.erase;
        let channel = if self.copyback { 0 } else { transfer_ns(2 * work.bytes, self.channel_rate) };
        (die, channel)
    }

    /// Charges foreground work done at `now`, which makes room for `gain_rows` rows of host data.
    pub(super) fn charge(&mut self, now: u64, work: &Work, gain_rows: u64) -> u64 {
        let (die, channel) = self.cost(work);
        self.heat_bytes = self.heat_bytes.wrapping_add(2 * work.bytes);
        if self.burst {
            self.occupy(now, die, channel);
        } else {
            let debt = &mut self.debt;
            debt.die_ns += die;
            debt.channel_ns += channel;
            let programs = gain_rows.max(1);
            debt.die_pay_ns = debt.die_ns.div_ceil(programs);
            debt.channel_pay_ns = debt.channel_ns.div_ceil(programs);
        }
        die
    }

    /// Takes all dies and channels from `now` on for work of these sums, spread evenly. Gives when the last is done.
    pub(super) fn occupy(&mut self, now: u64, die_ns: u64, channel_ns: u64) -> u64 {
        let die_share = die_ns / self.die_free.len() as u64;
        let channel_share = channel_ns / self.channel_free.len() as u64;
        let mut end = now;
        for free in &mut self.die_free {
            *free = now.max(*free) + die_share.max(channel_share);
            end = end.max(*free);
        }
        for free in &mut self.channel_free {
            *free = now.max(*free) + channel_share;
        }
        end
    }

    /// Pays off debt in idle time from `from` until `until`. Gives when that is done.
    pub(super) fn pay_debt(&mut self, from: u64, until: u64) -> u64 {
        let dies = self.die_free.len() as u64;
        let start = self.die_free.iter().copied().max().unwrap_or(0).max(from);
        if start >= until || self.debt.die_ns == 0 {
            return start;
        }
        let wanted = self.debt.die_ns.div_ceil(dies);
        let paid = wanted.min(until - start);
        let channel = self.debt.channel_ns * paid / wanted.max(1);
        self.debt.channel_ns -= channel;
        self.debt.die_ns = self.debt.die_ns.saturating_sub(paid * dies);
        for free in &mut self.die_free {
            *free = (*free).max(start + paid);
        }
        start + paid
    }

    /// Nothing is under way any more: the power was cut at `now`.
    pub(super) fn restart(&mut self, now: u64) {
        for free in self.die_free.iter_mut().chain(&mut self.die_read_free).chain(&mut self.channel_free) {
            *free = now;
        }
        self.link_free = [now; 2];
        self.processor_free = now;
        self.blocked_until = now;
        self.in_flight.clear();
        self.rows.fill(0);
        self.programs_end = now;
        self.flushed = now;
    }

    pub(super) const fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    pub(super) const fn row_programs(&self) -> u64 {
        self.row_programs
    }
}
