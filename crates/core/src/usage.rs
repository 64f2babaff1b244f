//! What a user asked for and cannot have, in words for that user.

use alloc::string::String;
use core::fmt;

/// What was asked cannot be done as it was asked: a bad value, a bad combination, a missing consent (exit status 2), or a name behind which
/// there is nothing (exit status 1, as for everything that depends on what is there).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    message: String,
    hint: Option<String>,
    missing: bool,
}

impl UsageError {
    /// A usage error: what is wrong and where.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, missing: false }
    }

    /// What is named is well said, but not there: a path, a drive, an attached drive.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { missing: true, ..Self::new(message) }
    }

    /// What is wrong, without what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do instead, if that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether it is only that nothing is there.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.missing
    }

    /// What to do instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}; {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl core::error::Error for UsageError {}
