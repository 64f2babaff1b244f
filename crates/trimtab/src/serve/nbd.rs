//! The front end for emulators and other machines' kernels: NBD on a Unix socket.
//!
//! Fixed newstyle negotiation and simple replies, as in the NBD project's `proto.md`; one export, the default one.
//! Requests of a connection are served as they come and answered as they become due, in any order.

mod negotiation;
mod wire;

use crate::serve::pace::Pacer;
use crate::serve::request::{Geometry, Request, Serve, Served};
use anyhow::Context as _;
use rustix::io::Errno;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use trimtab_core::drive::Extent;
use wire::{Command, Header};

/// The longest read or write.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Requests of one connection that may wait for their answers.
const IN_FLIGHT_MAX: u32 = 1024;

/// Listens on a Unix socket and serves whoever connects.
pub struct NbdFront {
    path: std::path::PathBuf,
}

impl NbdFront {
    /// Starts to listen on `path`. A socket that nobody listens on any more is replaced; anything else there is refused.
    pub fn start(path: &Path, drive: Arc<dyn Serve>, pacer: Arc<Pacer>) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Ok(metadata) = std::fs::symlink_metadata(path) {
            anyhow::ensure!(metadata.file_type().is_socket(), "{shown} is there already and is no socket");
            anyhow::ensure!(UnixStream::connect(path).is_err(), "another server listens on {shown}");
            std::fs::remove_file(path).with_context(|| format!("cannot replace the old socket {shown}"))?;
        }
        let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {shown}"))?;
        std::thread::Builder::new().name("nbd".into()).spawn(move || {
            for client in listener.incoming().flatten() {
                let connection = Connection { drive: Arc::clone(&drive), pacer: Arc::clone(&pacer) };
                let _ = std::thread::Builder::new().name("nbd-client".into()).spawn(move || {
                    if let Err(error) = connection.run(client)
                        && error.kind() != io::ErrorKind::UnexpectedEof
                    {
                        eprintln!("trimtab: an NBD client was cut off: {error}");
                    }
                });
            }
        })?;
        Ok(Self { path: std::path::absolute(path)? })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NbdFront {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Connection {
    drive: Arc<dyn Serve>,
    pacer: Arc<Pacer>,
}

impl Connection {
    fn run(self, client: UnixStream) -> io::Result<()> {
        let geometry = self.drive.geometry();
        let mut input = BufReader::with_capacity(64 << 10, client.try_clone()?);
        if !negotiation::negotiate(&mut input, &mut &client, &geometry)? {
            return Ok(());
        }
        let replies = Replies::start(client)?;
        let result = self.serve_all(&mut input, &geometry, &replies);
        replies.wait_for(0);
        result
    }

    fn serve_all(&self, input: &mut impl Read, geometry: &Geometry, replies: &Arc<Replies>) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let header = Header::read(input)?;
            let len = header.len as usize;
            let carries_data = header.command == Some(Command::Write);
            if carries_data {
                if header.len > REQUEST_BYTES_MAX {
                    // The data that follow would be taken for requests.
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it wrote {len} bytes in one request")));
                }
                buffer.resize(len, 0);
                input.read_exact(&mut buffer)?;
            }
            if header.command == Some(Command::Disconnect) {
                return Ok(());
            }
            replies.wait_for(IN_FLIGHT_MAX - 1);
            replies.begin();
            let (served, data) = self.serve(&header, geometry, &buffer);
            let replies = Arc::clone(replies);
            let reply = wire::simple_reply(header.cookie, served.result);
            let data = if served.result.is_ok() { data } else { Vec::new() };
            self.pacer.at(served.due, move || replies.end(reply, data));
        }
    }

    /// Does one request; gives how it ended and what a read has read.
    fn serve(&self, header: &Header, geometry: &Geometry, written: &[u8]) -> (Served, Vec<u8>) {
        let extent = Extent { offset: header.offset, len: header.len.into() };
        let fua = header.fua;
        let served = match header.command {
            Some(Command::Read) if header.len <= REQUEST_BYTES_MAX => {
                let mut data = vec![0; header.len as usize];
                let served = self.drive.serve(Request::Read { offset: extent.offset, into: &mut data });
                return (served, data);
            }
            Some(Command::Write) => self.drive.serve(Request::Write { offset: extent.offset, data: written, fua }),
            Some(Command::Trim) if geometry.discard_granularity > 0 => self.trim(extent, fua),
            Some(Command::WriteZeroes) => self.drive.serve(Request::Zero { extent, may_unmap: !header.no_hole, fua }),
            Some(Command::Flush) => self.drive.serve(Request::Flush),
            _ => Served::refused(Errno::INVAL),
        };
        (served, Vec::new())
    }

    fn trim(&self, extent: Extent, fua: bool) -> Served {
        let trimmed = self.drive.serve(Request::Trim(&[extent]));
        if !fua || trimmed.result.is_err() {
            return trimmed;
        }
        let flushed = self.drive.serve(Request::Flush);
        Served { due: trimmed.due.max(flushed.due), ..flushed }
    }
}

struct Reply {
    header: [u8; 16],
    data: Vec<u8>,
}

/// The answers of one connection. Written by a thread of its own, so that a client that does not read holds up nobody else.
struct Replies {
    /// `None` once the connection has ended.
    queue: Mutex<Option<Sender<Reply>>>,
    in_flight: Mutex<u32>,
    fewer: Condvar,
}

impl Replies {
    fn start(client: UnixStream) -> io::Result<Arc<Self>> {
        let (send, receive) = channel::<Reply>();
        let replies = Arc::new(Self { queue: Mutex::new(Some(send)), in_flight: Mutex::new(0), fewer: Condvar::new() });
        let counted = Arc::clone(&replies);
        std::thread::Builder::new().name("nbd-replies".into()).spawn(move || {
            let mut gone = false;
            for Reply { header, data } in receive {
                // A client that has gone needs no answers, but the requests have to be counted off.
                gone = gone || write_reply(&client, &header, &data).is_err();
                *counted.in_flight.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                counted.fewer.notify_all();
            }
        })?;
        Ok(replies)
    }

    fn begin(&self) {
        *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self, header: [u8; 16], data: Vec<u8>) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.send(Reply { header, data });
        }
    }

    /// Waits until at most `most` answers are outstanding; with 0, no more are taken after that.
    fn wait_for(&self, most: u32) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        while *in_flight > most {
            in_flight = self.fewer.wait(in_flight).unwrap_or_else(PoisonError::into_inner);
        }
        if most == 0 {
            *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

fn write_reply(mut client: &UnixStream, header: &[u8], data: &[u8]) -> io::Result<()> {
    if data.len() <= 64 << 10 {
        // One system call for both.
        let mut reply = Vec::with_capacity(header.len() + data.len());
        reply.extend_from_slice(header);
        reply.extend_from_slice(data);
        return client.write_all(&reply);
    }
    client.write_all(header)?;
    client.write_all(data)
}
