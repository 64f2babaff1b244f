//! Records of changes, so that they can be undone: a directory each, with a number for a name. The last one is undone first.

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use std::io::{self, Read as _};
use trimtab_linux::sys::beneath::Dir;

/// Name of the file in each directory that says what was changed.
pub const RECORD: &str = "record.json";
/// Version of the records.
pub const VERSION: u32 = 1;
/// No record, and no file beside one, is longer.
const BYTES_MAX: u64 = 8 << 20;

/// The directory that all of them are in.
pub struct Records(pub Dir);

impl Records {
    /// The numbers there are, the least first.
    pub fn numbers(&self) -> anyhow::Result<Vec<u32>> {
        let names = self.0.names().with_context(|| format!("cannot list {}", self.0.path().display()))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The last number; 0 if there is none.
    pub fn last(&self) -> anyhow::Result<u32> {
        Ok(self.numbers()?.last().copied().unwrap_or(0))
    }

    /// The record in a directory; `None` if either is missing, because a process was killed before it had changed anything, or after it had removed the
    /// record.
    pub fn read<T: DeserializeOwned>(&self, name: &str, version: impl Fn(&T) -> u32) -> anyhow::Result<Option<T>> {
        let shown = || format!("{} cannot be used", self.0.path().join(name).join(RECORD).display());
        let text = absent(self.0.open_dir(name).and_then(|dir| read(&dir, RECORD))).with_context(shown)?;
        let Some(text) = text else { return Ok(None) };
        let record: T = serde_json::from_str(&text).with_context(shown)?;
        let version = version(&record);
        ensure!(version == VERSION, "{}: version {version} is of a newer trimtab", shown());
        Ok(Some(record))
    }

    /// Removes a directory, the record first: without it the rest means nothing.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        let remove = || {
            let Some(dir) = absent(self.0.open_dir(name))? else { return Ok(()) };
            dir.remove_ours(RECORD)?;
            self.0.remove_tree(name, &dir).map(drop)
        };
        remove().with_context(|| format!("cannot remove {}", self.0.path().join(name).display()))
    }
}

/// The directory of a number.
pub fn numbered(number: u32) -> String {
    format!("{number:04}")
}

/// A text, as far as it can be one of ours.
pub fn read(directory: &Dir, name: &str) -> io::Result<String> {
    let mut text = String::new();
    directory.open_read(name)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// `None` where there is nothing of that name.
pub fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
