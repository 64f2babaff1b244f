//! Runs independent streams concurrently, each in a thread. Phases start together, and
//! the results are combined.

use super::SilentObserver;
use std::sync::{Condvar, Mutex, PoisonError};
use trimtab_sim::run::RunRecording;
use trimtab_sim::run::metrics;
use trimtab_sim::run::{Latency, Phase, Series};
use trimtab_sim::runner::files;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::target::{FileTarget, TargetError, TargetResult};
use trimtab_sim::workload::FileWorkload;

/// Runs every workload on its target: the first on the calling thread with `events`, each
/// other one on a thread of its own.
///
/// A phase starts after all streams have finished the previous one. Between phases,
/// `events` runs while all streams wait. The targets' clocks must have the same start. If
/// one stream fails, all streams stop.
pub fn run<W, T, E>(streams: &mut [(W, T)], events: &mut E) -> RunOutcome
where
    W: FileWorkload + Send,
    T: FileTarget + Send,
    E: Events<T> + ?Sized,
{
    let gate = Gate::new(streams.len());
    let Some(((workload, target), others)) = streams.split_first_mut() else {
        return RunOutcome { recorded: RunRecording::default(), end: RunEnd::Complete };
    };
    if others.is_empty() {
        return files::run(workload, target, events);
    }
    let outcomes =
        std::thread::scope(|scope| {
            let threads: Vec<_> = others
                .iter_mut()
                .map(|(workload, target)| {
                    scope.spawn(|| gate.run(workload, target, &mut SilentObserver))
                })
                .collect();
            let mut outcomes = vec![gate.run(workload, target, events)];
            // Propagate the panic of a stream, after the gate has let the other streams
            // end.
            outcomes.extend(threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            outcomes
        });
    merge(outcomes)
}

/// Barrier at which streams wait for each other.
struct Gate {
    streams: usize,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: usize,
    /// Number of times that all streams have met.
    meetings: u64,
    /// A stream has failed: no stream waits any more, and all streams end.
    broken: bool,
}

/// Reason in the error of a stream that ended because another stream failed. Never
/// reaches the user.
const ANOTHER_FAILED: &str = "another stream failed";

impl Gate {
    fn new(streams: usize) -> Self {
        Self { streams, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all streams have arrived.
    fn meet(&self) -> TargetResult {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        if state.waiting == self.streams {
            state.waiting = 0;
            state.meetings += 1;
            self.changed.notify_all();
        }
        let meeting = state.meetings + u64::from(state.waiting > 0);
        while state.meetings < meeting && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.broken { Err(stopped()) } else { Ok(()) }
    }

    fn check(&self) -> TargetResult {
        if self.state.lock().unwrap_or_else(PoisonError::into_inner).broken {
            Err(stopped())
        } else {
            Ok(())
        }
    }

    fn breach(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).broken = true;
        self.changed.notify_all();
    }

    fn run<W: FileWorkload, T: FileTarget, E: Events<T> + ?Sized>(
        &self,
        workload: &mut W,
        target: &mut T,
        events: &mut E,
    ) -> RunOutcome {
        /// Releases the waiting streams, even if this stream panics.
        struct Breach<'a>(&'a Gate, bool);
        impl Drop for Breach<'_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.breach();
                }
            }
        }
        let mut breach = Breach(self, true);
        let outcome = files::run(workload, target, &mut GatedEvents { gate: self, events });
        breach.1 = outcome.end != RunEnd::Complete;
        outcome
    }
}

fn stopped() -> TargetError {
    TargetError::new("continue", "", ANOTHER_FAILED, None)
}

struct GatedEvents<'a, E: ?Sized> {
    gate: &'a Gate,
    events: &'a mut E,
}

impl<E: Observer + ?Sized> Observer for GatedEvents<'_, E> {
    fn stopped(&self) -> bool {
        self.events.stopped()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.gate.check()?;
        self.events.progress(progress)
    }

    fn begins(&mut self, phase: &str) {
        self.events.begins(phase);
    }
}

impl<T: ?Sized, E: Events<T> + ?Sized> Events<T> for GatedEvents<'_, E> {
    fn between(
        &mut self,
        target: &mut T,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        self.gate.meet()?;
        self.events.between(target, recorder, next)?;
        self.gate.meet()
    }
}

/// Combines the outcomes. The result is the first genuine failure, an interrupt, or
/// success.
fn merge(outcomes: Vec<RunOutcome>) -> RunOutcome {
    let mut recorded = RunRecording::default();
    let mut end = RunEnd::Complete;
    for outcome in outcomes {
        end = match (end, outcome.end) {
            (RunEnd::Complete, other) => other,
            (RunEnd::Failed(first), second @ (RunEnd::Failed(_) | RunEnd::Interrupted))
                if first.reason == ANOTHER_FAILED =>
            {
                second
            }
            (first, _) => first,
        };
        add(&mut recorded, outcome.recorded);
    }
    RunOutcome { recorded, end }
}

/// Adds the record of one stream to the sum, phase by phase.
pub(super) fn add(sum: &mut RunRecording, other: RunRecording) {
    for (at, phase) in other.phases.into_iter().enumerate() {
        match sum.phases.get_mut(at) {
            Some(into) if into.name == phase.name => add_phase(into, phase),
            _ => sum.phases.insert(at.min(sum.phases.len()), phase),
        }
    }
    sum.series = add_series(std::mem::take(&mut sum.series), other.series);
}

fn add_phase(into: &mut Phase, phase: Phase) {
    let end = (into.started + into.took).max(phase.started + phase.took);
    into.started = into.started.min(phase.started);
    into.took = end.saturating_sub(into.started);
    for (kind, count) in phase.ops {
        match into.ops.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, sum)) => *sum += count,
            None => into.ops.push((kind, count)),
        }
    }
    into.ops.sort_by_key(|(kind, _)| *kind);
    into.read += phase.read;
    into.written += phase.written;
    for latency in phase.latencies {
        match into
            .latencies
            .iter_mut()
            .find(|other| (other.kind, other.part) == (latency.kind, latency.part))
        {
            Some(Latency { histogram, .. }) => histogram.merge(&latency.histogram),
            None => into.latencies.push(latency),
        }
    }
    into.latencies.sort_by_key(|latency| (latency.kind, latency.part));
}

/// Adds two sets of series. Rates are summed; each value covers the interval since the
/// previous point. Means are weighted by operation counts, and maxima take the larger
/// value.
fn add_series(a: Vec<Series>, b: Vec<Series>) -> Vec<Series> {
    let points = |all: &[Series]| all.iter().map(|series| series.x.len()).max().unwrap_or(0);
    let (long, short) = if points(&a) >= points(&b) { (a, b) } else { (b, a) };
    let value = |name: &str, x: u64| {
        let series = short.iter().find(|series| series.name == name)?;
        series.y.get(series.x.partition_point(|end| *end < x)).copied()
    };
    let ops: Vec<f64> = long
        .iter()
        .find(|series| series.name == OPS)
        .map(|series| series.y.clone())
        .unwrap_or_default();
    let mut sum = long.clone();
    for series in &mut sum {
        for (at, (x, y)) in series.x.iter().zip(&mut series.y).enumerate() {
            let Some(other) = value(&series.name, *x) else { continue };
            *y = match series.name.as_str() {
                metrics::LATENCY_MAX => y.max(other),
                metrics::LATENCY_MEAN => {
                    let (mine, theirs) =
                        (ops.get(at).copied().unwrap_or(0.0), value(OPS, *x).unwrap_or(0.0));
                    if mine + theirs > 0.0 {
                        (*y * mine + other * theirs) / (mine + theirs)
                    } else {
                        0.0
                    }
                }
                _ => *y + other,
            };
        }
    }
    sum.extend(
        short.into_iter().filter(|series| !long.iter().any(|other| other.name == series.name)),
    );
    sum
}

const OPS: &str = metrics::OPS_RATE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::null::NullFiles;
    use trimtab_drive::OpKind;
    use trimtab_drive::units::Nanos;
    use trimtab_sim::op::FileOp;
    use trimtab_sim::run::{Axis, Unit};
    use trimtab_sim::target::Clock;
    use trimtab_sim::workload::{FileStep, WorkloadPlan};

    /// A workload of `phases` phases with `ops` deletions each.
    struct Deletes {
        phases: u32,
        ops: u32,
        at: u32,
    }

    impl FileWorkload for Deletes {
        fn plan(&self) -> WorkloadPlan {
            WorkloadPlan::default()
        }
        fn next_step(&mut self) -> Option<FileStep<'_>> {
            let (phase, op) = (self.at / (self.ops + 1), self.at % (self.ops + 1));
            self.at += 1;
            match (phase < self.phases, op) {
                (false, _) => None,
                (true, 0) => Some(FileStep::Phase("p")),
                (true, _) => Some(FileStep::Op(FileOp::Delete("f"))),
            }
        }
    }

    /// Does nothing and succeeds, until deletion number `left` fails.
    struct Failing {
        null: NullFiles,
        left: u32,
    }

    impl Clock for Failing {
        fn now(&mut self) -> Nanos {
            self.null.now()
        }
        fn idle_until(&mut self, instant: Nanos) {
            self.null.idle_until(instant);
        }
    }

    impl FileTarget for Failing {
        fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
            let FileOp::Delete(path) = op else { return Ok(()) };
            self.left = self.left.saturating_sub(1);
            if self.left > 0 {
                Ok(())
            } else {
                Err(TargetError::new("delete", *path, "broken", Some(5)))
            }
        }
    }

    fn streams(lives: &[u32]) -> Vec<(Deletes, Failing)> {
        lives
            .iter()
            .map(|left| {
                (
                    Deletes { phases: 3, ops: 1000, at: 0 },
                    Failing { null: NullFiles::new(), left: *left },
                )
            })
            .collect()
    }

    #[test]
    fn streams_add_up_phase_by_phase() {
        #[derive(Default)]
        struct Between(Vec<bool>);
        impl Observer for Between {
            fn stopped(&self) -> bool {
                false
            }
        }
        impl Events<Failing> for Between {
            fn between(
                &mut self,
                _: &mut Failing,
                _: &mut Recorder,
                next: Option<&str>,
            ) -> TargetResult {
                self.0.push(next.is_some());
                Ok(())
            }
        }
        let mut between = Between::default();
        let outcome = run(&mut streams(&[u32::MAX; 4]), &mut between);
        assert_eq!(outcome.end, RunEnd::Complete);
        assert_eq!(between.0, [true, true, true, false], "once for all streams");
        assert_eq!(outcome.recorded.phases.len(), 3);
        for phase in &outcome.recorded.phases {
            assert_eq!(phase.ops, [(OpKind::Delete, 4000)]);
            assert_eq!(phase.latencies[0].histogram.count(), 4000);
        }
    }

    #[test]
    fn failing_stream_ends_all_and_its_error_is_returned() {
        for broken in 0..3 {
            let mut lives = [u32::MAX; 3];
            lives[broken] = 1500;
            let outcome = run(&mut streams(&lives), &mut ());
            assert!(
                matches!(&outcome.end, RunEnd::Failed(error) if error.errno == Some(5)),
                "{:?}",
                outcome.end
            );
        }
    }

    #[test]
    fn add_series_adds_rates_and_weights_means() {
        let series = |name: &str, y: &[f64]| Series {
            name: name.into(),
            axis: Axis::Time,
            x: (1..=y.len() as u64).collect(),
            unit: Unit::Count,
            y: y.to_vec(),
        };
        let a = vec![
            series(OPS, &[1.0, 3.0]),
            series("latency.mean", &[10.0, 10.0]),
            series("latency.max", &[11.0, 12.0]),
        ];
        let b = vec![
            series(OPS, &[3.0]),
            series("latency.mean", &[30.0]),
            series("latency.max", &[9.0]),
            series("read.rate", &[5.0]),
        ];
        for (a, b) in [(a.clone(), b.clone()), (b, a)] {
            let sum = add_series(a, b);
            let y = |name: &str| sum.iter().find(|series| series.name == name).unwrap().y.clone();
            assert_eq!(
                (y(OPS), y("latency.mean"), y("latency.max"), y("read.rate")),
                (vec![4.0, 3.0], vec![25.0, 10.0], vec![11.0, 12.0], vec![5.0])
            );
        }
    }
}
