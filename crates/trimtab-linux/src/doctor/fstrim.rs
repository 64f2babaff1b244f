//! Selects the mounts that `fstrim` trims for given arguments, as `sys-utils/fstrim.c` of
//! util-linux 2.39 does.

mod types;

use super::answer::{Answer, Reason};
use super::shown;
use crate::host::block::device_of_source;
use crate::host::fstab::{self, FstabEntry};
use crate::host::mountinfo::{self, Mount, MountIndex};
use crate::host::root::Root;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use types::{is_network, is_pseudo};

/// Code of the finding about a filesystem that a table lists and fstrim skips.
const SKIPPED: &str = "fstrim.skipped";
/// Code of the finding about a filesystem other than the one at the directory passed to
/// fstrim.
pub const OTHER_PATH: &str = "fstrim.other-path";
/// Code of the finding about an fstab line whose tag matches no device.
const NO_DEVICE: &str = "fstrim.no-device";
/// Code of the finding about a filesystem that fstrim skips only because of its device.
pub const NO_DISCARDS: &str = "fstrim.no-discards";
/// This directory exists if udev creates links.
const LINKS: &str = "/dev/disk";
const FSTAB: &str = "/etc/fstab";
/// Tables equivalent to `/proc/self/mountinfo`.
const MOUNT_TABLES: [&str; 4] =
    ["/proc/self/mountinfo", "/proc/self/mounts", "/proc/mounts", "/etc/mtab"];

/// The mount points in fstab, each with the reason why `fstrim --fstab` skips it, if any.
///
/// # Errors The mount table cannot be read.
pub fn of_fstab(root: &Root) -> std::io::Result<Vec<(PathBuf, Option<String>)>> {
    let mounts = mountinfo::read(root)?;
    let visited = VisitCache::new(&mounts);
    let machine = Machine { root, mounts: &mounts, visited: &visited };
    let files = [FSTAB.to_owned()];
    let visits =
        machine.table(&files).ok().flatten().map(|(file, entries)| machine.fates(file, entries));
    let visits = visits.into_iter().flatten().filter(|visit| visit.entry.target.is_absolute());
    Ok(visits.map(|visit| (visit.entry.target, visit.skipped.map(|reason| reason.text))).collect())
}

/// A call of fstrim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    subject: FstrimSubject,
    /// Missing discard support does not count as a failure.
    pub is_quiet: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FstrimSubject {
    /// The first of these tables that has a line.
    Tables(Vec<String>),
    /// One directory.
    Directory(PathBuf),
}

/// Fixed paths of findfs: never searched in a PATH that another user may have set.
const FINDFS: [&str; 2] = ["/usr/sbin/findfs", "/sbin/findfs"];

/// Reads the arguments of fstrim. `None` for those that no service of util-linux has.
pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<Call> {
    let tables = |files: &str| {
        let files = files.split(':').filter(|file| !file.is_empty());
        FstrimSubject::Tables(files.map(str::to_owned).collect())
    };
    let (mut subject, mut is_quiet) = (None, false);
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let one = match word {
            "-v" | "--verbose" => continue,
            // Called --quiet until 2.35.
            "--quiet" | "--quiet-unsupported" => {
                is_quiet = true;
                continue;
            }
            "-a" | "-av" | "--all" => tables("/proc/self/mountinfo"),
            "-A" | "-Av" | "--fstab" => tables(FSTAB),
            "-I" | "--listed-in" => tables(words.next()?),
            path if path.starts_with('/') => FstrimSubject::Directory(PathBuf::from(path)),
            _ => return None,
        };
        // fstrim refuses several mount points, and a table with one.
        if subject.replace(one).is_some() {
            return None;
        }
    }
    Some(Call { subject: subject?, is_quiet })
}

/// The machine that fstrim runs on.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub root: &'a Root,
    pub mounts: &'a [Mount],
    pub visited: &'a VisitCache,
}

/// Cache of the mounts that each call visits, independent of the filesystem in question.
#[derive(Debug)]
pub struct VisitCache {
    index: MountIndex,
    calls: RefCell<HashMap<Call, Rc<Visits>>>,
}

impl VisitCache {
    pub fn new(mounts: &[Mount]) -> Self {
        Self { index: MountIndex::new(mounts), calls: RefCell::default() }
    }

    /// The mount that a path currently leads to.
    pub fn reached<'m>(&self, mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
        self.index.reached(mounts, path).map(|at| &mounts[at])
    }
}

/// Indices into the mount table, each with the reason for skipping it.
type MountPlaces = Vec<(usize, Option<Reason>)>;

/// The mounts that one call visits.
#[derive(Debug)]
enum Visits {
    Directory(Option<usize>),
    Listed {
        file: String,
        places: MountPlaces,
    },
    /// No table has a line.
    Nothing,
    /// An unknown table.
    Unknown(String),
}

/// A table line and its outcome.
struct Visit {
    entry: FstabEntry,
    /// Index of the target's mount in the mount table.
    mount: Option<usize>,
    /// The reason for skipping it.
    skipped: Option<Reason>,
}

impl<'a> Machine<'a> {
    /// Returns whether a call trims the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, call: &Call, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let is_ours = |at: &usize| is_same(&self.mounts[*at]);
        match (&*self.visits(call), &call.subject) {
            (Visits::Directory(Some(at)), _) if is_ours(at) => Answer::Yes,
            (Visits::Directory(_), FstrimSubject::Directory(directory)) => {
                Answer::no(OTHER_PATH, format!("fstrim.service trims {} only", shown(directory)))
            }
            (Visits::Listed { file, places }, _) => listed(file, places, is_ours),
            (Visits::Unknown(file), _) => {
                Answer::maybe(format!("fstrim reads {file}, which is not in the recorded tree"))
            }
            (_, FstrimSubject::Tables(files)) => {
                Answer::no("fstrim.not-listed", format!("none of {} has a line", files.join(", ")))
            }
            (Visits::Nothing, FstrimSubject::Directory(_)) => {
                Answer::no(OTHER_PATH, "fstrim is given another directory")
            }
        }
    }

    fn visits(&self, call: &Call) -> Rc<Visits> {
        if let Some(known) = self.visited.calls.borrow().get(call) {
            return Rc::clone(known);
        }
        let visits = match &call.subject {
            FstrimSubject::Directory(directory) => {
                Visits::Directory(self.reached(&self.canonical(directory)))
            }
            FstrimSubject::Tables(files) => match self.table(files) {
                Err(file) => Visits::Unknown(file.to_owned()),
                Ok(None) => Visits::Nothing,
                Ok(Some((file, entries))) => {
                    let visits = self.fates(file, entries);
                    let places = visits.into_iter().flat_map(|visit| self.places(visit)).collect();
                    Visits::Listed { file: file.to_owned(), places }
                }
            },
        };
        Rc::clone(self.visited.calls.borrow_mut().entry(call.clone()).or_insert(Rc::new(visits)))
    }

    /// The mount that a line leads to, and those that it covers there.
    fn places(&self, visit: Visit) -> MountPlaces {
        let point = self.canonical(&visit.entry.target);
        let covered = self.visited.index.at(&point).iter().filter(|at| Some(**at) != visit.mount);
        let reason =
            || Reason::new(SKIPPED, format!("another mount covers {}", shown(&visit.entry.target)));
        let covered: MountPlaces = covered.map(|at| (*at, Some(reason()))).collect();
        visit.mount.map(|at| (at, visit.skipped)).into_iter().chain(covered).collect()
    }

    fn reached(&self, path: &Path) -> Option<usize> {
        self.visited.index.reached(self.mounts, path)
    }

    /// The first table with a line; `Err` with the name of an unknown table.
    fn table<'f>(
        &self,
        files: &'f [String],
    ) -> Result<Option<(&'f str, Vec<FstabEntry>)>, &'f str> {
        for file in files {
            let entries = match self.root.read_bytes(Path::new(file), fstab::BYTES_MAX) {
                _ if MOUNT_TABLES.contains(&file.as_str()) => self.mounted(self.mounts),
                Ok(bytes) if is_mountinfo(&bytes) => self.mounted(&mountinfo::parse(&bytes)),
                Ok(bytes) => fstab::parse(&bytes),
                Err(_)
                    if self.root.is_this_machine()
                        || file.starts_with("/etc/")
                        || file.starts_with("/run/") =>
                {
                    continue;
                }
                Err(_) => return Err(file),
            };
            if !entries.is_empty() {
                return Ok(Some((file, entries)));
            }
        }
        Ok(None)
    }

    fn mounted(&self, mounts: &[Mount]) -> Vec<FstabEntry> {
        let entry = |mount: &Mount| FstabEntry {
            source: mount.source.clone(),
            target: mount.mount_point.clone(),
            fs_type: mount.fs_type.clone(),
            options: mount.options_once(),
            ..FstabEntry::default()
        };
        mounts.iter().map(entry).collect()
    }

    /// Determines the outcome of each line: keeps one line per target, adds the root
    /// filesystem to fstab, then applies the filters and keeps one line per source.
    fn fates(&self, file: &str, entries: Vec<FstabEntry>) -> Vec<Visit> {
        let mut targets = HashSet::new();
        let mut unique: Vec<FstabEntry> = entries
            .into_iter()
            .rev()
            .filter(|entry| targets.insert(entry.target.clone()))
            .collect();
        unique.reverse();
        if file == FSTAB && !targets.contains(Path::new("/")) {
            unique.extend(self.root_of_command_line());
        }
        let visit = |entry: FstabEntry| Visit { mount: self.landing(&entry), entry, skipped: None };
        let mut visits: Vec<Visit> = unique.into_iter().map(visit).collect();
        each(&mut visits, |visit| self.unwanted(visit));
        each(&mut visits, |visit| self.unreachable(visit));
        self.one_for_each_source(&mut visits);
        visits
    }

    /// Turns `root=` of the kernel command line into a table line, if it names a device.
    fn root_of_command_line(&self) -> Option<FstabEntry> {
        let line = self.root.read("/proc/cmdline")?;
        let line = line.split(" -- ").next().unwrap_or_default();
        let spec = line
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("root="))
            .next_back()?;
        let spec = spec.trim_matches('"');
        let number = |text: &str| {
            text.split_once(':')
                .is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
        };
        let hexadecimal = !spec.is_empty() && spec.bytes().all(|b| b.is_ascii_hexdigit());
        let named = spec.starts_with('/') || fstab::is_tagged(Path::new(spec));
        // A device number needs no name here.
        let source = PathBuf::from(if named { spec } else { "/dev/root" });
        let entry = || FstabEntry {
            source,
            target: PathBuf::from("/"),
            fs_type: "auto".to_owned(),
            ..FstabEntry::default()
        };
        let leads = || leads_to_a_device(self.root, Path::new(spec)) != Some(false);
        (named && leads() || number(spec) || hexadecimal).then(entry)
    }

    /// Filters by the line alone.
    fn unwanted(&self, visit: &Visit) -> Option<Reason> {
        let entry = &visit.entry;
        let skipped = |text: String| Some(Reason::new(SKIPPED, text));
        let target = shown(&entry.target);
        if is_pseudo(&entry.fs_type)
            || is_network(&entry.fs_type)
            || !(entry.is_tagged() || entry.source.is_absolute())
        {
            return skipped(format!("its line for {target} names no block device"));
        }
        if entry.is_swap() {
            return skipped("it is swap".to_owned());
        }
        if entry.has_option("X-fstrim.notrim") {
            return Some(Reason::new(
                "fstrim.notrim",
                format!("the option X-fstrim.notrim is set for {target}"),
            ));
        }
        if entry.has_option("ro") {
            return skipped(format!("{target} is read-only (ro)"));
        }
        (leads_to_a_device(self.root, &entry.source) == Some(false)).then(|| {
            Reason::new(
                NO_DEVICE,
                format!("no device has {}, as its line for {target} says", shown(&entry.source)),
            )
        })
    }

    /// Filters by the current state of the target and the device.
    fn unreachable(&self, visit: &Visit) -> Option<Reason> {
        let skipped = |text: String| Some(Reason::new(SKIPPED, text));
        let target = shown(&visit.entry.target);
        let Some(mount) = visit.mount.map(|at| &self.mounts[at]) else {
            return skipped(format!("{target} is not mounted"));
        };
        if mount.fs_type == "autofs" {
            return skipped(format!("{target} is an automount that nothing has used"));
        }
        if !mount.is_writable() {
            return skipped(format!("{target} is mounted read-only"));
        }
        if !self.is_mount_point(&visit.entry.target) {
            return skipped(format!("{target} is no mount point of its own"));
        }
        let device = if visit.entry.is_tagged() { &mount.source } else { &visit.entry.source };
        (!self.discards(device)).then(|| {
            Reason::new(
                NO_DISCARDS,
                format!("{} takes no discards, or is read-only", shown(device)),
            )
        })
    }

    /// Index of the mount at a line's target.
    fn landing(&self, entry: &FstabEntry) -> Option<usize> {
        let path = self.canonical(&entry.target);
        self.reached(&path).filter(|at| self.mounts[*at].mount_point == path)
    }

    /// Resolves links. A recorded tree lacks most directories, so a target without a
    /// mount is taken as a link to the mount whose path ends the same way.
    fn canonical(&self, path: &Path) -> PathBuf {
        if let Some(canonical) = self.root.canonical(path) {
            return canonical;
        }
        let relative = path.strip_prefix("/").unwrap_or(path);
        let index = &self.visited.index;
        match relative.as_os_str().is_empty()
            || self.root.is_this_machine()
            || index.is_mount_point(path)
        {
            true => path.to_owned(),
            false => index.ending_in(self.mounts, relative).unwrap_or(path).to_owned(),
        }
    }

    /// Uses libmount's test: the parent directory has a different device number.
    fn is_mount_point(&self, target: &Path) -> bool {
        let number = |path: &Path| {
            self.reached(&self.canonical(path)).map(|at| device_number(&self.mounts[at]))
        };
        target == Path::new("/")
            || target.parent().is_some_and(|above| number(above) != number(target))
    }

    /// Assumes that a source that is not a device supports discards.
    fn discards(&self, source: &Path) -> bool {
        let Some(sys) = device_of_source(self.root, source) else { return true };
        let whole = if self.root.exists(sys.join("partition")) {
            sys.parent().unwrap_or(&sys)
        } else {
            &sys
        };
        let granularity = self.root.read_u64(whole.join("queue/discard_granularity"));
        granularity.is_none_or(|bytes| bytes > 0)
            && self.root.read_u64(sys.join("ro")).unwrap_or(0) == 0
    }

    /// Keeps the first remaining line for each source.
    fn one_for_each_source(&self, visits: &mut [Visit]) {
        let mut known: HashSet<PathBuf> = HashSet::new();
        for visit in visits.iter_mut().filter(|visit| visit.skipped.is_none()) {
            let entry = &visit.entry;
            if is_pseudo(&entry.fs_type) || is_network(&entry.fs_type) {
                continue;
            }
            let source = match visit.mount.map(|at| &self.mounts[at]) {
                Some(mount) if entry.is_tagged() => &mount.source,
                _ => &entry.source,
            };
            if !known.insert(source.clone()) {
                visit.skipped = Some(Reason::new(
                    SKIPPED,
                    "another line with its source comes first, and is skipped",
                ));
            }
        }
    }
}

/// Returns whether a device has the tag of an fstab line (`UUID=…`), as libblkid does: by
/// udev's links, then by probing all devices. `None` if unknown or if the source is not a
/// tag.
fn leads_to_a_device(root: &Root, source: &Path) -> Option<bool> {
    let link = fstab::tag_link(source)?;
    if root.link(&link).is_some() || root.exists(&link) {
        return Some(true);
    }
    let looked_at = || root.is_this_machine().then(|| findfs(source)).flatten();
    looked_at().or_else(|| root.is_directory(LINKS).map(|_| false))
}

/// The result of findfs, which probes all devices only as root.
fn findfs(tag: &Path) -> Option<bool> {
    let program = FINDFS
        .iter()
        .find(|program| rustix::process::geteuid().is_root() && Path::new(program).exists())?;
    let status = Command::new(program)
        .arg(tag)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok().map(|status| status.success())
}

/// Returns whether a line for the filesystem remains.
fn listed(file: &str, places: &MountPlaces, is_ours: impl Fn(&usize) -> bool) -> Answer {
    let mut ours = places.iter().filter(|(at, _)| is_ours(at)).peekable();
    if ours.peek().is_none() {
        let code = if file == FSTAB { "fstrim.not-in-fstab" } else { "fstrim.not-listed" };
        return Answer::no(code, format!("it is not in {file}"));
    }
    let reasons: Option<Vec<&Reason>> = ours.map(|(_, skipped)| skipped.as_ref()).collect();
    match reasons.as_deref() {
        Some([first, ..]) => Answer::No((*first).clone()),
        _ => Answer::Yes,
    }
}

fn each(visits: &mut [Visit], why: impl Fn(&Visit) -> Option<Reason>) {
    for visit in visits.iter_mut().filter(|visit| visit.skipped.is_none()) {
        visit.skipped = why(visit);
    }
}

/// A key that distinguishes the directories of two mounts: each btrfs subvolume has its
/// own device number.
fn device_number(mount: &Mount) -> (mountinfo::DevNumber, Option<String>) {
    let subvolume = (mount.fs_type == "btrfs")
        .then(|| mount.option_value("subvolid").or(mount.option_value("subvol")))
        .flatten();
    (mount.dev, subvolume.map(str::to_owned))
}

/// True if the first line begins with `id parent …`, which is libmount's test for
/// mountinfo as opposed to fstab.
fn is_mountinfo(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    let mut words = first.split_ascii_whitespace();
    words.by_ref().take(2).filter(|word| word.parse::<u32>().is_ok()).count() == 2
}

#[cfg(test)]
#[path = "fstrim/tests.rs"]
mod tests;
