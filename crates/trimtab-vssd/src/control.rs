//! The control socket: each request and each response is one JSON document on one line.

use anyhow::Context as _;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const LINE_BYTES_MAX: u64 = 4 << 20;
/// Time limit for the server's status.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for a change: a detach writes the data file.
const CHANGE_PATIENCE: Duration = Duration::from_secs(120);

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum ControlCommand {
    /// The server's complete status: [`Status`](crate::status::Status).
    Status,
    /// Cut the power, or restore it.
    Power {
        /// Restore the power.
        on: bool,
        /// Cut it at a random one of this many requests instead of now.
        within: Option<u64>,
    },
    /// Detach and end.
    Detach {
        /// Also while the device is in use.
        force: bool,
    },
}

/// The server's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlResponse {
    /// Success, with the result.
    Ok(serde_json::Value),
    /// Failure, with the reason.
    Error(String),
}

/// A request that waits for its response.
#[derive(Debug)]
pub struct ControlRequest {
    /// The request.
    pub ask: ControlCommand,
    answer: Sender<ControlResponse>,
    sent: Receiver<()>,
}

impl ControlRequest {
    /// Sends the response. Returns once it is sent, or the client has gone.
    pub fn answer(self, answer: ControlResponse) {
        if self.answer.send(answer).is_ok() {
            let _ = self.sent.recv_timeout(Duration::from_secs(2));
        }
    }
}

/// Listens on `path`. The receiver yields requests in order of arrival.
pub fn listen(path: &Path) -> anyhow::Result<Receiver<ControlRequest>> {
    let listener = trimtab_linux::sys::unix_socket::listen_privately(path)
        .with_context(|| format!("cannot listen on {}", path.display()))?;
    let (send, receive) = channel();
    std::thread::Builder::new().name("control".into()).spawn(move || {
        for client in listener.incoming().flatten() {
            let send = send.clone();
            // A silent client must not block the others.
            let _ = std::thread::Builder::new()
                .name("client".into())
                .spawn(move || converse(&client, &send));
        }
    })?;
    Ok(receive)
}

fn converse(client: &UnixStream, questions: &Sender<ControlRequest>) -> Option<()> {
    let mut lines = BufReader::new(client);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (acknowledge, sent) = channel();
        let answer = match serde_json::from_str(&line) {
            Ok(ask) => {
                // A client that has given up must not be obeyed later.
                if ask != ControlCommand::Status && has_left(client) {
                    return None;
                }
                let (send, receive) = channel();
                questions.send(ControlRequest { ask, answer: send, sent }).ok()?;
                receive.recv().ok()?
            }
            Err(error) => ControlResponse::Error(format!("not a request of this version: {error}")),
        };
        let mut text = serde_json::to_vec(&answer).ok()?;
        text.push(b'\n');
        let mut client = client;
        let written = client.write_all(&text);
        let _ = acknowledge.send(());
        written.ok()?;
    }
}

/// True if the client has closed its end.
fn has_left(client: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    !matches!(recv(client, &mut [0_u8; 1], flags), Ok((1.., _)) | Err(Errno::AGAIN))
}

/// The server did not respond to a status request, and received no other request.
#[derive(Debug)]
pub struct SilentServerError;

impl std::fmt::Display for SilentServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the server does not answer within {} s", PATIENCE.as_secs())
    }
}

impl std::error::Error for SilentServerError {}

/// True for the error of a request without a response in time.
pub fn is_timeout(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

/// A client of a server.
#[derive(Debug)]
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to the server of the socket at `path`. A response may take [`PATIENCE`].
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path)
            .with_context(|| format!("cannot reach the server at {}", path.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request that changes the drive, and waits for the response. First requires a
    /// response to a status request, so that a server that hangs never receives the change.
    ///
    /// # Errors
    /// The server does not respond within [`PATIENCE`]; it refuses.
    pub fn change<T: for<'de> Deserialize<'de>>(
        &mut self,
        ask: &ControlCommand,
    ) -> anyhow::Result<T> {
        self.ask::<serde::de::IgnoredAny>(&ControlCommand::Status)
            .map_err(|error| if is_timeout(&error) { SilentServerError.into() } else { error })?;
        self.0.get_ref().set_read_timeout(Some(CHANGE_PATIENCE))?;
        self.ask(ask)
    }

    /// Sends a request and waits for the response.
    pub fn ask<T: for<'de> Deserialize<'de>>(&mut self, ask: &ControlCommand) -> anyhow::Result<T> {
        let mut text = serde_json::to_vec(ask)?;
        text.push(b'\n');
        self.0.get_mut().write_all(&text).context("cannot send to the server")?;
        let mut line = String::new();
        self.0
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_line(&mut line)
            .context("the server does not answer")?;
        anyhow::ensure!(!line.is_empty(), "the server ended without an answer");
        match serde_json::from_str(&line).context("the server's answer is of another version")? {
            ControlResponse::Ok(value) => {
                serde_json::from_value(value).context("the server's answer is of another version")
            }
            ControlResponse::Error(reason) => Err(anyhow::Error::msg(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, 'drive status' waited two minutes for a server that was stopped.
    #[test]
    fn client_gives_up_on_a_server_that_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        // The kernel accepts the connection, as for a stopped process.
        let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        let started = std::time::Instant::now();
        let detach = ControlCommand::Detach { force: true };
        let error = client.change::<u32>(&detach).unwrap_err();
        assert!(error.is::<SilentServerError>(), "{error:#}");
        assert!(started.elapsed() < 5 * PATIENCE);
    }

    /// Once, a detach that had been given up was executed when the server continued.
    #[test]
    fn server_ignores_changes_of_a_client_that_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.0.get_mut().write_all(b"{\"command\":\"detach\",\"force\":true}\n").unwrap();
        drop(client);
        let (send, receive) = channel();
        assert_eq!(converse(&server, &send), None);
        assert!(receive.try_recv().is_err());
    }

    #[test]
    fn requests_are_answered_and_invalid_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let questions = listen(&path).unwrap();
        let server = std::thread::spawn(move || {
            for question in questions.iter().take(2) {
                let answer = match question.ask {
                    ControlCommand::Status => ControlResponse::Ok(7.into()),
                    _ => ControlResponse::Error("busy".into()),
                };
                question.answer(answer);
            }
        });
        let mut client = Client::connect(&path).unwrap();
        assert_eq!(client.ask::<u32>(&ControlCommand::Status).unwrap(), 7);
        assert_eq!(
            client.ask::<u32>(&ControlCommand::Detach { force: false }).unwrap_err().to_string(),
            "busy"
        );
        server.join().unwrap();
        client.0.get_mut().write_all(b"nonsense\n").unwrap();
        let mut line = String::new();
        client.0.read_line(&mut line).unwrap();
        assert!(line.contains("not a request"), "{line}");
    }
}
