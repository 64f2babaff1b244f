//! Cells on threads, each begun within the memory that is left.

use crate::aside::Signs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Taken for available where the system does not say.
const UNKNOWN: u64 = 4 << 30;

/// What cells may take together: four fifths of what the system could give out now.
pub fn available() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(UNKNOWN, |kib| kib.saturating_mul(1024)) / 5 * 4
}

/// How to run cells.
#[derive(Clone, Copy, Debug)]
pub struct Crew<'a> {
    /// So many at once, if there is memory.
    pub threads: usize,
    /// What they may take together. One that takes more runs alone.
    pub memory_bytes: u64,
    /// Whether to stop, and how many are done.
    pub signs: &'a Signs,
}

impl Crew<'_> {
    /// What `make` gives for each number below `count`, in their order; `None` if it was stopped or gave none. `needs` says what each takes of memory.
    pub fn run<R: Send>(
        &self,
        count: usize,
        needs: impl Fn(usize) -> u64 + Sync,
        make: impl Fn(usize) -> Option<R> + Sync,
    ) -> Option<Vec<R>> {
        let (next, left, given_back) = (AtomicUsize::new(0), Mutex::new(self.memory_bytes), Condvar::new());
        let made: Mutex<Vec<Option<R>>> = Mutex::new((0..count).map(|_| None).collect());
        // Each change of what these locks hold is whole: a thread that panicked left it as good as before.
        let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            while !self.signs.stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    break;
                }
                let needed = needs(at).min(self.memory_bytes);
                let enough = given_back.wait_while(left(), |left| *left < needed);
                *enough.unwrap_or_else(PoisonError::into_inner) -= needed;
                let one = make(at);
                *left() += needed;
                given_back.notify_all();
                let Some(one) = one else { break };
                made.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(one);
                self.signs.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads.clamp(1, count.max(1)) {
                scope.spawn(work);
            }
        });
        made.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
    }
}
