//! Completes requests at the time when the modelled drive would: a queue of delayed
//! completions, and a thread that serves it for front ends without a thread of their own.

mod clock;

pub use clock::{ModelClock, Speed};

use crate::cpu_latency::{CpuLatencyGuard, RELEASE_AFTER};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Typical wake-up delay of a sleeping thread; this part of each wait is spent spinning.
const SPIN: Duration = Duration::from_micros(15);

/// Pending completions, earliest first. Keeps CPUs awake until [`rest`](Self::rest).
#[derive(Debug)]
pub struct DelayQueue<T> {
    waiting: BinaryHeap<Reverse<DelayedCompletion<T>>>,
    order: u64,
    latency_guard: Option<CpuLatencyGuard>,
}

#[derive(Debug)]
struct DelayedCompletion<T> {
    due: Instant,
    order: u64,
    answer: T,
}

/// The way to wait for the next completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMethod {
    /// Long enough to sleep.
    Sleep(Duration),
    /// Spin until this instant.
    Spin(Instant),
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self { waiting: BinaryHeap::new(), order: 0, latency_guard: None }
    }
}

impl<T> DelayQueue<T> {
    /// Queues `answer` until `due`. Returns whether it is the earliest.
    pub fn push(&mut self, due: Instant, answer: T) -> bool {
        self.latency_guard.get_or_insert_with(CpuLatencyGuard::hold);
        let first = self.waiting.peek().is_none_or(|Reverse(next)| due < next.due);
        self.waiting.push(Reverse(DelayedCompletion { due, order: self.order, answer }));
        self.order += 1;
        first
    }

    /// The next completion if it is due, or in any case if `all` is set.
    pub fn take(&mut self, now: Instant, all: bool) -> Option<T> {
        let is_due = self.waiting.peek().is_some_and(|Reverse(next)| all || next.due <= now);
        if is_due { self.waiting.pop().map(|Reverse(next)| next.answer) } else { None }
    }

    /// The way to wait for the next completion; `None` if the queue is empty.
    pub fn wait(&self, now: Instant) -> Option<WaitMethod> {
        let Reverse(next) = self.waiting.peek()?;
        let left = next.due.saturating_duration_since(now);
        Some(if left <= SPIN { WaitMethod::Spin(next.due) } else { WaitMethod::Sleep(left - SPIN) })
    }

    /// Number of queued completions.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Time to wait for more before [`rest`](Self::rest); `None` if CPUs may sleep
    /// already.
    pub fn rest_after(&self) -> Option<Duration> {
        self.latency_guard.is_some().then_some(RELEASE_AFTER)
    }

    /// Lets CPUs sleep deeply again after an idle period.
    pub fn rest(&mut self) {
        self.latency_guard = None;
    }
}

impl<T> PartialEq for DelayedCompletion<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for DelayedCompletion<T> {}
impl<T> PartialOrd for DelayedCompletion<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for DelayedCompletion<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// Sets the timer slack to the minimum: the default of 50 µs is as long as a whole read.
pub fn minimise_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// The action that completes a request.
pub type CompletionAction = Box<dyn FnOnce() + Send>;

struct PacerQueue {
    due: DelayQueue<CompletionAction>,
    closed: bool,
}

struct SharedPacerQueue {
    queue: Mutex<PacerQueue>,
    changed: Condvar,
}

impl SharedPacerQueue {
    /// Ignores poisoning: a completion that panicked has already been removed from the
    /// queue.
    fn lock(&self) -> MutexGuard<'_, PacerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delays completions until they are due.
pub struct Pacer {
    shared: Arc<SharedPacerQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Starts the waiting thread.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(SharedPacerQueue {
            queue: Mutex::new(PacerQueue { due: DelayQueue::default(), closed: false }),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("pacer".into()).spawn(move || run(&theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Runs `answer` at `due`, or immediately if that is past or `None`.
    pub fn at(&self, due: Option<Instant>, answer: impl FnOnce() + Send + 'static) {
        let Some(due) = due.filter(|due| *due > Instant::now()) else { return answer() };
        if self.shared.lock().due.push(due, Box::new(answer)) {
            self.shared.changed.notify_one();
        }
    }

    /// Number of delayed completions.
    pub fn waiting(&self) -> usize {
        self.shared.lock().due.waiting()
    }
}

impl Drop for Pacer {
    /// Runs all remaining completions immediately and ends the thread.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &SharedPacerQueue) {
    minimise_timer_slack();
    let mut queue = shared.lock();
    loop {
        let (now, closed) = (Instant::now(), queue.closed);
        if let Some(answer) = queue.due.take(now, closed) {
            drop(queue);
            answer();
            queue = shared.lock();
            continue;
        }
        match (queue.due.wait(now), queue.due.rest_after()) {
            (None, _) if closed => return,
            (None, None) => {
                queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
            }
            (None, Some(rest)) => {
                let (guard, rested) = shared
                    .changed
                    .wait_timeout(queue, rest)
                    .unwrap_or_else(PoisonError::into_inner);
                queue = guard;
                if rested.timed_out() && queue.due.waiting() == 0 {
                    queue.due.rest();
                }
            }
            (Some(WaitMethod::Spin(due)), _) => {
                drop(queue);
                while Instant::now() < due {
                    std::hint::spin_loop();
                }
                queue = shared.lock();
            }
            (Some(WaitMethod::Sleep(time)), _) => {
                queue = shared
                    .changed
                    .wait_timeout(queue, time)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn due_orders_by_time_then_by_arrival() {
        let (mut due, now) = (DelayQueue::default(), Instant::now());
        let at = |us| now + Duration::from_micros(us);
        assert_eq!((due.wait(now), due.take(now, true), due.rest_after()), (None, None, None));
        assert!(due.push(at(500), 'c') && due.push(at(100), 'a') && !due.push(at(100), 'b'));
        assert_eq!(
            (due.waiting(), due.take(now, false), due.rest_after()),
            (3, None, Some(RELEASE_AFTER))
        );
        assert_eq!(due.wait(now), Some(WaitMethod::Sleep(Duration::from_micros(85))));
        assert_eq!(due.wait(at(85)), Some(WaitMethod::Spin(at(100))));
        assert_eq!(due.wait(at(200)), Some(WaitMethod::Spin(at(100))), "over");
        assert_eq!(
            [due.take(at(100), false), due.take(at(100), false), due.take(at(100), false)],
            [Some('a'), Some('b'), None]
        );
        assert_eq!((due.take(now, true), due.waiting()), (Some('c'), 0));
        due.rest();
        assert_eq!(due.rest_after(), None);
    }

    #[test]
    fn pacer_completes_in_order_and_not_early() {
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
    fn drop_completes_all_requests() {
        let pacer = Pacer::start().unwrap();
        let (send, receive) = mpsc::channel();
        pacer.at(Some(Instant::now() + Duration::from_secs(3600)), move || send.send(()).unwrap());
        drop(pacer);
        assert_eq!(receive.try_recv(), Ok(()));
    }
}
