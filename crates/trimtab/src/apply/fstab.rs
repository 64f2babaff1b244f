//! Changes one mount option in one line of `/etc/fstab`; every other byte stays.

use std::ops::Range;
use std::path::{Path, PathBuf};
use trimtab_linux::host::fstab::{FstabEntry, parse};

/// Reason why the file cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FstabError {
    /// The mount point is not in it.
    NotListed,
    /// The mount point is in it more than once.
    Twice,
}

/// The lines that mount something, with mount points without trailing slashes.
fn entries(text: &str) -> Vec<FstabEntry> {
    let mut entries = parse(text.as_bytes());
    entries.retain(|entry| entry.target.is_absolute());
    for entry in &mut entries {
        entry.target = entry.target.components().collect();
    }
    entries
}

/// True for a bind mount: its options belong to the mount, never to the filesystem.
fn is_bind(entry: &FstabEntry) -> bool {
    entry.options.split(',').any(|option| matches!(option, "bind" | "rbind" | "remount"))
}

/// The filesystem type of a mount point.
pub fn fs_type(text: &str, mount_point: &Path) -> Option<String> {
    entries(text).into_iter().find(|e| e.target == mount_point).map(|e| e.fs_type)
}

/// Mount points of all lines that mount one filesystem, in file order: those in
/// `mounted_at`, its present mounts, and those of the same device. Options such as
/// discard belong to the filesystem: its first mount decides, later ones change nothing.
pub fn lines_of(text: &str, mounted_at: &[PathBuf]) -> Vec<PathBuf> {
    let entries: Vec<FstabEntry> =
        entries(text).into_iter().filter(|entry| !is_bind(entry)).collect();
    let named: Vec<&FstabEntry> =
        entries.iter().filter(|entry| mounted_at.contains(&entry.target)).collect();
    let same = |entry: &FstabEntry| {
        named.iter().any(|other| other.source == entry.source && other.fs_type == entry.fs_type)
    };
    let mut points: Vec<PathBuf> = Vec::new();
    entries.iter().filter(|entry| same(entry)).for_each(|entry| {
        if !points.contains(&entry.target) {
            points.push(entry.target.clone());
        }
    });
    points
}

/// The discard option of a mount point; `None` if it has none.
pub fn discard_option(text: &str, mount_point: &Path) -> Option<String> {
    let entry = entries(text).into_iter().find(|e| e.target == mount_point)?;
    text[entry.options_at].split(',').rfind(|o| is_discard(o)).map(str::to_owned)
}

fn is_discard(option: &str) -> bool {
    matches!(option, "discard" | "nodiscard") || option.starts_with("discard=")
}

/// The text with `wanted` (`discard`, `discard=async`, `nodiscard`) as the only discard
/// option of `mount_point`; `None` removes it.
pub fn with_discard(
    text: &str,
    mount_point: &Path,
    wanted: Option<&str>,
) -> Result<String, FstabError> {
    let found: Vec<FstabEntry> =
        entries(text).into_iter().filter(|e| e.target == mount_point).collect();
    let [entry] = found.as_slice() else {
        return Err(if found.is_empty() { FstabError::NotListed } else { FstabError::Twice });
    };
    Ok(with_option(text, &entry.options_at, wanted))
}

/// `now` with the discard options from before a change of discard options; other edits
/// of the same lines stay. `None` if the change was another one, or if its options or
/// lines were changed since.
pub fn undo_discard(before: &str, after: &str, now: &str) -> Option<String> {
    let undo = |now: &str| {
        let mut text = now.to_owned();
        for entry in entries(after) {
            let option = |text: &str| discard_option(text, &entry.target);
            let (old, new, current) = (option(before), option(after), option(&text));
            if old != new && current != old {
                let changed = with_discard(&text, &entry.target, old.as_deref());
                text = changed.ok().filter(|_| current == new)?;
            }
        }
        Some(text)
    };
    undo(after).filter(|text| text == before)?;
    undo(now)
}

/// The text with `wanted` as the only discard option in the range `options`.
fn with_option(text: &str, options: &Range<usize>, wanted: Option<&str>) -> String {
    let before = &text[options.clone()];
    let now: Vec<&str> = before.split(',').filter(|o| is_discard(o)).collect();
    if now == wanted.into_iter().collect::<Vec<_>>() {
        return text.to_owned();
    }
    let mut kept: Vec<&str> =
        before.split(',').filter(|o| !o.is_empty() && !is_discard(o)).collect();
    kept.extend(wanted);
    if kept.is_empty() {
        kept.push("defaults");
    }
    let blank = if before.is_empty() { " " } else { "" };
    format!("{}{blank}{}{}", &text[..options.start], kept.join(","), &text[options.end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# a comment / with words\nUUID=1\t/\text4\tdefaults,noatime\t0 1\n\
        /dev/b /my\\040home xfs discard,rw 0 2\n/dev/c /srv btrfs\nnone /tmp tmpfs size=1g\n\
        /dev/d none swap sw";

    fn changed(path: &str, wanted: Option<&str>) -> String {
        let after = with_discard(TEXT, Path::new(path), wanted).unwrap();
        let differ: Vec<&str> =
            after.lines().zip(TEXT.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
        assert!(differ.len() <= 1 && after.lines().count() == TEXT.lines().count());
        assert_eq!(
            with_discard(&after, Path::new(path), wanted).unwrap(),
            after,
            "a second time changes nothing"
        );
        differ.first().copied().unwrap_or_default().to_owned()
    }

    #[test]
    fn with_discard_changes_one_option_of_one_line() {
        assert_eq!(changed("/", Some("discard")), "UUID=1\t/\text4\tdefaults,noatime,discard\t0 1");
        assert_eq!(changed("/", None), "");
        assert_eq!(changed("/my home", None), "/dev/b /my\\040home xfs rw 0 2");
        assert_eq!(changed("/my home", Some("discard")), "");
        assert_eq!(changed("/srv", Some("discard=async")), "/dev/c /srv btrfs discard=async");
        assert_eq!(changed("/srv", None), "");
        assert_eq!(changed("/tmp", Some("nodiscard")), "none /tmp tmpfs size=1g,nodiscard");
        assert_eq!(
            with_discard("/dev/a / ext4 discard 0 1", Path::new("/"), None).unwrap(),
            "/dev/a / ext4 defaults 0 1"
        );
        assert_eq!(fs_type(TEXT, Path::new("/my home")).as_deref(), Some("xfs"));
        assert_eq!(discard_option(TEXT, Path::new("/my home")).as_deref(), Some("discard"));
    }

    #[test]
    fn lines_of_finds_lines_by_mount_and_device() {
        let text = "UUID=2 / btrfs subvol=@ 0 0\nUUID=2 /home btrfs subvol=@home 0 0\n\
            LABEL=x /srv btrfs subvol=@srv 0 0\nUUID=3 /data ext4 rw 0 2\n\
            /data /var/www none bind 0 0\n/data /x ext4 rbind 0 0\n";
        let at =
            |points: &[&str]| lines_of(text, &points.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(at(&["/home"]), [Path::new("/"), Path::new("/home")]);
        // A device under another name is identified by its mounts.
        assert_eq!(at(&["/home", "/srv"]), [Path::new("/"), Path::new("/home"), Path::new("/srv")]);
        assert_eq!(at(&["/data", "/var/www"]), [Path::new("/data")]);
        assert!(at(&["/var/www"]).is_empty());
    }

    #[test]
    fn undo_discard_keeps_other_options_of_the_line() {
        let before = "/dev/a / ext4 rw 0 1\n/dev/b /b xfs discard,rw 0 2\n";
        let after = "/dev/a / ext4 rw,discard 0 1\n/dev/b /b xfs discard,rw 0 2\n";
        let undo = |now: &str| undo_discard(before, after, now);
        assert_eq!(undo(after).as_deref(), Some(before));
        assert_eq!(
            undo("/dev/b /b xfs rw 0 2\nUUID=1 / ext4 noatime,rw,discard 0 0\n").as_deref(),
            Some("/dev/b /b xfs rw 0 2\nUUID=1 / ext4 noatime,rw 0 0\n")
        );
        let by_hand = "/dev/a / ext4 rw,noatime 0 1\n";
        assert_eq!(undo(by_hand).as_deref(), Some(by_hand), "undone by hand");
        for changed in ["/dev/a / ext4 nodiscard 0 1\n", &format!("{after}{after}")] {
            assert_eq!(undo(changed), None, "{changed}");
        }
        // Another change than that of a discard option.
        assert_eq!(undo_discard(before, &after.replace("rw", "ro"), after), None);
    }

    #[test]
    fn with_discard_of_missing_or_double_line_fails() {
        assert_eq!(
            with_discard(TEXT, Path::new("/home"), Some("discard")),
            Err(FstabError::NotListed)
        );
        let twice = "/dev/a /x ext4 rw\n/dev/b /x/ ext4 rw\n";
        assert_eq!(with_discard(twice, Path::new("/x"), Some("discard")), Err(FstabError::Twice));
    }

    proptest! {
        #[test]
        fn with_discard_of_any_text_changes_one_line(text in "[ \\t\\n#/a,=\\\\0discardé-]{0,200}", wanted in prop::option::of(Just("discard"))) {
            if let Ok(after) = with_discard(&text, Path::new("/a"), wanted) {
                prop_assert_eq!(text.split('\n').count(), after.split('\n').count());
                prop_assert!(text.split('\n').zip(after.split('\n')).filter(|(a, b)| a != b).count() <= 1);
                let found = discard_option(&after, Path::new("/a"));
                prop_assert_eq!(found.as_deref(), wanted);
            }
        }
    }
}
