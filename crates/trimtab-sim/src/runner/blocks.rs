//! Runs a block workload on a block target.

use super::{Events, RunEnd, RunOutcome};
use crate::runner::recorder::Recorder;
use crate::target::{BlockCompletion, BlockTarget, TargetError, TargetResult};
use crate::workload::{BlockPhase, BlockWorkload, Limit};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::Command;
use trimtab_drive::OpKind;
use trimtab_drive::units::Nanos;

/// Operations between two calls of [`Observer::progress`](super::Observer::progress).
const PROGRESS_OPS: u32 = 256;
/// Longest time on the target's clock between two calls of
/// [`Observer::progress`](super::Observer::progress).
const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);

/// Level of detail per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// Histograms, series, counts.
    #[default]
    Full,
    /// Operations and bytes of each phase, to measure the cost of recording itself.
    CountsOnly,
}

/// Runs all of `workload` on `target`.
///
/// Each completed operation is replaced at once; none waits for another to complete. A
/// phase lasts from the issue of its first operation to the completion of its last.
pub fn run<W, T, E>(workload: &mut W, target: &mut T, events: &mut E) -> RunOutcome
where
    W: BlockWorkload + ?Sized,
    T: BlockTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    run_recording(workload, target, Recording::Full, events)
}

/// As [`run`], with the given level of detail.
pub fn run_recording<W, T, E>(
    workload: &mut W,
    target: &mut T,
    recording: Recording,
    events: &mut E,
) -> RunOutcome
where
    W: BlockWorkload + ?Sized,
    T: BlockTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    let mut recorder = Recorder::new(target.now());
    let end = match phases(workload, target, recording, events, &mut recorder) {
        Ok(end) => end,
        // A target cancels an operation on user interrupt; that is not a failure.
        Err(_) if events.stopped() => RunEnd::Interrupted,
        Err(error) => RunEnd::Failed(error),
    };
    let now = target.now();
    RunOutcome { recorded: recorder.finish(now), end }
}

/// As [`run_recording`], compiled once, in this crate, for targets of other crates.
#[inline(never)]
pub fn run_dyn<'a>(
    workload: &mut dyn BlockWorkload,
    target: &mut (dyn BlockTarget + 'a),
    recording: Recording,
    events: &mut dyn Events<dyn BlockTarget + 'a>,
) -> RunOutcome {
    run_recording(workload, target, recording, events)
}

fn phases<W, T, E>(
    workload: &mut W,
    target: &mut T,
    recording: Recording,
    events: &mut E,
    recorder: &mut Recorder,
) -> TargetResult<RunEnd>
where
    W: BlockWorkload + ?Sized,
    T: BlockTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    let mut window = OperationWindow::default();
    while let Some(phase) = workload.next_phase() {
        check_depth(&phase, target)?;
        events.between(target, recorder, Some(&phase.name))?;
        if phase.idle_before > Nanos::ZERO {
            let until = target.now() + phase.idle_before;
            target.idle_until(until);
        }
        let started = target.now();
        recorder.begin_phase(&phase.name, started);
        let result = match recording {
            Recording::Full => {
                window.run::<_, _, _, true>(&phase, workload, target, events, recorder, started)
            }
            Recording::CountsOnly => {
                window.run::<_, _, _, false>(&phase, workload, target, events, recorder, started)
            }
        };
        let ended = window.last_completed.max(started);
        if phase.record {
            recorder.end_phase(ended);
        } else {
            recorder.drop_phase();
        }
        result?;
        if events.stopped() {
            return Ok(RunEnd::Interrupted);
        }
    }
    events.between(target, recorder, None)?;
    Ok(RunEnd::Complete)
}

fn check_depth<T: BlockTarget + ?Sized>(phase: &BlockPhase, target: &T) -> TargetResult {
    let most = target.info().queue_depth_max;
    if (1..=most).contains(&phase.queue_depth) {
        return Ok(());
    }
    let object = format!("{} operations in flight", phase.queue_depth);
    Err(TargetError::new("keep", object, format!("the target takes 1 to {most}"), None))
}

/// Operations in flight; buffers are reused, so that operations do not allocate.
#[derive(Debug, Default)]
struct OperationWindow {
    /// Kind and bytes of the operation with each tag.
    slots: Vec<(OpKind, u64)>,
    free: Vec<u32>,
    done: Vec<BlockCompletion>,
    last_completed: Nanos,
    until_progress: u32,
    progress_at: Nanos,
}

/// Operations drawn in advance, so that a target can prefetch for longer than one
/// operation.
const AHEAD: usize = 4;

/// Remaining budget of a phase, and operations drawn in advance.
struct PhaseBudget {
    ops: u64,
    bytes: u64,
    until: Nanos,
    /// Operations drawn but not issued, in order from `first`. Kept in place: copying
    /// data just written piecewise stalls on store forwarding.
    drawn: [Command<'static>; AHEAD],
    first: usize,
    len: usize,
}

impl PhaseBudget {
    fn new(limit: Limit, started: Nanos) -> Self {
        let unlimited = Self {
            ops: u64::MAX,
            bytes: u64::MAX,
            until: Nanos::MAX,
            drawn: [Command::Flush; AHEAD],
            first: 0,
            len: 0,
        };
        match limit {
            Limit::Time(time) => Self { until: started.saturating_add(time), ..unlimited },
            Limit::Bytes(bytes) => Self { bytes: bytes.0, ..unlimited },
            Limit::Ops(ops) => Self { ops, ..unlimited },
            Limit::Stream => unlimited,
        }
    }

    /// Next operation, if one may be issued. Announces those certain to follow.
    #[inline]
    fn draw<W: BlockWorkload + ?Sized>(
        &mut self,
        workload: &mut W,
        expected: impl Fn(&Command<'static>),
    ) -> Option<&Command<'static>> {
        let most = if self.until == Nanos::MAX { AHEAD } else { 1 };
        while self.len < most && self.ops > 0 && self.bytes > 0 {
            let Some(op) = workload.next_op() else {
                self.ops = 0;
                break;
            };
            self.bytes = self.bytes.saturating_sub(op.bytes());
            self.ops -= 1;
            let next = &mut self.drawn[(self.first + self.len) % AHEAD];
            *next = op;
            if most > 1 {
                expected(next);
            }
            self.len += 1;
        }
        self.len = self.len.checked_sub(1)?;
        let drawn = &self.drawn[self.first];
        self.first = (self.first + 1) % AHEAD;
        Some(drawn)
    }
}

impl OperationWindow {
    /// Runs one phase. After an error, issues nothing and waits for operations in flight.
    fn run<W, T, E, const RECORD: bool>(
        &mut self,
        phase: &BlockPhase,
        workload: &mut W,
        target: &mut T,
        events: &mut E,
        recorder: &mut Recorder,
        started: Nanos,
    ) -> TargetResult
    where
        W: BlockWorkload + ?Sized,
        T: BlockTarget + ?Sized,
        E: Events<T> + ?Sized,
    {
        self.begin(phase.queue_depth, started);
        let mut budget = PhaseBudget::new(phase.limit, started);
        let mut in_flight = 0_u32;
        let mut stop = false;
        let mut result = Ok(());
        loop {
            while !stop && let Some(tag) = self.free.pop() {
                let Some(op) = budget.draw(workload, |next| target.expect(next)) else {
                    stop = true;
                    break;
                };
                self.slots[tag as usize] = (op.kind(), op.bytes());
                if let Err(error) = target.submit(tag, *op) {
                    (result, stop) = (result.and(Err(error)), true);
                    break;
                }
                in_flight += 1;
            }
            if in_flight == 0 {
                return result;
            }
            // If waiting fails, the target waits for the rest when it is dropped.
            target.reap(1, &mut self.done)?;
            in_flight -= self.done.len() as u32;
            if let Err(error) = self.take_completions::<RECORD>(recorder) {
                (result, stop) = (result.and(Err(error)), true);
            }
            stop |= self.last_completed >= budget.until || events.stopped();
            if (self.until_progress == 0 || self.last_completed >= self.progress_at)
                && let Err(error) = self.progress(events, recorder)
            {
                (result, stop) = (result.and(Err(error)), true);
            }
        }
    }

    fn begin(&mut self, queue_depth: u32, now: Nanos) {
        self.slots.clear();
        self.slots.resize(queue_depth as usize, (OpKind::Read, 0));
        self.free.clear();
        self.free.extend((0..queue_depth).rev());
        self.done.clear();
        self.done.reserve(queue_depth as usize);
        self.last_completed = now;
        self.until_progress = PROGRESS_OPS;
        self.progress_at = now.saturating_add(PROGRESS_EVERY);
    }

    /// Records completions and frees their tags; returns the first failure.
    #[inline(always)]
    fn take_completions<const RECORD: bool>(&mut self, recorder: &mut Recorder) -> TargetResult {
        let mut result = Ok(());
        // In place: copying data just written piecewise would stall.
        for done in &mut self.done {
            let (kind, bytes) = self.slots[done.tag as usize];
            self.free.push(done.tag);
            self.last_completed = self.last_completed.max(done.completed);
            self.until_progress = self.until_progress.saturating_sub(1);
            match &mut done.result {
                Ok(()) if RECORD => {
                    recorder.split_op(kind, done.issued, done.submitted, done.completed, bytes)
                }
                Ok(()) => recorder.count_op(kind, bytes),
                failed => {
                    result = result.and(core::mem::replace(failed, Ok(())).map_err(|error| *error))
                }
            }
        }
        self.done.clear();
        result
    }

    #[cold]
    fn progress<T: ?Sized, E: Events<T> + ?Sized>(
        &mut self,
        events: &mut E,
        recorder: &Recorder,
    ) -> TargetResult {
        self.until_progress = PROGRESS_OPS;
        self.progress_at = self.last_completed.saturating_add(PROGRESS_EVERY);
        events.progress(recorder.progress())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{Observer, RunProgress};
    use crate::target::{BlockInfo, Clock};
    use crate::workload::WorkloadPlan;
    use alloc::boxed::Box;
    use alloc::string::ToString as _;
    use alloc::vec;
    use trimtab_drive::Extent;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Bytes;

    const MS: Nanos = Nanos::from_millis(1);

    /// Operations take 1, 2, 3, 1, 2, 3 … ms of virtual time, in parallel.
    struct Scripted {
        now: Nanos,
        info: BlockInfo,
        in_flight: Vec<(Nanos, u32, Nanos)>,
        submitted: u64,
        /// Number in flight at each wait.
        waited_with: Vec<usize>,
        refuse_at: Option<u64>,
        fail_at: Option<u64>,
    }

    impl Scripted {
        fn new() -> Self {
            let info =
                BlockInfo { size: Bytes(1 << 30), block_size: 512, queue_depth_max: 8, trim: true };
            Self {
                now: Nanos::ZERO,
                info,
                in_flight: Vec::new(),
                submitted: 0,
                waited_with: Vec::new(),
                refuse_at: None,
                fail_at: None,
            }
        }
    }

    fn bad(reason: &str) -> TargetError {
        TargetError { action: "write", object: "x".into(), reason: reason.into(), errno: Some(5) }
    }

    impl Clock for Scripted {
        fn now(&mut self) -> Nanos {
            self.now
        }
        fn idle_until(&mut self, instant: Nanos) {
            self.now = self.now.max(instant);
        }
    }

    impl BlockTarget for Scripted {
        fn info(&self) -> &BlockInfo {
            &self.info
        }
        fn submit(&mut self, tag: u32, _op: Command<'static>) -> TargetResult {
            if self.refuse_at == Some(self.submitted) {
                return Err(bad("refused"));
            }
            assert!(self.in_flight.iter().all(|(_, t, _)| *t != tag), "tag {tag} is in flight");
            let took = Nanos(MS.0 * (1 + self.submitted % 3));
            self.in_flight.push((self.now + took, tag, self.now));
            self.submitted += 1;
            Ok(())
        }
        fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
            self.waited_with.push(self.in_flight.len());
            self.in_flight.sort_unstable();
            for i in 0..self.in_flight.len() {
                let (completed, tag, issued) = self.in_flight[0];
                if i as u32 >= min && completed > self.now {
                    break;
                }
                self.in_flight.remove(0);
                self.now = self.now.max(completed);
                let failed = self.fail_at.take_if(|n| *n < self.submitted).is_some();
                let result = if failed { Err(Box::new(bad("failed"))) } else { Ok(()) };
                done.push(BlockCompletion { tag, issued, submitted: issued, completed, result });
            }
            Ok(())
        }
    }

    struct Writes {
        phases: alloc::vec::IntoIter<BlockPhase>,
        left: u64,
    }

    impl BlockWorkload for Writes {
        fn plan(&self) -> WorkloadPlan {
            WorkloadPlan::default()
        }
        fn next_phase(&mut self) -> Option<BlockPhase> {
            self.phases.next()
        }
        fn next_op(&mut self) -> Option<Command<'static>> {
            self.left = self.left.checked_sub(1)?;
            Some(Command::Write(Extent { offset: 0, len: 4096 }, DataClass::Zero))
        }
    }

    fn phase(queue_depth: u32, limit: Limit) -> BlockPhase {
        BlockPhase { name: "p".into(), queue_depth, limit, record: true, idle_before: Nanos::ZERO }
    }

    fn writes(phases: Vec<BlockPhase>) -> Writes {
        Writes { phases: phases.into_iter(), left: 1000 }
    }

    #[test]
    fn queue_stays_full_until_the_last_operation() {
        let mut target = Scripted::new();
        let outcome = run(&mut writes(vec![phase(8, Limit::Ops(500))]), &mut target, &mut ());
        assert_eq!(outcome.end, RunEnd::Complete);
        assert_eq!(target.submitted, 500);
        let full = target.waited_with.iter().take_while(|n| **n == 8).count();
        assert!(
            full * 8 >= 492,
            "the window was full whenever the runner waited, until nothing was left to issue: {:?}",
            target.waited_with
        );
        assert!(target.waited_with[full..].is_sorted_by(|a, b| a > b), "{:?}", target.waited_with);
        let phase = &outcome.recorded.phases[0];
        assert_eq!((phase.ops_total(), phase.written), (500, Bytes(500 * 4096)));
        // Eight in parallel, 2 ms on average.
        assert!(phase.took.0.abs_diff(125 * MS.0) <= 3 * MS.0, "{}", phase.took);
    }

    #[test]
    fn each_limit_ends_its_phase() {
        for (limit, ops) in [
            (Limit::Ops(7), 7),
            (Limit::Bytes(Bytes(7 * 4096)), 7),
            (Limit::Bytes(Bytes(7 * 4096 - 1)), 7),
            // 1 + 2 + 3 + 1 + 2 + 3 ms: at 12 ms the sixth completes and no more are
            // issued.
            (Limit::Time(Nanos::from_millis(12)), 6),
            (Limit::Stream, 1000),
            (Limit::Ops(0), 0),
        ] {
            let outcome = run(&mut writes(vec![phase(1, limit)]), &mut Scripted::new(), &mut ());
            assert_eq!(outcome.end, RunEnd::Complete);
            assert_eq!(outcome.recorded.phases[0].ops_total(), ops, "{limit:?}");
        }
    }

    /// [`Scripted`], with the offsets of submitted and expected operations.
    struct Ahead {
        scripted: Scripted,
        submitted: Vec<u64>,
        expected: core::cell::RefCell<Vec<u64>>,
    }

    impl Clock for Ahead {
        fn now(&mut self) -> Nanos {
            self.scripted.now()
        }
        fn idle_until(&mut self, instant: Nanos) {
            self.scripted.idle_until(instant);
        }
    }

    impl BlockTarget for Ahead {
        fn info(&self) -> &BlockInfo {
            self.scripted.info()
        }
        fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
            self.submitted.push(op.extent().unwrap().offset);
            self.scripted.submit(tag, op)
        }
        fn expect(&self, op: &Command<'static>) {
            let mut expected = self.expected.borrow_mut();
            assert!(expected.len() < self.submitted.len() + AHEAD, "no further ahead");
            expected.push(op.extent().unwrap().offset);
        }
        fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
            self.scripted.reap(min, done)
        }
    }

    /// Writes blocks 0 to 999 in order.
    struct Numbered(Writes);

    impl BlockWorkload for Numbered {
        fn plan(&self) -> WorkloadPlan {
            self.0.plan()
        }
        fn next_phase(&mut self) -> Option<BlockPhase> {
            self.0.next_phase()
        }
        fn next_op(&mut self) -> Option<Command<'static>> {
            let offset = (1000 - self.0.left) * 4096;
            self.0.next_op()?;
            Some(Command::Write(Extent { offset, len: 4096 }, DataClass::Zero))
        }
    }

    #[test]
    fn draw_announces_only_operations_certain_to_be_issued() {
        let time = Limit::Time(Nanos::from_millis(12));
        // All are expected except in the phase limited by time, which has six in 12 ms
        // (see above).
        for (limits, expected) in [
            (
                vec![
                    Limit::Ops(7),
                    Limit::Bytes(Bytes(3 * 4096 + 1)),
                    Limit::Ops(0),
                    Limit::Stream,
                ],
                (0..11).chain(11..1000),
            ),
            (vec![Limit::Ops(3), time, Limit::Stream], (0..3).chain(9..1000)),
        ] {
            let mut workload =
                Numbered(writes(limits.into_iter().map(|limit| phase(1, limit)).collect()));
            let mut target = Ahead {
                scripted: Scripted::new(),
                submitted: Vec::new(),
                expected: Vec::new().into(),
            };
            assert_eq!(run(&mut workload, &mut target, &mut ()).end, RunEnd::Complete);
            let blocks = |nths: &mut dyn Iterator<Item = u64>| {
                nths.map(|nth| nth * 4096).collect::<Vec<u64>>()
            };
            assert_eq!(
                target.submitted,
                blocks(&mut (0..1000)),
                "each exactly once, across phases"
            );
            assert_eq!(target.expected.into_inner(), blocks(&mut { expected }));
        }
    }

    #[test]
    fn submission_and_completion_latency_are_separate() {
        let warm = BlockPhase {
            record: false,
            idle_before: Nanos::from_secs(2),
            ..phase(2, Limit::Ops(10))
        };
        let mut target = Scripted::new();
        let outcome = run(&mut writes(vec![warm, phase(2, Limit::Ops(10))]), &mut target, &mut ());
        assert_eq!(outcome.recorded.phases.len(), 1);
        let phase = &outcome.recorded.phases[0];
        assert!(phase.started >= Nanos::from_secs(2), "the idle time came first");
        assert_eq!(
            phase.latencies.iter().map(|l| l.histogram.count()).collect::<Vec<_>>(),
            [10, 10, 10]
        );
    }

    #[test]
    fn counts_only_recording_has_no_latencies() {
        let outcome = run_recording(
            &mut writes(vec![phase(4, Limit::Ops(50))]),
            &mut Scripted::new(),
            Recording::CountsOnly,
            &mut (),
        );
        let phase = &outcome.recorded.phases[0];
        assert_eq!(
            (phase.ops_total(), phase.written, phase.latencies.len()),
            (50, Bytes(50 * 4096), 0)
        );
    }

    #[test]
    fn failure_waits_for_and_counts_operations_in_flight() {
        for (refuse_at, fail_at, reason) in
            [(Some(20), None, "refused"), (None, Some(20), "failed")]
        {
            let mut target = Scripted { refuse_at, fail_at, ..Scripted::new() };
            let outcome = run(&mut writes(vec![phase(8, Limit::Ops(100))]), &mut target, &mut ());
            assert!(
                matches!(&outcome.end, RunEnd::Failed(error) if error.reason == reason),
                "{:?}",
                outcome.end
            );
            assert!(target.in_flight.is_empty(), "still in flight");
            assert_eq!(
                outcome.recorded.phases[0].ops_total() + u64::from(fail_at.is_some()),
                target.submitted
            );
        }
    }

    #[test]
    fn unsupported_queue_depth_is_refused() {
        for depth in [0, 9] {
            let outcome =
                run(&mut writes(vec![phase(depth, Limit::Stream)]), &mut Scripted::new(), &mut ());
            assert!(outcome.complete().unwrap_err().to_string().contains("1 to 8"));
        }
    }

    #[test]
    fn progress_error_ends_the_run() {
        struct Stops(u32);
        impl Events<Scripted> for Stops {}
        impl Observer for Stops {
            fn stopped(&self) -> bool {
                false
            }

            fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
                self.0 += 1;
                if progress.ops >= 256 { Err(bad("enough")) } else { Ok(()) }
            }
        }
        let mut events = Stops(0);
        let outcome =
            run(&mut writes(vec![phase(1, Limit::Stream)]), &mut Scripted::new(), &mut events);
        assert!(matches!(outcome.end, RunEnd::Failed(_)));
        assert!(outcome.recorded.phases[0].ops_total() < 400 && events.0 > 1);
    }
}
