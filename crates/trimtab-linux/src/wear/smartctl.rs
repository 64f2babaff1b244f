//! Runs smartctl for one drive, without waking it, for a limited time and with limited
//! output.

use super::BYTES_MAX;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Time after which smartctl is stopped.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Paths of smartctl. PATH is not used, because another user may have set it.
const PROGRAMS: [&str; 4] =
    ["/usr/sbin/smartctl", "/usr/bin/smartctl", "/sbin/smartctl", "/usr/local/sbin/smartctl"];

/// The reasons why smartctl gives no document.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be started, or its output cannot be read.
    #[error("cannot run smartctl")]
    Io(#[source] io::Error),
    /// It did not end within the time limit, and was stopped.
    #[error("smartctl does not end within {} s: the drive does not answer", .0.as_secs())]
    TimeLimit(Duration),
    /// It printed more than [`BYTES_MAX`].
    #[error("smartctl prints more than {BYTES_MAX} bytes")]
    TooLong,
    /// It printed no JSON: versions before 7.0 cannot.
    #[error("smartctl prints no JSON: version 7.0 or later is needed")]
    TooOld,
}

/// The installed smartctl.
pub fn find() -> Option<PathBuf> {
    PROGRAMS.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Returns the document that `program` prints about `node`. `device` is smartctl's `-d
/// TYPE`.
///
/// # Errors
/// If there is no document. The exit status is in the document.
pub fn ask(
    program: &Path,
    node: &str,
    device: Option<&str>,
    limit: Duration,
) -> Result<Vec<u8>, AskError> {
    let mut command = Command::new(program);
    command
        .args(["--json=c", "-x", "--nocheck=standby"])
        .args(device.map(|kind| format!("--device={kind}")))
        .args(["--", node]);
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(AskError::Io)?;
    let read = child.stdout.take().map(|pipe| output_within(pipe, limit));
    match read {
        Some(Ok(Ok(bytes))) if bytes.len() as u64 <= BYTES_MAX => {
            child.wait().map_err(AskError::Io)?;
            let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            if is_json { Ok(bytes) } else { Err(AskError::TooOld) }
        }
        Some(Ok(Ok(_))) => Err(stop(child, AskError::TooLong)),
        Some(Ok(Err(error))) => Err(stop(child, AskError::Io(error))),
        Some(Err(_)) => Err(stop(child, AskError::TimeLimit(limit))),
        None => Err(stop(child, AskError::Io(io::ErrorKind::BrokenPipe.into()))),
    }
}

/// Reads in a thread: a process that waits for a silent drive cannot be interrupted, and
/// keeps its pipe open.
fn output_within(
    pipe: ChildStdout,
    limit: Duration,
) -> Result<io::Result<Vec<u8>>, mpsc::RecvTimeoutError> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes);
        // The receiver is gone after the time limit.
        let _ = sender.send(read);
    });
    receiver.recv_timeout(limit)
}

/// Kills the process and reaps it, unless it hangs in the kernel.
fn stop(mut child: Child, why: AskError) -> AskError {
    let _ = child.kill();
    for _ in 0..20 {
        if !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program with this shell script. A separate process writes it: an executable that
    /// a forked test holds open cannot run.
    fn script(directory: &Path, text: &str) -> PathBuf {
        let (source, program) = (directory.join("source"), directory.join("smartctl"));
        fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
        assert!(Command::new("cp").arg(&source).arg(&program).status().unwrap().success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    fn ask_script(text: &str, device: Option<&str>, limit: Duration) -> Result<String, AskError> {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), text);
        ask(&program, "/dev/sdx", device, limit).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn ask_never_wakes_the_drive_and_passes_the_type_on() {
        let echo = r#"printf '{"arguments":"%s"}' "$*"; exit 64"#;
        let said = ask_script(echo, Some("sat,12"), Duration::from_secs(60)).unwrap();
        assert_eq!(
            said,
            r#"{"arguments":"--json=c -x --nocheck=standby --device=sat,12 -- /dev/sdx"}"#
        );
        assert!(!ask_script(echo, None, Duration::from_secs(60)).unwrap().contains("--device"));
    }

    #[test]
    fn ask_stops_a_program_that_hangs_or_floods() {
        let hangs = ask_script("exec sleep 600", None, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(hangs, AskError::TimeLimit(_)), "{hangs}");
        let floods = ask_script("exec yes", None, Duration::from_secs(60)).unwrap_err();
        assert!(matches!(floods, AskError::TooLong), "{floods}");
    }

    #[test]
    fn ask_reports_an_old_and_a_missing_program() {
        let old = ask_script(
            "echo 'smartctl 6.6'; echo 'UNRECOGNIZED OPTION: json'; exit 1",
            None,
            Duration::from_secs(60),
        )
        .unwrap_err();
        assert!(old.to_string().contains("version 7.0"), "{old}");
        let missing =
            ask(Path::new("/no/such/smartctl"), "/dev/sdx", None, Duration::from_secs(60))
                .unwrap_err();
        assert!(matches!(missing, AskError::Io(error) if error.kind() == io::ErrorKind::NotFound));
    }
}
