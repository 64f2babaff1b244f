//! A temporary change of a filesystem's discard option, restored when its guard is
//! dropped.

use super::discard_option::{DiscardOption, set};
use super::journal::{Change, TemporaryChange, TemporaryJournal, UndoResult};
use crate::host::mountinfo::{self, Mount};
use crate::host::root::Root;
use anyhow::{Context as _, bail};

/// Guard of a changed mount option; restores it on drop.
#[derive(Debug)]
pub struct DiscardChange {
    before: Mount,
    /// The recorded change, until the option is restored.
    change: Option<TemporaryChange>,
}

impl DiscardChange {
    /// Records the current option, then sets `wanted` on the filesystem
    /// mounted at `mount`.
    pub fn set(mount: &Mount, wanted: &DiscardOption) -> anyhow::Result<Self> {
        let (name, point) = (format!("mount-{}", mount.dev), mount.mount_point.display());
        let change = Change::of_mount(mount, wanted)
            .and_then(|change| TemporaryJournal::here().begin(&name, change))
            .with_context(|| {
                format!("cannot record how {point} is mounted, so its options are not changed")
            })?;
        // Restores the option even if setting it succeeds only partly.
        let changed = Self { before: mount.clone(), change: Some(change) };
        set(&changed.before, wanted)?;
        Ok(changed)
    }

    /// Restores the option and verifies that all options have their earlier values.
    pub fn restore(mut self) -> anyhow::Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> anyhow::Result<()> {
        let Some(change) = self.change.take() else { return Ok(()) };
        let (before, point) = (&self.before, self.before.mount_point.display());
        match change.restore()? {
            UndoResult::Changed => bail!(
                "another process has remounted {point} or changed its options \
                    meanwhile: they stay as they are; it had {} before",
                DiscardOption::of(before)
            ),
            UndoResult::PutBack | UndoResult::Nothing | UndoResult::Left | UndoResult::Failed => {}
        }
        // If this mount is gone, the option was restored through another mount, and
        // nothing can be compared.
        let mounts = mountinfo::read(&Root::live()?).context("cannot read the mount table")?;
        let Some(now) =
            mounts.iter().find(|mount| (mount.id, mount.dev) == (before.id, before.dev))
        else {
            return Ok(());
        };
        if (&now.options, &now.fs_options) != (&before.options, &before.fs_options) {
            bail!(
                "the options of {point} were '{},{}' and are now '{},{}'",
                before.options,
                before.fs_options,
                now.options,
                now.fs_options
            );
        }
        Ok(())
    }
}

impl Drop for DiscardChange {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            crate::output::complain(&format!("cannot put the mount options back: {error:#}"));
        }
    }
}
