//! The share of the processors that this process has beside others.

/// As the services have it (packaging/systemd).
const NICE: i32 = 10;

/// Leaves the processors to whoever else wants them, as the services do; who has said so already stays where they are.
pub fn yield_to_others() {
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    if now < NICE {
        // Everybody may; where it cannot be done all else works as well.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}
