//! A process that makes a run again does as the run says, which may be anybody's words: it is told that it is one, and where it may write.

/// The directory, which also holds the specifications of drives that are taken instead of what their names mean today.
pub const VARIABLE: &str = "TRIMTAB_RERUN_DRIVES";

/// The only place where this process may write, if it makes a run again.
#[must_use]
pub fn directory() -> Option<std::path::PathBuf> {
    std::env::var_os(VARIABLE).map(Into::into)
}
