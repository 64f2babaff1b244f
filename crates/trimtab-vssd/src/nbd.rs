//! The front end for emulators and NBD clients: NBD on a Unix socket.
//!
//! Fixed newstyle negotiation and simple replies, as in the NBD project's `proto.md`;
//! only the default export. Requests of a connection are served in order of arrival and
//! answered when due, in any order. Memory for replies is bounded ([`ReplyMemory`]),
//! whatever clients do.

mod negotiation;
mod replies;
mod room;
mod wire;

use crate::pace::Pacer;
use crate::rate_limited_log::RateLimitedLog;
use crate::request::{Effect, Geometry, Request, RequestResult, RequestServer};
use replies::Replies;
use room::ReplyMemory;
use rustix::io::Errno;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use trimtab_drive::Extent;
use trimtab_linux::sys::beneath::ObjectIdentity;
use trimtab_linux::sys::unix_socket::BoundSocket;
use wire::{NbdCommand, NbdHeader};

const REQUEST_BYTES_MAX: u32 = 32 << 20;
const IN_FLIGHT_MAX: u32 = 1024;
const CLIENTS_MAX: u32 = 64;
/// Size of the write buffer that is kept after a longer write.
const BUFFER_KEPT: usize = 1 << 20;

/// Listens on a Unix socket and serves every client.
pub struct NbdFront(BoundSocket);

impl NbdFront {
    /// Listens on `path`. Replaces a socket without a listener, and refuses other
    /// objects.
    pub fn start(
        path: &Path,
        drive: Arc<dyn RequestServer>,
        pacer: Arc<Pacer>,
    ) -> anyhow::Result<Self> {
        let (socket, listener) = BoundSocket::listen(path)?;
        let (room, log, clients) = (
            Arc::new(ReplyMemory::new()),
            Arc::new(RateLimitedLog::default()),
            Arc::new(AtomicU32::new(0)),
        );
        std::thread::Builder::new().name("nbd".into()).spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else {
                    // Out of descriptors, for example, which an immediate retry would not
                    // solve.
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    continue;
                };
                let Some(seat) = ClientSlot::take(&clients) else {
                    log.say(
                        "an NBD client was refused: the maximum number of clients is connected",
                    );
                    continue;
                };
                let connection = Connection {
                    drive: Arc::clone(&drive),
                    pacer: Arc::clone(&pacer),
                    room: Arc::clone(&room),
                };
                let log = Arc::clone(&log);
                let _ = std::thread::Builder::new().name("nbd-client".into()).spawn(move || {
                    if let Err(error) = connection.run(client)
                        && error.kind() != io::ErrorKind::UnexpectedEof
                    {
                        log.say(&format!("an NBD client was disconnected: {error}"));
                    }
                    drop(seat);
                });
            }
        })?;
        Ok(Self(socket))
    }

    /// Identity of the socket.
    pub const fn socket(&self) -> ObjectIdentity {
        self.0.identity()
    }
}

struct ClientSlot(Arc<AtomicU32>);

impl ClientSlot {
    fn take(clients: &Arc<AtomicU32>) -> Option<Self> {
        if clients.fetch_add(1, Ordering::Relaxed) < CLIENTS_MAX {
            return Some(Self(Arc::clone(clients)));
        }
        clients.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Connection {
    drive: Arc<dyn RequestServer>,
    pacer: Arc<Pacer>,
    room: Arc<ReplyMemory>,
}

impl Connection {
    fn run(self, client: UnixStream) -> io::Result<()> {
        let geometry = self.drive.geometry();
        let mut input = BufReader::with_capacity(64 << 10, client.try_clone()?);
        if !negotiation::negotiate(&mut input, &mut &client, &geometry)? {
            return Ok(());
        }
        let replies = Replies::start(client, Arc::clone(&self.room))?;
        let result = self.serve_requests(&mut input, &geometry, &replies);
        replies.wait_for(0);
        result
    }

    fn serve_requests(
        &self,
        input: &mut impl Read,
        geometry: &Geometry,
        replies: &Arc<Replies>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let header = NbdHeader::read(input)?;
            buffer.clear();
            buffer.shrink_to(BUFFER_KEPT);
            if header.command == Some(NbdCommand::Write) {
                if header.len > REQUEST_BYTES_MAX {
                    // The data that follow would be parsed as requests.
                    let what = format!("it wrote {} bytes in one request", header.len);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                // Grows with the data received, not with the length announced.
                if input.take(header.len.into()).read_to_end(&mut buffer)? < header.len as usize {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if header.command == Some(NbdCommand::Disconnect) {
                return Ok(());
            }
            replies.begin(IN_FLIGHT_MAX, answer_bytes(&header))?;
            let (served, data) = self.serve(&header, geometry, &buffer);
            let reply = wire::simple_reply(header.cookie, served.result);
            let data = if served.result.is_ok() { data } else { Vec::new() };
            let (replies, room) = (Arc::clone(replies), answer_bytes(&header));
            self.pacer.at(served.due, move || replies.end(reply, data, room));
        }
    }

    /// Executes a request. Returns its result and the data read.
    fn serve(
        &self,
        header: &NbdHeader,
        geometry: &Geometry,
        written: &[u8],
    ) -> (RequestResult, Vec<u8>) {
        let extent = Extent { offset: header.offset, len: header.len.into() };
        if let Err(errno) = check(header, geometry) {
            return (RequestResult::refused(errno), Vec::new());
        }
        let fua = header.fua;
        let served = match header.command {
            Some(NbdCommand::Read) => {
                let mut data = vec![0; header.len as usize];
                let served =
                    self.drive.serve(Request::Read { offset: extent.offset, into: &mut data });
                return (served, data);
            }
            Some(NbdCommand::Write) => {
                self.drive.serve(Request::Write { offset: extent.offset, data: written, fua })
            }
            Some(NbdCommand::Trim) if geometry.discard_granularity > 0 => self.trim(extent, fua),
            Some(NbdCommand::WriteZeroes) => {
                self.drive.serve(Request::Zero { extent, may_unmap: !header.no_hole, fua })
            }
            Some(NbdCommand::Flush) => self.drive.serve(Request::Flush),
            _ => RequestResult::refused(Errno::INVAL),
        };
        (served, Vec::new())
    }

    fn trim(&self, extent: Extent, fua: bool) -> RequestResult {
        let trimmed = self.drive.serve(Request::Trim(&[extent], Effect::Usual));
        if !fua || trimmed.result.is_err() {
            return trimmed;
        }
        let flushed = self.drive.serve(Request::Flush);
        RequestResult { due: trimmed.due.max(flushed.due), ..flushed }
    }
}

/// Rejects requests that violate the protocol, with the protocol's error.
fn check(header: &NbdHeader, geometry: &Geometry) -> Result<(), Errno> {
    let beyond = header.offset.checked_add(header.len.into()).is_none_or(|end| end > geometry.size);
    match header.command {
        _ if header.strange => Err(Errno::INVAL),
        Some(NbdCommand::Read) if header.len > REQUEST_BYTES_MAX => Err(Errno::INVAL),
        Some(NbdCommand::Write | NbdCommand::WriteZeroes) if beyond => Err(Errno::NOSPC),
        Some(NbdCommand::Read | NbdCommand::Trim) if beyond => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn answer_bytes(header: &NbdHeader) -> u32 {
    match header.command {
        Some(NbdCommand::Read) if header.len <= REQUEST_BYTES_MAX => header.len,
        _ => 0,
    }
}
