//! Attached drives under filesystems and benchmarks, across reattachment, after crashes,
//! and with invalid input.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{self, LoopMount, at_home, have_root, program, skip, trimtab};
use predicates::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;

/// A drive small enough for quick tests.
const SMALL: [&str; 5] = ["ocz-vertex-le-100gb", "--size", "1GiB", "--speed", "off"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().copied().chain(more.iter().copied()).collect()
}

/// A filesystem, its mkfs and fsck commands, and its discard mount option.
struct Kind {
    make: &'static [&'static str],
    check: &'static [&'static str],
    online: &'static str,
}

const EXT4: Kind =
    Kind { make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-fn"], online: "discard" };
const XFS: Kind =
    Kind { make: &["mkfs.xfs", "-q", "-f"], check: &["xfs_repair", "-n"], online: "discard" };
const BTRFS: Kind = Kind {
    make: &["mkfs.btrfs", "-q", "-f"],
    check: &["btrfs", "check", "--readonly"],
    online: "discard=sync",
};

fn run(words: &[&str], path: &Path) {
    ok(Command::new(words[0]).args(&words[1..]).arg(path));
}

/// Creates files whose content follows from their names.
fn fill(directory: &Path, files: std::ops::Range<u64>) {
    for n in files {
        std::fs::write(directory.join(n.to_string()), content(n)).unwrap();
    }
}

fn content(n: u64) -> Vec<u8> {
    let mut content = vec![0; 200_000 + n as usize * 7919];
    DataClass::Random.fill(&mut Stream::new(n, "content"), &mut content);
    content
}

fn verify(directory: &Path, files: std::ops::Range<u64>) {
    for n in files {
        assert!(
            std::fs::read(directory.join(n.to_string())).unwrap() == content(n),
            "file {n} has changed"
        );
    }
}

fn effective(drive: &Attached) -> u64 {
    drive.status()["discards"]["effective_bytes"].as_u64().unwrap()
}

fn lives_on_it(kind: &Kind, online: bool) {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("disk");
    let args = with(&["--data", data.to_str().unwrap()]);
    let drive = Attached::new(&args);
    run(kind.make, &drive.device);
    let mounted =
        Mounted::new(&drive.device, if online { kind.online } else { "noatime" }).unwrap();
    fill(mounted.path(), 0..80);
    ok(Command::new("sync").arg("--file-system").arg(mounted.path()));
    let before = effective(&drive);
    for n in 40..80 {
        std::fs::remove_file(mounted.path().join(n.to_string())).unwrap();
    }
    ok(Command::new("sync").arg("--file-system").arg(mounted.path()));
    let deleted: u64 = (40..80).map(|n| 200_000 + n * 7919).sum();
    if !online {
        assert_eq!(effective(&drive), before, "nobody trims without being told to");
    }
    // The filesystem discards freed extents only after the journal commit. XFS frees
    // deleted extents in the background, even after a sync.
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let action: &[&str] = if online { &["sync", "--file-system"] } else { &["fstrim"] };
        run(action, mounted.path());
        if effective(&drive) - before >= deleted * 9 / 10 || Instant::now() > patience {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let freed = effective(&drive) - before;
    assert!(freed >= deleted * 9 / 10, "{freed} of {deleted} bytes were trimmed");
    verify(mounted.path(), 0..40);
    mounted.unmount();
    run(kind.check, &drive.device);
    drive.detach();

    let drive = Attached::new(&[&args[..], &["--adopt"]].concat());
    run(kind.check, &drive.device);
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    verify(mounted.path(), 0..40);
    mounted.unmount();
}

#[test]
fn attached_drive_keeps_ext4_files_and_receives_trims() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    lives_on_it(&EXT4, false);
    lives_on_it(&EXT4, true);
}

#[test]
fn attached_drive_keeps_xfs_files_and_receives_trims() {
    if !have_root() || !have(&["mkfs.xfs"]) {
        return skip("root and xfsprogs");
    }
    lives_on_it(&XFS, false);
    lives_on_it(&XFS, true);
}

#[test]
fn attached_drive_keeps_btrfs_files_and_receives_trims() {
    if !have_root() || !have(&["mkfs.btrfs"]) {
        return skip("root and btrfs-progs");
    }
    lives_on_it(&BTRFS, false);
    lives_on_it(&BTRFS, true);
}

/// fio options that write the whole drive and verify it.
const VERIFY: [&str; 10] = [
    "--name=verify",
    "--rw=randrw",
    "--bsrange=4k-128k",
    "--iodepth=16",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_state_save=0",
    "--size=256m",
    "--randseed=1",
    "--bsrange=4k-128k",
];

#[test]
fn fio_verify_passes_on_attached_block_device() {
    if !have_root() || !have(&["fio"]) {
        return skip("root and fio");
    }
    let drive = Attached::new(&["ocz-vertex-le-100gb", "--size", "256MiB", "--speed", "off"]);
    ok(Command::new("fio")
        .args(VERIFY)
        .args(["--ioengine=io_uring", "--direct=1", "--filename"])
        .arg(&drive.device));
}

#[test]
fn fio_verify_passes_over_nbd() {
    if !have(&["fio"]) {
        return skip("fio");
    }
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("nbd");
    let mut args = vec![
        "ocz-vertex-le-100gb",
        "--size",
        "256MiB",
        "--speed",
        "off",
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
    ];
    let drive = Attached::new(&args);
    assert_eq!(drive.device, socket);
    let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
    ok(Command::new("fio").args(VERIFY).args(["--ioengine=nbd", &uri]));
    ok(Command::new("fio").args([
        "--name=trim",
        "--rw=trim",
        "--bs=1m",
        "--size=256m",
        "--ioengine=nbd",
        &uri,
    ]));
    let status = drive.status();
    assert_eq!(status["mapped_bytes"], 0, "all of it was trimmed");
    assert_eq!(status["stored_bytes"], 0, "and takes no memory any more");
    args.extend(["--id", "other"]);
    drive
        .command()
        .args(["drive", "attach"])
        .args(&args)
        .assert()
        .code(1)
        .stderr(predicate::str::contains("another server listens"));
}

#[test]
fn detach_of_busy_drive_is_refused_and_names_its_user() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let drive = Attached::new(&SMALL);
    run(EXT4.make, &drive.device);
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    let where_it_is = format!("mounted on {} (ext4)", mounted.path().display());
    drive
        .command()
        .args(["drive", "detach"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains(where_it_is));
    mounted.unmount();
    let mut reader = Command::new("sleep")
        .arg("60")
        .stdin(std::fs::File::open(&drive.device).unwrap())
        .spawn()
        .unwrap();
    let asserted = drive.command().args(["drive", "detach"]).assert();
    reader.kill().unwrap();
    reader.wait().unwrap();
    asserted
        .code(1)
        .stderr(predicate::str::contains(format!("open in sleep (pid {})", reader.id())));
    drive.command().args(["drive", "detach"]).assert().success();
}

#[test]
fn drive_power_cut_fails_writes_until_power_on() {
    if !have_root() {
        return skip("root");
    }
    let drive = Attached::new(&SMALL);
    let node = drive.device.display().to_string();
    let write = || {
        Command::new("dd")
            .args(["if=/dev/zero", "bs=4k", "count=4", "oflag=direct"])
            .arg(format!("of={node}"))
            .output()
            .unwrap()
    };
    assert!(write().status.success());
    let said = drive.run(&["drive", "power", &node, "cut"]);
    assert!(
        said.contains("is off") && said.contains("nothing written until now is lost"),
        "{said}"
    );
    assert!(!write().status.success(), "without power nothing is written");
    drive.power("on");
    assert!(write().status.success());
    drive.detach();
}

#[test]
fn attach_serves_several_drives_at_once() {
    if !have_root() {
        return skip("root");
    }
    let first = Attached::new(&SMALL);
    let second: PathBuf =
        first.run(&["drive", "attach", "ocz-vertex-le-100gb", "--size", "512MiB"]).trim().into();
    assert_ne!(first.device, second);
    let size = |device: &Path| ok(Command::new("blockdev").arg("--getsize64").arg(device)).stdout;
    assert_eq!(
        (size(&first.device), size(&second)),
        (b"1073741824\n".to_vec(), b"536870912\n".to_vec())
    );
    first
        .command()
        .args(["drive", "detach"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("ocz-vertex-le-100gb-2"));
    first.command().args(["drive", "detach"]).arg(&second).assert().success();
}

#[test]
fn attach_after_server_crash_cleans_up_and_keeps_data() {
    if !have_root() {
        return skip("root");
    }
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("disk");
    let args = with(&["--data", data.to_str().unwrap()]);
    let drive = Attached::new(&args);
    ok(Command::new("dd")
        .args(["if=/dev/urandom", "bs=1M", "count=8", "oflag=direct"])
        .arg(format!("of={}", drive.device.display())));
    let before = ok(Command::new("dd")
        .args(["bs=1M", "count=9"])
        .arg(format!("if={}", drive.device.display())))
    .stdout;
    let pid = drive.status()["pid"].as_i64().unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    drive
        .command()
        .args(["drive", "status"])
        .assert()
        .code(1)
        .stdout(predicate::str::contains("has crashed"));

    let mut attach = vec!["drive", "attach", "--adopt"];
    attach.extend(&args);
    let attached = drive.command().args(&attach).assert().success();
    let output = attached.get_output();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("removed the remains of the crashed server") && said.contains("8.39 MB of "),
        "{said}"
    );
    let device = String::from_utf8(output.stdout.clone()).unwrap();
    let after =
        ok(Command::new("dd").args(["bs=1M", "count=9"]).arg(format!("if={}", device.trim())))
            .stdout;
    assert!(before == after, "the data have changed");
    let status = drive.status();
    assert_eq!(status["mapped_bytes"], 8 << 20);
    assert_eq!(status["model"]["now_mapped_bytes"], 8 << 20, "the model has been told");
}

/// A tmpfs of 8 MiB holds the data, so the kernel refuses the write of 16 MiB.
#[test]
fn write_beyond_space_of_data_file_counts_as_failed() {
    let Some(full) = support::LoopMount::tmpfs(8) else { return skip("root and mount") };
    let data = full.path().join("disk");
    let drive = Attached::new(&with(&["--data", data.to_str().unwrap()]));
    let to = format!("of={}", drive.device.display());
    let dd = ["if=/dev/urandom", &to, "bs=1M", "count=16", "oflag=direct"];
    assert!(!Command::new("dd").args(dd).output().unwrap().status.success());
    let status = drive.status();
    assert!(status["requests"]["write"]["failed"].as_u64().unwrap() > 0, "{status}");
    assert!(status["requests"]["write"]["bytes"].as_u64().unwrap() <= 8 << 20, "{status}");
    assert!(status["faults"].to_string().contains("No space left on device"), "{status}");
}

#[test]
fn server_crash_under_mount_is_cleaned_after_unmount() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    // The kernel removes a ublk device when its server ends, even while it is in use.
    let drive = Attached::new(&with(&["--transport", "device"]));
    run(EXT4.make, &drive.device);
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    let status = drive.status();
    let (id, pid) = (status["id"].as_str().unwrap(), status["pid"].as_i64().unwrap());
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    // Until it is cleaned up, no command takes it for a drive that works.
    for (args, code, said) in [
        (vec!["drive", "status"], 1, format!("{id}: its server has crashed")),
        (vec!["drive", "status", "--json"], 1, format!("\"id\": \"{id}\"")),
        (vec!["doctor", mounted.path().to_str().unwrap()], 4, "has crashed".to_owned()),
        (vec!["trim", mounted.path().to_str().unwrap()], 4, "has crashed".to_owned()),
    ] {
        let run = drive.command().args(&args).assert().code(code);
        run.stdout(predicate::str::contains(&said));
    }
    let held = format!("mounted on {}", mounted.path().display());
    drive
        .command()
        .args(["drive", "detach"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains(&held));
    mounted.unmount();
    drive.command().args(["drive", "detach"]).assert().success();
    drive
        .command()
        .args(["drive", "detach"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("no drive is attached"));
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(drive.runtime().to_str().unwrap()), "{mounts}");
    let backing =
        Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("loop/backing_file");
    let still = std::fs::read_to_string(backing).unwrap_or_default();
    assert!(!still.contains(drive.runtime().to_str().unwrap()), "{still}");
}

/// A process that is stopped, and continued on drop.
struct Stopped(rustix::process::Pid);

impl Stopped {
    fn new(pid: i64) -> Self {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

/// Once, the doctor and 'drive status' waited for the server, and no signal ended them.
#[test]
fn stopped_server_is_reported_within_seconds() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let drive = Attached::new(&with(&["--transport", "device"]));
    run(EXT4.make, &drive.device);
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    let status = drive.status();
    let (id, pid) = (status["id"].as_str().unwrap(), status["pid"].as_i64().unwrap());
    let path = mounted.path();
    // Writes make the kernel ask the server for the attributes of the drive's file again.
    ok(Command::new("dd")
        .args(["if=/dev/urandom", "bs=1M", "count=8", "conv=fsync"])
        .arg(format!("of={}", path.join("file").display())));
    let stopped = Stopped::new(pid);
    for (args, code, said) in [
        (vec!["drive", "status"], 1, format!("{id}: its server (process {pid}) does not answer")),
        (vec!["drive", "status", "--json"], 1, "\"silent\": [".to_owned()),
        (vec!["doctor", path.to_str().unwrap()], 4, "does not answer within 2 s".to_owned()),
    ] {
        let mut command = drive.command();
        let run = command.args(&args).timeout(std::time::Duration::from_secs(60)).assert();
        run.code(code).stdout(predicate::str::contains(&said));
    }
    let mount = path.to_str().unwrap();
    for args in [
        &["trim", "--dry-run", mount][..],
        &["trim", mount],
        &["verify", "--yes", mount],
        &["study", "--quick", "--yes", mount],
    ] {
        let mut command = drive.command();
        let run = command.args(args).timeout(std::time::Duration::from_secs(60)).assert();
        run.code(1).stderr(predicate::str::contains("does not answer within 2 s"));
    }
    drop(stopped);
    drive.command().args(["drive", "status"]).assert().success();
}

#[test]
fn attach_names_missing_kernel_device_in_one_line() {
    let _guard = crate::support::makes_namespaces();
    if !have_root() || !have(&["unshare"]) {
        return skip("root and util-linux");
    }
    // A private /dev without `$1`.
    const HIDE: &str = "mount -t tmpfs none /mnt && for d in null zero urandom fuse loop-control; do [ \
        $1 = $d ] || cp -a /dev/$d /mnt/; done && mkdir /mnt/shm && mount --move /mnt /dev \
        && shift && exec \"$@\"";
    for (missing, expected) in [
        ("fuse", "/dev/fuse does not exist (try `modprobe fuse`)"),
        ("loop-control", "try `modprobe loop`"),
        ("nothing", "(try `mknod /dev/loop"),
    ] {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", HIDE, "sh", missing]).arg(program());
        at_home(&mut command);
        // Without this option the command would fall back to the next transport that the
        // kernel supports.
        command
            .args(["drive", "attach", "--transport", "device"])
            .args(SMALL)
            .env("TRIMTAB_RUNTIME_DIR", runtime.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected) && said.lines().count() == 1, "{missing}: {said}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{missing}");
        assert_eq!(
            std::fs::read_dir(runtime.path().join("drives")).unwrap().count(),
            0,
            "{missing}: nothing is left behind"
        );
    }
}

#[test]
fn full_backing_store_fails_writes_and_server_survives() {
    let Some(small) = LoopMount::tmpfs(16) else { return skip("root") };
    let data = small.path().join("disk");
    let drive = Attached::new(&with(&["--data", data.to_str().unwrap()]));
    let write = |count: &str| {
        let mut command = Command::new("dd");
        command
            .args(["if=/dev/urandom", "bs=1M", "oflag=direct", "conv=notrunc"])
            .arg(format!("of={}", drive.device.display()));
        command.arg(format!("count={count}")).output().unwrap()
    };
    assert!(!write("40").status.success(), "there is space for 16 MiB");
    let failed = drive.status()["stored_bytes"].as_u64().unwrap();
    assert!(failed <= 16 << 20);
    assert!(write("4").status.success(), "what has its space can be written again");
    ok(Command::new("blkdiscard").arg(&drive.device));
    assert!(write("8").status.success(), "trimmed space can be used again");
    drive.detach();
}

#[test]
fn attach_refuses_data_files_of_another_drive() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("disk");
    let socket = scratch.path().join("nbd");
    let fixed = ["--no-block", "--nbd", socket.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let args = with(&fixed);
    Attached::new(&args).detach();
    let runtime = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], code: i32, expected: &str| {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", runtime.path()).args(["drive", "attach"]).args(args);
        command.assert().code(code).stdout("").stderr(predicate::str::contains(expected));
        assert_eq!(
            std::fs::read_dir(runtime.path().join("drives")).unwrap().count(),
            0,
            "nothing is left behind"
        );
    };
    let mut other_size = vec!["ocz-vertex-le-100gb", "--size", "2GiB"];
    other_size.extend(fixed);
    refused(&other_size, 1, "has 1073741824 bytes, but the drive has 2147483648");

    let drive = Attached::new(&args);
    let mut second = with(&["--data", data.to_str().unwrap(), "--no-block", "--nbd"]);
    let second_socket = scratch.path().join("nbd2");
    second.push(second_socket.to_str().unwrap());
    refused(&second, 1, "is in use by another attached drive");
    drive.detach();
}

#[test]
fn attach_and_detach_wrong_usage_is_refused() {
    for (args, expected) in [
        (vec!["ocz-vertex-le-100gb", "--speed", "fast"], "speed is realtime, off, or a factor"),
        (vec!["ocz-vertex-le-100gb", "--fault", "explode"], "is not a fault"),
        (
            vec!["ocz-vertex-le-100gb", "--size", "1MiB"],
            "a size of 1.05 MB is not possible: flash.geometry",
        ),
        (vec!["ocz-vertex-le-100gb", "--no-block"], "--nbd"),
    ] {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", runtime.path()).args(["drive", "attach"]).args(&args);
        command.assert().code(2).stdout("").stderr(predicate::str::contains(expected));
    }
    let runtime = tempfile::tempdir().unwrap();
    let mut command = trimtab();
    command.env("TRIMTAB_RUNTIME_DIR", runtime.path()).args(["drive", "detach"]);
    command.assert().code(1).stderr(predicate::str::contains("no drive is attached"));
}

#[test]
fn attach_without_root_serves_nbd_only() {
    if !have_root() || !have(&["setpriv"]) {
        return skip("root, to be somebody else");
    }
    let scratch = tempfile::tempdir().unwrap();
    // The program creates no runtime directory in a directory that other users can write
    // to.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    std::os::unix::fs::chown(scratch.path(), Some(65534), Some(65534)).unwrap();
    let program = scratch.path().join("trimtab");
    support::copy_program(&support::program(), &program);
    let nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        at_home(&mut command);
        command.env("XDG_DATA_HOME", scratch.path()).env("TRIMTAB_STATE_DIR", scratch.path());
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(args)
            .env("TRIMTAB_RUNTIME_DIR", scratch.path().join("run"));
        command.output().unwrap()
    };
    let refused = nobody(&["drive", "attach", "ocz-vertex-le-100gb"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("can only be attached by root"),
        "{refused:?}"
    );
    let socket = scratch.path().join("nbd");
    let attached = nobody(&[
        "drive",
        "attach",
        "ocz-vertex-le-100gb",
        "--size",
        "1GiB",
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
    ]);
    assert!(attached.status.success(), "{attached:?}");
    let detached = nobody(&["drive", "detach"]);
    assert!(detached.status.success(), "{detached:?}");
}

#[test]
fn recording_matches_served_requests() {
    if !have(&["fio"]) {
        return skip("fio");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (socket, trace) = (scratch.path().join("nbd"), scratch.path().join("trace"));
    let args = with(&[
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
        "--record",
        trace.to_str().unwrap(),
    ]);
    let drive = Attached::new(&args);
    let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
    ok(Command::new("fio").args([
        "--name=x",
        "--rw=randwrite",
        "--bs=8k",
        "--size=16m",
        "--ioengine=nbd",
        "--iodepth=8",
        "--end_fsync=1",
        &uri,
    ]));
    ok(Command::new("fio").args([
        "--name=x",
        "--rw=trim",
        "--bs=1m",
        "--size=8m",
        "--ioengine=nbd",
        &uri,
    ]));
    let requests = drive.status()["requests"].clone();
    drive.detach();
    let source = trimtab_vssd::trace::TraceSource::open(&trace, &Default::default()).unwrap();
    let events: Vec<_> = source.map(Result::unwrap).collect();
    for (kind, name) in [
        (trimtab_vssd::trace::TraceOpKind::Write, "write"),
        (trimtab_vssd::trace::TraceOpKind::Trim, "trim"),
        (trimtab_vssd::trace::TraceOpKind::Flush, "flush"),
    ] {
        let (mut count, mut bytes) = (0, 0);
        for event in events.iter().filter(|event| event.kind == kind) {
            count += 1;
            bytes += event.len;
        }
        assert_eq!(
            (&requests[name]["count"], &requests[name]["bytes"]),
            (&count.into(), &bytes.into()),
            "{name}"
        );
    }
    assert!(events.is_sorted_by_key(|event| event.at));
}

#[test]
fn attach_over_4_gib_sets_all_limits_and_is_a_virtual_ssd() {
    if !have_root() {
        return skip("root");
    }
    let runtime = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", runtime.path());
        command
    };
    let pid = std::process::id().to_string();
    // Its trims cover the whole drive in one command.
    let attach = [
        "drive",
        "attach",
        "intel-ssdpekka256g7",
        "--size",
        "8GiB",
        "--id",
        "large",
        "--speed",
        "off",
        "--transport",
        "device",
    ];
    let attached = command().args(attach).args(["--detach-with", &pid]).output().unwrap();
    let device = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    let doctor = command().args(["doctor", &device]).output().unwrap();
    command().args(["drive", "detach", "large"]).assert().success();
    let said = String::from_utf8_lossy(&attached.stderr);
    assert!(attached.status.success() && !said.contains("cannot set"), "{said}");
    let screen = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        screen.contains("large [virtual SSD of Trimtab]") && !screen.contains("file on fuse"),
        "{screen}"
    );
}
