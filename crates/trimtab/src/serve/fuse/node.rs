//! The file that is served, and how requests for it are answered.

use super::FILE;
use super::wire::{self, Operation};
use crate::serve::request::{Effect, Geometry, Request, Serve, Served};
use crate::sys::fuse_ring::Headers;
use fuser::{FileAttr, FileType, INodeNo};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use trimtab_core::drive::Extent;

/// The file that is served, and the directory that it is in.
pub struct Node {
    pub drive: Arc<dyn Serve>,
    pub geometry: Geometry,
    name: OsString,
    mounted: SystemTime,
}

impl Node {
    pub fn new(drive: Arc<dyn Serve>, name: &str) -> Self {
        let geometry = drive.geometry();
        Self { drive, geometry, name: name.into(), mounted: SystemTime::now() }
    }

    pub fn attributes(&self, inode: INodeNo) -> FileAttr {
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

    pub fn is(&self, parent: INodeNo, name: &OsStr) -> bool {
        parent == INodeNo::ROOT && name == self.name
    }

    /// The loop driver takes the block size of its file's filesystem as discard granularity.
    pub fn block(&self) -> u32 {
        self.geometry.discard_granularity.max(self.geometry.logical_block)
    }

    /// How much of a read lies in the file.
    pub fn readable(&self, offset: u64, size: u32) -> usize {
        u64::from(size).min(self.geometry.size.saturating_sub(offset)) as usize
    }

    pub fn allocate(&self, extent: Extent, mode: i32) -> Served {
        if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            if self.geometry.discard_granularity == 0 {
                // Discard is switched off at the device, so this is a zero-write, which the loop driver sends in the same words.
                self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
            } else {
                self.drive.serve(Request::Trim(&[extent], Effect::Usual))
            }
        } else if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.drive.serve(Request::Zero { extent, may_unmap: false, fua: false })
        } else {
            Served::refused(Errno::OPNOTSUPP)
        }
    }

    /// Answers a request that came over io_uring, in its own memory. Gives when the answer is due.
    pub fn answer(&self, headers: &mut Headers, payload: &mut [u8]) -> Option<Instant> {
        let arrived = headers.payload_bytes as usize;
        let served = |served: Served, bytes| (served.result.map(|()| bytes), served.due);
        let (result, due) = match headers.operation() {
            Operation::Read { offset, len } => {
                let len = self.readable(offset, len);
                served(self.drive.serve(Request::Read { offset, into: &mut payload[..len] }), len)
            }
            Operation::Write { offset, len } if len as usize == arrived => {
                let answer = self.drive.serve(Request::Write { offset, data: &payload[..arrived], fua: false });
                served(answer, wire::written(payload, len))
            }
            Operation::Sync => served(self.drive.serve(Request::Flush), 0),
            Operation::Allocate { offset, len, mode } => served(self.allocate(Extent { offset, len }, mode), 0),
            Operation::Lookup { parent } => {
                let name = payload[..arrived].split(|byte| *byte == 0).next().unwrap_or_default();
                match self.is(INodeNo(parent), OsStr::from_bytes(name)) {
                    true => (Ok(wire::entry(payload, &self.attributes(FILE))), None),
                    false => (Err(Errno::NOENT), None),
                }
            }
            Operation::GetAttributes { inode } => (Ok(wire::attributes(payload, &self.attributes(INodeNo(inode)))), None),
            Operation::Open { inode } if INodeNo(inode) == FILE => (Ok(wire::opened(payload, true)), None),
            Operation::Open { .. } => (Err(Errno::ISDIR), None),
            Operation::OpenDirectory => (Ok(wire::opened(payload, false)), None),
            Operation::StatFs => (Ok(wire::statfs(payload, self.geometry.size, self.block())), None),
            Operation::Agree => (Ok(0), None),
            Operation::Write { .. } => (Err(Errno::INVAL), None),
            Operation::Other => (Err(Errno::NOSYS), None),
        };
        headers.answer(result);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::fuse::wire::tests::{answer_of, request};
    use crate::serve::request::Stretch;
    use std::sync::Mutex;
    use std::time::Duration;

    /// Keeps what is written; everything is due in an hour.
    struct Disk {
        data: Mutex<Vec<u8>>,
        granularity: u32,
        asked: Mutex<Vec<String>>,
        due: Instant,
    }

    impl Serve for Disk {
        fn geometry(&self) -> Geometry {
            Geometry {
                size: self.data.lock().unwrap().len() as u64,
                logical_block: 512,
                atomic_write: 4096,
                discard_granularity: self.granularity,
                discard_max_bytes: 1 << 20,
                rotational: false,
                volatile_cache: true,
            }
        }

        fn stretches(&self, _: Extent, _: usize) -> Result<Vec<Stretch>, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        fn serve(&self, request: Request<'_>) -> Served {
            let mut data = self.data.lock().unwrap();
            self.asked.lock().unwrap().push(match &request {
                Request::Read { offset, into } => format!("read {} at {offset}", into.len()),
                Request::Write { offset, data, .. } => format!("write {} at {offset}", data.len()),
                Request::Trim(extents, _) => format!("trim {extents:?}"),
                Request::Zero { extent, .. } => format!("zero {extent:?}"),
                Request::Flush => "flush".to_owned(),
            });
            match request {
                Request::Read { offset, into } => into.copy_from_slice(&data[offset as usize..][..into.len()]),
                Request::Write { offset: 1024, .. } => return Served { result: Err(Errno::IO), due: Some(self.due) },
                Request::Write { offset, data: new, .. } => data[offset as usize..][..new.len()].copy_from_slice(new),
                _ => {}
            }
            Served { result: Ok(()), due: Some(self.due) }
        }
    }

    fn disk(granularity: u32) -> Arc<Disk> {
        let due = Instant::now() + Duration::from_secs(3600);
        Arc::new(Disk { data: Mutex::new(vec![7; 4096]), granularity, asked: Mutex::default(), due })
    }

    #[test]
    fn reads_and_writes_reach_the_drive_and_are_answered_when_it_says() {
        let disk = disk(4096);
        let node = Node::new(Arc::clone(&disk) as _, "disk");
        let mut payload = vec![0; 8192];

        payload[..512].fill(9);
        let mut write = request(16, 2, &[0, 512, 512], 512);
        assert_eq!(node.answer(&mut write, &mut payload), Some(disk.due));
        assert_eq!(answer_of(&write), (0, 8));
        assert_eq!(payload[..8], [0, 2, 0, 0, 0, 0, 0, 0], "as much as was sent is written");

        let mut read = request(15, 2, &[0, 0, 1024], 0);
        assert_eq!(node.answer(&mut read, &mut payload), Some(disk.due));
        assert_eq!(answer_of(&read), (0, 1024));
        assert!(payload[..512].iter().all(|byte| *byte == 7) && payload[512..1024].iter().all(|byte| *byte == 9));

        let mut beyond = request(15, 2, &[0, 3584, 4096], 0);
        node.answer(&mut beyond, &mut payload);
        assert_eq!(answer_of(&beyond), (0, 512), "no more than there is");

        let mut failing = request(16, 2, &[0, 1024, 512], 512);
        assert_eq!(node.answer(&mut failing, &mut payload), Some(disk.due), "errors wait for their time too");
        assert_eq!(answer_of(&failing), (-libc::EIO, 0));

        let mut short = request(16, 2, &[0, 0, 512], 100);
        assert_eq!(node.answer(&mut short, &mut payload), None);
        assert_eq!(answer_of(&short).0, -libc::EINVAL, "what was not sent whole is not written");
    }

    #[test]
    fn discards_are_told_from_zeroes_as_the_loop_driver_sends_them() {
        const PUNCH: u64 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;
        const ZERO: u64 = (libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE) as u64;
        for (granularity, mode, expected) in [
            (4096, PUNCH, "trim [Extent { offset: 512, len: 1024 }]"),
            (0, PUNCH, "zero Extent { offset: 512, len: 1024 }"),
            (4096, ZERO, "zero Extent { offset: 512, len: 1024 }"),
        ] {
            let disk = disk(granularity);
            let node = Node::new(Arc::clone(&disk) as _, "disk");
            let mut asked = request(43, 2, &[0, 512, 1024, mode], 0);
            assert_eq!(node.answer(&mut asked, &mut []), Some(disk.due));
            assert_eq!(answer_of(&asked), (0, 0));
            assert_eq!(*disk.asked.lock().unwrap(), [expected]);
        }
        let mut other = request(43, 2, &[0, 0, 512, 0], 0);
        Node::new(disk(4096), "disk").answer(&mut other, &mut []);
        assert_eq!(answer_of(&other), (-libc::EOPNOTSUPP, 0));
    }

    #[test]
    fn the_file_is_found_by_its_name_alone() {
        let node = Node::new(disk(4096), "disk");
        for (parent, name, expected) in [(1, "disk", (0, 128)), (1, "other", (-libc::ENOENT, 0)), (2, "disk", (-libc::ENOENT, 0))] {
            let mut payload = vec![0; 4096];
            payload[..name.len()].copy_from_slice(name.as_bytes());
            let mut lookup = request(1, parent, &[], name.len() as u32 + 1);
            assert_eq!(node.answer(&mut lookup, &mut payload), None);
            assert_eq!(answer_of(&lookup), expected, "{name} in {parent}");
        }
        let mut payload = vec![0; 4096];
        let answered = |opcode, payload: &mut [u8]| {
            let mut headers = request(opcode, 2, &[], 0);
            node.answer(&mut headers, payload);
            answer_of(&headers)
        };
        let (getattr, open, statfs, release, ioctl) = (3, 14, 17, 18, 39);
        assert_eq!([getattr, open, statfs, release].map(|opcode| answered(opcode, &mut payload)), [(0, 104), (0, 16), (0, 80), (0, 0)]);
        assert_eq!(answered(ioctl, &mut payload), (-libc::ENOSYS, 0));
    }
}
