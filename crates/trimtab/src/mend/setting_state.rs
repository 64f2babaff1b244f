//! State of a setting that a change concerns.

/// State of a setting, compared with its values before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingState {
    /// As before the change.
    Before,
    /// As the change made it.
    Set,
    /// Something else, in words.
    Other(String),
    /// It is not there.
    Gone,
    /// The kernel shows nothing of it.
    Hidden,
}

impl SettingState {
    /// Set or as before.
    pub fn set(is: bool) -> Self {
        if is { Self::Set } else { Self::Before }
    }
}
