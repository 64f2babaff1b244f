//! The directories that the user gave, as a target; and what may be in them already.
//!
//! PostMark's files go straight into the user's directories, named `1`, `2`, `3` … No file that is there is ever written to or
//! removed: a run does not start where a name is taken. Files that an earlier run left are known by their text.

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
use trimtab_sim::op::Payload;
use trimtab_sim::target::{Clock, FileTarget, TargetResult};
use trimtab_sim::workload::postmark::text_prefix;

/// As much of a file is compared with PostMark's text …
const COMPARED: usize = 4096;
/// … and at least so much must be the same over all files before they count as PostMark's: no chance that it is anything else.
const PROOF: usize = 64;

/// To look at what is there: no link is followed, and a pipe does not make us wait.
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a directory to work in.
fn open(path: &Path) -> anyhow::Result<OwnedFd> {
    beneath::Dir::open(path).map(OwnedFd::from).with_context(|| format!("cannot use the location {}", path.display()))
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

/// Something that was found.
#[derive(Clone, Debug)]
struct Found {
    /// Which location it is below, by its index.
    place: usize,
    /// Its path from there.
    below: PathBuf,
    /// Its path for messages.
    shown: PathBuf,
}

impl Found {
    /// What `name` is in this directory.
    fn inside(&self, name: &std::ffi::CStr) -> Self {
        let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        Self { place: self.place, below: self.below.join(name), shown: self.shown.join(name) }
    }

    /// The directory that it is in, reached through no link, and its name there.
    fn parent(&self, held: &[Held]) -> io::Result<(beneath::Dir, &std::ffi::OsStr)> {
        let root = &held[self.place].dir;
        let name = self.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = match self.below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => beneath::open_below(root.as_fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)?,
            None => root.try_clone()?,
        };
        Ok((beneath::Dir::from_fd(dir, self.shown.parent().unwrap_or(Path::new("."))), name))
    }
}

/// Files named as PostMark names them.
#[derive(Debug, Default)]
pub struct Files {
    paths: Vec<Found>,
    /// Subdirectories that they are in.
    dirs: Vec<Found>,
}

/// Files named as PostMark names them: those whose names a run will use, and the others.
#[derive(Debug, Default)]
pub struct Obstacles {
    in_the_way: Files,
    all: Files,
}

/// Where a search is.
#[derive(Clone, Copy)]
enum Level {
    Location,
    Stream,
    Subdirectory,
}

impl Obstacles {
    /// Looks at all locations.
    pub fn find(held: &[Held], names: Names) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for (at, place) in held.iter().enumerate() {
            if held[..at].iter().any(|other| other.identity == place.identity) {
                continue;
            }
            // With several streams, each has a directory of its own, and nothing is put into the location itself.
            let used = names.streams < 2;
            let here = Found { place: at, below: PathBuf::new(), shown: place.path.clone() };
            found
                .look(place.dir.as_fd(), &here, names, Level::Location, used)
                .with_context(|| format!("cannot list {}", place.path.display()))?;
        }
        Ok(found)
    }

    /// Those whose names the run will use.
    pub fn in_the_way(&self) -> &Files {
        &self.in_the_way
    }

    /// All of them.
    pub fn all(&self) -> &Files {
        &self.all
    }

    /// `used` tells whether the run will put files here.
    fn look(&mut self, dir: BorrowedFd<'_>, at: &Found, names: Names, level: Level, used: bool) -> std::io::Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let path = at.inside(name);
            let (inside, count, level) = match (name.to_bytes().split_first(), level) {
                (Some((b't', index)), Level::Location) => (canonical_number(index), names.streams, Level::Stream),
                (Some((b's', index)), Level::Location | Level::Stream) => {
                    (canonical_number(index), names.subdirectories, Level::Subdirectory)
                }
                _ => (None, 0, level),
            };
            if let Some(index) = inside {
                let used_there = count > 1 && index < count.into() && (used || matches!(level, Level::Stream));
                match rustix::fs::openat(dir, name, LOOK | OFlags::DIRECTORY, Mode::empty()) {
                    Ok(inside) => {
                        self.all.dirs.push(path.clone());
                        self.look(inside.as_fd(), &path, names, level, used_there)?;
                    }
                    // Something that is no directory, under the name of one that the run will use.
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
    /// How many there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// All of it is PostMark's: every file begins with the text of one of these seeds, as far as it goes.
    pub fn are_leftovers(&self, held: &[Held], seeds: &[u32]) -> bool {
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

    /// Removes them if they still hold the text of one of these seeds, and the subdirectories that are empty then.
    pub fn remove(&self, held: &[Held], seeds: &[u32]) -> anyhow::Result<()> {
        let texts: Vec<Vec<u8>> = seeds.iter().map(|seed| text_prefix(*seed, COMPARED)).collect();
        for found in &self.paths {
            let removal = remove_file(found, held, &texts).with_context(|| format!("cannot remove {}", found.shown.display()))?;
            if let Removal::Foreign(at) = removal {
                bail!("{} is another file than a moment ago; it was left alone (it is at {})", found.shown.display(), at.display());
            }
        }
        for dir in self.dirs.iter().rev() {
            let remove = || -> io::Result<Removal> {
                let (parent, name) = dir.parent(held)?;
                let open = parent.open_dir(name)?;
                parent.remove_dir(name, &open)
            };
            // What is not empty by now is not ours.
            let _ = remove();
        }
        Ok(())
    }
}

/// Removes a file that begins with one of the texts.
fn remove_file(found: &Found, held: &[Held], texts: &[Vec<u8>]) -> io::Result<Removal> {
    let (dir, name) = found.parent(held)?;
    let file = OwnedFd::from(dir.open_read(name)?);
    if texts.iter().all(|text| same_text(&file, text).is_none()) {
        return Ok(Removal::Foreign(found.shown.clone()));
    }
    dir.remove_file(name, &file)
}

impl fmt::Display for Files {
    /// An example, how many more, and the verb.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = self.paths.iter().map(|found| &found.shown).min().map(|path| path.display().to_string()).unwrap_or_default();
        match self.len() {
            0 | 1 => write!(f, "{example} is"),
            2 => write!(f, "{example} and another file are"),
            several => write!(f, "{example} and {} more files are", several - 1),
        }
    }
}

/// Whether `bytes` begin like a file of PostMark's: `text` from its start, as far as the file went when it was made, then `text` from its start
/// again for each time that something was appended. Where one ends cannot be seen, so all possibilities are followed, but the first [`PROOF`]
/// bytes are of one piece: a file of nothing but the first letter is nobody's.
fn is_made_of(bytes: &[u8], text: &[u8]) -> bool {
    let first = bytes.len().min(PROOF);
    if bytes[..first] != text[..first] {
        return false;
    }
    // How far into the text it may be.
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

/// How many bytes at the start of a regular file were compared and are those of `text`; `None` if they differ.
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
    own: Option<(String, Vec<(beneath::Dir, beneath::Dir)>)>,
    /// What stood where a file should have been made: not ours, whatever is cleaned up.
    foreign: Vec<String>,
}

impl Places {
    /// For stream `index` of `streams`.
    pub fn new(held: &[Held], options: DirOptions, epoch: Instant, index: u32, streams: u32) -> anyhow::Result<Self> {
        let name = (streams > 1).then(|| format!("t{index}"));
        let mut places = Self { dirs: Vec::new(), own: name.map(|name| (name, Vec::new())), foreign: Vec::new() };
        for place in held {
            let (dir, path) =
                places.directory(place).with_context(|| format!("cannot make a directory for a stream in {}", place.path.display()))?;
            places.dirs.push(DirTarget::new(dir, &path, options).with_epoch(epoch));
        }
        Ok(places)
    }

    fn directory(&mut self, place: &Held) -> io::Result<(OwnedFd, PathBuf)> {
        let location = rustix::io::fcntl_dupfd_cloexec(&place.dir, 0)?;
        let Some((name, own)) = &mut self.own else { return Ok((location, place.path.clone())) };
        let parent = beneath::Dir::from_fd(location, &place.path);
        // One that exists is used, as by the original.
        let dir = match parent.mkdir(&*name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => parent.open_dir(&*name)?,
            made => made?,
        };
        let target = rustix::io::fcntl_dupfd_cloexec(&dir, 0)?;
        let path = place.path.join(&*name);
        own.push((parent, dir));
        Ok((target, path))
    }

    /// Whether this run has found something there that it did not make.
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

impl Drop for Places {
    /// Removes the stream's own directories; what is not empty by now is not ours.
    fn drop(&mut self) {
        if let Some((name, own)) = &self.own {
            for (parent, dir) in own {
                let _ = parent.remove_dir(name, dir);
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
        let (target, at) = self.route(path)?;
        let created = target.create(at, payload);
        if created.as_ref().is_err_and(|error| error.action == "create") {
            self.foreign.push(path.to_owned());
        }
        created
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_appended_to_are_known_and_others_are_not() {
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
