//! The idle policy's choice of moments and its cost to foreground I/O on real
//! filesystems, by the kernel's counters.

use crate::attached_drive::slow_trims;
use crate::support::{LoopMount, process, run, skip, trimtab};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_linux::host::Place;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;
use trimtab_linux::trim::filesystem::{Filesystem, SizeRequestResult};
use trimtab_sim::policy::{ExtentSizeClasses, TrimRequest};
use trimtab_sim::target::TrimWindow;

const FIRST: ExtentSizeClasses = ExtentSizeClasses { below: Bytes::MAX, round: 0, rounds: 2 };

/// The kernel's counters of the device below.
fn kernel(mount: &LoopMount) -> DiskStat {
    let root = Root::live().unwrap();
    let stack = Place::of_path(&root, &mount.path()).unwrap().stack;
    DiskStat::read(&root, &stack.top_layers().next().unwrap().sys).unwrap()
}

/// Remounts the filesystem, so that none of its metadata is cached.
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
fn request_after_slow_free_space_lookup_is_put_off_once() {
    for fs_type in ["ext4", "xfs"] {
        let Some(mount) = LoopMount::new(fs_type, 1024, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let mut fs = Filesystem::open(&mount.path()).unwrap();
        let request = TrimRequest {
            commands_max: 1,
            ..TrimRequest::whole(fs.layout().windows[0], Bytes::ZERO)
        };
        let before = kernel(&mount);
        let discards = || kernel(&mount).since(&before).discards.unwrap().count;
        let long_ago = Instant::now().checked_sub(Duration::from_millis(20)).unwrap();
        assert!(
            matches!(fs.trim_by_size(&request, FIRST, long_ago), Ok(SizeRequestResult::PutOff)),
            "{fs_type}"
        );
        assert_eq!(discards(), 0, "{fs_type}: the moment is over");
        // The wait is limited: on a machine where each poll takes longer than the moment,
        // the pass would never send anything.
        let Ok(SizeRequestResult::Size(sent)) = fs.trim_by_size(&request, FIRST, long_ago) else {
            panic!("{fs_type}: put off again")
        };
        assert_eq!((discards(), sent.outcome.counted.unwrap().count), (1, 1), "{fs_type}");
        let rest = sent.range.unwrap();
        let next = TrimRequest { window: fs.layout().windows[1], ..request };
        assert!(
            matches!(fs.trim_by_size(&next, FIRST, long_ago), Ok(SizeRequestResult::PutOff)),
            "{fs_type}: another one after {rest:?}"
        );
    }
}

/// A change of the command-size limit stops the queue for some 20 ms, and I/O behind the
/// first of two consecutive commands waits for both. ext4 discards an extent that begins
/// in the range up to its own end.
#[test]
fn xfs_long_extent_is_requested_in_parts() {
    let Some(mount) = LoopMount::new("xfs", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let mut fs = Filesystem::open(&mount.path()).unwrap();
    let limit = fs::read(limit_of(&mount)).unwrap();
    let (window, all) = (fs.layout().windows[0], kernel(&mount));
    let sizes = ExtentSizeClasses { rounds: 1, ..FIRST };
    let (mut from, end) = (window.start, window.start + window.len);
    while from < end {
        let before = kernel(&mount);
        let rest = TrimWindow { start: from, len: end - from };
        let request = TrimRequest {
            commands_max: 1,
            command_max: Bytes(3 << 20),
            ..TrimRequest::whole(rest, Bytes::ZERO)
        };
        let Ok(SizeRequestResult::Size(sent)) = fs.trim_by_size(&request, sizes, Instant::now())
        else {
            continue;
        };
        let discards = kernel(&mount).since(&before).discards.unwrap();
        assert!(discards.count <= 1 && discards.bytes.0 <= 3 << 20, "from {from}: {discards:?}");
        assert_eq!(fs::read(limit_of(&mount)).unwrap(), limit);
        from += sent.outcome.asked.0;
    }
    let sent = kernel(&mount).since(&all).discards.unwrap();
    assert!(sent.count >= 20, "{sent:?}");
    let range = [window.start, window.len].map(|number| number.to_string());
    // XFS skips an extent that is still busy with the previous discard until a worker has
    // processed its completion. The full trim is therefore repeated until no extent is
    // busy.
    let mut again = Bytes::ZERO;
    let is_all = |again: Bytes| again.0.abs_diff(sent.bytes.0) <= 64 << 10;
    for _ in 0..50 {
        let before = kernel(&mount);
        run("fstrim", &["-o", &range[0], "-l", &range[1], mount.path().to_str().unwrap()]).unwrap();
        again = kernel(&mount).since(&before).discards.unwrap().bytes;
        if is_all(again) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(is_all(again), "{again} by fstrim, {} in parts", sent.bytes);
}

#[test]
fn own_metadata_reads_are_not_foreground_io() {
    // Without these options the kernel would read the bitmaps ahead.
    for (fs_type, options) in
        [("ext4", "nodiscard,no_prefetch_block_bitmaps,noatime"), ("xfs", "nodiscard,noatime")]
    {
        let Some(mount) = cold(fs_type, options) else {
            return skip("root, loop devices and mkfs");
        };
        let mut fs = Filesystem::open(&mount.path()).unwrap();
        fs.look();
        let (requests, before) = (fs.look().requests.unwrap(), kernel(&mount));
        let window = fs.layout().windows[0];
        let request = TrimRequest { commands_max: 1, ..TrimRequest::whole(window, Bytes::ZERO) };
        assert!(fs.trim_by_size(&request, FIRST, Instant::now()).is_ok());
        let read = kernel(&mount).since(&before).reads;
        assert!(read > 0, "{fs_type}: nothing was read, and this test tries nothing");
        assert_eq!(fs.look().requests, Some(requests), "{fs_type}: {read} reads of its own");
        // I/O of another thread.
        let path = mount.path().join("file");
        std::thread::spawn(move || File::open(path).unwrap().read_exact(&mut [0; 4096]).unwrap())
            .join()
            .unwrap();
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
fn xfs_log_write_by_trim_is_not_foreground_io() {
    let Some(mount) = LoopMount::new("xfs", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let mut fs = Filesystem::open(&mount.path()).unwrap();
    let window = fs.layout().windows[0];
    fs.trim(window, Bytes::ZERO).unwrap();
    fs.look();
    let (requests, before) = (fs.look().requests.unwrap(), kernel(&mount));
    // Dirty metadata must be written first.
    fs::write(mount.path().join("new"), []).unwrap();
    fs.trim(window, Bytes::ZERO).unwrap();
    let written = kernel(&mount).since(&before).writes;
    assert!(written > 0, "no log was written, and this test tries nothing");
    assert_eq!(fs.look().requests, Some(requests), "{written} writes of its own");
}

/// Regression: in a container without a writable /sys a note of a limit remained although
/// the limit was never lowered. The next command took it for the note of a killed
/// process.
#[test]
fn trim_with_readonly_sys_leaves_no_limit_note() {
    let _guard = crate::support::makes_namespaces();
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let runtime = tempfile::tempdir().unwrap();
    let script = "mount -o remount,bind,ro /sys && exec \"$@\"";
    let ran = in_namespace(script, &mount.path())
        .env("TRIMTAB_RUNTIME_DIR", runtime.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let mut left = Vec::new();
    walk(runtime.path(), &mut left);
    assert!(!left.iter().any(|file| file.contains("limit-")), "{left:?}");
}

/// Regression: `/proc/PID/root/PATH` trimmed the filesystem at that path in this
/// namespace.
#[test]
fn trim_refuses_path_in_another_mount_namespace() {
    let _guard = crate::support::makes_namespaces();
    let (Some(mount), Some(other)) =
        (LoopMount::new("ext4", 256, "nodiscard"), LoopMount::new("ext4", 256, "nodiscard"))
    else {
        return skip("root, loop devices and mkfs");
    };
    let inside = mount.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let mut namespace = std::process::Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            "mount --bind \"$1\" \"$2\" && echo mounted && exec cat",
            "sh",
        ])
        .args([other.path(), inside.clone()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 8];
    namespace.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let path = std::path::PathBuf::from(format!("/proc/{}/root", namespace.id()))
        .join(inside.strip_prefix("/").unwrap());
    let before = [&mount, &other].map(kernel);
    let said: Vec<String> = [&["trim"][..], &["trim", "--dry-run"], &["verify", "--yes"]]
        .map(|command| {
            let run = trimtab().args(command).arg(&path).assert().failure();
            String::from_utf8_lossy(&run.get_output().stderr).into_owned()
        })
        .to_vec();
    let sent = [&mount, &other]
        .map(kernel)
        .into_iter()
        .zip(before)
        .map(|(now, then)| now.since(&then).discards.unwrap().count);
    assert_eq!(sent.sum::<u64>(), 0);
    drop(namespace.stdin.take());
    namespace.wait().unwrap();
    assert!(said.iter().all(|said| said.lines().count() == 1), "{said:?}");
    assert!(said[0].contains("mount namespace") && said[1].contains("mount namespace"), "{said:?}");
}

/// `timeout` signals its child, then the child's process group. Both count as one
/// request.
#[test]
fn idle_trim_stops_once_for_two_sigterms() {
    let Some((drive, mount)) = slow_trims("ext4", "4GiB", (300, 0), &[]) else { return };
    let node = drive.device.file_name().unwrap().to_str().unwrap();
    let limit_of_device = format!("/sys/block/{node}/queue/discard_max_bytes");
    let limit = fs::read_to_string(&limit_of_device).unwrap();
    for _ in 0..3 {
        let mut command = process();
        command.args(["trim", "--policy", "idle", "--restart"]).arg(mount.path());
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait().unwrap().is_none(), "it was over before");
        let pid = rustix::process::Pid::from_child(&child);
        assert!(
            rustix::process::getpriority_process(Some(pid)).unwrap() >= 10,
            "it leaves the processors to others, as the services do"
        );
        (0..2).for_each(|_| {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap()
        });
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        assert!(
            String::from_utf8_lossy(&ended.stdout).contains("ext4"),
            "what was done is said: {ended:?}"
        );
        assert_eq!(fs::read_to_string(&limit_of_device).unwrap(), limit);
    }
}

fn limit_of(mount: &LoopMount) -> String {
    format!("/sys/block/{}/queue/discard_max_bytes", mount.device().trim_start_matches("/dev/"))
}

/// An idle trim of `path` after `script`, in a private mount namespace.
fn in_namespace(script: &str, path: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(crate::support::program());
    command.args(["trim", "--policy", "idle"]).arg(path);
    crate::support::at_home(&mut command);
    command
}

/// Collects all paths below a directory.
fn walk(directory: &std::path::Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        found.push(entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        }
    }
}
