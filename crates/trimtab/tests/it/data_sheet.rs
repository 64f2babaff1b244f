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

#[test]
fn from_datasheet_prediction_lies_in_its_interval() {
    let assert = trimtab().args(SHEET).args(["--draws", "2", "--json"]).assert().success();
    let document: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    for (figure, low, high) in [("steady_mbs", 250.0, 400.0), ("waf", 3.0, 5.5)] {
        let of = |key: &str| document["prediction"][figure][key].as_f64().unwrap();
        assert!(
            low < of("low")
                && of("low") <= of("median")
                && of("median") <= of("high")
                && of("low") < of("high")
                && of("high") < high,
            "{document}"
        );
    }
}

#[test]
fn impossible_datasheet_is_one_line_and_status_2() {
    for (change, expected) in [
        (["--capacity", "0"], "capacity is 0 bytes"),
        (["--random-write", "900000"], "random writes per second is 900000"),
        (["--dwpd", "5000"], "drive writes per day is 5000"),
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
