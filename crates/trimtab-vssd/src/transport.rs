//! Transports of block requests from the kernel.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A device of the ublk driver, over io_uring (Linux 6.0).
    Ublk,
    /// A loop device on a FUSE file.
    Device,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ublk => "ublk",
            Self::Device => "a loop device over FUSE",
        })
    }
}

/// The transport that the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportChoice {
    /// The best one available.
    Best,
    /// Only this one.
    Only(Transport),
}

impl TransportChoice {
    /// The transports to try, best first. ublk exposes all attributes of a drive and
    /// needs only one thread between request and completion.
    #[must_use]
    pub fn candidates(self) -> Vec<Transport> {
        match self {
            Self::Best => vec![Transport::Ublk, Transport::Device],
            Self::Only(transport) => vec![transport],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_of_only_has_one_transport() {
        assert_eq!(TransportChoice::Only(Transport::Device).candidates(), [Transport::Device]);
        assert_eq!(TransportChoice::Best.candidates(), [Transport::Ublk, Transport::Device]);
    }

    #[test]
    fn records_and_status_name_transports_as_before() {
        let names =
            [Transport::Ublk, Transport::Device].map(|way| serde_json::to_string(&way).unwrap());
        assert_eq!(names, ["\"ublk\"", "\"device\""]);
    }
}
