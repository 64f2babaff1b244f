//! Detects foreground use of a device, and the time since it became idle, from its
//! counters.

use crate::host::block::Stack;
use crate::host::mountinfo::Mount;
use crate::host::processes::read_by_this_thread;
use crate::host::root::Root;
use crate::host::stat::{DiskStat, StatFile, xfs_log_writes};
use crate::sys::clock::unix_now;
use trimtab_drive::units::Nanos;

/// Foreground use of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceActivity {
    /// Requests in flight.
    pub in_flight: u32,
    /// Time since 1970 at which the last foreground request was seen.
    pub idle_since: Option<Nanos>,
    /// Upper bound on how much earlier the device became idle (the counters are polled).
    pub idle_unsure: Nanos,
    /// Foreground requests since the filesystem was opened; `None` if the device does not
    /// count.
    pub requests: Option<u64>,
    /// Mean latency of the requests that completed since the last poll.
    pub wait: Option<Nanos>,
}

/// The filesystem's own writes during a trim, which are not foreground writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnWrites {
    /// ext4 and most others write nothing.
    None,
    /// F2FS writes a checkpoint of at most this many requests.
    UpTo(u64),
    /// XFS flushes its log first, and counts these writes for the device of this name.
    Log(String),
}

impl OwnWrites {
    pub(super) fn of(mount: &Mount, stack: &Stack) -> Self {
        match mount.fs_type.as_str() {
            "xfs" => {
                stack.top_layers().next().map_or(Self::UpTo(2), |top| Self::Log(top.name.clone()))
            }
            "f2fs" => Self::UpTo(2),
            _ => Self::None,
        }
    }

    /// Number of own writes so far; 0 if they are not counted.
    fn logged(&self, root: &Root) -> u64 {
        if let Self::Log(device) = self { xfs_log_writes(root, device) } else { 0 }
    }
}

/// Detects the last foreground use of a device from its counters.
#[derive(Debug)]
pub(super) struct ActivityDetector {
    root: Root,
    stat: Option<StatFile>,
    /// The counters at the last poll.
    pub(super) last: Option<DiskStat>,
    read_at: Nanos,
    idle_since: Option<Nanos>,
    idle_unsure: Nanos,
    /// Foreground reads and writes.
    requests: u64,
    own_writes: OwnWrites,
    /// Bytes that this thread had read at the last check for foreground reads.
    own_read: u64,
    /// Log writes of the filesystem before the trim.
    logged: u64,
}

impl ActivityDetector {
    pub(super) fn new(root: Root, stat: Option<StatFile>, own_writes: OwnWrites) -> Self {
        Self {
            root,
            stat,
            last: None,
            read_at: Nanos::ZERO,
            idle_since: None,
            idle_unsure: Nanos::ZERO,
            requests: 0,
            own_writes,
            own_read: read_by_this_thread(),
            logged: 0,
        }
    }

    pub(super) fn read(&self) -> Option<DiskStat> {
        self.stat.as_ref().and_then(StatFile::read)
    }

    pub(super) fn look(&mut self) -> DeviceActivity {
        let Some(now) = self.read() else { return DeviceActivity::default() };
        let step = self.last.map(|then| now.since(&then));
        let requests = step.map_or(0, |s| self.reads_of_others(&s).saturating_add(s.writes));
        self.note(now, requests);
        DeviceActivity {
            requests: Some(self.requests),
            in_flight: u32::try_from(now.in_flight).unwrap_or(u32::MAX),
            idle_since: self.idle_since,
            idle_unsure: self.idle_unsure,
            wait: step
                .filter(|_| requests > 0)
                .and_then(|s| s.read_write_time.0.checked_div(s.reads.saturating_add(s.writes)))
                .map(Nanos),
        }
    }

    pub(super) fn before_trim(&mut self) {
        self.look();
        self.logged = self.own_writes.logged(&self.root);
    }

    /// Reads of other threads: this one reads the free-space map, and bitmaps in a trim.
    fn reads_of_others(&mut self, step: &DiskStat) -> u64 {
        if step.reads == 0 {
            return 0;
        }
        let read = read_by_this_thread();
        let own = read.saturating_sub(std::mem::replace(&mut self.own_read, read));
        if step.read.0 > own { step.reads } else { 0 }
    }

    /// Excludes the filesystem's own writes for a trim (a log) from foreground use.
    /// Returns the number of foreground requests since the last look.
    pub(super) fn after_trim(&mut self) -> u64 {
        let Some(now) = self.read() else { return 0 };
        let own_writes = match self.own_writes {
            OwnWrites::None => 0,
            OwnWrites::UpTo(most) => most,
            OwnWrites::Log(_) => self.own_writes.logged(&self.root).saturating_sub(self.logged),
        };
        let step = self.last.map(|then| now.since(&then)).unwrap_or_default();
        let others =
            self.reads_of_others(&step).saturating_add(step.writes.saturating_sub(own_writes));
        self.note(now, others);
        others
    }

    /// Stores the counters `stat`; `requests` is the number of new foreground requests.
    fn note(&mut self, stat: DiskStat, requests: u64) {
        let now = unix_now();
        if self.last.is_none() || requests > 0 || stat.in_flight > 0 {
            self.idle_since = Some(now);
            // A request in flight is use now; before the first poll there is nothing to
            // compare.
            let known = stat.in_flight > 0 || self.last.is_none();
            self.idle_unsure = if known { Nanos::ZERO } else { now.saturating_sub(self.read_at) };
        }
        (self.last, self.read_at) = (Some(stat), now);
        self.requests = self.requests.saturating_add(requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A tree with a device at /dev-stat and an XFS on it.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(machine.0.path().join("sys/fs/xfs/sda1/stats")).unwrap();
            machine.counts(0, 0, 0);
            machine.logs(0);
            machine
        }

        /// Sets the counters: reads of 4 KiB, writes, and requests in flight.
        fn counts(&self, reads: u64, writes: u64, in_flight: u64) {
            let line = format!(
                "{reads} 0 {} 0 {writes} 0 {} 0 {in_flight} 0 0 0 0 0 0 0 0\n",
                reads * 8,
                writes * 8
            );
            fs::write(self.0.path().join("stat"), line).unwrap();
        }

        fn logs(&self, writes: u64) {
            fs::write(
                self.0.path().join("sys/fs/xfs/sda1/stats/stats"),
                format!("ig 1 0 0\nlog {writes} 5 0 2 1\n"),
            )
            .unwrap();
        }

        fn activity(&self, own_writes: OwnWrites) -> ActivityDetector {
            let root = Root::recorded(self.0.path()).unwrap();
            let stat = StatFile::open(&root, Path::new("/")).unwrap();
            ActivityDetector::new(root, Some(stat), own_writes)
        }
    }

    #[test]
    fn foreground_writes_exclude_writes_for_the_trim() {
        let machine = Machine::new();
        let log = || OwnWrites::Log("sda1".into());
        for (own, writes, logged, others) in [
            (OwnWrites::None, 2, 0, 2),
            (OwnWrites::UpTo(2), 3, 0, 1),
            (OwnWrites::UpTo(2), 1, 0, 0),
            (log(), 2, 2, 0),
            (log(), 2, 1, 1),
            (log(), 1, 0, 1),
        ] {
            machine.counts(0, 0, 0);
            machine.logs(7);
            let mut activity = machine.activity(own.clone());
            let began = activity.look();
            activity.before_trim();
            machine.counts(0, writes, 0);
            machine.logs(7 + logged);
            assert_eq!(activity.after_trim(), others);
            let look = activity.look();
            assert_eq!(look.requests, Some(others), "{own:?}, {writes} writes, {logged} logged");
            assert_eq!(
                look.idle_since > began.idle_since,
                others > 0,
                "{own:?}, {writes} writes, {logged} logged"
            );
        }
    }

    #[test]
    fn idle_since_is_known_to_the_polling_interval() {
        let machine = Machine::new();
        let mut activity = machine.activity(OwnWrites::None);
        let first = activity.look();
        assert_eq!(first.idle_unsure, Nanos::ZERO);
        std::thread::sleep(std::time::Duration::from_millis(20));
        machine.counts(3, 1, 0);
        let second = activity.look();
        let between = second.idle_since.unwrap().saturating_sub(first.idle_since.unwrap());
        assert!(between >= Nanos::from_millis(20));
        assert_eq!((second.requests, second.idle_unsure), (Some(4), between));
        assert_eq!(activity.look(), DeviceActivity { wait: None, ..second }, "nothing came");
        machine.counts(3, 1, 2);
        let there = activity.look();
        assert_eq!(
            (there.in_flight, there.idle_unsure),
            (2, Nanos::ZERO),
            "requests in flight are current use"
        );
    }
}
