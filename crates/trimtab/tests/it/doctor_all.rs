//! `trimtab doctor --all` on recorded trees: judged, skipped and accepted filesystems,
//! and the one-line summary.

use crate::support::{LoopDevice, have_tool, run, trimtab};
use crate::sysroot::{Sysroot, unpack};
use serde_json::Value;
use std::fs;
use trimtab::cmd::doctor::summary_line;
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::root::Root;

/// A drive with two partitions; the root filesystem is on the first.
const BASE: &str = "\
/proc/sys/kernel/osrelease = 6.12.10-amd64
/proc/self/mountinfo = 27 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw
/etc/fstab = UUID=1 / ext4 defaults 0 1
disk /sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1 259:0 1000215216
queue /sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1 discard_granularity=512 discard_max_bytes=2199023255040 discard_max_hw_bytes=2199023255040 rotational=0 physical_block_size=512
part /sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p2 259:2 2048 200000000
part /sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p3 259:3 200002048 600000000
";
const TAKES: &str =
    "discard_granularity=4096 discard_max_bytes=1048576 discard_max_hw_bytes=1048576 rotational=0";
const TAKES_NONE: &str =
    "discard_granularity=0 discard_max_bytes=0 discard_max_hw_bytes=0 rotational=0";

fn volume(name: &str, dev: &str, queue: &str, rest: &str) -> String {
    format!(
        "disk /sys/devices/virtual/block/{name} {dev} 8388608\n\
            queue /sys/devices/virtual/block/{name} {queue}\n{rest}\n"
    )
}

fn examine(tree: &Sysroot, arguments: &[&str]) -> (i32, Value) {
    let run =
        trimtab().args(["doctor", "--json", "--sysroot"]).arg(tree.path()).args(arguments).assert();
    let output = run.get_output();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

/// Subject and verdict of each diagnosis.
fn verdicts(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    document["diagnoses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (text(&d["subject"]), text(&d["verdict"]["kind"])))
        .collect()
}

#[test]
fn doctor_all_judges_unused_volumes() {
    let crypt = "/sys/devices/virtual/block/dm-0/dm/name = data\n\
        /sys/devices/virtual/block/dm-0/dm/uuid = CRYPT-LUKS2-ab-data\n\
        below /sys/devices/virtual/block/dm-0 nvme0n1p3";
    let pool = "/sys/devices/virtual/block/dm-1/dm/name = vg-pool-tpool\n\
        /sys/devices/virtual/block/dm-1/dm/uuid = LVM-x-tpool\n\
        below /sys/devices/virtual/block/dm-1 nvme0n1p3";
    for (body, subject, verdict, status) in [
        (volume("dm-0", "254:0", TAKES_NONE, crypt), "/dev/dm-0", "blocked", 3),
        (
            volume("dm-1", "254:1", TAKES, pool)
                + "/dmsetup-table = vg-pool-tpool: 0 8388608 thin-pool 259:3 259:3 128 \
                    0 1 no_discard_passdown\n",
            "/dev/dm-1",
            "blocked",
            3,
        ),
        (volume("dm-1", "254:1", TAKES, pool), "/dev/dm-1", "unknown", 4),
        (volume("zd0", "230:0", TAKES, ""), "/dev/zd0", "unknown", 4),
        (volume("drbd1", "147:1", TAKES, ""), "/dev/drbd1", "unknown", 4),
        (volume("strange0", "240:0", TAKES, ""), "/dev/strange0", "unknown", 4),
        (volume("strange0", "240:0", TAKES_NONE, ""), "/dev/strange0", "blocked", 3),
        (volume("xvdb", "202:16", TAKES, ""), "/dev/xvdb", "reaches", 0),
    ] {
        let tree = unpack(&format!("{BASE}{body}"));
        let (code, document) = examine(&tree, &["--all"]);
        let all = verdicts(&document);
        assert!(all.contains(&("/".to_owned(), "reaches".to_owned())), "{all:?}");
        assert!(all.contains(&(subject.to_owned(), verdict.to_owned())), "{subject}: {all:?}");
        assert_eq!(code, status, "{subject}");
    }
}

#[test]
fn doctor_all_lists_zfs_and_skipped_devices() {
    let zfs = "/proc/self/mountinfo = 27 1 0:30 / / rw - zfs rpool/ROOT/a rw\\n28 27 0:31 / \
        /home rw - zfs rpool/home rw\\n29 27 0:32 / /srv rw - zfs tank/srv rw\\n30 27 0:33 \
        / /net rw - nfs4 server:/x rw\n";
    let body =
        format!("{}{}", volume("zram1", "253:1", TAKES, ""), volume("loop3", "7:3", TAKES, ""));
    let boot = "disk /sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0boot0 179:32 \
        8192\nqueue /sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0boot0 \
        discard_granularity=0 discard_max_bytes=0\n";
    let swap = "/proc/swaps = Filename Type Size Used Priority\\n/dev/zram1 partition 100 0 -1\n";
    let tree = unpack(&format!("{BASE}{zfs}{body}{boot}{swap}"));
    let (code, document) = examine(&tree, &["--all"]);
    let all = verdicts(&document);
    assert_eq!(
        all[..2],
        [("/".to_owned(), "unknown".to_owned()), ("/srv".to_owned(), "unknown".to_owned())],
        "one line for each pool"
    );
    assert_eq!(code, 4);
    let left_out: Vec<&str> = document["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(left_out, ["/net", "loop3", "mmcblk0boot0", "zram1"]);
}

#[test]
fn doctor_of_bcachefs_sees_every_device() {
    for options in ["rw,discard", "rw"] {
        let mounts = format!(
            "/proc/self/mountinfo = 27 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\\n36 \
                27 0:44 / /srv rw - bcachefs /dev/nvme0n1p3:/dev/xvdb {options}\n"
        );
        let tree = unpack(&format!("{BASE}{mounts}{}", volume("xvdb", "202:16", TAKES, "")));
        let (_, document) = examine(&tree, &["/srv"]);
        assert_eq!(document["diagnoses"][0]["verdict"]["kind"], "unknown", "{options}");
        let below = document["diagnoses"][0]["filesystem"]["below"].as_array().unwrap().len();
        assert_eq!(below, 2, "{options}");
    }
}

#[test]
fn doctor_sysroot_accepts_device_names_of_the_tree() {
    let lv = "/sys/devices/virtual/block/dm-4/dm/name = my--vg-root\n\
        /sys/devices/virtual/block/dm-4/dm/uuid = LVM-abc\n\
        below /sys/devices/virtual/block/dm-4 nvme0n1p3";
    let cciss = "disk /sys/devices/pci0000:00/0000:00:03.0/cciss0/c0d0/block/cciss!c0d0 104:0 \
        143305920\nqueue /sys/devices/pci0000:00/0000:00:03.0/cciss0/c0d0/block/cciss!c0d0 \
        discard_granularity=512 discard_max_bytes=65536\n";
    let tree = unpack(&format!("{BASE}{}{cciss}", volume("dm-4", "254:4", TAKES, lv)));
    for name in ["dm-4", "/dev/dm-4", "/dev/mapper/my--vg-root", "/dev/my-vg/root", "my-vg/root"] {
        let (_, document) = examine(&tree, &[name]);
        assert_eq!(document["diagnoses"][0]["layers"][0]["name"], "dm-4 (my--vg-root)", "{name}");
    }
    for name in ["cciss/c0d0", "/dev/cciss/c0d0", "cciss!c0d0"] {
        let (_, document) = examine(&tree, &[name]);
        assert_eq!(document["diagnoses"][0]["layers"][0]["name"], "cciss/c0d0", "{name}");
        assert_eq!(document["diagnoses"][0]["subject"], "/dev/cciss/c0d0", "{name}");
        assert!(
            !document.to_string().replace("/sys/block/cciss!c0d0", "").contains('!'),
            "{document}"
        );
    }
    for name in ["dm-5", "/dev/dm-5", "/dev/disk/by-uuid/1"] {
        let run =
            trimtab().args(["doctor", "--sysroot"]).arg(tree.path()).arg(name).assert().code(1);
        let error = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(error.contains("no device of this name") && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn unknown_verdict_advises_no_trim() {
    let body = volume("strange0", "240:0", TAKES, "");
    let mounts = "/proc/self/mountinfo = 27 1 240:0 / /srv rw,relatime - ext4 /dev/strange0 rw\n";
    let (status, document) = examine(&unpack(&format!("{BASE}{mounts}{body}")), &["/srv"]);
    let diagnosis = &document["diagnoses"][0];
    assert_eq!(
        (status, diagnosis["verdict"]["kind"].as_str()),
        (4, Some("unknown")),
        "{diagnosis}"
    );
    assert_eq!(diagnosis["to_do"], serde_json::json!([]), "a trim might do damage");
    let nothing = diagnosis["mechanisms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["code"] == "nothing-trims")
        .unwrap();
    assert_eq!((&nothing["severity"], &nothing["remedy"]), (&"note".into(), &Value::Null));
}

#[test]
fn boot_area_of_an_emmc_needs_no_trim() {
    let area = |name: &str, dev: &str| {
        let dir = format!(
            "/sys/devices/platform/fe340000.mmc/mmc_host/mmc0/mmc0:0001/block/mmcblk0/{name}"
        );
        format!(
            "disk {dir} {dev} 8192\nqueue {dir} discard_granularity=0 \
                discard_max_bytes=0 rotational=0 physical_block_size=512\n{dir}/ro = 1\n"
        )
    };
    let tree = unpack(&format!(
        "{BASE}{}{}",
        area("mmcblk0boot0", "179:32"),
        area("mmcblk0rpmb", "179:64")
    ));
    for name in ["/dev/mmcblk0boot0", "/dev/mmcblk0rpmb"] {
        let (status, document) = examine(&tree, &[name]);
        let diagnosis = &document["diagnoses"][0];
        assert_eq!(
            (status, diagnosis["verdict"]["kind"].as_str()),
            (0, Some("not-needed")),
            "{name}: {diagnosis}"
        );
        assert_eq!(diagnosis["layers"][0]["findings"], serde_json::json!([]), "{name}");
    }
    let (_, document) = examine(&tree, &["--all"]);
    let left_out: Vec<&str> = document["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert!(
        ["mmcblk0boot0", "mmcblk0rpmb"].iter().all(|name| left_out.contains(name)),
        "{left_out:?}"
    );
}

#[test]
fn fuse_filesystem_is_placed_by_its_type() {
    for (fs_type, source, verdict, expected) in [
        ("fuse", "/srv/data", "unknown", "its files are those of another filesystem"),
        ("fuse.mergerfs", "a:b", "unknown", "its files are those of another filesystem"),
        ("fuse.gocryptfs", "/srv/cipher", "unknown", "its files are those of another filesystem"),
        ("fuse.sshfs", "host:/srv", "unknown", "on another machine"),
        ("fuse.rclone", "remote:", "unknown", "on another machine"),
        ("fuse.squashfuse", "squashfuse", "not-needed", "a read-only image"),
        ("fuse.lxcfs", "lxcfs", "not-needed", "not on a drive"),
        ("fuse.strange", "x", "unknown", "no block device is known"),
    ] {
        let mounts = format!(
            "/proc/self/mountinfo = 27 1 0:40 / /mnt rw,relatime - {fs_type} {source} rw\n"
        );
        let (_, document) = examine(&unpack(&format!("{BASE}{mounts}")), &["/mnt"]);
        let diagnosis = &document["diagnoses"][0];
        assert_eq!(diagnosis["verdict"]["kind"], verdict, "{fs_type}");
        assert!(
            diagnosis["verdict"]["text"].as_str().unwrap().contains(expected),
            "{fs_type}: {diagnosis}"
        );
        let asks = diagnosis["to_do"].to_string().contains(&format!("trimtab doctor {source}"));
        assert_eq!(
            asks,
            expected.contains("another filesystem") && source.starts_with('/'),
            "{fs_type}: {diagnosis}"
        );
    }
}

#[test]
fn loop_device_on_a_file_in_memory_frees_memory() {
    let dir = "/sys/devices/virtual/block/loop3";
    for (fs_type, source, option, is_second) in [
        ("tmpfs", "tmpfs", "", false),
        ("ext4", "/dev/nvme0n1p3", "", true),
        ("ext4", "/dev/nvme0n1p3", ",discard", true),
    ] {
        let tree = format!(
            "{BASE}/proc/self/mountinfo = 26 1 0:22 / /run/images rw - {fs_type} \
                {source} rw{option}\\n27 1 7:3 / /mnt rw,relatime - ext4 /dev/loop3 rw\n\
                disk {dir} 7:3 131072\nqueue {dir} discard_granularity=4096 \
                discard_max_bytes=4294966784 rotational=0 physical_block_size=512\n\
                {dir}/loop/backing_file = /run/images/disk\n"
        );
        let (_, document) = examine(&unpack(&tree), &["/mnt"]);
        let layers = document["diagnoses"][0]["layers"].to_string();
        assert_eq!(layers.contains("file.second-filesystem"), is_second, "{fs_type}: {layers}");
        assert_eq!(layers.contains("frees memory"), !is_second, "{fs_type}: {layers}");
        let on_delete = layers.contains("reaches the drive at once");
        assert_eq!(on_delete, option == ",discard", "{fs_type}: {layers}");
    }
}

#[test]
fn doctor_ignores_findings_accepted_by_configuration() {
    let body = volume("strange0", "240:0", TAKES_NONE, "") + &volume("zd0", "230:0", TAKES, "");
    let tree = unpack(&format!("{BASE}{body}"));
    assert_eq!(examine(&tree, &["--all"]).0, 3);
    let config = tree.path().join("etc/trimtab");
    fs::create_dir_all(&config).unwrap();
    let write = |ignore: &str| {
        fs::write(config.join("trimtab.toml"), format!("[doctor]\nignore = [{ignore}]\n")).unwrap()
    };
    for (ignore, code) in [
        (r#""blocked:/dev/strange0""#, 4),
        (r#""blocked:/dev/other", "unknown""#, 3),
        (r#""blocked", "unknown:/dev/zd0", "nothing-trims:/""#, 0),
    ] {
        write(ignore);
        assert_eq!(examine(&tree, &["--all"]).0, code, "{ignore}");
    }
    let (_, document) = examine(&tree, &["/"]);
    assert_eq!(document["diagnoses"][0]["accepted"][0], "nothing-trims");
    assert!(document["diagnoses"][0]["to_do"].as_array().unwrap().is_empty(), "{document}");
    write("\"No Code\"");
    let run = trimtab().args(["doctor", "--sysroot"]).arg(tree.path()).assert().code(3);
    assert!(
        String::from_utf8_lossy(&run.get_output().stderr)
            .contains("trimtab.toml:2: ignore: 'No Code'")
    );
}

#[test]
fn doctor_summary_is_one_line_each_within_80_columns() {
    let long = "/proc/self/mountinfo = 27 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\\n28 27 259:3 \
        / /a/very/long/mount/point/that/does/not/fit/into/its/column rw - \
        fuse.something.long /dev/nvme0n1p3 rw\n";
    let tree = unpack(&format!("{BASE}{long}{}", volume("strange0", "240:0", TAKES_NONE, "")));
    let root = Root::recorded(tree.path()).unwrap();
    let diagnoses = Doctor::new(&root).unwrap().survey().diagnoses;
    let text: String =
        diagnoses.iter().map(|diagnosis| summary_line(diagnosis, Some(80)) + "\n").collect();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        lines[0].starts_with("reaches    /  ") && lines[0].ends_with("ext4       nothing-trims"),
        "{text}"
    );
    assert!(lines[2].starts_with("blocked    /dev/strange0"), "{text}");
}

/// A FUSE filesystem on a loop device, unmounted on drop.
struct FuseMount {
    directory: tempfile::TempDir,
    _device: LoopDevice,
}

impl FuseMount {
    fn ntfs() -> Option<Self> {
        let device = LoopDevice::new(64)?;
        run("mkfs.ntfs", &["--force", "--quick", "--quiet", &device.node()])?;
        let directory = tempfile::tempdir().ok()?;
        run("mount", &["-t", "ntfs-3g", &device.node(), directory.path().to_str()?])?;
        Some(Self { directory, _device: device })
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        run("umount", &[self.directory.path().to_str().unwrap()]);
    }
}

#[test]
fn doctor_of_ntfs_3g_is_unknown_and_trim_reaches_drive() {
    if !have_tool("ntfs-3g") {
        return crate::support::skip::skip("ntfs-3g");
    }
    let Some(mount) = FuseMount::ntfs() else {
        return crate::support::skip::skip("root, loop devices and ntfs-3g");
    };
    let path = mount.directory.path().to_str().unwrap();
    let said = trimtab().args(["doctor", "--json", path]).assert().code(4);
    let document: Value = serde_json::from_slice(&said.get_output().stdout).unwrap();
    assert_eq!(document["diagnoses"][0]["verdict"]["kind"], "unknown");
    assert!(!document.to_string().contains("ntfs3"), "{document}");
    let run = trimtab().args(["trim", "--json", path]).assert();
    let output = run.get_output();
    let trimmed: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{trimmed} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(trimmed["filesystems"][0]["delivery"], "reached", "{trimmed}");
}
