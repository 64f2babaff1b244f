//! A plain `fstrim` against one request for each allocation group, on a fragmented XFS.

use crate::attached::{Attached, Mounted, output};
use crate::claim;
use crate::figures::keep;
use std::process::Command;

const GROUPS: u64 = 4;
const SIZE: u64 = 2 << 30;
const FILES: u64 = 60_000;
const FILE_BYTES: usize = 8192;

pub fn run() -> bool {
    let drive = Attached::new("2GiB", &["--speed", "off"]);
    output(Command::new("mkfs.xfs").args([
        "-q",
        "-f",
        "-K",
        "-d",
        &format!("agcount={GROUPS}"),
        &drive.device,
    ]));
    let mounted = Mounted::new(&drive.device, "noatime,nodiscard");
    for n in 0..FILES {
        let directory = mounted.path().join((n / 500).to_string());
        if n % 500 == 0 {
            std::fs::create_dir(&directory).unwrap();
        }
        std::fs::write(directory.join(n.to_string()), [n as u8; FILE_BYTES]).unwrap();
    }
    output(Command::new("sync").arg("--file-system").arg(mounted.path()));
    // Every second file: free extents that lie between files that stay.
    for n in (0..FILES).step_by(2) {
        std::fs::remove_file(mounted.path().join((n / 500).to_string()).join(n.to_string()))
            .unwrap();
    }
    output(Command::new("sync").arg("--file-system").arg(mounted.path()));
    let freed = (FILES / 2) as f64 * FILE_BYTES as f64;
    let mut before = 0.0;
    let mut step = |what: &str| {
        let now = drive.number("discards.effective_bytes");
        println!(
            "  {what:<34} {:>12} bytes, {:5.1} % of what was freed",
            now - before,
            (now - before) / freed * 100.0
        );
        let share = (now - before) / freed;
        keep(what, "share of what was freed", "ratio", &[share]);
        before = now;
        share
    };
    output(Command::new("fstrim").arg(mounted.path()));
    let plain = step("fstrim");
    for group in 0..GROUPS {
        let (offset, length) = ((group * SIZE / GROUPS).to_string(), (SIZE / GROUPS).to_string());
        output(
            Command::new("fstrim")
                .args(["--offset", &offset, "--length", &length])
                .arg(mounted.path()),
        );
    }
    let by_group = step("then one FITRIM for each group");
    drive.trimtab(&["trim", mounted.text()]);
    let rest = step("then trimtab trim");
    claim(plain + by_group + rest > 0.95, "together they have trimmed what was freed")
}
