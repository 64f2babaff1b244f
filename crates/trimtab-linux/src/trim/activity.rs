//! Whether others use a device, and since when they have not, by its counters.

use crate::host::block::Stack;
use crate::host::mountinfo::Mount;
use crate::host::processes::read_by_this_thread;
use crate::host::root::Root;
use crate::host::stat::{DiskStat, StatFile, xfs_log_writes};
use crate::sys::clock::unix_now;
use trimtab_drive::units::Nanos;

/// Whether others use the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Requests in flight.
    pub in_flight: u32,
    /// Time since 1970 at which the last request of others was seen.
    pub idle_since: Option<Nanos>,
    /// So much earlier it may have been.
    pub idle_unsure: Nanos,
    /// Requests of others so far, since the filesystem was opened; `None` if nobody counts them.
    pub requests: Option<u64>,
    /// Mean time of the requests that completed since the last look.
    pub wait: Option<Nanos>,
}

/// Which writes during a trim are nobody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnWrites {
    /// ext4 and most others write nothing for it.
    None,
    /// F2FS writes a checkpoint: no more than so many.
    UpTo(u64),
    /// XFS writes its log out first, and counts such writes: on the device of this name.
    Log(String),
}

impl OwnWrites {
    pub(super) fn of(mount: &Mount, stack: &Stack) -> Self {
        match mount.fs_type.as_str() {
            "xfs" => stack.top_layers().next().map_or(Self::UpTo(2), |top| Self::Log(top.name.clone())),
            "f2fs" => Self::UpTo(2),
            _ => Self::None,
        }
    }

    /// How many were written so far, where that is counted.
    fn logged(&self, root: &Root) -> u64 {
        if let Self::Log(device) = self { xfs_log_writes(root, device) } else { 0 }
    }
}

/// Tells from a device's counters when others used it last.
#[derive(Debug)]
pub(super) struct Activity {
    root: Root,
    stat: Option<StatFile>,
    last: Option<DiskStat>,
    /// When the counters were read last.
    read_at: Nanos,
    idle_since: Option<Nanos>,
    idle_unsure: Nanos,
    /// Reads and writes of others.
    requests: u64,
    own_writes: OwnWrites,
    /// Bytes that this thread had read when others' reads were looked for last.
    own_read: u64,
    /// What the filesystem had logged before the trim.
    logged: u64,
}

impl Activity {
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

    /// As it was read last.
    pub(super) const fn last(&self) -> Option<&DiskStat> {
        self.last.as_ref()
    }

    pub(super) fn look(&mut self) -> Look {
        let Some(now) = self.read() else { return Look::default() };
        let step = self.last.map(|then| now.since(&then));
        let requests = step.map_or(0, |s| self.reads_of_others(&s).saturating_add(s.writes));
        self.note(now, requests);
        Look {
            requests: Some(self.requests),
            in_flight: u32::try_from(now.in_flight).unwrap_or(u32::MAX),
            idle_since: self.idle_since,
            idle_unsure: self.idle_unsure,
            wait: step.and_then(|s| s.read_write_time.0.checked_div(s.reads.saturating_add(s.writes))).map(Nanos),
        }
    }

    pub(super) fn before_trim(&mut self) {
        self.look();
        self.logged = self.own_writes.logged(&self.root);
    }

    /// Where free space lies is read as well, and bitmaps for a trim: what this thread reads is no use by others.
    fn reads_of_others(&mut self, step: &DiskStat) -> u64 {
        if step.reads == 0 {
            return 0;
        }
        let read = read_by_this_thread();
        let own = read.saturating_sub(std::mem::replace(&mut self.own_read, read));
        if step.read.0 > own { step.reads } else { 0 }
    }

    /// What a trim makes the filesystem write (a log) is no use by others.
    pub(super) fn after_trim(&mut self) {
        let Some(now) = self.read() else { return };
        let own_writes = match self.own_writes {
            OwnWrites::None => 0,
            OwnWrites::UpTo(most) => most,
            OwnWrites::Log(_) => self.own_writes.logged(&self.root).saturating_sub(self.logged),
        };
        let step = self.last.map(|then| now.since(&then)).unwrap_or_default();
        let others = self.reads_of_others(&step).saturating_add(step.writes.saturating_sub(own_writes));
        self.note(now, others);
    }

    /// Takes the counters as they are now, by which others have made `requests` since they were read before.
    fn note(&mut self, stat: DiskStat, requests: u64) {
        let now = unix_now();
        if self.last.is_none() || requests > 0 || stat.in_flight > 0 {
            self.idle_since = Some(now);
            // Who is there is there now; of what was before the first look nothing is known but that it was before.
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

    /// A machine with a device at /dev-stat and an XFS on it.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(machine.0.path().join("sys/fs/xfs/sda1/stats")).unwrap();
            machine.counts(0, 0, 0);
            machine.logs(0);
            machine
        }

        /// Reads of 4 KiB and writes, and how many are in flight.
        fn counts(&self, reads: u64, writes: u64, in_flight: u64) {
            let line = format!("{reads} 0 {} 0 {writes} 0 {} 0 {in_flight} 0 0 0 0 0 0 0 0\n", reads * 8, writes * 8);
            fs::write(self.0.path().join("stat"), line).unwrap();
        }

        fn logs(&self, writes: u64) {
            fs::write(self.0.path().join("sys/fs/xfs/sda1/stats/stats"), format!("ig 1 0 0\nlog {writes} 5 0 2 1\n")).unwrap();
        }

        fn activity(&self, own_writes: OwnWrites) -> Activity {
            let root = Root::recorded(self.0.path()).unwrap();
            let stat = StatFile::open(&root, Path::new("/")).unwrap();
            Activity::new(root, Some(stat), own_writes)
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
            activity.after_trim();
            let look = activity.look();
            assert_eq!(look.requests, Some(others), "{own:?}, {writes} writes, {logged} logged");
            assert_eq!(look.idle_since > began.idle_since, others > 0, "{own:?}, {writes} writes, {logged} logged");
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
        assert_eq!(activity.look(), Look { wait: None, ..second }, "nothing came");
        machine.counts(3, 1, 2);
        let there = activity.look();
        assert_eq!((there.in_flight, there.idle_unsure), (2, Nanos::ZERO), "who is there is there now");
    }
}
