//! fio job files: the same counts as fio, and on the virtual SSD the rates that the model
//! has in virtual time.

use crate::attached_drive::Attached;
use crate::support::{have_root, have_tool, skip, trimtab};
use predicates::str::contains;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs fio and returns its JSON document.
fn fio(directory: &Path, args: &[&str]) -> Value {
    let output = Command::new("fio")
        .current_dir(directory)
        .args(["--output-format=json"])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "fio {args:?}: {text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

/// The program's JSON document.
fn ours(directory: &Path, args: &[&str]) -> Value {
    let output =
        trimtab().current_dir(directory).args(args).args(["--json", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Requests and bytes of each job; clones together.
type Counts = BTreeMap<String, (u64, u64, u64)>;

fn counts_of_fio(document: &Value) -> Counts {
    let mut counts = Counts::new();
    for job in document["jobs"].as_array().unwrap() {
        let sum = |what: &str| {
            ["read", "write", "trim"]
                .iter()
                .map(|kind| job[*kind][what].as_u64().unwrap())
                .sum::<u64>()
        };
        let entry = counts.entry(job["jobname"].as_str().unwrap().to_owned()).or_default();
        let flushes = job["sync"]["total_ios"].as_u64().unwrap();
        *entry = (entry.0 + sum("total_ios"), entry.1 + sum("io_bytes"), entry.2 + flushes);
    }
    counts
}

fn our_counts(run: &Value, block: u64) -> Counts {
    let of_phase = |phase: &Value| {
        let ops = |kind: &str| phase["ops"][kind].as_u64().unwrap_or(0);
        let requests = ops("read") + ops("write") + ops("trim");
        let transferred =
            phase["read_bytes"].as_u64().unwrap() + phase["written_bytes"].as_u64().unwrap();
        (
            phase["name"].as_str().unwrap().to_owned(),
            (requests, transferred + ops("trim") * block, ops("flush")),
        )
    };
    run["phases"].as_array().unwrap().iter().map(of_phase).collect()
}

/// Oracle: fio on its null engine.
#[test]
fn bench_fio_counts_equal_those_of_fio() {
    if !have_tool("fio") {
        return skip("fio");
    }
    let scratch = tempfile::tempdir().unwrap();
    let sections = [
        "[a]\nrw=write\n[b]\nrw=randread\nio_size=2500k\n[c]\nstonewall\nrw=randrw\n\
            rwmixread=70\nloops=3\n",
        "[a]\nrw=randwrite\nnumjobs=3\nnumber_ios=100\nloops=2\n[b]\nrw=trim\n[c]\n\
            rw=trimwrite\nnumber_ios=50\n",
        "[a]\nrw=write\nfsync=32\n[b]\nstonewall\nrw=randwrite\nio_size=3m\nloops=2\n\
            [c]\nrw=randtrim\nloops=2\n",
        "[a]\nrw=rw\nsize=1000000\nio_size=2000k\n[b]\nrw=randwrite\nnorandommap\n\
            random_distribution=zipf:1.2\nio_size=800k\n",
        "[a]\nrw=randread\niodepth=16\noffset=128k\n[b]\nrw=randwrite\n\
            rate_iops=4000\nnumber_ios=200\nthinktime=10\n",
    ];
    for (nth, text) in sections.iter().enumerate() {
        for block in [4096, 20_480] {
            let name = format!("{nth}.fio");
            fs::write(
                scratch.path().join(&name),
                format!("[global]\nioengine=null\nsize=1m\nbs={block}\n{}", whole(text, block)),
            )
            .unwrap();
            let expected = counts_of_fio(&fio(scratch.path(), &[&name]));
            let run = ours(scratch.path(), &["bench", "fio", &name, "null:4MiB"]);
            assert_eq!(our_counts(&run, block), expected, "{text} with bs={block}");
        }
    }
}

/// `text` with each `io_size` as whole blocks.
fn whole(text: &str, block: u64) -> String {
    let one = |line: &str| match line.strip_prefix("io_size=") {
        Some(size) => {
            let (number, unit) = size.split_at(size.len() - 1);
            let bytes = number.parse::<u64>().unwrap() << if unit == "k" { 10 } else { 20 };
            format!("io_size={}\n", bytes / block * block)
        }
        None => format!("{line}\n"),
    };
    text.lines().map(one).collect()
}

/// Requests per second of each job, by fio. The kinds of a mix are drawn, so only their
/// sum is compared.
fn rates_of_fio(document: &Value) -> BTreeMap<String, f64> {
    let mut rates = BTreeMap::new();
    for job in document["jobs"].as_array().unwrap() {
        let rate = ["read", "write"].iter().map(|kind| job[*kind]["iops"].as_f64().unwrap()).sum();
        rates.insert(job["jobname"].as_str().unwrap().to_owned(), rate);
    }
    rates
}

fn our_rates(run: &Value) -> BTreeMap<String, f64> {
    let mut rates = BTreeMap::new();
    for metric in run["metrics"].as_array().unwrap() {
        let Some(name) = metric["name"].as_str().unwrap().strip_suffix(".job.iops") else {
            continue;
        };
        let (job, _) = name.rsplit_once('.').unwrap();
        *rates.entry(job.to_owned()).or_default() += metric["samples"][0].as_f64().unwrap();
    }
    rates
}

/// Oracle: fio on the attached drive, slowed down, so that the delay of each answer (20
/// to 60 µs; 0.7 ms in a debug build on a busy machine) counts little.
#[test]
fn simulated_jobs_have_the_rates_of_fio_on_the_virtual_ssd() {
    if !have_root() || !have_tool("fio") {
        return skip("root and fio");
    }
    const DRIVE: [&str; 2] = ["ocz-vertex-le-100gb", "256MiB"];
    let scratch = tempfile::tempdir().unwrap();
    let global =
        "[global]\nioengine=libaio\ndirect=1\nrefill_buffers\nnorandommap\nsize=8m\nbs=4k\n";
    for (name, speed, text) in [
        ("one", 0.003, "[one]\nrw=randwrite\nnumber_ios=150\n"),
        ("deep", 0.01, "[deep]\nrw=randwrite\niodepth=32\nnumber_ios=2000\n"),
        (
            "mix",
            0.01,
            "[fill]\nrw=write\nbs=256k\n[mix]\nstonewall\nrw=randrw\nrwmixread=70\n\
                iodepth=4\nnumber_ios=1500\n",
        ),
        ("rate", 1.0, "[rate]\nrw=randwrite\nrate_iops=500\niodepth=4\nnumber_ios=1000\n"),
    ] {
        let file = format!("{name}.fio");
        fs::write(scratch.path().join(&file), format!("{global}{text}")).unwrap();
        let simulate = [
            "drive",
            "simulate",
            "--drive",
            DRIVE[0],
            "--capacity",
            DRIVE[1],
            "--fill",
            "0",
            "--fio",
            &file,
        ];
        let expected = our_rates(&ours(scratch.path(), &simulate));
        let tolerance = if name == "rate" { 0.01 } else { 0.1 };
        let near =
            |job: &str, ratio: f64| job.starts_with("fill") || (ratio - 1.0).abs() < tolerance;
        let agrees = |speed: f64| {
            let drive =
                Attached::new(&[DRIVE[0], "--size", DRIVE[1], "--speed", &format!("{speed}x")]);
            let found = rates_of_fio(&fio(
                scratch.path(),
                &[&format!("--filename={}", drive.device.display()), &file],
            ));
            drive.detach();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            let ratios: BTreeMap<&str, f64> = found
                .iter()
                .map(|(job, rate)| (job.as_str(), rate / speed / expected[job]))
                .collect();
            println!("{name} at {speed}x: fio over the model: {ratios:.3?}; model {expected:.0?}");
            ratios.iter().all(|(job, ratio)| near(job, *ratio))
        };
        // A busy machine delays requests, which counts for less at a lower speed.
        assert!(agrees(speed) || agrees(speed / 3.0), "{name}: fio differs from the model");
    }
}

#[test]
fn unsupported_job_file_is_one_line_with_file_line_and_key() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("bad.fio"), "[global]\nbs=4k\n[a]\nrw=randread\nverify=crc32c\n")
        .unwrap();
    let run = |args: &[&str]| {
        trimtab().current_dir(scratch.path()).args(args).assert().failure().code(2).stdout("")
    };
    let said = "bad.fio, line 5: verify: this key is not supported; remove it";
    run(&["drive", "simulate", "--drive", "nvme-tlc-500gb", "--fio", "bad.fio"])
        .stderr(contains(said));
    run(&["bench", "fio", "bad.fio", "null:"]).stderr(contains(said));
    fs::write(scratch.path().join("large.fio"), "[a]\nrw=write\nsize=2m\n").unwrap();
    run(&["drive", "simulate", "--drive", "nvme-tlc-500gb", "--fio", "large.fio", "--reads", "5"])
        .stderr(contains("only apply"));
    run(&["bench", "fio", "large.fio", "null:1MiB"])
        .stderr(contains("job 'a': size is 2097152 bytes"));
    fs::write(scratch.path().join("file"), vec![0; 1 << 20]).unwrap();
    run(&["bench", "fio", "large.fio", "file"]).stderr(contains("add --destroy file"));
}

#[test]
fn jobs_on_a_file_and_a_modelled_drive_report_and_store() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(
        scratch.path().join("j.fio"),
        "[w]\nioengine=libaio\nrw=randwrite\nsize=1m\niodepth=8\n[r]\nstonewall\n\
        rw=read\nsize=1m\n",
    )
    .unwrap();
    fs::write(scratch.path().join("file"), vec![0; 1 << 20]).unwrap();
    let store = scratch.path().join("store.db");
    let run = |args: &[&str]| {
        trimtab()
            .current_dir(scratch.path())
            .args(["bench", "fio", "j.fio"])
            .args(args)
            .arg("--store")
            .arg(&store)
            .assert()
            .success()
    };
    let printed = run(&["file", "--destroy", "file"]).stderr(contains("not used here: ioengine"));
    let text = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
    assert!(
        ["IOPS", "p99.9", "w.write", "r.read"].iter().all(|part| text.contains(part)),
        "{text}"
    );
    assert!(fs::read(scratch.path().join("file")).unwrap().iter().any(|byte| *byte != 0));
    run(&["drive:ocz-vertex-le-100gb", "--data", "zero"]).stdout(contains("w.waf"));
    let shown =
        trimtab().args(["results", "show", "last", "--store"]).arg(&store).assert().success();
    assert!(String::from_utf8_lossy(&shown.get_output().stdout).contains("w.write"));
}

/// A file with holes answers reads from memory.
#[test]
fn reads_of_a_file_with_holes_are_warned_of() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("reads.fio"), "[a]\nrw=read\nsize=1m\n").unwrap();
    fs::write(scratch.path().join("whole"), vec![7; 1 << 20]).unwrap();
    fs::File::create(scratch.path().join("holes")).unwrap().set_len(1 << 20).unwrap();
    for (file, has_holes) in [("whole", false), ("holes", true)] {
        let run = ours(scratch.path(), &["bench", "fio", "reads.fio", file]);
        let warned = run["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning["code"] == "target.holes");
        assert_eq!(warned, has_holes, "{run}");
    }
    // A run shorter than a step of its series draws no empty charts.
    let shown = trimtab()
        .current_dir(scratch.path())
        .args(["bench", "fio", "reads.fio", "whole"])
        .assert()
        .success();
    let screen = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(screen.contains("a.read") && !screen.contains("no values"), "{screen}");
}
