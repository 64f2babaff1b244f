//! Light work of others beside a trim, at two loads: how long one operation takes, and how far a queue of them falls behind.
//!
//! These are two figures. The time of one operation is what somebody waits who saves a file now and then. The backlog belongs to operations that
//! come at a rate of their own, whether the ones before are done or not: it grows for as long as the drive is slower than that rate, so it says
//! as much about the rate and about how long the trim lasts as about the drive.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::Device;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;
use trimtab_sim::op::Payload;
use trimtab_sim::run::pictures::LatencyRecorder;
use trimtab_sim::run::{Better, Metric, Unit};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::simulate::Watcher;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::Steered;

/// An append of 4 KiB, made durable, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its phase, and what its metrics begin with.
    pub phase: &'static str,
    /// One is due every so often, the first at once: what is deleted last is discarded then.
    pub interval: Nanos,
    /// It goes on for at least this long, …
    pub at_least: Nanos,
    /// … until what is being trimmed has been, but not longer than this.
    pub at_most: Nanos,
}

/// A server's: 50 a second.
pub const BUSY: Load =
    Load { phase: "load", interval: Nanos::from_millis(20), at_least: Nanos::from_secs(30), at_most: Nanos::from_secs(900) };
/// Somebody's who works at the machine: one every five seconds, so that the one before is nearly always done.
pub const SPARSE: Load =
    Load { phase: "sparse-load", interval: Nanos::from_secs(5), at_least: Nanos::from_secs(300), at_most: Nanos::from_secs(900) };

/// Metric of [`SPARSE`]: the longest that one operation took.
pub const SPARSE_WAIT: &str = "sparse-load.wait.longest.seconds";
/// Metric of [`BUSY`]: the longest that one operation took.
pub const BUSY_WAIT: &str = "load.wait.longest.seconds";
/// Metric of [`BUSY`]: how late an operation began at most.
pub const BUSY_BACKLOG: &str = "load.backlog.longest.seconds";

/// Bytes of each append.
pub const BLOCK: u64 = 4096;
/// Nobody is watched longer than for so many appends on a real filesystem.
pub const APPENDS_MAX: u64 = 2500;
const FILE: &str = "light-work";

/// What a load met.
#[derive(Debug, Clone, Default)]
pub struct Met {
    /// From issue to completion, of each operation.
    pub wait: Histogram,
    /// From when each was due to when it could begin.
    pub backlog: Histogram,
    /// From when each was due to its completion, over time.
    pub over_time: LatencyRecorder,
}

impl Met {
    /// The figures.
    pub fn metrics(&self, load: Load) -> Vec<Metric> {
        if self.wait.count() == 0 {
            return Vec::new();
        }
        let seconds = |name: &str, value: Nanos| Metric {
            name: format!("{}.{name}.seconds", load.phase),
            unit: Unit::Seconds,
            better: Better::Lower,
            samples: vec![value.as_secs_f64()],
        };
        vec![
            seconds("wait.median", self.wait.percentile(50.0)),
            seconds("wait.p99", self.wait.percentile(99.0)),
            seconds("wait.longest", self.wait.max()),
            seconds("backlog.longest", self.backlog.max()),
        ]
    }
}

impl Load {
    /// Does it, as a phase of its own.
    ///
    /// # Errors
    /// A filesystem that is full, or a drive that fails.
    pub fn run<D: Device>(self, target: &mut Steered<D>, recorder: &mut Recorder, watcher: &dyn Watcher) -> TargetResult<Met> {
        let block = Payload::Fill { len: BLOCK, class: DataClass::Random };
        target.create(FILE, &block)?;
        let mut met = Met::default();
        let started = target.now();
        recorder.begin_phase(self.phase, started);
        let mut due = started;
        while (due < started + self.at_least || (due < started + self.at_most && target.trimming())) && !watcher.stopped() {
            target.idle_until(due);
            let begun = target.now();
            let trimming = target.trimming();
            target.append(FILE, &block)?;
            target.volume_mut().fsync(FILE)?;
            let done = target.now();
            recorder.op(OpKind::Append, begun, done, BLOCK);
            met.wait.record(done - begun);
            met.backlog.record(begun - due);
            met.over_time.record(due - started, done - due, trimming);
            due += self.interval;
        }
        recorder.end_phase(target.now());
        Ok(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Bytes;
    use trimtab_drive::{Command, Completion};
    use trimtab_sim::policy::{PolicySpec, State};
    use trimtab_sim::volume::{Age, Volume, VolumeSpec, WRITTEN_STEP};

    const TRIM: Nanos = Nanos::from_millis(148);
    const OTHERS: Nanos = Nanos::from_micros(100);

    /// A drive that does one thing after another; each TRIM takes as long, whatever it covers.
    #[derive(Debug, Clone)]
    struct Serial {
        busy_until: Nanos,
        trims: u64,
        others: u64,
    }

    impl Device for Serial {
        fn size(&self) -> Bytes {
            Bytes(4 << 30)
        }
        fn logical_block(&self) -> u32 {
            512
        }
        fn supports_trim(&self) -> bool {
            true
        }
        fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
            let trim = matches!(command, Command::Trim(_));
            *(if trim { &mut self.trims } else { &mut self.others }) += 1;
            self.busy_until = self.busy_until.max(now) + if trim { TRIM } else { OTHERS };
            Completion { done: self.busy_until, result: Ok(()) }
        }
        fn idle(&mut self, _until: Nanos) {}
    }

    /// A filesystem in use, and a trim of all of it that begins with the next operation.
    fn target() -> Steered<Serial> {
        let mut spec = VolumeSpec::ext4();
        spec.mkfs.discard = false;
        let mut volume = Volume::format(Serial { busy_until: Nanos::ZERO, trims: 0, others: 0 }, spec, Nanos::ZERO).unwrap();
        volume.age(&Age { fill: 0.6, free_extent: Bytes(1 << 20), class: DataClass::Random, write: false, seed: 1 }).unwrap();
        Steered::new(volume, PolicySpec::None.build(&State::default()), WRITTEN_STEP)
    }

    fn run(load: Load, trim: bool) -> (Met, Steered<Serial>, Nanos) {
        let mut target = target();
        if trim {
            target.force();
        }
        let began = target.now();
        let met = load.run(&mut target, &mut Recorder::new(began), &()).unwrap();
        let took = target.now() - began;
        (met, target, took)
    }

    #[test]
    fn one_operation_waits_for_few_trim_commands() {
        // What an append and its fsync send to the drive, one after another, when nobody trims.
        let (alone, target, _) = run(SPARSE, false);
        let commands = target.volume().drive().others.div_ceil(alone.wait.count());
        assert!(alone.wait.max() <= Nanos(OTHERS.0 * commands * 2), "{}", alone.wait.max());
        assert_eq!(alone.backlog.max(), Nanos::ZERO);
        // Before each of these one TRIM may be under way; and a commit by the clock may have begun, which is as many commands.
        let (met, target, _) = run(SPARSE, true);
        let trim = Nanos(TRIM.0 * target.volume().drive().trims);
        assert!(trim > Nanos::from_secs(150), "{trim}");
        let (least, most) = (TRIM, Nanos((TRIM.0 + 2 * OTHERS.0) * commands * 2));
        assert!(met.wait.max() >= least && met.wait.max() <= most, "{} of {least} to {most}", met.wait.max());
        assert_eq!(met.backlog.max(), Nanos::ZERO, "each is done long before the next is due");
    }

    #[test]
    fn overload_falls_behind_as_a_queue_does() {
        let (met, target, took) = run(BUSY, true);
        let trim = Nanos(TRIM.0 * target.volume().drive().trims);
        // While the trim lasts one is served every so often, and one comes every 20 ms: the last that is served then is late by the rest.
        let slow = || met.wait.buckets().filter(|(wait, _)| *wait >= TRIM).map(|(wait, count)| (wait.as_secs_f64(), count as f64));
        let served_every = slow().map(|(wait, count)| wait * count).sum::<f64>() / slow().map(|(_, count)| count).sum::<f64>();
        assert!(took > trim && served_every > TRIM.as_secs_f64(), "{served_every}");
        let fluid = trim.as_secs_f64() * (1.0 - BUSY.interval.as_secs_f64() / served_every);
        let behind = met.backlog.max().as_secs_f64();
        assert!((behind / fluid - 1.0).abs() < 0.05, "{behind} s behind, of a queue {fluid} s");
        assert!(met.wait.max() < Nanos::from_secs(2), "{}: no operation takes long because others came before it", met.wait.max());
    }
}
