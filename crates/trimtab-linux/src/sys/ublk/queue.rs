//! One queue of a device: requests, and the memory of their data.
//!
//! A request is the server's from [`Queue::take`] until [`Queue::commit`], and the kernel's otherwise: then nobody gets at its memory. The kernel copies what is
//! written there before it gives the request, and what was read from there when it takes the answer; both in the thread that made the queue.

use super::super::command_ring::CommandRing;
use super::super::pool::Pool;
use super::{Info, encoded};
use io_uring::opcode;
use io_uring::types::Fd;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::time::Duration;

/// `struct ublksrv_io_cmd`
const COMMAND_BYTES: usize = 16;
/// `UBLK_U_IO_FETCH_REQ`: here is memory for one request; come back with one.
const FETCH: u32 = encoded(true, true, 0x20, COMMAND_BYTES);
/// `UBLK_U_IO_COMMIT_AND_FETCH_REQ`: here is the answer; come back with another request.
const COMMIT_AND_FETCH: u32 = encoded(true, true, 0x21, COMMAND_BYTES);
/// `UBLK_MAX_QUEUE_DEPTH`: descriptions of each queue's requests lie so far apart.
const DEPTH_MAX: usize = 4096;
const PAGE: usize = 4096;

/// `struct ublksrv_io_desc`: what a request is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The operation in the lowest eight bits, flags above.
    pub operation: u32,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// The first sector.
    pub sector: u64,
    address: u64,
}

impl Described {
    /// One that the kernel could have sent.
    #[must_use]
    pub const fn new(operation: u32, sector: u64, sectors: u32) -> Self {
        Self { operation, sectors, sector, address: 0 }
    }
}

const _: () = assert!(size_of::<Described>() == 24);

/// Descriptions of a queue's requests, in memory of the kernel's.
struct Descriptions {
    base: NonNull<Described>,
    bytes: usize,
    depth: usize,
}

impl Descriptions {
    fn map(device: &File, queue: u16, depth: usize) -> io::Result<Self> {
        let bytes = (depth * size_of::<Described>()).next_multiple_of(PAGE);
        let offset = usize::from(queue) * (DEPTH_MAX * size_of::<Described>()).next_multiple_of(PAGE);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping at an address that the kernel chooses aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, device.as_raw_fd(), offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, bytes, depth })
    }

    fn of(&self, request: usize) -> Described {
        assert!(request < self.depth, "the queue has that request");
        // SAFETY: inside the mapping; the kernel writes it before it gives the request, and not before that was answered. Were it otherwise, the numbers
        // would be wrong and nothing else.
        unsafe { self.base.as_ptr().add(request).read_volatile() }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which nothing uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// To be used in the thread that made it.
pub struct Queue {
    // Dropped first: the kernel uses the memory until then.
    ring: CommandRing,
    data: Pool,
    descriptions: Descriptions,
    /// The requests that the server has.
    here: Vec<bool>,
    device: File,
    number: u16,
    request_bytes: usize,
}

impl Queue {
    /// The queue `number` of the device, which is served through `device`.
    ///
    /// # Errors
    /// No memory, or a kernel that cannot.
    pub fn new(device: File, info: &Info, number: u16) -> io::Result<Self> {
        let (depth, request_bytes) = (usize::from(info.depth), info.request_bytes_max as usize);
        let descriptions = Descriptions::map(&device, number, depth)?;
        let (ring, data) = (CommandRing::new(depth)?, Pool::sparse(depth * request_bytes)?);
        Ok(Self { ring, data, descriptions, here: vec![false; depth], device, number, request_bytes })
    }

    /// Requests that it holds at once.
    pub fn requests(&self) -> usize {
        self.here.len()
    }

    /// Gives the kernel memory for all requests.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn fetch_all(&mut self) -> io::Result<()> {
        for request in 0..self.requests() {
            self.push(FETCH, request, 0)?;
        }
        while self.ring.queued() > 0 {
            self.ring.enter(0, None)?;
        }
        Ok(())
    }

    fn push(&mut self, command: u32, request: usize, result: i32) -> io::Result<()> {
        let address = self.data.address(request * self.request_bytes) as u64;
        let entry =
            opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), command).cmd(answer(self.number, request, result, address)).build();
        // SAFETY: the memory outlives the ring, and nobody gets at it while the request is the kernel's.
        unsafe { self.ring.push(entry, request) }
    }

    /// Takes what has come from the kernel: requests, or negative error numbers in their place.
    pub fn take(&mut self, arrived: &mut Vec<(usize, i32)>) {
        for (request, result) in self.ring.completions() {
            self.here[request] = result >= 0;
            arrived.push((request, result));
        }
    }

    /// Whether something has come.
    pub fn has_come(&mut self) -> bool {
        self.ring.has_come()
    }

    /// Commands that the kernel has not been given yet.
    pub fn queued(&mut self) -> usize {
        self.ring.queued()
    }

    /// Submits what is to be submitted, and waits for `want` completions, or so long; then it gives true.
    ///
    /// # Errors
    /// What does not pass by itself.
    pub fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        self.ring.enter(want, sleep)
    }

    /// What a request is, and the memory of its data.
    ///
    /// # Panics
    /// If the kernel has it.
    pub fn request(&mut self, request: usize) -> (Described, &mut [u8]) {
        assert!(self.here[request], "the request has come");
        (self.descriptions.of(request), self.data.bytes(request * self.request_bytes, self.request_bytes))
    }

    /// Answers with so many bytes or a negative error number, and asks for another request.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If the kernel has the request.
    pub fn commit(&mut self, request: usize, result: i32) -> io::Result<()> {
        assert!(std::mem::take(&mut self.here[request]), "the request has come");
        self.push(COMMIT_AND_FETCH, request, result)
    }

    /// Gives the memory of all requests back to the kernel, whatever is in it. To be called when nothing is here.
    pub fn give_back(&mut self) {
        // The kernel writes to this memory in this thread only, in system calls.
        self.data.give_back();
    }
}

/// `struct ublksrv_io_cmd`, and nothing in what follows it.
fn answer(queue: u16, request: usize, result: i32, address: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[..2].copy_from_slice(&queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&(request as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_queue_request_result_and_memory() {
        let bytes = answer(2, 0x0103, -5, 0x7000);
        assert_eq!(bytes[..8], [2, 0, 3, 1, 0xFB, 0xFF, 0xFF, 0xFF]);
        assert_eq!((bytes[8..16].to_vec(), bytes[16..].iter().all(|byte| *byte == 0)), (0x7000_u64.to_ne_bytes().to_vec(), true));
    }

    #[test]
    fn what_the_kernel_has_is_out_of_reach() {
        // Any file will do: nothing is sent.
        let (Ok(ring), Ok(data)) = (CommandRing::new(2), Pool::sparse(2 * 4096)) else {
            return crate::skip::skip("io_uring with deferred work");
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let descriptions = Descriptions::map(&file, 0, 2).unwrap();
        let mut queue = Queue { ring, data, descriptions, here: vec![false; 2], device: file, number: 0, request_bytes: 4096 };
        let mut refused =
            |work: &mut dyn FnMut(&mut Queue)| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut queue))).is_err();
        assert!(refused(&mut |queue| queue.request(0).1.fill(0)));
        assert!(refused(&mut |queue| drop(queue.commit(1, 0))));
        assert!(refused(&mut |queue| queue.request(2).1.fill(0)));
    }
}
