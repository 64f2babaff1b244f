//! Block devices and their stacks: from a filesystem through partitions, device-mapper,
//! md and loop devices to the drives.

use super::mountinfo::{self, DevNumber, Mount};
use super::root::{FuseServer, Root};
use super::stat::SECTOR_BYTES;
use crate::sys::mount_check;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;

/// Maximum number of layers in a stack. Only a forged recorded tree has more.
const LAYERS_MAX: usize = 512;

/// The bus of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// SATA or PATA, through libata.
    Ata,
    /// A USB bridge or stick.
    Usb,
    /// SAS and other SCSI, including iSCSI.
    Scsi,
    /// NVMe.
    Nvme,
    /// virtio-blk, a virtual machine's disk.
    Virtio,
    /// virtio-scsi.
    VirtioScsi,
    /// eMMC or SD card.
    Mmc,
    /// Network block device.
    Nbd,
    /// Compressed memory.
    Zram,
    /// Anything else.
    Other,
}

impl Bus {
    /// A model name on this bus identifies a drive model. Virtual disks all share one
    /// name.
    pub const fn names_models(self) -> bool {
        matches!(self, Self::Ata | Self::Usb | Self::Scsi | Self::Nvme | Self::Mmc)
    }

    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ata => "ata",
            Self::Usb => "usb",
            Self::Scsi => "scsi",
            Self::Nvme => "nvme",
            Self::Virtio => "virtio",
            Self::VirtioScsi => "virtio-scsi",
            Self::Mmc => "mmc",
            Self::Nbd => "nbd",
            Self::Zram => "zram",
            Self::Other => "other",
        }
    }
}

/// Filesystem type of the FUSE mount that serves a virtual SSD as a file.
pub const VIRTUAL_SSD: &str = "fuse.trimtab";
/// True for the FUSE mount that serves a virtual SSD as a file. Without a mount helper, FUSE
/// filesystems lose their subtype.
pub fn is_virtual_ssd(mount: &Mount) -> bool {
    mount.fs_type == VIRTUAL_SSD || mount.fs_type == "fuse" && mount.source == Path::new("trimtab")
}

/// The state of a virtual SSD that answers no request.
pub const SERVER_CRASHED: &str = "the server of this virtual SSD has crashed; 'trimtab drive \
    status' shows how to clean up";

/// The state of a virtual SSD whose server is stopped or blocked.
pub const SERVER_SILENT: &str = "the server of this virtual SSD does not answer within 2 s; \
    if the server is stopped, 'kill -CONT PID' continues it; 'trimtab drive status' shows PID";

/// The type of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A partition; its disk is below it.
    Partition,
    /// A loop device; its backing file or device is below it.
    Loop,
    /// The backing file of a loop device; the devices of its filesystem are below it.
    File {
        /// Type of the filesystem that holds it.
        fs_type: String,
        /// Mount point of that filesystem.
        mount_point: PathBuf,
    },
    /// dm-crypt.
    Crypt,
    /// An LVM volume that is neither thin nor a pool.
    Lvm,
    /// A thin volume; its pool is below it.
    Thin,
    /// A thin pool.
    ThinPool,
    /// Another device-mapper target, by the prefix of its UUID (`mpath`, `VDO`,
    /// `INTEGRITY` …); empty if the UUID has no prefix.
    Mapper(String),
    /// md RAID, by level (`raid1`, `raid5`, `linear` …).
    Md(String),
    /// bcache.
    Bcache,
    /// The bottom of the stack: a device that is not built on other block devices.
    Drive(Bus),
}

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Kernel name (`sda1`, `dm-0`, `nvme0n1`), or the path of a file.
    pub name: String,
    /// The device-mapper or LVM name (`home`, `vg-root`), if it has one.
    pub label: Option<String>,
    /// Type of the layer.
    pub kind: LayerKind,
    /// Its directory below `/sys/devices`; empty for a file.
    pub sys: PathBuf,
    /// Device number; 0:0 for a file.
    pub dev: DevNumber,
    /// Size of the device or file.
    pub size: Bytes,
    /// The layers directly below: indices into [`Stack::layers`].
    pub below: Vec<usize>,
}

impl Layer {
    /// Sysfs directory of the device whose queue attributes apply: for a partition, its
    /// disk.
    pub fn queue(&self) -> PathBuf {
        if self.kind == LayerKind::Partition {
            self.sys.parent().unwrap_or(&self.sys).join("queue")
        } else {
            self.sys.join("queue")
        }
    }

    /// Layers that never receive discards from above: metadata of an LVM pool or RAID,
    /// and LVM caches. dm-cache and dm-writecache pass discards to the cached (origin)
    /// device and check only that device's support (`disable_passdown_if_not_supported`
    /// and `writecache_map_discard` in the kernel).
    pub fn gets_no_discards(&self) -> bool {
        let Some(label) = self.label.as_deref() else { return false };
        let numbered = |kind: &str| {
            label
                .rsplit_once(kind)
                .is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        self.is_cache()
            || ["_tmeta", "_cmeta", "_cvol-cmeta"].iter().any(|end| label.ends_with(end))
            || numbered("_rmeta_")
    }

    /// A cache volume created by LVM.
    fn is_cache(&self) -> bool {
        self.label.as_deref().is_some_and(|label| {
            ["_cdata", "_cvol-cdata", "_cvol"].iter().any(|end| label.ends_with(end))
        })
    }

    /// Kernel name, followed by the label if there is one: `dm-0 (home)`.
    pub fn title(&self) -> String {
        match &self.label {
            Some(label) => format!("{} ({label})", self.name),
            None => self.shown_name(),
        }
    }

    /// The name below `/dev`, with `!` turned back into `/` (`cciss!c0d0`); for a file,
    /// its path.
    pub fn shown_name(&self) -> String {
        if matches!(self.kind, LayerKind::File { .. }) {
            self.name.clone()
        } else {
            shown_name(&self.name)
        }
    }

    /// The kernel refuses writes to the device, and therefore every discard.
    pub fn is_read_only(&self, root: &Root) -> bool {
        root.read_u64(self.sys.join("ro")) == Some(1)
    }

    /// What is wrong with the server of a virtual SSD's file, in words; `None` for other
    /// layers, and while the server answers.
    pub fn server_problem(&self, root: &Root) -> Option<&'static str> {
        match &self.kind {
            LayerKind::File { fs_type, mount_point } if fs_type == VIRTUAL_SSD => {
                match root.fuse_server(mount_point) {
                    FuseServer::Answers => None,
                    FuseServer::Ended => Some(SERVER_CRASHED),
                    FuseServer::Silent => Some(SERVER_SILENT),
                }
            }
            _ => None,
        }
    }

    /// A zoned block device.
    pub fn is_zoned(&self, root: &Root) -> bool {
        root.read(self.queue().join("zoned")).is_some_and(|zoned| zoned != "none")
    }

    /// Path of the device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.shown_name())
    }
}

/// Converts a name in sysfs to the name below `/dev`: sysfs replaces `/` by `!`.
pub fn shown_name(name: &str) -> String {
    name.replace('!', "/")
}

/// The device node for a name in sysfs.
pub fn node_of(name: &str) -> String {
    format!("/dev/{}", shown_name(name))
}

/// Converts a name below `/dev` to the name in sysfs.
pub fn sysfs_name(name: &str) -> String {
    name.replace('/', "!")
}

/// All layers below a filesystem or a device, top first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// All layers, each once even if several layers share it.
    pub layers: Vec<Layer>,
    /// The devices of the filesystem itself: one, or several with btrfs.
    pub tops: Vec<usize>,
    /// Layers that receive no discards from the layer above, with the reason, unless
    /// [`Layer::gets_no_discards`] already says so.
    pub aside: Vec<(usize, &'static str)>,
}

impl Stack {
    /// The stack of a device, the device itself first. Empty if the kernel has no such
    /// device.
    pub fn of_device(root: &Root, mounts: &[Mount], dev: DevNumber) -> Self {
        let mut walk = StackWalk { root, mounts, stack: Self::default() };
        if let Some(top) = device_directory(root, dev).and_then(|sys| walk.add(&sys)) {
            walk.stack.tops.push(top);
        }
        walk.stack
    }

    /// The stack of a mounted filesystem. Empty without a block device (tmpfs, network).
    pub fn of_mount(root: &Root, mounts: &[Mount], mount: &Mount) -> Self {
        let mut walk = StackWalk { root, mounts, stack: Self::default() };
        for sys in mount_devices(root, mount) {
            if let Some(top) = walk.add(&sys)
                && !walk.stack.tops.contains(&top)
            {
                walk.stack.tops.push(top);
            }
        }
        walk.stack
    }

    /// The directory that stops responding if the filesystem of `mount` hangs. The kernel
    /// responds for a filesystem on a virtual SSD even if the server of the SSD hangs.
    pub fn place_to_check<'a>(&'a self, mount: &'a Mount) -> &'a Path {
        let file = |layer: &'a Layer| match &layer.kind {
            LayerKind::File { fs_type, mount_point } if fs_type == VIRTUAL_SSD => {
                Some(mount_point.as_path())
            }
            _ => None,
        };
        self.layers.iter().rev().find_map(file).unwrap_or(&mount.mount_point)
    }

    /// Checks that the filesystems of the files in the stack respond.
    ///
    /// # Errors
    /// One does not respond within [`mount_check::PATIENCE`]; an interrupt.
    pub fn require_answers(&self) -> anyhow::Result<()> {
        let place = |layer: &Layer| match &layer.kind {
            LayerKind::File { fs_type, mount_point } => {
                Some((mount_point.clone(), fs_type == VIRTUAL_SSD))
            }
            _ => None,
        };
        let files: Vec<(PathBuf, bool)> = self.layers.iter().filter_map(place).collect();
        let paths: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
        mount_check::require_answers(&paths).map_err(|error| {
            let silent = error.downcast_ref::<mount_check::UnresponsivePathError>();
            let is_virtual = silent.is_some_and(|silent| files.contains(&(silent.0.clone(), true)));
            if is_virtual { anyhow::Error::msg(SERVER_SILENT) } else { error }
        })
    }

    /// The drives at the bottom of the stack.
    pub fn drives(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|l| matches!(l.kind, LayerKind::Drive(_)))
    }

    /// A layer that serves part of its reads from a cache (dm-cache, dm-writecache).
    pub fn cached(&self) -> Option<&Layer> {
        let has_cache = |layer: &&Layer| {
            layer.below.iter().any(|&below| self.layers.get(below).is_some_and(Layer::is_cache))
        };
        self.layers.iter().filter(|layer| !layer.gets_no_discards()).find(has_cache)
    }

    /// A layer whose sysfs directory is gone: the device was unplugged or removed.
    pub fn missing(&self, root: &Root) -> Option<&Layer> {
        self.layers
            .iter()
            .find(|layer| !layer.sys.as_os_str().is_empty() && !root.exists(&layer.sys))
    }

    /// The layers below `index` that receive its discards: no metadata layers, no foreign
    /// files.
    pub fn legs_of(&self, index: usize) -> impl Iterator<Item = usize> {
        self.goes_to(index).filter(|&i| {
            self.layers.get(i).is_some_and(|l| !matches!(l.kind, LayerKind::File { .. }))
        })
    }

    /// As [`Self::legs_of`], with files and without caches: bcache caches only
    /// invalidate.
    pub fn goes_to(&self, index: usize) -> impl Iterator<Item = usize> {
        let layer = self.layers.get(index);
        let below = layer.map(|l| l.below.as_slice()).unwrap_or_default();
        let most = if layer.is_some_and(|l| l.kind == LayerKind::Bcache) { 1 } else { below.len() };
        below.iter().take(most).copied().filter(|&i| !self.is_aside(i))
    }

    /// Layer `index` receives no discards from the layer above.
    pub fn is_aside(&self, index: usize) -> bool {
        self.aside.iter().any(|(aside, _)| *aside == index)
            || self.layers.get(index).is_none_or(Layer::gets_no_discards)
    }

    /// The layers below a loop device on a block device: it writes zeroes instead of
    /// discarding.
    pub fn written_as_zeroes(&self) -> Vec<usize> {
        let loops =
            self.layers.iter().enumerate().filter(|(_, layer)| layer.kind == LayerKind::Loop);
        let mut todo: Vec<usize> = loops.flat_map(|(index, _)| self.legs_of(index)).collect();
        let mut below = Vec::new();
        while let Some(index) = todo.pop() {
            if !below.contains(&index) {
                below.push(index);
                todo.extend(self.legs_of(index));
            }
        }
        below
    }

    /// The lowest layers whose counters show which discards reached the drives:
    /// partitions, drives, and loop devices over files. A partition is preferred to its
    /// disk, because its counters exclude I/O to the rest of the disk.
    pub fn ends(&self) -> Vec<usize> {
        self.ends_below(&self.tops)
    }

    /// As [`Self::ends`], for the layers below `index`, or for the layer itself.
    pub fn ends_of(&self, index: usize) -> Vec<usize> {
        self.ends_below(&[index])
    }

    fn ends_below(&self, from: &[usize]) -> Vec<usize> {
        let mut todo = from.to_vec();
        let mut seen = vec![false; self.layers.len()];
        let mut ends = Vec::new();
        while let Some(index) = todo.pop() {
            let Some(layer) = self.layers.get(index) else { continue };
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            let mut below = self.legs_of(index).peekable();
            if below.peek().is_none() || layer.kind == LayerKind::Partition {
                ends.push(index);
            } else {
                todo.extend(below);
            }
        }
        ends.sort_unstable();
        ends
    }

    /// The devices of the filesystem.
    pub fn top_layers(&self) -> impl Iterator<Item = &Layer> {
        self.tops.iter().filter_map(|&i| self.layers.get(i))
    }
}

/// The largest value up to `bytes` that the kernel accepts for `discard_max_bytes`
/// (`queue_var_store`, `queue_max_discard_sectors_store`): a multiple of `granularity`
/// below 4 GiB. A driver may set a higher limit itself (NVMe: 2 TiB). Such a limit is
/// restored to just below 4 GiB until the device is attached again, which makes no
/// difference to any filesystem.
pub fn writable_limit(bytes: u64, granularity: u64) -> u64 {
    let most = bytes.min(u64::from(u32::MAX));
    most - most.checked_rem(granularity).unwrap_or(0)
}

/// The value to write to `discard_max_bytes` to restore the limit `bytes`. The kernel
/// uses the smaller of the written value and the `hardware` limit. If `bytes` is the
/// hardware limit and not a multiple of the unit, the next multiple restores it;
/// otherwise the nearest writable value is used.
pub fn restoring_limit(bytes: u64, granularity: u64, hardware: Option<u64>) -> u64 {
    let above = bytes
        .checked_next_multiple_of(granularity)
        .filter(|above| *above <= u64::from(u32::MAX) && hardware == Some(bytes));
    above.unwrap_or_else(|| writable_limit(bytes, granularity))
}

/// The directory in `/sys/devices` of a device number.
pub fn device_directory(root: &Root, dev: DevNumber) -> Option<PathBuf> {
    root.canonical(format!("/sys/dev/block/{dev}"))
}

/// The directory in `/sys/devices` of a kernel name (`sda1`) or a device-mapper name.
pub fn device_by_name(root: &Root, name: &str) -> Option<PathBuf> {
    // Sysfs replaces the slashes in device names (cciss/c0d0) by exclamation marks.
    let kernel = sysfs_name(name);
    if kernel.is_empty() || kernel == "." || kernel == ".." {
        return None;
    }
    // LVM links /dev/GROUP/VOLUME; device-mapper doubles the hyphens within each name.
    let of_lvm = || {
        name.split_once('/').map(|(group, volume)| {
            format!("{}-{}", group.replace('-', "--"), volume.replace('-', "--"))
        })
    };
    root.canonical(format!("/sys/class/block/{kernel}"))
        .or_else(|| mapped_by_name(root, name))
        .or_else(|| mapped_by_name(root, &of_lvm()?))
}

/// The directory in `/sys/devices` of a device-mapper name.
pub fn mapped_by_name(root: &Root, name: &str) -> Option<PathBuf> {
    let mut mapped = root.list("/sys/class/block").into_iter().filter(|n| n.starts_with("dm-"));
    let name_of = |n: &String| root.read(format!("/sys/class/block/{n}/dm/name"));
    mapped
        .find(|n| name_of(n).as_deref() == Some(name))
        .and_then(|n| root.canonical(format!("/sys/class/block/{n}")))
}

fn mount_devices(root: &Root, mount: &Mount) -> Vec<PathBuf> {
    if mount.fs_type == "btrfs" {
        let members = btrfs_devices(root, &mount.source);
        if !members.is_empty() {
            return members;
        }
    }
    if mount.fs_type == "bcachefs" {
        // The source lists the devices.
        let text = mount.source.to_string_lossy();
        return text.split(':').filter_map(|one| device_of_source(root, Path::new(one))).collect();
    }
    let main = device_directory(root, mount.dev).or_else(|| device_of_source(root, &mount.source));
    main.into_iter().chain(realtime_device(root, mount)).collect()
}

/// The device that holds the realtime files of an XFS.
pub fn realtime_device(root: &Root, mount: &Mount) -> Option<PathBuf> {
    device_of_source(
        root,
        Path::new(mount.option_value("rtdev").filter(|_| mount.fs_type == "xfs")?),
    )
}

/// The device that a mount source such as `/dev/mapper/home` names.
pub fn device_of_source(root: &Root, source: &Path) -> Option<PathBuf> {
    mountinfo::device_name(source)?;
    // In a live system, another path may be on a filesystem that hangs.
    if root.is_live()
        && source.starts_with("/dev")
        && let Ok(stat) = rustix::fs::stat(source)
        && rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice
        && let Some(sys) = device_directory(root, DevNumber::from_raw(stat.st_rdev))
    {
        return Some(sys);
    }
    device_by_name(
        root,
        source
            .strip_prefix("/dev/mapper")
            .or_else(|_| source.strip_prefix("/dev"))
            .ok()?
            .to_str()?,
    )
}

/// The `/sys/fs/btrfs/UUID` directory of the filesystem that has the device `source`.
fn btrfs_directory(root: &Root, source: &Path) -> Option<PathBuf> {
    let member = device_of_source(root, source)?;
    let uuids =
        root.list("/sys/fs/btrfs").into_iter().map(|uuid| Path::new("/sys/fs/btrfs").join(uuid));
    uuids.into_iter().find(|dir| btrfs_members(root, dir).contains(&member))
}

fn btrfs_members(root: &Root, directory: &Path) -> Vec<PathBuf> {
    let devices = directory.join("devices");
    root.list(&devices).iter().filter_map(|name| root.canonical(devices.join(name))).collect()
}

fn btrfs_devices(root: &Root, source: &Path) -> Vec<PathBuf> {
    btrfs_directory(root, source).map(|dir| btrfs_members(root, &dir)).unwrap_or_default()
}

/// Walks down the stack; each device becomes one layer.
struct StackWalk<'a> {
    root: &'a Root,
    mounts: &'a [Mount],
    stack: Stack,
}

impl StackWalk<'_> {
    /// Adds the device at `sys` and all layers below it. Returns the (possibly old)
    /// index.
    fn add(&mut self, sys: &Path) -> Option<usize> {
        if let Some(known) = self.stack.layers.iter().position(|l| l.sys == sys) {
            return Some(known);
        }
        let name = sys.file_name()?.to_str()?.to_owned();
        if self.stack.layers.len() >= LAYERS_MAX || !self.root.exists(sys.join("dev")) {
            return None;
        }
        let index = self.stack.layers.len();
        self.stack.layers.push(Layer {
            name,
            label: self.root.read(sys.join("dm/name")).filter(|n| !n.is_empty()),
            kind: LayerKind::Drive(Bus::Other),
            sys: sys.to_owned(),
            dev: self
                .root
                .read(sys.join("dev"))
                .and_then(|d| DevNumber::parse(&d))
                .unwrap_or(DevNumber { major: 0, minor: 0 }),
            size: Bytes(
                self.root.read_u64(sys.join("size")).unwrap_or(0).saturating_mul(SECTOR_BYTES),
            ),
            below: Vec::new(),
        });
        let below = self.below(sys);
        let kind = self.kind(sys, &below);
        let layer = &mut self.stack.layers[index];
        layer.below = below;
        layer.kind = kind;
        Some(index)
    }

    /// The layers directly below the device at `sys`.
    fn below(&mut self, sys: &Path) -> Vec<usize> {
        if self.root.exists(sys.join("partition")) {
            return sys.parent().and_then(|disk| self.add(disk)).into_iter().collect();
        }
        if let Some(file) = self.root.read(sys.join("loop/backing_file")).filter(|f| !f.is_empty())
        {
            return self.add_backing(&file).into_iter().collect();
        }
        let slaves = sys.join("slaves");
        let members: Vec<PathBuf> = self
            .root
            .list(&slaves)
            .iter()
            .filter_map(|n| self.root.canonical(slaves.join(n)))
            .collect();
        // The cached (backing) device comes first, then the caches.
        let cached = self
            .root
            .canonical(sys.join("bcache"))
            .and_then(|link| link.parent().map(Path::to_owned));
        let (first, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
            members.iter().partition(|member| Some(*member) == cached.as_ref());
        first.into_iter().chain(others).filter_map(|member| self.add(member)).collect()
    }

    fn add_backing(&mut self, file: &str) -> Option<usize> {
        let path = Path::new(file.strip_suffix(" (deleted)").unwrap_or(file));
        if path.starts_with("/dev/")
            && let Some(sys) = device_of_source(self.root, path)
        {
            return self.add(&sys);
        }
        if self.stack.layers.len() >= LAYERS_MAX {
            return None;
        }
        let mounts = self.mounts;
        let mount = mountinfo::containing(mounts, path)?;
        let known = self
            .stack
            .layers
            .iter()
            .position(|l| matches!(l.kind, LayerKind::File { .. }) && l.name == file);
        if known.is_some() {
            return known;
        }
        let index = self.stack.layers.len();
        let fs_type =
            if is_virtual_ssd(mount) { VIRTUAL_SSD.to_owned() } else { mount.fs_type.clone() };
        let kind = LayerKind::File { fs_type, mount_point: mount.mount_point.clone() };
        let dev = DevNumber { major: 0, minor: 0 };
        self.stack.layers.push(Layer {
            name: file.to_owned(),
            label: None,
            kind,
            sys: PathBuf::new(),
            dev,
            size: Bytes::ZERO,
            below: Vec::new(),
        });
        let below =
            mount_devices(self.root, mount).iter().filter_map(|sys| self.add(sys)).collect();
        self.stack.layers[index].below = below;
        Some(index)
    }

    fn kind(&self, sys: &Path, below: &[usize]) -> LayerKind {
        if self.root.exists(sys.join("partition")) {
            return LayerKind::Partition;
        }
        if self.root.exists(sys.join("loop")) {
            return LayerKind::Loop;
        }
        if let Some(level) = self.root.read(sys.join("md/level")) {
            return LayerKind::Md(level);
        }
        if self.root.exists(sys.join("dm")) {
            return self
                .mapper_kind(&self.root.read(sys.join("dm/uuid")).unwrap_or_default(), below);
        }
        if self.root.exists(sys.join("bcache")) && !below.is_empty() {
            return LayerKind::Bcache;
        }
        LayerKind::Drive(bus(sys))
    }

    /// Derives the kind from the UUID prefix that each tool sets, and from the layers
    /// below.
    fn mapper_kind(&self, uuid: &str, below: &[usize]) -> LayerKind {
        let on_pool = below.iter().any(|&i| self.stack.layers[i].kind == LayerKind::ThinPool);
        let mut words = uuid.split('-');
        match words.next().unwrap_or_default() {
            // Other tools of cryptsetup append their own name.
            "CRYPT" => match words.next().unwrap_or_default() {
                other @ ("INTEGRITY" | "VERITY") => LayerKind::Mapper(other.to_owned()),
                _ => LayerKind::Crypt,
            },
            "LVM" if uuid.ends_with("-tpool") => LayerKind::ThinPool,
            "LVM" if on_pool => LayerKind::Thin,
            "LVM" => LayerKind::Lvm,
            other => LayerKind::Mapper(other.to_owned()),
        }
    }
}

/// The bus of a drive, derived from its path in the device tree.
pub fn bus(sys: &Path) -> Bus {
    let mut bus = Bus::Other;
    for part in sys.iter().filter_map(|c| c.to_str()) {
        let numbered = |prefix: &str| {
            part.strip_prefix(prefix)
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        bus = match bus {
            Bus::Other if numbered("usb") => Bus::Usb,
            Bus::Other if numbered("ata") => Bus::Ata,
            Bus::Other
                if part == "nvme" || part.starts_with("nvme-") || part.starts_with("nvme") =>
            {
                Bus::Nvme
            }
            Bus::Other if part == "mmc_host" => Bus::Mmc,
            Bus::Other if numbered("virtio") => Bus::Virtio,
            Bus::Virtio if numbered("host") => Bus::VirtioScsi,
            Bus::Other if numbered("host") => Bus::Scsi,
            Bus::Other if numbered("nbd") => Bus::Nbd,
            Bus::Other if numbered("zram") => Bus::Zram,
            known => known,
        };
    }
    bus
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, the daemon took a filesystem for healthy whose drive's server was stopped.
    #[test]
    fn place_to_check_is_the_filesystem_of_the_lowest_file() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        std::fs::write(
            tree.path().join("proc/self/mountinfo"),
            "9 1 7:1 / /mnt rw - ext4 /dev/loop1 rw\n",
        )
        .unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let mount = &mountinfo::read(&root).unwrap()[0];
        let layer = |name: &str, kind: LayerKind| Layer {
            name: name.into(),
            label: None,
            kind,
            sys: PathBuf::new(),
            dev: DevNumber { major: 0, minor: 0 },
            size: Bytes::ZERO,
            below: Vec::new(),
        };
        let file = |mount_point: &str| LayerKind::File {
            fs_type: VIRTUAL_SSD.into(),
            mount_point: mount_point.into(),
        };
        let mut stack = Stack::default();
        assert_eq!(stack.place_to_check(mount), Path::new("/mnt"));
        stack.layers = vec![
            layer("loop1", LayerKind::Loop),
            layer("/srv/image", file("/srv")),
            layer("loop0", LayerKind::Loop),
            layer("/run/d/mnt/drive", file("/run/d/mnt")),
        ];
        assert_eq!(stack.place_to_check(mount), Path::new("/run/d/mnt"));
    }

    #[test]
    fn bus_is_derived_from_sysfs_path() {
        for (path, expected) in [
            (
                "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
                Bus::Ata,
            ),
            (
                "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb",
                Bus::Usb,
            ),
            ("/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1", Bus::Nvme),
            ("/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", Bus::Nvme),
            ("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", Bus::Virtio),
            (
                "/sys/devices/pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block/sda",
                Bus::VirtioScsi,
            ),
            (
                "/sys/devices/pci0000:00/0000:01:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdc",
                Bus::Scsi,
            ),
            ("/sys/devices/platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", Bus::Mmc),
            ("/sys/devices/virtual/block/zram0", Bus::Zram),
            ("/sys/devices/virtual/block/nbd3", Bus::Nbd),
        ] {
            assert_eq!(bus(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn missing_reports_unplugged_drive() {
        let tree = tempfile::tempdir().unwrap();
        let layer = |name: &str, sys: &str| Layer {
            name: name.to_owned(),
            label: None,
            kind: LayerKind::Drive(Bus::Other),
            sys: PathBuf::from(sys),
            dev: DevNumber { major: 8, minor: 0 },
            size: Bytes::ZERO,
            below: Vec::new(),
        };
        let stack = Stack {
            layers: vec![layer("/a/file", ""), layer("sda", "/sys/a"), layer("sdb", "/sys/b")],
            tops: vec![0],
            ..Stack::default()
        };
        for there in ["sys/a", "sys/b"] {
            std::fs::create_dir_all(tree.path().join(there)).unwrap();
        }
        let root = Root::recorded(tree.path()).unwrap();
        assert_eq!(stack.missing(&root), None);
        std::fs::remove_dir(tree.path().join("sys/b")).unwrap();
        assert_eq!(stack.missing(&root).map(|layer| layer.name.as_str()), Some("sdb"));
    }

    #[test]
    fn gets_no_discards_is_true_for_lvm_internal_volumes_only() {
        let named = |label: &str| Layer {
            name: "dm-1".to_owned(),
            label: Some(label.to_owned()),
            kind: LayerKind::Lvm,
            sys: PathBuf::new(),
            dev: DevNumber { major: 253, minor: 1 },
            size: Bytes::ZERO,
            below: Vec::new(),
        };
        for label in [
            "vg-p_tmeta",
            "vg-p_cmeta",
            "vg-p_cdata",
            "vg-c_cvol-cdata",
            "vg-c_cvol-cmeta",
            "vg-c_cvol",
            "vg-r_rmeta_0",
        ] {
            assert!(named(label).gets_no_discards(), "{label}");
        }
        for label in [
            "vg-cdata",
            "vg-cvol",
            "vg-p_tdata",
            "vg-l_corig",
            "vg-l_wcorig",
            "vg-r_rimage_0",
            "vg-r_rmeta_",
            "home",
        ] {
            assert!(!named(label).gets_no_discards(), "{label}");
        }
    }

    #[test]
    fn writable_limit_is_a_multiple_below_4_gib() {
        assert_eq!(writable_limit(2_199_023_255_040, 512), 4_294_966_784);
        assert_eq!(writable_limit(4_294_966_784, 4096), 4_294_963_200);
        assert_eq!(writable_limit(65_536, 4096), 65_536);
    }

    #[test]
    fn restoring_limit_reaches_a_limit_off_the_unit() {
        // 65,535 blocks of 512 bytes: the SCSI default without a limit from the device.
        assert_eq!(restoring_limit(33_553_920, 4096, Some(33_553_920)), 33_554_432);
        assert_eq!(restoring_limit(33_553_920, 4096, Some(67_108_864)), 33_550_336);
        // The next multiple is not writable.
        assert_eq!(restoring_limit(4_294_966_784, 4096, Some(4_294_966_784)), 4_294_963_200);
        assert_eq!(restoring_limit(65_536, 0, Some(65_536)), 65_536);
    }
}
