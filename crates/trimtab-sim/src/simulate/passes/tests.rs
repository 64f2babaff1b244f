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
        steady: false,
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
