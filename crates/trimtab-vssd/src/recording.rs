//! Records requests: packed under the engine's lock, compressed and written by a thread.

use crate::trace::{Packer, RecordingBlock, RecordingHeader, TraceEvent, Writer};
use anyhow::Context as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};

/// A recording in progress.
pub struct RequestRecorder {
    path: PathBuf,
    packer: Packer,
    blocks: Option<Sender<RecordingBlock>>,
    thread: Option<JoinHandle<()>>,
    /// The reason if it ended early; the drive then continues without it.
    failure: Arc<Mutex<Option<String>>>,
}

impl RequestRecorder {
    /// Starts a recording in a new file.
    pub fn start(path: &Path, header: &RecordingHeader) -> anyhow::Result<Self> {
        let shown = path.display();
        let make = || {
            let (directory, name) = Dir::of_file(path)?;
            directory.create_new(name, PRIVATE_FILE)
        };
        let file = make().with_context(|| format!("cannot record to {shown}"))?;
        let writer = Writer::new(BufWriter::new(file), header)
            .with_context(|| format!("cannot write {shown}"))?;
        let (blocks, receiver) = channel();
        let failure = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&failure);
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(move || {
            if let Err(error) = write_all(writer, &receiver) {
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        })?;
        Ok(Self {
            path: std::path::absolute(path)?,
            packer: Packer::new(header.logical_block),
            blocks: Some(blocks),
            thread: Some(thread),
            failure,
        })
    }

    /// Adds an event.
    pub fn push(&mut self, event: &TraceEvent) {
        if let Some(block) = self.packer.push(event) {
            self.send(block);
        }
    }

    /// Passes the events collected so far to the writing thread.
    pub fn flush(&mut self) {
        if let Some(block) = self.packer.take() {
            self.send(block);
        }
    }

    /// Ends the recording; fails if any part of it could not be written.
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

    /// The reason if it ended early.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&mut self, block: RecordingBlock) {
        // The thread ends if it cannot write, and has stored the reason.
        if self.blocks.as_ref().is_some_and(|blocks| blocks.send(block).is_err()) {
            self.blocks = None;
        }
    }

    fn end(&mut self) {
        self.flush();
        self.blocks = None;
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

fn write_all(
    mut writer: Writer<BufWriter<File>>,
    blocks: &Receiver<RecordingBlock>,
) -> std::io::Result<()> {
    for block in blocks {
        writer.write_block(&block)?;
        writer.flush()?;
    }
    writer.finish()?.get_ref().sync_all()
}
