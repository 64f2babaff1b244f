//! One queue of a ublk device: its requests and their data memory.
//!
//! The server owns a request from [`Queue::take`] until [`UblkQueue::commit`]; the kernel
//! owns it otherwise. Owning the request means owning its memory. The kernel copies write
//! data in before it delivers the request, and copies read data out when it receives the
//! answer. Both copies run in the thread that created the queue.

use super::super::pool::Pool;
use super::{Info, encoded};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::time::Duration;

/// `struct ublksrv_io_cmd`
const COMMAND_BYTES: usize = 16;
/// `UBLK_U_IO_FETCH_REQ`: provides memory for one request; completes with a request.
const FETCH: u32 = encoded(true, true, 0x20, COMMAND_BYTES);
/// `UBLK_U_IO_COMMIT_AND_FETCH_REQ`: answers a request; completes with the next one.
const COMMIT_AND_FETCH: u32 = encoded(true, true, 0x21, COMMAND_BYTES);
/// `UBLK_MAX_QUEUE_DEPTH`: stride between the request descriptors of two queues, in
/// descriptors.
const DEPTH_MAX: usize = 4096;
const PAGE: usize = 4096;

/// `struct ublksrv_io_desc`: the descriptor of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDescriptor {
    /// Operation in the lowest eight bits, flags in the upper bits.
    pub operation: u32,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    address: u64,
}

impl RequestDescriptor {
    /// A descriptor like those that the kernel sends.
    pub const fn new(operation: u32, sector: u64, sectors: u32) -> Self {
        Self { operation, sectors, sector, address: 0 }
    }
}

const _: () = assert!(size_of::<RequestDescriptor>() == 24);

/// Request descriptors of a queue, in memory shared by the kernel.
struct Descriptions {
    base: NonNull<RequestDescriptor>,
    bytes: usize,
    depth: usize,
}

impl Descriptions {
    fn map(device: &File, queue: u16, depth: usize) -> io::Result<Self> {
        let bytes = (depth * size_of::<RequestDescriptor>()).next_multiple_of(PAGE);
        let offset = usize::from(queue)
            * (DEPTH_MAX * size_of::<RequestDescriptor>()).next_multiple_of(PAGE);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping at an address chosen by the kernel aliases nothing.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                flags,
                device.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, bytes, depth })
    }

    fn of(&self, request: usize) -> RequestDescriptor {
        assert!(request < self.depth, "the queue has that request");
        // SAFETY: the read is inside the mapping. The kernel writes a descriptor only
        // before it delivers the request, after the previous answer. A violation would
        // yield wrong numbers and no worse.
        unsafe { self.base.as_ptr().add(request).read_volatile() }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which is not used again.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Queue of a ublk device. Only the thread that created it may use it.
pub struct UblkQueue {
    // Dropped first: the kernel uses the memory until the ring is closed.
    ring: IoUring<squeue::Entry128>,
    data: Pool,
    descriptions: Descriptions,
    /// True for each request that the server owns.
    here: Vec<bool>,
    device: File,
    number: u16,
    request_bytes: usize,
}

impl UblkQueue {
    /// Creates the queue `number` of the device, which is served through `device`.
    ///
    /// # Errors
    /// Out of memory, or the kernel does not support it.
    pub fn new(device: File, info: &Info, number: u16) -> io::Result<Self> {
        let (depth, request_bytes) = (usize::from(info.depth), info.request_bytes_max as usize);
        let descriptions = Descriptions::map(&device, number, depth)?;
        let (ring, data) = (ring(depth)?, Pool::sparse(depth * request_bytes)?);
        Ok(Self {
            ring,
            data,
            descriptions,
            here: vec![false; depth],
            device,
            number,
            request_bytes,
        })
    }

    /// Maximum number of requests in flight.
    pub fn requests(&self) -> usize {
        self.here.len()
    }

    /// Provides the kernel with memory for all requests and starts fetching.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn fetch_all(&mut self) -> io::Result<()> {
        for request in 0..self.requests() {
            self.push(FETCH, request, 0)?;
        }
        while self.queued() > 0 {
            self.enter(0, None)?;
        }
        Ok(())
    }

    fn push(&mut self, command: u32, request: usize, result: i32) -> io::Result<()> {
        let address = self.data.address(request * self.request_bytes) as u64;
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), command)
            .cmd(answer(self.number, request, result, address))
            .build();
        let entry = entry.user_data(request as u64);
        // SAFETY: the memory outlives the ring, and no code accesses it while the kernel
        // owns the request.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.enter(0, None)?;
        }
        Ok(())
    }

    /// Appends the pending completions to `arrived`: each with its request, and a
    /// negative error number on failure.
    pub fn take(&mut self, arrived: &mut Vec<(usize, i32)>) {
        for completion in self.ring.completion() {
            let (request, result) = (completion.user_data() as usize, completion.result());
            self.here[request] = result >= 0;
            arrived.push((request, result));
        }
    }

    /// True if a completion is pending.
    pub fn has_come(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Number of commands that are not submitted yet.
    pub fn queued(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Submits the queued commands and waits for `want` completions. Returns true if
    /// `sleep` expires first.
    ///
    /// # Errors
    /// Errors that are not transient.
    pub fn enter(&mut self, want: usize, sleep: Option<Duration>) -> io::Result<bool> {
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        let timespec = sleep.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let queued = self.queued();
        // SAFETY: the argument has the type that EXT_ARG requires, and the queued entries
        // stay valid (see `push`).
        match unsafe {
            self.ring.submitter().enter(queued as u32, want as u32, flags.bits(), Some(&args))
        } {
            Ok(_) => Ok(false),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(true),
                // Interruptions and memory shortage are transient.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Returns the descriptor and the data memory of a request.
    ///
    /// # Panics
    /// If the kernel owns the request.
    pub fn request(&mut self, request: usize) -> (RequestDescriptor, &mut [u8]) {
        assert!(self.here[request], "the request has come");
        (
            self.descriptions.of(request),
            self.data.bytes(request * self.request_bytes, self.request_bytes),
        )
    }

    /// Answers with a byte count or a negative error number, and fetches the next
    /// request.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// # Panics
    /// If the kernel owns the request.
    pub fn commit(&mut self, request: usize, result: i32) -> io::Result<()> {
        assert!(std::mem::take(&mut self.here[request]), "the request has come");
        self.push(COMMIT_AND_FETCH, request, result)
    }

    /// Releases the memory of all requests to the kernel and discards its content. Call
    /// only while the server owns no request.
    pub fn give_back(&mut self) {
        // The kernel writes to this memory only in this thread, in system calls.
        self.data.give_back();
    }
}

/// A ring for up to `commands` commands in flight. The driver delivers requests as
/// completions.
fn ring(commands: usize) -> io::Result<IoUring<squeue::Entry128>> {
    let commands = u32::try_from(commands.next_power_of_two())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(commands.max(2))
        .build(commands.min(256))
}

/// `struct ublksrv_io_cmd`, padded with zeros.
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
    fn ublk_answer_has_queue_tag_result_and_address() {
        let bytes = answer(2, 0x0103, -5, 0x7000);
        assert_eq!(bytes[..8], [2, 0, 3, 1, 0xFB, 0xFF, 0xFF, 0xFF]);
        assert_eq!(
            (bytes[8..16].to_vec(), bytes[16..].iter().all(|byte| *byte == 0)),
            (0x7000_u64.to_ne_bytes().to_vec(), true)
        );
    }

    #[test]
    fn request_held_by_kernel_refuses_access() {
        // Any file works, because nothing is sent.
        let (Ok(ring), Ok(data)) = (ring(2), Pool::sparse(2 * 4096)) else {
            return crate::skip::skip("io_uring with deferred work");
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let descriptions = Descriptions::map(&file, 0, 2).unwrap();
        let mut queue = UblkQueue {
            ring,
            data,
            descriptions,
            here: vec![false; 2],
            device: file,
            number: 0,
            request_bytes: 4096,
        };
        let mut refused = |work: &mut dyn FnMut(&mut UblkQueue)| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut queue))).is_err()
        };
        assert!(refused(&mut |queue| queue.request(0).1.fill(0)));
        assert!(refused(&mut |queue| drop(queue.commit(1, 0))));
        assert!(refused(&mut |queue| queue.request(2).1.fill(0)));
    }
}
