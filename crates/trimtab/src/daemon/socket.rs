//! The metrics over a Unix socket, for `curl --unix-socket PATH http://localhost/metrics`.
//!
//! The answer is the text of the metrics file. Members of the daemon's group may connect:
//! one thread serves one client at a time, reads little, and gives up after [`PATIENCE`].

use super::metrics::Published;
use anyhow::{Context as _, ensure};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::sys::beneath::Dir;
use trimtab_linux::sys::unix_socket::{BoundSocket, is_socket};

/// Time for the request and the answer of one client.
const PATIENCE: Duration = Duration::from_secs(1);
const REQUEST_BYTES_MAX: usize = 8 << 10;
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
    Ok(())
}

/// Answers clients of `path` in a thread of its own, until the process ends.
pub fn serve(path: &Path, text: Published) -> anyhow::Result<BoundSocket> {
    check(path)?;
    let (socket, listener) = BoundSocket::listen(path)?;
    socket.allow_group().context("cannot open the socket to its group")?;
    let answer_all = move || {
        for client in listener.incoming() {
            let now = Arc::clone(&text.lock().unwrap_or_else(PoisonError::into_inner));
            match client {
                // A client that is slow or leaves gets less.
                Ok(client) => drop(answer(&client, &now, PATIENCE)),
                // Out of descriptors, for example.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("metrics".into()).stack_size(256 << 10).spawn(answer_all)?;
    Ok(socket)
}

/// Reads one HTTP request and answers it, within `patience` in all.
fn answer(mut client: &UnixStream, text: &str, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        client.set_read_timeout(left()?)?;
        match client.read(&mut piece)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&piece[..read]),
        }
        if request.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
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
    for mut rest in [head.as_bytes(), body.as_bytes()] {
        while !rest.is_empty() {
            client.set_write_timeout(left()?)?;
            let written = client.write(&rest[..rest.len().min(PIECE_BYTES)])?;
            rest = &rest[written..];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to these pieces of a request; the client then only reads.
    fn answered(pieces: &[&[u8]], text: &str) -> (io::Result<()>, String) {
        let (mut client, server) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let outcome = scope.spawn(|| {
                let server = server;
                answer(&server, text, Duration::from_millis(500))
            });
            for piece in pieces {
                client.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut answer = String::new();
            let _ = client.read_to_string(&mut answer);
            (outcome.join().unwrap(), answer)
        })
    }

    #[test]
    fn answer_holds_the_text_and_its_length() {
        let text = "a 1\n".repeat(1 << 20);
        let (outcome, answer) =
            answered(&[b"GET /metr", b"ics HTTP/1.1\r\nHost: x\r\n\r", b"\n"], &text);
        outcome.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", 4 << 20)), "{head}");
        assert!(body == text);
    }

    #[test]
    fn answer_depends_on_method_and_path() {
        for (request, status, has_text) in [
            ("GET /metrics?a=b HTTP/1.1", 200, true),
            ("HEAD /metrics HTTP/1.1", 200, false),
            ("GET /metricsx HTTP/1.1", 404, false),
            ("GET / HTTP/1.1", 404, false),
            ("POST /metrics HTTP/1.1", 405, false),
            ("", 405, false),
        ] {
            let (outcome, answer) = answered(&[request.as_bytes(), b"\r\n\r\n"], "a 1\n");
            outcome.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.0 {status} ")), "{request}: {answer}");
            assert_eq!(answer.contains("a 1"), has_text, "{request}: {answer}");
            let length = if status == 200 { "\r\nContent-Length: 4\r\n" } else { "" };
            assert!(answer.contains(length), "{request}: {answer}");
        }
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
        let (outcome, answer) = answered(&[b"GET /metrics"], "a 1\n");
        assert!(outcome.is_err() && answer.is_empty(), "silent: {answer}");
        let (outcome, answer) = answered(&[&[b'x'; 9000]], "a 1\n");
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(answer.is_empty(), "endless: {answer}");
        // A client that sends a byte now and then, and one that never reads.
        let (mut client, server) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(answer_of(&server, "").is_err()));
            for _ in 0..50 {
                let _ = client.write(b"x");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        assert!(answer_of(&server, &"x".repeat(8 << 20)).is_err());
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    fn answer_of(server: &UnixStream, text: &str) -> io::Result<()> {
        answer(server, text, Duration::from_millis(300))
    }
}
