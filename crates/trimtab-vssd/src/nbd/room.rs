//! Memory for answers, shared by all clients.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of answers that may wait for their time, or for their client to read them, in all.
pub const ROOM_BYTES: u32 = 64 << 20;

/// What is left of that memory, and who waits for some.
pub struct Room {
    state: Mutex<State>,
    more: Condvar,
}

struct State {
    left: u32,
    waiting: u32,
}

impl Room {
    pub fn new() -> Self {
        Self { state: Mutex::new(State { left: ROOM_BYTES, waiting: 0 }), more: Condvar::new() }
    }

    /// Takes `bytes`, at most [`ROOM_BYTES`]; waits until there are so many. False once nobody wants them any more.
    pub fn take(&self, bytes: u32, wanted: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        state.waiting += 1;
        while state.left < bytes && wanted() {
            // Nobody says that a client has gone.
            state = self.more.wait_timeout(state, Duration::from_millis(200)).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting -= 1;
        let enough = state.left >= bytes;
        if enough {
            state.left -= bytes;
        }
        enough
    }

    /// Gives them back.
    pub fn give(&self, bytes: u32) {
        self.lock().left += bytes;
        self.more.notify_all();
    }

    /// How many wait for memory.
    pub fn waiting(&self) -> u32 {
        self.lock().waiting
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
