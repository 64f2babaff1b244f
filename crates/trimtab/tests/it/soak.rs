//! Two constant threats: another user who renames, links and swaps files during every
//! command that writes, and `kill -9` at any moment of every command that changes
//! anything outside its own files.
//!
//! `TRIMTAB_SOAK_TRIES=1000` sets the attacks on each command, and
//! `TRIMTAB_SOAK_KILLS=200` the kills, instead of a few.

mod attacks;
mod kills;

use crate::attached_drive::{ok, slow_trims};
use crate::support::{LoopMount, have_root, process, skip};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_drive::rng::Stream;
use trimtab_linux::session::discard_option::mount_of;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Everything below a directory: kind, owner, mode, size, content and inode.
fn state(directory: &Path) -> BTreeMap<PathBuf, (u32, u32, u64, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(
            path,
            (metadata.uid(), metadata.mode(), metadata.len(), metadata.ino(), content),
        );
    }
    found
}

/// Ends a child however a test ends.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
