//! Timing of trace requests on the modelled drive.

use alloc::string::{String, ToString as _};

/// Arrival of the host's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timing {
    /// At the times of the trace; for a recording, after the same completions as there.
    #[default]
    Recorded,
    /// This many requests per second, regardless of the drive.
    Rate(f64),
    /// As soon as fewer than this many requests are in flight.
    ClosedLoop(u32),
}

impl Timing {
    /// Setting of a run; `None` if the trace decides.
    pub fn setting(self) -> Option<(&'static str, String)> {
        match self {
            Self::Recorded => None,
            Self::Rate(rate) => Some(("trace-rate", rate.to_string())),
            Self::ClosedLoop(depth) => Some(("trace-closed-loop", depth.to_string())),
        }
    }
}
