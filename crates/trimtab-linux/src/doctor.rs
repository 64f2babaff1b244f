//! Whether discards get from a filesystem (or a device) down to the drives: layer by layer, with the evidence and the command
//! that mends it. Reads `/sys`, `/proc` and `/etc` only, of the running machine or of a recorded tree.

mod accepted;
mod answer;
mod command;
mod conditions;
mod cron;
mod crypt;
mod disk;
mod drives;
mod filesystem;
mod fstrim;
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
mod quirks;
mod reach;
mod refine;
mod remedy;
mod scsi;
mod scsi_pages;
mod shell;
mod survey;
mod systemd;
mod thin_pool;
mod timer;

pub use accepted::Accepted;
pub use fstrim::of_fstab as fstrim_of_fstab;
pub use layers::with_allow_discards;
pub use mapper::Tables;
pub use reach::{Verdict, VerdictKind};
pub use remedy::{Action, Remedy, Step, kept_options};
pub use survey::{NotJudged, Survey};

use crate::host::block::{Kind, Layer, Stack};
use crate::host::environment::kind_name;
use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, printable};
use crate::host::{Place, drive};
use crate::sys::mount_check;
use serde::Serialize;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;
use trimtab_sim::run::json::entries;

/// Whether discards get through one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// They do.
    Passes,
    /// They do not.
    Blocks,
    /// The layer has no use for them (hard disk, read-only image).
    NotNeeded,
    /// It cannot be told from here.
    Unknown,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Costs speed or space; worth mending.
    Caution,
    /// TRIM does not work, or endangers data.
    Serious,
}

/// Something found, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable name, such as `crypt.no-allow-discards`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
    /// What mends it.
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

/// Where a statement comes from: attribute and value, in the order in which they were looked at.
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

/// What was found about one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// Kernel name and given name, mount point or file.
    pub name: String,
    /// What it is, in a word.
    pub kind: String,
    /// Whether discards get through.
    pub gate: Gate,
    /// Why, in a sentence.
    pub why: String,
    /// What that is based on.
    pub evidence: Evidence,
    /// What else is worth knowing.
    pub findings: Vec<Finding>,
    /// The layers below, as indices into [`Diagnosis::layers`].
    pub below: Vec<usize>,
}

/// Everything about one filesystem or device.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// What was asked about: mount point or device.
    pub subject: String,
    /// Whether discards reach the drives.
    pub verdict: Verdict,
    /// The filesystem, if the subject is one.
    pub filesystem: Option<LayerReport>,
    /// The devices below it, top first.
    pub layers: Vec<LayerReport>,
    /// Which mechanisms trim the filesystem now; empty if none does.
    pub trimmed_by: Vec<String>,
    /// What was found about them.
    pub mechanisms: Vec<Finding>,
    /// Which counters tell how much was written, with unit and step.
    pub write_counters: Vec<String>,
    /// What to do, most important first; the steps of one remedy stand together.
    pub to_do: Vec<Step>,
    /// The command that does of it what can be done without a person, if anything can.
    pub fix: Option<String>,
    /// What could not be seen with the rights at hand.
    pub root_would_add: Vec<String>,
    /// Codes of findings that the configuration accepts.
    pub accepted: Vec<String>,
    /// The verdict rests on accepted findings alone.
    pub is_verdict_accepted: bool,
}

impl Diagnosis {
    /// The layers of `stack`, of which this is the diagnosis, that have no use for discards: hard disks, and what is on nothing else.
    #[must_use]
    pub fn without_use(&self, stack: &Stack) -> Vec<usize> {
        let mut without: Vec<usize> = Vec::new();
        // The lowest layers stand last.
        for (index, layer) in stack.layers.iter().enumerate().rev() {
            let own = self.layers.get(index).is_some_and(|report| report.gate == Gate::NotNeeded);
            let below = !layer.below.is_empty() && layer.below.iter().all(|below| without.contains(below));
            if own || below {
                without.push(index);
            }
        }
        without
    }

    /// Whether it is of a mounted filesystem that does not answer.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.filesystem.iter().flat_map(|filesystem| &filesystem.findings).any(|finding| finding.code == filesystem::SILENT)
    }

    /// What is worth mending, most important first.
    fn worth_mending(&self) -> Vec<&Finding> {
        let in_layers = self.layers.iter().chain(&self.filesystem).flat_map(|l| &l.findings);
        let mut findings: Vec<&Finding> = in_layers.chain(&self.mechanisms).filter(|f| f.severity > Severity::Note).collect();
        findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        findings
    }

    /// All steps of the most important remedy, in one line.
    #[must_use]
    pub fn first_remedy(&self) -> Option<String> {
        self.worth_mending().into_iter().find_map(|finding| finding.remedy.as_ref()).map(Remedy::line)
    }

    /// What the program can mend itself, in the order in which that makes sense: what is below first, since what stands above may have no fault of
    /// its own. Nothing where all below is blocked: there it would be in vain.
    pub fn actionable(&self) -> impl Iterator<Item = (&Finding, &Remedy)> {
        let reports = self.layers.iter().rev().chain(&self.filesystem).filter(|report| !self.is_in_vain(report));
        let worth = reports.flat_map(|l| &l.findings).chain(&self.mechanisms).filter(|f| f.severity > Severity::Note);
        worth.filter_map(|finding| Some((finding, finding.remedy.as_ref().filter(|remedy| !remedy.actions.is_empty())?)))
    }

    fn is_in_vain(&self, report: &LayerReport) -> bool {
        let mut below = report.below.iter().filter_map(|&index| self.layers.get(index)).peekable();
        below.peek().is_some() && below.all(|layer| layer.gate == Gate::Blocks)
    }
}

/// Everything that a diagnosis reads once.
pub struct Doctor<'a> {
    root: &'a Root,
    mounts: Vec<Mount>,
    visited: fstrim::Visited,
    tables: Tables,
    mechanisms: mechanisms::Configured,
}

impl<'a> Doctor<'a> {
    /// Reads the mount table, the device-mapper tables and the configured mechanisms.
    pub fn new(root: &'a Root) -> std::io::Result<Self> {
        let mounts = mountinfo::read(root)?;
        let visited = fstrim::Visited::new(&mounts);
        Ok(Self { root, mounts, visited, tables: Tables::read(root), mechanisms: mechanisms::Configured::read(root) })
    }

    /// Whether its mount point leads to a later mount.
    fn is_covered(&self, mount: &Mount) -> bool {
        self.visited.reached(&self.mounts, &mount.mount_point).is_some_and(|found| found.id != mount.id)
    }

    /// The machine as fstrim sees it.
    fn machine(&self) -> fstrim::Machine<'_> {
        fstrim::Machine { root: self.root, mounts: &self.mounts, visited: &self.visited, release: fstrim::Release::V2_39 }
    }

    /// The filesystem that `path` is on, or the device that it is.
    pub fn examine_path(&self, path: &Path) -> std::io::Result<Diagnosis> {
        if self.root.is_live() && !mount_check::silent(&[path]).is_empty() {
            let absolute = std::path::absolute(path)?;
            let silent = mountinfo::silent(self.root, &self.mounts);
            let by_name = mountinfo::containing(&self.mounts, &absolute).filter(|mount| silent.contains(&mount.dev));
            // Through a link, perhaps.
            let mount = by_name.or_else(|| self.mounts.iter().find(|mount| silent.contains(&mount.dev)));
            return Ok(self.examine_silent(mount.ok_or(std::io::ErrorKind::TimedOut)?));
        }
        let place = Place::of_path(self.root, path)?;
        // The kernel's own name of a device is no path.
        let is_kernel_name = !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&b'!');
        let node = || place.stack.top_layers().next().filter(|_| is_kernel_name).map(Layer::node);
        let subject = match &place.mount {
            Some(mount) => shown(&mount.mount_point),
            None => node().unwrap_or_else(|| shown(path)),
        };
        Ok(self.examine(subject, &place))
    }

    /// A mounted filesystem, of which the stack is known.
    #[must_use]
    pub fn examine_mount(&self, mount: &Mount, stack: &Stack) -> Diagnosis {
        self.examine(shown(&mount.mount_point), &Place { mount: Some(mount.clone()), stack: stack.clone() })
    }

    /// A mount that does not answer: only what the kernel says of its devices is known.
    fn examine_silent(&self, mount: &Mount) -> Diagnosis {
        let place = Place { mount: Some(mount.clone()), stack: Stack::of_mount(self.root, &self.mounts, mount) };
        self.diagnose(shown(&mount.mount_point), &place, Some(filesystem::silent(mount, &place.stack)))
    }

    fn examine(&self, subject: String, place: &Place) -> Diagnosis {
        let filesystem = place.mount.as_ref().map(|mount| filesystem::judge(self.root, mount, &place.stack));
        self.diagnose(subject, place, filesystem)
    }

    fn diagnose(&self, subject: String, place: &Place, mut filesystem: Option<LayerReport>) -> Diagnosis {
        let place = &Place { mount: place.mount.clone(), stack: refine::refine(self, &place.stack) };
        let stack = &place.stack;
        let mut layers: Vec<LayerReport> = (0..stack.layers.len()).map(|i| layers::judge(self, stack, i)).collect();
        excuse(&mut layers);
        layers::beside_those_below(self, stack, &mut layers);
        let verdict = reach::verdict(place, filesystem.as_ref(), &layers);
        if verdict.kind == VerdictKind::NotNeeded {
            let idle = layers.iter_mut().filter(|report| report.gate != Gate::Passes);
            idle.for_each(|report| report.findings.retain(|finding| finding.severity < Severity::Serious));
        }
        if verdict.kind != VerdictKind::Unknown {
            filesystem.iter_mut().for_each(|report| report.findings.retain(|finding| finding.code != filesystem::UNTRIED));
        }
        let (trimmed_by, mut mechanisms) = match &place.mount {
            Some(mount) if !stack.layers.is_empty() => mechanisms::judge(self, mount, stack, &verdict),
            _ => mechanisms::swap(self, stack, &verdict),
        };
        if place.mount.as_ref().is_some_and(|mount| self.is_covered(mount)) {
            let findings = filesystem.iter_mut().flat_map(|report| &mut report.findings).chain(&mut mechanisms);
            findings.for_each(|finding| *finding = Finding::new(finding.code, Severity::Note, std::mem::take(&mut finding.text)));
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
            let written =
                kib.trim().parse::<u64>().map_or_else(|_| format!("{kib} KiB"), |kib| Bytes(kib.saturating_mul(1024)).to_string());
            counters.push(format!("{} lifetime_write_kbytes: {written}, in steps of 1 KiB, kept over reboots", mount.fs_type));
        }
        for layer in place.stack.drives() {
            if self.root.exists(layer.sys.join("stat")) {
                counters.push(format!("{} stat: in steps of 512 B, since boot", layer.shown_name()));
            }
        }
        counters
    }

    fn root_would_add(&self, stack: &Stack) -> Vec<String> {
        let mut more = Vec::new();
        if !self.tables.known()
            && stack.layers.iter().any(|l| matches!(l.kind, Kind::Crypt | Kind::ThinPool | Kind::Thin | Kind::Mapper(_)))
        {
            more.push("the device-mapper tables (dmsetup table, dmsetup status): allow_discards, thin pool passdown".to_owned());
        }
        if self.root.is_live() && !rustix::process::geteuid().is_root() && !stack.layers.is_empty() {
            more.push("a proof with `trimtab verify`: reading raw blocks back after a trim".to_owned());
        }
        more
    }
}

/// A layer that takes no discards because nothing below has a use for them does not block.
fn excuse(layers: &mut [LayerReport]) {
    // Layers stand above what they stand on, so going backwards sees what is below first.
    for i in (0..layers.len()).rev() {
        let below = &layers[i].below;
        let idle = !below.is_empty() && below.iter().all(|&b| layers.get(b).is_some_and(|l| l.gate == Gate::NotNeeded));
        if idle && layers[i].gate == Gate::Blocks {
            layers[i].gate = Gate::NotNeeded;
            layers[i].why = "nothing below has a use for discards".to_owned();
            layers[i].findings.retain(|f| f.severity < Severity::Serious);
        }
    }
}

/// Whether this program's own service and `fstrim.timer` are enabled, from files alone.
#[must_use]
pub fn trim_units(root: &Root) -> (bool, bool) {
    mechanisms::Configured::read(root).enabled()
}

/// Whether the filesystem can discard in any way, as far as is known.
#[must_use]
pub fn can_discard(fs_type: &str) -> bool {
    filesystem::can_discard(fs_type)
}

/// Whether a filesystem discards what it frees of its own accord, by the options in force. mountinfo does not show a default that
/// is kept in the filesystem (`tune2fs -o discard`); this takes it into account.
#[must_use]
pub fn discards_online(root: &Root, mount: &Mount, stack: &Stack) -> bool {
    filesystem::online(root, mount, stack) != filesystem::Online::Off
}

/// `lifetime_write_kbytes` of ext4 and f2fs, by the name of the device.
#[must_use]
pub fn lifetime_counter(fs_type: &str, device: &str) -> PathBuf {
    Path::new("/sys/fs").join(fs_type).join(device).join("lifetime_write_kbytes")
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
}

/// The remedies: of the layers that block first, then by severity.
fn to_do(diagnosis: &Diagnosis) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut remedies: Vec<&Remedy> = Vec::new();
    for remedy in diagnosis.worth_mending().into_iter().filter_map(|f| f.remedy.as_ref()) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
            steps.extend(remedy.steps.iter().cloned());
        }
    }
    steps
}

/// A layer's report before anything is known.
fn blank(layer: &Layer) -> LayerReport {
    LayerReport {
        name: layer.title(),
        kind: kind_name(&layer.kind),
        gate: Gate::Unknown,
        why: String::new(),
        evidence: Evidence::default(),
        findings: Vec::new(),
        below: layer.below.clone(),
    }
}

/// `major.minor` of the kernel.
fn kernel_version(root: &Root) -> Option<(u32, u32)> {
    let release = root.read("/proc/sys/kernel/osrelease")?;
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The model of a drive, or its kernel name.
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
    fn the_running_machine_can_be_examined() {
        let root = Root::live().unwrap();
        let doctor = Doctor::new(&root).unwrap();
        let diagnosis = doctor.examine_path(Path::new("/")).unwrap();
        assert!(!diagnosis.verdict.text.is_empty());
        for one in doctor.survey().diagnoses {
            assert!(!one.verdict.text.is_empty(), "{one:?}");
        }
    }
}
