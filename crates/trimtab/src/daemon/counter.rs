//! Amount written, from the filesystem's counter or the kernel's counter of the device.

use std::path::PathBuf;
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::lifetime_counter;
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;

/// A counter of bytes written.
#[derive(Debug)]
pub enum WriteCounter {
    /// `lifetime_write_kbytes` of ext4 and f2fs.
    Filesystem(PathBuf),
    /// The `stat` files of the devices.
    Devices(Vec<PathBuf>),
    /// None.
    None,
}

impl WriteCounter {
    /// The filesystem's own counter if it has one, else the device's.
    pub fn choose(root: &Root, mount: &Mount, stack: &Stack) -> Self {
        let filesystem = || {
            let file = lifetime_counter(&mount.fs_type, &stack.top_layers().next()?.name);
            root.read_u64(&file).map(|_| Self::Filesystem(file))
        };
        let devices = || {
            let all: Vec<PathBuf> = stack.top_layers().map(|l| l.sys.clone()).collect();
            (!all.is_empty()).then_some(Self::Devices(all))
        };
        filesystem().or_else(devices).unwrap_or(Self::None)
    }

    /// The counter's name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Filesystem(_) => "the filesystem's counter",
            Self::Devices(_) => "the kernel's counter of the device",
            Self::None => "no counter",
        }
    }

    /// True if the counter restarts at 0 with the machine.
    pub fn restarts_at_boot(&self) -> bool {
        matches!(self, Self::Devices(_))
    }

    /// The present value.
    pub fn read(&self, root: &Root) -> Option<Bytes> {
        match self {
            Self::Filesystem(file) => {
                root.read_u64(file).map(|kib| Bytes(kib.saturating_mul(1024)))
            }
            Self::Devices(all) => {
                let one = |sys: &PathBuf| DiskStat::read(root, sys).map(|s| s.written);
                all.iter().map(one).try_fold(Bytes::ZERO, |sum, one| Some(sum.saturating_add(one?)))
            }
            Self::None => None,
        }
    }
}
