//! The one drive below a directory, file or device, with the properties that it reports.
//! For measuring drives, not filesystems.

use std::path::Path;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::Place;
use trimtab_linux::host::block::{Bus, Layer, LayerKind, Stack};
use trimtab_linux::host::drive;
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_study::learn::learned::one_line;
use trimtab_study::learn::{ReportedProperties, TrimLimits};

/// Ranges of an ATA TRIM command as sent by Linux, and blocks of a range.
const ATA_RANGES: u32 = 64;
const ATA_RANGE_BLOCKS: u64 = 65_535;
/// Queue depth if the drive does not report it.
const QUEUE_DEPTH_DEFAULT: u32 = 128;

/// The drive below a place.
#[derive(Clone, Debug)]
pub struct UnderlyingDrive {
    /// Properties reported by the drive.
    pub reported: ReportedProperties,
    /// Its model, or a description.
    pub model: String,
    /// Its firmware.
    pub firmware: Option<String>,
    /// Identifies the unit: a serial number or the like, else the place where it is
    /// attached.
    pub which: String,
    /// True if the model name is meaningful, unlike that of a virtual disk or a loop
    /// device.
    pub is_of_a_model: bool,
    /// Start of the filesystem's address space, or of the named device, on the drive.
    pub start: u64,
    /// True for a volatile cache, as far as the kernel knows. Without one, the kernel
    /// sends no flush.
    pub volatile_cache: bool,
    /// Type of the filesystem; `None` for a device.
    pub fs_type: Option<String>,
    /// The mount of the place; `None` for a device.
    pub mount: Option<Mount>,
    /// All layers below the place.
    pub stack: Stack,
    /// Other influences on figures measured here.
    pub notes: Vec<String>,
}

impl UnderlyingDrive {
    /// Finds the drive below `path`.
    ///
    /// # Errors
    /// There is not exactly one solid-state drive: several drives, a disk, a network,
    /// memory.
    pub fn of_path(root: &Root, path: &Path) -> anyhow::Result<Self> {
        let place = Place::of_path(root, path)?;
        let shown = path.display();
        let fs_type = place.mount.as_ref().map(|mount| mount.fs_type.clone());
        let Some(top) = only(place.stack.top_layers()) else {
            let what = match &fs_type {
                Some(fs_type) if place.stack.tops.is_empty() => {
                    format!("no drive is below {shown}: {fs_type} is not on a block device")
                }
                _ => format!("{shown} is on several devices, but a twin is of one drive"),
            };
            return Err(UsageError::missing(what)
                .hint("name a directory, file or device on one solid-state drive")
                .into());
        };
        let (drive, bus) = lowest(&place.stack, top, &shown.to_string())?;
        if is_disk(root, drive, bus) {
            let what = format!(
                "{} below {shown} is a disk (rotational according to the kernel), \
                    which cannot have a twin",
                drive.name
            );
            return Err(UsageError::missing(what).hint("a twin is of a solid-state drive").into());
        }
        let looped = place.stack.layers.iter().find(|layer| layer.kind == LayerKind::Loop);
        let identity = drive::identity(root, drive);
        let model = identity.model.unwrap_or_else(|| drive.name.clone());
        let called = looped.map_or_else(
            || model.clone(),
            |looped| model_of_loop(&place.stack, looped, bus.map(|_| model.as_str())),
        );
        let reported = match looped {
            Some(looped) => ReportedProperties {
                full_duplex: bus == Some(Bus::Nvme),
                ..reported(root, looped, None)
            },
            None => reported(root, drive, bus),
        };
        Ok(Self {
            reported,
            model: one_line(&called),
            firmware: identity.firmware.as_deref().map(one_line),
            which: looped.map_or_else(
                || own(root, drive),
                |looped| format!("{} {}", own(root, drive), below_loop(&place.stack, looped)),
            ),
            is_of_a_model: looped.is_none() && bus.is_some_and(Bus::names_models),
            start: if top.kind == LayerKind::Partition {
                root.read_u64(top.sys.join("start")).unwrap_or(0)
                    * trimtab_linux::host::stat::SECTOR_BYTES
            } else {
                0
            },
            volatile_cache: root
                .read(top.queue().join("write_cache"))
                .is_none_or(|says| says.trim() != "write through"),
            fs_type,
            notes: notes(&place.stack, bus),
            mount: place.mount,
            stack: place.stack,
        })
    }
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let one = all.next()?;
    all.next().is_none().then_some(one)
}

/// The name of a loop device: it has no model, and hides part of what is below it.
fn model_of_loop(stack: &Stack, looped: &Layer, drive: Option<&str>) -> String {
    let below = below_loop(stack, looped);
    let below = below.rsplit('/').next().unwrap_or(below);
    drive.map_or_else(
        || format!("loop device over {below}"),
        |drive| format!("loop device over {below} on {drive}"),
    )
}

/// The file or device below a loop device.
fn below_loop<'a>(stack: &'a Stack, looped: &'a Layer) -> &'a str {
    looped
        .below
        .first()
        .and_then(|&below| stack.layers.get(below))
        .map_or(looped.name.as_str(), |below| below.name.as_str())
}

/// Identifies the unit: its serial number or worldwide name, or else the place where it
/// is attached.
fn own(root: &Root, drive: &Layer) -> String {
    let device = drive::device_directory(drive);
    let says = ["wwid", "device/wwid", "device/serial", "serial", "device/cid"]
        .into_iter()
        .filter_map(|name| root.read(drive.sys.join(name)));
    let mut says = says.filter(|text| !text.trim().is_empty());
    says.next().unwrap_or_else(|| device.display().to_string())
}

/// The drive, or a loop device over a file served by a program, such as a virtual SSD.
fn lowest<'a>(
    stack: &'a Stack,
    top: &'a Layer,
    shown: &str,
) -> anyhow::Result<(&'a Layer, Option<Bus>)> {
    let mut drives = stack.drives();
    if let Some(drive) = drives.next() {
        if drives.next().is_some() {
            let what = format!("{shown} is on several drives, but a twin is of one");
            return Err(UsageError::missing(what)
                .hint("name a directory, file or device on one solid-state drive")
                .into());
        }
        let bus = if let LayerKind::Drive(bus) = drive.kind { Some(bus) } else { None };
        if bus == Some(Bus::Zram) {
            return Err(UsageError::missing(format!("{shown} is in memory (zram)")).into());
        }
        return Ok((drive, bus));
    }
    let memory = stack
        .layers
        .iter()
        .find(|layer| matches!(&layer.kind, LayerKind::File { fs_type, .. } if fs_type == "tmpfs" || fs_type == "ramfs"));
    if let Some(file) = memory {
        return Err(UsageError::missing(format!(
            "{shown} is in memory: the file below, {}, is not on a drive",
            file.name
        ))
        .into());
    }
    Ok((top, None))
}

/// Virtual disks report that they rotate by default.
fn is_disk(root: &Root, layer: &Layer, bus: Option<Bus>) -> bool {
    let says_so = root.read_u64(layer.queue().join("rotational")) == Some(1);
    says_so && matches!(bus, Some(Bus::Ata | Bus::Scsi | Bus::Usb))
}

fn reported(root: &Root, layer: &Layer, bus: Option<Bus>) -> ReportedProperties {
    let queue = |name: &str| root.read_u64(layer.queue().join(name));
    let block = queue("logical_block_size")
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| bytes.is_power_of_two());
    let logical_block_bytes = block.unwrap_or(512).max(512);
    let depth = root
        .read_u64(drive::device_directory(layer).join("queue_depth"))
        .or_else(|| queue("nr_requests"));
    let most = queue("discard_max_bytes").filter(|bytes| *bytes > 0);
    // The kernel sends ATA drives commands of many ranges, even if the caller passes one.
    let trim = most.map(|bytes| match bus {
        Some(Bus::Ata) => TrimLimits {
            ranges_per_command_max: ATA_RANGES,
            range_bytes_max: ATA_RANGE_BLOCKS * u64::from(logical_block_bytes),
        },
        _ => TrimLimits { ranges_per_command_max: 1, range_bytes_max: bytes },
    });
    ReportedProperties {
        capacity_bytes: layer.size.0 - layer.size.0 % u64::from(logical_block_bytes),
        logical_block_bytes,
        queue_depth: depth
            .and_then(|depth| u32::try_from(depth).ok())
            .unwrap_or(QUEUE_DEPTH_DEFAULT)
            .clamp(1, 1024),
        full_duplex: bus == Some(Bus::Nvme),
        trim,
    }
}

fn notes(stack: &Stack, bus: Option<Bus>) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(bus, Some(Bus::Virtio | Bus::VirtioScsi | Bus::Nbd)) {
        let virtual_disk = "this is a virtual disk: the hardware below it and its other users are not \
            visible; the twin covers all of it together";
        notes.push(virtual_disk.to_owned());
    }
    for layer in &stack.layers {
        match &layer.kind {
            LayerKind::Crypt => notes
                .push("data is encrypted above the drive, and never compresses on it".to_owned()),
            LayerKind::Loop => notes.push(format!(
                "{} is a loop device: the twin is of the drive as seen through it",
                layer.name
            )),
            _ => {}
        }
    }
    notes
}

/// Capacity, for write limits.
impl UnderlyingDrive {
    /// The drive's capacity.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.reported.capacity_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A recorded machine with one drive and the given queue attributes.
    fn machine(device: &str, attributes: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("sys/devices").join(device);
        fs::create_dir_all(at.join("queue")).unwrap();
        fs::create_dir_all(dir.path().join("sys/dev/block")).unwrap();
        fs::create_dir_all(dir.path().join("sys/class/block")).unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let name = device.rsplit('/').next().unwrap();
        std::os::unix::fs::symlink(
            format!("../../devices/{device}"),
            dir.path().join("sys/dev/block/8:0"),
        )
        .unwrap();
        std::os::unix::fs::symlink(
            format!("../../devices/{device}"),
            dir.path().join("sys/class/block").join(name),
        )
        .unwrap();
        fs::write(at.join("dev"), "8:0").unwrap();
        fs::write(at.join("size"), "1000000").unwrap();
        for (name, value) in attributes {
            fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
            fs::write(at.join(name), value).unwrap();
        }
        fs::write(
            dir.path().join("proc/self/mountinfo"),
            format!("20 1 8:0 / / rw - ext4 /dev/{name} rw\n"),
        )
        .unwrap();
        let root = Root::recorded(dir.path()).unwrap();
        (dir, root)
    }

    /// Regression: write limit and capacity of a loop device over a file were those of
    /// the large disk below, and its twin was taken for the disk's.
    #[test]
    fn loop_device_is_not_the_drive_below() {
        let (dir, root) =
            machine("virtio0/block/vda", &[("queue/nr_requests", "256"), ("serial", "a1")]);
        let drive = UnderlyingDrive::of_path(&root, Path::new("/")).unwrap();
        assert_eq!(
            (drive.model.as_str(), drive.which.as_str(), drive.is_of_a_model),
            ("virtio-blk", "a1", false)
        );
        let at = dir.path().join("sys/devices/virtual/block/loop0");
        for (name, value) in [
            ("dev", "7:0"),
            ("size", "1000"),
            ("loop/backing_file", "/srv/ima\nge"),
            ("queue/discard_max_bytes", "4294966784"),
        ] {
            fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
            fs::write(at.join(name), value).unwrap();
        }
        std::os::unix::fs::symlink(
            "../../devices/virtual/block/loop0",
            dir.path().join("sys/dev/block/7:0"),
        )
        .unwrap();
        std::os::unix::fs::symlink(
            "../../devices/virtual/block/loop0",
            dir.path().join("sys/class/block/loop0"),
        )
        .unwrap();
        let mounts =
            "20 1 8:0 / / rw - ext4 /dev/vda rw\n21 20 7:0 / /mnt rw - ext4 /dev/loop0 rw\n";
        fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
        fs::create_dir_all(dir.path().join("mnt")).unwrap();
        let through = UnderlyingDrive::of_path(&root, Path::new("/mnt")).unwrap();
        assert_eq!(through.model, "loop device over ima ge on virtio-blk");
        assert_eq!(through.which, "a1 /srv/ima\nge");
        assert_eq!(through.reported.capacity_bytes, 512_000);
        assert_eq!(through.reported.trim.map(|trim| trim.range_bytes_max), Some(4_294_966_784));
        assert!(
            through.notes.iter().any(|note| note.contains("loop0 is a loop device")),
            "{:?}",
            through.notes
        );
    }

    #[test]
    fn of_path_reads_reported_properties() {
        let sata = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        let all = [
            ("queue/rotational", "0"),
            ("queue/discard_max_bytes", "2147450880"),
            ("queue/logical_block_size", "512"),
            ("device/queue_depth", "32"),
            ("device/model", "ACME SSD"),
            ("device/vendor", "ATA"),
            ("device/rev", "1.0"),
        ];
        let (_dir, root) = machine(sata, &all);
        let below = UnderlyingDrive::of_path(&root, Path::new("/")).unwrap();
        assert!(below.volatile_cache, "assumed if unknown");
        for (says, volatile) in [("write back\n", true), ("write through\n", false)] {
            let (_dir, root) = machine(sata, &[&all[..], &[("queue/write_cache", says)]].concat());
            assert_eq!(
                UnderlyingDrive::of_path(&root, Path::new("/")).unwrap().volatile_cache,
                volatile
            );
        }
        assert_eq!(
            (below.model.as_str(), below.firmware.as_deref(), below.fs_type.as_deref()),
            ("ACME SSD", Some("1.0"), Some("ext4"))
        );
        let trim = Some(TrimLimits { ranges_per_command_max: 64, range_bytes_max: 65_535 * 512 });
        let expected = ReportedProperties {
            capacity_bytes: 512_000_000,
            logical_block_bytes: 512,
            queue_depth: 32,
            full_duplex: false,
            trim,
        };
        assert_eq!(below.reported, expected);
        let (_dir, root) = machine(sata, &[("queue/rotational", "1")]);
        let error = UnderlyingDrive::of_path(&root, Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("sda below / is a disk"), "{error}");
    }

    #[test]
    fn rotational_virtual_disk_is_called_virtual() {
        let (_dir, root) = machine(
            "virtio0/block/vda",
            &[("queue/rotational", "1"), ("queue/nr_requests", "256")],
        );
        let below = UnderlyingDrive::of_path(&root, Path::new("/")).unwrap();
        assert_eq!((below.reported.trim, below.reported.queue_depth), (None, 256));
        assert!(below.notes[0].contains("virtual disk"), "{:?}", below.notes);
    }
}
