//! What a policy remembers across restarts.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};

/// What a policy remembers across restarts: named numbers, to be stored in whatever way the driver stores things.
/// A policy ignores names that it does not know and does without those that are missing, so that a state from another version or
/// another policy does no harm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Names and values, sorted by name.
    pub entries: Vec<(String, u64)>,
}

impl State {
    /// Remembers `value` as `name`.
    pub fn set(&mut self, name: &str, value: u64) {
        match self.entries.binary_search_by(|(key, _)| key.as_str().cmp(name)) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (name.to_string(), value)),
        }
    }

    /// Remembers `value` as `name` if there is one.
    pub fn set_some(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// What is remembered as `name`. Does not rely on the order, which a stored state may have lost.
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
