//! State of every filesystem that survives restarts of the daemon.

use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use trimtab_linux::sys::beneath::{self, Dir, PRIVATE_FILE, named};
use trimtab_sim::policy::PolicyState;

/// Largest state file, in bytes.
const STATE_BYTES_MAX: u64 = 1 << 20;

/// The saved state of one filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemState {
    /// Version of the file's format.
    pub version: u32,
    /// Policy of this state. Another policy starts over, but continues a pass in
    /// progress.
    pub policy: String,
    /// The policy's numbers.
    pub numbers: Vec<(String, u64)>,
    /// ext4 must forget its trimmed marks before each remaining window of the pass.
    pub forget: bool,
    /// Counter that `written.last` came from; empty in files of earlier versions.
    #[serde(default)]
    pub counter: String,
    /// Boot in which the counter was read.
    #[serde(default)]
    pub boot: String,
    /// End of the last complete pass, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pass_unix_s: Option<u64>,
    /// First start of this policy on the filesystem, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen_unix_s: Option<u64>,
}

impl FilesystemState {
    /// From a policy's state.
    pub fn of(policy: &str, state: PolicyState, forget: bool) -> Self {
        Self {
            version: 1,
            policy: policy.to_owned(),
            numbers: state.entries,
            forget,
            ..Self::default()
        }
    }

    /// Adapts the state to a counter, which may be another one or have restarted at 0
    /// with this boot. Earlier writes stay counted.
    pub fn for_counter(mut self, counter: &str, restarts_at_boot: bool, boot: &str) -> Self {
        const LAST: &str = "written.last";
        if self.counter != counter {
            self.numbers.retain(|(name, _)| name != LAST);
        } else if restarts_at_boot && self.boot != boot {
            self.numbers
                .iter_mut()
                .filter(|(name, _)| name == LAST)
                .for_each(|(_, value)| *value = 0);
        }
        self
    }

    /// The state for a policy.
    pub fn state(&self) -> PolicyState {
        let mut state = PolicyState::default();
        for (name, value) in &self.numbers {
            state.set(name, *value);
        }
        state
    }
}

/// The state file of one filesystem.
#[derive(Clone, Debug)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// The file for the filesystem with this id.
    pub fn new(directory: &Path, id: &str) -> Self {
        Self(directory.join(format!("state-{id}.json")))
    }

    /// Reads the state; empty without a file. An unusable file is set aside, and the
    /// second value is a message about it.
    pub fn load(&self) -> (FilesystemState, Option<String>) {
        let why = match named::read_own(&self.0, STATE_BYTES_MAX) {
            Ok(bytes) => match serde_json::from_slice::<FilesystemState>(&bytes) {
                Ok(found) if found.version == 1 => return (found, None),
                Ok(found) => {
                    format!("it has version {}, and this program knows version 1", found.version)
                }
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (FilesystemState::default(), None);
            }
            Err(error) => error.to_string(),
        };
        let aside = beneath::set_aside(&self.0);
        let kept = aside.map_or_else(
            |error| format!("it cannot be set aside: {error}"),
            |to| format!("it is kept as {}", to.display()),
        );
        (
            FilesystemState::default(),
            Some(format!(
                "the state in {} cannot be used: {why}; {kept}, and the policy starts over",
                self.0.display()
            )),
        )
    }

    /// Saves atomically: after a crash, the file is the old or the new one.
    pub fn save(&self, remembered: &FilesystemState) -> io::Result<()> {
        let text = serde_json::to_vec(remembered)?;
        let directory = Dir::open_or_make(self.0.parent().unwrap_or(Path::new("/")))?;
        directory.write_atomically(self.0.file_name().unwrap_or_default(), PRIVATE_FILE, |file| {
            file.write_all(&text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_value_is_valid_for_its_counter_and_boot_only() {
        let mut state = PolicyState::default();
        state.set("written.last", 70);
        state.set("written.since", 5);
        let remembered = FilesystemState {
            counter: "device".into(),
            boot: "boot 1".into(),
            ..FilesystemState::of("adaptive", state, false)
        };
        let last =
            |r: FilesystemState| (r.state().get("written.last"), r.state().get("written.since"));
        assert_eq!(
            last(remembered.clone().for_counter("device", true, "boot 1")),
            (Some(70), Some(5))
        );
        assert_eq!(
            last(remembered.clone().for_counter("device", true, "boot 2")),
            (Some(0), Some(5))
        );
        assert_eq!(
            last(remembered.clone().for_counter("device", false, "boot 2")),
            (Some(70), Some(5))
        );
        assert_eq!(last(remembered.for_counter("filesystem", false, "boot 1")), (None, Some(5)));
    }

    #[test]
    fn load_returns_saved_state_and_sets_damaged_file_aside() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "xfs-1");
        assert_eq!(file.load(), (FilesystemState::default(), None));
        let mut state = PolicyState::default();
        state.set("sweep.next", 5);
        let remembered = FilesystemState {
            last_pass_unix_s: Some(1_800_000_000),
            ..FilesystemState::of("idle", state.clone(), true)
        };
        file.save(&remembered).unwrap();
        assert_eq!(file.load(), (remembered, None));
        assert_eq!(file.load().0.state(), state);
        for (rubbish, kept) in [
            (&b"{\"version\":1"[..], "state-xfs-1.json.set-aside-1"),
            (b"\0", "state-xfs-1.json.set-aside-2"),
        ] {
            std::fs::write(&file.0, rubbish).unwrap();
            let (remembered, said) = file.load();
            assert!(
                remembered == FilesystemState::default()
                    && said.as_ref().is_some_and(|said| said.contains(kept)),
                "{said:?}"
            );
            assert_eq!(
                std::fs::read(directory.path().join(kept)).unwrap(),
                rubbish,
                "what was there is kept"
            );
            assert_eq!(file.load(), (FilesystemState::default(), None), "it is said once");
        }
    }
}
