//! `trimtab trim` on real filesystems: complete, in windows, counted on the device,
//! resumable.

use crate::attached_drive::slow_trims;
use crate::support::{LoopMount, have_tool, process, run, skip, trimtab};
use predicates::prelude::*;
use rustix::fd::AsFd as _;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::Place;
use trimtab_linux::host::discards::Meter;
use trimtab_linux::host::root::Root;
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::fitrim;
use trimtab_linux::trim::limit::CommandLimit;
use trimtab_linux::trim::lock::DriveLocks;
use trimtab_sim::policy::TrimRequest;
use trimtab_sim::target::TrimWindow;

/// The whole filesystem, in one request.
const WHOLE: TrimWindow = TrimWindow { start: 0, len: u64::MAX };

const HOLE: usize = 16 << 10;

fn sync(path: &Path) {
    rustix::fs::syncfs(File::open(path).unwrap().as_fd()).unwrap();
}

/// Leaves `count` free extents of 16 KiB between files of the same size.
fn holes(path: &Path, count: usize) {
    let content = vec![0x5a; HOLE];
    let name = |i: usize| path.join(format!("{}/{i}", i / 1000));
    for i in 0..2 * count {
        if i % 1000 == 0 {
            fs::create_dir(path.join((i / 1000).to_string())).unwrap();
        }
        fs::write(name(i), &content).unwrap();
    }
    sync(path);
    (0..count).for_each(|i| fs::remove_file(name(2 * i)).unwrap());
    sync(path);
}

/// The discards and bytes that the device counts from the start of `action` until it is
/// quiet.
fn counted(path: &Path, action: impl FnOnce()) -> (u64, u64) {
    let meter = Meter::start(path).unwrap();
    action();
    let counted = fitrim::settle(&meter, Duration::from_secs(20)).counted.unwrap();
    (counted.count, counted.bytes.0)
}

fn trim(path: &Path, more: &[&str]) -> Value {
    let run = trimtab().args(["trim", "--json"]).arg(path).args(more).assert().success();
    let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(document["schema"], "trimtab.trim");
    document["filesystems"][0].clone()
}

fn free(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bfree * stat.f_frsize
}

#[test]
fn trim_of_xfs_sends_every_small_hole() {
    let count = 2000;
    let Some(mount) = LoopMount::new("xfs", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    holes(&mount.path(), count);
    let dir = File::open(mount.path()).unwrap();
    let plain = counted(&mount.path(), || {
        fitrim::fitrim(&dir, WHOLE, Bytes::ZERO).unwrap();
    });
    let mut outcome = Value::Null;
    let ours = counted(&mount.path(), || outcome = trim(&mount.path(), &[]));
    eprintln!(
        "plain FITRIM: {} commands, {} bytes; trimtab trim: {} commands, {} bytes",
        plain.0, plain.1, ours.0, ours.1
    );
    assert!(ours.0 >= count as u64, "{ours:?}");
    assert_eq!(
        ours,
        (outcome["sent_commands"].as_u64().unwrap(), outcome["sent_bytes"].as_u64().unwrap()),
        "the report is what the device counted"
    );
    assert!(ours.1 >= free(&mount.path()), "{ours:?} of {} free", free(&mount.path()));
    assert_eq!(outcome["complete"], true);
    // Small pieces too: an extent across two pieces is sent in two parts.
    let idle = counted(&mount.path(), || {
        trim(&mount.path(), &["--policy", "idle:complete=yes"]);
    });
    assert!(idle.1 >= ours.1 - (4 << 20), "{idle:?} after {ours:?}");
}

/// XFS returns from FITRIM while its discards are in flight, and Linux 6.18 counts those
/// on a partition there only.
#[test]
fn trim_of_xfs_partition_counts_what_the_kernel_does() {
    let Some(mount) = LoopMount::on_partition("xfs", 1024, "nodiscard") else {
        return skip("root, loop devices, addpart and mkfs");
    };
    let device = mount.device();
    let stat = format!("/sys/class/block/{}p1/stat", device.trim_start_matches("/dev/"));
    let kernel = || {
        // A device is quiet when its counters have not changed for half a second.
        let mut last = fs::read_to_string(&stat).unwrap();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = fs::read_to_string(&stat).unwrap();
            if now == last {
                break;
            }
            last = now;
        }
        last.split_whitespace().nth(13).unwrap().parse::<u64>().unwrap() * 512
    };
    for policy in ["now", "idle"] {
        for _ in 0..5 {
            let before = kernel();
            let outcome = trim(&mount.path(), &["--policy", policy]);
            let sent = kernel() - before;
            assert!(sent >= free(&mount.path()) / 10 * 9, "{policy}: the kernel counts {sent}");
            assert_eq!(outcome["sent_bytes"], sent, "{policy}");
        }
    }
}

#[test]
fn ext4_second_trim_sends_nothing() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    holes(&mount.path(), 2000);
    let first = counted(&mount.path(), || assert_eq!(trim(&mount.path(), &[])["complete"], true));
    assert!(first.0 >= 2000, "{first:?}");
    assert!(first.1 >= free(&mount.path()) / 100 * 98, "{first:?} of {}", free(&mount.path()));
    assert_eq!(
        counted(&mount.path(), || drop(trim(&mount.path(), &[]))),
        (0, 0),
        "every window set the kernel's mark"
    );
    assert_eq!(counted(&mount.path(), || drop(trim(&mount.path(), &["--policy", "idle"]))), (0, 0));
}

/// Regression: the report said "2.08 GB reached the drives" although 2.04 GB were free.
/// The report now names the bytes that the idle policy sends twice to measure a command's
/// cost. Apart from them it sends exactly what an immediate trim sends, as the device
/// counts.
#[test]
fn idle_trim_reports_bytes_sent_twice() {
    let Some(mount) = LoopMount::new("ext4", 1100, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let idle = trim(&mount.path(), &["--policy", "idle:complete=yes"]);
    // ext4 now marks all of it as trimmed until the next mount.
    let device = mount.device();
    run("umount", &[mount.path().to_str().unwrap()]).unwrap();
    run("mount", &["-o", "nodiscard", &device, mount.path().to_str().unwrap()]).unwrap();
    let now =
        counted(&mount.path(), || drop(run("fstrim", &[mount.path().to_str().unwrap()]).unwrap()));
    let bytes = |name: &str| idle[name].as_u64().unwrap();
    assert!(bytes("sent_twice_bytes") > 0, "this test tries nothing: {idle}");
    assert_eq!(bytes("sent_bytes") - bytes("sent_twice_bytes"), now.1, "{idle}");
    let remarks = idle["remarks"].to_string();
    assert!(remarks.contains("sent first to measure the cost of a command"), "{remarks}");
    assert_eq!(trim(&mount.path(), &["--restart"])["sent_twice_bytes"], 0);
}

/// The idle policy requests free extents from ext4 and XFS by size, one at a time. It
/// sends all free space, and ext4 then marks it as trimmed, as after fstrim. Space freed
/// later is not marked.
#[test]
fn ext4_trim_by_size_marks_groups_until_freed() {
    for fs_type in ["ext4", "xfs"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        marks_groups_until_freed(fs_type, &mount.path(), 500);
    }
    // Commands smaller than most extents.
    if let Some((_drive, mount)) = slow_trims("ext4", "1GiB", (0, 2000), &[]) {
        marks_groups_until_freed("ext4", mount.path(), 50);
    }
}

fn marks_groups_until_freed(fs_type: &str, path: &Path, count: usize) {
    let large = 24 << 20;
    let policy = ["--policy", "idle:complete=yes", "--sync"];
    fs::write(path.join("large"), vec![0x5a; large]).unwrap();
    holes(path, count);
    let idle = || counted(path, || drop(trim(path, &policy)));
    let fstrim = || counted(path, || drop(run("fstrim", &[path.to_str().unwrap()]).unwrap()));
    let first = idle();
    assert!(first.0 >= count as u64, "{fs_type}: {first:?}");
    assert!(
        first.1 >= free(path) / 100 * 97 && first.1 <= free(path) + (64 << 20),
        "{fs_type}: {first:?} of {}",
        free(path)
    );
    if fs_type == "ext4" {
        assert_eq!([idle(), fstrim()], [(0, 0); 2], "all groups are marked");
        fs::remove_file(path.join("large")).unwrap();
        let freed = idle();
        assert!(
            (large as u64..=((3 * 128) << 20)).contains(&freed.1),
            "what was freed, and no more than its groups: {freed:?}"
        );
        assert_eq!([idle(), fstrim()], [(0, 0); 2], "and these are marked again");
    }
}

/// The idle policy stops after some commands. It still sends each free extent once, on
/// filesystems that report the position of free extents.
#[test]
fn command_limit_ends_after_an_extent_without_loss() {
    for fs_type in ["ext4", "xfs"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let path = mount.path();
        holes(&path, 500);
        let mut fs = Filesystem::open(&path).unwrap();
        let windows = fs.layout().windows.clone();
        let (mut requests, mut most) = (0, 0);
        let all = counted(&path, || {
            for window in windows {
                let (mut from, end) = (window.start, window.start + window.len);
                while from < end {
                    let rest = TrimWindow { start: from, len: end - from };
                    let part = fs.first_commands(&TrimRequest {
                        commands_max: 7,
                        ..TrimRequest::whole(rest, Bytes::ZERO)
                    });
                    let outcome = fs.trim(part, Bytes::ZERO).unwrap().outcome;
                    assert_eq!((part.start, outcome.asked.0), (from, part.len));
                    assert!(part.len > 0 && part.len <= rest.len);
                    from += part.len;
                    requests += 1;
                    most = most.max(outcome.counted.unwrap().count);
                }
            }
        });
        // XFS splits at multiples of its discard unit, where the next request may begin.
        assert!(
            most <= 9 && requests > 500 / 9,
            "{fs_type}: {most} commands in one of {requests} requests"
        );
        assert!((500..600).contains(&all.0), "{fs_type}: {all:?}");
        assert!(
            all.1 >= free(&path) / 100 * 97 && all.1 <= free(&path) + (64 << 20),
            "{fs_type}: {all:?} of {}",
            free(&path)
        );
    }
}

/// The kernel keeps one minimum extent length for all of ext4 but a trimmed mark for each
/// group. A windowed pass with a smaller length would therefore count as complete after
/// its first window.
#[test]
fn smaller_min_extent_trims_all_of_ext4_again() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    holes(&mount.path(), 1500);
    let large = counted(&mount.path(), || drop(trim(&mount.path(), &["--min-extent", "1MiB"])));
    assert!(large.0 < 200, "holes of 16 KiB are left alone: {large:?}");
    let small = counted(&mount.path(), || drop(trim(&mount.path(), &[])));
    assert!(small.0 >= 1200, "{small:?}");
    assert_eq!(counted(&mount.path(), || drop(trim(&mount.path(), &[]))), (0, 0));
}

#[test]
fn btrfs_windows_follow_chunks_after_a_balance() {
    let Some(mount) = LoopMount::new("btrfs", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    let size = rustix::fs::statvfs(&path).map(|s| s.f_blocks * s.f_frsize).unwrap();
    let first_chunk = || Filesystem::open(&path).unwrap().layout().windows[0].start;
    // Each balance moves all chunks to new, higher addresses.
    for _ in 0..20 {
        let balance = std::process::Command::new("btrfs")
            .args(["balance", "start", "--full-balance"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(balance.status.success(), "{balance:?}");
        if first_chunk() > size {
            break;
        }
    }
    holes(&path, 1000);
    let dir = File::open(&path).unwrap();
    let whole = || {
        counted(&path, || {
            fitrim::fitrim(&dir, WHOLE, Bytes::ZERO).unwrap();
        })
    };
    // The first trim after a mount sends the space outside the chunks once, whatever its
    // range.
    whole();
    let whole = whole();
    // Other tools with windows use addresses from 0 to the size of the device.
    let by_size = counted(&path, || {
        let _ = fitrim::fitrim(
            &dir,
            trimtab_sim::target::TrimWindow { start: 0, len: size },
            Bytes::ZERO,
        );
    });
    let ours = counted(&path, || assert_eq!(trim(&path, &[])["complete"], true));
    eprintln!("one request {whole:?}, by device addresses {by_size:?}, trimtab trim {ours:?}");
    // Its own trees move a little with every commit.
    assert!(ours.1 + (1 << 20) >= whole.1, "{ours:?} of {whole:?}");
    assert!(ours.0 >= 1000, "the small holes are among them: {ours:?}");
    assert!(by_size.1 < ours.1 / 10, "{by_size:?} of {ours:?}");
}

/// The first request of a pass also sends the unallocated space. The policy once split it
/// into commands of 64 KiB.
#[test]
fn idle_trim_of_btrfs_sends_as_few_commands_as_fstrim() {
    let Some(mount) = LoopMount::new("btrfs", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let (path, device) = (mount.path(), mount.device());
    let fstrim = counted(&path, || drop(run("fstrim", &[path.to_str().unwrap()]).unwrap()));
    // btrfs sends that space once for each mount.
    run("umount", &[path.to_str().unwrap()]).unwrap();
    run("mount", &["-o", "nodiscard", &device, path.to_str().unwrap()]).unwrap();
    let idle = counted(&path, || drop(trim(&path, &["--policy", "idle"])));
    assert!(fstrim.1 > 512 << 20, "{fstrim:?}");
    assert!(idle.0 <= 2 * fstrim.0 && idle.1 >= fstrim.1 / 100 * 99, "{idle:?} for {fstrim:?}");
}

/// The deadline is over before anything is sent. The rest is then sent once.
#[test]
fn overdue_idle_trim_sends_each_extent_once() {
    for fs_type in ["xfs", "ext4"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let path = mount.path();
        holes(&path, 500);
        for within in ["1ms", "300ms"] {
            let late = ["--policy", "idle", "--finish-within", within, "--sync", "--restart"];
            let sent = counted(&path, || drop(trim(&path, &late)));
            let free = free(&path);
            eprintln!("{fs_type}, {within}: {sent:?} of {free} B free");
            assert!(sent.1 <= free + (64 << 20), "{fs_type}: {sent:?} of {free}");
            if fs_type == "xfs" || within == "1ms" {
                assert!(sent.1 >= free / 100 * 97, "{fs_type}: {sent:?} of {free}");
            }
        }
    }
}

#[test]
fn interrupted_trim_is_not_resumed_on_a_copy() {
    let Some((drive, mount)) = slow_trims("ext4", "512MiB", (200, 0), &[]) else { return };
    holes(mount.path(), 20);
    let state = tempfile::tempdir().unwrap();
    let mut child = process()
        .args(["trim", "--policy", "idle:complete=yes"])
        .arg(mount.path())
        .env("TRIMTAB_STATE_DIR", state.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let kept = || {
        fs::read_dir(state.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("json".as_ref()))
            .count()
    };
    let patience = std::time::Instant::now() + Duration::from_secs(240);
    while kept() == 0 {
        assert!(
            std::time::Instant::now() < patience && child.try_wait().unwrap().is_none(),
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // A byte copy with the same UUID, on another device.
    sync(mount.path());
    let copy = LoopMount::copy(&drive.device).unwrap();
    let trim = |path: &Path| {
        let run = trimtab()
            .args(["trim", "--json", "--policy", "idle:complete=yes"])
            .arg(path)
            .env("TRIMTAB_STATE_DIR", state.path())
            .assert();
        let document: Value = serde_json::from_slice(&run.success().get_output().stdout).unwrap();
        document["filesystems"][0].clone()
    };
    let of_copy = trim(&copy.path());
    assert_eq!(
        (of_copy["resumed"].clone(), of_copy["complete"].clone()),
        (false.into(), true.into()),
        "{of_copy}"
    );
    assert!(of_copy["sent_bytes"].as_u64().unwrap() >= free(&copy.path()) / 100 * 97, "{of_copy}");
    assert_eq!(trim(mount.path())["resumed"], true, "the pass itself is still there");
}

#[test]
fn interrupted_trim_resumes_with_the_remaining_windows() {
    let Some((_drive, mount)) = slow_trims("ext4", "2GiB", (200, 0), &[]) else { return };
    let path = mount.path();
    holes(path, 20);
    let meter = Meter::start(path).unwrap();
    let policy = ["--policy", "idle:complete=yes"];
    let mut child = process()
        .arg("trim")
        .args(policy)
        .arg(path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let patience = std::time::Instant::now() + Duration::from_secs(240);
    // A group is always sent as a whole.
    while meter.count().unwrap().bytes < Bytes(400_000_000) {
        assert!(
            std::time::Instant::now() < patience && child.try_wait().unwrap().is_none(),
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let other = trimtab().args(["trim", "--lock-wait", "0s"]).arg(path).assert();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "stopped in the middle");
    other.code(1).stderr(predicate::str::contains("is already being trimmed by process"));
    // The resumed pass skips space freed before its position, and the report says so.
    let rest = trim(path, &policy);
    assert!(rest["remarks"].to_string().contains("blocks freed since then"), "{rest}");
    assert_eq!(
        (rest["resumed"].as_bool(), rest["complete"].as_bool()),
        (Some(true), Some(true)),
        "{rest}"
    );
    // The group in which it stopped is sent again.
    assert!(rest["asked_bytes"].as_u64().unwrap() < (2 << 30) - 250_000_000, "{rest}");
    assert_eq!(trim(path, &policy)["resumed"], false);
}

#[test]
fn command_limit_is_lowered_and_restored() {
    let Some(mount) = LoopMount::new("xfs", 512, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let root = Root::live().unwrap();
    let stack = Place::of_path(&root, &mount.path()).unwrap().stack;
    let queue = stack.top_layers().next().unwrap().queue().join("discard_max_bytes");
    let limit = || fs::read_to_string(&queue).unwrap().trim().parse::<u64>().unwrap();
    let before = limit();
    let mut lowered = CommandLimit::of_stack(&root, &stack);
    lowered.set(Bytes(1 << 20)).unwrap();
    assert_eq!(limit(), 1 << 20);
    drop(lowered);
    assert!(limit() > before - 8192, "{} of {before}", limit());
    // As after a crash: only the next command restores the limit.
    let mut lowered = CommandLimit::of_stack(&root, &stack);
    lowered.set(Bytes(1 << 20)).unwrap();
    std::mem::forget(lowered);
    assert!(
        CommandLimit::of_stack(&root, &stack).recover().is_empty(),
        "nothing is said of one who lives"
    );
    assert!(limit() > before - 8192, "{} of {before}", limit());
}

#[test]
fn trim_dry_run_sends_nothing() {
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let sent = counted(&mount.path(), || {
        trimtab().args(["trim", "--dry-run"]).arg(mount.path()).assert().success().stdout(
            predicate::str::contains("32 requests, block groups of 8 MiB")
                .and(predicate::str::contains("proves nothing")),
        );
    });
    assert_eq!(sent, (0, 0));
}

#[test]
fn trim_and_verify_wait_for_the_drive_lock() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let run = tempfile::tempdir().unwrap();
    let stack = Place::of_path(&Root::live().unwrap(), &mount.path()).unwrap().stack;
    let start = |command: &str, wait: &str| {
        let mut process = process();
        process.args([command, "--lock-wait", wait]).args(if command == "verify" {
            ["--size=4MiB", "--reserve=1MiB"].as_slice()
        } else {
            &[]
        });
        process.arg(mount.path()).env("TRIMTAB_RUNTIME_DIR", run.path());
        process
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let said = |child: std::process::Child| {
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for command in ["trim", "verify"] {
        let locks = DriveLocks::take(&stack, run.path()).unwrap();
        let (code, text) = said(start(command, "0s"));
        assert!(code == Some(1) && text.contains("is already being trimmed by process"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("trimtab: ")).count(), 1, "{text}");
        // Stopped while it waits.
        let waiting = start(command, "1min");
        std::thread::sleep(Duration::from_millis(500));
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&waiting),
            rustix::process::Signal::INT,
        )
        .unwrap();
        let (code, text) = said(waiting);
        assert!(code == Some(130) && text.contains("waiting for up to 60"), "{code:?} {text}");
        let waiting = start(command, "1min");
        std::thread::sleep(Duration::from_millis(500));
        drop(locks);
        let (code, text) = said(waiting);
        assert!(
            code == Some(0) && text.contains(&format!("by process {}", std::process::id())),
            "{command}: {code:?} {text}"
        );
    }
}

#[test]
fn min_extent_above_a_group_is_refused_before_trim() {
    for (fs_type, mib, group) in [("ext4", 256, "8 MiB"), ("xfs", 512, "128 MiB")] {
        let Some(mount) = LoopMount::new(fs_type, mib, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let group = predicate::str::contains(format!("larger than an allocation group of {group}"));
        let one_line = predicate::str::contains("\n").count(1);
        trimtab()
            .args(["trim", "--min-extent", "1GiB"])
            .arg(mount.path())
            .assert()
            .code(2)
            .stdout("")
            .stderr(group.and(one_line));
        // About one group. XFS refuses this too, because it reserves some blocks in each
        // group.
        let most = if fs_type == "xfs" { "134217728" } else { "8388609" };
        let run = trimtab().args(["trim", "--min-extent", most]).arg(mount.path()).assert();
        let text = String::from_utf8(run.get_output().stderr.clone()).unwrap();
        assert_ne!(run.get_output().status.code(), Some(0), "{fs_type}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn trim_bad_input_is_one_line() {
    let one_line = || predicate::str::contains("\n").count(1);
    trimtab()
        .args(["trim", "/no/such/path"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("/no/such/path").and(one_line()));
    trimtab()
        .args(["trim", "/proc"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("not on a block device").and(one_line()));
    trimtab()
        .args(["trim", "/", "--policy", "adaptive"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--policy").and(one_line()));
    let nearest = predicate::str::contains("did you mean 'idle'?");
    trimtab()
        .args(["trim", "/", "--policy", "idel"])
        .assert()
        .code(2)
        .stderr(nearest.and(one_line()));
    let no_settings = predicate::str::contains("policy 'now' takes no settings");
    trimtab()
        .args(["trim", "/", "--policy", "now:x=1"])
        .assert()
        .code(2)
        .stderr(no_settings.and(one_line()));
    // The hint never contradicts the report.
    let hint = |policy: &str, code| {
        let run = trimtab().args(["trim", "/no/such/path", "--policy", policy]).assert().code(code);
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    };
    for policy in ["foo", "onlin", "none", "batched"] {
        let said = hint(policy, 2);
        assert!(
            said.contains("use now, or idle with settings") && !said.contains("known policies"),
            "{said}"
        );
        assert!(!said.contains("did you mean"), "{said}");
    }
    assert!(!hint("idle:x=5", 2).contains("use now"), "idle was named");
    trimtab()
        .args(["trim", "/", "--policy", "idle:budget=5"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("budget").and(one_line()));
    trimtab().args(["trim"]).assert().code(2);
}

/// Discards of the filesystem itself that are in flight when a trim begins are counted
/// with it, without an error.
#[test]
fn online_discards_in_flight_are_no_trim_errors() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    let content = vec![0x5a; 8 << 20];
    for round in 0..3 {
        (0..60).for_each(|i| fs::write(path.join(i.to_string()), &content).unwrap());
        sync(&path);
        mount.remount("discard");
        (0..60).for_each(|i| fs::remove_file(path.join(i.to_string())).unwrap());
        sync(&path);
        mount.remount("nodiscard");
        let outcome = trim(&path, &[]);
        assert!(
            outcome["complete"] == true && outcome["refused"].as_array().unwrap().is_empty(),
            "{round}: {outcome}"
        );
    }
}

#[test]
fn trim_dry_run_estimates_bytes_sent() {
    for fs_type in ["ext4", "xfs"] {
        for args in [&[][..], &["--min-extent", "64KiB"]] {
            let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
                return skip("root, loop devices and mkfs");
            };
            holes(&mount.path(), 1000);
            let dry = trim(&mount.path(), &[args, &["--dry-run"]].concat());
            let said = dry["would_send"]["bytes"].as_f64().unwrap();
            // ext4 does not reveal which groups it marks as trimmed, only whether
            // anything was trimmed at all.
            assert_eq!(dry["would_send"]["at_most"], false, "{fs_type}");
            let sent = trim(&mount.path(), args)["sent_bytes"].as_f64().unwrap();
            assert!(
                (said - sent).abs() <= 0.02 * sent && sent > 1e8,
                "{fs_type} {args:?}: {said} said, {sent} sent"
            );
            // ext4 now skips groups, unless the request has a smaller minimum length than
            // before. XFS sends everything each time.
            let at_most = |args: &[&str]| {
                trim(&mount.path(), &[args, &["--dry-run"]].concat())["would_send"]["at_most"]
                    .clone()
            };
            assert_eq!(at_most(args), fs_type == "ext4");
            assert_eq!(at_most(&[]), fs_type == "ext4" && args != ["--min-extent", "64KiB"]);
        }
    }
    let Some(mount) = LoopMount::new("btrfs", 512, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    assert!(trim(&mount.path(), &["--dry-run"])["would_send"].is_null());
}

/// A filesystem treats deleted data as free only after a commit; a trim before the commit
/// sends none of it.
#[test]
fn trim_syncs_and_sends_just_deleted_data() {
    let (files, size) = (40, 4 << 20);
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let path = mount.path();
        let content = vec![0x5a; size];
        let delete = || {
            (0..files).for_each(|i| fs::write(path.join(i.to_string()), &content).unwrap());
            sync(&path);
            trim(&path, &[]);
            (0..files).for_each(|i| fs::remove_file(path.join(i.to_string())).unwrap());
        };
        let sent = |args: &[&str]| {
            let mut outcome = Value::Null;
            let counted = counted(&path, || outcome = trim(&path, args));
            assert_eq!(outcome["sent_bytes"], counted.1, "{fs_type}");
            (counted.1, outcome)
        };
        delete();
        let dry = trim(&path, &["--dry-run"])["would_send"]["bytes"].as_u64();
        let (bytes, outcome) = sent(&[]);
        assert!(
            bytes >= (files * size) as u64,
            "{fs_type}: {bytes} of what was deleted: {outcome}"
        );
        // btrfs lists more space as free than it allows to be trimmed; XFS sends
        // everything each time.
        assert!(
            fs_type == "btrfs" || bytes >= free(&path) / 100 * 97 || fs_type == "ext4",
            "{fs_type}: {outcome}"
        );
        assert!(outcome["sync_seconds"].as_f64().unwrap() >= 0.0);
        assert!(
            fs_type != "xfs" || dry.unwrap().abs_diff(bytes) < bytes / 50,
            "a dry run syncs as well: {dry:?} {bytes}"
        );
        if fs_type != "ext4" {
            continue;
        }
        // ext4 commits every five seconds, too late to affect either of these.
        for args in [&["--no-sync"][..], &["--policy", "idle:complete=yes"]] {
            delete();
            let (bytes, outcome) = sent(args);
            assert!(
                bytes < (files * size) as u64 / 2 && outcome["sync_seconds"].is_null(),
                "{outcome}"
            );
            assert!(outcome["remarks"].to_string().contains("not synced first"), "{outcome}");
            assert!(sent(&["--policy", "idle", "--sync"]).0 >= (files * size) as u64 / 2);
        }
    }
}

/// fstrim is the reference: without a sync it sends none of the deleted data, and all of
/// it afterwards.
#[test]
fn fstrim_skips_just_deleted_data_until_a_sync() {
    if !have_tool("fstrim") {
        return skip("fstrim");
    }
    let Some(mount) = LoopMount::new("ext4", 512, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    let fstrim = || counted(&path, || drop(run("fstrim", &[path.to_str().unwrap()]).unwrap())).1;
    fs::write(path.join("file"), vec![0x5a; 64 << 20]).unwrap();
    sync(&path);
    fstrim();
    fs::remove_file(path.join("file")).unwrap();
    assert_eq!(fstrim(), 0);
    sync(&path);
    assert!(fstrim() >= 64 << 20);
}

#[test]
fn trim_refuses_a_file_and_accepts_a_directory() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    fs::write(path.join("file"), "x").unwrap();
    fs::create_dir(path.join("directory")).unwrap();
    let sent = counted(&path, || {
        let one_line = || {
            predicate::str::contains("not a directory").and(predicate::str::contains("\n").count(1))
        };
        trimtab().arg("trim").arg(path.join("file")).assert().code(1).stdout("").stderr(one_line());
    });
    assert_eq!(sent, (0, 0));
    // A path that cannot be trimmed does not stop the others, and the report gives its
    // status.
    let bad = [Path::new(&mount.device()).to_owned(), "/nowhere".into(), "/proc".into()];
    let run = trimtab()
        .args(["trim", "--json"])
        .args(&bad)
        .arg(&path)
        .arg(path.join("directory"))
        .assert()
        .code(1);
    let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(document["filesystems"][0]["path"], path.to_str().unwrap());
    assert!(document["filesystems"][0]["sent_bytes"].as_u64() > Some(0), "{document}");
    let paths = |what: &str| {
        document[what].as_array().unwrap().iter().map(|one| one["path"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(paths("failed").len(), bad.len(), "{document}");
    assert_eq!(paths("passed_by"), [path.join("directory").to_str().unwrap()]);
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert_eq!(said.lines().count(), bad.len(), "{said}");
    for more in [&["--dry-run"][..], &[]] {
        let run = trimtab().arg("trim").arg(path.join("directory")).args(more).assert().success();
        let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
        let first = format!(
            "is on the filesystem mounted at {}: the whole filesystem is trimmed",
            path.display()
        );
        assert!(text.lines().next().unwrap().contains(&first), "{text}");
        let plain = trimtab().arg("trim").arg(&path).args(more).assert().success();
        assert!(
            !String::from_utf8_lossy(&plain.get_output().stdout).contains("the whole filesystem")
        );
    }
}

#[test]
fn doctor_trim_and_verify_end_with_the_same_status() {
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let verify = ["verify", "--yes", "--reserve=1MB", "--size=4MiB"];
    let statuses = || -> Vec<Option<i32>> {
        let commands: [&[&str]; 3] = [&["doctor"], &["trim"], &verify];
        commands
            .map(|args| trimtab().args(args).arg(mount.path()).assert().get_output().status.code())
            .to_vec()
    };
    assert_eq!(statuses(), [Some(0); 3]);
    let stack = Place::of_path(&Root::live().unwrap(), &mount.path()).unwrap().stack;
    fs::write(stack.top_layers().next().unwrap().queue().join("discard_max_bytes"), "0").unwrap();
    assert_eq!(statuses(), [Some(3); 3]);
    let why = predicate::str::contains("TRIM is blocked at")
        .and(predicate::str::contains("switched off"));
    trimtab()
        .arg("trim")
        .arg(mount.path())
        .assert()
        .code(3)
        .stdout("")
        .stderr(why.and(predicate::str::contains("\n").count(1)));
}
