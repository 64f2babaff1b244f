//! The user's directories as a target, and PostMark files that already exist in them.
//!
//! PostMark's files go directly into these directories, named `1`, `2`, `3` … Existing files
//! are never written to or removed: a run does not start if a name is taken. Files left by an
//! earlier run are recognised by their text.

use anyhow::{Context as _, bail};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trimtab_drive::units::Nanos;
use trimtab_linux::sys::beneath::{self, Removal};
use trimtab_linux::target::dir::{DirOptions, DirTarget, error};
use trimtab_sim::op::FileOp;
use trimtab_sim::target::{Clock, FileTarget, TargetResult};
use trimtab_sim::workload::postmark::text_prefix;

/// Bytes of each file compared with PostMark's text.
const COMPARED: usize = 4096;
/// Bytes that must match over all files together before they count as PostMark's. A chance
/// match is then impossible.
const PROOF: usize = 64;

/// Flags for examining files: follow no link, do not block on a pipe.
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a directory to work in.
fn open(path: &Path) -> anyhow::Result<OwnedFd> {
    beneath::Dir::open(path).map(OwnedFd::from).with_context(|| format!("cannot use the location {}", path.display()))
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
        let stat = rustix::fs::fstat(&dir).map_err(std::io::Error::from).with_context(|| format!("cannot access {}", path.display()))?;
        let identity = (stat.st_dev, stat.st_ino);
        let known = held.iter().any(|other| other.identity == identity);
        // Some filesystems cannot lock directories; then there is no such protection.
        if !known && rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
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

/// An existing file or directory.
#[derive(Clone, Debug)]
struct ExistingEntry {
    /// Index of its location.
    place: usize,
    /// Path relative to the location.
    below: PathBuf,
    /// Path for messages.
    shown: PathBuf,
}

impl ExistingEntry {
    /// The entry `name` in this directory.
    fn inside(&self, name: &std::ffi::CStr) -> Self {
        let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        Self { place: self.place, below: self.below.join(name), shown: self.shown.join(name) }
    }

    /// Its directory, opened without following links, and its name there.
    fn parent(&self, held: &[LockedDirectory]) -> io::Result<(beneath::Dir, &std::ffi::OsStr)> {
        let root = &held[self.place].dir;
        let name = self.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = match self.below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => beneath::open_below(root.as_fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)?,
            None => root.try_clone()?,
        };
        Ok((beneath::Dir::from_fd(dir, self.shown.parent().unwrap_or(Path::new("."))), name))
    }
}

/// Files with PostMark's names.
#[derive(Debug, Default)]
pub struct Files {
    paths: Vec<ExistingEntry>,
    /// Their subdirectories.
    dirs: Vec<ExistingEntry>,
}

/// Files with PostMark's names.
#[derive(Debug, Default)]
pub struct Obstacles {
    /// Files whose names the run will use.
    pub in_the_way: Files,
    /// All of them.
    pub all: Files,
}

impl Obstacles {
    /// Searches all locations.
    pub fn find(held: &[LockedDirectory], names: Names) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for (at, place) in held.iter().enumerate() {
            if held[..at].iter().any(|other| other.identity == place.identity) {
                continue;
            }
            let here = ExistingEntry { place: at, below: PathBuf::new(), shown: place.path.clone() };
            found.look(place.dir.as_fd(), &here, names, true).with_context(|| format!("cannot list {}", place.path.display()))?;
        }
        Ok(found)
    }

    /// `used` is true if the run will put files here.
    fn look(&mut self, dir: BorrowedFd<'_>, at: &ExistingEntry, names: Names, used: bool) -> std::io::Result<()> {
        let is_location = at.below.as_os_str().is_empty();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let path = at.inside(name);
            let subdirectory = name.to_bytes().strip_prefix(b"s").and_then(canonical_number).filter(|_| is_location);
            if let Some(index) = subdirectory {
                let used_there = names.subdirectories > 1 && index < names.subdirectories.into();
                match rustix::fs::openat(dir, name, LOOK | OFlags::DIRECTORY, Mode::empty()) {
                    Ok(inside) => {
                        self.all.dirs.push(path.clone());
                        self.look(inside.as_fd(), &path, names, used_there)?;
                    }
                    // Not a directory, but with the name of one that the run will use.
                    Err(_) if used_there => {
                        self.in_the_way.paths.push(path.clone());
                        self.all.paths.push(path);
                    }
                    Err(_) => {}
                }
            } else if let Some(number) = canonical_number(name.to_bytes()).filter(|number| *number > 0) {
                if used && number <= names.number_max {
                    self.in_the_way.paths.push(path.clone());
                }
                self.all.paths.push(path);
            }
        }
        Ok(())
    }
}

impl Files {
    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// True if every file begins with the text of one of these seeds.
    pub fn are_leftovers(&self, held: &[LockedDirectory], seeds: [u32; 2]) -> bool {
        seeds.iter().any(|seed| {
            let text = text_prefix(*seed, COMPARED);
            let mut same = 0_usize;
            self.paths.iter().all(|found| {
                let file = beneath::open_below(held[found.place].dir.as_fd(), &found.below, LOOK).ok();
                let Some(len) = file.and_then(|file| same_text(&file, &text)) else { return false };
                same += len;
                true
            }) && same >= PROOF
        })
    }

    /// Removes the files if they still hold the text of one of these seeds, and then the empty
    /// subdirectories.
    pub fn remove(&self, held: &[LockedDirectory], seeds: [u32; 2]) -> anyhow::Result<()> {
        let texts = seeds.map(|seed| text_prefix(seed, COMPARED));
        for found in &self.paths {
            let removal = remove_file(found, held, &texts).with_context(|| format!("cannot remove {}", found.shown.display()))?;
            if let Removal::Foreign(at) = removal {
                bail!("{} was replaced concurrently; the new file is left alone, at {}", found.shown.display(), at.display());
            }
        }
        for dir in self.dirs.iter().rev() {
            let remove = || -> io::Result<Removal> {
                let (parent, name) = dir.parent(held)?;
                let open = parent.open_dir(name)?;
                parent.remove_dir(name, &open)
            };
            // A directory that is not empty by now belongs to another program.
            let _ = remove();
        }
        Ok(())
    }
}

/// Removes a file that begins with one of the texts.
fn remove_file(found: &ExistingEntry, held: &[LockedDirectory], texts: &[Vec<u8>]) -> io::Result<Removal> {
    let (dir, name) = found.parent(held)?;
    let file = OwnedFd::from(dir.open_read(name)?);
    if texts.iter().all(|text| same_text(&file, text).is_none()) {
        return Ok(Removal::Foreign(found.shown.clone()));
    }
    dir.remove_file(name, &file)
}

impl fmt::Display for Files {
    /// An example, the number of others, and the verb.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = self.paths.iter().map(|found| &found.shown).min().map(|path| path.display().to_string()).unwrap_or_default();
        match self.paths.len() {
            0 | 1 => write!(f, "{example} is"),
            2 => write!(f, "{example} and another file are"),
            several => write!(f, "{example} and {} more files are", several - 1),
        }
    }
}

/// True if `bytes` begin like a file of PostMark: a prefix of `text` from its creation, then
/// another prefix of `text` for each append. Their ends are not visible, so all possibilities
/// are followed. The first [`PROOF`] bytes must be one prefix: a file that repeats the first
/// letter is not proof.
fn is_made_of(bytes: &[u8], text: &[u8]) -> bool {
    let first = bytes.len().min(PROOF);
    if bytes[..first] != text[..first] {
        return false;
    }
    // Possible positions in the text.
    let mut at = vec![first];
    for byte in &bytes[first..] {
        let goes_on = at.iter().filter(|at| text.get(**at) == Some(byte)).map(|at| at + 1);
        let begins_again = text.first().filter(|first| *first == byte).map(|_| 1);
        at = goes_on.chain(begins_again).collect();
        if at.is_empty() {
            return false;
        }
    }
    true
}

/// Number of compared bytes at the start of a regular file if they match `text`; `None` if
/// they differ.
fn same_text(file: &OwnedFd, text: &[u8]) -> Option<usize> {
    let stat = rustix::fs::fstat(file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut start = vec![0; text.len()];
    let mut len = 0;
    while len < start.len() {
        match rustix::io::pread(file, &mut start[len..], len as u64).ok()? {
            0 => break,
            n => len += n,
        }
    }
    is_made_of(&start[..len], text).then_some(len)
}

/// The number in `digits` without leading zeros.
fn canonical_number(digits: &[u8]) -> Option<u64> {
    let canonical = digits.first().is_some_and(|first| *first != b'0' || digits.len() == 1) && digits.iter().all(u8::is_ascii_digit);
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
        let at = at.and_then(|(index, rest)| Some((self.dirs.get_mut(index.parse::<usize>().ok()?)?, rest)));
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
            // As in the original, an existing directory is used, and one with other files stays.
            (FileOp::MakeDir(_), Err(error)) if error.errno == Some(libc::EEXIST) => Ok(()),
            (FileOp::RemoveDir(_), Err(error)) if matches!(error.errno, Some(libc::ENOTEMPTY | libc::EEXIST | libc::ENOENT)) => Ok(()),
            (FileOp::Create(path, _), Err(error)) if error.action == "create" => {
                self.foreign.push((*path).to_owned());
                Err(error)
            }
            (_, result) => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_leftovers_recognises_appended_files_only() {
        let text = text_prefix(SEED, COMPARED);
        let file = |pieces: &[usize]| pieces.iter().flat_map(|len| &text[..*len]).copied().collect::<Vec<u8>>();
        for pieces in [&[][..], &[1], &[63], &[500], &[500, 1], &[700, 350, 1, 1, 2000], &[64, 64, 64], &[4096]] {
            let file = file(pieces);
            assert!(is_made_of(&file[..file.len().min(COMPARED)], &text), "{pieces:?}");
        }
        let other = text_prefix(SEED + 1, COMPARED);
        let letter = vec![text[0]; 4096];
        let spoiled = [&text[..900], b"\0", &text[..100]].concat();
        let cut = [&text[..900], &text[5..100]].concat();
        for foreign in [&other[..], &letter, &spoiled, &cut, &text[1..900]] {
            assert!(!is_made_of(foreign, &text));
        }
    }

    const SEED: u32 = 42;
}
