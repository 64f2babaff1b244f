//! `trimtab study` on a modelled drive: no root, no set-up.

use crate::support::trimtab;
use predicates::prelude::*;

#[test]
fn modelled_study_is_reproducible_and_leaves_report() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let report = dir.path().join(format!("{name}.html"));
        let output = trimtab()
            .args([
                "study",
                "drive:ocz-vertex-le-100gb",
                "--quick",
                "--policies",
                "none,online,batched",
                "--questions",
                "deleting",
                "--json",
                "--quiet",
                "--store",
            ])
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
        assert!(html.contains("data-chart") && html.contains("USE") && html.len() < 1_500_000);
        json
    };
    let mut first = run("first");
    let mut second = run("second");
    // The tool's own cost is measured and therefore varies.
    for json in [&mut first, &mut second] {
        for run in json["runs"].as_array_mut().unwrap() {
            let object = run.as_object_mut().unwrap();
            object.retain(|key, _| {
                ["workload", "policy", "metrics", "phases", "counters"].contains(&key.as_str())
            });
            object["metrics"]
                .as_array_mut()
                .unwrap()
                .retain(|metric| !metric["name"].as_str().unwrap().starts_with("overhead"));
        }
        json.as_object_mut().unwrap().retain(|key, _| key == "runs" || key == "verdict");
    }
    assert_eq!(first, second);
    assert_eq!(first["verdict"]["recommendation"], "batched", "{}", first["verdict"]);
    let figure = |policy: &str, name: &str| {
        let run = first["runs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|run| run["policy"] == policy && run["workload"] == "tree")
            .unwrap();
        let metric =
            run["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        metric.unwrap_or_else(|| panic!("{name}"))["samples"][0].as_f64().unwrap()
    };
    // One operation waits for a few TRIMs. Operations that arrive faster than they are
    // served wait for all earlier ones.
    let (wait, behind) = (
        figure("batched", "sparse-load.wait.longest.seconds"),
        figure("batched", "load.backlog.longest.seconds"),
    );
    // By the specification: 3.56 ms per command and 0.261 ms per unit, for the 40 % of
    // the drive that were written, in some 100,000 extents.
    let (commands, trim) =
        (figure("batched", "discard.commands"), figure("batched", "trim.seconds"));
    let units = figure("batched", "discard.bytes") / 4096.0;
    let arithmetic = commands * 3.56e-3 + units * 0.261e-3;
    assert!(
        (trim / arithmetic - 1.0).abs() < 0.03
            && (0.39e11 / 4096.0..0.41e11 / 4096.0).contains(&units),
        "{trim} {arithmetic} {units}"
    );
    let command = trim / commands;
    assert!(
        wait > 2.0 * command && wait < 100.0 * command && behind > 100.0,
        "{wait} {behind}, {command} a command"
    );
    assert!(
        figure("none", "sparse-load.wait.longest.seconds") < 0.02
            && figure("none", "load.backlog.longest.seconds") < 0.02
    );
}

#[test]
fn ageing_study_is_reproducible_and_reuses_cells() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.html");
    let study = |store: &str, more: &[&str]| {
        let mut command = trimtab();
        command.args([
            "study",
            "drive:ocz-vertex-le-100gb",
            "--quick",
            "--policies",
            "none,online",
            "--questions",
            "ageing",
            "--json",
            "--force",
            "--store",
        ]);
        let output = command
            .arg(dir.path().join(store))
            .arg("--report")
            .arg(&report)
            .args(more)
            .output()
            .unwrap();
        (
            output.status.code(),
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let figures = |json: &serde_json::Value| {
        let of = |run: &serde_json::Value| {
            (run["policy"].clone(), run["metrics"].clone(), run["series"].clone())
        };
        json["ageing"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let (code, first, _) = study("first.db", &[]);
    assert_eq!(code, Some(0));
    // The runs are reused, not repeated: they are identical, including the start time.
    let (code, resumed, said) = study("first.db", &["--resume"]);
    assert_eq!((code, &resumed["ageing"]), (Some(0), &first["ageing"]), "{said}");
    assert!(said.contains("may be reused: 2"), "{said}");
    let (_, again, _) = study("first.db", &[]);
    assert_eq!(figures(&first), figures(&again), "twice the same");
    assert_ne!(first["ageing"][0]["id"], again["ageing"][0]["id"], "they are run");

    let value = |at: usize, name: &str| {
        let metrics = first["ageing"][at]["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == name).unwrap()["samples"][0]
            .as_f64()
            .unwrap()
    };
    assert!(value(0, "waf") > value(1, "waf") * 1.03, "without trimming more is moved");
    assert!(
        value(0, "mapped.steady") > 90.0 && value(1, "mapped.steady") < 62.0,
        "blocks that the drive regards as data"
    );
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(
        html.contains("Write amplification, 60 % full")
            && html.contains("State of the drive under")
    );
}

#[test]
fn study_without_target_compares_three_drives() {
    let dir = tempfile::tempdir().unwrap();
    let (store, report) = (dir.path().join("s.db"), dir.path().join("r.html"));
    let study = |more: &[&str]| {
        let mut command = trimtab();
        command
            .args([
                "study",
                "--quick",
                "--policies",
                "none,online",
                "--questions",
                "ageing",
                "--force",
                "--resume",
                "--store",
            ])
            .arg(&store);
        command.arg("--report").arg(&report).args(more).env("COLUMNS", "80");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&study(&["--json"])).unwrap();
    let targets: Vec<&str> = json["studies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|study| study["target"].as_str().unwrap())
        .collect();
    assert_eq!(
        targets,
        ["drive:ocz-vertex-le-100gb", "drive:sata-tlc-500gb", "drive:nvme-tlc-500gb"]
    );
    // Finished runs are reused: the same figures, as text.
    let shown = study(&[]);
    for (study, row) in json["studies"].as_array().unwrap().iter().zip(["OCZ ", "SATA ", "NVMe "]) {
        let metrics = study["ageing"][0]["metrics"].as_array().unwrap();
        let rate =
            metrics.iter().find(|m| m["name"] == "random-write.steady-state").unwrap()["samples"]
                [0]
            .as_f64()
            .unwrap();
        let line = shown
            .lines()
            .find(|line| line.starts_with(row))
            .unwrap_or_else(|| panic!("{row} is not in\n{shown}"));
        let written: f64 = line
            .split_whitespace()
            .find(|word| word.contains(','))
            .unwrap()
            .replace([',', '~'], "")
            .parse()
            .unwrap();
        assert!((written / rate - 1.0).abs() < 0.006, "{line}: {rate}");
    }
    assert!(
        shown.lines().count() <= 24
            && shown.lines().filter(|line| line.starts_with("USE")).count() == 1,
        "{shown}"
    );
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.len() < 1_500_000 && html.contains("NVMe: over 10 days"), "{}", html.len());

    // The store returns the whole study.
    let results = |args: &[&str]| {
        let mut command = trimtab();
        command
            .arg("results")
            .args(args)
            .args(["--store", store.to_str().unwrap()])
            .env("COLUMNS", "80");
        command.assert()
    };
    let text = |assert: assert_cmd::assert::Assert| {
        String::from_utf8(assert.success().get_output().stdout.clone()).unwrap()
    };
    let id = &json["id"].as_str().unwrap()[..8];
    assert!(shown.contains(&format!("trimtab results show study:{id}")), "{shown}");
    let lines = |screen: &str| {
        screen
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty() && !line.starts_with("Report"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for name in ["study:last", "last", &format!("study:{id}")] {
        assert_eq!(lines(&text(results(&["show", name]))), lines(&shown), "{name}");
    }
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text(results(&[
            "show",
            "study:last",
            "--json"
        ])))
        .unwrap(),
        json
    );
    let again = text(results(&["report", "study:last", "--output", "-"]));
    for section in [
        "Trim policies on three drives",
        "OCZ: over 10 days",
        "SATA: over 10 days",
        "NVMe: over 10 days",
    ] {
        assert!(again.contains(section) && html.contains(section), "{section}");
    }
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text(results(&["list", "--studies", "--json"])))
            .unwrap()["studies"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn study_plain_progress_is_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = trimtab();
    command.args([
        "study",
        "drive:sata-tlc-500gb",
        "--full",
        "--policies",
        "none",
        "--questions",
        "ageing",
        "--plain",
        "--report",
    ]);
    let output = command
        .arg(dir.path().join("r.html"))
        .arg("--store")
        .arg(dir.path().join("s.db"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && !said.contains('\u{1b}') && !said.contains('\r'),
        "{said:?}"
    );
    let line = said
        .lines()
        .find(|line| line.starts_with("runs: 2/2, "))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.ends_with(" left"), "{line}");
}

#[test]
fn study_with_unwritable_report_keeps_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (store, place) = (dir.path().join("kept.db"), dir.path().join("place"));
    std::fs::create_dir(&place).unwrap();
    let mut command = std::process::Command::new(crate::support::program());
    crate::support::at_home(&mut command);
    command.args([
        "study",
        "drive:ocz-vertex-le-100gb",
        "--quick",
        "--policies",
        "none",
        "--questions",
        "deleting",
        "--report",
    ]);
    command.arg(place.join("such.html")).arg("--store").arg(&store);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The program checked the path before it created the store; the path disappears while
    // the study runs.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !store.exists() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::remove_dir_all(&place).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1)
            && said.contains("the report could not be written")
            && said.contains("runs are kept"),
        "{said}"
    );
    trimtab()
        .args(["results", "list", "--store"])
        .arg(&store)
        .assert()
        .success()
        .stdout(predicate::str::contains("postmark"));
}

#[test]
fn study_of_too_small_drive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tiny.toml");
    std::fs::write(
        &file,
        "name = \"tiny\"\ndescription = \"t\"\ncapacity_bytes = 1048576\n[flash]\n",
    )
    .unwrap();
    let target = format!("drive:{}", file.display());
    let said = trimtab()
        .args(["study", "--quick", &target, "--store"])
        .arg(dir.path().join("s.db"))
        .assert()
        .code(2);
    said.stderr(
        predicate::str::contains("the filesystem does not fit on")
            .and(predicate::str::contains("tiny.toml")),
    );
}

#[test]
fn unknown_drive_and_unknown_policy_have_own_status() {
    trimtab()
        .args(["study", "drive:ocz-vertex-le"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("did you mean"));
    trimtab()
        .args(["study", "--policies", "nightly"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("nightly"));
    trimtab()
        .args(["study", "--policies", "batchd"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("did you mean 'batched'?"));
}

/// Regression: with `--fill 30` the first screen described drives as 60 % full, and the
/// terminal output contained captions of pictures that it does not show.
#[test]
fn study_fill_option_appears_on_first_screen() {
    let dir = tempfile::tempdir().unwrap();
    let study = |more: &[&str]| {
        let mut command = trimtab();
        command.args([
            "study",
            "drive:ocz-vertex-le-100gb",
            "--quick",
            "--policies",
            "none,batched",
            "--questions",
            "ageing",
            "--fill",
            "30",
        ]);
        let output = command
            .args(more)
            .args(["--quiet", "--store"])
            .arg(dir.path().join("s.db"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&study(&["--json"])).unwrap();
    let fills: Vec<&str> = json["ageing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["settings"]["fill"].as_str().unwrap())
        .collect();
    assert_eq!(fills, ["30%", "30%"]);
    let details = study(&["--details"]);
    assert!(
        details.contains("vs batched")
            && details.contains("ext4, 30 % full, 10 days")
            && !details.contains("60 %"),
        "{details}"
    );
    assert!(
        details.contains("After 10 days of churn, 30 % full")
            && !details.contains("months of churn"),
        "{details}"
    );
    for caption in ["Each square", "has a ring", "Each column is a moment"] {
        assert!(!details.contains(caption), "{caption}: {details}");
    }
    // Raw byte and nanosecond values belong in the JSON only.
    assert!(!details.contains("1073741824") && !details.contains("2146959360"), "{details}");
}

#[test]
fn study_aged_size_sets_modelled_capacity() {
    let dir = tempfile::tempdir().unwrap();
    let aged = |size: &str| {
        let questions = [
            "study",
            "drive:ocz-vertex-le-100gb",
            "--quick",
            "--questions",
            "ageing",
            "--policies",
            "none",
            "--json",
            "--quiet",
        ];
        let mut command = trimtab();
        command
            .args(questions)
            .args(["--aged-size", size, "--store"])
            .arg(dir.path().join("store.db"));
        let output =
            command.arg("--report").arg(dir.path().join(format!("{size}.html"))).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = &json["ageing"][0];
        let metric = |name: &str| {
            run["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap()
                ["samples"][0]
                .as_f64()
        };
        let setting = |key: &str| run["settings"][key].as_str().unwrap().parse::<f64>().unwrap();
        (setting("capacity"), setting("scale"), metric("erase-cycles.per-tb").unwrap())
    };
    let (small, large) = (aged("1GB"), aged("3GB"));
    for ((capacity, scale, _), wanted) in [(small, 1e9), (large, 3e9)] {
        assert!(
            (capacity / wanted - 1.0).abs() < 0.01
                && (capacity * scale / 100_030_242_816.0 - 1.0).abs() < 1e-3,
            "{capacity} {scale}"
        );
    }
    // Wear per TB is stated for the full drive at either size.
    assert!((small.2 / large.2 - 1.0).abs() < 0.2, "{small:?} {large:?}");
    trimtab()
        .args(["study", "--aged-size", "4GB"])
        .arg(dir.path())
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--aged-size is for modelled drives"));
}
