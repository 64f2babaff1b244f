//! Undoes a change of a file line by line, so that later edits elsewhere in it stay.

use std::ops::Range;

/// Replaced lines and their replacement.
struct Hunk<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

/// `now` without the change from `before` to `after`; `None` if a line of the change was
/// edited, split or duplicated since.
pub fn undo(before: &str, after: &str, now: &str) -> Option<String> {
    if now == after {
        return Some(before.to_owned());
    }
    let mut lines: Vec<&str> = now.lines().collect();
    for hunk in hunks(before, after) {
        match (find(&lines, &hunk.new), find(&lines, &hunk.old)) {
            (Some(at), _) => drop(lines.splice(at, hunk.old)),
            // Already undone by hand.
            (None, Some(_)) => {}
            (None, None) => return None,
        }
    }
    let end = if now.ends_with('\n') && !lines.is_empty() { "\n" } else { "" };
    Some(lines.join("\n") + end)
}

/// The position of `wanted` in `lines`, if it occurs exactly once.
fn find(lines: &[&str], wanted: &[&str]) -> Option<Range<usize>> {
    if wanted.is_empty() {
        return None;
    }
    let mut found = lines.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
    let (at, _) = found.next()?;
    found.next().is_none().then(|| at..at + wanted.len())
}

/// Line by line if the number of lines is the same; else one hunk from the first to the
/// last difference.
fn hunks<'a>(before: &'a str, after: &'a str) -> Vec<Hunk<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    if old.len() == new.len() {
        let pairs = old.iter().zip(&new).filter(|(old, new)| old != new);
        return pairs.map(|(old, new)| Hunk { old: vec![*old], new: vec![*new] }).collect();
    }
    let (head, tail) = common_ends(&old, &new);
    vec![Hunk {
        old: old[head..old.len() - tail].to_vec(),
        new: new[head..new.len() - tail].to_vec(),
    }]
}

/// Numbers of equal lines at the beginning and, after these, at the end.
pub fn common_ends<T: PartialEq>(old: &[T], new: &[T]) -> (usize, usize) {
    let same = |(old, new): &(&T, &T)| old == new;
    let head = old.iter().zip(new).take_while(same).count();
    let most = old.len().min(new.len()) - head;
    (head, old.iter().rev().zip(new.iter().rev()).take_while(same).count().min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: &str = "# x\n/dev/a / ext4 rw 0 1\n/dev/b /b ext4 rw 0 2\n";
    const AFTER: &str = "# x\n/dev/a / ext4 rw,discard 0 1\n/dev/b /b ext4 rw 0 2\n";

    #[test]
    fn undo_keeps_edits_of_other_lines() {
        let now = format!(
            "# new head\n{}/dev/z /new ext4 rw 0 2",
            AFTER.replace("/dev/b /b", "/dev/c /c")
        );
        let undone = undo(BEFORE, AFTER, &now).unwrap();
        assert_eq!(undone, now.replace("rw,discard", "rw"));
        assert_eq!(undo(BEFORE, AFTER, AFTER).unwrap(), BEFORE);
        assert_eq!(undo(BEFORE, AFTER, BEFORE).unwrap(), BEFORE, "undone by hand");
    }

    #[test]
    fn undo_of_an_edited_line_is_refused() {
        assert_eq!(undo(BEFORE, AFTER, &AFTER.replace("rw,discard", "rw,discard,noatime")), None);
        assert_eq!(
            undo(BEFORE, AFTER, &format!("{AFTER}/dev/a / ext4 rw,discard 0 1\n")),
            None,
            "ambiguous"
        );
        assert_eq!(undo(BEFORE, AFTER, ""), None);
    }

    #[test]
    fn undo_removes_an_added_section() {
        let before = "[default]\npolicy = 'none'\n";
        let after = format!("{before}\n[[filesystem]]\npath = '/a'\npolicy = 'idle'\n");
        let now = format!("# mine\n{after}\n[[filesystem]]\npath = '/b'\npolicy = 'idle'\n");
        assert_eq!(
            undo(before, &after, &now).unwrap(),
            format!("# mine\n{before}\n[[filesystem]]\npath = '/b'\npolicy = 'idle'\n")
        );
    }

    proptest! {
        #[test]
        fn undo_of_an_untouched_change_is_exact(before in "([ab]{0,2}\n){0,6}", after in "([ab]{0,2}\n){0,6}", now in "([ab]{0,2}\n){0,6}") {
            prop_assert_eq!(undo(&before, &after, &after), Some(before.clone()));
            let _ = undo(&before, &after, &now);
        }
    }
}
