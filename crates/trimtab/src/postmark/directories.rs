//! The user's directories as a target, and files in them that are in the way.
//!
//! PostMark's files go directly into these directories, named `1`, `2`, `3` … Existing
//! files are never written to or removed: a run does not start if a name is taken.

use anyhow::{Context as _, bail};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trimtab_drive::units::Nanos;
use trimtab_linux::sys::beneath;
use trimtab_linux::target::dir::{DirOptions, DirTarget, error};
use trimtab_sim::op::FileOp;
use trimtab_sim::target::{Clock, FileTarget, TargetResult};

/// Flags for examining directories: follow no link.
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory to work in.
fn open(path: &Path) -> anyhow::Result<OwnedFd> {
    beneath::Dir::open(path)
        .map(OwnedFd::from)
        .with_context(|| format!("cannot use the location {}", path.display()))
}

/// A directory, locked until the run ends, so that two runs do not mix their files.
#[derive(Debug)]
pub struct LockedDirectory {
    /// The directory.
    pub dir: OwnedFd,
    /// As the user wrote it.
    pub path: PathBuf,
    identity: (u64, u64),
}

/// Opens and locks the locations. The same directory may be given more than once.
pub fn hold(paths: &[PathBuf]) -> anyhow::Result<Vec<LockedDirectory>> {
    let mut held: Vec<LockedDirectory> = Vec::new();
    for path in paths {
        let dir = open(path)?;
        let stat = rustix::fs::fstat(&dir)
            .map_err(std::io::Error::from)
            .with_context(|| format!("cannot access {}", path.display()))?;
        let identity = (stat.st_dev, stat.st_ino);
        let known = held.iter().any(|other| other.identity == identity);
        // Some filesystems cannot lock directories; then there is no such protection.
        if !known
            && rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)
                == Err(Errno::WOULDBLOCK)
        {
            bail!("another PostMark run is using {}", path.display());
        }
        held.push(LockedDirectory { dir, path: path.clone(), identity });
    }
    Ok(held)
}

/// Names that a run will use in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Highest file number.
    pub number_max: u64,
    /// Number of subdirectories `s0`, `s1` …; none if below 2.
    pub subdirectories: u32,
}

/// Files and directories whose names a run will use.
pub fn in_the_way(held: &[LockedDirectory], names: Names) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (at, place) in held.iter().enumerate() {
        if held[..at].iter().all(|other| other.identity != place.identity) {
            look(place.dir.as_fd(), &place.path, names, true, &mut found)
                .with_context(|| format!("cannot list {}", place.path.display()))?;
        }
    }
    found.sort();
    Ok(found)
}

fn look(
    dir: BorrowedFd<'_>,
    path: &Path,
    names: Names,
    is_location: bool,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        let index = name
            .to_bytes()
            .strip_prefix(b"s")
            .and_then(canonical_number)
            .filter(|_| is_location && names.subdirectories > 1);
        if index.is_some_and(|index| index < names.subdirectories.into()) {
            match rustix::fs::openat(dir, name, LOOK | OFlags::DIRECTORY, Mode::empty()) {
                Ok(inside) => look(inside.as_fd(), &path, names, false, found)?,
                Err(_) => found.push(path),
            }
        } else if canonical_number(name.to_bytes())
            .is_some_and(|number| (1..=names.number_max).contains(&number))
        {
            found.push(path);
        }
    }
    Ok(())
}

/// The number in `digits` without leading zeros.
fn canonical_number(digits: &[u8]) -> Option<u64> {
    let canonical = digits.first().is_some_and(|first| *first != b'0' || digits.len() == 1)
        && digits.iter().all(u8::is_ascii_digit);
    if canonical { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// The locations as one target. With several, paths begin with `l0/`, `l1/` …
#[derive(Debug)]
pub struct Locations {
    dirs: Vec<DirTarget>,
    /// Paths that already existed when a file should have been created: never removed.
    foreign: Vec<String>,
}

impl Locations {
    /// Uses these directories.
    pub fn new(held: &[LockedDirectory], options: DirOptions) -> io::Result<Self> {
        let epoch = Instant::now();
        let target = |place: &LockedDirectory| {
            let dir = rustix::io::fcntl_dupfd_cloexec(&place.dir, 0)?;
            Ok(DirTarget::new(dir, &place.path, options).with_epoch(epoch))
        };
        Ok(Self { dirs: held.iter().map(target).collect::<io::Result<_>>()?, foreign: Vec::new() })
    }

    /// True if the run found this path and did not create it.
    pub fn is_foreign(&self, path: &str) -> bool {
        self.foreign.iter().any(|foreign| foreign == path)
    }

    #[inline]
    fn route<'p>(&mut self, path: &'p str) -> TargetResult<(&mut DirTarget, &'p str)> {
        if self.dirs.len() == 1 {
            return Ok((&mut self.dirs[0], path));
        }
        let at = path.strip_prefix('l').and_then(|rest| rest.split_once('/'));
        let at = at.and_then(|(index, rest)| {
            Some((self.dirs.get_mut(index.parse::<usize>().ok()?)?, rest))
        });
        at.ok_or_else(|| error("find a location for", Path::new(""), path, Errno::NOENT))
    }
}

impl Clock for Locations {
    #[inline]
    fn now(&mut self) -> Nanos {
        self.dirs[0].now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.dirs[0].idle_until(instant);
    }
}

impl FileTarget for Locations {
    #[inline]
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
        if matches!(op, FileOp::Sync) {
            return self.dirs.iter_mut().try_for_each(|dir| dir.execute(op));
        }
        let (target, path) = self.route(op.path())?;
        let result = target.execute(&op.at(path));
        match (op, result) {
            // As in the original, an existing directory is used, and one with other files
            // stays.
            (FileOp::MakeDir(_), Err(error)) if error.errno == Some(libc::EEXIST) => Ok(()),
            (FileOp::RemoveDir(_), Err(error))
                if matches!(error.errno, Some(libc::ENOTEMPTY | libc::EEXIST | libc::ENOENT)) =>
            {
                Ok(())
            }
            (FileOp::Create(path, _), Err(error)) if error.action == "create" => {
                self.foreign.push((*path).to_owned());
                Err(error)
            }
            (_, result) => result,
        }
    }
}
