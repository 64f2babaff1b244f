//! FITRIM and the discard option on real filesystems.

use crate::support::{LoopMount, skip, trimtab};
use std::process::Command;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_linux::session::discard_option::{Changed, Discard, mount_of};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::trim::fitrim;
use trimtab_sim::op::Payload;
use trimtab_sim::target::FileTarget as _;
use trimtab_sim::target::Trimmable as _;

#[test]
fn what_was_freed_is_discarded_and_the_device_counts_it() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else { return skip("root, loop devices and mkfs") };
        let dir = rustix::fs::open(mount.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        assert_eq!(fitrim::obstacle(None, &dir), None, "{fs_type}");
        let mut target = MountedDir::new(DirTarget::new(dir, &mount.path(), DirOptions::default()));
        target.trim_all().unwrap();
        let free = || rustix::fs::statvfs(mount.path()).map(|s| s.f_bfree * s.f_frsize).unwrap();
        let free_before = free();
        target.create("file", &Payload::Fill { len: 32 << 20, class: DataClass::Random }).unwrap();
        target.sync().unwrap();
        target.delete("file").unwrap();
        target.sync().unwrap();
        // XFS frees the blocks in the background, and leaves them out of a trim until the log has that: on a busy machine after the sync.
        for _ in 0..100 {
            if free() + (4 << 20) >= free_before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        target.sync().unwrap();
        target.take_discards().unwrap();
        let (outcome, _) = target.trim_all().unwrap();
        assert!(outcome.counted.unwrap().bytes >= Bytes(32 << 20), "{fs_type}: {outcome:?}");
        assert_eq!(target.take_discards().map(|d| d.bytes), outcome.counted.map(|c| c.bytes), "{fs_type}");
    }
}

#[test]
fn discard_option_is_set_and_restored_alone() {
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

/// A loop device counts the discards that it refuses.
#[test]
fn trim_of_a_read_only_device_is_blocked() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else { return skip("root, loop devices and mkfs") };
    mount.remount("ro");
    assert!(Command::new("blockdev").args(["--setro", &mount.device()]).status().unwrap().success());
    let refused = trimtab().arg("trim").arg(mount.path()).assert().code(3).stdout("");
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("read-only") && said.lines().count() == 1, "{said}");
}
