//! Temperature and wear of drives, from recorded trees, in every place that shows them.

use crate::sysroot::{fixtures, unpack};
use std::path::Path;
use trimtab_linux::host::Place;
use trimtab_linux::host::environment::capture;
use trimtab_linux::host::root::Root;
use trimtab_linux::wear::Reading;
use trimtab_linux::wear::history::WearHistory;

/// The environment stored with a run, for the machine of `fixture` extended by `more`.
fn environment(fixture: &str, more: &str) -> Vec<(String, String)> {
    let (_, text) = fixtures().into_iter().find(|(name, _)| name == fixture).unwrap();
    let tree = unpack(&format!("{text}\n{more}"));
    let root = Root::recorded(tree.path()).unwrap();
    let place = Place::of_path(&root, Path::new(&tree.expected.subject)).unwrap();
    capture(&root, &place, Path::new(&tree.expected.subject))
        .into_iter()
        .map(|field| (field.key, field.value))
        .collect()
}

fn value<'a>(fields: &'a [(String, String)], key: &str) -> &'a str {
    fields.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value)
}

const NVME: &str = "/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1";

#[test]
fn nvme_drive_reports_temperature_and_wear() {
    // 315 K; 7 % used; 1,000 units of 512,000 bytes.
    let mut log = vec![0_u8; 512];
    (log[1], log[2], log[5]) = (59, 1, 7);
    log[48..56].copy_from_slice(&1000_u64.to_le_bytes());
    let hex: String = log.iter().map(|byte| format!("{byte:02x}")).collect();
    let more =
        format!("{NVME}/device/hwmon3/temp1_input = 41850\nhex /nvme-smart-log/nvme0n1 {hex}");
    let fields = environment("nvme", &more);
    assert_eq!(value(&fields, "drive.temperature"), "42 °C");
    assert_eq!(value(&fields, "drive.wear"), "7 % of its rated life used, 512 MB written in all");
    // The sensor location of an older kernel, and one path of a multipath drive.
    for place in ["device/hwmon/hwmon0", "device/nvme1/hwmon4"] {
        let fields = environment("nvme", &format!("{NVME}/{place}/temp1_input = 38400"));
        assert_eq!(value(&fields, "drive.temperature"), "38 °C", "{place}");
        assert_eq!(value(&fields, "drive.wear"), "n/a: the drive does not report it");
    }
}

#[test]
fn daily_reading_of_an_nvme_drive_is_kept_under_its_serial() {
    let mut log = vec![0_u8; 512];
    log[5] = 7;
    log[48..56].copy_from_slice(&1000_u64.to_le_bytes());
    let hex: String = log.iter().map(|byte| format!("{byte:02x}")).collect();
    let (_, text) = fixtures().into_iter().find(|(name, _)| name == "nvme").unwrap();
    let more = format!(
        "{NVME}/device/model = Example\n{NVME}/device/serial = S1\n\
            hex /nvme-smart-log/nvme0n1 {hex}"
    );
    let tree = unpack(&format!("{text}\n{more}"));
    let (root, state) = (Root::recorded(tree.path()).unwrap(), tempfile::tempdir().unwrap());
    trimtab::daemon::wear::read(&root, state.path()).unwrap();
    trimtab::daemon::wear::read(&root, state.path()).unwrap();
    let later = |serial: &str| Reading {
        model: Some("Example".to_owned()),
        serial: Some(serial.to_owned()),
        taken_unix_s: Some(trimtab_linux::sys::clock::unix_now().0 / 1_000_000_000 + 86_400),
        ..Reading::default()
    };
    let history = WearHistory::open(state.path()).unwrap();
    let kept = history.before(&later("S1")).unwrap();
    assert_eq!((kept.host_written.unwrap().bytes, kept.used.unwrap().percent), (512_000_000, 7));
    assert!(history.before(&later("S2")).is_none());
    let file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(state.path().join("wear.json")).unwrap()).unwrap();
    assert_eq!(
        file["drives"]
            .as_object()
            .unwrap()
            .values()
            .map(|points| points.as_array().unwrap().len())
            .collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn missing_temperature_and_wear_have_a_reason() {
    for (fixture, says) in
        [("sata-queued", "smartctl"), ("virtio", "a virtual drive"), ("nvme", "does not report it")]
    {
        let fields = environment(fixture, "");
        assert!(value(&fields, "drive.temperature").starts_with("n/a: "), "{fixture}: {fields:?}");
        let wear = value(&fields, "drive.wear");
        assert!(wear.starts_with("n/a: ") && wear.contains(says), "{fixture}: {wear}");
    }
}

#[test]
fn array_leg_temperatures_are_read() {
    let (_, text) = fixtures().into_iter().find(|(name, _)| name == "md-raid1").unwrap();
    let disks: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("disk ")?.split(' ').next())
        .filter(|d| !d.contains("/md"))
        .collect();
    let warm: Vec<String> = disks
        .iter()
        .enumerate()
        .map(|(n, disk)| {
            format!("{disk}/device/hwmon/hwmon{n}/temp1_input = {}", 30_000 + 1000 * n)
        })
        .collect();
    let fields = environment("md-raid1", &warm.join("\n"));
    assert!(disks.len() >= 2);
    let mut told: Vec<&str> =
        (0..disks.len()).map(|n| value(&fields, &format!("drive.{n}.temperature"))).collect();
    told.sort_unstable();
    assert_eq!(told[..2], ["30 °C", "31 °C"], "{fields:?}");
}
