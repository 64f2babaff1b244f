//! Processors that answer at once.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

/// While this is held, the kernel does not let processors sleep so deeply that waking up takes time. A virtual processor that has been halted needs tens of
/// microseconds to come back, and a request passes three threads.
/// Without the right to ask for it, holding this changes nothing.
#[derive(Debug)]
pub struct Awake {
    _request: Option<File>,
}

/// After so long without need it is to be let go: keeping processors awake costs power.
pub const REST: Duration = Duration::from_millis(200);

impl Awake {
    /// Asks for it, by the kernel's quality of service for power management.
    pub fn hold() -> Self {
        let request = File::options().write(true).open("/dev/cpu_dma_latency");
        // Microseconds that waking up may take, until the file is closed.
        let request = request.and_then(|mut file| file.write_all(&0_i32.to_ne_bytes()).map(|()| file));
        Self { _request: request.ok() }
    }
}
