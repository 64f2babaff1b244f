//! Measures the time that requests wait in the kernel, from the block device's counters.

use crate::engine::RequestCounts;
use crate::pace::Speed;
use crate::status::HostWait;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Nanos;
use trimtab_linux::host::stat::DiskStat;

/// Compares the kernel's time for reads and writes with the drive's, once per second.
#[derive(Debug)]
pub struct Waits {
    stat: PathBuf,
    /// Real nanoseconds per nanosecond of model time.
    per_model_ns: f64,
    first: TimeTotals,
    last: TimeTotals,
    beside_trims: u64,
    /// A TRIM was served in the previous second.
    trimmed: bool,
}

/// Accumulated times at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct TimeTotals {
    /// Time for reads and writes as seen by the host.
    host_ns: u64,
    /// Time for reads and writes in the drive.
    drive_ns: u64,
    trims: u64,
}

impl TimeTotals {
    /// Time waited in the kernel between `self` and `later`.
    fn waited(&self, later: &Self) -> u64 {
        let (host, drive) = (later.host_ns.saturating_sub(self.host_ns), later.drive_ns.saturating_sub(self.drive_ns));
        host.saturating_sub(drive)
    }
}

impl Waits {
    /// For the block device at `sysfs`; `None` without pacing or without counters.
    pub fn new(sysfs: &Path, speed: Speed) -> Option<Self> {
        let Speed::Times(factor) = speed else { return None };
        let stat = sysfs.join("stat");
        let host_ns = host_time(&stat)?.0;
        let first = TimeTotals { host_ns, ..TimeTotals::default() };
        Some(Self { stat, per_model_ns: 1.0 / factor, first, last: first, beside_trims: 0, trimmed: false })
    }

    /// Ends a second. `counts` covers all requests so far.
    pub fn tick(&mut self, counts: &RequestCounts) {
        let now = self.taken(counts);
        let trimmed = now.trims > self.last.trims;
        if trimmed || self.trimmed {
            self.beside_trims += self.last.waited(&now);
        }
        (self.last, self.trimmed) = (now, trimmed);
    }

    /// The wait until now.
    pub fn now(&self, counts: &RequestCounts) -> HostWait {
        let now = self.taken(counts);
        let running = if now.trims > self.last.trims || self.trimmed { self.last.waited(&now) } else { 0 };
        // The drive counts a request slightly before the kernel does.
        let all_ns = self.first.waited(&now);
        HostWait { all_ns, beside_trims_ns: (self.beside_trims + running).min(all_ns) }
    }

    fn taken(&self, counts: &RequestCounts) -> TimeTotals {
        let model_ns = [&counts.read, &counts.write].map(|done| done.latency.mean_ns() * done.count as f64).iter().sum::<f64>();
        TimeTotals {
            host_ns: host_time(&self.stat).map_or(self.last.host_ns, |time| time.0),
            drive_ns: (model_ns * self.per_model_ns) as u64,
            trims: counts.trim.count,
        }
    }
}

fn host_time(stat: &Path) -> Option<Nanos> {
    DiskStat::parse(&std::fs::read_to_string(stat).ok()?).map(|stat| stat.read_write_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_wait_is_host_time_less_drive_time() {
        let scratch = tempfile::tempdir().unwrap();
        // 100 ms of reads and writes before; then one write of 300 ms, 2 ms of them in the drive,
        // during a TRIM; then one of 50 ms without a TRIM.
        let say = |write_ms: u64| std::fs::write(scratch.path().join("stat"), format!("0 0 0 60 1 0 8 {write_ms} 0 0 0\n")).unwrap();
        say(40);
        let mut waits = Waits::new(scratch.path(), Speed::Times(2.0)).unwrap();
        let mut counts = RequestCounts::default();
        counts.trim.count(true, 4096, Nanos::from_millis(150));
        counts.write.count(true, 4096, Nanos::from_millis(4));
        say(340);
        // Histograms are accurate to a part in a thousand.
        let near = |wait: HostWait, all: u64, beside: u64| {
            assert!(wait.all_ns.abs_diff(all) < 4000 && wait.beside_trims_ns.abs_diff(beside) < 4000, "{wait:?}");
        };
        near(waits.now(&counts), 298_000_000, 298_000_000);
        waits.tick(&counts);
        waits.tick(&counts);
        counts.write.count(true, 4096, Nanos::ZERO);
        say(390);
        waits.tick(&counts);
        near(waits.now(&counts), 348_000_000, 298_000_000);
        assert!(Waits::new(scratch.path(), Speed::Unpaced).is_none());
    }
}
