//! `trimtab study` without anything: a modelled drive, no root, no set-up.

use crate::support::trimtab;
use predicates::prelude::*;

#[test]
fn the_study_of_a_modelled_drive_is_the_same_twice_and_leaves_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let report = dir.path().join(format!("{name}.html"));
        let output = trimtab()
            .args(["study", "--quick", "--policies", "none,online,batched", "--json", "--quiet", "--store"])
            .arg(dir.path().join(format!("{name}.db")))
            .arg("--report")
            .arg(&report)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for run in json["runs"].as_array_mut().unwrap() {
            for key in ["id", "started_unix_ms"] {
                run.as_object_mut().unwrap().remove(key);
            }
        }
        let html = std::fs::read_to_string(report).unwrap();
        assert!(html.contains("<svg") && html.contains("Verdict") && html.len() < 2_000_000);
        json
    };
    let mut first = run("first");
    let mut second = run("second");
    // The tool's own cost is measured, and so differs.
    for json in [&mut first, &mut second] {
        for run in json["runs"].as_array_mut().unwrap() {
            let object = run.as_object_mut().unwrap();
            object.retain(|key, _| ["workload", "policy", "metrics", "phases", "counters"].contains(&key.as_str()));
            object["metrics"].as_array_mut().unwrap().retain(|metric| !metric["name"].as_str().unwrap().starts_with("overhead"));
        }
        json.as_object_mut().unwrap().retain(|key, _| key == "runs" || key == "verdict");
    }
    assert_eq!(first, second);
    assert!(first["verdict"].as_str().unwrap().contains("longest wait of light work"), "{}", first["verdict"]);
}

#[test]
fn unknown_drives_and_policies_are_wrong_usage() {
    trimtab().args(["study", "drive:ocz-vertex-le"]).assert().code(2).stderr(predicate::str::contains("did you mean"));
    trimtab().args(["study", "--policies", "nightly"]).assert().code(2).stderr(predicate::str::contains("nightly"));
}
