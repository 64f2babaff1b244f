//! The front end that the kernel's loop driver stands on: one file, served over FUSE.
//!
//! The file is opened for direct I/O, so nothing is cached between the loop device and the engine: a flush of the
//! device reaches the drive with everything before it, and the drive sees exactly the requests of the block layer.

use crate::serve::pace::Pacer;
use crate::serve::request::{Geometry, Request, Serve, Served};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use trimtab_core::drive::Extent;

const FILE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes, so the kernel need not ask again.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// The kernel's own limit for one FUSE request (`fs.fuse.max_pages_limit`, 256 pages) unless raised.
pub const MAX_REQUEST_BYTES: u32 = 1 << 20;

thread_local! {
    /// What a read is gathered in; handed on only when the answer has to wait.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A filesystem of one file.
pub struct OneFile {
    drive: Arc<dyn Serve>,
    pacer: Arc<Pacer>,
    geometry: Geometry,
    name: OsString,
    mounted: SystemTime,
}

impl OneFile {
    /// Serves `drive` as a file `name`.
    pub fn new(drive: Arc<dyn Serve>, pacer: Arc<Pacer>, name: &str) -> Self {
        let geometry = drive.geometry();
        Self { drive, pacer, geometry, name: name.into(), mounted: SystemTime::now() }
    }

    /// Mounts it on the directory `mountpoint` and serves it with `threads` threads until it is unmounted.
    pub fn mount(self, mountpoint: &Path, threads: usize) -> std::io::Result<fuser::BackgroundSession> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("trimtab".into()),
            MountOption::Subtype("trimtab".into()),
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.n_threads = Some(threads);
        config.clone_fd = true;
        fuser::Session::new(self, mountpoint, &config)?.spawn()
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

    /// Answers `reply` when `served` is due.
    fn answer_empty(&self, served: Served, reply: ReplyEmpty) {
        self.pacer.at(served.due, move || match served.result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(fuse_errno(errno)),
        });
    }
}

fn fuse_errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

impl Filesystem for OneFile {
    fn init(&mut self, _request: &fuser::Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        // The loop driver keeps up to 128 requests in flight; none of them should wait for another in the kernel.
        let _ = config.set_max_background(1024);
        let _ = config.set_congestion_threshold(1024);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &fuser::Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn statfs(&self, _request: &fuser::Request, _inode: INodeNo, reply: ReplyStatfs) {
        // The loop driver takes the block size of its file's filesystem as discard granularity.
        let block = self.geometry.discard_granularity.max(self.geometry.logical_block);
        reply.statfs(self.geometry.size / u64::from(block), 0, 0, 1, 0, block, 255, block);
    }

    fn open(&self, _request: &fuser::Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if inode == FILE {
            let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
            reply.opened(FileHandle(0), flags);
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
        let len = u64::from(size).min(self.geometry.size.saturating_sub(offset)) as usize;
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

    fn fsync(&self, _request: &fuser::Request, _inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
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
        let extent = Extent { offset, len: length };
        let served = if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            if self.geometry.discard_granularity == 0 {
                // Discard is switched off at the device, so this is a zero-write, which the loop driver sends in the same words.
                self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
            } else {
                self.drive.serve(Request::Trim(&[extent]))
            }
        } else if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
        } else {
            Served::refused(rustix::io::Errno::OPNOTSUPP)
        };
        self.answer_empty(served, reply);
    }
}
