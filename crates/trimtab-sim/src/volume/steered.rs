//! A volume under a trim policy. The policy runs between operations and in idle time; its
//! trims run in parallel with the foreground.

use super::{BLOCK, Volume};
use crate::op::FileOp;
use crate::policy::{
    Driver, Observation, Policy, RefusalLimits, Surface, TrimRequest, TrimResponse, TurnResult,
};
use crate::target::{Clock, FileTarget, TargetResult, TrimOutcome, TrimTarget, TrimWindow};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::convert::Infallible;
use trimtab_drive::Device;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};

/// Step of ext4's write counter (`lifetime_write_kbytes`).
pub const WRITTEN_STEP: Bytes = Bytes(1024);
/// Poll interval for the filesystem's own discards.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);
/// Longest wait for those after the last deletion.
const DRAIN_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// Trims within this time of each other count as one.
const TRIM_GAP: Nanos = Nanos::from_secs(1);
/// The same if the later trim is at a higher address: a pass with pauses.
const PASS_GAP: Nanos = Nanos::from_secs(65);
/// Maximum trims counted.
const TRIMS_MAX: u64 = 10_000;

/// Log of the policy's trims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimLog {
    /// Trims.
    pub trims: u64,
    /// Start of the last.
    pub began: Nanos,
    /// End of the last.
    pub ended: Nanos,
    /// Discards sent.
    pub sent: Amount,
    /// Total time with a trim in progress.
    pub busy: Nanos,
    /// Windows that failed because the drive refused a command.
    pub failed: u64,
}

impl TrimLog {
    fn add(&mut self, began: Nanos, further_on: bool, outcome: &TrimOutcome) {
        let gap = if further_on { PASS_GAP } else { TRIM_GAP };
        if self.trims == 0 || (began > self.ended + gap && self.trims < TRIMS_MAX) {
            self.trims += 1;
            self.began = began;
        }
        self.ended = began + outcome.took;
        self.busy += outcome.took;
        self.sent += outcome.counted.unwrap_or_default();
    }
}

/// A volume and its trim policy.
///
/// The policy is called before and after each operation, and in idle time when due. A
/// trim runs in parallel with the foreground. The next window waits for a long operation
/// to end.
pub struct SteeredVolume<D> {
    driver: Driver,
    surface: ObservedVolume<D>,
    /// Time and start of the window in progress, whose end is not yet reported to the
    /// policy.
    sent: Option<(Nanos, u64)>,
    /// Start of the previous window.
    last_start: u64,
    log: TrimLog,
    /// The volume's own discards already reported.
    taken: Amount,
}

/// The volume as the policy observes it.
#[derive(Clone)]
struct ObservedVolume<D> {
    volume: Volume<D>,
    windows: Vec<TrimWindow>,
    counter_step: Bytes,
}

impl<D: Device> Surface for ObservedVolume<D> {
    type Refusal = Infallible;

    fn look(&mut self) -> Observation<'_> {
        let foreground = self.volume.foreground();
        let step = self.counter_step.0;
        Observation {
            written: Some(Bytes(self.volume.written().0 / step * step)),
            free: self.volume.free_space(),
            tail: Bytes(BLOCK),
            by_size: true,
            requests: Some(self.volume.counters().traffic.requests()),
            in_flight: foreground.in_flight,
            idle_since: foreground.idle_since,
            foreground_wait_max: foreground.wait_max,
            ..Observation::of(self.volume.now(), &self.windows)
        }
    }

    fn trim(&mut self, request: TrimRequest) -> TrimResponse<Infallible> {
        self.volume.begin_trim(request);
        TrimResponse::Begun
    }
}

impl<D: Device> SteeredVolume<D> {
    /// Puts `volume` under `policy`, with a write counter in steps of `counter_step`
    /// ([`Bytes::MAX`] for a counter that never moves). The specification sets online
    /// discard.
    pub fn new(volume: Volume<D>, policy: Box<dyn Policy>, counter_step: Bytes) -> Self {
        let windows = volume.trim_windows();
        let taken = discards(&volume);
        let surface = ObservedVolume { volume, windows, counter_step: counter_step.max(Bytes(1)) };
        Self {
            driver: driver(policy),
            surface,
            sent: None,
            last_start: 0,
            log: TrimLog::default(),
            taken,
        }
    }

    /// The volume.
    pub const fn volume(&self) -> &Volume<D> {
        &self.surface.volume
    }

    /// The volume, for preparation and measurement. Its own trims are not the policy's.
    pub const fn volume_mut(&mut self) -> &mut Volume<D> {
        &mut self.surface.volume
    }

    /// A copy of the volume under `policy`, to explore alternatives.
    pub fn fork(&self, policy: Box<dyn Policy>) -> Self
    where
        D: Clone,
    {
        Self {
            driver: driver(policy),
            surface: self.surface.clone(),
            sent: self.sent,
            last_start: self.last_start,
            log: TrimLog::default(),
            taken: discards(self.volume()),
        }
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.driver.policy()
    }

    /// Log of the policy's trims so far.
    pub const fn log(&self) -> &TrimLog {
        &self.log
    }

    /// Forces a trim, which begins with the next operation or idle time.
    pub const fn force(&mut self) {
        self.driver.force();
    }

    /// True if a pass is in progress or paused, or the filesystem has pending discards.
    pub fn pass_under_way(&self) -> bool {
        self.trimming() || self.driver.running()
    }

    /// True if a trim of the policy or an online discard is in progress.
    pub fn trimming(&self) -> bool {
        self.volume().trimming() || self.volume().discarding()
    }

    /// Calls the policy if it is due, and starts its request.
    fn poll(&mut self) {
        if self.surface.volume.trimming() {
            return;
        }
        self.settle();
        let now = self.surface.volume.now();
        if self.driver.is_due(now)
            && let TurnResult::Begun(request) = self.driver.turn(&mut self.surface)
        {
            self.sent = Some((now, request.window.start));
        }
    }

    /// Processes the result of the window in progress, if any.
    fn settle(&mut self) {
        let run = self.surface.volume.take_trimmed();
        let Some((began, start)) = self.sent.take() else { return };
        // Unknown if another trim of the volume has replaced it.
        let Some(run) = run else { return self.driver.settle(None) };
        self.log.add(began, start > self.last_start, &run.outcome);
        self.last_start = start;
        let failed = run.refused > 0;
        self.log.failed += u64::from(failed);
        self.driver.settle((!failed).then_some(run.outcome));
    }
}

fn discards<D: Device>(volume: &Volume<D>) -> Amount {
    volume.counters().traffic.discards
}

impl<D: Device> TrimTarget for SteeredVolume<D> {
    fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)> {
        let volume = self.volume_mut();
        let mut all = TrimOutcome::default();
        for window in volume.trim_windows() {
            let one = volume.trim(window, Bytes::ZERO)?;
            all.asked += one.asked;
            all.returned += one.returned;
            all.took += one.took;
            all.counted = Some(all.counted.unwrap_or_default() + one.counted.unwrap_or_default());
        }
        Ok((all, Nanos::ZERO))
    }

    fn take_discards(&mut self) -> Option<Amount> {
        let now = discards(self.volume());
        let before = core::mem::replace(&mut self.taken, now);
        Some(now.since(before))
    }

    fn wait_for_discards(&mut self) -> Nanos {
        let began = self.now();
        while self.volume().discarding() && self.now() < began + DRAIN_MAX {
            let next = self.now() + DRAIN_POLL;
            self.idle_until(next);
        }
        self.now() - began
    }
}

/// Failed windows are retried without limit: no location on a modelled volume fails for
/// good.
fn driver(policy: Box<dyn Policy>) -> Driver {
    Driver::new(policy, RefusalLimits::ENDLESS)
}

impl<D: Device> Clock for SteeredVolume<D> {
    fn now(&mut self) -> Nanos {
        self.surface.volume.now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        loop {
            self.poll();
            let now = self.surface.volume.now();
            if now >= instant {
                return;
            }
            if self.surface.volume.trimming() {
                self.surface.volume.on_any().await_trim(instant);
            } else {
                let next = self
                    .driver
                    .ask_at()
                    .map_or(instant, |at| at.max(Nanos(now.0 + 1)).min(instant));
                self.surface.volume.idle_until(next);
            }
        }
    }
}

impl<D: Device> FileTarget for SteeredVolume<D> {
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
        self.poll();
        self.surface.volume.execute(op)
    }
}

#[cfg(test)]
mod tests {
    mod shipped;

    use super::*;
    use crate::op::Payload;
    use crate::policy::{PolicySpec, PolicyState};
    use crate::volume::VolumeSpec;
    use alloc::format;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::{Command, Completion};

    /// A serial drive whose trims cost per command and per byte.
    #[derive(Debug)]
    struct Slow {
        trim_command_ns: u64,
        trim_mib_ns: u64,
        busy_until: Nanos,
        trimmed: u64,
        /// Longest trim command.
        trim_max: Nanos,
        /// Longest command other than a trim.
        wait_max: Nanos,
    }

    impl Device for Slow {
        fn size(&self) -> Bytes {
            Bytes(2 << 30)
        }
        fn logical_block(&self) -> u32 {
            512
        }
        fn supports_trim(&self) -> bool {
            true
        }
        fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
            let cost = match command {
                Command::Trim(ranges) => {
                    let bytes = ranges.iter().map(|r| r.len).sum::<u64>();
                    self.trimmed += bytes;
                    self.trim_command_ns + (self.trim_mib_ns * (bytes >> 12)) / 256
                }
                Command::Write(..) => 100_000,
                _ => 50_000,
            };
            self.busy_until = self.busy_until.max(now) + Nanos(cost);
            match command {
                Command::Trim(_) => self.trim_max = self.trim_max.max(Nanos(cost)),
                _ => self.wait_max = self.wait_max.max(self.busy_until - now),
            }
            Completion { done: self.busy_until, result: Ok(()) }
        }
        fn idle(&mut self, _until: Nanos) {}
    }

    fn steered(policy: &str, trim_command_ns: u64, trim_mib_ns: u64) -> SteeredVolume<Slow> {
        let mut spec = VolumeSpec::ext4();
        spec.mkfs.discard = false;
        let drive = Slow {
            trim_command_ns,
            trim_mib_ns,
            busy_until: Nanos::ZERO,
            trimmed: 0,
            trim_max: Nanos::ZERO,
            wait_max: Nanos::ZERO,
        };
        let volume = Volume::format(drive, spec, Nanos::ZERO).unwrap();
        SteeredVolume::new(
            volume,
            policy.parse::<PolicySpec>().unwrap().build(&PolicyState::default()),
            Bytes(512),
        )
    }

    const S: u64 = 1_000_000_000;

    /// Writes and syncs a small file every 100 ms, `n` times. Returns the longest
    /// duration.
    fn foreground(target: &mut SteeredVolume<Slow>, n: u64) -> Nanos {
        let mut longest = Nanos::ZERO;
        for i in 0..n {
            let due = Nanos(target.now().0 / (S / 10) * (S / 10) + S / 10);
            target.idle_until(due);
            let path = format!("f{}", target.now().0);
            target.create(&path, &Payload::Fill { len: BLOCK, class: DataClass::Random }).unwrap();
            target.volume_mut().fsync(&path).unwrap();
            longest = longest.max(target.now() - due);
            if i % 2 == 0 {
                target.delete(&path).unwrap();
            }
        }
        longest
    }

    #[test]
    fn batched_trim_runs_when_due_during_foreground_io() {
        let mut target = steered("batched:every=20s", 0, 9_000_000);
        foreground(&mut target, 190);
        assert_eq!(target.log(), &TrimLog::default());
        let alone = foreground(&mut target, 1);
        let mut during = Nanos::ZERO;
        while target.log().trims == 0 || target.pass_under_way() {
            during = during.max(foreground(&mut target, 1));
        }
        let log = target.log();
        assert_eq!((log.trims, log.began.0 / S), (1, 20));
        // About 1.9 GiB at 9 ms per MiB take 17 s; a request waits for a group of 128
        // MiB.
        assert!((14..20).contains(&((log.ended - log.began).0 / S)), "{log:?}");
        assert!(during.0 > S && during.0 < 8 * S && alone.0 < S / 100, "{during} {alone}");
    }

    #[test]
    fn idle_trim_completes_within_latency_budget() {
        let mut target = steered("idle:at-least=10s:share=100%", 500_000, 9_000_000);
        foreground(&mut target, 90);
        target.volume_mut().drive_mut().wait_max = Nanos::ZERO;
        let longest = foreground(&mut target, 1500);
        // A request waits for at most one command; syncing a file is five requests in
        // sequence.
        let wait = target.volume().drive().wait_max;
        assert!(wait <= Nanos::from_millis(5) + Nanos(100_000), "{wait}");
        assert!(longest <= Nanos::from_millis(25) + Nanos(500_000), "{longest}");
        // Few requests may meet a command and a group of ext4 is a chain of commands, so
        // the pass takes long. Metadata writeback delays writes too, so trim durations
        // are checked.
        foreground(&mut target, 18_500);
        let longest = target.volume().drive().trim_max;
        assert!(longest > Nanos::ZERO && longest <= Nanos::from_millis(5), "{longest}");
        let free = target.volume().free_space();
        assert!(
            target.log().sent.bytes > Bytes(free.0 / 10 * 9),
            "{} of {free} trimmed",
            target.log().sent.bytes
        );
        assert_eq!(target.log().sent.bytes.0, target.volume().drive().trimmed);
    }

    #[test]
    fn adaptive_trim_runs_after_enough_writes() {
        let mut target = steered("adaptive:poll=1s:share=10%:at-most=0s", 0, 0);
        for i in 0..4_u64 {
            for j in 0..8 {
                target
                    .create(
                        &format!("f{j}"),
                        &Payload::Fill { len: 16 << 20, class: DataClass::Random },
                    )
                    .unwrap();
            }
            target.sync().unwrap();
            for j in 0..8 {
                target.delete(&format!("f{j}")).unwrap();
            }
            let until = target.now() + Nanos::from_secs(10);
            target.idle_until(until);
            // 134 MB per round; a tenth of the free space is about 190 MB.
            assert_eq!(target.log().trims, i.div_ceil(2), "round {i}");
        }
    }

    #[test]
    fn forced_trim_is_done() {
        let mut target = steered("none", 0, 0);
        target.idle_until(Nanos::from_secs(100));
        assert_eq!(target.log().trims, 0);
        target.force();
        target.idle_until(Nanos::from_secs(200));
        assert_eq!(target.log().sent.bytes.0, target.volume().space.free() * BLOCK);
    }
}
