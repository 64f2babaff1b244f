//! The slots of a ublk queue.

use super::requests::serve;
use crate::request::RequestServer;
use crate::worker::Slots;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_linux::sys::ublk::queue::UblkQueue;

/// The requests of one queue, answered by the drive.
pub struct QueueSlots {
    queue: UblkQueue,
    drive: Arc<dyn RequestServer>,
    /// The result of the request in each slot.
    results: Vec<i32>,
}

impl QueueSlots {
    pub fn new(queue: UblkQueue, drive: Arc<dyn RequestServer>) -> Self {
        Self { results: vec![0; queue.requests()], queue, drive }
    }
}

impl Slots for QueueSlots {
    fn requests(&self) -> usize {
        self.queue.requests()
    }

    fn offer(&mut self) -> io::Result<()> {
        self.queue.fetch_all()
    }

    fn take(&mut self, arrived: &mut Vec<(usize, i32)>) {
        self.queue.take(arrived);
    }

    fn has_come(&mut self) -> bool {
        self.queue.has_come()
    }

    fn queued(&mut self) -> usize {
        self.queue.queued()
    }

    fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        self.queue.enter(want, sleep)
    }

    fn serve(&mut self, slot: usize) -> Option<Instant> {
        let (described, memory) = self.queue.request(slot);
        let answer = serve(&*self.drive, &described, memory);
        self.results[slot] = answer.result;
        answer.due
    }

    fn commit(&mut self, slot: usize) -> io::Result<()> {
        self.queue.commit(slot, self.results[slot])
    }

    fn release_memory(&mut self) {
        self.queue.give_back();
    }

    /// `UBLK_IO_RES_ABORT`, and the error of a ring that is being torn down.
    fn is_end(errno: i32) -> bool {
        [libc::ENODEV, libc::ECANCELED].contains(&errno)
    }
}
