//! The option `discard` in files of the system, for who mends (`doctor --fix`): each a change of one line.

use super::fstab::Problem;
use super::{CRYPTTAB, Edit, FSTAB, Plan, System, crypttab, fstab};
use anyhow::{Context as _, bail};
use std::path::Path;

/// The line of fstab that mounts something at `mount_point`; `None` if it has the option already.
pub fn in_fstab(system: &System, mount_point: &Path) -> anyhow::Result<Option<Plan>> {
    planned(system, FSTAB, mount_point, |text| fstab::with_discard(text, mount_point, Some("discard")))
}

/// The line of fstab for the swap area that it calls `source`.
pub fn in_fstab_for_swap(system: &System, source: &Path) -> anyhow::Result<Option<Plan>> {
    planned(system, FSTAB, source, |text| fstab::swap_with_discard(text, source))
}

/// The line of crypttab for the mapping `name`.
pub fn in_crypttab(system: &System, name: &str) -> anyhow::Result<Option<Plan>> {
    planned(system, CRYPTTAB, Path::new(name), |text| crypttab::with_discard(text, name))
}

fn planned(
    system: &System,
    file: &str,
    subject: &Path,
    with: impl FnOnce(&str) -> Result<String, Problem>,
) -> anyhow::Result<Option<Plan>> {
    let before = system.read(Path::new(file))?.with_context(|| format!("there is no {file}"))?;
    let after = match with(&before) {
        Ok(after) => after,
        Err(Problem::NotListed) => bail!("{} is not in {file} any more", subject.display()),
        Err(Problem::Twice) => bail!("{} is in {file} more than once: change it by hand", subject.display()),
    };
    let changed = after != before;
    let edit = Edit { file: file.into(), before: Some(before), after: Some(after) };
    let plan = || Plan {
        mount_point: subject.to_owned(),
        fs_type: String::new(),
        policy: "doctor --fix".to_owned(),
        edits: vec![edit],
        remarks: Vec::new(),
    };
    Ok(changed.then(plan))
}
