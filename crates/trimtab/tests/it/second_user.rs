//! Attacks by hostile files, by hostile names, and by a second user of the machine. No
//! data of another user is written, removed, detached or disclosed.

use crate::attached_drive::{Attached, have, ok};
use crate::support::skip::skip;
use crate::support::{LoopDevice, at_home, copy_program, have_root, program, run, trimtab};
use predicates::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two arbitrary unprivileged users.
const VICTIM: u32 = 65_533;
const ATTACKER: u32 = 65_534;

/// A copy of the program that other users can run.
fn reachable() -> (tempfile::TempDir, PathBuf) {
    let directory = directory_of(0, 0o755);
    let copy = directory.path().join("trimtab");
    copy_program(&program(), &copy);
    (directory, copy)
}

/// The copied program, run as another user.
fn as_user(uid: u32, program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    at_home(&mut command);
    command
        .uid(uid)
        .gid(uid)
        .env("HOME", home)
        .env("XDG_DATA_HOME", home)
        .env("TRIMTAB_STATE_DIR", home)
        .current_dir(home);
    for variable in ["XDG_RUNTIME_DIR", "TRIMTAB_RUNTIME_DIR", "XDG_STATE_HOME"] {
        command.env_remove(variable);
    }
    command
}

fn directory_of(uid: u32, mode: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    chown(directory.path(), Some(uid), Some(uid)).unwrap();
    directory
}

/// Ends a child however the test ends.
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
    let text =
        format!("name = \"{quoted}\"\ndescription = \"x\"\ncapacity_bytes = 67_108_864\n[flash]\n");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn apply_undo_and_history_without_root_advise_sudo() {
    if !have_root() {
        return skip("root");
    }
    let (_keeps, program) = reachable();
    let home = directory_of(VICTIM, 0o700);
    // Records that only root may open, as on a machine with applied changes.
    let state = directory_of(0, 0o700);
    let mut undo = as_user(VICTIM, &program, home.path());
    let output =
        undo.env("TRIMTAB_STATE_DIR", state.path()).args(["apply", "--undo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("needs root: run with sudo"));
    let mut history = as_user(VICTIM, &program, home.path());
    let output = history.env("TRIMTAB_STATE_DIR", state.path()).arg("history").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("the history belongs to root: run with sudo")
    );
    let mut wear = as_user(VICTIM, &program, home.path());
    let output = wear.env("TRIMTAB_STATE_DIR", state.path()).arg("wear").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "the readings belong to root: run with sudo\n");
}

#[test]
fn drive_name_and_id_are_never_paths() {
    let Some(victim) = LoopDevice::new(64) else { return skip("root") };
    let scratch = tempfile::tempdir().unwrap();
    let long = "x".repeat(4096);
    let up = format!("../../../../../../../..{}", victim.node());
    for name in [
        victim.node().as_str(),
        &up,
        "a b",
        "",
        ".",
        "..",
        ".hidden",
        "-x",
        "a/b",
        "a\nb",
        "\u{1b}[2J",
        "Über",
        &long,
    ] {
        let spec = specification(scratch.path(), name);
        let runtime = tempfile::tempdir().unwrap();
        let mut command = trimtab();
        command
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .args(["drive", "attach", "--speed", "off"])
            .arg(&spec);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // Removes anything that the command may have attached.
        let _ = trimtab()
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .args(["drive", "detach", "--all", "--force"])
            .output();
        assert_eq!(output.status.code(), Some(2), "{name:?}: {said}");
        assert!(
            said.contains("name is '")
                && said.lines().count() <= 2
                && !said.contains('\u{1b}')
                && said.len() < 700,
            "{name:?}: {said}"
        );
        assert!(
            !runtime.path().join("drives").exists()
                || fs::read_dir(runtime.path().join("drives")).unwrap().count() == 0
        );
    }
    for id in [
        victim.node().as_str(),
        &up,
        "a b",
        "",
        ".",
        "..",
        ".hidden",
        "-x",
        "a/b",
        "a\nb",
        "\u{1b}[2J",
        &long,
    ] {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = trimtab();
        command
            .env("TRIMTAB_RUNTIME_DIR", runtime.path())
            .args(["drive", "attach", "ocz-vertex-le-100gb", "--size", "256MiB"])
            .arg(format!("--id={id}"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{id:?}: {said}");
        assert!(said.contains("is not an id") && !said.contains('\u{1b}'), "{said:?}");
        assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
    }
}

#[test]
fn planted_runtime_directory_is_not_used() {
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
    // The attacker guesses the directory's name and creates it first, with a link to the
    // victim's data in it.
    let predictable = shared.path().join(format!("trimtab-{VICTIM}"));
    fs::create_dir(&predictable).unwrap();
    symlink(&precious, predictable.join("drives")).unwrap();
    for path in [&predictable, &predictable.join("drives")] {
        std::os::unix::fs::lchown(path, Some(ATTACKER), Some(ATTACKER)).unwrap();
    }
    let (_directory, program) = reachable();
    let mut command = as_user(VICTIM, &program, home.path());
    let socket = home.path().join("nbd");
    command
        .env("TMPDIR", shared.path())
        .args(["drive", "attach", "ocz-vertex-le-100gb", "--size", "256MiB", "--no-block", "--nbd"])
        .arg(&socket);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let detach = |variable: Option<&Path>| {
        let mut command = as_user(VICTIM, &program, home.path());
        command.env("TMPDIR", shared.path()).args(["drive", "detach", "--all"]);
        variable.map(|path| command.env("TRIMTAB_RUNTIME_DIR", path));
        command.output().unwrap()
    };
    let output = detach(None);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("detached ocz-vertex-le-100gb"),
        "found again: {output:?}"
    );
    let output = detach(Some(&predictable));
    assert_eq!(
        output.status.code(),
        Some(1),
        "named by the user himself, but another's: {output:?}"
    );
    for name in ["control", "log", "record.json", "record.json.new", "mnt"] {
        assert!(drive.join(name).exists(), "{name} is gone");
    }
    let mode = fs::metadata(home.path().join(".local/state/trimtab/run/drives"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "made private, whatever the umask");
}

#[test]
fn detach_keeps_loop_device_of_another_file() {
    if !have_root() || !have(&["losetup"]) {
        return skip("root and losetup");
    }
    let drive = Attached::new(&["ocz-vertex-le-100gb", "--size", "256MiB", "--speed", "off"]);
    let node = drive.device.to_str().unwrap().to_owned();
    ok(Command::new("losetup").args(["--detach", &node]));
    let backing =
        Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("loop/backing_file");
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
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("has another backing file now"),
        "{output:?}"
    );
    drive
        .command()
        .args(["drive", "status", "--json"])
        .assert()
        .success()
        .stdout(predicate::str::contains("\"drives\": []"));
}

#[test]
fn detach_is_refused_while_mounted_in_another_namespace() {
    let _guard = crate::support::makes_namespaces();
    if !have_root() || !have(&["mkfs.ext4", "unshare"]) {
        return skip("root, e2fsprogs and util-linux");
    }
    let drive = Attached::new(&["ocz-vertex-le-100gb", "--size", "256MiB", "--speed", "off"]);
    ok(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&drive.device));
    let holder = mounted_elsewhere(&drive.device);
    let autoclear =
        Path::new("/sys/block").join(drive.device.file_name().unwrap()).join("loop/autoclear");
    let detach = || drive.command().args(["drive", "detach"]).output().unwrap();
    let output = detach();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in another mount namespace"), "{said}");
    assert_eq!(
        fs::read_to_string(&autoclear).unwrap().trim(),
        "0",
        "not to be detached behind anybody's back"
    );
    // The kernel detects the use even if the process is invisible.
    assert_eq!(drive.status()["id"], "ocz-vertex-le-100gb", "it is served still");
    drop(holder);
    let patience = Instant::now() + Duration::from_secs(10);
    while !detach().status.success() {
        assert!(Instant::now() < patience, "nobody uses it any more");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs the attacker's script in a loop until dropped.
fn attacker(script: &str, arguments: &[&Path]) -> Ends {
    let script = format!("while :; do {script}; done 2>/dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh"])
        .args(arguments)
        .uid(ATTACKER)
        .gid(ATTACKER)
        .stdout(Stdio::null());
    Ends(command.spawn().unwrap())
}

#[test]
fn postmark_does_not_follow_links_made_during_the_run() {
    if !have_root() {
        return skip("root");
    }
    let mut in_the_way = 0;
    for round in 0..4 {
        let victim = directory_of(0, 0o755);
        let canary = victim.path().join("canary");
        fs::write(&canary, "precious").unwrap();
        let location = directory_of(0, 0o777);
        let _attacker = attacker(
            "[ -e $1/1 ] && for n in $(seq 900 100 9000); do ln -s $2 $1/$n; done",
            &[location.path(), &canary],
        );
        let config = format!(
            "set location {}\nset number 9000\nset transactions 9000\nset buffering {}\nrun\n",
            location.path().display(),
            round % 2 == 0
        );
        let output = trimtab().args(["-q", "postmark"]).write_stdin(config).output().unwrap();
        assert_eq!(fs::read_to_string(&canary).unwrap(), "precious", "round {round}");
        if String::from_utf8_lossy(&output.stderr).contains("File exists") {
            in_the_way += 1;
            let left: Vec<_> =
                fs::read_dir(location.path()).unwrap().map(|entry| entry.unwrap()).collect();
            assert!(
                !left.is_empty()
                    && left.iter().all(|entry| entry.file_type().unwrap().is_symlink()),
                "only what is not ours stays: {left:?}"
            );
        }
    }
    assert!(in_the_way > 0, "the attacker never came in between");
}

#[test]
fn postmark_does_not_follow_swapped_directories() {
    if !have_root() {
        return skip("root");
    }
    for round in 0..2 {
        let victim = directory_of(0, 0o755);
        for n in 1..=3000 {
            fs::write(victim.path().join(n.to_string()), "precious").unwrap();
        }
        let location = directory_of(0, 0o777);
        let swap = "mv $1/s0 $1/aside && ln -s $2 $1/s0 && sleep 0.0$(($$ % 5)) && rm $1/s0; mv \
            -T $1/aside $1/s0";
        let _attacker = attacker(swap, &[location.path(), victim.path()]);
        let config = format!(
            "set location {}\nset number 1000\nset transactions 2000\n\
                set subdirectories 2\nset buffering {}\nrun\n",
            location.path().display(),
            round == 0
        );
        let _ = trimtab().args(["-q", "--yes", "postmark"]).write_stdin(config).output().unwrap();
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 3000, "round {round}");
        for n in 1..=3000 {
            assert_eq!(
                fs::read_to_string(victim.path().join(n.to_string())).unwrap(),
                "precious",
                "round {round}"
            );
        }
    }
}

#[test]
fn drive_learn_does_not_follow_swapped_directory() {
    let Some(mount) = crate::support::LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    for round in 0..3 {
        let victim = directory_of(0, 0o755);
        fs::write(victim.path().join("canary"), "precious").unwrap();
        let open = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir_in(mount.path())
            .unwrap();
        let place = open.path().join("place");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::chown(&place, Some(ATTACKER), Some(ATTACKER)).unwrap();
        let other = if round % 2 == 0 { "ln -s $2 $1/place" } else { "mkdir $1/place" };
        let script = format!(
            "mv -T $1/place $1/aside && {other} && sleep 0.0$(($$ % 5)); rm -d \
                $1/place; mv -T $1/aside $1/place"
        );
        let attacker = attacker(&script, &[open.path(), victim.path()]);
        let mut learn = Command::new("timeout");
        learn.args(["--signal=INT", "6"]).arg(program()).args([
            "drive",
            "learn",
            "--write-limit",
            "48MiB",
            "--rest",
            "0s",
            "--time",
            "1s",
        ]);
        crate::support::at_home(
            learn.args(["--yes", "--reserve", "0", "--output", "/dev/null"]).arg(&place),
        );
        let _ = learn.stdin(Stdio::null()).output().unwrap();
        drop(attacker);
        let names: Vec<_> =
            fs::read_dir(victim.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"], "round {round}");
        assert_eq!(
            fs::read_to_string(victim.path().join("canary")).unwrap(),
            "precious",
            "round {round}"
        );
    }
}

#[test]
fn directory_that_replaced_a_workspace_is_not_removed() {
    if !have_root() {
        return skip("root");
    }
    let mut reported = 0;
    for round in 0..40 {
        // On a busy machine the attacker sometimes acts too late.
        if round >= 2 && reported > 0 {
            break;
        }
        let ground = directory_of(0, 0o777);
        let swap = "for w in $1/trimtab-work-*; do [ ! -d $w ] || \
            { mv $w $1/aside && mkdir -p $w/run && echo precious > $w/run/canary; }; done";
        let attacker = attacker(swap, &[ground.path()]);
        let mut command = trimtab();
        command
            .args([
                "-q",
                "--yes",
                "bench",
                "postmark",
                "--number",
                "1000",
                "--transactions",
                "1000",
                "--reserve",
                "0",
            ])
            .arg(ground.path());
        let output = command.output().unwrap();
        // If the program stopped early, the attacker may not yet have placed its
        // directory there.
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(attacker);
        // The attacker may also have moved its own directory aside, in the middle of
        // another round.
        let below = |path: PathBuf| -> Vec<PathBuf> {
            fs::read_dir(path).map_or_else(
                |_| Vec::new(),
                |entries| entries.map(|entry| entry.unwrap().path()).collect(),
            )
        };
        let entries: Vec<PathBuf> = below(ground.path().into())
            .into_iter()
            .chain(below(ground.path().join("aside")))
            .collect();
        let canary = entries.iter().any(|path| path.join("run/canary").exists());
        assert!(canary, "the attacker's directory is still there: {entries:?}, {output:?}");
        reported += usize::from(String::from_utf8_lossy(&output.stderr).contains("left alone"));
    }
    assert!(reported > 0, "the user hears of it");
}

/// Arguments of a short run that writes to its target.
const WRITES: [&str; 15] = [
    "-q",
    "--yes",
    "bench",
    "crystal",
    "--only",
    "write",
    "--profile",
    "cdm3",
    "--size",
    "16MiB",
    "--passes",
    "1",
    "--bytes",
    "256KiB",
    "--interval=0ms",
];

#[test]
fn destroy_does_not_follow_a_link_swapped_in() {
    if !have_root() {
        return skip("root");
    }
    let victim = directory_of(0, 0o755);
    let canary = victim.path().join("canary");
    let precious = vec![7; 16 << 20];
    let ground = directory_of(ATTACKER, 0o755);
    let file = ground.path().join("f");
    // The targets: the attacker's own empty file, a link, and a directory on the path
    // that is a link.
    let swap = "truncate -s 16M $1/own; mv -fT $1/own $1/f; ln -s $2 $1/link; mv -fT $1/link \
        $1/f; mkdir $1/d; cp $1/own $1/d/f; mv -T $1/d $1/e; ln -s ${2%/*} $1/d; rm -rf \
        $1/d $1/e";
    let _attacker = attacker(swap, &[ground.path(), &canary]);
    let mut destroyed_own = 0;
    // On a busy machine the attacker may win the race for a while.
    for round in 0..400 {
        if round >= 40 && destroyed_own > 0 {
            break;
        }
        fs::write(&canary, &precious).unwrap();
        let target = if round % 4 == 3 { ground.path().join("d/f") } else { file.clone() };
        let mut command = trimtab();
        // Even if the user allows overwriting unknown data.
        let output = command
            .args(WRITES)
            .arg(&target)
            .arg("--destroy")
            .arg(&target)
            .args(["--overwrite", "unknown data"])
            .output()
            .unwrap();
        assert!(fs::read(&canary).unwrap() == precious, "round {round}: {output:?}");
        destroyed_own += usize::from(output.status.success());
    }
    assert!(destroyed_own > 0, "the attacker's own file was never caught");
}

fn refused(target: &Path, why: &str) {
    let output = trimtab().args(WRITES).arg(target).arg("--destroy").arg(target).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(why) && said.contains("nothing was written"),
        "{why}: {said}"
    );
}

/// Mounts `what` in a private mount namespace until dropped.
fn mounted_elsewhere(what: &Path) -> (Ends, tempfile::TempDir) {
    let at = tempfile::tempdir().unwrap();
    let mut holder = Command::new("unshare");
    holder.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "mount \"$0\" \"$1\" && echo mounted && exec sleep 600",
    ]);
    let mut holder = Ends(holder.arg(what).arg(at.path()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = [0; 8];
    std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut line).unwrap();
    (holder, at)
}

#[test]
fn device_in_use_is_not_destroyed() {
    let _guard = crate::support::makes_namespaces();
    let Some(device) = LoopDevice::new(16) else { return skip("root and loop devices") };
    let node = PathBuf::from(device.node());
    let sleeper =
        Command::new("sleep").arg("600").stdin(fs::File::open(&node).unwrap()).spawn().unwrap();
    let holder = Ends(sleeper);
    refused(&node, "open in sleep (pid ");
    drop(holder);
    let above = run("losetup", &["--find", "--show", &device.node()]).unwrap().trim().to_owned();
    let refusal = std::panic::catch_unwind(|| refused(&node, &format!("it backs {above}")));
    run("losetup", &["--detach", &above]);
    refusal.unwrap();
    ok(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&node));
    let mounted = mounted_elsewhere(&node);
    refused(&node, "in another mount namespace (of pid ");
    drop(mounted);
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let output =
            trimtab().args(WRITES).arg(&node).arg("--destroy").arg(&node).output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("holds ext2/3/4") {
            break;
        }
        assert!(Instant::now() < patience, "{output:?}");
    }
    // A 256 MiB filesystem without its first bytes is recognised by its backup
    // superblocks.
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = scratch.path().join("image");
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    ok(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096"]).arg(&image));
    ok(Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=2", "conv=notrunc", "status=none"])
        .arg(format!("of={}", image.display())));
    refused(&image, "holds ext2/3/4");
}

#[test]
fn attach_and_bench_refuse_image_mounted_elsewhere() {
    let _guard = crate::support::makes_namespaces();
    if !have_root() || !have(&["mkfs.ext4", "unshare"]) {
        return skip("root, e2fsprogs and util-linux");
    }
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = scratch.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    ok(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
    let before = fs::read(&image).unwrap();
    let mounted = mounted_elsewhere(&image);
    refused(&image, "is in use: it backs /dev/loop");
    let runtime = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("nbd");
    let mut command = trimtab();
    command.env("TRIMTAB_RUNTIME_DIR", runtime.path()).args([
        "drive",
        "attach",
        "--no-block",
        "--speed",
        "off",
        "--size",
        "64MiB",
        "--adopt",
    ]);
    let spec = specification(scratch.path(), "small");
    let output =
        command.arg(&spec).arg("--nbd").arg(&socket).arg("--data").arg(&image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("is in use: it backs /dev/loop"), "{said}");
    // The name of the loop device's backing file is irrelevant.
    fs::rename(&image, scratch.path().join("renamed")).unwrap();
    refused(&scratch.path().join("renamed"), "is in use: it backs /dev/loop");
    drop(mounted);
    assert!(before.len() == 64 << 20);
    let holder = Ends(
        Command::new("sleep")
            .arg("600")
            .stdin(fs::File::open(scratch.path().join("renamed")).unwrap())
            .spawn()
            .unwrap(),
    );
    let patience = Instant::now() + Duration::from_secs(10);
    while Path::new("/sys/block").read_dir().unwrap().flatten().any(|entry| {
        fs::read_to_string(entry.path().join("loop/backing_file"))
            .is_ok_and(|text| text.contains(scratch.path().to_str().unwrap()))
    }) {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&scratch.path().join("renamed"), "open in sleep");
    drop(holder);
    refused(&scratch.path().join("renamed"), "holds ext2/3/4");
}

/// The capabilities of every thread of a process, as the kernel shows them: the effective
/// set, and the set that a child program could have.
fn capabilities(pid: u64) -> Vec<(u64, u64, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut all: Vec<_> = tasks
        .map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
            };
            let number = |name: &str| u64::from_str_radix(&field(name), 16).unwrap();
            (
                number("CapEff:") | number("CapPrm:") | number("CapInh:") | number("CapAmb:"),
                number("CapBnd:"),
                field("NoNewPrivs:"),
            )
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn drive_server_keeps_needed_capabilities_only() {
    if !have_root() {
        return skip("root");
    }
    // Numbers from linux/capability.h.
    let (dac_override, ipc_lock, ptrace, admin, resource) =
        (1 << 1, 1 << 14, 1 << 19, 1 << 21, 1 << 24);
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("nbd");
    let attached: [(&[&str], u64); 2] = [
        (&["--nbd", socket.to_str().unwrap(), "--no-block"], dac_override),
        (&[], ipc_lock | ptrace | admin | resource),
    ];
    for (more, most) in attached {
        let drive = Attached::new(
            &[&["ocz-vertex-le-100gb", "--size", "256MiB", "--speed", "off"], more].concat(),
        );
        for (has, could_have, no_new) in capabilities(drive.status()["pid"].as_u64().unwrap()) {
            assert_eq!(
                (has & !most, could_have & !most, no_new.as_str()),
                (0, 0, "1"),
                "{more:?}: {has:x}, {could_have:x}"
            );
        }
        drive.detach();
    }
}

#[test]
fn detach_keeps_file_that_replaced_the_socket() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("nbd");
    let drive = Attached::new(&[
        "ocz-vertex-le-100gb",
        "--size",
        "256MiB",
        "--speed",
        "off",
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
    ]);
    fs::rename(&socket, scratch.path().join("aside")).unwrap();
    fs::write(&socket, "precious").unwrap();
    drive.detach();
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}

/// The user who placed the file there could read all data that root writes to the drive.
#[test]
fn attach_refuses_data_file_of_another_user() {
    if !have_root() {
        return skip("root: two users");
    }
    for (mode, foreign) in [(0o1777, true), (0o1777, false), (0o755, false)] {
        let directory = directory_of(if mode == 0o755 { ATTACKER } else { 0 }, mode);
        let file = directory.path().join("data.img");
        fs::write(&file, b"").unwrap();
        if foreign {
            chown(&file, Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
        let name = format!("planted-{mode:o}-{foreign}");
        let attach = trimtab()
            .args([
                "drive",
                "attach",
                "ocz-vertex-le-100gb",
                "--size",
                "1GiB",
                "--speed",
                "off",
                "--id",
                &name,
                "--data",
            ])
            .arg(&file)
            .assert();
        if foreign {
            attach.code(1).stderr(predicate::str::contains("is not this user's alone"));
            assert_eq!(fs::metadata(&file).unwrap().len(), 0);
        } else {
            attach.success();
            trimtab().args(["drive", "detach", &name]).assert().success();
        }
    }
}

#[test]
fn output_option_never_overwrites_a_device() {
    let Some(device) = LoopDevice::new(16) else { return skip("root and loop devices") };
    let (node, kept) = (device.node(), tempfile::tempdir().unwrap());
    let store = kept.path().join("r.db").display().to_string();
    trimtab()
        .args(["--store", &store, "bench", "tree", "--files", "1", "--tries", "1", "null:"])
        .assert()
        .success();
    let outputs: [&[&str]; 2] = [
        &["results", "export", "--force", "--output"],
        &["results", "report", "last", "--force", "--output"],
    ];
    for args in outputs {
        trimtab()
            .args(["--store", &store])
            .args(args)
            .arg(&node)
            .assert()
            .code(1)
            .stderr(predicate::str::contains("it is a block device"));
        assert!(fs::read(&node).unwrap().iter().all(|byte| *byte == 0), "{args:?}");
    }
}

#[test]
fn limit_of_killed_command_is_restored_despite_locks() {
    let Some(device) = LoopDevice::new(16) else { return skip("root and loop devices") };
    let limit = Path::new("/sys/block")
        .join(Path::new(&device.node()).file_name().unwrap())
        .join("queue/discard_max_bytes");
    let read = || fs::read_to_string(&limit).unwrap().trim().to_owned();
    let (before, run) = (read(), directory_of(0, 0o755));
    // The state after a process lowered a limit and was killed.
    let journal = trimtab_linux::session::journal::TemporaryJournal::of_directory(run.path());
    let change = trimtab_linux::session::journal::Change::Attribute {
        file: limit.clone(),
        before: before.clone(),
        set: vec!["65536".to_owned()],
    };
    drop(journal.begin("limit", change).unwrap());
    fs::write(&limit, "65536").unwrap();
    // Locks every file that it can open.
    let script = "for f in \"$@\"; do (exec 9< \"$f\" && flock -n 9 && exec sleep 600) & done; \
        echo tried; wait";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(run.path())
        .arg(run.path().join("journal"))
        .arg(run.path().join("journal/limit.json"));
    command
        .uid(ATTACKER)
        .gid(ATTACKER)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut attacker = Ends(command.spawn().unwrap());
    std::io::Read::read_exact(attacker.0.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut any = crate::support::process();
    any.args(["results", "list"])
        .env("TRIMTAB_RUNTIME_DIR", run.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut any = Ends(any.spawn().unwrap());
    let patience = Instant::now() + Duration::from_secs(30);
    while any.0.try_wait().unwrap().is_none() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = any.0.kill();
    let mut said = String::new();
    std::io::Read::read_to_string(any.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    let after = read();
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(&attacker.0),
        rustix::process::Signal::KILL,
    );
    // A loop device's default limit need not be a multiple of its granularity, but a
    // written limit must be.
    let difference = before.parse::<u64>().unwrap().abs_diff(after.parse().unwrap());
    assert!(
        difference < 65536 && after != "65536",
        "{before}, {after}: restored what another user holds: {said}"
    );
}

#[test]
fn doctor_undo_refuses_records_writable_by_others() {
    if !have_root() {
        return skip("root");
    }
    let record = r#"{"version":1,"change":{"subject":"/","steps":[]}}"#;
    for (owner, mode, of_records, why) in [
        (ATTACKER, 0o755, 0, "it belongs to another user"),
        (0, 0o777, 0, "others may write to it"),
        (0, 0o770, 0, "others may write to it"),
        (0, 0o755, ATTACKER, "it belongs to another user"),
    ] {
        let state = directory_of(owner, mode);
        let records = state.path().join("journal");
        fs::create_dir(&records).unwrap();
        fs::write(records.join("doctor-0001.json"), record).unwrap();
        fs::set_permissions(&records, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&records, Some(of_records), Some(of_records)).unwrap();
        let mut undo = trimtab();
        let undo = undo
            .env("TRIMTAB_STATE_DIR", state.path())
            .args(["doctor", "--undo"])
            .assert()
            .failure();
        let said = String::from_utf8_lossy(&undo.get_output().stderr).into_owned();
        assert!(
            said.contains("cannot be trusted") && said.contains(why),
            "{owner} {mode:o} {of_records}: {said}"
        );
        let mend = format!("(mode {mode:o}); run 'chmod go-w {}'", state.path().display());
        assert!(said.contains(&mend) == why.starts_with("others"), "{said}");
        assert!(!said.contains("cannot restore"), "nothing was to be restored: {said}");
        assert_eq!(fs::read_to_string(records.join("doctor-0001.json")).unwrap(), record);
    }
}

/// Neither the drive's control socket nor the daemon's lock leaks: a process that holds
/// the lock prevents every daemon from starting.
#[test]
fn runtime_directory_is_closed_to_other_users() {
    if !have_root() || !have(&["python3"]) {
        return skip("root and python3");
    }
    let runtime = directory_of(0, 0o755);
    let held = trimtab_linux::trim::lock::directory_of_locks(runtime.path()).unwrap();
    drop(held.open_or_create("daemon.lock", 0o600).unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("nbd").display().to_string();
    let drive = Attached::new(&[
        "ocz-vertex-le-100gb",
        "--size",
        "256MiB",
        "--speed",
        "off",
        "--no-block",
        "--nbd",
        &socket,
    ]);
    let script = "import os, socket, sys\n\
        def opens(path):\n    \
            try:\n        \
                if os.path.isdir(path): return bool(os.listdir(path))\n        \
                if path.endswith('control'): socket.socket(socket.AF_UNIX).connect(path)\n        \
                else: os.close(os.open(path, os.O_RDONLY))\n        \
                return True\n    \
            except OSError: return False\n\
        print('tried', [path for path in sys.argv[1:] if opens(path)])";
    let mut all = Vec::new();
    for place in [runtime.path(), drive.runtime()] {
        let found = Command::new("find")
            .arg(place)
            .args(["-mindepth", "1", "(", "-type", "f", "-o", "-type", "s", ")"])
            .output()
            .unwrap();
        all.extend(String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from));
    }
    assert!(
        all.iter().any(|path| path.ends_with("daemon.lock"))
            && all.iter().any(|path| path.ends_with("control")),
        "{all:?}"
    );
    let mut other = Command::new("python3");
    let output =
        other.args(["-c", script]).args(&all).uid(ATTACKER).gid(ATTACKER).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "tried []\n", "{output:?}");
    drive.detach();
}

/// Regression: the store was refused there, but only after the program had created
/// directories that their owner could not access.
#[test]
fn root_creates_nothing_in_home_of_another_user() {
    if !have_root() {
        return skip("root");
    }
    let home = directory_of(VICTIM, 0o700);
    fs::create_dir(home.path().join(".local")).unwrap();
    chown(home.path().join(".local"), Some(VICTIM), Some(VICTIM)).unwrap();
    for command in [
        &["bench", "tree", "--files", "1", "--tries", "1", "null:"][..],
        &["study", "drive:ocz-vertex-le-100gb", "--quick"],
        &["drive", "learn", "drive:ocz-vertex-le-100gb"],
    ] {
        let run = trimtab()
            .args(command)
            .env_remove("XDG_DATA_HOME")
            .env("HOME", home.path())
            .assert()
            .failure();
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(
            said.contains("cannot be trusted: it belongs to another user"),
            "{command:?}: {said}"
        );
        assert!(!home.path().join(".local/share").exists(), "{command:?}");
    }
}

#[test]
fn history_below_foreign_link_is_refused_without_history() {
    if !have_root() {
        return skip("root");
    }
    let directory = directory_of(0, 0o1777);
    let (link, target) = (directory.path().join("state"), tempfile::tempdir().unwrap());
    symlink(target.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(ATTACKER), Some(ATTACKER)).unwrap();
    let run = trimtab().arg("history").env("TRIMTAB_STATE_DIR", &link).assert().code(1);
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(said.contains("is a symbolic link owned by uid "), "{said}");
}

#[test]
fn report_onto_foreign_link_is_refused_before_the_run() {
    if !have_root() {
        return skip("root");
    }
    let directory = directory_of(0, 0o1777);
    let (link, target) = (directory.path().join("r.html"), directory.path().join("victim.html"));
    fs::write(&target, "precious").unwrap();
    symlink(&target, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(ATTACKER), Some(ATTACKER)).unwrap();
    for force in [false, true] {
        let error = format!("{:#}", trimtab::report::file::check(&link, force).unwrap_err());
        assert!(error.contains("is a symbolic link owned by uid "), "{error}");
    }
}
