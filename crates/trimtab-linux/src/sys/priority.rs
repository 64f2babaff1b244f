//! CPU priority of this process.

/// Nice value of the services (packaging/systemd).
const NICE: i32 = 10;

/// Lowers the CPU priority to that of the services. A process with an even lower priority
/// keeps it.
pub fn yield_to_others() {
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    if now < NICE {
        // Needs no privilege. Failure is harmless.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}
