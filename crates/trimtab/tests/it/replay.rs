//! `drive simulate --trace` and `drive trace`: the I/O of one host under one trim policy, replayed
//! under others and exported to other tools.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{have_root, skip, trimtab};
use predicates::prelude::*;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;

const DRIVE: [&str; 4] = ["ocz-vertex-le-100gb", "--size", "512MiB", "--seed"];

fn json(args: &[&str]) -> Value {
    let output = trimtab().args(args).arg("--json").output().unwrap();
    assert!(
        output.status.success(),
        "trimtab {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Records file writes and deletes on ext4 with online discard; returns the server's
/// final status.
fn recorded(trace: &Path) -> Value {
    let mut args = DRIVE.to_vec();
    args.extend(["7", "--speed", "off", "--record", trace.to_str().unwrap()]);
    let drive = Attached::new(&args);
    ok(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
        .arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "noatime,discard").unwrap();
    let mut data = vec![0; 300_000];
    for round in 0..3_u64 {
        for n in 0..60 {
            DataClass::Random.fill(&mut Stream::new(round * 100 + n, "content"), &mut data);
            std::fs::write(mounted.path().join(n.to_string()), &data).unwrap();
        }
        ok(Command::new("sync").arg("--file-system").arg(mounted.path()));
        for n in 0..60 {
            std::fs::remove_file(mounted.path().join(n.to_string())).unwrap();
        }
        ok(Command::new("sync").arg("--file-system").arg(mounted.path()));
    }
    mounted.unmount();
    let status = drive.status();
    drive.detach();
    status
}

/// The run of a replay on the drive of the recording.
fn replayed(trace: &Path, more: &[&str]) -> Value {
    let mut args = vec!["drive", "simulate", "--trace", trace.to_str().unwrap(), "--drive"];
    args.extend([DRIVE[0], "--capacity", DRIVE[2], "--seed", "7"]);
    args.extend(more);
    json(&args)
}

#[test]
fn online_recording_replays_under_every_policy() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    let live = recorded(&trace);
    let replay = |policy: &str| replayed(&trace, &["--trim", policy]);
    let online = replay("online");
    let written = |run: &Value| run["phases"][0]["written_bytes"].clone();
    assert_eq!(online["phases"], replay("online")["phases"], "a replay is the same each time");
    assert_eq!(online["phases"], replayed(&trace, &[])["phases"], "trims are sent at once");
    let freed = live["discards"]["effective_bytes"].as_u64().unwrap();
    assert!(freed > 3 * 60 * 290_000, "the kernel trimmed what was deleted: {freed}");
    for kind in ["read", "write", "trim"] {
        assert_eq!(online["phases"][0]["ops"][kind], live["requests"][kind]["count"], "{kind}");
    }
    assert_eq!(written(&online), live["requests"]["write"]["bytes"]);
    for counter in
        ["host_written_bytes", "trim_asked_bytes", "trim_effective_units", "nand_written_bytes"]
    {
        let (model, replayed) = (
            live["model"][counter].as_f64().unwrap(),
            online["counters"][counter].as_f64().unwrap(),
        );
        assert!(
            (replayed / model - 1.0).abs() <= 0.1,
            "{counter}: {model} live, {replayed} replayed"
        );
    }
    let count = |run: &Value, name: &str| run["counters"][name].as_u64().unwrap();
    assert_eq!(count(&online, "trim.effective.bytes"), freed);
    let none = replay("none");
    assert_eq!(count(&none, "trim.asked.bytes"), 0);
    assert_eq!(count(&none, "trim_effective_units"), 0);
    let untold = count(&none, "trim.never-told.bytes");
    assert!(
        untold > 0 && untold <= freed,
        "{untold} of {freed}: what was freed and not written again"
    );
    for policy in ["batched:every=1h", "adaptive", "idle"] {
        let later = replay(policy);
        assert_eq!(count(&later, "trim.repeated.bytes"), 0, "{policy} tells nothing twice");
        assert_eq!(written(&later), written(&online), "{policy}");
        assert_eq!(
            count(&later, "trim.effective.bytes") + count(&later, "trim.never-told.bytes"),
            untold,
            "{policy}: all of it is accounted for"
        );
    }
}

#[test]
fn replay_refuses_damaged_traces_and_bad_options() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let text = "fio version 3 iolog\n0 x add\n0 x open\n5 x write 0 4096\n9 x trim 0 4096\n\
        12 x write 1073741824 4096\n";
    std::fs::write(path("big"), text).unwrap();
    std::fs::write(path("odd"), "fio version 3 iolog\n0 x add\n0 x open\n5 x wrote 0 4096\n")
        .unwrap();
    std::fs::write(
        path("timeless"),
        "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx write 4096 4096\n\
        x read 0 4096\nx close\n",
    )
    .unwrap();
    std::fs::write(path("two"), "1,hm,1,Write,4096,4096,1\n20001,hm,2,Read,4096,512,1\n").unwrap();
    std::fs::write(path("no-trace"), "Lorem ipsum\n").unwrap();
    std::fs::write(path("cut"), "trimtab recording: x\n5,wri").unwrap();
    for (args, code, expected) in [
        (
            vec!["--trace", "big", "--drive", "ocz-vertex-le-100gb", "--capacity", "512MiB"],
            2,
            "line 6: 4096 bytes at 1073741824 go past the end",
        ),
        (vec!["--trace", "odd", "--drive", "ocz-vertex-le-100gb"], 1, "line 4"),
        (
            vec!["--trace", "no-trace", "--drive", "ocz-vertex-le-100gb"],
            2,
            "is not a recognised trace",
        ),
        (
            vec!["--trace", "cut", "--drive", "ocz-vertex-le-100gb"],
            1,
            "it has no request; the last line, 2, is cut off",
        ),
        (vec!["--trace", "missing", "--drive", "ocz-vertex-le-100gb"], 1, "there is no 'missing'"),
        (vec!["--trace", "big", "--drive", "no-such-drive"], 1, "no-such-drive"),
        (
            vec!["--trace", "big", "--drive", "ocz-vertex-le-100gb", "--trim", "sometimes"],
            2,
            "sometimes",
        ),
        (
            vec!["--trace", "timeless", "--drive", "ocz-vertex-le-100gb"],
            2,
            "has no times: all of its 3 requests",
        ),
        (
            vec!["--trace", "two", "--drive", "ocz-vertex-le-100gb", "--volume", "3"],
            1,
            "no request of volume 3; it has hm,1, hm,2",
        ),
        (
            vec!["--trace", "timeless", "--drive", "ocz-vertex-le-100gb", "--rate", "0"],
            2,
            "from 0.001",
        ),
        (vec!["--rate", "10", "--drive", "ocz-vertex-le-100gb"], 2, "need --trace"),
        (
            vec!["--drive", "ocz-vertex-le-100gb", "--reads", "60", "--trims", "60"],
            2,
            "--reads 60 and --trims 60 add up to 120 %",
        ),
    ] {
        let assert =
            trimtab().current_dir(scratch.path()).args(["drive", "simulate"]).args(&args).assert();
        let assert = assert.code(code).stdout("").stderr(predicate::str::contains(expected));
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
    let odd = trimtab().current_dir(scratch.path()).args(["drive", "trace", "odd"]).assert();
    odd.code(1).stdout("").stderr(predicate::str::contains("line 4"));
    for timing in [["--rate", "10"], ["--closed-loop", "1"]] {
        let args = [
            "drive",
            "simulate",
            "--trace",
            "timeless",
            "--drive",
            "ocz-vertex-le-100gb",
            "--json",
        ];
        let run = trimtab().current_dir(scratch.path()).args(args).args(timing).assert().success();
        let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let took = document["phases"][0]["took_ns"].as_u64().unwrap();
        // Two pauses of 0.1 s with --rate, none otherwise.
        assert_eq!(took > 200_000_000, timing[0] == "--rate", "{took}");
    }
}

/// By hand: the trace reads before it writes.
#[test]
fn trace_that_reads_an_empty_drive_has_a_caution() {
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace.csv");
    std::fs::write(&trace, "0,trimtab,0,Read,0,4096,100\n10000,trimtab,0,Write,0,4096,100\n")
        .unwrap();
    for (fill, expected) in [(&[][..], true), (&["--fill", "0"], false), (&["--fill", "50"], false)]
    {
        let run = replayed(&trace, fill);
        let warnings = run["warnings"].as_array().unwrap();
        let found = warnings.iter().any(|one| one["code"] == "trace.unwritten-space");
        assert_eq!(found, expected, "{fill:?}: {run}");
    }
}

#[test]
fn replay_of_trace_with_century_gap_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace.csv");
    std::fs::write(
        &trace,
        "0,trimtab,0,Write,0,4096,100\n31557600000000000,trimtab,0,Read,0,4096,100\n",
    )
    .unwrap();
    for policy in ["adaptive", "idle", "batched:every=1h"] {
        let run = replayed(&trace, &["--trim", policy]);
        let took = run["phases"][0]["took_ns"].as_u64().unwrap();
        assert!(took >= 3_155_760_000_000_000_000, "{policy}: {took}");
    }
}
