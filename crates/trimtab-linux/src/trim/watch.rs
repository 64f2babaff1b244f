//! Measures foreground latency while a trim request runs, and detects that the request
//! was cut short.
//!
//! A thread polls the device's counters every few milliseconds for the latency of
//! foreground reads and writes. It also serves as a clock that stops when the process is
//! frozen: FITRIM on ext4 and XFS ends early when the process is frozen, and reports
//! success.

use crate::host::stat::{DiskStat, StatFile};
use crate::sys::clock;
use rustix::time::ClockId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum wait after a request for foreground requests that were delayed by all of it
/// and complete just behind it. The wait is also at most a quarter of the request's
/// duration.
const TRAILING_WAIT_MAX: Duration = Duration::from_millis(10);
/// After a gap of this length between polls, the process may have been frozen. On a busy
/// machine it may only have waited for a CPU; then a window is trimmed twice.
const FROZEN_GAP: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollerCommand {
    Sleep,
    Look,
    End,
}

#[derive(Debug)]
struct SharedPollerState {
    began: Instant,
    state: Mutex<PollerCommand>,
    wake: Condvar,
    /// Worst mean latency of foreground requests in one polling interval, in nanoseconds.
    wait_max: AtomicU64,
    requests: AtomicU64,
    /// Latencies since they were last taken.
    latencies: Mutex<LatencyClasses>,
    /// Time of the last poll, in nanoseconds since `began`.
    looked: AtomicU64,
    gap: AtomicBool,
    /// The counters at the last poll, or at the start of the request.
    last: Mutex<Option<DiskStat>>,
}

/// Foreground requests by latency class: the mean latency of their polling interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyClasses {
    counts: [u64; Self::BOUNDS_MS.len() + 1],
    /// Sum of the latencies.
    pub total: Nanos,
}

impl LatencyClasses {
    /// Upper bounds of the classes; the last class has none.
    const BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

    /// Adds the requests of one interval, with the sum of their latencies.
    pub fn add(&mut self, requests: u64, total: Nanos) {
        let Some(mean) = total.0.checked_div(requests) else { return };
        let class = Self::BOUNDS_MS.partition_point(|ms| Nanos::from_millis(*ms).0 < mean);
        self.counts[class] += requests;
        self.total = self.total.saturating_add(total);
    }

    /// Adds other requests.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.total = self.total.saturating_add(other.total);
    }

    /// Upper bound and number of requests of every class; the last has no bound.
    pub fn classes(&self) -> impl Iterator<Item = (Option<Nanos>, u64)> {
        let bounds = Self::BOUNDS_MS.into_iter().map(|ms| Some(Nanos::from_millis(ms)));
        bounds.chain([None]).zip(self.counts)
    }
}

/// Observations while a request ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForegroundActivity {
    /// Worst mean latency of reads and writes in one polling interval; `None` without
    /// any.
    pub wait_max: Option<Nanos>,
    /// The same, including requests that complete just behind the trim request.
    pub wait_max_behind: Option<Nanos>,
    /// Reads and writes completed.
    pub requests: u64,
    /// The process may have been frozen or the machine suspended, cutting the request
    /// short.
    pub maybe_frozen: bool,
}

/// The polling thread. Sleeps between requests.
#[derive(Debug)]
pub struct ForegroundWatch {
    shared: Arc<SharedPollerState>,
    thread: Option<JoinHandle<()>>,
    clocks: (Duration, Duration),
    stat: Option<Arc<StatFile>>,
}

impl ForegroundWatch {
    /// Starts the thread for one device; without counters it detects only freezes.
    pub fn start(stat: Option<StatFile>) -> std::io::Result<Self> {
        let shared = Arc::new(SharedPollerState {
            began: Instant::now(),
            state: Mutex::new(PollerCommand::Sleep),
            wake: Condvar::new(),
            wait_max: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            latencies: Mutex::default(),
            looked: AtomicU64::new(0),
            gap: AtomicBool::new(false),
            last: Mutex::new(None),
        });
        let stat = stat.map(Arc::new);
        let (theirs, read) = (Arc::clone(&shared), stat.clone());
        let thread = std::thread::Builder::new()
            .name("watch".into())
            .stack_size(64 << 10)
            .spawn(move || theirs.run(read.as_deref()))?;
        Ok(Self { shared, thread: Some(thread), clocks: clocks(), stat })
    }

    /// Starts polling.
    pub fn begin(&mut self) {
        self.shared.wait_max.store(0, Ordering::Relaxed);
        self.shared.requests.store(0, Ordering::Relaxed);
        self.shared.gap.store(false, Ordering::Relaxed);
        self.shared.looked.store(self.shared.since_began(), Ordering::Relaxed);
        self.clocks = clocks();
        *self.shared.last() = self.stat.as_deref().and_then(StatFile::read);
        self.shared.tell(PollerCommand::Look);
    }

    /// Stops polling and returns the observations.
    pub fn end(&mut self) -> ForegroundActivity {
        let now = self.shared.since_began();
        let unseen =
            Duration::from_nanos(now.saturating_sub(self.shared.looked.load(Ordering::Relaxed)));
        self.shared.tell(PollerCommand::Sleep);
        let (boot, running) = clocks();
        // The difference of these clocks is the time in suspend.
        let took = running.saturating_sub(self.clocks.1);
        let slept = boot.saturating_sub(self.clocks.0).saturating_sub(took);
        let requests = self.shared.requests.load(Ordering::Relaxed);
        let wait_max = (requests > 0).then(|| Nanos(self.shared.wait_max.load(Ordering::Relaxed)));
        let behind = self.step_behind(took).unwrap_or_default();
        self.shared.add(&behind);
        ForegroundActivity {
            wait_max,
            wait_max_behind: wait_max.max(mean_wait(&behind).map(Nanos)),
            requests,
            maybe_frozen: self.shared.gap.load(Ordering::Relaxed)
                || unseen > FROZEN_GAP
                || slept > Duration::from_millis(50),
        }
    }

    /// Latencies since the last call, during trim requests and just behind them.
    pub fn take_latencies(&self) -> LatencyClasses {
        std::mem::take(&mut *self.shared.latencies())
    }

    /// Requests since the last poll, or just behind a trim of duration `took`.
    fn step_behind(&self, took: Duration) -> Option<DiskStat> {
        let stat = self.stat.as_deref()?;
        let before = (*self.shared.last())?;
        let until = Instant::now() + TRAILING_WAIT_MAX.min(took / 4);
        loop {
            let now = stat.read()?;
            let step = now.since(&before);
            let left = until.saturating_duration_since(Instant::now());
            if mean_wait(&step).is_some() || now.in_flight == 0 || left.is_zero() {
                return Some(step);
            }
            std::thread::sleep(left.min(Duration::from_millis(1)));
        }
    }
}

impl Drop for ForegroundWatch {
    fn drop(&mut self) {
        self.shared.tell(PollerCommand::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SharedPollerState {
    fn since_began(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tell(&self, state: PollerCommand) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.wake.notify_all();
    }

    fn last(&self) -> MutexGuard<'_, Option<DiskStat>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, step: &DiskStat) {
        self.latencies().add(step.reads.saturating_add(step.writes), step.read_write_time);
    }

    fn latencies(&self) -> MutexGuard<'_, LatencyClasses> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, stat: Option<&StatFile>) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // Between requests, sleeps without waking up.
            while *state == PollerCommand::Sleep {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if *state == PollerCommand::End {
                return;
            }
            drop(state);
            let now = self.since_began();
            if Duration::from_nanos(now.saturating_sub(self.looked.swap(now, Ordering::Relaxed)))
                > FROZEN_GAP
            {
                self.gap.store(true, Ordering::Relaxed);
            }
            self.look(stat);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn look(&self, stat: Option<&StatFile>) {
        // The lock is held during the read, so that a new request never gets older
        // counters.
        let mut last = self.last();
        let counters = stat.and_then(StatFile::read);
        if let (Some(then), Some(now)) = (&*last, &counters) {
            self.note(&now.since(then));
        }
        *last = counters;
    }

    fn note(&self, step: &DiskStat) {
        if let Some(mean) = mean_wait(step) {
            self.wait_max.fetch_max(mean, Ordering::Relaxed);
            self.requests.fetch_add(step.reads.saturating_add(step.writes), Ordering::Relaxed);
            self.add(step);
        }
    }
}

/// Mean latency of reads and writes in nanoseconds; `None` without any.
fn mean_wait(step: &DiskStat) -> Option<u64> {
    step.read_write_time.0.checked_div(step.reads.saturating_add(step.writes))
}

/// Time since boot, with and without suspend.
fn clocks() -> (Duration, Duration) {
    (clock::read(ClockId::Boottime), clock::read(ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::Root;
    use std::path::Path;

    #[test]
    fn quiet_request_is_not_reported_frozen() {
        let mut watch = ForegroundWatch::start(None).unwrap();
        for _ in 0..3 {
            watch.begin();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(watch.end().wait_max, None);
        }
    }

    #[test]
    fn gap_between_polls_is_reported_as_frozen() {
        let mut watch = ForegroundWatch::start(None).unwrap();
        watch.begin();
        // As if the process had been frozen long ago.
        watch.shared.looked.store(0, Ordering::Relaxed);
        watch.shared.gap.store(false, Ordering::Relaxed);
        let state = watch.shared.state.lock().unwrap();
        std::thread::sleep(FROZEN_GAP + Duration::from_millis(50));
        drop(state);
        assert!(watch.end().maybe_frozen);
    }

    #[test]
    fn mean_wait_covers_one_polling_interval() {
        let watch = ForegroundWatch::start(None).unwrap();
        let step = |requests: u64, ms: u64| DiskStat {
            reads: requests,
            read_write_time: Nanos::from_millis(ms),
            ..DiskStat::default()
        };
        watch.shared.note(&step(0, 0));
        watch.shared.note(&step(10, 50));
        watch.shared.note(&step(2, 4));
        assert_eq!(watch.shared.wait_max.load(Ordering::Relaxed), 5_000_000);
        assert_eq!(watch.shared.requests.load(Ordering::Relaxed), 12);
        // 10 requests of 5 ms and 2 of 2 ms, each at the upper bound of its class.
        let mut latencies = watch.take_latencies();
        let bound = |ms| Some(Nanos::from_millis(ms));
        let found: Vec<_> = latencies.classes().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(bound(2), 2), (bound(5), 10)]);
        assert_eq!(latencies.total, Nanos::from_millis(54));
        watch.shared.note(&step(3, 9_000));
        latencies.merge(&watch.take_latencies());
        assert_eq!(latencies.classes().last(), Some((None, 3)));
        assert_eq!(latencies.total, Nanos::from_millis(9_054));
    }

    /// Once, a write waited 414 ms behind a whole command, but no wait was reported.
    #[test]
    fn wait_includes_requests_served_behind_trim() {
        use std::os::unix::fs::FileExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stat");
        // Seventeen fields of constant width, so that the file is never a mix of two
        // states: writes, their latency, and the number in flight.
        let line = |writes: u64, ms: u64, in_flight: u64| {
            let mut fields = [0; 17];
            (fields[4], fields[7], fields[8]) = (writes, ms, in_flight);
            fields.map(|field| format!("{field:8}")).join(" ")
        };
        std::fs::write(&path, line(7, 70, 1)).unwrap();
        let mut watch = ForegroundWatch::start(Some(
            StatFile::open(&Root::recorded(directory.path()).unwrap(), Path::new("/")).unwrap(),
        ))
        .unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        watch.begin();
        std::thread::sleep(Duration::from_millis(60));
        file.write_all_at(line(8, 484, 0).as_bytes(), 0).unwrap();
        let seen = watch.end();
        assert_eq!(seen.wait_max_behind, Some(Nanos::from_millis(414)), "{seen:?}");
        assert_eq!(watch.take_latencies().total, Nanos::from_millis(414));
        // Immediately: earlier requests are excluded.
        watch.begin();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(watch.end().wait_max_behind, None);
    }
}
