//! The bytes of the drive: sparse, in memory or in a file. Both are an open file; the
//! kernel allocates pages on write and frees them on trim. No lock of ours is needed.

use anyhow::Context as _;
use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use trimtab_drive::Extent;
use trimtab_linux::host::memory;
use trimtab_linux::host::users;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};

/// Number of bytes written between two checks of the free memory.
const MEMORY_CHECK_BYTES: u64 = 32 << 20;
/// Memory reserved for the rest of the machine.
const MEMORY_RESERVE: u64 = 256 << 20;

/// A sparse byte array. Unwritten or trimmed ranges read as zeros and take no space.
#[derive(Debug)]
pub struct Store {
    file: File,
    in_memory: bool,
    /// Bytes that may be written before the free memory is checked again; 0 if memory is
    /// short.
    credit: AtomicU64,
}

impl Store {
    /// `size` bytes in memory.
    pub fn in_memory(size: u64) -> anyhow::Result<Self> {
        let fd = rustix::fs::memfd_create("trimtab-drive", MemfdFlags::CLOEXEC)
            .context("cannot create a file in memory")?;
        let file = File::from(fd);
        file.set_len(size).context("cannot size the file in memory")?;
        Ok(Self { file, in_memory: true, credit: AtomicU64::new(0) })
    }

    /// `size` bytes in the file at `path`, created if needed, locked against other
    /// servers.
    pub fn in_file(path: &Path, size: u64) -> anyhow::Result<Self> {
        let shown = path.display();
        let file =
            open_private(path).with_context(|| format!("cannot open the data file {shown}"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                anyhow::bail!(
                    "the data file {shown} is in use by another attached drive (see \
                        `trimtab drive status`)"
                )
            }
            Err(errno) => {
                return Err(errno).with_context(|| format!("cannot lock the data file {shown}"));
            }
        }
        let metadata =
            file.metadata().with_context(|| format!("cannot examine the data file {shown}"))?;
        anyhow::ensure!(metadata.is_file(), "the data file {shown} is not a regular file");
        let users = users::of_file(&file)?;
        anyhow::ensure!(users.is_empty(), "the data file {shown} is in use: {}", users.join(", "));
        anyhow::ensure!(
            metadata.len() == 0 || metadata.len() == size,
            "the data file {shown} has {} bytes, but the drive has {size}",
            metadata.len()
        );
        if metadata.len() == 0 {
            file.set_len(size).with_context(|| format!("cannot size the data file {shown}"))?;
        }
        Ok(Self { file, in_memory: false, credit: AtomicU64::new(0) })
    }

    /// Reads all of `into`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        self.file.read_exact_at(into, offset).map_err(|error| errno_of(&error))
    }

    /// Writes all of `data`. On `ENOSPC` the range may be partly overwritten.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if self.in_memory {
            self.check_memory(offset, data.len() as u64)?;
        }
        self.file.write_all_at(data, offset).map_err(|error| errno_of(&error))
    }

    /// Makes the range read as zeros and frees its space.
    pub fn discard(&self, extent: Extent) -> Result<(), Errno> {
        if extent.len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            extent.offset,
            extent.len,
        ) {
            Err(Errno::OPNOTSUPP) => self.write_zeros(extent),
            result => result,
        }
    }

    /// Flushes written data to the storage below.
    pub fn sync(&self) -> std::io::Result<()> {
        if self.in_memory { Ok(()) } else { self.file.sync_data() }
    }

    /// Storage that the data occupy, in bytes.
    pub fn allocated(&self) -> u64 {
        rustix::fs::fstat(&self.file).map_or(0, |stat| stat.st_blocks as u64 * 512)
    }

    /// The ranges that hold data (are not holes), in order.
    pub fn data_extents(&self) -> impl Iterator<Item = Result<Extent, Errno>> + '_ {
        let mut position = 0;
        std::iter::from_fn(move || {
            let start = match rustix::fs::seek(&self.file, SeekFrom::Data(position)) {
                Ok(start) => start,
                Err(Errno::NXIO) => return None,
                Err(errno) => return Some(Err(errno)),
            };
            let end = match rustix::fs::seek(&self.file, SeekFrom::Hole(start)) {
                Ok(end) => end,
                Err(errno) => return Some(Err(errno)),
            };
            position = end;
            Some(Ok(Extent { offset: start, len: end - start }))
        })
    }

    /// Sets every byte of the range that holds data to `byte`; holes stay.
    pub fn overwrite_data(&self, extent: Extent, byte: u8) -> Result<(), Errno> {
        let end = extent.offset.saturating_add(extent.len);
        let mut position = extent.offset;
        while position < end {
            let start = match rustix::fs::seek(&self.file, SeekFrom::Data(position)) {
                Ok(start) if start < end => start,
                Ok(_) | Err(Errno::NXIO) => break,
                Err(errno) => return Err(errno),
            };
            position = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?.min(end);
            self.fill(Extent { offset: start, len: position - start }, byte)?;
        }
        Ok(())
    }

    /// For filesystems without holes: the same effect without saving space.
    fn write_zeros(&self, extent: Extent) -> Result<(), Errno> {
        self.fill(extent, 0)
    }

    fn fill(&self, extent: Extent, byte: u8) -> Result<(), Errno> {
        let bytes = vec![byte; extent.len.min(64 << 10) as usize];
        let mut done = 0;
        while done < extent.len {
            let part = (extent.len - done).min(bytes.len() as u64);
            self.file
                .write_all_at(&bytes[..part as usize], extent.offset + done)
                .map_err(|error| errno_of(&error))?;
            done += part;
        }
        Ok(())
    }

    /// Refuses new pages when the machine is short of memory: an I/O error for the host
    /// is better than the OOM killer. Existing pages can still be overwritten.
    fn check_memory(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let credit = self.credit.load(Ordering::Relaxed);
        if let Some(rest) = credit.checked_sub(len) {
            // Lost updates between threads only shift the next check slightly.
            self.credit.store(rest, Ordering::Relaxed);
            return Ok(());
        }
        if memory::available().is_none_or(|free| free.0 > MEMORY_RESERVE + MEMORY_CHECK_BYTES) {
            self.credit.store(MEMORY_CHECK_BYTES, Ordering::Relaxed);
            return Ok(());
        }
        let first_hole = rustix::fs::seek(&self.file, SeekFrom::Hole(offset))?;
        if first_hole >= offset + len { Ok(()) } else { Err(Errno::NOSPC) }
    }
}

/// Opens the file and makes it private: it is as sensitive as the drive. Follows no link:
/// another user could place one to turn any file of the right size, or an empty one, into
/// a drive. A file that another user placed would be readable to them.
fn open_private(path: &Path) -> std::io::Result<File> {
    let (directory, name) = Dir::of_file(path)?;
    match directory.open_or_create(name, PRIVATE_FILE) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is a link; name the file itself",
        )),
        opened => {
            let (file, _) = opened?;
            if directory.require_unshared().is_err() {
                Dir::require_trusted_file(&file)?;
            }
            Ok(file)
        }
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EDQUOT) => Errno::NOSPC,
        Some(code) => Errno::from_raw_os_error(code),
        None => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(store: &Store) {
        let mut buffer = [1; 8192];
        store.read(4096, &mut buffer).unwrap();
        assert_eq!(buffer, [0; 8192], "never written");
        store.write(4096, &[7; 8192]).unwrap();
        store.discard(Extent { offset: 8192, len: 512 }).unwrap();
        store.read(4096, &mut buffer).unwrap();
        assert!(buffer[..4096].iter().all(|b| *b == 7) && buffer[4608..].iter().all(|b| *b == 7));
        assert!(buffer[4096..4608].iter().all(|b| *b == 0), "a trim of less than a page");
        assert_eq!(store.allocated(), 8192);
        store.discard(Extent { offset: 4096, len: 8192 }).unwrap();
        assert_eq!(store.allocated(), 0, "trimmed space costs nothing");
    }

    #[test]
    fn store_in_memory_and_in_file_behave_alike() {
        round_trip(&Store::in_memory(1 << 40).unwrap());
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        round_trip(&Store::in_file(&dir.path().join("data"), 1 << 30).unwrap());
    }

    #[test]
    fn in_file_refuses_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        std::fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(
            format!("{:#}", Store::in_file(&link, 1 << 20).unwrap_err()).contains("it is a link")
        );
        assert_eq!(
            std::fs::metadata(victim).unwrap().len(),
            0,
            "another user's empty file does not become a drive"
        );
    }

    #[test]
    fn in_file_refuses_second_server_and_wrong_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let first = Store::in_file(&path, 1 << 20).unwrap();
        let error = Store::in_file(&path, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(first);
        let error = Store::in_file(&path, 2 << 20).unwrap_err().to_string();
        assert!(error.contains("1048576 bytes"), "{error}");
    }

    #[test]
    fn data_extents_lists_ranges_with_data() {
        let store = Store::in_memory(1 << 30).unwrap();
        store.write(1 << 20, &[1; 4096]).unwrap();
        store.write(512 << 20, &[1; 8192]).unwrap();
        let extents: Vec<Extent> = store.data_extents().map(Result::unwrap).collect();
        assert_eq!(
            extents,
            [Extent { offset: 1 << 20, len: 4096 }, Extent { offset: 512 << 20, len: 8192 }]
        );
    }
}
