//! A thread's queues of the mounted filesystem.

use crate::serve::fuse::MAX_REQUEST_BYTES;
use crate::serve::fuse::node::Node;
use crate::serve::worker::Slots;
use crate::sys::fuse_ring::FuseRing;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests that one queue holds at once: as many as the loop driver sends.
const DEPTH: usize = 128;

/// Requests of the filesystem's queues, answered by its one file.
pub struct FileSlots {
    ring: FuseRing,
    node: Arc<Node>,
}

impl FileSlots {
    pub fn new(queues: &[u16], device: OwnedFd, node: Arc<Node>) -> io::Result<Self> {
        Ok(Self { ring: FuseRing::new(device, queues, DEPTH, MAX_REQUEST_BYTES as usize)?, node })
    }
}

impl Slots for FileSlots {
    fn requests(&self) -> usize {
        self.ring.requests()
    }

    fn offer(&mut self) -> io::Result<()> {
        self.ring.register()
    }

    fn take(&mut self, arrived: &mut Vec<(usize, i32)>) {
        self.ring.take(arrived);
    }

    fn has_come(&mut self) -> bool {
        self.ring.has_come()
    }

    fn queued(&mut self) -> usize {
        self.ring.queued()
    }

    fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        self.ring.enter(want, sleep)
    }

    fn serve(&mut self, slot: usize) -> Option<Instant> {
        let (headers, payload) = self.ring.request(slot);
        self.node.answer(headers, payload)
    }

    fn commit(&mut self, slot: usize) -> io::Result<()> {
        self.ring.commit(slot)
    }

    fn give_back(&mut self) {
        self.ring.give_back();
    }

    fn is_end(errno: i32) -> bool {
        [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED].contains(&errno)
    }
}
