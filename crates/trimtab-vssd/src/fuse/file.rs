//! The served file, its directory, and the handling of their FUSE requests.

use super::MAX_REQUEST_BYTES;
use crate::pace::Pacer;
use crate::request::{Effect, Geometry, Request, RequestResult, RequestServer};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use trimtab_drive::Extent;

const FILE: INodeNo = INodeNo(2);
/// Attributes never change, so the kernel may cache them indefinitely.
const ATTRIBUTE_TTL: Duration = Duration::from_secs(365 * 86_400);
const OPEN_FLAGS: FopenFlags = FopenFlags::FOPEN_DIRECT_IO
    .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES)
    .union(FopenFlags::FOPEN_NOFLUSH);

thread_local! {
    /// Buffer for reads; moved out only if the completion is delayed.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A filesystem with a single file.
pub struct SingleFileFilesystem {
    drive: Arc<dyn RequestServer>,
    geometry: Geometry,
    pacer: Arc<Pacer>,
    name: OsString,
    mounted: SystemTime,
}

impl SingleFileFilesystem {
    pub fn new(drive: Arc<dyn RequestServer>, pacer: Arc<Pacer>, name: &str) -> Self {
        let geometry = drive.geometry();
        Self { drive, geometry, pacer, name: name.into(), mounted: SystemTime::now() }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if file { self.geometry.size } else { 0 },
            blocks: if file { self.geometry.size / 512 } else { 0 },
            atime: self.mounted,
            mtime: self.mounted,
            ctime: self.mounted,
            crtime: self.mounted,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o500 },
            nlink: if file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: self.geometry.logical_block,
            flags: 0,
        }
    }

    fn is(&self, parent: INodeNo, name: &OsStr) -> bool {
        parent == INodeNo::ROOT && name == self.name
    }

    /// The loop driver uses the block size of its file's filesystem as its discard
    /// granularity.
    fn block(&self) -> u32 {
        self.geometry.discard_granularity.max(self.geometry.logical_block)
    }

    fn readable(&self, offset: u64, size: u32) -> usize {
        u64::from(size).min(self.geometry.size.saturating_sub(offset)) as usize
    }

    fn allocate(&self, extent: Extent, mode: i32) -> RequestResult {
        if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            if self.geometry.discard_granularity == 0 {
                // Discard is disabled on the device, so this is a zero-write, which looks
                // the same.
                self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
            } else {
                self.drive.serve(Request::Trim(&[extent], Effect::Usual))
            }
        } else if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
        } else {
            RequestResult::refused(rustix::io::Errno::OPNOTSUPP)
        }
    }

    /// Replies when `served` is due.
    fn answer_empty(&self, served: RequestResult, reply: ReplyEmpty) {
        self.pacer.at(served.due, move || match served.result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(fuse_errno(errno)),
        });
    }
}

fn fuse_errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

impl Filesystem for SingleFileFilesystem {
    fn init(
        &mut self,
        _request: &fuser::Request,
        config: &mut KernelConfig,
    ) -> std::io::Result<()> {
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        // The loop driver keeps up to 128 requests in flight; the kernel should queue
        // none.
        let _ = config.set_max_background(1024);
        let _ = config.set_congestion_threshold(1024);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.is(parent, name) {
            reply.entry(&ATTRIBUTE_TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(
        &self,
        _request: &fuser::Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&ATTRIBUTE_TTL, &self.attributes(inode));
    }

    fn statfs(&self, _request: &fuser::Request, _inode: INodeNo, reply: ReplyStatfs) {
        let block = self.block();
        reply.statfs(self.geometry.size / u64::from(block), 0, 0, 1, 0, block, 255, block);
    }

    fn open(&self, _request: &fuser::Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if inode == FILE {
            reply.opened(FileHandle(0), OPEN_FLAGS);
        } else {
            reply.error(Errno::EISDIR);
        }
    }

    fn release(
        &self,
        _request: &fuser::Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn read(
        &self,
        _request: &fuser::Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = self.readable(offset, size);
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let served = self.drive.serve(Request::Read { offset, into: &mut buffer[..len] });
            match (served.result, served.due) {
                (Ok(()), None) => reply.data(&buffer[..len]),
                (Ok(()), due) => {
                    let data = std::mem::take(buffer);
                    self.pacer.at(due, move || reply.data(&data[..len]));
                }
                (Err(errno), due) => self.pacer.at(due, move || reply.error(fuse_errno(errno))),
            }
        });
    }

    fn write(
        &self,
        _request: &fuser::Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = data.len() as u32;
        let served = self.drive.serve(Request::Write { offset, data, fua: false });
        self.pacer.at(served.due, move || match served.result {
            Ok(()) => reply.written(size),
            Err(errno) => reply.error(fuse_errno(errno)),
        });
    }

    fn fsync(
        &self,
        _request: &fuser::Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.answer_empty(self.drive.serve(Request::Flush), reply);
    }

    fn fallocate(
        &self,
        _request: &fuser::Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.answer_empty(self.allocate(Extent { offset, len: length }, mode), reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Instant;

    /// Records its requests; every completion is due in an hour.
    struct Disk {
        granularity: u32,
        asked: Mutex<Vec<String>>,
        due: Instant,
    }

    impl RequestServer for Disk {
        fn geometry(&self) -> Geometry {
            Geometry {
                size: 4096,
                logical_block: 512,
                atomic_write: 4096,
                discard_granularity: self.granularity,
                discard_max_bytes: 1 << 20,
                volatile_cache: true,
            }
        }

        fn serve(&self, request: Request<'_>) -> RequestResult {
            self.asked.lock().unwrap().push(match &request {
                Request::Trim(extents, _) => format!("trim {extents:?}"),
                Request::Zero { extent, .. } => format!("zero {extent:?}"),
                _ => panic!("neither a TRIM nor a zero-write"),
            });
            RequestResult { result: Ok(()), due: Some(self.due) }
        }
    }

    fn disk(granularity: u32) -> Arc<Disk> {
        Arc::new(Disk {
            granularity,
            asked: Mutex::default(),
            due: Instant::now() + Duration::from_secs(3600),
        })
    }

    fn file(disk: &Arc<Disk>) -> SingleFileFilesystem {
        SingleFileFilesystem::new(Arc::clone(disk) as _, Arc::new(Pacer::start().unwrap()), "disk")
    }

    #[test]
    fn fallocate_distinguishes_discards_from_zero_writes() {
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
        for (granularity, mode, expected) in [
            (4096, PUNCH, "trim [Extent { offset: 512, len: 1024 }]"),
            (0, PUNCH, "zero Extent { offset: 512, len: 1024 }"),
            (4096, ZERO, "zero Extent { offset: 512, len: 1024 }"),
        ] {
            let disk = disk(granularity);
            let served = file(&disk).allocate(Extent { offset: 512, len: 1024 }, mode);
            assert_eq!((served.result, served.due), (Ok(()), Some(disk.due)));
            assert_eq!(*disk.asked.lock().unwrap(), [expected]);
        }
        let disk = disk(4096);
        assert_eq!(
            file(&disk).allocate(Extent { offset: 0, len: 512 }, 0).result,
            Err(rustix::io::Errno::OPNOTSUPP)
        );
        assert!(disk.asked.lock().unwrap().is_empty());
    }

    #[test]
    fn lookup_finds_only_the_file_and_read_stops_at_end() {
        let file = file(&disk(4096));
        let found = [(1, "disk"), (1, "other"), (2, "disk")]
            .map(|(parent, name)| file.is(INodeNo(parent), OsStr::new(name)));
        assert_eq!(found, [true, false, false]);
        assert_eq!(
            [(0, 1024), (3584, 4096), (4096, 512), (u64::MAX, 1)]
                .map(|(at, size)| file.readable(at, size)),
            [1024, 512, 0, 0]
        );
    }
}
