//! Timing: busy-until times of dies, channels, the link and the command processor.
//!
//! All times are integer nanoseconds on the drive's clock. An operation starts when its
//! resources are free and takes the time given in the specification; nothing is simulated
//! in between. `docs/method/ssd.md` states each rule.

use super::lane::FlashLanes;
use crate::counters::with_permille;
use crate::spec::layout::SsdLayout;
use crate::spec::{DriveSpec, Flash};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Internal flash work: collection, folding, wear levelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlashWork {
    pub(super) rows_read: u64,
    pub(super) rows_programmed: u64,
    pub(super) erases: u64,
    /// Bytes that cross the channels; relocated data cross twice.
    pub(super) bytes_moved: u64,
    pub(super) from_slc: bool,
}

/// Current durations: the specification's values, lengthened while the drive is
/// throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Durations {
    pub(super) read: u64,
    pub(super) program: u64,
    pub(super) erase: u64,
    pub(super) slc_read: u64,
    pub(super) slc_program: u64,
    pub(super) row_transfer: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Clock {
    pub(super) dies: FlashLanes,
    pub(super) channels: FlashLanes,
    /// Start of time accounting for dies and channels.
    pub(super) counted_since: u64,
    die_channel: Vec<u32>,
    /// Link-free times for writes and reads; a half-duplex link uses only the first.
    pub(super) link_free: [u64; 2],
    pub(super) processor_free: u64,
    /// End of a non-queued TRIM; no command starts before it.
    pub(super) blocked_until: u64,
    /// Completion times of commands in flight, ascending. Completed commands are removed
    /// when the queue would be full.
    pub(super) in_flight: VecDeque<u64>,
    /// Time at which each write-cache row becomes free; [`FILLING`] while a frontier
    /// fills it.
    pub(super) rows: Vec<u64>,
    pub(super) row_addresses: Vec<u32>,
    pub(super) row_next: u32,
    /// Programs of host data since owed time was last divided among them.
    pub(super) programs: u64,
    /// End of all programs of host data so far.
    pub(super) programs_end: u64,
    /// Slots written for the host at the last flush.
    pub(super) flushed_slots: u64,
    /// Bytes that crossed the flash since the last temperature update.
    pub(super) heat_bytes: u64,
    pub(super) now: Durations,
    nominal: Durations,
    row_bytes: u64,
    row_programs: u64,
    superblock_dies: u64,
    channel_rate: u64,
    suspend: Option<u64>,
    suspend_step: u64,
    gc_step: u64,
    /// Lower bound on the start time of future reads.
    pub(super) reads_begin: u64,
    die_wait_permille: u32,
    link_rate: u64,
    engine_rate: u64,
    /// Cached receive time of one mapping unit, the most frequent size: (bytes,
    /// nanoseconds).
    unit_received: (u64, u64),
    reads_link: usize,
    queue_depth: usize,
    overhead: u64,
    write_overhead: u64,
    pub(super) latency: u64,
}

pub(super) const FILLING: u64 = u64::MAX;

/// Time in nanoseconds to transfer `bytes` at `rate` bytes per second, rounded to
/// nearest.
#[inline]
pub(super) const fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    if bytes < 1 << 34 {
        return (bytes * 1_000_000_000 + rate / 2) / rate;
    }
    let ns = bytes as u128 * 1_000_000_000 / rate as u128;
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

/// Time in ns to receive `bytes` over link and compression engine; rate 0 is no engine.
const fn received_ns(bytes: u64, link_rate: u64, engine_rate: u64) -> u64 {
    let link = transfer_ns(bytes, link_rate);
    let engine = if engine_rate == 0 { 0 } else { transfer_ns(bytes, engine_rate) };
    if engine > link { engine } else { link }
}

impl Clock {
    pub(super) fn new(spec: &DriveSpec, flash: &Flash, layout: &SsdLayout) -> Self {
        let (geometry, nand, slc) = (&flash.geometry, &flash.nand, flash.slc_cache.as_ref());
        let dies = geometry.dies() as usize;
        let row_bytes = u64::from(layout.row_slots) * layout.slot_bytes;
        let programs = u64::from(layout.row_programs);
        // Without a cache, each die still has a register from which it programs.
        let rows = if flash.write_cache.bytes == 0 {
            dies
        } else {
            (flash.write_cache.bytes / row_bytes).max(1) as usize
        };
        let (link_rate, unit) = (spec.interface.rate_bytes_per_s, layout.unit_bytes);
        let engine_rate =
            flash.compression.as_ref().map_or(0, |compression| compression.engine_bytes_per_s);
        let nominal = Durations {
            read: nand.read_ns.saturating_mul(programs),
            program: with_permille(
                nand.program_ns.saturating_mul(programs),
                flash.ftl.metadata_permille,
            ),
            erase: nand.erase_ns,
            slc_read: slc.map_or(nand.read_ns, |slc| slc.read_ns).saturating_mul(programs),
            slc_program: with_permille(
                slc.map_or(nand.program_ns, |slc| slc.program_ns).saturating_mul(programs),
                flash.ftl.metadata_permille,
            ),
            row_transfer: transfer_ns(row_bytes, nand.channel_bytes_per_s),
        };
        Self {
            dies: FlashLanes::new(dies),
            channels: FlashLanes::new(geometry.channels as usize),
            counted_since: 0,
            die_channel: (0..dies as u32).map(|die| die % geometry.channels).collect(),
            link_free: [0; 2],
            processor_free: 0,
            blocked_until: 0,
            in_flight: VecDeque::new(),
            rows: vec![0; rows],
            row_addresses: vec![0; rows],
            row_next: 0,
            programs: 0,
            programs_end: 0,
            flushed_slots: 0,
            heat_bytes: 0,
            now: nominal,
            nominal,
            row_bytes,
            row_programs: programs,
            superblock_dies: u64::from(geometry.superblock_dies),
            channel_rate: nand.channel_bytes_per_s,
            suspend: nand.suspend_ns,
            suspend_step: u64::from(nand.suspend_step_ns),
            gc_step: u64::from(flash.ftl.gc.step_ns),
            reads_begin: 0,
            die_wait_permille: flash.ftl.gc.die_wait_permille,
            link_rate,
            engine_rate,
            unit_received: (unit, received_ns(unit, link_rate, engine_rate)),
            reads_link: usize::from(spec.interface.full_duplex),
            queue_depth: spec.interface.queue_depth as usize,
            overhead: spec.interface.command_overhead_ns,
            write_overhead: spec.interface.overhead_of_writes_ns(),
            latency: spec.interface.latency_ns,
        }
    }

    /// Throttles flash to `permille` of its speed, and programs to `program_permille` of
    /// that.
    pub(super) fn throttle(&mut self, permille: u16, program_permille: u16) {
        let slow_by = |ns: u64, permille: u16| {
            u64::try_from(u128::from(ns) * 1000 / u128::from(permille)).unwrap_or(u64::MAX)
        };
        let slow = |ns| slow_by(ns, permille);
        let slow_program = |ns| slow_by(slow(ns), program_permille);
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

    /// Time at which a command submitted at `now` enters the queue.
    #[inline]
    pub(super) fn admit(&mut self, now: u64) -> u64 {
        match self.in_flight.back() {
            Some(latest) if *latest > now => {}
            _ => {
                self.in_flight.clear();
                return now.max(self.blocked_until);
            }
        }
        if self.in_flight.len() < self.queue_depth {
            return now.max(self.blocked_until);
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

    #[inline]
    pub(super) fn complete(&mut self, done: u64) {
        // Usually `done` is the latest.
        if self.in_flight.back().is_none_or(|latest| *latest <= done) {
            self.in_flight.push_back(done);
            return;
        }
        let before = self.in_flight.iter().rposition(|other| *other <= done);
        self.in_flight.insert(before.map_or(0, |before| before + 1), done);
    }

    pub(super) fn latest_completion(&self) -> u64 {
        self.in_flight.back().copied().unwrap_or(0)
    }

    /// Processes a command that entered the queue at `start`; returns the end of
    /// processing.
    #[inline]
    pub(super) fn process(&mut self, start: u64, write: bool) -> u64 {
        self.processor_free = start.max(self.processor_free).saturating_add(if write {
            self.write_overhead
        } else {
            self.overhead
        });
        self.processor_free
    }

    /// Receives `bytes` from the host; returns the arrival time.
    #[inline]
    pub(super) fn receive(&mut self, start: u64, bytes: u64) -> u64 {
        let took = if bytes == self.unit_received.0 {
            self.unit_received.1
        } else {
            received_ns(bytes, self.link_rate, self.engine_rate)
        };
        self.link_free[0] = start.max(self.link_free[0]).saturating_add(took);
        self.link_free[0]
    }

    /// Reserves the link for `bytes` to the host; returns the earliest arrival. Data that
    /// the flash delivers later arrive later.
    #[inline]
    pub(super) fn send(&mut self, start: u64, bytes: u64) -> u64 {
        let took = self.sending_ns(bytes);
        let link = &mut self.link_free[self.reads_link];
        *link = start.max(*link).saturating_add(took);
        *link
    }

    #[inline]
    pub(super) const fn sending_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.link_rate)
    }

    /// Takes the next write-cache row for data starting at physical `address`. Returns
    /// its index and the time at which it becomes free.
    #[inline(always)]
    pub(super) fn take_row(&mut self, address: u32) -> (u32, u64) {
        let row = self.row_next;
        self.row_addresses[row as usize] = address;
        self.row_next = if row as usize + 1 == self.rows.len() { 0 } else { row + 1 };
        (row, core::mem::replace(&mut self.rows[row as usize], FILLING))
    }

    /// Programs a whole row of host data that arrives at `ready` through the next
    /// write-cache row, which must not be filling. Returns the time at which that row
    /// became free and the end of the program. The caller must
    /// [count](Self::count_programs) the program.
    #[inline(always)]
    pub(super) fn program_whole(
        &mut self,
        address: u32,
        die: u32,
        ready: u64,
        slc: bool,
    ) -> (u64, u64) {
        let row = self.row_next as usize;
        self.row_next = if row + 1 == self.rows.len() { 0 } else { self.row_next + 1 };
        self.row_addresses[row] = address;
        let admit = self.rows[row];
        let end = self.program_on(die, ready.max(admit), slc);
        self.rows[row] = end.min(FILLING - 1);
        (admit, end)
    }

    #[inline(always)]
    pub(super) fn next_row_is_filling(&self) -> bool {
        self.rows[self.row_next as usize] == FILLING
    }

    /// True if a recent write-cache row starts at `address` and is still cached at `now`.
    pub(super) fn holds_row(&self, address: u32, now: u64, searched: usize) -> bool {
        let next = self.row_next as usize;
        let newer = next.saturating_sub(searched)..next;
        // The ring buffer wraps around.
        let older =
            self.rows.len() - (searched - newer.len()).min(self.rows.len() - next)..self.rows.len();
        let held = |range: core::ops::Range<usize>| {
            let addresses = &self.row_addresses[range.clone()];
            // `contains` compares many rows at a time and usually finds none.
            addresses.contains(&address)
                && addresses
                    .iter()
                    .zip(&self.rows[range])
                    .any(|(at, until)| *at == address && *until > now)
        };
        held(newer) || held(older)
    }

    pub(super) fn write_map_page(&mut self, die: u32, now: u64) {
        self.dies.each[die as usize].serve(now, self.now.program, 0, 0);
    }

    /// Programs a row of host data on `die`, after a share of the owed time. Returns the
    /// end.
    #[inline(always)]
    pub(super) fn program(&mut self, die: u32, ready: u64, slc: bool) -> u64 {
        let end = self.program_on(die, ready, slc);
        self.count_programs(1, end);
        end
    }

    /// Counts `programs` of host data, the last ending at `end`.
    #[inline(always)]
    pub(super) fn count_programs(&mut self, programs: u64, end: u64) {
        self.heat_bytes = self.heat_bytes.wrapping_add(programs.wrapping_mul(self.row_bytes));
        self.programs_end = self.programs_end.max(end);
        self.programs += programs;
    }

    #[inline(always)]
    fn program_on(&mut self, die: u32, ready: u64, slc: bool) -> u64 {
        let channel = &mut self.channels.each[self.die_channel[die as usize] as usize];
        let arrived = channel.serve(ready, self.now.row_transfer, self.channels.share, 0);
        let took = if slc { self.now.slc_program } else { self.now.program };
        self.dies.each[die as usize].serve(arrived, took, self.dies.share, self.gc_step)
    }

    /// Reads a row on `die`, starting at `ready` or later, and transfers `bytes` over the
    /// channel. Returns the time at which the data are in the controller.
    pub(super) fn read(&mut self, die: u32, ready: u64, bytes: u64, slc: bool) -> u64 {
        self.read_page(die, ready, bytes, slc, 0, 0)
    }

    /// Like [`read`](Self::read), with `page` ns more than the mean and `retried` ns of
    /// retries.
    pub(super) fn read_page(
        &mut self,
        die: u32,
        ready: u64,
        bytes: u64,
        slc: bool,
        page: i64,
        retried: u64,
    ) -> u64 {
        let took = if slc { self.now.slc_read } else { self.now.read }
            .saturating_add_signed(page)
            .saturating_add(retried);
        let sensed =
            self.dies.each[die as usize].read(ready, took, self.suspend, self.suspend_step);
        self.heat_bytes = self.heat_bytes.wrapping_add(bytes);
        // Writes use the channel in submission order; reads may overtake them.
        let channel = &mut self.channels.each[self.die_channel[die as usize] as usize];
        let took = transfer_ns(bytes, self.channel_rate);
        channel.read_when_ready(sensed, took, self.reads_begin)
    }

    /// Time of `work` in nanoseconds: (sum over dies, sum over channels).
    fn cost(&self, work: &FlashWork) -> (u64, u64) {
        let read = if work.from_slc { self.now.slc_read } else { self.now.read };
        let sum = |parts: [(u64, u64); 3]| {
            let sum: u128 =
                parts.into_iter().map(|(count, ns)| u128::from(count) * u128::from(ns)).sum();
            u64::try_from(sum).unwrap_or(u64::MAX)
        };
        let erases = work.erases * self.superblock_dies;
        let die = sum([
            (work.rows_read, read),
            (work.rows_programmed, self.now.program),
            (erases, self.now.erase),
        ]);
        let die = with_permille(die, self.die_wait_permille);
        (die, transfer_ns(work.bytes_moved, self.channel_rate))
    }

    /// Charges internal work from `at` on. Returns its time summed over dies.
    pub(super) fn charge(&mut self, at: u64, work: &FlashWork, waited_for: bool) -> u64 {
        let (die, channel) = self.cost(work);
        self.heat_bytes = self.heat_bytes.wrapping_add(work.bytes_moved);
        self.dies.charge(at, die, waited_for);
        self.channels.charge(at, channel, waited_for);
        die
    }

    /// Divides owed time among the next `programs` programs of host data.
    pub(super) fn spread(&mut self, programs: u64) {
        let done = core::mem::take(&mut self.programs);
        self.dies.spread(done, programs);
        self.channels.spread(done, programs);
    }

    /// Like [`spread`](Self::spread), after an idle period until `until`. Unfinished idle
    /// work is preempted: a program waits for the relocation of at most one row.
    pub(super) fn spread_after_idling(&mut self, until: u64, programs: u64) {
        let done = core::mem::take(&mut self.programs);
        self.dies.spread_after_idling(
            until,
            done,
            programs,
            self.now.read.saturating_add(self.now.program),
        );
        self.channels.spread_after_idling(
            until,
            done,
            programs,
            self.now.row_transfer.saturating_mul(2),
        );
    }

    /// Time at which dies and channels have finished all work, including owed time.
    pub(super) fn quiet_from(&self) -> u64 {
        self.dies.quiet_from().max(self.channels.quiet_from())
    }

    /// Mean remaining work after `now` per die or per channel, whichever is larger.
    pub(super) fn backlog(&self, now: u64) -> u64 {
        self.dies.backlog(now).max(self.channels.backlog(now))
    }

    /// Clears all operations in flight after a power cut at `now`.
    pub(super) fn restart(&mut self, now: u64, written_slots: u64) {
        self.dies.restart(now);
        self.channels.restart(now);
        self.counted_since = now;
        self.link_free = [now; 2];
        self.processor_free = now;
        self.blocked_until = now;
        self.in_flight.clear();
        self.rows.fill(0);
        self.programs_end = now;
        self.flushed_slots = written_slots;
    }

    pub(super) const fn row_programs(&self) -> u64 {
        self.row_programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_row_lookup_matches_linear_search() {
        let spec = crate::ssd::tests::small(|_, _| {});
        let flash = &spec.flash;
        let mut clock = Clock::new(&spec, flash, &SsdLayout::new(&spec, flash).unwrap());
        let rows = clock.rows.len();
        assert!(rows > 4);
        let mut found = 0;
        for step in 0..1000_u32 {
            let (row, _) = clock.take_row(step * 7 % 23);
            clock.rows[row as usize] = u64::from(step * 5 % 11);
            for (searched, now, address) in
                (0..=rows + 2).flat_map(|n| [(n, 3, step % 23), (n, 8, step * 3 % 23)])
            {
                let slowly = (1..=searched.min(rows)).any(|back| {
                    let at = (clock.row_next as usize + rows - back) % rows;
                    clock.row_addresses[at] == address && clock.rows[at] > now
                });
                assert_eq!(clock.holds_row(address, now, searched), slowly, "{step} {searched}");
                found += u32::from(slowly);
            }
        }
        assert!(found > 1000);
    }
}
