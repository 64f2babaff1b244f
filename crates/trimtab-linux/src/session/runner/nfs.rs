//! Runs the NFS mix at a series of loads. Each stream has a thread of its own and an
//! equal share of the load.

use super::together;
use crate::sys::interrupt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use trimtab_drive::OpKind;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Observer, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::target::{NfsTarget, TargetError, TargetResult};
use trimtab_sim::workload::nfs::NfsStream;

/// Interval between progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// A load level.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadLevel {
    /// Name of its phase.
    pub name: String,
    /// Operations per second of all streams together; `None` for unlimited.
    pub rate: Option<f64>,
    /// Unrecorded time at the start.
    pub warm_up: Nanos,
    /// Recorded time after the warm-up.
    pub measure: Nanos,
}

/// A stream with its target and recorder.
#[derive(Debug)]
pub struct Lane<T> {
    stream: NfsStream,
    target: T,
    recorder: Recorder,
}

/// All streams of a run.
#[derive(Debug)]
pub struct NfsStreams<T> {
    lanes: Vec<Lane<T>>,
    seed: u64,
    loads: u32,
}

/// State shared by the threads of a phase.
struct NfsPhaseState {
    stop: AtomicBool,
    failure: Mutex<Option<TargetError>>,
    ops: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl<T: NfsTarget + Send> NfsStreams<T> {
    /// Creates the streams on their targets. All targets' clocks must have the same
    /// start.
    pub fn new(streams: impl IntoIterator<Item = (NfsStream, T)>, seed: u64) -> Self {
        let lane = |(stream, mut target): (NfsStream, T)| {
            let recorder = Recorder::new(target.now());
            Lane { stream, target, recorder }
        };
        Self { lanes: streams.into_iter().map(lane).collect(), seed, loads: 0 }
    }

    /// Creates the files of all streams and syncs them, in a phase named `prepare`.
    pub fn prepare<E: Observer>(&mut self, events: &mut E) -> TargetResult<RunEnd> {
        self.phase("prepare", events, |lane, shared, _| {
            let (target, recorder) = (&mut lane.target, &mut lane.recorder);
            let mut last = target.now();
            recorder.begin_phase("prepare", last);
            lane.stream.prepare(target, |bytes| {
                recorder.count_op(OpKind::Create, bytes);
                shared.count(OpKind::Create, bytes);
                shared.check()
            })?;
            target.sync()?;
            last = target.now().max(last);
            recorder.end_phase(last);
            Ok(())
        })
    }

    /// Runs one load. Returns how it ended, and the throughput in operations per second.
    pub fn run<E: Observer>(
        &mut self,
        load: &LoadLevel,
        events: &mut E,
    ) -> TargetResult<(RunEnd, f64)> {
        self.loads += 1;
        let purpose = format!("nfs-arrivals-{}", self.loads);
        let (seed, streams) = (self.seed, self.lanes.len() as f64);
        let end = self.phase(&load.name, events, |lane, shared, index| {
            let arrivals = load
                .rate
                .map(|rate| Arrivals::new(seed, &format!("{purpose}-{index}"), rate / streams));
            lane.run(load, arrivals, shared)
        })?;
        let done: f64 = self
            .lanes
            .iter()
            .filter_map(|lane| lane.recorder.phases().last())
            .map(|phase| phase.ops_total() as f64)
            .sum();
        Ok((end, done / load.measure.as_secs_f64().max(1e-9)))
    }

    /// Runs `work` on all streams concurrently, while this thread reports progress.
    fn phase<E, W>(&mut self, name: &str, events: &mut E, work: W) -> TargetResult<RunEnd>
    where
        E: Observer,
        W: Fn(&mut Lane<T>, &NfsPhaseState, usize) -> TargetResult + Sync,
    {
        let shared = NfsPhaseState {
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            ops: self.total(Recorder::ops).into(),
            read: self.total(|r| r.read().0).into(),
            written: self.total(|r| r.written().0).into(),
        };
        let running = AtomicU64::new(self.lanes.len() as u64);
        let watched = std::thread::scope(|scope| {
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                let (shared, running, work) = (&shared, &running, &work);
                scope.spawn(move || {
                    let _done = ThreadExitGuard(running);
                    if let Err(error) = work(lane, shared, index) {
                        shared.fail(error);
                    }
                });
            }
            shared.watch(name, &running, events)
        });
        watched?;
        match shared.failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            _ if interrupt::requested() => Ok(RunEnd::Interrupted),
            Some(error) => Err(error),
            None => Ok(RunEnd::Complete),
        }
    }

    fn total(&self, of: impl Fn(&Recorder) -> u64) -> u64 {
        self.lanes.iter().map(|lane| of(&lane.recorder)).sum()
    }

    /// Returns the combined records of all streams.
    pub fn finish(self, end: RunEnd) -> RunOutcome {
        let outcomes = self.lanes.into_iter().map(|mut lane| {
            let now = lane.target.now();
            lane.recorder.finish(now)
        });
        let mut recorded = trimtab_sim::run::RunRecording::default();
        outcomes.for_each(|one| together::add(&mut recorded, one));
        RunOutcome { recorded, end }
    }
}

/// Counts a thread as finished, even if it panics.
struct ThreadExitGuard<'a>(&'a AtomicU64);

impl Drop for ThreadExitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl NfsPhaseState {
    fn count(&self, kind: OpKind, bytes: u64) {
        self.ops.fetch_add(1, Ordering::Relaxed);
        match kind {
            OpKind::Read => self.read.fetch_add(bytes, Ordering::Relaxed),
            _ => self.written.fetch_add(bytes, Ordering::Relaxed),
        };
    }

    /// Returns an error once this phase must end.
    fn check(&self) -> TargetResult {
        if self.stop.load(Ordering::Relaxed) || interrupt::requested() {
            return Err(TargetError::new("continue", "", "stopped", None));
        }
        Ok(())
    }

    /// Stores the first failure and ends the phase for all streams.
    fn fail(&self, error: TargetError) {
        // Store the error first: a stream that sees the stop flag fails too, and must not
        // store its error first.
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn watch<E: Observer>(&self, phase: &str, running: &AtomicU64, events: &mut E) -> TargetResult {
        while running.load(Ordering::Acquire) > 0 {
            std::thread::sleep(PROGRESS_EVERY);
            let progress = RunProgress {
                phase,
                ops: self.ops.load(Ordering::Relaxed),
                read: Bytes(self.read.load(Ordering::Relaxed)),
                written: Bytes(self.written.load(Ordering::Relaxed)),
            };
            if let Err(error) = events.progress(progress) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Arrival times of operations, with exponentially distributed intervals.
struct Arrivals {
    rng: Stream,
    mean_ns: f64,
    due_ns: f64,
}

impl Arrivals {
    fn new(seed: u64, purpose: &str, rate: f64) -> Self {
        Self { rng: Stream::new(seed, purpose), mean_ns: 1e9 / rate, due_ns: 0.0 }
    }

    /// Returns the next arrival time, relative to the start of the phase.
    fn next(&mut self) -> Nanos {
        self.due_ns -= (1.0 - self.rng.unit()).ln() * self.mean_ns;
        Nanos(self.due_ns as u64)
    }
}

impl<T: NfsTarget> Lane<T> {
    /// Runs operations until the time is over. If an operation is due before the previous
    /// one ends, it follows immediately. The response time counts from the actual issue,
    /// as in SPEC's benchmark; a shortfall of the load shows in the throughput.
    fn run(
        &mut self,
        load: &LoadLevel,
        mut arrivals: Option<Arrivals>,
        shared: &NfsPhaseState,
    ) -> TargetResult {
        let data = self.stream.data();
        let start = self.target.now();
        let measured = start.saturating_add(load.warm_up);
        let end = measured.saturating_add(load.measure);
        let mut recording = false;
        loop {
            if let Some(arrivals) = &mut arrivals {
                let due = start.saturating_add(arrivals.next());
                self.target.idle_until(due.min(end));
            }
            let issued = self.target.now();
            if !recording && issued >= measured {
                recording = true;
                self.recorder.begin_phase(&load.name, measured);
            }
            if issued >= end {
                break;
            }
            shared.check()?;
            let op = self.stream.next_op();
            self.target.serve(&op, data)?;
            let completed = self.target.now();
            shared.count(op.kind, op.len);
            self.recorder.op(op.kind, issued, completed, op.len);
        }
        self.recorder.end_phase(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::null::NullFiles;
    use std::time::Instant;
    use trimtab_drive::data::DataClass;

    fn lanes(streams: u32) -> NfsStreams<NullFiles> {
        let epoch = Instant::now();
        let settings =
            trimtab_sim::workload::nfs::NfsSettings { files: 200, data: DataClass::Zero, seed: 1 };
        NfsStreams::new(
            (0..streams)
                .map(|index| (NfsStream::new(&settings, index), NullFiles::with_epoch(epoch))),
            1,
        )
    }

    fn load(name: &str, rate: Option<f64>) -> LoadLevel {
        LoadLevel {
            name: name.to_owned(),
            rate,
            warm_up: Nanos::from_millis(50),
            measure: Nanos::from_millis(400),
        }
    }

    #[test]
    fn nfs_load_reaches_requested_rate_over_all_streams() {
        let mut lanes = lanes(3);
        assert_eq!(lanes.prepare(&mut ()), Ok(RunEnd::Complete));
        let (end, achieved) = lanes.run(&load("load-01", Some(2000.0)), &mut ()).unwrap();
        // Exponential arrivals: 800 operations, within five standard deviations.
        assert!(end == RunEnd::Complete && (achieved / 2000.0 - 1.0).abs() < 0.18, "{achieved}");
        let (_, unlimited) = lanes.run(&load("load-02", None), &mut ()).unwrap();
        assert!(unlimited > 20_000.0, "{unlimited}");
        let outcome = lanes.finish(RunEnd::Complete);
        let names: Vec<&str> =
            outcome.recorded.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["prepare", "load-01", "load-02"]);
        let measured = outcome.recorded.phases[1].took;
        assert!(
            measured >= Nanos::from_millis(400) && measured < Nanos::from_secs(2),
            "{measured}"
        );
    }

    #[test]
    fn nfs_phase_ends_on_observer_error() {
        struct Enough;
        impl Observer for Enough {
            fn stopped(&self) -> bool {
                false
            }

            fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
                let reason = format!("{} operations", progress.ops.min(1));
                Err(TargetError { action: "go on", object: "here".to_owned(), reason, errno: None })
            }
        }
        let began = Instant::now();
        let long = LoadLevel { measure: Nanos::from_secs(600), ..load("load-01", None) };
        let error = lanes(2).run(&long, &mut Enough).unwrap_err();
        assert_eq!(error.to_string(), "cannot go on here: 1 operations");
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
