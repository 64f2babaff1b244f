//! The first SIGINT ends every command soon.

use crate::interrupted::interrupted;
use crate::support::process;
use std::process::Stdio;

/// Commands that take far longer than this test; DIR is a directory.
const COMMANDS: [&str; 15] = [
    "bench postmark DIR --transactions 200000000 --yes",
    "bench tree DIR --tries 10000 --yes",
    "bench age DIR --total 20GB --yes --reserve 1MiB",
    "bench crystal DIR --size 64MiB --passes 9 --yes",
    "bench nfs DIR --seconds 3600 --written 100GB --yes",
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
fn closed_pipe_ends_a_benchmark_without_a_message() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let words = ["bench", "postmark", ".", "--transactions", "100", "--reserve", "1MiB"];
    let mut started = process();
    started.args(words).args(["--yes", "--quiet"]).current_dir(dir.path());
    let mut child = started.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(!output.status.success());
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

/// Once, `--quiet` hid that a directory was left behind.
#[test]
fn interrupted_command_names_what_it_could_not_remove() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = home.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let mut started = process();
    started.args(["bench", "tree", ".", "--tries", "10000", "--yes", "--quiet"]);
    started.current_dir(&dir).env("XDG_DATA_HOME", home.path());
    let mut child = started.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let workspace = loop {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it made a directory");
        let is_filled = |path: &std::path::PathBuf| path.read_dir().is_ok_and(|it| it.count() > 1);
        let found = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).find(is_filled);
        if let Some(found) = found {
            break found;
        }
    };
    // Another directory has its name.
    std::fs::rename(&workspace, dir.join("moved")).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("is not the directory that was made there"), "{stderr}");
    assert_eq!(output.status.code(), Some(130), "{stderr}");
}

#[test]
fn sigint_ends_every_command_soon() {
    for command in COMMANDS {
        // In memory, because a sync of a busy disk cannot be interrupted.
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = home.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        let words = command.split(' ').map(|word| word.replace("DIR", dir.to_str().unwrap()));
        let mut started = process();
        started.args(words).arg("--quiet").env("XDG_DATA_HOME", home.path());
        let (output, ended) = interrupted(&mut started);
        let stderr = String::from_utf8_lossy(&output.stderr);
        // The doctor may finish before the signal arrives.
        assert!(
            ended || command.starts_with("doctor") && output.status.code().is_some(),
            "{command}: {:?}: {stderr}",
            output.status
        );
        // The next run removes a workspace whose removal takes too long.
        for entry in std::fs::read_dir(&dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name.starts_with("trimtab-work-"), "{command} leaves {name}: {stderr}");
        }
    }
}
