//! Sources of the figures of a drive.

use alloc::format;
use alloc::string::String;
use serde::Serialize;

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its kind.
    pub kind: SourceKind,
    /// Which data sheet, measurement or reasoning.
    pub text: String,
}

impl Source {
    /// The source as a drive file states it.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}: {}", self.kind.name(), self.text)
    }
}

/// Kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The maker's or a reviewer's figure.
    Published,
    /// Chosen so that the model shows a published figure, which is therefore no prediction.
    Fitted,
    /// Typical of the class; not known for this drive.
    Assumed,
    /// Found by probes of this very drive.
    Measured,
}

impl SourceKind {
    /// The word that precedes the source in a drive file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
            Self::Measured => "measured",
        }
    }
}
