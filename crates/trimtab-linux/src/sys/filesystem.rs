//! Filesystem requests that exist only as `ioctl`.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

/// `struct fstrim_range` of `linux/fs.h`.
#[repr(C)]
struct TrimRange {
    start: u64,
    len: u64,
    min_len: u64,
}

/// `FITRIM` of `linux/fs.h`: `_IOWR('X', 121, struct fstrim_range)`.
const FITRIM: Opcode = opcode::read_write::<TrimRange>(b'X', 121);

/// Discards the free extents of at least `min_len` bytes within `len` bytes from `start`.
/// Returns the byte count that the filesystem reports.
///
/// # Errors
/// The filesystem's error.
pub fn trim(file: impl AsFd, start: u64, len: u64, min_len: u64) -> Result<u64, Errno> {
    let mut range = TrimRange { start, len, min_len };
    // SAFETY: the opcode takes a pointer to a `struct fstrim_range`, which matches
    // `TrimRange`, and writes nothing else.
    unsafe { ioctl(file, Updater::<FITRIM, TrimRange>::new(&mut range)) }?;
    Ok(range.len)
}

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
struct Uuid {
    len: u8,
    uuid: [u8; 16],
}

/// `FS_IOC_GETFSUUID`: `_IOR(0x15, 0, struct fsuuid2)`, since Linux 6.9.
const GET_FS_UUID: Opcode = opcode::read::<Uuid>(0x15, 0);

/// The filesystem's UUID; `None` if the filesystem or the kernel does not report one.
pub fn uuid(file: impl AsFd) -> Option<[u8; 16]> {
    // SAFETY: the opcode writes one `struct fsuuid2`, which matches `Uuid`, to its
    // pointer.
    let found = unsafe { ioctl(file, Getter::<GET_FS_UUID, Uuid>::new()) }.ok()?;
    (found.len == 16).then_some(found.uuid)
}

/// `struct xfs_fsop_geom_v1` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XfsGeometry {
    /// Block size in bytes.
    pub block_size: u32,
    unused: u32,
    /// Blocks per allocation group; the last group may have fewer.
    pub ag_blocks: u32,
    unused_sizes: [u32; 5],
    /// Number of blocks of the data device.
    pub data_blocks: u64,
    /// Number of blocks of the realtime device. Kernels that trim it address it behind
    /// the data.
    pub realtime_blocks: u64,
    unused_starts: [u64; 2],
    /// UUID of the filesystem.
    pub uuid: [u8; 16],
    unused_units: [u32; 7],
}

const _: () = assert!(size_of::<XfsGeometry>() == 112);

impl XfsGeometry {
    fn bytes(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(self.block_size.into())
    }

    /// Bytes per allocation group.
    pub fn group_bytes(&self) -> u64 {
        self.bytes(self.ag_blocks.into())
    }

    /// Bytes of the data device.
    pub fn data_bytes(&self) -> u64 {
        self.bytes(self.data_blocks)
    }

    /// Bytes of the realtime device.
    pub fn realtime_bytes(&self) -> u64 {
        self.bytes(self.realtime_blocks)
    }
}

/// `XFS_IOC_FSGEOMETRY_V1`: `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
const XFS_GEOMETRY: Opcode = opcode::read::<XfsGeometry>(b'X', 100);

/// The geometry of an XFS filesystem.
///
/// # Errors
/// `ENOTTY` from any other filesystem.
pub fn xfs_geometry(file: impl AsFd) -> Result<XfsGeometry, Errno> {
    // SAFETY: the opcode writes one `struct xfs_fsop_geom_v1`, which matches
    // `XfsGeometry`, to its pointer.
    unsafe { ioctl(file, Getter::<XFS_GEOMETRY, XfsGeometry>::new()) }
}

/// `struct xfs_fs_eofblocks` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    prid: u32,
    pad: u32,
    min_file_size: u64,
    more: [u64; 12],
}

/// `XFS_IOC_FREE_EOFBLOCKS`: `_IOR('X', 58, struct xfs_fs_eofblocks)`. Despite `_IOR`,
/// the kernel writes nothing to the structure.
const FREE_EOFBLOCKS: Opcode = opcode::read::<EofBlocks>(b'X', 58);
/// `XFS_EOFBLOCKS_VERSION`, `XFS_EOF_FLAGS_SYNC` and `XFS_EOF_FLAGS_MINFILESIZE`.
const VERSION: u32 = 1;
const SYNC: u32 = 1 << 0;
const MIN_FILE_SIZE: u32 = 1 << 4;

/// Makes XFS free the blocks preallocated beyond the end of files of at least
/// `min_file_size` bytes, and waits for completion.
///
/// # Errors
/// Permission denied unless root; fails on a read-only filesystem.
pub fn xfs_free_behind_ends(file: impl AsFd, min_file_size: u64) -> Result<(), Errno> {
    let (version, flags) = (VERSION, SYNC | MIN_FILE_SIZE);
    let wanted =
        EofBlocks { version, flags, uid: 0, gid: 0, prid: 0, pad: 0, min_file_size, more: [0; 12] };
    // SAFETY: the opcode takes a pointer to one `struct xfs_fs_eofblocks`, which matches
    // `EofBlocks`, and only reads it.
    unsafe { ioctl(file, Setter::<FREE_EOFBLOCKS, EofBlocks>::new(wanted)) }
}

/// Selects the items of a btrfs tree whose keys lie in these inclusive ranges.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the kernel's own names")]
pub struct BtrfsSearch {
    pub tree: u64,
    pub objects: (u64, u64),
    pub types: (u32, u32),
    pub offsets: (u64, u64),
}

/// `struct btrfs_ioctl_search_args` (include/uapi/linux/btrfs.h): a key, and a buffer
/// that fills the page.
#[repr(C)]
struct SearchArgs {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: [u32; 1],
    unused_wide: [u64; 4],
    buffer: [u8; BUFFER],
}

const BUFFER: usize = 4096 - 104;

/// `struct btrfs_ioctl_dev_info_args`.
#[repr(C)]
struct DeviceInfo {
    id: u64,
    uuid: [u8; 16],
    bytes_used: u64,
    total_bytes: u64,
    fsid: [u8; 16],
    unused: [u64; 377],
    path: [u8; 1024],
}

const _: () = assert!(size_of::<SearchArgs>() == 4096 && size_of::<DeviceInfo>() == 4096);

/// `BTRFS_IOC_TREE_SEARCH`: `_IOWR(0x94, 17, …)`.
const TREE_SEARCH: Opcode = opcode::read_write::<SearchArgs>(0x94, 17);
/// `BTRFS_IOC_DEV_INFO`: `_IOWR(0x94, 30, …)`.
const DEV_INFO: Opcode = opcode::read_write::<DeviceInfo>(0x94, 30);

/// Returns the number of items found, and a buffer with a header before each item. Items
/// that do not fit are omitted.
///
/// # Errors
/// `EPERM` unless root.
pub fn btrfs_search(file: impl AsFd, search: &BtrfsSearch) -> Result<(u32, [u8; BUFFER]), Errno> {
    let mut args = SearchArgs {
        tree: search.tree,
        min_object: search.objects.0,
        max_object: search.objects.1,
        min_offset: search.offsets.0,
        max_offset: search.offsets.1,
        min_transaction: 0,
        max_transaction: u64::MAX,
        min_type: search.types.0,
        max_type: search.types.1,
        items: 4096,
        unused: [0],
        unused_wide: [0; 4],
        buffer: [0; BUFFER],
    };
    // SAFETY: the opcode takes a pointer to a `struct btrfs_ioctl_search_args`, which
    // matches `SearchArgs`, and writes inside it.
    unsafe { ioctl(file, Updater::<TREE_SEARCH, SearchArgs>::new(&mut args)) }?;
    Ok((args.items, args.buffer))
}

/// Path of the device with this id, in the btrfs that contains `file`.
///
/// # Errors
/// `ENODEV` if there is no such device.
pub fn btrfs_device_path(file: impl AsFd, id: u64) -> Result<Vec<u8>, Errno> {
    let mut info = DeviceInfo {
        id,
        uuid: [0; 16],
        bytes_used: 0,
        total_bytes: 0,
        fsid: [0; 16],
        unused: [0; 377],
        path: [0; 1024],
    };
    // SAFETY: the opcode takes a pointer to a `struct btrfs_ioctl_dev_info_args`, which
    // matches `DeviceInfo`, and writes inside it.
    unsafe { ioctl(file, Updater::<DEV_INFO, DeviceInfo>::new(&mut info)) }?;
    Ok(info.path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
}
