//! Writes reports and other output files: never through a link, and over an existing file
//! only on request.

use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named, umask};

/// Largest number that is added to a name.
const NUMBERS: u32 = 100_000;

/// Behaviour if the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverwriteMode {
    /// It is an error.
    New,
    /// Add the first free number to the name.
    Free,
    /// Replace the file. A link is replaced, not followed.
    Replace,
}

/// Writes a report and returns its path. An error names the file.
///
/// Terminals and pipes (`/dev/stdout`) are written to directly.
pub fn write(path: &Path, bytes: &[u8], place: OverwriteMode) -> anyhow::Result<PathBuf> {
    put(path, bytes, place).map_err(|error| cannot(error, path))
}

/// The error of a file that cannot be written; without its directory, with a hint.
fn cannot(error: anyhow::Error, path: &Path) -> anyhow::Error {
    use io::ErrorKind::{NotADirectory, NotFound};
    let shown = format!("cannot write {}", path.display());
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        _ if error.is::<UsageError>() => error,
        Some(NotFound | NotADirectory) => UsageError::missing(format!("{shown}: {error}"))
            .hint("name a file in a directory that exists")
            .into(),
        _ => error.context(shown),
    }
}

fn put(path: &Path, bytes: &[u8], place: OverwriteMode) -> anyhow::Result<PathBuf> {
    if place != OverwriteMode::Free
        && let Some(mut stream) = named::open_stream_to_write(path)?
    {
        stream.write_all(bytes)?;
        return Ok(path.to_owned());
    }
    let (directory, name) = Dir::of_file(path)?;
    match place {
        OverwriteMode::Replace => Ok(directory
            .write_atomically(name, mode(), |file| file.write_all(bytes))
            .map(|()| path.to_owned())?),
        OverwriteMode::New => create(&directory, &name, bytes)
            .map_err(|error| explain(error, path))
            .map(|()| path.to_owned()),
        OverwriteMode::Free => {
            for number in 1..NUMBERS {
                let name = numbered(&name, number);
                match create(&directory, &name, bytes) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => {
                        return result.map(|()| path.with_file_name(name)).map_err(Into::into);
                    }
                }
            }
            Err(UsageError::new(format!("all numbered names of {} are taken", path.display()))
                .into())
        }
    }
}

/// Mode of a new document: all that the umask allows.
fn mode() -> u32 {
    umask().map_or(PRIVATE_FILE, |umask| 0o664 & !umask)
}

/// Fails if [`write`] would fail; called before hours of work.
pub fn check(path: &Path, force: bool) -> anyhow::Result<()> {
    look(path, force).map_err(|error| cannot(error, path))
}

fn look(path: &Path, force: bool) -> anyhow::Result<()> {
    // A pipe that is opened twice ends after the first time.
    let is_stream = match force {
        true => named::find_stream(path)?.is_some(),
        false => named::open_stream_to_write(path)?.is_some(),
    };
    if is_stream {
        return Ok(());
    }
    let (directory, name) = Dir::of_file(path)?;
    match directory.look(&name)?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Some(FileType::Directory) => Err(io::Error::from(Errno::ISDIR).into()),
        Some(_) if !force => Err(explain(io::ErrorKind::AlreadyExists.into(), path)),
        None | Some(FileType::RegularFile) => Ok(directory.try_to_make(&name)?),
        // A link to a file is replaced.
        Some(_) => Ok(()),
    }
}

fn explain(error: io::Error, path: &Path) -> anyhow::Error {
    if error.kind() != io::ErrorKind::AlreadyExists {
        return error.into();
    }
    UsageError::new(format!("{} already exists", path.display()))
        .hint("name another file, or use --force")
        .into()
}

fn create(directory: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let mut file = directory.create_new(name, mode())?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a report is useless; the first error is the relevant one.
        let _ = directory.remove_file(name, &file);
    }
    written
}

/// `a.html`, `a-2.html`, `a-3.html` …
fn numbered(name: &OsStr, number: u32) -> OsString {
    if number == 1 {
        return name.to_owned();
    }
    let path = Path::new(name);
    let mut new = path.file_stem().unwrap_or(name).to_owned();
    new.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        new.push(".");
        new.push(extension);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn check_of_unwritable_place_fails_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("old.html"), "old").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        for force in [false, true] {
            assert!(check(&at("new.html"), force).is_ok());
            for place in [
                Path::new("/proc/x.html"),
                Path::new("/proc/self/fd/x.html"),
                &at("nowhere/x.html"),
                &at("directory"),
                &at("old.html/x"),
            ] {
                assert!(check(place, force).is_err(), "{} {force}", place.display());
            }
            assert!(check(&at(&"x".repeat(300)), force).is_err());
        }
        assert!(check(&at("old.html"), true).is_ok() && check(&at("old.html"), false).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no file is left");
    }

    #[test]
    fn write_follows_no_link_and_replaces_only_on_request() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("canary"), "precious").unwrap();
        symlink(at("canary"), at("a.html")).unwrap();
        symlink(at("nowhere"), at("a-2.html")).unwrap();
        assert!(check(&at("a.html"), false).unwrap_err().to_string().contains("already exists"));
        assert!(write(&at("a.html"), b"new", OverwriteMode::New).unwrap_err().is::<UsageError>());
        assert_eq!(write(&at("a.html"), b"new", OverwriteMode::Free).unwrap(), at("a-3.html"));
        assert_eq!(write(&at("a.html"), b"new", OverwriteMode::Replace).unwrap(), at("a.html"));
        assert_eq!(write(&at("b.html"), b"new", OverwriteMode::New).unwrap(), at("b.html"));
        assert_eq!(std::fs::read(at("canary")).unwrap(), b"precious");
        assert!(!at("nowhere").exists());
        for name in ["a.html", "a-3.html", "b.html"] {
            assert!(
                at(name).symlink_metadata().unwrap().is_file()
                    && std::fs::read(at(name)).unwrap() == b"new",
                "{name}"
            );
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 5, "no other files");
    }
}
