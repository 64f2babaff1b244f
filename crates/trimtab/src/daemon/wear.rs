//! The daily reading of wear. NVMe drives only: smartctl, which other drives need, needs
//! rights that the service does not have.

use std::path::Path;
use trimtab_linux::host::block::{Bus, LayerKind};
use trimtab_linux::host::root::Root;
use trimtab_linux::wear::assessment::{add_ocp_log, all_drives, of_kernel};
use trimtab_linux::wear::history::WearHistory;

/// Adds a reading of every NVMe drive to the history in `state`, unless it has one of
/// this day.
pub fn read(root: &Root, state: &Path) -> anyhow::Result<()> {
    let mut history = WearHistory::open(state)?;
    for layer in all_drives(root)?.iter().filter(|layer| layer.kind == LayerKind::Drive(Bus::Nvme))
    {
        // `trimtab wear` reports a drive that cannot be read.
        if let Ok(mut reading) = of_kernel(root, layer) {
            add_ocp_log(layer, &mut reading, Some(&history));
            history.add(&reading);
        }
    }
    history.save()
}
