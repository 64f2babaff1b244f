//! Policy state that survives a restart.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};

/// Named numbers that a policy keeps across restarts; the driver stores them. Unknown and
/// missing names are harmless: the state may be of another version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyState {
    /// Names and values, sorted by name.
    pub entries: Vec<(String, u64)>,
}

impl PolicyState {
    /// Stores `value` under `name`.
    pub fn set(&mut self, name: &str, value: u64) {
        match self.entries.binary_search_by(|(key, _)| key.as_str().cmp(name)) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (name.to_string(), value)),
        }
    }

    /// Stores `value` under `name` unless it is `None`.
    pub fn set_some(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Value of `name`. Does not rely on the order, which stored state may have lost.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// An instant or a duration.
    #[must_use]
    pub fn nanos(&self, name: &str) -> Option<Nanos> {
        self.get(name).map(Nanos)
    }

    /// A size.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        self.get(name).map(Bytes)
    }
}
