//! Adds the option `discard` to one line of `/etc/crypttab` for `doctor --fix`; every
//! other byte stays.

use super::fstab::FstabError;
use super::{CRYPTTAB, Edit, System};
use anyhow::{Context as _, bail};
use std::ops::Range;
use std::path::Path;

/// The change of the crypttab line for the mapping `name`; `None` if it already has the
/// option.
pub fn edit(system: &System, name: &str) -> anyhow::Result<Option<Edit>> {
    let before =
        system.read(Path::new(CRYPTTAB))?.with_context(|| format!("{CRYPTTAB} does not exist"))?;
    let after = match with_discard(&before, name) {
        Ok(after) => after,
        Err(FstabError::NotListed) => bail!("{name} is no longer in {CRYPTTAB}"),
        Err(FstabError::Twice) => {
            bail!("{name} is in {CRYPTTAB} more than once; change it by hand")
        }
    };
    let changed = after != before;
    let edit = Edit { file: CRYPTTAB.into(), before: Some(before), after: Some(after) };
    Ok(changed.then_some(edit))
}

/// Ranges of the fields in a line.
fn fields(line: &str) -> Vec<Range<usize>> {
    let mut fields = Vec::new();
    let mut start = None;
    // An additional blank ends the last field.
    for (i, blank) in line.bytes().map(|b| b.is_ascii_whitespace()).chain([true]).enumerate() {
        if !blank {
            start = start.or(Some(i));
        } else if let Some(from) = start.take() {
            fields.push(from..i);
        }
    }
    fields
}

/// The text with the option `discard` in the line of `name`.
fn with_discard(text: &str, name: &str) -> Result<String, FstabError> {
    let (mut found, mut at) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let fields = fields(line);
        if fields.len() >= 2 && &line[fields[0].clone()] == name {
            found.push((at, line, fields));
        }
        at += line.len();
    }
    let [(at, line, fields)] = found.as_slice() else {
        return Err(if found.is_empty() { FstabError::NotListed } else { FstabError::Twice });
    };
    let with = |end: usize, addition: &str| {
        format!("{}{addition}{}", &text[..at + end], &text[at + end..])
    };
    Ok(match fields.get(3) {
        Some(options) if line[options.clone()].split(',').any(|option| option == "discard") => {
            text.to_owned()
        }
        Some(options) => with(options.end, ",discard"),
        None if fields.len() == 3 => with(fields[2].end, " discard"),
        None => with(fields[1].end, " none discard"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{make_edit, undo_edit};
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn with_discard_adds_one_option_to_one_line() {
        let text = "# home of users\nhome\tUUID=1  none luks,timeout=9\nroot /dev/sda2 /key\n\
            swap /dev/sda3\n";
        let changed = |name: &str| {
            let after = with_discard(text, name).unwrap();
            assert_eq!(with_discard(&after, name).unwrap(), after, "a second time changes nothing");
            after
                .lines()
                .zip(text.lines())
                .find(|(a, b)| a != b)
                .map(|(a, _)| a.to_owned())
                .unwrap()
        };
        assert_eq!(changed("home"), "home\tUUID=1  none luks,timeout=9,discard");
        assert_eq!(changed("root"), "root /dev/sda2 /key discard");
        assert_eq!(changed("swap"), "swap /dev/sda3 none discard");
        assert_eq!(with_discard(text, "srv"), Err(FstabError::NotListed));
        assert_eq!(with_discard("a b\na c\n", "a"), Err(FstabError::Twice));
    }

    #[test]
    fn file_change_is_undone_unless_edited_since() {
        let crypttab = "home /dev/c none luks\nsrv /dev/d none luks\n";
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("etc/crypttab");
        fs::create_dir(directory.path().join("etc")).unwrap();
        fs::write(&file, crypttab).unwrap();
        let system = System::new(Some(directory.path()), None).unwrap();
        let text = || fs::read_to_string(&file).unwrap();
        let done = |name| {
            let edit = edit(&system, name).unwrap().unwrap();
            make_edit(&system, &edit).unwrap();
            assert!(make_edit(&system, &edit).is_err(), "the file is not as planned");
            edit
        };
        let (first, second) = (done("home"), done("srv"));
        assert_eq!(text(), "home /dev/c none luks,discard\nsrv /dev/d none luks,discard\n");
        assert_eq!(edit(&system, "home").unwrap(), None, "nothing to do a second time");
        assert!(
            edit(&system, "var").unwrap_err().to_string().contains("no longer in /etc/crypttab")
        );

        let undo = |edit| make_edit(&system, &undo_edit(&system, edit).unwrap()).unwrap();
        undo(&first);
        assert_eq!(text(), "home /dev/c none luks\nsrv /dev/d none luks,discard\n");
        undo(&second);
        assert_eq!(text(), crypttab);
        fs::write(&file, "home /dev/c none luks,discard,timeout=9\n").unwrap();
        let refused = undo_edit(&system, &first).unwrap_err().to_string();
        assert!(refused.contains("was edited since"), "{refused}");
    }

    proptest! {
        #[test]
        fn with_discard_of_any_text_changes_one_line(text in "[ \\t\\n#a,discardé-]{0,120}") {
            if let Ok(after) = with_discard(&text, "a") {
                prop_assert_eq!(text.split('\n').count(), after.split('\n').count());
                prop_assert!(text.split('\n').zip(after.split('\n')).filter(|(a, b)| a != b).count() <= 1);
            }
        }
    }
}
