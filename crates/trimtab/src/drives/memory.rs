//! Memory for cells under way: none begins that does not fit beside the others.

use std::sync::{Condvar, Mutex, PoisonError};
use trimtab_drive::units::Bytes;

/// What is left for others, of what the kernel could give out.
const SHARE_PERCENT: u64 = 80;
/// Taken for available where the kernel does not say.
const UNKNOWN: u64 = 1 << 30;

/// What cells may take together.
#[derive(Debug)]
pub struct Budget {
    total: u64,
    left: Mutex<u64>,
    given_back: Condvar,
}

/// A part of it, until dropped.
#[derive(Debug)]
pub struct Part<'a> {
    of: &'a Budget,
    bytes: u64,
}

impl Budget {
    /// What this machine has now.
    pub fn of_this_machine() -> Self {
        let available = trimtab_linux::host::processes::available_memory().map_or(UNKNOWN, |available| available.0);
        Self::new(available / 100 * SHARE_PERCENT)
    }

    /// So many bytes.
    pub const fn new(total: u64) -> Self {
        Self { total, left: Mutex::new(total), given_back: Condvar::new() }
    }

    /// All of it.
    pub const fn total(&self) -> Bytes {
        Bytes(self.total)
    }

    /// Waits until there is so much; `None` if there never will be.
    pub fn take(&self, bytes: u64) -> Option<Part<'_>> {
        if bytes > self.total {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left < bytes {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= bytes;
        Some(Part { of: self, bytes })
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        *self.of.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.of.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn no_more_is_taken_at_once_than_there_is() {
        let budget = Budget::new(100);
        assert!(budget.take(101).is_none());
        let (under_way, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _part = budget.take(40).unwrap();
                        most.fetch_max(under_way.fetch_add(40, Ordering::SeqCst) + 40, Ordering::SeqCst);
                        std::thread::yield_now();
                        under_way.fetch_sub(40, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!((40..=100).contains(&most.load(Ordering::SeqCst)));
        assert!(budget.take(100).is_some());
    }
}
