//! What files, names and a second user of the machine may try: nothing of anybody else's is written to, removed, detached or handed out.

use crate::attached::{Attached, have, ok};
use crate::support::{LoopDevice, have_root, process, run, skip, trimtab};
use predicates::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nobody in particular; two of them.
const VICTIM: u32 = 65_533;
const ATTACKER: u32 = 65_534;

/// The program as another user, who can reach it.
fn as_user(uid: u32, home: &Path) -> Option<Command> {
    let mut command = process();
    command
        .uid(uid)
        .gid(uid)
        .env("HOME", home)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("TRIMTAB_RUNTIME_DIR")
        .env_remove("XDG_STATE_HOME");
    command.env("XDG_DATA_HOME", home).env("TRIMTAB_STATE_DIR", home).current_dir(home);
    let reachable =
        Command::new(command.get_program()).arg("--version").uid(uid).gid(uid).stdout(Stdio::null()).stderr(Stdio::null()).status();
    reachable.is_ok_and(|status| status.success()).then_some(command)
}

fn directory_of(uid: u32, mode: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    chown(directory.path(), Some(uid), Some(uid)).unwrap();
    directory
}

/// Ends a child however a test ends.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn specification(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join("drive.toml");
    let quoted: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let text = format!("name = \"{quoted}\"\ndescription = \"x\"\ncapacity_bytes = 67_108_864\n[disk]\n");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_name_in_a_file_is_never_a_path() {
    let Some(victim) = LoopDevice::new(64) else { return skip("root") };
    let scratch = tempfile::tempdir().unwrap();
    let long = "x".repeat(4096);
    let up = format!("../../../../../../../..{}", victim.node());
    for name in [victim.node().as_str(), &up, "a b", "", ".", "..", ".hidden", "-x", "a/b", "a\nb", "\u{1b}[2J", "Über", &long] {
        let spec = specification(scratch.path(), name);
        let runtime = tempfile::tempdir().unwrap();
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", runtime.path()).args(["drive", "attach", "--speed", "off"]).arg(&spec);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // Whatever it did, nothing stays behind.
        let _ = trimtab().env("TRIMTAB_RUNTIME_DIR", runtime.path()).args(["drive", "detach", "--all", "--force"]).output();
        assert_eq!(output.status.code(), Some(2), "{name:?}: {said}");
        assert!(
            said.contains("name is '") && said.lines().count() <= 2 && !said.contains('\u{1b}') && said.len() < 700,
            "{name:?}: {said}"
        );
        assert!(!runtime.path().join("drives").exists() || fs::read_dir(runtime.path().join("drives")).unwrap().count() == 0);
    }
    for id in [victim.node().as_str(), &up, "a b", "", ".", "..", ".hidden", "-x", "a/b", "a\nb", "\u{1b}[2J", &long] {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = trimtab();
        command
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .args(["drive", "attach", "corsair-p128", "--size", "64MiB"])
            .arg(format!("--id={id}"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{id:?}: {said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert_eq!(fs::read_dir(runtime.path().join("drives")).unwrap().count(), 0);
    }
}

#[test]
fn a_planted_runtime_directory_is_not_used() {
    if !have_root() {
        return skip("root");
    }
    let home = directory_of(VICTIM, 0o700);
    let shared = directory_of(0, 0o1777);
    let precious = home.path().join("precious");
    let drive = precious.join("photos");
    fs::create_dir_all(drive.join("mnt")).unwrap();
    for name in ["control", "log", "record.json", "record.json.new"] {
        fs::write(drive.join(name), "{}").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(&drive).unwrap().set_modified(long_ago).unwrap();
    for path in [&precious, &drive, &drive.join("mnt"), &drive.join("control")] {
        chown(path, Some(VICTIM), Some(VICTIM)).unwrap();
    }
    // Where the name could be foreseen, the attacker puts links: to the directory itself, and to what it would hold.
    let predictable = shared.path().join(format!("trimtab-{VICTIM}"));
    fs::create_dir(&predictable).unwrap();
    symlink(&precious, predictable.join("drives")).unwrap();
    for path in [&predictable, &predictable.join("drives")] {
        std::os::unix::fs::lchown(path, Some(ATTACKER), Some(ATTACKER)).unwrap();
    }
    let Some(mut command) = as_user(VICTIM, home.path()) else { return skip("a program that other users can start") };
    let socket = home.path().join("nbd");
    command.env("TMPDIR", shared.path()).args(["drive", "attach", "corsair-p128", "--size", "64MiB", "--no-block", "--nbd"]).arg(&socket);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let detach = |variable: Option<&Path>| {
        let mut command = as_user(VICTIM, home.path()).unwrap();
        command.env("TMPDIR", shared.path()).args(["drive", "detach", "--all"]);
        variable.map(|path| command.env("TRIMTAB_RUNTIME_DIR", path));
        command.output().unwrap()
    };
    let output = detach(None);
    assert!(String::from_utf8_lossy(&output.stdout).contains("detached corsair-p128"), "found again: {output:?}");
    let output = detach(Some(&predictable));
    assert_eq!(output.status.code(), Some(1), "named by the user himself, but another's: {output:?}");
    for name in ["control", "log", "record.json", "record.json.new", "mnt"] {
        assert!(drive.join(name).exists(), "{name} is gone");
    }
    let mode = fs::metadata(home.path().join(".local/state/trimtab/run/drives")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "made private, whatever the umask");
}

#[test]
fn a_foreign_loop_device_is_not_detached() {
    if !have_root() || !have(&["losetup"]) {
        return skip("root and losetup");
    }
    let drive = Attached::new(&["corsair-p128", "--size", "64MiB", "--speed", "off"]);
    let node = drive.device.to_str().unwrap().to_owned();
    ok(Command::new("losetup").args(["--detach", &node]));
    let backing = Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("loop/backing_file");
    let patience = Instant::now() + Duration::from_secs(5);
    while backing.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = scratch.path().join("foreign");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    ok(Command::new("losetup").arg(&node).arg(&image));
    let output = drive.command().args(["drive", "detach"]).output().unwrap();
    let still = fs::read_to_string(&backing).unwrap_or_default();
    run("losetup", &["--detach", &node]);
    assert_eq!(still.trim(), image.to_str().unwrap(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("stands on something else by now"), "{output:?}");
    drive.command().args(["drive", "status", "--json"]).assert().success().stdout(predicate::str::contains("\"drives\": []"));
}

#[test]
fn a_mount_in_another_namespace_keeps_a_drive_and_nothing_is_armed() {
    if !have_root() || !have(&["mkfs.ext4", "unshare"]) {
        return skip("root, e2fsprogs and util-linux");
    }
    let drive = Attached::new(&["corsair-p128", "--size", "64MiB", "--speed", "off"]);
    ok(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&drive.device));
    let elsewhere = tempfile::tempdir().unwrap();
    let mut holder = Command::new("unshare");
    holder.args(["--mount", "--propagation", "private", "sh", "-c", "mount \"$0\" \"$1\" && echo mounted && exec sleep 600"]);
    let holder = Ends(holder.arg(&drive.device).arg(elsewhere.path()).stdout(Stdio::piped()).spawn().unwrap());
    let mut holder = holder;
    let mut line = [0; 8];
    std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut line).unwrap();
    let autoclear = Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("loop/autoclear");
    let detach = || drive.command().args(["drive", "detach"]).output().unwrap();
    let output = detach();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in another mount namespace"), "{said}");
    assert_eq!(fs::read_to_string(&autoclear).unwrap().trim(), "0", "not to be detached behind anybody's back");
    // Also if the process that is in it cannot be seen: the kernel knows.
    assert_eq!(drive.status()["requests"]["read"]["requests"].as_u64().map(|_| ()), Some(()), "it is served still");
    drop(holder);
    let patience = Instant::now() + Duration::from_secs(10);
    while !detach().status.success() {
        assert!(Instant::now() < patience, "nobody uses it any more");
        std::thread::sleep(Duration::from_millis(50));
    }
}
