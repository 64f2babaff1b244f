//! Changes of the system's configuration, in words.

use serde::Serialize;
use std::path::PathBuf;
use trimtab_drive::usage::quoted;

#[derive(Serialize)]
pub struct Change {
    pub file: String,
    pub diff: String,
}

#[derive(Serialize)]
pub struct ApplyReport {
    pub dry_run: bool,
    pub undo: bool,
    pub policy: String,
    pub path: String,
    pub changes: Vec<Change>,
    /// Record with the files from before the change.
    pub kept: Option<String>,
    pub remarks: Vec<String>,
    /// Root directory of a system that does not run.
    #[serde(skip)]
    pub sysroot: Option<PathBuf>,
}

/// A diff for the screen. For a new or removed file, leaves out its comments and counts
/// them.
fn without_comments(diff: &str) -> String {
    let lines: Vec<&str> = diff.trim_end().lines().collect();
    let [old, new, hunk, added @ ..] = lines.as_slice() else { return diff.trim_end().to_owned() };
    let is_whole = *old == "--- /dev/null" || *new == "+++ /dev/null";
    let comment = |line: &&&str| {
        line.strip_prefix(['+', '-'])
            .is_some_and(|line| line.trim().is_empty() || line.starts_with('#'))
    };
    let comments = added.iter().filter(comment).count();
    if !is_whole || comments == 0 {
        return diff.trim_end().to_owned();
    }
    let kept = added.iter().filter(|line| !comment(line)).copied();
    let note = format!("(and {comments} lines of comments that explain the file)");
    [*old, *new, *hunk]
        .into_iter()
        .chain(kept)
        .map(str::to_owned)
        .chain([note])
        .collect::<Vec<_>>()
        .join("\n")
}

/// The whole report.
pub fn text(report: &ApplyReport) -> String {
    let mut lines: Vec<String> = report.changes.iter().map(|c| without_comments(&c.diff)).collect();
    lines.push(match (report.changes.len(), report.dry_run, report.undo) {
        (0, _, true) => format!(
            "{}: nothing to undo, the files are as they were before '{}'",
            report.path, report.policy
        ),
        (0, ..) => {
            format!("{}: nothing to change, {} is already configured", report.path, report.policy)
        }
        (_, true, _) => "dry run: nothing was changed".to_owned(),
        (_, _, true) => "undone".to_owned(),
        _ => {
            let of = report.sysroot.as_ref().map_or(String::new(), |dir| {
                format!(" --sysroot {}", quoted(&dir.display().to_string()))
            });
            format!(
                "{}: {} is configured; undo with: trimtab apply --undo{of}",
                report.path, report.policy
            )
        }
    });
    if let Some(kept) = &report.kept {
        lines.push(format!("the earlier files are kept in {kept}"));
    }
    if let Some(dir) =
        report.sysroot.as_ref().filter(|_| !report.undo && !report.remarks.is_empty())
    {
        lines.push(format!("on the system in {}, once it runs:", dir.display()));
    }
    lines.extend(report.remarks.iter().cloned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_plan_counts_new_comments_and_shows_changed() {
        let new = "--- /dev/null\n+++ /etc/t\n@@ -0,0 +1,4 @@\n+# what this is\n+\n+[a]\n+b = 1\n";
        assert_eq!(
            without_comments(new),
            "--- /dev/null\n+++ /etc/t\n@@ -0,0 +1,4 @@\n+[a]\n+b = 1\n\
                (and 2 lines of comments that explain the file)"
        );
        let removed =
            "--- /etc/t\n+++ /dev/null\n@@ -1,4 +0,0 @@\n-# what this is\n-\n-[a]\n-b = 1\n";
        assert!(
            without_comments(removed)
                .ends_with("-[a]\n-b = 1\n(and 2 lines of comments that explain the file)")
        );
        let change = "--- /etc/t\n+++ /etc/t\n@@ -1,2 +1,2 @@\n # x\n-# old\n+# new\n";
        assert_eq!(without_comments(change), change.trim_end());
    }
}
