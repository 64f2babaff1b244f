//! The first SIGINT ends every command soon.

use crate::support::process;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A build for development on a busy machine is slow.
const SOON: Duration = Duration::from_secs(15);
/// Until the command is at work.
const BEGINS: Duration = Duration::from_millis(1500);

/// Commands that take far longer than this test; DIR is a directory.
const COMMANDS: [&str; 15] = [
    "bench postmark DIR --transactions 200000000 --yes",
    "bench tree DIR --tries 10000 --yes",
    "bench age DIR --total 2GB --yes --reserve 1MiB",
    "bench crystal DIR --size 64MiB --passes 9 --yes",
    "bench nfs DIR --seconds 3600 --written 1GB --yes",
    "bench postmark null: --transactions 200000000",
    "bench postmark drive:ocz-vertex-le-100gb --transactions 20000000",
    "bench tree drive:ocz-vertex-le-100gb --tries 10000",
    "bench crystal drive:ocz-vertex-le-100gb --size 8GiB --passes 1000",
    "study",
    "study drive:ocz-vertex-le-100gb",
    "study DIR --yes --full",
    "drive simulate --drive ocz-vertex-le-100gb --until-written 1000TB",
    "drive learn drive:ocz-vertex-le-100gb",
    "doctor --all",
];

#[test]
fn sigint_ends_every_command_soon() {
    for command in COMMANDS {
        // In memory: a sync of a busy disk cannot be interrupted.
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = home.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        let words = command.split(' ').map(|word| word.replace("DIR", dir.to_str().unwrap()));
        let mut started = process();
        started
            .args(words)
            .arg("--quiet")
            .env("XDG_DATA_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = started.spawn().unwrap();
        std::thread::sleep(BEGINS);
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let since = Instant::now();
        while child.try_wait().unwrap().is_none() && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(10));
        }
        let took = since.elapsed();
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // One that was not at work yet is ended by the signal itself, and the doctor may be done by then.
        use std::os::unix::process::ExitStatusExt as _;
        let ended = output.status.code() == Some(130) || output.status.signal() == Some(libc::SIGINT) || command.starts_with("doctor");
        assert!(took < SOON && ended, "{command}: {:?} after {took:?}: {stderr}", output.status);
        // A workspace whose removal takes longer stays for the next run to remove.
        for entry in std::fs::read_dir(&dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name.starts_with("trimtab-work-"), "{command} leaves {name}: {stderr}");
        }
    }
}
