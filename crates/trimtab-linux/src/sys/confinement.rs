//! A process that makes a run again does as the run says, which may be anybody's words: it is told that it is one, where it may write, and which
//! files it may read.

use std::io;
use std::path::{Path, PathBuf};

/// The directory, which also holds the specifications of drives that are taken instead of what their names mean today.
pub const VARIABLE: &str = "TRIMTAB_RERUN_DRIVES";
/// Files that the user named again, as the shell writes lists of paths.
pub const INPUTS: &str = "TRIMTAB_RERUN_INPUTS";

/// The only place where this process may write, if it makes a run again.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(Into::into)
}

/// Refuses to read `path` if only a run names it that is made again: the run may come from somebody who wants to know what is in it.
///
/// # Errors
/// That.
pub fn check_read(path: &Path) -> io::Result<()> {
    let Some(directory) = directory() else { return Ok(()) };
    let inputs = std::env::var_os(INPUTS).unwrap_or_default();
    let named = std::env::split_paths(&inputs).any(|input| !input.as_os_str().is_empty() && input == path);
    if named || path.starts_with(directory) && !path.components().any(|part| part == std::path::Component::ParentDir) {
        return Ok(());
    }
    let what = format!("the run names this file; if it may be read, add --input {}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}
