//! Plans the option `discard` in crypttab for `doctor --fix`.

use super::fstab::FstabError;
use super::{CRYPTTAB, Edit, System, crypttab};
use anyhow::{Context as _, bail};
use std::path::Path;

/// The change of the crypttab line for the mapping `name`; `None` if it already has the
/// option.
pub fn in_crypttab(system: &System, name: &str) -> anyhow::Result<Option<Edit>> {
    let before =
        system.read(Path::new(CRYPTTAB))?.with_context(|| format!("{CRYPTTAB} does not exist"))?;
    let after = match crypttab::with_discard(&before, name) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{make_edit, undo_edit};
    use std::fs;

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
            let edit = in_crypttab(&system, name).unwrap().unwrap();
            make_edit(&system, &edit).unwrap();
            assert!(make_edit(&system, &edit).is_err(), "the file is not as planned");
            edit
        };
        let (first, second) = (done("home"), done("srv"));
        assert_eq!(text(), "home /dev/c none luks,discard\nsrv /dev/d none luks,discard\n");
        assert_eq!(in_crypttab(&system, "home").unwrap(), None, "nothing to do a second time");
        assert!(
            in_crypttab(&system, "var")
                .unwrap_err()
                .to_string()
                .contains("no longer in /etc/crypttab")
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
}
