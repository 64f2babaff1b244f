//! Plans the option `discard` in crypttab for `doctor --fix`; each plan changes one line.

use super::fstab::FstabError;
use super::{ApplyPlan, CRYPTTAB, Edit, System, crypttab};
use anyhow::{Context as _, bail};
use std::path::Path;

/// The change of the crypttab line for the mapping `name`; `None` if it already has the
/// option.
pub fn in_crypttab(system: &System, name: &str) -> anyhow::Result<Option<ApplyPlan>> {
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
    let plan = || ApplyPlan {
        mount_point: name.into(),
        fs_type: String::new(),
        policy: "doctor --fix".to_owned(),
        edits: vec![edit],
        remarks: Vec::new(),
    };
    Ok(changed.then(plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{carry_out, next_number, undo_one};
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
        let done = |plan: Option<ApplyPlan>| {
            let number = next_number(&system).unwrap();
            let kept = carry_out(&system, &plan.unwrap()).unwrap().unwrap();
            assert_eq!(kept.file_name().unwrap(), format!("{number:04}").as_str());
            number
        };
        let first = done(in_crypttab(&system, "home").unwrap());
        let second = done(in_crypttab(&system, "srv").unwrap());
        assert_eq!(text(), "home /dev/c none luks,discard\nsrv /dev/d none luks,discard\n");
        assert_eq!(in_crypttab(&system, "home").unwrap(), None, "nothing to do a second time");
        assert!(
            in_crypttab(&system, "var")
                .unwrap_err()
                .to_string()
                .contains("no longer in /etc/crypttab")
        );

        assert!(
            undo_one(&system, first, true).unwrap().is_some(),
            "the second has changed another line"
        );
        assert!(text().contains("luks,discard\nsrv"), "nothing is changed yet");
        assert!(
            undo_one(&system, second, false).unwrap().is_some()
                && undo_one(&system, first, false).unwrap().is_some()
        );
        assert_eq!(text(), crypttab);
        assert_eq!(undo_one(&system, first, false).unwrap(), None, "it no longer exists");
    }
}
