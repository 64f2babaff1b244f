//! Replays a trace once, or repeatedly until an amount is written, and records the
//! results.

use super::replay::{Replay, RequestService};
use super::{SimulatedDrive, Trace, WorkloadResult};
use crate::runner::recorder::Recorder;
use crate::runner::{Observer, RunEnd};
use crate::target::TargetError;
use crate::trace::TraceEvent;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;

/// Requests between two polls of the stop request.
const POLL_EVERY: u64 = 4096;

/// Requests of a trace in order.
pub trait RequestSource {
    /// Reason why a request cannot be read.
    type Error: From<UsageError>;

    /// Next request; `None` at the end.
    ///
    /// # Errors
    /// Reason and location.
    fn next_request(&mut self) -> Option<Result<TraceEvent, Self::Error>>;

    /// Location of the last request, for messages.
    fn place(&self) -> String;

    /// True if the trace records the class of written data.
    fn says_data(&self) -> bool;

    /// Warnings after the last request.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Replays `trace` on `subject`, last busy at `now`: once, or repeatedly until `until` is
/// written. Writes without a recorded class get `data`.
///
/// # Errors
/// The trace is unreadable, empty, too large for the drive, or lacks required writes.
pub(super) fn replay<T: Trace>(
    trace: &T,
    data: DataClass,
    until: Option<Bytes>,
    subject: SimulatedDrive,
    now: Nanos,
    observer: &mut dyn Observer,
) -> Result<WorkloadResult, T::Error> {
    let name = &trace.name();
    let mut pass = ReplayPass {
        data,
        until,
        replay: Replay::new(subject, now, trace.timing()),
        recorder: Recorder::new(now),
        warnings: Vec::new(),
    };
    pass.recorder.begin_phase("replay", now);
    let end = loop {
        let before = pass.recorder.written();
        if let Some(end) = pass.once(&mut trace.open()?, name, observer)? {
            break end;
        }
        match until {
            None => break RunEnd::Complete,
            Some(until) if pass.recorder.written() >= until => break RunEnd::Complete,
            Some(_) if pass.recorder.written() == before => {
                return Err(UsageError::new(format!(
                    "{name} writes nothing, so the amount to be written is never reached"
                ))
                .into());
            }
            Some(_) => pass.replay.again(),
        }
    };
    let (subject, latest) = pass.replay.into_parts();
    Ok(WorkloadResult {
        recorded: pass.recorder.finish(latest),
        end,
        subject,
        metrics: Vec::new(),
        warnings: pass.warnings,
    })
}

struct ReplayPass {
    data: DataClass,
    until: Option<Bytes>,
    replay: Replay<super::sampled::SampledDrive>,
    recorder: Recorder,
    /// Of the last pass.
    warnings: Vec<String>,
}

impl ReplayPass {
    /// Replays and records one event; compiled once, in this crate.
    #[inline(never)]
    fn serve(&mut self, event: &TraceEvent) -> Result<RequestService, String> {
        let served = self.replay.event(event)?;
        if served.result.is_ok() {
            self.recorder.op(event.kind.op(), served.arrived, served.done, event.len);
        }
        Ok(served)
    }

    /// Replays the trace once, or up to the amount to write; returns an early end.
    fn once<R: RequestSource>(
        &mut self,
        requests: &mut R,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<Option<RunEnd>, R::Error> {
        let mut n = 0_u64;
        while let Some(event) = requests.next_request() {
            let mut event = event?;
            if !requests.says_data() {
                event.class = self.data;
            }
            let too_large = |problem: String| {
                UsageError::new(format!("{}: {problem}", requests.place()))
                    .hint("a drive of a larger capacity has room")
            };
            let served = self.serve(&event).map_err(too_large)?;
            if let Err(refusal) = served.result {
                let object =
                    format!("{} bytes at {} ({})", event.len, event.offset, requests.place());
                let error = TargetError::new(
                    event.kind.op().name(),
                    object,
                    refusal.to_string(),
                    refusal.errno(),
                );
                return Ok(Some(RunEnd::Failed(error)));
            }
            n += 1;
            if n.is_multiple_of(POLL_EVERY) {
                if observer.stopped() {
                    return Ok(Some(RunEnd::Interrupted));
                }
                if let Err(error) = observer.progress(self.recorder.progress()) {
                    return Ok(Some(RunEnd::Failed(error)));
                }
            }
            if self.until.is_some_and(|until| self.recorder.written() >= until) {
                break;
            }
        }
        if n == 0 {
            return Err(UsageError::new(format!("{name} has no request")).into());
        }
        self.warnings = requests.warnings();
        Ok(None)
    }
}

#[cfg(test)]
pub(super) mod tests;
