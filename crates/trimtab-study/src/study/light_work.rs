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
use trimtab_sim::volume::{Discard, SteeredVolume};

/// Repeated durable appends of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LightLoad {
    /// Name of the phase and prefix of the metrics.
    pub phase: &'static str,
    /// Time between due times. The first is due at once, to meet the last discards.
    pub interval: Nanos,
    /// Minimum duration; of [`SPARSE`], the duration if nothing trims.
    pub at_least: Nanos,
    /// Maximum duration; the load ends earlier once the trim has finished.
    pub at_most: Nanos,
}

/// Copies of a target that [`LightLoad::run_on_copies`] runs on at most.
const STARTS: u64 = 5;
/// Appends after which no further copy is needed: three take longer than the 95th
/// percentile.
const APPENDS_ENOUGH: u64 = 60;

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

/// Metric of [`SPARSE`]: 95th percentile of the operations. At most 5 of 1,000 requests
/// should meet a command of an idle trim, and an append consists of up to five requests.
/// Higher percentiles therefore depend on the few appends that meet one by chance.
pub const SPARSE_P95: &str = "sparse-load.wait.p95.seconds";
/// Metric of [`BUSY`]: longest operation.
pub const BUSY_WAIT: &str = "load.wait.longest.seconds";

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
            seconds("wait.p95", self.wait.percentile(95.0)),
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
        target.create(FILE, &Payload::Fill { len: BLOCK, class: DataClass::Random })?;
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
            append(target, due, recorder, &mut met)?;
            due += self.interval;
        }
        recorder.end_phase(target.now());
        Ok(met)
    }

    /// Runs the load on copies of a target, the first append of each later by a fraction
    /// of the interval, as one phase. Counts only appends issued while a pass of the
    /// policy or discards of the filesystem are under way; each copy ends after them.
    /// Stops after [`APPENDS_ENOUGH`] appends, or at a copy without any. If nothing trims,
    /// the appends of the minimum duration count.
    ///
    /// # Errors
    /// The filesystem is full, or the drive fails.
    pub fn run_on_copies<D: Device>(
        self,
        mut copy: impl FnMut() -> SteeredVolume<D>,
        recorder: &mut Recorder,
        observer: &dyn Observer,
    ) -> TargetResult<LoadLatencies> {
        let mut met = LoadLatencies::default();
        for start in 0..STARTS {
            let before = met.wait.count();
            let mut target = copy();
            target.create(FILE, &Payload::Fill { len: BLOCK, class: DataClass::Random })?;
            let started = target.now();
            recorder.begin_phase(self.phase, started);
            let mut due = started + Nanos(self.interval.0 * start / STARTS);
            // Without a trim at the beginning, there is none later.
            let (mut end, mut free) = (started + self.at_most, false);
            while due < end && !observer.stopped() {
                target.idle_until(due);
                if !free && !trims(&target) {
                    if met.wait.count() > 0 {
                        break;
                    }
                    (end, free) = (started + self.at_least, true);
                }
                append(&mut target, due, recorder, &mut met)?;
                due += self.interval;
            }
            recorder.end_phase(target.now());
            recorder.merge_last_phase();
            if met.wait.count() == before || met.wait.count() >= APPENDS_ENOUGH {
                break;
            }
        }
        Ok(met)
    }
}

/// True while a pass of the policy or discards of the filesystem are under way.
fn trims<D: Device>(target: &SteeredVolume<D>) -> bool {
    let volume = target.volume();
    let online = volume.spec().discard != Discard::Off;
    volume.trimming() || target.policy().pass().running() || (online && volume.discarding())
}

/// Appends durably and records the latency, and the delay since `due`.
fn append<D: Device>(
    target: &mut SteeredVolume<D>,
    due: Nanos,
    recorder: &mut Recorder,
    met: &mut LoadLatencies,
) -> TargetResult {
    let begun = target.now();
    target.append(FILE, &Payload::Fill { len: BLOCK, class: DataClass::Random })?;
    target.volume_mut().fsync(FILE)?;
    let done = target.now();
    recorder.op(OpKind::Append, begun, done, BLOCK);
    met.wait.record(done - begun);
    met.backlog.record(begun - due);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Bytes;
    use trimtab_drive::{Command, Completion};
    use trimtab_sim::policy::{PolicySpec, PolicyState};
    use trimtab_sim::run::Phase;
    use trimtab_sim::volume::{Age, Volume, VolumeSpec, WRITTEN_STEP};

    const TRIM: Nanos = Nanos::from_millis(148);
    const OTHERS: Nanos = Nanos::from_micros(100);

    /// A drive that executes commands one by one. Every TRIM takes the same time.
    #[derive(Debug, Clone)]
    struct Serial {
        busy_until: Nanos,
        trims: u64,
        others: u64,
        /// End of the last TRIM.
        trimmed: Nanos,
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
            if trim {
                self.trimmed = self.busy_until;
            }
            Completion { done: self.busy_until, result: Ok(()) }
        }
        fn idle(&mut self, _until: Nanos) {}
    }

    fn target() -> SteeredVolume<Serial> {
        let mut spec = VolumeSpec::ext4();
        spec.mkfs.discard = false;
        let mut volume = Volume::format(
            Serial { busy_until: Nanos::ZERO, trims: 0, others: 0, trimmed: Nanos::ZERO },
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

    fn on_copies(trim: bool) -> (LoadLatencies, Vec<Phase>, u64) {
        let target = target();
        let mut copies = 0;
        let copy = || {
            copies += 1;
            let mut copy = target.fork(PolicySpec::None.build(&PolicyState::default()));
            if trim {
                copy.force();
            }
            copy
        };
        let mut recorder = Recorder::new(Nanos::ZERO);
        let met = SPARSE.run_on_copies(copy, &mut recorder, &()).unwrap();
        (met, recorder.phases().to_vec(), copies)
    }

    /// Latencies of appends issued before the last TRIM ended, on a copy whose first append
    /// is later by `later_by`. Uses nothing of the load.
    fn latencies_during_trim(later_by: Nanos) -> Vec<f64> {
        let mut target = target();
        target.force();
        target.create("mine", &Payload::Fill { len: 4096, class: DataClass::Random }).unwrap();
        let mut due = target.now() + later_by;
        let mut all = Vec::new();
        for _ in 0..120 {
            target.idle_until(due);
            let begun = target.now();
            let file = Payload::Fill { len: 4096, class: DataClass::Random };
            target.append("mine", &file).unwrap();
            target.volume_mut().fsync("mine").unwrap();
            all.push((begun, target.now()));
            due += Nanos::from_secs(5);
        }
        let trimmed = target.volume().drive().trimmed;
        assert!(trimmed < due, "the trim ended meanwhile");
        all.retain(|(begun, _)| *begun < trimmed);
        all.iter().map(|(begun, done)| (*done - *begun).as_secs_f64()).collect()
    }

    #[test]
    fn sparse_load_metrics_are_quantiles_of_appends_during_trim() {
        let mut samples = latencies_during_trim(Nanos::ZERO);
        assert!((30..60).contains(&samples.len()), "{}: a second copy is needed", samples.len());
        samples.extend(latencies_during_trim(Nanos::from_secs(1)));
        samples.sort_by(f64::total_cmp);
        let (met, phases, copies) = on_copies(true);
        assert_eq!((met.wait.count(), copies), (samples.len() as u64, 2));
        assert_eq!((phases.len(), &phases[0].latencies[0].histogram), (1, &met.wait));
        let metrics = met.metrics(SPARSE);
        let metric =
            |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().samples[0];
        let rank = (samples.len() * 95).div_ceil(100);
        for (value, sample) in [
            (metric(SPARSE_P95), samples[rank - 1]),
            (metric("sparse-load.wait.longest.seconds"), samples[samples.len() - 1]),
        ] {
            assert!((value / sample - 1.0).abs() < 0.002, "{value} {sample}");
        }
        // One TRIM may be running before each command of an append and its fsync, and a
        // periodic commit may have begun.
        let (alone, target, _) = run(SPARSE, false);
        let commands = target.volume().drive().others.div_ceil(alone.wait.count());
        let most = Nanos((TRIM.0 + 2 * OTHERS.0) * commands * 2);
        assert!(met.wait.max() >= TRIM && met.wait.max() <= most, "{}", met.wait.max());
        assert_eq!(met.backlog.max(), Nanos::ZERO, "each is done long before the next is due");
    }

    #[test]
    fn sparse_load_without_trim_appends_for_minimum_duration() {
        let (met, _, copies) = on_copies(false);
        assert_eq!((met.wait.count(), copies), (60, 1));
        // The commands of an append and its fsync, executed in sequence.
        let (alone, target, _) = run(SPARSE, false);
        let commands = target.volume().drive().others.div_ceil(alone.wait.count());
        assert!(met.wait.max() <= Nanos(OTHERS.0 * commands * 2), "{}", met.wait.max());
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
