//! Output at 60, 80 and 120 columns: no line exceeds the screen, and no number, unit or
//! word is broken.

use crate::support::{save_runs, trimtab};
use crate::sysroot::unpack;
use serde_json::json;
use std::path::Path;
use std::sync::LazyLock;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// The command's output on a screen of `columns`, or without line breaks if `None`.
fn screen(args: &[&str], store: &Path, columns: Option<usize>) -> String {
    let mut command = trimtab();
    command.args(args).arg("--quiet").arg("--store").arg(store).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Words without rules.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).collect()
}

/// Numbers with their units: `148 ms`, `12 %`.
fn figures(text: &str) -> Vec<String> {
    const UNITS: [&str; 14] =
        ["ns", "µs", "ms", "s", "min", "h", "d", "B", "kB", "MB", "GB", "TB", "MB/s", "%"];
    let bare = |word: &str| word.trim_matches(['(', ')', ',', ';', '.', ':', '\'']).to_owned();
    let mut figures = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let (number, unit) = (bare(pair[0]), bare(pair[1]));
            // A word in parentheses of its own is no unit, and neither is a word after a
            // mark.
            if pair[1].starts_with('(') || !pair[0].ends_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            if number.parse::<f64>().is_ok()
                && UNITS.contains(&unit.as_str())
                && line.contains(&format!("{} {}", pair[0], pair[1]))
            {
                figures.push(format!("{number} {unit}"));
            }
        }
    }
    figures
}

/// First column headings; a row that stands alone does not repeat its heading.
fn first_headings(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.windows(2).filter(|pair| pair[1].starts_with('─'));
    heads.filter_map(|pair| pair[0].split_whitespace().next()).collect()
}

/// Checks that `narrow` fits, and that it contains every word and figure of `wide`
/// unbroken.
fn check(wide: &str, narrow: &str, columns: usize) {
    for line in narrow.lines() {
        // Neither a command to copy nor a single word is ever broken.
        let whole = line.trim_start().starts_with("trimtab ")
            || line.trim_start().starts_with("systemctl ")
            || words(line).len() < 2;
        assert!(
            line.chars().count() <= columns || whole,
            "{} columns of {columns}: {line}\n{narrow}",
            line.chars().count()
        );
    }
    for word in words(wide).into_iter().filter(|word| !first_headings(wide).contains(word)) {
        assert!(narrow.contains(word), "'{word}' is not whole at {columns} columns:\n{narrow}");
    }
    for figure in figures(wide) {
        assert!(
            narrow.lines().any(|line| line.contains(&figure)),
            "'{figure}' is not whole at {columns} columns:\n{narrow}"
        );
    }
}

fn check_all(args: &[&str], store: &Path) {
    let wide = screen(args, store, None);
    for columns in WIDTHS {
        check(&wide, &screen(args, store, Some(columns)), columns);
    }
}

/// A store with the same entered results every time.
fn entered() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("r.db");
    for (policy, seconds) in [("online", [40.2, 40.9, 40.4]), ("batched", [0.65, 0.64, 0.66])] {
        // 2011-06-01, in milliseconds since 1970.
        let run = json!({
            "workload": "tree", "target_label": "Intel 320, ext4", "policy": policy,
            "started_unix_ms": 1_306_886_400_000_u64, "settings": {"files": "36706"},
            "metrics": [
                {"name": "delete.seconds", "unit": "s", "better": "lower", "samples": seconds},
                {"name": "deleted", "unit": "count", "better": "neither", "samples": [36706]},
            ],
        });
        save_runs(&store, [run]);
    }
    (dir, store)
}

/// A store with a simulation and a study of a small modelled drive, created once for all
/// tests.
static MODELLED: LazyLock<(tempfile::TempDir, std::path::PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("r.db");
    let study = [
        "study",
        "drive:ocz-vertex-le-100gb",
        "--quick",
        "--policies",
        "none,idle",
        "--questions",
        "deleting,ageing",
        "--quiet",
        "--store",
    ];
    trimtab()
        .args(study)
        .arg(&store)
        .arg("--report")
        .arg(dir.path().join("s.html"))
        .assert()
        .success();
    (dir, store)
});

#[test]
fn results_screens_match_snapshots() {
    let (_dir, store) = entered();
    check_all(&["results", "list"], &store);
    check_all(&["results", "show", "last"], &store);
    check_all(&["results", "compare", "last~1", "last"], &store);
    for columns in WIDTHS {
        insta::assert_snapshot!(
            format!("results-list-{columns}"),
            screen(&["results", "list"], &store, Some(columns))
        );
        insta::assert_snapshot!(
            format!("results-compare-{columns}"),
            screen(&["results", "compare", "last~1", "last"], &store, Some(columns))
        );
    }
}

#[test]
fn drive_screens_match_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("r.db");
    check_all(&["drive", "list"], &store);
    for drive in ["ocz-vertex-le-100gb", "nvme-tlc-500gb"] {
        check_all(&["drive", "show", drive], &store);
    }
    for columns in WIDTHS {
        insta::assert_snapshot!(
            format!("drive-show-{columns}"),
            screen(&["drive", "show", "sata-tlc-500gb"], &store, Some(columns))
        );
    }
}

#[test]
fn doctor_screens_match_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("r.db");
    for fixture in ["lvm", "md-raid5", "luks-without-discards", "nvme", "thin-pool"] {
        let text = std::fs::read_to_string(format!(
            "{}/tests/fixtures/sysroots/{fixture}.txt",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let tree = unpack(&text);
        let args =
            ["doctor", "--sysroot", tree.path().to_str().unwrap(), tree.expected.subject.as_str()];
        check_all(&args, &store);
        if fixture == "lvm" {
            for columns in WIDTHS {
                insta::assert_snapshot!(
                    format!("doctor-{columns}"),
                    screen(&args, &store, Some(columns))
                );
            }
        }
    }
}

#[test]
fn simulate_and_study_screens_fit_their_width() {
    let (_, store) = &*MODELLED;
    let simulate = [
        "drive",
        "simulate",
        "--drive",
        "ocz-vertex-le-100gb",
        "--capacity",
        "2GB",
        "--until-written",
        "1x",
    ];
    let text = screen(&simulate, store, Some(60));
    check(&text, &text, 60);
    check_all(&["results", "list"], store);
    let listed: serde_json::Value =
        serde_json::from_str(&screen(&["results", "list", "--json"], store, None)).unwrap();
    let ids: Vec<&str> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|run| run["id"].as_str().unwrap())
        .collect();
    for run in [ids[0], ids[5]] {
        check_all(&["results", "show", run], store);
    }
    let workload = |id: &str| {
        listed["runs"].as_array().unwrap().iter().find(|run| run["id"] == id).unwrap()["workload"]
            .clone()
    };
    let other =
        ids[1..].iter().find(|id| workload(id) == workload(ids[1]) && **id != ids[1]).unwrap();
    check_all(&["results", "compare", ids[1], other], store);
    for columns in WIDTHS {
        // The stored runs are reused, so this tests only the display.
        let study = [
            "study",
            "drive:ocz-vertex-le-100gb",
            "--quick",
            "--policies",
            "none,idle",
            "--questions",
            "deleting,ageing",
            "--resume",
        ];
        let text = screen(&study, store, Some(columns));
        check(&text, &text, columns);
        let details = screen(&[&study[..], &["--details"]].concat(), store, Some(columns));
        check(&details, &details, columns);
        assert!(
            details.lines().count() > 3 * text.lines().count(),
            "everything else is behind --details"
        );
    }
    // `study::answer`'s unit tests hold golden copies, from runs that do not change with
    // the model.
    let eighty = screen(&["results", "show", "study:last"], store, Some(80));
    assert!(eighty.lines().count() <= 23, "one screen:\n{eighty}");
}
