//! Months of use that were modelled on the twin of a drive that was measured.

use super::Study;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The twin, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinOrigin {
    /// The drive that it was learned from.
    pub model: String,
    /// When.
    pub learned: String,
    /// Why it may not be this one.
    pub doubts: Vec<String>,
    /// Whether the costs of its TRIMs are only typical of its class: through a filesystem none is probed.
    pub typical_trims: bool,
}

/// Months of use on a twin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TwinMonths {
    /// The twin.
    pub origin: TwinOrigin,
    /// The study of the twin.
    pub study: Study,
}
