//! Requests and answers through `/dev/fuse`.

use super::node::Node;
use super::{FILE, FOREVER, MAX_REQUEST_BYTES, OPENED};
use crate::serve::pace::Pacer;
use crate::serve::request::{Request, Served};
use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trimtab_core::drive::Extent;

thread_local! {
    /// What a read is gathered in; handed on only when the answer has to wait.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A filesystem of one file.
pub struct OneFile {
    pub node: Arc<Node>,
    pub pacer: Arc<Pacer>,
    /// Ask the kernel for requests over io_uring; then whether it has agreed.
    pub over_rings: Arc<AtomicBool>,
}

impl OneFile {
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
        if self.over_rings.load(Ordering::Relaxed) {
            let agreed = config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
            self.over_rings.store(agreed, Ordering::Relaxed);
        }
        Ok(())
    }

    fn lookup(&self, _request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.node.is(parent, name) {
            reply.entry(&FOREVER, &self.node.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &fuser::Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.node.attributes(inode));
    }

    fn statfs(&self, _request: &fuser::Request, _inode: INodeNo, reply: ReplyStatfs) {
        let block = self.node.block();
        reply.statfs(self.node.geometry.size / u64::from(block), 0, 0, 1, 0, block, 255, block);
    }

    fn open(&self, _request: &fuser::Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if inode == FILE {
            reply.opened(FileHandle(0), OPENED);
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
        let len = self.node.readable(offset, size);
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let served = self.node.drive.serve(Request::Read { offset, into: &mut buffer[..len] });
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
        let served = self.node.drive.serve(Request::Write { offset, data, fua: false });
        self.pacer.at(served.due, move || match served.result {
            Ok(()) => reply.written(size),
            Err(errno) => reply.error(fuse_errno(errno)),
        });
    }

    fn fsync(&self, _request: &fuser::Request, _inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.answer_empty(self.node.drive.serve(Request::Flush), reply);
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
        self.answer_empty(self.node.allocate(Extent { offset, len: length }, mode), reply);
    }
}
