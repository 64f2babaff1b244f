//! When the requests of a trace are made on the modelled drive.

use alloc::string::{String, ToString as _};

/// When the host makes its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timing {
    /// At the times of the trace; of a recording, after the completions that it followed there.
    #[default]
    Recorded,
    /// So many requests a second, whatever the drive does.
    Rate(f64),
    /// As soon as fewer than so many requests are under way.
    ClosedLoop(u32),
}

impl Timing {
    /// What the settings of a run say of it; nothing where the trace decides.
    pub fn setting(self) -> Option<(&'static str, String)> {
        match self {
            Self::Recorded => None,
            Self::Rate(rate) => Some(("trace-rate", rate.to_string())),
            Self::ClosedLoop(depth) => Some(("trace-closed-loop", depth.to_string())),
        }
    }
}
