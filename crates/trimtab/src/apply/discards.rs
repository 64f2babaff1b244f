//! Plans the option `discard` in system files for `doctor --fix`; each plan changes one line.

use super::fstab::FstabError;
use super::{ApplyPlan, CRYPTTAB, Edit, FSTAB, System, crypttab, fstab};
use anyhow::{Context as _, bail};
use std::path::Path;

/// The change of the fstab line for `mount_point`; `None` if it already has the option.
pub fn in_fstab(system: &System, mount_point: &Path) -> anyhow::Result<Option<ApplyPlan>> {
    planned(system, FSTAB, mount_point, |text| fstab::with_discard(text, mount_point, Some("discard")))
}

/// The change of the crypttab line for the mapping `name`.
pub fn in_crypttab(system: &System, name: &str) -> anyhow::Result<Option<ApplyPlan>> {
    planned(system, CRYPTTAB, Path::new(name), |text| crypttab::with_discard(text, name))
}

fn planned(
    system: &System,
    file: &str,
    subject: &Path,
    with: impl FnOnce(&str) -> Result<String, FstabError>,
) -> anyhow::Result<Option<ApplyPlan>> {
    let before = system.read(Path::new(file))?.with_context(|| format!("{file} does not exist"))?;
    let after = match with(&before) {
        Ok(after) => after,
        Err(FstabError::NotListed) => bail!("{} is no longer in {file}", subject.display()),
        Err(FstabError::Twice) => bail!("{} is in {file} more than once; change it by hand", subject.display()),
    };
    let changed = after != before;
    let edit = Edit { file: file.into(), before: Some(before), after: Some(after) };
    let plan = || ApplyPlan {
        mount_point: subject.to_owned(),
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

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("etc")).unwrap();
        files.iter().for_each(|(name, text)| fs::write(directory.path().join("etc").join(name), text).unwrap());
        let system = System::new(Some(directory.path()), None).unwrap();
        (directory, system)
    }

    #[test]
    fn file_change_is_undone_unless_edited_since() {
        let fstab = "/dev/a /a ntfs3 rw 0 0\n/dev/b /b ntfs3 rw 0 0\n";
        let (directory, system) = system(&[("fstab", fstab), ("crypttab", "home /dev/c none luks\n")]);
        let text = |name: &str| fs::read_to_string(directory.path().join("etc").join(name)).unwrap();
        let done = |plan: Option<ApplyPlan>| {
            let number = next_number(&system).unwrap();
            let kept = carry_out(&system, &plan.unwrap()).unwrap().unwrap();
            assert_eq!(kept.file_name().unwrap(), format!("{number:04}").as_str());
            number
        };
        let first = done(in_fstab(&system, Path::new("/a")).unwrap());
        let second = done(in_fstab(&system, Path::new("/b")).unwrap());
        let third = done(in_crypttab(&system, "home").unwrap());
        assert_eq!(text("fstab"), "/dev/a /a ntfs3 rw,discard 0 0\n/dev/b /b ntfs3 rw,discard 0 0\n");
        assert_eq!(text("crypttab"), "home /dev/c none luks,discard\n");
        assert_eq!(in_fstab(&system, Path::new("/a")).unwrap(), None, "nothing to do a second time");
        assert!(in_fstab(&system, Path::new("/c")).unwrap_err().to_string().contains("no longer in /etc/fstab"));

        assert!(undo_one(&system, first, true).unwrap().is_some(), "the second has changed another line");
        assert!(undo_one(&system, third, true).unwrap().is_some() && text("crypttab").contains("discard"));
        assert!(undo_one(&system, third, false).unwrap().is_some() && undo_one(&system, second, false).unwrap().is_some());
        assert!(undo_one(&system, first, false).unwrap().is_some());
        assert_eq!((text("fstab").as_str(), text("crypttab").as_str()), (fstab, "home /dev/c none luks\n"));
        assert_eq!(undo_one(&system, first, false).unwrap(), None, "it no longer exists");
    }
}
