//! Answering when the modelled drive would: the relation of model time to real time, and a thread that waits.

use crate::serve::awake::{self, Awake};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_core::units::Nanos;

/// How model time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This many times as fast as real time; 1 is real time.
    Times(f64),
    /// Requests are answered at once; the model's time is only counted.
    Unpaced,
}

impl Speed {
    /// Real time.
    pub const REALTIME: Self = Self::Times(1.0);
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "realtime" => Ok(Self::REALTIME),
            "off" => Ok(Self::Unpaced),
            _ => text
                .strip_suffix('x')
                .and_then(|factor| factor.parse::<f64>().ok())
                .filter(|factor| (0.001..=1000.0).contains(factor))
                .map(Self::Times)
                .ok_or_else(|| format!("speed is realtime, off, or a factor from 0.001x to 1000x such as 10x, not '{text}'")),
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Times(1.0) => f.write_str("realtime"),
            Self::Times(factor) => write!(f, "{factor}x"),
            Self::Unpaced => f.write_str("off"),
        }
    }
}

/// Model time from real time, never going backwards.
///
/// Unpaced, the clock runs with real time while the drive has nothing to do, and is put forward whenever the
/// drive's queue is full: it then shows what the drive would have needed with its queue kept full.
#[derive(Debug)]
pub struct ModelClock {
    speed: Speed,
    started: Instant,
    origin: Nanos,
    last: Nanos,
    skew: Nanos,
    in_flight: VecDeque<Nanos>,
    queue_depth: usize,
}

impl ModelClock {
    /// A clock that shows `origin` now.
    pub fn new(speed: Speed, origin: Nanos, queue_depth: u32) -> Self {
        Self {
            speed,
            started: Instant::now(),
            origin,
            last: origin,
            skew: Nanos::ZERO,
            in_flight: VecDeque::new(),
            queue_depth: queue_depth.max(1) as usize,
        }
    }

    /// Now, in model time.
    pub fn now(&mut self) -> Nanos {
        let elapsed = self.started.elapsed();
        let elapsed = match self.speed {
            Speed::Times(1.0) | Speed::Unpaced => Nanos(elapsed.as_nanos() as u64),
            Speed::Times(factor) => Nanos((elapsed.as_nanos() as f64 * factor) as u64),
        };
        self.last = self.last.max(self.origin + elapsed + self.skew);
        self.last
    }

    /// Now, once the drive can take another command.
    pub fn arrival(&mut self) -> Nanos {
        let now = self.now();
        if self.speed == Speed::Unpaced && self.in_flight.len() >= self.queue_depth {
            // Completions are kept in order, so the front one frees its place first.
            if let Some(first) = self.in_flight.pop_front() {
                self.put_forward(now, first);
            }
        }
        self.last
    }

    /// A command given at `arrival` completes at `done`; with `barrier`, the host waits for it before it goes on.
    /// Gives the instant of real time at which to answer.
    pub fn completes(&mut self, done: Nanos, barrier: bool) -> Option<Instant> {
        match self.speed {
            Speed::Unpaced => {
                if barrier {
                    self.in_flight.clear();
                    self.put_forward(self.last, done);
                } else {
                    let at = self.in_flight.partition_point(|other| *other <= done);
                    self.in_flight.insert(at, done);
                }
                None
            }
            Speed::Times(factor) => {
                let model = done.saturating_sub(self.origin).0;
                let real = if factor == 1.0 { model } else { (model as f64 / factor) as u64 };
                Some(self.started + Duration::from_nanos(real))
            }
        }
    }

    fn put_forward(&mut self, now: Nanos, to: Nanos) {
        if to > now {
            self.skew += to - now;
            self.last = to;
        }
    }
}

/// What is done when its time has come.
pub type Answer = Box<dyn FnOnce() + Send>;

struct Waiting {
    due: Instant,
    order: u64,
    answer: Answer,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

#[derive(Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    /// A poisoned queue is still a queue: an answer that panicked has been removed from it already.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps answers back until they are due.
pub struct Pacer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A sleeping thread is back this much after its alarm, typically; the rest is spent looking at the clock.
pub const SPIN: Duration = Duration::from_micros(15);

impl Pacer {
    /// Starts the thread that waits.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("pacer".into()).spawn(move || run(&theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Gives `answer` at `due`, or at once if that is now or `None`.
    pub fn at(&self, due: Option<Instant>, answer: impl FnOnce() + Send + 'static) {
        let Some(due) = due.filter(|due| *due > Instant::now()) else { return answer() };
        let mut queue = self.shared.lock();
        let order = queue.order;
        queue.order += 1;
        let first = queue.waiting.peek().is_none_or(|Reverse(next)| due < next.due);
        queue.waiting.push(Reverse(Waiting { due, order, answer: Box::new(answer) }));
        drop(queue);
        if first {
            self.shared.changed.notify_one();
        }
    }

    /// How many answers are being kept back.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }
}

impl Drop for Pacer {
    /// Gives all answers that are left, at once, and ends the thread.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    // The default slack of 50 µs is what a drive needs for a whole read.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut queue = shared.lock();
    let mut awake = None;
    loop {
        let now = Instant::now();
        let closed = queue.closed;
        if !queue.waiting.is_empty() {
            awake.get_or_insert_with(Awake::hold);
        }
        match queue.waiting.peek() {
            None if closed => return,
            None if awake.is_some() => {
                let (guard, rested) = shared.changed.wait_timeout(queue, awake::REST).unwrap_or_else(PoisonError::into_inner);
                queue = guard;
                if rested.timed_out() && queue.waiting.is_empty() {
                    awake = None;
                }
            }
            None => queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(Reverse(next)) if closed || next.due <= now => {
                let next = queue.waiting.pop().expect("peeked above, under the same lock").0;
                drop(queue);
                (next.answer)();
                queue = shared.lock();
            }
            Some(Reverse(next)) if next.due - now <= SPIN => {
                let due = next.due;
                drop(queue);
                while Instant::now() < due {
                    std::hint::spin_loop();
                }
                queue = shared.lock();
            }
            Some(Reverse(next)) => {
                let sleep = next.due - now - SPIN;
                queue = shared.changed.wait_timeout(queue, sleep).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn speeds_are_read() {
        assert_eq!("realtime".parse(), Ok(Speed::REALTIME));
        assert_eq!("off".parse(), Ok(Speed::Unpaced));
        assert_eq!("10x".parse(), Ok(Speed::Times(10.0)));
        for wrong in ["", "x", "10", "0x", "-1x", "1e9x", "NaNx", "fast"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_come_in_the_order_of_their_time_and_not_before() {
        let pacer = Pacer::start().unwrap();
        let (send, receive) = mpsc::channel();
        let start = Instant::now();
        for ms in [30, 10, 20] {
            let send = send.clone();
            let due = start + Duration::from_millis(ms);
            pacer.at(Some(due), move || send.send((ms, Instant::now() >= due)).unwrap());
        }
        let got: Vec<_> = receive.iter().take(3).collect();
        assert_eq!(got, [(10, true), (20, true), (30, true)]);
    }

    #[test]
    fn the_end_answers_everybody() {
        let pacer = Pacer::start().unwrap();
        let (send, receive) = mpsc::channel();
        pacer.at(Some(Instant::now() + Duration::from_secs(3600)), move || send.send(()).unwrap());
        drop(pacer);
        assert_eq!(receive.try_recv(), Ok(()));
    }

    #[test]
    fn an_unpaced_clock_shows_what_a_full_queue_would_have_taken() {
        let mut clock = ModelClock::new(Speed::Unpaced, Nanos::ZERO, 2);
        // Each command takes 10 s of the model, two at a time: the third can only be given once the first is done.
        for i in 0..6 {
            let arrival = clock.arrival();
            assert_eq!(arrival.0 / 10_000_000_000, i / 2, "command {i}");
            assert_eq!(clock.completes(arrival + Nanos::from_secs(10), false), None);
        }
        let arrival = clock.arrival();
        clock.completes(arrival + Nanos::from_secs(5), true);
        assert!(clock.now() >= Nanos::from_secs(35), "a flush is waited for");
    }

    #[test]
    fn a_faster_model_answers_earlier() {
        let mut clock = ModelClock::new(Speed::Times(10.0), Nanos::from_secs(100), 32);
        let started = clock.started;
        assert_eq!(clock.completes(Nanos::from_secs(110), false), Some(started + Duration::from_secs(1)));
    }
}
