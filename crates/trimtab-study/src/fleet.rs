//! Many hosts at once: where TRIM is blocked, and which drives wear too fast.

pub mod documents;

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use documents::{FUTURE_S, HostDiagnosis, HostDrive, HostFinding, HostLayer, Hosts, UnreadFile};
use serde::Serialize;

/// A drive with less life left is ending. The alerts in packaging/mixin have the same
/// limit.
pub const ENDING_DAYS: f64 = 180.0;
/// A write amplification above this is high. The alerts in packaging/mixin have the same
/// limit.
pub const WAF_HIGH: f64 = 5.0;
/// A reading of this age is old.
pub const OLD_DAYS: f64 = 30.0;
/// A greater ratio, or number of days or hours, cannot be right.
const FIGURE_MAX: f64 = 1e9;
/// Rows of the list of the worst.
const WORST: usize = 10;
/// Of these, rows that every kind of problem gets first.
const OF_EACH: usize = 2;
const DAYS_OF_YEAR: f64 = 365.0;
const HOURS_OF_DAY: f64 = 24.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// Codes of the doctor's findings about drives on its list of faulty ones.
const FAULTS: [&str; 5] = [
    "drive.known-fault",
    "drive.trim-fails",
    "drive.trim-hangs",
    "drive.trim-loses-data",
    "ata.queued-trim-harms",
];

/// Counts over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FleetCounts {
    /// Hosts with at least one usable document.
    pub hosts: usize,
    /// Hosts without a diagnosis.
    pub hosts_without_doctor: usize,
    /// Hosts without a reading of wear.
    pub hosts_without_wear: usize,
    /// Filesystems and devices that were diagnosed.
    pub subjects: usize,
    /// Of these, blocked and not accepted by the host's configuration.
    pub blocked: usize,
    /// Hosts with a blocked one.
    pub hosts_blocked: usize,
    /// Filesystems and devices with an unknown verdict, not accepted.
    pub unknown: usize,
    /// Drives whose wear was read.
    pub drives: usize,
    /// Drives that wear faster than planned.
    pub wears_fast: usize,
    /// Drives that end within [`ENDING_DAYS`].
    pub ending: usize,
    /// Drives with a write amplification above [`WAF_HIGH`].
    pub waf_high: usize,
    /// Drives whose reading is older than [`OLD_DAYS`] or dated in the future.
    pub readings_old: usize,
    /// Drives that TRIM harms in the way that it is sent.
    pub harmed: usize,
    /// Drives on the list whose fault the kernel avoids.
    pub faults_avoided: usize,
    /// Drives whose wear could not be read.
    pub drives_unread: usize,
    /// Files that could not be used.
    pub files_unread: usize,
}

/// A filesystem or device that gets no TRIM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockedSubject {
    /// The host.
    pub host: String,
    /// Mount point or device.
    pub subject: String,
    /// The layers that block.
    pub layers: Vec<String>,
    /// The doctor's verdict.
    pub why: String,
}

/// One kind of layer that blocks TRIM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LayerCount {
    /// Type of layer, such as `crypt`.
    pub kind: String,
    /// Filesystems and devices above it.
    pub subjects: usize,
    /// Their hosts.
    pub hosts: usize,
}

/// A drive on the doctor's list of faulty ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FaultyDrive {
    /// TRIM harms it in the way that it is sent.
    pub is_harmed: bool,
    /// The host.
    pub host: String,
    /// The drive.
    pub drive: String,
    /// The finding.
    pub what: String,
}

/// Wear of a drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetDrive {
    /// The host.
    pub host: String,
    /// Device node.
    pub device: String,
    /// Model.
    pub model: String,
    /// Mechanisms that trim the filesystems on it; `None` if the host has no diagnosis of
    /// it.
    pub trimmed_by: Option<String>,
    /// Bytes that the host wrote.
    pub host_written_bytes: Option<u64>,
    /// Bytes written to flash memory.
    pub nand_written_bytes: Option<u64>,
    /// Write amplification of late, or over the drive's life.
    pub waf: Option<f64>,
    /// `waf` is the one since the earlier reading.
    pub waf_is_recent: bool,
    /// Rated life used, in per cent.
    pub used_percent: Option<u64>,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Age of the reading in days, negative in the future; `None` if the document has no
    /// time.
    pub read_days_ago: Option<f64>,
    /// Days left now, at the rate before the reading, else at the mean rate so far.
    /// Negative if the life has ended since the reading.
    pub life_left_days: Option<f64>,
    /// Years under power until the rated life is used up.
    pub service_years: Option<f64>,
    /// `service_years` is less than planned.
    pub wears_fast: bool,
}

impl FleetDrive {
    fn of(
        host: &str,
        drive: &HostDrive,
        trimmed_by: Option<String>,
        planned_years: f64,
        now_unix_s: f64,
    ) -> Self {
        let is_ratio = |value: &f64| (0.0..=FIGURE_MAX).contains(value);
        let recent = drive
            .since
            .as_ref()
            .and_then(|since| since.waf.as_ref())
            .map(|waf| waf.value)
            .filter(is_ratio);
        let power_on_hours = drive.power_on_hours.filter(|hours| *hours as f64 <= FIGURE_MAX);
        let age_days = power_on_hours.map(|hours| hours as f64 / HOURS_OF_DAY);
        let at_present = drive.life_left.as_ref().and_then(|left| left.days).filter(is_ratio);
        let so_far = || match (age_days?, drive.used_percent?) {
            (_, 100..) => Some(0.0),
            (_, 0) => None,
            // A drive that does not count its hours has no mean rate.
            (0.0, _) => None,
            (age, used) => Some(age * (100.0 - used as f64) / used as f64),
        };
        let left_at_reading = at_present.or_else(so_far);
        let service_years =
            age_days.zip(left_at_reading).map(|(age, left)| (age + left) / DAYS_OF_YEAR);
        let read_days_ago =
            drive.taken_unix_s.map(|taken| (now_unix_s - taken as f64) / SECONDS_OF_DAY);
        // A life that was used up at the reading ended at an unknown time.
        let since = read_days_ago.unwrap_or_default().max(0.0);
        let life_left_days =
            left_at_reading.map(|left| if left > 0.0 { left - since } else { left });
        Self {
            host: host.to_owned(),
            device: drive.subject.clone(),
            model: drive.model.clone().unwrap_or_default(),
            trimmed_by,
            host_written_bytes: drive.host_written_bytes,
            nand_written_bytes: drive.nand_written_bytes,
            waf: recent
                .or_else(|| drive.waf_lifetime.as_ref().map(|waf| waf.value).filter(is_ratio)),
            waf_is_recent: recent.is_some(),
            used_percent: drive.used_percent,
            power_on_hours,
            read_days_ago,
            life_left_days,
            service_years,
            wears_fast: service_years.is_some_and(|years| years < planned_years),
        }
    }

    /// The rated life ends within [`ENDING_DAYS`].
    pub fn is_ending(&self) -> bool {
        self.life_left_days.is_some_and(|days| days < ENDING_DAYS)
    }

    /// The reading is older than [`OLD_DAYS`], or a wrong clock dates it in the future:
    /// its age in days.
    pub fn old_days(&self) -> Option<f64> {
        let is_future = |days: f64| days < -FUTURE_S / SECONDS_OF_DAY;
        self.read_days_ago.filter(|days| *days > OLD_DAYS || is_future(*days))
    }

    /// The write amplification is above [`WAF_HIGH`].
    pub fn has_high_waf(&self) -> bool {
        self.waf.is_some_and(|waf| waf > WAF_HIGH)
    }
}

/// Wear of all drives that the same mechanism trims.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyWear {
    /// The mechanism; `None` for drives without a diagnosis.
    pub trimmed_by: Option<String>,
    /// The drives.
    pub drives: usize,
    /// Drives with a write amplification.
    pub drives_with_waf: usize,
    /// Its median.
    pub waf_median: Option<f64>,
    /// Drives that wear faster than planned.
    pub wears_fast: usize,
}

/// A drive whose wear its host could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadWear {
    /// The host.
    pub host: String,
    /// Device node.
    pub device: String,
    /// The reason.
    pub why: String,
}

/// A problem of the list of the worst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// The host.
    pub host: String,
    /// The drive, filesystem or device.
    pub subject: String,
    /// Age of the reading that shows it, in days, if it is old or in the future.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_days: Option<f64>,
    /// Kind of problem.
    #[serde(flatten)]
    pub kind: ProblemKind,
}

/// A kind of problem with its figure, worst first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum ProblemKind {
    /// TRIM harms the drive.
    Harmed {
        /// The finding.
        what: String,
    },
    /// The rated life ends soon.
    Ending {
        /// Days left; negative if it has ended.
        life_left_days: f64,
    },
    /// The drive wears faster than planned.
    WearsFast {
        /// Years under power until the rated life is used up.
        service_years: f64,
    },
    /// TRIM is blocked.
    Blocked {
        /// The layers that block.
        layers: Vec<String>,
    },
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// Years that a drive is planned to serve.
    pub planned_years: f64,
    /// Counts over all hosts.
    pub counts: FleetCounts,
    /// The worst problems, at most ten.
    pub worst: Vec<Problem>,
    /// Layers that block TRIM, the most frequent first.
    pub layers: Vec<LayerCount>,
    /// Filesystems and devices that get no TRIM, by host.
    pub blocked: Vec<BlockedSubject>,
    /// Drives on the list of faulty ones, the harmed first.
    pub faults: Vec<FaultyDrive>,
    /// Wear by mechanism.
    pub policies: Vec<PolicyWear>,
    /// All drives with a reading, by host.
    pub drives: Vec<FleetDrive>,
    /// Drives without one.
    pub drives_unread: Vec<UnreadWear>,
    /// Files that could not be used.
    pub files_unread: Vec<UnreadFile>,
}

impl Fleet {
    /// Joins the documents of all hosts, at a Unix time in seconds.
    pub fn of(hosts: Hosts, planned_years: f64, now_unix_s: f64) -> Self {
        let Hosts { mut hosts, unread } = hosts;
        hosts.retain(|_, host| host.diagnoses.is_some() || host.wear.is_some());
        let mut fleet = Self {
            planned_years,
            counts: FleetCounts {
                hosts: hosts.len(),
                files_unread: unread.len(),
                ..FleetCounts::default()
            },
            worst: Vec::new(),
            layers: Vec::new(),
            blocked: Vec::new(),
            faults: Vec::new(),
            policies: Vec::new(),
            drives: Vec::new(),
            drives_unread: Vec::new(),
            files_unread: unread,
        };
        for (name, host) in &hosts {
            let diagnoses = host.diagnoses.as_deref();
            fleet.counts.hosts_without_doctor += usize::from(diagnoses.is_none());
            fleet.counts.hosts_without_wear += usize::from(host.wear.is_none());
            fleet.add_diagnoses(name, diagnoses.unwrap_or_default());
            if let Some((drives, unread)) = &host.wear {
                let of = |drive: &HostDrive| {
                    FleetDrive::of(
                        name,
                        drive,
                        trimmed_by(diagnoses, &drive.subject),
                        planned_years,
                        now_unix_s,
                    )
                };
                fleet.drives.extend(drives.iter().map(of));
                let unread = unread.iter().cloned();
                fleet.drives_unread.extend(unread.map(|one| UnreadWear {
                    host: name.clone(),
                    device: one.subject,
                    why: one.why,
                }));
            }
        }
        fleet.faults.sort_by(|a, b| {
            (!a.is_harmed, &a.host, &a.drive).cmp(&(!b.is_harmed, &b.host, &b.drive))
        });
        fleet.layers = layers(&fleet.blocked);
        fleet.policies = policies(&fleet.drives);
        fleet.worst = worst(&fleet);
        fleet.count();
        fleet
    }

    fn add_diagnoses(&mut self, host: &str, diagnoses: &[HostDiagnosis]) {
        let mut faults: BTreeSet<FaultyDrive> = BTreeSet::new();
        for diagnosis in diagnoses {
            self.counts.subjects += 1;
            let verdict = &diagnosis.verdict;
            match verdict.kind.as_str() {
                _ if diagnosis.is_verdict_accepted => {}
                "blocked" => self.blocked.push(BlockedSubject {
                    host: host.to_owned(),
                    subject: diagnosis.subject.clone(),
                    layers: verdict.at.clone(),
                    why: verdict.text.clone(),
                }),
                "unknown" => self.counts.unknown += 1,
                _ => {}
            }
            let faulty = |layer: &HostLayer, finding: &HostFinding| FaultyDrive {
                is_harmed: finding.severity != "note",
                host: host.to_owned(),
                drive: layer.name.clone(),
                what: finding.text.clone(),
            };
            for layer in &diagnosis.layers {
                let found =
                    layer.findings.iter().filter(|finding| FAULTS.contains(&finding.code.as_str()));
                faults.extend(found.map(|finding| faulty(layer, finding)));
            }
        }
        self.faults.extend(faults);
    }

    fn count(&mut self) {
        fn different<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
            all.collect::<BTreeSet<_>>().len()
        }
        let faulty = |is_harmed: bool| {
            different(
                self.faults
                    .iter()
                    .filter(|one| one.is_harmed == is_harmed)
                    .map(|one| (one.host.as_str(), one.drive.as_str())),
            )
        };
        let drives =
            |is: fn(&FleetDrive) -> bool| self.drives.iter().filter(|drive| is(drive)).count();
        self.counts = FleetCounts {
            blocked: self.blocked.len(),
            hosts_blocked: different(self.blocked.iter().map(|one| (one.host.as_str(), ""))),
            drives: self.drives.len(),
            wears_fast: drives(|drive| drive.wears_fast),
            ending: drives(FleetDrive::is_ending),
            waf_high: drives(FleetDrive::has_high_waf),
            readings_old: drives(|drive| drive.old_days().is_some()),
            harmed: faulty(true),
            faults_avoided: faulty(false),
            drives_unread: self.drives_unread.len(),
            ..self.counts.clone()
        };
    }
}

/// The mechanisms that trim the filesystems on a drive, from the diagnoses of its host.
/// `None` if none of them has the drive.
fn trimmed_by(diagnoses: Option<&[HostDiagnosis]>, device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let is_on = |diagnosis: &&HostDiagnosis| {
        diagnosis.layers.iter().any(|layer| layer.name.split(' ').next() == Some(name))
            || diagnosis.subject == device
    };
    let on_it: Vec<&HostDiagnosis> = diagnoses?.iter().filter(is_on).collect();
    // The drive itself is diagnosed too if nothing is mounted from it.
    let mechanisms: BTreeSet<&str> = on_it
        .iter()
        .filter(|on| on.filesystem.is_some())
        .flat_map(|on| &on.trimmed_by)
        .map(String::as_str)
        .collect();
    match (on_it.is_empty(), mechanisms.is_empty()) {
        (true, _) => None,
        (_, true) => Some("nothing".to_owned()),
        _ => Some(mechanisms.into_iter().collect::<Vec<_>>().join("; ")),
    }
}

/// Type of a layer such as `dm-0 home [crypt]`.
fn kind_of(layer: &str) -> &str {
    layer.strip_suffix(']').and_then(|layer| layer.rsplit_once('[')).map_or(layer, |(_, kind)| kind)
}

fn layers(blocked: &[BlockedSubject]) -> Vec<LayerCount> {
    let mut found: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for one in blocked {
        for kind in one.layers.iter().map(|layer| kind_of(layer)).collect::<BTreeSet<_>>() {
            let (subjects, hosts) = found.entry(kind).or_default();
            *subjects += 1;
            hosts.insert(&one.host);
        }
    }
    let count = |(kind, (subjects, hosts)): (&str, (usize, BTreeSet<&str>))| LayerCount {
        kind: kind.to_owned(),
        subjects,
        hosts: hosts.len(),
    };
    let mut all: Vec<LayerCount> = found.into_iter().map(count).collect();
    all.sort_by_key(|layer| core::cmp::Reverse(layer.subjects));
    all
}

fn policies(drives: &[FleetDrive]) -> Vec<PolicyWear> {
    let mut found: BTreeMap<Option<&str>, Vec<&FleetDrive>> = BTreeMap::new();
    drives
        .iter()
        .for_each(|drive| found.entry(drive.trimmed_by.as_deref()).or_default().push(drive));
    let wear = |(trimmed_by, drives): (Option<&str>, Vec<&FleetDrive>)| {
        let mut wafs: Vec<f64> = drives.iter().filter_map(|drive| drive.waf).collect();
        wafs.sort_by(f64::total_cmp);
        PolicyWear {
            trimmed_by: trimmed_by.map(str::to_owned),
            drives: drives.len(),
            drives_with_waf: wafs.len(),
            waf_median: median(&wafs),
            wears_fast: drives.iter().filter(|drive| drive.wears_fast).count(),
        }
    };
    let mut all: Vec<PolicyWear> = found.into_iter().map(wear).collect();
    all.sort_by_key(|policy| core::cmp::Reverse(policy.drives));
    all
}

/// Median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) =
        (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(low.midpoint(*high))
}

fn worst(fleet: &Fleet) -> Vec<Problem> {
    let problem = |host: &str, subject: &str, kind: ProblemKind| Problem {
        host: host.to_owned(),
        subject: subject.to_owned(),
        old_days: None,
        kind,
    };
    let wear = |drive: &FleetDrive, kind| {
        // Of a file that another program wrote, the model says more than the path.
        let is_device = drive.device.starts_with("/dev/") || drive.model.is_empty();
        let subject = if is_device { &drive.device } else { &drive.model };
        Problem { old_days: drive.old_days(), ..problem(&drive.host, subject, kind) }
    };
    let harmed = fleet.faults.iter().filter(|one| one.is_harmed);
    let harmed: Vec<Problem> = harmed
        .map(|one| problem(&one.host, &one.drive, ProblemKind::Harmed { what: one.what.clone() }))
        .collect();
    let mut ending: Vec<(f64, &FleetDrive)> = fleet
        .drives
        .iter()
        .filter(|drive| drive.is_ending())
        .filter_map(|drive| Some((drive.life_left_days?, drive)))
        .collect();
    ending.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ending: Vec<Problem> = ending
        .iter()
        .map(|&(life_left_days, drive)| wear(drive, ProblemKind::Ending { life_left_days }))
        .collect();
    let fast = fleet.drives.iter().filter(|drive| drive.wears_fast && !drive.is_ending());
    let mut fast: Vec<(f64, &FleetDrive)> =
        fast.filter_map(|drive| Some((drive.service_years?, drive))).collect();
    fast.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fast: Vec<Problem> = fast
        .iter()
        .map(|&(service_years, drive)| wear(drive, ProblemKind::WearsFast { service_years }))
        .collect();
    let blocked = fleet.blocked.iter().map(|one| {
        problem(&one.host, &one.subject, ProblemKind::Blocked { layers: one.layers.clone() })
    });
    let kinds = [harmed, ending, fast, blocked.collect()];
    let least = |problems: &Vec<Problem>| problems.len().min(OF_EACH);
    let mut left = WORST - kinds.iter().map(least).sum::<usize>();
    kinds
        .into_iter()
        .flat_map(|problems| {
            let more = (problems.len() - least(&problems)).min(left);
            left -= more;
            let rows = least(&problems) + more;
            problems.into_iter().take(rows)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// Once, ended drives hid TRIM blocked on 79 hosts.
    #[test]
    fn worst_problems_include_every_kind() {
        let mut fleet = Fleet::of(Hosts::default(), 5.0, 0.0);
        for at in 0..20 {
            fleet.drives.push(FleetDrive {
                host: format!("h{at}"),
                device: "/srv/collected/h/smartctl.json".to_owned(),
                model: "M500".to_owned(),
                life_left_days: Some(-6000.0),
                ..FleetDrive::default()
            });
            fleet.blocked.push(BlockedSubject {
                host: format!("h{at}"),
                subject: "/home".to_owned(),
                layers: Vec::new(),
                why: String::new(),
            });
        }
        let worst = worst(&fleet);
        let is_blocked = |one: &&Problem| matches!(one.kind, ProblemKind::Blocked { .. });
        assert_eq!((worst.len(), worst.iter().filter(is_blocked).count()), (WORST, OF_EACH));
        assert_eq!((worst[0].subject.as_str(), worst[9].subject.as_str()), ("M500", "/home"));
    }
}
