//! The documents of hosts, as `trimtab doctor --json` and `trimtab wear --json` print
//! them.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The clock of a host may be ahead by this many seconds.
pub(super) const FUTURE_S: f64 = 86_400.0;

/// A document of one host. Fields that the report does not use are ignored.
#[derive(Debug, Deserialize)]
pub struct HostDocument {
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
    /// Mount point, device or drive.
    pub subject: String,
    /// Whether TRIM arrives.
    pub verdict: HostVerdict,
    /// The filesystem; none on a device.
    pub filesystem: Option<HostLayer>,
    /// Layers from the filesystem down to the drive.
    pub layers: Vec<HostLayer>,
    /// Mechanisms that trim it.
    pub trimmed_by: Vec<String>,
    /// True if the host's configuration accepts the verdict.
    #[serde(default)]
    pub is_verdict_accepted: bool,
}

/// The verdict of a diagnosis.
#[derive(Debug, Deserialize)]
pub struct HostVerdict {
    /// Code such as `blocked`.
    pub kind: String,
    /// Layers that decide it.
    pub at: Vec<String>,
    /// In words.
    pub text: String,
}

/// A layer between filesystem and drive.
#[derive(Debug, Deserialize)]
pub struct HostLayer {
    /// Name such as `dm-0 home [crypt]`.
    pub name: String,
    /// Findings about it.
    pub findings: Vec<HostFinding>,
}

/// A finding of the doctor.
#[derive(Debug, Deserialize)]
pub struct HostFinding {
    /// Code such as `drive.known-fault`.
    pub code: String,
    /// Code such as `note`.
    pub severity: String,
    /// In words.
    pub text: String,
}

/// The wear of a host's drive.
#[derive(Debug, Deserialize)]
pub struct HostDrive {
    /// Mount point, device or drive.
    pub subject: String,
    /// Model.
    pub model: Option<String>,
    /// Unix time of the reading in seconds.
    pub taken_unix_s: Option<i64>,
    /// Bytes that the host wrote.
    pub host_written_bytes: Option<u64>,
    /// Bytes written to flash memory.
    pub nand_written_bytes: Option<u64>,
    /// Write amplification over the drive's life.
    pub waf_lifetime: Option<HostWaf>,
    /// Rated life used, in per cent.
    pub used_percent: Option<u64>,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Change since an earlier reading.
    pub since: Option<HostSince>,
    /// Life left at the present rate.
    pub life_left: Option<HostLifeLeft>,
}

/// Write amplification.
#[derive(Debug, Deserialize)]
pub struct HostWaf {
    /// Flash bytes per host byte.
    pub value: f64,
}

/// Change since an earlier reading.
#[derive(Debug, Deserialize)]
pub struct HostSince {
    /// Write amplification.
    pub waf: Option<HostWaf>,
}

/// Life left.
#[derive(Debug, Deserialize)]
pub struct HostLifeLeft {
    /// Days.
    pub days: Option<f64>,
}

/// A drive whose wear its host could not read.
#[derive(Clone, Debug, Deserialize)]
pub struct UnreadDrive {
    /// Mount point, device or drive.
    pub subject: String,
    /// The reason.
    pub why: String,
}

/// The documents of one host.
#[derive(Debug, Default)]
pub struct Host {
    /// Diagnoses of the doctor.
    pub diagnoses: Option<Vec<HostDiagnosis>>,
    /// Wear of drives, and drives without a reading.
    pub wear: Option<(Vec<HostDrive>, Vec<UnreadDrive>)>,
    /// The file of `wear`.
    wear_file: String,
}

/// A file that is not in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadFile {
    /// The file.
    pub file: String,
    /// The reason.
    pub why: String,
}

/// All hosts by name, and the files that could not be used.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Files that could not be used.
    pub unread: Vec<UnreadFile>,
}

impl Host {
    /// Adds the document of `file`. Of two readings of wear, the newer stays, but none
    /// that is dated after `now_unix_s`.
    ///
    /// # Errors
    /// The file that is not in the report: this one, or that of the older reading.
    pub fn add(
        &mut self,
        document: HostDocument,
        file: &str,
        now_unix_s: f64,
    ) -> Result<(), UnreadFile> {
        let unread =
            |file: &str, why: &str| UnreadFile { file: file.to_owned(), why: why.to_owned() };
        let HostDocument { schema, version, diagnoses, drives, failures, error } = document;
        match (schema.as_str(), version) {
            ("trimtab.doctor", 1) if self.diagnoses.is_some() => {
                Err(unread(file, "is a second diagnosis of its host; the first is used"))
            }
            ("trimtab.doctor", 1) => {
                self.diagnoses = Some(diagnoses.ok_or_else(|| unread(file, "has no diagnoses"))?);
                Ok(())
            }
            ("trimtab.wear", 1) => {
                let drives = drives.ok_or_else(|| unread(file, "has no drives"))?;
                let newest = |drives: &[HostDrive]| {
                    let taken = drives.iter().filter_map(|drive| drive.taken_unix_s);
                    taken.filter(|taken| *taken as f64 <= now_unix_s + FUTURE_S).max()
                };
                let why = "is not the newest reading of its host, which is used";
                match &self.wear {
                    Some((kept, _)) if newest(&drives) <= newest(kept) => Err(unread(file, why)),
                    kept => {
                        let older = kept.as_ref().map(|_| unread(&self.wear_file, why));
                        self.wear = Some((drives, failures));
                        self.wear_file = file.to_owned();
                        older.map_or(Ok(()), Err)
                    }
                }
            }
            ("trimtab.error", _) => {
                let why =
                    error.map_or_else(|| "without a message".to_owned(), |error| error.message);
                Err(unread(file, &format!("says that trimtab failed there: {why}")))
            }
            ("trimtab.doctor" | "trimtab.wear", _) => Err(unread(
                file,
                &format!("is {schema} of version {version}, and this trimtab reads version 1"),
            )),
            _ => Err(unread(
                file,
                "is JSON, but not of 'trimtab doctor --json' or 'trimtab wear --json'",
            )),
        }
    }
}
