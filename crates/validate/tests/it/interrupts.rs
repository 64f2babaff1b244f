//! SIGINT ends every comparison soon.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A development build on a busy machine is slow.
const SOON: Duration = Duration::from_secs(30);
/// Until the comparison works.
const BEGINS: Duration = Duration::from_millis(1500);

#[test]
fn sigint_ends_every_comparison_soon() {
    for comparison in ["published", "drive", "peers", "catalogue"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_validate"))
            .args([comparison, "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(BEGINS);
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let since = Instant::now();
        while child.try_wait().unwrap().is_none() && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(10));
        }
        let took = since.elapsed();
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        // The signal itself ends a comparison that has not installed its handler yet.
        let ended = output.status.code() == Some(130) || output.status.signal() == Some(Signal::INT.as_raw());
        assert!(took < SOON && ended, "{comparison}: {:?} after {took:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}
