//! `trimtab advise`: every number is computed again from its evidence.

use crate::support::{LoopMount, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn advise(command: &mut assert_cmd::Command) -> Value {
    let output = command.arg("--json").assert().success().get_output().stdout.clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(document["schema"], "trimtab.advise");
    document
}

fn of_drive(drive: &str, program: &str, more: &[&str]) -> Value {
    advise(trimtab().args(["advise", drive, "--for", program]).args(more))
}

fn setting<'a>(document: &'a Value, name: &str) -> &'a Value {
    let settings = document["settings"].as_array().unwrap();
    settings.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{document:#}"))
}

/// The value consists of the two leading digits of `expected`, after up to one more is
/// added to the second.
fn leads(value: &Value, expected: f64, more: u64) {
    let whole = (expected as u64).to_string();
    let (digits, rest) = whole.split_at(whole.len().min(2));
    let digits = digits.parse::<u64>().unwrap() + more;
    assert_eq!(value.as_u64().unwrap(), digits * 10_u64.pow(rest.len() as u32), "{expected}");
}

/// TRIM of one extent of mapped data, in nanoseconds, with the values of the drive's file
/// or the defaults in docs/method/ssd.md.
fn trim_ns(file: &str, bytes: u64) -> f64 {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let flash = text.parse::<toml::Table>().unwrap()["flash"].clone();
    let or = |section: &str, field: &str, default: u64| {
        let value = flash.get(section).and_then(|section| section.get(field));
        value.map_or(default, |value| value.as_integer().unwrap() as u64)
    };
    let of = |field: &str, default: u64| or("trim", field, default);
    let pieces = bytes.div_ceil(of("range_bytes_max", 65_535 * 512));
    let commands = pieces.div_ceil(of("ranges_per_command_max", 64));
    let whole = commands * of("command_ns", 100_000)
        + pieces * of("range_ns", 2_000)
        + bytes / or("ftl", "mapping_unit_bytes", 4096) * of("unit_ns", 10);
    (whole + bytes * of("gb_ns", 1_000_000) / 1_000_000_000) as f64
}

/// Bytes a second that the drive's link moves.
fn link(file: &str) -> f64 {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let rate = &text.parse::<toml::Table>().unwrap()["interface"]["rate_bytes_per_s"];
    rate.as_integer().unwrap() as f64
}

/// The largest power of two from 1 MiB to `most` whose TRIM takes at most `wait_ns`.
fn longest(file: &str, most: u64, wait_ns: f64) -> Value {
    let lengths = (20..=most.ilog2()).map(|power| 1 << power);
    lengths
        .filter(|length| trim_ns(file, *length) <= wait_ns)
        .max()
        .map_or(Value::Null, Value::from)
}

#[test]
fn numbers_follow_from_the_specification() {
    for drive in ["sata-tlc-500gb", "intel-x25-m-160gb", "nvme-tlc-500gb", "crucial-m4-128gb"] {
        let (named, file) = (format!("drive:{drive}"), format!("../../drives/{drive}.toml"));
        let limited = |document: &Value, name: &str, share: f64, extent: u64| {
            let rate = share * extent as f64 / (trim_ns(&file, extent) / 1e9);
            let limit = setting(document, name);
            if rate < link(&file) {
                leads(&limit["value"], rate, 0);
                assert_eq!(limit["unit"], "B/s");
            } else {
                assert_eq!(limit["value"], Value::Null, "{drive} {name}");
                assert!(limit["why"].as_str().unwrap().starts_with("no limit needed; "), "{limit}");
            }
        };
        let rocksdb = of_drive(&named, "rocksdb", &["--share", "2%", "--wait", "6ms"]);
        limited(&rocksdb, "rate_bytes_per_sec", 0.02, 64 * MIB);
        assert_eq!(
            setting(&rocksdb, "bytes_max_delete_chunk")["value"],
            longest(&file, 64 * MIB, 6e6),
            "{drive}"
        );
        let pebble = of_drive(&named, "pebble", &[]);
        limited(&pebble, "TargetByteDeletionRate", 0.05, 2 * MIB);
        let zfs = of_drive(&named, "zfs", &["--wait", "2ms"]);
        limited(&zfs, "zpool trim -r", 0.05, 128 * MIB);
        assert_eq!(
            setting(&zfs, "zfs_trim_extent_bytes_max")["value"],
            longest(&file, 128 * MIB, 2e6)
        );
        let shortest = setting(&zfs, "zfs_trim_extent_bytes_min");
        assert_eq!(shortest["value"], json!(32_768));
        let why = "OpenZFS's default; the drive's unit of 4,096 B is smaller";
        assert_eq!(shortest["why"], why);
        // Cost rises with the length, so one of these lengths fits if 1 MiB does.
        let autotrim = if trim_ns(&file, MIB) <= 2e6 { "on" } else { "off" };
        assert_eq!(setting(&zfs, "autotrim")["value"], json!(autotrim), "{drive}");
        let ceph = of_drive(&named, "ceph", &["--wait", "2ms"]);
        let discard = if trim_ns(&file, 4 * MIB) <= 2e6 { "true" } else { "false" };
        assert_eq!(setting(&ceph, "bdev_enable_discard")["value"], json!(discard));
        let fstrim = of_drive(&named, "fstrim", &[]);
        assert_eq!(setting(&fstrim, "--minimum")["value"], json!(4096));
        assert_eq!(
            setting(&fstrim, "queue/discard_max_bytes")["value"],
            longest(&file, 1 << 31, 1e7)
        );
    }
    // The X25-M takes 4.8 ms for a command of one range, so the two waits differ.
    let x25 = |wait| of_drive("drive:intel-x25-m-160gb", "zfs", &["--wait", wait]);
    let autotrim = ["4ms", "5ms"].map(|wait| setting(&x25(wait), "autotrim")["value"].clone());
    assert_eq!(autotrim, ["off", "on"]);
    let longest = x25("4ms");
    let why = setting(&longest, "zfs_trim_extent_bytes_max")["why"].as_str().unwrap();
    assert!(why.starts_with("assumed: TRIM of 1,048,576 B takes 4.8"), "{why}");
    assert!(why.contains(" ms: give a longer --wait; default 128 MiB: "), "{why}");
}

#[test]
fn interval_spans_the_members_of_a_twin() {
    let scratch = tempfile::tempdir().unwrap();
    let drives = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives");
    let text = fs::read_to_string(drives.join("sata-tlc-500gb.toml")).unwrap();
    let (text, _) = text.split_once("[sources]").unwrap();
    let file = scratch.path().join("twin.toml");
    let twin = format!(
        "{text}[twin.origin]\nmodel = \"x\"\nlearned = \"2026-01-01\"\nbudget = \"small\"\n\
            seed = 1\nwritten_bytes = 0\nmisfit_permille = 0\n[twin.members]\n\
            fields = [\"flash.trim.command_ns\"]\nvalues = [[75_000], [1_500_000]]\n"
    );
    fs::write(&file, twin).unwrap();
    let advice = of_drive(&format!("drive:{}", file.display()), "pebble", &[]);
    // 2 MiB: one range of 4 µs, 512 units of 10 ns, and 2,097 ns for the bytes.
    let rate = |command_ns: f64| 104_857.6 / ((command_ns + 4_000.0 + 5_120.0 + 2_097.0) / 1e9);
    let limit = setting(&advice, "TargetByteDeletionRate");
    leads(&limit["value"], rate(150_000.0), 0);
    leads(&limit["interval"][0], rate(1_500_000.0), 0);
    leads(&limit["interval"][1], rate(75_000.0), 1);
    assert_eq!(advice["evidence"]["kind"], "twin");
}

#[test]
fn drive_without_trim_gets_no_limit() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("old.toml");
    let text = "name = \"old\"\ndescription = \"x\"\ncapacity_bytes = 64_000_000_000\n\
        [flash.trim]\nsupported = false\n";
    fs::write(&file, text).unwrap();
    let old = &format!("drive:{}", file.display());
    let advice = of_drive(old, "zfs", &[]);
    assert_eq!(setting(&advice, "autotrim")["value"], "off");
    assert_eq!(setting(&advice, "zpool trim -r")["value"], Value::Null);
    trimtab()
        .args(["advise", old, "--for", "ceph"])
        .assert()
        .success()
        .stdout(contains("accepts no TRIM").and(contains("false")));
}

/// Without a measurement, only what the kernel says; afterwards, what the trims took.
#[test]
fn filesystem_is_not_measured_until_it_was_trimmed() {
    let state = tempfile::tempdir().unwrap();
    let Some(mount) = LoopMount::new("ext4", 256, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let command = |args: &[&str]| {
        let mut command = trimtab();
        command.env("TRIMTAB_STATE_DIR", state.path()).args(args).arg(mount.path());
        command
    };
    let before = advise(&mut command(&["advise", "--for", "rocksdb"]));
    assert_eq!(before["evidence"]["kind"], "kernel");
    let measure = format!("sudo trimtab trim {}", mount.path().display());
    assert_eq!(before["evidence"]["measure"], json!(measure));
    for one in before["settings"].as_array().unwrap() {
        assert_eq!((&one["value"], &one["interval"]), (&Value::Null, &Value::Null), "{one:#}");
    }
    let caution = "without the option discard: these settings change no TRIM";
    assert!(before["caution"].as_str().unwrap().contains(caution), "{before:#}");
    let zfs = advise(&mut command(&["advise", "--for", "zfs"]));
    assert_eq!(zfs["caution"], Value::Null, "autotrim sends its own TRIM");
    command(&["advise", "--for", "rocksdb"])
        .assert()
        .success()
        .stdout(contains("not measured").and(contains(measure)));
    let name =
        crate::support::run("findmnt", &["-no", "SOURCE", mount.path().to_str().unwrap()]).unwrap();
    let queue = Path::new("/sys/block").join(name.trim().trim_start_matches("/dev/")).join("queue");
    let granularity: u64 =
        fs::read_to_string(queue.join("discard_granularity")).unwrap().trim().parse().unwrap();
    let fstrim = advise(&mut command(&["advise", "--for", "fstrim"]));
    assert_eq!(setting(&fstrim, "--minimum")["value"], json!(granularity));

    let mut trims: Vec<[f64; 3]> = Vec::new();
    for number in 0..3 {
        let data = mount.path().join("data");
        fs::write(&data, vec![1; 64 << 20]).unwrap();
        crate::support::run("sync", &[]).unwrap();
        fs::remove_file(&data).unwrap();
        command(&["trim"]).assert().success();
        let after = advise(&mut command(&["advise", "--for", "rocksdb"]));
        assert_eq!(after["evidence"]["kind"], "passes", "{after:#}");
        let plural = if number == 0 { "1 complete trim in" } else { " complete trims in" };
        assert!(after["evidence"]["text"].as_str().unwrap().contains(plural), "{after:#}");
        let output = command(&["history", "--json"]).output().unwrap().stdout;
        let history: Value = serde_json::from_slice(&output).unwrap();
        let event = &history["events"][number];
        let number_of = |field: &str| event[field].as_f64().unwrap();
        let [bytes, commands, seconds] =
            ["sent_bytes", "sent_commands", "request_seconds"].map(number_of);
        assert!(seconds > 0.0 && seconds <= number_of("seconds"));
        trims.push([bytes, commands, seconds]);
        let limit = setting(&after, "rate_bytes_per_sec");
        let sum = |column: usize| trims.iter().map(|trim| trim[column]).sum::<f64>();
        let (n, extent) = (trims.len() as f64, (64 * MIB) as f64);
        // The drive is busy for the share of the time at this rate. Student's t for 95 %, from a
        // table.
        let t = [0.0, 12.706_204_736, 4.302_652_730][trims.len() - 1];
        let errors = trims.iter().map(|[bytes, _, seconds]| seconds - sum(2) / sum(0) * bytes);
        let half =
            t * (errors.map(|e| e * e).sum::<f64>() * n / (n - 1.0).max(1.0)).sqrt() / sum(2);
        // Mean commands as long as the extent, or as they were.
        let as_long = sum(2) / (sum(0) / extent);
        let as_sent = sum(2) / sum(1);
        let [least, most] = [as_long.min(as_sent) / half.exp(), as_long.max(as_sent) * half.exp()];
        // The ratio of the ends, before they are rounded to two digits.
        let ratio = most / least;
        if ratio > 9.0 && limit["value"].is_null() || ratio > 11.0 {
            let why = limit["why"].as_str().unwrap();
            assert!(limit["value"].is_null() && limit["interval"].is_null(), "{limit:#}");
            assert!(why.starts_with("not known: TRIM of 67,108,864 B takes "), "{limit:#}");
            continue;
        }
        let share = 0.05 * extent;
        leads(&limit["value"], share / as_long.max(as_sent), 0);
        leads(&limit["interval"][0], share / most, 0);
        leads(&limit["interval"][1], share / least, 1);
    }
    let ceph = advise(&mut command(&["advise", "--for", "ceph", "--wait", "1ns"]));
    assert_eq!(setting(&ceph, "bdev_enable_discard")["value"], "false", "{ceph:#}");
}

/// A study of the filesystem is evidence. The numbers come from its stored runs.
#[test]
fn trims_of_a_study_are_evidence() {
    let state = tempfile::tempdir().unwrap();
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let command = |args: &[&str]| {
        let mut command = trimtab();
        command.env("TRIMTAB_STATE_DIR", state.path()).args(args);
        command.arg("--store").arg(state.path().join("results.db"));
        command
    };
    let path = mount.path();
    let path = path.to_str().unwrap();
    let mut study = command(&["study", path, "--quick", "--reserve", "0"]);
    study.arg("--report").arg(state.path().join("report.html")).assert().success();
    let json = |args: &[&str]| -> Value {
        serde_json::from_slice(&command(args).output().unwrap().stdout).unwrap()
    };
    let list = json(&["results", "list", "--json"]);
    let (mut trims, mut sums) = (0, [0.0; 3]);
    for run in list["runs"].as_array().unwrap().iter().filter(|run| run["policy"] == "batched") {
        let id = run["id"].as_str().unwrap();
        let run = json(&["results", "show", id, "--json"]);
        for phase in run["phases"].as_array().unwrap().iter().filter(|p| p["name"] == "trim") {
            let of = |field: &str| phase["discards"][field].as_f64().unwrap();
            trims += 1;
            let took_s = phase["took_ns"].as_f64().unwrap() / 1e9;
            let of_trim = [took_s, of("accepted_bytes"), of("accepted_commands")];
            sums.iter_mut().zip(of_trim).for_each(|(sum, one)| *sum += one);
        }
    }
    assert!(trims >= 2, "{list:#}");
    let advice = advise(&mut command(&["advise", path, "--for", "rocksdb"]));
    let text = advice["evidence"]["text"].as_str().unwrap();
    let started = format!("{trims} complete trims in studies, latest ");
    assert!(advice["evidence"]["kind"] == "passes" && text.starts_with(&started), "{text}");
    let limit = setting(&advice, "rate_bytes_per_sec");
    if limit["value"].is_null() {
        assert!(limit["why"].as_str().unwrap().starts_with("not known: TRIM of "), "{limit:#}");
    } else {
        let ([seconds, bytes, commands], extent) = (sums, (64 * MIB) as f64);
        leads(&limit["value"], 0.05 * extent / (seconds * extent.max(bytes / commands) / bytes), 0);
    }
    // A trim of its own joins them.
    trimtab().env("TRIMTAB_STATE_DIR", state.path()).args(["trim", path]).assert().success();
    let advice = advise(&mut command(&["advise", path, "--for", "rocksdb"]));
    let text = advice["evidence"]["text"].as_str().unwrap();
    assert!(text.contains("1 complete trim in the history") && text.contains(&started), "{text}");
}

#[test]
fn advise_refuses_what_has_no_drive() {
    for (args, code, said) in [
        (&["null:", "--for", "zfs"][..], 2, "null: has no drive"),
        (&["/no/such/path", "--for", "zfs"], 1, "there is no /no/such/path"),
        (&["/proc", "--for", "zfs"], 1, "is not on a block device"),
        (&["drive:no-such", "--for", "zfs"], 1, "no-such"),
        (&["/", "--for", "mysql"], 2, "mysql"),
        (&["/"], 2, "--for"),
        (&["/", "--for", "zfs", "--share", "0"], 2, "from 0.01% to 100%"),
        (&["/", "--for", "zfs", "--wait", "0s"], 2, "allows no TRIM"),
    ] {
        let output = trimtab().arg("advise").args(args).assert().code(code).stdout("");
        let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
}
