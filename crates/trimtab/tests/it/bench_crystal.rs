//! `bench crystal` on directories, files, devices and modelled drives, and its safety
//! checks on all of them.

use crate::support::{LoopDevice, LoopMount, run, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use std::path::Path;

/// A small run, limited by bytes so that the work does not depend on the machine's speed.
const SMALL: [&str; 14] = [
    "bench",
    "crystal",
    "--profile",
    "cdm3",
    "--size",
    "16MiB",
    "--passes",
    "2",
    "--bytes",
    "1MiB",
    "--interval",
    "0ms",
    "--reserve",
    "0",
];

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Runs the small benchmark with a private store.
fn small(store: &Path, more: &[&str]) -> assert_cmd::assert::Assert {
    trimtab().args(SMALL).arg("--store").arg(store.join("store.db")).args(more).assert()
}

fn json(assert: assert_cmd::assert::Assert) -> serde_json::Value {
    serde_json::from_slice(&assert.success().get_output().stdout).unwrap()
}

fn metric<'a>(run: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    run["metrics"].as_array().unwrap().iter().find(|m| m["name"] == name)
}

#[test]
fn bench_crystal_on_directory_removes_its_test_file() {
    let (dir, store) = (scratch(), scratch());
    let run = json(small(store.path(), &["--json", "--yes", dir.path().to_str().unwrap()]));
    let rates = metric(&run, "rnd4k-q32.write.rate").unwrap()["samples"].as_array().unwrap();
    assert_eq!(rates.len(), 2);
    assert!(
        metric(&run, "seq1m-q1.read.latency").is_some()
            && metric(&run, "rnd4k-q1.read.iops").is_some()
    );
    let found = metric(&run, "data.compressed").unwrap()["samples"][0].as_f64().unwrap();
    assert!((99.5..101.0).contains(&found), "random data compresses to {found} %");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn bench_crystal_data_compress_as_requested() {
    let (dir, store) = (scratch(), scratch());
    for (option, value, low, high) in [("--data", "40%", 58.0, 62.0), ("--data", "zero", 0.0, 1.0)]
    {
        let run = json(small(
            store.path(),
            &["--json", "--yes", option, value, dir.path().to_str().unwrap()],
        ));
        let found = metric(&run, "data.compressed").unwrap()["samples"][0].as_f64().unwrap();
        assert!((low..high).contains(&found), "{value}: {found} %");
        assert!(!run["warnings"].to_string().contains("data.compresses-otherwise"));
    }
}

#[test]
fn bench_crystal_destroys_file_only_if_named_twice() {
    let (dir, store) = (scratch(), scratch());
    let file = dir.path().join("precious");
    std::fs::write(&file, vec![7; 16 << 20]).unwrap();
    let path = file.to_str().unwrap();
    small(store.path(), &["--yes", path]).code(2).stderr(contains("--destroy"));
    small(store.path(), &["--yes", path, "--destroy", dir.path().join("other").to_str().unwrap()])
        .code(2)
        .stderr(contains("is not"));
    small(store.path(), &["--yes", "--only", "read", path]).success();
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "nothing was written");
    let unknown = small(store.path(), &["--yes", path, "--destroy", path]);
    unknown.code(2).stderr(
        contains("holds unknown data; nothing was written")
            .and(contains("--overwrite 'unknown data'")),
    );
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "nothing was written");
    small(store.path(), &["--yes", path, "--destroy", path, "--overwrite", "unknown data"])
        .success();
    // Leftovers of an earlier run need no confirmation.
    small(store.path(), &["--yes", path, "--destroy", path]).success();
    let data = std::fs::read(&file).unwrap();
    assert!(data.len() == 16 << 20 && data.iter().any(|byte| *byte != 7));
    let mut database = b"SQLite format 3\0".to_vec();
    database.resize(16 << 20, 0);
    std::fs::write(&file, &database).unwrap();
    small(store.path(), &["--yes", path, "--destroy", path])
        .code(2)
        .stderr(contains("holds sqlite").and(contains("--overwrite 'sqlite'")));
    assert_eq!(std::fs::read(&file).unwrap(), database);
}

#[test]
fn bench_crystal_timed_passes_stay_within_announced_bytes() {
    let (dir, store) = (scratch(), scratch());
    let mut command = trimtab();
    command.args([
        "bench",
        "crystal",
        "--json",
        "--profile",
        "cdm3",
        "--size",
        "16MiB",
        "--passes",
        "1",
        "--time",
        "100ms",
        "--interval",
        "0ms",
    ]);
    command
        .args(["--only", "write", "--data", "zero", "--reserve", "0", "--yes", "--store"])
        .arg(store.path().join("store.db"));
    let run = json(command.arg(dir.path()).assert());
    let most = |phase: &serde_json::Value| {
        phase["name"] != "prepare" && phase["written_bytes"].as_u64().unwrap() > 100_000_000
    };
    let phases = run["phases"].as_array().unwrap();
    assert!(phases.len() >= 4 && !phases.iter().any(most), "{phases:?}");
}

#[test]
fn bench_crystal_refuses_mounted_or_formatted_device() {
    let store = scratch();
    let Some(mount) = LoopMount::new("ext4", 64, "") else {
        return skip("root, loop devices and mkfs");
    };
    let device = mount.device();
    // The message never names `--destroy` for a device in use.
    small(store.path(), &["--yes", &device])
        .code(1)
        .stderr(contains("is in use").and(contains("--destroy").not()));
    let mounted = small(store.path(), &["--yes", &device, "--destroy", &device]);
    mounted.code(1).stderr(contains("is in use: mounted at").and(contains("nothing was written")));
    let backing = format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"));
    let image = std::fs::read_to_string(backing).unwrap().trim().to_owned();
    let below = small(store.path(), &["--yes", &image, "--destroy", &image]);
    below.code(1).stderr(contains(format!("is in use: it backs {device}; nothing was written")));
    run("umount", &[mount.path().to_str().unwrap()]).unwrap();
    small(store.path(), &["--yes", &device]).code(2).stderr(contains("--destroy"));
    let signed = small(store.path(), &["--yes", &device, "--destroy", &device]);
    signed.code(2).stderr(contains("holds ext2/3/4").and(contains("--overwrite 'ext2/3/4'")));
    run("mount", &[&device, mount.path().to_str().unwrap()]).expect("the filesystem is whole");
    run("umount", &[mount.path().to_str().unwrap()]).unwrap();
    let told = small(
        store.path(),
        &["--json", "--yes", &device, "--destroy", &device, "--overwrite", "ext2/3/4"],
    );
    assert_eq!(json(told)["target"], "block-device");
}

#[test]
fn loop_until_written_runs_whole_rounds() {
    let store = scratch();
    let Some(device) = LoopDevice::new(32) else { return skip("root and loop devices") };
    let node = device.node();
    // Each round writes 16 MiB of preparation and four tests of two passes of 1 MiB.
    let args = [
        "--json",
        "--yes",
        "--only",
        "write",
        &node,
        "--destroy",
        &node,
        "--loop-until-written",
        "100MB",
    ];
    let whole = json(small(store.path(), &args));
    assert_eq!(whole["counters"]["rounds"], 4);
    assert_eq!(whole["counters"]["written.bytes"], 4 * 24 * (1 << 20));
    assert!(
        metric(&whole, "rnd4k-q32.write.rate.max").is_some()
            && metric(&whole, "seq1m-q1.write.rate.last").is_some()
    );
    let series = whole["series"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["name"] == "seq1m-q1.write.rate")
        .unwrap();
    assert_eq!(series["x"].as_array().unwrap().len(), 8, "a point a pass, over bytes written");
}

#[test]
fn bench_crystal_runs_on_modelled_and_null_targets() {
    let store = scratch();
    let modelled = || {
        let mut run = json(small(store.path(), &["--json", "drive:ocz-vertex-le-100gb"]));
        run["started_unix_ms"] = 0.into();
        run["id"] = 0.into();
        run
    };
    let first = modelled();
    assert_eq!(
        (&first["target"], &first["provenance"]),
        (&"modelled-drive".into(), &"modelled".into())
    );
    assert_eq!(first, modelled(), "to the byte");
    assert_eq!(json(small(store.path(), &["--json", "null:"]))["target"], "null");
}

#[test]
fn bench_crystal_refuses_bad_input_before_writing() {
    let (dir, store) = (scratch(), scratch());
    let place = dir.path().to_str().unwrap();
    for (args, code, says) in [
        (vec!["/no/such/place"], 1, "there is no /no/such/place"),
        (vec!["/dev/null"], 1, "neither a directory nor a file nor a block device"),
        (vec!["--size", "1MiB", place], 2, "at least 16 MiB"),
        (vec!["--size", "900TB", "--yes", place], 1, "do not fit"),
        (vec!["--passes", "0", place], 2, "passes must be 1 to 10000"),
        (vec!["--bytes", "0", place], 2, "a pass must end"),
        (vec!["--data", "101%", place], 2, "101"),
        (vec!["--data", "much", place], 2, "much"),
        (vec!["--profile", "cdm4", place], 2, "expected cdm8, cdm3 or nvme"),
        (vec!["--only", "read", "--loop-until-written", "1GB", place], 2, "needs writes"),
        (vec!["null:1MB"], 2, "tests need 1.07 GB"),
        (vec!["drive:no-such-drive"], 1, "no-such-drive"),
        (vec!["--bytes", "16000000TB", "drive:intel-520-120gb"], 2, "--bytes: "),
        (
            vec!["--loop-until-written", "16000000TB", "drive:intel-520-120gb"],
            2,
            "-written: 16,000,000 TB is",
        ),
    ] {
        let store = store.path().join("store.db");
        let assert = trimtab()
            .args(["bench", "crystal", "--reserve", "0", "--store"])
            .arg(store)
            .args(&args)
            .assert();
        let assert = assert.code(code).stderr(contains(says));
        assert!(assert.get_output().stdout.is_empty(), "{args:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn bench_crystal_page_cache_is_a_serious_warning() {
    let store = scratch();
    let Some(memory) = LoopMount::tmpfs(64) else { return skip("root and mount") };
    let Some(file) = LoopMount::new("ext4", 128, "") else {
        return skip("root, loop devices and mkfs");
    };
    // Twice: on a memory filesystem that supports direct I/O, and on a disk filesystem
    // over a loop device whose file is in memory.
    for (place, why) in
        [(memory.path(), "tmpfs is a filesystem in memory"), (file.path(), "is in memory (tmpfs)")]
    {
        let large = ["--bytes", "12MiB", "--json", "--yes", place.to_str().unwrap()];
        let without_bytes: Vec<&str> =
            SMALL.iter().copied().filter(|word| !["--bytes", "1MiB"].contains(word)).collect();
        let assert = trimtab()
            .args(without_bytes)
            .arg("--store")
            .arg(store.path().join("store.db"))
            .args(large)
            .assert();
        let run = json(assert);
        let warnings = run["warnings"].as_array().unwrap();
        let cached = warnings
            .iter()
            .find(|warning| warning["code"] == "page-cache.answered")
            .unwrap_or_else(|| panic!("{warnings:?}"));
        assert_eq!(cached["severity"], "serious");
        assert!(cached["text"].as_str().unwrap().contains(why), "{cached}");
    }
    // `--buffered` uses the page cache, so no warning appears.
    let run = json(small(
        store.path(),
        &["--json", "--yes", "--buffered", memory.path().to_str().unwrap()],
    ));
    assert!(!run["warnings"].to_string().contains("page-cache.answered"));
}

#[test]
fn bench_crystal_leaves_full_and_readonly_unchanged() {
    let store = scratch();
    let Some(mount) = LoopMount::tmpfs(24) else { return skip("root and mount") };
    let place = mount.path();
    std::fs::write(place.join("filler"), vec![1; 12 << 20]).unwrap();
    small(store.path(), &["--yes", place.to_str().unwrap()]).code(1).stderr(contains("do not fit"));
    std::fs::remove_file(place.join("filler")).unwrap();
    mount.remount("ro");
    small(store.path(), &["--yes", place.to_str().unwrap()])
        .code(1)
        .stderr(contains("it is mounted read-only"));
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn refused_bench_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let (home, store) = (dir.path().join("home"), dir.path().join("r.db"));
    std::fs::create_dir(&home).unwrap();
    for command in [
        &["bench", "crystal", "drive:nonsense"][..],
        &["study", "drive:nonsense"],
        &["bench", "crystal", "/nonexistent/file"],
    ] {
        trimtab().args(command).arg("--store").arg(&store).assert().failure();
        trimtab().args(command).env("HOME", &home).env_remove("XDG_DATA_HOME").assert().failure();
    }
    assert!(
        !store.exists() && std::fs::read_dir(&home).unwrap().next().is_none(),
        "nothing is made"
    );
    let nowhere = dir.path().join("none/r.db");
    trimtab()
        .args(["bench", "crystal", "drive:sata-tlc-500gb", "--store"])
        .arg(nowhere)
        .assert()
        .code(1)
        .stderr(contains("cannot use store"));
}
