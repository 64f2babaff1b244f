//! Months of use modelled on the twin of a measured drive.

use super::Study;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A twin and its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinOrigin {
    /// Model of the drive that it was learned from.
    pub model: String,
    /// Time of learning.
    pub learned: String,
    /// Why the twin may not match this drive.
    pub doubts: Vec<String>,
    /// True if the TRIM costs are class typical: a filesystem target cannot be probed for
    /// them.
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
