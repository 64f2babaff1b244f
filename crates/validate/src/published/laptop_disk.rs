//! The laptop disk of a published comparison: seek curve, rotational position, zones, write
//! cache with elevator destaging, read-ahead.
//!
//! Seek time grows with the square root of short distances and linearly with long ones
//! (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 1994).
//! The platter angle is a function of time, so rotational latency is exact and needs no
//! random draw.

use std::collections::BTreeMap;
use trimtab_drive::model::Model;
use trimtab_drive::spec::Interface;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device, Extent, Refusal};

/// Name of the drive in the published data.
pub const NAME: &str = "laptop-7200rpm";

/// A hard disk.
#[derive(Clone, Debug)]
struct Disk {
    /// Capacity in bytes: 976,773,168 sectors, published for disks sold as 500 GB
    /// (IDEMA LBA1-03).
    capacity_bytes: u64,
    logical_block_bytes: u32,
    /// Assumed: SATA 3 Gbit/s; overheads typical of the class.
    interface: Interface,
    /// Revolutions per minute, published.
    rpm: u32,
    /// Track-to-track, average (over a third of the stroke) and full-stroke seek time in
    /// nanoseconds, assumed from data sheets of the class.
    seek_track_ns: u64,
    seek_average_ns: u64,
    seek_full_ns: u64,
    /// Recording zones from the outermost in: share of the capacity in per mille, rate in
    /// bytes per second. Assumed from reviews of the class.
    zones: Vec<(u16, u64)>,
    /// Buffer in bytes for writes and read-ahead, assumed.
    cache_bytes: u64,
    /// True if a write completes when it reaches the buffer, assumed as delivered.
    write_cache: bool,
    /// Read-ahead in bytes after each read, assumed.
    read_ahead_bytes: u64,
    /// Buffered writes from which the disk picks the one reached first; 1 is elevator
    /// order. Fitted: 186 s of PostMark transactions, as near as it comes.
    position_candidates: u32,
}

impl Default for Disk {
    /// The 2.5-inch disk of 7200 revolutions per minute and 500 GB.
    fn default() -> Self {
        Self {
            capacity_bytes: 500_107_862_016,
            logical_block_bytes: 512,
            interface: Interface {
                rate_bytes_per_s: 270_000_000,
                full_duplex: false,
                queue_depth: 32,
                command_overhead_ns: 50_000,
                write_overhead_ns: None,
                latency_ns: 100_000,
            },
            rpm: 7200,
            seek_track_ns: 1_000_000,
            seek_average_ns: 11_000_000,
            seek_full_ns: 20_000_000,
            zones: vec![(400, 105_000_000), (350, 85_000_000), (250, 60_000_000)],
            cache_bytes: 16 << 20,
            write_cache: true,
            read_ahead_bytes: 1 << 20,
            position_candidates: 1,
        }
    }
}

/// Time in nanoseconds to transfer `bytes` at `rate` bytes per second, rounded down.
fn transfer_ns(bytes: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

/// A modelled disk.
#[derive(Clone, Debug)]
pub struct LaptopDisk {
    size: u64,
    logical_block: u64,
    interface: Interface,
    disk: Disk,
    zone_ends: Vec<u64>,
    rotation_ns: u64,
    /// Time at which arm and head finish their current work.
    media_free_ns: u64,
    interface_free_ns: u64,
    /// Head position: first byte after the last transfer.
    head: u64,
    /// Cached writes not yet on the platters: offset to end, disjoint, neighbours merged.
    dirty: BTreeMap<u64, u64>,
    dirty_bytes: u64,
    /// Arrival time of the oldest cached write; destaging cannot have started earlier.
    dirty_since_ns: u64,
    /// Buffered data: the last read and the read-ahead after it.
    buffer: Extent,
    read_on_end: u64,
    host_written_bytes: u64,
}

impl Default for LaptopDisk {
    fn default() -> Self {
        Self::new(&Disk::default())
    }
}

impl LaptopDisk {
    fn new(disk: &Disk) -> Self {
        let mut share = 0;
        let zone_ends = disk.zones.iter().map(|(permille, _)| {
            share += u128::from(*permille);
            (u128::from(disk.capacity_bytes) * share / 1000) as u64
        });
        Self {
            size: disk.capacity_bytes,
            logical_block: u64::from(disk.logical_block_bytes),
            interface: disk.interface.clone(),
            zone_ends: zone_ends.collect(),
            rotation_ns: 60_000_000_000 / u64::from(disk.rpm),
            media_free_ns: 0,
            interface_free_ns: 0,
            head: 0,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            dirty_since_ns: 0,
            buffer: Extent { offset: 0, len: 0 },
            read_on_end: 0,
            host_written_bytes: 0,
            disk: disk.clone(),
        }
    }

    /// Cuts power: cached writes are lost. Returns the lost ranges.
    fn power_cut(&mut self) -> Vec<Extent> {
        self.dirty_bytes = 0;
        self.buffer.len = 0;
        std::mem::take(&mut self.dirty)
            .into_iter()
            .map(|(offset, end)| Extent { offset, len: end - offset })
            .collect()
    }

    /// Media rate at `offset` in bytes per second.
    fn rate(&self, offset: u64) -> u64 {
        let zone = self.zone_ends.partition_point(|end| *end <= offset);
        self.disk.zones[zone.min(self.disk.zones.len() - 1)].1
    }

    /// Capacity of the write cache in bytes; a larger write bypasses it.
    fn write_cache_bytes(&self) -> u64 {
        if self.disk.write_cache { self.disk.cache_bytes } else { 0 }
    }

    /// Bytes per rotation at `offset`.
    fn track(&self, offset: u64) -> u64 {
        (u128::from(self.rate(offset)) * u128::from(self.rotation_ns) / 1_000_000_000).max(1) as u64
    }

    fn seek_ns(&self, offset: u64) -> u64 {
        let distance = self.head.abs_diff(offset);
        if distance < self.track(offset) {
            // Same or next track: skew lets the head reach the next one without losing a
            // rotation.
            return if distance == 0 {
                0
            } else {
                self.disk.seek_track_ns.min(self.rotation_ns / 8)
            };
        }
        let stroke = distance as f64 / self.size as f64;
        let (track, average, full) = (
            self.disk.seek_track_ns as f64,
            self.disk.seek_average_ns as f64,
            self.disk.seek_full_ns as f64,
        );
        let ns = if stroke < 1.0 / 3.0 {
            track + (average - track) * libm::sqrt(stroke * 3.0)
        } else {
            average + (full - average) * (stroke - 1.0 / 3.0) * 1.5
        };
        ns as u64
    }

    /// Seek time and rotational latency if the arm starts towards `offset` at `start`.
    fn position_ns(&self, start: u64, offset: u64) -> (u64, u64) {
        if offset == self.head && start <= self.media_free_ns {
            return (0, 0); // Streaming continues.
        }
        let seek = self.seek_ns(offset);
        let track = self.track(offset);
        let angle_wanted =
            (u128::from(offset % track) * u128::from(self.rotation_ns) / u128::from(track)) as u64;
        let angle_there = start.saturating_add(seek) % self.rotation_ns;
        (seek, (angle_wanted + self.rotation_ns - angle_there) % self.rotation_ns)
    }

    /// Transfers `extent` between platter and buffer from `start` on; returns the end.
    fn media(&mut self, start: u64, extent: Extent) -> u64 {
        let (seek, wait) = self.position_ns(start, extent.offset);
        let transfer = transfer_ns(extent.len, self.rate(extent.offset));
        self.head = extent.offset + extent.len;
        self.media_free_ns =
            start.saturating_add(seek).saturating_add(wait).saturating_add(transfer);
        self.media_free_ns
    }

    /// Next cached write: of the candidates in elevator order, the one reached first.
    fn next_dirty(&self, start: u64) -> Option<(u64, u64)> {
        let ahead = self.dirty.range(self.head..);
        let behind = self.dirty.range(..self.head);
        ahead
            .chain(behind)
            .take(self.disk.position_candidates as usize)
            .map(|(offset, end)| (*offset, *end))
            .min_by_key(|(offset, _)| {
                let (seek, wait) = self.position_ns(start, *offset);
                seek + wait
            })
    }

    fn destage(&mut self, start: u64) -> bool {
        /// Maximum bytes per mechanical operation, so that a read never waits long for
        /// it.
        const PIECE_MAX: u64 = 1 << 20;
        let Some((offset, end)) = self.next_dirty(start) else { return false };
        let len = (end - offset).min(PIECE_MAX);
        self.dirty.remove(&offset);
        if offset + len < end {
            self.dirty.insert(offset + len, end);
        }
        self.dirty_bytes -= len;
        self.media(start, Extent { offset, len });
        true
    }

    /// Runs background work that starts before `now`.
    fn advance(&mut self, now: u64) {
        loop {
            let start = self.media_free_ns.max(self.dirty_since_ns);
            if start >= now || !self.destage(start) {
                break;
            }
        }
        if self.dirty.is_empty() {
            self.read_on(now);
        }
    }

    /// Extends the buffer by the data that passed under the head since it became free.
    fn read_on(&mut self, now: u64) {
        let end = self.buffer.offset + self.buffer.len;
        if self.buffer.len == 0 || self.head != end || now <= self.media_free_ns {
            return;
        }
        let rate = u128::from(self.rate(end));
        let passed = u64::try_from(u128::from(now - self.media_free_ns) * rate / 1_000_000_000)
            .unwrap_or(u64::MAX);
        let more = passed.min(self.read_on_end.saturating_sub(end));
        self.buffer.len += more;
        self.head += more;
        // At the end of read-ahead the head stops, and a later read has rotational
        // latency.
        self.media_free_ns = if more == passed {
            now
        } else {
            self.media_free_ns.saturating_add(transfer_ns(more, self.rate(end)))
        };
        // The buffer keeps only the newest data.
        let excess = self.buffer.len.saturating_sub(2 * self.disk.read_ahead_bytes);
        self.buffer.offset += excess;
        self.buffer.len -= excess;
    }

    /// Transfers `len` bytes over the interface from `start` on; returns the end.
    fn interface(&mut self, start: u64, len: u64) -> u64 {
        let transfer = transfer_ns(len, self.interface.rate_bytes_per_s);
        self.interface_free_ns = self.interface_free_ns.max(start).saturating_add(transfer);
        self.interface_free_ns
    }

    fn read(&mut self, start: u64, extent: Extent) -> u64 {
        let end = extent.offset + extent.len;
        let buffered =
            self.buffer.offset <= extent.offset && end <= self.buffer.offset + self.buffer.len;
        let cached = self
            .dirty
            .range(..=extent.offset)
            .next_back()
            .is_some_and(|(_, dirty_end)| *dirty_end >= end);
        if buffered || cached {
            return self.interface(start, extent.len);
        }
        let buffer_end = self.buffer.offset + self.buffer.len;
        let streaming = self.head == buffer_end
            && self.buffer.offset <= extent.offset
            && extent.offset <= buffer_end
            && self.dirty.is_empty();
        let done = if streaming {
            self.buffer.len = end - self.buffer.offset;
            self.media(self.media_free_ns, Extent { offset: buffer_end, len: end - buffer_end })
        } else {
            self.buffer = extent;
            self.media(start.max(self.media_free_ns), extent)
        };
        self.read_on_end = end.saturating_add(self.disk.read_ahead_bytes).min(self.size);
        // Data are sent while the platter turns, so only the last block remains.
        self.interface(done.saturating_sub(1), extent.len.min(self.logical_block)).max(done)
    }

    fn write(&mut self, start: u64, extent: Extent) -> u64 {
        self.host_written_bytes += extent.len;
        let buffer_end = self.buffer.offset + self.buffer.len;
        if extent.offset < buffer_end && self.buffer.offset < extent.offset + extent.len {
            self.buffer.len = 0;
        }
        let arrived = self.interface(start, extent.len);
        if self.write_cache_bytes() < extent.len {
            let begin = arrived.max(self.media_free_ns);
            return self.media(begin, extent);
        }
        let mut room_at = arrived;
        while self.dirty_bytes + extent.len > self.write_cache_bytes() {
            let begin = self.media_free_ns.max(start);
            if !self.destage(begin) {
                break;
            }
            room_at = room_at.max(self.media_free_ns);
        }
        if self.dirty.is_empty() {
            self.dirty_since_ns = room_at;
        }
        self.insert_dirty(extent);
        room_at
    }

    /// Adds `extent` to the cached writes and merges overlapping or adjacent ones.
    fn insert_dirty(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.offset, extent.offset + extent.len);
        while let Some((offset, dirty_end)) =
            self.dirty.range(..=end).next_back().map(|(o, e)| (*o, *e))
        {
            if dirty_end < start {
                break;
            }
            self.dirty.remove(&offset);
            self.dirty_bytes -= dirty_end - offset;
            start = start.min(offset);
            end = end.max(dirty_end);
        }
        self.dirty.insert(start, end);
        self.dirty_bytes += end - start;
    }

    fn flush(&mut self, start: u64) -> u64 {
        let mut at = start.max(self.media_free_ns);
        if self.dirty.is_empty() {
            // Done, unless the last cached write is still being written to the platter.
            return at.max(start);
        }
        while self.destage(at) {
            at = self.media_free_ns;
        }
        at
    }
}

impl Model for LaptopDisk {
    fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn written(&self) -> (u64, u64) {
        // Cached data are written later, or never if overwritten.
        (self.host_written_bytes, self.host_written_bytes)
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn power_cut(&mut self, _now: Nanos) -> Vec<Extent> {
        self.power_cut()
    }
}

impl Device for LaptopDisk {
    fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    fn logical_block(&self) -> u32 {
        self.logical_block as u32
    }

    fn supports_trim(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        let check = |extent: &Extent| {
            let block = self.logical_block;
            if extent.offset.checked_add(extent.len).is_none_or(|end| end > self.size) {
                Err(Refusal::OutOfRange)
            } else if !extent.offset.is_multiple_of(block) || !extent.len.is_multiple_of(block) {
                Err(Refusal::Misaligned)
            } else {
                Ok(())
            }
        };
        let result = match command {
            Command::Read(extent) => check(extent),
            Command::Write(extent, _) => check(extent),
            Command::Trim(_) => Err(Refusal::TrimUnsupported),
            Command::Flush => Ok(()),
        };
        if result.is_err() {
            return Completion { done: now, result };
        }
        self.advance(now.0);
        let overhead = match command {
            Command::Write(..) => self.interface.overhead_of_writes_ns(),
            Command::Read(_) | Command::Trim(_) | Command::Flush => {
                self.interface.command_overhead_ns
            }
        };
        let start = now.0.saturating_add(overhead).saturating_add(self.interface.latency_ns);
        let done = match command {
            Command::Read(extent) => self.read(start, *extent),
            Command::Write(extent, _) => self.write(start, *extent),
            Command::Flush => self.flush(start),
            Command::Trim(_) => start,
        };
        Completion { done: Nanos(done.max(start)), result }
    }

    fn idle(&mut self, until: Nanos) {
        self.advance(until.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::rng::Stream;

    fn new() -> LaptopDisk {
        LaptopDisk::new(&Disk {
            capacity_bytes: 320_000_000_000,
            interface: Interface {
                rate_bytes_per_s: 300_000_000,
                command_overhead_ns: 50_000,
                latency_ns: 0,
                ..Interface::default()
            },
            zones: vec![(500, 100_000_000), (500, 50_000_000)],
            position_candidates: 8,
            ..Disk::default()
        })
    }

    fn mean_ms(
        hdd: &mut LaptopDisk,
        n: u64,
        mut command: impl FnMut(u64) -> (bool, Extent),
    ) -> f64 {
        let mut now = Nanos::ZERO;
        for i in 0..n {
            let (write, extent) = command(i);
            let completion = if write {
                hdd.submit(now, &Command::Write(extent, DataClass::Random))
            } else {
                hdd.submit(now, &Command::Read(extent))
            };
            now = completion.done;
        }
        now.0 as f64 / n as f64 / 1e6
    }

    #[test]
    fn random_reads_take_seek_plus_half_rotation() {
        let mut rng = Stream::new(1, "hdd");
        let mut hdd = new();
        let mean = mean_ms(&mut hdd, 2000, |_| {
            (false, Extent { offset: rng.below(78_000_000) * 4096, len: 4096 })
        });
        // Random seeks are slightly shorter on average than a third of the stroke.
        assert!((13.0..17.0).contains(&mean), "{mean} ms");
    }

    #[test]
    fn sequential_reads_reach_media_rate_of_zone() {
        for (base, expected_mbps) in [(0, 100.0), (319_000_000_000 / 4096 * 4096, 50.0)] {
            let mut hdd = new();
            let mean = mean_ms(&mut hdd, 500, |i| {
                (false, Extent { offset: base + i * 131_072, len: 131_072 })
            });
            let mbps = 131_072.0 / 1e6 / (mean / 1e3);
            assert!(
                (expected_mbps * 0.9..=expected_mbps * 1.01).contains(&mbps),
                "{mbps} MB/s, media rate {expected_mbps} MB/s"
            );
        }
    }

    #[test]
    fn sequential_writes_reach_media_rate_and_flush_waits() {
        let mut hdd = new();
        let mean =
            mean_ms(&mut hdd, 2000, |i| (true, Extent { offset: i * 131_072, len: 131_072 }));
        let mbps = 131_072.0 / 1e6 / (mean / 1e3);
        assert!((85.0..115.0).contains(&mbps), "{mbps} MB/s");
        let dirty = hdd.dirty_bytes;
        assert!(dirty > 8 << 20, "the cache should be full");
        let flushed = hdd.submit(Nanos::from_secs(1000), &Command::Flush);
        assert_eq!(hdd.dirty_bytes, 0);
        assert!(flushed.done >= Nanos::from_secs(1000));
    }

    #[test]
    fn cached_random_writes_are_faster_than_random_reads() {
        let mut rng = Stream::new(1, "hdd");
        let mut hdd = new();
        let mean = mean_ms(&mut hdd, 20_000, |_| {
            (true, Extent { offset: rng.below(78_000_000) * 4096, len: 4096 })
        });
        assert!(
            (0.5..9.0).contains(&mean),
            "{mean} ms: thousands of sorted cached writes shorten seeks and waits"
        );
    }

    #[test]
    fn power_cut_loses_exactly_cached_writes() {
        let mut hdd = new();
        hdd.submit(
            Nanos::ZERO,
            &Command::Write(Extent { offset: 8192, len: 4096 }, DataClass::Zero),
        );
        hdd.submit(
            Nanos::ZERO,
            &Command::Write(Extent { offset: 12288, len: 4096 }, DataClass::Zero),
        );
        assert_eq!(hdd.clone().power_cut(), [Extent { offset: 8192, len: 8192 }]);
        hdd.submit(Nanos::ZERO, &Command::Flush);
        assert_eq!(hdd.power_cut(), []);
    }

    #[test]
    fn submit_unsupported_disk_command_is_refused() {
        let mut hdd = new();
        let refused = |c: Completion| c.result.unwrap_err();
        assert_eq!(refused(hdd.submit(Nanos::ZERO, &Command::trim(&[]))), Refusal::TrimUnsupported);
        assert_eq!(
            refused(hdd.submit(Nanos::ZERO, &Command::Read(Extent { offset: 1, len: 512 }))),
            Refusal::Misaligned
        );
        assert_eq!(
            refused(
                hdd.submit(
                    Nanos::ZERO,
                    &Command::Read(Extent { offset: u64::MAX - 511, len: 512 })
                )
            ),
            Refusal::OutOfRange
        );
    }

    #[test]
    fn idle_time_before_write_does_not_speed_destaging() {
        let mut disk = new();
        let mut now = Nanos::from_secs(60);
        disk.idle(now);
        let began = now;
        let len = 512 << 10;
        for at in 0..400 {
            let extent = Extent { offset: at * len, len };
            now = disk.submit(now, &Command::Write(extent, DataClass::Random)).done;
        }
        now = disk.submit(now, &Command::Flush).done;
        let rate = disk.rate(0) as f64;
        let least = (400 * len) as f64 / rate;
        let took = (now - began).as_secs_f64();
        assert!(took >= least * 0.99, "took {took} s, minimum platter time {least} s");
    }

    proptest! {
        #[test]
        fn dirty_extents_stay_disjoint_and_counted(ops in proptest::collection::vec((0_u8..4, 0_u64..200, 1_u64..40, 0_u64..20_000_000), 1..200)) {
            let mut hdd = new();
            let mut now = Nanos::ZERO;
            for (kind, block, blocks, gap) in ops {
                let extent = Extent { offset: block * 4096, len: blocks * 4096 };
                now += Nanos(gap);
                let completion = match kind {
                    0 => hdd.submit(now, &Command::Read(extent)),
                    1 => hdd.submit(now, &Command::Flush),
                    _ => hdd.submit(now, &Command::Write(extent, DataClass::Random)),
                };
                prop_assert!(completion.done > now);
                let mut last_end = None;
                let mut sum = 0;
                for (offset, end) in &hdd.dirty {
                    prop_assert!(offset < end && last_end.is_none_or(|last| last < *offset));
                    last_end = Some(*end);
                    sum += end - offset;
                }
                prop_assert_eq!(sum, hdd.dirty_bytes);
                prop_assert!(hdd.dirty_bytes <= hdd.write_cache_bytes());
            }
        }
    }
}
