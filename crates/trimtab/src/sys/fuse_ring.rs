//! Requests of the kernel's FUSE over io_uring (Linux 6.14), and their memory: `linux/fuse.h` of protocol 7.42, and the documentation
//! `filesystems/fuse/fuse-io-uring`.
//!
//! A request is the server's from [`FuseRing::take`] until [`FuseRing::commit`], and the kernel's otherwise: then nobody gets at its memory.

use super::command_ring::CommandRing;
use super::pool::Pool;
use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

/// `FUSE_IO_URING_CMD_REGISTER`: here is memory for one request; come back with one.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: here is the answer; come back with another request.
const COMMIT_AND_FETCH: u32 = 2;

/// `struct fuse_uring_req_header`: of a request, then of its answer.
#[repr(C)]
pub struct Headers {
    /// `fuse_in_header`, then `fuse_out_header`.
    pub in_out: [u8; 128],
    /// The first argument of the request, if that is of a fixed size.
    pub argument: [u8; 128],
    flags: u64,
    /// Names the request in the command that answers it.
    commit_id: u64,
    /// Bytes of the payload: further arguments, then what is answered.
    pub payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Headers>() == 288);

impl Headers {
    /// All zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { in_out: [0; 128], argument: [0; 128], flags: 0, commit_id: 0, payload_bytes: 0, padding: 0, reserved: 0 }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether this kernel has what the ring takes.
pub fn is_possible() -> bool {
    CommandRing::new(1).is_ok()
}

/// Some queues of a mounted filesystem, and the memory of the requests in them. To be used in the thread that made it.
pub struct FuseRing {
    // Dropped first: the kernel uses the memory until then.
    ring: CommandRing,
    headers: Vec<Headers>,
    payloads: Pool,
    payload_bytes: usize,
    /// The requests that the server has.
    here: Vec<bool>,
    device: OwnedFd,
    queues: Vec<u16>,
    /// Requests that each queue holds at once.
    depth: usize,
}

impl FuseRing {
    /// For these queues of the filesystem behind `device`, with `depth` requests each, of so many bytes at most.
    ///
    /// # Errors
    /// No memory, or a kernel that cannot.
    pub fn new(device: OwnedFd, queues: &[u16], depth: usize, payload_bytes: usize) -> io::Result<Self> {
        let requests = queues.len() * depth;
        let headers = (0..requests).map(|_| Headers::new()).collect();
        let (ring, payloads) = (CommandRing::new(requests)?, Pool::sparse(requests * payload_bytes)?);
        Ok(Self { ring, headers, payloads, payload_bytes, here: vec![false; requests], device, queues: queues.to_vec(), depth })
    }

    /// Requests in all queues.
    pub fn requests(&self) -> usize {
        self.headers.len()
    }

    /// Gives the kernel memory for all requests.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn register(&mut self) -> io::Result<()> {
        let headers = self.headers.as_mut_ptr();
        let vectors: Vec<[libc::iovec; 2]> = (0..self.headers.len())
            .map(|request| {
                let payload = self.payloads.address(request * self.payload_bytes);
                [
                    libc::iovec { iov_base: headers.wrapping_add(request).cast(), iov_len: size_of::<Headers>() },
                    libc::iovec { iov_base: payload.cast(), iov_len: self.payload_bytes },
                ]
            })
            .collect();
        let mut all_pushed = Ok(());
        for (request, vector) in vectors.iter().enumerate() {
            let command = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), REGISTER)
                .cmd(command(self.queues[request / self.depth], 0))
                .addr(Some(vector.as_ptr() as u64));
            all_pushed = all_pushed.and_then(|()| self.push(with_len(command.build(), 2), request));
        }
        // The vectors have to be there until the kernel has read them.
        while all_pushed.is_ok() && self.ring.queued() > 0 {
            all_pushed = self.enter(0, None).map(drop);
        }
        if all_pushed.is_err() {
            std::mem::forget(vectors);
        }
        all_pushed
    }

    fn push(&mut self, entry: squeue::Entry128, request: usize) -> io::Result<()> {
        // SAFETY: headers, payload and (until they are submitted, in the caller) vectors outlive the command; nobody gets at them while the
        // request is the kernel's.
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

    /// Headers and payload of a request.
    ///
    /// # Panics
    /// If the kernel has it.
    pub fn request(&mut self, request: usize) -> (&mut Headers, &mut [u8]) {
        assert!(self.here[request], "the request has come");
        (&mut self.headers[request], self.payloads.bytes(request * self.payload_bytes, self.payload_bytes))
    }

    /// Gives the answer that is in the request's memory, and asks for another.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If the kernel has the request.
    pub fn commit(&mut self, request: usize) -> io::Result<()> {
        assert!(std::mem::take(&mut self.here[request]), "the request has come");
        let command = command(self.queues[request / self.depth], self.headers[request].commit_id);
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), COMMIT_AND_FETCH).cmd(command).build();
        self.push(entry, request)
    }

    /// Gives the memory of all payloads back to the kernel, whatever is in it.
    pub fn give_back(&mut self) {
        // The kernel writes to this memory in this thread only, in system calls.
        self.payloads.give_back();
    }
}

/// `struct fuse_uring_cmd_req` of a command for the queue of processor `queue`.
fn command(queue: u16, commit_id: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// The library has no way to give a command a length, which `FUSE_IO_URING_CMD_REGISTER` wants.
fn with_len(mut entry: squeue::Entry128, len: u32) -> squeue::Entry128 {
    const { assert!(size_of::<squeue::Entry128>() == 128) };
    // SAFETY: the entry is a `struct io_uring_sqe` of 128 bytes, `len` of which are the four from byte 24 on.
    unsafe { (&raw mut entry).cast::<u32>().add(6).write(len) };
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_queue_and_request() {
        let bytes = command(3, 0x0102);
        assert_eq!((bytes[8..16].to_vec(), bytes[16..18].to_vec()), (0x0102_u64.to_ne_bytes().to_vec(), 3_u16.to_ne_bytes().to_vec()));
        assert!(bytes[..8].iter().chain(&bytes[18..]).all(|byte| *byte == 0));
    }

    #[test]
    fn what_the_kernel_has_is_out_of_reach() {
        let device = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let Ok(mut ring) = FuseRing::new(device, &[0], 2, 4096) else { return crate::skip::skip("io_uring with deferred work") };
        let refused =
            |work: &mut dyn FnMut(&mut FuseRing)| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut ring))).is_err();
        let mut refused = refused;
        assert!(refused(&mut |ring| ring.request(0).1.fill(0)));
        assert!(refused(&mut |ring| drop(ring.commit(1))));
        assert!(refused(&mut |ring| ring.request(2).1.fill(0)));
    }
}
