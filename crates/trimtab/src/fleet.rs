//! Reads what `trimtab doctor --json` and `trimtab wear --json` printed on many hosts.
//! All of it is foreign: a file that cannot be used is listed with the reason, and stops
//! nothing.

use anyhow::Context as _;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use trimtab_linux::output::error::{of_named, one_line};
use trimtab_linux::sys::beneath::{Dir, ResolvedObject, named};
use trimtab_linux::sys::clock::unix_now;
use trimtab_study::fleet::documents::{HostDocument, Hosts, UnreadFile};

/// Largest file, in bytes.
const BYTES_MAX: u64 = 64 << 20;
const DOCTOR: &str = "doctor";
const WEAR: &str = "wear";

/// Reads files, and directories with a subdirectory for each host or with files named
/// after hosts.
///
/// # Errors
/// A named path that does not exist or cannot be opened.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Hosts> {
    let mut all = Hosts::default();
    for path in paths {
        let hint = "name a directory or files that 'trimtab doctor --json' and 'trimtab wear \
            --json' wrote";
        let kind = ResolvedObject::look_up(path)
            .map_err(|error| of_named(error, path, "cannot read", hint))?
            .kind();
        if kind != FileType::Directory {
            let parent = path.parent().and_then(Path::file_name);
            add(&mut all, &host_of(path, parent), path);
            continue;
        }
        for child in children(path).with_context(|| format!("cannot list '{}'", path.display()))? {
            let is_directory = is_directory(&child);
            if is_directory && !child.is_symlink() {
                add_directory(&mut all, &child);
            } else if is_directory || is_json(&child) {
                add_found(&mut all, &host_of(&child, path.file_name()), &child);
            }
        }
    }
    Ok(all)
}

/// Entries that are not hidden.
fn children(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = Dir::open(directory)?.names()?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn is_directory(path: &Path) -> bool {
    ResolvedObject::look_up(path).is_ok_and(|found| found.kind() == FileType::Directory)
}

fn is_json(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("json"))
}

/// The host in a file's name: `web1` of `web1-doctor.json`, `web1.wear.json` and
/// `web1.json`. For `doctor.json` it is the directory.
fn host_of(path: &Path, directory: Option<&OsStr>) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let host = [DOCTOR, WEAR].iter().find_map(|kind| stem.strip_suffix(kind)).unwrap_or(&stem);
    match host.trim_end_matches(['-', '_', '.']) {
        "" => directory.unwrap_or_default().to_string_lossy().into_owned(),
        host => host.to_owned(),
    }
}

fn add_directory(all: &mut Hosts, directory: &Path) {
    let host = directory.file_name().unwrap_or_default().to_string_lossy();
    match children(directory) {
        Ok(children) => children.iter().for_each(|child| {
            if is_json(child) {
                add_found(all, &host, child);
            } else if is_directory(child) {
                let why = "is a directory in the directory of a host, and is not read";
                let hint = format!("to read its hosts, name '{}' as PATH", directory.display());
                not_read(all, child, format!("{why}; {hint}"));
            }
        }),
        Err(error) => not_read(all, directory, error.to_string()),
    }
}

/// Adds a file of a directory. What another host sent may link to any file of this one.
fn add_found(all: &mut Hosts, host: &str, file: &Path) {
    if file.is_symlink() {
        not_read(
            all,
            file,
            "is a symbolic link, and cannot be read as part of a directory; name its \
            target as PATH"
                .to_owned(),
        );
    } else {
        add(all, host, file);
    }
}

fn add(all: &mut Hosts, host: &str, file: &Path) {
    let document = named::read(file, BYTES_MAX).context("cannot be read").and_then(|bytes| {
        anyhow::ensure!(
            !bytes.trim_ascii().is_empty(),
            "is empty: the command on that host failed"
        );
        serde_json::from_slice::<HostDocument>(&bytes).map_err(|error| {
            let what = "is not a document of 'trimtab doctor --json' or 'trimtab wear --json'";
            // The other errors name types of this program.
            match error.is_data() {
                true => anyhow::anyhow!("{what} (line {})", error.line()),
                false => anyhow::Error::new(error).context(what),
            }
        })
    });
    match document {
        Err(error) => not_read(all, file, one_line(&error)),
        Ok(document) => {
            let host = all.hosts.entry(host.to_owned()).or_default();
            let added = host.add(document, &file.display().to_string(), unix_now().as_secs_f64());
            all.unread.extend(added.err());
        }
    }
}

fn not_read(all: &mut Hosts, file: &Path, why: String) {
    all.unread.push(UnreadFile { file: file.display().to_string(), why });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_another_program_is_refused_in_words() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[1]").unwrap();
        let mut all = Hosts::default();
        add(&mut all, "a", file.path());
        let why = &all.unread[0].why;
        assert!(why.starts_with("is not a document of") && !why.contains("struct"), "{why}");
    }

    #[test]
    fn host_is_the_directory_or_the_start_of_the_name() {
        let directory = Some(OsStr::new("web1"));
        for (file, expected) in [
            ("doctor.json", "web1"),
            ("wear.json", "web1"),
            ("db-2.doctor.json", "db-2"),
            ("db-2_wear.json", "db-2"),
            ("db.example.org-wear.json", "db.example.org"),
            ("db2.json", "db2"),
            ("-doctor.json", "web1"),
        ] {
            assert_eq!(host_of(Path::new(file), directory), expected, "{file}");
        }
    }
}
