//! The directories that the user gave, as a target; and what may be in them already.
//!
//! PostMark's files go straight into the user's directories, named `1`, `2`, `3` … No file that is there is ever written to or
//! removed: a run does not start where a name is taken. Files that an earlier run left are known by their text.

use crate::target::dir::{DirOptions, DirTarget, error};
use anyhow::{Context as _, bail};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trimtab_core::op::Payload;
use trimtab_core::target::{Clock, FileTarget, TargetResult};
use trimtab_core::units::Nanos;
use trimtab_core::workload::postmark::text_prefix;

/// As much of a file is compared with PostMark's text …
const COMPARED: usize = 4096;
/// … and at least so much must be the same over all files before they count as PostMark's: no chance that it is anything else.
const PROOF: usize = 64;

/// To look at what is there: no link is followed, and a pipe does not make us wait.
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a directory to work in.
fn open(path: &Path) -> anyhow::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(std::io::Error::from)
        .with_context(|| format!("cannot use the location {}", path.display()))
}

/// A directory that a run of this program holds until it ends, so that two runs do not mix up their files.
#[derive(Debug)]
pub struct Held {
    /// The directory.
    pub dir: OwnedFd,
    /// As the user wrote it.
    pub path: PathBuf,
    identity: (u64, u64),
}

/// Opens and locks the locations. The same directory may be given more than once.
pub fn hold(paths: &[PathBuf]) -> anyhow::Result<Vec<Held>> {
    let mut held: Vec<Held> = Vec::new();
    for path in paths {
        let dir = open(path)?;
        let stat = rustix::fs::fstat(&dir).map_err(std::io::Error::from).with_context(|| format!("cannot look at {}", path.display()))?;
        let identity = (stat.st_dev, stat.st_ino);
        let known = held.iter().any(|other| other.identity == identity);
        // A filesystem that cannot lock directories leaves us without this protection.
        if !known && rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("another run of PostMark is going on in {}", path.display());
        }
        held.push(Held { dir, path: path.clone(), identity });
    }
    Ok(held)
}

/// What a run will use in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Files are numbered from 1 up to this at most.
    pub number_max: u64,
    /// Subdirectories `s0`, `s1` …; none if fewer than 2.
    pub subdirectories: u32,
    /// Directories `t0`, `t1` … of the streams; none if fewer than 2.
    pub streams: u32,
}

/// What stands in the way of a run, and whether it was left by an earlier one.
#[derive(Debug, Default)]
pub struct Obstacles {
    taken: Vec<PathBuf>,
}

impl Obstacles {
    /// Looks for the names that a run would use.
    pub fn find(held: &[Held], names: Names) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for (at, place) in held.iter().enumerate() {
            if held[..at].iter().any(|other| other.identity == place.identity) {
                continue;
            }
            found.look(place.dir.as_fd(), &place.path, names).with_context(|| format!("cannot list {}", place.path.display()))?;
        }
        Ok(found)
    }

    fn look(&mut self, dir: BorrowedFd<'_>, path: &Path, names: Names) -> std::io::Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let path = path.join(Path::new(std::ffi::OsStr::new(&*name.to_string_lossy())));
            let name = name.to_bytes();
            let is_number = |digits: &[u8], range: std::ops::Range<u64>| canonical_number(digits).is_some_and(|n| range.contains(&n));
            let inside = match name.split_first() {
                Some((b't', digits)) if names.streams > 1 && is_number(digits, 0..names.streams.into()) => Names { streams: 0, ..names },
                Some((b's', digits))
                    if names.streams < 2 && names.subdirectories > 1 && is_number(digits, 0..names.subdirectories.into()) =>
                {
                    Names { streams: 0, subdirectories: 0, ..names }
                }
                _ if names.streams < 2 && is_number(name, 1..names.number_max.saturating_add(1)) => {
                    self.taken.push(path);
                    continue;
                }
                _ => continue,
            };
            // A directory of that name is used; anything else is in the way.
            match rustix::fs::openat(dir, entry.file_name(), LOOK | OFlags::DIRECTORY, Mode::empty()) {
                Ok(subdirectory) => self.look(subdirectory.as_fd(), &path, inside)?,
                Err(_) => self.taken.push(path),
            }
        }
        Ok(())
    }

    /// How many names are taken.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Nothing is in the way.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The first, for a message.
    pub fn example(&self) -> Option<&Path> {
        self.taken.iter().map(PathBuf::as_path).min()
    }

    /// All of it is PostMark's: every file begins with the text of one of these seeds, as far as it goes.
    pub fn are_leftovers(&self, seeds: &[u32]) -> bool {
        seeds.iter().any(|seed| {
            let text = text_prefix(*seed, COMPARED);
            let mut same = 0_usize;
            self.taken.iter().all(|path| {
                let Some(len) = same_text(path, &text) else { return false };
                same += len;
                true
            }) && same >= PROOF
        })
    }

    /// Removes it.
    pub fn remove(self) -> anyhow::Result<()> {
        for path in self.taken {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}

/// How many bytes at the start of a regular file were compared and are those of `text`; `None` if they differ.
fn same_text(path: &Path, text: &[u8]) -> Option<usize> {
    let file = rustix::fs::open(path, LOOK, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut start = vec![0; text.len()];
    let mut len = 0;
    while len < start.len() {
        match rustix::io::pread(&file, &mut start[len..], len as u64).ok()? {
            0 => break,
            n => len += n,
        }
    }
    (start[..len] == text[..len]).then_some(len)
}

/// The number that `digits` write without leading zeros.
fn canonical_number(digits: &[u8]) -> Option<u64> {
    let canonical = digits.first().is_some_and(|first| *first != b'0' || digits.len() == 1) && digits.iter().all(u8::is_ascii_digit);
    if canonical { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// The directories of one stream as one target: with several, paths begin with `l0/`, `l1/` …
#[derive(Debug)]
pub struct Places {
    dirs: Vec<DirTarget>,
    /// The stream's own directory in each location, if there are several streams: made at the start, removed at the end.
    own: Option<(String, Vec<OwnedFd>)>,
}

impl Places {
    /// For stream `index` of `streams`.
    pub fn new(held: &[Held], options: DirOptions, epoch: Instant, index: u32, streams: u32) -> anyhow::Result<Self> {
        let name = (streams > 1).then(|| format!("t{index}"));
        let mut places = Self { dirs: Vec::new(), own: name.map(|name| (name, Vec::new())) };
        for place in held {
            let (dir, path) = places
                .directory(place)
                .map_err(std::io::Error::from)
                .with_context(|| format!("cannot make a directory for a stream in {}", place.path.display()))?;
            places.dirs.push(DirTarget::new(dir, &path, options).with_epoch(epoch));
        }
        Ok(places)
    }

    fn directory(&mut self, place: &Held) -> Result<(OwnedFd, PathBuf), Errno> {
        let dir = rustix::io::fcntl_dupfd_cloexec(&place.dir, 0)?;
        let Some((name, parents)) = &mut self.own else { return Ok((dir, place.path.clone())) };
        match rustix::fs::mkdirat(&dir, &**name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = rustix::fs::openat(&dir, &**name, flags, Mode::empty())?;
        let path = place.path.join(&*name);
        parents.push(dir);
        Ok((own, path))
    }

    #[inline]
    fn route<'p>(&mut self, path: &'p str) -> TargetResult<(&mut DirTarget, &'p str)> {
        if self.dirs.len() == 1 {
            return Ok((&mut self.dirs[0], path));
        }
        let at = path.strip_prefix('l').and_then(|rest| rest.split_once('/'));
        let at = at.and_then(|(index, rest)| Some((self.dirs.get_mut(index.parse::<usize>().ok()?)?, rest)));
        at.ok_or_else(|| error("find a location for", Path::new(""), path, Errno::NOENT))
    }
}

impl Drop for Places {
    /// Removes the stream's own directories; what is not empty by now is not ours.
    fn drop(&mut self) {
        if let Some((name, parents)) = &self.own {
            for parent in parents {
                let _ = rustix::fs::unlinkat(parent, &**name, AtFlags::REMOVEDIR);
            }
        }
    }
}

impl Clock for Places {
    #[inline]
    fn now(&mut self) -> Nanos {
        self.dirs[0].now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.dirs[0].idle_until(instant);
    }
}

impl FileTarget for Places {
    /// A directory that exists is used, as by the original.
    fn make_dir(&mut self, path: &str) -> TargetResult {
        let (target, path) = self.route(path)?;
        match target.make_dir(path) {
            Err(error) if error.errno == Some(libc::EEXIST) => Ok(()),
            result => result,
        }
    }

    /// A directory in which others keep something stays, as in the original.
    fn remove_dir(&mut self, path: &str) -> TargetResult {
        let (target, path) = self.route(path)?;
        match target.remove_dir(path) {
            Err(error) if matches!(error.errno, Some(libc::ENOTEMPTY | libc::EEXIST | libc::ENOENT)) => Ok(()),
            result => result,
        }
    }

    #[inline]
    fn create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        let (target, path) = self.route(path)?;
        target.create(path, payload)
    }

    #[inline]
    fn append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        let (target, path) = self.route(path)?;
        target.append(path, payload)
    }

    #[inline]
    fn read(&mut self, path: &str, len: u64) -> TargetResult {
        let (target, path) = self.route(path)?;
        target.read(path, len)
    }

    #[inline]
    fn delete(&mut self, path: &str) -> TargetResult {
        let (target, path) = self.route(path)?;
        target.delete(path)
    }

    fn sync(&mut self) -> TargetResult {
        self.dirs.iter_mut().try_for_each(DirTarget::sync)
    }
}
