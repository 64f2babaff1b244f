//! Runs a file workload on a file target.

use super::{Events, RunEnd, RunOutcome};
use crate::runner::recorder::Recorder;
use crate::target::{FileTarget, TargetResult};
use crate::workload::{FileStep, FileWorkload};
use trimtab_drive::units::Nanos;

/// Longest time on the target's clock between two calls of
/// [`Observer::progress`](super::Observer::progress).
const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);
/// Most operations between two calls of
/// [`Observer::progress`](super::Observer::progress).
const PROGRESS_OPS: u64 = 256;

/// Runs all of `workload` on `target`.
///
/// Reads the clock once per operation. An operation lasts from the end of the previous
/// one to its own end, so it includes the time to generate it; the null target measures
/// that. A paced operation counts from its due time, so a slow one is charged for
/// delaying others.
pub fn run<W, T, E>(workload: &mut W, target: &mut T, events: &mut E) -> RunOutcome
where
    W: FileWorkload + ?Sized,
    T: FileTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    let now = target.now();
    let mut recorder = Recorder::new(now);
    let mut state =
        FileRunState { last: now, ended: now, phase: now, progress_at: now + PROGRESS_EVERY };
    let end = match steps(workload, target, events, &mut recorder, &mut state) {
        // A target cancels an operation on user interrupt; that is not a failure.
        Err(_) if events.stopped() => RunEnd::Interrupted,
        Err(error) => RunEnd::Failed(error),
        Ok(end) => end,
    };
    let now = target.now();
    RunOutcome { recorded: recorder.finish(now), end }
}

struct FileRunState {
    /// End of the previous operation, or the due time of the next.
    last: Nanos,
    /// End of the previous operation, always.
    ended: Nanos,
    phase: Nanos,
    progress_at: Nanos,
}

fn steps<W, T, E>(
    workload: &mut W,
    target: &mut T,
    events: &mut E,
    recorder: &mut Recorder,
    state: &mut FileRunState,
) -> TargetResult<RunEnd>
where
    W: FileWorkload + ?Sized,
    T: FileTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    loop {
        match workload.next_step() {
            None => {
                recorder.end_phase(state.last.max(state.ended));
                events.between(target, recorder, None)?;
                return Ok(RunEnd::Complete);
            }
            Some(FileStep::Phase(name)) => {
                recorder.end_phase(state.last.max(state.ended));
                events.between(target, recorder, Some(name))?;
                state.last = target.now();
                state.ended = state.last;
                state.phase = state.last;
                recorder.begin_phase(name, state.last);
            }
            Some(FileStep::NotBefore(offset)) => {
                let due = state.phase.saturating_add(offset);
                target.idle_until(due);
                state.last = due;
            }
            Some(FileStep::Op(op)) => {
                target.execute(&op)?;
                let now = target.now();
                recorder.op(op.kind(), state.last, now, op.bytes());
                state.last = now;
                state.ended = now;
                if recorder.ops().is_multiple_of(PROGRESS_OPS) || now >= state.progress_at {
                    events.progress(recorder.progress())?;
                    // Excludes drawing a progress bar from the next operation.
                    state.last = target.now();
                    state.progress_at = state.last + PROGRESS_EVERY;
                }
            }
        }
        if events.stopped() {
            return Ok(RunEnd::Interrupted);
        }
    }
}

/// Executes one operation.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{FileOp, Payload};
    use crate::target::{Clock, TargetError};
    use crate::workload::WorkloadPlan;
    use alloc::format;
    use alloc::string::String;
    use alloc::string::ToString as _;
    use alloc::vec;
    use alloc::vec::Vec;
    use trimtab_drive::OpKind;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Bytes;

    /// Each operation takes 1 ms of virtual time, a sync 1 s; `bad` cannot be deleted.
    #[derive(Default)]
    struct Scripted {
        now: Nanos,
        log: Vec<String>,
    }

    impl Clock for Scripted {
        fn now(&mut self) -> Nanos {
            self.now
        }
        fn idle_until(&mut self, instant: Nanos) {
            self.now = self.now.max(instant);
        }
    }

    impl Scripted {
        fn op(&mut self, text: String, took: Nanos) -> TargetResult {
            self.log.push(text);
            self.now += took;
            Ok(())
        }
    }

    const MS: Nanos = Nanos::from_millis(1);

    impl FileTarget for Scripted {
        fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
            match op {
                FileOp::MakeDir(path) => self.op(format!("mkdir {path}"), MS),
                FileOp::RemoveDir(path) => self.op(format!("rmdir {path}"), MS),
                FileOp::Create(path, payload) => {
                    self.op(format!("create {path} {}", payload.len()), MS)
                }
                FileOp::Append(path, payload) => {
                    self.op(format!("append {path} {}", payload.len()), MS)
                }
                FileOp::Read(path, len) => self.op(format!("read {path} {len}"), MS),
                FileOp::Delete("bad") => Err(TargetError::new("delete", "bad", "gone", Some(2))),
                FileOp::Delete(path) => self.op(format!("delete {path}"), MS),
                FileOp::Sync => self.op("sync".into(), Nanos::from_secs(1)),
            }
        }
    }

    struct Script(alloc::vec::IntoIter<FileStep<'static>>);

    impl FileWorkload for Script {
        fn plan(&self) -> WorkloadPlan {
            WorkloadPlan::default()
        }
        fn next_step(&mut self) -> Option<FileStep<'_>> {
            self.0.next()
        }
    }

    fn script(steps: Vec<FileStep<'static>>) -> Script {
        Script(steps.into_iter())
    }

    const DATA: Payload<'static> = Payload::Fill { len: 1000, class: DataClass::Zero };

    #[test]
    fn phases_are_timed_separately_with_operations_in_order() {
        let mut target = Scripted::default();
        let mut workload = script(vec![
            FileStep::Phase("fill"),
            FileStep::Op(FileOp::MakeDir("d")),
            FileStep::Op(FileOp::Create("d/f", DATA)),
            FileStep::Op(FileOp::Append("d/f", DATA)),
            FileStep::Op(FileOp::Read("d/f", 2000)),
            FileStep::Phase("sync"),
            FileStep::Op(FileOp::Sync),
        ]);
        let outcome = run(&mut workload, &mut target, &mut ());
        assert_eq!(outcome.end, RunEnd::Complete);
        assert_eq!(
            target.log,
            ["mkdir d", "create d/f 1000", "append d/f 1000", "read d/f 2000", "sync"]
        );
        let phases = &outcome.recorded.phases;
        assert_eq!(
            (phases[0].took, phases[0].written, phases[0].read),
            (Nanos::from_millis(4), Bytes(2000), Bytes(2000))
        );
        assert_eq!((phases[1].name.as_str(), phases[1].took), ("sync", Nanos::from_secs(1)));
    }

    #[test]
    fn failure_keeps_earlier_measurements() {
        let mut target = Scripted::default();
        let mut workload = script(vec![
            FileStep::Phase("p"),
            FileStep::Op(FileOp::Create("a", DATA)),
            FileStep::Op(FileOp::Delete("bad")),
        ]);
        let outcome = run(&mut workload, &mut target, &mut ());
        assert_eq!(outcome.recorded.phases[0].ops, [(OpKind::Create, 1)]);
        assert!(matches!(&outcome.end, RunEnd::Failed(error) if error.errno == Some(2)));
        assert_eq!(outcome.complete().unwrap_err().to_string(), "cannot delete bad: gone");
    }

    #[test]
    fn paced_operation_latency_counts_from_due_time() {
        let mut target = Scripted::default();
        let due = |ms| FileStep::NotBefore(Nanos::from_millis(ms));
        let steps = vec![
            FileStep::Phase("p"),
            due(5),
            FileStep::Op(FileOp::Sync),
            due(10),
            FileStep::Op(FileOp::Delete("a")),
            due(2000),
            FileStep::Op(FileOp::Read("b", 1)),
        ];
        let outcome = run(&mut script(steps), &mut target, &mut ());
        let phase = &outcome.recorded.phases[0];
        let latency =
            |kind| phase.latencies.iter().find(|l| l.kind == kind).unwrap().histogram.max();
        // Due at 10 ms, but the sync took until 1005 ms.
        assert!(
            latency(OpKind::Delete).0.abs_diff(Nanos::from_millis(996).0) < 1_000_000,
            "{}",
            latency(OpKind::Delete)
        );
        assert!(
            latency(OpKind::Read).0.abs_diff(MS.0) < 1000,
            "waiting for the due time is not latency"
        );
        assert_eq!(phase.took, Nanos::from_millis(2001));
    }

    #[test]
    fn past_due_time_does_not_shorten_the_phase() {
        let mut target = Scripted::default();
        let steps = vec![FileStep::Phase("p"), FileStep::Op(FileOp::Sync), FileStep::NotBefore(MS)];
        let outcome = run(&mut script(steps), &mut target, &mut ());
        assert_eq!(outcome.recorded.phases[0].took, Nanos::from_secs(1));
    }

    #[test]
    fn between_may_add_phases() {
        struct Trims;
        impl crate::runner::Observer for Trims {
            fn stopped(&self) -> bool {
                false
            }
        }
        impl Events<Scripted> for Trims {
            fn between(
                &mut self,
                target: &mut Scripted,
                recorder: &mut Recorder,
                next: Option<&str>,
            ) -> TargetResult {
                if next.is_none() {
                    recorder.begin_phase("trim", target.now);
                    let from = target.now;
                    target.now += Nanos::from_secs(3);
                    recorder.op(OpKind::Trim, from, target.now, 1 << 20);
                    recorder.end_phase(target.now);
                }
                Ok(())
            }
        }
        let mut target = Scripted::default();
        let outcome = run(
            &mut script(vec![FileStep::Phase("p"), FileStep::Op(FileOp::Delete("a"))]),
            &mut target,
            &mut Trims,
        );
        let took: Vec<_> =
            outcome.recorded.phases.iter().map(|p| (p.name.as_str(), p.took)).collect();
        assert_eq!(took, [("p", Nanos::from_millis(1)), ("trim", Nanos::from_secs(3))]);
    }
}
