//! What filesystems of the running kernel discard when a source tree is unpacked and
//! deleted, and what that costs on the modelled drive.

use crate::attached::{Attached, Mounted, output};
use crate::claim;
use crate::figures::keep;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const KINDS: [(&str, &[&str], &str); 3] = [
    (
        "ext4",
        &["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        "discard",
    ),
    ("xfs", &["mkfs.xfs", "-q", "-f", "-K"], "discard"),
    ("btrfs", &["mkfs.btrfs", "-q", "-f", "-K"], "discard=sync"),
];

pub fn run() -> bool {
    println!(
        "  Tree of 36,706 files and 493 MB, unpacked and deleted on 4 GiB, Linux {}",
        output(Command::new("uname").arg("-r")).trim()
    );
    println!(
        "  {:<6} {:>10} {:>18} {:>18} {:>14}",
        "", "discards", "discarded bytes", "of it, held data", "amplification"
    );
    let mut held = true;
    for (name, make, option) in KINDS {
        let (drive, _) = tree(make, option, &["--speed", "off"]);
        let status = drive.status();
        let ledger = &status["discards"];
        let of = |place: &Value| place.as_f64().unwrap_or(0.0);
        let amplification = of(&status["discard_amplification"]);
        println!(
            "  {name:<6} {:>10} {:>18} {:>18} {amplification:>14.2}",
            of(&ledger["commands"]),
            of(&ledger["asked"]["bytes"]),
            of(&ledger["effective_bytes"])
        );
        keep(name, "discards", "count", &[of(&ledger["commands"])]);
        keep(name, "discarded", "B", &[of(&ledger["asked"]["bytes"])]);
        keep(name, "of it held data", "B", &[of(&ledger["effective_bytes"])]);
        keep(name, "discard amplification", "ratio", &[amplification]);
        held &= claim(of(&ledger["effective_bytes"]) > 450e6, "what the tree held was discarded");
    }
    held & slowdown()
}

/// Real ext4 in real time, with and without online discard, against what the model said
/// of the discards.
fn slowdown() -> bool {
    let (plain_drive, plain) = tree(KINDS[0].1, "nodiscard", &[]);
    drop(plain_drive);
    let (drive, discarding) = tree(KINDS[0].1, KINDS[0].2, &[]);
    let trims = drive.status()["requests"]["trim"].clone();
    let of = |value: &Value| value.as_f64().unwrap_or(0.0);
    let busy = of(&trims["count"]) * of(&trims["latency"]["mean_ns"]) / 1e9;
    let (predicted, measured) = ((plain + busy) / plain, discarding / plain);
    keep("ext4 in real time", "delete, sync and discards, nodiscard", "s", &[plain]);
    keep("ext4 in real time", "delete, sync and discards, discard", "s", &[discarding]);
    keep("ext4 in real time", "time of the discards in the model", "s", &[busy]);
    println!(
        "  ext4 in real time: delete, sync and discards take {plain:.2} s without \
            and {discarding:.2} s with discard;"
    );
    println!(
        "  the model says that {} discards took {busy:.2} s: a factor of \
            {predicted:.1}, measured {measured:.1}",
        of(&trims["count"])
    );
    claim(
        (measured / predicted - 1.0).abs() < 0.1,
        "online discard slows deletion by the factor that the model predicts, within 10 %",
    )
}

/// The drive after the tree has come and gone, and how long deleting, its sync and the
/// discards took, in seconds.
fn tree(make: &[&str], option: &str, more: &[&str]) -> (Attached, f64) {
    let drive = Attached::new("4GiB", more);
    output(Command::new(make[0]).args(&make[1..]).arg(&drive.device));
    let mounted = Mounted::new(&drive.device, &format!("noatime,{option}"));
    let run: Value = serde_json::from_str(&drive.trimtab(&[
        "bench",
        "tree",
        "--tries",
        "1",
        "--reserve",
        "0",
        "--json",
        mounted.text(),
    ]))
    .unwrap();
    let seconds = |name: &str| {
        let metric =
            run["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        metric.map_or(0.0, |metric| metric["samples"][0].as_f64().unwrap())
    };
    // What filesystems discard in the background may still be under way.
    let began = Instant::now();
    let mut last_change = Instant::now();
    let mut seen = drive.number("discards.commands");
    while last_change.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(200));
        let now = drive.number("discards.commands");
        if now != seen {
            (seen, last_change) = (now, Instant::now());
        }
    }
    let background = (last_change - began).as_secs_f64();
    drop(mounted);
    let waited = seconds("discards-after").max(seconds("discards-after.seconds"));
    (drive, seconds("delete.seconds") + seconds("delete-sync.seconds") + waited + background)
}
