//! `trimtab study --published`.

use crate::support;
use std::fs;

/// What is quick to run is what docs/published.md says, line by line.
#[test]
fn a_quick_part_is_as_committed() {
    let committed = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md")).unwrap();
    for part in ["fstrim", "crucial-m4-128gb"] {
        let output = support::trimtab().args(["study", "--published", "--only", part]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let figures: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") || line.starts_with("###")).collect();
        assert!(figures.len() > 5, "{text}");
        for line in figures {
            assert!(committed.contains(line), "docs/published.md does not have {line:?}");
        }
    }
}

#[test]
fn what_was_not_published_is_refused_in_a_line() {
    let output = support::trimtab().args(["study", "--published", "--only", "floppy"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("--only floppy") && message.contains("intel-320-300gb") && message.trim_end().lines().count() == 1,
        "{message}"
    );
    let output = support::trimtab().args(["study", "--published", "drive:x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_figure_that_is_missed_says_why() {
    let committed = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md")).unwrap();
    let mut missed = 0;
    for section in committed.split("\n### ") {
        let names = section.lines().filter(|line| line.ends_with("| **no** |")).filter_map(|line| line.split('|').nth(1));
        for name in names {
            missed += 1;
            assert!(section.contains(&format!("\n* {}: ", name.trim())), "no reason for {name} in {section}");
        }
    }
    assert!(missed > 0, "the table has another form than this test reads");
}
