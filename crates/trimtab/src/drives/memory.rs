//! Memory budget for cells in progress: no cell starts without memory for it.

use std::sync::{Condvar, Mutex, PoisonError};
use trimtab_drive::units::Bytes;

/// Share of the available memory that is used.
const SHARE_PERCENT: u64 = 80;
/// Assumed if the kernel does not report it.
const UNKNOWN: u64 = 1 << 30;

/// Memory for all cells together.
#[derive(Debug)]
pub struct MemoryBudget {
    total: u64,
    left: Mutex<u64>,
    given_back: Condvar,
}

/// A part of the budget, returned on drop.
#[derive(Debug)]
pub struct MemoryShare<'a> {
    of: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    /// The budget of this machine at present.
    pub fn of_this_machine() -> Self {
        let available =
            trimtab_linux::host::memory::available().map_or(UNKNOWN, |available| available.0);
        Self::new(available / 100 * SHARE_PERCENT)
    }

    /// A budget of `total` bytes.
    pub const fn new(total: u64) -> Self {
        Self { total, left: Mutex::new(total), given_back: Condvar::new() }
    }

    /// The whole budget.
    pub const fn total(&self) -> Bytes {
        Bytes(self.total)
    }

    /// Waits for `bytes`; `None` if they exceed the budget.
    pub fn take(&self, bytes: u64) -> Option<MemoryShare<'_>> {
        if bytes > self.total {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left < bytes {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= bytes;
        Some(MemoryShare { of: self, bytes })
    }
}

impl Drop for MemoryShare<'_> {
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
    fn take_never_exceeds_budget() {
        let budget = MemoryBudget::new(100);
        assert!(budget.take(101).is_none());
        let (under_way, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _part = budget.take(40).unwrap();
                        most.fetch_max(
                            under_way.fetch_add(40, Ordering::SeqCst) + 40,
                            Ordering::SeqCst,
                        );
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
