//! The virtual SSD returns the data written through the kernel, and counts the kernel's
//! trims.

use crate::support::{have_root, skip};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::ledger::Ledger;
use trimtab_drive::model::Model;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::{Thermal, TrimmedReads};
use trimtab_drive::trim_shape::TrimShape;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device, Extent};
use trimtab_linux::host::loops::LoopDevice;
use trimtab_linux::loop_device::DetachResult;
use trimtab_linux::sys::beneath::ObjectIdentity;
use trimtab_vssd::engine::{Engine, EngineDrive};
use trimtab_vssd::fuse::{self, MAX_REQUEST_BYTES};
use trimtab_vssd::pace::{Pacer, Speed};
use trimtab_vssd::request::Geometry;
use trimtab_vssd::store::Store;

const SIZE: u64 = 64 << 20;

/// A device that takes one microsecond for every request.
struct Quick;

impl Device for Quick {
    fn size(&self) -> Bytes {
        Bytes(SIZE)
    }
    fn logical_block(&self) -> u32 {
        4096
    }
    fn supports_trim(&self) -> bool {
        true
    }
    fn submit(&mut self, now: Nanos, _command: &Command<'_>) -> Completion {
        Completion { done: now + Nanos(1000), result: Ok(()) }
    }
    fn idle(&mut self, _until: Nanos) {}
}

impl Model for Quick {
    fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    fn written(&self) -> (u64, u64) {
        (0, 0)
    }
    fn heat(&self) -> Option<(&Thermal, i32)> {
        None
    }
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(Self)
    }
    fn expect_power_cuts(&mut self) {}
    fn power_cut(&mut self, _now: Nanos) -> Vec<Extent> {
        Vec::new()
    }
}

fn discard(device: &File, offset: u64, len: u64) -> std::io::Result<()> {
    const BLKDISCARD: libc::c_ulong = 0x1277;
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two numbers of 64 bits, which live until it returns.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn virtual_ssd_returns_data_and_accounts_for_trims() {
    if !have_root() {
        return skip("root");
    }
    let geometry = Geometry {
        size: SIZE,
        logical_block: 4096,
        atomic_write: 4096,
        discard_granularity: 8192,
        discard_max_bytes: 16 << 20,
        volatile_cache: true,
    };
    let trim = TrimShape { ranges_max: 4, range_bytes_max: 4 << 20 };
    let interface = Interface {
        geometry,
        trim,
        queue_depth: 32,
        classify: false,
        trimmed_reads: TrimmedReads::Zeros,
    };
    let store = Store::in_memory(SIZE).unwrap();
    let drive = EngineDrive {
        model: Box::new(Quick),
        store,
        ledger: Ledger::new(SIZE, 4096),
        now: Nanos::ZERO,
    };
    let engine = Arc::new(Engine::new(drive, interface, Speed::REALTIME, None));
    let directory = tempfile::tempdir().unwrap();
    let pacer = Arc::new(Pacer::start().unwrap());
    let mounted = fuse::mount(engine.clone(), &pacer, "drive", directory.path()).unwrap();
    let path = directory.path().join("drive");
    let served = File::options().read(true).write(true).open(&path).unwrap();
    let identity = ObjectIdentity::of(&served).unwrap();
    let device = LoopDevice::attach(&served, &path, 4096).unwrap();
    drop(served);
    let missed = trimtab_vssd::block::tune(device, &geometry, MAX_REQUEST_BYTES);
    let queue = |name: &str| {
        std::fs::read_to_string(device.sysfs().join("queue").join(name)).unwrap().trim().to_owned()
    };
    let shown = [
        "logical_block_size",
        "rotational",
        "write_cache",
        "discard_granularity",
        "discard_max_bytes",
    ]
    .map(queue);

    let mut content = vec![0; SIZE as usize];
    DataClass::Random.fill(&mut Stream::new(1, "content"), &mut content);
    let node = File::options().read(true).write(true).open(device.path()).unwrap();
    node.write_all_at(&content, 0).unwrap();
    node.sync_all().unwrap();
    discard(&node, 1 << 20, 20 << 20).unwrap();
    discard(&node, 1 << 20, 20 << 20).unwrap();
    let users = device.users();
    drop(node);

    let mut back = vec![1; SIZE as usize];
    File::open(device.path()).unwrap().read_exact_at(&mut back, 0).unwrap();
    let another = ObjectIdentity { inode: identity.inode + 1, ..identity };
    assert_eq!(device.detach(another, true).unwrap(), DetachResult::Foreign, "not even by force");
    let detached = device.detach(identity, false).unwrap();
    rustix::mount::unmount(directory.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    let patience = Instant::now() + Duration::from_secs(10);
    while !mounted.is_finished() {
        assert!(Instant::now() < patience, "the threads that served it end with it");
        std::thread::sleep(Duration::from_millis(1));
    }

    assert_eq!(missed, Vec::<String>::new());
    assert_eq!(shown, ["4096", "0", "write back", "8192", "16777216"].map(str::to_owned));
    assert_eq!(users, Vec::<String>::new(), "this process does not count");
    assert_eq!(detached, DetachResult::Free);
    let trimmed = 1 << 20..21 << 20;
    assert!(back[trimmed.clone()].iter().all(|b| *b == 0), "trimmed space reads as zeros");
    assert!(
        back[..trimmed.start] == content[..trimmed.start]
            && back[trimmed.end..] == content[trimmed.end..]
    );
    let snapshot = engine.snapshot();
    let discards = snapshot.discards;
    assert_eq!(discards.ranges.asked.bytes.0, 40 << 20);
    assert_eq!(snapshot.counts.trim.bytes, 40 << 20);
    assert_eq!((discards.effective_bytes(), discards.repeated_bytes), (20 << 20, 20 << 20));
    assert_eq!(discards.amplification(), Some(2.0));
    assert!(snapshot.counts.flush.count >= 1, "fsync of the device is a flush of the drive");
}
