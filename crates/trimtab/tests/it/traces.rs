//! Text traces in their published formats and variants, as `drive trace` and `drive
//! replay` read them.

use crate::support::{have_tool, run, skip, trimtab};
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The summary of `drive trace` for a text with these options.
fn summary(text: impl AsRef<[u8]>, options: &[&str]) -> Value {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("trace");
    fs::write(&path, text).unwrap();
    summary_of(&path, options)
}

fn summary_of(path: &Path, options: &[&str]) -> Value {
    let output =
        trimtab().args(["drive", "trace"]).arg(path).args(options).arg("--json").output().unwrap();
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Format, then count and bytes of reads, writes and trims, and the count of flushes.
fn shape(summary: &Value) -> (String, [(u64, u64); 3], u64) {
    let kind = |kind: &str| {
        (summary[kind]["count"].as_u64().unwrap(), summary[kind]["bytes"].as_u64().unwrap())
    };
    (
        summary["format"].as_str().unwrap().to_owned(),
        ["read", "write", "trim"].map(kind),
        kind("flush").0,
    )
}

fn refused(text: impl AsRef<[u8]>, options: &[&str], code: i32, expected: &str) {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("trace"), text).unwrap();
    let assert = trimtab()
        .current_dir(scratch.path())
        .args(["drive", "trace", "trace"])
        .args(options)
        .assert();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains(expected) && said.lines().count() == 1, "{options:?}: {said}");
    assert.code(code).stdout("");
}

#[test]
fn trace_formats_are_recognised() {
    for (text, expected) in [
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
                128166372003061629,hm,1,Read,383496192,32768,413\n",
            ("msr", [(1, 32_768), (0, 0), (0, 0)], 0),
        ),
        (
            "Input file sda.blktrace.0 added\n\
                Trace started at Tue Mar  3 12:00:00 2020\n\
                \n  8,16   3      101     0.000000000   812  Q FWFS 17574472760 + 8 \
                [jbd2/sdb-8]\n  8,16   3      110     0.010000000   812  Q  FN \
                [kworker/3:1H]\n  8,16   3      114     0.050000000   812  Q  DS 1024 + 8 \
                [fstrim]\nCPU0 (sdb):\n Allocation wait:        0\n",
            ("blkparse", [(0, 0), (1, 4096), (1, 4096)], 2),
        ),
    ] {
        let (format, kinds, flushes) = expected;
        assert_eq!(shape(&summary(text, &[])), (format.to_owned(), kinds, flushes), "{text}");
    }
    let alibaba = "device_id,opcode,offset,length,timestamp\n\
        419,W,8792731648,16384,1577808144360767\n725,R,4096,4096,1577808144360813\n";
    assert_eq!(shape(&summary(alibaba, &["--volume", "419"])).1, [(0, 0), (1, 16_384), (0, 0)]);
    refused(
        alibaba,
        &[],
        2,
        "the trace has several volumes: 419 and 725; choose one with --volume 419 or --volume 725",
    );
}

#[test]
fn trace_of_bare_numbers_needs_format_option() {
    let mqsim = "4851300 1 524288 16 0\n4864300 1 524304 16 0\n4871300 1 524320 16 1\n";
    refused(mqsim, &[], 2, "--format mqsim (MQSim: nanoseconds");
    refused(
        mqsim,
        &["--format", "columns"],
        1,
        "line 1: 16 bytes at byte 2147483648 are not whole sectors",
    );
    let read = summary(mqsim, &["--format", "mqsim"]);
    assert_eq!(shape(&read), ("mqsim".to_owned(), [(1, 8192), (2, 16_384), (0, 0)], 0));
    assert_eq!(
        (read["took_ns"].as_u64(), read["end_bytes"].as_u64()),
        (Some(20_000), Some((524_320 + 16) * 512))
    );
    refused("Lorem ipsum\n", &[], 2, "is not a recognised trace");
}

#[test]
fn blkparse_devices_are_volumes_and_events_are_chosen() {
    let issued = "202,16 7 50007 675.722691803 661 D W 95839968 + 80 [kswapd0]\n\
        202,16 7 50008 675.822691803 661 D R 95840048 + 8 [kswapd0]\n";
    refused(
        issued,
        &[],
        1,
        "no event Q, but 2 events D (read as blkparse); read those with --events D",
    );
    assert_eq!(shape(&summary(issued, &["--events", "D"])).1, [(1, 4096), (1, 40_960), (0, 0)]);
    let two = "8,0 1 1 0.5 1 Q W 8 + 8 [x]\n8,16 1 1 0.5 1 Q W 8 + 16 [x]\n";
    refused(two, &[], 2, "choose one with --volume 8,0 or --volume 8,16");
    assert_eq!(shape(&summary(two, &["--volume", "8,16"])).1, [(0, 0), (1, 8192), (0, 0)]);
    refused(two, &["--volume", "8,32"], 1, "it has no request of volume 8,32; it has 8,0, 8,16");
    refused("fio version 3 iolog\n", &["--events", "D"], 2, "only blkparse text has events");
    refused("fio version 3 iolog\n1 x add\n", &[], 1, "it has no request");
}

#[test]
fn cut_last_line_is_a_warning() {
    assert_eq!(
        shape(&summary("fio version 3 iolog\n29 x add\n270 x write 0 65536\n961 x\n", &[])).1,
        [(0, 0), (1, 65_536), (0, 0)]
    );
    let scratch = tempfile::tempdir().unwrap();
    let log = "fio version 3 iolog\r\n29 x add\r\n270 x write 0 65536\r\n\
        300 x sync_file_range 0 65536\r\n961 x wri";
    fs::write(scratch.path().join("cut.log"), log).unwrap();
    let trace = |args: &[&str]| {
        trimtab()
            .current_dir(scratch.path())
            .args(["drive", "trace", "cut.log"])
            .args(args)
            .assert()
            .success()
    };
    trace(&[])
        .stderr(contains("the last line, 5, is cut off and left out"))
        .stdout(contains("read as fio"));
    let replay =
        ["drive", "simulate", "--trace", "cut.log", "--drive", "ocz-vertex-le-100gb", "--json"];
    let replayed = trimtab()
        .current_dir(scratch.path())
        .args(replay)
        .assert()
        .success()
        .stdout(contains("cut off"));
    let document: Value = serde_json::from_slice(&replayed.get_output().stdout).unwrap();
    assert_eq!(document["phases"][0]["ops"]["flush"], 1);
}

/// Generates a log with fio, and reads it with fio and with the program.
#[test]
fn iolog_requests_and_duration_match_fio() {
    if !have_tool("fio") {
        return skip("fio");
    }
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let log = scratch.path().join("log");
    let (data, shown) = (data.to_str().unwrap(), log.to_str().unwrap());
    let job =
        ["--name=x", "--rw=randrw", "--bs=4k", "--size=64k", "--fdatasync=2", "--ioengine=psync"];
    run(
        "fio",
        &[
            &job[..],
            &[
                &format!("--filename={data}"),
                &format!("--write_iolog={shown}"),
                "--output=/dev/null",
            ],
        ]
        .concat(),
    )
    .unwrap();
    let (format, [reads, writes, _], flushes) = shape(&summary_of(&log, &[]));
    assert_eq!((format.as_str(), reads.0 + writes.0, reads.1 + writes.1), ("fio", 16, 65_536));
    assert_eq!(
        flushes,
        fs::read_to_string(&log).unwrap().lines().filter(|line| line.contains("sync")).count()
            as u64
    );
    // A wait lasts until its time since the start: 400 ms in total here, or 600 ms if
    // waits added up.
    let waits = format!(
        "{data} write 0 4096\n{data} wait 200 0\n{data} write 4096 4096\n\
            {data} wait 400 0\n{data} write 8192 4096\n"
    );
    fs::write(&log, format!("fio version 2 iolog\n{data} add\n{data} open\n{waits}{data} close\n"))
        .unwrap();
    assert_eq!(summary_of(&log, &[])["took_ns"], 400_000_000);
}

#[test]
fn trace_skipped_and_reordered_lines_are_reported() {
    let text = "20000,hm,1,Write,0,512,1\n10000,hm,1,Write,0,512,1\n30000,hm,1,Write,0,0,1\n\
        40000,hm,1,Write,0,512,1\n";
    let summary = summary(text, &[]);
    assert_eq!((&summary["took_ns"], &summary["write"]["count"]), (&3_000_000.into(), &3.into()));
    let warnings = summary["warnings"].to_string();
    assert!(
        warnings.contains("1 line is left out: size 0 (1)")
            && warnings.contains("1 line goes back in time"),
        "{warnings}"
    );
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("msr"), text).unwrap();
    let store = scratch.path().join("store");
    let mut replay = trimtab();
    replay
        .current_dir(scratch.path())
        .args(["drive", "simulate", "--trace", "msr", "--drive", "ocz-vertex-le-100gb", "--store"])
        .arg(&store);
    replay.assert().success().stdout(contains("size 0 (1)"));
    trimtab()
        .args(["results", "show", "last", "--store"])
        .arg(&store)
        .assert()
        .success()
        .stdout(contains("size 0 (1)"));
}

#[test]
fn hosts_files_and_compressed_traces_are_named() {
    let hosts = "1,hm,1,Write,0,512,1\n2,src,1,Write,0,512,1\n";
    refused(hosts, &[], 2, "choose one with --volume hm,1 or --volume src,1");
    assert_eq!(shape(&summary(hosts, &["--volume", "src,1"])).1[1], (1, 512));
    for (begin, expected) in [
        (
            &b"\x1f\x8b\x08\0\0\0\0\0"[..],
            "is compressed (gzip); decompress it first: zcat trace > TEXT",
        ),
        (b"\x28\xb5\x2f\xfd\0\0\0\0", "zstdcat"),
        (b"\xfd7zXZ\0\0\0", "xzcat"),
    ] {
        refused(begin, &[], 1, expected);
    }
}
