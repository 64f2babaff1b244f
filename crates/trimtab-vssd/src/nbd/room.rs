//! Memory for replies, shared by all clients.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Total size of replies that may wait for their time, or for their client.
pub const ROOM_BYTES: u32 = 64 << 20;

/// The free part of that memory, and the number of waiting threads.
pub struct ReplyMemory {
    state: Mutex<ReplyMemoryState>,
    more: Condvar,
}

struct ReplyMemoryState {
    left: u32,
    waiting: u32,
}

impl ReplyMemory {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(ReplyMemoryState { left: ROOM_BYTES, waiting: 0 }),
            more: Condvar::new(),
        }
    }

    /// Takes `bytes`, at most [`ROOM_BYTES`], once they are free. False once `wanted` is.
    pub fn take(&self, bytes: u32, wanted: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        state.waiting += 1;
        while state.left < bytes && wanted() {
            // Polls: nothing signals that a client has gone.
            state = self
                .more
                .wait_timeout(state, Duration::from_millis(200))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.waiting -= 1;
        let enough = state.left >= bytes;
        if enough {
            state.left -= bytes;
        }
        enough
    }

    /// Returns `bytes` taken before.
    pub fn give(&self, bytes: u32) {
        self.lock().left += bytes;
        self.more.notify_all();
    }

    /// Number of threads that wait for memory.
    pub fn waiting(&self) -> u32 {
        self.lock().waiting
    }

    fn lock(&self) -> MutexGuard<'_, ReplyMemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
