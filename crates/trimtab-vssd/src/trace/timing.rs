//! The times at which the requests of a trace are issued.

use super::{TraceOpKind, TraceSource};
use std::path::Path;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
pub use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::TraceReadOptions;

/// Refuses to replay a trace without times at its own times: all requests would be issued
/// at once.
///
/// # Errors
/// That refusal, and any error in the trace up to its first nonzero time.
pub fn check(timing: Timing, path: &Path, reading: &TraceReadOptions) -> anyhow::Result<()> {
    if timing != Timing::Recorded {
        return Ok(());
    }
    let source = TraceSource::open(path, reading)?;
    if source.is_recording() {
        return Ok(());
    }
    let mut requests = 0_u64;
    for event in source {
        let event = event?;
        if event.at > Nanos::ZERO {
            return Ok(());
        }
        requests += u64::from(event.kind != TraceOpKind::Flush);
    }
    if requests < 2 {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "{} has no times: all of its {requests} requests would come at once",
        path.display()
    ))
    .hint(
        "--rate 1000 issues 1,000 per second, --closed-loop 1 issues each when the \
            previous one completes",
    )
    .into())
}
