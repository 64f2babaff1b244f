//! The answers of one connection, written by a thread of its own, so that a client that does not read holds up nobody else.

use super::room::Room;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A client that takes no byte for so long is cut off once others need the memory that its answers are in.
const PATIENCE: Duration = Duration::from_secs(5);

struct Reply {
    header: Vec<u8>,
    data: Vec<u8>,
    room: u32,
}

/// What is to be answered on a connection.
pub struct Replies {
    /// `None` once the connection has ended.
    queue: Mutex<Option<Sender<Reply>>>,
    in_flight: Mutex<u32>,
    fewer: Condvar,
    room: Arc<Room>,
    /// The next request waits for memory.
    waits: AtomicBool,
    /// Nobody reads answers any more.
    gone: AtomicBool,
}

impl Replies {
    pub fn start(client: UnixStream, room: Arc<Room>) -> io::Result<Arc<Self>> {
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
                // A client that has gone needs no answers, but the requests have to be counted off.
                if !this.gone.load(Ordering::Relaxed) && this.write(&client, &reply).is_err() {
                    this.gone.store(true, Ordering::Relaxed);
                    // No more requests either: whoever reads them sees the end.
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

    /// Begins a request whose answer takes `room` bytes, once fewer than `most` others are outstanding and there is memory for it. An error once
    /// nobody reads answers.
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

    /// Gives the answer of a request that was begun with as much `room`.
    pub fn end(&self, header: Vec<u8>, data: Vec<u8>, room: u32) {
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = queue.send(Reply { header, data, room });
        }
    }

    /// Waits until at most `most` answers are outstanding; with 0, no more are taken after that.
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
            // One system call for both.
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
                // It may take its time as long as that is at nobody else's cost.
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
