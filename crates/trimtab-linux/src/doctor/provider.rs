//! Providers of disks that are not physical drives: hypervisors, RAID controllers,
//! storage arrays, cloud services. For such a disk `rotational` proves nothing, and
//! discards are enabled at the provider.

use super::glob::matches;
use super::{Gate, LayerReport, Remedy, is_numbered};
use crate::host::block::{Bus, Layer};
use crate::host::drive::{self, device_directory};
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// The system that presents a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Hypervisor(&'static Hypervisor),
    /// A RAID controller, with the step that passes its drives through.
    RaidController(&'static str),
    /// A LUN of a storage array or an iSCSI target.
    Array,
    /// A volume of the named cloud service.
    Cloud(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Hypervisor {
    name: &'static str,
    /// The steps that make it offer discards.
    switch: &'static [&'static str],
}

const VIRTUAL_BOX: Hypervisor = Hypervisor {
    name: "VirtualBox",
    switch: &["shut the virtual machine down; then on the host: VBoxManage storageattach \
            VM --storagectl CONTROLLER --port N --device 0 --type hdd --medium DISK.vdi \
            --nonrotational on --discard on (DISK.vdi is a dynamically allocated VDI)"],
};
const VM_WARE: Hypervisor = Hypervisor {
    name: "VMware",
    switch: &["on the host: make the disk thin (Storage vMotion or vmkfstools -i DISK.vmdk \
            -d thin NEW.vmdk), attach it to a VMware Paravirtual (PVSCSI) or NVMe \
            controller, and use virtual hardware version 13 or later with ESXi 6.5 or later \
            on VMFS 6"],
};
const HYPER_V: Hypervisor = Hypervisor {
    name: "Hyper-V",
    switch: &["on the host: use a thin disk (a dynamically expanding VHDX: Convert-VHD) \
            and attach it to a SCSI controller, not to an IDE controller"],
};
const QEMU: Hypervisor = Hypervisor {
    name: "the host (QEMU)",
    switch: &["on the host: discard='unmap' on the disk (QEMU 4.0 or later), or attach it \
            through virtio-scsi; QEMU: -drive ...,discard=unmap; libvirt: <driver \
            name='qemu' type='qcow2' discard='unmap'/>; Proxmox: discard=on for the disk \
            (qm set VMID --virtio0 or --scsi0 VOLUME,discard=on, the slot that the disk \
            has); then stop and start the virtual machine"],
};
const XEN: Hypervisor = Hypervisor {
    name: "the Xen host",
    switch: &["on the host: Xen offers discards where the storage of the disk takes them \
            (lsblk --discard shows that of a block device) and the disk's line in the xl \
            configuration does not say no-discard; then stop and start the domain. \
            XenServer and XCP-ng offer none for a VHD on LVM"],
};
const PARALLELS: Hypervisor = Hypervisor {
    name: "Parallels",
    switch: &["on the host: use an expanding disk and switch TRIM on for it (Hardware, \
            Hard Disk, Advanced Settings)"],
};
const BHYVE: Hypervisor = Hypervisor {
    name: "bhyve",
    switch: &["on the host: attach the disk as virtio-blk or nvme, from a file or volume \
            that takes discards"],
};
/// Behind a virtio disk: QEMU, Firecracker, Cloud Hypervisor …
const UNNAMED: Hypervisor = Hypervisor {
    name: "the hypervisor",
    switch: &[
        "let the hypervisor offer discards for this disk, if it can; with QEMU, and \
            with what is built on it:",
        QEMU.switch[0],
    ],
};

/// Steps that pass the drives of a RAID controller through.
const PERC: &str =
    "convert the drives to non-RAID disks, or switch the PERC to HBA mode (perccli, iDRAC)";
const MEGA_RAID: &str =
    "hand the drives through as JBOD (storcli /c0 set jbod=on, then storcli /c0/eN/sN set jbod)";
const SMART_ARRAY: &str =
    "switch the controller to HBA mode (ssacli ctrl slot=N modify hbamode=on)";
const ADAPTEC: &str = "switch the controller to HBA mode (arcconf setcontrollermode 1 2)";
const OTHER: &str =
    "hand the drives through without RAID (HBA or JBOD mode), or attach them to an HBA";

use Provider::{Array, Cloud, RaidController};

/// Providers, each with the patterns of its names, separated by `|`: vendor and model of
/// INQUIRY (for ATA and NVMe only the model) in lower case.
const NAMES: &[(Provider, &str)] = &[
    (Provider::Hypervisor(&VIRTUAL_BOX), "vbox harddisk*|orcl-vbox-nvme*"),
    (Provider::Hypervisor(&VM_WARE), "vmware* virtual *"),
    (Provider::Hypervisor(&HYPER_V), "msft virtual disk*|virtual hd"),
    (Provider::Hypervisor(&QEMU), "qemu *"),
    (Provider::Hypervisor(&PARALLELS), "virtual hdd*"),
    (Provider::Hypervisor(&BHYVE), "bhyve *|bhyve-nvme*"),
    (Cloud("Amazon EC2"), "amazon *"),
    (Cloud("Google Cloud"), "google *|nvme_card*"),
    (Cloud("Azure"), "msft nvme accelerator*|microsoft nvme direct disk*"),
    (Cloud("Oracle Cloud"), "oracle blockvolume*"),
    (Cloud("DigitalOcean"), "do volume*"),
    (Cloud("Hetzner Cloud"), "hc volume*"),
    (Cloud("Akamai (Linode)"), "linode volume*"),
    (Cloud("Scaleway"), "scw b_ssd*"),
    (Cloud("Alibaba Cloud"), "alibaba cloud *"),
    (RaidController(PERC), "dell perc*|dell virtual disk*"),
    (
        RaidController(MEGA_RAID),
        "lsi *|lsilogic *|avago *|broadcom *|megaraid*|smc smc*|cisco \
            ucs*raid*|lenovo raid*|ibm serveraid*|intel rs2*|intel rs3*|intel rms2*|intel \
            rms3*|fts praid*|hpe mr2*|hpe mr4*|hpe mr9*",
    ),
    (RaidController(SMART_ARRAY), "hp logical volume*|hpe logical volume*"),
    (RaidController(ADAPTEC), "mscc logical volume*|adaptec *"),
    (
        RaidController(OTHER),
        "dellboss *|dell boss*|marvell raid*|hpe ns204*|amcc *|3ware *|areca *|hpt *",
    ),
    (
        Array,
        "lio-org *|netapp lun*|netapp inf-01*|netapp ontap*|pure flasharray*|pure \
            storage*|dgc *|emc *|dellemc *|compelnt *|eqlogic *|dell md3*|dell me4*|hitachi \
            open*|hp hsv*|hp p2000*|hp* msa*|3pardata vv*|ibm 2145*|ibm 2107*|ibm 2810*|ibm \
            flashsystem*|huawei xsg*|nimble server*|nfinidat *|xtremio *|lenovo \
            de_series*|fujitsu eternus*|nec disk array*|datacore *|synology *|qnap \
            *|truenas *|freenas *|freebsd iscsi*|iet virtual-disk*|scst_*|nexenta *|sun \
            comstar*",
    ),
];

/// Drivers of controllers whose volumes have user-chosen names.
const DRIVERS: &[(&str, &str)] = &[
    ("hpsa", SMART_ARRAY),
    ("smartpqi", SMART_ARRAY),
    ("cciss", SMART_ARRAY),
    ("megaraid_sas", MEGA_RAID),
    ("aacraid", ADAPTEC),
    ("arcmsr", OTHER),
    ("3w-9xxx", OTHER),
    ("3w-sas", OTHER),
];

/// A file of the machine, its content, and the cloud service that it identifies.
const CLOUDS: &[(&str, &str, &str)] = &[
    ("sys_vendor", "Amazon EC2*", "Amazon EC2"),
    ("bios_version", "*amazon*", "Amazon EC2"),
    ("sys_vendor", "Google*", "Google Cloud"),
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "Azure"),
    ("chassis_asset_tag", "OracleCloud.com*", "Oracle Cloud"),
    ("sys_vendor", "Alibaba Cloud*", "Alibaba Cloud"),
    ("sys_vendor", "Tencent Cloud*", "Tencent Cloud"),
    ("sys_vendor", "Huawei Cloud*", "Huawei Cloud"),
    ("sys_vendor", "DigitalOcean*", "DigitalOcean"),
    ("sys_vendor", "Hetzner*", "Hetzner Cloud"),
    ("sys_vendor", "Akamai*", "Akamai (Linode)"),
    ("sys_vendor", "Linode*", "Akamai (Linode)"),
    ("sys_vendor", "Vultr*", "Vultr"),
    ("sys_vendor", "Scaleway*", "Scaleway"),
    ("sys_vendor", "UpCloud*", "UpCloud"),
    ("sys_vendor", "Exoscale*", "Exoscale"),
];

impl Provider {
    /// The provider of the disk; `None` for what appears to be a physical drive.
    pub fn of(root: &Root, layer: &Layer, bus: Bus) -> Option<Self> {
        // A USB bridge reports the names of its drive.
        if bus == Bus::Usb {
            return None;
        }
        let found = by_name(root, layer)
            .or_else(|| by_controller(root, layer).map(RaidController))
            .or_else(|| by_transport(root, layer, bus))
            .or_else(|| by_bus(root, layer, bus));
        match found {
            Some(Self::Hypervisor(_)) => cloud(root).map(Cloud).or(found),
            found => found,
        }
    }

    /// Judges a provider's disk that takes no discards. `rotational` is the disk's own
    /// report.
    pub fn judge_without_discards(
        self,
        layer: &Layer,
        bus: Bus,
        rotational: bool,
        report: &mut LayerReport,
    ) {
        match self {
            Self::Hypervisor(host) => {
                let code =
                    if bus == Bus::Virtio { "virtio.no-discard" } else { "virtual.no-discard" };
                let switch =
                    host.switch.iter().fold(Remedy::default(), |remedy, step| remedy.then(*step));
                let why = format!("{} does not offer discards for this virtual disk", host.name);
                report.block(code, why, switch);
            }
            Self::Array => {
                let rescan = quoted(&format!("/sys/block/{}/device/rescan", layer.name));
                let remedy = Remedy::by_hand(
                    "on the array: make the LUN thin and switch space reclamation \
                        (UNMAP) on for it",
                )
                .then_run(format!("echo 1 > {rescan}"));
                let why = "the storage array does not offer UNMAP for this LUN";
                report.block("lun.no-unmap", why, remedy);
            }
            Self::RaidController(step) if rotational => {
                let why = "the RAID controller takes no discards, and whether SSDs behind it \
                    need any cannot be seen from here";
                report.set(Gate::Unknown, why);
                report.caution("raid-controller.no-discard", why, without_raid(step));
            }
            Self::RaidController(step) => {
                let why = "the RAID controller takes no discards for its volumes";
                report.block("raid-controller.no-discard", why, without_raid(step));
            }
            Self::Cloud(service) => {
                let why =
                    format!("discards are not offered by the service ({service}): nothing to do");
                report.set(Gate::NotNeeded, why.clone());
                report.note("cloud.no-discard", why);
            }
        }
    }
}

/// Passes the drives of a RAID controller through by this step.
fn without_raid(step: &str) -> Remedy {
    Remedy::by_hand(
        "if SSDs are behind the controller: back the data up first, since this destroys \
        the RAID volume",
    )
    .then(step)
    .then("or leave 10 % to 20 % of each SSD unused")
}

fn by_name(root: &Root, layer: &Layer) -> Option<Provider> {
    let name = drive::identity(root, layer).model?.to_ascii_lowercase();
    NAMES.iter().find(|(_, patterns)| matches(patterns, &name)).map(|(provider, _)| *provider)
}

/// Identifies the controller by its driver and by the driver's data about the volume.
/// Returns the step that passes its drives through.
fn by_controller(root: &Root, layer: &Layer) -> Option<&'static str> {
    if layer.name.starts_with("cciss!") {
        return Some(SMART_ARRAY);
    }
    let host = above(layer, "host")?;
    let name = host.file_name()?;
    let driver = root.read(host.join("scsi_host").join(name).join("proc_name"))?;
    let (_, family) = DRIVERS.iter().find(|(known, _)| *known == driver)?;
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
    is_volume.then_some(*family)
}

/// Detects iSCSI sessions, Fibre Channel ports, and NVMe over fabrics.
fn by_transport(root: &Root, layer: &Layer, bus: Bus) -> Option<Provider> {
    let fabric = || {
        root.read(device_directory(layer).join("transport"))
            .is_some_and(|transport| transport != "pcie")
    };
    match bus {
        Bus::Nvme => fabric().then_some(Array),
        Bus::Scsi => above(layer, "session").or_else(|| above(layer, "rport-")).map(|_| Array),
        _ => None,
    }
}

fn by_bus(root: &Root, layer: &Layer, bus: Bus) -> Option<Provider> {
    // Only the firmware's tables name the hypervisor behind a virtio disk.
    let names_qemu =
        || firmware(root, "sys_vendor").is_some_and(|vendor| matches("*QEMU*", &vendor));
    match bus {
        Bus::Virtio | Bus::VirtioScsi => {
            Some(Provider::Hypervisor(if names_qemu() { &QEMU } else { &UNNAMED }))
        }
        _ if above(layer, "vbd-").is_some() => Some(Provider::Hypervisor(&XEN)),
        _ => None,
    }
}

/// Reads a name from the firmware's tables.
fn firmware(root: &Root, file: &str) -> Option<String> {
    root.read(Path::new("/sys/class/dmi/id").join(file))
}

/// The QEMU machine type if it disables discards for virtio-blk: all types up to 3.1
/// (`pc-i440fx-3.1`), and the equivalent RHEL types.
pub fn machine_without_discards(root: &Root) -> Option<String> {
    let machine = firmware(root, "product_version")?;
    let is_type = ["pc-", "virt-", "s390-ccw-virtio-", "pseries-"]
        .iter()
        .any(|family| machine.starts_with(family));
    let version = machine.rsplit_once('-')?.1;
    let (of, first) = version.strip_prefix("rhel").map_or((version, (4, 0)), |of| (of, (8, 1)));
    let mut numbers = of.split('.').map_while(|number| number.parse::<u32>().ok());
    (is_type && (numbers.next()?, numbers.next().unwrap_or(0)) < first).then_some(machine)
}

/// The cloud service that runs the machine.
fn cloud(root: &Root) -> Option<&'static str> {
    let says = |file: &str, pattern: &str| {
        firmware(root, file).is_some_and(|text| matches(pattern, &text))
    };
    CLOUDS.iter().find(|(file, pattern, _)| says(file, pattern)).map(|(.., service)| *service)
}

/// The directory of a device's path that has such a name: `host4`, `session1`,
/// `rport-2:0-1`.
fn above<'a>(layer: &'a Layer, prefix: &str) -> Option<&'a Path> {
    let is_it = |dir: &&Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| is_numbered(name, prefix))
    };
    layer.sys.ancestors().find(is_it)
}
