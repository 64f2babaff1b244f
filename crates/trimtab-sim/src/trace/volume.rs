//! Names of volumes.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A volume of a trace: the number that the format gives it, or the device numbers of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volume {
    /// A number: MSR's disk, Alibaba's device, the n-th file of an iolog.
    Number(u64),
    /// Major and minor number of a block device.
    Device(u32, u32),
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
        }
    }
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let volume = match text.split_once([',', ':']) {
            Some((major, minor)) => major.parse().ok().zip(minor.parse().ok()).map(|(major, minor)| Self::Device(major, minor)),
            None => text.parse().ok().map(Self::Number),
        };
        volume.ok_or_else(|| format!("'{text}' is not a volume: write a number such as 1, or device numbers such as 8,16"))
    }
}
