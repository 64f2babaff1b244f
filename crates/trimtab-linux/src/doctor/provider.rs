//! Providers of disks that are not physical drives: hypervisors, RAID controllers,
//! storage arrays, cloud services. For such a disk `rotational` proves nothing, and
//! discards are enabled at the provider.

use super::glob::matches;
use super::{Gate, LayerReport, Remedy, is_numbered};
use crate::host::block::{Bus, Layer};
use crate::host::drive::{self, device_directory};
use crate::host::root::Root;
use serde::Deserialize;
use std::path::Path;
use std::sync::OnceLock;
use trimtab_drive::usage::quoted;

const FILE: &str = include_str!("providers.toml");

/// Kind of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    #[default]
    Hypervisor,
    RaidController,
    /// A storage array or an iSCSI target.
    Array,
    Cloud,
}

/// The system that presents a disk; `providers.toml` explains the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    pub kind: ProviderKind,
    key: String,
    name: String,
    steps: Vec<String>,
    model: String,
    drivers: Vec<String>,
    firmware: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct ProviderList {
    provider: Vec<Provider>,
}

/// The first provider of the list that `is_it` accepts.
fn find(is_it: impl Fn(&Provider) -> bool) -> Option<&'static Provider> {
    static LIST: OnceLock<ProviderList> = OnceLock::new();
    let list = LIST.get_or_init(|| toml::from_str(FILE).expect("the list in the program is valid"));
    list.provider.iter().find(|provider| is_it(provider))
}

fn by_driver(driver: &str) -> Option<&'static Provider> {
    find(|provider| provider.drivers.iter().any(|known| known == driver))
}

impl Provider {
    /// The provider of the disk; `None` for what appears to be a physical drive.
    pub fn of(root: &Root, layer: &Layer, bus: Bus) -> Option<&'static Self> {
        // A USB bridge reports the names of its drive.
        if bus == Bus::Usb {
            return None;
        }
        let found = by_name(root, layer)
            .or_else(|| by_controller(root, layer))
            .or_else(|| by_transport(root, layer, bus))
            .or_else(|| by_bus(root, layer, bus));
        match found {
            Some(Self { kind: ProviderKind::Hypervisor, .. }) => cloud(root).or(found),
            found => found,
        }
    }

    /// Judges a provider's disk that takes no discards. `rotational` is the disk's own
    /// report.
    pub fn judge_without_discards(
        &self,
        layer: &Layer,
        bus: Bus,
        rotational: bool,
        report: &mut LayerReport,
    ) {
        match self.kind {
            ProviderKind::Hypervisor => {
                let code =
                    if bus == Bus::Virtio { "virtio.no-discard" } else { "virtual.no-discard" };
                let switch =
                    self.steps.iter().fold(Remedy::default(), |remedy, step| remedy.then(step));
                let why = format!("{} does not offer discards for this virtual disk", self.name);
                report.block(code, why, switch);
            }
            ProviderKind::Array => {
                let rescan = quoted(&format!("/sys/block/{}/device/rescan", layer.name));
                let remedy = Remedy::by_hand(
                    "on the array: make the LUN thin and switch space reclamation \
                        (UNMAP) on for it",
                )
                .then_run(format!("echo 1 > {rescan}"));
                let why = "the storage array does not offer UNMAP for this LUN";
                report.block("lun.no-unmap", why, remedy);
            }
            ProviderKind::RaidController if rotational => {
                let why = "the RAID controller takes no discards, and whether SSDs behind it \
                    need any cannot be seen from here";
                report.set(Gate::Unknown, why);
                report.caution("raid-controller.no-discard", why, without_raid(&self.steps));
            }
            ProviderKind::RaidController => {
                let why = "the RAID controller takes no discards for its volumes";
                report.block("raid-controller.no-discard", why, without_raid(&self.steps));
            }
            ProviderKind::Cloud => {
                let why = format!(
                    "discards are not offered by the service ({}): nothing to do",
                    self.name
                );
                report.set(Gate::NotNeeded, why.clone());
                report.note("cloud.no-discard", why);
            }
        }
    }
}

/// Passes the drives of a RAID controller through by these steps.
fn without_raid(steps: &[String]) -> Remedy {
    let backup = Remedy::by_hand(
        "if SSDs are behind the controller: back the data up first, since this destroys \
        the RAID volume",
    );
    let through = steps.iter().fold(backup, |remedy, step| remedy.then(step));
    through.then("or leave 10 % to 20 % of each SSD unused")
}

fn by_name(root: &Root, layer: &Layer) -> Option<&'static Provider> {
    let name = drive::identity(root, layer).model?.to_ascii_lowercase();
    find(|provider| !provider.model.is_empty() && matches(&provider.model, &name))
}

/// Identifies the controller by its driver and by the driver's data about the volume.
fn by_controller(root: &Root, layer: &Layer) -> Option<&'static Provider> {
    if layer.name.starts_with("cciss!") {
        return by_driver("cciss");
    }
    let host = above(layer, "host")?;
    let name = host.file_name()?;
    let driver = root.read(host.join("scsi_host").join(name).join("proc_name"))?;
    let controller = by_driver(&driver)?;
    // hpsa and smartpqi report this directly; megaraid_sas uses channels 0 and 1 for
    // physical drives.
    let level = root.read(device_directory(layer).join("raid_level")).map(|level| level != "N/A");
    let channel = || {
        layer.sys.iter().find_map(|part| {
            part.to_str()?.strip_prefix("target")?.split(':').nth(1)?.parse::<u32>().ok()
        })
    };
    let is_volume = match driver.as_str() {
        "megaraid_sas" => channel().is_some_and(|channel| channel >= 2),
        "hpsa" | "smartpqi" => level == Some(true),
        _ => {
            root.read(device_directory(layer).join("vendor")).is_some_and(|vendor| vendor != "ATA")
        }
    };
    is_volume.then_some(controller)
}

/// Detects iSCSI sessions, Fibre Channel ports, and NVMe over fabrics.
fn by_transport(root: &Root, layer: &Layer, bus: Bus) -> Option<&'static Provider> {
    let fabric = || {
        root.read(device_directory(layer).join("transport"))
            .is_some_and(|transport| transport != "pcie")
    };
    let is_array = match bus {
        Bus::Nvme => fabric(),
        Bus::Scsi => above(layer, "session").or_else(|| above(layer, "rport-")).is_some(),
        _ => false,
    };
    is_array.then(|| find(|provider| provider.kind == ProviderKind::Array)).flatten()
}

fn by_bus(root: &Root, layer: &Layer, bus: Bus) -> Option<&'static Provider> {
    // Only the firmware's tables name the hypervisor behind a virtio disk.
    let names_qemu =
        || firmware(root, "sys_vendor").is_some_and(|vendor| matches("*QEMU*", &vendor));
    let key = match bus {
        Bus::Virtio | Bus::VirtioScsi => {
            if names_qemu() {
                "qemu"
            } else {
                "virtio"
            }
        }
        _ if above(layer, "vbd-").is_some() => "xen",
        _ => return None,
    };
    find(|provider| provider.key == key)
}

/// Reads a name from the firmware's tables.
fn firmware(root: &Root, file: &str) -> Option<String> {
    root.read(Path::new("/sys/class/dmi/id").join(file))
}

/// The cloud service that runs the machine.
fn cloud(root: &Root) -> Option<&'static Provider> {
    let says = |file: &str, pattern: &str| {
        firmware(root, file).is_some_and(|text| matches(pattern, &text))
    };
    find(|provider| provider.firmware.iter().any(|(file, pattern)| says(file, pattern)))
}

/// The directory of a device's path that has such a name: `host4`, `session1`,
/// `rport-2:0-1`.
fn above<'a>(layer: &'a Layer, prefix: &str) -> Option<&'a Path> {
    let is_it = |dir: &&Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| is_numbered(name, prefix))
    };
    layer.sys.ancestors().find(is_it)
}
