//! The control socket: one JSON document a line, asked and answered.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The longest line that either side reads.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Ask {
    /// Everything the server knows: [`Status`](crate::status::Status).
    Status,
    /// Cut the power, or restore it.
    Power {
        /// Give it back.
        on: bool,
        /// Not now, but with a random one of so many requests.
        within: Option<u64>,
    },
    /// Detach and end.
    Detach {
        /// Even if somebody uses the device.
        force: bool,
    },
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It worked.
    Ok(serde_json::Value),
    /// It did not, and why.
    Error(String),
}

/// A question that waits for its answer.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub ask: Ask,
    answer: Sender<Answer>,
    sent: Receiver<()>,
}

impl Question {
    /// Answers, and returns once the answer is on its way (or the client has gone).
    pub fn answer(self, answer: Answer) {
        if self.answer.send(answer).is_ok() {
            let _ = self.sent.recv_timeout(Duration::from_secs(2));
        }
    }
}

/// Listens on `path`; questions come out of the receiver, in the order in which they were asked.
pub fn listen(path: &Path) -> anyhow::Result<Receiver<Question>> {
    let listener = crate::nbd::listen_privately(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    let (send, receive) = channel();
    std::thread::Builder::new().name("control".into()).spawn(move || {
        for client in listener.incoming().flatten() {
            let send = send.clone();
            // A client that says nothing must not keep the others waiting.
            let _ = std::thread::Builder::new().name("client".into()).spawn(move || converse(&client, &send));
        }
    })?;
    Ok(receive)
}

fn converse(client: &UnixStream, questions: &Sender<Question>) -> Option<()> {
    let mut lines = BufReader::new(client);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (acknowledge, sent) = channel();
        let answer = match serde_json::from_str(&line) {
            Ok(ask) => {
                let (send, receive) = channel();
                questions.send(Question { ask, answer: send, sent }).ok()?;
                receive.recv().ok()?
            }
            Err(error) => Answer::Error(format!("not a question of this version: {error}")),
        };
        let mut text = serde_json::to_vec(&answer).ok()?;
        text.push(b'\n');
        let mut client = client;
        let written = client.write_all(&text);
        let _ = acknowledge.send(());
        written.ok()?;
    }
}

/// A client of a server.
#[derive(Debug)]
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to the server of the socket at `path`.
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| format!("cannot reach the server at {}", path.display()))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks, and waits for the answer.
    pub fn ask<T: for<'de> Deserialize<'de>>(&mut self, ask: &Ask) -> anyhow::Result<T> {
        let mut text = serde_json::to_vec(ask)?;
        text.push(b'\n');
        self.0.get_mut().write_all(&text).context("the server does not listen")?;
        let mut line = String::new();
        self.0.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).context("the server does not answer")?;
        anyhow::ensure!(!line.is_empty(), "the server ended without an answer");
        match serde_json::from_str(&line).context("the server's answer is of another version")? {
            Answer::Ok(value) => serde_json::from_value(value).context("the server's answer is of another version"),
            Answer::Error(reason) => Err(anyhow::Error::msg(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_and_nonsense_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let questions = listen(&path).unwrap();
        let server = std::thread::spawn(move || {
            for question in questions.iter().take(2) {
                let answer = match question.ask {
                    Ask::Status => Answer::Ok(7.into()),
                    _ => Answer::Error("busy".into()),
                };
                question.answer(answer);
            }
        });
        let mut client = Client::connect(&path).unwrap();
        assert_eq!(client.ask::<u32>(&Ask::Status).unwrap(), 7);
        assert_eq!(client.ask::<u32>(&Ask::Detach { force: false }).unwrap_err().to_string(), "busy");
        server.join().unwrap();
        client.0.get_mut().write_all(b"nonsense\n").unwrap();
        let mut line = String::new();
        client.0.read_line(&mut line).unwrap();
        assert!(line.contains("not a question"), "{line}");
    }
}
