//! Ten times the input takes about ten times as long and ten times the memory, or fails
//! with a one-line error. This holds for every parser of files from untrusted sources.
//! The measure is processor time, not elapsed time, so that other processes do not
//! matter.

use crate::support::{process, program, save_runs};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Writes an input of `n` parts into a directory and returns the commands that read it.
/// The last command is measured.
type Make = fn(&Path, usize) -> Vec<Vec<&'static str>>;

/// Each parser, its input, and a number of parts large enough to measure.
const PARSERS: &[(&str, Make, usize)] = &[
    ("specification, [[uncertain]]", uncertain, 200),
    ("specification, sources", sources, 2000),
    ("plan, values", plan_values, 2000),
    ("plan, long name", plan_name, 20_000),
    ("plan, parameters", plan_parameters, 2000),
    ("daemon configuration", configuration, 1000),
    ("blkparse text", |at, n| trace(at, n, "8,0 1 1 {}.0 1 Q W {} + 8 [x]\n"), 20_000),
    ("MSR trace", |at, n| trace(at, n, "{},h,1,Write,4096,4096,1\n"), 20_000),
    ("iolog, files", iolog_files, 5000),
    ("trace, one line", |at, n| trace(at, 1, &"1 ".repeat(n)), 20_000),
    ("result, samples", |at, n| result(at, "metrics", n), 10_000),
    ("result, phases", |at, n| result(at, "phases", n), 100),
    ("result, counters", |at, n| result(at, "counters", n), 2000),
    ("result, settings", |at, n| result(at, "settings", n), 2000),
    ("result, points of a series", |at, n| result(at, "series", n), 10_000),
    ("result, settings in a list", |at, n| settings(at, n, &["list"]), 2000),
    ("results compared, settings", |at, n| settings(at, n, &["compare", "last", "last~1"]), 2000),
    ("archive, files", archive, 2000),
    ("postmark commands", postmark, 10000),
    ("recorded tree, mounts", mounts, 60),
    ("recorded tree, devices", devices, 60),
    ("recorded tree, mounts that fstrim visits", visits, 1000),
    ("recorded tree, mounts that fstab lists", listed, 600),
    ("journal of a sweep", journal, 1),
];

/// Processor time in seconds, and peak memory in MiB.
#[derive(Clone, Copy, Debug)]
struct Cost {
    seconds: f64,
    mib: f64,
}

#[expect(clippy::zombie_processes, reason = "wait4 waits, and counts what the process took")]
fn measured(mut command: Command) -> (ExitStatus, String, Cost) {
    let scratch = tempfile::tempfile().unwrap();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(scratch.try_clone().unwrap())
        .spawn()
        .unwrap();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: the process is a child of this one that nothing else waits for, and both
    // places are large enough.
    let usage = unsafe {
        assert_eq!(
            libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr()),
            child.id().cast_signed()
        );
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let mut said = String::new();
    std::io::Seek::rewind(&mut &scratch).unwrap();
    std::io::Read::read_to_string(&mut &scratch, &mut said).unwrap();
    let cost = Cost {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        mib: usage.ru_maxrss as f64 / 1024.0,
    };
    (ExitStatus::from_raw(status), said, cost)
}

/// The cost of an input of `n` parts, and whether it failed with one short line.
fn cost(name: &str, make: Make, n: usize) -> (Cost, bool) {
    let scratch = tempfile::tempdir().unwrap();
    let commands = make(scratch.path(), n);
    let mut last = None;
    for args in &commands {
        let mut command = process();
        command.current_dir(scratch.path()).args(["--store", "store.db"]).args(args);
        // An input that takes this long is neither linear nor refused.
        let mut limited = Command::new("prlimit");
        limited
            .args(["--cpu=60", "--as=4294967296"])
            .arg(program())
            .args(command.get_args())
            .current_dir(scratch.path());
        crate::support::at_home(&mut limited);
        last = Some(measured(limited));
    }
    let (status, said, cost) = last.expect("there is a command");
    assert!(
        status.code().is_some_and(|code| code < 100),
        "{name}, {n} parts: {status}, {cost:?}: {said}"
    );
    // The doctor's exit status carries its verdict.
    let refused = !status.success() && !said.is_empty();
    assert!(
        !refused || said.lines().count() == 1 && said.len() < 2000,
        "{name}, {n} parts: {said}"
    );
    (cost, refused)
}

#[test]
fn parser_cost_grows_linearly_with_input() {
    let mut wrong = Vec::new();
    for (name, make, n) in PARSERS {
        let ((small, _), (large, refused)) = (cost(name, *make, *n), cost(name, *make, n * 10));
        // The limit is four times linear growth, plus one second for constant cost.
        // Quadratic growth would take a hundred times as long.
        let linear =
            large.seconds <= 40.0 * small.seconds + 1.0 && large.mib <= 40.0 * small.mib.max(16.0);
        println!(
            "{name}: {small:?}, ten times that: {large:?}{}",
            if refused { ", refused" } else { "" }
        );
        if !linear {
            wrong.push(format!("{name}: {small:?} for {n} parts, {large:?} for ten times that"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Regression: 757 MB for 2,000 phases, because each phase kept the empty buckets of its
/// histograms.
#[test]
fn export_of_many_phases_takes_bounded_memory() {
    let export = |at: &Path, n| {
        result(at, "phases", n);
        vec![vec!["results", "export", "--output", "all.json"]]
    };
    let (cost, _) = cost("export of phases", export, 2000);
    // The kernel's count includes this process's memory at the time of the fork.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak_kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"));
    let own_mib = peak_kib.unwrap().trim().parse::<f64>().unwrap() / 1024.0;
    assert!(cost.mib <= own_mib.max(150.0), "{cost:?}, {own_mib} MiB here");
}

/// Regression: 2.86 GB for a refused file.
#[test]
fn sparse_file_is_refused_unread_as_a_store() {
    let sparse = |at: &Path, gib: usize| {
        fs::File::create(at.join("store.db")).unwrap().set_len((gib as u64) << 30).unwrap();
        vec![vec!["results", "list"]]
    };
    let empty = |at: &Path, _| {
        write(at, "store.db", "x".repeat(100));
        vec![vec!["results", "list"]]
    };
    let (small, large) = (cost("sparse file", sparse, 1), cost("sparse file", sparse, 1000));
    assert!(small.1 && large.1, "refused");
    assert!(large.0.mib <= 1.5 * cost("small file", empty, 1).0.mib, "{large:?}");
}

fn write(at: &Path, name: &str, text: impl AsRef<[u8]>) {
    fs::write(at.join(name), text).unwrap();
}

const DRIVE: &str = "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = 1_000_000_000\n\
    [flash.nand]\nread_ns = 7200\n";

fn uncertain(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    write(
        at,
        "x.toml",
        DRIVE.to_owned()
            + &"[[uncertain]]\nbecause = \"b\"\nset = { \"flash.nand.read_ns\" = 5400 }\n"
                .repeat(n),
    );
    vec![vec!["drive", "show", "./x.toml"]]
}

fn sources(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let sources = (0..n).fold(String::new(), |mut text, n| {
        writeln!(text, "\"flash.x{n}\" = \"assumed: x\"").unwrap();
        text
    });
    write(at, "x.toml", format!("{DRIVE}[sources]\n{sources}"));
    vec![vec!["drive", "show", "./x.toml"]]
}

const BASE: &str = "[base]\ndrive.name = \"crucial-m4-128gb\"\nworkload.name = \"random\"\n";

fn plan_values(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let values: Vec<String> = (0..n).map(|n| format!("{n}.5")).collect();
    write(
        at,
        "plan.toml",
        format!("{BASE}[axes]\nworkload.fill_percent = [\n{}\n]\n", values.join(",\n")),
    );
    vec![vec!["sweep", "plan", "plan.toml"]]
}

fn plan_name(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    write(
        at,
        "plan.toml",
        format!(
            "{BASE}\"drive.flash{}\" = 1\n[axes]\nworkload.queue_depth = [1, 2]\n",
            ".a".repeat(n)
        ),
    );
    vec![vec!["sweep", "plan", "plan.toml"]]
}

fn plan_parameters(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let axes: String = (0..n).map(|n| format!("drive.x{n} = [1]\n")).collect();
    write(at, "plan.toml", format!("{BASE}[axes]\n{axes}"));
    vec![vec!["sweep", "plan", "plan.toml"]]
}

fn configuration(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let rules: String =
        (0..n).map(|n| format!("[[filesystem]]\npath = \"/x{n}\"\npolicy = \"none\"\n")).collect();
    write(at, "daemon.toml", rules);
    vec![vec!["daemon", "--check", "--config", "daemon.toml"]]
}

/// A trace of `n` lines, in a format in which each `{}` is a number.
fn trace(at: &Path, n: usize, form: &str) -> Vec<Vec<&'static str>> {
    let lines: String = (0..n).map(|n| form.replace("{}", &(n * 8).to_string())).collect();
    write(at, "trace", lines);
    vec![vec!["drive", "trace", "trace"]]
}

fn iolog_files(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let lines: String =
        (0..n).map(|n| format!("{n} /{n}{} write 0 4096\n", "x".repeat(200))).collect();
    write(at, "trace", format!("fio version 3 iolog\n{lines}"));
    vec![vec!["drive", "trace", "trace", "--volume", "0"]]
}

/// Shows a stored run with one long part.
fn result(at: &Path, part: &str, n: usize) -> Vec<Vec<&'static str>> {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/run/run.json");
    let mut run: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(seed).unwrap()).unwrap();
    let number = |n: usize| 1.0 + n as f64 * 0.618 % 1.0;
    match part {
        "metrics" => run["metrics"][0]["samples"] = (0..n).map(number).collect(),
        "phases" => {
            let phase = run["phases"][0].clone();
            let of = |n: usize| {
                let mut phase = phase.clone();
                phase["name"] = format!("phase {n}").into();
                phase
            };
            run["phases"] = (0..n).map(of).collect();
        }
        "series" => {
            run["series"][0]["x"] = (0..n).collect();
            run["series"][0]["y"] = (0..n).map(number).collect();
        }
        map => (0..n).for_each(|n| {
            run[map][format!("k{n}")] = if map == "counters" { n.into() } else { "v".into() }
        }),
    }
    save_runs(&at.join("store.db"), [run]);
    vec![vec!["results", "show", "last"]]
}

/// Two stored runs with `n` settings each, and the commands that read them.
fn settings(at: &Path, n: usize, last: &[&'static str]) -> Vec<Vec<&'static str>> {
    let run = |seed: u64| {
        let settings: serde_json::Value = (0..n).map(|n| (format!("k{n}"), json!("v"))).collect();
        json!({"workload": "tree", "target_label": "x", "seed": seed, "settings": settings})
    };
    save_runs(&at.join("store.db"), [run(1), run(2)]);
    vec![[&["results"], last].concat()]
}

fn archive(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let mut builder = tar::Builder::new(Vec::new());
    for n in 0..n {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("d{}/f{n}", n % 10), &b""[..]).unwrap();
    }
    write(at, "x.tar", builder.into_inner().unwrap());
    vec![vec!["bench", "tree", "--tar", "x.tar", "--tries", "1", "null:"]]
}

fn postmark(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    write(at, "pm", "set location /tmp\nset number 5\n".repeat(n) + "quit\n");
    vec![vec!["postmark", "pm"]]
}

/// A filesystem on each disk.
fn mounts(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    machine(at, n, n, |_, _| {})
}

/// One disk, mounted at `n` places, and a timer that calls fstrim with `arguments`.
fn timed(at: &Path, n: usize, arguments: &str) -> Vec<Vec<&'static str>> {
    let doctor = machine(at, 1, 1, |_, _| {});
    let more: String =
        (0..n).map(|n| format!("{} 10 8:0 / /m{n} rw - ext4 /dev/d0 rw\n", n + 11)).collect();
    write(at, "root/proc/self/mountinfo", format!("10 1 8:0 / / rw - ext4 /dev/d0 rw\n{more}"));
    let units = "root/usr/lib/systemd/system";
    fs::create_dir_all(at.join(units).join("timers.target.wants")).unwrap();
    write(at, &format!("{units}/fstrim.timer"), "[Timer]\nOnCalendar=weekly\n");
    write(
        at,
        &format!("{units}/fstrim.service"),
        format!("[Service]\nExecStart=/sbin/fstrim {arguments}\n"),
    );
    std::os::unix::fs::symlink(
        "../fstrim.timer",
        at.join(units).join("timers.target.wants/fstrim.timer"),
    )
    .unwrap();
    doctor
}

fn visits(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    timed(at, n, "--all")
}

/// Half of the filesystems in fstab are mounted.
fn listed(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let doctor = timed(at, n / 2, "--fstab");
    fs::create_dir(at.join("root/etc")).unwrap();
    write(
        at,
        "root/etc/fstab",
        (0..n).map(|n| format!("/dev/d0 /m{n} ext4 rw 0 0\n")).collect::<String>(),
    );
    doctor
}

/// Each disk has itself and the previous disk as lower devices.
fn devices(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    machine(at, n, n.min(20), |slaves, n| {
        std::os::unix::fs::symlink(format!("/sys/devices/d{n}"), slaves.join("itself")).unwrap();
        std::os::unix::fs::symlink(
            format!("/sys/devices/d{}", n.saturating_sub(1)),
            slaves.join("before"),
        )
        .unwrap();
    })
}

/// A recorded tree with `disks`; the first `mounted` carry a filesystem. `below` fills
/// the directory of a disk's lower devices.
fn machine(
    at: &Path,
    disks: usize,
    mounted: usize,
    below: fn(&Path, usize),
) -> Vec<Vec<&'static str>> {
    let sys = at.join("root/sys");
    for directory in ["block", "dev/block"] {
        fs::create_dir_all(sys.join(directory)).unwrap();
    }
    let mut lines = String::new();
    for n in 0..disks {
        let disk = sys.join(format!("devices/d{n}"));
        for part in ["queue", "slaves", "holders"] {
            fs::create_dir_all(disk.join(part)).unwrap();
        }
        fs::write(disk.join("dev"), format!("8:{n}\n")).unwrap();
        below(&disk.join("slaves"), n);
        std::os::unix::fs::symlink(format!("../devices/d{n}"), sys.join(format!("block/d{n}")))
            .unwrap();
        std::os::unix::fs::symlink(
            format!("../../devices/d{n}"),
            sys.join(format!("dev/block/8:{n}")),
        )
        .unwrap();
        if n < mounted {
            writeln!(lines, "{} 1 8:{n} / /m{n} rw - ext4 /dev/d{n} rw", n + 10).unwrap();
        }
    }
    fs::create_dir_all(at.join("root/proc/self")).unwrap();
    write(at, "root/proc/self/mountinfo", lines);
    vec![vec!["doctor", "--all", "--sysroot", "root"]]
}

/// A sweep whose journal is one long line, mostly a hole.
fn journal(at: &Path, n: usize) -> Vec<Vec<&'static str>> {
    let plan = format!("{BASE}[axes]\nworkload.queue_depth = [1, 2]\n");
    let hash = trimtab_study::sweep::short_hash(&plan);
    let model = trimtab_study::sweep::MODEL;
    let about = serde_json::json!({
        "schema": "trimtab.sweep", "version": trimtab_study::sweep::table::SCHEMA, "name": "sweep", "plan": hash, "tool_version": "0.1.0",
        "model": model, "inputs": {}, "cells": 2,
    });
    fs::create_dir(at.join("out")).unwrap();
    write(at, "out/plan.toml", plan);
    write(at, "out/sweep.json", about.to_string());
    let journal =
        fs::File::create(at.join(format!("out/cells-{}-1-of-1.jsonl", &hash[..8]))).unwrap();
    journal.set_len(n as u64 * (300 << 20)).unwrap();
    vec![vec!["sweep", "status", "out"]]
}
