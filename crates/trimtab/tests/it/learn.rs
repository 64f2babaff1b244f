//! `trimtab drive learn`, from the command line.

use crate::attached_drive::{Attached, Mounted, ok};
use crate::support::{LoopMount, have_root, skip, trimtab};
use predicates::prelude::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A small drive with a high cost per TRIM command.
const DRIVE: &str = "name = \"odd\"\ndescription = \"odd\"\ncapacity_bytes = 4_294_967_296\n[interface]\n\
    rate_bytes_per_s = 300_000_000\n[flash.geometry]\nchannels = 4\ndies_per_channel = 1\n\
    superblock_dies = 4\npages_per_block = 128\nblocks_per_plane = 320\n[flash.trim]\n\
    command_ns = 7_000_000\n";

fn learn(directory: &Path, args: &[&str]) -> assert_cmd::assert::Assert {
    fs::write(directory.join("odd.toml"), DRIVE).unwrap();
    let budget = ["drive", "learn", "drive:./odd.toml", "--write-limit", "24MiB"];
    trimtab().current_dir(directory).args(budget).args(args).assert()
}

/// The twin of `DRIVE` and its document, learned once.
fn learned() -> &'static (String, serde_json::Value) {
    static TWIN: LazyLock<(String, serde_json::Value)> = LazyLock::new(|| {
        let directory = tempfile::tempdir().unwrap();
        let out = learn(directory.path(), &["--output", "twin.toml", "--json"])
            .success()
            .get_output()
            .stdout
            .clone();
        (
            fs::read_to_string(directory.path().join("twin.toml")).unwrap(),
            serde_json::from_slice(&out).unwrap(),
        )
    });
    &TWIN
}

#[test]
fn learned_twin_file_is_a_drive_with_64_members() {
    let directory = tempfile::tempdir().unwrap();
    let (text, document) = learned();
    fs::write(directory.path().join("twin.toml"), text).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["members"].as_u64()),
        (Some("trimtab.twin"), Some(64))
    );
    let parameters = document["parameters"].as_array().unwrap();
    let command = parameters.iter().find(|one| one["field"] == "flash.trim.command_ns").unwrap();
    let [low, high] = ["low", "high"].map(|key| command[key].as_f64().unwrap());
    assert!(
        low <= 7.07e6 && high >= 6.93e6 && high / low < 1.2 && command["known"] == "measured",
        "{command}"
    );
    let drive = trimtab_drive::spec::file::parse(text).unwrap();
    let twin = drive.twin.as_ref().unwrap();
    assert_eq!((twin.members.len(), twin.parameters.len()), (64, parameters.len()));
    assert!(
        twin.members
            .iter()
            .all(|member| member.capacity_bytes == 4_294_967_296 && *member != drive.spec)
    );
    let show = ["drive", "show", "./twin.toml"];
    trimtab()
        .current_dir(directory.path())
        .args(show)
        .assert()
        .success()
        .stdout(predicate::str::contains("64 drives match"));
    let work = [
        "drive",
        "simulate",
        "--drive",
        "./twin.toml",
        "--until-written",
        "64MiB",
        "--store",
        "runs.db",
    ];
    trimtab().current_dir(directory.path()).args(work).assert().success();
    // The command never overwrites a file, and the same seed gives the same drives.
    learn(directory.path(), &["--output", "twin.toml"]).failure();
    learn(directory.path(), &["--output", "again.toml"]).success();
    assert_eq!(fs::read_to_string(directory.path().join("again.toml")).unwrap(), *text);
}

#[test]
fn drive_learn_refuses_unusable_target() {
    // On a disk, because memory is refused as no drive.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(directory.path().join("Cargo.toml"), "x").unwrap();
    for (args, said) in [
        (&["Cargo.toml"][..], "is a file; only directories and devices are probed"),
        (&[".", "--destroy", "."], ". is not a device, so nothing can be destroyed on it"),
        (&["/proc"], "no drive is below /proc: proc is not on a block device"),
        (&["."], "a write limit of 1.00 kB is too small to learn"),
        (&["drive:nowhere"], "unknown drive"),
        (&["null:"], "null: is not a drive that can be learned"),
        (
            &["drive:sata-tlc-500gb", "--reserve", "1GiB"],
            "is a modelled drive, which has nothing to keep or destroy",
        ),
        (
            &["drive:sata-tlc-500gb", "--write-limit", "500kB"],
            "a write limit of 500 kB is too small to learn",
        ),
        (&[".", "--budget", "all"], "expected small or full"),
        (&[".", "--rest", "400d"], "--rest is at most one hour"),
        (&[".", "--write-limit", "96MiB", "--budget", "full"], "is too little for --budget full"),
        (&["Cargo.toml", "--budget", "full"], "is a file; only directories and devices are probed"),
        (&[".", "--write-limit", "1TB", "--budget", "full"], "--budget full"),
        (&["drive:sata-tlc-500gb", "--write-limit", "1MiB"], "use --write-limit 24MiB or more"),
        (
            &["drive:sata-tlc-500gb", "--output", "no/such/place.toml"],
            "cannot write no/such/place.toml",
        ),
        (&["drive:sata-tlc-500gb", "--output", "/usr"], "cannot write /usr: Is a directory"),
    ] {
        let mut all = [&["drive", "learn"][..], args].concat();
        // No argument of this test permits a large write.
        if !all.contains(&"--write-limit") && !all.contains(&"--output") {
            all.extend(["--write-limit", "1kB"]);
        }
        let out = trimtab()
            .current_dir(directory.path())
            .args(&all)
            .assert()
            .failure()
            .get_output()
            .stderr
            .clone();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(said) && text.lines().count() <= 2, "{args:?}: {text}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn twin_with_invalid_member_is_refused_by_its_number() {
    let text = format!(
        "{DRIVE}[twin.origin]\nmodel = \"x\"\nlearned = \"2026-01-01\"\n\
            budget = \"small\"\nseed = 1\nwritten_bytes = 1\nmisfit_permille = 1\n\
            [twin.members]\nfields = [\"flash.geometry.channels\", \
            \"flash.nand.suspend_ns\"]\nvalues = [[4, \"none\"], [0, 5]]\n"
    );
    let problem = trimtab_drive::spec::file::parse(&text).unwrap_err();
    assert!(
        problem.starts_with("twin.members.values, list 2: flash.geometry.channels is 0"),
        "{problem}"
    );
    let good = text.replace("[0, 5]", "[8, 5]");
    let twin = trimtab_drive::spec::file::parse(&good).unwrap().twin.unwrap();
    let flash = &twin.members[1].flash;
    assert_eq!(
        (flash.geometry.channels, flash.nand.suspend_ns, twin.members[0].flash.nand.suspend_ns),
        (8, Some(5), None)
    );
    let short = text.replace("[0, 5]", "[2]");
    assert!(
        trimtab_drive::spec::file::parse(&short).unwrap_err().contains("1 values for 2 fields")
    );
}

/// A drive so slow that the overhead between program and drive hardly matters.
const SLOW: &str = "name = \"slow\"\ndescription = \"slow\"\ncapacity_bytes = 2_147_483_648\n\
    [interface]\nrate_bytes_per_s = 200_000_000\ncommand_overhead_ns = 20_000\n\
    latency_ns = 100_000\n[flash.geometry]\nchannels = 4\ndies_per_channel = 2\n\
    superblock_dies = 8\npages_per_block = 64\nblocks_per_plane = 160\n[flash.nand]\n\
    read_ns = 3_000_000\nprogram_ns = 4_000_000\n[flash.write_cache]\nbytes = 1_048_576\n\
    flush_ns = 1_000_000\n[flash.trim]\ncommand_ns = 20_000_000\nunit_ns = 100_000\n\
    gb_ns = 8_000_000_000\n";

/// Time that a busy machine may add to one request through the loop device and the
/// server. 15 ms occurred while other tests ran, less than 1 ms on a quiet machine. No
/// answer may come sooner than the drive's modelled time, within 2 %.
const ON_THE_WAY_NS: f64 = 4e7;

/// That drive, attached, and a scratch directory.
fn slow() -> (tempfile::TempDir, Attached) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("slow.toml");
    fs::write(&file, SLOW).unwrap();
    let drive = Attached::new(&[file.to_str().unwrap()]);
    (directory, drive)
}

/// Asserts that the probes found what arithmetic gives for the slow drive, and wrote what
/// the drive counts.
fn found_by_arithmetic(document: &serde_json::Value, drive: &Attached) {
    let written = drive.status()["model"]["host_written_bytes"].as_f64().unwrap();
    assert!(
        written <= f64::from(48 << 20)
            && document["origin"]["written_bytes"].as_f64() == Some(written),
        "{written}: {}",
        document["origin"]
    );
    let found = |name: &str| {
        document["found"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["value_ns"].as_f64().unwrap()
    };
    let host = 120_000.0;
    let link = |bytes: f64| bytes / 0.2;
    let trim = |units: f64, bytes: f64| host + 2e7 + units * 1e5 + bytes * 8.0;
    let area = f64::from(8 << 20);
    for (name, expected_ns) in [
        ("read 4096 q1", host + 3e6 + link(4096.0)),
        ("trimmed read 524288 q1", host + link(524_288.0)),
        ("trim one", trim(16.0, 65_536.0)),
        ("trim one again", trim(0.0, 65_536.0)),
        ("trim long", trim(area / 16.0 / 4096.0, area / 16.0)),
        ("trim all again", trim(0.0, area / 2.0)),
        ("flush", 5e6),
    ] {
        let over = found(name) - expected_ns;
        // The flash already programs the preceding write when the flush arrives; the
        // elapsed part is unknown.
        let sooner = if name == "flush" { 4e6 } else { 0.02 * expected_ns };
        assert!(
            over > -sooner && over < ON_THE_WAY_NS + 0.15 * expected_ns,
            "{name}: {}, {expected_ns} by arithmetic",
            found(name)
        );
    }
    let notes = document["origin"]["notes"].to_string();
    assert!(
        notes.contains("is a loop device") && notes.contains("only one round of probes"),
        "{notes}"
    );
}

#[test]
fn drive_learn_on_real_drive_leaves_nothing() {
    if !have_root() {
        return skip("root, to attach a drive");
    }
    let (directory, drive) = slow();
    let device = drive.device.to_str().unwrap();
    let run = |args: &[&str]| {
        drive.command().current_dir(directory.path()).args(["drive", "learn"]).args(args).assert()
    };
    let refused = run(&[device, "--write-limit", "48MiB", "--yes"]).failure();
    refused.stderr(
        predicate::str::contains("everything on")
            .and(predicate::str::contains("would be destroyed")),
    );
    assert_eq!(drive.status()["model"]["host_written_bytes"], 0);
    // In a directory `learn` uses a file of its own, which it removes even after an
    // interrupt.
    ok(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
        .arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    let before: Vec<_> =
        fs::read_dir(mounted.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let mut command = crate::support::process();
    command.current_dir(directory.path()).args([
        "drive",
        "learn",
        "--write-limit",
        "48MiB",
        "--rest",
        "60s",
        "--reserve",
        "1MiB",
        "--yes",
    ]);
    let mut child = command.arg(mounted.path()).stderr(Stdio::piped()).spawn().unwrap();
    let working = || {
        fs::read_dir(mounted.path())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("trimtab-work-"))
    };
    let patience = Instant::now() + Duration::from_secs(30);
    while !working() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let after: Vec<_> =
        fs::read_dir(mounted.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(after, before);
    // The io_uring of an ended process holds its file open briefly.
    let remounted = || {
        Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(mounted.path())
            .output()
            .unwrap()
            .status
            .success()
    };
    let patience = Instant::now() + Duration::from_secs(10);
    while !remounted() {
        assert!(Instant::now() < patience, "cannot be remounted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let read_only = run(&[mounted.path().to_str().unwrap(), "--write-limit", "48MiB"]).failure();
    read_only.stderr(predicate::str::contains("it is mounted read-only"));
}

/// A twin saved without --output is found by the list and by a study on the drive.
#[test]
fn twin_of_drive_is_listed_and_named_by_study() {
    if !have_root() {
        return skip("root, to attach a drive");
    }
    let (directory, drive) = slow();
    let device = drive.device.to_str().unwrap();
    let run = |args: &[&str]| {
        let mut command = drive.command();
        command
            .env("XDG_DATA_HOME", directory.path().join("data"))
            .current_dir(directory.path())
            .args(args)
            .assert()
    };
    let document = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&run(args).success().get_output().stdout).unwrap()
    };
    assert_eq!(document(&["drive", "list", "--json"])["twins"].as_array().unwrap().len(), 0);
    let learn = [
        "drive",
        "learn",
        device,
        "--destroy",
        device,
        "--write-limit",
        "48MiB",
        "--rest",
        "100ms",
        "--yes",
        "--json",
    ];
    found_by_arithmetic(&document(&learn), &drive);
    let list = document(&["drive", "list", "--json"]);
    let twin = &list["twins"][0];
    let model = "loop device over drive";
    assert_eq!(
        (twin["model"].as_str(), twin["budget"].as_str(), twin["members"].as_u64()),
        (Some(model), Some("small"), Some(64))
    );
    assert_eq!(
        (twin["capacity_bytes"].as_u64(), list["twins"].as_array().unwrap().len()),
        (Some(2_147_483_648), 1)
    );
    let file = twin["file"].as_str().unwrap();
    // The finished twin replaces the saved rounds.
    assert_eq!(fs::read_dir(Path::new(file).parent().unwrap()).unwrap().count(), 1);
    run(&["drive", "list"]).success().stdout(
        predicate::str::contains("Twins, learned by 'trimtab drive learn'")
            .and(predicate::str::contains(model)),
    );
    // Regression: the list contained names that no command accepted.
    let name = twin["name"].as_str().unwrap();
    assert_eq!(
        document(&["drive", "show", name, "--json"]),
        document(&["drive", "show", file, "--json"])
    );
    ok(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
        .arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    let path = mounted.path().to_str().unwrap();
    // A study that cannot start names the twin first.
    let said =
        predicate::str::contains("This drive has a twin").and(predicate::str::contains(file));
    run(&["study", path, "--quick", "--reserve", "1TB", "--policies", "none"])
        .failure()
        .stderr(said);
    // Regression: the twin of one loop device was used for another loop device and for
    // the disk.
    let text = fs::read_to_string(file).unwrap();
    let which = text.lines().find(|line| line.starts_with("which = ")).unwrap();
    fs::write(file, text.replace(which, "which = \"another one\"")).unwrap();
    let said = predicate::str::contains(
        "Months of use on this drive: unknown; its model (a twin) cannot be learned",
    );
    run(&["study", path, "--quick", "--reserve", "1TB", "--policies", "none"])
        .failure()
        .stderr(said);
    fs::remove_file(file).unwrap();
    let said = predicate::str::contains(
        "Months of use on this drive: unknown; its model (a twin) cannot be learned",
    );
    run(&["study", path, "--quick", "--reserve", "1TB", "--policies", "none"])
        .failure()
        .stderr(said);
}

#[test]
fn drive_learn_in_memory_is_refused() {
    let Some(mount) = LoopMount::tmpfs(64) else { return skip("root, to mount") };
    let said = predicate::str::contains("no drive is below")
        .and(predicate::str::contains("tmpfs is not on a block device"));
    trimtab().args(["drive", "learn"]).arg(mount.path()).assert().failure().stderr(said);
    let Some(mount) = LoopMount::new("ext4", 64, "") else { return skip("loop devices") };
    trimtab()
        .args(["drive", "learn"])
        .arg(mount.path())
        .assert()
        .failure()
        .stderr(predicate::str::contains("is in memory: the file below"));
}

/// Regression: one file was invalid, which lost part of a measurement.
#[test]
fn real_time_trial_drive_files_are_valid() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twins/drives");
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 6);
    for file in files {
        trimtab().args(["drive", "show"]).arg(&file).assert().success();
    }
}

/// Regression: with `--json` the error was parsed as a server's answer and caused a
/// second error.
#[test]
fn attach_of_invalid_drive_file_reports_error_once() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("bad.toml"),
        format!("{DRIVE}[flash.compression]\nstored_permille_min = 150\n"),
    )
    .unwrap();
    let args = ["drive", "attach", "./bad.toml", "--json"];
    let out =
        trimtab().current_dir(directory.path()).args(args).assert().failure().get_output().clone();
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let (said, text) = (document["error"].to_string(), String::from_utf8(out.stderr).unwrap());
    assert!(
        said.contains("missing field")
            && text.contains("missing field")
            && text.lines().count() == 1,
        "{document} {text}"
    );
}

/// Regression: the list showed or omitted a broken twin, or one with the name of a
/// shipped drive, without a message.
#[test]
fn drive_list_reports_unusable_twin_files() {
    let directory = tempfile::tempdir().unwrap();
    let twins = directory.path().join("trimtab/twins");
    fs::create_dir_all(&twins).unwrap();
    let twin = format!(
        "{DRIVE}[twin.origin]\nmodel = \"x\"\nlearned = \"2026-01-01\"\n\
            budget = \"small\"\nseed = 1\nwritten_bytes = 1\nmisfit_permille = 1\n\
            [twin.members]\nfields = []\nvalues = [[]]\n"
    );
    let called = DRIVE.lines().next().unwrap();
    let named = |file: &str, name: &str| {
        fs::write(twins.join(file), twin.replace(called, &format!("name = \"{name}\""))).unwrap()
    };
    named("a.toml", "one");
    named("b.toml", "one");
    named("c.toml", "sata-tlc-500gb");
    fs::write(twins.join("d.toml"), "name = 3\n").unwrap();
    let out = trimtab()
        .env("XDG_DATA_HOME", directory.path())
        .args(["drive", "list", "--json"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let list: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(list["twins"].as_array().unwrap().len(), 3);
    for (named, meant) in [
        (&["study", "sata-tlc-500gb"][..], "'drive:sata-tlc-500gb'"),
        (&["drive", "show", "drive:onee"], "'one'"),
    ] {
        let said = predicate::str::contains(format!("did you mean {meant}?"));
        trimtab()
            .env("XDG_DATA_HOME", directory.path())
            .current_dir(directory.path())
            .args(named)
            .assert()
            .code(1)
            .stderr(said);
    }
    let notes: Vec<&str> =
        list["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let has = |file: &str, what: &str| {
        notes.iter().any(|note| note.contains(file) && note.contains(what))
    };
    assert!(notes.len() == 3 && has("d.toml", "line 1"), "{notes:?}");
    assert!(
        has("b.toml: drive:one is ", "a.toml")
            && has("c.toml: drive:sata-tlc-500gb", "the shipped drive"),
        "{notes:?}"
    );
}
