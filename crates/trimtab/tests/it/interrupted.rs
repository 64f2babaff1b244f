//! Interrupts a running command. Shared with the tests of `validate`.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Development builds are slow on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Time until the command is running.
const BEGINS: Duration = Duration::from_millis(1500);

/// Sends SIGINT to `command` while it runs. Returns its output, and whether the signal
/// ended it soon.
pub fn interrupted(command: &mut Command) -> (Output, bool) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(BEGINS);
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
    }
    let soon = since.elapsed() < SOON;
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    // Before the command installs its handler, the signal itself ends it.
    let ended =
        output.status.code() == Some(130) || output.status.signal() == Some(Signal::INT.as_raw());
    (output, soon && ended)
}
