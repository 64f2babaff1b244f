//! Keeps CPUs out of deep sleep states for low wake-up latency.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

/// While held, the kernel keeps CPUs out of deep sleep states. A halted virtual CPU takes
/// tens of microseconds to resume, and a request passes through three threads. Without
/// permission for the request, this has no effect.
#[derive(Debug)]
pub struct CpuLatencyGuard {
    _request: Option<File>,
}

/// Idle time after which the guard should be dropped: keeping CPUs awake costs power.
pub const RELEASE_AFTER: Duration = Duration::from_millis(200);

impl CpuLatencyGuard {
    /// Requests it through the kernel's PM quality of service.
    pub fn hold() -> Self {
        let request = File::options().write(true).open("/dev/cpu_dma_latency");
        // Maximum wake-up latency in microseconds, until the file is closed.
        let request =
            request.and_then(|mut file| file.write_all(&0_i32.to_ne_bytes()).map(|()| file));
        Self { _request: request.ok() }
    }
}
