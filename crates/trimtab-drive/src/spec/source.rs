//! Sources of the figures of a drive.

use crate::named;
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

named! {
    "kind of source"
    /// Kind of a source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SourceKind {
        /// The maker's or a reviewer's figure.
        Published = "published",
        /// Chosen so that the model shows a published figure, which is therefore no prediction.
        Fitted = "fitted",
        /// Typical of the class; not known for this drive.
        Assumed = "assumed",
        /// Found by probes of this very drive.
        Measured = "measured",
    }
}
