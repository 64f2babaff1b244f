//! Limits the size of discard commands during a trim: `queue/discard_max_bytes`.
//! Foreground requests are served between two commands, so this bounds their added
//! latency. The previous limit is restored, also after a crash.
//!
//! The current limit is always read from the kernel. A process that lowers a limit leaves
//! a record of the previous value ([`crate::session::journal`]). The holder of the drive's
//! lock may restore a limit and remove its record; the process that left it detects
//! that and starts over. A limit that was changed by someone else in between is kept.

use crate::host::block::Stack;
use crate::host::root::Root;
use crate::session::journal::{Change, TemporaryChange, TemporaryJournal, UndoResult};
use crate::sys::beneath::set_attribute;
use std::io;
use std::path::PathBuf;
use trimtab_drive::units::Bytes;

/// A queue whose limit may be changed.
#[derive(Debug)]
struct DeviceQueue {
    limit: PathBuf,
    /// Journal and name of its record.
    journal: TemporaryJournal,
    name: String,
    granularity: u64,
    lowered: Option<LoweredLimit>,
    /// The previous and the current limit, if the kernel did not accept the previous one.
    inexact: Option<(u64, u64)>,
}

/// A limit lowered by this process.
#[derive(Debug)]
struct LoweredLimit {
    before: u64,
    change: TemporaryChange,
}

/// The command limits of all devices of a filesystem. Restored on drop.
#[derive(Debug, Default)]
pub struct CommandLimit {
    queues: Vec<DeviceQueue>,
}

impl CommandLimit {
    /// For the devices of `stack` that accept discards. Changes nothing yet.
    pub fn of_stack(root: &Root, stack: &Stack) -> Self {
        Self::with_journal(&TemporaryJournal::here(), root, stack)
    }

    fn with_journal(journal: &TemporaryJournal, root: &Root, stack: &Stack) -> Self {
        let mut queues: Vec<DeviceQueue> = Vec::new();
        for layer in stack.top_layers() {
            let directory = layer.queue();
            let limit = directory.join("discard_max_bytes");
            let read = |name: &str| root.read_u64(directory.join(name)).filter(|n| *n > 0);
            let (Some(_), Some(granularity)) =
                (read("discard_max_bytes"), read("discard_granularity"))
            else {
                continue;
            };
            let disk =
                directory.parent().and_then(|d| d.file_name()?.to_str()).unwrap_or(&layer.name);
            let name = format!("limit-{disk}");
            if !queues.iter().any(|q| q.limit == limit) {
                queues.push(DeviceQueue {
                    limit,
                    journal: journal.clone(),
                    name,
                    granularity,
                    lowered: None,
                    inexact: None,
                });
            }
        }
        Self { queues }
    }

    /// Limits commands to `most` bytes, rounded down to the discard unit. Requires the
    /// drives' locks.
    pub fn set(&mut self, most: Bytes) -> io::Result<()> {
        self.queues.iter_mut().try_for_each(|queue| queue.set(most.0))
    }

    /// As [`Self::set`], unless it makes no difference for a command of `long` bytes. A
    /// change stops the device's queue for about 20 ms (Linux 6.18), delaying foreground
    /// I/O.
    pub fn set_for(&mut self, long: Bytes, most: Bytes) -> io::Result<()> {
        let enough = |queue: &DeviceQueue| queue.now().is_ok_and(|now| now >= long.0);
        if long <= most && self.queues.iter().all(enough) { Ok(()) } else { self.set(most) }
    }

    /// Restores every limit lowered by this process. The drives' locks need not be held.
    pub fn restore(&mut self) -> io::Result<()> {
        self.queues.iter_mut().map(DeviceQueue::restore).fold(Ok(()), io::Result::and)
    }

    /// A remark for each limit that could not be restored exactly, because the kernel
    /// rejected the value. Each is returned once.
    pub fn remarks(&mut self) -> impl Iterator<Item = String> {
        let one = |queue: &mut DeviceQueue| {
            let ((before, now), file) = (queue.inexact.take()?, queue.limit.display());
            Some(format!(
                "{file} was {before} and is {now}, the nearest value that the kernel accepts"
            ))
        };
        self.queues.iter_mut().filter_map(one)
    }

    /// Restores limits that other processes lowered and did not restore: processes that
    /// ended, or released the drive during a pass. Call while holding the drives' locks.
    /// Returns the limits left by processes that ended, for a remark.
    #[must_use]
    pub fn recover(&mut self) -> Vec<PathBuf> {
        self.queues
            .iter_mut()
            .filter_map(|queue| queue.recover().then(|| queue.limit.clone()))
            .collect()
    }
}

impl DeviceQueue {
    fn now(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(&self.limit)?;
        text.trim().parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not a number", self.limit.display()),
            )
        })
    }

    /// Forgets a lowered limit whose record another process has removed.
    fn look(&mut self) {
        if self.lowered.as_ref().is_some_and(|ours| !ours.change.is_there()) {
            self.lowered = None;
        }
    }

    fn set(&mut self, most: u64) -> io::Result<()> {
        self.look();
        let now = self.now()?;
        let before = self.lowered.as_ref().map_or(now, |l| l.before);
        let wanted = (most / self.granularity * self.granularity).max(self.granularity);
        if wanted >= before {
            return self.restore();
        }
        if wanted == now {
            return Ok(());
        }
        // A process killed between the record and the change leaves one of the two values.
        let change = |set: Vec<u64>| Change::Attribute {
            file: self.limit.clone(),
            before: before.to_string(),
            set: set.iter().map(u64::to_string).collect(),
        };
        match &mut self.lowered {
            Some(lowered) => lowered.change.update(change(vec![now, wanted]))?,
            None => {
                self.lowered = Some(LoweredLimit {
                    before,
                    change: self.journal.begin(&self.name, change(vec![wanted]))?,
                })
            }
        }
        set_attribute(&self.limit, &wanted.to_string()).inspect_err(|_| {
            // Nothing was lowered, so no record must claim it.
            let _ = self.restore();
        })
    }

    fn restore(&mut self) -> io::Result<()> {
        self.look();
        // If the device is gone, or the limit was changed since, there is nothing to
        // restore.
        let Some(LoweredLimit { before, change }) = self.lowered.take() else { return Ok(()) };
        let undone = change.restore()?;
        let now = self.now().ok().filter(|now| undone == UndoResult::PutBack && *now != before);
        self.inexact = now.map(|now| (before, now)).or(self.inexact);
        Ok(())
    }

    /// Returns true if a limit was restored whose process has ended.
    fn recover(&mut self) -> bool {
        self.look();
        if self.lowered.is_some() {
            return false;
        }
        let taken = self.journal.take_over(&self.name).ok().flatten();
        taken.is_some_and(|(left, gone)| gone && left.undone == UndoResult::PutBack)
    }
}

impl Drop for CommandLimit {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::{Bus, Layer, LayerKind};
    use crate::host::mountinfo::DevNumber;

    /// A drive `sda` with a limit of 1 MiB.
    struct Machine {
        directory: tempfile::TempDir,
        root: Root,
        stack: Stack,
    }

    impl Machine {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let sys = directory.path().canonicalize().unwrap().join("sda");
            std::fs::create_dir_all(sys.join("queue")).unwrap();
            std::fs::write(sys.join("queue/discard_granularity"), "4096\n").unwrap();
            let dev = DevNumber { major: 8, minor: 0 };
            let kind = LayerKind::Drive(Bus::Other);
            let layer = Layer {
                name: "sda".into(),
                label: None,
                kind,
                sys,
                dev,
                size: Bytes(1 << 30),
                below: Vec::new(),
            };
            let machine = Self {
                directory,
                root: Root::live().unwrap(),
                stack: Stack { layers: vec![layer], tops: vec![0], ..Stack::default() },
            };
            machine.change(1 << 20);
            machine
        }

        fn file(&self) -> PathBuf {
            self.stack.layers[0].queue().join("discard_max_bytes")
        }

        fn change(&self, bytes: u64) {
            std::fs::write(self.file(), bytes.to_string()).unwrap();
        }

        fn now(&self) -> u64 {
            std::fs::read_to_string(self.file()).unwrap().trim().parse().unwrap()
        }

        fn limit(&self) -> CommandLimit {
            let limit = CommandLimit::with_journal(&self.journal(), &self.root, &self.stack);
            assert_eq!(limit.queues.len(), 1);
            limit
        }

        fn journal(&self) -> TemporaryJournal {
            TemporaryJournal::of_directory(&self.directory.path().join("run"))
        }

        fn noted(&self) -> bool {
            self.directory.path().join("run/journal/limit-sda.json").exists()
        }

        /// The state after a process was killed having set the last of `set`.
        fn killed(&self, before: u64, set: &[u64]) {
            let set = set.iter().map(u64::to_string).collect();
            let change = Change::Attribute { file: self.file(), before: before.to_string(), set };
            drop(self.journal().begin("limit-sda", change).unwrap());
        }
    }

    #[test]
    fn limit_is_lowered_and_restored_repeatedly() {
        let machine = Machine::new();
        let mut limit = machine.limit();
        for _ in 0..3 {
            limit.set(Bytes(100_000)).unwrap();
            assert_eq!((machine.now(), machine.noted()), (98_304, true));
            assert!(limit.recover().is_empty(), "it is its own");
            assert_eq!(machine.now(), 98_304);
            limit.set(Bytes(1)).unwrap();
            assert_eq!(machine.now(), 4096);
            limit.restore().unwrap();
            assert_eq!((machine.now(), machine.noted()), (1 << 20, false));
        }
        limit.set(Bytes(65_536)).unwrap();
        limit.set(Bytes::MAX).unwrap();
        assert_eq!((machine.now(), machine.noted()), (1 << 20, false));
        limit.set(Bytes(65_536)).unwrap();
        drop(limit);
        assert_eq!((machine.now(), machine.noted()), (1 << 20, false));
    }

    #[test]
    fn set_for_keeps_limit_that_makes_no_difference() {
        let machine = Machine::new();
        let mut limit = machine.limit();
        let mut after = |long, most| {
            limit.set_for(Bytes(long), Bytes(most)).unwrap();
            machine.now()
        };
        // Short enough; too long; already low enough; longer but allowed; the original
        // limit.
        let steps = [
            (65_536, 98_304),
            (131_072, 98_304),
            (16_384, 32_768),
            (131_072, 262_144),
            (1 << 20, 1 << 30),
        ];
        assert_eq!(
            steps.map(|(long, most)| after(long, most)),
            [1 << 20, 98_304, 98_304, 262_144, 1 << 20]
        );
    }

    #[test]
    fn recover_restores_and_reports_limit_of_dead_process() {
        let machine = Machine::new();
        machine.killed(4_294_963_200, &[65_536]);
        machine.change(65_536);
        assert_eq!(machine.limit().recover(), [machine.file()]);
        assert_eq!((machine.now(), machine.noted()), (4_294_963_200, false));
        assert!(machine.limit().recover().is_empty(), "once");
    }

    #[test]
    fn remarks_report_limit_rejected_by_kernel() {
        let machine = Machine::new();
        let mut limit = machine.limit();
        limit.set(Bytes(65_536)).unwrap();
        limit.restore().unwrap();
        assert_eq!(limit.remarks().count(), 0, "exact");
        limit.queues[0].inexact = Some((4_294_966_784, 4_294_963_200));
        limit.set(Bytes(65_536)).unwrap();
        limit.restore().unwrap();
        let said: Vec<String> = limit.remarks().collect();
        assert!(
            said.len() == 1 && said[0].contains("was 4294966784 and is 4294963200"),
            "{said:?}"
        );
    }

    #[test]
    fn limit_changed_by_administrator_is_kept() {
        for (set, now, after) in [
            (vec![65_536], 32_768, 32_768),
            (vec![65_536, 16_384], 65_536, 1 << 20),
            (vec![65_536], 524_288, 524_288),
        ] {
            let machine = Machine::new();
            machine.killed(1 << 20, &set);
            machine.change(now);
            let _ = machine.limit().recover();
            assert_eq!((machine.now(), machine.noted()), (after, false), "{set:?} then {now}");
        }
        let machine = Machine::new();
        let mut limit = machine.limit();
        limit.set(Bytes(65_536)).unwrap();
        machine.change(32_768);
        drop(limit);
        assert_eq!(
            (machine.now(), machine.noted()),
            (32_768, false),
            "changed while it was lowered"
        );
    }

    #[test]
    fn two_processes_on_one_drive_keep_limits_consistent() {
        let machine = Machine::new();
        let (mut first, mut second) = (machine.limit(), machine.limit());
        first.set(Bytes(65_536)).unwrap();
        // The first has released the drive for a moment; it is alive, so nothing is
        // reported.
        assert!(second.recover().is_empty());
        assert_eq!(machine.now(), 1 << 20);
        second.set(Bytes(32_768)).unwrap();
        first.restore().unwrap();
        assert_eq!(machine.now(), 32_768, "the first one no longer owns the limit");
        assert!(first.recover().is_empty());
        first.set(Bytes(65_536)).unwrap();
        assert_eq!(machine.now(), 65_536, "it reads the limit again");
        drop(second);
        assert_eq!(machine.now(), 65_536);
        drop(first);
        assert_eq!((machine.now(), machine.noted()), (1 << 20, false));
    }

    #[test]
    fn limit_changed_in_between_is_restored() {
        let machine = Machine::new();
        let mut limit = machine.limit();
        limit.set(Bytes(65_536)).unwrap();
        limit.restore().unwrap();
        machine.change(131_072);
        limit.set(Bytes(65_536)).unwrap();
        assert_eq!(machine.now(), 65_536);
        drop(limit);
        assert_eq!(machine.now(), 131_072);
    }
}
