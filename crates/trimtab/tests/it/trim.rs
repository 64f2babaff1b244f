//! FITRIM and the discard option on real filesystems.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{BusyDevice, LoopMount, at_home, have_root, process, program, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_linux::session::discard_change::DiscardChange;
use trimtab_linux::session::discard_option::{DiscardOption, mount_of};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::trim::fitrim;
use trimtab_sim::op::Payload;
use trimtab_sim::target::FileTarget as _;
use trimtab_sim::target::TrimTarget as _;

#[test]
fn trim_discards_freed_space_as_the_device_counts() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let dir = rustix::fs::open(
            mount.path(),
            rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        assert_eq!(fitrim::obstacle(None, &dir), None, "{fs_type}");
        let mut target = MountedDir::new(DirTarget::new(dir, &mount.path(), DirOptions::default()));
        target.trim_all().unwrap();
        let free = || rustix::fs::statvfs(mount.path()).map(|s| s.f_bfree * s.f_frsize).unwrap();
        let free_before = free();
        target.create("file", &Payload::Fill { len: 32 << 20, class: DataClass::Random }).unwrap();
        target.sync().unwrap();
        target.delete("file").unwrap();
        target.sync().unwrap();
        // XFS frees blocks in the background and omits them from a trim until the log
        // records that, which on a busy machine happens after the sync.
        for _ in 0..100 {
            if free() + (4 << 20) >= free_before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        target.sync().unwrap();
        // ext4 frees blocks for a trim only when the commit's callback has run, which may
        // be after the sync.
        let mut trim = || {
            target.take_discards().unwrap();
            target.trim_all().unwrap().0
        };
        let mut outcome = trim();
        for _ in 0..50 {
            if outcome.counted.unwrap().bytes >= Bytes(32 << 20) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            outcome = trim();
        }
        assert!(outcome.counted.unwrap().bytes >= Bytes(32 << 20), "{fs_type}: {outcome:?}");
        assert_eq!(
            target.take_discards().map(|d| d.bytes),
            outcome.counted.map(|c| c.bytes),
            "{fs_type}"
        );
    }
}

#[test]
fn discard_option_change_keeps_other_mount_options() {
    for (fs_type, changes) in [("ext4", true), ("btrfs", true), ("xfs", false)] {
        let Some(mount) = LoopMount::new(fs_type, 512, "noatime,nodev,nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let options = || {
            let mount = mount_of(&mount.path()).unwrap();
            (mount.options, mount.fs_options)
        };
        let before = options();
        let wanted = DiscardOption::online(fs_type);
        match DiscardChange::set(&mount_of(&mount.path()).unwrap(), &wanted) {
            Ok(changed) => {
                assert!(changes, "{fs_type} is not known to change this while mounted");
                let now = mount_of(&mount.path()).unwrap();
                assert_eq!(DiscardOption::of(&now), wanted);
                assert!(now.has_option("noatime") && now.has_option("nodev"));
                changed.restore().unwrap();
            }
            Err(error) => {
                assert!(!changes && error.to_string().contains("ignored"), "{fs_type}: {error:#}")
            }
        }
        assert_eq!(options(), before, "{fs_type}");
    }
}

#[test]
fn discard_option_is_restored_after_a_panic() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let before = mount_of(&mount.path()).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let _changed = DiscardChange::set(&before, &DiscardOption::On).unwrap();
        assert_eq!(DiscardOption::of(&mount_of(&mount.path()).unwrap()), DiscardOption::On);
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert_eq!(mount_of(&mount.path()).unwrap().fs_options, before.fs_options);
}

/// A loop device counts the discards that it refuses.
#[test]
fn trim_of_a_read_only_device_is_blocked() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    mount.remount("ro");
    assert!(
        Command::new("blockdev").args(["--setro", &mount.device()]).status().unwrap().success()
    );
    let refused = trimtab().arg("trim").arg(mount.path()).assert().code(3).stdout("");
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("read-only") && said.lines().count() == 1, "{said}");
}

#[test]
fn dry_run_of_a_blocked_device_ends_as_the_trim_would() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let status = |args: &[&str]| {
        trimtab().arg("trim").args(args).arg(mount.path()).output().unwrap().status.code()
    };
    assert_eq!([status(&["--dry-run"]), status(&[])], [Some(0); 2]);
    let limit = format!(
        "/sys/block/{}/queue/discard_max_bytes",
        mount.device().trim_start_matches("/dev/")
    );
    fs::write(limit, "0").unwrap();
    assert_eq!([status(&["--dry-run"]), status(&[])], [Some(3); 2]);
}

/// The device is busy, and the policy observes it for a second: nothing is sent before the
/// interrupt.
#[test]
fn idle_trim_interrupted_before_a_request_sent_nothing() {
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let _busy = BusyDevice::new(&mount.device());
    let mut trim = process();
    trim.args(["trim", "--json", "--policy", "idle:patience=10h"]).arg(mount.path());
    let mut child = trim.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("free extents") {
        assert!(said.read_line(&mut line).unwrap() > 0, "{line}");
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &document["filesystems"][0];
    assert_eq!((&outcome["requests"], &outcome["sent_bytes"]), (&0.into(), &0.into()), "{outcome}");
    assert!(!outcome.to_string().contains("not count"), "{outcome}");
    assert!(outcome["delivery"].is_null(), "{outcome}");
}

#[test]
fn trim_on_a_crashed_virtual_ssd_is_not_proved() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let drive = Attached::new(&["sata-tlc-500gb", "--size", "2GiB", "--speed", "off"]);
    ok(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "nodiscard").unwrap();
    let pid = drive.status()["pid"].as_i64().unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let output =
        trimtab().args(["trim", "--json", "--no-sync"]).arg(mounted.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &document["filesystems"][0];
    assert_eq!((&outcome["delivery"], &outcome["requests"]), (&"not-proved".into(), &0.into()));
    assert_eq!(outcome["sent_bytes"], serde_json::Value::Null, "{outcome}");
}

/// Runs the program with `fstab` as /etc/fstab.
fn with_fstab(fstab: &Path, args: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            "mount --bind \"$0\" /etc/fstab && exec \"$@\"",
        ])
        .arg(fstab);
    at_home(command.arg(program()).args(args));
    assert_cmd::Command::from_std(command).assert()
}

#[test]
fn mount_point_of_fstab_that_is_not_mounted_is_refused() {
    let _guard = crate::support::makes_namespaces();
    let Some(mount) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    if !have(&["unshare"]) || !Path::new("/etc/fstab").is_file() {
        return skip("util-linux and /etc/fstab");
    }
    let (away, here) = (mount.path().join("away"), mount.path());
    fs::create_dir_all(away.join("below")).unwrap();
    let fstab = tempfile::NamedTempFile::new().unwrap();
    fs::write(fstab.path(), format!("/dev/nowhere {} ext4 noauto 0 0\n", away.display())).unwrap();
    let refused = format!("{} is in /etc/fstab but not mounted", away.display());
    for path in [away.clone(), away.join("below")] {
        let path = path.to_str().unwrap();
        for args in [
            &["trim", path][..],
            &["verify", path],
            &["study", "--quick", path],
            &["bench", "tree", path],
        ] {
            with_fstab(fstab.path(), args)
                .code(1)
                .stderr(contains(&refused).and(contains("; mount ")))
                .stdout("");
        }
        with_fstab(fstab.path(), &["history", path]).success().stderr(contains("is not mounted"));
    }
    with_fstab(fstab.path(), &["trim", "--dry-run", here.to_str().unwrap()]).success();
}

#[test]
fn trim_all_visits_match_fstrim_fstab() {
    let _guard = crate::support::makes_namespaces();
    let mounts: Option<Vec<LoopMount>> =
        (0..3).map(|_| LoopMount::new("ext4", 16, "nodiscard")).collect();
    let Some(mounts) = mounts else { return skip("root, loop devices and mkfs") };
    if !have(&["unshare", "fstrim", "blkid"]) || !Path::new("/etc/fstab").is_file() {
        return skip("util-linux and /etc/fstab");
    }
    let point = |at: usize| mounts[at].path().display().to_string();
    let device = |at: usize| mounts[at].device();
    let line = |at: usize, fs_type: &str, options: &str| {
        format!("{} {} {fs_type} {options} 0 0\n", device(at), point(at))
    };
    let probed = Command::new("blkid")
        .args(["--probe", "--match-tag", "UUID", "--output", "value", &device(0)])
        .output()
        .unwrap();
    let uuid = String::from_utf8(probed.stdout).unwrap();
    let tagged = |tag: &str, at: usize| format!("{tag} {} ext4 defaults 0 0\n", point(at));
    let fstab = tempfile::NamedTempFile::new().unwrap();
    let text = fstab.path().to_str().unwrap().to_owned();
    for table in [
        String::new(),
        line(0, "ext4", "defaults") + &line(1, "xfs", "noauto"),
        "\u{feff}".to_owned() + &line(0, "ext4", "defaults") + &line(1, "ext4", "defaults"),
        format!("{} {} none bind 0 0\n", point(0), point(1)) + &line(2, "ext4", "defaults"),
        line(0, "ext4", "ro")
            + &line(1, "ext4", "X-fstrim.notrim")
            + &line(2, "auto", "errors=remount-ro"),
        tagged(&format!("UUID={}", uuid.trim()), 0)
            + &tagged("UUID=no-such-uuid", 1)
            + &tagged("LABEL=no-such-label", 2),
        format!("{} {} ext4\n", device(1), point(0)) + &line(1, "ext4", "defaults"),
        format!("tmpfs {} tmpfs defaults 0 0\n{} none swap sw 0 0\n", point(0), device(1)),
    ] {
        fs::write(&text, &table).unwrap();
        let mut fstrim = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/fstab && fstrim --fstab --dry-run --verbose";
        let output = fstrim
            .args(["--mount", "--propagation", "private", "sh", "-c", script, &text])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let run = with_fstab(fstab.path(), &["trim", "--all", "--dry-run", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        for at in 0..mounts.len() {
            let is_visited = said.lines().any(|line| line.starts_with(&format!("{}: ", point(at))));
            let mut filesystems = document["filesystems"].as_array().unwrap().iter();
            assert_eq!(
                filesystems.any(|one| one["path"] == point(at).as_str()),
                is_visited,
                "{at}\n{table}\n{said}\n{document}"
            );
        }
    }
}

#[test]
fn trim_all_with_empty_fstab_reports_it() {
    let _guard = crate::support::makes_namespaces();
    if !have_root() || !have(&["unshare"]) || !Path::new("/etc/fstab").is_file() {
        return skip("root, util-linux and /etc/fstab");
    }
    let fstab = tempfile::NamedTempFile::new().unwrap();
    let run = with_fstab(fstab.path(), &["trim", "--all", "--dry-run"]);
    let said = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    // The root filesystem may be added from the kernel's command line.
    assert!(
        said.contains("lists no filesystem that can be trimmed") || said.contains("/ ["),
        "{said:?}"
    );
}

/// Relative paths of all files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let path = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path();
    let below = |path: std::path::PathBuf| {
        if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }
    };
    entries.map(path).flat_map(below).collect()
}

/// docs/method/trim.md lists what may remain.
#[test]
fn commands_leave_only_locks_and_records_behind() {
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let (runtime, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let command = |args: &[&str]| {
        let mut command = process();
        command
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .env("TRIMTAB_STATE_DIR", state.path())
            .args(args)
            .arg(mount.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let left = |expected: &[&str]| {
        let name = |path: &String| path.rsplit('/').next().unwrap().to_owned();
        let locks = files(runtime.path())
            .iter()
            .map(name)
            .filter(|name| !name.starts_with("lock-") && !name.starts_with("study-"))
            .collect::<Vec<_>>();
        assert!(locks.is_empty(), "{locks:?}");
        let mut kept: Vec<String> = files(state.path()).iter().map(name).collect();
        kept.iter_mut()
            .filter(|name| name.starts_with("trim-ext4-"))
            .for_each(|name| *name = "trim-ext4".to_owned());
        kept.sort();
        assert_eq!(kept, expected);
        let own: Vec<String> = files(&mount.path());
        assert!(own.is_empty(), "{own:?}");
    };
    for args in [
        &["verify", "--size", "2MiB", "--reserve", "0", "--yes"][..],
        &["bench", "tree", "--files", "60", "--size", "300kB", "--reserve", "0"],
    ] {
        command(args).status().unwrap();
        left(&[]);
    }
    // SIGTERM ends it while it observes the busy device, in a pass that is resumable only
    // once it has sent something.
    let busy = BusyDevice::new(&mount.device());
    let mut idle =
        command(&["trim", "--policy", "idle:patience=10h"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    while !line.contains("free extents") {
        assert!(
            BufReader::new(idle.stderr.as_mut().unwrap()).read_line(&mut line).unwrap() > 0,
            "{line}"
        );
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&idle),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(idle.wait().unwrap().code(), Some(130));
    drop(busy);
    left(&["history.db", "trim-ext4"]);
    assert!(command(&["trim", "--restart"]).status().unwrap().success());
    left(&["history.db"]);
}
