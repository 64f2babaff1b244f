//! State of a setting that a change concerns.

/// State of a setting, compared with its values before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingState {
    /// As before the change.
    Before,
    /// As the change made it.
    Set,
    /// Another state, described in words.
    Other(String),
    /// The object does not exist.
    Gone,
}

impl SettingState {
    /// `Set` if true, `Before` otherwise.
    pub fn set(is: bool) -> Self {
        if is { Self::Set } else { Self::Before }
    }
}
