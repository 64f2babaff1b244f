//! Volumes of a trace.

use super::LineError;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

/// Longest name, as in fio.
const NAME_BYTES_MAX: usize = 256;

/// A volume of a trace: a number assigned by the format, device numbers, or a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volume {
    /// A number, such as Alibaba's device.
    Number(u64),
    /// Major and minor number of a block device.
    Device(u32, u32),
    /// A name with a number: host and disk of MSR, a file of an iolog with its index.
    Named(Arc<str>, Option<u64>),
}

impl Volume {
    /// A volume of this name.
    ///
    /// # Errors
    /// The name is too long.
    pub(super) fn named(name: &str, number: u64) -> Result<Self, LineError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(LineError::Wrong(format!(
                "the name of a volume is longer than {NAME_BYTES_MAX} bytes"
            )));
        }
        Ok(Self::Named(name.into(), Some(number)))
    }

    /// True if `other`, as written by a user, selects this volume.
    pub(super) fn is_meant_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(_, number), Self::Number(other)) if *number == Some(*other) => true,
            (Self::Named(name, _), other) => **name == *other.to_string(),
            _ => self == other,
        }
    }
}

impl Default for Volume {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.pad(&format!("{number}")),
            Self::Device(major, minor) => f.pad(&format!("{major},{minor}")),
            Self::Named(name, _) => f.pad(name),
        }
    }
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(
                "write a number such as 1, device numbers such as 8,16, or a name such as /dev/sda"
                    .into(),
            );
        }
        let numbers = match text.split_once([',', ':']) {
            Some((major, minor)) => major
                .parse()
                .ok()
                .zip(minor.parse().ok())
                .map(|(major, minor)| Self::Device(major, minor)),
            None => text.parse().ok().map(Self::Number),
        };
        Ok(numbers.unwrap_or_else(|| Self::Named(text.into(), None)))
    }
}
