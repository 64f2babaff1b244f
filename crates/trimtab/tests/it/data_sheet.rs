//! `drive from-datasheet`: a drive file from a data sheet, and impossible data sheets.

use crate::support::trimtab;

const SHEET: [&str; 9] = [
    "drive",
    "from-datasheet",
    "some-960gb",
    "--capacity",
    "960GB",
    "--sequential-write",
    "1700",
    "--random-write",
    "70000",
];

#[test]
fn from_datasheet_file_is_a_drive_with_marked_sources() {
    let scratch = tempfile::tempdir().unwrap();
    let assert = trimtab().args(SHEET).args(["--draws", "0"]).assert().success();
    let path = scratch.path().join("some.toml");
    std::fs::write(&path, &assert.get_output().stdout).unwrap();
    let assert = trimtab().args(["drive", "show", "--json"]).arg(&path).assert().success();
    let shown: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(shown["name"], "some-960gb");
    let source = |field: &str| {
        let fields = shown["fields"].as_array().unwrap();
        fields
            .iter()
            .find(|one| one["field"] == field)
            .map(|one| one["source"]["kind"].clone())
            .unwrap_or_else(|| panic!("{field}: {shown}"))
    };
    assert_eq!(source("flash.nand.program_ns"), "published");
    assert_eq!(source("flash.nand.read_ns"), "assumed");
    assert_eq!(source("flash.ftl.gc.die_wait_permille"), "assumed");
}

/// Oracle: the sources that `drive show` states, value by value.
#[test]
fn drive_list_counts_the_values_of_drive_show() {
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&trimtab().args(args).output().unwrap().stdout).unwrap()
    };
    let name = "ocz-vertex-le-100gb";
    let list = json(&["drive", "list", "--json"]);
    let listed = list["drives"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    let shown = json(&["drive", "show", name, "--json"]);
    for kind in ["published", "fitted", "assumed", "measured"] {
        let fields = shown["fields"].as_array().unwrap().iter();
        let count = fields.filter(|one| one["source"]["kind"] == kind).count();
        assert_eq!(listed[kind], count, "{kind}");
    }
}

#[test]
fn from_datasheet_prediction_lies_in_its_interval() {
    let assert = trimtab().args(SHEET).args(["--draws", "2", "--json"]).assert().success();
    let document: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    for (figure, low, high) in [
        ("fresh_mbs", 1000.0, 2000.0),
        ("steady_mbs", 240.0, 450.0),
        ("waf", 2.5, 6.0),
        ("knee_iops", 5000.0, 120_000.0),
        ("read_p50_us", 20.0, 400.0),
        ("write_p99_us", 2.0, 20_000.0),
    ] {
        let of = |key: &str| document["prediction"][figure][key].as_f64().unwrap();
        assert!(
            low < of("low")
                && of("low") <= of("median")
                && of("median") <= of("high")
                && of("low") < of("high")
                && of("high") < high,
            "{figure} {document}"
        );
    }
    // The rated 70000 writes a second of 4 KiB are 287 MB/s.
    let steady = &document["prediction"]["steady_mbs"];
    assert!(steady["low"].as_f64() < Some(287.0) && steady["high"].as_f64() > Some(287.0));
    assert_eq!(document["contradictions"].as_array().map(Vec::len), Some(0));
}

/// Oracle: the prediction in JSON.
#[test]
fn from_datasheet_states_reads_at_the_knee_and_three_digits() {
    let run = |json: &str| {
        let assert = trimtab().args(SHEET).args(["--draws", "1", json]).assert().success();
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    let document: serde_json::Value = serde_json::from_str(&run("--json")).unwrap();
    let median = document["prediction"]["knee_iops"]["median"].as_f64().unwrap();
    let text = run("--quiet");
    let line = text.lines().find(|line| line.contains("at the knee")).unwrap();
    assert!(line.ends_with("10 % of them reads"), "{line}");
    let figure = line.split_whitespace().nth(1).unwrap();
    let stated: f64 = figure.replace(',', "").parse().unwrap();
    assert!(figure.contains(',') && (stated / median - 1.0).abs() < 0.006, "{line} {median}");
    assert!(text.contains("rated: 70,000 random writes"), "{text}");
}

/// 530 MB/s near SATA's limit say nothing about the flash: the rated 60,000 writes a second
/// of 4 KiB (246 MB/s) lie in the interval.
#[test]
fn from_datasheet_of_sata_drive_holds_its_rated_writes() {
    let run = |json: &str| {
        let sheet = ["drive", "from-datasheet", "pm897", "--capacity", "960GB", "--interface"];
        let rates = ["sata", "--sequential-read", "560", "--sequential-write", "530"];
        let random = ["--random-read", "97000", "--random-write", "60000", "--draws", "2"];
        let latencies = ["--read-latency", "90", "--write-latency", "10", json];
        let assert =
            trimtab().args(sheet).args(rates).args(random).args(latencies).assert().success();
        assert_eq!(String::from_utf8_lossy(&assert.get_output().stderr), "");
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    let document: serde_json::Value = serde_json::from_str(&run("--json")).unwrap();
    let steady = &document["prediction"]["steady_mbs"];
    assert!(steady["low"].as_f64() < Some(246.0) && steady["high"].as_f64() > Some(246.0));
    assert!((steady["median"].as_f64().unwrap() / 265.0 - 1.0).abs() < 0.1, "{steady}");
    let text = run("--quiet");
    assert!(text.contains("without the host's 8 us (rated: read 90 us, write 10 us)"), "{text}");
    assert!(text.contains("less 8 us of the host"), "{text}");
    // Its interval is wider than a factor of ten.
    assert!(!text.contains("us, write p99") && text.contains("read p50"), "{text}");
}

#[test]
fn from_datasheet_names_contradictions() {
    let assert = trimtab().args(SHEET).args(["--raw", "2000GB", "--draws", "0"]).assert().success();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&assert.get_output().stdout), text(&assert.get_output().stderr));
    assert!(stderr.starts_with("trimtab: some-960gb: 70000 random writes"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stdout.starts_with("# The model misses the rated random writes: 70000"), "{stdout}");
    // 2000 GB are 1863 GiB.
    assert!(stdout.contains("the data sheet states 1863 GiB"), "{stdout}");
    // The flash of the class is too much for the rated writes: the model exceeds them.
    let sheet = ["--sequential-write", "3000", "--random-write", "70000", "--draws", "1", "--json"];
    let run = ["drive", "from-datasheet", "some", "--capacity", "960GB"];
    let assert = trimtab().args(run).args(sheet).assert().success();
    let document: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let median = document["prediction"]["steady_mbs"]["median"].as_f64().unwrap();
    let warned = document["contradictions"][0].as_str().unwrap();
    assert!(median / (70_000.0 * 4096.0 / 1e6) > 1.19 && warned.ends_with("higher"), "{document}");
}

#[test]
fn impossible_datasheet_is_one_line_and_status_2() {
    for (change, expected) in [
        (["--capacity", "0"], "capacity is 0 bytes"),
        (["--random-write", "900000"], "random writes per second is 900000"),
        (["--random-write", "1"], "random writes per second is 1,"),
        (["--random-write", "9000"], "a drive that writes 1700 MB/s in order makes at least 10376"),
        (["--read-latency", "1"], "read latency in microseconds is 1,"),
        (["--interface", "sata"], "sequential write rate in MB/s is 1700"),
        (["--raw", "1GiB"], "raw flash is 1073741824 bytes"),
    ] {
        let mut arguments = SHEET.to_vec();
        match arguments.iter().position(|one| *one == change[0]) {
            Some(at) => arguments[at + 1] = change[1],
            None => arguments.extend(change),
        }
        let assert = trimtab().args(&arguments).assert().code(2);
        let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(
            stderr.contains("this data sheet is impossible") && stderr.contains(expected),
            "{stderr}"
        );
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
        assert!(assert.get_output().stdout.is_empty());
    }
}
