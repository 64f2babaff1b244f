//! The NBD server at protocol level, with a hostile client. The numbers are those of the
//! NBD project's `proto.md`.

use crate::attached_drive::{Attached, ok};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const SIZE: u64 = 256 << 20;

/// A connection in the transmission phase, with simple replies.
struct Raw(UnixStream);

impl Raw {
    fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // NBD_FLAG_C_NO_ZEROES; NBD_OPT_EXPORT_NAME of the default export.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(u64::from_be_bytes(export[..8].try_into().unwrap()), SIZE);
        Self(stream)
    }

    fn send(&mut self, flags: u16, command: u16, offset: u64, len: u32) -> io::Result<()> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(7_u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        if command == WRITE {
            request.resize(request.len() + len as usize, 1);
        }
        self.0.write_all(&request)
    }

    /// The error of a simple reply; discards the `read` bytes of data that follow.
    fn answer(&mut self, read: usize) -> u32 {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        assert_eq!(reply[8..], 7_u64.to_be_bytes());
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error == 0 {
            self.0.read_exact(&mut vec![0; read]).unwrap();
        }
        error
    }

    fn ask(&mut self, flags: u16, command: u16, offset: u64, len: u32) -> u32 {
        self.send(flags, command, offset, len).unwrap();
        self.answer(if command == READ { len as usize } else { 0 })
    }
}

fn attached(scratch: &Path) -> (Attached, PathBuf) {
    let socket = scratch.join("nbd");
    let args = [
        "ocz-vertex-le-100gb",
        "--size",
        "256MiB",
        "--speed",
        "off",
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
    ];
    (Attached::new(&args), socket)
}

#[test]
fn nbd_invalid_flags_and_ranges_get_protocol_errors() {
    let scratch = tempfile::tempdir().unwrap();
    let (_drive, socket) = attached(scratch.path());
    let mut client = Raw::connect(&socket);
    for command in [READ, WRITE, FLUSH, TRIM, WRITE_ZEROES] {
        for bit in 0..16 {
            // FUA is valid with every command, NO_HOLE with zero writes.
            let known = bit == 0 || (bit == 1 && command == WRITE_ZEROES);
            let error = client.ask(1 << bit, command, 0, if command == FLUSH { 0 } else { 4096 });
            assert_eq!(error, if known { 0 } else { EINVAL }, "command {command} with flag {bit}");
        }
    }
    for (offset, len) in [(SIZE, 512), (SIZE - 512, 1024), (u64::MAX - 511, 512), (1 << 62, 4096)] {
        for (command, error) in
            [(READ, EINVAL), (WRITE, ENOSPC), (TRIM, EINVAL), (WRITE_ZEROES, ENOSPC)]
        {
            assert_eq!(client.ask(0, command, offset, len), error, "command {command} at {offset}");
        }
    }
    assert_eq!(client.ask(0, WRITE, 100, 512), EINVAL, "not a whole block");
    assert_eq!(client.ask(0, BLOCK_STATUS, 0, 4096), EINVAL, "not offered");
    assert_eq!(client.ask(0, 99, 0, 0), EINVAL);
    assert_eq!(client.ask(0, READ, SIZE - 512, 512), 0, "it still serves");
}

/// Peak memory of a process, in MiB.
fn most_memory_mib(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn nbd_client_not_reading_takes_bounded_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let (drive, socket) = attached(scratch.path());
    let pid = drive.status()["pid"].to_string();
    let before = most_memory_mib(&pid);
    let mut greedy: Vec<Raw> = (0..4).map(|_| Raw::connect(&socket)).collect();
    for client in &mut greedy {
        client.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        // 32 GiB, if the server buffered all of it.
        for _ in 0..1024 {
            if client.send(0, READ, 0, 32 << 20).is_err() {
                break;
            }
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = most_memory_mib(&pid) - before;
    assert!(grown < 160, "the server grew by {grown} MiB");
    let began = Instant::now();
    let mut other = Raw::connect(&socket);
    assert_eq!(other.ask(0, READ, 0, 16 << 20), 0);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    // The server waits for a slow client while no other client needs the memory.
    let mut slow = Raw::connect(&socket);
    slow.send(0, READ, 0, 4 << 20).unwrap();
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(slow.answer(4 << 20), 0);
}

#[test]
fn nbd_nonsense_and_too_many_clients_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (drive, socket) = attached(scratch.path());
    for _ in 0..300 {
        let mut rude = UnixStream::connect(&socket).unwrap();
        let _ = rude.write_all(b"\0\0\0\x03GET / HTTP/1.1\r\n\r\n\x1b]0;mine\x07");
        let _ = rude.read_to_end(&mut Vec::new());
    }
    let many: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let pid = drive.status()["pid"].to_string();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    assert!(threads < 100, "{threads} threads");
    drop(many);
    let log = std::fs::read_to_string(
        drive.runtime().join("drives").join(drive.status()["id"].as_str().unwrap()).join("log"),
    )
    .unwrap();
    assert!(log.lines().filter(|line| line.contains("NBD client")).count() <= 3, "{log}");
    assert!(log.contains("disconnected") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn nbd_and_control_sockets_have_mode_0600() {
    let scratch = tempfile::tempdir().unwrap();
    // SAFETY: it changes nothing but the umask of the child.
    let permissive = || {
        rustix::process::umask(rustix::fs::Mode::empty());
        Ok(())
    };
    let socket = scratch.path().join("nbd");
    let mut command = crate::support::process();
    use std::os::unix::process::CommandExt as _;
    // SAFETY: umask is async-signal-safe.
    unsafe { command.pre_exec(permissive) };
    command.env("TRIMTAB_RUNTIME_DIR", scratch.path().join("run"));
    let pid = std::process::id().to_string();
    ok(command
        .args([
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--size",
            "1GiB",
            "--no-block",
            "--id",
            "x",
            "--detach-with",
            &pid,
        ])
        .arg("--nbd")
        .arg(&socket));
    let control = scratch.path().join("run/drives/x/control");
    for path in [&socket, &control] {
        let mode = std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}: {mode:o}", path.display());
    }
    let mut detach = crate::support::process();
    ok(detach.env("TRIMTAB_RUNTIME_DIR", scratch.path().join("run")).args(["drive", "detach"]));
}
