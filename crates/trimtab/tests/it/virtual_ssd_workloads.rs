//! Tools for real drives run unchanged on an attached drive, and their counts equal those
//! of the model in this process.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{have_root, have_tool, skip, trimtab};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::units::Bytes;
use trimtab_linux::target::block::device::{DestroyConsent, claim};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_sim::runner::blocks;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::Limit;
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};

const SIZE: u64 = 256 << 20;

fn mounted_ext4(args: &[&str]) -> (Attached, Mounted) {
    let drive = Attached::new(args);
    ok(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "noatime").unwrap();
    (drive, mounted)
}

fn json(output: std::process::Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes the drive once in order, then at random with reads and trims, until the
/// transferred bytes reach `times` its size.
fn workloads(data: DataClass, times: u64, trim_percent: u8) -> [Synthetic; 2] {
    let fill = SyntheticSettings {
        pattern: Pattern::Sequential,
        mix: Mix::default(),
        sizes: vec![(1 << 20, 1)],
        data,
        offset: 0,
        span: SIZE,
        queue_depth: 4,
        limit: Limit::Bytes(Bytes(SIZE)),
    };
    let age = SyntheticSettings {
        pattern: Pattern::Uniform,
        mix: Mix { read_percent: 10, trim_percent },
        sizes: vec![(4096, 70), (65_536, 30)],
        queue_depth: 8,
        limit: Limit::Bytes(Bytes(times * SIZE)),
        ..fill.clone()
    };
    [Synthetic::new(fill, 1).unwrap(), Synthetic::new(age, 1).unwrap()]
}

fn in_process(data: DataClass, times: u64, trim_percent: u8) -> BTreeMap<String, u64> {
    let spec =
        model::sized(trimtab::drives::load("ocz-vertex-le-100gb").unwrap().spec, Some(Bytes(SIZE)))
            .unwrap();
    let mut target = DriveTarget::new(model::build(&spec, 42).unwrap(), 32);
    for mut workload in workloads(data, times, trim_percent) {
        blocks::run(&mut workload, &mut target, &mut ()).complete().unwrap();
    }
    target.into_drive().counters()
}

fn attached(data: DataClass, times: u64, trim_percent: u8, speed: &str) -> BTreeMap<String, u64> {
    let size = SIZE.to_string();
    let drive =
        Attached::new(&["ocz-vertex-le-100gb", "--size", &size, "--speed", speed, "--seed", "42"]);
    let destroy = DestroyConsent { again: Some(drive.device.clone()), overwrite: Vec::new() };
    let claimed = claim(&drive.device, true, &destroy, None).unwrap();
    // Checking the contents also reads from the drive.
    let before = drive.status()["model"]["host_read_bytes"].as_u64().unwrap();
    let mut target =
        BlockFile::open_claim(claimed, &BlockOptions { seed: 1, ..BlockOptions::default() })
            .unwrap();
    for mut workload in workloads(data, times, trim_percent) {
        blocks::run(&mut workload, &mut target, &mut ()).complete().unwrap();
    }
    drop(target);
    let counters = drive.status()["model"].as_object().unwrap().clone();
    let mut counters: BTreeMap<String, u64> =
        counters.into_iter().map(|(name, value)| (name, value.as_u64().unwrap())).collect();
    counters.entry("host_read_bytes".to_owned()).and_modify(|bytes| *bytes -= before);
    counters
}

#[test]
fn attached_drive_counters_match_in_process_model() {
    if !have_root() {
        return skip("root");
    }
    // Above real-time speed a slow host would leave idle gaps, in which the drive would
    // collect more garbage.
    for (data, times, trims, speed) in
        [(DataClass::Compressible(10), 1, 2, "off"), (DataClass::Random, 1, 0, "realtime")]
    {
        let (inside, outside) =
            (in_process(data, times, trims), attached(data, times, trims, speed));
        assert!(inside["gc_superblocks"] >= 10, "garbage was collected: {inside:?}");
        for name in [
            "host_written_bytes",
            "host_read_bytes",
            "nand_written_bytes",
            "nand_written_host_slots",
            "gc_superblocks",
            "nand_written_gc_slots",
            "erases",
            "trim_asked_bytes",
            "trim_effective_units",
            "now_mapped_bytes",
        ] {
            if trims == 0 && name.starts_with("trim") {
                continue;
            }
            let ratio = outside[name] as f64 / inside[name] as f64;
            assert!(
                (0.9..=1.1).contains(&ratio),
                "{data}, speed {speed}: {name} is {} in process, {} attached",
                inside[name],
                outside[name]
            );
        }
    }
}

#[test]
fn bench_and_study_run_on_attached_drive() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let store = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = trimtab();
        command.args(["--json", "--yes", "--store"]).arg(store.path().join("store.db"));
        command
    };
    let (drive, mounted) =
        mounted_ext4(&["ocz-vertex-le-100gb", "--size", "2GiB", "--speed", "off"]);
    let study = json(
        command()
            .args(["study", "--quick", "--reserve", "0", "--report"])
            .arg(store.path().join("r.html"))
            .arg(mounted.path())
            .output()
            .unwrap(),
    );
    assert_eq!(
        study["runs"].as_array().unwrap().len(),
        6,
        "two workloads under three policies: {}",
        study["untried"]
    );
    let trimmed = drive.status()["discards"]["effective_bytes"].as_u64().unwrap();
    assert!(trimmed > 20_000_000, "the ledger shows the study's trims: {trimmed}");
    let postmark = json(
        command()
            .args([
                "bench",
                "postmark",
                "--number",
                "500",
                "--transactions",
                "500",
                "--reserve",
                "0",
            ])
            .arg(mounted.path())
            .output()
            .unwrap(),
    );
    assert_eq!(postmark["complete"], true);
    mounted.unmount();
    drive.detach();

    let drive = Attached::new(&["ocz-vertex-le-100gb", "--size", "1GiB", "--speed", "off"]);
    let crystal = |more: &[&str]| {
        let mut command = command();
        command.args([
            "bench",
            "crystal",
            "--size",
            "64MiB",
            "--passes",
            "1",
            "--bytes",
            "4MiB",
            "--interval",
            "0ms",
            "--destroy",
        ]);
        command.arg(&drive.device).arg(&drive.device).args(more);
        command.output().unwrap()
    };
    let run = json(crystal(&[]));
    assert_eq!((&run["complete"], &run["target"]), (&true.into(), &"block-device".into()));
    let written = drive.status()["requests"]["write"]["bytes"].as_u64().unwrap();
    assert!(written >= (64 << 20) + 4 * (4 << 20), "the drive has seen it: {written}");
}

/// KDiskMark 3's default profile: its fio arguments, with smaller amounts.
const KDISKMARK: [[&str; 3]; 8] = [
    ["--rw=read", "--bs=1024k", "--iodepth=8"],
    ["--rw=write", "--bs=1024k", "--iodepth=8"],
    ["--rw=read", "--bs=1024k", "--iodepth=1"],
    ["--rw=write", "--bs=1024k", "--iodepth=1"],
    ["--rw=randread", "--bs=4k", "--iodepth=32"],
    ["--rw=randwrite", "--bs=4k", "--iodepth=32"],
    ["--rw=randread", "--bs=4k", "--iodepth=1"],
    ["--rw=randwrite", "--bs=4k", "--iodepth=1"],
];

#[test]
fn postmark_and_kdiskmark_jobs_run_on_attached_drive() {
    if !have_root() || !have(&["mkfs.ext4", "fio"]) || !have_tool("postmark") {
        return skip("root, e2fsprogs, fio and postmark");
    }
    let (drive, mounted) = mounted_ext4(&["ocz-vertex-le-100gb", "--size", "1GiB"]);
    let file = mounted.path().join(".kdiskmark.tmp");
    let filename = format!("--filename={}", file.display());
    ok(Command::new("fio").args([
        "--create_only=1",
        &filename,
        "--size=16m",
        "--zero_buffers=0",
        "--name=prepare",
    ]));
    for job in KDISKMARK {
        let mut command = Command::new("fio");
        command.args([
            "--output-format=json",
            "--ioengine=libaio",
            "--randrepeat=0",
            "--refill_buffers=0",
            "--end_fsync=1",
        ]);
        command.args([
            "--direct=1",
            "--rwmixread=70",
            "--size=16m",
            "--zero_buffers=0",
            "--runtime=5",
            "--numjobs=1",
        ]);
        command.args(["--group_reporting", "--name=job", &filename]);
        let shown = json(ok(command.args(job)));
        let side = if job[0].contains("read") { "read" } else { "write" };
        assert_eq!(shown["jobs"][0]["error"], 0, "{job:?}");
        assert!(shown["jobs"][0][side]["io_bytes"].as_u64() > Some(0), "{job:?}");
    }
    std::fs::remove_file(file).unwrap();
    postmark(mounted.path());
    let status = drive.status();
    assert!(status["requests"]["write"]["bytes"].as_u64() > Some(4 * (16 << 20)));
    assert_eq!(status["requests"]["write"]["failed"], 0);
    mounted.unmount();
}

fn postmark(location: &Path) {
    use std::io::Write as _;
    let script = format!(
        "set location {}\nset number 500\nset transactions 1000\nrun\nquit\n",
        location.display()
    );
    let mut child =
        Command::new("postmark").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1000 transactions")
            || said.contains("Deleting files...Done"),
        "{said}"
    );
}

/// The foreground latency during a trim is measured.
/// TRIM is expensive on this drive, so the stall shows.
#[test]
fn study_stall_during_trim_is_in_figures() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let store = tempfile::tempdir().unwrap();
    let (_drive, mounted) =
        mounted_ext4(&["ocz-vertex-le-100gb", "--size", "2GiB", "--speed", "realtime"]);
    let mut command = trimtab();
    command.args([
        "study",
        "--quick",
        "--reserve",
        "0",
        "--yes",
        "--json",
        "--policies",
        "as-mounted,batched",
        "--store",
    ]);
    let study =
        json(command.arg(store.path().join("store.db")).arg(mounted.path()).output().unwrap());
    let tree = |policy: &str| {
        study["runs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|run| run["workload"] == "tree" && run["policy"] == policy)
            .unwrap()
    };
    let mut longest = Vec::new();
    for policy in ["as-mounted", "batched"] {
        let run = tree(policy);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let load =
            run["phases"].as_array().unwrap().iter().find(|phase| phase["name"] == "load").unwrap();
        let figure = |name: &str| {
            let metrics = run["metrics"].as_array().unwrap();
            metrics.iter().find(|m| m["name"] == name).unwrap()["samples"][0].as_f64().unwrap()
        };
        assert_eq!(load["written_bytes"], number(&load["ops"]["append"]) * 4096);
        longest.push(figure("load.wait.longest.seconds"));
    }
    // A quarter of the tree is some 3,000 units at 0.261 ms each: about a second in a few
    // commands.
    assert!(longest[1] > 0.2 && longest[1] > longest[0], "{longest:?}");
}
