//! Asynchronous operations on one file, and their memory. Uses io_uring, or threads if
//! io_uring is not available.
//!
//! Each operation has a tag, and each tag has a part of the memory. The kernel owns this
//! memory from [`Transfers::push`] until [`Transfers::take`] returns the tag; the caller
//! owns it otherwise. Only the owner may access it.

mod ring;
mod threads;

use self::ring::Ring;
use self::threads::Threads;
use super::pool::Pool;
use rustix::fd::OwnedFd;
use std::io;
use std::mem::ManuallyDrop;
use std::time::Instant;

/// Default memory per tag, in bytes.
const STRIDE: usize = 4096;

/// Type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferAction {
    /// Reads into the memory of the tag.
    Read,
    /// Writes from the memory of the tag.
    Write,
    /// Makes all written data durable.
    Flush,
    /// Punches a hole in a file, which trims the range.
    PunchHole,
    /// Discards a range of a block device.
    Discard,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Tag whose memory the operation uses.
    pub tag: u32,
    /// Type of the operation.
    pub action: TransferAction,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes. Reads and writes are limited to the memory of the tag.
    pub len: u64,
}

/// An operation and the address of its memory.
#[derive(Clone, Copy, Debug)]
struct TransferRequest {
    what: Transfer,
    address: *mut u8,
}

// SAFETY: the memory behind `address` belongs to the tag until its completion is taken.
// Only the thread that executes the request uses it.
unsafe impl Send for TransferRequest {}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and another indirection would cost every operation"
)]
enum Engine {
    Ring(Ring),
    Threads(Threads),
}

/// A file and the operations in flight on it.
pub struct Transfers {
    engine: Engine,
    /// Never unmapped while the kernel may use it.
    pool: ManuallyDrop<Pool>,
    file: OwnedFd,
    /// Bytes of the pool per tag.
    stride: usize,
    /// True for each tag in flight.
    pushed: Vec<bool>,
    in_flight: usize,
}

impl Transfers {
    /// Creates an io_uring engine for up to `depth` operations in flight, with `bytes` of
    /// memory in total.
    ///
    /// # Errors
    /// io_uring is not available.
    pub fn ring(file: &OwnedFd, depth: u32, bytes: usize) -> io::Result<Self> {
        let (file, pool) = (file.try_clone()?, Pool::new(bytes)?);
        let ring = Ring::new(&file, depth, &pool)?;
        Ok(Self::new(Engine::Ring(ring), pool, file, depth))
    }

    /// Like [`Self::ring`], with an engine of threads.
    ///
    /// # Errors
    /// Out of memory, or the limit of threads is reached.
    pub fn threads(file: &OwnedFd, depth: u32, bytes: usize) -> io::Result<Self> {
        let (file, pool) = (file.try_clone()?, Pool::new(bytes)?);
        let threads = Threads::new(file.try_clone()?, depth)?;
        Ok(Self::new(Engine::Threads(threads), pool, file, depth))
    }

    fn new(engine: Engine, pool: Pool, file: OwnedFd, depth: u32) -> Self {
        Self {
            engine,
            pool: ManuallyDrop::new(pool),
            file,
            stride: STRIDE,
            pushed: vec![false; depth as usize],
            in_flight: 0,
        }
    }

    /// True if the engine is io_uring.
    pub fn is_ring(&self) -> bool {
        matches!(self.engine, Engine::Ring(_))
    }

    /// True if the kernel pins the memory for every operation, because it could not be
    /// registered.
    pub fn pins_each_time(&self) -> bool {
        matches!(&self.engine, Engine::Ring(ring) if !ring.registered)
    }

    /// The file that the operations use.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Size of the memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.pool.len()
    }

    /// True if the tag has at least `len` bytes of memory.
    #[inline]
    pub fn fits(&self, tag: u32, len: usize) -> bool {
        len <= self.stride && tag as usize * self.stride + len <= self.pool.len()
    }

    /// Gives each tag at least `len` bytes of memory, as long as the pool is large
    /// enough. The content becomes undefined.
    ///
    /// # Panics
    /// If an operation is in flight.
    pub fn lay_out(&mut self, len: usize) {
        assert!(self.in_flight == 0, "memory in flight stays where it is");
        self.stride = len.next_multiple_of(STRIDE);
    }

    /// The first `len` bytes of the tag's memory.
    ///
    /// # Panics
    /// If the tag has less memory, or its operation is in flight.
    #[inline]
    pub fn bytes(&mut self, tag: u32, len: usize) -> &mut [u8] {
        assert!(
            !self.pushed[tag as usize] && self.fits(tag, len),
            "the memory is there, and not in flight"
        );
        self.pool.bytes(tag as usize * self.stride, len)
    }

    #[inline]
    fn request(&self, what: &Transfer) -> TransferRequest {
        let moved = matches!(what.action, TransferAction::Read | TransferAction::Write);
        let len = if moved { what.len as usize } else { 0 };
        assert!(
            !self.pushed[what.tag as usize] && self.fits(what.tag, len),
            "the memory is there, and not in flight"
        );
        let address = if moved {
            self.pool.address(what.tag as usize * self.stride)
        } else {
            std::ptr::null_mut()
        };
        TransferRequest { what: *what, address }
    }

    /// Queues an operation.
    ///
    /// # Panics
    /// If its tag is in flight or has too little memory.
    #[inline]
    pub fn push(&mut self, what: &Transfer) {
        let request = self.request(what);
        match &mut self.engine {
            Engine::Ring(ring) => ring.push(&request),
            Engine::Threads(threads) => threads.push(&request),
        }
        self.pushed[what.tag as usize] = true;
        self.in_flight += 1;
    }

    /// Executes an operation with a blocking call. Returns the system call's result, or a
    /// negative error number.
    ///
    /// # Panics
    /// If the tag is in flight or has too little memory.
    #[inline]
    pub fn call(&mut self, what: &Transfer) -> i32 {
        threads::execute(&self.file, &self.request(what))
    }

    /// Submits the queued operations to the kernel.
    ///
    /// # Errors
    /// The ring has failed permanently.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.engine {
            Engine::Ring(ring) => ring.submit(),
            Engine::Threads(_) => Ok(()),
        }
    }

    /// Waits until `min` completions can be taken.
    ///
    /// # Errors
    /// The ring has failed permanently.
    #[inline]
    pub fn wait(&mut self, min: usize) -> io::Result<()> {
        match &mut self.engine {
            Engine::Ring(ring) => ring.wait(min),
            Engine::Threads(threads) => {
                threads.wait(min);
                Ok(())
            }
        }
    }

    /// Waits until a completion can be taken, but not beyond `deadline`.
    ///
    /// # Errors
    /// The ring has failed permanently.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<()> {
        match &mut self.engine {
            Engine::Ring(ring) => ring.wait_until(deadline),
            Engine::Threads(threads) => {
                threads.wait_until(deadline);
                Ok(())
            }
        }
    }

    /// Takes all completions and calls `each` with the tag and the system call's result,
    /// or a negative error number.
    #[inline]
    pub fn take(&mut self, mut each: impl FnMut(u32, i32)) {
        let (pushed, in_flight) = (&mut self.pushed, &mut self.in_flight);
        let each = |tag: u32, result: i32| {
            pushed[tag as usize] = false;
            *in_flight -= 1;
            each(tag, result);
        };
        match &mut self.engine {
            Engine::Ring(ring) => ring.take(each),
            Engine::Threads(threads) => threads.take(each),
        }
    }
}

impl Drop for Transfers {
    /// Waits for the operations in flight, because the kernel must not write into
    /// unmapped memory. If waiting fails, the memory leaks.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.submit().and_then(|()| self.wait(1)).is_err() {
                return;
            }
            self.take(|_, _| ());
        }
        // SAFETY: no operation is in flight, and the pool is not used again.
        unsafe { ManuallyDrop::drop(&mut self.pool) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn both(depth: u32, bytes: usize) -> Vec<Transfers> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let file = OwnedFd::from(file);
        [Transfers::ring(&file, depth, bytes).ok(), Transfers::threads(&file, depth, bytes).ok()]
            .into_iter()
            .flatten()
            .collect()
    }

    #[test]
    fn transfer_in_flight_refuses_access() {
        for mut transfers in both(2, 1 << 20) {
            transfers.bytes(1, 512).fill(7);
            transfers.push(&Transfer {
                tag: 1,
                action: TransferAction::Write,
                offset: 4096,
                len: 512,
            });
            let refused = |work: &mut dyn FnMut(&mut Transfers)| {
                catch_unwind(AssertUnwindSafe(|| work(&mut transfers))).is_err()
            };
            let mut refused = refused;
            assert!(refused(&mut |t| t.bytes(1, 1).fill(0)), "its memory");
            assert!(
                refused(&mut |t| t.push(&Transfer {
                    tag: 1,
                    action: TransferAction::Flush,
                    offset: 0,
                    len: 0
                })),
                "its tag"
            );
            assert!(refused(&mut |t| t.lay_out(8192)), "the layout");
            assert!(
                refused(&mut |t| t.push(&Transfer {
                    tag: 0,
                    action: TransferAction::Read,
                    offset: 0,
                    len: 4097
                })),
                "more than it has"
            );
            assert!(
                refused(&mut |t| t.push(&Transfer {
                    tag: 2,
                    action: TransferAction::Flush,
                    offset: 0,
                    len: 0
                })),
                "a tag that there is not"
            );
            transfers.submit().unwrap();
            transfers.wait(1).unwrap();
            let mut taken = Vec::new();
            transfers.take(|tag, result| taken.push((tag, result)));
            assert_eq!(taken, [(1, 512)]);
            transfers.bytes(1, 512).fill(0);
            assert_eq!(
                transfers.call(&Transfer {
                    tag: 1,
                    action: TransferAction::Read,
                    offset: 4096,
                    len: 512
                }),
                512
            );
            assert!(transfers.bytes(1, 512).iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn transfers_dropped_in_flight_complete() {
        for mut transfers in both(4, 1 << 20) {
            for tag in 0..4 {
                transfers.bytes(tag, 4096).fill(tag as u8 + 1);
                transfers.push(&Transfer {
                    tag,
                    action: TransferAction::Write,
                    offset: u64::from(tag) * 4096,
                    len: 4096,
                });
            }
            let file = transfers.file().try_clone().unwrap();
            drop(transfers);
            let mut bytes = [0_u8; 4 * 4096];
            assert_eq!(rustix::io::pread(&file, &mut bytes[..], 0).unwrap(), bytes.len());
            assert!((0..4).all(|tag| {
                bytes[tag * 4096..][..4096].iter().all(|byte| usize::from(*byte) == tag + 1)
            }));
        }
    }
}
