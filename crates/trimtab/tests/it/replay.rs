//! `drive replay` and `drive trace`: the I/O of one host under one trim policy, replayed
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

fn summed(trace: &Path) -> Value {
    json(&["drive", "trace", trace.to_str().unwrap()])
}

/// Count and bytes of each kind of request.
fn requests(of: &Value) -> Vec<(&Value, &Value)> {
    ["read", "write", "trim"].iter().map(|kind| (&of[kind]["count"], &of[kind]["bytes"])).collect()
}

#[test]
fn online_recording_replays_under_every_policy() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    let live = recorded(&trace);
    let replay = |more: &[&str]| {
        let mut args = vec!["drive", "replay", trace.to_str().unwrap(), "--drive"];
        args.extend(DRIVE);
        args.extend(["7"]);
        args.extend(more);
        json(&args)
    };
    let all = ["recorded", "online", "none", "batched:every=1h", "adaptive", "idle"];
    let mut args = vec!["--rest", "8d"];
    all.iter().for_each(|policy| args.extend(["--trim", policy]));
    let said = |more: &[&str]| {
        let mut command = trimtab();
        command.args(["drive", "replay", trace.to_str().unwrap(), "--drive"]).args(DRIVE).arg("7");
        String::from_utf8(command.args(more).output().unwrap().stdout).unwrap()
    };
    assert!(said(&["--trim", "idle", "--rest", "8d"]).contains("take no time of the replay"));
    assert!(!said(&["--trim", "recorded", "--rest", "8d"]).contains("take no time"));
    let document = replay(&args);
    assert_eq!(document, replay(&args), "a replay is the same each time");
    let of =
        |policy: &str| &document["replays"][all.iter().position(|name| *name == policy).unwrap()];

    let (as_recorded, freed) =
        (of("recorded"), live["discards"]["effective_bytes"].as_u64().unwrap());
    assert!(freed > 3 * 60 * 290_000, "the kernel trimmed what was deleted: {freed}");
    assert_eq!(requests(&as_recorded["requests"]), requests(&live["requests"]));
    for counter in
        ["host_written_bytes", "trim_asked_bytes", "trim_effective_units", "nand_written_bytes"]
    {
        let (model, replayed) = (
            live["model"][counter].as_f64().unwrap(),
            as_recorded["model"][counter].as_f64().unwrap(),
        );
        assert!(
            (replayed / model - 1.0).abs() <= 0.1,
            "{counter}: {model} live, {replayed} replayed"
        );
    }
    assert_eq!(as_recorded["discards"]["effective_bytes"], freed);
    assert_eq!(of("online")["discards"], as_recorded["discards"], "as recorded is online");
    let none = of("none");
    assert_eq!(
        (&none["requests"]["trim"]["count"], &none["discards"]["asked"]["bytes"]),
        (&0.into(), &0.into())
    );
    assert_eq!(none["model"]["trim_effective_units"], 0);
    let untold = none["never_told_bytes"].as_u64().unwrap();
    assert!(
        untold > 0 && untold <= freed,
        "{untold} of {freed}: what was freed and not written again"
    );
    for policy in ["batched:every=1h", "adaptive", "idle"] {
        let later = of(policy);
        assert_eq!(later["discards"]["repeated_bytes"], 0, "{policy} tells nothing twice");
        assert_eq!(
            later["requests"]["write"]["bytes"], as_recorded["requests"]["write"]["bytes"],
            "{policy}"
        );
        let told = later["discards"]["effective_bytes"].as_u64().unwrap();
        assert_eq!(
            told + later["never_told_bytes"].as_u64().unwrap(),
            untold,
            "{policy}: all of it is accounted for"
        );
    }
    for policy in ["batched:every=1h", "idle"] {
        assert_eq!(
            of(policy)["never_told_bytes"],
            0,
            "{policy} has told everything within eight days"
        );
        assert!(
            of(policy)["took_ns"].as_u64() <= as_recorded["took_ns"].as_u64(),
            "{policy} takes no more than online discard"
        );
    }
}

#[test]
fn exported_trace_has_same_requests_and_fio_replays_it() {
    if !have_root() || !have(&["mkfs.ext4", "fio"]) {
        return skip("root, e2fsprogs and fio");
    }
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    recorded(&trace);
    let original = summed(&trace);
    let text = scratch.path().join("fio");
    let (from, to) = (trace.to_str().unwrap(), text.to_str().unwrap());
    let printed = trimtab().args(["drive", "trace", from, "--to", "fio"]).output().unwrap().stdout;
    std::fs::write(&text, printed).unwrap();
    assert_eq!(requests(&summed(&text)), requests(&original));
    let mut args = vec!["drive", "replay", to, "--drive"];
    args.extend(DRIVE);
    args.push("7");
    let replayed = &json(&args)["replays"][0];
    assert_eq!(requests(&replayed["requests"]), requests(&original));
    let mut args = DRIVE.to_vec();
    args.extend(["7", "--speed", "off"]);
    let drive = Attached::new(&args);
    let before = drive.status();
    let iolog = format!("--read_iolog={}", scratch.path().join("fio").display());
    let device = format!("--replay_redirect={}", drive.device.display());
    ok(Command::new("fio")
        .args([
            "--name=replay",
            "--ioengine=psync",
            "--direct=1",
            "--replay_no_stall=1",
            &iolog,
            &device,
        ])
        .current_dir(scratch.path()));
    let after = drive.status();
    // fio 3.33 skips the trims in an iolog ("bad ddir: 2").
    for kind in ["write", "read"] {
        let bytes = |status: &Value| status["requests"][kind]["bytes"].as_u64().unwrap();
        assert_eq!(
            bytes(&after) - bytes(&before),
            original[kind]["bytes"].as_u64().unwrap(),
            "fio did every {kind}"
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
            vec!["replay", "big", "--drive", "ocz-vertex-le-100gb", "--size", "512MiB"],
            2,
            "line 6: 4096 bytes at 1073741824 go past the end",
        ),
        (vec!["replay", "odd", "--drive", "ocz-vertex-le-100gb"], 1, "line 4"),
        (
            vec!["replay", "no-trace", "--drive", "ocz-vertex-le-100gb"],
            2,
            "is not a recognised trace",
        ),
        (
            vec!["replay", "cut", "--drive", "ocz-vertex-le-100gb"],
            1,
            "it has no request; the last line, 2, is cut off",
        ),
        (vec!["replay", "missing", "--drive", "ocz-vertex-le-100gb"], 1, "cannot open missing"),
        (vec!["replay", "big", "--drive", "no-such-drive"], 1, "no-such-drive"),
        (
            vec!["replay", "big", "--drive", "ocz-vertex-le-100gb", "--trim", "sometimes"],
            2,
            "sometimes",
        ),
        (
            vec!["replay", "timeless", "--drive", "ocz-vertex-le-100gb"],
            2,
            "has no times: all of its 3 requests",
        ),
        (
            vec!["replay", "two", "--drive", "ocz-vertex-le-100gb", "--volume", "3"],
            1,
            "no request of volume 3; it has hm,1, hm,2",
        ),
        (
            vec!["replay", "timeless", "--drive", "ocz-vertex-le-100gb", "--rate", "0"],
            2,
            "from 0.001",
        ),
        (vec!["trace", "odd"], 1, "line 4"),
        (vec!["trace", "big", "--to", "pcap"], 2, "expected fio"),
    ] {
        let assert = trimtab().current_dir(scratch.path()).arg("drive").args(&args).assert();
        let assert = assert.code(code).stdout("").stderr(predicate::str::contains(expected));
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
    for timing in [["--rate", "10"], ["--closed-loop", "1"]] {
        let args = ["drive", "replay", "timeless", "--drive", "ocz-vertex-le-100gb", "--json"];
        let run = trimtab().current_dir(scratch.path()).args(args).args(timing).assert().success();
        let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let took = document["replays"][0]["took_ns"].as_u64().unwrap();
        // Two pauses of 0.1 s with --rate, none otherwise.
        assert_eq!(took > 200_000_000, timing[0] == "--rate", "{took}");
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
    let mut args = vec!["drive", "replay", trace.to_str().unwrap(), "--drive"];
    args.extend([
        DRIVE[0],
        DRIVE[1],
        DRIVE[2],
        "--trim",
        "adaptive",
        "--trim",
        "idle",
        "--trim",
        "batched:every=1h",
    ]);
    let replays = json(&args)["replays"].take();
    for replay in replays.as_array().unwrap() {
        assert!(replay["took_ns"].as_u64().unwrap() >= 3_155_760_000_000_000_000, "{replay:#}");
    }
}
