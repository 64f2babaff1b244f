//! SIGINT, SIGTERM and SIGHUP as a flag that loops look at, so that everything they made is removed on the way out.
//! A second signal while that goes on ends the program at once, as a shell user expects.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Installs the handlers, once; call before making anything that has to be removed.
pub fn install() -> std::io::Result<()> {
    if STOP.get().is_some() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and exits.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
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
