//! Replays a trace once, or repeatedly until an amount is written, and records the results.

use super::replay::Replay;
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
    let mut pass = ReplayPass { data, until, replay: Replay::new(subject, now).timed(trace.timing()), recorder: Recorder::new(now) };
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
                return Err(UsageError::new(format!("{name} writes nothing, so the amount to be written is never reached")).into());
            }
            Some(_) => pass.replay.again(),
        }
    };
    let (subject, latest) = pass.replay.into_parts();
    Ok(WorkloadResult { recorded: pass.recorder.finish(latest), end, subject, metrics: Vec::new() })
}

struct ReplayPass {
    data: DataClass,
    until: Option<Bytes>,
    replay: Replay<super::sampled::SampledDrive>,
    recorder: Recorder,
}

impl ReplayPass {
    /// Replays the trace once, or up to the amount to write; returns an early end.
    fn once<R: RequestSource>(&mut self, requests: &mut R, name: &str, observer: &mut dyn Observer) -> Result<Option<RunEnd>, R::Error> {
        let mut n = 0_u64;
        while let Some(event) = requests.next_request() {
            let mut event = event?;
            if !requests.says_data() {
                event.class = self.data;
            }
            let too_large =
                |problem: String| UsageError::new(format!("{}: {problem}", requests.place())).hint("a drive of a larger capacity has room");
            let served = self.replay.event(&event).map_err(too_large)?;
            if let Err(refusal) = served.result {
                let object = format!("{} bytes at {} ({})", event.len, event.offset, requests.place());
                return Ok(Some(RunEnd::Failed(TargetError {
                    action: event.kind.op().name(),
                    object,
                    reason: refusal.to_string(),
                    errno: refusal.errno(),
                })));
            }
            self.recorder.op(event.kind.op(), served.arrived, served.done, event.len);
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
        Ok(None)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::policy::PolicySpec;
    use crate::simulate::timing::Timing;
    use crate::simulate::{Amount, SimulationLoad, SimulationPlan, SimulationResult, run};
    use crate::trace::TraceOpKind;
    use alloc::vec;
    use trimtab_drive::shipped::drive;

    #[derive(Clone)]
    pub(in crate::simulate) struct RequestList(Vec<TraceEvent>);

    pub(in crate::simulate) struct EventReader<'a>(core::slice::Iter<'a, TraceEvent>);

    impl RequestSource for EventReader<'_> {
        type Error = std::boxed::Box<dyn core::error::Error>;

        fn next_request(&mut self) -> Option<Result<TraceEvent, Self::Error>> {
            self.0.next().copied().map(Ok)
        }

        fn place(&self) -> String {
            "there".to_string()
        }

        fn says_data(&self) -> bool {
            false
        }
    }

    impl Trace for RequestList {
        type Error = std::boxed::Box<dyn core::error::Error>;

        type Requests<'a> = EventReader<'a>;

        fn timing(&self) -> Timing {
            Timing::Recorded
        }

        fn name(&self) -> String {
            "it".to_string()
        }

        fn open(&self) -> Result<EventReader<'_>, Self::Error> {
            Ok(EventReader(self.0.iter()))
        }
    }

    fn given(kind: TraceOpKind, requests: u64) -> RequestList {
        let event = |n: u64| TraceEvent {
            at: Nanos(n * 1_000_000),
            kind,
            offset: n * 4096,
            len: 4096,
            class: DataClass::Random,
            fua: false,
            continues: false,
            latency: Nanos::ZERO,
            errno: None,
        };
        RequestList((0..requests).map(event).collect())
    }

    fn simulated(trace: RequestList, until: Option<Amount>) -> Result<SimulationResult, String> {
        let plan = SimulationPlan {
            name: "it".to_string(),
            load: SimulationLoad::Trace(trace),
            data: DataClass::Random,
            fill_permille: 0,
            until_written: until,
            trim: Some(PolicySpec::None),
            seed: 1,
        };
        run(&drive("sata-tlc-500gb").spec, &plan, &mut ()).map_err(|error| error.to_string())
    }

    #[test]
    fn trace_repeats_until_the_amount_is_written() {
        // 100 requests of 4096 bytes are 409,600; a million needs two and a half passes.
        for (until, written) in [(None, 409_600), (Some(Amount::Bytes(Bytes(1_000_000))), 245 * 4096)] {
            let done = simulated(given(TraceOpKind::Write, 100), until).unwrap();
            let phases = &done.recorded.phases;
            assert_eq!(phases.iter().map(|phase| phase.written.0).collect::<Vec<_>>(), vec![written]);
        }
    }

    #[test]
    fn trace_without_requests_or_writes_is_refused() {
        for (trace, until, said) in [
            (given(TraceOpKind::Write, 0), None, "it has no request"),
            (given(TraceOpKind::Read, 5), Some(Amount::Bytes(Bytes(1))), "it writes nothing"),
        ] {
            let refused = simulated(trace, until).err().unwrap();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
