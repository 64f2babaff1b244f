//! Diagnoses whether discards pass from a filesystem or device down to the drives: layer
//! by layer, with the evidence and the command that fixes each problem. Reads only
//! `/sys`, `/proc` and `/etc`, of the running machine or of a recorded tree.

mod accepted;
mod answer;
mod conditions;
mod crypt;
mod disk;
mod drives;
mod faults;
mod filesystem;
mod fstrim;
mod glob;
mod initramfs;
mod keeper;
mod layers;
mod limits;
mod lvm;
mod mapper;
mod md;
mod mechanisms;
mod opening;
mod other;
mod provider;
mod provisioning;
mod reach;
mod refine;
mod remedy;
mod scsi;
mod scsi_pages;
mod survey;
mod systemd;
mod thin_pool;
mod timer;

pub use accepted::AcceptedFinding;
pub use faults::trim_refusal;
pub use filesystem::can_discard;
pub use fstrim::of_fstab as fstrim_of_fstab;
pub use mapper::Tables;
pub use reach::{DiscardVerdict, VerdictKind};
pub use remedy::{Remedy, RemedyAction, RemedyStep, kept_options};
pub use survey::{Survey, UndiagnosedStorage};

use crate::host::block::{Layer, LayerKind, SERVER_SILENT, Stack};

use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, printable};
use crate::host::{Place, drive};
use crate::sys::mount_check;
use serde::Serialize;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;
use trimtab_sim::run::json::entries;

/// The effect of one layer on discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The layer passes discards on.
    Passes,
    /// The layer blocks discards.
    Blocks,
    /// The layer does not benefit from discards (hard disk, read-only image).
    NotNeeded,
    /// The available information does not decide it.
    Unknown,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information only.
    Note,
    /// Costs speed or space; worth fixing.
    Caution,
    /// TRIM does not work, or data is at risk.
    Serious,
}

/// A problem or observation, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable name, such as `crypt.no-allow-discards`.
    pub code: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// One-sentence description.
    pub text: String,
    /// The remedy, if one is known.
    pub remedy: Option<Remedy>,
}

impl Finding {
    fn new(code: &'static str, severity: Severity, text: impl Into<String>) -> Self {
        Self { code, severity, text: text.into(), remedy: None }
    }

    fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

/// Sources of a statement: attribute and value, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Evidence(#[serde(serialize_with = "entries::serialize")] pub Vec<(String, String)>);

impl Evidence {
    fn add(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), value.into()));
    }

    fn add_some(&mut self, key: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(key, value.to_string());
        }
    }
}

/// Report on one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// Kernel name and user-assigned name, mount point or file.
    pub name: String,
    /// Type of layer, in one word.
    pub kind: String,
    /// The layer's effect on discards.
    pub gate: Gate,
    /// Reason for `gate`, in one sentence.
    pub why: String,
    /// Evidence for `gate`.
    pub evidence: Evidence,
    /// Additional findings.
    pub findings: Vec<Finding>,
    /// The layers directly below, as indices into [`Diagnosis::layers`].
    pub below: Vec<usize>,
}

impl LayerReport {
    /// A report without a judgement.
    fn blank(name: String, kind: String, below: Vec<usize>) -> Self {
        let (gate, why) = (Gate::Unknown, String::new());
        Self { name, kind, gate, why, evidence: Evidence::default(), findings: Vec::new(), below }
    }

    fn set(&mut self, gate: Gate, why: impl Into<String>) {
        self.gate = gate;
        self.why = why.into();
    }

    /// Judges that the layer blocks discards, for a reason that is also a serious
    /// finding.
    fn block(&mut self, code: &'static str, why: impl Into<String>, remedy: Remedy) {
        self.set(Gate::Blocks, why);
        self.serious(code, self.why.clone(), remedy);
    }

    fn note(&mut self, code: &'static str, text: impl Into<String>) {
        self.findings.push(Finding::new(code, Severity::Note, text));
    }

    fn caution(&mut self, code: &'static str, text: impl Into<String>, remedy: Remedy) {
        self.findings.push(Finding::new(code, Severity::Caution, text).remedy(remedy));
    }

    fn serious(&mut self, code: &'static str, text: impl Into<String>, remedy: Remedy) {
        self.findings.push(Finding::new(code, Severity::Serious, text).remedy(remedy));
    }
}

/// Diagnosis of one filesystem or device.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The diagnosed mount point or device.
    pub subject: String,
    /// Verdict on whether discards reach the drives.
    pub verdict: DiscardVerdict,
    /// The filesystem, if the subject is one.
    pub filesystem: Option<LayerReport>,
    /// The devices below it, top first.
    pub layers: Vec<LayerReport>,
    /// Mechanisms that currently trim the filesystem; empty if none does.
    pub trimmed_by: Vec<String>,
    /// Findings about these mechanisms.
    pub mechanisms: Vec<Finding>,
    /// Counters that report the amount written, with unit and step.
    pub write_counters: Vec<String>,
    /// Steps to take, most important first; the steps of one remedy are adjacent.
    pub to_do: Vec<RemedyStep>,
    /// The command that carries out all steps that need no manual work; `None` if there
    /// are none.
    pub fix: Option<String>,
    /// Information that is unreadable without root.
    pub root_would_add: Vec<String>,
    /// Codes of the findings that the configuration accepts.
    pub accepted: Vec<String>,
    /// The verdict rests only on accepted findings.
    pub is_verdict_accepted: bool,
}

impl Diagnosis {
    /// Layers that do not benefit from discards: hard disks, and layers that stand only
    /// on such layers. `stack` must be the diagnosed stack.
    pub fn without_use(&self, stack: &Stack) -> Vec<usize> {
        let mut without: Vec<usize> = Vec::new();
        // The lowest layers come last.
        for (index, layer) in stack.layers.iter().enumerate().rev() {
            let own = self.layers.get(index).is_some_and(|report| report.gate == Gate::NotNeeded);
            let below =
                !layer.below.is_empty() && layer.below.iter().all(|below| without.contains(below));
            if own || below {
                without.push(index);
            }
        }
        without
    }

    /// True if the subject is a mounted filesystem that does not respond, or is on a
    /// virtual SSD that does not.
    pub fn is_silent(&self) -> bool {
        let below = self.layers.iter().any(|layer| layer.why == SERVER_SILENT);
        below
            || self
                .filesystem
                .iter()
                .flat_map(|filesystem| &filesystem.findings)
                .any(|finding| finding.code == filesystem::SILENT)
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.layers
            .iter()
            .chain(&self.filesystem)
            .flat_map(|report| &report.findings)
            .chain(&self.mechanisms)
    }

    /// Findings worth fixing, most important first.
    fn worth_mending(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> =
            self.findings().filter(|f| f.severity > Severity::Note).collect();
        findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        findings
    }

    /// All steps of the most important remedy, in one line.
    pub fn first_remedy(&self) -> Option<String> {
        self.worth_mending()
            .into_iter()
            .find_map(|finding| finding.remedy.as_ref())
            .map(Remedy::line)
    }

    /// Findings that the program can fix itself, lowest layer first: a higher layer may
    /// have no fault of its own. Skips a layer if every layer directly below it blocks: a
    /// fix there would have no effect.
    pub fn actionable(&self) -> impl Iterator<Item = (&Finding, &Remedy)> {
        let reports = self
            .layers
            .iter()
            .rev()
            .chain(&self.filesystem)
            .filter(|report| !self.is_in_vain(report));
        let worth = reports
            .flat_map(|l| &l.findings)
            .chain(&self.mechanisms)
            .filter(|f| f.severity > Severity::Note);
        worth.filter_map(|finding| {
            Some((finding, finding.remedy.as_ref().filter(|remedy| !remedy.actions.is_empty())?))
        })
    }

    fn is_in_vain(&self, report: &LayerReport) -> bool {
        let mut below = report.below.iter().filter_map(|&index| self.layers.get(index)).peekable();
        below.peek().is_some() && below.all(|layer| layer.gate == Gate::Blocks)
    }
}

/// Data that all diagnoses share, read once.
pub struct Doctor<'a> {
    root: &'a Root,
    mounts: Vec<Mount>,
    visited: fstrim::VisitCache,
    tables: Tables,
    mechanisms: mechanisms::TrimMechanisms,
    /// The mounts that trimtab's own daemon trims, if its configuration is known.
    kept: Option<Vec<Mount>>,
}

impl<'a> Doctor<'a> {
    /// Reads the mount table, the device-mapper tables and the configured mechanisms.
    pub fn new(root: &'a Root) -> std::io::Result<Self> {
        let mounts = mountinfo::read(root)?;
        let visited = fstrim::VisitCache::new(&mounts);
        Ok(Self {
            root,
            mounts,
            visited,
            tables: Tables::read(root),
            mechanisms: mechanisms::TrimMechanisms::read(root),
            kept: None,
        })
    }

    /// Adds the mounts that trimtab's own daemon trims by its configuration.
    #[must_use]
    pub fn with_kept(self, kept: Vec<Mount>) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// True if a later mount hides this one.
    fn is_covered(&self, mount: &Mount) -> bool {
        self.visited
            .reached(&self.mounts, &mount.mount_point)
            .is_some_and(|found| found.id != mount.id)
    }

    /// The machine as fstrim sees it.
    fn machine(&self) -> fstrim::Machine<'_> {
        fstrim::Machine { root: self.root, mounts: &self.mounts, visited: &self.visited }
    }

    /// Diagnoses the filesystem that contains `path`, or `path` itself if it is a device.
    pub fn examine_path(&self, path: &Path) -> std::io::Result<Diagnosis> {
        if self.root.is_live() && !mount_check::silent(&[path]).is_empty() {
            let absolute = std::path::absolute(path)?;
            let silent = mountinfo::silent(self.root, &self.mounts);
            let by_name = mountinfo::containing(&self.mounts, &absolute)
                .filter(|mount| silent.contains(&mount.dev));
            // The path may be a link.
            let mount =
                by_name.or_else(|| self.mounts.iter().find(|mount| silent.contains(&mount.dev)));
            return Ok(self.examine_silent(mount.ok_or(std::io::ErrorKind::TimedOut)?));
        }
        let place = Place::of_path(self.root, path)?;
        // The kernel's name of a device is not a path.
        let is_kernel_name =
            !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&b'!');
        let node = || place.stack.top_layers().next().filter(|_| is_kernel_name).map(Layer::node);
        let subject = match &place.mount {
            Some(mount) => shown(&mount.mount_point),
            None => node().unwrap_or_else(|| shown(path)),
        };
        Ok(self.examine(subject, &place))
    }

    /// Diagnoses a mounted filesystem whose stack is known.
    pub fn examine_mount(&self, mount: &Mount, stack: &Stack) -> Diagnosis {
        self.examine(
            shown(&mount.mount_point),
            &Place { mount: Some(mount.clone()), stack: stack.clone() },
        )
    }

    /// Diagnoses a mount that does not respond, from the kernel's information about its
    /// devices alone.
    fn examine_silent(&self, mount: &Mount) -> Diagnosis {
        let place = Place {
            mount: Some(mount.clone()),
            stack: Stack::of_mount(self.root, &self.mounts, mount),
        };
        self.diagnose(
            shown(&mount.mount_point),
            &place,
            Some(filesystem::silent(self.root, mount, &place.stack)),
        )
    }

    fn examine(&self, subject: String, place: &Place) -> Diagnosis {
        let filesystem =
            place.mount.as_ref().map(|mount| filesystem::judge(self.root, mount, &place.stack));
        self.diagnose(subject, place, filesystem)
    }

    fn diagnose(
        &self,
        subject: String,
        place: &Place,
        mut filesystem: Option<LayerReport>,
    ) -> Diagnosis {
        let place =
            &Place { mount: place.mount.clone(), stack: refine::refine(self, &place.stack) };
        let stack = &place.stack;
        let mut layers: Vec<LayerReport> =
            (0..stack.layers.len()).map(|i| layers::judge(self, stack, i)).collect();
        excuse(&mut layers);
        layers::beside_those_below(self, stack, &mut layers);
        let verdict = reach::verdict(place, filesystem.as_ref(), &layers);
        if verdict.kind == VerdictKind::NotNeeded {
            let idle = layers.iter_mut().filter(|report| report.gate != Gate::Passes);
            idle.for_each(|report| {
                report.findings.retain(|finding| finding.severity < Severity::Serious)
            });
        }
        if verdict.kind != VerdictKind::Unknown {
            filesystem.iter_mut().for_each(|report| {
                report.findings.retain(|finding| finding.code != filesystem::UNTRIED)
            });
        }
        let (trimmed_by, mut mechanisms) = match &place.mount {
            Some(mount) if !stack.layers.is_empty() => {
                mechanisms::judge(self, mount, stack, &verdict)
            }
            _ => mechanisms::swap(self, stack, &verdict),
        };
        if layers
            .iter()
            .flat_map(|report| &report.findings)
            .any(|finding| faults::FORBID_TRIM.contains(&finding.code))
        {
            mechanisms.retain(|finding| finding.code != mechanisms::NOTHING_TRIMS);
        }
        if place.mount.as_ref().is_some_and(|mount| self.is_covered(mount)) {
            let findings = filesystem
                .iter_mut()
                .flat_map(|report| &mut report.findings)
                .chain(&mut mechanisms);
            findings.for_each(|finding| {
                *finding =
                    Finding::new(finding.code, Severity::Note, std::mem::take(&mut finding.text))
            });
            mechanisms.push(Finding::new(
                "fs.covered",
                Severity::Note,
                "a later mount covers this one, so nothing at its mount point reaches it",
            ));
        }
        let mut diagnosis = Diagnosis {
            subject,
            verdict,
            filesystem,
            layers,
            trimmed_by,
            mechanisms,
            write_counters: self.write_counters(place),
            to_do: Vec::new(),
            fix: None,
            root_would_add: self.root_would_add(stack),
            accepted: Vec::new(),
            is_verdict_accepted: false,
        };
        diagnosis.to_do = to_do(&diagnosis);
        let can = diagnosis.actionable().next().is_some();
        diagnosis.fix = can.then(|| format!("trimtab doctor {} --fix", quoted(&diagnosis.subject)));
        diagnosis
    }

    fn write_counters(&self, place: &Place) -> Vec<String> {
        let mut counters = Vec::new();
        if let Some(mount) = &place.mount
            && let Some(top) = place.stack.top_layers().next()
            && let Some(kib) = self.root.read(lifetime_counter(&mount.fs_type, &top.name))
        {
            let written = kib.trim().parse::<u64>().map_or_else(
                |_| format!("{kib} KiB"),
                |kib| Bytes(kib.saturating_mul(1024)).to_string(),
            );
            counters.push(format!(
                "{} lifetime_write_kbytes: {written}, in steps of 1 KiB, kept over reboots",
                mount.fs_type
            ));
        }
        for layer in place.stack.drives() {
            if self.root.exists(layer.sys.join("stat")) {
                counters
                    .push(format!("{} stat: in steps of 512 B, since boot", layer.shown_name()));
            }
        }
        counters
    }

    fn root_would_add(&self, stack: &Stack) -> Vec<String> {
        let mut more = Vec::new();
        if !self.tables.known()
            && stack.layers.iter().any(|l| {
                matches!(
                    l.kind,
                    LayerKind::Crypt | LayerKind::ThinPool | LayerKind::Thin | LayerKind::Mapper(_)
                )
            })
        {
            more.push(
                "the device-mapper tables (dmsetup table, dmsetup status): \
                allow_discards, thin pool passdown"
                    .to_owned(),
            );
        }
        if self.root.is_live() && !rustix::process::geteuid().is_root() && !stack.layers.is_empty()
        {
            more.push(
                "a proof with `trimtab verify`: reading raw blocks back after a trim".to_owned(),
            );
        }
        more
    }
}

/// Changes a layer that takes no discards to [`Gate::NotNeeded`] if no layer below
/// benefits from them.
fn excuse(layers: &mut [LayerReport]) {
    // Each layer precedes the layers below it, so reverse order visits lower layers
    // first.
    for i in (0..layers.len()).rev() {
        let below = &layers[i].below;
        let idle = !below.is_empty()
            && below.iter().all(|&b| layers.get(b).is_some_and(|l| l.gate == Gate::NotNeeded));
        if idle && layers[i].gate == Gate::Blocks {
            layers[i].set(Gate::NotNeeded, "nothing below has a use for discards");
            layers[i].findings.retain(|f| f.severity < Severity::Serious);
        }
    }
}

/// Instruction to start the daemon at each boot, with the machine's service manager.
pub fn boot_start(root: &Root) -> String {
    systemd::boot_start(root)
}

/// Returns whether trimtab's own service and `fstrim.timer` are enabled, from files
/// alone.
pub fn trim_units(root: &Root) -> (bool, bool) {
    mechanisms::TrimMechanisms::read(root).enabled()
}

/// Returns whether a filesystem discards freed space by itself with the options in force.
/// mountinfo omits a default stored in the filesystem (`tune2fs -o discard`); this
/// function includes it.
pub fn discards_online(root: &Root, mount: &Mount, stack: &Stack) -> bool {
    filesystem::online(root, mount, stack) != filesystem::OnlineDiscardMode::Off
}

/// Path of `lifetime_write_kbytes` of ext4 and f2fs, by device name.
pub fn lifetime_counter(fs_type: &str, device: &str) -> PathBuf {
    Path::new("/sys/fs").join(fs_type).join(device).join("lifetime_write_kbytes")
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
}

/// The path as one shell word.
fn word(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Collects the remedies: those of blocking layers first, then by severity.
fn to_do(diagnosis: &Diagnosis) -> Vec<RemedyStep> {
    let mut steps: Vec<RemedyStep> = Vec::new();
    let mut remedies: Vec<&Remedy> = Vec::new();
    for remedy in diagnosis.worth_mending().into_iter().filter_map(|f| f.remedy.as_ref()) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
            steps.extend(remedy.steps.iter().cloned());
        }
    }
    steps
}

/// True for a name such as `host4`, `rport-2:0-1`, `pmem0s`: the prefix, then a digit.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// True if a list of words separated by spaces has the word.
fn is_listed(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|one| one == word)
}

/// `major.minor` of the kernel.
fn kernel_version(root: &Root) -> Option<(u32, u32)> {
    let release = root.read("/proc/sys/kernel/osrelease")?;
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The drive's model, or its kernel name if it has none.
fn drive_name(root: &Root, layer: &Layer) -> String {
    match drive::identity(root, layer).model {
        Some(model) => format!("{} ({model})", layer.shown_name()),
        None => layer.title(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_of_running_machine_has_verdicts() {
        let root = Root::live().unwrap();
        let doctor = Doctor::new(&root).unwrap();
        let diagnosis = doctor.examine_path(Path::new("/")).unwrap();
        assert!(!diagnosis.verdict.text.is_empty());
        for one in doctor.survey().diagnoses {
            assert!(!one.verdict.text.is_empty(), "{one:?}");
        }
    }
}
