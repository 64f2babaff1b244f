//! When the requests of a trace are made on the modelled drive.

use super::{Kind, Source};
use std::path::Path;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
pub use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::Reading;

/// Refuses a trace that has no times if it is to be replayed at them: all requests would come at once.
///
/// # Errors
/// That, and whatever is wrong with the trace until its first time after zero.
pub fn check(timing: Timing, path: &Path, reading: &Reading) -> anyhow::Result<()> {
    if timing != Timing::Recorded {
        return Ok(());
    }
    let source = Source::open(path, reading)?;
    if source.header().is_some() {
        return Ok(());
    }
    let mut requests = 0_u64;
    for event in source {
        let event = event?;
        if event.at > Nanos::ZERO {
            return Ok(());
        }
        requests += u64::from(event.kind != Kind::Flush);
    }
    if requests < 2 {
        return Ok(());
    }
    Err(UsageError::new(format!("{} has no times: all of its {requests} requests would come at once", path.display()))
        .hint("--rate 1000 makes 1,000 of them a second, --closed-loop 1 makes each when the one before is done")
        .into())
}
