//! SIGINT, SIGTERM and SIGHUP as a flag that loops look at, so that everything they made is removed on the way out. A computation that does not
//! look ends with the process soon after the signal, unless something has to be undone first ([`Unfinished`]).
//! A second signal while that goes on ends the program at once, as a shell user expects; one that comes with the first does not: `timeout` signals its child,
//! and then its group, in which the child is.

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
/// When the first signal came, in nanoseconds since boot; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// What comes so soon after the first signal is the same wish.
const SAME_WISH_NS: u64 = 500_000_000;

/// A build for development computes more slowly.
const SLOWNESS: u64 = if cfg!(debug_assertions) { 4 } else { 1 };
/// Time to end in after a signal, with nothing to undo.
const PATIENCE_NS: u64 = SLOWNESS * 800_000_000;
/// Between two looks at whether that is over.
const LOOK_EVERY_US: libc::suseconds_t = 100_000;

/// What has to be undone before the process ends: a number of [`Unfinished`] that live.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);
/// Set where the process must not end before it has undone what it has done, however long that takes.
static MUST_FINISH: AtomicBool = AtomicBool::new(false);

/// Lives as long as something outside this process is not as it was.
#[derive(Debug)]
pub struct Unfinished(());

impl Unfinished {
    /// Something is about to be changed.
    #[must_use]
    pub fn begin() -> Self {
        UNFINISHED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A signal ends the process only when the command has ended by itself: for servers, and for what must not stay half done.
pub fn must_finish() {
    MUST_FINISH.store(true, Ordering::Relaxed);
}

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
                signal_hook::low_level::exit(128 + signal);
            }
        };
        // SAFETY: what is called is async-signal-safe: atomics, clock_gettime(2), setitimer(2) and _exit(2); nothing is allocated, locked or dropped.
        unsafe { signal_hook::low_level::register(signal, asked) }?;
    }
    // SAFETY: likewise, with write(2).
    unsafe { signal_hook::low_level::register(SIGALRM, end_if_late) }?;
    let _ = STOP.set(stop);
    Ok(())
}

/// Has SIGALRM come at intervals from now on. Called in a signal handler.
fn look_again() {
    let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_EVERY_US };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the pointer is valid, and no old value is asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Ends the process if it has had its time since the first signal and has nothing to undo. The handler of SIGALRM.
fn end_if_late() {
    let since = now_ns().saturating_sub(FIRST.load(Ordering::Relaxed));
    if since < PATIENCE_NS || UNFINISHED.load(Ordering::Relaxed) > 0 {
        return;
    }
    let text = b"\ntrimtab: interrupted\n";
    // SAFETY: a plain system call with a valid buffer.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    signal_hook::low_level::exit(128 + SIGINT);
}

/// True once the user wants it to stop.
#[inline]
pub fn requested() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Time since the first signal; `None` before.
pub fn requested_for() -> Option<Duration> {
    let first = FIRST.load(Ordering::Relaxed);
    (first > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(first)))
}

/// An error once the user wants it to stop.
#[inline]
pub fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}
