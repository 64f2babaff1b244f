//! The I/O counters of a block device, `/sys/block/…/stat`: exact, unprivileged, per
//! layer.

use super::root::Root;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};

/// The unit of sector counts in `stat`, independent of the device's block size.
pub const SECTOR_BYTES: u64 = 512;

/// Counters of one device since boot (Documentation/block/stat.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written: Bytes,
    /// Time spent on reads and writes, summed over requests.
    pub read_write_time: Nanos,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Time during which at least one request was in flight.
    pub busy: Nanos,
    /// Discards completed; `None` before Linux 4.18.
    pub discards: Option<Amount>,
    /// Time spent on discards, summed over commands.
    pub discard_time: Nanos,
    /// Flushes completed; `None` before Linux 5.5.
    pub flushes: Option<u64>,
}

/// The advance of a counter. One that decreased (device replaced) restarted at zero.
fn delta(now: u64, then: u64) -> u64 {
    if now >= then { now - then } else { now }
}

impl DiskStat {
    /// Reads the counters of the device at `sys`, such as
    /// `/sys/devices/…/block/sda/sda1`.
    pub fn read(root: &Root, sys: &Path) -> Option<Self> {
        Self::parse(&root.read(sys.join("stat"))?)
    }

    /// Parses the one line of `stat`: 11, 15 or 17 numbers, depending on the kernel.
    pub fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
        let mut field = [0_u64; 17];
        let mut count = 0;
        for (slot, number) in field.iter_mut().zip(&mut numbers) {
            *slot = number;
            count += 1;
        }
        if count < 11 {
            return None;
        }
        let sectors = |n: u64| Bytes(n.saturating_mul(SECTOR_BYTES));
        let millis = |n: u64| Nanos(n.saturating_mul(1_000_000));
        Some(Self {
            reads: field[0],
            read: sectors(field[2]),
            writes: field[4],
            written: sectors(field[6]),
            read_write_time: millis(field[3].saturating_add(field[7])),
            in_flight: field[8],
            busy: millis(field[9]),
            discards: (count >= 15).then(|| Amount { count: field[11], bytes: sectors(field[13]) }),
            discard_time: millis(field[14]),
            flushes: (count >= 16).then_some(field[15]),
        })
    }

    /// The change since `before`. A counter that decreased (device replaced) counts from
    /// zero.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: delta(self.reads, before.reads),
            read: Bytes(delta(self.read.0, before.read.0)),
            writes: delta(self.writes, before.writes),
            written: Bytes(delta(self.written.0, before.written.0)),
            read_write_time: Nanos(delta(self.read_write_time.0, before.read_write_time.0)),
            in_flight: self.in_flight,
            busy: Nanos(delta(self.busy.0, before.busy.0)),
            discards: self.discards.map(|now| now.since(before.discards.unwrap_or_default())),
            discard_time: Nanos(delta(self.discard_time.0, before.discard_time.0)),
            flushes: self.flushes.map(|now| delta(now, before.flushes.unwrap_or_default())),
        }
    }
}

/// Number of log writes of the XFS on this device; 0 if it is not counted.
pub fn xfs_log_writes(root: &Root, device: &str) -> u64 {
    let text = root.read(format!("/sys/fs/xfs/{device}/stats/stats")).unwrap_or_default();
    let log = text.lines().find_map(|line| line.strip_prefix("log "));
    log.and_then(|log| log.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The counters of one device, kept open for frequent reads.
#[derive(Debug)]
pub struct StatFile {
    file: File,
    partitions: Vec<File>,
}

impl StatFile {
    /// Opens the counters of the device at `sys`, and of its partitions.
    pub fn open(root: &Root, sys: &Path) -> std::io::Result<Self> {
        let file = root.open(&sys.join("stat"))?;
        let partitions = root
            .list(sys)
            .into_iter()
            .map(|name| sys.join(name))
            .filter(|part| root.exists(part.join("partition")))
            .filter_map(|part| root.open(&part.join("stat")).ok())
            .collect();
        Ok(Self { file, partitions })
    }

    /// Reads the counters; `None` if the device is gone. Linux 6.18 counts the requests in
    /// flight on a partition there only, earlier kernels at the disk too.
    pub fn read(&self) -> Option<DiskStat> {
        let mut stat = counters(&self.file)?;
        let of_partitions = self.partitions.iter().filter_map(counters).map(|part| part.in_flight);
        stat.in_flight = stat.in_flight.max(of_partitions.fold(0, u64::saturating_add));
        Some(stat)
    }
}

fn counters(file: &File) -> Option<DiskStat> {
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0).ok()?;
    DiskStat::parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "  145503    12498 12804546   137376   202464    92709 \
        45285664   179612        2    30876   318439    10581       36  1474152     1287     4080      163";

    #[test]
    fn parse_reads_fields_of_the_kernel() {
        let stat = DiskStat::parse(LINE).unwrap();
        assert_eq!((stat.reads, stat.read), (145_503, Bytes(12_804_546 * 512)));
        assert_eq!((stat.writes, stat.written), (202_464, Bytes(45_285_664 * 512)));
        assert_eq!((stat.in_flight, stat.busy), (2, Nanos::from_millis(30_876)));
        assert_eq!(stat.discards, Some(Amount { count: 10_581, bytes: Bytes(1_474_152 * 512) }));
        assert_eq!(stat.discard_time, Nanos::from_millis(1287));
        assert_eq!(stat.flushes, Some(4080));
    }

    #[test]
    fn parse_accepts_old_kernels_and_rejects_junk() {
        let old = LINE.split_whitespace().take(11).collect::<Vec<_>>().join(" ");
        assert_eq!(DiskStat::parse(&old).unwrap().discards, None);
        for junk in ["", "1 2 3", "a b c d e f g h i j k l", &"9".repeat(400)] {
            assert_eq!(DiskStat::parse(junk), None, "{junk}");
        }
        assert!(
            DiskStat::parse(&format!("{} ", u64::MAX).repeat(17)).is_some(),
            "absurd numbers saturate"
        );
    }

    #[test]
    fn since_counts_reset_counter_from_zero() {
        let before = DiskStat { writes: 100, ..DiskStat::default() };
        let after = DiskStat { writes: 7, ..DiskStat::default() };
        assert_eq!(after.since(&before).writes, 7);
        assert_eq!(before.since(&after).writes, 93);
    }

    #[test]
    fn requests_in_flight_on_partitions_count() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path();
        let of = |in_flight: u64| format!("7 0 0 0 0 0 0 0 {in_flight} 0 0\n");
        std::fs::write(disk.join("stat"), of(0)).unwrap();
        for (name, in_flight, partition) in
            [("sda1", 3, true), ("sda2", 1, true), ("queue", 9, false)]
        {
            std::fs::create_dir(disk.join(name)).unwrap();
            std::fs::write(disk.join(name).join("stat"), of(in_flight)).unwrap();
            if partition {
                std::fs::write(disk.join(name).join("partition"), "1\n").unwrap();
            }
        }
        let stat = StatFile::open(&Root::recorded(disk).unwrap(), Path::new("/")).unwrap();
        assert_eq!(stat.read().unwrap().in_flight, 4, "Linux 6.18: the disk shows none");
        std::fs::write(disk.join("stat"), of(5)).unwrap();
        let stat = stat.read().unwrap();
        assert_eq!((stat.in_flight, stat.reads), (5, 7), "earlier kernels: partitions included");
    }
}
