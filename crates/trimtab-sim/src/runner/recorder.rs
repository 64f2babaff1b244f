//! Records a run: phases, latency histograms, and series of bounded length.

use super::RunProgress;
use crate::run::metrics;
use crate::run::{Axis, Latency, LatencyPart, Phase, RunRecording, Series, Unit};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::{Bytes, Nanos};

/// Maximum points of a series. When it is full, neighbours are merged and the interval
/// doubles. Two hours of seconds keep full resolution in a plot, and years of virtual
/// time fit into memory.
const POINTS_MAX: usize = 7200;

/// Batch size of latencies before they are added to histograms: system calls that move
/// data evict the histograms from the caches, and one miss per batch is cheaper.
const WAITING_MAX: usize = 256;

/// Records operations into the current phase. Costs a few nanoseconds per histogram and
/// does not allocate after a kind's first operation.
#[derive(Debug)]
pub struct Recorder {
    started: Nanos,
    done: Vec<Phase>,
    current: Option<CurrentPhase>,
    series: Intervals,
    ops: u64,
    read: Bytes,
    written: Bytes,
}

#[derive(Debug)]
struct CurrentPhase {
    name: String,
    started: Nanos,
    read: u64,
    written: u64,
    kinds: [Option<Box<OpRecording>>; OpKind::ALL.len()],
    /// Latencies not yet in the histograms.
    waiting: Vec<(OpKind, Nanos)>,
}

#[derive(Debug, Default)]
struct OpRecording {
    count: u64,
    total: Histogram,
    parts: Option<Box<(Histogram, Histogram)>>,
    /// Operations submitted at their time of issue, as on modelled drives: submission
    /// took no time and completion all of it. Not included in the other histograms.
    at_once: Option<Box<Histogram>>,
}

impl Recorder {
    /// A recorder for a run that starts at `now` on the target's clock; series in
    /// seconds.
    pub fn new(now: Nanos) -> Self {
        Self {
            started: now,
            done: Vec::new(),
            current: None,
            series: Intervals::new(now, Nanos::from_secs(1)),
            ops: 0,
            read: Bytes::ZERO,
            written: Bytes::ZERO,
        }
    }

    /// Ends the current phase, if any, and begins another.
    pub fn begin_phase(&mut self, name: &str, now: Nanos) {
        self.end_phase(now);
        self.current = Some(CurrentPhase {
            name: name.to_owned(),
            started: now,
            read: 0,
            written: 0,
            kinds: [const { None }; _],
            waiting: Vec::with_capacity(WAITING_MAX),
        });
    }

    /// Ends the current phase, if any.
    pub fn end_phase(&mut self, now: Nanos) {
        if let Some(current) = self.current.take() {
            self.done.push(current.finish(now));
        }
    }

    /// Discards the current phase, a warm-up. Its operations stay in series and totals.
    pub fn drop_phase(&mut self) {
        self.current = None;
    }

    /// Name of the current phase; empty between phases.
    pub fn phase(&self) -> &str {
        self.current.as_ref().map_or("", |current| &current.name)
    }

    /// Completed phases.
    pub fn phases(&self) -> &[Phase] {
        &self.done
    }

    /// The last completed phase, for additional data.
    pub fn last_phase(&mut self) -> Option<&mut Phase> {
        self.done.last_mut()
    }

    /// Merges the last completed phase into the earlier one of its name, if any, and adds
    /// their times. Keeps long series of rounds within memory.
    pub fn merge_last_phase(&mut self) {
        let Some(last) = self.done.pop() else { return };
        match self.done.iter_mut().find(|phase| phase.name == last.name) {
            Some(earlier) => merge_phases(earlier, last),
            None => self.done.push(last),
        }
    }

    /// Operations so far, in all phases.
    pub const fn ops(&self) -> u64 {
        self.ops
    }

    /// Bytes read so far, in all phases.
    pub const fn read(&self) -> Bytes {
        self.read
    }

    /// Bytes written so far, in all phases.
    pub const fn written(&self) -> Bytes {
        self.written
    }

    /// Progress of the run.
    pub fn progress(&self) -> RunProgress<'_> {
        RunProgress { phase: self.phase(), ops: self.ops, read: self.read, written: self.written }
    }

    /// Records an operation.
    #[inline]
    pub fn op(&mut self, kind: OpKind, issued: Nanos, completed: Nanos, bytes: u64) {
        let latency = completed.saturating_sub(issued);
        if let Some(current) = &mut self.current {
            current.waiting.push((kind, latency));
            if current.waiting.len() == WAITING_MAX {
                current.settle();
            }
        }
        self.count(kind, latency, completed, bytes);
    }

    /// As [`op`](Self::op), with submission and completion separate.
    #[inline(always)]
    pub fn split_op(
        &mut self,
        kind: OpKind,
        issued: Nanos,
        submitted: Nanos,
        completed: Nanos,
        bytes: u64,
    ) {
        let latency = completed.saturating_sub(issued);
        if let Some(current) = &mut self.current {
            let kind = current.kind(kind);
            kind.count = kind.count.wrapping_add(1);
            if submitted == issued {
                kind.at_once.get_or_insert_default().record(latency);
            } else {
                kind.total.record(latency);
                let parts = kind.parts.get_or_insert_default();
                parts.0.record(submitted.saturating_sub(issued));
                parts.1.record(completed.saturating_sub(submitted));
            }
        }
        self.count(kind, latency, completed, bytes);
    }

    /// Counts an operation without latency or series.
    #[inline]
    pub fn count_op(&mut self, kind: OpKind, bytes: u64) {
        if let Some(current) = &mut self.current {
            let kind = current.kind(kind);
            kind.count = kind.count.wrapping_add(1);
        }
        self.count_bytes(kind, bytes);
    }

    #[inline]
    fn count(&mut self, kind: OpKind, latency: Nanos, completed: Nanos, bytes: u64) {
        let (read, written) = self.count_bytes(kind, bytes);
        self.series.add(completed, latency, read, written);
    }

    #[inline]
    fn count_bytes(&mut self, kind: OpKind, bytes: u64) -> (u64, u64) {
        // 64-bit byte counts of one run never overflow. This is the measured inner loop.
        self.ops = self.ops.wrapping_add(1);
        let (read, written) = match kind {
            OpKind::Read => (bytes, 0),
            OpKind::Write | OpKind::Create | OpKind::Append => (0, bytes),
            _ => (0, 0),
        };
        self.read.0 = self.read.0.wrapping_add(read);
        self.written.0 = self.written.0.wrapping_add(written);
        if let Some(current) = &mut self.current {
            current.read = current.read.wrapping_add(read);
            current.written = current.written.wrapping_add(written);
        }
        (read, written)
    }

    /// Ends the run.
    pub fn finish(mut self, now: Nanos) -> RunRecording {
        self.end_phase(now);
        RunRecording { phases: self.done, series: self.series.finish(now, self.started) }
    }
}

impl CurrentPhase {
    #[inline]
    fn kind(&mut self, kind: OpKind) -> &mut OpRecording {
        self.kinds[kind as usize].get_or_insert_default()
    }

    /// Adds the waiting latencies to their histograms.
    #[cold]
    fn settle(&mut self) {
        let mut waiting = core::mem::take(&mut self.waiting);
        for (kind, latency) in waiting.drain(..) {
            let kind = self.kind(kind);
            kind.count = kind.count.wrapping_add(1);
            kind.total.record(latency);
        }
        self.waiting = waiting;
    }

    fn finish(mut self, now: Nanos) -> Phase {
        self.settle();
        let mut phase = Phase {
            name: self.name,
            started: self.started,
            took: now.saturating_sub(self.started),
            ops: Vec::new(),
            read: Bytes(self.read),
            written: Bytes(self.written),
            latencies: Vec::new(),
            discards: None,
        };
        for (kind, data) in OpKind::ALL.iter().copied().zip(self.kinds) {
            let Some(data) = data.map(|data| data.together()) else { continue };
            phase.ops.push((kind, data.count));
            if let Some(parts) = data.parts {
                phase.latencies.push(Latency {
                    kind,
                    part: LatencyPart::Submission,
                    histogram: parts.0,
                });
                phase.latencies.push(Latency {
                    kind,
                    part: LatencyPart::Completion,
                    histogram: parts.1,
                });
            }
            if data.total.count() > 0 {
                phase.latencies.push(Latency {
                    kind,
                    part: LatencyPart::Total,
                    histogram: data.total,
                });
            }
        }
        phase
    }
}

impl OpRecording {
    /// Merges `at_once` into all three histograms.
    fn together(mut self) -> Self {
        if let Some(at_once) = self.at_once.take() {
            let (submission, completion) = &mut **self.parts.get_or_insert_default();
            submission.record_n(Nanos::ZERO, at_once.count());
            completion.merge(&at_once);
            self.total.merge(&at_once);
        }
        self
    }
}

/// Merges `more` into `phase`.
pub fn merge_phases(phase: &mut Phase, more: Phase) {
    phase.took += more.took;
    phase.read += more.read;
    phase.written += more.written;
    for (kind, count) in more.ops {
        match phase.ops.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, sum)) => *sum += count,
            None => phase.ops.push((kind, count)),
        }
    }
    for latency in more.latencies {
        match phase.latencies.iter_mut().find(|l| (l.kind, l.part) == (latency.kind, latency.part))
        {
            Some(sum) => sum.histogram.merge(&latency.histogram),
            None => phase.latencies.push(latency),
        }
    }
}

/// Sums per time interval.
#[derive(Debug)]
struct Intervals {
    interval: Nanos,
    /// End of the open interval.
    end: Nanos,
    open: Sum,
    points: Vec<(Nanos, Sum)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    span: Nanos,
    ops: u64,
    read: u64,
    written: u64,
    latency: u64,
    latency_max: u64,
}

impl Sum {
    fn merge(self, other: Self) -> Self {
        Self {
            span: self.span + other.span,
            ops: self.ops + other.ops,
            read: self.read + other.read,
            written: self.written + other.written,
            latency: self.latency.saturating_add(other.latency),
            latency_max: self.latency_max.max(other.latency_max),
        }
    }
}

impl Intervals {
    fn new(now: Nanos, interval: Nanos) -> Self {
        Self { interval, end: now + interval, open: Sum::default(), points: Vec::new() }
    }

    #[inline]
    fn add(&mut self, completed: Nanos, latency: Nanos, read: u64, written: u64) {
        if completed > self.end {
            self.roll(completed);
        }
        let sum = &mut self.open;
        sum.ops = sum.ops.wrapping_add(1);
        sum.read = sum.read.wrapping_add(read);
        sum.written = sum.written.wrapping_add(written);
        sum.latency = sum.latency.wrapping_add(latency.0);
        sum.latency_max = sum.latency_max.max(latency.0);
    }

    /// Closes the open interval and moves to the one of `now`. A gap becomes one empty
    /// point.
    #[cold]
    fn roll(&mut self, now: Nanos) {
        self.push(self.end, Sum { span: self.interval, ..self.open });
        self.open = Sum::default();
        let gap = Nanos((now.0 - self.end.0 - 1) / self.interval.0 * self.interval.0);
        if gap > Nanos::ZERO {
            self.push(self.end + gap, Sum { span: gap, ..Sum::default() });
            self.end += gap;
        }
        self.end += self.interval;
    }

    fn push(&mut self, end: Nanos, sum: Sum) {
        self.points.push((end, sum));
        if self.points.len() < POINTS_MAX {
            return;
        }
        self.points = self
            .points
            .chunks(2)
            .map(|pair| {
                (pair[pair.len() - 1].0, pair.iter().fold(Sum::default(), |a, b| a.merge(b.1)))
            })
            .collect();
        self.interval = Nanos(self.interval.0.saturating_mul(2));
    }

    fn finish(mut self, now: Nanos, started: Nanos) -> Vec<Series> {
        // The final partial interval counts with its own length, unless it is too short
        // for a rate.
        let began =
            self.end.saturating_sub(self.interval).max(self.points.last().map_or(started, |p| p.0));
        let span = now.saturating_sub(began);
        if self.open.ops > 0 && span.0.saturating_mul(10) >= self.interval.0 {
            self.points.push((now, Sum { span, ..self.open }));
        }
        let x: Vec<u64> =
            self.points.iter().map(|(end, _)| end.saturating_sub(started).0).collect();
        let series = |name: &str, unit, value: &dyn Fn(&Sum) -> f64| Series {
            name: name.to_owned(),
            axis: Axis::Time,
            x: x.clone(),
            unit,
            y: self.points.iter().map(|(_, sum)| value(sum)).collect(),
        };
        let mut all = vec![series(metrics::OPS_RATE, Unit::OpsPerSecond, &|s| {
            s.ops as f64 / s.span.as_secs_f64()
        })];
        for (name, bytes) in [
            (metrics::READ_RATE, (|s| s.read) as fn(&Sum) -> u64),
            (metrics::WRITE_RATE, |s| s.written),
        ] {
            if self.points.iter().any(|(_, sum)| bytes(sum) > 0) {
                all.push(series(name, Unit::MegabytesPerSecond, &|s| {
                    bytes(s) as f64 / 1e6 / s.span.as_secs_f64()
                }));
            }
        }
        all.push(series(metrics::LATENCY_MEAN, Unit::Nanos, &|s| {
            if s.ops == 0 { 0.0 } else { s.latency as f64 / s.ops as f64 }
        }));
        all.push(series(metrics::LATENCY_MAX, Unit::Nanos, &|s| s.latency_max as f64));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn phases_keep_their_own_counts_bytes_and_latencies() {
        let mut recorder = Recorder::new(ms(100));
        recorder.begin_phase("a", ms(100));
        recorder.op(OpKind::Create, ms(100), ms(110), 500);
        recorder.op(OpKind::Read, ms(110), ms(112), 300);
        recorder.begin_phase("b", ms(120));
        recorder.split_op(OpKind::Write, ms(120), ms(121), ms(125), 4096);
        assert_eq!(
            (recorder.ops(), recorder.read(), recorder.written()),
            (3, Bytes(300), Bytes(4596))
        );
        let run = recorder.finish(ms(130));
        let [a, b] = &run.phases[..] else { panic!("two phases") };
        assert_eq!(
            (a.started, a.took, a.read, a.written),
            (ms(100), ms(20), Bytes(300), Bytes(500))
        );
        assert_eq!(a.ops, [(OpKind::Create, 1), (OpKind::Read, 1)]);
        assert_eq!(a.latencies.len(), 2);
        assert_eq!((b.took, b.written), (ms(10), Bytes(4096)));
        let within = |latency: &Latency, want: Nanos| {
            latency.histogram.max().0.abs_diff(want.0) * 1000 <= want.0
        };
        let parts: Vec<_> = b.latencies.iter().map(|l| l.part).collect();
        assert_eq!(parts, [LatencyPart::Submission, LatencyPart::Completion, LatencyPart::Total]);
        assert!(
            within(&b.latencies[0], ms(1))
                && within(&b.latencies[1], ms(4))
                && within(&b.latencies[2], ms(5)),
            "{b:?}"
        );
    }

    #[test]
    fn immediate_submission_is_in_all_three_histograms() {
        let (mut recorder, mut parts) =
            (Recorder::new(ms(0)), [Histogram::new(), Histogram::new(), Histogram::new()]);
        recorder.begin_phase("a", ms(0));
        for n in 0..1000 {
            let (issued, waited, took) = (ms(n), ms(n % 3), ms(1 + n % 7));
            recorder.split_op(OpKind::Write, issued, issued + waited, issued + waited + took, 4096);
            [waited, took, waited + took]
                .into_iter()
                .zip(&mut parts)
                .for_each(|(latency, part)| part.record(latency));
        }
        let run = recorder.finish(ms(2000));
        assert!(run.phases[0].latencies.iter().map(|latency| &latency.histogram).eq(&parts));
    }

    #[test]
    fn append_joins_two_recorders() {
        let record = |name: &str| {
            let mut recorder = Recorder::new(ms(0));
            recorder.begin_phase(name, ms(0));
            (0..4).for_each(|i| {
                recorder.op(OpKind::Write, ms(i * 500), ms(i * 500 + 400), 1_000_000)
            });
            recorder.finish(ms(2000))
        };
        let mut all = record("a");
        all.append(record("b"), ms(3000));
        let phases: Vec<_> = all.phases.iter().map(|p| (p.name.as_str(), p.started)).collect();
        assert_eq!(phases, [("a", ms(0)), ("b", ms(3000))]);
        let rate = all.series.iter().find(|s| s.name == "write.rate").unwrap();
        assert_eq!(
            rate.x.iter().map(|x| x / 1_000_000).collect::<Vec<_>>(),
            [1000, 2000, 4000, 5000]
        );
        assert_eq!(rate.y, [2.0; 4]);
    }

    #[test]
    fn phases_of_many_rounds_merge_by_name() {
        let mut recorder = Recorder::new(ms(0));
        for round in 0..3 {
            for (name, kind) in [("a", OpKind::Write), ("b", OpKind::Read)] {
                recorder.begin_phase(name, ms(round * 10));
                recorder.op(kind, ms(round * 10), ms(round * 10 + 2), 100);
                recorder.end_phase(ms(round * 10 + 4));
                recorder.merge_last_phase();
            }
        }
        let run = recorder.finish(ms(50));
        let [a, b] = &run.phases[..] else { panic!("two names") };
        assert_eq!((a.took, a.written, b.read), (ms(12), Bytes(300), Bytes(300)));
        assert_eq!(
            (a.ops.as_slice(), a.latencies[0].histogram.count()),
            (&[(OpKind::Write, 3)][..], 3)
        );
    }

    #[test]
    fn dropped_phase_is_not_in_the_phases() {
        let mut recorder = Recorder::new(ms(0));
        recorder.begin_phase("warm-up", ms(0));
        recorder.op(OpKind::Write, ms(0), ms(1), 4096);
        recorder.drop_phase();
        assert_eq!(recorder.phase(), "");
        assert!(recorder.finish(ms(2)).phases.is_empty());
    }

    #[test]
    fn series_has_one_point_per_second_and_per_gap() {
        let mut recorder = Recorder::new(ms(0));
        recorder.begin_phase("p", ms(0));
        for i in 0..10 {
            recorder.op(OpKind::Write, ms(i * 100), ms(i * 100 + 50), 1_000_000);
        }
        recorder.op(OpKind::Sync, ms(1000), ms(5500), 0);
        let run = recorder.finish(ms(5500));
        let ops = run.series.iter().find(|s| s.name == "ops.rate").unwrap();
        let seconds = |x: &[u64]| x.iter().map(|ns| *ns as f64 / 1e9).collect::<Vec<_>>();
        assert_eq!(seconds(&ops.x), [1.0, 5.0, 5.5]);
        assert_eq!(ops.y, [10.0, 0.0, 2.0]);
        let rate = run.series.iter().find(|s| s.name == "write.rate").unwrap();
        assert_eq!(rate.y, [10.0, 0.0, 0.0]);
        assert!(run.series.iter().all(|s| s.name != "read.rate"), "nothing was read");
    }

    #[test]
    fn long_series_stays_bounded_and_keeps_totals() {
        let mut recorder = Recorder::new(ms(0));
        recorder.begin_phase("p", ms(0));
        let seconds = 40_000;
        for s in 0..seconds {
            recorder.op(OpKind::Write, ms(s * 1000), ms(s * 1000 + 500), 1_000_000);
        }
        let run = recorder.finish(ms(seconds * 1000));
        let rate = run.series.iter().find(|s| s.name == "write.rate").unwrap();
        assert!(rate.x.len() < POINTS_MAX, "{}", rate.x.len());
        let mut from = 0;
        let mut total = 0.0;
        for (x, y) in rate.x.iter().zip(&rate.y) {
            assert!(*x > from);
            total += y * (x - from) as f64 / 1e9;
            from = *x;
        }
        assert!((total - seconds as f64).abs() < 8.0, "{total} MB");
    }
}
