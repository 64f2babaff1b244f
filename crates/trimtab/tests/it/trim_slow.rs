//! `trimtab trim` on drives with slow TRIM: its report equals the final kernel counters.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{have_root, skip, trimtab};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Completed discards, their bytes, and requests in flight, from fields 12, 14 and 9 of
/// `stat`.
fn stat(device: &Path) -> (u64, u64, u64) {
    let name = device.file_name().unwrap().to_str().unwrap();
    let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let field: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    (field[11], field[13] * 512, field[8])
}

fn json(command: &mut assert_cmd::Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// XFS returns from FITRIM while discards are in flight. Each discard takes over two
/// seconds here.
#[test]
fn trim_of_xfs_counts_discards_that_are_slow() {
    if !have_root() || !have(&["mkfs.xfs"]) {
        return skip("root and xfsprogs");
    }
    let slow = ["--speed", "off", "--fault", "latency:p=1,on=trim,add=2500ms"];
    let drive = Attached::new(&[&["ocz-vertex-le-100gb", "--size", "1GiB"][..], &slow].concat());
    ok(Command::new("mkfs.xfs").args(["-q", "-f", "-K"]).arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "nodiscard").unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut command = trimtab();
    command.env("TRIMTAB_STATE_DIR", state.path());
    let before = stat(&drive.device);
    let document = json(command.args(["trim", "--json"]).arg(mounted.path()));
    let at_its_end = stat(&drive.device);
    let patience = Instant::now() + Duration::from_secs(60);
    while stat(&drive.device).2 > 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = stat(&drive.device);
    let counted = (after.0 - before.0, after.1 - before.1);
    let outcome = &document["filesystems"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(counted.1 > 500_000_000, "{counted:?}");
    assert_eq!(
        (number(&outcome["sent_commands"]), number(&outcome["sent_bytes"])),
        counted,
        "{outcome}, {at_its_end:?}"
    );
    assert_eq!(outcome["sent_is_minimum"], false);
    let layer = &outcome["layers"][0];
    assert_eq!((number(&layer["commands"]), number(&layer["bytes"])), counted, "{layer}");
    let mut command = trimtab();
    command.env("TRIMTAB_STATE_DIR", state.path());
    let event = &json(command.args(["history", "--json"]))["events"][0];
    assert_eq!((number(&event["sent_commands"]), number(&event["sent_bytes"])), counted, "{event}");
    mounted.unmount();
}
