//! Handling of SIGINT, SIGTERM and SIGHUP. The first signal sets a flag that loops check,
//! so that they clean up before they return. A computation that does not check the flag
//! ends with the process shortly after the signal, unless a change must be undone first
//! ([`TemporaryChangeGuard`]). A second signal during this time ends the program at once,
//! as a shell user expects. A second signal within 0.5 s of the first is ignored:
//! `timeout` signals its child and then the process group that contains the child.

use super::clock::{self, nanos};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The user stopped the command with a signal, and it has cleaned up.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct InterruptError;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Time of the first signal, in nanoseconds since boot; 0 before that.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// A second signal within this time after the first counts as the same request.
const SAME_WISH_NS: u64 = 500_000_000;

/// Development builds compute more slowly.
const SLOWNESS: u64 = if cfg!(debug_assertions) { 4 } else { 1 };
/// Grace period after a signal, if nothing must be undone.
const PATIENCE_NS: u64 = SLOWNESS * 800_000_000;
/// Interval between checks of the grace period.
const LOOK_EVERY_US: i32 = 100_000;

/// Printed if a second signal ends the process before its changes are undone.
const LEFT_BEHIND: &[u8] = b"\ntrimtab: ended by a second signal before cleaning up; the next \
    trimtab command there reverts the changes and offers to remove the files\n";

/// Number of live [`TemporaryChangeGuard`] values, each of which is a change to undo
/// before the process ends.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);
/// Set if the process must not end before it has undone its changes, regardless of the
/// time this takes.
static MUST_FINISH: AtomicBool = AtomicBool::new(false);

/// Guard that lives while a temporary change outside this process is in effect.
#[derive(Debug)]
pub struct TemporaryChangeGuard(());

impl TemporaryChangeGuard {
    /// Registers a change; call before making it.
    #[must_use]
    pub fn begin() -> Self {
        UNFINISHED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for TemporaryChangeGuard {
    fn drop(&mut self) {
        UNFINISHED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Disables the grace period: after one signal, the process ends only when the command
/// returns. For servers, and for work that must not stop half done.
pub fn must_finish() {
    MUST_FINISH.store(true, Ordering::Relaxed);
}

/// Nanoseconds since boot. Async-signal-safe.
fn now_ns() -> u64 {
    nanos(clock::read(rustix::time::ClockId::Monotonic)).0
}

/// Installs the handlers once. Call before making anything that must be removed later.
pub fn install() -> std::io::Result<()> {
    if STOP.get().is_some() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let stop = Arc::clone(&stop);
        let asked = move || {
            let now = now_ns();
            let before = FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            if before.is_ok() && !MUST_FINISH.load(Ordering::Relaxed) {
                look_again();
            }
            if before.is_err_and(|first| now.saturating_sub(first) >= SAME_WISH_NS) {
                if UNFINISHED.load(Ordering::Relaxed) > 0 {
                    write_error(LEFT_BEHIND);
                }
                signal_hook::low_level::exit(128 + signal);
            }
        };
        // SAFETY: the handler is async-signal-safe: it uses atomics, clock_gettime(2),
        // setitimer(2) and _exit(2), and it does not allocate, lock or drop.
        unsafe { signal_hook::low_level::register(signal, asked) }?;
    }
    // SAFETY: likewise; the handler also uses write(2).
    unsafe { signal_hook::low_level::register(SIGALRM, end_if_late) }?;
    let _ = STOP.set(stop);
    Ok(())
}

/// Writes to standard error. Async-signal-safe.
fn write_error(text: &[u8]) {
    // SAFETY: a plain system call with a valid buffer.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Starts a periodic SIGALRM. Called in a signal handler.
fn look_again() {
    let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_EVERY_US.into() };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the pointer is valid, and no old value is requested.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Handler of SIGALRM. Ends the process if its grace period is over and nothing must be
/// undone.
fn end_if_late() {
    let since = now_ns().saturating_sub(FIRST.load(Ordering::Relaxed));
    if since < PATIENCE_NS || UNFINISHED.load(Ordering::Relaxed) > 0 {
        return;
    }
    write_error(b"\ntrimtab: interrupted\n");
    signal_hook::low_level::exit(128 + SIGINT);
}

/// True once a signal has arrived.
#[inline]
pub fn requested() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Time since the first signal; `None` before that.
pub fn requested_for() -> Option<Duration> {
    let first = FIRST.load(Ordering::Relaxed);
    (first > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(first)))
}

/// Returns an error once a signal has arrived.
#[inline]
pub fn check() -> Result<(), InterruptError> {
    if requested() { Err(InterruptError) } else { Ok(()) }
}
