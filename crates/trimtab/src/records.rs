//! Undo records of changes: one directory each, named by a number. The last one is undone
//! first.

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use std::io::{self, Read as _};
use trimtab_linux::sys::beneath::Dir;

/// Name of the file in each directory that describes the changes.
pub const RECORD: &str = "record.json";
/// Version of the records.
pub const VERSION: u32 = 1;
/// Maximum size of a record, and of each file stored with it, in bytes.
const BYTES_MAX: u64 = 8 << 20;

/// The directory that contains all records.
pub struct Records(pub Dir);

impl Records {
    /// Existing record numbers, in ascending order.
    pub fn numbers(&self) -> anyhow::Result<Vec<u32>> {
        let names =
            self.0.names().with_context(|| format!("cannot list {}", self.0.path().display()))?;
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The last number; 0 if there is none.
    pub fn last(&self) -> anyhow::Result<u32> {
        Ok(self.numbers()?.last().copied().unwrap_or(0))
    }

    /// Reads the record in a directory. `None` if either is missing: the process was
    /// killed before it changed anything, or after it removed the record.
    pub fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        version: impl Fn(&T) -> u32,
    ) -> anyhow::Result<Option<T>> {
        let shown =
            || format!("{} cannot be used", self.0.path().join(name).join(RECORD).display());
        let text =
            absent(self.0.open_dir(name).and_then(|dir| read(&dir, RECORD))).with_context(shown)?;
        let Some(text) = text else { return Ok(None) };
        let record: T = serde_json::from_str(&text).with_context(shown)?;
        let version = version(&record);
        ensure!(version == VERSION, "{}: version {version} is of a newer trimtab", shown());
        Ok(Some(record))
    }

    /// Removes a directory, the record first: the remaining files are meaningless without
    /// it.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        let remove = || {
            let Some(dir) = absent(self.0.open_dir(name))? else { return Ok(()) };
            dir.remove_ours(RECORD)?;
            self.0.remove_tree(name, &dir).map(drop)
        };
        remove().with_context(|| format!("cannot remove {}", self.0.path().join(name).display()))
    }
}

/// Directory name of a number.
pub fn numbered(number: u32) -> String {
    format!("{number:04}")
}

/// Reads a text file of limited size.
pub fn read(directory: &Dir, name: &str) -> io::Result<String> {
    let mut text = String::new();
    directory.open_read(name)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Maps a "not found" error to `None`.
pub fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
