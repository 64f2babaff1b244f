//! Runs cells on threads within a memory limit.

use crate::background::TaskState;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Available memory assumed if the system does not report it.
const UNKNOWN: u64 = 4 << 30;

/// Memory limit for all cells together: four fifths of the available memory.
pub fn available() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(UNKNOWN, |kib| kib.saturating_mul(1024)) / 5 * 4
}

/// Threads and memory for running cells.
#[derive(Clone, Copy, Debug)]
pub struct Crew<'a> {
    /// Maximum number of cells at once.
    pub threads: usize,
    /// Memory limit for all cells together. A cell that needs more runs alone.
    pub memory_bytes: u64,
    /// State of the task.
    pub state: &'a TaskState,
}

impl Crew<'_> {
    /// Calls `make` for each number below `count` and returns the results in order.
    /// Returns `None` if stopped, or if a call returned `None`. `needs` gives the memory
    /// of each call in bytes.
    pub fn run<R: Send>(
        &self,
        count: usize,
        needs: impl Fn(usize) -> u64 + Sync,
        make: impl Fn(usize) -> Option<R> + Sync,
    ) -> Option<Vec<R>> {
        let (next, left, given_back) =
            (AtomicUsize::new(0), Mutex::new(self.memory_bytes), Condvar::new());
        let made: Mutex<Vec<Option<R>>> = Mutex::new((0..count).map(|_| None).collect());
        // Every update under these locks is atomic, so the data stay valid after a panic.
        let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            while !self.state.stop.load(Ordering::Relaxed) {
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
                self.state.done.fetch_add(1, Ordering::Relaxed);
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
