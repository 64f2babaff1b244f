//! Light foreground work during a trim at two loads: operation latency and queue backlog.
//!
//! The two figures differ. The latency of one operation is the wait of a user who saves a
//! file occasionally. The backlog applies to operations that arrive at a fixed rate
//! whether or not earlier ones have finished. It grows while the drive is slower than
//! that rate, so it depends on the rate and the length of the trim as much as on the
//! drive.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::Device;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;
use trimtab_sim::op::Payload;
use trimtab_sim::run::{Better, Metric, Unit};
use trimtab_sim::runner::Observer;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::SteeredVolume;

/// Repeated durable appends of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LightLoad {
    /// Name of the phase and prefix of the metrics.
    pub phase: &'static str,
    /// Time between due times. The first is due at once, to meet the last discards.
    pub interval: Nanos,
    /// Minimum duration.
    pub at_least: Nanos,
    /// Maximum duration; the load ends earlier once the trim has finished.
    pub at_most: Nanos,
}

/// Load of a server: 50 appends per second.
pub const BUSY: LightLoad = LightLoad {
    phase: "load",
    interval: Nanos::from_millis(20),
    at_least: Nanos::from_secs(30),
    at_most: Nanos::from_secs(900),
};
/// Load of an interactive user: one append every five seconds, usually without overlap.
pub const SPARSE: LightLoad = LightLoad {
    phase: "sparse-load",
    interval: Nanos::from_secs(5),
    at_least: Nanos::from_secs(300),
    at_most: Nanos::from_secs(900),
};

/// Metric of [`SPARSE`]: longest operation.
pub const SPARSE_WAIT: &str = "sparse-load.wait.longest.seconds";
/// Metric of [`BUSY`]: longest operation.
pub const BUSY_WAIT: &str = "load.wait.longest.seconds";
/// Metric of [`BUSY`]: longest delay before an operation could begin.
pub const BUSY_BACKLOG: &str = "load.backlog.longest.seconds";

/// Bytes of each append.
pub const BLOCK: u64 = 4096;
/// Maximum number of appends on a real filesystem.
pub const APPENDS_MAX: u64 = 2500;
const FILE: &str = "light-work";

/// Latencies of a load.
#[derive(Debug, Clone, Default)]
pub struct LoadLatencies {
    /// Latency of each operation from issue to completion.
    pub wait: Histogram,
    /// Delay of each operation from its due time to its start.
    pub backlog: Histogram,
}

impl LoadLatencies {
    /// Converts the latencies to metrics of `load`.
    pub fn metrics(&self, load: LightLoad) -> Vec<Metric> {
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

impl LightLoad {
    /// Runs the load as a phase of its own.
    ///
    /// # Errors
    /// The filesystem is full, or the drive fails.
    pub fn run<D: Device>(
        self,
        target: &mut SteeredVolume<D>,
        recorder: &mut Recorder,
        observer: &dyn Observer,
    ) -> TargetResult<LoadLatencies> {
        let block = Payload::Fill { len: BLOCK, class: DataClass::Random };
        target.create(FILE, &block)?;
        let mut met = LoadLatencies::default();
        let started = target.now();
        recorder.begin_phase(self.phase, started);
        let mut due = started;
        // A pass is under way between two of its commands too.
        while (due < started + self.at_least
            || (due < started + self.at_most && target.pass_under_way()))
            && !observer.stopped()
        {
            target.idle_until(due);
            let begun = target.now();
            target.append(FILE, &block)?;
            target.volume_mut().fsync(FILE)?;
            let done = target.now();
            recorder.op(OpKind::Append, begun, done, BLOCK);
            met.wait.record(done - begun);
            met.backlog.record(begun - due);
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
    use trimtab_sim::policy::{PolicySpec, PolicyState};
    use trimtab_sim::volume::{Age, Volume, VolumeSpec, WRITTEN_STEP};

    const TRIM: Nanos = Nanos::from_millis(148);
    const OTHERS: Nanos = Nanos::from_micros(100);

    /// A drive that executes commands one by one. Every TRIM takes the same time.
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

    fn target() -> SteeredVolume<Serial> {
        let mut spec = VolumeSpec::ext4();
        spec.mkfs.discard = false;
        let mut volume = Volume::format(
            Serial { busy_until: Nanos::ZERO, trims: 0, others: 0 },
            spec,
            Nanos::ZERO,
        )
        .unwrap();
        volume
            .age_like(
                &Age {
                    fill: 0.6,
                    free_extent: Bytes(1 << 20),
                    class: DataClass::Random,
                    write: false,
                    seed: 1,
                },
                &[],
            )
            .unwrap();
        SteeredVolume::new(volume, PolicySpec::None.build(&PolicyState::default()), WRITTEN_STEP)
    }

    fn run(load: LightLoad, trim: bool) -> (LoadLatencies, SteeredVolume<Serial>, Nanos) {
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
    fn sparse_load_waits_for_few_trim_commands() {
        // Commands of an append and its fsync, executed in sequence without a trim.
        let (alone, target, _) = run(SPARSE, false);
        let commands = target.volume().drive().others.div_ceil(alone.wait.count());
        assert!(alone.wait.max() <= Nanos(OTHERS.0 * commands * 2), "{}", alone.wait.max());
        assert_eq!(alone.backlog.max(), Nanos::ZERO);
        // One TRIM may be running before each, and a periodic commit may have begun.
        let (met, target, _) = run(SPARSE, true);
        let trim = Nanos(TRIM.0 * target.volume().drive().trims);
        assert!(trim > Nanos::from_secs(150), "{trim}");
        let (least, most) = (TRIM, Nanos((TRIM.0 + 2 * OTHERS.0) * commands * 2));
        assert!(
            met.wait.max() >= least && met.wait.max() <= most,
            "{} of {least} to {most}",
            met.wait.max()
        );
        assert_eq!(met.backlog.max(), Nanos::ZERO, "each is done long before the next is due");
    }

    #[test]
    fn busy_load_backlog_matches_fluid_queue() {
        let (met, target, took) = run(BUSY, true);
        let trim = Nanos(TRIM.0 * target.volume().drive().trims);
        // During the trim, operations finish at a fixed rate and arrive every 20 ms. The
        // last one finished then is late by the difference.
        let slow = || {
            met.wait
                .buckets()
                .filter(|(wait, _)| *wait >= TRIM)
                .map(|(wait, count)| (wait.as_secs_f64(), count as f64))
        };
        let served_every = slow().map(|(wait, count)| wait * count).sum::<f64>()
            / slow().map(|(_, count)| count).sum::<f64>();
        assert!(took > trim && served_every > TRIM.as_secs_f64(), "{served_every}");
        let fluid = trim.as_secs_f64() * (1.0 - BUSY.interval.as_secs_f64() / served_every);
        let behind = met.backlog.max().as_secs_f64();
        assert!((behind / fluid - 1.0).abs() < 0.05, "{behind} s behind, of a queue {fluid} s");
        assert!(
            met.wait.max() < Nanos::from_secs(2),
            "{}: no operation takes long because others came before it",
            met.wait.max()
        );
    }
}
