//! The working directory of a command, and the detection of those that crashed runs left
//! behind.
//!
//! A workspace contains `marker` and the directories of the runs. The marker names the
//! owning process and is locked while that process lives.

use super::names::{self, ARCHIVE, MARKER};
use super::{Guard, TargetDirectory, consent};
use crate::host::mountinfo::{self, Mount};
use crate::host::processes::{boot_id, started};
use crate::output::{ClosedPipeGuard, Context};
use crate::sys::beneath::remove::is_renamed_open_file;
use crate::sys::beneath::{Dir, PRIVATE_FILE, Removal};
use crate::sys::interrupt::TemporaryChangeGuard;
use anyhow::{Context as _, anyhow};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;

/// Prefix of workspace names; the id of the owning process follows.
const PREFIX: &str = "trimtab-work-";
/// Maximum size of a marker.
const MARKER_BYTES_MAX: u64 = 4096;

/// A working directory of this process. Removed with all its content on drop.
#[derive(Debug)]
pub struct Workspace {
    parent: Dir,
    name: String,
    path: PathBuf,
    dir: Dir,
    reserve: Bytes,
    /// Locked while this process lives; `None` once the workspace is removed.
    marker: Option<File>,
    _unfinished: TemporaryChangeGuard,
    /// Keeps a closed output pipe from ending the process before the directory is
    /// removed.
    _pipe: ClosedPipeGuard,
}

impl Workspace {
    /// Creates a workspace in `ground`.
    pub fn create(ground: &TargetDirectory, reserve: Bytes) -> anyhow::Result<Self> {
        let unfinished = TemporaryChangeGuard::begin();
        let parent = ground.directory()?;
        let pid = std::process::id();
        let (name, dir) =
            parent.mkdir_unique(|n| format!("{PREFIX}{pid}-{n}")).with_context(|| {
                format!("cannot make a working directory in {}", ground.path.display())
            })?;
        let path = ground.path.join(&name);
        match furnish(&dir) {
            Ok(marker) => Ok(Self {
                parent,
                name,
                path,
                dir,
                reserve,
                marker: Some(marker),
                _unfinished: unfinished,
                _pipe: ClosedPipeGuard::new(),
            }),
            Err(error) => {
                // Leave nothing behind; the first error is the one to report.
                let _ = parent.remove_tree(&name, &dir);
                Err(anyhow!(error).context(format!("cannot set up {}", path.display())))
            }
        }
    }

    /// Fails if the workspace is not on `mount`. The mount was found by name, and a user
    /// who may change a directory on the way can redirect that name for a moment.
    pub fn require_on(&self, mount: Option<&Mount>) -> anyhow::Result<()> {
        let here = mountinfo::mount_id_of(&self.dir);
        match mount.zip(here) {
            Some((mount, here)) if mount.id != here => {
                let (path, other) = (self.path.display(), mount.mount_point.display());
                Err(anyhow!(
                    "{path} is no longer on {other}: another process is changing directories there"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Path of the workspace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory for one run in the workspace.
    pub fn subdirectory(&self, name: &str) -> anyhow::Result<(OwnedFd, PathBuf)> {
        let path = self.path.join(name);
        let dir =
            self.dir.mkdir(name).with_context(|| format!("cannot make {}", path.display()))?;
        Ok((dir.into(), path))
    }

    /// Removes a run's directory with all its content.
    pub fn remove_subdirectory(&self, name: &str) -> anyhow::Result<()> {
        let remove = || match self.dir.open_dir(name) {
            Ok(held) => self.dir.remove_tree(name, &held).map(drop),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        remove().with_context(|| format!("cannot remove {}", self.path.join(name).display()))
    }

    /// Returns a guard that monitors the reserve during a run.
    pub fn guard(&self) -> anyhow::Result<Guard> {
        let dir = self.dir.try_clone().context("cannot keep the directory open")?;
        Ok(Guard::new(dir.into(), self.path.clone(), self.reserve))
    }

    /// Removes the workspace and returns `outcome`. Call after the result has been saved
    /// and printed, so that a failed removal loses no result. If both fail, returns the
    /// error of the outcome and prints that of the removal, also with `--quiet`.
    pub fn close_after<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        match (self.close(), outcome) {
            (Ok(()), outcome) => outcome,
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(outcome)) => {
                crate::output::complain(&format!("{error:#}"));
                Err(outcome)
            }
        }
    }

    /// Removes the workspace; returns an error if that fails.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> anyhow::Result<()> {
        match self.marker.take() {
            Some(marker) => remove(&self.parent, &self.name, &self.dir, &self.path, Some(marker)),
            None => Ok(()),
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            crate::output::complain(&format!("{error:#}"));
        }
    }
}

/// Removes the content of the workspace open as `dir`, and then the workspace itself if
/// `name` still refers to it.
fn remove(
    parent: &Dir,
    name: &str,
    dir: &Dir,
    path: &Path,
    marker: Option<File>,
) -> anyhow::Result<()> {
    // Remove the marker last, so that after a kill the rest still names its owner. Close
    // it first, because FUSE and NFS keep open files under another name.
    let contents = || {
        for inner in dir.names()?.iter().filter(|inner| *inner != MARKER) {
            if let Ok(held) = dir.open_dir(inner) {
                let _ = dir.remove_tree(inner, &held)?;
            }
        }
        std::io::Result::Ok(())
    };
    let removal = contents().and_then(|()| {
        drop(marker);
        parent.remove_tree(name, dir)
    });
    match removal.map_err(|error| not_removed(error, path))? {
        Removal::Done | Removal::Absent => Ok(()),
        Removal::Foreign(at) => {
            let now =
                if at == path { String::new() } else { format!(" (it is at {})", at.display()) };
            Err(anyhow!(
                "{} is not the directory that was made there, so it was left \
                    alone{now}; ours was moved and is empty now",
                path.display()
            ))
        }
    }
}

fn not_removed(error: std::io::Error, path: &Path) -> anyhow::Error {
    let parent = path.parent().unwrap_or(path).display();
    let next_run = format!(
        "the next run in {parent} offers to remove it; to remove it now: rm -r -- {}",
        quoted(&path.to_string_lossy())
    );
    let what_to_do = match error.kind() {
        std::io::ErrorKind::CrossesDevices => {
            "something is mounted in it, which was not touched: unmount that, and \
                remove the rest by hand"
        }
        std::io::ErrorKind::ResourceBusy => {
            "end the process that has these files open, then remove the directory"
        }
        std::io::ErrorKind::Interrupted => &next_run,
        _ => "please remove it by hand",
    };
    anyhow!(error).context(format!("cannot remove {}; {what_to_do}", path.display()))
}

/// Creates the locked marker in the new directory.
fn furnish(dir: &Dir) -> std::io::Result<File> {
    let mut marker = dir.create_new(MARKER, PRIVATE_FILE)?;
    // Without lock support, the process id alone shows that the owner lives.
    let _ = rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive);
    marker.write_all(&serde_json::to_vec(&Owner::this_process(dir)?)?)?;
    // After a power cut, the marker still identifies the directory.
    marker.sync_all()?;
    Ok(marker)
}

/// The owner of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Start time of the process, in clock ticks since boot. It distinguishes processes
    /// that reuse the pid.
    started: u64,
    boot: String,
    host: String,
    /// Inode of the directory, which distinguishes a workspace from its copies.
    directory: u64,
}

impl Owner {
    fn this_process(dir: &Dir) -> std::io::Result<Self> {
        let pid = std::process::id();
        let directory = dir.identity()?.inode;
        Ok(Self {
            pid,
            started: started(pid).unwrap_or(0),
            boot: boot_id(),
            host: host_name(),
            directory,
        })
    }

    /// True if this owner matches the name and inode of the directory. A marker in a
    /// copied or renamed directory does not match.
    fn fits(&self, name: &str, dir: &Dir) -> bool {
        let of_process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next())
            == Some(&*self.pid.to_string());
        of_process && dir.identity().is_ok_and(|identity| identity.inode == self.directory)
    }

    /// True if the process lives, judged by its id on this machine and boot.
    fn lives(&self) -> bool {
        self.boot == boot_id() && started(self.pid) == Some(self.started)
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A directory that is named like a workspace.
#[derive(Debug)]
pub struct Leftover {
    name: String,
    state: LeftoverState,
    /// The directory, if it can be opened.
    dir: Option<Dir>,
    /// Holds the lock, so that only one process handles the leftover.
    marker: Option<File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LeftoverState {
    /// The owning process is gone.
    Dead,
    /// In use or being set up.
    Alive,
    /// Created by another machine that shares the filesystem.
    Elsewhere(String),
    /// Named like a workspace, but without a valid marker.
    Unknown,
    /// A copy: the marker belongs to another directory.
    Copy,
}

/// Finds the leftovers of crashed runs in `ground` and offers to remove them. Leaves live
/// and foreign directories alone.
pub fn deal_with_leftovers(context: &Context, ground: &TargetDirectory) -> anyhow::Result<()> {
    sweep(ground);
    for leftover in
        find(ground).with_context(|| format!("cannot list {}", ground.path.display()))?
    {
        let path = ground.path.join(&leftover.name);
        let shown = path.display();
        match &leftover.state {
            LeftoverState::Alive => {}
            LeftoverState::Elsewhere(host) => context.remark(&format!(
                "{shown} was made on {host}; if nothing runs there any more, remove it."
            )),
            LeftoverState::Unknown => context.remark(&format!(
                "{shown} is named like a directory of trimtab's but does not say \
                    that it is one; left alone."
            )),
            LeftoverState::Copy => context.remark(&format!(
                "{shown} is named like a directory of trimtab's, but its marker is \
                    another one's: it is a copy, or was renamed; left alone."
            )),
            LeftoverState::Dead => deal_with_dead(context, ground, leftover, &path)?,
        }
    }
    Ok(())
}

/// Removes the private directories of interrupted workspace removals. Asks no consent,
/// because only empty directories are removed.
fn sweep(ground: &TargetDirectory) {
    let Ok(parent) = ground.directory() else { return };
    for name in parent.names().unwrap_or_default() {
        if Dir::is_temporary_name(&name, "removed".as_ref())
            && let Ok(place) = parent.open_dir(&name)
            && place.require_private().is_ok()
            && is_old(&place)
        {
            for inner in place
                .names()
                .unwrap_or_default()
                .iter()
                .filter(|inner| inner.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
            {
                let _ = place.open_dir(inner).and_then(|held| place.remove_dir(inner, &held));
            }
            // A directory with any other content stays.
            if is_empty(&place) {
                let _ = parent.remove_dir(&name, &place);
            }
        }
    }
}

fn deal_with_dead(
    context: &Context,
    ground: &TargetDirectory,
    leftover: Leftover,
    path: &Path,
) -> anyhow::Result<()> {
    let shown = path.display();
    if !consent::ask(context, &format!("{shown} was left by a run that crashed. Remove it?"))? {
        context.remark(&format!("{shown} was left by a run that crashed; --yes removes it."));
        return Ok(());
    }
    let dir = leftover.dir.as_ref().context("a directory that was looked into is open")?;
    let stay = remove_ours(dir).map_err(|error| not_removed(error, path))?;
    if stay.is_empty() {
        return remove(&ground.directory()?, &leftover.name, dir, path, leftover.marker);
    }
    let (few, more) = (stay.iter().take(FOREIGN_SHOWN), stay.len().saturating_sub(FOREIGN_SHOWN));
    let few =
        few.map(|foreign| path.join(foreign).display().to_string()).collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    context.remark(&format!(
        "{few}{more}: no run made that, so it stays, and {shown} with it; move it away, \
        and the rest can be removed."
    ));
    Ok(())
}

/// Maximum number of foreign entries that a message names.
const FOREIGN_SHOWN: usize = 3;

/// Removes the entries that runs have created from a leftover, except the marker. Returns
/// the rest.
fn remove_ours(dir: &Dir) -> std::io::Result<Vec<PathBuf>> {
    // Content of an archive may have any names.
    if let Ok(archive) = dir.open_dir(ARCHIVE) {
        let _ = dir.remove_tree(ARCHIVE, &archive)?;
    }
    let mut stay = dir.remove_known(names::is_ours)?;
    stay.retain(|path| path != Path::new(MARKER));
    Ok(stay)
}

/// Returns the directories that crashed runs left in `directory`. Changes nothing.
pub fn left_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(parent) = Dir::open(directory) else { return Vec::new() };
    let names = parent.names().unwrap_or_default();
    let ours =
        names.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with(PREFIX));
    let dead = ours
        .filter_map(|name| examine(&parent, name))
        .filter(|leftover| leftover.state == LeftoverState::Dead);
    dead.map(|leftover| directory.join(&leftover.name)).collect()
}

/// Returns all directories in `ground` that are named like a workspace.
pub fn find(ground: &TargetDirectory) -> std::io::Result<Vec<Leftover>> {
    let parent = Dir::from_fd(ground.dir.try_clone()?, &ground.path);
    let mut found = Vec::new();
    for name in parent.names()? {
        if let Some(name) = name.to_str()
            && name.starts_with(PREFIX)
            && let Some(leftover) = examine(&parent, name)
        {
            found.push(leftover);
        }
    }
    Ok(found)
}

/// Returns `None` if the entry is not a directory or no longer exists.
fn examine(parent: &Dir, name: &str) -> Option<Leftover> {
    let name = name.to_owned();
    let dir = match parent.open_dir(&name) {
        Ok(dir) => dir,
        // Belongs to another user.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            return Some(Leftover { name, state: LeftoverState::Alive, dir: None, marker: None });
        }
        Err(_) => return None,
    };
    let (state, marker) = state(&dir, &name);
    Some(Leftover { name, state, dir: Some(dir), marker })
}

fn state(dir: &Dir, name: &str) -> (LeftoverState, Option<File>) {
    let ours =
        rustix::fs::fstat(dir).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    // If other users may write here, they can have forged the marker.
    if !ours || dir.require_unshared().is_err() {
        return (LeftoverState::Unknown, None);
    }
    let marker = match dir.open_read(MARKER) {
        Ok(marker) => marker,
        // Being set up or removed; or a crash interrupted that, and the directory is
        // empty.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match (is_old(dir), is_empty(dir)) {
                (true, true) => (LeftoverState::Dead, None),
                (true, false) => (LeftoverState::Unknown, None),
                (false, _) => (LeftoverState::Alive, None),
            };
        }
        Err(_) => return (LeftoverState::Unknown, None),
    };
    if !Dir::is_trusted_file(&marker).unwrap_or(false) {
        return (LeftoverState::Unknown, None);
    }
    if rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive)
        == Err(Errno::WOULDBLOCK)
    {
        return (LeftoverState::Alive, None);
    }
    let mut text = String::new();
    let _ = (&marker).take(MARKER_BYTES_MAX).read_to_string(&mut text);
    let state = match serde_json::from_str::<Owner>(&text).ok() {
        None if !is_old(dir) => LeftoverState::Alive,
        // Killed before it wrote its marker, and therefore before it created anything
        // else.
        None if text.is_empty() && dir.names().is_ok_and(|names| names == [MARKER]) => {
            LeftoverState::Dead
        }
        None => LeftoverState::Unknown,
        Some(owner) if owner.lives() && owner.fits(name, dir) => LeftoverState::Alive,
        Some(owner) if owner.host != host_name() => LeftoverState::Elsewhere(owner.host),
        Some(owner) if !owner.fits(name, dir) => LeftoverState::Copy,
        Some(_) => LeftoverState::Dead,
    };
    (state, Some(marker))
}

/// True if the directory was not modified within the last minute.
fn is_old(dir: &Dir) -> bool {
    let modified = rustix::fs::fstat(dir).map_or(i64::MAX, |stat| stat.st_mtime);
    let now = i64::try_from(crate::sys::clock::unix_ms() / 1000).unwrap_or(0);
    now.saturating_sub(modified) > 60
}

/// True if the directory is empty, apart from removed files that a FUSE server or NFS
/// client keeps.
fn is_empty(dir: &Dir) -> bool {
    dir.names()
        .is_ok_and(|names| names.iter().all(|name| is_renamed_open_file(name.as_encoded_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn context(yes: bool) -> Context {
        Context { json: false, progress: false, quiet: true, yes, ..Context::default() }
    }

    fn ground() -> (tempfile::TempDir, TargetDirectory) {
        let dir = tempfile::tempdir().unwrap();
        let ground = TargetDirectory::open(dir.path()).unwrap();
        (dir, ground)
    }

    fn this_process() -> Owner {
        let anywhere = tempfile::tempdir().unwrap();
        Owner::this_process(&Dir::open(anywhere.path()).unwrap()).unwrap()
    }

    #[test]
    fn require_on_refuses_any_other_mount() {
        let (_dir, ground) = ground();
        let workspace = Workspace::create(&ground, Bytes::ZERO).unwrap();
        let mounts = mountinfo::read(&crate::host::root::Root::live().unwrap()).unwrap();
        let here = mountinfo::mount_id_of(&workspace.dir).unwrap();
        for mount in &mounts {
            assert_eq!(
                workspace.require_on(Some(mount)).is_ok(),
                mount.id == here,
                "{}",
                mount.mount_point.display()
            );
        }
        assert!(
            mounts.iter().any(|mount| mount.id == here) && mounts.len() > 1,
            "this test tries nothing"
        );
        assert!(workspace.require_on(None).is_ok());
    }

    /// Creates the leftover of a killed process.
    fn crashed(dir: &Path, name: &str, owner: &Owner) -> PathBuf {
        let path = dir.join(format!("{PREFIX}{}-{name}", owner.pid));
        fs::create_dir_all(path.join("run/tree")).unwrap();
        set_mode(&path, 0o700);
        let directory = Dir::open(&path).unwrap().identity().unwrap().inode;
        let owner = Owner { directory, ..owner.clone() };
        fs::write(path.join(MARKER), serde_json::to_vec(&owner).unwrap()).unwrap();
        fs::write(path.join("run/tree/file1"), b"left").unwrap();
        path
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn workspace_replacement_is_kept_and_reported() {
        for shared in [0o700, 0o777] {
            let (dir, ground) = ground();
            set_mode(dir.path(), shared);
            let workspace = Workspace::create(&ground, Bytes::ZERO).unwrap();
            let (_, sub) = workspace.subdirectory("run").unwrap();
            fs::write(sub.join("file"), b"ours").unwrap();
            let (path, aside) = (workspace.path().to_owned(), dir.path().join("aside"));
            fs::rename(&path, &aside).unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join("precious"), b"x").unwrap();
            let error = workspace.close().unwrap_err().to_string();
            assert!(error.contains("left alone"), "{error}");
            assert!(path.join("precious").exists());
            assert_eq!(
                fs::read_dir(&aside).unwrap().count(),
                0,
                "what was ours is gone wherever it is"
            );
        }
    }

    #[test]
    fn marker_writable_by_others_is_ignored() {
        let (dir, ground) = ground();
        let dead = Owner { pid: u32::MAX, ..this_process() };
        let left = crashed(dir.path(), "shared", &dead);
        let linked = crashed(dir.path(), "linked", &dead);
        fs::hard_link(linked.join(MARKER), dir.path().join("second-name")).unwrap();
        let writable = crashed(dir.path(), "writable", &dead);
        set_mode(&writable.join(MARKER), 0o666);
        for mode in [0o777, 0o770, 0o1777, 0o707] {
            set_mode(&left, mode);
            deal_with_leftovers(&context(true), &ground).unwrap();
            for path in [&left, &linked, &writable] {
                assert!(path.join("run/tree/file1").exists(), "{} {mode:o}", path.display());
            }
        }
        set_mode(&left, 0o755);
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn workspace_and_marker_have_private_modes() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, ground) = ground();
        let workspace = Workspace::create(&ground, Bytes::ZERO).unwrap();
        let (_, sub) = workspace.subdirectory("run").unwrap();
        for (path, mode) in
            [(workspace.path(), 0o700), (&sub, 0o700), (&workspace.path().join(MARKER), 0o600)]
        {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                mode,
                "{}",
                path.display()
            );
        }
        drop(dir);
    }

    #[test]
    fn workspace_drop_removes_its_contents() {
        let (dir, ground) = ground();
        let workspace = Workspace::create(&ground, Bytes::ZERO).unwrap();
        let (_, sub) = workspace.subdirectory("run").unwrap();
        fs::write(sub.join("file"), b"x").unwrap();
        assert_eq!(find(&ground).unwrap()[0].state, LeftoverState::Alive, "ours lives");
        drop(workspace);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn workspace_close_after_removal_succeeds() {
        let (dir, ground) = ground();
        let workspace = Workspace::create(&ground, Bytes::ZERO).unwrap();
        fs::remove_dir_all(workspace.path()).unwrap();
        workspace.close().unwrap();
        drop(dir);
    }

    #[test]
    fn leftover_with_empty_marker_is_removed_only_if_alone() {
        let (dir, ground) = ground();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        for (name, more) in [("1-1", None), ("2-1", Some("photo"))] {
            let path = dir.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            set_mode(&path, 0o700);
            for file in [Some(MARKER), more].into_iter().flatten() {
                fs::write(path.join(file), "").unwrap();
            }
            File::open(&path).unwrap().set_modified(long_ago).unwrap();
        }
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert!(
            !dir.path().join("trimtab-work-1-1").exists()
                && dir.path().join("trimtab-work-2-1/photo").exists()
        );
    }

    #[test]
    fn half_removed_workspace_is_removed_and_others_stay() {
        let (dir, ground) = ground();
        let place = |n: u32, mode: u32, inner: &str, age: u64| {
            let path = dir.path().join(format!(".removed.{n:016x}"));
            fs::create_dir_all(path.join(inner)).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            File::open(&path)
                .unwrap()
                .set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age))
                .unwrap();
            path
        };
        let gone = [place(1, 0o700, "trimtab-work-1-1", 3600), place(2, 0o700, "", 3600)];
        let stay = [
            place(3, 0o755, "trimtab-work-1-1", 3600),
            place(4, 0o700, "trimtab-work-1-1", 0),
            place(5, 0o700, "trimtab-work-1-1/precious", 3600),
            place(6, 0o700, "photos", 3600),
        ];
        deal_with_leftovers(&context(false), &ground).unwrap();
        assert!(gone.iter().all(|path| !path.exists()));
        assert!(stay.iter().all(|path| path.exists()));
    }

    #[test]
    fn leftovers_of_dead_processes_need_consent() {
        let (dir, ground) = ground();
        let dead = Owner { pid: u32::MAX, ..this_process() };
        let earlier_boot = Owner { boot: "an earlier one".into(), ..this_process() };
        let reused_pid = Owner { started: 1, ..this_process() };
        let left = [
            crashed(dir.path(), "a", &dead),
            crashed(dir.path(), "b", &earlier_boot),
            crashed(dir.path(), "c", &reused_pid),
        ];
        deal_with_leftovers(&context(false), &ground).unwrap();
        assert!(left.iter().all(|path| path.join("run/tree/file1").exists()), "nobody said yes");
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert!(left.iter().all(|path| !path.exists()));
    }

    #[test]
    fn foreign_files_and_copies_stay_in_leftover() {
        let (dir, ground) = ground();
        let dead = Owner { pid: u32::MAX, ..this_process() };
        let left = crashed(dir.path(), "1", &dead);
        fs::create_dir_all(left.join("archive/any/name")).unwrap();
        let foreign =
            ["notes.md", "photos/1.jpg", "run/thesis.tex", "run/tree/Holiday.png", "run-x/12"];
        for file in foreign {
            fs::create_dir_all(left.join(file).parent().unwrap()).unwrap();
            fs::write(left.join(file), b"precious").unwrap();
        }
        // A copy elsewhere keeps the name and the marker; a renamed workspace does not
        // match its marker.
        let copy = dir.path().join("aside").join(left.file_name().unwrap());
        for path in ["run/tree/file1", MARKER, "notes.md"] {
            fs::create_dir_all(copy.join(path).parent().unwrap()).unwrap();
            fs::copy(left.join(path), copy.join(path)).unwrap();
        }
        set_mode(&copy, 0o700);
        let renamed = dir.path().join(format!("{PREFIX}1-1"));
        fs::rename(crashed(dir.path(), "2", &dead), &renamed).unwrap();
        deal_with_leftovers(&context(true), &ground).unwrap();
        deal_with_leftovers(
            &context(true),
            &TargetDirectory::open(&dir.path().join("aside")).unwrap(),
        )
        .unwrap();
        for file in foreign {
            assert_eq!(fs::read(left.join(file)).unwrap(), b"precious", "{file}");
        }
        assert!(!left.join("run/tree/file1").exists() && !left.join("archive").exists());
        assert!(copy.join("run/tree/file1").exists() && renamed.join("run/tree/file1").exists());
        // Once the foreign files are moved away, the rest is removed.
        for file in ["notes.md", "photos", "run/thesis.tex", "run/tree/Holiday.png", "run-x"] {
            fs::rename(left.join(file), dir.path().join(file.replace('/', "_"))).unwrap();
        }
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn leftovers_live_locked_or_unmarked_stay() {
        let (dir, ground) = ground();
        assert!(this_process().lives());
        let mine = crashed(dir.path(), "mine", &this_process());
        let elsewhere = crashed(
            dir.path(),
            "nfs",
            &Owner { host: "another".into(), boot: "x".into(), ..this_process() },
        );
        let locked = crashed(dir.path(), "locked", &Owner { pid: u32::MAX, ..this_process() });
        let lock = File::open(locked.join(MARKER)).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let foreign = dir.path().join(format!("{PREFIX}photos"));
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("precious"), b"x").unwrap();
        let fake = dir.path().join(format!("{PREFIX}fake"));
        fs::create_dir(&fake).unwrap();
        fs::write(fake.join(MARKER), b"something else").unwrap();
        fs::write(dir.path().join(format!("{PREFIX}file")), b"x").unwrap();
        std::os::unix::fs::symlink(&foreign, dir.path().join(format!("{PREFIX}link"))).unwrap();
        let before = fs::read_dir(dir.path()).unwrap().count();
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
        for path in [&mine, &elsewhere, &locked] {
            assert!(path.join("run/tree/file1").exists(), "{}", path.display());
        }
        assert!(foreign.join("precious").exists());
    }

    #[test]
    fn old_directory_without_marker_is_leftover_only_if_empty() {
        let (dir, ground) = ground();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        let (empty, full) =
            (dir.path().join(format!("{PREFIX}empty")), dir.path().join(format!("{PREFIX}full")));
        for path in [&empty, &full] {
            fs::create_dir(path).unwrap();
        }
        fs::write(full.join("precious"), b"x").unwrap();
        for path in [&empty, &full] {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        deal_with_leftovers(&context(true), &ground).unwrap();
        assert!(!empty.exists() && full.join("precious").exists());
    }
}
