//! How requests for the block device come from the kernel.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One way.
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

/// Which way a user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The best that is there.
    Best,
    /// This one, or none.
    Only(Transport),
}

impl Wanted {
    /// The transports to try, the best first. Over ublk a drive shows all it is, and answers come at their time with one thread between.
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
    fn who_wants_one_way_gets_no_other() {
        assert_eq!(Wanted::Only(Transport::Device).candidates(), [Transport::Device]);
        assert_eq!(Wanted::Best.candidates(), [Transport::Ublk, Transport::Device]);
    }

    #[test]
    fn records_and_status_name_transports_as_before() {
        let names = [Transport::Ublk, Transport::Device].map(|way| serde_json::to_string(&way).unwrap());
        assert_eq!(names, ["\"ublk\"", "\"device\""]);
    }
}
