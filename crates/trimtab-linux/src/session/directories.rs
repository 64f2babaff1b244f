//! Locations of run-time files.

use std::path::PathBuf;

/// Environment variable that moves the run-time directory. Attached drives are found
/// there too.
pub const RUN_VARIABLE: &str = "TRIMTAB_RUNTIME_DIR";

/// Directory of locks and other files that need not survive a reboot: `/run/trimtab`,
/// unless the environment overrides it. All processes that trim the same drives must use
/// the same directory, so systemd's `RUNTIME_DIRECTORY` is ignored.
pub fn run_directory() -> PathBuf {
    std::env::var_os(RUN_VARIABLE)
        .filter(|d| !d.is_empty())
        .map_or_else(|| PathBuf::from("/run/trimtab"), PathBuf::from)
}
