//! Runs jobs on a block target: several streams at a time, each with its own window and
//! pace.

use super::recorder::Recorder;
use super::{Events, RunEnd, RunOutcome};
use crate::run::{Better, LatencyPart, Metric, Phase, Unit};
use crate::target::{BlockCompletion, PacedTarget, TargetError, TargetResult};
use crate::workload::jobs::{Job, JobGroup, JobStep, JobStream};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::units::Nanos;

/// Operations between two calls of [`Observer::progress`](super::Observer::progress).
const PROGRESS_OPS: u64 = 256;
/// Longest time on the target's clock between two calls, while requests are in flight.
const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);

/// Runs `groups` one after the other. Each job has one phase, which begins after its ramp
/// time.
pub fn run<T, E>(groups: Vec<JobGroup<'_>>, target: &mut T, events: &mut E) -> RunOutcome
where
    T: PacedTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    let mut recorder = Recorder::new(target.now());
    let mut phases = Vec::new();
    let end = match run_groups(groups, target, events, &mut recorder, &mut phases) {
        Ok(end) => end,
        Err(_) if events.stopped() => RunEnd::Interrupted,
        Err(error) => RunEnd::Failed(error),
    };
    let mut recorded = recorder.finish(target.now());
    recorded.phases = phases;
    RunOutcome { recorded, end }
}

/// As [`run`], compiled once, in this crate, for targets of other crates.
#[inline(never)]
pub fn run_dyn<'a>(
    groups: Vec<JobGroup<'_>>,
    target: &mut (dyn PacedTarget + 'a),
    events: &mut dyn Events<dyn PacedTarget + 'a>,
) -> RunOutcome {
    run(groups, target, events)
}

fn run_groups<T, E>(
    groups: Vec<JobGroup<'_>>,
    target: &mut T,
    events: &mut E,
    recorder: &mut Recorder,
    phases: &mut Vec<Phase>,
) -> TargetResult<RunEnd>
where
    T: PacedTarget + ?Sized,
    E: Events<T> + ?Sized,
{
    for group in groups {
        let depth: u64 =
            group.iter().map(|(job, streams)| u64::from(job.depth) * streams.len() as u64).sum();
        let most = target.info().queue_depth_max;
        if depth > u64::from(most) {
            let object = format!("{depth} operations in flight");
            return Err(TargetError::new(
                "keep",
                object,
                format!("the target takes at most {most}"),
                None,
            ));
        }
        events.between(target, recorder, group.first().map(|(job, _)| job.name.as_str()))?;
        let mut jobs = RunningGroup::new(&group, target.now());
        let result = jobs.run(group, target, events, recorder);
        phases.extend(
            jobs.recorders
                .into_iter()
                .filter_map(JobRecorder::finish)
                .filter(|phase| !phase.ops.is_empty()),
        );
        result?;
        if events.stopped() {
            return Ok(RunEnd::Interrupted);
        }
    }
    events.between(target, recorder, None)?;
    Ok(RunEnd::Complete)
}

/// A clone of a job.
struct RunningClone {
    job: usize,
    stream: JobStream,
    depth: u32,
    in_flight: u32,
    /// Pause after each request.
    pause: Nanos,
    /// True from a completion until the pause begins.
    pausing: bool,
    /// No request before this time.
    resumes: Nanos,
    ends: Nanos,
    ended: bool,
}

/// Records a job from the end of its ramp time.
struct JobRecorder {
    recorder: Recorder,
    from: Nanos,
    /// End of the last request or of the runtime, not before `from`.
    until: Nanos,
    /// Requests to issue before latencies are recorded.
    unrecorded: u64,
    latency_from_due: bool,
}

impl JobRecorder {
    fn finish(mut self) -> Option<Phase> {
        self.recorder.end_phase(self.until);
        self.recorder.finish(self.until).phases.pop()
    }
}

/// A request in flight.
#[derive(Clone, Copy)]
struct InFlight {
    clone: usize,
    kind: OpKind,
    bytes: u64,
    due: Nanos,
    /// True if the latency is recorded.
    recorded: bool,
}

struct RunningGroup {
    started: Nanos,
    recorders: Vec<JobRecorder>,
    slots: Vec<InFlight>,
    free: Vec<u32>,
}

impl RunningGroup {
    fn new(group: &JobGroup<'_>, started: Nanos) -> Self {
        let recorder = |(job, _): &(&Job, Vec<JobStream>)| {
            let from = started.saturating_add(job.ramp);
            let mut recorder = Recorder::new(from);
            recorder.begin_phase(&job.name, from);
            JobRecorder {
                recorder,
                from,
                until: from,
                unrecorded: job.latencies_after,
                latency_from_due: job.latency_from_due,
            }
        };
        Self {
            started,
            recorders: group.iter().map(recorder).collect(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    fn run<T, E>(
        &mut self,
        group: JobGroup<'_>,
        target: &mut T,
        events: &mut E,
        all: &mut Recorder,
    ) -> TargetResult
    where
        T: PacedTarget + ?Sized,
        E: Events<T> + ?Sized,
    {
        let mut clones = Vec::new();
        for (nth, (job, streams)) in group.into_iter().enumerate() {
            let ends = self.started.saturating_add(job.ends_after());
            clones.extend(streams.into_iter().map(|stream| RunningClone {
                job: nth,
                stream,
                depth: job.depth,
                in_flight: 0,
                pause: job.pause,
                pausing: false,
                resumes: self.started,
                ends,
                ended: false,
            }));
        }
        let depth: u32 = clones.iter().map(|clone| clone.depth).sum();
        self.slots.resize(
            depth as usize,
            InFlight { clone: 0, kind: OpKind::Read, bytes: 0, due: Nanos::ZERO, recorded: true },
        );
        self.free.extend((0..depth).rev());
        let (mut done, mut result, mut stop) = (Vec::new(), Ok(()), false);
        let (mut reported, mut report_at) = (all.ops(), self.started);
        loop {
            let mut wake = Nanos::MAX;
            for (at, clone) in clones.iter_mut().enumerate() {
                if stop {
                    break;
                }
                match self.issue(at, clone, target) {
                    Ok(next) => wake = wake.min(next),
                    Err(error) => (result, stop) = (Err(error), true),
                }
            }
            if self.free.len() == depth as usize {
                if stop || wake == Nanos::MAX {
                    return result;
                }
                target.idle_until(wake);
                stop |= events.stopped();
                continue;
            }
            if stop || wake == Nanos::MAX {
                target.reap(1, &mut done)?;
            } else {
                target.reap_until(wake, &mut done)?;
            }
            for completion in done.drain(..) {
                if let Err(error) = self.complete(completion, &mut clones, all) {
                    (result, stop) = (result.and(Err(error)), true);
                }
            }
            stop |= events.stopped();
            let now = target.now();
            if all.ops() >= reported + PROGRESS_OPS || now >= report_at {
                (reported, report_at) = (all.ops(), now.saturating_add(PROGRESS_EVERY));
                if let Err(error) = events.progress(all.progress()) {
                    (result, stop) = (result.and(Err(error)), true);
                }
            }
        }
    }

    /// Issues all requests of a clone that are due; returns the time of the next one.
    fn issue<T: PacedTarget + ?Sized>(
        &mut self,
        at: usize,
        clone: &mut RunningClone,
        target: &mut T,
    ) -> TargetResult<Nanos> {
        loop {
            let now = target.now();
            let recorder = &mut self.recorders[clone.job];
            if !clone.ended && now >= clone.ends {
                clone.ended = true;
                recorder.until = recorder.until.max(clone.ends);
            }
            if clone.pausing && clone.in_flight == 0 {
                clone.pausing = false;
                clone.resumes = now.saturating_add(clone.pause);
            }
            if clone.ended || clone.pausing || clone.in_flight == clone.depth {
                return Ok(Nanos::MAX);
            }
            if now < clone.resumes {
                return Ok(clone.resumes.min(clone.ends));
            }
            let (command, due) = match clone.stream.next_step(now.saturating_sub(self.started)) {
                JobStep::Issue(command, due) => (command, self.started.saturating_add(due)),
                JobStep::NotBefore(due) => {
                    return Ok(self.started.saturating_add(due).min(clone.ends));
                }
                JobStep::End => {
                    clone.ended = true;
                    return Ok(Nanos::MAX);
                }
            };
            let tag = self.free.pop().expect("a tag for each request in flight");
            let recorded = recorder.unrecorded == 0;
            recorder.unrecorded = recorder.unrecorded.saturating_sub(1);
            self.slots[tag as usize] =
                InFlight { clone: at, kind: command.kind(), bytes: command.bytes(), due, recorded };
            if let Err(error) = target.submit(tag, command) {
                self.free.push(tag);
                return Err(error);
            }
            clone.in_flight += 1;
        }
    }

    fn complete(
        &mut self,
        done: BlockCompletion,
        clones: &mut [RunningClone],
        all: &mut Recorder,
    ) -> TargetResult {
        let InFlight { clone, kind, bytes, due, recorded } = self.slots[done.tag as usize];
        self.free.push(done.tag);
        let clone = &mut clones[clone];
        clone.in_flight -= 1;
        clone.pausing |= clone.pause > Nanos::ZERO && kind != OpKind::Flush;
        done.result.map_err(|error| *error)?;
        let JobRecorder { recorder, from, until, latency_from_due, .. } =
            &mut self.recorders[clone.job];
        let issued = if *latency_from_due { due.min(done.issued) } else { done.issued };
        all.op(kind, issued, done.completed, bytes);
        *until = (*until).max(done.completed);
        if done.completed >= *from {
            if !recorded {
                recorder.count_op(kind, bytes);
            } else if *latency_from_due {
                recorder.op(kind, issued, done.completed, bytes);
            } else {
                recorder.split_op(kind, done.issued, done.submitted, done.completed, bytes);
            }
        }
        Ok(())
    }
}

/// Suffix of a job's request rate.
pub const RATE: &str = ".job.iops";
/// Suffixes of a job's figures: request rate, MB/s, mean latency, percentiles.
pub const FIGURES: [&str; 6] = [
    RATE,
    ".job.rate",
    ".job.latency.mean",
    ".job.latency.p50",
    ".job.latency.p99",
    ".job.latency.p99.9",
];

/// True for the name of a figure of a job.
#[must_use]
pub fn is_figure(name: &str) -> bool {
    FIGURES.iter().any(|suffix| name.ends_with(suffix))
}

/// Figures of each job and kind of request, named `JOB.KIND` and the suffix.
#[must_use]
pub fn metrics(jobs: &[Job], phases: &[Phase]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for phase in phases {
        let (Some(job), seconds) =
            (jobs.iter().find(|job| job.name == phase.name), phase.took.as_secs_f64())
        else {
            continue;
        };
        for latency in phase
            .latencies
            .iter()
            .filter(|latency| latency.part == LatencyPart::Total && latency.kind != OpKind::Flush)
        {
            let histogram = &latency.histogram;
            let per_second = histogram.count() as f64 / seconds;
            let bytes = match latency.kind {
                OpKind::Read => phase.read.as_f64(),
                OpKind::Write => phase.written.as_f64(),
                _ => histogram.count() as f64 * f64::from(job.block),
            };
            let percentile = |percent| (Unit::Nanos, histogram.percentile(percent).as_f64());
            let figures = [
                (Unit::OpsPerSecond, per_second),
                (Unit::MegabytesPerSecond, bytes / seconds / 1e6),
                (Unit::Nanos, histogram.mean_ns()),
                percentile(50.0),
                percentile(99.0),
                percentile(99.9),
            ];
            metrics.extend(FIGURES.iter().zip(figures).map(|(suffix, (unit, value))| {
                let name = format!("{}.{}{suffix}", job.name, latency.kind.name());
                let better = if unit == Unit::Nanos { Better::Lower } else { Better::Higher };
                Metric::single(name, unit, better, value)
            }));
        }
    }
    metrics
}

#[cfg(test)]
mod tests;
