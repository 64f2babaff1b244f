//! Where things live that are not the user's.

use std::path::PathBuf;

/// Moves everything that need not survive a reboot; attached drives are found there too.
pub const RUN_VARIABLE: &str = "TRIMTAB_RUNTIME_DIR";

/// Where locks and other things live that need not survive a reboot: `/run/trimtab`, unless the environment says otherwise.
/// All processes that trim the same drives have to agree on it, which is why systemd's `RUNTIME_DIRECTORY` does not count.
#[must_use]
pub fn run_directory() -> PathBuf {
    std::env::var_os(RUN_VARIABLE).filter(|d| !d.is_empty()).map_or_else(|| PathBuf::from("/run/trimtab"), PathBuf::from)
}
