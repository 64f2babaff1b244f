//! Reads what `trimtab doctor --json` and `trimtab wear --json` printed on many hosts. All of it
//! is foreign: a file that cannot be used is listed with the reason, and stops nothing.

use anyhow::Context as _;
use rustix::fs::FileType;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use trimtab_linux::output::error::{of_named, one_line};
use trimtab_linux::sys::beneath::{Dir, ResolvedObject, named};

/// Largest file, in bytes.
const BYTES_MAX: u64 = 64 << 20;
const DOCTOR: &str = "doctor";
const WEAR: &str = "wear";

/// A document of one host. Fields that the report does not use are ignored.
#[derive(Debug, Deserialize)]
struct HostDocument {
    #[serde(default)]
    schema: String,
    #[serde(default)]
    version: u64,
    diagnoses: Option<Vec<HostDiagnosis>>,
    drives: Option<Vec<HostDrive>>,
    #[serde(default)]
    failures: Vec<UnreadDrive>,
    error: Option<HostError>,
}

#[derive(Debug, Deserialize)]
struct HostError {
    message: String,
}

/// A diagnosis of a host's filesystem or device.
#[derive(Debug, Deserialize)]
pub struct HostDiagnosis {
    pub subject: String,
    pub verdict: HostVerdict,
    pub filesystem: Option<HostLayer>,
    pub layers: Vec<HostLayer>,
    pub trimmed_by: Vec<String>,
    #[serde(default)]
    pub is_verdict_accepted: bool,
}

#[derive(Debug, Deserialize)]
pub struct HostVerdict {
    pub kind: String,
    pub at: Vec<String>,
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub struct HostLayer {
    pub name: String,
    pub findings: Vec<HostFinding>,
}

#[derive(Debug, Deserialize)]
pub struct HostFinding {
    pub code: String,
    pub severity: String,
    pub text: String,
}

/// The wear of a host's drive.
#[derive(Debug, Deserialize)]
pub struct HostDrive {
    pub subject: String,
    pub model: Option<String>,
    pub taken_unix_s: Option<i64>,
    pub host_written_bytes: Option<u64>,
    pub nand_written_bytes: Option<u64>,
    pub waf_lifetime: Option<HostWaf>,
    pub used_percent: Option<u64>,
    pub power_on_hours: Option<u64>,
    pub since: Option<HostSince>,
    pub life_left: Option<HostLifeLeft>,
}

#[derive(Debug, Deserialize)]
pub struct HostWaf {
    pub value: f64,
}

#[derive(Debug, Deserialize)]
pub struct HostSince {
    pub waf: Option<HostWaf>,
}

#[derive(Debug, Deserialize)]
pub struct HostLifeLeft {
    pub days: Option<f64>,
}

/// A drive whose wear its host could not read.
#[derive(Clone, Debug, Deserialize)]
pub struct UnreadDrive {
    pub subject: String,
    pub why: String,
}

/// The documents of one host.
#[derive(Debug, Default)]
pub struct Host {
    pub diagnoses: Option<Vec<HostDiagnosis>>,
    pub wear: Option<(Vec<HostDrive>, Vec<UnreadDrive>)>,
}

/// A file that is not in the report.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct UnreadFile {
    /// The file.
    pub file: String,
    /// The reason.
    pub why: String,
}

/// All hosts by name, and the files that could not be used.
#[derive(Debug, Default)]
pub struct Hosts {
    pub hosts: BTreeMap<String, Host>,
    pub unread: Vec<UnreadFile>,
}

/// Reads files, and directories with a subdirectory for each host or with files named after hosts.
///
/// # Errors
/// A named path that does not exist or cannot be opened.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Hosts> {
    let mut all = Hosts::default();
    for path in paths {
        let hint = "name a directory or files that 'trimtab doctor --json' and 'trimtab wear --json' wrote";
        let kind = ResolvedObject::look_up(path).map_err(|error| of_named(error, path, "cannot read", hint))?.kind();
        if kind != FileType::Directory {
            let parent = path.parent().and_then(Path::file_name);
            all.add(&host_of(path, parent), path);
            continue;
        }
        for child in children(path).with_context(|| format!("cannot list '{}'", path.display()))? {
            let is_directory = ResolvedObject::look_up(&child).is_ok_and(|found| found.kind() == FileType::Directory);
            if is_directory && !child.is_symlink() {
                all.add_directory(&child);
            } else if is_directory || is_json(&child) {
                all.add_found(&host_of(&child, path.file_name()), &child);
            }
        }
    }
    Ok(all)
}

fn children(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = Dir::open(directory)?.names()?;
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn is_json(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("json"))
}

/// The host in a file's name: `web1` of `web1-doctor.json`, `web1.wear.json` and `web1.json`. For
/// `doctor.json` it is the directory.
fn host_of(path: &Path, directory: Option<&OsStr>) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let host = [DOCTOR, WEAR].iter().find_map(|kind| stem.strip_suffix(kind)).unwrap_or(&stem);
    match host.trim_end_matches(['-', '_', '.']) {
        "" => directory.unwrap_or_default().to_string_lossy().into_owned(),
        host => host.to_owned(),
    }
}

impl Hosts {
    fn add_directory(&mut self, directory: &Path) {
        let host = directory.file_name().unwrap_or_default().to_string_lossy();
        match children(directory) {
            Ok(children) => children.iter().filter(|child| is_json(child)).for_each(|child| self.add_found(&host, child)),
            Err(error) => self.not_read(directory, error.to_string()),
        }
    }

    fn not_read(&mut self, file: &Path, why: String) {
        self.unread.push(UnreadFile { file: file.display().to_string(), why });
    }

    /// Adds a file of a directory. What another host sent may link to any file of this one.
    fn add_found(&mut self, host: &str, file: &Path) {
        if file.is_symlink() {
            self.not_read(file, "is a symbolic link, and cannot be read as part of a directory; name its target as PATH".to_owned());
        } else {
            self.add(host, file);
        }
    }

    fn add(&mut self, host: &str, file: &Path) {
        let document = named::read(file, BYTES_MAX).context("cannot be read").and_then(|bytes| {
            serde_json::from_slice::<HostDocument>(&bytes).context("is not a document of 'trimtab doctor --json' or 'trimtab wear --json'")
        });
        let added =
            document.map_err(|error| one_line(&error)).and_then(|document| self.hosts.entry(host.to_owned()).or_default().add(document));
        if let Err(why) = added {
            self.not_read(file, why);
        }
    }
}

impl Host {
    /// Adds a document; the error says why it is no use.
    fn add(&mut self, document: HostDocument) -> Result<(), String> {
        let HostDocument { schema, version, diagnoses, drives, failures, error } = document;
        match (schema.as_str(), version) {
            ("trimtab.doctor", 1) if self.diagnoses.is_some() => Err("is a second diagnosis of its host; the first is used".to_owned()),
            ("trimtab.wear", 1) if self.wear.is_some() => Err("is a second reading of its host; the first is used".to_owned()),
            ("trimtab.doctor", 1) => {
                self.diagnoses = Some(diagnoses.ok_or("has no diagnoses")?);
                Ok(())
            }
            ("trimtab.wear", 1) => {
                self.wear = Some((drives.ok_or("has no drives")?, failures));
                Ok(())
            }
            ("trimtab.error", _) => {
                let why = error.map_or_else(|| "without a message".to_owned(), |error| error.message);
                Err(format!("says that trimtab failed there: {why}"))
            }
            ("trimtab.doctor" | "trimtab.wear", _) => Err(format!("is {schema} of version {version}, and this trimtab reads version 1")),
            _ => Err("is JSON, but not of 'trimtab doctor --json' or 'trimtab wear --json'".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
