//! The metrics over a Unix socket, for `curl --unix-socket PATH http://localhost/metrics`.
//!
//! The answer is the text of the metrics file. Members of the daemon's group may connect.
//! One thread serves them: a client waits in [`Clients`] until its request is complete, so a
//! silent one delays nobody.

use super::metrics::Published;
use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::sys::beneath::Dir;
use trimtab_linux::sys::unix_socket::{BoundSocket, is_socket};

/// Time for the request of one client.
const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
/// Time for the answer to one client; no other client is served meanwhile. A socket holds
/// an answer of usual size, so that only larger ones wait for the client.
const ANSWER_PATIENCE: Duration = Duration::from_millis(250);
/// Clients that may wait. The longest silent one has to leave first.
const CLIENTS_MAX: usize = 64;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// The kernel starts the write timeout over for each piece.
const PIECE_BYTES: usize = 32 << 10;

/// Fails if [`serve`] would fail.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    SocketAddr::from_pathname(path).with_context(|| format!("'{shown}' is too long"))?;
    let parent = path.parent().with_context(|| format!("'{shown}' names no file"))?;
    match Dir::sheltered_directory(parent) {
        // The daemon makes it.
        Err(e) if e.kind() == io::ErrorKind::NotFound && parent == run_directory() => return Ok(()),
        found => found.with_context(|| format!("cannot use the directory of '{shown}'"))?,
    };
    let (directory, name) = Dir::of_file(path)?;
    let stat = directory.look(&name).with_context(|| format!("cannot examine '{shown}'"))?;
    ensure!(stat.as_ref().is_none_or(is_socket), "'{shown}' exists and is not a socket");
    // The daemon runs as root; another user may check its configuration.
    if rustix::process::geteuid().is_root() {
        directory.try_to_make(&name).with_context(|| format!("cannot listen on '{shown}'"))?;
    }
    Ok(())
}

/// Answers clients of `path` in a thread of its own, until the process ends.
pub fn serve(path: &Path, text: Published) -> anyhow::Result<BoundSocket> {
    check(path)?;
    let (socket, listener) = BoundSocket::listen(path)?;
    socket.allow_group().context("cannot open the socket to its group")?;
    listener.set_nonblocking(true).context("cannot set up the socket")?;
    let answer_all = move || {
        let mut clients = Clients::default();
        loop {
            clients.turn(&listener, &text);
        }
    };
    std::thread::Builder::new().name("metrics".into()).stack_size(256 << 10).spawn(answer_all)?;
    Ok(socket)
}

/// Connected clients whose requests are not complete, oldest first.
#[derive(Default)]
struct Clients(Vec<Client>);

struct Client {
    stream: UnixStream,
    until: Instant,
    request: Vec<u8>,
}

impl Clients {
    /// Waits for clients and requests, answers the complete ones and drops the late ones.
    fn turn(&mut self, listener: &UnixListener, text: &Published) {
        let now = Instant::now();
        let first = self.0.iter().map(|client| client.until.saturating_duration_since(now)).min();
        let timeout = first.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(self.0.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // Out of memory, for example.
            std::thread::sleep(FAILURE_PAUSE);
            return;
        }
        drop(fds);
        let now = Instant::now();
        self.0.retain_mut(|client| match client.is_complete() {
            Ok(false) => now < client.until,
            Ok(true) => {
                let text = Arc::clone(&text.lock().unwrap_or_else(PoisonError::into_inner));
                // A client that is slow or leaves gets less.
                let _ = answer(&client.stream, &client.request, &text, ANSWER_PATIENCE);
                false
            }
            Err(_) => false,
        });
        for _ in 0..CLIENTS_MAX {
            match listener.accept().and_then(|(stream, _)| Client::new(stream)) {
                Ok(client) => self.0.push(client),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Out of descriptors, for example.
                Err(_) => {
                    std::thread::sleep(FAILURE_PAUSE);
                    break;
                }
            }
        }
        self.0.drain(..self.0.len().saturating_sub(CLIENTS_MAX));
    }
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until: Instant::now() + REQUEST_PATIENCE, request: Vec::new() })
    }

    /// Reads what has arrived. Returns true if the request is complete.
    fn is_complete(&mut self) -> io::Result<bool> {
        let mut piece = [0; 1024];
        while !self.request.ends_with(b"\r\n\r\n") {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.request.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.request.len() > REQUEST_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(true)
    }
}

/// Answers an HTTP request within `patience`.
fn answer(
    mut client: &UnixStream,
    request: &[u8],
    text: &str,
    patience: Duration,
) -> io::Result<()> {
    let until = Instant::now() + patience;
    let mut line = request.split(|byte| byte.is_ascii_whitespace());
    let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    let (status, body) = match (method, target.split(|byte| *byte == b'?').next()) {
        (b"GET" | b"HEAD", Some(b"/metrics")) => ("200 OK", text),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "the metrics are at /metrics\n"),
        _ => ("405 Method Not Allowed", "use GET\n"),
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
            Content-Length: {}\r\nAllow: GET, HEAD\r\n\r\n",
        body.len()
    );
    let body = if method == b"HEAD" { "" } else { body };
    client.set_nonblocking(false)?;
    for mut rest in [head.as_bytes(), body.as_bytes()] {
        while !rest.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            client.set_write_timeout(Some(left))?;
            let written = client.write(&rest[..rest.len().min(PIECE_BYTES)])?;
            rest = &rest[written..];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A served socket in a directory of its own.
    struct Served {
        directory: tempfile::TempDir,
    }

    impl Served {
        fn new(text: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let listener = UnixListener::bind(directory.path().join("s")).unwrap();
            listener.set_nonblocking(true).unwrap();
            let text: Published = Arc::new(std::sync::Mutex::new(Arc::from(text)));
            std::thread::spawn(move || {
                let mut clients = Clients::default();
                loop {
                    clients.turn(&listener, &text);
                }
            });
            Self { directory }
        }

        fn connect(&self) -> UnixStream {
            UnixStream::connect(self.directory.path().join("s")).unwrap()
        }

        /// The answer to these pieces of a request; the client then only reads.
        fn answered(&self, pieces: &[&[u8]]) -> String {
            let mut client = self.connect();
            for piece in pieces {
                client.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut answer = String::new();
            let _ = client.read_to_string(&mut answer);
            answer
        }
    }

    #[test]
    fn answer_holds_the_text_and_its_length() {
        let served = Served::new(&"a 1\n".repeat(1 << 12));
        let answer = served.answered(&[b"GET /metr", b"ics HTTP/1.1\r\nHost: x\r\n\r", b"\n"]);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Length: 16384\r\n"), "{head}");
        assert!(body == "a 1\n".repeat(1 << 12));
        // Longer than a socket holds; the client reads at its own speed.
        let (server, mut client) = UnixStream::pair().unwrap();
        let text = "a 1\n".repeat(1 << 20);
        std::thread::scope(|scope| {
            let text = &text;
            scope.spawn(move || {
                answer_of(server, b"GET /metrics HTTP/1.1", text, Duration::from_secs(20)).unwrap();
            });
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with(text));
        });
    }

    fn answer_of(
        server: UnixStream,
        request: &[u8],
        text: &str,
        patience: Duration,
    ) -> io::Result<()> {
        answer(&server, request, text, patience)
    }

    #[test]
    fn answer_depends_on_method_and_path() {
        let served = Served::new("a 1\n");
        for (request, status, has_text) in [
            ("GET /metrics?a=b HTTP/1.1", 200, true),
            ("HEAD /metrics HTTP/1.1", 200, false),
            ("GET /metricsx HTTP/1.1", 404, false),
            ("GET / HTTP/1.1", 404, false),
            ("POST /metrics HTTP/1.1", 405, false),
            ("", 405, false),
        ] {
            let answer = served.answered(&[request.as_bytes(), b"\r\n\r\n"]);
            assert!(answer.starts_with(&format!("HTTP/1.0 {status} ")), "{request}: {answer}");
            assert_eq!(answer.contains("a 1"), has_text, "{request}: {answer}");
            let length = if status == 200 { "\r\nContent-Length: 4\r\n" } else { "" };
            assert!(answer.contains(length), "{request}: {answer}");
        }
    }

    /// Regression: each silent client kept the thread for a second.
    #[test]
    fn silent_clients_do_not_delay_others() {
        let served = Served::new("a 1\n");
        let silent: Vec<UnixStream> = (0..130)
            .map(|nth| {
                let mut client = served.connect();
                // Some stop in the middle of a request.
                client.write_all(if nth % 2 == 0 { b"" } else { b"GET /m" }).unwrap();
                client
            })
            .collect();
        let start = Instant::now();
        assert!(served.answered(&[b"GET /metrics HTTP/1.1\r\n\r\n"]).ends_with("a 1\n"));
        // Less than two of them took alone.
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        drop(silent);
    }

    #[test]
    fn check_refuses_a_path_longer_than_an_address() {
        let directory = tempfile::tempdir().unwrap();
        let socket = |length: usize| {
            let name = "s".repeat(length - directory.path().as_os_str().len() - 1);
            check(&directory.path().join(name))
        };
        assert!(socket(108).unwrap_err().to_string().ends_with("is too long"));
        socket(107).unwrap();
    }

    #[test]
    fn answer_to_silent_and_endless_clients_ends_in_time() {
        let start = Instant::now();
        let served = Served::new("a 1\n");
        assert_eq!(served.answered(&[b"GET /metrics"]), "", "silent");
        assert_eq!(served.answered(&[&[b'x'; 9000]]), "", "endless");
        // A client that sends a byte now and then, and one that never reads.
        let mut client = served.connect();
        while client.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        }
        let (server, _client) = UnixStream::pair().unwrap();
        let (text, patience) = ("x".repeat(8 << 20), Duration::from_millis(300));
        assert!(answer_of(server, b"GET /metrics HTTP/1.0", &text, patience).is_err());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
