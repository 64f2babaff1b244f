//! `trimtab drive validate`.

use crate::support::trimtab;
use predicates::prelude::*;

#[test]
fn rows_of_ones_own_agree_with_theory() {
    let args = [
        "drive",
        "validate",
        "--policy",
        "greedy,d:3",
        "--spare",
        "0.15",
        "--pages-per-block",
        "32",
        "--traffic",
        "uniform,trim:0.1",
        "--work",
        "quick",
        "--json",
    ];
    let out = trimtab().args(args).assert().success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((document["schema"].as_str(), document["all_agree"].as_bool()), (Some("trimtab.drive-validation"), Some(true)));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let [theory, model] = ["theory", "model"].map(|key| row[key].as_f64().unwrap());
        assert!((model / theory - 1.0).abs() < 0.005 && theory > 1.0, "{row}");
    }
    // The same bytes again, whatever the number of threads.
    let again = trimtab().args(args).env("RAYON_NUM_THREADS", "1").assert().success().get_output().stdout.clone();
    assert_eq!(out, again);
}

#[test]
fn what_has_no_meaning_or_no_formula_is_refused() {
    for (args, said) in [
        (["--policy", "lru"], "greedy, fifo, random or d:N"),
        (["--spare", "1.5"], "between 0.01 and 0.99"),
        (["--traffic", "trim:0.7"], "below 0.5"),
        (["--traffic", "hot:0.2:0.8"], "no formula for random"),
        (["--utilisation", "0.9999"], "between"),
    ] {
        trimtab().args(["drive", "validate"]).args(args).assert().code(2).stdout("").stderr(predicate::str::contains(said));
    }
}

#[test]
fn too_few_blocks_for_the_utilisation_are_refused_with_the_reason() {
    let args = ["drive", "validate", "--policy", "greedy", "--pages-per-block", "65536", "--utilisation", "0.99", "--work", "quick"];
    trimtab().args(args).assert().code(2).stderr(predicate::str::contains("kept free"));
}
