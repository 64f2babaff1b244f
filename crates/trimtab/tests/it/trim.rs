//! FITRIM and the discard option on real filesystems.

use crate::support::{LoopMount, skip};
use rustix::fd::AsFd as _;
use std::fs::File;
use std::time::Duration;
use trimtab::host::discards::Meter;
use trimtab::trim::discard_option::{Changed, Discard, mount_of};
use trimtab::trim::fitrim::{self, WHOLE};
use trimtab_core::units::Bytes;

#[test]
fn what_was_freed_is_discarded_and_the_device_counts_it() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else { return skip("root, loop devices and mkfs") };
        let dir = File::open(mount.path()).unwrap();
        assert_eq!(fitrim::obstacle(&dir), None, "{fs_type}");
        fitrim::fitrim(&dir, WHOLE, Bytes::ZERO).unwrap();
        std::fs::write(mount.path().join("file"), vec![7; 32 << 20]).unwrap();
        rustix::fs::syncfs(dir.as_fd()).unwrap();
        std::fs::remove_file(mount.path().join("file")).unwrap();
        rustix::fs::syncfs(dir.as_fd()).unwrap();
        let meter = Meter::start(&mount.path()).unwrap();
        let (outcome, settled) = fitrim::trim_all(&dir, Some(&meter), Duration::from_secs(10)).unwrap();
        assert!(settled.quiet, "{fs_type}");
        assert!(outcome.device_bytes.unwrap() >= Bytes(32 << 20), "{fs_type}: {outcome:?}");
    }
}

#[test]
fn the_discard_option_is_set_and_put_back_and_nothing_else_changes() {
    for (fs_type, changes) in [("ext4", true), ("btrfs", true), ("xfs", false)] {
        let Some(mount) = LoopMount::new(fs_type, 512, "noatime,nodev,nodiscard") else { return skip("root, loop devices and mkfs") };
        let options = || {
            let mount = mount_of(&mount.path()).unwrap();
            (mount.options, mount.fs_options)
        };
        let before = options();
        let wanted = Discard::online(fs_type);
        match Changed::set(&mount_of(&mount.path()).unwrap(), &wanted) {
            Ok(changed) => {
                assert!(changes, "{fs_type} is not known to change this while mounted");
                let now = mount_of(&mount.path()).unwrap();
                assert_eq!(Discard::of(&now), wanted);
                assert!(now.has_option("noatime") && now.has_option("nodev"));
                changed.restore().unwrap();
            }
            Err(error) => assert!(!changes && error.to_string().contains("ignored"), "{fs_type}: {error:#}"),
        }
        assert_eq!(options(), before, "{fs_type}");
    }
}

#[test]
fn the_option_is_put_back_after_a_panic() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let before = mount_of(&mount.path()).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let _changed = Changed::set(&before, &Discard::On).unwrap();
        assert_eq!(Discard::of(&mount_of(&mount.path()).unwrap()), Discard::On);
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert_eq!(mount_of(&mount.path()).unwrap().fs_options, before.fs_options);
}
