//! `validate drive`.

use crate::validate;
use predicates::prelude::*;

#[test]
fn drive_cases_agree_with_theory() {
    let args = [
        "drive",
        "--policy",
        "greedy,d:3",
        "--spare",
        "0.15",
        "--pages-per-block",
        "32",
        "--traffic",
        "uniform,trim:0.1,trim-any:0.3",
        "--work",
        "quick",
        "--json",
    ];
    let out = validate().args(args).assert().success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["all_agree"].as_bool()),
        (Some("trimtab.drive-validation"), Some(true))
    );
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let [theory, model] = ["theory", "model"].map(|key| row[key].as_f64().unwrap());
        assert!((model / theory - 1.0).abs() < 0.005 && theory > 1.0, "{row}");
    }
}

#[test]
fn drive_output_is_independent_of_threads() {
    let of = |threads: &str| {
        let args = [
            "drive",
            "--policy",
            "greedy,fifo",
            "--spare",
            "0.15",
            "--pages-per-block",
            "32",
            "--work",
            "quick",
            "--json",
        ];
        validate()
            .args(args)
            .env("RAYON_NUM_THREADS", threads)
            .assert()
            .success()
            .get_output()
            .stdout
            .clone()
    };
    assert_eq!(of("1"), of("3"));
}

/// The approximate formula is off by up to several per cent in these cases. The command
/// names its alternative reference and succeeds.
#[test]
fn greedy_with_hot_and_cold_data_agrees_with_monte_carlo() {
    let args = [
        "drive",
        "--policy",
        "greedy",
        "--work",
        "quick",
        "--pages-per-block",
        "32",
        "--utilisation",
        "0.85",
        "--traffic",
        "hot:0.2:0.8,hot:0.1:0.9",
        "--json",
    ];
    let out = validate().args(args).assert().success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let [value, error, model] = ["reference_value", "reference_error_percent", "model"]
            .map(|key| row[key].as_f64().unwrap());
        assert_eq!(row["reference"], "monte-carlo");
        assert!(
            error > 0.0 && error < 1.0 && (model / value - 1.0).abs() < 0.001 + error / 100.0,
            "{row}"
        );
    }
    let worst = rows
        .iter()
        .map(|row| (row["model"].as_f64().unwrap() / row["theory"].as_f64().unwrap() - 1.0).abs())
        .fold(0.0, f64::max);
    assert!(worst > 0.01, "the formula would have done: {worst}");
}

#[test]
fn drive_text_names_monte_carlo_and_its_error() {
    let args = ["--pages-per-block", "128", "--utilisation", "0.85", "--traffic", "hot:0.1:0.9"];
    validate()
        .args(["drive", "--policy", "greedy", "--work", "quick"])
        .args(args)
        .assert()
        .success()
        .stdout(predicate::str::contains("Monte Carlo").and(predicate::str::contains("±")));
}

#[test]
fn drive_options_without_a_formula_are_refused() {
    for (args, said) in [
        (["--policy", "lru"], "greedy, fifo, random or d:N"),
        (["--spare", "1.5"], "between 0.01 and 0.99"),
        (["--traffic", "trim:0.7"], "below 0.5"),
        (["--traffic", "trim-any:1"], "below 1"),
        (["--traffic", "hot:0.2:0.8"], "no formula for random"),
        (["--utilisation", "0.9999"], "between"),
    ] {
        validate()
            .arg("drive")
            .args(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(said));
    }
}

#[test]
fn too_few_blocks_for_the_utilisation_are_refused() {
    let args = [
        "drive",
        "--policy",
        "greedy",
        "--pages-per-block",
        "65536",
        "--utilisation",
        "0.99",
        "--work",
        "quick",
    ];
    validate().args(args).assert().code(2).stderr(predicate::str::contains("kept free"));
}
