//! Converts requests of the ublk driver to requests of the drive.

use crate::request::{Effect, Request, RequestResult, RequestServer};
use rustix::io::Errno;
use std::time::Instant;
use trimtab_drive::Extent;
use trimtab_linux::sys::ublk::queue::RequestDescriptor;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROES: u32 = 5;
/// Mask of the operation; the bits above are flags.
const OPERATION: u32 = 0xFF;
/// Durable when answered.
const FUA: u32 = 1 << 13;
/// Write zeros instead of unmapping.
const NO_UNMAP: u32 = 1 << 15;
const SECTOR: u64 = 512;

/// The result of a request, and the time at which the kernel may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkCompletion {
    /// Bytes moved, or a negative error number.
    pub result: i32,
    /// Earliest completion; `None` for immediately.
    pub due: Option<Instant>,
}

/// Executes the request on `drive`, with its data in `memory`.
pub fn serve(
    drive: &dyn RequestServer,
    described: &RequestDescriptor,
    memory: &mut [u8],
) -> UblkCompletion {
    let extent = Extent {
        offset: described.sector.saturating_mul(SECTOR),
        len: u64::from(described.sectors) * SECTOR,
    };
    let fua = described.operation & FUA != 0;
    // The kernel never requests more than the memory it was given.
    let data = usize::try_from(extent.len).ok().and_then(|len| memory.get_mut(..len));
    let (served, moved): (RequestResult, u64) = match (described.operation & OPERATION, data) {
        (READ, Some(into)) => {
            (drive.serve(Request::Read { offset: extent.offset, into }), extent.len)
        }
        (WRITE, Some(data)) => {
            (drive.serve(Request::Write { offset: extent.offset, data, fua }), extent.len)
        }
        (READ | WRITE, None) => (RequestResult::refused(Errno::INVAL), 0),
        (FLUSH, _) => (drive.serve(Request::Flush), 0),
        (DISCARD, _) => (drive.serve(Request::Trim(&[extent], Effect::Usual)), 0),
        (WRITE_ZEROES, _) => (
            drive.serve(Request::Zero {
                extent,
                may_unmap: described.operation & NO_UNMAP == 0,
                fua,
            }),
            0,
        ),
        _ => (RequestResult::refused(Errno::OPNOTSUPP), 0),
    };
    // For requests without data the kernel expects 0 bytes.
    let result = match served.result {
        Ok(()) => moved as i32,
        Err(errno) => -errno.raw_os_error(),
    };
    UblkCompletion { result, due: served.due }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Geometry;
    use std::sync::Mutex;

    /// Records requests, and fails beyond 1 MiB; all completions are due at the same
    /// time.
    struct RecordingDrive(Mutex<Vec<String>>, Instant);

    impl RequestServer for RecordingDrive {
        fn geometry(&self) -> Geometry {
            unreachable!("not called")
        }

        fn serve(&self, request: Request<'_>) -> RequestResult {
            let (text, at) = match request {
                Request::Read { offset, into } => {
                    into.fill(9);
                    (format!("read {} at {offset}", into.len()), offset)
                }
                Request::Write { offset, data, fua } => {
                    (format!("write {:?} at {offset} {fua}", data[0]), offset)
                }
                Request::Trim(extents, effect) => (format!("trim {extents:?} {effect:?}"), 0),
                Request::Zero { extent, may_unmap, fua } => {
                    (format!("zero {extent:?} {may_unmap} {fua}"), 0)
                }
                Request::Flush => ("flush".to_owned(), 0),
            };
            self.0.lock().unwrap().push(text);
            RequestResult {
                result: if at < 1 << 20 { Ok(()) } else { Err(Errno::IO) },
                due: Some(self.1),
            }
        }
    }

    fn asked(
        operation: u32,
        sector: u64,
        sectors: u32,
        memory: &mut [u8],
    ) -> (UblkCompletion, String, Instant) {
        let drive = RecordingDrive(Mutex::default(), Instant::now());
        let answer = serve(&drive, &RequestDescriptor::new(operation, sector, sectors), memory);
        let text = drive.0.lock().unwrap().join("; ");
        (answer, text, drive.1)
    }

    #[test]
    fn serve_passes_operations_and_flags_to_drive() {
        const EXTENT: &str = "Extent { offset: 1024, len: 2048 }";
        for (operation, expected, result) in [
            (READ, "read 2048 at 1024".to_owned(), 2048),
            (WRITE, "write 7 at 1024 false".to_owned(), 2048),
            (WRITE | FUA, "write 7 at 1024 true".to_owned(), 2048),
            (FLUSH, "flush".to_owned(), 0),
            (DISCARD, format!("trim [{EXTENT}] Usual"), 0),
            (WRITE_ZEROES, format!("zero {EXTENT} true false"), 0),
            (WRITE_ZEROES | NO_UNMAP | FUA, format!("zero {EXTENT} false true"), 0),
        ] {
            let mut memory = [7; 4096];
            let (answer, text, due) = asked(operation, 2, 4, &mut memory);
            assert_eq!(
                (text, answer),
                (expected, UblkCompletion { result, due: Some(due) }),
                "{operation:#x}"
            );
            assert_eq!(
                (memory[2047] == 9, memory[2048]),
                (operation == READ, 7),
                "no more than was asked for is read"
            );
        }
    }

    #[test]
    fn serve_keeps_errno_and_due_time() {
        let (answer, _, due) = asked(READ, 4096, 1, &mut [0; 4096]);
        assert_eq!(answer, UblkCompletion { result: -libc::EIO, due: Some(due) });
    }

    #[test]
    fn serve_refuses_invalid_requests() {
        for (operation, sectors, errno) in [
            (READ, 9, libc::EINVAL),
            (WRITE, 9, libc::EINVAL),
            (4, 1, libc::EOPNOTSUPP),
            (13, 1, libc::EOPNOTSUPP),
        ] {
            let (answer, text, _) = asked(operation, 0, sectors, &mut [0; 4096]);
            assert_eq!(
                (answer.result, answer.due, text.as_str()),
                (-errno, None, ""),
                "{operation} of {sectors}"
            );
        }
    }

    #[test]
    fn discard_may_be_longer_than_memory() {
        let (answer, text, _) = asked(DISCARD, 0, u32::MAX, &mut [0; 512]);
        assert_eq!(
            (answer.result, text.as_str()),
            (0, "trim [Extent { offset: 0, len: 2199023255040 }] Usual")
        );
    }
}
