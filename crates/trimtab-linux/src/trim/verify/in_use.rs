//! Detects space in use: `FS_IOC_GETFSMAP` (ext4, XFS), and the extent tree of btrfs.

use super::extents::MappedExtent;
use crate::host::mountinfo::Mount;
use crate::sys::filesystem::xfs_geometry;
use crate::sys::fsmap;
use crate::trim::btrfs;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

const RECORDS: usize = 128;

/// Bytes requested beyond the end, the largest block of XFS: before Linux 6.5, XFS with
/// rmapbt ends free space one block before the end of the requested range.
const END_MARGIN: u64 = 64 << 10;

/// All of `extents` is free according to the filesystem; `None` if it does not report it.
pub fn all_free(mount: &Mount, file: BorrowedFd<'_>, extents: &[MappedExtent]) -> Option<bool> {
    for extent in extents {
        let free = match mount.fs_type.as_str() {
            "btrfs" => btrfs::is_used(file, extent.address, extent.len).map(|used| !used),
            _ => is_free(mount, file, extent),
        };
        if !free.ok()? {
            return Some(false);
        }
    }
    Some(true)
}

fn is_free(mount: &Mount, file: BorrowedFd<'_>, extent: &MappedExtent) -> Result<bool, Errno> {
    let end = extent.address.saturating_add(extent.len);
    let ask = |from| {
        fsmap::extents::<RECORDS>(
            file,
            (mount.dev.major, mount.dev.minor),
            from,
            end.saturating_add(END_MARGIN),
        )
    };
    if is_covered(extent.address, extent.address, end, ask)? {
        return Ok(true);
    }
    if mount.fs_type != "xfs" {
        return Ok(false);
    }
    // XFS before Linux 6.5 omits extents that begin before the requested range. No free
    // extent begins before its allocation group.
    let group = xfs_geometry(file)?.group_bytes().max(1);
    is_covered(extent.address - extent.address % group, extent.address, end, ask)
}

/// Free space covers all of `start..end`; `ask` lists extents from an offset on.
fn is_covered(
    mut from: u64,
    start: u64,
    end: u64,
    ask: impl Fn(u64) -> Result<(Vec<fsmap::FsmapExtent>, Option<u64>), Errno>,
) -> Result<bool, Errno> {
    let mut at = start;
    // Each call advances, or is the last.
    while at < end {
        let (found, next) = ask(from)?;
        for found in found {
            if at >= end {
                break;
            }
            if found.end() <= at {
                continue;
            }
            // A gap is not known to be free.
            if !found.free || found.start > at {
                return Ok(false);
            }
            at = found.end();
        }
        match next {
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    Ok(at >= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: [(u64, u64, bool); 5] =
        [(0, 10, false), (10, 20, true), (30, 5, false), (35, 15, true), (50, 50, false)];

    fn of((start, len, free): (u64, u64, bool)) -> fsmap::FsmapExtent {
        fsmap::FsmapExtent { start, len, free }
    }

    /// Two records per call. `cut`: as in newer kernels, the first record is the rest of
    /// an extent that began earlier; otherwise such an extent is omitted.
    fn ask(
        from: u64,
        end: u64,
        cut: bool,
    ) -> Result<(Vec<fsmap::FsmapExtent>, Option<u64>), Errno> {
        let rest = |extent: &fsmap::FsmapExtent| {
            if cut { extent.end() > from } else { extent.start >= from }
        };
        let all: Vec<fsmap::FsmapExtent> = SPACE
            .map(of)
            .into_iter()
            .filter(rest)
            .filter(|extent| extent.start < end)
            .take(2)
            .collect();
        let next = all.last().map(|last| last.end()).filter(|next| all.len() == 2 && *next < end);
        Ok((all, next))
    }

    #[test]
    fn is_covered_finds_space_from_middle_and_before() {
        // As an older XFS, whose free space ends a block before the request, then used
        // space.
        let shorter = |from, end| {
            ask(from, end, true).map(|(mut all, next)| {
                all.iter_mut()
                    .filter(|extent| extent.end() > end)
                    .for_each(|extent| extent.len = end - 1 - extent.start);
                (all, next)
            })
        };
        assert_eq!(is_covered(10, 10, 20, |from| shorter(from, 20)), Ok(false));
        assert_eq!(is_covered(10, 10, 20, |from| shorter(from, 21)), Ok(true));
        assert_eq!(
            is_covered(10, 10, 30, |from| ask(from, 34, true)),
            Ok(true),
            "what lies behind does not count"
        );
        for (start, end, free) in [
            (10, 30, true),
            (12, 20, true),
            (5, 12, false),
            (12, 32, false),
            (29, 31, false),
            (36, 50, true),
            (36, 51, false),
        ] {
            assert_eq!(
                is_covered(start, start, end, |from| ask(from, end, true)),
                Ok(free),
                "{start} to {end}"
            );
            assert_eq!(
                is_covered(0, start, end, |from| ask(from, end, false)),
                Ok(free),
                "{start} to {end}, from 0"
            );
            assert!(
                free || is_covered(start, start, end, |from| ask(from, end, false)) == Ok(false),
                "{start} to {end}, without its beginning"
            );
        }
    }
}
