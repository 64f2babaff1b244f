//! Interrupted and killed studies of real filesystems: the mount options are restored in
//! every mount namespace, and the user who may know of the change is informed.

use crate::study::{is_clean, options, signal};
use crate::support::{
    LoopMount, at_home, copy_program, makes_namespaces, process, program, run, skip, trimtab,
    without_namespaces,
};
use predicates::prelude::*;
use predicates::str::contains;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_linux::session::discard_option::{DiscardOption, mount_of};

/// A study under the online policy, returned once the filesystem is remounted and
/// contains files.
fn while_remounted(path: &Path, runtime: &Path) -> Child {
    remounted_by(process(), path, runtime)
}

/// The same, with `command` as the wrapper that starts the program.
fn remounted_by(mut command: Command, path: &Path, runtime: &Path) -> Child {
    let child = command
        .env("TRIMTAB_RUNTIME_DIR", runtime)
        .args(["study", "--policies", "online", "--repeats", "50", "--reserve", "0", "--yes"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !DiscardOption::of(&mount_of(path).unwrap()).is_on() || is_clean(path) {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(300));
    child
}

#[test]
fn interrupted_study_restores_mount_option() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let before = options(&mount.path());
    let runtime = tempfile::tempdir().unwrap();
    let mut child = while_remounted(&mount.path(), runtime.path());
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(options(&mount.path()), before);
    assert!(is_clean(&mount.path()));
}

/// A filesystem whose study was killed while remounted, and the note about it.
struct Killed {
    mount: LoopMount,
    before: (String, String),
    left: (String, String),
    /// Private, because any other command would also see the note.
    runtime: tempfile::TempDir,
}

impl Killed {
    fn new() -> Option<Self> {
        let mount = LoopMount::new("ext4", 1024, "nodiscard")?;
        let before = options(&mount.path());
        let runtime = tempfile::tempdir().unwrap();
        std::fs::set_permissions(runtime.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut killed = Self { left: before.clone(), before, mount, runtime };
        killed.again();
        Some(killed)
    }

    fn again(&mut self) {
        self.again_by(process());
    }

    fn again_by(&mut self, command: Command) {
        let mut child = remounted_by(command, &self.mount.path(), self.runtime.path());
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        self.left = self.now();
        assert_ne!(self.left, self.before);
    }

    fn path(&self) -> PathBuf {
        self.mount.path()
    }

    fn now(&self) -> (String, String) {
        options(&self.path())
    }

    fn trimtab(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", self.runtime.path()).args(args);
        command
    }

    fn doctor(&self) -> assert_cmd::assert::Assert {
        self.trimtab(&["doctor"]).arg(self.path()).assert()
    }

    fn notes(&self) -> Vec<PathBuf> {
        let notes = std::fs::read_dir(self.runtime.path().join("journal")).unwrap();
        notes
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("mount-"))
            .collect()
    }

    /// Changes the note.
    fn edit(&self, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
        let path = &self.notes()[0];
        let mut note: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        change(note["change"].as_object_mut().unwrap());
        std::fs::write(path, note.to_string()).unwrap();
    }
}

fn again() -> impl Predicate<str> {
    contains("discard option of").and(contains("is nodiscard again"))
}

#[test]
fn killed_study_mount_option_is_restored_next_time() {
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    killed.doctor().stdout(contains("left by a killed process").and(again()));
    assert_eq!((killed.now(), killed.notes().len()), (killed.before.clone(), 0));
    killed.doctor().stdout(contains("again").not());
    // The study restores the option before it reads the state that it calls "before".
    killed.again();
    let study = [
        "study",
        "--quick",
        "--policies",
        "as-mounted,online",
        "--reserve",
        "0",
        "--yes",
        "--json",
    ];
    let output = killed.trimtab(&study).arg(killed.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && again().eval(&said), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        json["runs"][0]["policy_settings"]["discard"], "nodiscard",
        "{}",
        json["runs"][0]["policy_settings"]
    );
    assert_eq!(killed.now(), killed.before);
    assert!(is_clean(&killed.path()), "what the killed ones left is gone, too");
    // Regression: a twin was learned with the leftover option. Even a command refused for
    // its limit restores the option.
    killed.again();
    let command = ["drive", "learn", "--write-limit", "1MiB"];
    killed.trimtab(&command).arg(killed.path()).assert().failure().stderr(again());
    assert_eq!((killed.now(), killed.notes().len()), (killed.before.clone(), 0));
    // A setting that an administrator made since is kept.
    killed.again();
    killed.mount.remount("nodiscard");
    killed.trimtab(&["results", "list"]).assert().success().stderr(contains("again").not());
    assert_eq!(killed.now(), killed.before);
}

#[test]
fn killed_study_other_command_names_the_restoring_one() {
    let Some(killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let other = tempfile::tempdir().unwrap();
    let elsewhere = other.path().to_str().unwrap().to_owned();
    let remedy = format!("run 'trimtab doctor {}' to restore nodiscard", killed.path().display());
    let others: [&[&str]; 4] = [
        &["results", "list"],
        &["drive", "list"],
        &["doctor", &elsewhere],
        &["study", "--quick", "drive:no-such-drive"],
    ];
    for command in others {
        let output = killed.trimtab(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&remedy), "{command:?}: {said}");
        assert_eq!((killed.now(), killed.notes().len()), (killed.left.clone(), 1), "{command:?}");
    }
    killed.doctor().stdout(again());
    assert_eq!(killed.now(), killed.before);
}

#[test]
fn killed_study_foreign_mount_change_stays() {
    let _guard = without_namespaces();
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let stays = |killed: &Killed, what: &str, why: &str| {
        let there = killed.now();
        assert!(there.1.contains("discard"), "{what}: {there:?}");
        killed.doctor().stdout(
            contains(why).and(contains("stays as it is")).and(contains("it was nodiscard before")),
        );
        assert_eq!((killed.now(), killed.notes().len()), (there, 0), "{what}");
    };
    killed.mount.remount("noatime,discard");
    stays(&killed, "remounted", "its options have been changed since");
    let (path, device) = (killed.path(), killed.mount.device());
    let path = path.to_str().unwrap();
    let clean = |killed: &mut Killed| {
        run("umount", &[path]).unwrap();
        run("mount", &["-o", "nodiscard", &device, path]).unwrap();
        killed.again();
        run("umount", &[path]).unwrap();
    };
    clean(&mut killed);
    run("mount", &["-o", "discard", &device, path]).unwrap();
    stays(&killed, "the same filesystem", "mounted again since");
    clean(&mut killed);
    // Udev or another test may hold the device open briefly.
    let made = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        run("mkfs", &["-t", "ext4", "-q", "-F", &device]).is_some()
    });
    assert!(made, "mkfs on {device}");
    run("mount", &["-o", "discard", &device, path]).unwrap();
    stays(&killed, "another filesystem", "mounted again since");
    // No mount matches the numbers of a mount from another boot.
    clean(&mut killed);
    run("mount", &["-o", "nodiscard", &device, path]).unwrap();
    killed.again();
    killed.edit(|note| note["identity"]["boot"] = "another".into());
    stays(&killed, "another boot", "mounted again since");
}

/// Everything that a command prints.
fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The filesystem's mount options, as another process sees them.
fn options_seen_by(pid: u32, path: &Path) -> String {
    let table = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    table
        .lines()
        .find(|line| line.split(' ').nth(4) == path.to_str())
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned()
}

/// A process in a private mount namespace, which keeps the current mounts.
struct Holder(Child);

impl Holder {
    fn new(path: &Path) -> Self {
        let holder = Self(Command::new("unshare").args(["-m", "sleep", "600"]).spawn().unwrap());
        let own = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        let started = Instant::now();
        while std::fs::read_link(format!("/proc/{}/ns/mnt", holder.0.id()))
            .is_ok_and(|there| there == own)
        {
            assert!(started.elapsed() < Duration::from_secs(10), "it stays here");
            std::thread::sleep(Duration::from_millis(1));
        }
        // The process sleeps only once its mounts are separate from this namespace.
        while !std::fs::read(format!("/proc/{}/cmdline", holder.0.id()))
            .unwrap()
            .starts_with(b"sleep")
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(options_seen_by(holder.0.id(), path).contains("rw"));
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_study_in_namespace_is_restored_from_any_mount() {
    let _guard = makes_namespaces();
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let path = killed.path();
    let shown = path.to_str().unwrap();
    killed.doctor().stdout(again());
    let mut elsewhere = Command::new("unshare");
    at_home(elsewhere.arg("-m").arg(program()));
    elsewhere.env("XDG_DATA_HOME", killed.runtime.path());
    killed.again_by(elsewhere);
    killed.doctor().stdout(again());
    assert_eq!((killed.now(), killed.notes().len()), (killed.before.clone(), 0));
    // Mounted in another namespace only: the note stays, and the message names the
    // command that can restore the option.
    let holder = Holder::new(&path);
    let pid = holder.0.id();
    killed.again();
    run("umount", &[shown]).unwrap();
    let output = killed.trimtab(&["results", "list"]).output().unwrap();
    let remedy = format!("run 'nsenter -t {pid} -m trimtab doctor {shown}' to restore nodiscard");
    assert!(said(&output).contains(&remedy), "{}", said(&output));
    assert_eq!((options_seen_by(pid, &path).contains("discard"), killed.notes().len()), (true, 1));
    let mut there = Command::new("nsenter");
    at_home(there.args(["-t", &pid.to_string(), "-m"]).arg(program()));
    there.arg("doctor").arg(&path).env("TRIMTAB_RUNTIME_DIR", killed.runtime.path());
    let output = there.output().unwrap();
    assert!(again().eval(&said(&output)), "{}", said(&output));
    assert_eq!((options_seen_by(pid, &path).contains("discard"), killed.notes().len()), (false, 0));
    run("mount", &[&killed.mount.device(), shown]).unwrap();
}

#[test]
fn killed_study_option_on_other_mount_is_restored() {
    let _guard = without_namespaces();
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let (path, device, second) =
        (killed.path(), killed.mount.device(), tempfile::tempdir().unwrap());
    let shown = path.to_str().unwrap();
    run("mount", &["--bind", shown, second.path().to_str().unwrap()]).unwrap();
    run("umount", &[shown]).unwrap();
    // The kernel reuses the superblock of a mounted filesystem and ignores the new
    // option.
    run("mount", &["-o", "nodiscard", &device, shown]).unwrap();
    assert!(DiscardOption::of(&mount_of(&path).unwrap()).is_on());
    let put_back = killed.trimtab(&["doctor"]).arg(second.path()).output().unwrap();
    run("umount", &[second.path().to_str().unwrap()]).unwrap();
    assert!(again().eval(&said(&put_back)), "{}", said(&put_back));
    assert!(!DiscardOption::of(&mount_of(&path).unwrap()).is_on());
    assert_eq!(killed.notes().len(), 0);
    // A different filesystem with the same mount point and device number is left
    // unchanged.
    killed.again();
    run("umount", &[shown]).unwrap();
    // Udev or another test may hold the device open briefly.
    let made = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        run("mkfs", &["-t", "ext4", "-q", "-F", &device]).is_some()
    });
    assert!(made, "mkfs on {device}");
    run("mount", &["-o", "nodiscard", &device, shown]).unwrap();
    killed.doctor().stdout(contains("killed").not());
    assert_eq!(killed.notes().len(), 0);
}

#[test]
fn killed_study_leftovers_are_reported_once() {
    let Some(killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let reachable = tempfile::tempdir().unwrap();
    std::fs::set_permissions(reachable.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&program(), &reachable.path().join("trimtab"));
    let nobodys = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(nobodys.path(), Some(65_534), Some(65_534)).unwrap();
    let nobody = |args: &[&str], path: &Path| {
        let mut command = Command::new(reachable.path().join("trimtab"));
        at_home(command.args(args).arg(path).uid(65_534).gid(65_534));
        command.env("TRIMTAB_RUNTIME_DIR", killed.runtime.path());
        said(
            &command
                .env("HOME", nobodys.path())
                .env("XDG_DATA_HOME", nobodys.path())
                .env("TRIMTAB_STATE_DIR", nobodys.path())
                .output()
                .unwrap(),
        )
    };
    let path = killed.path();
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let text = nobody(&["doctor"], &path);
    let unbroken = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!text.contains("killed"), "another user may not read the notes: {text}");
    // The killed study also left a directory, and each problem is reported once.
    let doctor = || said(&killed.trimtab(&["doctor"]).arg(&path).output().unwrap());
    let text = doctor();
    let count = |what: &str| text.matches(what).count();
    assert_eq!(
        (count("nodiscard again"), count("trimtab-work-"), count("left by a run that crashed")),
        (1, 1, 1),
        "{text}"
    );
    // While a study runs.
    let mut child = while_remounted(&path, killed.runtime.path());
    let text = unbroken(&doctor());
    signal(&child, Signal::INT);
    child.wait().unwrap();
    assert!(
        text.contains("for a while: the discard option of")
            && text.contains("was nodiscard before"),
        "{text}"
    );
    assert!(!doctor().contains("for a while"));
    // An unreadable runtime directory does not block a study.
    std::fs::set_permissions(killed.runtime.path(), std::fs::Permissions::from_mode(0o700))
        .unwrap();
    let text = nobody(&["study", "--quick", "--policies", "batched"], nobodys.path());
    assert!(text.contains("none of these policies can be tried"), "{text}");
}

/// Regression: both studies passed the check before either remounted, and the later one
/// failed after minutes.
#[test]
fn concurrent_studies_of_one_filesystem_leave_one() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let (path, runtime, before) =
        (mount.path(), tempfile::tempdir().unwrap(), options(&mount.path()));
    let start = |_| {
        let mut study = process();
        study
            .args(["study", "--quick", "--policies", "online", "--reserve", "0", "--yes"])
            .arg(&path);
        study
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..3).map(start).collect();
    let outputs: Vec<std::process::Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let refused: Vec<String> =
        outputs.iter().filter(|output| !output.status.success()).map(said).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for said in refused {
        let expected = format!("trimtab: another study is running on {} (process ", path.display());
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(options(&path), before);
    assert!(is_clean(&path));
}

#[test]
fn study_on_full_filesystem_names_the_remedy() {
    let Some(mount) = LoopMount::new("ext4", 128, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    let written = std::fs::write(path.join("ballast"), vec![1; 256 << 20]);
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let study = trimtab()
        .args(["study", "--quick", "--reserve", "0", "--policies", "as-mounted"])
        .arg(&path)
        .assert();
    study.code(1).stderr(contains("delete something").and(contains("--reserve").not()));
}
