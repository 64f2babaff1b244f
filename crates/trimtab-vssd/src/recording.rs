//! Records every request while it is served.
//!
//! The model's thread only formats lines; another thread writes them. If the disk cannot
//! keep up, lines wait in memory. If it fails, recording ends with an error, and serving
//! continues.

use crate::trace::TraceEvent;
use anyhow::Context as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};
use trimtab_sim::trace::recording::{HEADER, line_of};

/// Lines are passed to the writing thread in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// Records a drive's requests to a file.
pub struct RequestRecorder {
    path: PathBuf,
    text: String,
    /// Closing it ends the thread.
    pieces: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl RequestRecorder {
    /// Creates the file `path`, which must not exist, and starts recording; `source` names
    /// the drive in the first line.
    ///
    /// # Errors
    /// The file cannot be created, or no thread can be started.
    pub fn start(path: &Path, source: &str) -> anyhow::Result<Self> {
        let (directory, name) =
            Dir::of_file(path).with_context(|| format!("cannot record to {}", path.display()))?;
        let file = match directory.create_new(name, PRIVATE_FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let what = format!("cannot record to {}: it exists", path.display());
                return Err(UsageError::missing(what).hint("name a new file").into());
            }
            made => made.with_context(|| format!("cannot record to {}", path.display()))?,
        };
        let (pieces, receiver) = channel();
        let failure = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&failure);
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(move || {
            if let Err(error) = write_all(file, &receiver) {
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        })?;
        Ok(Self {
            path: std::path::absolute(path)?,
            text: format!("{HEADER}: {source}\n"),
            pieces: Some(pieces),
            thread: Some(thread),
            failure,
        })
    }

    /// Records an event.
    pub fn push(&mut self, event: &TraceEvent) {
        self.text.push_str(&line_of(event));
        if self.text.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    /// Passes the events collected so far to the writing thread.
    pub fn flush(&mut self) {
        let piece = std::mem::take(&mut self.text);
        if self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_err()) {
            self.pieces = None;
        }
    }

    /// Writes the rest and syncs the file.
    ///
    /// # Errors
    /// The recording is incomplete, since writing failed.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.end();
        match self.failure() {
            Some(reason) => Err(anyhow::anyhow!(
                "the recording {} is not complete: {reason}",
                self.path.display()
            )),
            None => Ok(()),
        }
    }

    /// The reason why writing failed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&mut self) {
        self.flush();
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for RequestRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

fn write_all(mut file: File, pieces: &Receiver<String>) -> std::io::Result<()> {
    for piece in pieces {
        file.write_all(piece.as_bytes())?;
    }
    file.sync_all()
}
