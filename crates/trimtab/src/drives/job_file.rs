//! fio job files on disk.

use std::path::Path;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named;
use trimtab_sim::workload::jobs::{Job, JobFile};

/// Largest job file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The jobs of the file at `path`. Lists once the keys that have no effect here.
///
/// # Errors
/// The file is unreadable, or contains an unsupported key or value (with its line).
pub fn read(path: &Path, context: &Context) -> anyhow::Result<Vec<Job>> {
    let text = named::read_text(path, BYTES_MAX)
        .map_err(|error| of_named(error, path, "cannot read", "name a fio job file"))?;
    let file = JobFile::parse(&text)
        .map_err(|error| UsageError::new(format!("{}, {error}", path.display())))?;
    if !file.not_used.is_empty() {
        context.remark(&format!("{}: not used here: {}", path.display(), file.not_used.join(", ")));
    }
    Ok(file.jobs)
}
