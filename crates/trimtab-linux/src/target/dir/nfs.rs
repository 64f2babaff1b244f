//! The operations of an NFS server, as the system calls that it would make: look up the
//! name, act, make the change durable, reply.

use super::{DirTarget, check_interrupt, close, piece};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, Mode, OFlags, RawDir, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_sim::op::NfsOp;
use trimtab_sim::op::Payload;
use trimtab_sim::target::{NfsTarget, TargetError, TargetResult};

/// Size in bytes of the directory entries in one reply, as Linux clients request it.
const REPLY_BYTES: usize = 32 << 10;

impl DirTarget {
    /// Makes the entries of the parent directory of `path` durable.
    fn commit_parent(&mut self, path: &str) -> Result<(), Errno> {
        self.at(path, |dir, _| {
            let dir =
                rustix::fs::openat(dir, c".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            rustix::fs::fsync(&dir)
        })
    }

    fn list(&mut self, path: &str, plus: bool) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = self.at(path, |dir, name| rustix::fs::openat(dir, name, flags, Mode::empty()))?;
        let mut reply = [MaybeUninit::uninit(); REPLY_BYTES];
        let mut entries = RawDir::new(&dir, &mut reply);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if plus {
                rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    fn read_all_at(&mut self, file: &OwnedFd, mut offset: u64, len: u64) -> Result<bool, Errno> {
        if self.buffer.len() < len as usize {
            self.buffer.resize(len as usize, 0);
        }
        let mut rest = &mut self.buffer[..len as usize];
        while !rest.is_empty() {
            match rustix::io::pread(file, &mut *rest, offset) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    offset += n as u64;
                    rest = &mut rest[n..];
                }
                Err(Errno::INTR) => check_interrupt()?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    fn write_all_at(
        &mut self,
        file: &OwnedFd,
        mut offset: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Errno> {
        let mut rest = piece(payload, 0, payload.len(), &mut self.data, &mut self.buffer);
        while !rest.is_empty() {
            match rustix::io::pwrite(file, rest, offset) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(n) => {
                    offset += n as u64;
                    rest = &rest[n..];
                }
                Err(Errno::INTR) => check_interrupt()?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl NfsTarget for DirTarget {
    fn symlink(&mut self, path: &str, to: &str) -> TargetResult {
        let made = self.at(path, |dir, name| rustix::fs::symlinkat(to, dir, name));
        made.map_err(|errno| self.error("make link", path, errno))
    }

    fn serve(&mut self, op: &NfsOp<'_>, data: DataClass) -> TargetResult {
        match op.kind {
            OpKind::Lookup => self.lookup(op.path),
            OpKind::SetAttr => self.setattr(op.path),
            OpKind::ReadLink => self.readlink(op.path),
            OpKind::ReadDir => self.readdir(op.path, false),
            OpKind::ReadDirPlus => self.readdir(op.path, true),
            OpKind::Access => self.access(op.path),
            OpKind::FsStat => self.fsstat(),
            OpKind::Read => self.read_at(op.path, op.offset, op.len),
            OpKind::Write => {
                self.write_at(op.path, op.offset, &Payload::Fill { len: op.len, class: data })
            }
            OpKind::Create => self.create_stable(op.path),
            OpKind::Delete => self.remove_stable(op.path),
            _ => self.getattr(op.path),
        }
    }
}

// The operations. Changes are durable on return.
impl DirTarget {
    fn lookup(&mut self, path: &str) -> TargetResult {
        let file = self.open("look up", path, OFlags::PATH | OFlags::NOFOLLOW, 0)?;
        close(file).map_err(|errno| self.error("close", path, errno))
    }

    fn getattr(&mut self, path: &str) -> TargetResult {
        let stat =
            self.at(path, |dir, name| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW));
        stat.map(drop).map_err(|errno| self.error("read the attributes of", path, errno))
    }

    fn setattr(&mut self, path: &str) -> TargetResult {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let file = self.open("open", path, OFlags::RDONLY, 0)?;
        let set = rustix::fs::futimens(&file, &times).and_then(|()| rustix::fs::fsync(&file));
        set.map_err(|errno| self.error("set the times of", path, errno))
    }

    fn readdir(&mut self, path: &str, plus: bool) -> TargetResult {
        self.list(path, plus).map_err(|errno| self.error("list", path, errno))
    }

    fn readlink(&mut self, path: &str) -> TargetResult {
        let mut buffer = [MaybeUninit::uninit(); 256];
        let read =
            self.at(path, |dir, name| rustix::fs::readlinkat_raw(dir, name, &mut buffer).map(drop));
        read.map_err(|errno| self.error("read the link", path, errno))
    }

    fn access(&mut self, path: &str) -> TargetResult {
        let allowed = self.at(path, |dir, name| {
            rustix::fs::accessat(dir, name, Access::READ_OK, AtFlags::empty())
        });
        allowed.map_err(|errno| self.error("check the permissions of", path, errno))
    }

    fn fsstat(&mut self) -> TargetResult {
        rustix::fs::fstatvfs(self.dirs.root())
            .map(drop)
            .map_err(|errno| self.error("read the size of the filesystem of", "", errno))
    }

    fn read_at(&mut self, path: &str, offset: u64, len: u64) -> TargetResult {
        let file = self.open("open", path, OFlags::RDONLY, 0)?;
        match self.read_all_at(&file, offset, len) {
            Ok(true) => close(file).map_err(|errno| self.error("close", path, errno)),
            Ok(false) => {
                let reason =
                    format!("the file ends before byte {}, which was written to it", offset + len);
                Err(TargetError::new(
                    "read",
                    self.path.join(path).display().to_string(),
                    reason,
                    None,
                ))
            }
            Err(errno) => Err(self.error("read", path, errno)),
        }
    }

    fn write_at(&mut self, path: &str, offset: u64, payload: &Payload<'_>) -> TargetResult {
        let file = self.open("open", path, OFlags::WRONLY | OFlags::DSYNC, 0)?;
        self.dirs.check_file(&file).map_err(|errno| self.error("open", path, errno))?;
        self.write_all_at(&file, offset, payload)
            .map_err(|errno| self.error("write", path, errno))?;
        close(file).map_err(|errno| self.error("close", path, errno))
    }

    fn create_stable(&mut self, path: &str) -> TargetResult {
        let file =
            self.open("create", path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, 0o644)?;
        close(file)
            .and_then(|()| self.commit_parent(path))
            .map_err(|errno| self.error("create", path, errno))
    }

    fn remove_stable(&mut self, path: &str) -> TargetResult {
        let removed = self
            .at(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
            .and_then(|()| self.commit_parent(path));
        removed.map_err(|errno| self.error("remove", path, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::super::DirOptions;
    use super::*;

    fn open() -> (tempfile::TempDir, DirTarget) {
        let dir = tempfile::tempdir().unwrap();
        let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
            .unwrap();
        let target = DirTarget::new(fd, dir.path(), DirOptions::default());
        (dir, target)
    }

    #[test]
    fn nfs_operations_change_files_as_named() {
        let (dir, mut target) = open();
        target.make_dir("d").unwrap();
        target.symlink("d/link", "f").unwrap();
        target.create_stable("d/f").unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
        target
            .write_at("d/f", 0, &Payload::Bytes { bytes: &bytes, class: DataClass::Random })
            .unwrap();
        target
            .write_at("d/f", 150_000, &Payload::Fill { len: 135 << 10, class: DataClass::Zero })
            .unwrap();
        let content = std::fs::read(dir.path().join("d/f")).unwrap();
        assert!(content.len() == 150_000 + (135 << 10) && content[..150_000] == bytes[..150_000]);
        assert!(content[150_000..].iter().all(|b| *b == 0));
        let old = std::fs::metadata(dir.path().join("d/f")).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        target.setattr("d/f").unwrap();
        assert!(std::fs::metadata(dir.path().join("d/f")).unwrap().modified().unwrap() > old);
        for result in [
            target.lookup("d/f"),
            target.getattr("d/f"),
            target.access("d/f"),
            target.fsstat(),
            target.readlink("d/link"),
        ] {
            result.unwrap();
        }
        target.readdir("d", false).unwrap();
        target.readdir("d", true).unwrap();
        target.read_at("d/f", 8192, 140_000).unwrap();
        target.remove_stable("d/f").unwrap();
        assert!(!dir.path().join("d/f").exists());
    }

    #[test]
    fn failed_nfs_operation_returns_errno() {
        let (_dir, mut target) = open();
        target.create_stable("f").unwrap();
        assert_eq!(target.create_stable("f").unwrap_err().errno, Some(libc::EEXIST));
        let missing = [
            target.lookup("no"),
            target.getattr("no"),
            target.setattr("no"),
            target.readdir("no", true),
            target.readlink("no"),
            target.access("no"),
            target.read_at("no", 0, 1),
            target.write_at("no", 0, &Payload::Fill { len: 1, class: DataClass::Zero }),
            target.remove_stable("no"),
        ];
        assert!(
            missing.iter().all(|result| result
                .as_ref()
                .is_err_and(|error| error.errno == Some(libc::ENOENT))),
            "{missing:?}"
        );
        assert!(target.read_at("f", 0, 1).unwrap_err().reason.contains("ends before byte 1"));
    }
}
