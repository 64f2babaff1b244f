//! `bench pts`: SNIA's tests on modelled drives, checked by an independent script of the
//! rule; on a device and in a directory.

use crate::attached_drive::Attached;
use crate::support::{
    LoopDevice, at_home, have_root, have_tool, makes_namespaces, program, skip, trimtab,
};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn check(args: &[&str], expected: &str) {
    if !have_tool("python3") {
        return skip("python3");
    }
    let output =
        trimtab().args(["bench", "pts"]).args(args).args(["--json", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pts_rule.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(&output.stdout).unwrap();
    let said = python.wait_with_output().unwrap();
    assert!(said.status.success(), "{args:?}: see the assertion above");
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(format!(" {said}").contains(expected), "{args:?}: {said}");
}

#[test]
fn iops_rounds_end_at_first_steady_window() {
    check(&["drive:ocz-vertex-le-100gb", "--capacity", "512MiB"], " 13 rounds, steady");
}

#[test]
fn iops_rounds_end_at_25_if_never_steady() {
    check(&["drive:solidigm-d7-p5520-1920gb-i0", "--capacity", "512MiB"], "25 rounds, not steady");
}

#[test]
fn write_saturation_writes_four_capacities() {
    let wsat = |drive, expected| {
        check(&[drive, "--capacity", "1GiB", "--test", "wsat"], expected);
    };
    wsat("drive:ocz-vertex-le-100gb", "128 rounds, steady");
    // It still slows; its last five rounds alone pass.
    wsat("drive:intel-x25-m-160gb", "128 rounds, not steady");
}

/// A test on the Vertex LE of 256 MiB, which has blocks of 512 bytes.
fn check_small(test: &str, expected: &str) {
    check(&["drive:ocz-vertex-le-100gb", "--capacity", "256MiB", "--test", test], expected);
}

#[test]
fn throughput_preconditions_each_size_on_a_new_drive() {
    check_small("tp", "128KiB 5 rounds, steady; 1MiB 5 rounds, steady");
}

#[test]
fn latency_has_one_request_in_flight() {
    check_small("lat", " 5 rounds, steady");
}

#[test]
fn host_idle_recovery_has_five_idle_times() {
    check_small("hir", "precondition ");
}

#[test]
fn cross_stimulus_recovery_has_three_groups() {
    check_small("xsr", "no steady state");
}

#[test]
fn composite_block_size_chooses_its_demands() {
    check_small("cbw", "steady; demand ");
}

#[test]
fn demand_intensity_chooses_its_demands() {
    check_small("dirth", "steady; demand ");
}

/// Oracle: fio on the same drive, attached as a block device.
#[test]
fn fio_on_virtual_ssd_gets_the_same_verdict() {
    if !have_root() || !have_tool("fio") || !have_tool("python3") {
        return skip("root, fio and python3");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pts_fio.py");
    for (name, speeds) in
        [("intel-x25-m-160gb", [1.0, 0.3, 0.1]), ("ocz-vertex-le-100gb", [0.3, 0.1, 0.03])]
    {
        let target = format!("drive:{name}");
        let model = ["bench", "pts", &target, "--test", "wsat", "--capacity", "64MiB"];
        let output = trimtab().args(model).args(["--json", "--quiet"]).output().unwrap();
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let metric = |name: &str| {
            let all = run["metrics"].as_array().unwrap();
            let samples = &all.iter().find(|one| one["name"] == name).unwrap()["samples"];
            let samples = samples.as_array().unwrap();
            samples.iter().filter_map(serde_json::Value::as_f64).sum::<f64>() / samples.len() as f64
        };
        let run_fio = |speed: f64| {
            let drive = Attached::new(&[name, "--size", "64MiB", "--speed", &format!("{speed}x")]);
            let fio =
                Command::new("python3").arg(&script).arg(&drive.device).arg("2097152").output();
            let fio = String::from_utf8(fio.unwrap().stdout).unwrap();
            let (verdict, mean) = fio.trim().rsplit_once(" 128 ").expect("128 rounds");
            let mean = mean.parse::<f64>().unwrap() / speed / metric("read-0%.4KiB.iops");
            (verdict == "steady", mean)
        };
        // A busy machine delays requests: fewer arrive, or the drive collects garbage in the
        // pauses and is faster. At a lower speed, delays are shorter in the drive's time.
        let agrees = speeds.into_iter().any(|speed| {
            let (steady, mean) = run_fio(speed);
            eprintln!("{name} at {speed}x: fio {mean} of the model, steady: {steady}");
            (0.85..1.15).contains(&mean) && steady == (metric("steady.reached") == 1.0)
        });
        assert!(agrees, "{name}: fio differs from the model at all speeds");
    }
}

/// Oracle: range (at most 20 %) and change (at most 10 %) in the JSON.
#[test]
fn verdict_within_two_points_of_a_limit_says_so() {
    let mut near = Vec::new();
    for seed in ["1", "4", "6"] {
        let model = ["bench", "pts", "drive:ocz-vertex-le-100gb", "--test", "wsat", "--seed", seed];
        let run = |mode: &str| {
            let output =
                trimtab().args(model).args(["--capacity", "64MiB", mode]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&run("--json")).unwrap();
        let metric = |name: &str| {
            let all = json["metrics"].as_array().unwrap();
            all.iter().find(|one| one["name"] == name).unwrap()["samples"][0].as_f64().unwrap()
        };
        let spare = (20.0 - metric("steady.range")).min(10.0 - metric("steady.excursion"));
        let text = run("--quiet").split_whitespace().collect::<Vec<_>>().join(" ");
        let said = text.contains("Within 2 points of a limit: another seed may decide otherwise.");
        assert_eq!(said, spare.abs() < 2.0, "seed {seed}: {spare} {text}");
        near.push(said);
    }
    assert!(near.contains(&true) && near.contains(&false), "{near:?}");
}

#[test]
fn pts_report_has_points_and_proof() {
    let report = trimtab()
        .args(["bench", "pts", "drive:ocz-vertex-le-100gb", "--capacity", "512MiB"])
        .assert()
        .success();
    let report = report
        .stdout(contains("Steady in rounds 9 to 13"))
        .stdout(contains("1MiB"))
        .stdout(contains("65/35"));
    report.stdout(contains("A new drive of 537 MB stands for a purged one"));
}

/// The buffer of `sata-tlc-500gb` does not shrink with the capacity: with the SLC cache it
/// holds the 16.8 MB of a round at 1 GiB, and writes are as fast as reads, at the limit of
/// SATA. 4 KiB requests of 16.8 MB are 4,096: none of them is the 99.999 % one.
#[test]
fn rounds_in_the_slc_cache_are_cautioned() {
    let run = |test: &str, drive: &str, capacity: &str| {
        let args = ["bench", "pts", drive, "--test", test, "--capacity", capacity];
        let output = trimtab().args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let small = run("tp", "drive:sata-tlc-500gb", "1GiB");
    let row = small.lines().find(|line| line.starts_with("128KiB ")).unwrap();
    let rates: Vec<&str> = row.split_whitespace().skip(1).collect();
    assert!(
        rates[0] == rates[1]
            && small.contains("a round writes 16.8 MB, and the drive's caches hold "),
        "{small}"
    );
    let latency = run("lat", "drive:ocz-vertex-le-100gb", "1GiB");
    assert!(latency.contains("queue-depth 1,") && !latency.contains("caches hold"), "{latency}");
    let tail = latency.split("99.999 % latency").nth(1).unwrap();
    let row = tail.lines().find(|line| line.starts_with("4KiB")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["4KiB", "-", "-", "-"], "{row}");
    let demand = run("dirth", "drive:ocz-vertex-le-100gb", "256MiB");
    assert!(
        demand.contains("queue-depth 1,024,") && demand.contains("has 1024 requests of 4 KiB"),
        "{demand}"
    );
}

#[test]
fn stored_pts_run_shows_points_and_proof() {
    let store = tempfile::tempdir().unwrap();
    let stored = |args: &[&str]| {
        let mut command = trimtab();
        command.arg("--store").arg(store.path().join("r.db")).args(args).assert().success()
    };
    let drive = "drive:ocz-vertex-le-100gb";
    stored(&["bench", "pts", drive, "--capacity", "256MiB", "--test", "lat"]);
    let points = "mean latency, reads/writes in %";
    stored(&["results", "show", "last"])
        .stdout(contains(points).and(contains("Steady in rounds 1 to 5")));
    stored(&["results", "report", "last", "--output", "-"]).stdout(contains(points));
}

/// Oracle: the loop device's file, which holds no data after a purge and before the
/// rounds.
#[test]
fn pts_runs_on_purged_device_in_shortened_rounds() {
    let Some(device) = LoopDevice::new(64) else { return skip("loop devices") };
    let node = device.node();
    std::fs::write(&node, vec![7; 64 << 20]).unwrap();
    let pts = |more: &[&str]| {
        let mut command = trimtab();
        let fixed = ["--test", "wsat", "--round-time", "200ms", "--quiet", "--json"];
        command.args(["bench", "pts", &node]).args(fixed).args(more);
        command
    };
    pts(&[]).assert().code(2).stderr(contains(format!("add --destroy {node}")));
    let purge = ["--destroy", &node, "--overwrite", "unknown data", "--purge", "discard"];
    pts(&purge).assert().code(2).stderr(contains("say --yes to allow it"));
    // The device is purged only after every consent.
    assert!(std::fs::read(&node).unwrap().iter().all(|byte| *byte == 7));
    let output = pts(&[&purge[..], &["--yes"]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["settings"]["purge"], "discard");
    assert_eq!(run["settings"]["purge.samples"], "1024");
    assert_eq!(run["settings"]["capacity"], (64 << 20).to_string());
    assert!(run["warnings"].as_array().unwrap().iter().any(|one| one["code"] == "pts.shortened"));
    let rounds = run["phases"].as_array().unwrap();
    let bytes: u64 = rounds.iter().map(|round| round["written_bytes"].as_u64().unwrap()).sum();
    let last = rounds.last().unwrap()["written_bytes"].as_u64().unwrap();
    // Rounds end with the one that completes four capacities.
    assert!(bytes >= 4 * (64 << 20) && bytes - last < 4 * (64 << 20), "{bytes} {last}");
    let took = rounds[0]["took_ns"].as_u64().unwrap();
    assert!((200_000_000..2_000_000_000).contains(&took), "{took}");
}

#[test]
fn purge_fails_on_drive_that_ignores_discards() {
    if !have_root() {
        return skip("root");
    }
    let drive = Attached::new(&[
        "intel-x25-m-160gb",
        "--size",
        "64MiB",
        "--fault",
        "trim:ignore",
        "--speed",
        "off",
    ]);
    let node = drive.device.to_str().unwrap();
    std::fs::write(node, (0..64 << 20).map(|at: u32| (at >> 3) as u8).collect::<Vec<_>>()).unwrap();
    let mut command = drive.command();
    command.args(["bench", "pts", node, "--destroy", node, "--overwrite", "unknown data", "--yes"]);
    let error = command.args(["--purge", "discard"]).assert().code(1);
    error.stderr(contains("1024 of 1024 samples").and(contains("the drive is not purged")));
}

#[test]
fn purge_refuses_other_targets() {
    let refused = |args: &[&str], code: i32, why: &str| {
        let mut command = trimtab();
        command.args(["bench", "pts"]).args(args).assert().code(code).stderr(contains(why));
    };
    refused(&["drive:nvme-tlc-500gb", "--purge", "format"], 2, "is for block devices");
}

/// A device that is too small for the benchmark keeps its data.
#[test]
fn device_is_purged_only_if_the_benchmark_fits() {
    let Some(device) = LoopDevice::new(8) else { return skip("loop devices") };
    let node = device.node();
    std::fs::write(&node, vec![7; 8 << 20]).unwrap();
    for (bench, why) in [
        (["crystal", "--size=16MiB"], "the tests need 16.8 MB"),
        (["pts", "--test=tp"], "use at least"),
    ] {
        let mut command = trimtab();
        command.arg("bench").args(bench).args([&node, "--destroy", &node, "--yes"]);
        command.args(["--overwrite", "unknown data", "--purge", "discard"]);
        command.assert().code(2).stderr(contains(why).and(contains("purged").not()));
        assert!(std::fs::read(&node).unwrap().iter().all(|byte| *byte == 7), "{bench:?}");
    }
}

/// The commands for a drive that supports all purges. QEMU emulates none with Sanitize or
/// Security Erase; tests/lab has one with Format.
#[test]
fn purge_commands_erase_a_drive_and_leave_no_password() {
    let tools = ["/usr/sbin/nvme", "/usr/sbin/hdparm"];
    if tools.iter().any(|tool| !Path::new(tool).is_file()) || !have_tool("unshare") {
        return skip("nvme-cli, hdparm and unshare");
    }
    let _guard = makes_namespaces();
    let Some(device) = LoopDevice::new(64) else { return skip("loop devices") };
    let (node, state) = (device.node(), tempfile::tempdir().unwrap());
    let tool = state.path().join("tool");
    let script = include_str!("purge_drive.sh")
        .replace("DEVICE", &node)
        .replace("STATE", state.path().to_str().unwrap());
    std::fs::write(&tool, script).unwrap();
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    let purge = |method: &str| {
        std::fs::write(&node, vec![7; 64 << 20]).unwrap();
        let _ = std::fs::remove_file(state.path().join("commands"));
        let mut command = Command::new("unshare");
        let mounts = "for t in /usr/sbin/nvme /usr/sbin/hdparm; do mount --bind \"$0\" $t || \
            exit 99; done; exec \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-c", mounts]).arg(&tool);
        command.arg(program()).args(["bench", "pts", &node, "--destroy", &node, "--yes"]);
        command.args(["--overwrite", "unknown data", "--test", "tp", "--round-time", "20ms"]);
        at_home(command.args(["--json", "--purge", method]));
        let output = command.output().unwrap();
        let commands = std::fs::read_to_string(state.path().join("commands")).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, commands)
    };
    // The test of two sizes purges twice.
    for (method, command) in [
        ("format", "nvme format"),
        ("sanitize", "nvme sanitize "),
        ("secure-erase", "--security-erase"),
    ] {
        let (status, said, commands) = purge(method);
        assert_eq!((status, commands.matches(command).count()), (Some(0), 2), "{said}{commands}");
        let purged = format!("purged {node} by {method} in ");
        assert_eq!(said.matches(&purged).count(), 2, "{said}");
        assert!(!state.path().join("password").exists(), "{commands}");
    }
    std::fs::write(state.path().join("broken"), "").unwrap();
    let (status, said, commands) = purge("secure-erase");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("SECURITY_ERASE: I/O error"), "{said}");
    assert!(!state.path().join("password").exists(), "{commands}");
    std::fs::write(state.path().join("password"), "secret").unwrap();
    let (status, said, commands) = purge("secure-erase");
    assert_eq!((status, commands.lines().count()), (Some(2), 1), "{said}{commands}");
    assert!(said.contains("has a security password"), "{said}");
}

#[test]
fn pts_measures_file_in_directory_and_removes_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().to_str().unwrap();
    let report = trimtab()
        .args(["bench", "pts", path, "--test", "tp", "--capacity", "64MiB", "--round-time", "50ms"])
        .args(["--reserve", "1MiB", "--yes"])
        .assert()
        .success();
    report.stdout(contains("A minute of the specification lasted 50.0 ms"));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn pts_refuses_other_targets_and_small_drives() {
    let refused = |args: &[&str], why: &str| {
        trimtab()
            .args(["bench", "pts"])
            .args(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(why));
    };
    refused(&["null:"], "stores nothing");
    refused(&["drive:nvme-tlc-500gb", "--round-time", "1s"], "for devices and files");
    let sized =
        |capacity, why| refused(&["drive:ocz-vertex-le-100gb", "--capacity", capacity], why);
    sized("48MiB", "use at least --capacity 64MiB");
    sized("200GB", "--capacity 200 GB: ocz-vertex-le-100gb has only 100 GB");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    refused(&[path, "--destroy", path, "--capacity", "1GB"], "for directories and modelled drives");
}

/// Oracle: 128 GiB in superblocks of 64 MiB are 2048.
#[test]
fn small_capacity_has_the_caution_of_few_superblocks() {
    let run = |capacity: &str| {
        let mut command = trimtab();
        command.args(["bench", "pts", "drive:crucial-m4-128gb", "--test", "lat", "--quiet"]);
        command.args(["--capacity", capacity]).assert().success()
    };
    run("512MiB").stdout(contains("(full drive: 2048)"));
}
