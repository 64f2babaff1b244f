//! Cache of filled filesystems that several runs start from: filled once, copied for each
//! run but the last.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use trimtab_drive::units::Bytes;
use trimtab_study::study::cells::StudyCell;
use trimtab_study::study::modelled::{Setup, UsedVolume};
use trimtab_study::study::problem::StudyError;

/// A snapshot is kept only with this many times its drive's memory: two active drives, a
/// copy of each, and the snapshot.
const ROOM: u64 = 5;

/// Snapshots by the settings that determine them.
pub struct SnapshotCache {
    known: BTreeMap<String, Mutex<SnapshotSlot>>,
    memory: Bytes,
}

#[derive(Default)]
struct SnapshotSlot {
    /// Runs that still need it.
    left: usize,
    made: Option<UsedVolume>,
}

impl SnapshotCache {
    /// A cache for these runs, on a machine whose running cells may use `memory`.
    pub fn of<'a>(cells: impl Iterator<Item = &'a StudyCell>, memory: Bytes) -> Self {
        let mut known: BTreeMap<String, Mutex<SnapshotSlot>> = BTreeMap::new();
        for beginning in cells.filter_map(StudyCell::beginning) {
            known
                .entry(beginning)
                .or_default()
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .left += 1;
        }
        Self { known, memory }
    }

    /// The filled filesystem for a run. The first caller builds it with `make`;
    /// concurrent callers wait.
    ///
    /// # Errors
    /// The drive or the filesystem cannot be built.
    pub fn take(
        &self,
        setup: &Setup,
        make: impl FnOnce() -> Result<UsedVolume, StudyError>,
    ) -> Result<UsedVolume, StudyError> {
        let room = setup.drive.spec.table_bytes() <= self.memory.0 / ROOM;
        let Some(slot) = self.known.get(&setup.beginning()).filter(|_| room) else { return make() };
        // A thread that panicked here built nothing.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.left = slot.left.saturating_sub(1);
        let made = match slot.made.take() {
            Some(made) => made,
            None => make()?,
        };
        if slot.left > 0 {
            slot.made = Some(made.clone());
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::shipped;
    use trimtab_sim::policy::PolicySpec;
    use trimtab_sim::workload::tree::TreeList;
    use trimtab_study::study::cells;
    use trimtab_study::study::job::Job;
    use trimtab_study::study::used::FreeExtentLengths;
    use trimtab_study::sweep::Value;
    use trimtab_study::sweep::settings::changed_drive;

    #[test]
    fn run_from_snapshot_equals_run_without() {
        let capacity = Value::Text("4GiB".to_owned());
        let drive = changed_drive(
            shipped::named("crucial-m4-128gb").unwrap(),
            &[("drive.capacity", &capacity)],
        )
        .unwrap()
        .drive;
        let used = FreeExtentLengths::by_churn(
            &trimtab_study::study::modelled::volume_named("ext4"),
            0.6,
            1,
        )
        .unwrap();
        let setup = Setup::new(drive, "drive:x", "ext4", 0.6, used, 1).unwrap();
        let list = TreeList::synthetic(300, Bytes(8 << 20), DataClass::Random, 1).unwrap();
        let policies: Vec<PolicySpec> =
            PolicySpec::NAMES.iter().map(|name| name.parse().unwrap()).collect();
        let all = cells::deleting(
            &setup,
            &[Job::Tree { list: Arc::new(list), seed: 1 }],
            &policies,
            None,
        );
        assert_eq!(all.len(), PolicySpec::NAMES.len());
        for (memory, drives) in [(Bytes(1 << 40), 1), (Bytes(1 << 20), all.len() as u32)] {
            let (shared, mut built) = (SnapshotCache::of(all.iter(), memory), 0);
            for cell in &all {
                let mut beginning = |setup: &Setup| {
                    shared.take(setup, || {
                        built += 1;
                        setup.in_use()
                    })
                };
                let (run, _) = cell.run_from(&mut beginning, &mut ()).unwrap();
                assert!(run == cell.run(&mut ()).unwrap().0, "{}", cell.policy.name());
            }
            assert_eq!(built, drives, "a machine with {memory}");
        }
    }
}
