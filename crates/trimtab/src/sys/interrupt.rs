//! SIGINT, SIGTERM and SIGHUP as a flag that loops look at, so that everything they made is removed on the way out.
//! A second signal while that goes on ends the program at once, as a shell user expects; one that comes with the first does not: `timeout` signals its child,
//! and then its group, in which the child is.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The user stopped it (SIGINT, SIGTERM); everything has been cleaned up.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What comes so soon after the first signal is the same wish.
const SAME_WISH_NS: u64 = 500_000_000;

/// Time since boot; to be asked for in signal handlers, too.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Installs the handlers, once; call before making anything that has to be removed.
pub fn install() -> std::io::Result<()> {
    if STOP.get().is_some() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let first = Arc::new(AtomicU64::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let (stop, first) = (Arc::clone(&stop), Arc::clone(&first));
        let asked = move || {
            let now = now_ns();
            let before = first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            if before.is_err_and(|first| now.saturating_sub(first) >= SAME_WISH_NS) {
                signal_hook::low_level::exit(128 + signal);
            }
        };
        // SAFETY: what is called is async-signal-safe: atomics, clock_gettime(2) and _exit(2); nothing is allocated, locked or dropped.
        unsafe { signal_hook::low_level::register(signal, asked) }?;
    }
    let _ = STOP.set(stop);
    Ok(())
}

/// True once the user wants it to stop.
#[inline]
pub fn requested() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// An error once the user wants it to stop.
#[inline]
pub fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}
