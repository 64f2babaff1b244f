//! Sources of specification values.

use crate::named;
use alloc::format;
use alloc::string::String;
use serde::Serialize;

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its kind.
    pub kind: SourceKind,
    /// Data sheet, measurement or reasoning.
    pub text: String,
}

impl Source {
    /// The source as written in a drive file.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}: {}", self.kind.name(), self.text)
    }
}

named! {
    "kind of source"
    /// Source kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SourceKind {
        /// Stated by the manufacturer or a reviewer.
        Published = "published",
        /// Fitted to a published figure, which is therefore not a prediction.
        Fitted = "fitted",
        /// Typical of the drive class; unknown for this drive.
        Assumed = "assumed",
        /// Measured by probes of this drive.
        Measured = "measured",
    }
}
