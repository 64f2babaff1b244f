//! Amount written, from the filesystem's counter, the kernel's counter of the device, or the
//! drive's own.

use super::config::CounterChoice;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::lifetime_counter;
use trimtab_linux::host::block::{Stack, node_of};
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;
use trimtab_linux::wear::{self, smartctl};

/// Shortest interval between two queries of a drive.
const SMART_EVERY: Duration = Duration::from_secs(600);

/// A counter of bytes written.
#[derive(Debug)]
pub enum WriteCounter {
    /// `lifetime_write_kbytes` of ext4 and f2fs.
    Filesystem(PathBuf),
    /// The `stat` files of the devices.
    Devices(Vec<PathBuf>),
    /// The drive's own, through smartctl.
    Smart(SmartCounter),
    /// None.
    None,
}

/// The last reading of a drive.
#[derive(Debug)]
pub struct SmartCounter {
    node: PathBuf,
    asked: Option<Instant>,
    last: Option<(Bytes, Bytes)>,
}

impl WriteCounter {
    /// The chosen counter, or the best available. [`Self::None`] if it does not exist.
    #[must_use]
    pub fn choose(root: &Root, mount: &Mount, stack: &Stack, choice: CounterChoice) -> Self {
        let filesystem = || {
            let file = lifetime_counter(&mount.fs_type, &stack.top_layers().next()?.name);
            root.read_u64(&file).map(|_| Self::Filesystem(file))
        };
        let devices = || {
            let all: Vec<PathBuf> = stack.top_layers().map(|l| l.sys.clone()).collect();
            (!all.is_empty()).then_some(Self::Devices(all))
        };
        // With several drives, the sum of the kernel's counters is used instead.
        let smart = || {
            let drives: Vec<_> = stack.drives().collect();
            let [drive] = drives[..] else { return None };
            Some(Self::Smart(SmartCounter { node: node_of(&drive.name).into(), asked: None, last: None }))
        };
        let found = match choice {
            CounterChoice::Auto => filesystem().or_else(devices),
            CounterChoice::Filesystem => filesystem(),
            CounterChoice::Device => devices(),
            CounterChoice::Smart => smart(),
            CounterChoice::None => None,
        };
        found.unwrap_or(Self::None)
    }

    /// The counter's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Filesystem(_) => "the filesystem's counter",
            Self::Devices(_) => "the kernel's counter of the device",
            Self::Smart(_) => "the drive's own counter",
            Self::None => "no counter",
        }
    }

    /// True if the counter restarts at 0 with the machine.
    #[must_use]
    pub fn restarts_at_boot(&self) -> bool {
        matches!(self, Self::Devices(_))
    }

    /// The present value and its resolution.
    pub fn read(&mut self, root: &Root) -> (Option<Bytes>, Bytes) {
        match self {
            Self::Filesystem(file) => (root.read_u64(file).map(|kib| Bytes(kib.saturating_mul(1024))), Bytes(1024)),
            Self::Devices(all) => {
                let one = |sys: &PathBuf| DiskStat::read(root, sys).map(|s| s.written);
                let sum = all.iter().map(one).try_fold(Bytes::ZERO, |sum, one| Some(sum.saturating_add(one?)));
                (sum, Bytes(512))
            }
            Self::Smart(smart) => match smart.read() {
                Some((written, step)) => (Some(written), step),
                None => (None, Bytes(512)),
            },
            Self::None => (None, Bytes(512)),
        }
    }
}

impl SmartCounter {
    fn read(&mut self) -> Option<(Bytes, Bytes)> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= SMART_EVERY) {
            self.asked = Some(Instant::now());
            self.last = ask_drive(&self.node).or(self.last);
        }
        self.last
    }
}

/// Queries the drive unless that would wake it.
fn ask_drive(node: &Path) -> Option<(Bytes, Bytes)> {
    let document = smartctl::ask(&smartctl::find()?, node.to_str()?, None, smartctl::TIME_LIMIT).ok()?;
    let written = wear::parse(&document).ok()?.host_written?;
    Some((Bytes(written.bytes), Bytes(written.step_bytes)))
}
