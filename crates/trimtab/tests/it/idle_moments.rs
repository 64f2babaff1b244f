//! What an idle trim takes for others and for a good moment, on real filesystems: by the kernel's own counters.

use crate::support::{LoopMount, run, skip};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use trimtab::host::Place;
use trimtab::host::root::Root;
use trimtab::host::stat::DiskStat;
use trimtab::trim::filesystem::{ByWhich, Filesystem};
use trimtab_core::policy::{Sizes, TrimRequest};
use trimtab_core::units::Bytes;

const FIRST: Sizes = Sizes { below: Bytes::MAX, round: 0, rounds: 2 };

/// What the kernel counts on the device below.
fn kernel(mount: &LoopMount) -> DiskStat {
    let root = Root::live().unwrap();
    let stack = Place::of_path(&root, &mount.path()).unwrap().stack;
    DiskStat::read(&root, &stack.top_layers().next().unwrap().sys).unwrap()
}

/// Mounted anew, so that nothing of it is in memory.
fn cold(fs_type: &str, options: &str) -> Option<LoopMount> {
    let mount = LoopMount::new(fs_type, 1024, "nodiscard")?;
    let path = mount.path();
    let path = path.to_str().unwrap();
    fs::write(mount.path().join("file"), vec![0x5a; 1 << 20]).unwrap();
    run("umount", &[path])?;
    run("mount", &["-o", options, &mount.device(), path])?;
    Some(mount)
}

#[test]
fn what_takes_long_to_find_out_is_sent_at_another_moment_and_once() {
    for fs_type in ["ext4", "xfs"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
        let mut fs = Filesystem::open(&mount.path()).unwrap();
        let request = TrimRequest { commands_max: 1, ..TrimRequest::whole(fs.layout().windows[0], Bytes::ZERO) };
        let before = kernel(&mount);
        let discards = || kernel(&mount).since(&before).discards.unwrap().count;
        let long_ago = Instant::now().checked_sub(Duration::from_millis(20)).unwrap();
        assert!(matches!(fs.trim_by_size(&request, FIRST, long_ago), Ok(ByWhich::PutOff)), "{fs_type}");
        assert_eq!(discards(), 0, "{fs_type}: the moment is over");
        // Not for ever: on a machine where each look takes longer than a moment nothing would be sent.
        let Ok(ByWhich::Size(sent)) = fs.trim_by_size(&request, FIRST, long_ago) else { panic!("{fs_type}: put off again") };
        assert_eq!((discards(), sent.outcome.counted.unwrap().count), (1, 1), "{fs_type}");
        let rest = sent.range.unwrap();
        let next = TrimRequest { window: fs.layout().windows[1], ..request };
        assert!(matches!(fs.trim_by_size(&next, FIRST, long_ago), Ok(ByWhich::PutOff)), "{fs_type}: another one after {rest:?}");
    }
}

#[test]
fn reading_where_space_is_free_is_no_use_by_others_and_reads_and_writes_of_others_are() {
    // The kernel would read them ahead by itself otherwise.
    for (fs_type, options) in [("ext4", "nodiscard,no_prefetch_block_bitmaps,noatime"), ("xfs", "nodiscard,noatime")] {
        let Some(mount) = cold(fs_type, options) else { return skip("root, loop devices and mkfs") };
        let mut fs = Filesystem::open(&mount.path()).unwrap();
        fs.look();
        let (requests, before) = (fs.look().requests.unwrap(), kernel(&mount));
        let window = fs.layout().windows[0];
        let request = TrimRequest { commands_max: 1, ..TrimRequest::whole(window, Bytes::ZERO) };
        assert!(fs.trim_by_size(&request, FIRST, Instant::now()).is_ok());
        let read = kernel(&mount).since(&before).reads;
        assert!(read > 0, "{fs_type}: nothing was read, and this test tries nothing");
        assert_eq!(fs.look().requests, Some(requests), "{fs_type}: {read} reads of its own");
        // Another thread's.
        let path = mount.path().join("file");
        std::thread::spawn(move || File::open(path).unwrap().read_exact(&mut [0; 4096]).unwrap()).join().unwrap();
        let after_read = fs.look().requests.unwrap();
        assert!(after_read > requests, "{fs_type}: a file was read");
        let mut file = File::options().append(true).open(mount.path().join("file")).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        file.sync_data().unwrap();
        assert!(fs.look().requests.unwrap() > after_read, "{fs_type}: a file was written");
    }
}

/// XFS writes its log before it trims, and counts that.
#[test]
fn a_log_that_a_trim_of_xfs_makes_it_write_is_no_use_by_others() {
    let Some(mount) = LoopMount::new("xfs", 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let mut fs = Filesystem::open(&mount.path()).unwrap();
    let window = fs.layout().windows[0];
    fs.trim(window, Bytes::ZERO).unwrap();
    fs.look();
    let (requests, before) = (fs.look().requests.unwrap(), kernel(&mount));
    // What is in memory of it has to be written first.
    fs::write(mount.path().join("new"), []).unwrap();
    fs.trim(window, Bytes::ZERO).unwrap();
    let written = kernel(&mount).since(&before).writes;
    assert!(written > 0, "no log was written, and this test tries nothing");
    assert_eq!(fs.look().requests, Some(requests), "{written} writes of its own");
}
