//! Providers of disks that are not physical drives: hypervisors, RAID controllers, storage
//! arrays, cloud services. For such a disk `rotational` proves nothing, and discards are
//! enabled at the provider.

use super::quirks::matches;
use super::{Finding, Gate, LayerReport, Remedy, Severity};
use crate::host::block::{Bus, Layer};
use crate::host::drive::{self, device_directory};
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// The system that presents a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Hypervisor(Hypervisor),
    RaidController(Controller),
    /// A LUN of a storage array or an iSCSI target.
    Array,
    /// A volume of the named cloud service.
    Cloud(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    VirtualBox,
    VmWare,
    HyperV,
    Qemu,
    Xen,
    Parallels,
    Bhyve,
    /// A virtio disk of an unidentified hypervisor: QEMU, Firecracker, Cloud Hypervisor …
    Unnamed,
}

/// A family of RAID controllers that share one way to pass a drive through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Perc,
    MegaRaid,
    SmartArray,
    Adaptec,
    Other,
}

use Controller::{Adaptec, MegaRaid, Other, Perc, SmartArray};
use Hypervisor::{Bhyve, HyperV, Parallels, Qemu, Unnamed, VirtualBox, VmWare, Xen};
use Provider::{Array, Cloud, RaidController};

/// Vendor and model of INQUIRY (for ATA and NVMe only the model) in lower case, and the
/// provider.
const NAMES: &[(&str, Provider)] = &[
    ("vbox harddisk*", Provider::Hypervisor(VirtualBox)),
    ("orcl-vbox-nvme*", Provider::Hypervisor(VirtualBox)),
    ("vmware* virtual *", Provider::Hypervisor(VmWare)),
    ("msft virtual disk*", Provider::Hypervisor(HyperV)),
    ("virtual hd", Provider::Hypervisor(HyperV)),
    ("qemu *", Provider::Hypervisor(Qemu)),
    ("virtual hdd*", Provider::Hypervisor(Parallels)),
    ("bhyve *", Provider::Hypervisor(Bhyve)),
    ("bhyve-nvme*", Provider::Hypervisor(Bhyve)),
    ("amazon *", Cloud("Amazon EC2")),
    ("google *", Cloud("Google Cloud")),
    ("nvme_card*", Cloud("Google Cloud")),
    ("msft nvme accelerator*", Cloud("Azure")),
    ("microsoft nvme direct disk*", Cloud("Azure")),
    ("oracle blockvolume*", Cloud("Oracle Cloud")),
    ("do volume*", Cloud("DigitalOcean")),
    ("hc volume*", Cloud("Hetzner Cloud")),
    ("linode volume*", Cloud("Akamai (Linode)")),
    ("scw b_ssd*", Cloud("Scaleway")),
    ("alibaba cloud *", Cloud("Alibaba Cloud")),
    ("dell perc*", RaidController(Perc)),
    ("dell virtual disk*", RaidController(Perc)),
    ("dellboss *", RaidController(Other)),
    ("dell boss*", RaidController(Other)),
    ("marvell raid*", RaidController(Other)),
    ("lsi *", RaidController(MegaRaid)),
    ("lsilogic *", RaidController(MegaRaid)),
    ("avago *", RaidController(MegaRaid)),
    ("broadcom *", RaidController(MegaRaid)),
    ("megaraid*", RaidController(MegaRaid)),
    ("smc smc*", RaidController(MegaRaid)),
    ("cisco ucs*raid*", RaidController(MegaRaid)),
    ("lenovo raid*", RaidController(MegaRaid)),
    ("ibm serveraid*", RaidController(MegaRaid)),
    ("intel rs[0123456789]*", RaidController(MegaRaid)),
    ("intel rms[0123456789]*", RaidController(MegaRaid)),
    ("fts praid*", RaidController(MegaRaid)),
    ("hp logical volume*", RaidController(SmartArray)),
    ("hpe logical volume*", RaidController(SmartArray)),
    ("hpe mr[0123456789]*", RaidController(MegaRaid)),
    ("hpe ns204*", RaidController(Other)),
    ("mscc logical volume*", RaidController(Adaptec)),
    ("adaptec *", RaidController(Adaptec)),
    ("amcc *", RaidController(Other)),
    ("3ware *", RaidController(Other)),
    ("areca *", RaidController(Other)),
    ("hpt *", RaidController(Other)),
    ("lio-org *", Array),
    ("netapp lun*", Array),
    ("netapp inf-01*", Array),
    ("netapp ontap*", Array),
    ("pure flasharray*", Array),
    ("pure storage*", Array),
    ("dgc *", Array),
    ("emc *", Array),
    ("dellemc *", Array),
    ("compelnt *", Array),
    ("eqlogic *", Array),
    ("dell md3*", Array),
    ("dell me4*", Array),
    ("hitachi open*", Array),
    ("hp hsv*", Array),
    ("hp p2000*", Array),
    ("hp* msa*", Array),
    ("3pardata vv*", Array),
    ("ibm 2145*", Array),
    ("ibm 2107*", Array),
    ("ibm 2810*", Array),
    ("ibm flashsystem*", Array),
    ("huawei xsg*", Array),
    ("nimble server*", Array),
    ("nfinidat *", Array),
    ("xtremio *", Array),
    ("lenovo de_series*", Array),
    ("fujitsu eternus*", Array),
    ("nec disk array*", Array),
    ("datacore *", Array),
    ("synology *", Array),
    ("qnap *", Array),
    ("truenas *", Array),
    ("freenas *", Array),
    ("freebsd iscsi*", Array),
    ("iet virtual-disk*", Array),
    ("scst_*", Array),
    ("nexenta *", Array),
    ("sun comstar*", Array),
];

/// Drivers of controllers whose volumes have user-chosen names.
const DRIVERS: &[(&str, Controller)] = &[
    ("hpsa", SmartArray),
    ("smartpqi", SmartArray),
    ("cciss", SmartArray),
    ("megaraid_sas", MegaRaid),
    ("aacraid", Adaptec),
    ("arcmsr", Other),
    ("3w-9xxx", Other),
    ("3w-sas", Other),
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

    /// Judges a provider's disk that takes no discards. `rotational` is the disk's own report.
    pub fn judge_without_discards(self, layer: &Layer, bus: Bus, rotational: bool, report: &mut LayerReport) {
        let (gate, severity, code, why, remedy) = match self {
            Self::Hypervisor(host) => {
                let why = format!("{} does not offer discards for this virtual disk", host.name());
                let code = if bus == Bus::Virtio { "virtio.no-discard" } else { "virtual.no-discard" };
                (Gate::Blocks, Severity::Serious, code, why, Some(host.switch()))
            }
            Self::Array => {
                let why = "the storage array does not offer UNMAP for this LUN".to_owned();
                let rescan = format!("echo 1 > {}", quoted(&format!("/sys/block/{}/device/rescan", layer.name)));
                let remedy = Remedy::by_hand("on the array: make the LUN thin and switch space reclamation (UNMAP) on for it");
                (Gate::Blocks, Severity::Serious, "lun.no-unmap", why, Some(remedy.then_run(rescan)))
            }
            Self::RaidController(family) if rotational => {
                let why = "the RAID controller takes no discards, and whether SSDs behind it need any cannot be seen from here".to_owned();
                (Gate::Unknown, Severity::Caution, "raid-controller.no-discard", why, Some(family.switch()))
            }
            Self::RaidController(family) => {
                let why = "the RAID controller takes no discards for its volumes".to_owned();
                (Gate::Blocks, Severity::Serious, "raid-controller.no-discard", why, Some(family.switch()))
            }
            Self::Cloud(service) => {
                let why = format!("discards are not offered by the service ({service}): nothing to do");
                (Gate::NotNeeded, Severity::Note, "cloud.no-discard", why, None)
            }
        };
        report.gate = gate;
        report.why.clone_from(&why);
        report.findings.push(Finding { remedy, ..Finding::new(code, severity, why) });
    }
}

impl Hypervisor {
    const fn name(self) -> &'static str {
        match self {
            VirtualBox => "VirtualBox",
            VmWare => "VMware",
            HyperV => "Hyper-V",
            Qemu => "the host (QEMU)",
            Xen => "the Xen host",
            Parallels => "Parallels",
            Bhyve => "bhyve",
            Unnamed => "the hypervisor",
        }
    }

    fn switch(self) -> Remedy {
        let by_hand = match self {
            VirtualBox => {
                "shut the virtual machine down; then on the host: VBoxManage storageattach VM --storagectl CONTROLLER --port N --device 0 \
                 --type hdd --medium DISK.vdi --nonrotational on --discard on (DISK.vdi is a dynamically allocated VDI)"
            }
            VmWare => {
                "on the host: make the disk thin (Storage vMotion or vmkfstools -i DISK.vmdk -d thin NEW.vmdk), attach it to a VMware \
                 Paravirtual (PVSCSI) or NVMe controller, and use virtual hardware version 13 or later with ESXi 6.5 or later on VMFS 6"
            }
            HyperV => {
                "on the host: use a thin disk (a dynamically expanding VHDX: Convert-VHD) and attach it to a SCSI controller, not to an IDE \
                 controller"
            }
            Qemu => {
                "on the host: discard='unmap' on the disk (QEMU 4.0 or later), or attach it through virtio-scsi; QEMU: -drive \
                 ...,discard=unmap; libvirt: <driver name='qemu' type='qcow2' discard='unmap'/>; Proxmox: discard=on for the disk (qm set VMID \
                 --virtio0 or --scsi0 VOLUME,discard=on, the slot that the disk has); then stop and start the virtual machine"
            }
            Xen => {
                "on the host: Xen offers discards where the storage of the disk takes them (lsblk --discard shows that of a block device) and the \
                 disk's line in the xl configuration does not say no-discard; then stop and start the domain. XenServer and XCP-ng offer none for \
                 a VHD on LVM"
            }
            Parallels => "on the host: use an expanding disk and switch TRIM on for it (Hardware, Hard Disk, Advanced Settings)",
            Unnamed => {
                let first = "let the hypervisor offer discards for this disk, if it can; with QEMU, and with what is built on it:";
                return Qemu.switch().after(Remedy::by_hand(first));
            }
            Bhyve => "on the host: attach the disk as virtio-blk or nvme, from a file or volume that takes discards",
        };
        Remedy::by_hand(by_hand)
    }
}

impl Controller {
    fn switch(self) -> Remedy {
        let step = match self {
            Perc => "convert the drives to non-RAID disks, or switch the PERC to HBA mode (perccli, iDRAC)",
            MegaRaid => "hand the drives through as JBOD (storcli /c0 set jbod=on, then storcli /c0/eN/sN set jbod)",
            SmartArray => "switch the controller to HBA mode (ssacli ctrl slot=N modify hbamode=on)",
            Adaptec => "switch the controller to HBA mode (arcconf setcontrollermode 1 2)",
            Other => "hand the drives through without RAID (HBA or JBOD mode), or attach them to an HBA",
        };
        Remedy::by_hand("if SSDs are behind the controller: back the data up first, since this destroys the RAID volume")
            .then(step)
            .then("or leave 10 % to 20 % of each SSD unused")
    }
}

fn by_name(root: &Root, layer: &Layer) -> Option<Provider> {
    let name = drive::identity(root, layer).model?.to_ascii_lowercase();
    NAMES.iter().find(|(pattern, _)| matches(pattern, &name)).map(|(_, provider)| *provider)
}

/// Identifies the controller by its driver and by the driver's data about the volume.
fn by_controller(root: &Root, layer: &Layer) -> Option<Controller> {
    if layer.name.starts_with("cciss!") {
        return Some(SmartArray);
    }
    let host = layer.sys.ancestors().find(|dir| is_numbered(dir, "host"))?;
    let name = host.file_name()?;
    let driver = root.read(host.join("scsi_host").join(name).join("proc_name"))?;
    let (_, family) = DRIVERS.iter().find(|(known, _)| *known == driver)?;
    // hpsa and smartpqi report this directly; megaraid_sas uses channels 0 and 1 for physical
    // drives.
    let level = root.read(device_directory(layer).join("raid_level")).map(|level| level != "N/A");
    let channel = || layer.sys.iter().find_map(|part| part.to_str()?.strip_prefix("target")?.split(':').nth(1)?.parse::<u32>().ok());
    let is_volume = match driver.as_str() {
        "megaraid_sas" => channel().is_some_and(|channel| channel >= 2),
        "hpsa" | "smartpqi" => level == Some(true),
        _ => root.read(device_directory(layer).join("vendor")).is_some_and(|vendor| vendor != "ATA"),
    };
    is_volume.then_some(*family)
}

/// Detects iSCSI sessions, Fibre Channel ports, and NVMe over fabrics.
fn by_transport(root: &Root, layer: &Layer, bus: Bus) -> Option<Provider> {
    let through = |prefix: &str| layer.sys.ancestors().any(|dir| is_numbered(dir, prefix));
    let fabric = || root.read(device_directory(layer).join("transport")).is_some_and(|transport| transport != "pcie");
    match bus {
        Bus::Nvme => fabric().then_some(Array),
        Bus::Scsi => (through("session") || through("rport-")).then_some(Array),
        _ => None,
    }
}

fn by_bus(root: &Root, layer: &Layer, bus: Bus) -> Option<Provider> {
    // Only the firmware's tables name the hypervisor behind a virtio disk.
    let names_qemu = || firmware(root, "sys_vendor").is_some_and(|vendor| matches("*QEMU*", &vendor));
    match bus {
        Bus::Virtio | Bus::VirtioScsi => Some(Provider::Hypervisor(if names_qemu() { Qemu } else { Unnamed })),
        _ if layer.sys.ancestors().any(|dir| is_numbered(dir, "vbd-")) => Some(Provider::Hypervisor(Xen)),
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
    let is_type = ["pc-", "virt-", "s390-ccw-virtio-", "pseries-"].iter().any(|family| machine.starts_with(family));
    let version = machine.rsplit_once('-')?.1;
    let (of, first) = version.strip_prefix("rhel").map_or((version, (4, 0)), |of| (of, (8, 1)));
    let mut numbers = of.split('.').map_while(|number| number.parse::<u32>().ok());
    (is_type && (numbers.next()?, numbers.next().unwrap_or(0)) < first).then_some(machine)
}

/// The cloud service that runs the machine.
fn cloud(root: &Root) -> Option<&'static str> {
    let says = |file: &str, pattern: &str| firmware(root, file).is_some_and(|text| matches(pattern, &text));
    CLOUDS.iter().find(|(file, pattern, _)| says(file, pattern)).map(|(.., service)| *service)
}

/// True for names such as `host4`, `session1`, `rport-2:0-1`.
fn is_numbered(directory: &Path, prefix: &str) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
