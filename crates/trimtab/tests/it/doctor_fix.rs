//! `trimtab doctor --fix` and `--undo`: the changed settings, their order, and the undo.
//! Cases that need device-mapper, SCSI or NVMe run in the lab (`tests/lab`).

use crate::support::{
    LoopMount, at_home, copy_program, have_root, have_tool, program, run, skip, trimtab,
    unavailable,
};
use crate::sysroot::{fixtures, unpack};
use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::root::Root;

/// The first action of `--fix` on each tree is the one that the tree expects (`expect
/// action`). Without an expectation `--fix` takes no action.
#[test]
fn doctor_fix_actions_match_recorded_machine() {
    let mut wrong = Vec::new();
    for (name, text) in fixtures() {
        let tree = unpack(&text);
        let root = Root::recorded(tree.path()).unwrap();
        let diagnosis =
            Doctor::new(&root).unwrap().examine_path(Path::new(&tree.expected.subject)).unwrap();
        let of =
            |action| serde_json::to_value(action).unwrap()["what"].as_str().unwrap().to_owned();
        let found: Vec<String> =
            diagnosis.actionable().flat_map(|(_, remedy)| &remedy.actions).map(of).collect();
        let found: Vec<String> = found.into_iter().filter(|what| what != "timer").collect();
        if found != tree.expected.actions {
            wrong.push(format!("{name}: {found:?}"));
        }
        assert_eq!(diagnosis.fix.is_some(), diagnosis.actionable().next().is_some(), "{name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An ext4 whose device accepts only small discards, and a private state directory.
struct Lowered {
    mount: LoopMount,
    state: tempfile::TempDir,
}

const LOW: &str = "65536";

impl Lowered {
    fn new() -> Option<Self> {
        let mount = LoopMount::new("ext4", 256, "nodiscard")?;
        let lowered = Self { mount, state: tempfile::tempdir().unwrap() };
        fs::write(lowered.limit(), LOW).ok()?;
        (lowered.now() == LOW).then_some(lowered)
    }

    fn limit(&self) -> PathBuf {
        let device = self.mount.device();
        Path::new("/sys/block")
            .join(device.strip_prefix("/dev/").unwrap())
            .join("queue/discard_max_bytes")
    }

    fn now(&self) -> String {
        fs::read_to_string(self.limit()).unwrap().trim().to_owned()
    }

    fn doctor(&self, args: &[&str]) -> Command {
        let mut command = trimtab();
        command.env("TRIMTAB_STATE_DIR", self.state.path()).arg("doctor").args(args);
        command
    }

    fn fix(&self, args: &[&str]) -> Command {
        let mut command = self.doctor(&["--fix", "--reserve", "1MB"]);
        command.arg(self.mount.path()).args(args);
        command
    }

    fn records(&self) -> PathBuf {
        self.state.path().join("journal")
    }

    fn record(&self) -> PathBuf {
        self.records().join("doctor-0001.json")
    }
}

fn document(command: &mut Command, code: i32) -> Value {
    let run = command.arg("--json").assert().code(code);
    serde_json::from_slice(&run.get_output().stdout).unwrap()
}

#[test]
fn doctor_fix_raises_limit_and_undo_restores_it() {
    let Some(lowered) = Lowered::new() else { return skip("root, loop devices and mkfs") };
    let told = document(lowered.doctor(&[]).arg(lowered.mount.path()), 0);
    assert_eq!(
        told["diagnoses"][0]["fix"],
        format!("trimtab doctor {} --fix", lowered.mount.path().display())
    );
    lowered.fix(&["--dry-run"]).assert().code(0).stdout(
        predicate::str::contains("would do: echo").and(predicate::str::contains("dry run")),
    );
    // No terminal can answer the question.
    let refused = lowered.fix(&[]).assert().code(2);
    refused
        .stderr(predicate::str::contains("say --yes").and(predicate::str::contains("\n").count(1)));
    assert!(
        lowered.now() == LOW && !lowered.records().exists(),
        "nothing was changed and nothing noted"
    );

    let fixed = document(&mut lowered.fix(&["--yes"]), 0);
    assert_eq!(fixed["schema"], "trimtab.doctor-fix");
    assert_eq!(
        (&fixed["steps"][0]["code"], &fixed["steps"][0]["outcome"]),
        (&"limits.tiny".into(), &"done".into()),
        "{fixed}"
    );
    assert_eq!(fixed["proof"]["verdict"], "zeroed", "{fixed}");
    assert!(lowered.now().parse::<u64>().unwrap() >= 1 << 20);
    let modes = [lowered.records(), lowered.record()]
        .map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600]);
    // There is nothing left to do.
    lowered
        .fix(&["--yes"])
        .assert()
        .code(0)
        .stdout(predicate::str::contains("nothing that --fix can change"));

    lowered
        .doctor(&["--undo", "--dry-run"])
        .assert()
        .code(0)
        .stdout(predicate::str::contains("would be undone"));
    assert_ne!(lowered.now(), LOW);
    lowered.doctor(&["--undo"]).assert().code(0).stdout(predicate::str::contains("undone"));
    assert_eq!(lowered.now(), LOW);
    assert!(!lowered.record().exists());
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("nothing to undo: --fix has changed nothing"));
}

#[test]
fn doctor_undo_keeps_value_changed_since() {
    let Some(lowered) = Lowered::new() else { return skip("root, loop devices and mkfs") };
    lowered.fix(&["--yes"]).assert().code(0);
    fs::write(lowered.limit(), "1048576").unwrap();
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(0)
        .stdout(predicate::str::contains("was changed since"));
    assert_eq!(lowered.now(), "1048576");
    assert!(!lowered.record().exists(), "it has been dealt with");
}

#[test]
fn doctor_undo_reverts_a_killed_fix() {
    let Some(lowered) = Lowered::new() else { return skip("root, loop devices and mkfs") };
    lowered.fix(&["--yes"]).assert().code(0);
    let noted = |text: &str| fs::write(lowered.record(), text).unwrap();
    let record = fs::read_to_string(lowered.record()).unwrap();
    // The states between the record and the change, and between the change and its
    // confirmation.
    noted(&record.replace("\"done\": true", "\"done\": false"));
    let told = lowered.doctor(&[]).arg(lowered.mount.path()).assert().code(0);
    told.stdout(
        predicate::str::contains("left by a killed process: mending")
            .and(predicate::str::contains("--undo")),
    );
    lowered.doctor(&["--undo"]).assert().code(0);
    assert_eq!(lowered.now(), LOW);
    // The states before the first change, and in the middle of a record.
    noted(&record.replace("\"done\": true", "\"done\": false"));
    fs::set_permissions(lowered.record(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(lowered.records().join(".doctor-0002.json.0123456789abcdef"), "{").unwrap();
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(0)
        .stdout(predicate::str::contains("as it was before"));
    assert_eq!(fs::read_dir(lowered.records()).unwrap().count(), 0);
}

#[test]
fn doctor_fix_refuses_locked_or_untrusted_records() {
    let Some(lowered) = Lowered::new() else { return skip("root, loop devices and mkfs") };
    lowered.fix(&["--yes"]).assert().code(0);
    let held = fs::File::open(lowered.record()).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("another process of trimtab"));
    drop(held);
    // Another user could have replaced the records.
    fs::set_permissions(lowered.records(), fs::Permissions::from_mode(0o777)).unwrap();
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("cannot be trusted"));
    fs::set_permissions(lowered.records(), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(lowered.records(), Some(65_534), Some(65_534)).unwrap();
    fs::write(lowered.limit(), LOW).unwrap();
    lowered.fix(&["--yes"]).assert().code(1).stderr(predicate::str::contains("cannot be trusted"));
    assert_eq!(lowered.now(), LOW);
    std::os::unix::fs::chown(lowered.records(), Some(0), Some(0)).unwrap();
    // A record that names another file changes nothing in that file.
    let other = lowered.state.path().join("discard_max_bytes");
    fs::write(&other, "5").unwrap();
    let record: Value =
        serde_json::from_str(&fs::read_to_string(lowered.record()).unwrap()).unwrap();
    let action = &record["change"]["steps"][0]["action"];
    let text = record.to_string().replace(
        &action.to_string(),
        &serde_json::json!({ "what": "attribute", "file": other, "from": "1", "to": "5" })
            .to_string(),
    );
    let text = text.replace(&record["change"]["steps"][0]["identity"].to_string(), "\"\"");
    fs::write(lowered.record(), text).unwrap();
    lowered
        .doctor(&["--undo"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("nothing that is ever set here"));
    assert_eq!(fs::read_to_string(&other).unwrap(), "5");
}

#[test]
fn doctor_fix_refuses_wrong_usage_and_non_root() {
    for args in [
        &["--fix"][..],
        &["--fix", "/", "/tmp"],
        &["--fix", "/", "--sysroot", "/tmp"],
        &["--fix", "--undo", "/"],
        &["--undo", "/"],
        &["--dry-run", "/"],
        &["--reserve", "1GB", "/"],
    ] {
        trimtab().arg("doctor").args(args).arg("--yes").assert().code(2).stdout("");
    }
    if !have_root() {
        return skip("root");
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("trimtab");
    copy_program(&program(), &copy);
    for args in [&["--fix", "/"][..], &["--undo"]] {
        use std::os::unix::process::CommandExt as _;
        let mut command = std::process::Command::new(&copy);
        at_home(&mut command);
        command.env("XDG_DATA_HOME", directory.path()).env("TRIMTAB_STATE_DIR", directory.path());
        command.uid(65_534).gid(65_534).current_dir("/").arg("doctor").args(args).arg("--yes");
        Command::from_std(command).assert().code(1).stderr(predicate::str::contains("needs root"));
    }
}

/// A dm-crypt mapping on a loop device, removed on drop.
struct Luks {
    name: String,
    mount: tempfile::TempDir,
    device: crate::support::LoopDevice,
}

impl Luks {
    fn new() -> Option<Self> {
        let name = format!("trimtab-test-{}", std::process::id());
        let luks = Self {
            name,
            mount: tempfile::tempdir().ok()?,
            device: crate::support::LoopDevice::new(128)?,
        };
        let node = luks.device.node();
        let key = luks.mount.path().with_extension("key");
        fs::write(&key, "pw").ok()?;
        let key_file = key.to_str()?;
        let made = run(
            "cryptsetup",
            &[
                "luksFormat",
                "--type",
                "luks2",
                "--pbkdf",
                "pbkdf2",
                "--pbkdf-force-iterations",
                "1000",
                "-q",
                &node,
                key_file,
            ],
        )
        .and_then(|_| run("cryptsetup", &["open", &node, &luks.name, "--key-file", key_file]));
        fs::remove_file(&key).ok()?;
        made?;
        let mapped = format!("/dev/mapper/{}", luks.name);
        run("mkfs.ext4", &["-q", "-F", &mapped])?;
        run("mount", &[&mapped, luks.mount.path().to_str()?])?;
        Some(luks)
    }
}

impl Drop for Luks {
    fn drop(&mut self) {
        run("umount", &[self.mount.path().to_str().unwrap()]);
        run("cryptsetup", &["close", &self.name]);
    }
}

#[test]
fn doctor_fix_and_undo_switch_dm_crypt_discards() {
    if !have_root() || !have_tool("cryptsetup") {
        return unavailable("root and cryptsetup");
    }
    if !Path::new("/sys/class/misc/device-mapper").exists() {
        return unavailable("device-mapper, which this kernel has not (make lab tries it)");
    }
    let Some(luks) = Luks::new() else { return unavailable("dm-crypt") };
    let state = tempfile::tempdir().unwrap();
    let doctor = |args: &[&str], passphrase: &str, code: i32| {
        let mut command = trimtab();
        command
            .env("TRIMTAB_STATE_DIR", state.path())
            .arg("doctor")
            .args(args)
            .write_stdin(format!("{passphrase}\n"));
        command.assert().code(code)
    };
    let path = luks.mount.path().to_str().unwrap();
    doctor(&[path], "", 3);
    // With the wrong passphrase cryptsetup reports an error, and nothing remains to undo.
    let wrong = doctor(&[path, "--fix", "--yes"], "wrong", 1);
    wrong.stderr(predicate::str::contains("cryptsetup ended with exit status 2"));
    doctor(&["--undo"], "", 1);
    doctor(&[path, "--fix", "--yes", "--reserve", "1MB"], "pw", 0);
    doctor(&["--undo"], "pw", 0);
    doctor(&[path], "", 3);
}
