//! `trimtab verify`: the proof on honest devices, and on faulty drives.

use crate::support::{LoopMount, have_root, skip, trimtab};
use predicates::prelude::*;
use serde_json::Value;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_linux::trim::verify::extents::{self, MappedExtent};
use trimtab_linux::trim::verify::in_use;

fn verify(path: &Path, more: &[&str], code: i32) -> Value {
    let run = trimtab()
        .args(["verify", "--json", "--yes", "--reserve", "1MB", "--size", "4MiB"])
        .arg(path)
        .args(more)
        .assert()
        .code(code);
    let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(document["schema"], "trimtab.verify");
    assert_eq!(
        document["kept"]["written"],
        document["freed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        "as much was kept as freed"
    );
    document
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found")
}

#[test]
fn verify_of_freed_blocks_is_zeroed() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let proof = verify(&mount.path(), &[], 0);
        assert_eq!(proof["verdict"], "zeroed", "{fs_type}: {proof}");
        assert_eq!(proof["layers"][0]["arrived"], true, "{fs_type}");
        assert!(is_empty(&mount.path()), "{fs_type}: nothing is left behind");
    }
}

#[test]
fn verify_as_mounted_tests_the_discard_option() {
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let proof = verify(&mount.path(), &["--as-mounted", "--wait", "300ms"], 4);
    assert_eq!(proof["verdict"], "not-sent", "{proof}");
    let text = proof["text"].as_str().unwrap();
    assert!(
        text.contains(&format!("mount -o remount,discard {}", mount.path().display())),
        "{text}"
    );
    assert!(
        text.contains("says nothing about the drive") && !text.contains("never arrived"),
        "{text}"
    );
    mount.remount("discard");
    assert_eq!(verify(&mount.path(), &["--as-mounted", "--wait", "300ms"], 0)["verdict"], "zeroed");
}

#[test]
fn verify_of_async_discard_is_not_yet() {
    let Some(mount) = LoopMount::new("btrfs", 512, "discard=async") else {
        return skip("root, loop devices and mkfs");
    };
    let proof = verify(&mount.path(), &["--as-mounted", "--wait", "1s"], 4);
    assert_eq!(proof["verdict"], "not-yet", "{proof}");
    let text = proof["text"].as_str().unwrap();
    assert!(
        text.contains("nothing has been sent yet")
            && text.contains("--wait 3min")
            && !text.contains("never arrived"),
        "{text}"
    );
    // A trim does not wait for other I/O.
    assert_eq!(verify(&mount.path(), &[], 0)["verdict"], "zeroed");
}

/// A modelled drive with a fault, attached and formatted with ext4; detached on drop.
struct Liar {
    id: String,
    mount: tempfile::TempDir,
}

impl Liar {
    fn new(fault: &str) -> Option<Self> {
        if !have_root() || !Path::new("/dev/fuse").exists() {
            return None;
        }
        let id = format!("verify-{}-{}", std::process::id(), fault.replace([':', '='], "-"));
        let attach = trimtab()
            .args([
                "drive",
                "attach",
                "ocz-vertex-le-100gb",
                "--size",
                "256MiB",
                "--speed",
                "off",
                "--id",
                &id,
                "--fault",
                fault,
            ])
            .assert()
            .success();
        let device = String::from_utf8(attach.get_output().stdout.clone()).unwrap();
        let device = PathBuf::from(device.trim());
        let liar = Self { id, mount: tempfile::tempdir().unwrap() };
        let run = |program: &str, args: &[&str]| {
            let done = Command::new(program)
                .args(args)
                .arg(&device)
                .arg(liar.mount.path())
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        assert!(
            Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&device).status().unwrap().success()
        );
        run("mount", &[]);
        Some(liar)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.mount.path()).status();
        trimtab().args(["drive", "detach", &self.id]).assert().success();
    }
}

#[test]
fn verify_distinguishes_trim_faults() {
    let cases = [
        ("trim:ignore", "still-there", 4),
        ("trim:stale", "still-there", 4),
        ("trim:half", "partly", 4),
        ("trim:pattern=0xa5", "changed", 0),
        ("trim:pattern=0xff", "changed", 0),
    ];
    std::thread::scope(|scope| {
        for (fault, verdict, code) in cases {
            scope.spawn(move || {
                let Some(liar) = Liar::new(fault) else { return skip("root and FUSE") };
                let proof = verify(liar.mount.path(), &[], code);
                assert_eq!(proof["verdict"], verdict, "{fault}: {proof}");
                assert_eq!(proof["layers"][0]["arrived"], true, "{fault}: {proof}");
            });
        }
    });
}

#[test]
fn verify_bad_input_is_one_line() {
    let one_line = || predicate::str::contains("\n").count(1);
    trimtab()
        .args(["verify", "/no/such/path"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("/no/such/path").and(one_line()));
    trimtab()
        .args(["verify", "/tmp", "--size", "1kB"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("2MiB to 4GiB").and(one_line()));
    trimtab()
        .args(["verify", "/proc"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("not on a block device").and(one_line()));
}

#[test]
fn all_free_distinguishes_free_and_used_extents() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let table = trimtab_linux::session::discard_option::mount_of(&mount.path()).unwrap();
        let root = std::fs::File::open(mount.path()).unwrap();
        let free = |extents: &[MappedExtent]| in_use::all_free(&table, root.as_fd(), extents);
        let path = mount.path().join("file");
        std::fs::write(&path, vec![7; 3 << 20]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::syncfs(&root).unwrap();
        let extents = extents::of_file(&file).unwrap();
        assert!(extents.iter().map(|e| e.len).sum::<u64>() >= 3 << 20);
        assert_eq!(free(&extents), Some(false), "{fs_type}");
        // One block in the middle, and the last block together with the block behind it.
        let last = extents.last().unwrap();
        let block = |address| [MappedExtent { in_file: 0, address, len: 4096 }];
        assert_eq!(
            (
                free(&block(last.address + last.len / 2 / 4096 * 4096)),
                free(&block(last.address + last.len - 4096))
            ),
            (Some(false), Some(false))
        );
        assert_eq!(
            free(&[MappedExtent { len: 64 << 10, ..block(last.address + last.len - 4096)[0] }]),
            Some(false),
            "{fs_type}: only in part"
        );
        drop(file);
        std::fs::remove_file(&path).unwrap();
        // XFS frees in the background.
        let freed = (0..100).any(|_| {
            rustix::fs::syncfs(&root).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            free(&extents) == Some(true)
        });
        assert!(freed, "{fs_type}");
    }
}

/// Other processes write and delete all the time and reuse freed space at once. The
/// device is honest, so any verdict but these two would blame it for their writes.
#[test]
fn verify_under_foreground_io_never_blames_the_drive() {
    let tries =
        std::env::var("TRIMTAB_SOAK_TRIES").ok().and_then(|n| n.parse::<u32>().ok()).unwrap_or(2);
    for fs_type in ["xfs", "ext4"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (mut proved, mut unknown, mut again) = (0, 0, 0);
        std::thread::scope(|scope| {
            for worker in 0..2_u64 {
                let (path, stop) = (mount.path(), &stop);
                scope.spawn(move || {
                    let mut draw = trimtab_drive::rng::Stream::new(worker, "churn");
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let file = path.join(format!("churn-{worker}-{}", draw.below(40)));
                        match draw.below(3) {
                            0 => drop(std::fs::remove_file(file)),
                            _ => drop(
                                std::fs::write(&file, vec![3; draw.below(1 << 20) as usize])
                                    .and_then(|()| std::fs::File::open(&file)?.sync_all()),
                            ),
                        }
                    }
                });
            }
            for _ in 0..tries {
                let run = trimtab()
                    .args(["verify", "--json", "--yes", "--reserve", "1MB", "--size", "4MiB"])
                    .arg(mount.path())
                    .output()
                    .unwrap();
                let proof: Value = serde_json::from_slice(&run.stdout).unwrap_or_default();
                match proof["verdict"].as_str() {
                    Some("zeroed") => proved += 1,
                    Some("unknown") => unknown += 1,
                    other => {
                        stop.store(true, std::sync::atomic::Ordering::Relaxed);
                        panic!(
                            "{fs_type}: {other:?}: {proof} {}",
                            String::from_utf8_lossy(&run.stderr)
                        );
                    }
                }
                again += u32::from(proof["remarks"].to_string().contains("tried again"));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        println!(
            "verify on a busy {fs_type}: {tries} runs, {proved} proved, {again} of \
                them after another try, {unknown} unknown, the drive blamed in none"
        );
    }
}
