//! The replies of a connection, in a thread, so that a slow reader blocks only itself.

use super::room::ReplyMemory;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A client that reads nothing for this long is cut off if others need the memory.
const PATIENCE: Duration = Duration::from_secs(5);

struct Reply {
    header: [u8; 16],
    data: Vec<u8>,
    room: u32,
}

/// The outstanding replies of a connection.
pub struct Replies {
    /// `None` once the connection has ended.
    queue: Mutex<Option<Sender<Reply>>>,
    in_flight: Mutex<u32>,
    fewer: Condvar,
    room: Arc<ReplyMemory>,
    /// The next request is waiting for memory.
    waits: AtomicBool,
    /// The client does not read replies any more.
    gone: AtomicBool,
}

impl Replies {
    pub fn start(client: UnixStream, room: Arc<ReplyMemory>) -> io::Result<Arc<Self>> {
        client.set_write_timeout(Some(PATIENCE))?;
        let (send, receive) = channel::<Reply>();
        let replies = Arc::new(Self {
            queue: Mutex::new(Some(send)),
            in_flight: Mutex::new(0),
            fewer: Condvar::new(),
            room,
            waits: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        });
        let this = Arc::clone(&replies);
        std::thread::Builder::new().name("nbd-replies".into()).spawn(move || {
            for reply in receive {
                // A client that has gone needs no replies, but its requests must still be
                // counted.
                if !this.gone.load(Ordering::Relaxed) && this.write(&client, &reply).is_err() {
                    this.gone.store(true, Ordering::Relaxed);
                    // Also ends the reader of requests, which sees the end of the stream.
                    let _ = client.shutdown(Shutdown::Both);
                }
                let room = reply.room;
                drop(reply);
                this.room.give(room);
                *this.in_flight() -= 1;
                this.fewer.notify_all();
            }
        })?;
        Ok(replies)
    }

    /// Starts a request whose reply takes `room` bytes, once fewer than `most` others are
    /// outstanding and memory is available. Fails if the client has gone.
    pub fn begin(&self, most: u32, room: u32) -> io::Result<()> {
        self.wait_for(most - 1);
        self.waits.store(true, Ordering::Relaxed);
        let taken = self.room.take(room, || !self.gone.load(Ordering::Relaxed));
        self.waits.store(false, Ordering::Relaxed);
        if !taken {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *self.in_flight() += 1;
        Ok(())
    }

    /// Queues the reply to a request that was started with the same `room`.
    pub fn end(&self, header: [u8; 16], data: Vec<u8>, room: u32) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.send(Reply { header, data, room });
        }
    }

    /// Waits until at most `most` replies are outstanding. With 0, later replies are
    /// discarded.
    pub fn wait_for(&self, most: u32) {
        let mut in_flight = self.in_flight();
        while *in_flight > most {
            in_flight = self.fewer.wait(in_flight).unwrap_or_else(PoisonError::into_inner);
        }
        drop(in_flight);
        if most == 0 {
            *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn in_flight(&self) -> MutexGuard<'_, u32> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, client: &UnixStream, reply: &Reply) -> io::Result<()> {
        if reply.data.len() <= 64 << 10 {
            // One system call for header and data.
            return self.write_all(client, &[&reply.header[..], &reply.data].concat());
        }
        self.write_all(client, &reply.header)?;
        self.write_all(client, &reply.data)
    }

    fn write_all(&self, mut client: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match client.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A slow client is tolerated unless other connections need the memory.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.others_wait() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn others_wait(&self) -> bool {
        self.room.waiting() > u32::from(self.waits.load(Ordering::Relaxed))
    }
}
