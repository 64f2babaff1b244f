//! `validate published`.

use crate::validate;
use std::fs;

fn committed(name: &str) -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/").to_owned() + name)
        .unwrap()
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
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

/// The quick comparisons match docs/published.csv line by line, and the screen fits.
#[test]
fn published_quick_rows_match_committed_file() {
    let (page, csv) = (committed("published.md"), committed("published.csv"));
    let dir = tempfile::tempdir().unwrap();
    for part in ["fstrim", "crucial-m4-128gb", "sustained"] {
        let [part_page, part_csv] = ["part.md", "part.csv"].map(|name| dir.path().join(name));
        let output = validate()
            .args(["published", "--only", part, "--markdown"])
            .arg(&part_page)
            .arg("--csv")
            .arg(&part_csv)
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check_screen(&String::from_utf8(output.stdout).unwrap());
        let text = fs::read_to_string(part_csv).unwrap();
        assert!(text.lines().count() >= 5, "{text}");
        for line in text.lines() {
            assert!(csv.lines().any(|of| of == line), "docs/published.csv does not have {line:?}");
        }
        let text = fs::read_to_string(part_page).unwrap();
        let rows = text.split_once("\n## ").unwrap().1;
        for line in rows.lines().filter(|line| line.starts_with(['|', '*'])) {
            assert!(page.lines().any(|of| of == line), "docs/published.md does not have {line:?}");
        }
    }
}

/// The score at the top equals the count of the rows of the CSV, recomputed independently.
#[test]
fn published_score_equals_count_of_rows() {
    let (page, csv) = (committed("published.md"), committed("published.csv"));
    let tally = |what: &str| -> Vec<usize> {
        let line = page.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap();
        line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
    };
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "counts").unwrap();
    let cells: Vec<String> =
        csv.lines().skip(1).map(|line| fields(line).swap_remove(column)).collect();
    for (kind, what) in [
        ("predicted: ", "predicted, within"),
        ("held out: ", "predicted on drives held out"),
        ("fitted by ", "fitted, within"),
    ] {
        let of_kind: Vec<&str> =
            cells.iter().map(String::as_str).filter(|cell| cell.starts_with(kind)).collect();
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
    let (page, csv) = (committed("published.md"), committed("published.csv"));
    let mut missed = 0;
    for line in csv.lines().filter(|line| line.contains("MISSED")) {
        let figure = fields(line);
        missed += 1;
        let start = format!("| {} | {} | ", figure[1], figure[3]);
        let row = page.lines().find(|row| row.starts_with(&start));
        let reason = row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
        assert!(
            !figure[8].is_empty() && reason == Some(figure[8].as_str()),
            "no reason for {start} in docs/published.md: {row:?}"
        );
    }
    assert!(missed > 10, "the table has another form than this test reads");
    let rows = page.split("## Misses").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = rows.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(rows, missed + 1, "each miss once, and the header");
}
