//! `validate published`.

use crate::validate;
use std::fs;

fn committed() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md")).unwrap()
}

fn check_screen(text: &str) {
    assert!(
        text.contains("predicted on drives held out")
            && !text.contains("|---")
            && !text.contains("##"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// The quick comparisons match docs/published.md line by line, and the screen fits.
#[test]
fn published_quick_rows_match_committed_page() {
    let (committed, dir) = (committed(), tempfile::tempdir().unwrap());
    for part in ["fstrim", "crucial-m4-128gb", "sustained"] {
        let file = dir.path().join("part.md");
        let output = validate()
            .args(["published", "--only", part, "--markdown"])
            .arg(&file)
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check_screen(&String::from_utf8(output.stdout).unwrap());
        let text = fs::read_to_string(file).unwrap();
        let rows = text.split_once("\n## ").unwrap().1;
        let figures: Vec<&str> =
            rows.lines().filter(|line| line.starts_with("| ") || line.starts_with("###")).collect();
        assert!(figures.len() > 5, "{text}");
        for line in figures {
            assert!(committed.contains(line), "docs/published.md does not have {line:?}");
        }
    }
}

/// The score at the top equals the count of the rows below, recomputed independently.
#[test]
fn published_score_equals_count_of_rows() {
    let committed = committed();
    let tally = |what: &str| -> Vec<usize> {
        let line = committed.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap();
        line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
    };
    let cells: Vec<&str> = committed
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.rsplit('|').nth(1))
        .map(str::trim)
        .collect();
    for (kind, what) in [
        ("predicted: ", "predicted, within"),
        ("held out: ", "predicted on drives held out"),
        ("fitted by ", "fitted, within"),
    ] {
        let of_kind: Vec<&str> =
            cells.iter().copied().filter(|cell| cell.starts_with(kind)).collect();
        let ending = |cell: &str, word: &str| match cell.split_once(", counted ") {
            Some((_, counted)) => counted.starts_with(word),
            None => cell.ends_with(word),
        };
        let count = |word: &str| of_kind.iter().filter(|cell| ending(cell, word)).count();
        let (missing, as_read) = (
            of_kind.iter().filter(|cell| cell.contains("not produced")).count(),
            count("as read only"),
        );
        let (met, all) = (of_kind.iter().filter(|cell| ending(cell, "met")).count(), of_kind.len());
        assert_eq!(
            tally(what),
            [met, as_read, all - met - as_read - missing, missing, all],
            "{what}"
        );
    }
}

#[test]
fn published_refuses_unknown_names() {
    let output = validate().args(["published", "--only", "floppy"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("--only floppy")
            && message.contains("intel-320-300gb")
            && message.trim_end().lines().count() == 1,
        "{message}"
    );
    let output = validate().args(["published", "drive:x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn missed_figure_has_a_reason() {
    let committed = committed();
    let mut missed = 0;
    for section in committed.split("\n### ") {
        let names = section
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains("**missed**"))
            .filter_map(|line| line.split('|').nth(1));
        for name in names {
            missed += 1;
            assert!(
                section.contains(&format!("\n* {}: ", name.trim())),
                "no reason for {name} in {section}"
            );
        }
    }
    assert!(missed > 10, "the table has another form than this test reads");
}
