//! The windows in which each filesystem can be trimmed correctly: ext4 in whole block
//! groups, XFS within allocation groups, btrfs in whole chunks, others in byte ranges.

use super::{btrfs, ext4};
use crate::host::block::Stack;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::sys::filesystem::{XfsGeometry, xfs_geometry};
use anyhow::Context as _;
use std::fs::File;
use trimtab_drive::units::Bytes;
use trimtab_sim::target::TrimWindow;

/// Maximum size of windows that can be cut anywhere: short enough to react to a signal.
const WINDOW_MAX: u64 = 1 << 30;
/// Window size for filesystems that accept any byte range.
const RANGE: u64 = 256 << 20;
/// Maximum number of windows; more are merged.
const WINDOWS_MAX: usize = 1 << 14;
/// Minimum granule, where parts of windows are allowed.
const GRANULE_MIN: u64 = 64 << 10;

/// The windows of one filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowLayout {
    /// By address. Together they cover the filesystem.
    pub windows: Vec<TrimWindow>,
    /// Smallest part of a window that may be trimmed; [`Bytes::MAX`]: only whole windows.
    pub granule: Bytes,
    /// Unit for trimming only the end of a window, which does not count as done;
    /// [`Bytes::MAX`] if that is not allowed.
    pub tail: Bytes,
    /// Description of the windows: `block groups of 128 MiB`.
    pub unit: String,
    /// The allocation group size, also the largest minimum extent of FITRIM, if any.
    pub group: Option<Bytes>,
    /// Windows from here on may be beyond the end of the filesystem, where FITRIM returns
    /// EINVAL.
    pub sure_until: u64,
    /// A request may send space that no window bounds: the whole filesystem, or the
    /// unallocated space of btrfs.
    pub unbounded: bool,
    /// A layout that could not be determined, and the fallback used.
    pub remark: Option<String>,
}

impl WindowLayout {
    /// Reads the layout of the filesystem `mount`, open as `file`.
    pub fn read(root: &Root, mount: &Mount, stack: &Stack, file: &File) -> anyhow::Result<Self> {
        let granule = Bytes(cut_unit(root, stack));
        match mount.fs_type.as_str() {
            "ext4" | "ext3" | "ext2" => Ok(match ext4::Ext4Superblock::of_device(stack) {
                Ok(superblock) => Self::ext4(
                    &superblock,
                    if marks_whole_groups_only(root) { granule } else { Bytes::MAX },
                ),
                Err(error) => Self::whole(format!(
                    "cannot read the superblock ({error}); trimmed in one request \
                        instead of by block groups"
                )),
            }),
            "xfs" => Ok(Self::xfs(
                &xfs_geometry(file).context("cannot read the geometry of the XFS filesystem")?,
                granule,
            )),
            "btrfs" => Ok(Self::btrfs(
                &btrfs::chunks(file)
                    .context("cannot read the chunk tree of the btrfs filesystem")?,
            )),
            // Ranges would destroy data (`super::fitrim`).
            "ntfs3" => Ok(Self::whole(
                "ntfs3 is trimmed in one request, because Linux discards space in \
                    use when given a range"
                    .to_owned(),
            )),
            "f2fs" | "exfat" | "vfat" | "jfs" | "nilfs2" => {
                let stat =
                    rustix::fs::fstatvfs(file).context("cannot read the size of the filesystem")?;
                let size = stat.f_blocks.saturating_mul(stat.f_frsize);
                let device = stack.top_layers().map(|l| l.size.0).max().unwrap_or(0);
                Ok(Self::ranges(size, device))
            }
            other => Ok(Self::whole(format!(
                "the windows of {other} are unknown; trimmed in one request"
            ))),
        }
    }

    /// Windows that are trimmed as wholes.
    fn of(windows: Vec<TrimWindow>, unit: String) -> Self {
        let (granule, tail) = (Bytes::MAX, Bytes::MAX);
        let (group, sure_until, unbounded, remark) = (None, u64::MAX, false, None);
        Self { windows, granule, tail, unit, group, sure_until, unbounded, remark }
    }

    /// Whole block groups, merged if there are too many.
    pub fn ext4(superblock: &ext4::Ext4Superblock, tail: Bytes) -> Self {
        let group = superblock.group_bytes().max(1);
        let groups = superblock.size().div_ceil(group);
        let merged = groups.div_ceil(WINDOWS_MAX as u64).max(1);
        let windows = slices(0, superblock.size(), group.saturating_mul(merged));
        let unit = if merged == 1 {
            "block groups".to_owned()
        } else {
            format!("{merged} block groups each")
        };
        Self {
            tail,
            group: Some(Bytes(group)),
            ..Self::of(windows, format!("{unit} of {}", binary(group)))
        }
    }

    /// Parts of allocation groups, cut at multiples of `granule`; merged if too many.
    pub fn xfs(geometry: &XfsGeometry, granule: Bytes) -> Self {
        let group = geometry.group_bytes().max(1);
        let data = geometry.data_bytes();
        let realtime = geometry.realtime_bytes().min(u64::MAX - data);
        // FITRIM trims a group that a window extends into to its end, so windows cross
        // none.
        let together =
            group.saturating_mul(data.div_ceil(group).div_ceil(WINDOWS_MAX as u64).max(1));
        let cut = cut_size(data.saturating_add(realtime), granule).max(together);
        let mut windows: Vec<TrimWindow> = slices(0, data, together)
            .into_iter()
            .flat_map(|w| slices(w.start, w.len, cut))
            .collect();
        windows.extend(slices(data, realtime, cut));
        let unit = format!("parts of allocation groups of {}", binary(group));
        Self { granule, group: Some(Bytes(group)), sure_until: data, ..Self::of(windows, unit) }
    }

    /// Whole chunks: Linux looks for the first block group that *begins* at or after the
    /// start of the range, so a window that begins inside a chunk skips that chunk.
    pub fn btrfs(chunks: &[btrfs::BtrfsChunk]) -> Self {
        let mut windows: Vec<TrimWindow> = chunks
            .iter()
            .filter(|c| c.len > 0)
            .map(|c| TrimWindow { start: c.logical, len: c.len })
            .collect();
        windows.sort_unstable_by_key(|window| window.start);
        Self { unbounded: true, ..Self::of(windows, "chunks by logical address".to_owned()) }
    }

    fn ranges(size: u64, device: u64) -> Self {
        // Some of these use device addresses, which exceed the size that the filesystem
        // reports.
        let windows = slices(0, size.max(device), RANGE.max(size.max(device) / WINDOWS_MAX as u64));
        Self { sure_until: size, ..Self::of(windows, format!("ranges of {}", binary(RANGE))) }
    }

    fn whole(remark: String) -> Self {
        let windows = vec![TrimWindow { start: 0, len: u64::MAX }];
        Self {
            unbounded: true,
            remark: Some(remark),
            ..Self::of(windows, "the whole filesystem".to_owned())
        }
    }
}

/// ext4 marks a group as trimmed only if all of it was trimmed. True since Linux 6.6
/// (`ext4_try_to_trim_range`, "move setting of trimmed bit"). Before, a range from inside
/// a group to its end marked it too, and the part before it was never sent.
fn marks_whole_groups_only(root: &Root) -> bool {
    let release = root.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.trim().parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}

/// Length of windows that can be cut anywhere: [`WINDOW_MAX`], more if huge.
fn cut_size(total: u64, granule: Bytes) -> u64 {
    if granule == Bytes::MAX {
        return u64::MAX;
    }
    WINDOW_MAX.max((total / WINDOWS_MAX as u64).next_multiple_of(WINDOW_MAX))
}

/// The unit at which windows may be cut without losing space: the discard unit of every
/// device. If a device does not start at a multiple of it, no cut is made.
fn cut_unit(root: &Root, stack: &Stack) -> u64 {
    let mut unit = GRANULE_MIN;
    for layer in stack.top_layers() {
        let granularity =
            root.read_u64(layer.queue().join("discard_granularity")).unwrap_or(0).max(1);
        let misaligned = root.read_u64(layer.sys.join("discard_alignment")).unwrap_or(0) != 0;
        if misaligned || !granularity.is_power_of_two() {
            return u64::MAX;
        }
        unit = unit.max(granularity);
    }
    unit
}

/// `[start, start + len)` in slices of `size`; the last one may be shorter.
fn slices(start: u64, len: u64, size: u64) -> Vec<TrimWindow> {
    let size = size.max(1);
    let mut windows = Vec::new();
    let mut done = 0;
    while done < len {
        let part = size.min(len - done);
        windows.push(TrimWindow { start: start.saturating_add(done), len: part });
        done += part;
    }
    windows
}

/// A size in the largest binary unit that divides it.
pub(super) fn binary(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b % (1 << 30) == 0 => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn xfs_of(ag_blocks: u32, data_blocks: u64, realtime_blocks: u64) -> XfsGeometry {
        let mut geometry = XfsGeometry::default();
        (geometry.block_size, geometry.ag_blocks) = (4096, ag_blocks);
        (geometry.data_blocks, geometry.realtime_blocks) = (data_blocks, realtime_blocks);
        geometry
    }

    fn covered(windows: &[TrimWindow], start: u64, len: u64) -> bool {
        let mut at = start;
        for window in windows {
            if window.start != at || window.len == 0 {
                return false;
            }
            at += window.len;
        }
        at == start + len
    }

    #[test]
    fn xfs_windows_stay_inside_their_group() {
        let geometry = xfs_of(327_680, 1_000_000, 0);
        let layout = WindowLayout::xfs(&geometry, Bytes(64 << 10));
        assert!(covered(&layout.windows, 0, 4_096_000_000));
        let group = geometry.group_bytes();
        assert!(
            layout.windows.iter().all(|w| w.start / group == (w.start + w.len - 1) / group),
            "{:?}",
            layout.windows
        );
        // Many small groups are merged; groups stay whole.
        let tiny = xfs_of(16, 1 << 40, u64::MAX);
        let many = WindowLayout::xfs(&tiny, Bytes(64 << 10));
        assert!(many.windows.len() <= 2 * WINDOWS_MAX + 1, "{}", many.windows.len());
        assert!(many.windows.iter().all(|w| w.start % tiny.group_bytes() == 0));
        assert!(covered(&many.windows, 0, u64::MAX));
        // If cuts would lose space, groups stay whole.
        assert_eq!(WindowLayout::xfs(&geometry, Bytes::MAX).windows.len(), 4);
    }

    #[test]
    fn ext4_windows_are_whole_groups_when_merged() {
        let superblock = ext4::Ext4Superblock {
            block_size: 4096,
            blocks: 64 << 28,
            blocks_per_group: 32_768,
            made: 0,
        };
        let layout = WindowLayout::ext4(&superblock, Bytes::MAX);
        assert!(layout.windows.len() <= WINDOWS_MAX);
        assert!(layout.windows.iter().all(|w| w.start % superblock.group_bytes() == 0));
        assert!(covered(&layout.windows, 0, superblock.size()));
        assert_eq!(layout.granule, Bytes::MAX);
    }

    /// 1024 groups of 128 MiB are separate windows; 2^15 are too many, so two are merged.
    #[test]
    fn ext4_unit_names_groups_per_window() {
        let of = |groups: u64| {
            WindowLayout::ext4(
                &ext4::Ext4Superblock {
                    block_size: 4096,
                    blocks: groups << 15,
                    blocks_per_group: 32_768,
                    made: 0,
                },
                Bytes(64),
            )
        };
        let (few, most, many) = (of(1024), of(1 << 14), of((1 << 14) + 1));
        assert_eq!(
            (few.windows.len(), few.windows[1].len, few.unit.as_str()),
            (1024, 128 << 20, "block groups of 128 MiB")
        );
        assert_eq!((most.windows.len(), most.unit.as_str()), (1 << 14, "block groups of 128 MiB"));
        assert_eq!((many.windows.len(), many.windows[1].len), ((1 << 13) + 1, 256 << 20));
        assert_eq!(
            (many.unit.as_str(), many.tail, many.sure_until),
            ("2 block groups each of 128 MiB", Bytes(64), u64::MAX)
        );
    }

    #[test]
    fn xfs_windows_are_1_gib_and_realtime_follows() {
        let geometry = xfs_of(1 << 19, 1 << 20, 1 << 18);
        let layout = WindowLayout::xfs(&geometry, Bytes(64 << 10));
        let gib = |n: u64| n << 30;
        let starts: Vec<(u64, u64)> = layout.windows.iter().map(|w| (w.start, w.len)).collect();
        // Windows are at least an allocation group; the realtime part is cut alike.
        assert_eq!(starts, [(0, gib(2)), (gib(2), gib(2)), (gib(4), gib(1))]);
        assert_eq!(
            (layout.sure_until, layout.group, layout.granule),
            (gib(4), Some(Bytes(gib(2))), Bytes(64 << 10))
        );
    }

    #[test]
    fn btrfs_windows_are_chunks_and_others_are_ranges() {
        let chunk = btrfs::BtrfsChunk::of;
        let chunks =
            WindowLayout::btrfs(&[chunk(1 << 20, 1 << 30), chunk(7, 0), chunk(1 << 40, 5)]);
        let window = |start, len| TrimWindow { start, len };
        assert_eq!(
            chunks.windows,
            [window(1 << 20, 1 << 30), window(1 << 40, 5)],
            "where they lie; empty ones are none"
        );
        let ranges = WindowLayout::ranges(1000 << 20, 1 << 30);
        assert_eq!(
            (ranges.windows.len(), ranges.windows[3].len, ranges.sure_until),
            (4, 256 << 20, 1000 << 20)
        );
        assert!(covered(&ranges.windows, 0, 1 << 30));
        let large = WindowLayout::ranges(0, 1 << 50);
        assert_eq!((large.windows.len(), large.windows[0].len), (WINDOWS_MAX, 1 << 36));
        let whole = WindowLayout::whole("why".to_owned());
        assert_eq!(
            (whole.windows, whole.remark.as_deref()),
            (vec![TrimWindow { start: 0, len: u64::MAX }], Some("why"))
        );
    }

    #[test]
    fn window_size_grows_with_filesystem_size() {
        let gib = 1_u64 << 30;
        assert_eq!([0, gib, (1 << 14) * gib].map(|total| cut_size(total, Bytes(4096))), [gib; 3]);
        assert_eq!(cut_size(((1 << 14) + 1) * gib, Bytes(4096)), gib * 2);
        assert_eq!(cut_size((1 << 15) * gib, Bytes(4096)), gib * 2);
        assert_eq!(cut_size(gib, Bytes::MAX), u64::MAX);
    }

    #[test]
    fn binary_uses_largest_whole_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 10, "1 KiB"),
            (1025, "1025 B"),
            (3 << 20, "3 MiB"),
            ((3 << 20) + 1024, "3073 KiB"),
            (1 << 30, "1 GiB"),
            ((1 << 30) + (1 << 20), "1025 MiB"),
        ] {
            assert_eq!(binary(bytes), text);
        }
    }

    #[test]
    fn marks_whole_groups_only_since_linux_6_6() {
        let tree = tempfile::tempdir().unwrap();
        let file = tree.path().join("proc/sys/kernel/osrelease");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (release, whole) in [
            ("6.6.0-1-amd64", true),
            ("6.5.13", false),
            ("6.18.3\n", true),
            ("5.15.0-91-generic", false),
            ("7.0", true),
            ("", false),
        ] {
            std::fs::write(&file, release).unwrap();
            let root = Root::recorded(tree.path()).unwrap();
            assert_eq!(marks_whole_groups_only(&root), whole, "{release}");
        }
    }

    #[test]
    fn cut_unit_is_common_discard_unit_of_devices() {
        let tree = tempfile::tempdir().unwrap();
        let layer = |name: &str, granularity: &str, alignment: &str| {
            let sys = std::path::PathBuf::from("/sys/block").join(name);
            let at = tree.path().join("sys/block").join(name);
            std::fs::create_dir_all(at.join("queue")).unwrap();
            std::fs::write(at.join("queue/discard_granularity"), granularity).unwrap();
            std::fs::write(at.join("discard_alignment"), alignment).unwrap();
            let dev = crate::host::mountinfo::DevNumber { major: 8, minor: 0 };
            let kind = crate::host::block::LayerKind::Drive(crate::host::block::Bus::Ata);
            crate::host::block::Layer {
                name: name.into(),
                label: None,
                kind,
                sys,
                dev,
                size: Bytes::ZERO,
                below: vec![],
            }
        };
        let layers = vec![
            layer("small", "512", "0"),
            layer("large", "1048576", "0"),
            layer("odd", "3145728", "0"),
            layer("shifted", "4096", "512"),
            layer("none", "0", "0"),
        ];
        let root = Root::recorded(tree.path()).unwrap();
        let unit = |tops: &[usize]| {
            cut_unit(
                &root,
                &Stack { layers: layers.clone(), tops: tops.to_vec(), ..Stack::default() },
            )
        };
        assert_eq!(
            [unit(&[0]), unit(&[1]), unit(&[0, 1]), unit(&[1, 0]), unit(&[4])],
            [64 << 10, 1 << 20, 1 << 20, 1 << 20, 64 << 10]
        );
        assert_eq!([unit(&[2]), unit(&[0, 3]), unit(&[3])], [u64::MAX; 3], "cuts would lose space");
    }

    proptest! {
        #[test]
        fn slices_cover_exactly(start in 0_u64..1 << 50, len in 0_u64..1 << 30, size in 1_u64 << 16..1 << 31) {
            let windows = slices(start, len, size);
            prop_assert!(windows.iter().all(|w| w.len <= size));
            prop_assert!(covered(&windows, start, len));
        }
    }
}
