//! `drive learn --from`: a twin from logs, and logs that cannot be used.

use crate::support::trimtab;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A drive file of a data sheet with 1500 MB/s, in `directory`.
fn data_sheet(directory: &Path) {
    let sheet = ["drive", "from-datasheet", "some-960gb", "--capacity", "960GB"];
    let figures = ["--sequential-write", "1500", "--draws", "0"];
    let assert = trimtab().args(sheet).args(figures).assert().success();
    fs::write(directory.join("sheet.toml"), &assert.get_output().stdout).unwrap();
}

fn learn(directory: &Path, log: &str, text: &str, more: &[&str]) -> assert_cmd::assert::Assert {
    data_sheet(directory);
    fs::write(directory.join(log), text).unwrap();
    let args = ["drive", "learn", "drive:./sheet.toml", "--output", "twin.toml", "--from", log];
    trimtab().current_dir(directory).args(args).args(more).assert()
}

const LOAD: [&str; 4] = ["--pattern", "uniform", "--state", "sequential"];

/// The JSON of a twin of `mini.toml` from `log`.
fn learned_from_mini(directory: &Path, log: &str) -> serde_json::Value {
    fs::write(directory.join("log.csv"), log).unwrap();
    let args = ["drive", "learn", "drive:./mini.toml", "--output", "twin.toml", "--json"];
    let mut command = trimtab();
    command.current_dir(directory).args(args).args(["--from", "log.csv"]).args(LOAD);
    serde_json::from_slice(&command.assert().success().get_output().stdout).unwrap()
}

/// 2.5 drive writes of 960 GB: 1400 MB/s up to 0.3, then 330 MB/s. Metadata 4 %, and in
/// the end 2.19 moved bytes for each written one.
fn log() -> String {
    let mut text = "time_s,host_write_bytes,nand_write_bytes,nand_read_bytes\n".to_owned();
    let mut time_s = 0.0;
    for nth in 1..=250 {
        let (rate, moved) = if nth <= 30 { (1400e6, 0.0) } else { (330e6, 2.19) };
        time_s += 9.6e9 / rate;
        let nand = 9.6e9 * 1.04 * (1.0 + moved);
        writeln!(text, "{time_s:.3},9600000000,{nand:.0},{:.0}", 9.6e9 * moved).unwrap();
    }
    text
}

#[test]
fn log_with_nand_counters_gives_a_twin_that_shows_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut more = LOAD.to_vec();
    more.push("--json");
    let assert = learn(directory.path(), "log.csv", &log(), &more).success();
    let document: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(document["schema"], "trimtab.twin-from-log");
    let parameter = |field: &str| {
        let all = document["parameters"].as_array().unwrap();
        all.iter().find(|one| one["field"] == field).unwrap().clone()
    };
    // 64 dies with two planes of 16 KiB, 4 % of it metadata, at 1400 MB/s.
    let program = parameter("flash.nand.program_ns")["estimate"].as_f64().unwrap();
    assert!((program / (2_097_152.0 / 1.04 / 1.4) - 1.0).abs() < 0.04, "{program}");
    let metadata = parameter("flash.ftl.metadata_permille")["estimate"].as_f64().unwrap();
    assert!((metadata - 40.0).abs() < 8.0, "{metadata}");
    // Greedy collection moves 2.19 bytes per byte where user data take 0.834 of the flash
    // (Desnoyers 2012), plus a few superblocks that are open or free.
    let spare = parameter("flash.over_provisioning_permille")["estimate"].as_f64().unwrap();
    assert!((190.0..230.0).contains(&spare), "{spare}");
    let notes = document["origin"]["notes"].to_string();
    assert!(notes.contains("does not tell flash.nand.read_ns"), "{notes}");
    let source = |field: &str| parameter(field)["source"].as_str().unwrap().to_owned();
    assert_eq!(source("flash.ftl.metadata_permille"), "log: WAF, WAF without collection");
    assert!(source("flash.nand.program_ns").starts_with("log: fresh MB/s"), "{document}");

    let text = fs::read_to_string(directory.path().join("twin.toml")).unwrap();
    let drive = trimtab_drive::spec::file::parse(&text).unwrap();
    assert_eq!(drive.spec.name, "twin-of-some-960gb");
    // No drive was opened: what the log does not show is known as in the data sheet.
    assert!(!text.contains("reported by the drive"), "{text}");
    assert_eq!(drive.sources["capacity_bytes"].shown(), "published: data sheet");
    let members = document["members"].as_u64().unwrap();
    assert_eq!(drive.twin.unwrap().members.len() as u64, members);
    assert!(members >= 8, "{document}");
}

/// Uniform writes at WAF 2 need 1 / 0.721 - 1 = 38.6 % of spare space: with x = 1 - 1 / 2,
/// u = (x - 1) / ln x (Desnoyers 2012). The data sheet states 14 %.
#[test]
fn log_that_no_spare_space_explains_names_the_pattern() {
    let directory = tempfile::tempdir().unwrap();
    let sheet = ["drive", "from-datasheet", "mini", "--capacity", "1GiB", "--raw", "1167MiB"];
    let rates = ["--sequential-write", "500", "--draws", "0"];
    let assert = trimtab().args(sheet).args(rates).assert().success();
    fs::write(directory.path().join("mini.toml"), &assert.get_output().stdout).unwrap();
    let mut log = "time_s,host_write_bytes,nand_write_bytes\n".to_owned();
    let mut time_s = 0.0;
    for nth in 1..=300 {
        let (rate, waf) = if nth <= 20 { (500e6, 1.0) } else { (230e6, 2.0) };
        time_s += 1e7 / rate;
        writeln!(log, "{time_s:.4},10000000,{:.0}", 1e7 * 1.037 * waf).unwrap();
    }
    let document = learned_from_mini(directory.path(), &log);
    let notes = document["origin"]["notes"].to_string();
    assert!(
        notes.contains("uniform writes at WAF 2.0 of collection need about 39 %"),
        "{document}"
    );
    assert!(notes.contains("the drive file has 14 %"), "{notes}");
    assert!(notes.contains("the twin misses WAF by "), "{notes}");
    for wrong in ["the log ends before collection starts", "needs NAND writes in bytes"] {
        assert!(!notes.contains(wrong), "{notes}");
    }
}

/// One rate cannot tell two parameters, however few drives of the search show it.
#[test]
fn single_rate_leaves_intervals_of_parameters_wide() {
    let directory = tempfile::tempdir().unwrap();
    let sheet = ["drive", "from-datasheet", "mini", "--capacity", "1GiB", "--draws", "0"];
    let assert = trimtab().args(sheet).args(["--sequential-write", "500"]).assert().success();
    fs::write(directory.path().join("mini.toml"), &assert.get_output().stdout).unwrap();
    let mut log = "time_s,host_write_bytes\n1,92000000\n".to_owned();
    (2..=50).for_each(|second| writeln!(log, "{second},28600000").unwrap());
    let document = learned_from_mini(directory.path(), &log);
    assert_eq!(document["figures"].as_array().unwrap().len(), 1, "{document}");
    for one in document["parameters"].as_array().unwrap() {
        let source = one["source"].as_str().unwrap();
        assert!(["the class", "log: steady MB/s"].contains(&source), "{one}");
        let range = one["high"].as_f64().unwrap() / one["low"].as_f64().unwrap();
        assert!(range > 1.2, "{one}");
    }
}

#[test]
fn directory_in_place_of_a_log_names_what_to_give() {
    let directory = tempfile::tempdir().unwrap();
    data_sheet(directory.path());
    let args = ["drive", "learn", "drive:./sheet.toml", "--output", "twin.toml", "--from", "."];
    let assert = trimtab().current_dir(directory.path()).args(args).args(LOAD).assert().code(1);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(stderr.contains("'.' is a directory; give a CSV or Parquet file"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn unusable_log_is_one_line_and_status_2() {
    let two = "time_s,host_write_bytes\n1,100\n2,100\n";
    for (name, text, more, expected) in [
        ("log.csv", "time_s,nand_write_bytes\n1,2\n", &LOAD[..], "no column of host writes"),
        ("log.csv", two, &LOAD[..], "the log covers 200 B of writes, less than 2 %"),
        ("log.csv", "time_s,host_write_bytes\n1,x\n", &LOAD[..], "line 2: column host_write_bytes"),
        (
            "log.csv",
            "time_s,host_write_bytes\n1,1e300\n",
            &LOAD[..],
            "line 2: column host_write_bytes",
        ),
        ("log.csv", "time_s,host_write_bytes\n1,1e18\n", &LOAD[..], "unit of its column"),
        ("log.csv", "interval_s,host_write_bytes\n0,9e10\n", &LOAD[..], "unit of its times"),
        (
            "log.csv",
            "interval_s,host_write_bytes\n100,5e10\n0.01,5e10\n100,5e10\n",
            &LOAD[..],
            "100 s into the log it writes 5.0e6 MB/s",
        ),
        ("log.json", "{\"a\": 1}\n", &LOAD[..], "document 1: it is JSON, but neither"),
        ("a_bw.1.log", "1, 5, 1, 0\n1, 5, 1, 0\n", &LOAD[..], "log_avg_msec=1000"),
        ("log.csv", two, &["--pattern", "uniform"][..], "--state"),
        (
            "log.csv",
            two,
            &["--pattern", "zones:50/50:60/50", "--state", "random"][..],
            "each sum to 100",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let assert = learn(directory.path(), name, text, more).code(2);
        let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(stderr.contains(expected), "{name} {more:?}: {stderr}");
        assert!(!stderr.contains("column host") || stderr.trim_end().lines().count() == 1);
        assert!(!directory.path().join("twin.toml").exists());
    }
}

#[test]
fn learn_from_logs_refuses_a_drive_as_target() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("log.csv"), log()).unwrap();
    let args = ["drive", "learn", "/dev/null", "--from", "log.csv"];
    let assert = trimtab().current_dir(directory.path()).args(args).args(LOAD).assert().code(2);
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(stderr.contains("needs a drive file of the data sheet"), "{stderr}");
}
