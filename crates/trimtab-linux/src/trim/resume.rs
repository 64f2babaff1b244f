//! The state of an interrupted pass, stored per filesystem until the pass is complete.

use crate::sys::beneath::{Dir, PRIVATE_FILE, named};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use trimtab_sim::policy::PolicyState;

/// Environment variable that overrides the state directory.
pub const STATE_VARIABLE: &str = "TRIMTAB_STATE_DIR";

/// The state directory: `/var/lib/trimtab`, unless the environment overrides it.
pub fn state_directory() -> PathBuf {
    std::env::var_os(STATE_VARIABLE)
        .filter(|d| !d.is_empty())
        .map_or_else(|| PathBuf::from("/var/lib/trimtab"), PathBuf::from)
}

const BYTES_MAX: u64 = 1 << 20;
/// An older interrupted pass starts over: the space it trimmed has been used since.
const AGE_MAX_S: u64 = 7 * 86_400;

/// An interrupted pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterruptedPass {
    /// Version of the file format.
    pub version: u32,
    /// The policy and its settings.
    pub policy: String,
    /// Minimum extent in bytes.
    pub min_extent: u64,
    /// The state of the policy.
    pub state: Vec<(String, u64)>,
    /// ext4's last minimum extent must be reset before each window.
    pub forget: bool,
    /// Start of the pass, seconds since 1970.
    pub started_unix_s: u64,
    /// The pass was stopped in order, so that `sent_bytes` is all that it sent. False
    /// while it runs.
    #[serde(default)]
    pub stopped: bool,
    /// Bytes that had reached the devices.
    pub sent_bytes: u64,
}

impl InterruptedPass {
    /// The state in the form that the policy expects.
    pub fn policy_state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        for (name, value) in &self.state {
            state.set(name, *value);
        }
        state
    }
}

/// The state file of one filesystem.
#[derive(Clone, Debug)]
pub struct ResumeFile {
    path: PathBuf,
}

impl ResumeFile {
    /// For the filesystem with this id.
    pub fn new(directory: &Path, id: &str) -> Self {
        Self { path: directory.join(format!("trim-{id}.json")) }
    }

    /// The stored state; `None` if it is missing, unreadable or too old.
    pub fn load(&self, now_unix_s: u64) -> Option<InterruptedPass> {
        let found: InterruptedPass =
            serde_json::from_slice(&named::read_own(&self.path, BYTES_MAX).ok()?).ok()?;
        let age = now_unix_s.checked_sub(found.started_unix_s)?;
        (found.version == 1 && age <= AGE_MAX_S).then_some(found)
    }

    /// Stores `interrupted` atomically: the file is always the old or the new one.
    pub fn save(&self, interrupted: &InterruptedPass) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(interrupted)?;
        let (directory, name) = self.place();
        Dir::open_or_make(directory)?
            .write_atomically(name, PRIVATE_FILE, |file| file.write_all(&text))
    }

    fn place(&self) -> (&Path, &OsStr) {
        (self.path.parent().unwrap_or(Path::new("/")), self.path.file_name().unwrap_or_default())
    }

    /// Removes the file when the pass is complete.
    pub fn remove(&self) {
        let (directory, name) = self.place();
        let _ = Dir::open(directory).and_then(|directory| directory.remove_ours(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_ignores_old_and_broken_state() {
        let directory = tempfile::tempdir().unwrap();
        let file = ResumeFile::new(&directory.path().join("new"), "ext4-00");
        assert_eq!(file.load(1000), None);
        let pass = InterruptedPass {
            version: 1,
            policy: "none".into(),
            min_extent: 0,
            state: vec![("sweep.next".into(), 7)],
            forget: true,
            started_unix_s: 1000,
            stopped: false,
            sent_bytes: 5,
        };
        file.save(&pass).unwrap();
        assert_eq!(file.load(1001).as_ref(), Some(&pass));
        assert_eq!(file.load(1001).unwrap().policy_state().get("sweep.next"), Some(7));
        assert_eq!(file.load(999), None, "from the future");
        assert_eq!(file.load(1001 + AGE_MAX_S), None, "too old");
        std::fs::write(&file.path, "{").unwrap();
        assert_eq!(file.load(1001), None);
        file.remove();
        assert_eq!(file.load(1001), None);
    }
}
