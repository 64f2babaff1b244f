//! Confinement of a process that repeats a recorded run. The run may come from an
//! untrusted source, so environment variables limit where the process may write and which
//! files it may read.

use std::io;
use std::path::{Path, PathBuf};

/// Names the output directory. It also holds the drive specifications to use instead of
/// the current ones of the same name.
pub const VARIABLE: &str = "TRIMTAB_RERUN_DRIVES";
/// Input files that the user allows explicitly, separated like the entries of `PATH`.
pub const INPUTS: &str = "TRIMTAB_RERUN_INPUTS";

/// The only directory where this process may write; `None` if it does not repeat a run.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(Into::into)
}

/// Checks that this process may read `path`. A repeated run must not read a file that
/// only the run itself names: its author might want to learn the content.
///
/// # Errors
/// `PermissionDenied` if reading is not allowed.
pub fn check_read(path: &Path) -> io::Result<()> {
    let Some(directory) = directory() else { return Ok(()) };
    let inputs = std::env::var_os(INPUTS).unwrap_or_default();
    let named =
        std::env::split_paths(&inputs).any(|input| !input.as_os_str().is_empty() && input == path);
    if named
        || path.starts_with(directory)
            && !path.components().any(|part| part == std::path::Component::ParentDir)
    {
        return Ok(());
    }
    let what =
        format!("the run names this file; if it may be read, add --input {}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}
