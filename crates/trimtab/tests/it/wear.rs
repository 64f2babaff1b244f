//! `trimtab wear --from`: figures of small documents, and input that is no such document.

use crate::support::{skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Documents in a private directory.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

fn drives(command: &mut assert_cmd::Command) -> Vec<Value> {
    let output = command.arg("--json").assert().success().get_output().stdout.clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(document["schema"], "trimtab.wear");
    document["drives"].as_array().unwrap().clone()
}

/// A SATA SSD after `day` days, with counters in steps of 32 MiB.
fn sata(day: u64, host: u64, nand: u64, used: u64) -> Value {
    let row = |id: u64, name: &str, value: u64, raw: u64| json!({ "id": id, "name": name, "value": value, "raw": { "value": raw, "string": raw.to_string() } });
    json!({
        "smartctl": { "exit_status": 0 }, "device": { "protocol": "ATA" }, "model_name": "Example SATA 2", "serial_number": "S2",
        "local_time": { "time_t": 1_700_000_000 + day * 86_400 }, "rotation_rate": 0, "logical_block_size": 512, "in_smartctl_database": true,
        "user_capacity": { "bytes": 1_000_000_000_000_u64 }, "temperature": { "current": 33 }, "power_on_time": { "hours": 24 * day },
        "ata_smart_attributes": { "table": [
            row(174, "Unsafe_Shutdown_Count", 100, 7), row(202, "Percent_Lifetime_Remain", 100 - used, used),
            row(241, "Host_Writes_32MiB", 100, host), row(243, "NAND_Writes_32MiB", 100, nand),
        ] },
    })
}

#[test]
fn wear_from_file_and_stdin_has_the_counters_of_the_drive() {
    let files = Files::new();
    let document = sata(100, 1000, 1700, 3).to_string();
    let file = files.add("a.json", &document);
    let from_file = drives(trimtab().args(["wear", "--from"]).arg(&file));
    let mut from_stdin = drives(trimtab().args(["wear", "--from", "-"]).write_stdin(document));
    from_stdin[0]["subject"] = from_file[0]["subject"].clone();
    assert_eq!(from_file, from_stdin);
    let drive = &from_file[0];
    assert_eq!(
        (drive["host_written_bytes"].as_u64(), drive["nand_written_bytes"].as_u64()),
        (Some(1000 << 25), Some(1700 << 25))
    );
    assert_eq!(
        (&drive["waf_lifetime"]["value"], &drive["used_percent"], &drive["used_is_standard"]),
        (&json!(1.7), &json!(3), &json!(false))
    );
    assert_eq!(
        (&drive["temperature_celsius"], &drive["unsafe_shutdowns"], &drive["power_on_hours"]),
        (&json!(33), &json!(7), &json!(2400))
    );
    assert_eq!((&drive["life_left"], &drive["since"]), (&Value::Null, &Value::Null));
    let screen = trimtab()
        .args(["wear", "--from"])
        .arg(&file)
        .assert()
        .success()
        .stderr("")
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    for line in [
        "host writes           33.6 GB (attribute 241 'Host_Writes_32MiB')",
        "1.70 over its life",
        "not known yet",
        "2,400 h",
    ] {
        assert!(screen.contains(line), "{line}:\n{screen}");
    }
}

#[test]
fn wear_before_gives_the_present_rate_and_the_warranty() {
    let files = Files::new();
    let (before, now) = (
        files.add("before.json", sata(100, 30_000, 60_000, 10).to_string()),
        files.add("now.json", sata(200, 60_000, 150_000, 20).to_string()),
    );
    let drive = drives(
        trimtab().args(["wear", "--tbw", "4TB", "--before"]).arg(&before).arg("--from").arg(&now),
    )[0]
    .clone();
    assert_eq!(
        (&drive["since"]["days"], &drive["since"]["waf"]["value"]),
        (&json!(100.0), &json!(3.0))
    );
    // 20 % for 150,000 steps, 900 steps a day: 80 % last 600,000 / 900 days.
    let days = |key: &str| drive["life_left"][key].as_f64().unwrap();
    assert!(
        days("low_days") < days("days") && days("days") < 666.7 && days("high_days") > 666.6,
        "{drive:#}"
    );
    assert!(days("high_days") < 668.0 && days("low_days") > 600.0, "{drive:#}");
    let limit = 4e12;
    let left = (limit - 60_000.0 * 33_554_432.0) / (300.0 * 33_554_432.0);
    assert!((drive["warranty"]["days_left"].as_f64().unwrap() - left).abs() < 0.01, "{drive:#}");
    let five_years =
        drives(trimtab().args(["wear", "--dwpd", "0.3", "--from"]).arg(&now))[0].clone();
    assert_eq!(five_years["warranty"]["limit_bytes"], json!(547_500_000_000_000_u64));
    let wrong = |before: &PathBuf, now: &PathBuf| {
        trimtab()
            .args(["wear", "--before"])
            .arg(before)
            .arg("--from")
            .arg(now)
            .assert()
            .code(2)
            .stdout("")
            .get_output()
            .stderr
            .clone()
    };
    assert!(String::from_utf8(wrong(&now, &before)).unwrap().contains("is the later one"));
    let mut other = sata(100, 1, 1, 1);
    other["serial_number"] = "S3".into();
    let other = files.add("other.json", other.to_string());
    assert!(String::from_utf8(wrong(&other, &now)).unwrap().contains("another drive"));
}

/// One step of NAND writes a day, and 1 % used for 100,010: at least 98 * 50,005 / 1.1 days.
#[test]
fn wear_caps_life_left_and_names_its_window() {
    let files = Files::new();
    let before = files.add("before.json", sata(1, 10, 100_000, 1).to_string());
    let now = files.add("now.json", sata(11, 20, 100_010, 1).to_string());
    let said =
        "life left             more than 100 years at the rate of NAND writes of the last 10 days";
    let mut wear = trimtab();
    wear.args(["wear", "--before"]).arg(&before).arg("--from").arg(&now);
    wear.assert().success().stdout(contains(said));
}

/// NVM Express Base Specification, SMART log: 255 stands for more, too.
#[test]
fn wear_of_255_percent_may_be_more() {
    let files = Files::new();
    for (percent, said) in
        [(254, "used       254 % (NVMe"), (255, "used       255 % or more (NVMe")]
    {
        let document = json!({ "device": { "protocol": "NVMe" }, "model_name": "Example NVMe",
            "nvme_smart_health_information_log": { "percentage_used": percent, "data_units_written": 1000 } });
        let file = files.add("a.json", document.to_string());
        trimtab().args(["wear", "--from"]).arg(&file).assert().success().stdout(contains(said));
    }
}

#[test]
fn wear_of_impossible_counter_is_not_called_unreported() {
    let files = Files::new();
    let log = |written: u64| {
        json!({ "nvme_smart_health_information_log":
            { "data_units_written": written, "percentage_used": 1 } })
    };
    let text = |written: u64| {
        let file = files.add("log.json", log(written).to_string());
        let run = trimtab().args(["wear", "--from"]).arg(&file).assert().success();
        String::from_utf8(run.get_output().stdout.clone()).unwrap()
    };
    let host =
        |text: &str| text.lines().find(|line| line.contains("host writes")).unwrap().to_owned();
    let impossible = text(u64::MAX);
    assert!(host(&impossible).contains("impossible value"), "{impossible}");
    assert!(impossible.contains("more than a drive can have written"), "{impossible}");
    assert!(host(&text(2)).contains("1.02 MB"), "2 units of 512,000 bytes");
}

#[test]
fn wear_of_a_hard_disk_is_no_error() {
    let document = json!({ "smartctl": { "exit_status": 64 }, "device": { "protocol": "ATA" }, "model_name": "Example Disk", "rotation_rate": 7200,
        "ata_smart_attributes": { "table": [{ "id": 9, "name": "Power_On_Hours", "value": 9, "raw": { "value": 5, "string": "5" } }] } });
    let screen = trimtab()
        .args(["wear", "--from", "-"])
        .write_stdin(document.to_string())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    assert!(
        screen.contains("no wear counter: a hard disk") && !screen.contains("write amplification"),
        "{screen}"
    );
}

#[test]
fn wear_refuses_bad_documents_with_one_line() {
    let files = Files::new();
    let messages = |said: &str| {
        json!({ "smartctl": { "exit_status": 2, "messages": [{ "string": said }] } }).to_string()
    };
    for (name, text, said) in [
        ("cut", "{\"smartctl\": {\"vers".to_owned(), "it is not valid JSON"),
        ("empty", String::new(), "it is not valid JSON"),
        ("deep", "[".repeat(10_000), "it is not valid JSON"),
        ("foreign", "{\"a\": 1}".to_owned(), "neither from smartctl nor from nvme-cli"),
        ("asleep", messages("Device is in STANDBY mode, exit(2)"), "asleep and was not woken"),
        (
            "bridge",
            messages("/dev/sdb: Unknown USB bridge [0x1234:0x5678 (0x100)]"),
            "does not know how the drive is connected",
        ),
        (
            "gone",
            messages("Smartctl open device: /dev/sdz failed: No such device\u{1b}[2J"),
            "exit status 2",
        ),
    ] {
        let file = files.add(name, text);
        let output = trimtab()
            .args(["wear", "--from"])
            .arg(&file)
            .assert()
            .code(1)
            .stdout("")
            .get_output()
            .stderr
            .clone();
        let output = String::from_utf8(output).unwrap();
        assert!(
            output.contains(said) && output.lines().count() == 1 && !output.contains('\u{1b}'),
            "{name}: {output}"
        );
    }
    let large = files.add("large", "");
    fs::File::options().write(true).open(&large).unwrap().set_len(100 << 20).unwrap();
    trimtab()
        .args(["wear", "--from"])
        .arg(&large)
        .assert()
        .code(1)
        .stderr(contains("longer than 4194304 bytes"));
    trimtab()
        .args(["wear", "--from", "/no/such/file"])
        .assert()
        .code(1)
        .stderr(contains("there is no '/no/such/file'"));
    trimtab()
        .args(["wear", "--tbw", "600"])
        .assert()
        .code(2)
        .stderr(contains("--tbw 600 B").and(contains("with its unit, such as 600TB")));
    for usage in [
        &["--dwpd", "-1"][..],
        &["--tbw", "0"],
        &["--device", "sat;x"],
        &["--from", "-", "--all"],
        &["--years", "3"],
        &["--from", "x", "y", "x"],
        &["--metrics", "foo"],
        &["--metrics", "-"],
    ] {
        trimtab().arg("wear").args(usage).assert().code(2).stdout("");
    }
    trimtab()
        .args(["wear", "--metrics", "/dev/null"])
        .assert()
        .code(2)
        .stderr(contains("'/dev/null' is a device; name a file ending in .prom"));
}

#[test]
fn wear_reports_the_readable_of_several_files() {
    let files = Files::new();
    let (good, bad) = (files.add("good", sata(1, 10, 10, 0).to_string()), files.add("bad", "{"));
    let output = trimtab()
        .args(["wear", "--json", "--from"])
        .arg(&bad)
        .arg(&good)
        .assert()
        .code(1)
        .stderr(contains("not valid JSON"))
        .get_output()
        .stdout
        .clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(
        (
            document["drives"].as_array().unwrap().len(),
            document["failures"].as_array().unwrap().len()
        ),
        (1, 1)
    );
}

/// What `wear --metrics` writes for a drive that reports everything.
pub fn metrics_of_drive() -> String {
    let files = Files::new();
    let (file, before) = (
        files.add("a.json", sata(11, 50, 95, 9).to_string()),
        files.add("b.json", sata(1, 10, 45, 9).to_string()),
    );
    let metrics = files.0.path().join("trimtab-wear.prom");
    trimtab()
        .args(["wear", "--from"])
        .arg(&file)
        .arg("--before")
        .arg(&before)
        .arg("--metrics")
        .arg(&metrics)
        .assert()
        .success();
    fs::read_to_string(&metrics).unwrap()
}

/// What `wear --metrics` writes if no drive can be read.
pub fn metrics_of_unread_drive() -> String {
    let files = Files::new();
    let metrics = files.0.path().join("trimtab-wear.prom");
    let mut wear = trimtab();
    wear.args(["wear", "--from"]).arg(files.add("sda", "{")).arg("--metrics").arg(&metrics);
    wear.assert().code(1).stdout("");
    let text = fs::read_to_string(&metrics).unwrap();
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let device = files.0.path().join("sda").display().to_string();
    assert_eq!(samples, [format!("trimtab_drive_unread{{device=\"{device}\"}} 1")]);
    text
}

#[test]
fn wear_metrics_hold_the_figures_of_the_document() {
    let text = metrics_of_drive();
    let value = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("{name}{{")))
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(value("trimtab_drive_host_written_bytes_total"), (50_u64 << 25).to_string());
    assert_eq!(value("trimtab_drive_nand_written_bytes_total"), (95_u64 << 25).to_string());
    assert_eq!(
        [value("trimtab_drive_waf_ratio"), value("trimtab_drive_life_used_ratio")],
        ["1.9", "0.09"]
    );
    assert_eq!(
        value("trimtab_drive_read_timestamp_seconds"),
        (1_700_000_000 + 11 * 86_400).to_string()
    );
    // 9 to 10 per cent took 95 steps, so 9.5 took 10 steps each; 90.5 are left, at 5
    // steps a day.
    assert_eq!(value("trimtab_drive_life_left_seconds"), (181 * 86_400).to_string());
    crate::mixin::require_clean_metrics(&text);
}

#[test]
fn wear_shows_text_of_a_drive_as_text() {
    let mut document = sata(1, 10, 10, 0);
    document["model_name"] = "Bad\u{1b}[2J\nhost writes 1 B\u{202e}".into();
    document["ata_smart_attributes"]["table"][3]["name"] =
        "NAND_Writes\u{9b}\n  note forged".into();
    let screen = trimtab()
        .args(["wear", "--from", "-"])
        .write_stdin(document.to_string())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    assert!(!screen.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{screen:?}");
    assert!(
        !screen
            .lines()
            .any(|line| line.starts_with("host writes") || line.starts_with("  note forged")),
        "{screen}"
    );
}

#[test]
fn wear_of_path_without_a_drive_is_an_error() {
    let on_tmpfs = tempfile::tempdir_in("/dev/shm");
    let Ok(directory) = on_tmpfs else { return skip("/dev/shm") };
    trimtab()
        .arg("wear")
        .arg(directory.path())
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("is on no drive of this machine"));
    trimtab()
        .args(["wear", "/no/such/path"])
        .assert()
        .code(1)
        .stderr(contains("/no/such/path").and(contains("there is no").or(contains("No such"))));
}

#[test]
fn wear_without_a_reporting_drive_prints_an_empty_document() {
    let names = fs::read_dir("/sys/block")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    if names.into_iter().any(|name| name.starts_with("sd") || name.starts_with("nvme")) {
        return skip("this machine has drives that may report their wear");
    }
    assert_eq!(drives(trimtab().arg("wear")), Vec::<Value>::new());
    trimtab().arg("wear").assert().success().stdout(contains("no drive that reports wear"));
}

#[test]
fn wear_with_unusable_history_fails_and_leaves_it_as_it_is() {
    for text in ["{\"version\":", "{\"version\":2,\"drives\":{}}"] {
        let files = Files::new();
        let file = files.add("wear.json", text);
        let said = format!("no reading is kept until you move '{}' away: ", file.display());
        trimtab()
            .env("TRIMTAB_STATE_DIR", files.0.path())
            .args(["wear", "--quiet"])
            .assert()
            .code(1)
            .stderr(contains(said));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

/// The days and percentages are those of the documents; 4,102,444,800 s is 2100-01-01.
#[test]
fn wear_says_why_two_readings_give_no_rate() {
    let files = Files::new();
    let base = files.add("base.json", sata(100, 1000, 1700, 20).to_string());
    let mut future = sata(200, 2000, 3400, 30);
    future["local_time"]["time_t"] = json!(4_102_444_800_u64);
    for (now, said) in [
        (sata(150, 1100, 1900, 10), "not known: rated life used fell from 20 % to 10 %"),
        (sata(100, 1000, 1700, 20), "not known: the two readings are of the same second"),
        (future, "the reading is dated in the future, so it gives no rate"),
    ] {
        let now = files.add("now.json", now.to_string());
        let wear = || {
            let mut wear = trimtab();
            wear.args(["wear", "--before"]).arg(&base).arg("--from").arg(&now);
            wear
        };
        wear().assert().success().stdout(contains(said));
        assert_eq!(drives(&mut wear())[0]["life_left"], Value::Null);
    }
}
